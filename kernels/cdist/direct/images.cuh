/* images.cuh: operands as direct.cu wants to find them in shared memory, made beforehand.
 *
 * An image is a tile's points in so many dimensions, GD_FOLD: a row of it is two dimensions of all
 * points, a cell of 8 bytes each, in the order in which threads read them. So copying it takes
 * nothing but words, whatever the operand's strides are, and zeros fill up the last dimensions,
 * which add nothing to any metric. Cells are (k, k + 1) for rows of a and (k + 1, k) for rows of b,
 * and so a difference takes one operand from each bank of the register file.
 *
 * Reads both operands once and writes as much: of 16384 x 128 on either side some 10 us. */
#ifndef GPUDIST_CDIST_DIRECT_IMAGES_CUH
#define GPUDIST_CDIST_DIRECT_IMAGES_CUH

#include "common/metrics.cuh"

namespace gd {

constexpr int kImageThreads = 128, kImageDims = GD_FOLD, kImageRows = kImageDims / 2;
constexpr int kImagePointsA = 128, kImagePointsB = 64;

template <int kPoints>
using Image = float[kImageRows][2 * kPoints];

/* Threads read a pair of points at a time. Of kAcross threads side by side each owns kPairs pairs
 * that touch in the matrix, and all read their pair i at the same time: in the image it is these
 * that touch. */
template <int kPairs, int kAcross>
__device__ __forceinline__ int point_of_place(int place)
{
    constexpr int kAll = 2 * kPairs * kAcross;
    const int pair = place % kAll / 2;
    return place - place % kAll + (pair % kAcross * kPairs + pair / kAcross) * 2 + place % 2;
}

/* One image, by all threads of a block. kWords: aligned for loads of 16 bytes, and d is a multiple
 * of four. */
template <int kPoints, bool kSwap, bool kWords>
__device__ __forceinline__ void make_image(Image<kPoints> &image, const Points<float> &x,
                                           ptrdiff_t d, ptrdiff_t first_point, ptrdiff_t first_dim)
{
    constexpr int kAtOnce = kImageThreads / kPoints; /* threads that share a point */
    const int place = threadIdx.x % kPoints;
    const int point = kSwap ? point_of_place<2, 8>(place) : point_of_place<4, 4>(place);
    const float *const from = x.data + x.clamp(first_point + point) * x.row_stride;
#pragma unroll
    for (int row = threadIdx.x / kPoints * 2; row < kImageRows; row += 2 * kAtOnce) {
        const ptrdiff_t k = first_dim + 2 * row;
        float values[4] = {};
        if (kWords && k < d) {
            load_word_const(from + k, values);
        }
        if (!kWords) {
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                values[s] = k + s < d ? __ldg(from + (k + s) * x.col_stride) : 0.0f;
            }
        }
#pragma unroll
        for (int s = 0; s < 4; s += 2) {
            *reinterpret_cast<float2 *>(&image[row + s / 2][2 * place]) =
                make_float2(values[s + kSwap], values[s + !kSwap]);
        }
    }
}

/* Terms' weights of the caller's, or of ones where there are none, by all threads of a block:
 * K::weigh(weight), and zeros that fill up the last slab. */
struct Weights {
    const double *from;
    float *to;
};
template <typename K>
__device__ __forceinline__ void make_weights(const Weights &weights, ptrdiff_t d, ptrdiff_t all)
{
    for (ptrdiff_t k = threadIdx.x; k < all; k += kImageThreads) {
        weights.to[k] = k < d ? K::weigh(weights.from != NULL ? weights.from[k] : 1.0) : 0.0f;
    }
}

/* All images of both operands: those of a tile are `slabs`, one behind the other. The first
 * blocks, of_a of them, make those of a, and the others b's. If K's terms take weights, there is a
 * block more, the first of all. */
template <typename K, bool kWords>
__global__ void __launch_bounds__(kImageThreads)
    make_images(const __grid_constant__ Points<float> a, const __grid_constant__ Points<float> b,
                ptrdiff_t d, int slabs, unsigned of_a, Image<kImagePointsA> *images_a,
                Image<kImagePointsB> *images_b, Weights weights)
{
    unsigned image = blockIdx.x;
    if constexpr (K::weighted) {
        if (image-- == 0) {
            make_weights<K>(weights, d, (ptrdiff_t)slabs * kImageDims);
            return;
        }
    }
    const bool is_a = image < of_a;
    image -= is_a ? 0 : of_a;
    const ptrdiff_t tile = image / slabs, dim = (ptrdiff_t)(image % slabs) * kImageDims;
    if (is_a) {
        make_image<kImagePointsA, false, kWords>(images_a[image], a, d, tile * kImagePointsA, dim);
    }
    else {
        make_image<kImagePointsB, true, kWords>(images_b[image], b, d, tile * kImagePointsB, dim);
    }
}

}  // namespace gd
#endif
