/* lists.cuh: the guess before the product, and from the logs after it to a list for each row. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_LISTS_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_LISTS_CUH

#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

/* Minima of a row that a lane has. */
constexpr int kMinimaOfLane = 64;
constexpr int kMostMinima = kMinimaOfLane * kLanes;
constexpr int kGuessWarps = 8;
constexpr unsigned kNearEnough = 4096; /* steps of a float: the guess need not be exact */

/* The guess is the nth least of a row's sampled minima, upper bounds of as many columns: so if nth
 * is at least the number of neighbours that are wanted, it cannot fail. A warp a row. */
static __global__ void __launch_bounds__(kGuessWarps *kLanes)
    guess(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const int lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kGuessWarps + (int)threadIdx.x / kLanes;
    if (row >= plan.rows || plan.counts[row] != 0) {
        return; /* its limit is -infinity */
    }
    const int count = plan.sampled * 8;
    const float *const from = plan.minima + (ptrdiff_t)row * count;
    unsigned values[kMinimaOfLane], low = ~0u, high = 0;
#pragma unroll
    for (int i = 0; i < kMinimaOfLane; ++i) {
        const int at = i * kLanes + lane;
        values[i] = at < count ? ordered(from[at]) : ~0u;
        low = min(low, values[i]);
        high = at < count ? max(high, values[i]) : high;
    }
    low = __reduce_min_sync(~0u, low);
    high = __reduce_max_sync(~0u, high);
    high = nth_least(values, plan.nth, low, high, kNearEnough);
    if (lane == 0) {
        const float most = plan.radii != NULL ? fminf(plan.bounds[row], plan.most) : plan.most;
        plan.row_facts[row].limit = fminf(unordered(high), most);
        if (plan.radii != NULL && unordered(high) < most) {
            atomicAdd(&plan.found->many, 1);
        }
    }
}

/* Log to lists, a block a chunk, from the chunks on that are listed already. */
static __global__ void __launch_bounds__(kChunk) scatter(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const unsigned chunks = min(plan.found->chunks, plan.chunks);
    for (unsigned i = plan.found->listed + blockIdx.x; i < chunks; i += gridDim.x) {
        const Chunk &chunk = plan.log[i];
        Place first = {-1, 0};
        Eight eight = {};
        float limit = -INFINITY;
        if (threadIdx.x < chunk.count) {
            first = chunk.places[threadIdx.x];
            eight = chunk.eights[threadIdx.x];
            const RowFacts facts = plan.row_facts[first.row];
            limit = facts.limit + bound(facts, plan.tile_facts[first.place / kTileCols]);
        }
        unsigned hits = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            hits += eight.v[k] <= limit;
        }
        unsigned at = claim_places(plan.counts, first.row, hits);
        Candidate *const list = plan.lists + (ptrdiff_t)first.row * plan.list_room;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (eight.v[k] <= limit && at++ < (unsigned)plan.list_room) {
                list[at - 1] = {first.place + k / 2 * plan.apart + k % 2, eight.v[k]};
            }
        }
    }
}

constexpr int kTightened = 1024; /* candidates of a row that are looked at */

/* Lowers limits to the k-th least of the upper bounds that there are by now, which is no guess any
 * more: a row has fewer hits in the tiles that are left. A warp a row. */
static __global__ void __launch_bounds__(kGuessWarps *kLanes)
    tighten(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const int lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kGuessWarps + (int)threadIdx.x / kLanes;
    if (row == 0 && lane == 0) {
        plan.found->listed = min(plan.found->chunks, plan.chunks);
    }
    if (row >= plan.rows || plan.counts[row] > (unsigned)plan.list_room) {
        return;
    }
    const RowFacts facts = plan.row_facts[row];
    const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + row;
    const int count = min((int)plan.counts[row], kTightened);
    const Candidate *const list = plan.lists + (ptrdiff_t)row * plan.list_room;
    unsigned upper[kTightened / kLanes], low = ~0u, below = 0;
    const unsigned limit = ordered(facts.limit);
#pragma unroll
    for (int i = 0; i < kTightened / kLanes; ++i) {
        const int at = i * kLanes + lane;
        upper[i] = ~0u;
        if (at < count) {
            const Candidate one = list[at];
            if (self < 0 || plan.column_of[one.place] != self) {
                upper[i] = ordered(one.v + bound(facts, plan.tile_facts[one.place / kTileCols]));
            }
        }
        low = min(low, upper[i]);
        below += upper[i] <= limit;
    }
    low = __reduce_min_sync(~0u, low);
    if ((int)__reduce_add_sync(~0u, below) < plan.wanted) {
        return;
    }
    const unsigned least = nth_least(upper, plan.wanted, low, limit, kNearEnough);
    if (lane == 0) {
        plan.row_facts[row].limit = unordered(least);
    }
}

}  // namespace filter
}  // namespace gd
#endif
