/* resident_chain.cuh: what a block of resident.cu does with tiles: updates them by two panels, and
 * closes the pivot tile and lines through it.
 *
 * Idea and order are pivot_phases.cuh's and phase3.cuh's, for 32 pivots and tiles in shared memory.
 *
 * Cost: a round's chain is some 7000 clocks for n = 256, on an H100: 4000 for closing the pivot
 * tile, by four runs of eight pivots that take two barriers each; some 300 for what is left of
 * lines then; the rest until the next block has the panels and has brought its tiles up to date.
 * All of that waits for words from shared memory, of which others take most. */
#ifndef GPUDIST_APSP_RESIDENT_CHAIN_CUH
#define GPUDIST_APSP_RESIDENT_CHAIN_CUH

#include "arch/barrier.cuh"
#include "arch/bytes.cuh"
#include "arch/signals.cuh"
#include "apsp/tagged.cuh"

namespace gd {
namespace resident {

constexpr int kSide = 32;                                  /* of a tile: pivots a round */
constexpr int kPairs = kSide / 2;                          /* of pivots */
constexpr int kPanel = kPairs * kSide;                     /* pairs */
constexpr int kClosers = 128;                              /* threads that close the pivot tile */
constexpr int kRuns = kClosers / 32, kRun = kSide / kRuns; /* of its rows: one a warp */

/* Panels are [local tile][pair][line], as in device memory. */
template <typename T>
struct Shared {
    static constexpr int kPitch = kSide + 16 / (int)sizeof(T); /* both ways without conflicts */
    Pair<T> ahead[2][kPanel];  /* of other blocks, at the next pivots: columns, rows */
    Pair<T> closed[2][kPanel]; /* columns and rows of the pivot tile: {k, k + 1} */
    T tile[kSide * kPitch];    /* the next pivots', a round old at first */
};

/* Barriers for parts of a block: those who close the pivot tile, the others, and, from either to
 * the other: the panels at the tile are there, what the others bring is. */
enum {
    kClosersMeet = 1,
    kOthersMeet = 2,
    kPanelsThere = 3,
    kShareThere = 4,
    kRunClosed = 5, /* and on: columns and rows of a run of pivots */
};
static_assert(kRunClosed + kRuns <= 16, "a block has so many barriers");

/* A pair on its way to other blocks: each word is there when its seal is, so no flag follows it and
 * nobody waits until it is written. */
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

__device__ __forceinline__ bool is_sealed(const Sealed &x, unsigned seal)
{
    return x.first >> 32 == seal && x.second >> 32 == seal;
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

/* A thread's legs of a pair of pivots, of its rows and of its columns. */
template <typename T, int kRows, int kCols>
__device__ __forceinline__ void load_legs(const Pair<T> *cols, const Pair<T> *rows, int pair,
                                          Pair<T> (&a)[kRows], Pair<T> (&b)[kCols])
{
    const int down = threadIdx.x % 32 / 8 * 2, across = threadIdx.x % 8 * 2;
#pragma unroll
    for (int i = 0; i < kRows; i += 2) {
        load_pairs(cols + i / 8 * kPanel + pair * kSide + down + row_step(i % 8), &a[i]);
    }
#pragma unroll
    for (int j = 0; j < kCols; j += 2) {
        load_pairs(rows + j / 4 * kPanel + pair * kSide + across + col_step(j % 4), &b[j]);
    }
}

/* Joins kRows / 8 x kCols / 4 tiles with the panels' terms, or a half or a quarter of a tile's
 * rows. */
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
        load_legs(cols, rows, pair, a, b);
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

/* Joins one tile or a part of its rows, and takes along where paths come from. */
template <typename Ring, int kRows>
__device__ __forceinline__ void relax_tagged(typename Ring::Word *tile, int32_t *tile_before,
                                             int stride, const Pair<typename Ring::Word> *cols,
                                             const Pair<typename Ring::Word> *rows,
                                             const Pair<int32_t> *tags)
{
    using T = typename Ring::Word;
    const int down = threadIdx.x % 32 / 8 * 2, across = threadIdx.x % 8 * 2;
    T c[kRows][4];
    int32_t before[kRows][4];
    load_twos(tile + down * stride + across, stride, c);
    load_twos(tile_before + down * stride + across, stride, before);
#pragma unroll 2
    for (int pair = 0; pair < kPairs; ++pair) {
        Pair<T> a[kRows], b[4];
        Pair<int32_t> from[4];
        load_legs(cols, rows, pair, a, b);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            load_pairs(tags + pair * kSide + across + col_step(j), &from[j]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                fold_tagged<Ring>(c[i][j], before[i][j], a[i], b[j], from[j]);
            }
        }
    }
    store_twos(tile + down * stride + across, stride, c);
    store_twos(tile_before + down * stride + across, stride, before);
}

/* The same, and finds where paths come from when all pivots are through: a bit marks each pair of
 * them that shortened an element, half a word all of a round, and the last pair is looked up. So a
 * pair takes five instructions an element, two of them by the pipe of half the rate; to take tags
 * along takes seven, five of them there. Where all warps look up whole tiles at once, lanes that
 * read other pairs of one line are in each other's way (NOTES.md). */
template <typename Ring, int kRows>
__device__ __forceinline__ void relax_marked(typename Ring::Word *tile, int32_t *tile_before,
                                             int stride, const Pair<typename Ring::Word> *cols,
                                             const Pair<typename Ring::Word> *rows,
                                             const Pair<int32_t> *tags)
{
    using T = typename Ring::Word;
    constexpr int kAtOnce = 4, kBits = 16;
    constexpr uint32_t kFirst = 1, kFirstOfOther = kFirst << kBits;
    static_assert(kPairs == kBits, "half a word marks all pairs");
    const int down = threadIdx.x % 32 / 8 * 2, across = threadIdx.x % 8 * 2;
    const int place = down * stride + across;
    T c[kRows][4];
    uint32_t marks[kRows][2] = {};
    load_twos(tile + place, stride, c);
#pragma unroll 1
    for (int pair = 0; pair < kPairs; pair += kAtOnce) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) { /* nothing leaves its half */
            marks[i][0] >>= kAtOnce, marks[i][1] >>= kAtOnce;
        }
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e) {
            Pair<T> a[kRows], b[4];
            load_legs(cols, rows, pair + e, a, b);
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (shortens<Ring>(c[i][j], a[i], b[j])) {
                        marks[i][j / 2] += kFirst << (j % 2 * kBits + kBits - kAtOnce + e);
                    }
                }
            }
        }
    }
    store_twos(tile + place, stride, c);
    /* So many bytes further, where another pair's line is. */
    const auto in_line = [](const auto *first, int bytes) {
        return reinterpret_cast<decltype(first)>(reinterpret_cast<const char *>(first) + bytes);
    };
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            int32_t *const at = tile_before + place + row_step(i) * stride + col_step(j);
            const uint32_t both = marks[i][j / 2], own = both % kFirstOfOther;
            int32_t before[2];
            gd::load_two(at, before);
            /* Of none the first is looked up, and not used. */
            const int last[2] = {highest_bit(own | kFirst),
                                 highest_bit(both | kFirstOfOther) - kBits};
            const bool is_marked[2] = {own != 0, both >= kFirstOfOther};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                static_assert(sizeof(Pair<T>) == sizeof(Pair<int32_t>), "lines are as long");
                const int line = last[e] * kSide * (int)sizeof(Pair<T>);
                const Pair<T> a = in_line(cols + down, line)[row_step(i)],
                              b = in_line(rows + across, line)[col_step(j + e)];
                const Pair<int32_t> from = in_line(tags + across, line)[col_step(j + e)];
                const int32_t found = is_first<Ring>(c[i][j + e], a, b) ? from.second : from.first;
                before[e] = is_marked[e] ? found : before[e];
            }
            gd::store_two(at, before);
        }
    }
}

/* ---------------------------------------------------------------- the chain */

/* A warp closes a run of eight lines of the pivot tile, which begins at pivot k, from there on: x
 * are a lane's elements of the lines, where either the lines are rows and the lane's number is the
 * column, or the other way round. `closed` gets line k as it is at stage k. What is before the
 * pivots is not right, and is not looked at. */
template <typename Ring>
__device__ __forceinline__ void close_run(typename Ring::Word (&x)[kRun], int k,
                                          Pair<typename Ring::Word> *closed)
{
    using T = typename Ring::Word;
    const int lane = threadIdx.x % 32;
    const auto from_lane = [](T own, int which) { return __shfl_sync(~0u, own, which); };
#pragma unroll
    for (int e = 0; e < kRun; e += 2) {
        const T first = x[e];
        T second = x[e + 1];
        Ring::join(second, from_lane(x[e + 1], k + e), first);
        closed[(k + e) / 2 * kSide + lane] = {first, second};
        const T cross = from_lane(x[e], k + e + 1);
#pragma unroll
        for (int i = e + 2; i < kRun; ++i) {
            Pair<T> leg = {from_lane(x[i], k + e), from_lane(x[i], k + e + 1)};
            Ring::join(leg.second, leg.first, cross);
            Ring::fold(x[i], leg, Pair<T>{second, first});
        }
    }
}

/* Brings the pivot tile up to date as the old panels come, if there are some, and closes it.
 * receive(run) brings a quarter of their pairs, and the first time the tile. `closed` gets column k
 * and row k as they are at stage k, from row and column k on: nobody asks for more.
 *
 * Each of four warps has eight rows, and lanes are 4 x 8, so that each word of a panel serves more
 * elements. A run of eight pivots takes two barriers: one warp closes their rows, another one their
 * columns, neither of which needs the other; then all join the rest of the tile with them. Those
 * who close lines are told after each run (kRunClosed). */
template <typename Ring, int kThreads, typename Receive>
__device__ __forceinline__ void close_tile(bool is_old, const Pair<typename Ring::Word> *cols,
                                           const Pair<typename Ring::Word> *rows,
                                           Shared<typename Ring::Word> &shared, Receive &&receive)
{
    using T = typename Ring::Word;
    constexpr int kPitch = Shared<T>::kPitch;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int down = warp * kRun + lane / 8 * 2, across = lane % 8 * 2;
    T *const mine = shared.tile + down * kPitch + across;
    T c[2][4];
    const auto join = [&](const Pair<T> *from_cols, const Pair<T> *from_rows, bool are_closed) {
        Pair<T> a[2], b[4];
        load_pairs(from_cols + down, a);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            load_pairs(from_rows + across + col_step(j), &b[j]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                Ring::fold(c[i][j], a[i], are_closed ? Pair<T>{b[j].second, b[j].first} : b[j]);
            }
        }
    };
#pragma unroll 1
    for (int run = 0; run < kRuns; ++run) {
        receive(run);
        if (run == 0) {
            load_twos(mine, kPitch, c);
        }
        if (!is_old) {
            break;
        }
#pragma unroll
        for (int pair = 0; pair < kRun / 2; ++pair) {
            const int at = (run * (kRun / 2) + pair) * kSide;
            join(cols + at, rows + at, false);
        }
    }
#pragma unroll 1
    for (int run = 0; run < kRuns; ++run) {
        const int k = run * kRun;
        if (warp >= run) {
            store_twos(mine, kPitch, c);
        }
        gd::sync_part<kClosersMeet, kClosers>();
        if (warp < 2) {
            const T *const lines =
                shared.tile + (warp == 0 ? k * kPitch + lane : lane * kPitch + k);
            const int apart = warp == 0 ? kPitch : 1;
            T x[kRun];
#pragma unroll
            for (int e = 0; e < kRun; ++e) {
                x[e] = lines[e * apart];
            }
            close_run<Ring>(x, k, shared.closed[warp == 0 ? 1 : 0]);
        }
        gd::sync_part<kClosersMeet, kClosers>();
        gd::arrive_part<kRunClosed, kThreads>(run);
        if (warp > run) {
#pragma unroll
            for (int pair = 0; pair < kRun / 2; ++pair) {
                const int at = (k / 2 + pair) * kSide;
                join(shared.closed[0] + at, shared.closed[1] + at, true);
            }
        }
    }
}

/* Joins kMany elements with the terms of a pair of pivots. Doubles go step by step together: what
 * one of them waits for, the others fill. By itself the compiler does one after the other here. */
template <typename Ring, int kMany>
__device__ __forceinline__ void fold_together(typename Ring::Word *const (&c)[kMany],
                                              const Pair<typename Ring::Word> (&a)[kMany],
                                              const Pair<typename Ring::Word> &b)
{
    using T = typename Ring::Word;
    if constexpr (sizeof(T) == 8) {
#pragma unroll
        for (int term = 0; term < 2; ++term) {
            T sum[kMany];
            bool less[kMany];
#pragma unroll
            for (int e = 0; e < kMany; ++e) {
                sum[e] =
                    term == 0 ? Ring::term(a[e].first, b.second) : Ring::term(a[e].second, b.first);
            }
#pragma unroll
            for (int e = 0; e < kMany; ++e) {
                less[e] = sum[e] < *c[e];
            }
#pragma unroll
            for (int e = 0; e < kMany; ++e) {
                *c[e] = less[e] ? sum[e] : *c[e];
            }
        }
    }
    else {
#pragma unroll
        for (int e = 0; e < kMany; ++e) {
            Ring::fold(*c[e], a[e], b);
        }
    }
}

/* A thread closes a line of the next pivots through their tile, and sends it: 32 elements `stride`
 * apart, a column of the pivots' rows, through the tile's columns; or 32 neighbours, a row of the
 * pivots' columns, through its rows. A line needs no other; one that follows waits for each run of
 * the tile's lines.
 *
 * Only element k as it is at stage k is wanted, so an element takes part in the stages before its
 * own and in no others. In the matrix the line stays as it was: the panels relax it with all the
 * rest, by the same sums. */
template <typename Ring, int kThreads>
__device__ __forceinline__ void close_line(const typename Ring::Word *line, int stride,
                                           bool of_rows, const Pair<typename Ring::Word> *closed,
                                           Sealed *panel, unsigned seal, bool follows)
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
        if (k % kRun == 0 && follows) {
            gd::sync_part<kRunClosed, kThreads>(k / kRun);
        }
        const Pair<T> *const legs = closed + k / 2 * kSide;
        const T first = x[k];
        T second = x[k + 1];
        Ring::join(second, legs[k + 1].first, first);
        const Pair<T> both = {second, first};
        const Pair<T> out = of_rows ? both : Pair<T>{first, second};
        send(panel + k / 2 * kSide, out, seal);
        constexpr int kTogether = 4;
#pragma unroll
        for (int i = k + 2; i < kSide; i += kTogether) {
            Pair<T> leg[kTogether];
            load_pairs(&legs[i], leg);
            if (i + kTogether <= kSide) {
                load_pairs(&legs[i + 2], leg + 2);
                fold_together<Ring, 4>({&x[i], &x[i + 1], &x[i + 2], &x[i + 3]}, leg, both);
            }
            else {
                fold_together<Ring, 2>({&x[i], &x[i + 1]}, {leg[0], leg[1]}, both);
            }
        }
    }
}

/* A line of the pivots' rows, with its tags and where they go; `panel` is NULL where another warp
 * sends the lengths. */
template <typename Ring, int kThreads>
__device__ __forceinline__ void close_tagged_line(const typename Ring::Word *line,
                                                  const int32_t *line_before, int stride,
                                                  const Pair<typename Ring::Word> *closed,
                                                  Sealed *panel, Sealed *panel_tags, unsigned seal,
                                                  bool follows)
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
        if (k % kRun == 0 && follows) {
            gd::sync_part<kRunClosed, kThreads>(k / kRun);
        }
        const Pair<T> *const legs = closed + k / 2 * kSide;
        Pair<T> both = {x[k + 1], x[k]};
        Pair<int32_t> from = {before[k + 1], before[k]};
        join_tagged<Ring>(both, from, legs[k + 1].first);
        if (panel != NULL) {
            send(panel + k / 2 * kSide, both, seal);
        }
        send(panel_tags + k / 2 * kSide, from, seal);
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
