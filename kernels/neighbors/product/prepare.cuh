/* prepare.cuh: the steps before the product: centre and scale, and the images of rows of A. Those
 * of columns, which are sorted, stand in prepare_columns.cuh.
 *
 * The centre is, dimension by dimension, the median of 32 means of 16 rows of a sample, and the
 * scale takes the length that an eighth of the sample's rows exceed in their largest element to
 * 2^8: so single rows far away, or with infinity and NaN, spoil neither. Any centre and scale are
 * right; they decide how many candidates there are.
 */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_PREPARE_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_PREPARE_CUH

#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

constexpr int kSampleParts = 32, kSampleEach = 16;
constexpr int kSampleRows = kSampleParts * kSampleEach;

__device__ __forceinline__ ptrdiff_t sample_row(const Plan &plan, int i)
{
    return plan.b.count * i / kSampleRows;
}

/* A block finds 32 dimensions of the centre; those beyond d are 0. */
__global__ void __launch_bounds__(kLanes *kSampleParts)
    find_centre(const __grid_constant__ Plan plan)
{
    follow();
    __shared__ float means[kSampleParts][kLanes + 1];
    const int lane = threadIdx.x % kLanes, part = threadIdx.x / kLanes;
    const ptrdiff_t dim = (ptrdiff_t)blockIdx.x * kLanes + lane;
    float sum = 0;
    int count = 0;
    if (dim < plan.d) {
#pragma unroll
        for (int i = 0; i < kSampleEach; ++i) {
            const float x = plan.b.at(sample_row(plan, i * kSampleParts + part), dim);
            if (fabsf(x) < kFar / kSampleEach) {
                sum += x;
                ++count;
            }
        }
    }
    const float mean = count == 0 ? 0.0f : sum / (float)count;
    means[part][lane] = mean;
    __syncthreads();
    int rank = 0;
    for (int i = 0; i < kSampleParts; ++i) {
        const float other = means[i][lane];
        rank += other < mean || (other == mean && i < part);
    }
    if (rank == kSampleParts / 2) {
        plan.centre[dim] = mean;
    }
}

/* One block. squared: reported distances are squares, which underflow. */
__global__ void __launch_bounds__(1024) find_scale(const __grid_constant__ Plan plan, bool squared)
{
    follow();
    __shared__ float largest[kSampleRows];
    const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
    float most[kSampleEach] = {}; /* of as many rows at once: what counts is how long loads take */
    for (ptrdiff_t dim = lane; dim < plan.d; dim += kLanes) {
        const float centre = plan.centre[dim];
#pragma unroll
        for (int i = 0; i < kSampleEach; ++i) {
            const ptrdiff_t row = sample_row(plan, i * kSampleParts + warp);
            const float x = fabsf(plan.b.at(row, dim) - centre);
            most[i] = x <= most[i] ? most[i] : x <= kFar ? x : kFar; /* NaN, too, becomes far */
        }
    }
#pragma unroll
    for (int i = 0; i < kSampleEach; ++i) {
        const float of_row = max_lanes(most[i]);
        if (lane == 0) {
            largest[i * kSampleParts + warp] = of_row;
        }
    }
    __syncthreads();
    if (threadIdx.x < kSampleRows) {
        const float own = largest[threadIdx.x];
        int rank = 0;
        for (int i = 0; i < kSampleRows; ++i) {
            rank += largest[i] < own || (largest[i] == own && i < (int)threadIdx.x);
        }
        if (rank == kSampleRows / 8 * 7) {
            const float scale = ldexpf(1.0f, 8 - ilogbf(fmaxf(own, 0x1p-100f)));
            plan.found->scale = scale;
            plan.found->quantum = squared ? scale * 0x1p-73f * (scale * 0x1p-74f) : 0.0f;
            plan.found->odd = 0;
            plan.found->worst = 0;
        }
    }
}

/* Four dimensions of a row as they are multiplied, in halves and what these lose. */
struct Moved {
    float square, low_square;
    bool whole, number; /* halves hold it; it is not NaN */
    uint2 halves;

    __device__ __forceinline__ Moved(float4 x, float4 centre, float scale)
    {
        const float moved[4] = {(x.x - centre.x) * scale, (x.y - centre.y) * scale,
                                (x.z - centre.z) * scale, (x.w - centre.w) * scale};
        __half2 high[2];
        square = low_square = 0;
        whole = number = true;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float first = moved[2 * i], second = moved[2 * i + 1];
            high[i] = __floats2half2_rn(first, second);
            const float2 back = __half22float2(high[i]);
            square = fmaf(first, first, fmaf(second, second, square));
            const float low_first = first - back.x, low_second = second - back.y;
            low_square = fmaf(low_first, low_first, fmaf(low_second, low_second, low_square));
            whole = whole && fabsf(first) < kLargest && fabsf(second) < kLargest;
            number = number && first == first && second == second;
        }
        halves = make_uint2(*reinterpret_cast<unsigned *>(&high[0]),
                            *reinterpret_cast<unsigned *>(&high[1]));
    }
};

constexpr float kUp = 1 + 0x1p-14f; /* more than norms are rounded by */

/* A warp walks along eight rows at once, each lane along every fourth plane of one; so it reads
 * whole sectors and writes eight words that follow each other. Calls f(plane, first, second) with
 * halves of a word. */
constexpr int kRowsOfWarp = 8, kPlanesAtOnce = kLanes / kRowsOfWarp;
__device__ __forceinline__ int row_of_lane() { return (int)threadIdx.x % kRowsOfWarp; }
template <typename F>
__device__ __forceinline__ void walk_planes(const Plan &plan, const Points<float> &x, bool words,
                                            ptrdiff_t row, bool there, F &&f)
{
    const float scale = plan.found->scale;
#pragma unroll 4
    for (int plane = (int)threadIdx.x % kLanes / kRowsOfWarp; plane < plan.planes;
         plane += kPlanesAtOnce) {
        const float4 *const centre = reinterpret_cast<const float4 *>(plan.centre) + 2 * plane;
        const float4 c[2] = {centre[0], centre[1]};
        const Moved first(there ? load_dims(x, words, row, 8 * plane, plan.d) : c[0], c[0], scale);
        const Moved second(there ? load_dims(x, words, row, 8 * plane + 4, plan.d) : c[1], c[1],
                           scale);
        f(plane, first, second);
    }
}
__device__ __forceinline__ uint4 word_of(const Moved &first, const Moved &second)
{
    return make_uint4(first.halves.x, first.halves.y, second.halves.x, second.halves.y);
}

/* Sums over a row's planes. */
struct Measured {
    float square = 0, low_square = 0;
    bool whole = true, number = true;

    __device__ __forceinline__ void add(const Moved &x)
    {
        square += x.square;
        low_square += x.low_square;
        whole = whole && x.whole;
        number = number && x.number;
    }
    /* All lanes of a row get its sums. */
    __device__ __forceinline__ void join()
    {
#pragma unroll
        for (int step = kRowsOfWarp; step < kLanes; step *= 2) {
            square += __shfl_xor_sync(~0u, square, step);
            low_square += __shfl_xor_sync(~0u, low_square, step);
            whole = whole & __shfl_xor_sync(~0u, whole, step);
            number = number & __shfl_xor_sync(~0u, number, step);
        }
    }
};

/* What belongs to a tile, of the largest squares. */
__device__ __forceinline__ TileFacts facts_of_tile(const Plan &plan, float half_square,
                                                   float low_square)
{
    return {sqrtf(low_square) * kUp, sqrtf(2 * half_square) * kUp,
            rest_error(plan.d) * 2 * half_square * kUp, 0};
}

/* A column that halves do not hold may be a neighbour all the same, unless it has NaN. */
__device__ __forceinline__ void list_odd(const Plan &plan, ptrdiff_t column)
{
    const unsigned at = atomicAdd(&plan.found->odd, 1);
    if (at < kMostOdd) {
        plan.odd_columns[at] = (int)column;
    }
}

/* The images of rows. */
constexpr int kRowWarps = 4;
__global__ void __launch_bounds__(kRowWarps *kLanes) prepare_rows(const __grid_constant__ Plan plan)
{
    follow();
    const int row =
        ((int)blockIdx.x * kRowWarps + (int)threadIdx.x / kLanes) * kRowsOfWarp + row_of_lane();
    const bool there = row < plan.rows;
    uint4 *const image = reinterpret_cast<uint4 *>(plan.images) +
                         (ptrdiff_t)(row / kGroupRows) * plan.planes * kGroupRows +
                         row % kGroupRows;
    Measured of_row;
    walk_planes(plan, plan.a, plan.words_a, row, there,
                [&](int plane, const Moved &first, const Moved &second) {
                    of_row.add(first);
                    of_row.add(second);
                    image[plane * kGroupRows] = word_of(first, second);
                });
    of_row.join();
    const int plane = (int)threadIdx.x % kLanes / kRowsOfWarp;
    for (int i = plane; !of_row.whole && i < plan.planes; i += kPlanesAtOnce) {
        image[i * kGroupRows] = uint4{};
    }
    if (plane == 0) {
        const bool good = there && of_row.whole;
        /* |ah| is |a| and |al| at most. */
        const float low = sqrtf(of_row.low_square), high = sqrtf(of_row.square) + low;
        const RowFacts facts = {
            high * kUp, (low + products_error(plan.planes / 2) * high) * kUp,
            rest_error(plan.d) * of_row.square * kUp + kLeast + plan.found->quantum,
            good ? 0.0f : -INFINITY};
        plan.row_facts[row] = facts;
        plan.counts[row] = good ? 0 : kLost;
    }
    if (row == 0 && plane == 0) {
        plan.found->failed = 0;
        plan.found->left = 0;
        plan.found->chunks = 0;
        plan.found->listed = 0;
    }
}

}  // namespace filter
}  // namespace gd
#endif
