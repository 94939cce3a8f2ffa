/* within.cuh: all points within a radius of rows of A, and their numbers, by boxes.
 *
 * A warp a row walks through the leaves (walk.cuh). The first launch counts, a scan tells where
 * each row's begin, the second one gathers a row's in shared memory, in the order that they come
 * in, and puts them where they belong: an element's place in the row is how many come before it,
 * which the warp counts for 64 elements at once. Rows that have more than there is room for go to
 * global memory as they are, and are sorted there by a block each (Batcher's network, mirrored, so
 * that none beyond the last is looked at).
 *
 * Of at most the nearest so many of a row, lists of search.cuh are gathered instead.
 *
 * Floor of a row with 40 neighbours, d = 3: 6 groups and 12 leaves, each some 30 instructions, two
 * times, and 200 for the order; 12 or 16 bytes for each of them. */
#ifndef GPUDIST_NEIGHBORS_BOXES_WITHIN_CUH
#define GPUDIST_NEIGHBORS_BOXES_WITHIN_CUH

#include "neighbors/boxes/gathered.cuh"
#include "neighbors/boxes/walk.cuh"
#include "neighbors/boxes/workspace.cuh"
#include "neighbors/census.cuh"

namespace gd {
namespace boxes {

constexpr int kRoom = 256; /* of a row that its warp puts in order, and as many less a leaf */
constexpr int kShort = kRoom - kWarp;
constexpr int kLongRoom = 2048; /* of one that a block does, in shared memory */
/* Blocks of a multiprocessor that sort rows, and that count. */
constexpr int kSorters = 4, kCounters = 8;

/* Where neighbours of rows go: those of row i are elements starts[i] - starts[0] and following. */
template <typename T>
struct Within {
    bool by_distance;
    int *counts;     /* of each row, while they are counted */
    int64_t *starts; /* of each row, and the end; then whether a row has more than kShort */
    T *distances;
    int64_t *indices;
};

/* Notes how many neighbours a row has. By one thread. */
template <typename T>
__device__ __forceinline__ void note_count(const Within<T> &to, ptrdiff_t rows, unsigned row,
                                           int count)
{
    to.counts[row] = count;
    if (count > kShort) {
        to.starts[rows + 1] = 1;
    }
}

/* How many points of a leaf are within a limit, the row itself too. Distances are computed where a
 * sum does not tell. */
template <typename M, typename Row, typename T, int kDims>
__device__ __forceinline__ int count_leaf(const Plan<T, kDims> &plan, unsigned leaf, const Row &a,
                                          T limit, const Reach<T> &reach)
{
    T b[kDims];
    read_leaf(plan, leaf, b);
    const T sum = sum_to<M>(plan, a, b);
    bool within = sum <= reach.most;
    if constexpr (kDropsNan<M>) {
        within = within && index_in(plan, leaf) != kNone;
    }
    if constexpr (kStandsIn<M, T, Row>) {
        const bool sure = sum <= reach.sure;
        if (__any_sync(kAll, within && !sure)) {
            within = within && (sure || is_within<M>(plan, leaf, a, b, limit));
        }
    }
    return __popc(__ballot_sync(kAll, within));
}

/* Counts the neighbours of each row, and notes them or adds them up. */
template <typename M, typename Row, typename T, int kDims>
__global__ void __launch_bounds__(kThreads, kWalkers<T, kDims>)
    count_rows(const __grid_constant__ Plan<T, kDims> plan, const __grid_constant__ Within<T> to,
               const double *bound, int64_t *total)
{
    follow();
    __shared__ unsigned long long sums[kWarps];
    const unsigned warp = threadIdx.x / kWarp, step = gridDim.x * kWarps;
    unsigned long long sum = 0;
    for (unsigned at = blockIdx.x * kWarps + warp; at < plan.rows; at += step) {
        const unsigned row = plan.row_at(at);
        int count = 0;
        Row a;
        if (read_row(plan, row, a)) {
            const T limit = bound != NULL ? at_most<T>(*bound) : plan.limit_of(row);
            const Reach<T> reach = reach_for<M>(plan, a, limit);
            walk_leaves<M, Row>(plan, a, reach.most, [&](unsigned leaf) {
                count += count_leaf<M, Row>(plan, leaf, a, limit, reach);
                return true;
            });
            count -= plan.self != kNone && is_own_within<M>(plan, a, limit);
        }
        sum += (unsigned)count;
        if (total == NULL && threadIdx.x % kWarp == 0) {
            note_count(to, plan.a.count, row, count);
        }
    }
    if (total == NULL) {
        return;
    }
    if (threadIdx.x % kWarp == 0) {
        sums[warp] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < kWarps; ++i) {
            sum += sums[i];
        }
        atomicAdd(reinterpret_cast<unsigned long long *>(total), sum);
    }
}

/* Calls take(what stands for a distance, index, whether it is one) for points of a leaf, one a
 * lane, if one has a sum within reach. */
template <typename M, typename Row, typename T, int kDims, typename Take>
__device__ __forceinline__ void list_leaf(const Plan<T, kDims> &plan, unsigned leaf, unsigned own,
                                          const Row &a, T limit, const Reach<T> &reach, Take &&take)
{
    T b[kDims];
    read_leaf(plan, leaf, b);
    const T sum = sum_to<M>(plan, a, b);
    if (__any_sync(kAll, sum <= reach.most)) {
        const unsigned index = index_in(plan, leaf);
        bool is_one = sum <= reach.most && index != own && (!kDropsNan<M> || index != kNone);
        const T x = stand_in<M>(plan, leaf, a, b, sum, limit, reach.sure, is_one);
        take(x, index, is_one);
    }
}

/* Writes the neighbours of each row to where there is a place for them. */
template <typename M, typename Row, typename T, int kDims>
__global__ void __launch_bounds__(kThreads, kListers<T, kDims>)
    list_near(const __grid_constant__ Plan<T, kDims> plan, const __grid_constant__ Within<T> to)
{
    follow();
    __shared__ Gathered<T, kRoom> all[kWarps];
    const unsigned at = blockIdx.x * kWarps + threadIdx.x / kWarp;
    if (at >= plan.rows) {
        return;
    }
    const unsigned row = plan.row_at(at), own = plan.self == kNone ? kNone : plan.self + row;
    Gathered<T, kRoom> &gathered = all[threadIdx.x / kWarp];
    const int64_t start = to.starts[row] - to.starts[0];
    int count = 0, written = 0;
    Row a;
    if (!read_row(plan, row, a)) {
        return;
    }
    const T limit = plan.limit_of(row);
    const Reach<T> reach = reach_for<M>(plan, a, limit);
    walk_leaves<M, Row>(plan, a, reach.most, [&](unsigned leaf) {
        list_leaf<M, Row>(plan, leaf, own, a, limit, reach, [&](T x, unsigned index, bool is_one) {
            if (count > kShort) {
                gathered.template settle<M, Row>(plan, a, count);
                gathered.spill(count, to.distances + start + written, to.indices + start + written);
                written += count;
                count = 0;
            }
            count = gathered.add(count, is_one, x, index);
        });
        return true;
    });
    gathered.template settle<M, Row>(plan, a, count);
    if (written == 0) {
        gathered.write(count, to.by_distance, to.distances + start, to.indices + start);
    }
    else {
        gathered.spill(count, to.distances + start + written, to.indices + start + written);
    }
}

/* The same of lists with at most `most` neighbours each, NaN and -1 behind the last. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    list_ranked(const T *distances, const int64_t *indices, int most, ptrdiff_t rows,
                const __grid_constant__ Within<T> to)
{
    follow();
    __shared__ Gathered<T, kRoom> all[kWarps];
    const ptrdiff_t row = (ptrdiff_t)blockIdx.x * kWarps + threadIdx.x / kWarp;
    Gathered<T, kRoom> &gathered = all[threadIdx.x / kWarp];
    int count = 0;
    if (row >= rows) {
        return;
    }
    for (int first = 0; first < most; first += kWarp) {
        const int i = first + (int)(threadIdx.x % kWarp);
        const int64_t index = i < most ? indices[row * most + i] : -1;
        if (index >= 0) {
            gathered.indices[i] = (unsigned)index;
            gathered.distances[i] = distances[row * most + i];
        }
        count += __popc(__ballot_sync(kAll, index >= 0));
    }
    __syncwarp();
    if (to.indices == NULL) {
        if (threadIdx.x % kWarp == 0) {
            note_count(to, rows, (unsigned)row, count);
        }
        return;
    }
    const int64_t start = to.starts[row] - to.starts[0];
    if (to.by_distance) {
        gathered.spill(count, to.distances + start, to.indices + start);
    }
    else {
        gathered.write(count, false, to.distances + start, to.indices + start);
    }
}

/* Puts elements in order, by a block. */
template <typename T>
__device__ __forceinline__ void sort_elements(T *distances, int64_t *indices, int64_t count,
                                              bool by_distance)
{
    for (int run = 1; (int64_t)1 << (run - 1) < count; ++run) {
        for (int step = run; step > 0; --step) {
            /* A run's first step holds each against its mirror image, others against those half as
             * far: the larger index takes what comes later each time. */
            const int64_t below_half = ((int64_t)1 << (step - 1)) - 1;
            __syncthreads();
            for (int64_t pair = threadIdx.x; pair < count; pair += kThreads) {
                const int64_t first = pair >> (step - 1) << step, part = pair & below_half;
                const int64_t i = first + part;
                const int64_t j =
                    step == run ? first + 2 * below_half + 1 - part : i + below_half + 1;
                if (j >= count) {
                    continue;
                }
                const T x = distances[i], y = distances[j];
                const int64_t p = indices[i], q = indices[j];
                if (by_distance ? nearer(y, q, x, p) : q < p) {
                    distances[i] = y;
                    distances[j] = x;
                    indices[i] = q;
                    indices[j] = p;
                }
            }
        }
    }
    __syncthreads();
}

/* Sorts rows that have more than kShort. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sort_long(const __grid_constant__ Within<T> to, ptrdiff_t rows)
{
    follow();
    __shared__ T distances[kLongRoom];
    __shared__ int64_t indices[kLongRoom];
    __shared__ unsigned long_rows[kWarps];
    const int warp = (int)threadIdx.x / kWarp;
    for (ptrdiff_t first = (ptrdiff_t)blockIdx.x * kThreads; first < rows;
         first += (ptrdiff_t)gridDim.x * kThreads) {
        const ptrdiff_t mine = first + threadIdx.x;
        const bool is_long = mine < rows && to.starts[mine + 1] - to.starts[mine] > kShort;
        long_rows[warp] = __ballot_sync(kAll, is_long);
        __syncthreads();
        for (int i = 0; i < kWarps; ++i) {
            for (unsigned left = long_rows[i]; left != 0; left &= left - 1) {
                const ptrdiff_t row = first + i * kWarp + __ffs((int)left) - 1;
                const int64_t start = to.starts[row] - to.starts[0];
                const int64_t count = to.starts[row + 1] - to.starts[row];
                T *const at = to.distances + start;
                int64_t *const at_indices = to.indices + start;
                if (count > kLongRoom) {
                    sort_elements(at, at_indices, count, to.by_distance);
                    continue;
                }
                for (int64_t k = threadIdx.x; k < count; k += kThreads) {
                    distances[k] = at[k];
                    indices[k] = at_indices[k];
                }
                sort_elements(distances, indices, count, to.by_distance);
                for (int64_t k = threadIdx.x; k < count; k += kThreads) {
                    at[k] = distances[k];
                    at_indices[k] = indices[k];
                }
                __syncthreads();
            }
        }
        __syncthreads();
    }
}

/* Adds up how many pairs are in each bin. A warp takes a row after the other, so that few blocks
 * add theirs to the total. */
template <typename M, typename Row, typename T, int kDims>
__global__ void __launch_bounds__(kThreads, kWalkers<T, kDims>)
    count_near(const __grid_constant__ Plan<T, kDims> plan, Bins bins, int copies, int64_t *counts)
{
    follow();
    __shared__ int gathered[kCensusRoom];
    const unsigned lane = threadIdx.x % kWarp, step = gridDim.x * kWarps;
    const Tally<kThreads> tally = {bins, copies, gathered,
                                   reinterpret_cast<unsigned long long *>(counts)};
    tally.begin();
    const T limit = at_most<T>(bins.last());
    for (unsigned at = blockIdx.x * kWarps + threadIdx.x / kWarp; at < plan.rows; at += step) {
        const unsigned row = plan.row_at(at), own = plan.self == kNone ? kNone : plan.self + row;
        Row a;
        if (!read_row(plan, row, a)) {
            continue;
        }
        const Reach<T> reach = reach_for<M>(plan, a, limit);
        walk_leaves<M, Row>(plan, a, reach.most, [&](unsigned leaf) {
            list_leaf<M, Row>(plan, leaf, own, a, limit, reach, [&](T x, unsigned, bool is_one) {
                if (is_one) {
                    tally.count((double)distance_behind<M>(plan, for_distances(plan, a), x),
                                (int)lane);
                }
            });
            return true;
        });
    }
    tally.end();
}

/* ---------------------------------------------------------------- launches */

template <typename T>
Within<T> within_of(const gd_neighbors &call, const Scratch &scratch)
{
    return {call.within.by_distance, scratch.counts, call.within.starts,
            static_cast<T *>(call.within.distances), call.within.indices};
}

/* Before rows are counted: nobody has many. */
template <typename T>
gd_status clear_counts(Steps &steps, const gd_neighbors &call, const Within<T> &to, gd_error *err)
{
    const auto stream = (cudaStream_t)steps.launch.stream;
    const ptrdiff_t rows = call.a.rows;
    GD_CUDA_TRY(err, kId, cudaMemsetAsync(to.counts + rows, 0, sizeof(int), stream));
    GD_CUDA_TRY(err, kId, cudaMemsetAsync(to.starts + rows + 1, 0, sizeof(int64_t), stream));
    return GD_OK;
}

/* After that: where each row's begin. */
template <typename T>
gd_status place_rows(Steps &steps, const gd_neighbors &call, const Within<T> &to,
                     const Scratch &scratch, gd_error *err)
{
    size_t bytes = scratch.scan_bytes;
    GD_CUDA_TRY(err, kId, steps.code);
    GD_CUDA_TRY(err, kId,
                scan_counts(scratch.scan, &bytes, to.counts, to.starts, (unsigned)call.a.rows,
                            call.within.base, steps.launch.stream));
    return GD_OK;
}

template <typename Row, typename T, int kDims>
gd_status list_within(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                      const Scratch &scratch, gd_error *err)
{
    const Within<T> to = within_of<T>(call, scratch);
    const bool counts = to.indices == NULL;
    gd_status status = counts ? clear_counts(steps, call, to, err) : GD_OK;
    if (status == GD_OK) {
        status = with_metric_for<Row>(call.metric, [&](auto metric) {
            using M = decltype(metric);
            return in_pieces(steps, call, plan, err, [&] {
                const ptrdiff_t blocks = ceil_div((ptrdiff_t)plan.rows, (ptrdiff_t)kWarps);
                if (counts) {
                    steps.enqueue(count_rows<M, Row, T, kDims>, blocks, dim3(kThreads), 0, plan, to,
                                  (const double *)NULL, (int64_t *)NULL);
                }
                else {
                    steps.enqueue(list_near<M, Row, T, kDims>, blocks, dim3(kThreads), 0, plan, to);
                }
            });
        });
    }
    if (status != GD_OK || counts) {
        return status == GD_OK ? place_rows(steps, call, to, scratch, err) : status;
    }
    if (call.within.any_long) {
        steps.enqueue(sort_long<T>, steps.processors * kSorters, dim3(kThreads), 0, to,
                      call.a.rows);
        GD_CUDA_TRY(err, kId, steps.code);
    }
    return GD_OK;
}

template <typename T, int kDims>
gd_status gather_lists(Steps &steps, const gd_neighbors &call, const Plan<T, kDims> &plan,
                       const Scratch &scratch, gd_error *err)
{
    const Within<T> to = within_of<T>(call, scratch);
    const bool counts = to.indices == NULL;
    const gd_status status = counts ? clear_counts(steps, call, to, err) : GD_OK;
    if (status != GD_OK) {
        return status;
    }
    steps.enqueue(list_ranked<T>, ceil_div(call.a.rows, (ptrdiff_t)kWarps), dim3(kThreads), 0,
                  (const T *)plan.distances, (const int64_t *)plan.indices, plan.wanted,
                  call.a.rows, to);
    if (counts) {
        return place_rows(steps, call, to, scratch, err);
    }
    GD_CUDA_TRY(err, kId, steps.code);
    return GD_OK;
}

template <typename Row, typename T, int kDims>
gd_status count_within(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan, gd_error *err)
{
    const Bins bins = {call.bounds, call.bound_count};
    const int most = steps.processors * kCounters;
    const ptrdiff_t copies = std::min(kCensusRoom / bins.count, (ptrdiff_t)kWarp);
    return with_metric_for<Row>(call.metric, [&](auto metric) {
        using M = decltype(metric);
        return in_pieces(steps, call, plan, err, [&] {
            const int blocks = std::min((int)ceil_div(plan.rows, (ptrdiff_t)kWarps), most);
            if (bins.count == 1) {
                steps.enqueue(count_rows<M, Row, T, kDims>, blocks, dim3(kThreads), 0, plan,
                              Within<T>{}, bins.bounds, call.counts);
                return;
            }
            /* What a block adds to one count is to fit there. */
            const double pairs = (double)ceil_div(plan.rows, (ptrdiff_t)blocks * kWarps) * kWarps *
                                 (double)plan.count;
            steps.enqueue(count_near<M, Row, T, kDims>, blocks, dim3(kThreads), 0, plan, bins,
                          pairs < 0x1p32 ? (int)copies : 0, call.counts);
        });
    });
}

}  // namespace boxes
}  // namespace gd

/* For rows as they are, or as images: Row is a type with two parameters. */
#define GD_WITHIN_FOR(Row, T, dims)                                                               \
    template gd_status list_within<Row<T, dims>>(Steps &, const gd_neighbors &, Plan<T, dims> &,  \
                                                 const Scratch &, gd_error *);                    \
    template gd_status count_within<Row<T, dims>>(Steps &, const gd_neighbors &, Plan<T, dims> &, \
                                                  gd_error *);
#define GD_WITHIN_AS_GIVEN(T, dims)                                                       \
    GD_WITHIN_FOR(AsGiven, T, dims)                                                       \
    template gd_status gather_lists(Steps &, const gd_neighbors &, const Plan<T, dims> &, \
                                    const Scratch &, gd_error *);
#define GD_WITHIN_OF(T)      \
    GD_WITHIN_AS_GIVEN(T, 3) \
    GD_WITHIN_AS_GIVEN(T, 5) \
    GD_WITHIN_AS_GIVEN(T, kMostDims)
#endif
