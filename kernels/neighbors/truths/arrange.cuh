/* arrange.cuh: the images of truths: rows of A as they come, rows of B sorted by their ones, so
 * that one number bounds those of 32 neighbours closely. Spans of kSpan columns are sorted by
 * themselves: all columns of a span come before those of the next. */
#ifndef GPUDIST_NEIGHBORS_TRUTHS_ARRANGE_CUH
#define GPUDIST_NEIGHBORS_TRUTHS_ARRANGE_CUH

#include "neighbors/truths/operands.cuh"

namespace gd {
namespace truths {

constexpr int kSortThreads = 1024, kSortEach = kSpan / kSortThreads;

__device__ __forceinline__ uint4 load_group(const Points<int32_t> &x, ptrdiff_t row, int group)
{
    return __ldg(reinterpret_cast<const uint4 *>(x.data + row * x.row_stride) + group);
}
__device__ __forceinline__ int ones_in(const uint4 &x)
{
    return __popc(x.x) + __popc(x.y) + __popc(x.z) + __popc(x.w);
}
__device__ __forceinline__ int ones_in_row(const Points<int32_t> &x, ptrdiff_t row, int groups)
{
    int ones = 0;
    for (int group = 0; group < groups; ++group) {
        ones += ones_in(load_group(x, row, group));
    }
    return ones;
}

__global__ void begin_columns(const __grid_constant__ Plan plan)
{
    follow();
    plan.found->least = kMostTruths;
    plan.found->most = 0;
}

/* A block sorts a span by counting: columns beyond the last one come behind all others. */
template <int kSteps>
__global__ void __launch_bounds__(kSortThreads) sort_columns(const __grid_constant__ Plan plan)
{
    follow();
    constexpr int kKeys = kMostTruths + 2;
    __shared__ int starts[kKeys], sums[2][kSortThreads];
    __shared__ uint16_t sorted[kSpan];
    const int thread = (int)threadIdx.x, none = (int)plan.d + 1;
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * kSpan;
    for (int i = thread; i < kKeys; i += kSortThreads) {
        starts[i] = 0;
    }
    __syncthreads();
    int ones[kSortEach];
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
        const ptrdiff_t column = first + i * kSortThreads + thread;
        const bool there = column < plan.b.count;
        ones[i] = there ? ones_in_row(plan.b, column, plan.groups) : none;
        if (there) {
            plan.ones_of_b[column] = (uint16_t)ones[i];
        }
        atomicAdd(&starts[ones[i]], 1);
    }
    __syncthreads();
    /* Counts become places: a thread has keys that follow each other. */
    constexpr int kEach = (kKeys + kSortThreads - 1) / kSortThreads;
    int sum = 0;
    for (int i = thread * kEach; i < min((thread + 1) * kEach, kKeys); ++i) {
        sum += starts[i];
    }
    sums[0][thread] = sum;
    int from = 0;
    __syncthreads();
    for (int apart = 1; apart < kSortThreads; apart *= 2, from ^= 1) {
        sums[from ^ 1][thread] =
            sums[from][thread] + (thread >= apart ? sums[from][thread - apart] : 0);
        __syncthreads();
    }
    int at = sums[from][thread] - sum;
    for (int i = thread * kEach; i < min((thread + 1) * kEach, kKeys); ++i) {
        const int count = starts[i];
        starts[i] = at;
        at += count;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
        const ptrdiff_t column = first + i * kSortThreads + thread;
        const int place = atomicAdd(&starts[ones[i]], 1);
        sorted[place] = (uint16_t)ones[i];
        plan.ones_of_place[first + place] = (uint16_t)ones[i];
        plan.column_of[first + place] = column < plan.b.count ? (int)column : -1;
    }
    __syncthreads();
    const int last = (int)min((ptrdiff_t)kSpan, plan.b.count - first) - 1;
    if (thread < kSpan / kRun) {
        auto *const columns =
            reinterpret_cast<Columns<kSteps> *>(plan.columns) + (ptrdiff_t)blockIdx.x * kSpanTiles;
        columns[thread / kRuns].least[thread % kRuns] = sorted[min(thread * kRun, last)];
    }
    if (thread == 0) {
        atomicMin(&plan.found->least, (int)sorted[0]);
        atomicMax(&plan.found->most, (int)sorted[last]);
    }
}

/* A warp writes the images of eight rows at once, each lane every fourth plane of one: so it reads
 * whole sectors and writes eight words that follow each other. */
constexpr int kWriteWarps = 8, kRowsOfWarp = 8, kPlanesAtOnce = kLanes / kRowsOfWarp;
constexpr int kRowsOfBlock = kWriteWarps * kRowsOfWarp;
__device__ __forceinline__ ptrdiff_t row_of_lane()
{
    return ((ptrdiff_t)blockIdx.x * kWriteWarps + threadIdx.x / kLanes) * kRowsOfWarp +
           threadIdx.x % kRowsOfWarp;
}
template <typename F>
__device__ __forceinline__ void walk_planes(const Plan &plan, const Points<int32_t> &x,
                                            ptrdiff_t row, bool there, F &&write)
{
    for (int plane = (int)threadIdx.x % kLanes / kRowsOfWarp; plane < plan.planes;
         plane += kPlanesAtOnce) {
        write(plane, there && plane < plan.groups ? load_group(x, row, plane) : uint4{});
    }
}

template <int kSteps>
__global__ void __launch_bounds__(kWriteWarps *kLanes)
    write_columns(const __grid_constant__ Plan plan)
{
    follow();
    const ptrdiff_t place = row_of_lane();
    const int column = plan.column_of[place];
    auto &image = reinterpret_cast<Columns<kSteps> *>(plan.columns)[place / kTileCols];
    walk_planes(plan, plan.b, max(column, 0), column >= 0, [&](int plane, const uint4 &word) {
        image.planes[plane][place % kTileCols] = word;
    });
}

template <int kSteps>
__global__ void __launch_bounds__(kWriteWarps *kLanes) write_rows(const __grid_constant__ Plan plan)
{
    follow();
    const ptrdiff_t row = row_of_lane();
    const bool there = row < plan.rows;
    auto &image = reinterpret_cast<filter::Rows<kSteps> *>(plan.images)[row / kGroupRows];
    int ones = 0;
    walk_planes(plan, plan.a, row, there, [&](int plane, const uint4 &word) {
        image.planes[plane][row % kGroupRows] = word;
        ones += ones_in(word);
    });
#pragma unroll
    for (int apart = kRowsOfWarp; apart < kLanes; apart *= 2) {
        ones += __shfl_xor_sync(~0u, ones, apart);
    }
    if (threadIdx.x % kLanes < kRowsOfWarp) {
        plan.ones_of_a[row] = (uint16_t)ones;
        plan.counts[row] = 0;
    }
    if (row == 0 && threadIdx.x == 0) {
        plan.found->failed = 0;
        plan.found->many = 0;
    }
}

}  // namespace truths
}  // namespace gd
#endif
