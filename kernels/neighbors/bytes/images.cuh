/* images.cuh: rows in bytes, and the bound of what bytes tell that makes the search exact.
 *
 * Rows are moved by a centre and multiplied by a scale, so that most elements x are within 0 and
 * 255. An image has the nearest whole number q to what is left of x between these, and
 *
 *      excess = sum of |x - what is left|,    lost = sum of |what is left - q|.
 *
 * The distance of an image of A from a row b is sum |qa - qb| + excess of b, but for what b lost,
 * as no element of an image is beyond 0 and 255; and a is no further from its image than its excess
 * and what it lost. So with
 *
 *      v = sum |qa - qb| + excess of b,    e = excess of a + lost of a + lost of b
 *
 * v - e <= distance <= v + e, in units of a byte's step, by the triangle's inequality: whatever the
 * centre and the scale are. What is rounded on the way, the reported distance among it, is at most
 * kRest of the sums of |x - centre| of both; those are added to e.
 *
 * Columns with an excess beyond kFarShift are as far away as that at least, which is further than
 * any limit (kMostShifted), as those with NaN are, and places without a column. Rows of A with as
 * large an excess, or NaN, are compared with all of B. */
#ifndef GPUDIST_NEIGHBORS_BYTES_IMAGES_CUH
#define GPUDIST_NEIGHBORS_BYTES_IMAGES_CUH

#include "neighbors/product/prepare.cuh"

namespace gd {
namespace filter {

constexpr int kImageRows = 128;                /* of a group, whose image is one piece */
constexpr int kPlaneDims = (int)sizeof(uint4); /* of a plane */
constexpr float kMiddle = 127.5f, kLastByte = 255.0f;
/* Sums of bytes stay below 2^18, and bounds of rows that are compared below 2^21. */
constexpr int kFarShift = 1 << 22;
constexpr float kMostShifted = 0x1p21f, kMostExcess = 0x1p20f;

/* What the sample says of rows: those with more candidates than lists have room for, and hits of
 * the others. */
struct Verdict {
    unsigned crowded;
    float hits;
};

struct BytePlane {
    uint4 words[kImageRows];
};
struct alignas(128) ByteSlab {
    BytePlane planes[kSlabPlanes];
};
struct ByteImages {
    BytePlane *rows, *columns; /* group after group, plane after plane */
    int *shifts;               /* of columns: their excess, in whole steps */
    Verdict *verdict;
};

/* The word of sixteen dimensions, and sums over a row's. */
struct InBytes {
    float excess = 0, lost = 0, size = 0;

    __device__ __forceinline__ unsigned add(float moved)
    {
        const float x = moved + kMiddle, inside = fminf(fmaxf(x, 0.0f), kLastByte);
        const float whole = rintf(inside);
        excess += fabsf(x - inside);
        lost += fabsf(inside - whole);
        size += fabsf(moved);
        return (unsigned)whole;
    }
    template <typename T>
    __device__ __forceinline__ unsigned add(const Four<T> &x, const Four<T> &centre, T scale,
                                            int left)
    {
        unsigned word = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < left) {
                word |= add((float)((x.x[i] - centre.x[i]) * scale)) << 8 * i;
            }
        }
        return word;
    }
    /* All lanes of a row get its sums. */
    __device__ __forceinline__ void join()
    {
#pragma unroll
        for (int step = kRowsOfWarp; step < kLanes; step *= 2) {
            excess += __shfl_xor_sync(~0u, excess, step);
            lost += __shfl_xor_sync(~0u, lost, step);
            size += __shfl_xor_sync(~0u, size, step);
        }
    }
    /* What is not the excess of a bound; NaN, too, is no good one. */
    __device__ __forceinline__ bool is_good() const { return excess <= kMostExcess; }
    __device__ __forceinline__ float rest(ptrdiff_t d) const
    {
        return lost * kUp + rest_error(d) * size + (float)d * 0x1p-15f;
    }
};

/* The images of a tile of columns, or of as many rows, a block; a warp walks along eight rows at
 * once, each lane along every fourth plane of one. */
constexpr int kImageWarps = 8;
template <bool kOfColumns, typename T>
__global__ void __launch_bounds__(kImageWarps *kLanes)
    write_images(const __grid_constant__ PlanOf<T> plan, const __grid_constant__ ByteImages to)
{
    follow();
    BytePlane *const images = kOfColumns ? to.columns : to.rows;
    __shared__ float rests[kImageWarps];
    const Points<T> &points = kOfColumns ? plan.b : plan.a;
    const bool words = kOfColumns ? plan.words_b : plan.words_a;
    const ptrdiff_t count = kOfColumns ? plan.b.count : plan.rows;
    const int part = (int)threadIdx.x % kLanes / kRowsOfWarp, warp = (int)threadIdx.x / kLanes;
    const T scale = (T)plan.found->scale;
    float most = 0;
#pragma unroll 1
    for (int at = warp * kRowsOfWarp; at < kTileCols; at += kImageWarps * kRowsOfWarp) {
        const ptrdiff_t row = (ptrdiff_t)blockIdx.x * kTileCols + at + row_of_lane();
        const bool there = row < count;
        BytePlane *const image = images + row / kImageRows * plan.planes;
        InBytes sums;
#pragma unroll 2
        for (int plane = part; plane < plan.planes; plane += kPlanesAtOnce) {
            unsigned word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int dim = plane * kPlaneDims + i * 4;
                Four<T> centre;
                load_word(plan.centre + dim, centre.x);
                const Four<T> x = there ? load_dims(points, words, row, dim, plan.d) : centre;
                word[i] = sums.add(x, centre, scale, (int)min(plan.d - dim, (ptrdiff_t)4));
            }
            image[plane].words[row % kImageRows] = make_uint4(word[0], word[1], word[2], word[3]);
        }
        sums.join();
        const float rest = sums.rest(plan.d);
        if (kOfColumns) {
            const bool good = there && sums.excess < (float)kFarShift;
            most = good ? fmaxf(most, rest + sums.excess * 0x1p-14f + 0.5f) : most;
            if (part == 0) {
                to.shifts[row] = good ? (int)rintf(sums.excess) : kFarShift;
                plan.column_of[row] = there ? (int)row : -1;
            }
        }
        else if (part == 0) {
            const bool good = there && sums.is_good();
            float limit = good ? 0.0f : -INFINITY;
            if (good && plan.radii != NULL) {
                const double radius = plan.radius_of((int)row);
                limit = radius >= 0 ? __double2float_ru(radius * plan.found->scale) : -kFar;
                plan.bounds[row] = limit;
            }
            plan.row_facts[row] = {0, 0, rest + sums.excess * kUp, limit};
            plan.counts[row] = good ? 0 : kLost;
        }
    }
    if (kOfColumns) {
        most = max_lanes(most);
        if (threadIdx.x % kLanes == 0) {
            rests[warp] = most;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < kImageWarps; ++i) {
                most = fmaxf(most, rests[i]);
            }
            plan.tile_facts[blockIdx.x] = {0, 0, most, 0};
        }
    }
    else if (blockIdx.x == 0 && threadIdx.x == 0) {
        begin_rows(*plan.found);
        *to.verdict = {};
    }
}

}  // namespace filter
}  // namespace gd
#endif
