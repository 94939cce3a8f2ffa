/* judge.cuh: whether bytes tell enough, by what the sample says of each row. */
#ifndef GPUDIST_NEIGHBORS_BYTES_JUDGE_CUH
#define GPUDIST_NEIGHBORS_BYTES_JUDGE_CUH

#include "neighbors/bytes/images.cuh"
#include "neighbors/product/lists.cuh"
#include "neighbors/product/look.cuh"

namespace gd {
namespace filter {

/* A share of the tiles is compared with the guess as the limit; of the others a quarter as many
 * hits, if they are many, are to be expected. But where nearly as many are below what the limit is
 * to become, they are equally far away, and no limit tells them apart; nor is that known of one
 * neighbour, whose limit is the guess. */
constexpr float kOfTightened = 0.25f, kEqual = 0.9f;
/* Rows are left to direct distances to all of B as long as they are one of so many. */
constexpr int kFewCrowded = 64;
/* Shares of a list and of the log that may be expected to be full. */
constexpr float kFullList = 0.75f, kFullLog = 0.75f;

/* How many hits a row is to have: of runs with a lower bound below the limit. A warp a row. */
static __global__ void __launch_bounds__(kGuessWarps *kLanes)
    weigh(const __grid_constant__ Plan plan, Verdict *verdict, float share)
{
    follow();
    const int lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kGuessWarps + (int)threadIdx.x / kLanes;
    if (row >= plan.rows) {
        return;
    }
    if (plan.counts[row] != 0) { /* lost already */
        if (lane == 0) {
            atomicAdd(&verdict->crowded, 1);
        }
        return;
    }
    const RowFacts facts = plan.row_facts[row];
    const int count = plan.sampled * kMinima;
    const Minima minima(plan, row, 0, count);
    const float tightened = minima.nth(min(plan.wanted / plan.stride + 1, plan.nth));
    int below = 0, left = 0;
#pragma unroll
    for (int i = 0; i < kMinimaOfLane; ++i) {
        const int at = i * kLanes + lane;
        if (at < count) {
            const float e = bound(facts, plan.tile_facts[at / kMinima * plan.stride]);
            const float least = unordered(minima.values[i]) - 2 * e;
            below += least <= facts.limit;
            left += least <= fminf(tightened, facts.limit);
        }
    }
    below = __reduce_add_sync(~0u, below);
    left = __reduce_add_sync(~0u, left);
    const float runs = (float)count + 1, of_run = -log1pf(-(float)below / runs);
    const float of_others = (float)left > kEqual * (float)below ? 1.0f : kOfTightened;
    const float hits = of_run * (float)plan.tiles * kMinima * (share + (1 - share) * of_others);
    if (hits > (float)plan.list_room * kFullList) {
        set_limit(plan, row, -INFINITY);
        if (lane == 0) {
            plan.counts[row] = kLost;
            atomicAdd(&verdict->crowded, 1);
        }
    }
    else if (lane == 0) {
        atomicAdd(&verdict->hits, hits);
    }
}

/* One thread. */
static __global__ void decide(const __grid_constant__ Plan plan, Verdict *verdict)
{
    follow();
    const float room = (float)plan.chunks * kChunk * kFullLog;
    plan.found->way = verdict->crowded * kFewCrowded > (unsigned)plan.rows || verdict->hits > room;
}

}  // namespace filter
}  // namespace gd
#endif
