/* winners.cuh: which pivot of a round shortened an element of phase 3 last, and the predecessors
 * that follow from it.
 *
 * Idea: an instruction that took the pivot along with each minimum would make the loop three times
 * as long. Instead a thread compares its elements before and after each group of 16 pivots, and
 * notes, in 4 bits an element, the group that shortened it last. After the loop it forms the sums
 * of that group once more, while all slabs are still in shared memory: the first pivot whose sum is
 * the least of the group is the one at which the triple loop shortened the element last, as later
 * ones did not do so strictly. Pivots go to a table of the tile, one byte an element, from which
 * the block then writes predecessors row by row, as they lie together in memory.
 *
 * Cost: three instructions an element and group, an eighth of the loop. And for each element that
 * changed in the round some 5 of a warp's instructions and 17 loads that meet in the banks of
 * shared memory; these bind: 3.4 clocks of an SM an element. On a complete random graph of n nodes
 * an element changes about (log n)^2 / 2 times, on others less often. Groups of 8 pivots halve the
 * loads and double the notes: quicker where more than 0.3 of a tile change in a round, which few
 * rounds of a large graph see. */
#ifndef GPUDIST_WINNERS_CUH
#define GPUDIST_WINNERS_CUH

#include "apsp/panels.cuh"
#include "apsp/slabs.cuh"

namespace gd {

/* `x` with the bits of `mask` taken from `y`. Spelt out, as the compiler makes two of it. */
__device__ __forceinline__ uint32_t with_bits(uint32_t x, uint32_t y, uint32_t mask)
{
    uint32_t z;
    asm("lop3.b32 %0, %1, %2, %3, 0xd8;" : "=r"(z) : "r"(x), "r"(y), "r"(mask));
    return z;
}

template <typename Ring, typename Tile, int kPivots, int kSlabPairs>
class Winners {
    using T = typename Ring::Word;
    static constexpr int kElements = Tile::kRows * Tile::kCols, kWords = kElements / 8;
    static constexpr int kGroups = kPivots / 16;
    static constexpr uint32_t kEach = 0x11111111; /* 4 bits eight times */
    static constexpr unsigned kNone = 255;        /* in the table */
    static constexpr int kListed = 16;            /* of a thread's elements at a time */
    static_assert(kGroups < 16 && kPivots <= 128, "4 bits hold a group, 7 bits a pivot");
    static_assert(kElements == 2 * kListed, "2 bits hold a word's number");

public:
    static constexpr int kGroupPairs = 8;
    static_assert(kSlabPairs % kGroupPairs == 0, "groups lie in one slab");

    /* The table holds four neighbours of a column in a word. */
    struct Shared {
        uint16_t list[Tile::kThreads / 32][32 * kListed + 32];
        uint32_t table[Tile::kBlockRows / 4][Tile::kBlockCols];
    };

    /* Between this and the first use of `shared` there has to be a barrier. */
    __device__ __forceinline__ explicit Winners(Shared &shared) : shared_(shared)
    {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            notes_[w] = 0;
        }
        uint32_t *const table = &shared.table[0][0];
        for (int at = threadIdx.x; at < (int)(sizeof shared.table / 4); at += Tile::kThreads) {
            table[at] = ~0u;
        }
    }

    /* Notes what group `group` shortened. */
    __device__ __forceinline__ void note(int group, const T (&before)[Tile::kRows][Tile::kCols],
                                         const T (&after)[Tile::kRows][Tile::kCols])
    {
        const uint32_t number = (uint32_t)(group + 1) * kEach;
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::kCols; ++j) {
                const int e = i * Tile::kCols + j;
                if (after[i][j] < before[i][j]) {
                    notes_[e / 8] = with_bits(notes_[e / 8], number, 15u << 4 * (e % 8));
                }
            }
        }
    }

    /* Finds the pivots of all elements that were shortened. A warp lists them, so that its threads
     * share them evenly. Returns whether there are any. */
    template <typename Stream>
    __device__ __forceinline__ bool find(const Stream &stream)
    {
        const unsigned lane = threadIdx.x % 32;
        uint16_t *const list = shared_.list[threadIdx.x / 32];
        bool found = false;
        unsigned kept = 0; /* from one listing to the next, as 32 take no longer than one */
#pragma unroll
        for (int w = 0; w < kWords; w += 2) {
            const unsigned count = kept + list_shortened(notes_[w], notes_[w + 1], w, list + kept);
            const unsigned whole = w + 2 < kWords ? count / 32 * 32 : count;
            __syncwarp();
            for (unsigned at = lane; at < whole; at += 32) {
                find_one(stream, list[at]);
            }
            kept = count - whole;
            const uint16_t last = lane < kept ? list[whole + lane] : 0;
            __syncwarp();
            if (lane < kept) {
                list[lane] = last;
            }
            found |= count != 0;
        }
        return found;
    }

    /* Writes the predecessors at (i0, j0). `room` is shared memory for the pivots' part of them,
     * free for all threads. */
    template <typename Panels>
    __device__ __forceinline__ void write(const Paths<Ring> &paths, ptrdiff_t i0, ptrdiff_t j0,
                                          void *room) const
    {
        constexpr int kCols = Tile::kBlockCols, kPreds = kPivots / 2 * kCols;
        static_assert(kCols == Panels::kRowsWidth && Tile::kThreads % kCols == 0,
                      "a block of the panel; a thread stays in its column");
        Pair<int32_t> *const preds = static_cast<Pair<int32_t> *>(room);
        const Pair<int32_t> *const from = paths.preds + paths.template rows_at<Panels>(0, j0);
#pragma unroll
        for (int at = 0; at < kPreds; at += 2 * Tile::kThreads) {
            const int mine = at + 2 * (int)threadIdx.x;
            __pipeline_memcpy_async(preds + mine, from + mine, 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        const unsigned col = threadIdx.x % kCols, quad0 = threadIdx.x / kCols;
        const volatile int32_t *const via = &preds[col].first; /* without a jump for each */
        constexpr unsigned kQuads = Tile::kThreads / kCols;    /* at a time */
        const ptrdiff_t padded = paths.padded;
        int32_t *pred = paths.pred + (i0 + quad0 * 4) * padded + j0 + col;
#pragma unroll 4
        for (unsigned quad = quad0; quad < Tile::kBlockRows / 4; quad += kQuads) {
            const uint32_t four = shared_.table[quad][col];
#pragma unroll
            for (unsigned e = 0; e < 4; ++e) {
                const unsigned pivot = four >> 8 * e & 127, odd = pivot % 2;
                const int32_t p = via[pivot * kCols + 1 - odd * (kCols + 1)];
                if ((four >> 8 * e & 128) == 0) {
                    *pred = p;
                }
                pred += padded;
            }
            pred += (kQuads - 1) * 4 * padded;
        }
    }

private:
    /* Lists the elements of words w and w + 1 that a group is noted for, of all threads of the
     * warp: thread in 5 bits, word in 2, place in 3 and the note from 10 on. Returns how many they
     * are. */
    static __device__ __forceinline__ unsigned list_shortened(uint32_t first, uint32_t second,
                                                              int w, uint16_t *list)
    {
        const unsigned lane = threadIdx.x % 32;
        auto noted = [](uint32_t notes) {
            notes |= notes >> 2;
            return (notes | notes >> 1) & kEach;
        };
        uint32_t todo = noted(first) | noted(second) << 1; /* bit 4 * place + word */
        const unsigned mine = __popc(todo);
        unsigned end = mine;
#pragma unroll
        for (unsigned step = 1; step < 32; step *= 2) {
            const unsigned before = __shfl_up_sync(~0u, end, step);
            end += lane >= step ? before : 0;
        }
        const unsigned common = lane | (unsigned)w << 5;
        for (uint16_t *at = list + (end - mine); todo != 0; ++at) {
            const unsigned bit = 31 - __clz((int)todo);
            const unsigned note = (bit % 2 == 0 ? first : second) >> bit / 4 * 4 & 15;
            *at = (uint16_t)(common | bit << 5 | note << 10);
            todo ^= 1u << bit;
        }
        return __shfl_sync(~0u, end, 31);
    }

    /* Enters the pivot of a listed element in the table. */
    template <typename Stream>
    __device__ __forceinline__ void find_one(const Stream &stream, unsigned listed)
    {
        const unsigned lane = listed % 32, e = listed / 32 % 4 * 8 + listed / 128 % 8;
        const unsigned group = listed / 1024 - 1;
        const unsigned row = Tile::warp_down() * Tile::kWarpRows +
                             lane / Tile::kLanesAcross * Tile::kRun +
                             Tile::row_step(e / Tile::kCols);
        const unsigned col = Tile::warp_across() * Tile::kWarpCols +
                             lane % Tile::kLanesAcross * Tile::kRun +
                             Tile::col_step(e % Tile::kCols);
        const unsigned pivot = 2 * kGroupPairs * group + first_least(stream, group, row, col);
        reinterpret_cast<uint8_t *>(&shared_.table[row / 4][col])[row % 4] = (uint8_t)pivot;
    }

    /* Which pivot of a group gives an element its least sum, the first if several do. */
    template <typename Stream>
    static __device__ __forceinline__ unsigned first_least(const Stream &stream, unsigned group,
                                                           unsigned row, unsigned col)
    {
        constexpr unsigned kGroupsASlab = kSlabPairs / kGroupPairs;
        const auto &slab = stream.at(0);
        constexpr unsigned kDown = sizeof slab.left[0][0] / sizeof(Pair<T>),
                           kAcross = sizeof slab.right[0][0] / sizeof(Pair<T>);
        const unsigned skip = group / kGroupsASlab * (unsigned)(sizeof slab / sizeof(Pair<T>)) +
                              group % kGroupsASlab * (kGroupPairs * kAcross);
        static_assert(kDown == kAcross && kAcross == Tile::kBlockCols, "a skip serves both");
        const Pair<T> *const left = slab.left[row / kDown][0] + row % kDown + skip;
        const Pair<T> *const right = slab.right[0][0] + col + skip;
        T even[kGroupPairs], odd[kGroupPairs], least = Ring::neutral();
#pragma unroll
        for (int p = 0; p < kGroupPairs; ++p) {
            const Pair<T> a = left[p * kDown], b = right[p * kAcross];
            even[p] = Ring::term(a.first, b.second);
            odd[p] = Ring::term(a.second, b.first);
            Ring::fold(least, a, b);
        }
        unsigned winner = 0;
#pragma unroll
        for (int p = kGroupPairs - 1; p >= 0; --p) { /* the first has the last word */
            winner = odd[p] == least ? 2 * p + 1 : winner;
            winner = even[p] == least ? 2 * p : winner;
        }
        return winner;
    }

    Shared &shared_;
    uint32_t notes_[kWords];
};

}  // namespace gd
#endif
