/* resident_fetch.cuh: the warp that fetches.
 *
 * It keeps a ring of tiles in shared memory full by bulk copies that announce their bytes at a
 * barrier. A does not depend on x, so it goes on into the next round while the blocks exchange x:
 * memory never pauses. A share that fits the ring, up to 192 KB, is fetched once. */
#ifndef GPUDIST_PERRON_RESIDENT_FETCH_CUH
#define GPUDIST_PERRON_RESIDENT_FETCH_CUH

#include "perron/resident.cuh"

namespace gd::resident {

template <typename T>
__device__ void fetch(const Job<T> &job, const Share<T> &share, char *ring, Shared<T> &shared,
                      int64_t first)
{
    const int lane = threadIdx.x % 32;
    unsigned tile = 0;
    const int64_t last = share.stays ? first + 1 : job.until;
    for (int64_t round = first; round < last && !has_stopped(shared); ++round) {
        for (int s = 0; s < share.steps && !has_stopped(shared); ++s) {
            const Step<T> step(share, s, share.backwards(round));
            for (int t = 0; t < step.chunks * step.tiles; ++t, ++tile) {
                const int chunk = step.chunk(t / step.tiles);
                const int row = t % step.tiles * kTileRows<T>;
                const int rows = min(kTileRows<T>, step.rows - row);
                const int words = min(kTileWords<T>, share.words - chunk * kTileWords<T>);
                const unsigned buffer = tile % kBuffers, turn = tile / kBuffers;
                /* Consumers that have stopped leave buffers as they are. */
                while (turn > 0 && !barrier_is_past(&shared.empty[buffer], (turn - 1) & 1) &&
                       !has_stopped(shared)) {
                }
                if (__any_sync(~0u, has_stopped(shared))) {
                    break;
                }
                if (lane == 0) {
                    barrier_expect(&shared.full[buffer], (unsigned)(rows * words * 16));
                }
                __syncwarp();
                if (lane < rows) {
                    bulk_copy(ring + buffer * kTileBytes + lane * kRowBytes<T>,
                              job.a + (share.first_row + step.row + row + lane) * job.stride +
                                  (ptrdiff_t)chunk * share.kChunkCols,
                              (unsigned)(words * 16), &shared.full[buffer]);
                }
            }
        }
    }
    /* Shared memory must outlive what is still on its way to it. */
    for (unsigned t = tile > kBuffers ? tile - kBuffers : 0; t < tile; ++t) {
        barrier_wait(&shared.full[t % kBuffers], t / kBuffers & 1);
    }
}

}  // namespace gd::resident
#endif
