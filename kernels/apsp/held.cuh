/* held.cuh: the triple loop on a matrix that a team of threads holds in its registers.
 *
 * Idea: a thread holds kM x kN elements in runs of four. Two pivots make a stage: who holds their
 * rows and columns leaves them in shared memory as they are before the stage, and every thread
 * takes its pieces of the second pivot's row and column through the first pivot itself. So there is
 * one barrier for two pivots, and every sum is one that the loop forms. What the next stage needs
 * is computed first and left first.
 *
 * Cost: for 64 elements a thread and two pivots, 192 instructions are updates of floats that are
 * not negative, 32 the second pivot's own stage, 9 loads of 16 bytes; some 60 more leave lines and
 * turn the loop. */
#ifndef GPUDIST_APSP_HELD_CUH
#define GPUDIST_APSP_HELD_CUH

#include "apsp/tagged.cuh"

namespace gd {

/* A team of kThreads threads holds kSide x kSide elements. Teams of less than a warp share one. */
template <typename T, int kSide, int kM, int kN>
struct HeldShape {
    static constexpr int kNodes = kSide;
    static constexpr int kRun = 4; /* neighbouring rows, and columns, of a thread */
    static constexpr int kDown = kSide / kM, kAcross = kSide / kN, kThreads = kDown * kAcross;
    static constexpr int kLanesAcross = kAcross < 8 ? kAcross : 8;
    static constexpr int kLanesDown = kThreads < 32 ? kDown : 32 / kLanesAcross;
    static constexpr int kWarpsAcross = kAcross / kLanesAcross;
    static constexpr int kColRuns = kN / kRun, kRowRuns = kM / kRun;
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
    /* Where {k + 1, k} of a column lie in the line of two rows. */
    static __device__ __forceinline__ int line_place(int col)
    {
        const int run = col / (kRun * kAcross), lane = col / kRun % kAcross, e = col % kRun;
        return ((run * kRun + e) / 2 * kAcross + lane) * 4 + e % 2 * 2;
    }
    static __device__ __forceinline__ int row(int i) { return down() * kRun + row_step(i); }
    static __device__ __forceinline__ int col(int j) { return across() * kRun + col_step(j); }
};

/* Lines of a stage's pivots for kTeams teams: two neighbouring stages take turns. Columns lie row
 * by row as {k, k + 1}, rows as {k + 1, k} in the order in which threads read them. Teams that
 * share a warp read different banks. */
template <typename T, int kSide, int kTeams, bool kPred, bool kShared>
struct HeldLines {
    static constexpr int kRowPad = kShared ? 64 / sizeof(T) : 0;
    static constexpr int kColPad = kShared ? 16 / sizeof(T) : 0;
    alignas(16) T rows[kTeams][4 * kSide + kRowPad];
    alignas(16) T cols[kTeams][4 * kSide + kColPad];
    alignas(16) int32_t before[kPred ? kTeams : 1][kPred ? 4 * kSide + kRowPad : 4];
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

/* A matrix that is a team's as a whole: no lines come from elsewhere, and none go there. */
struct OwnLines {
    static constexpr bool kRows = true, kCols = true;
    __device__ __forceinline__ void turn(int) {}
    template <typename B, typename From>
    __device__ __forceinline__ void keep_rows(int, const B &, const From &) const
    {
    }
    template <typename A>
    __device__ __forceinline__ void keep_cols(int, const A &) const
    {
    }
};

/* Closes c over pivots 0 to `pivots`, which all threads of a block, or of a warp that teams share,
 * agree on. before[i][j] is where the path to (i, j) comes from. `feed` has the lines that are not
 * of this matrix, as at their own stages, and is given those that are. */
template <typename Ring, int kSide, int kM, int kN, bool kPred, typename Feed>
struct Held {
    using T = typename Ring::Word;
    using Shape = HeldShape<T, kSide, kM, kN>;
    static constexpr int kRun = Shape::kRun, kDown = Shape::kDown, kAcross = Shape::kAcross;
    static constexpr int kLine = 2 * kSide; /* of two pivots */

    T (&c)[kM][kN];
    int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1];
    T *const rows, *const cols; /* shared memory for two stages' lines, this team's */
    int32_t *const tags;
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
          feed(other),
          ty(Shape::down()),
          tx(Shape::across())
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

    /* Leaves the rows and columns of the pivots in registers kRun * run + first and the next, which
     * thread number `owner` down holds. */
    template <int kRunOf, int kFirst>
    __device__ __forceinline__ void leave(int owner)
    {
        constexpr int kTurn = kFirst / 2 * kLine, kAt = kRunOf * kRun + kFirst;
        constexpr int kColAt = kRunOf * kDown / kAcross * kRun + kFirst;
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
        if (Feed::kCols && tx == kRunOf * kDown % kAcross + owner) {
            Pair<T> *const to = reinterpret_cast<Pair<T> *>(cols + kTurn) + ty * kRun;
#pragma unroll
            for (int i = 0; i < kM; ++i) {
                to[Shape::row_step(i)] = {c[i][kColAt], c[i][kColAt + 1]};
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
        constexpr int kTurn = kFirst / 2 * kLine, kNext = 2 - kFirst;
        constexpr int kColRun = kRunOf * kDown / kAcross;
        const int pivot = (kRunOf * kDown + owner) * kRun + kFirst, pair = pivot / 2;
        meet();
        const T *row_line = rows + kTurn, *col_line = cols + kTurn;
        const int32_t *tag_line = tags + kTurn;
        if constexpr (!Feed::kRows) {
            row_line = feed.rows(pair);
            tag_line = feed.tags(pair);
        }
        if constexpr (!Feed::kCols) {
            col_line = feed.cols(pair);
        }
        Pair<T> a[kM], b[kN];
        Pair<int32_t> from[kPred ? kN : 1];
        /* The first pivot's length to the second, and from it. */
        const T back = col_line[2 * pivot + 2];
        const T there = Feed::kCols && Feed::kRows ? col_line[2 * pivot + 1]
                                                   : row_line[Shape::line_place(pivot + 1) + 1];
        load(row_line, col_line, tag_line, a, b, from);
        if constexpr (Feed::kRows) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                if constexpr (kPred) {
                    join_tagged<Ring>(b[j], from[j], back);
                }
                else {
                    Ring::join(b[j].first, back, b[j].second);
                }
            }
            if (ty == owner) {
                feed.keep_rows(pair, b, from);
            }
        }
        if constexpr (Feed::kCols) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
                Ring::join(a[i].second, a[i].first, there);
            }
            if (tx == owner) {
                feed.keep_cols(pair, a);
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
            feed.turn((kRunOf * kDown + owner) * 2);
            stage<kRunOf, 0>(owner);
            stage<kRunOf, 2>(owner);
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
        for (int pair = 0; pair < pairs; pair += 2) {
            feed.turn(pair);
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                Pair<T> a[kM], b[kN];
                Pair<int32_t> from[kPred ? kN : 1];
                load(feed.rows(pair + p), feed.cols(pair + p), feed.tags(pair + p), a, b, from);
#pragma unroll
                for (int i = 0; i < kM; ++i) {
#pragma unroll
                    for (int j = 0; j < kN; ++j) {
                        update(i, j, a, b, from);
                    }
                }
            }
        }
    }
};

}  // namespace gd
#endif
