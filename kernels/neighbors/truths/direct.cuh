/* direct.cuh: the nearest of rows among some columns by looking at each pair: of all rows among the
 * first columns, which gives limits for all others; and of rows that failed, among all.
 *
 * A block takes some rows, and a thread a column at a time; a row's list in shared memory is cut to
 * the nearest when it is full. Bound by counting bits, 16 words a clock and multiprocessor: 90 ms
 * for 10,000 x 1,000,000 x 1024 on an H100. */
#ifndef GPUDIST_NEIGHBORS_TRUTHS_DIRECT_CUH
#define GPUDIST_NEIGHBORS_TRUTHS_DIRECT_CUH

#include "neighbors/truths/arrange.cuh"

namespace gd {
namespace truths {

constexpr int kDirectThreads = 256, kDirectRows = 4;

/* Columns [first, end), of all rows, or of those that failed. room: of a list, a power of two. */
struct Direct {
    int end, room;
    bool failed;
};
template <typename T>
size_t bytes_of_direct(int room)
{
    return (size_t)kDirectRows * ((size_t)room * sizeof(KeyOf<T>) + kMostTruths / 8);
}

/* What a block has in shared memory beside its lists. */
template <typename T>
struct DirectLists {
    KeyOf<T> limits[kDirectRows]; /* what is not below belongs to no list */
    int counts[kDirectRows], rows[kDirectRows], ones[kDirectRows];
};

/* Cuts a list to the nearest. All threads of the block. */
template <typename T>
__device__ __forceinline__ void cut_list(KeyOf<T> *keys, KeyOf<T> &limit, int &listed, int wanted)
{
    const int count = listed;
    int padded = 2;
    while (padded < count) {
        padded *= 2;
    }
    for (int i = count + (int)threadIdx.x; i < padded; i += kDirectThreads) {
        keys[i] = filter::no_key<T>();
    }
    filter::sort<filter::Block>(keys, padded);
    if (threadIdx.x == 0 && count >= wanted) {
        listed = wanted;
        limit = keys[wanted - 1];
    }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(kDirectThreads)
    search_directly(const __grid_constant__ PlanOf<T> plan, Direct direct)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ DirectLists<T> lists;
    auto *const keys = reinterpret_cast<KeyOf<T> *>(memory);
    auto *const a = reinterpret_cast<uint4 *>(keys + kDirectRows * direct.room);
    const int thread = (int)threadIdx.x;
    const int all = direct.failed ? (int)plan.found->failed : plan.rows;
    for (int top = (int)blockIdx.x * kDirectRows; top < all; top += (int)gridDim.x * kDirectRows) {
        const int rows = min(all - top, kDirectRows);
        __syncthreads();
        if (thread < kDirectRows) {
            const int at = top + min(thread, rows - 1);
            const int row = direct.failed ? plan.failed_rows[at] : at;
            lists.rows[thread] = row;
            lists.ones[thread] = plan.ones_of_a[row];
            lists.counts[thread] = 0;
            lists.limits[thread] = filter::no_key<T>();
        }
        __syncthreads();
        for (int i = thread; i < kDirectRows * plan.groups; i += kDirectThreads) {
            a[i] = load_group(plan.a, lists.rows[i / plan.groups], i % plan.groups);
        }
        __syncthreads();
        for (int start = 0; start < direct.end; start += kDirectThreads) {
            const int column = start + thread;
            int both[kDirectRows] = {};
            if (column < direct.end) {
                for (int group = 0; group < plan.groups; ++group) {
                    const uint4 y = load_group(plan.b, column, group);
#pragma unroll
                    for (int r = 0; r < kDirectRows; ++r) {
                        const uint4 x = a[r * plan.groups + group];
                        both[r] += ones_in(make_uint4(x.x & y.x, x.y & y.y, x.z & y.z, x.w & y.w));
                    }
                }
                const int ones = plan.ones_of_b[column];
#pragma unroll
                for (int r = 0; r < kDirectRows; ++r) {
                    const int row = lists.rows[r];
                    const KeyOf<T> key =
                        key_of(plan, row, plan.nearness(both[r], lists.ones[r], ones), column);
                    const bool itself = plan.self >= 0 && column == plan.self + row;
                    if (r < rows && !itself && key < lists.limits[r]) {
                        keys[r * direct.room + atomicAdd(&lists.counts[r], 1)] = key;
                    }
                }
            }
            __syncthreads();
            const bool full = thread < rows && lists.counts[thread] > direct.room - kDirectThreads;
            if (__syncthreads_or(full)) {
                for (int r = 0; r < rows; ++r) {
                    cut_list<T>(keys + r * direct.room, lists.limits[r], lists.counts[r],
                                plan.wanted);
                }
            }
        }
        for (int r = 0; r < rows; ++r) {
            KeyOf<T> *const list = keys + r * direct.room;
            cut_list<T>(list, lists.limits[r], lists.counts[r], plan.wanted);
            for (int i = thread; i < plan.wanted; i += kDirectThreads) {
                write_neighbor(plan, lists.rows[r], i,
                               i < lists.counts[r] ? list[i] : filter::no_key<T>());
            }
        }
    }
}

}  // namespace truths
}  // namespace gd
#endif
