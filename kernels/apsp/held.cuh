/* held.cuh: the triple loop on a matrix that a team of threads holds in its registers.
 *
 * Idea: a thread holds kM x kN elements in runs of four. Two pivots make a stage: who holds their
 * rows and columns leaves them in shared memory as they are before the stage, and every thread
 * takes its pieces of the second pivot's row and column through the first pivot itself. So there is
 * one barrier for two pivots, and every sum is one that the loop forms. What the next stage needs
 * is computed first and left first. Where a block is less than what a multiprocessor has at a time,
 * or waits for others, warps arrive at the barrier when they have left their lines, and wait when
 * they need those of others.
 *
 * Cost: for 64 elements a thread and two pivots, 192 instructions are updates of floats that are
 * not negative, 32 the second pivot's own stage, 9 loads of 16 bytes; some 40 more leave lines and
 * turn the loop, 12 where all lines come from elsewhere. */
#ifndef GPUDIST_APSP_HELD_CUH
#define GPUDIST_APSP_HELD_CUH

#include "apsp/tagged.cuh"
#include "arch/barrier.cuh"
#include "arch/registers.cuh"

/* Where arriving and waiting are apart, and bulk copies are (arch/barrier.cuh). */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GD_SPLIT_BARRIERS
#endif

namespace gd {

/* A team of kThreads threads holds kSide x kWide elements, a thread kRows x kCols of them. Teams of
 * less than a warp share one. */
template <typename T, int kSide, int kM, int kN, int kWide = kSide>
struct HeldShape {
    static constexpr int kNodes = kSide, kNodesAcross = kWide, kRows = kM, kCols = kN;
    static constexpr int kRun = 4; /* neighbouring rows, and columns, of a thread */
    static constexpr int kDown = kSide / kM, kAcross = kWide / kN, kThreads = kDown * kAcross;
    static constexpr int kLanesAcross = kAcross < 8 ? kAcross : 8;
    static constexpr int kLanesDown = kThreads < 32 ? kDown : 32 / kLanesAcross;
    static constexpr int kWarpsAcross = kAcross / kLanesAcross;
    static constexpr int kRowRuns = kM / kRun;
    static_assert(kM % kRun == 0 && kN % kRun == 0, "a thread holds whole runs");
    static_assert(kThreads >= 32 || 32 % kThreads == 0, "a warp holds whole graphs");

    static __device__ __forceinline__ int down()
    {
        const int warp = threadIdx.x % kThreads / 32, lane = threadIdx.x % kThreads % 32;
        return warp / kWarpsAcross * kLanesDown + lane / kLanesAcross;
    }
    static __device__ __forceinline__ int across()
    {
        const int warp = threadIdx.x % kThreads / 32, lane = threadIdx.x % kThreads % 32;
        return warp % kWarpsAcross * kLanesAcross + lane % kLanesAcross;
    }
    /* Where row i and column j of the thread lie. */
    static __device__ constexpr int row_step(int i) { return i / kRun * kRun * kDown + i % kRun; }
    static __device__ constexpr int col_step(int j) { return j / kRun * kRun * kAcross + j % kRun; }
    static __device__ __forceinline__ int row(int i) { return down() * kRun + row_step(i); }
    static __device__ __forceinline__ int col(int j) { return across() * kRun + col_step(j); }
};

/* Lines of a stage's pivots for kTeams teams: two neighbouring stages take turns. Columns lie row
 * by row as {k, k + 1}, rows as {k + 1, k} in the order in which threads read them. Teams that
 * share a warp read different banks. */
template <typename T, typename Shape, int kTeams, bool kPred, bool kShared>
struct HeldLines {
    static constexpr int kOfRows = 4 * Shape::kNodesAcross, kOfCols = 4 * Shape::kNodes;
    static constexpr int kRowPad = kShared ? 64 / sizeof(T) : 0;
    static constexpr int kColPad = kShared ? 16 / sizeof(T) : 0;
    alignas(16) T rows[kTeams][kOfRows + kRowPad];
    alignas(16) T cols[kTeams][kOfCols + kColPad];
    alignas(16) int32_t before[kPred ? kTeams : 1][kPred ? kOfRows + kRowPad : 4];
    uint64_t met; /* a barrier, where arriving and waiting are apart: warps with lines left */

    /* One thread, before anybody arrives. */
    __device__ __forceinline__ void ready()
    {
#ifdef GD_SPLIT_BARRIERS
        barrier_init(&met, Shape::kThreads / 32);
#endif
    }
    /* One thread, when all have waited for the last time. */
    __device__ __forceinline__ void ready_again()
    {
#ifdef GD_SPLIT_BARRIERS
        barrier_drop(&met);
        ready();
#endif
    }
};

template <typename T>
__device__ __forceinline__ void load_four(const T *from, T *to)
{
#pragma unroll
    for (int e = 0; e < 4; e += kPerWord<T>) {
        load_word(from + e, to + e);
    }
}
template <typename T>
__device__ __forceinline__ void store_four(T *to, T a, T b, T c, T d)
{
    const T four[4] = {a, b, c, d};
#pragma unroll
    for (int e = 0; e < 4; e += kPerWord<T>) {
        store_word(to + e, four + e);
    }
}

/* Lines of a matrix that is a team's as a whole: none come from elsewhere, and none go there. What
 * feeds a matrix otherwise has the same names:
 * - kRows, kCols: whether the pivots' rows, and their columns, are the matrix's own;
 * - kRaw: whether rows are as they were before the stage, and not as at their own pivot's;
 * - kSplit: whether threads arrive and wait apart;
 * - kBefore: runs of columns before the first pivot's;
 * - turn(): waits for a pair of pivots' lines that come, and meets all threads before, if asked to;
 *   rows(), cols() and tags() are where they are;
 * - send() is given four of a row's elements as they are left, and keep_rows() and keep_cols() a
 *   thread's pieces of lines as at their own stage; advance() goes on by two pairs. */
struct OwnLines {
    static constexpr bool kRows = true, kCols = true, kRaw = true, kSplit = false;
    static constexpr int kBefore = 0;
    static __device__ __forceinline__ void turn(int, bool) {}
    static __device__ __forceinline__ void advance() {}
    template <typename T>
    static __device__ __forceinline__ void send(int, int, T, T, T, T)
    {
    }
    template <typename B, typename From>
    static __device__ __forceinline__ void keep_rows(int, const B &, const From &)
    {
    }
    template <typename A>
    static __device__ __forceinline__ void keep_cols(int, const A &)
    {
    }
};

/* Closes c over pivots 0 to `pivots`, which all threads of a block, or of a warp that teams share,
 * agree on. before[i][j] is where the path to (i, j) comes from. `feed` has the lines that are not
 * of this matrix, as at their own stages, and is given those that are. */
template <typename Ring, typename Shape, bool kPred, typename Feed>
struct Held {
    using T = typename Ring::Word;
    static constexpr int kM = Shape::kRows, kN = Shape::kCols;
    static constexpr int kRun = Shape::kRun, kDown = Shape::kDown, kAcross = Shape::kAcross;
    /* Of two pivots. */
    static constexpr int kRowLine = 2 * Shape::kNodesAcross, kColLine = 2 * Shape::kNodes;
    /* Which run of a thread's columns the pivots of a run of its rows are, and of which thread. */
    static __device__ constexpr int col_run(int run)
    {
        return (Feed::kBefore + run * kDown) / kAcross;
    }
    static __device__ constexpr int col_owner(int run)
    {
        return (Feed::kBefore + run * kDown) % kAcross;
    }

    T (&c)[kM][kN];
    int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1];
    T *const rows, *const cols; /* shared memory for two stages' lines, this team's */
    int32_t *const tags;
    uint64_t *const met;
    Feed feed;
    const int ty, tx;

    template <typename Lines>
    __device__ __forceinline__ Held(T (&held)[kM][kN],
                                    int32_t (&from)[kPred ? kM : 1][kPred ? kN : 1], Lines &lines,
                                    const Feed &other)
        : c(held),
          before(from),
          rows(lines.rows[threadIdx.x / Shape::kThreads]),
          cols(lines.cols[threadIdx.x / Shape::kThreads]),
          tags(lines.before[kPred ? threadIdx.x / Shape::kThreads : 0]),
          met(&lines.met),
          feed(other),
          ty(Feed::kSplit ? kept(Shape::down()) : Shape::down()),
          tx(Feed::kSplit ? kept(Shape::across()) : Shape::across())
    {
    }

    static __device__ __forceinline__ void meet()
    {
        if constexpr (Shape::kThreads <= 32) {
            __syncwarp();
        }
        else {
            __syncthreads();
        }
    }
    /* Says that this warp has left its lines of the next stage, and has those of this one in its
     * registers; */
    __device__ __forceinline__ void arrive() const
    {
#ifdef GD_SPLIT_BARRIERS
        if constexpr (Feed::kSplit) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                barrier_arrive(met);
            }
        }
#endif
    }
    /* and waits until all have said so. */
    __device__ __forceinline__ void await(unsigned parity) const
    {
#ifdef GD_SPLIT_BARRIERS
        if constexpr (Feed::kSplit) {
            barrier_wait(met, parity);
            return;
        }
#endif
        meet();
    }

    /* Leaves the rows and columns of the pivots in registers kRun * run + first and the next, which
     * thread number `owner` down holds. */
    template <int kRunOf, int kFirst>
    __device__ __forceinline__ void leave(int owner)
    {
        constexpr int kAt = kRunOf * kRun + kFirst, kColAt = col_run(kRunOf) * kRun + kFirst;
        constexpr int kTurn = kFirst / 2 * kRowLine, kColTurn = kFirst / 2 * kColLine;
        if (Feed::kRows && ty == owner) {
#pragma unroll
            for (int j = 0; j < kN; j += 2) {
                const int to = kTurn + tx * 4 + j / 2 * 4 * kAcross;
                store_four(rows + to, c[kAt + 1][j], c[kAt][j], c[kAt + 1][j + 1], c[kAt][j + 1]);
                if constexpr (kPred) {
                    store_four(tags + to, before[kAt + 1][j], before[kAt][j],
                               before[kAt + 1][j + 1], before[kAt][j + 1]);
                }
            }
        }
        if (Feed::kCols && tx == col_owner(kRunOf) + owner) {
            Pair<T> *const to = reinterpret_cast<Pair<T> *>(cols + kColTurn) + ty * kRun;
#pragma unroll
            for (int i = 0; i < kM; ++i) {
                to[Shape::row_step(i)] = {c[i][kColAt], c[i][kColAt + 1]};
            }
        }
        arrive();
        if (Feed::kRows && ty == owner) { /* which nobody here waits for */
#pragma unroll
            for (int j = 0; j < kN; j += 2) {
                feed.send((kRunOf * kDown + owner) * 2 + kFirst / 2, tx * 4 + j / 2 * 4 * kAcross,
                          c[kAt + 1][j], c[kAt][j], c[kAt + 1][j + 1], c[kAt][j + 1]);
            }
        }
    }

    __device__ __forceinline__ void update(int i, int j, const Pair<T> (&a)[kM],
                                           const Pair<T> (&b)[kN],
                                           const Pair<int32_t> (&from)[kPred ? kN : 1])
    {
        if constexpr (kPred) {
            fold_tagged<Ring>(c[i][j], before[i][j], a[i], b[j], from[j]);
        }
        else {
            fold_at<Ring>(i + j, c[i][j], a[i], b[j]);
        }
    }

    /* This thread's pieces of two pivots' lines. */
    __device__ __forceinline__ void load(const T *row_line, const T *col_line,
                                         const int32_t *tag_line, Pair<T> (&a)[kM],
                                         Pair<T> (&b)[kN],
                                         Pair<int32_t> (&from)[kPred ? kN : 1]) const
    {
#pragma unroll
        for (int j = 0; j < kN; j += 2) {
            const int at = tx * 4 + j / 2 * 4 * kAcross;
            load_four(row_line + at, &b[j].first);
            if constexpr (kPred) {
                load_four(tag_line + at, &from[j].first);
            }
        }
#pragma unroll
        for (int i = 0; i < kM; i += 2) {
            load_four(col_line + ty * 2 * kRun + 2 * Shape::row_step(i), &a[i].first);
        }
    }

    /* Two pivots, whose rows are kRun * kRunOf + kFirst and the next of threads `owner` down. */
    template <int kRunOf, int kFirst>
    __device__ __forceinline__ void stage(int owner)
    {
        constexpr int kTurn = kFirst / 2 * kRowLine, kColTurn = kFirst / 2 * kColLine;
        constexpr int kNext = 2 - kFirst, kColRun = col_run(kRunOf);
        await(kFirst / 2);
        feed.turn((kRunOf * kDown + owner) * 2 + kFirst / 2, false);
        const T *row_line = rows + kTurn, *col_line = cols + kColTurn;
        const int32_t *tag_line = tags + kTurn;
        if constexpr (!Feed::kRows) {
            row_line = feed.template rows<kRunOf>(owner * 2 + kFirst / 2);
            tag_line = feed.tags(owner * 2 + kFirst / 2);
        }
        if constexpr (!Feed::kCols) {
            col_line = feed.cols(owner * 2 + kFirst / 2);
        }
        Pair<T> a[kM], b[kN];
        Pair<int32_t> from[kPred ? kN : 1];
        /* The first pivot's length to the second, and from it. */
        const T *const of_col = col_line + (kRunOf * kDown + owner) * 2 * kRun + 2 * kFirst;
        constexpr int kPlace = (kColRun * kRun + kFirst) / 2 * kAcross + col_owner(kRunOf);
        const T *const of_row = row_line + (kPlace + owner) * 4;
        const T back = Feed::kCols && Feed::kSplit ? of_row[0] : of_col[2];
        const T there = !Feed::kCols ? 0 : Feed::kSplit ? of_row[3] : of_col[1];
        load(row_line, col_line, tag_line, a, b, from);
        if constexpr (Feed::kRaw) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                if constexpr (kPred) {
                    join_tagged<Ring>(b[j], from[j], back);
                }
                else {
                    Ring::join(b[j].first, back, b[j].second);
                }
            }
            if (ty == (owner ^ kDown / 2)) { /* who left the line has done enough */
                feed.keep_rows(kTurn, b, from);
            }
        }
        if constexpr (Feed::kCols) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
                Ring::join(a[i].second, a[i].first, there);
            }
            if (tx == ((col_owner(kRunOf) + owner) ^ kAcross / 2)) {
                feed.keep_cols(kColTurn, a);
            }
        }
        /* Where columns alone are left, the compiler would put predecessors off until after that,
         * and spill what they follow from. */
        constexpr bool kAhead = !kPred || sizeof(T) == 8 || Feed::kRows;
        const auto is_next = [](int i, int j) {
            return kAhead && ((Feed::kRows && i / kRun == kRunOf && (i & 2) == kNext) ||
                              (Feed::kCols && j / kRun == kColRun && (j & 2) == kNext));
        };
        const bool stays = kFirst == 0 || owner + 1 < kDown; /* in this run of registers */
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                if (is_next(i, j)) {
                    update(i, j, a, b, from);
                }
            }
        }
        if (kAhead && stays) {
            leave<kRunOf, kNext>(kFirst == 0 ? owner : owner + 1);
        }
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                if (!is_next(i, j)) {
                    update(i, j, a, b, from);
                }
            }
        }
        if (!kAhead && stays) {
            leave<kRunOf, kNext>(kFirst == 0 ? owner : owner + 1);
        }
        if constexpr (kRunOf + 1 < Shape::kRowRuns) {
            if (!stays) {
                leave<kRunOf + 1, 0>(0);
            }
        }
    }

    template <int kRunOf = 0>
    __device__ __forceinline__ void close(int pivots)
    {
        if constexpr (kRunOf == 0) {
            leave<0, 0>(0);
        }
#pragma unroll 1
        for (int owner = 0; owner < kDown; ++owner) {
            if ((kRunOf * kDown + owner) * kRun >= pivots) {
                return;
            }
            stage<kRunOf, 0>(owner);
            stage<kRunOf, 2>(owner);
            feed.advance();
        }
        if constexpr (kRunOf + 1 < Shape::kRowRuns) {
            close<kRunOf + 1>(pivots);
        }
    }

    /* Where both lines come from elsewhere, nothing has to be left. */
    __device__ __forceinline__ void relax(int pivots)
    {
        const int pairs = (pivots + kRun - 1) / kRun * 2;
#pragma unroll 1
        for (int pair = 0; pair < pairs;) {
            feed.turn(pair, true);
            const int end = min(pairs, pair + Feed::kPairs);
            const int at = pair % (2 * Feed::kPairs);
            const T *row_line = feed.template rows<0>(at), *col_line = feed.cols(at);
            const int32_t *tag_line = feed.tags(at);
#pragma unroll 1
            for (; pair < end; pair += 2) {
#pragma unroll
                for (int p = 0; p < 2; ++p) {
                    Pair<T> a[kM], b[kN];
                    Pair<int32_t> from[kPred ? kN : 1];
                    load(row_line + p * kRowLine, col_line + p * kColLine, tag_line + p * kRowLine,
                         a, b, from);
#pragma unroll
                    for (int i = 0; i < kM; ++i) {
#pragma unroll
                        for (int j = 0; j < kN; ++j) {
                            update(i, j, a, b, from);
                        }
                    }
                }
                row_line += 2 * kRowLine;
                col_line += 2 * kColLine;
                tag_line += 2 * kRowLine;
            }
        }
    }
};

}  // namespace gd
#endif
