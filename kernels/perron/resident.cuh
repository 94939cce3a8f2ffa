/* resident.cuh: how blocks that stay on the device through all rounds share out the matrix, fetch
 * it, and wait for each other.
 *
 * Fetching: one warp keeps a ring of tiles in shared memory full, by bulk copies that announce
 * their bytes at a barrier. What it fetches does not depend on the vector, so it runs ahead into
 * the next round while the blocks wait for each other: memory never pauses. A block whose whole
 * share fits the ring fetches it once.
 *
 * Waiting: every block has a slot in global memory, with what it found in a round and that round's
 * number; every block reads all slots, so each comes to the same verdict by itself. Slots take
 * turns: a block writes round k + 2 only after all have published k + 1, so have read k. */
#ifndef GPUDIST_PERRON_RESIDENT_CUH
#define GPUDIST_PERRON_RESIDENT_CUH

#include "common.cuh"
#include "perron_judge.h"

namespace gd {

/* ---------------------------------------------------------------- barriers in shared memory */

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

/* Whether the phase of that parity is over; waits a little for it. */
__device__ __forceinline__ bool barrier_passed(uint64_t *barrier, unsigned parity)
{
    unsigned passed;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(passed)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return passed;
}

/* 16 bytes or a multiple, both ends aligned to 16. */
__device__ __forceinline__ void bulk_copy(void *to, const void *from, unsigned bytes,
                                          uint64_t *barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

/* ---------------------------------------------------------------- shares and tiles */

constexpr int kTileRows = 32, kTileWords = 64;     /* a tile is 32 rows of at most 1 KB */
constexpr int kSpanCols = 2048;                    /* so much of x is in shared memory at a time */
constexpr int kRingBytes = 192 * 1024;
constexpr int kMostStages = 12;

/* The rows of a block in the order of the work: row groups, in them spans of columns, in them tiles.
 * Odd rounds go backwards, so that they begin with what the L2 cache still holds. */
template <typename T>
struct Share {
    static constexpr int kChunkCols = kTileWords * kPerWord<T>;
    static constexpr int kChunksPerSpan = kSpanCols / kChunkCols;

    ptrdiff_t first_row;
    int rows, tile_rows, words; /* words in a row */
    int chunks, spans;          /* in a row */
    int steps;                  /* spans of all groups */

    __device__ Share(ptrdiff_t n, int words_, int tile_rows_)
    {
        const ptrdiff_t block = blockIdx.x, blocks = gridDim.x;
        first_row = n * block / blocks;
        rows = (int)(n * (block + 1) / blocks - first_row);
        tile_rows = tile_rows_;
        words = words_;
        chunks = (words + kTileWords - 1) / kTileWords;
        spans = (chunks + kChunksPerSpan - 1) / kChunksPerSpan;
        steps = (rows + tile_rows - 1) / tile_rows * spans;
    }
};

/* One span of one group. */
template <typename T>
struct Step {
    int row, rows;          /* in the share */
    int chunk, chunks;      /* the first, and how many */
    bool begins, ends;      /* its group, in this round's direction */

    __device__ Step(const Share<T> &share, int number, bool backwards)
    {
        const int at = backwards ? share.steps - 1 - number : number;
        const int group = at / share.spans, span = at - group * share.spans;
        row = group * share.tile_rows;
        rows = min(share.tile_rows, share.rows - row);
        chunk = span * Share<T>::kChunksPerSpan;
        chunks = min(Share<T>::kChunksPerSpan, share.chunks - chunk);
        const int first = backwards ? share.spans - 1 : 0, last = share.spans - 1 - first;
        begins = span == first;
        ends = span == last;
    }
};

/* ---------------------------------------------------------------- slots */

struct alignas(64) Slot {
    gd_perron_found found;
    int64_t flags;
    int64_t round; /* for which it was written, plus 1 */
};
static_assert(sizeof(Slot) == 64, "a slot is two sectors");

constexpr int kMostBlocks = 256, kSlotsPerLane = kMostBlocks / 32;

/* Publishes what this block found, after all that the calling warp has written. Lane 0 alone. */
__device__ __forceinline__ void publish(Slot *slot, const gd_perron_found &found, int flags,
                                        int64_t round)
{
    slot->found = found;
    slot->flags = flags;
    asm volatile("st.release.gpu.global.s64 [%0], %1;" ::"l"(&slot->round), "l"(round + 1)
                 : "memory");
}

__device__ __forceinline__ int64_t peek(const Slot *slot)
{
    int64_t round;
    asm volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(round) : "l"(&slot->round) : "memory");
    return round;
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

/* Waits until all blocks have published the round, and joins what they found, in the same order in
 * every block. One whole warp. All that they wrote before is visible then. */
__device__ __forceinline__ gd_perron_found gather(const Slot *slots, int blocks, int64_t round,
                                                  int &flags)
{
    const int lane = threadIdx.x % 32;
    bool all;
    do {
        all = true;
#pragma unroll
        for (int i = 0; i < kSlotsPerLane; ++i) {
            const int block = lane + 32 * i;
            all &= block >= blocks || peek(slots + block) == round + 1;
        }
    } while (!__all_sync(~0u, all));
    asm volatile("fence.acq_rel.gpu;" ::: "memory"); /* makes the loads above acquire */
    gd_perron_found found = gd_perron_found_none();
    flags = 0;
#pragma unroll
    for (int i = 0; i < kSlotsPerLane; ++i) {
        const int block = lane + 32 * i;
        if (block < blocks) {
            const Slot slot = slots[block];
            gd_perron_join(&found, &slot.found);
            flags |= (int)slot.flags;
        }
    }
    join_lanes(found);
    flags = __reduce_or_sync(~0u, flags);
    return found;
}

}  // namespace gd
#endif
