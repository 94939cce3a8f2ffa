/* within.cuh: from lists of neighbours within a radius, the nearest first, to rows of a sparse
 * matrix: how many each row has, and they themselves in the order of their indices or as they are;
 * or to counts of pairs. What they take is nothing beside the search. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_WITHIN_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_WITHIN_CUH

#include "common/steps.cuh"
#include "neighbors/census.cuh"
#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

constexpr int kWithinThreads = 128;

/* A thread a row: -1 follows the last neighbour. */
static __global__ void __launch_bounds__(kWithinThreads)
    count_listed(const __grid_constant__ gd_ranked lists, int rows, int32_t *counts)
{
    follow();
    const int row = (int)(blockIdx.x * kWithinThreads + threadIdx.x);
    if (row >= rows) {
        return;
    }
    const int64_t *const indices = lists.indices + row * lists.most;
    int low = 0, high = (int)lists.most; /* there are low at least, and high at most */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (indices[middle] >= 0) {
            low = middle + 1;
        }
        else {
            high = middle;
        }
    }
    counts[row] = low;
}

/* One block: where each row's begin, and whether a row has as many as are listed at most. A thread
 * has rows that follow each other. */
constexpr int kPlaceThreads = 1024;
static __global__ void __launch_bounds__(kPlaceThreads)
    place_listed(const int32_t *counts, int rows, int most, const __grid_constant__ gd_within to)
{
    follow();
    __shared__ long long sums[2][kPlaceThreads];
    const int each = (rows + kPlaceThreads - 1) / kPlaceThreads, thread = (int)threadIdx.x;
    const int first = min(thread * each, rows), end = min(first + each, rows);
    long long sum = 0;
    bool many = false;
    for (int row = first; row < end; ++row) {
        sum += counts[row];
        many = many || counts[row] >= most;
    }
    sums[0][thread] = sum;
    many = __syncthreads_or(many);
    int from = 0;
    for (int apart = 1; apart < kPlaceThreads; apart *= 2, from ^= 1) {
        sums[from ^ 1][thread] =
            sums[from][thread] + (thread >= apart ? sums[from][thread - apart] : 0);
        __syncthreads();
    }
    long long at = to.base + sums[from][thread] - sum;
    for (int row = first; row < end; ++row) {
        to.starts[row] = at;
        at += counts[row];
    }
    if (thread == kPlaceThreads - 1) {
        to.starts[rows] = to.base + sums[from][thread];
        to.starts[rows + 1] = many;
    }
}

/* A block a row. In shared memory is room for as many keys as a list has, up to a power of two. */
template <typename T>
__global__ void __launch_bounds__(kWithinThreads)
    write_listed(const __grid_constant__ gd_ranked lists, const __grid_constant__ gd_within to)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto *const keys = reinterpret_cast<Key *>(memory);
    const ptrdiff_t from = blockIdx.x * lists.most;
    const int64_t *const indices = lists.indices + from;
    const T *const distances = (const T *)lists.distances + from;
    const int64_t start = to.starts[blockIdx.x];
    const int count = (int)(to.starts[blockIdx.x + 1] - start);
    int padded = 1;
    while (padded < count) {
        padded *= 2;
    }
    for (int i = (int)threadIdx.x; i < padded; i += kWithinThreads) {
        keys[i] = i < count ? (Key)indices[i] << 32 | (unsigned)i : ~0ull;
    }
    if (!to.by_distance) {
        sort<Block>(keys, padded);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < count; i += kWithinThreads) {
        const ptrdiff_t at = start - to.starts[0] + i;
        ((T *)to.distances)[at] = distances[(unsigned)keys[i]];
        to.indices[at] = (int64_t)(keys[i] >> 32);
    }
}

/* Says that some row has as many as are listed at most. */
static __global__ void tell_many(int64_t *to)
{
    follow();
    *to = 1;
}

/* Adds up how many of the listed are in each bin of keys, a warp a row. The count after the last
 * bin's becomes one where some row has as many as are listed at most: those may not be all. */
template <typename T>
__global__ void __launch_bounds__(kWithinThreads)
    tally_listed(const __grid_constant__ gd_ranked lists, int rows, Bins bins, int copies,
                 bool larger, int64_t *counts)
{
    follow();
    constexpr int kRowsOfBlock = kWithinThreads / kWarp;
    __shared__ int gathered[kCensusRoom];
    const Tally<kWithinThreads> tally = {bins, copies, gathered,
                                         reinterpret_cast<unsigned long long *>(counts)};
    const int lane = (int)(threadIdx.x % kWarp);
    const double last = bins.last();
    tally.begin();
    for (int row = (int)(blockIdx.x * kRowsOfBlock + threadIdx.x / kWarp); row < rows;
         row += (int)gridDim.x * kRowsOfBlock) {
        const ptrdiff_t from = row * lists.most;
        const T *const distances = (const T *)lists.distances + from;
        for (ptrdiff_t i = lane; i < lists.most && lists.indices[from + i] >= 0; i += kWarp) {
            const double key = larger ? -(double)distances[i] : (double)distances[i];
            if (key <= last) {
                tally.count(key, lane);
            }
        }
        if (lane == 0 && lists.indices[from + lists.most - 1] >= 0) {
            counts[bins.count] = 1;
        }
    }
    tally.end();
}

/* ---------------------------------------------------------------- by the host */

/* Whether no row seems to have more within its radius than are wanted; waits for the guess. */
inline bool has_few(Steps &steps, const unsigned *many_rows)
{
    const auto stream = (cudaStream_t)steps.launch.stream;
    unsigned many = 0;
    if (steps.code == cudaSuccess) {
        steps.code = cudaMemcpyAsync(&many, many_rows, sizeof many, cudaMemcpyDeviceToHost, stream);
    }
    if (steps.code == cudaSuccess) {
        steps.code = cudaStreamSynchronize(stream);
    }
    return many == 0;
}

/* Says that a call was not done, as rows have many. */
inline void leave(Steps &steps, const gd_neighbors &call)
{
    steps.enqueue(tell_many, 1, dim3(1), 0,
                  call.bound_count > 0 ? call.counts + call.bound_count
                                       : call.within.starts + call.a.rows + 1);
}

/* What is asked of lists with `wanted` neighbours of each row at most: where each row's begin, or
 * how many are in each bin. */
template <typename T>
void tell_within(Steps &steps, const gd_neighbors &call, const gd_ranked &lists, int wanted,
                 int *tallies)
{
    const ptrdiff_t rows = call.a.rows;
    if (call.bound_count > 0) {
        const Bins bins = {call.bounds, call.bound_count};
        const int copies = (int)min(kCensusRoom / bins.count, (ptrdiff_t)kLanes);
        steps.enqueue(tally_listed<T>, 8 * steps.processors, dim3(kWithinThreads), 0, lists,
                      (int)rows, bins, copies, call.larger, call.counts);
    }
    if (call.within.starts != NULL) {
        steps.enqueue(count_listed, ceil_div(rows, (ptrdiff_t)kWithinThreads), dim3(kWithinThreads),
                      0, lists, (int)rows, tallies);
        steps.enqueue(place_listed, 1, dim3(kPlaceThreads), 0, tallies, (int)rows,
                      call.ranked.most == 0 ? wanted : INT_MAX, call.within);
    }
}

/* Writes what tell_within has told the places of. */
template <typename T>
void write_within(Steps &steps, const gd_neighbors &call, const gd_ranked &lists)
{
    steps.enqueue(write_listed<T>, call.a.rows, dim3(kWithinThreads), kMostNeighbors * sizeof(Key),
                  lists, call.within);
}

/* What the launcher of a row does: tells sizes, arranges B, or searches. lay_out plans, and says
 * how many rows are searched for at once; search lists the neighbours of the plan's rows, or says
 * no where that is not to be done here. P: a PlanOf, or one of truths. */
template <typename T, typename P, typename LayOut, typename Arrange, typename Search>
gd_status run_search(gd_neighbors *call, const char *id, gd_error *err, const LayOut &lay_out,
                     const Arrange &arrange, const Search &search)
{
    P plan;
    Layout take = {(unsigned char *)call->launch.workspace};
    Steps steps(call->launch);
    GD_CUDA_TRY(err, id, steps.code);
    const ptrdiff_t at_once = lay_out(plan, steps.processors, take);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = take.bytes;
        return GD_OK;
    }
    if (!call->arranged) {
        arrange(steps, plan);
        GD_CUDA_TRY(err, id, steps.code);
        call->arranged = true;
        return GD_OK;
    }
    gd_ranked ranked = call->ranked;
    if (ranked.most == 0) {
        ranked = {plan.listed_distances, plan.listed_indices, plan.wanted, NULL};
    }
    if (call->within.indices != NULL) {
        write_within<T>(steps, *call, ranked);
        GD_CUDA_TRY(err, id, steps.code);
        return GD_OK;
    }
    const ptrdiff_t rows = call->a.rows, each = rows_of_part(rows, at_once);
    for (ptrdiff_t first = 0; first < rows && steps.code == cudaSuccess; first += each) {
        search_for(plan, *call, ranked, first, each);
        if (!search(steps, plan)) {
            leave(steps, *call);
            GD_CUDA_TRY(err, id, steps.code);
            return GD_OK;
        }
    }
    tell_within<T>(steps, *call, ranked, plan.wanted, plan.tallies);
    GD_CUDA_TRY(err, id, steps.code);
    return GD_OK;
}

}  // namespace filter
}  // namespace gd
#endif
