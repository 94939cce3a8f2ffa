/* recompute.cuh: the nearest of listed rows by direct distances to all of B, for rows whose guess
 * failed or which halves do not hold.
 *
 * A block takes some of these rows and a slice of the columns, two columns a thread; each row has a
 * list in shared memory that is cut to the nearest when it is full. What slices have left is sorted
 * by a block a row. Nothing waits for the host: how many rows there are is read on the device.
 * Bound by issue slots: 2 instructions a dimension and pair, 80 ms for 10,000 x 1,000,000 x 128. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_RECOMPUTE_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_RECOMPUTE_CUH

#include <type_traits>

#include "arch/copies.cuh"
#include "neighbors/product/rank.cuh"

namespace gd {
namespace filter {

constexpr int kRecomputeThreads = 128, kRecomputeRows = 8, kRecomputeRoom = 512;
constexpr int kOfThread = 2, kRecomputeCols = kOfThread * kRecomputeThreads; /* columns at once */
constexpr int kRecomputeBlocks = 2; /* of a multiprocessor */
constexpr int kMostSlices = 64;
constexpr int kMergeThreads = 512;
static_assert(kMostNeighbors + kRecomputeCols <= kRecomputeRoom, "a list takes all columns");

struct Recompute {
    Key keys[kRecomputeRows][kRecomputeRoom];
    /* A fold of each column; words of eight that follow each other are in all banks. */
    float columns[2][kRecomputeCols][GD_FOLD + 4];
    int counts[kRecomputeRows];
    int rows[kRecomputeRows];
    Key limits[kRecomputeRows]; /* what is not below belongs to no list */
    /* Rows of A follow, kRecomputeRows times whole folds of d dimensions. */
    __device__ __forceinline__ float *a() { return reinterpret_cast<float *>(this + 1); }
};
__host__ __device__ constexpr int whole_folds(ptrdiff_t d)
{
    return (int)((d + GD_FOLD - 1) / GD_FOLD * GD_FOLD);
}
inline size_t recompute_bytes(ptrdiff_t d)
{
    return sizeof(Recompute) + (size_t)kRecomputeRows * whole_folds(d) * sizeof(float);
}

/* Cuts a full list to the nearest. All threads of the block. */
__device__ __forceinline__ void cut_list(Recompute &shared, int r, int wanted)
{
    for (int i = shared.counts[r] + (int)threadIdx.x; i < kRecomputeRoom; i += kRecomputeThreads) {
        shared.keys[r][i] = kNoKey;
    }
    sort<Block>(shared.keys[r], kRecomputeRoom);
    if (threadIdx.x == 0) {
        shared.counts[r] = min(shared.counts[r], wanted);
        shared.limits[r] = shared.keys[r][wanted - 1];
    }
    __syncthreads();
}

/* Starts to bring a fold, from dimension `dim` on, of the columns from `start` on. */
__device__ __forceinline__ void bring_fold(const Plan &plan, Recompute &shared, int buffer,
                                           ptrdiff_t start, ptrdiff_t end, ptrdiff_t dim)
{
    const auto bring = [&](auto each) {
        constexpr int kEach = decltype(each)::value, kAcross = GD_FOLD / kEach;
        for (int i = threadIdx.x; i < kRecomputeCols * kAcross; i += kRecomputeThreads) {
            const int k = i % kAcross * kEach;
            const ptrdiff_t column = min(start + i / kAcross, end - 1);
            const bool there = dim + k < plan.d;
            const float *const from =
                plan.b.data + column * plan.b.row_stride + (dim + k) * plan.b.col_stride;
            copy_async<kEach *(int)sizeof(float)>(&shared.columns[buffer][i / kAcross][k],
                                                  there ? from : plan.b.data, there);
        }
    };
    if (plan.words_b) {
        bring(std::integral_constant<int, 4>{});
    }
    else {
        bring(std::integral_constant<int, 1>{});
    }
    end_copies();
}

/* A sum for each row and column of a thread. */
using RecomputeSums = float[kRecomputeRows][kOfThread];

/* Adds a fold to the sums of a thread's columns, kRecomputeThreads apart, and each row. */
template <typename M>
__device__ __forceinline__ void add_fold(const float (*columns)[GD_FOLD + 4], const float *rows,
                                         int pitch, RecomputeSums &sums)
{
    RecomputeSums folds = {};
#pragma unroll
    for (int k = 0; k < GD_FOLD; k += 4) {
        float y[kOfThread][4];
#pragma unroll
        for (int c = 0; c < kOfThread; ++c) {
            load_word(columns[c * kRecomputeThreads] + k, y[c]);
        }
#pragma unroll
        for (int r = 0; r < kRecomputeRows; ++r) {
            float x[4];
            load_word(rows + r * pitch + k, x);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int c = 0; c < kOfThread; ++c) {
                    folds[r][c] = M::term(folds[r][c], x[i], y[c][i]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kRecomputeRows; ++r) {
#pragma unroll
        for (int c = 0; c < kOfThread; ++c) {
            sums[r][c] = M::join(sums[r][c], folds[r][c]);
        }
    }
}

/* Lists what a thread's columns are to the rows, and cuts lists that are full. */
template <typename M>
__device__ __forceinline__ void list_columns(const Plan &plan, Recompute &shared, int rows,
                                             ptrdiff_t first, ptrdiff_t end,
                                             const RecomputeSums &totals)
{
#pragma unroll
    for (int i = 0; i < kRecomputeRows * kOfThread; ++i) {
        const int r = i / kOfThread, c = i % kOfThread;
        const ptrdiff_t column = first + threadIdx.x + c * kRecomputeThreads;
        const bool itself = plan.self >= 0 && column == plan.self + shared.rows[r];
        if (r >= rows || column >= end || itself) {
            continue;
        }
        float result = gd::finish<M>(totals[r][c], plan.d);
        if (!is_good<M>(result)) {
            result = distance_f64<M>(plan, shared.rows[r], (int)column);
        }
        const Key key = key_of(result, (int)column);
        if (key < shared.limits[r]) {
            shared.keys[r][atomicAdd(&shared.counts[r], 1)] = key;
        }
    }
    __syncthreads();
    for (int r = 0; r < rows; ++r) {
        if (shared.counts[r] > kRecomputeRoom - kRecomputeCols) {
            cut_list(shared, r, plan.wanted);
        }
    }
}

/* The nearest of a slice of the columns, for some rows. */
template <typename M>
__device__ __forceinline__ void search_slice(const Plan &plan, Recompute &shared, int rows,
                                             ptrdiff_t first, ptrdiff_t end)
{
    const int pitch = whole_folds(plan.d);
    for (int i = threadIdx.x; i < kRecomputeRows * pitch; i += kRecomputeThreads) {
        const int dim = i % pitch;
        shared.a()[i] = dim < plan.d ? plan.a.at(shared.rows[i / pitch], dim) : 0.0f;
    }
    RecomputeSums totals = {}, sums = {};
    ptrdiff_t start = first;
    int dim = 0, buffer = 0;
    if (first < end) {
        bring_fold(plan, shared, 0, first, end, 0);
    }
    while (start < end) {
        const bool last = dim + GD_FOLD >= plan.d;
        const ptrdiff_t next_start = last ? start + kRecomputeCols : start;
        const int next_dim = last ? 0 : dim + GD_FOLD;
        if (next_start < end) {
            bring_fold(plan, shared, buffer ^ 1, next_start, end, next_dim);
        }
        else {
            end_copies();
        }
        await_copies<1>();
        __syncthreads();
        add_fold<M>(shared.columns[buffer] + threadIdx.x, shared.a() + dim, pitch, sums);
        if (last || (dim + GD_FOLD) % GD_GROUP == 0) {
#pragma unroll
            for (int r = 0; r < kRecomputeRows; ++r) {
#pragma unroll
                for (int c = 0; c < kOfThread; ++c) {
                    totals[r][c] = dim < GD_GROUP ? sums[r][c] : M::join(totals[r][c], sums[r][c]);
                    sums[r][c] = 0;
                }
            }
        }
        if (last) {
            list_columns<M>(plan, shared, rows, start, end, totals);
        }
        __syncthreads(); /* everybody has read the fold */
        start = next_start, dim = next_dim, buffer ^= 1;
    }
}

template <typename M>
__global__ void __launch_bounds__(kRecomputeThreads, kRecomputeBlocks)
    recompute_direct(const __grid_constant__ Plan plan, int slices)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<Recompute *>(memory);
    const int failed = (int)plan.found->failed;
    const int items = (failed + kRecomputeRows - 1) / kRecomputeRows * slices;
    for (int item = blockIdx.x; item < items; item += gridDim.x) {
        const int top = item / slices * kRecomputeRows, slice = item % slices;
        const int rows = min(failed - top, kRecomputeRows);
        __syncthreads();
        if (threadIdx.x < kRecomputeRows) {
            shared.rows[threadIdx.x] = plan.failed_rows[top + min((int)threadIdx.x, rows - 1)];
            shared.counts[threadIdx.x] = 0;
            shared.limits[threadIdx.x] = kNoKey;
        }
        __syncthreads();
        search_slice<M>(plan, shared, rows, plan.b.count * slice / slices,
                        plan.b.count * (slice + 1) / slices);
        for (int r = 0; r < rows; ++r) {
            cut_list(shared, r, plan.wanted);
            Key *const to =
                reinterpret_cast<Key *>(plan.lists + (ptrdiff_t)(top + r) * plan.list_room) +
                slice * plan.wanted;
            for (int i = threadIdx.x; i < plan.wanted; i += kRecomputeThreads) {
                to[i] = shared.keys[r][i];
            }
        }
    }
}
static_assert(sizeof(Key) == sizeof(Candidate), "what slices leave stands in the lists");

/* What the slices of a row left, sorted. */
__global__ void __launch_bounds__(kMergeThreads)
    merge(const __grid_constant__ Plan plan, int slices)
{
    follow();
    extern __shared__ Key merged_keys[];
    Key *const keys = merged_keys;
    const int count = slices * plan.wanted, padded = next_power(count);
    for (int at = blockIdx.x; at < (int)plan.found->failed; at += gridDim.x) {
        const Key *const from =
            reinterpret_cast<const Key *>(plan.lists + (ptrdiff_t)at * plan.list_room);
        __syncthreads();
        for (int i = threadIdx.x; i < padded; i += kMergeThreads) {
            keys[i] = i < count ? from[i] : kNoKey;
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
