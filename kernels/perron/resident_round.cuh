/* resident_round.cuh: the warps that multiply.
 *
 * A thread has a 16-byte word of four rows of a tile, with the word's values of x in registers;
 * 1024 columns of x are in shared memory at a time, the next 1024 on their way. At the end of a
 * group of rows the sums meet, and the first warp writes the rows' part of the next x and what the
 * round found. */
#ifndef GPUDIST_PERRON_RESIDENT_ROUND_CUH
#define GPUDIST_PERRON_RESIDENT_ROUND_CUH

#include "perron/resident_multiply.cuh"

namespace gd::resident {

/* The vector that a round takes: as it was at the launch, or as the blocks tell it. */
struct Vector {
    const double *from;
    ptrdiff_t n, padded;
    bool told;
    uint64_t stamp;

    __device__ double2 two(ptrdiff_t at) const
    {
        if (at >= padded) {
            return {};
        }
        double2 x = load_two_relaxed(from + at);
        while (told &&
               !((at >= n || has_stamp(x.x, stamp)) && (at + 1 >= n || has_stamp(x.y, stamp)))) {
            x = load_two_relaxed(from + at);
        }
        return {at < n ? x.x : 0, at + 1 < n ? x.y : 0};
    }
};

/* A span's values, two for each thread. */
template <typename T>
__device__ __forceinline__ double2 span_of(const Vector &x, const Step<T> &step)
{
    return x.two((ptrdiff_t)step.first_chunk * Share<T>::kChunkCols + threadIdx.x * 2);
}

template <typename T>
__device__ __forceinline__ void put(double *to, double2 values)
{
    reinterpret_cast<double2 *>(to)[threadIdx.x] = {values.x * kUnwidened<T>,
                                                    values.y * kUnwidened<T>};
}

/* Multiplies a chunk of the columns by its part of x, which is in `x`: the tiles that a step has
 * there, as they come. */
template <typename T, bool kScan>
__device__ __forceinline__ void multiply_chunk(const Job<T> &job, const Share<T> &share,
                                               const Step<T> &step, int chunk, const char *ring,
                                               const double *x, Shared<T> &shared, unsigned &tile,
                                               double *sums, unsigned &doubts)
{
    constexpr int kEach = kPerWord<T>;
    const int word = threadIdx.x % kTileWords<T>;
    const int words = min(kTileWords<T>, share.words - chunk * kTileWords<T>);
    const int cols =
        (int)min(job.n - (ptrdiff_t)chunk * share.kChunkCols, (ptrdiff_t)share.kChunkCols);
    double factors[kEach];
#pragma unroll
    for (int j = 0; j < kEach; j += 2) {
        load_word(x + (chunk - step.first_chunk) * share.kChunkCols + word * kEach + j,
                  factors + j);
    }
#pragma unroll
    for (int t = 0; t < kGroupTiles; ++t) {
        if (t < step.tiles) {
            const unsigned buffer = tile % kBuffers;
            barrier_wait(&shared.full[buffer], share.stays ? 0 : tile / kBuffers & 1);
            if (word < words) {
                multiply<T, kScan>(sums + t * kRowsEach, ring + buffer * kTileBytes, factors,
                                   step.rows - t * kTileRows<T>, cols, doubts);
            }
            /* Each thread arrives for its own reads, as checkers understand it. */
            if (!share.stays) {
                barrier_arrive(&shared.empty[buffer]);
            }
            ++tile;
        }
    }
}

/* The consumers' part of one round; false if the verdict on the round before was to stop. */
template <typename T, bool kScan>
__device__ bool do_round(const Job<T> &job, const Share<T> &share, const char *ring,
                         Shared<T> &shared, int64_t round, int64_t first, unsigned &tile)
{
    const bool backwards = share.backwards(round);
    const Vector x = {round == first ? job.vectors + round % GD_PERRON_KEPT * job.padded
                                     : job.exchange + (round - 1) % 2 * job.padded,
                      job.n, job.padded, round > first, stamp_of(round - 1)};
    double *told = job.exchange + round % 2 * job.padded;
    double *kept = job.vectors + (round + 1) % GD_PERRON_KEPT * job.padded;
    double sums[kSums] = {};
    Verdict verdict = {shared.state.scale, false}; /* of the launch's state, in its first round */
    unsigned doubts = 0;
    if (threadIdx.x < 32) {
        shared.found[threadIdx.x] = gd_perron_found_none();
    }
    put<T>(shared.x[0], span_of(x, Step<T>(share, 0, backwards)));
    sync_consumers();
    for (int s = 0; s < share.steps; ++s) {
        const Step<T> step(share, s, backwards);
        double2 ahead = {};
        if (s + 1 < share.steps) {
            ahead = span_of(x, Step<T>(share, s + 1, backwards));
        }
        const ptrdiff_t row = share.first_row + step.row + threadIdx.x;
        if (step.begins && threadIdx.x < step.rows) {
            /* This thread wrote it, if it was not there at the launch. */
            shared.own[threadIdx.x] = load_relaxed(x.from + row);
        }
        for (int c = 0; c < step.chunks; ++c) {
            multiply_chunk<T, kScan>(job, share, step, step.chunk(c), ring, shared.x[s % 2], shared,
                                     tile, sums, doubts);
        }
        put<T>(shared.x[(s + 1) % 2], ahead);
        if (step.ends) {
            hand_over<T>(sums, shared.sums[step.group % 2]);
            if (kScan && doubts >= kDoubtful<T>) {
                atomicOr(&shared.doubts, 1);
            }
        }
        /* Nobody waits for the verdict on the round before until something is to be written, but a
         * round that was not needed should end soon. */
        uint64_t *const judged = &shared.judged[(round + 1) % 2];
        const unsigned parity = (unsigned)((round - 1 - first) / 2 & 1);
        if (threadIdx.x == 0) {
            shared.leave[s % 2] = round > first && barrier_is_past(judged, parity) &&
                                  shared.verdicts[(round + 1) % 2].stop;
        }
        sync_consumers();
        bool leave = shared.leave[s % 2];
        if (step.ends && round > first) {
            barrier_wait(judged, parity);
            verdict = shared.verdicts[(round + 1) % 2];
            leave = verdict.stop;
        }
        if (leave) {
            if (threadIdx.x == 0) {
                barrier_arrive(&shared.stopped);
            }
            return false;
        }
        if (!step.ends) {
            continue;
        }
        /* The other warps go on; they come back to these sums after two more such barriers. */
        if (threadIdx.x < step.rows) {
            const double own = shared.own[threadIdx.x];
            double y = 0;
#pragma unroll
            for (int part = 0; part < kParts<T>; ++part) {
                y += shared.sums[step.group % 2][part][threadIdx.x];
            }
            const double next =
                stamped(gd_perron_next(y, own, job.shift, verdict.scale), stamp_of(round));
            store_relaxed(told + row, next);
            kept[row] = next;
            gd_perron_note(&shared.found[threadIdx.x], y, own, next, gd_perron_lost(job.n));
        }
    }
    if (round > first) {
        barrier_arrive(&shared.heard[(round + 1) % 2]);
    }
    if (threadIdx.x < 32) {
        gd_perron_found found = shared.found[threadIdx.x];
        join_lanes(found);
        if (threadIdx.x == 0) {
            tell(job.slots + round % 2 * gridDim.x + blockIdx.x, found, shared.doubts,
                 stamp_of(round));
        }
    }
    return true;
}

template <typename T>
__device__ void consume(const Job<T> &job, const Share<T> &share, const char *ring,
                        Shared<T> &shared, int64_t first)
{
    unsigned tile = 0;
    bool goes_on = true;
    for (int64_t round = first; round < job.until && goes_on; ++round) {
        goes_on = round == first && job.scan
                      ? do_round<T, true>(job, share, ring, shared, round, first, tile)
                      : do_round<T, false>(job, share, ring, shared, round, first, tile);
        tile = share.stays ? 0 : tile;
    }
}

}  // namespace gd::resident
#endif
