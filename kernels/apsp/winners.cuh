/* winners.cuh: which pivot of a round shortened an element of phase 3 last, and the predecessors
 * that follow from it.
 *
 * Idea: an instruction that took the pivot along with each minimum would make the loop three times
 * as long. Instead a thread takes the least sum of each group of 16 pivots, and a bit notes whether
 * it was less than the element. After the loop it forms the sums of the last such group once more,
 * while all slabs are still in shared memory: the first pivot whose sum is the least of the group
 * is the one at which the triple loop shortened the element last, as later ones did not do so
 * strictly. Where few elements changed, their predecessors are written one by one. Where many did,
 * pivots go to a table of the tile, one byte an element, from which the block then writes
 * predecessors row by row, as they lie together in memory.
 *
 * Banks: a warp's elements lie in few rows, but their groups differ, and so do the places that its
 * threads read. Slabs are therefore not a multiple of 128 bytes apart: then 8 groups of a row lie
 * in 8 different banks, and an element costs half as much.
 *
 * Cost: three instructions an element and group, an eighth of the loop; they take bits by
 * additions, since a LOP3 that inserts 4 bits takes 6 % longer, on the pipe of the minima. And for
 * each element that changed in the round some 4 of a warp's instructions and 17 loads, 1.6 to 2
 * clocks of an SM. On a complete random graph of n nodes an element changes about (log n)^2 / 2
 * times, on others less often: at n = 8192 in float32 that is 12 of 53.4 ms, of which finding
 * pivots in the slabs takes 4.6. */
#ifndef GPUDIST_APSP_WINNERS_CUH
#define GPUDIST_APSP_WINNERS_CUH

#include "apsp/panels.cuh"
#include "arch/warp.cuh"
#include "semiring/slabs.cuh"

namespace gd {

template <typename Ring, typename Tile, int kPivots, int kSlabPairs>
class Winners {
    using T = typename Ring::Word;
    static constexpr int kElements = Tile::kRows * Tile::kCols;
    static constexpr int kGroups = kPivots / 16;
    static constexpr unsigned kFew = 500; /* of a warp's 1024 elements */
    static constexpr int kListed = 16; /* of a thread's elements at a time: the lower rows first */
    static_assert(kPivots <= 128 && kElements == 2 * kListed,
                  "3 bits hold a group, 7 a pivot, and a word a thread's elements");

public:
    static constexpr int kGroupPairs = 8;
    static_assert(kSlabPairs == kGroupPairs, "a slab is a group");

    /* The table holds four neighbours of a column in a word. */
    struct Shared {
        uint16_t list[Tile::kThreads / 32][32 * kListed + 32];
        uint32_t table[Tile::kBlockRows / 4][Tile::kBlockCols];
    };

    /* Between this and the first use of `shared` there has to be a barrier. */
    __device__ __forceinline__ explicit Winners(Shared &shared) : shared_(shared)
    {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            shortened_[g] = 0;
        }
        uint32_t *const table = &shared.table[0][0];
        for (int at = threadIdx.x; at < (int)(sizeof shared.table / 4); at += Tile::kThreads) {
            table[at] = ~0u;
        }
    }

    /* Joins a thread's elements with the least sums of the next group, notes which it shortened. */
    __device__ __forceinline__ void join(T (&c)[Tile::kRows][Tile::kCols],
                                         const T (&least)[Tile::kRows][Tile::kCols])
    {
#pragma unroll
        for (int g = kGroups - 1; g > 0; --g) {
            shortened_[g] = shortened_[g - 1];
        }
        shortened_[0] = 0;
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::kCols; ++j) {
                if (Ring::take(c[i][j], least[i][j])) {
                    shortened_[0] |= 1u << (i * Tile::kCols + j);
                }
            }
        }
    }

    /* Finds the pivots of all elements that were shortened. A warp lists them, so that its threads
     * share them evenly. Returns whether they are so many that pivots are in the table, and
     * predecessors still to be written. */
    template <typename Panels, typename Stream>
    __device__ __forceinline__ bool find(const Stream &stream, const Paths<Ring> &paths,
                                         ptrdiff_t i0, ptrdiff_t j0)
    {
        const unsigned lane = threadIdx.x % 32;
        uint16_t *const list = shared_.list[threadIdx.x / 32];
        uint32_t todo = 0, planes[3] = {}; /* whether an element was shortened, its group's bits */
#pragma unroll
        for (int g = 0; g < kGroups; ++g) { /* the last one that shortened it counts */
            const uint32_t also = shortened_[g] & ~todo;
            todo |= also;
#pragma unroll
            for (int bit = 0; bit < 3; ++bit) {
                planes[bit] |= (kGroups - 1 - g) >> bit & 1 ? also : 0;
            }
        }
        const unsigned mine = __popc(todo & 0xffff) | __popc(todo >> 16) << 16;
        const unsigned end = sum_to_lane(mine), starts = end - mine,
                       all = __shfl_sync(~0u, end, 31);
        const unsigned shortened = (all & 0xffff) + (all >> 16);
        const bool many = __syncthreads_or(shortened > kFew);
        const int32_t *const via = &paths.preds[paths.template rows_at<Panels>(0, j0)].first;
        int32_t *const pred = paths.pred + i0 * paths.padded + j0, *to_last = NULL;
        int32_t last = 0;
        unsigned kept = 0; /* from one half to the next, as 32 take no longer than one */
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned common = lane | (unsigned)half << 9;
            uint16_t *to = list + kept + (starts >> 16 * half & 0xffff);
            for (uint32_t left = todo >> 16 * half & 0xffff; left != 0; ++to) {
                const unsigned bit = 31 - __clz((int)left), e = bit + 16 * half;
                const unsigned group =
                    (planes[0] >> e & 1) | (planes[1] >> e & 1) << 1 | (planes[2] >> e & 1) << 2;
                *to = (uint16_t)(common | bit << 5 | group << 10);
                left ^= 1u << bit;
            }
            const unsigned count = kept + (all >> 16 * half & 0xffff);
            const unsigned whole = half == 0 ? count / 32 * 32 : count;
            __syncwarp();
            for (unsigned at = lane; at < whole; at += 32) {
                unsigned row, col;
                const unsigned pivot = find_one(stream, list[at], row, col);
                if (many) {
                    reinterpret_cast<uint8_t *>(&shared_.table[row / 4][col])[row % 4] =
                        (uint8_t)pivot;
                }
                else { /* the last one is written while this one is on its way */
                    if (to_last != NULL) {
                        *to_last = last;
                    }
                    last = via[place_of(pivot) + 2 * col];
                    to_last = pred + row * paths.padded + col;
                }
            }
            kept = count - whole;
            const uint16_t odd = lane < kept ? list[whole + lane] : 0;
            __syncwarp();
            if (lane < kept) {
                list[lane] = odd;
            }
        }
        if (to_last != NULL) {
            *to_last = last;
        }
        return many;
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
                const int32_t p = via[place_of(four >> 8 * e & 127)];
                if ((four >> 8 * e & 128) == 0) {
                    *pred = p;
                }
                pred += padded;
            }
            pred += (kQuads - 1) * 4 * padded;
        }
    }

private:
    /* The pivot and the place of a listed element. */
    template <typename Stream>
    __device__ __forceinline__ unsigned find_one(const Stream &stream, unsigned listed,
                                                 unsigned &row, unsigned &col)
    {
        const unsigned lane = listed % 32, e = listed / 32 % 32, group = listed / 1024;
        row = Tile::warp_down() * Tile::kWarpRows + lane / Tile::kLanesAcross * Tile::kRun +
              Tile::row_step(e / Tile::kCols);
        col = Tile::warp_across() * Tile::kWarpCols + lane % Tile::kLanesAcross * Tile::kRun +
              Tile::col_step(e % Tile::kCols);
        return 2 * kGroupPairs * group + first_least(stream, group, row, col);
    }

    /* Where the predecessors of a pivot start in a block of the panel. */
    static __device__ __forceinline__ unsigned place_of(unsigned pivot)
    {
        constexpr unsigned kCols = Tile::kBlockCols;
        return pivot * kCols + 1 - pivot % 2 * (kCols + 1);
    }

    /* Which pivot of a group gives an element its least sum, the first if several do. */
    template <typename Stream>
    static __device__ __forceinline__ unsigned first_least(const Stream &stream, unsigned group,
                                                           unsigned row, unsigned col)
    {
        const auto &slab = stream.at(0);
        constexpr unsigned kDown = sizeof slab.left[0][0] / sizeof(Pair<T>),
                           kAcross = sizeof slab.right[0][0] / sizeof(Pair<T>);
        const unsigned skip = group * (unsigned)(sizeof slab / sizeof(Pair<T>));
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
    uint32_t shortened_[kGroups]; /* a bit an element; the newest group first */
};

}  // namespace gd
#endif
