/* resident.cuh: how blocks that stay on the device through all rounds share out the matrix, and how
 * they tell each other what they have got.
 *
 * Sharing: a block has neighbouring rows, worked on in groups of 32, so that a value of x that was
 * fetched serves 32 rows. A tile is 32 KB: pieces of 2 KB of sixteen rows. (1 KB of 32
 * rows took 1.4 times as long.)
 *
 * Telling: what a block writes for the others, its part of the next vector and what it found in a
 * round, are numbers of 64 bits, the last of which is a mark: it changes each time the place is
 * written again, so a reader sees by the number itself whether it is the new one, and reads again
 * if not. No flag is written behind the numbers, no fence orders them, and one way through the L2
 * cache is all that a round waits for. The mark costs nothing: bounds hold for any positive vector,
 * this one included, and have room for one more rounding.
 *
 * There are two places for each, in turns. A block writes what round k + 2 leaves only after it had
 * all of what round k + 1 left, which every block writes after its last look at round k's. */
#ifndef GPUDIST_PERRON_RESIDENT_CUH
#define GPUDIST_PERRON_RESIDENT_CUH

#include "barrier.cuh"
#include "common.cuh"
#include "perron_judge.h"

namespace gd {

/* ---------------------------------------------------------------- barriers in shared memory */

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

/* The same, at once. */
__device__ __forceinline__ bool barrier_is_past(uint64_t *barrier, unsigned parity)
{
    unsigned passed;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(passed)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return passed;
}

/* ---------------------------------------------------------------- shares and tiles */

constexpr int kTileWords = 128, kTileBytes = 32 * 1024, kRowBytes = kTileWords * 16;
constexpr int kTileRows = kTileBytes / kRowBytes;
constexpr int kGroupRows = 32, kGroupTiles = kGroupRows / kTileRows; /* below each other */
constexpr int kSpanCols = 1024; /* so much of x is in shared memory at a time */
constexpr int kStages = 6;

/* The rows of a block in the order of the work: groups, in them spans of columns, in them chunks of
 * a tile's width, in them tiles. Odd rounds go backwards through all but the tiles of a chunk, and
 * begin with what the L2 cache still holds; not where A stays in shared memory. */
template <typename T>
struct Share {
    static constexpr int kChunkCols = kTileWords * kPerWord<T>;
    static constexpr int kChunksPerSpan = kSpanCols / kChunkCols;

    ptrdiff_t first_row;
    int rows, words;   /* words in a row */
    int chunks, spans; /* in a row */
    int steps;         /* spans of all groups */
    bool stays;        /* all tiles fit the ring */

    __device__ Share(ptrdiff_t n, int words_)
    {
        const ptrdiff_t block = blockIdx.x, blocks = gridDim.x;
        first_row = n * block / blocks;
        rows = (int)(n * (block + 1) / blocks - first_row);
        words = words_;
        chunks = (words + kTileWords - 1) / kTileWords;
        spans = (chunks + kChunksPerSpan - 1) / kChunksPerSpan;
        const int groups = (rows + kGroupRows - 1) / kGroupRows;
        steps = groups * spans;
        stays = groups == 1 && (rows + kTileRows - 1) / kTileRows * chunks <= kStages;
    }
    __device__ bool backwards(int64_t round) const { return !stays && (round & 1); }
};

/* One span of one group. */
template <typename T>
struct Step {
    int group, row, rows, tiles; /* the group's, in the share */
    int first_chunk, chunks;
    bool back, begins, ends; /* the group, in this round's direction */

    __device__ Step(const Share<T> &share, int number, bool backwards)
    {
        const int at = backwards ? share.steps - 1 - number : number;
        const int span = at % share.spans;
        group = at / share.spans;
        row = group * kGroupRows;
        rows = min(kGroupRows, share.rows - row);
        tiles = (rows + kTileRows - 1) / kTileRows;
        first_chunk = span * Share<T>::kChunksPerSpan;
        chunks = min(Share<T>::kChunksPerSpan, share.chunks - first_chunk);
        back = backwards;
        begins = span == (backwards ? share.spans - 1 : 0);
        ends = span == (backwards ? 0 : share.spans - 1);
    }
    /* The number of the chunk that comes as the c-th. */
    __device__ int chunk(int c) const { return first_chunk + (back ? chunks - 1 - c : c); }
};

/* ---------------------------------------------------------------- marked numbers */

/* What `round` leaves is marked so, in the place round % 2. Before the first use there are ones. */
__device__ __forceinline__ uint64_t mark_of(int64_t round) { return (uint64_t)(round / 2 & 1); }

__device__ __forceinline__ double marked(double x, uint64_t mark)
{
    return __longlong_as_double((long long)(((uint64_t)__double_as_longlong(x) & ~1ull) | mark));
}

__device__ __forceinline__ bool has_mark(double x, uint64_t mark)
{
    return ((uint64_t)__double_as_longlong(x) & 1) == mark;
}

__device__ __forceinline__ void tell(double *to, double x)
{
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}

/* Two numbers, each of which may be old or new. */
__device__ __forceinline__ double2 hear(const double *from)
{
    double2 x;
    asm volatile("ld.relaxed.gpu.global.v2.f64 {%0, %1}, [%2];"
                 : "=d"(x.x), "=d"(x.y)
                 : "l"(from)
                 : "memory");
    return x;
}

__device__ __forceinline__ double hear_one(const double *from)
{
    double x;
    asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
    return x;
}

/* ---------------------------------------------------------------- what blocks found */

struct alignas(64) Slot {
    gd_perron_found found;
    double flags; /* a small whole number, which a mark leaves its whole part */
};
static_assert(sizeof(Slot) == 64 && sizeof(gd_perron_found) == 40, "six numbers, aligned");

/* No device of compute capability 9.0 has more multiprocessors. */
constexpr int kMostBlocks = 160;

__device__ __forceinline__ void tell(Slot *slot, const gd_perron_found &found, int flags,
                                     uint64_t mark)
{
    /* A marked infinity would be NaN. */
    tell(&slot->found.least, marked(gd_perron_lesser(found.least, DBL_MAX), mark));
    tell(&slot->found.most, marked(gd_perron_lesser(found.most, DBL_MAX), mark));
    tell(&slot->found.xy, marked(found.xy, mark));
    tell(&slot->found.xx, marked(found.xx, mark));
    tell(&slot->found.top, marked(found.top, mark));
    tell(&slot->flags, marked((double)flags, mark));
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
__device__ __forceinline__ void hear_slots(const Slot *slots, int first, int blocks, uint64_t mark,
                                           gd_perron_found &found, int &flags)
{
    const int lane = threadIdx.x % 32;
    double2 heard[kSlots][3];
    bool all;
    do {
        all = true;
#pragma unroll
        for (int i = 0; i < 3 * kSlots; ++i) {
            const int block = min(first + lane + i / 3 * 32, blocks - 1);
            heard[i / 3][i % 3] = hear(&slots[block].found.least + i % 3 * 2);
        }
#pragma unroll
        for (int i = 0; i < 3 * kSlots; ++i) {
            all &= has_mark(heard[i / 3][i % 3].x, mark) && has_mark(heard[i / 3][i % 3].y, mark);
        }
    } while (!all);
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
        if (first + lane + i * 32 < blocks) {
            const gd_perron_found theirs = {heard[i][0].x, heard[i][0].y, heard[i][1].x,
                                            heard[i][1].y, heard[i][2].x};
            gd_perron_join(&found, &theirs);
            flags |= (int)heard[i][2].y;
        }
    }
    __syncwarp();
}

/* What all blocks found, joined in the same order in every block. One whole warp. */
__device__ __forceinline__ gd_perron_found gather(const Slot *slots, int blocks, uint64_t mark,
                                                  int &flags)
{
    constexpr int kHalf = (kMostBlocks / 32 + 1) / 2; /* all at once take too many registers */
    gd_perron_found found = gd_perron_found_none();
    flags = 0;
    hear_slots<kHalf>(slots, 0, blocks, mark, found, flags);
    hear_slots<kMostBlocks / 32 - kHalf>(slots, 32 * kHalf, blocks, mark, found, flags);
    join_lanes(found);
    flags = (int)__reduce_or_sync(~0u, (unsigned)flags);
    return found;
}

}  // namespace gd
#endif
