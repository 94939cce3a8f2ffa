/* resident_judge.cuh: the warp that judges.
 *
 * It gathers what all blocks found while the others are at the next round already, which needs the
 * verdict only where it writes. */
#ifndef GPUDIST_PERRON_RESIDENT_JUDGE_CUH
#define GPUDIST_PERRON_RESIDENT_JUDGE_CUH

#include "perron/resident.cuh"

namespace gd::resident {

/* Every lane judges for itself, in registers, which takes no longer than one. */
template <typename T>
__device__ void judge(const Job<T> &job, Shared<T> &shared, gd_perron_state state)
{
    const int64_t first = state.round;
    bool scan = job.scan, stop = false;
    while (!stop) {
        const int64_t round = state.round, before = (round - first) / 2;
        int doubts;
        const gd_perron_found found =
            gather(job.slots + round % 2 * gridDim.x, gridDim.x, stamp_of(round), doubts);
        state.doubts |= doubts;
        gd_perron_judge(&state, &found, job.tol, job.shift, job.roundings, scan);
        stop = state.stop != GD_PERRON_GOING || state.round >= job.until;
        if (before > 0) { /* nobody looks at the verdict that is overwritten */
            barrier_wait(&shared.heard[round % 2], (unsigned)(before - 1) & 1);
        }
        if (threadIdx.x % 32 == 0) {
            shared.verdicts[round % 2] = {state.scale, state.stop != GD_PERRON_GOING};
            barrier_arrive(&shared.judged[round % 2]);
        }
        scan = false;
    }
    if (blockIdx.x == 0 && threadIdx.x % 32 == 0) {
        *job.state = state;
    }
}

}  // namespace gd::resident
#endif
