/* judge.cuh: whether bytes tell enough, by what the sample says of each row. */
#ifndef GPUDIST_NEIGHBORS_BYTES_JUDGE_CUH
#define GPUDIST_NEIGHBORS_BYTES_JUDGE_CUH

#include "neighbors/bytes/images.cuh"
#include "neighbors/product/lists.cuh"
#include "neighbors/product/look.cuh"

namespace gd {
namespace filter {

/* A share of the tiles is compared with the guess as the limit; of the others a quarter as many
 * hits, if they are many, are to be expected. */
constexpr float kOfTightened = 0.25f;
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
    const float *const from = plan.minima + (ptrdiff_t)row * plan.minima_pitch;
    int below = 0;
    for (int at = lane; at < count; at += kLanes) {
        const float e = bound(facts, plan.tile_facts[at / kMinima * plan.stride]);
        below += from[at] - 2 * e <= facts.limit;
    }
    below = __reduce_add_sync(~0u, below);
    const float runs = (float)count + 1, of_run = -log1pf(-(float)below / runs);
    const float hits = of_run * (float)plan.tiles * kMinima * (share + (1 - share) * kOfTightened);
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
