/* look.cuh: what becomes of counts, of 64 rows of A with a tile of B.
 *
 * Eight columns of a row are near enough if the largest of their counts is that of the fewest ones
 * of 32 neighbours by their ones. Those few that are go to a log, which needs no atomics, and are
 * looked at one by one later. */
#ifndef GPUDIST_NEIGHBORS_TRUTHS_LOOK_CUH
#define GPUDIST_NEIGHBORS_TRUTHS_LOOK_CUH

#include "neighbors/truths/operands.cuh"

namespace gd {
namespace truths {

/* Products of truths, see filter::Halves. */
template <int kStepCount>
struct Truths {
    using Call = Plan;
    static constexpr int kSteps = kStepCount;
    static constexpr bool kTakesTurns = kSteps > 4;
    using Image = Columns<kSteps>;
    struct Facts {};
    using Sums = int[kTileCols / 2];
    using Hits = filter::Log;
    /* The least counts of a thread's two rows, for each 32 columns. They are on their way while
     * tensor cores multiply. */
    struct Limits {
        int least[2][kRuns];
    };

    /* Truths have no centres. */
    struct ByCentre {
        const unsigned char *images;
    };
    static __device__ __forceinline__ constexpr bool lists_units(const Plan &, bool)
    {
        return false;
    }
    static __device__ __forceinline__ ByCentre by_centre(const Plan &plan, int)
    {
        return {plan.images};
    }
    static __device__ __forceinline__ unsigned log_room(const Plan &plan) { return plan.chunks; }
    static __device__ __forceinline__ Limits limits(const Plan &plan, const Image &columns, int row)
    {
        Limits limits;
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
            const uint16_t *const from = plan.limits + columns.least[run] * plan.pitch + row;
            limits.least[0][run] = __ldg(from);
            limits.least[1][run] = __ldg(from + 8);
        }
        return limits;
    }
    static __device__ __forceinline__ void look(const Plan &plan, const Sums &acc, const Image &,
                                                const Facts *, const Limits &limits, int row,
                                                int tile, Hits &log);
    static __device__ __forceinline__ void close(const Plan &plan, const Hits &log)
    {
        filter::close_log(plan, log);
    }
};

/* The largest count of eight columns of one of a thread's two rows. */
template <typename Sums>
__device__ __forceinline__ int largest_of(const Sums &acc, int run, int r)
{
    int most = 0;
#pragma unroll
    for (int i = run * 4; i < run * 4 + 4; ++i) {
        most = __vimax3_s32(most, acc[4 * i + 2 * r], acc[4 * i + 2 * r + 1]);
    }
    return most;
}

/* Logs the groups of eight that may be near enough. row: the first of a lane's two. found: a bit
 * for each run and row that may. Beyond the log's end rows are lost. */
template <typename Sums>
__device__ __forceinline__ void log_groups(const Plan &plan, const Sums &acc, unsigned found,
                                           int row, int place, filter::Log &log)
{
    const int lane = (int)this_thread() % kLanes;
    unsigned left = __reduce_or_sync(~0u, found);
    left = (left | left >> kRuns) & ((1u << kRuns) - 1);
#pragma unroll 1
    while (true) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
            if (!(left & 1u << run)) {
                continue;
            }
            unsigned some[2];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                some[r] = __ballot_sync(~0u, found >> (r * kRuns + run) & 1);
            }
            if (log.used + __popc(some[0]) + __popc(some[1]) > kChunk) {
                continue; /* until there is a chunk with room */
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if (some[r] >> lane & 1) {
                    const unsigned at = log.used + __popc(some[r] & ((1u << lane) - 1));
                    if (log.chunk < log.room) {
                        Chunk &chunk = plan.log[log.chunk];
                        const auto pair = [&](int i) {
                            const int from = run * 16 + i * 4 + 2 * r;
                            return (unsigned)acc[from] | (unsigned)acc[from + 1] << 16;
                        };
                        chunk.counts[at] = make_uint4(pair(0), pair(1), pair(2), pair(3));
                        chunk.places[at] = {row + 8 * r, place + run * kRun + lane % 4 * 2};
                    }
                    else {
                        atomicOr(&plan.counts[row + 8 * r], kLost);
                    }
                }
                log.used += __popc(some[r]);
            }
            left &= ~(1u << run);
        }
        if (left == 0) {
            return;
        }
        filter::take_chunk(plan, log);
    }
}

template <int kSteps>
__device__ __forceinline__ void Truths<kSteps>::look(const Plan &plan, const Sums &acc,
                                                     const Image &, const Facts *,
                                                     const Limits &limits, int row, int tile,
                                                     Hits &log)
{
    unsigned found = 0;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (largest_of(acc, run, r) >= limits.least[r][run]) {
                found |= 1u << (r * kRuns + run);
            }
        }
    }
    if (__any_sync(~0u, found != 0)) {
        log_groups(plan, acc, found, row, tile * kTileCols, log);
    }
}

}  // namespace truths
}  // namespace gd
#endif
