/* tensor_prepare.cuh: from the caller's rows to the images and facts of tensor.cuh.
 *
 * Reads both operands twice (the second time mostly from cache) and writes as many bytes: for
 * 16384 x 128 on both sides 34 MB, some 10 us of an H200's memory. Operands that are the same rows
 * are read as one. */
#ifndef GPUDIST_TENSOR_PREPARE_CUH
#define GPUDIST_TENSOR_PREPARE_CUH

#include "tensor.cuh"

namespace gd {
namespace tensor {

constexpr int kPrepareThreads = 256, kPrepareRows = 16;

/* Brings four dimensions of a row, from k on, zeros beyond the last. words: aligned for one load,
 * which then is all there or all beyond. */
__device__ __forceinline__ void fetch(const Points<float> &x, bool words, ptrdiff_t row,
                                      ptrdiff_t k, ptrdiff_t d, float *to)
{
    if (words && k < d) {
        load_word_const(x.data + row * x.row_stride + k, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[i] = k + i < d ? x.at(row, k + i) : 0.0f;
    }
}

/* Subtracts the shift, scales, and splits two numbers: halves with what they leave over. */
template <bool kShifts, bool kFine>
__device__ __forceinline__ void split(const float *x, const Shift<float> *shift, ptrdiff_t k,
                                      ptrdiff_t d, float unscale, unsigned &hi, unsigned &lo)
{
    /* Of a power of two the inverse, whose exponent has the other sign. */
    const float scale = __int_as_float((127 * 2 << 23) - __float_as_int(unscale));
    float y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float moved = kShifts && k + i < d ? shift[k + i].move(x[i]) : x[i];
        /* Where it is 0 the row may hold anything. */
        y[i] = unscale == 0 ? 0.0f : kFine ? __fdiv_rn(moved, unscale) : moved * scale;
    }
    const __half2 high = __floats2half2_rn(y[0], y[1]);
    const float2 taken = __half22float2(high);
    const __half2 low = __floats2half2_rn(y[0] - taken.x, y[1] - taken.y);
    hi = *reinterpret_cast<const unsigned *>(&high);
    lo = *reinterpret_cast<const unsigned *>(&low);
}

/* A number of 12 bits that divides `largest` so that a half holds nearly all of the quotient, which
 * is in [2^14, 2^15]. Each lane tries one for another half. What products leave out then is small
 * where it would be largest, and the product of two such numbers is exact. */
__device__ __forceinline__ float fine_unscale(float largest)
{
    const unsigned lane = threadIdx.x % 32;
    const float half = (float)((1024 + 33 * lane) * 16);
    const float own = __int_as_float((__float_as_int(largest / half) + 0x800) & ~0xfff);
    const float quotient = __fdiv_rn(largest, own);
    const float rest = fabsf(quotient - __half2float(__float2half_rn(quotient)));
    const unsigned key = (__float_as_uint(rest) & ~31u) | lane;
    return __shfl_sync(~0u, own, (int)(least_of_warp(key) % 32));
}

/* What one row is: called by a whole warp. unscale: 0 for rows that are computed directly, else the
 * power of two that divides the largest element to [2^14, 2^15), next to the end of a half; in fine
 * rows a number of fine_unscale. */
template <gd_metric kMetric, bool kFine>
__device__ __forceinline__ void find_facts(const Points<float> &x, bool words, ptrdiff_t row,
                                           ptrdiff_t d, const Shift<float> *shift, double keep,
                                           float &norm, float &unscale)
{
    using R = Rules<kMetric>;
    constexpr float kInfinity = __builtin_huge_valf();
    double squares = 0;
    float largest = 0, least = kInfinity;
    for (ptrdiff_t k = threadIdx.x % 32 * 4; k < d; k += 32 * 4) {
        float y[4];
        fetch(x, words, row, k, d, y);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (R::shifts && k + i < d) {
                y[i] = shift[k + i].move(y[i]);
            }
            squares += (double)y[i] * y[i];
            largest = fmaxf(largest, fabsf(y[i]));
            least = y[i] != 0 ? fminf(least, fabsf(y[i])) : least;
        }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        squares += __shfl_xor_sync(~0u, squares, step);
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
        least = fminf(least, __shfl_xor_sync(~0u, least, step));
    }
    /* Comparisons with NaN are false; the sum is infinite or NaN if any element is. */
    const bool usual = R::product ? squares <= 1e300 && largest >= 0x1p-90f && largest <= 0x1p90f
                                  : squares >= R::least && squares <= R::most;
    norm = -kInfinity, unscale = 0;
    if (squares == 0) {
        norm = 0; /* every product is 0, and the other row's norm is the distance */
    }
    else if (usual) {
        const int exponent = 14 - ((__float_as_int(largest) >> 23) - 127);
        unscale = kFine ? fine_unscale(largest) : __int_as_float((127 - exponent) << 23);
        /* What a half cannot hold is at most 2^-25 an element, times at most 2^15: 2^-17 of
         * products from d * 2^7 on. Elements from 2^-3 on keep 22 bits, like all others. */
        norm = !R::product                  ? (float)(squares * keep)
               : least >= 0x1p-3f * unscale ? 0.0f
                                            : (float)d * -0x1p7f;
    }
}

/* A block takes 16 rows of one operand, a unit; of both if they are the same. */
template <gd_metric kMetric, bool kFine>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan,
            bool words_a, bool words_b, bool same)
{
    constexpr bool kShifts = Rules<kMetric>::shifts;
    __shared__ float unscales[kPrepareRows];
    const ptrdiff_t units_a = plan.tiles_down * kUnits;
    const bool of_a = blockIdx.x < units_a;
    const Points<float> &x = of_a ? call.a : call.b;
    const bool words = of_a ? words_a : words_b;
    const ptrdiff_t first = (blockIdx.x - (of_a || same ? 0 : units_a)) * kPrepareRows;
    const bool of_b = same ? first < plan.tiles_across * kTileCols : !of_a;
    const ptrdiff_t tile_a = first / kTileRows, tile_b = first / kTileCols;
    const int in_a = (int)(first % kTileRows), in_b = (int)(first % kTileCols);
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *plan.marks.total = 0;
    }
    if (plan.marks.direct()) {
        return;
    }
    if (call.packed()) {
        plan.marks.clear();
    }

    for (int r = threadIdx.x / 32; r < kPrepareRows; r += kPrepareThreads / 32) {
        float norm = 0, unscale = 0; /* of rows beyond the last */
        if (first + r < x.count) {
            find_facts<kMetric, kFine>(x, words, first + r, call.d, plan.shift, plan.keep, norm,
                                       unscale);
        }
        if (threadIdx.x % 32 == 0) {
            unscales[r] = unscale;
            if (of_a) {
                plan.facts_a[tile_a].norm[in_a + r] = norm;
                plan.facts_a[tile_a].unscale[in_a + r] = unscale;
            }
            if (of_b) {
                plan.facts_b[tile_b].norm[in_b + r] = norm;
                plan.facts_b[tile_b].unscale[in_b + r] = unscale;
            }
        }
    }
    __syncthreads();

    uint4 *const image_a = plan.image_a + tile_a * plan.slabs * kImageA + in_a;
    uint4 *const image_b = plan.image_b + tile_b * plan.slabs * kImageB;
    for (ptrdiff_t i = threadIdx.x; i < plan.slabs * kChunks * kPrepareRows; i += kPrepareThreads) {
        const int r = (int)(i % kPrepareRows);
        const ptrdiff_t chunk = i / kPrepareRows, k = chunk * kChunk;
        float y[kChunk];
        fetch(x, words, x.clamp(first + r), k, call.d, y);
        fetch(x, words, x.clamp(first + r), k + 4, call.d, y + 4);
        unsigned hi[4], lo[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            split<kShifts, kFine>(y + 2 * j, plan.shift, k + 2 * j, call.d, unscales[r], hi[j],
                                  lo[j]);
        }
        const uint4 high = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        const uint4 low = make_uint4(lo[0], lo[1], lo[2], lo[3]);
        if (of_a) {
            uint4 *const at = image_a + chunk * 2 * kPlaneA + r;
            at[0] = high;
            at[kPlaneA] = low;
        }
        if (of_b) {
            uint4 *const at = image_b + chunk * 2 * kPlaneB + place_of_column(in_b + r);
            at[0] = low;
            at[kPlaneB] = high;
        }
    }
}

}  // namespace tensor
}  // namespace gd
#endif
