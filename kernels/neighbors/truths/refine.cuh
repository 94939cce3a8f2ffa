/* refine.cuh: from rows' lists to the counts that columns have to have; and from the log to lists
 * that have the nearest of these columns as well. All columns that lists were made of come before
 * those that are looked at: one that is no nearer than a list's last is not its neighbour, as ties
 * go to the smaller index. So many columns may be at just that distance. */
#ifndef GPUDIST_NEIGHBORS_TRUTHS_REFINE_CUH
#define GPUDIST_NEIGHBORS_TRUTHS_REFINE_CUH

#include "neighbors/truths/operands.cuh"

namespace gd {
namespace truths {

constexpr int kLimitThreads = 256, kLimitEach = 16;

/* Blocks of 256 rows and 16 numbers of ones. */
inline ptrdiff_t blocks_of_limits(const Plan &plan)
{
    return plan.pitch / kLimitThreads * ceil_div(plan.d + 1, kLimitEach);
}
template <typename T>
__global__ void __launch_bounds__(kLimitThreads) find_limits(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        plan.found->chunks = 0;
    }
    const int strips = (int)(plan.pitch / kLimitThreads);
    const int row = (int)blockIdx.x % strips * kLimitThreads + (int)threadIdx.x;
    const int least = plan.found->least + (int)blockIdx.x / strips * kLimitEach;
    const int end = min(least + kLimitEach, plan.found->most + 1);
    const bool never = row >= plan.rows || (plan.counts[row] & kFailed);
    if (least >= end) {
        return;
    }
    const Limit<T> limit(plan, never ? 0 : row);
    const int x = plan.ones_of_a[row];
    int both = 0;
    for (int y = least; y < end; ++y) {
        const int most = min(x, y);
        both = max(both, x + y - (int)plan.d);
        if (y == least) { /* near enough from `high` on, if not before */
            int high = most + 1;
            while (both < high) {
                const int middle = (both + high) / 2;
                if (limit.passes(plan.nearness(middle, x, y))) {
                    high = middle;
                }
                else {
                    both = middle + 1;
                }
            }
        }
        while (both <= most && !limit.passes(plan.nearness(both, x, y))) {
            ++both;
        }
        plan.limits[y * plan.pitch + row] = never ? (uint16_t)kNever : (uint16_t)both;
    }
}

/* Log to lists, a block a chunk. */
__global__ void __launch_bounds__(kChunk) list_hits(const __grid_constant__ Plan plan)
{
    follow();
    const unsigned chunks = min(plan.found->chunks, plan.chunks);
    for (unsigned i = blockIdx.x; i < chunks; i += gridDim.x) {
        const Chunk &chunk = plan.log[i];
        filter::Place first = {0, 0};
        int both[8] = {};
        unsigned near = 0;
        if (threadIdx.x < chunk.count) {
            first = chunk.places[threadIdx.x];
            const uint4 counts = chunk.counts[threadIdx.x];
            const unsigned pairs[4] = {counts.x, counts.y, counts.z, counts.w};
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int place = first.place + k / 2 * 8 + k % 2;
                const int column = plan.column_of[place];
                both[k] = (int)(pairs[k / 2] >> k % 2 * 16 & 0xffff);
                if (column >= 0 && !(plan.self >= 0 && column == plan.self + first.row) &&
                    both[k] >= plan.limits[plan.ones_of_place[place] * plan.pitch + first.row]) {
                    near |= 1u << k;
                }
            }
        }
        unsigned at = filter::claim_places(plan.counts, first.row, __popc(near));
        Hit *const list = plan.lists + (ptrdiff_t)first.row * plan.list_room;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if ((near >> k & 1) && at++ < (unsigned)plan.list_room) {
                list[at - 1] = {first.place + k / 2 * 8 + k % 2, both[k]};
            }
        }
    }
}

constexpr int kMergeThreads = 128;

/* Merges a row's hits into its neighbours, a block a row; or the row fails. In shared memory is
 * room for both, up to a power of two. */
template <typename T>
__global__ void __launch_bounds__(kMergeThreads) merge_hits(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto *const keys = reinterpret_cast<KeyOf<T> *>(memory);
    const int row = (int)blockIdx.x, thread = (int)threadIdx.x;
    const unsigned hits = plan.counts[row];
    __syncthreads(); /* all have read it */
    if (hits == 0 || (hits & kFailed)) {
        return;
    }
    if (hits > (unsigned)plan.list_room) {
        if (thread == 0) {
            plan.failed_rows[atomicAdd(&plan.found->failed, 1)] = row;
            plan.counts[row] = kFailed;
        }
        return;
    }
    const int count = plan.wanted + (int)hits, ones = plan.ones_of_a[row];
    int padded = 2;
    while (padded < count) {
        padded *= 2;
    }
    for (int i = thread; i < padded; i += kMergeThreads) {
        KeyOf<T> key = filter::no_key<T>();
        if (i < plan.wanted) {
            const ptrdiff_t at = (ptrdiff_t)row * plan.wanted + i;
            if (plan.indices[at] >= 0) {
                key = filter::key_of(plan.nearness_of(plan.distances[at]),
                                     (unsigned)plan.indices[at]);
            }
        }
        else if (i < count) {
            const Hit hit = plan.lists[(ptrdiff_t)row * plan.list_room + i - plan.wanted];
            key = key_of(plan, row, plan.nearness(hit.both, ones, plan.ones_of_place[hit.place]),
                         plan.column_of[hit.place]);
        }
        keys[i] = key;
    }
    filter::sort<filter::Block>(keys, padded);
    for (int i = thread; i < plan.wanted; i += kMergeThreads) {
        write_neighbor(plan, row, i, keys[i]);
    }
    if (thread == 0) {
        plan.counts[row] = 0;
    }
}

/* Counts rows that seem to have more neighbours than are wanted, by those among the first columns,
 * a thread a row. */
__global__ void __launch_bounds__(kMergeThreads)
    look_for_many(const __grid_constant__ Plan plan, int first)
{
    follow();
    constexpr int kSure = 2; /* times those that are wanted */
    const int row = (int)(blockIdx.x * kMergeThreads + threadIdx.x);
    const ptrdiff_t enough = (ptrdiff_t)kSure * plan.wanted * first / plan.b.count + 16;
    if (row < plan.rows && enough <= plan.wanted &&
        plan.indices[(ptrdiff_t)row * plan.wanted + enough - 1] >= 0) {
        atomicAdd(&plan.found->many, 1);
    }
}

}  // namespace truths
}  // namespace gd
#endif
