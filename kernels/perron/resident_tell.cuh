/* resident_tell.cuh: how the blocks that stay tell each other what they have got.
 *
 * What a block writes for the others, its part of the next vector and what it found in a round, are
 * numbers of 64 bits, the last of which is a stamp: it changes each time the place is written
 * again, so a reader sees by the number itself whether it is the new one, and reads again if not.
 * No flag is written behind the numbers, no fence orders them, and one way through the L2 cache is
 * all that a round waits for. The stamp costs nothing: bounds hold for any positive vector, this
 * one included, and have room for one more rounding.
 *
 * There are two places for each, in turns. A block writes what round k + 2 leaves only after it had
 * all of what round k + 1 left, which every block writes after its last look at round k's. */
#ifndef GPUDIST_PERRON_RESIDENT_TELL_CUH
#define GPUDIST_PERRON_RESIDENT_TELL_CUH

#include "arch/signals.cuh"
#include "common/launch.cuh"
#include "perron_judge.h"

namespace gd::resident {

/* What `round` leaves is stamped so, in the place round % 2. Before the first use there are ones.
 */
__device__ __forceinline__ uint64_t stamp_of(int64_t round) { return (uint64_t)(round / 2 & 1); }

__device__ __forceinline__ double stamped(double x, uint64_t stamp)
{
    return __longlong_as_double((long long)(((uint64_t)__double_as_longlong(x) & ~1ull) | stamp));
}

__device__ __forceinline__ bool has_stamp(double x, uint64_t stamp)
{
    return ((uint64_t)__double_as_longlong(x) & 1) == stamp;
}

struct alignas(64) Slot {
    gd_perron_found found;
    double doubts; /* a small whole number, which a stamp leaves its whole part */
};
static_assert(sizeof(Slot) == 64 && sizeof(gd_perron_found) == 40, "six numbers, aligned");

/* No device of compute capability 9.0 has more multiprocessors. */
constexpr int kMostBlocks = 160;

__device__ __forceinline__ void tell(Slot *slot, const gd_perron_found &found, int doubts,
                                     uint64_t stamp)
{
    /* A stamped infinity would be NaN. */
    store_relaxed(&slot->found.least, stamped(gd_perron_lesser(found.least, DBL_MAX), stamp));
    store_relaxed(&slot->found.most, stamped(gd_perron_lesser(found.most, DBL_MAX), stamp));
    store_relaxed(&slot->found.xy, stamped(found.xy, stamp));
    store_relaxed(&slot->found.xx, stamped(found.xx, stamp));
    store_relaxed(&slot->found.top, stamped(found.top, stamp));
    store_relaxed(&slot->doubts, stamped((double)doubts, stamp));
}

__device__ __forceinline__ double shuffled(double x, int lanes)
{
    return __shfl_xor_sync(~0u, x, lanes);
}

/* Over the lanes of a warp, the same in each. */
__device__ __forceinline__ void join_lanes(gd_perron_found &found)
{
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const gd_perron_found other = {shuffled(found.least, lanes), shuffled(found.most, lanes),
                                       shuffled(found.xy, lanes), shuffled(found.xx, lanes),
                                       shuffled(found.top, lanes)};
        gd_perron_join(&found, &other);
    }
}

/* Waits until the blocks of `kSlots` slots a lane, from slot `first` on, have told what they found,
 * and joins it. All loads are under way at once. */
template <int kSlots>
__device__ __forceinline__ void hear_slots(const Slot *slots, int first, int blocks, uint64_t stamp,
                                           gd_perron_found &found, int &doubts)
{
    const int lane = threadIdx.x % 32;
    double2 heard[kSlots][3];
    bool all;
    do {
        all = true;
#pragma unroll
        for (int i = 0; i < 3 * kSlots; ++i) {
            const int block = min(first + lane + i / 3 * 32, blocks - 1);
            heard[i / 3][i % 3] = load_two_relaxed(&slots[block].found.least + i % 3 * 2);
        }
#pragma unroll
        for (int i = 0; i < 3 * kSlots; ++i) {
            all &=
                has_stamp(heard[i / 3][i % 3].x, stamp) && has_stamp(heard[i / 3][i % 3].y, stamp);
        }
    } while (!all);
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
        if (first + lane + i * 32 < blocks) {
            const gd_perron_found theirs = {heard[i][0].x, heard[i][0].y, heard[i][1].x,
                                            heard[i][1].y, heard[i][2].x};
            gd_perron_join(&found, &theirs);
            doubts |= (int)heard[i][2].y;
        }
    }
    __syncwarp();
}

/* Joins what all blocks found, in the same order in every block. Called by one whole warp. */
__device__ __forceinline__ gd_perron_found gather(const Slot *slots, int blocks, uint64_t stamp,
                                                  int &doubts)
{
    constexpr int kHalf = (kMostBlocks / 32 + 1) / 2; /* all at once take too many registers */
    gd_perron_found found = gd_perron_found_none();
    doubts = 0;
    hear_slots<kHalf>(slots, 0, blocks, stamp, found, doubts);
    hear_slots<kMostBlocks / 32 - kHalf>(slots, 32 * kHalf, blocks, stamp, found, doubts);
    join_lanes(found);
    doubts = (int)__reduce_or_sync(~0u, (unsigned)doubts);
    return found;
}

}  // namespace gd::resident
#endif
