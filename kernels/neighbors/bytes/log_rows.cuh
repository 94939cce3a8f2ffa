/* log_rows.cuh: from the 8 x 8 numbers of a thread to the log, eight of a row at a time. */
#ifndef GPUDIST_NEIGHBORS_BYTES_LOG_ROWS_CUH
#define GPUDIST_NEIGHBORS_BYTES_LOG_ROWS_CUH

#include "neighbors/product/look.cuh"

namespace gd {
namespace filter {

constexpr int kPairs = 8; /* a thread has so many rows, and columns */

/* Logs the groups of eight that are `near`. row, place: of the thread's first pair; its rows are
 * kApart apart. All lanes of a warp call this. Beyond the log's end rows are lost. */
template <int kApart, typename V>
__device__ __forceinline__ void log_rows(const Plan &plan, const V (&sums)[kPairs][kPairs],
                                         const bool (&near)[kPairs], int row, int place, Log &log)
{
    const unsigned before = (1u << this_thread() % kLanes) - 1;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        const unsigned some = __ballot_sync(~0u, near[i]);
        if (some == 0) {
            continue;
        }
        if (log.used + __popc(some) > kChunk) {
            take_chunk(plan, log);
        }
        if (near[i] && log.chunk < log.room) {
            const unsigned at = log.used + __popc(some & before);
            Chunk &chunk = plan.log[log.chunk];
            float v[kPairs];
#pragma unroll
            for (int j = 0; j < kPairs; ++j) {
                v[j] = (float)sums[i][j];
            }
            store_word(chunk.eights[at].v, v);
            store_word(chunk.eights[at].v + 4, v + 4);
            chunk.places[at] = {row + kApart * i, place};
        }
        else if (near[i]) {
            atomicOr(&plan.counts[row + kApart * i], kLost);
        }
        log.used += __popc(some);
    }
}

/* Where the least of a run of columns of a sampled tile goes, the first row's of a thread. */
__device__ __forceinline__ float *minima_of(const Plan &plan, ptrdiff_t row, int sampled, int run)
{
    return plan.minima + row * plan.minima_pitch + sampled * kMinima + run;
}

}  // namespace filter
}  // namespace gd
#endif
