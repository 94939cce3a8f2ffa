/* recompute.cuh: the nearest of listed rows by direct distances to all of B, for rows whose guess
 * failed or which halves do not hold.
 *
 * A block takes some of these rows and a slice of the columns, two columns a thread; each row has a
 * list in shared memory that is cut to the nearest when it is full; of more than 128 neighbours
 * lists are longer, and rows fewer. What slices have left is sorted by a block a row. Nothing waits
 * for the host: how many rows there are is read on the device. Bound by issue slots: 2 instructions
 * a dimension and pair, 80 ms for 10,000 x 1,000,000 x 128. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_RECOMPUTE_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_RECOMPUTE_CUH

#include <type_traits>

#include "arch/copies.cuh"
#include "neighbors/product/rank.cuh"

namespace gd {
namespace filter {

constexpr int kOfThread = 2; /* columns */
constexpr int kMostSlices = 64;
constexpr int kMergeThreads = 512;

/* What a block recomputes for, in points of some type: with long lists fewer rows at once. */
template <typename T, bool kLongLists>
struct Recompute {
    using Number = T;
    static constexpr bool kWide = sizeof(T) == sizeof(double);
    static constexpr int kThreads = kLongLists && !kWide ? 256 : 128;
    static constexpr int kRows = !kLongLists ? 8 : kWide ? 2 : 4;
    static constexpr int kRoom = kLongLists ? 2048 : 512;       /* of a list */
    static constexpr int kBlocks = kLongLists || kWide ? 1 : 2; /* of a multiprocessor */
    static constexpr int kCols = kOfThread * kThreads;          /* columns at once */
    static_assert((kLongLists ? kMostNeighbors : 256) + kCols <= kRoom, "a list takes all columns");

    KeyOf<T> keys[kRows][kRoom];
    /* A fold of each column; words of eight that follow each other are in all banks. */
    T columns[2][kCols][GD_FOLD + kPerWord<T>];
    int counts[kRows];
    int rows[kRows];
    KeyOf<T> limits[kRows]; /* what is not below belongs to no list */
    /* Rows of A follow, kRows times whole folds of d dimensions. */
    __device__ __forceinline__ T *a() { return reinterpret_cast<T *>(this + 1); }
};
__host__ __device__ constexpr int whole_folds(ptrdiff_t d)
{
    return (int)((d + GD_FOLD - 1) / GD_FOLD * GD_FOLD);
}
template <typename R>
constexpr size_t recompute_bytes(ptrdiff_t d)
{
    return sizeof(R) + (size_t)R::kRows * whole_folds(d) * sizeof(typename R::Number);
}

/* Cuts a full list to the nearest. All threads of the block. */
template <typename R>
__device__ __forceinline__ void cut_list(R &shared, int r, int wanted)
{
    for (int i = shared.counts[r] + (int)threadIdx.x; i < R::kRoom; i += R::kThreads) {
        shared.keys[r][i] = no_key<typename R::Number>();
    }
    sort<Block>(shared.keys[r], R::kRoom);
    if (threadIdx.x == 0) {
        shared.counts[r] = min(shared.counts[r], wanted);
        shared.limits[r] = shared.keys[r][wanted - 1];
    }
    __syncthreads();
}

/* Starts to bring a fold, from dimension `dim` on, of the columns from `start` on. */
template <typename T, typename R>
__device__ __forceinline__ void bring_fold(const PlanOf<T> &plan, R &shared, int buffer,
                                           ptrdiff_t start, ptrdiff_t end, ptrdiff_t dim)
{
    const auto bring = [&](auto each) {
        constexpr int kEach = decltype(each)::value, kAcross = GD_FOLD / kEach;
        for (int i = threadIdx.x; i < R::kCols * kAcross; i += R::kThreads) {
            const int k = i % kAcross * kEach;
            const ptrdiff_t column = min(start + i / kAcross, end - 1);
            const bool there = dim + k < plan.d;
            const T *const from =
                plan.b.data + column * plan.b.row_stride + (dim + k) * plan.b.col_stride;
            copy_async<kEach *(int)sizeof(T)>(&shared.columns[buffer][i / kAcross][k],
                                              there ? from : plan.b.data, there);
        }
    };
    if (plan.words_b) {
        bring(std::integral_constant<int, kPerWord<T>>{});
    }
    else {
        bring(std::integral_constant<int, 1>{});
    }
    end_copies();
}

/* A sum for each row and column of a thread. */
template <typename R>
using RecomputeSums = typename R::Number[R::kRows][kOfThread];

/* Adds GD_FOLD dimensions to the fold of a thread's columns, kThreads apart, and each row. */
template <typename M, typename R>
__device__ __forceinline__ void add_fold(R &shared, int buffer, int dim, int pitch,
                                         RecomputeSums<R> &folds)
{
    using T = typename R::Number;
    constexpr int kEach = kPerWord<T>;
    const auto *const columns = shared.columns[buffer] + threadIdx.x;
    const T *const rows = shared.a() + dim;
#pragma unroll
    for (int k = 0; k < GD_FOLD; k += kEach) {
        T y[kOfThread][kEach];
#pragma unroll
        for (int c = 0; c < kOfThread; ++c) {
            load_word(columns[c * R::kThreads] + k, y[c]);
        }
#pragma unroll
        for (int r = 0; r < R::kRows; ++r) {
            T x[kEach];
            load_word(rows + r * pitch + k, x);
            if constexpr (kByFours<M>) {
#pragma unroll
                for (int c = 0; c < kOfThread; ++c) {
                    folds[r][c] = M::join(folds[r][c], four_of<M>(x, y[c]));
                }
            }
            else {
#pragma unroll
                for (int i = 0; i < kEach; ++i) {
#pragma unroll
                    for (int c = 0; c < kOfThread; ++c) {
                        folds[r][c] = M::term(folds[r][c], x[i], y[c][i]);
                    }
                }
            }
        }
    }
}

/* Joins a fold, or a group, with what there is, and begins the next. */
template <typename M, typename R>
__device__ __forceinline__ void join_all(RecomputeSums<R> &sums, RecomputeSums<R> &more, bool first)
{
#pragma unroll
    for (int r = 0; r < R::kRows; ++r) {
#pragma unroll
        for (int c = 0; c < kOfThread; ++c) {
            sums[r][c] = first ? more[r][c] : M::join(sums[r][c], more[r][c]);
            more[r][c] = 0;
        }
    }
}

/* Lists what a thread's columns are to the rows, and cuts lists that are full. */
template <typename M, typename T, typename R>
__device__ __forceinline__ void list_columns(const PlanOf<T> &plan, R &shared, int rows,
                                             ptrdiff_t first, ptrdiff_t end,
                                             const RecomputeSums<R> &totals)
{
#pragma unroll
    for (int i = 0; i < R::kRows * kOfThread; ++i) {
        const int r = i / kOfThread, c = i % kOfThread;
        const ptrdiff_t column = first + threadIdx.x + c * R::kThreads;
        const bool itself = plan.self >= 0 && column == plan.self + shared.rows[r];
        if (r >= rows || column >= end || itself) {
            continue;
        }
        T result = totals[r][c];
        const bool good = finish_total<M>(plan, result);
        if constexpr (M::template guarded<T>) {
            /* Of equal rows, of which there may be many, those that count at no distance. */
            if (!good && key_of(T(0), (unsigned)column) < shared.limits[r]) {
                result = distance_f64<M>(plan, shared.rows[r], (int)column);
            }
        }
        const KeyOf<T> key = key_of(result, (unsigned)column);
        if (key < shared.limits[r]) {
            shared.keys[r][atomicAdd(&shared.counts[r], 1)] = key;
        }
    }
    __syncthreads();
    for (int r = 0; r < rows; ++r) {
        if (shared.counts[r] > R::kRoom - R::kCols) {
            cut_list(shared, r, plan.wanted);
        }
    }
}

/* The nearest of a slice of the columns, for some rows. */
template <typename M, typename T, typename R>
__device__ __forceinline__ void search_slice(const PlanOf<T> &plan, R &shared, int rows,
                                             ptrdiff_t first, ptrdiff_t end)
{
    const int pitch = whole_folds(plan.d);
    for (int i = threadIdx.x; i < R::kRows * pitch; i += R::kThreads) {
        const int dim = i % pitch;
        shared.a()[i] = dim < plan.d ? plan.a.at(shared.rows[i / pitch], dim) : T(0);
    }
    RecomputeSums<R> totals = {}, sums = {}, folds = {};
    ptrdiff_t start = first;
    int dim = 0, buffer = 0;
    if (first < end) {
        bring_fold(plan, shared, 0, first, end, 0);
    }
    while (start < end) {
        const bool last = dim + GD_FOLD >= plan.d;
        const ptrdiff_t next_start = last ? start + R::kCols : start;
        const int next_dim = last ? 0 : dim + GD_FOLD;
        if (next_start < end) {
            bring_fold(plan, shared, buffer ^ 1, next_start, end, next_dim);
        }
        else {
            end_copies();
        }
        await_copies<1>();
        __syncthreads();
        add_fold<M>(shared, buffer, dim, pitch, folds);
        if (last || (dim + GD_FOLD) % kFoldOf<M> == 0) {
            join_all<M, R>(sums, folds, false);
        }
        if (last || (dim + GD_FOLD) % kGroupOf<M> == 0) {
            join_all<M, R>(totals, sums, dim < kGroupOf<M>);
        }
        if (last) {
            list_columns<M>(plan, shared, rows, start, end, totals);
        }
        __syncthreads(); /* everybody has read the fold */
        start = next_start, dim = next_dim, buffer ^= 1;
    }
}

template <typename M, typename R, typename T>
__global__ void __launch_bounds__(R::kThreads, R::kBlocks)
    recompute_direct(const __grid_constant__ PlanOf<T> plan, int slices)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<R *>(memory);
    const int failed = (int)plan.found->failed;
    const int items = (failed + R::kRows - 1) / R::kRows * slices;
    for (int item = blockIdx.x; item < items; item += gridDim.x) {
        const int top = item / slices * R::kRows, slice = item % slices;
        const int rows = min(failed - top, R::kRows);
        __syncthreads();
        if (threadIdx.x < R::kRows) {
            shared.rows[threadIdx.x] = plan.failed_rows[top + min((int)threadIdx.x, rows - 1)];
            shared.counts[threadIdx.x] = 0;
            /* NaN is behind infinity, and nothing is before the key of 0 distance. */
            const T radius = plan.radius(shared.rows[threadIdx.x]);
            shared.limits[threadIdx.x] = radius >= 0 ? key_of(radius, ~0u) : key_of(T(0), 0);
        }
        __syncthreads();
        search_slice<M>(plan, shared, rows, plan.b.count * slice / slices,
                        plan.b.count * (slice + 1) / slices);
        for (int r = 0; r < rows; ++r) {
            cut_list(shared, r, plan.wanted);
            KeyOf<T> *const to =
                reinterpret_cast<KeyOf<T> *>(plan.lists + (ptrdiff_t)(top + r) * plan.list_room) +
                slice * plan.wanted;
            for (int i = threadIdx.x; i < plan.wanted; i += R::kThreads) {
                to[i] = shared.keys[r][i];
            }
        }
    }
}

/* Into how many slices B is cut: what they leave of a row stands in its list, and is sorted. */
constexpr int kMostMerged = 4096;
template <typename T>
int slices_of(const Plan &plan)
{
    const int room = (int)(plan.list_room * sizeof(Candidate) / sizeof(KeyOf<T>));
    return min(kMostSlices, min(room, kMostMerged) / plan.wanted);
}

/* What the slices of a row left, sorted. */
template <typename T>
__global__ void __launch_bounds__(kMergeThreads)
    merge(const __grid_constant__ PlanOf<T> plan, int slices)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto *const keys = reinterpret_cast<KeyOf<T> *>(memory);
    const int count = slices * plan.wanted, padded = next_power(count);
    for (int at = blockIdx.x; at < (int)plan.found->failed; at += gridDim.x) {
        const auto *const from =
            reinterpret_cast<const KeyOf<T> *>(plan.lists + (ptrdiff_t)at * plan.list_room);
        __syncthreads();
        for (int i = threadIdx.x; i < padded; i += kMergeThreads) {
            keys[i] = i < count ? from[i] : no_key<T>();
        }
        sort<Block>(keys, padded);
        for (int i = threadIdx.x; i < plan.wanted; i += kMergeThreads) {
            write_neighbor(plan, plan.failed_rows[at], i, keys[i]);
        }
    }
}

}  // namespace filter
}  // namespace gd
#endif
