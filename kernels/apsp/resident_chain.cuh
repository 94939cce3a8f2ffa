/* resident_chain.cuh: what a block of resident.cu does with tiles: updates them by two panels, and
 * closes the pivot tile and lines through it.
 *
 * Idea and order are pivot_phases.cuh's and phase3.cuh's, for 32 pivots and tiles in shared memory.
 *
 * Cost: a round's chain is some 12000 clocks at n = 1024: 1300 for bringing the pivot tile up to
 * date, 4100 for closing it (260 a pair of pivots: a barrier, two trips through shared memory, two
 * additions and minima in a row), 2400 for closing lines, of which 2000 are what four warps' words
 * take to come from shared memory; the rest until the next block has them, and for waiting until
 * their tiles are up to date. */
#ifndef GPUDIST_APSP_RESIDENT_CHAIN_CUH
#define GPUDIST_APSP_RESIDENT_CHAIN_CUH

#include "arch/barrier.cuh"
#include "arch/signals.cuh"
#include "apsp/tagged.cuh"

namespace gd {
namespace resident {

constexpr int kSide = 32;                                     /* of a tile: pivots a round */
constexpr int kPairs = kSide / 2;                             /* of pivots */
constexpr int kTile = kSide * kSide, kPanel = kPairs * kSide; /* elements, pairs */
constexpr int kClosers = 128; /* threads that close the pivot tile */

/* Panels are [local tile][pair][line], as in device memory. With predecessors rows have tags, where
 * their paths come from. */
template <typename T, bool kPred>
struct Shared {
    Pair<T> ahead[2][kPanel];   /* of other blocks, at the next pivots: columns, rows */
    Pair<T> closed[2][kPanel];  /* columns and rows of the pivot tile: {k, k + 1} */
    T tile[kTile];              /* the next pivots', a round old */
    Pair<T> lines[2][2][kSide]; /* columns and rows of a pair on their way, in turns */
};
template <typename T>
struct Shared<T, true> : Shared<T, false> {
    Pair<int32_t> ahead_tags[kPanel], closed_tags[kPanel];
    int32_t tile_before[kTile];
    Pair<int32_t> line_tags[2][kSide];
};

/* Barriers for parts of a block: those who close the pivot tile, the others, and, from either to
 * the other: the pivot tile is there, the panels are, the others' share of the tile is. */
enum { kClosersMeet = 1, kOthersMeet = 2, kTileThere = 3, kPanelsThere = 4, kShareThere = 5 };

/* A pair on its way to blocks that wait for nothing else: each word is there when its seal is, so
 * no flag follows it and nobody waits until it is written. */
struct alignas(16) Sealed {
    uint64_t first, second;
};

__device__ __forceinline__ uint64_t sealed_word(float x, unsigned seal)
{
    return (uint64_t)seal << 32 | (unsigned)__float_as_int(x);
}
__device__ __forceinline__ uint64_t sealed_word(int32_t x, unsigned seal)
{
    return (uint64_t)seal << 32 | (unsigned)x;
}
__device__ __forceinline__ void open_word(uint64_t word, float *x)
{
    *x = __int_as_float((int)(unsigned)word);
}
__device__ __forceinline__ void open_word(uint64_t word, int32_t *x)
{
    *x = (int32_t)(unsigned)word;
}

/* Panels of such pairs that a panel of T takes. A double goes in halves, and the second number of
 * a pair lies one panel behind the first. */
template <typename T>
constexpr int kSealedPanels = sizeof(T) / sizeof(int32_t);

template <typename T>
__device__ __forceinline__ void send(Sealed *to, Pair<T> pair, unsigned seal)
{
    gd::store_two_relaxed(&to->first, sealed_word(pair.first, seal),
                          sealed_word(pair.second, seal));
}

__device__ __forceinline__ void send(Sealed *to, Pair<double> pair, unsigned seal)
{
    const double numbers[2] = {pair.first, pair.second};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        send<int32_t>(to + i * kPanel, {__double2hiint(numbers[i]), __double2loint(numbers[i])},
                      seal);
    }
}

__device__ __forceinline__ Sealed look_at(const Sealed *from)
{
    Sealed x;
    gd::load_two_relaxed(&from->first, x.first, x.second);
    return x;
}

/* What send() has sent, from panels that are `apart` elements from each other in x. */
template <typename T>
__device__ __forceinline__ void open_pair(const Sealed *x, int, Pair<T> *to)
{
    Pair<T> pair;
    open_word(x->first, &pair.first);
    open_word(x->second, &pair.second);
    *to = pair;
}
__device__ __forceinline__ void open_pair(const Sealed *x, int apart, Pair<double> *to)
{
    const auto number = [](const Sealed &half) {
        return __hiloint2double((int)(unsigned)half.first, (int)(unsigned)half.second);
    };
    *to = {number(x[0]), number(x[apart])};
}

/* ---------------------------------------------------------------- a warp's tile */

/* Lanes are 4 x 8, in runs of two lines: each 16-byte load of pairs covers neighbouring bytes. */
__device__ __forceinline__ constexpr int row_step(int i) { return i / 2 * 8 + i % 2; }
__device__ __forceinline__ constexpr int col_step(int j) { return j / 2 * 16 + j % 2; }

/* Two pairs that lie side by side. */
template <typename T>
__device__ __forceinline__ void load_pairs(const Pair<T> *from, Pair<T> *to)
{
#pragma unroll
    for (int e = 0; e < 2; e += gd::kPerWord<T> / 2) {
        gd::load_word<T>(&from[e].first, &to[e].first);
    }
}

/* A thread's elements of a tile. */
template <typename T, int kRows, int kCols>
__device__ __forceinline__ void load_twos(const T *from, int stride, T (&c)[kRows][kCols])
{
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            gd::load_two(from + row_step(i) * stride + col_step(j), &c[i][j]);
        }
    }
}
template <typename T, int kRows, int kCols>
__device__ __forceinline__ void store_twos(T *to, int stride, const T (&c)[kRows][kCols])
{
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            gd::store_two(to + row_step(i) * stride + col_step(j), &c[i][j]);
        }
    }
}

template <typename T>
__device__ __forceinline__ void store_pairs(Pair<T> *to, const Pair<T> *from)
{
#pragma unroll
    for (int e = 0; e < 2; e += gd::kPerWord<T> / 2) {
        gd::store_word<T>(&to[e].first, &from[e].first);
    }
}

/* Joins kRows / 8 x kCols / 4 tiles with the panels' terms. */
template <typename Ring, int kRows, int kCols>
__device__ __forceinline__ void relax(typename Ring::Word *tile, int stride,
                                      const Pair<typename Ring::Word> *cols,
                                      const Pair<typename Ring::Word> *rows)
{
    using T = typename Ring::Word;
    const int down = threadIdx.x % 32 / 8 * 2, across = threadIdx.x % 8 * 2;
    T c[kRows][kCols];
    T *const mine = tile + down * stride + across;
    load_twos(mine, stride, c);
#pragma unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
        Pair<T> a[kRows], b[kCols];
#pragma unroll
        for (int i = 0; i < kRows; i += 2) {
            load_pairs(cols + i / 8 * kPanel + pair * kSide + down + row_step(i % 8), &a[i]);
        }
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            load_pairs(rows + j / 4 * kPanel + pair * kSide + across + col_step(j % 4), &b[j]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int step = 0; step < kCols; ++step) {
                const int j = i % 2 == 0 ? step : kCols - 1 - step; /* b[j] is at hand */
                Ring::fold(c[i][j], a[i], b[j]);
            }
        }
    }
    store_twos(mine, stride, c);
}

/* Joins one tile, and takes along where paths come from. */
template <typename Ring>
__device__ __forceinline__ void relax_tagged(typename Ring::Word *tile, int32_t *tile_before,
                                             int stride, const Pair<typename Ring::Word> *cols,
                                             const Pair<typename Ring::Word> *rows,
                                             const Pair<int32_t> *tags)
{
    using T = typename Ring::Word;
    const int down = threadIdx.x % 32 / 8 * 2, across = threadIdx.x % 8 * 2;
    T c[8][4];
    int32_t before[8][4];
    load_twos(tile + down * stride + across, stride, c);
    load_twos(tile_before + down * stride + across, stride, before);
#pragma unroll 2
    for (int pair = 0; pair < kPairs; ++pair) {
        Pair<T> a[8], b[4];
        Pair<int32_t> from[4];
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            load_pairs(cols + pair * kSide + down + row_step(i), &a[i]);
        }
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            load_pairs(rows + pair * kSide + across + col_step(j), &b[j]);
            load_pairs(tags + pair * kSide + across + col_step(j), &from[j]);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                fold_tagged<Ring>(c[i][j], before[i][j], a[i], b[j], from[j]);
            }
        }
    }
    store_twos(tile + down * stride + across, stride, c);
    store_twos(tile_before + down * stride + across, stride, before);
}

/* ---------------------------------------------------------------- the chain */

/* Leaves the rows of pivots k and k + 1, which are i and the next of a thread, and their columns
 * for all who close the tile. */
template <typename T, bool kPred>
__device__ __forceinline__ void leave_lines(Shared<T, kPred> &shared, int turn, int k, int i,
                                            int down, int across, const T (&c)[4][2],
                                            const int32_t (&before)[kPred ? 4 : 1][2])
{
    Pair<T>(*const lines)[kSide] = shared.lines[turn];
    if (down + i * 4 == k) {
        const Pair<T> two[2] = {{c[i + 1][0], c[i][0]}, {c[i + 1][1], c[i][1]}};
        store_pairs(&lines[1][across], two);
        if constexpr (kPred) {
            const Pair<int32_t> from[2] = {{before[i + 1][0], before[i][0]},
                                           {before[i + 1][1], before[i][1]}};
            store_pairs(&shared.line_tags[turn][across], from);
        }
    }
    if (across == k) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            const Pair<T> two[2] = {{c[e][0], c[e][1]}, {c[e + 1][0], c[e + 1][1]}};
            store_pairs(&lines[0][down + row_step(e)], two);
        }
    }
}

/* Brings the pivot tile up to date and closes it, 4 x 2 elements a thread, as pivot_phases.cuh
 * does: one barrier a pair of pivots. `closed` gets column k and row k as they are at stage k. */
template <typename Ring, bool kPred>
__device__ __forceinline__ void close_tile(bool is_old, const Pair<typename Ring::Word> *cols,
                                           const Pair<typename Ring::Word> *rows,
                                           const Pair<int32_t> *tags,
                                           Shared<typename Ring::Word, kPred> &shared)
{
    using T = typename Ring::Word;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int down = warp / 2 * 16 + lane / 8 * 2, across = warp % 2 * 16 + lane % 8 * 2;
    T *const mine = shared.tile + down * kSide + across;
    T c[4][2];
    int32_t before[kPred ? 4 : 1][2];
    load_twos(mine, kSide, c);
    if constexpr (kPred) {
        load_twos(shared.tile_before + down * kSide + across, kSide, before);
    }
    const auto fold = [&](const Pair<T>(&a)[4], const Pair<T>(&b)[2],
                          const Pair<int32_t>(&from)[2]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if constexpr (kPred) {
                    fold_tagged<Ring>(c[i][j], before[i][j], a[i], b[j], from[j]);
                }
                else {
                    Ring::fold(c[i][j], a[i], b[j]);
                }
            }
        }
    };
    if (is_old) {
#pragma unroll 4
        for (int pair = 0; pair < kPairs; ++pair) {
            Pair<T> a[4], b[2];
            Pair<int32_t> from[2];
            load_pairs(cols + pair * kSide + down, &a[0]);
            load_pairs(cols + pair * kSide + down + 8, &a[2]);
            load_pairs(rows + pair * kSide + across, b);
            if constexpr (kPred) {
                load_pairs(tags + pair * kSide + across, from);
            }
            fold(a, b, from);
        }
    }
#pragma unroll 1
    for (int half = 0; half < kSide; half += 16) {
#pragma unroll
        for (int step = 0; step < 16; step += 2) {
            const int k = half + step, i = step / 8 * 2;
            Pair<T>(*const lines)[kSide] = shared.lines[step / 2 % 2];
            leave_lines<T, kPred>(shared, step / 2 % 2, k, i, down, across, c, before);
            gd::sync_part<kClosersMeet, kClosers>();
            const T below = lines[0][k + 1].first, beside = lines[1][k + 1].second;
            Pair<T> a[4], b[2];
            Pair<int32_t> from[2];
            load_pairs(&lines[0][down], &a[0]);
            load_pairs(&lines[0][down + 8], &a[2]);
            load_pairs(&lines[1][across], b);
            if constexpr (kPred) {
                load_pairs(&shared.line_tags[step / 2 % 2][across], from);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if constexpr (kPred) {
                    join_tagged<Ring>(b[j], from[j], below);
                }
                else {
                    Ring::join(b[j].first, below, b[j].second);
                }
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                Ring::join(a[e].second, a[e].first, beside);
            }
            fold(a, b, from);
            if (down == 0) {
                const Pair<T> two[2] = {{b[0].second, b[0].first}, {b[1].second, b[1].first}};
                store_pairs(&shared.closed[1][k / 2 * kSide + across], two);
                if constexpr (kPred) {
                    store_pairs(&shared.closed_tags[k / 2 * kSide + across], from);
                }
            }
            if (across == 0) {
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    store_pairs(&shared.closed[0][k / 2 * kSide + down + row_step(e)], &a[e]);
                }
            }
        }
    }
    store_twos(mine, kSide, c);
    if constexpr (kPred) {
        store_twos(shared.tile_before + down * kSide + across, kSide, before);
    }
}

/* A thread closes a line of the next pivots through their tile, and writes it to the panel, and
 * sealed unless that is NULL: 32 elements `stride` apart, a column of the pivots' rows, through the
 * tile's columns; or 32 neighbours, a row of the pivots' columns, through its rows. A line needs no
 * other, so there is no barrier.
 *
 * Only element k as it is at stage k is wanted, so an element takes part in the stages before its
 * own and in no others. In the matrix the line stays as it was: the panels relax it with all the
 * rest, by the same sums. */
template <typename Ring>
__device__ __forceinline__ void close_line(const typename Ring::Word *line, int stride,
                                           bool of_rows, const Pair<typename Ring::Word> *closed,
                                           Pair<typename Ring::Word> *panel, Sealed *sealed,
                                           unsigned seal)
{
    using T = typename Ring::Word;
    constexpr int kEach = gd::kPerWord<T>;
    T x[kSide];
    if (of_rows) {
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
            x[i] = line[i * stride];
        }
    }
    else { /* neighbours: by words, lest lanes meet in a bank */
#pragma unroll
        for (int i = 0; i < kSide; i += kEach) {
            gd::load_word(line + i, x + i);
        }
    }
#pragma unroll
    for (int k = 0; k < kSide; k += 2) {
        const Pair<T> *const legs = closed + k / 2 * kSide;
        const T first = x[k];
        T second = x[k + 1];
        Ring::join(second, legs[k + 1].first, first);
        const Pair<T> both = {second, first};
        const Pair<T> out = of_rows ? both : Pair<T>{first, second};
        panel[k / 2 * kSide] = out;
        if (sealed != NULL) {
            send(sealed + k / 2 * kSide, out, seal);
        }
#pragma unroll
        for (int i = k + 2; i < kSide; i += 2) {
            Pair<T> leg[2];
            load_pairs(&legs[i], leg);
            Ring::fold(x[i], leg[0], both);
            Ring::fold(x[i + 1], leg[1], both);
        }
    }
}

/* A line of the pivots' rows, with its tags and where they go; those that go sealed follow the
 * panel's. */
template <typename Ring>
__device__ __forceinline__ void close_tagged_line(const typename Ring::Word *line,
                                                  const int32_t *line_before, int stride,
                                                  const Pair<typename Ring::Word> *closed,
                                                  Pair<typename Ring::Word> *panel,
                                                  Pair<int32_t> *panel_tags, Sealed *sealed,
                                                  unsigned seal)
{
    using T = typename Ring::Word;
    T x[kSide];
    int32_t before[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        x[i] = line[i * stride];
        before[i] = line_before[i * stride];
    }
#pragma unroll
    for (int k = 0; k < kSide; k += 2) {
        const Pair<T> *const legs = closed + k / 2 * kSide;
        Pair<T> both = {x[k + 1], x[k]};
        Pair<int32_t> from = {before[k + 1], before[k]};
        join_tagged<Ring>(both, from, legs[k + 1].first);
        panel[k / 2 * kSide] = both;
        panel_tags[k / 2 * kSide] = from;
        if (sealed != NULL) {
            send(sealed + k / 2 * kSide, both, seal);
            send(sealed + kPanel + k / 2 * kSide, from, seal);
        }
#pragma unroll
        for (int i = k + 2; i < kSide; i += 2) {
            Pair<T> leg[2];
            load_pairs(&legs[i], leg);
            fold_tagged<Ring>(x[i], before[i], leg[0], both, from);
            fold_tagged<Ring>(x[i + 1], before[i + 1], leg[1], both, from);
        }
    }
}

}  // namespace resident
}  // namespace gd
#endif
