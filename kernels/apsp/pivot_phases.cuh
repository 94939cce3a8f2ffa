/* pivot_phases.cuh: phases 1 and 2 of blocked Floyd-Warshall: closing the pivot tile, and then the
 * rows and columns of tiles through it, over the pivots of one round.
 *
 * Idea: a strip of the matrix stays in the registers of one block, and the pivots pass over it two
 * by two, as in the textbook loop. Pivot k needs row k and column k as they are at that stage. A
 * strip that contains them publishes them in shared memory, both of a pair before the first one's
 * stage; every thread then takes its piece of the second one through the first stage by itself,
 * which costs an update an element and saves half the barriers. A strip that lacks them reads what
 * the pivot tile found, the snapshots. All of these pairs also go to the panels in device memory,
 * from which phase 3 computes everything else.
 *
 * Cost: one barrier a pair of pivots. The pivot tile is one SM's work, at some 64 updates a clock:
 * 2.1 us for 64 pivots and 17 for 128, and the barriers' 100 to 150 clocks come on top. The strips
 * make 2 * pivots / n of the updates of phase 3.
 *
 * Launch: 256 threads a strip, 8 x 4, 4 x 4 or, for a pivot tile of 128, 8 x 8 elements a thread.
 */
#ifndef GPUDIST_APSP_PIVOT_PHASES_CUH
#define GPUDIST_APSP_PIVOT_PHASES_CUH

#include "arch/dependent.cuh"
#include "apsp/panels.cuh"
#include "apsp/tagged.cuh"

namespace gd {

template <int kPivots>
constexpr int kStripThreads = 2 * kPivots;

/* A block's share of closing: kRows x kCols elements at (row0, col0), over kPivots pivots.
 * kHasRows: its rows are the pivots' rows, and are published here; kHasCols likewise. */
template <typename Ring, int kPivots, int kRows, int kCols, int kThreads, bool kHasRows,
          bool kHasCols, bool kPred, typename Panels>
struct Strip {
    using Hold = Storage<Ring>;
    using T = typename Hold::Value;
    static constexpr int kElements = kRows * kCols / kThreads; /* of a thread */
    static constexpr int kM = kElements >= 128 ? 16 : kElements >= 32 ? 8 : 4;
    static constexpr int kN = kElements / kM;
    static constexpr int kWarpsDown = kRows / (4 * kM), kWarpsAcross = kCols / (8 * kN);
    static_assert(kWarpsDown * kWarpsAcross == kThreads / 32 && kN % 2 == 0,
                  "threads cover the strip");
    /* Runs of two: one thread holds both pivots of a pair. */
    using Tile = MinplusTile<T, kM, kN, kWarpsDown, kWarpsAcross, 2>;
    /* Pivots that come round before the same registers hold pivots again. */
    static constexpr int kTrip =
        Tile::kWarpRows > Tile::kWarpCols ? Tile::kWarpRows : Tile::kWarpCols;
    static_assert(kPivots % kTrip == 0, "trips are whole");
    static constexpr int kPairsATime = kPivots == 64             ? (kHasRows && kHasCols ? 2 : 4)
                                       : kPred || kElements > 32 ? 1
                                                                 : 2;

    /* Rows whose elements of a pair of columns a thread loads together: all if it has registers
     * for them, so that it waits for them once. */
    static constexpr int kAhead = kThreads <= 128 && kPivots == 128 ? kM : 2;

    /* Lines that are published are used in turn, so that one barrier a pair is enough: whoever
     * overwrites a line has passed the barrier that all its readers reach after reading. */
    struct Lines {
        alignas(16) Pair<T> rows[kHasRows ? 2 : kPivots / 2][kCols];
        alignas(16) Pair<T> cols[kHasCols ? 2 : kPivots / 2][kRows];
        alignas(16) Pair<int32_t> preds[!kPred ? 1 : kHasRows ? 2 : kPivots / 2][kPred ? kCols : 2];
    };

    /* What a thread holds: its elements, and their predecessors. */
    struct Held {
        T d[kM][kN];
        int32_t p[kM][kN];
    };

    static __device__ __forceinline__ void close(const Paths<Ring> &paths, ptrdiff_t row0,
                                                 ptrdiff_t col0, ptrdiff_t pivot, Lines &lines)
    {
        Held held;
        load(paths, row0, col0, held);
        close(paths, row0, col0, pivot, lines, held);
    }
    static __device__ __forceinline__ void load(const Paths<Ring> &paths, ptrdiff_t row0,
                                                ptrdiff_t col0, Held &held)
    {
        const int my_row = Tile::row(0), my_col = Tile::col(0);
        auto *const dist = paths.dist + (row0 + my_row) * paths.stride + col0 + my_col;
        int32_t *const pred =
            kPred ? paths.pred + (row0 + my_row) * paths.padded + col0 + my_col : NULL;
        for_runs([&](int i, int j) {
            Hold::load(dist + Tile::row_step(i) * paths.stride + Tile::col_step(j), &held.d[i][j]);
            if constexpr (kPred) {
                load_two(pred + Tile::row_step(i) * paths.padded + Tile::col_step(j),
                         &held.p[i][j]);
            }
        });
    }
    /* Closes what is held already. */
    static __device__ __forceinline__ void close(const Paths<Ring> &paths, ptrdiff_t row0,
                                                 ptrdiff_t col0, ptrdiff_t pivot, Lines &lines,
                                                 Held &held)
    {
        const int my_row = Tile::row(0), my_col = Tile::col(0);
        auto *const dist = paths.dist + (row0 + my_row) * paths.stride + col0 + my_col;
        int32_t *const pred =
            kPred ? paths.pred + (row0 + my_row) * paths.padded + col0 + my_col : NULL;
        const Outlet outlet(paths, row0 + my_row, col0 + my_col);
        if constexpr (!kHasRows || !kHasCols) {
            take_snapshots(paths, pivot, lines);
        }
#pragma unroll 1
        for (int trip = 0; trip < kPivots; trip += kTrip) {
#pragma unroll
            for (int run = 0; run < kTrip; run += 8) { /* four pairs in the same registers */
#pragma unroll(kPairsATime)
                for (int lane = 0; lane < 4; ++lane) {
                    step(outlet, lines, trip, run, lane, held);
                }
            }
        }

        for_runs([&](int i, int j) {
            Hold::store(dist + Tile::row_step(i) * paths.stride + Tile::col_step(j), &held.d[i][j]);
            if constexpr (kPred) {
                store_two(pred + Tile::row_step(i) * paths.padded + Tile::col_step(j),
                          &held.p[i][j]);
            }
        });
    }

private:
    /* Calls f(i, j) where a run of two columns starts. */
    template <typename F>
    static __device__ __forceinline__ void for_runs(const F &f)
    {
#pragma unroll
        for (int i = 0; i < kM; ++i) {
#pragma unroll
            for (int j = 0; j < kN; j += 2) {
                f(i, j);
            }
        }
    }

    /* Where this thread's lines of the panels are. A strip of a symmetric matrix is a strip of both
     * kinds. */
    struct Outlet {
        Pair<typename Hold::Word> *rows, *cols, *mirrored;
        Pair<int32_t> *preds;

        __device__ __forceinline__ Outlet(const Paths<Ring> &paths, ptrdiff_t row, ptrdiff_t col)
        {
            const ptrdiff_t rows_at = paths.template rows_at<Panels>(0, col);
            rows = paths.rows + rows_at;
            cols = paths.cols + paths.template cols_at<Panels>(0, row);
            preds = kPred ? paths.preds + rows_at : NULL;
            mirrored = kPred || !paths.symmetric || (kHasRows && kHasCols) ? NULL
                       : kHasRows ? paths.cols + paths.template cols_at<Panels>(0, col)
                                  : paths.rows + paths.template rows_at<Panels>(0, row);
        }
        __device__ __forceinline__ void put_rows(int pair, int step, const Pair<T> *b,
                                                 const Pair<int32_t> *via) const
        {
            const int at = pair * Panels::kRowsWidth + step;
            Hold::put_rows(rows + at / Hold::kPerWord, b[0], b[1]);
            if constexpr (kPred) {
                Storage<Plus<int32_t>>::put_rows(preds + at, via[0], via[1]);
            }
            else if (mirrored != NULL) {
                Hold::put_cols(mirrored + pair * Panels::kColsWidth + step, turned(b[0]),
                               turned(b[1]));
            }
        }
        __device__ __forceinline__ void put_cols(int pair, int step, const Pair<T> *a) const
        {
            Hold::put_cols(cols + pair * Panels::kColsWidth + step, a[0], a[1]);
            if (!kPred && mirrored != NULL) {
                Hold::put_rows(mirrored + (pair * Panels::kRowsWidth + step) / Hold::kPerWord,
                               turned(a[0]), turned(a[1]));
            }
        }
    };

    /* The pivot tile's part of the panels that a strip lacks. */
    static __device__ __forceinline__ void take_snapshots(const Paths<Ring> &paths, ptrdiff_t pivot,
                                                          Lines &lines)
    {
        if constexpr (!kHasCols) {
            const auto *const from = paths.cols + paths.template cols_at<Panels>(0, pivot);
            for_snapshots([&](int pair, int line) {
                Hold::get_cols(from + pair * Panels::kColsWidth + line, &lines.cols[pair][line]);
            });
        }
        else {
            constexpr int kWidth = Panels::kRowsWidth;
            const int pivots = paths.template pivots_of<Panels>();
            const ptrdiff_t at = paths.template rows_at<Panels>(0, pivot);
            for_snapshots([&](int pair, int line) {
                const int place =
                    line / kWidth * (pivots / 2 * kWidth) + pair * kWidth + line % kWidth;
                Hold::get_rows(paths.rows + at + place / Hold::kPerWord, &lines.rows[pair][line]);
                if constexpr (kPred) {
                    Storage<Plus<int32_t>>::get_rows(paths.preds + at + place,
                                                     &lines.preds[pair][line]);
                }
            });
        }
        __pipeline_commit();
        __pipeline_wait_prior(0); /* the barrier of the next step makes them everybody's */
    }
    /* This thread's share: calls get(pair, line) for two neighbouring lines. */
    template <typename Get>
    static __device__ __forceinline__ void for_snapshots(const Get &get)
    {
#pragma unroll 8
        for (unsigned at = 2 * threadIdx.x; at < kPivots / 2 * kPivots; at += 2 * kThreads) {
            get((int)(at / kPivots), (int)(at % kPivots));
        }
    }

    /* The owner's: two rows of its elements, or two columns, for everybody. */
    static __device__ __forceinline__ void publish_rows(const Held &held, int row, Pair<T> *line,
                                                        Pair<int32_t> *pred_line)
    {
#pragma unroll
        for (int j = 0; j < kN; j += 2) {
            const int at = Tile::col(0) + Tile::col_step(j);
            const Pair<T> two[2] = {{held.d[row + 1][j], held.d[row][j]},
                                    {held.d[row + 1][j + 1], held.d[row][j + 1]}};
            store_run(line + at, two);
            if constexpr (kPred) {
                const Pair<int32_t> vias[2] = {{held.p[row + 1][j], held.p[row][j]},
                                               {held.p[row + 1][j + 1], held.p[row][j + 1]}};
                store_run(pred_line + at, vias);
            }
        }
    }
    static __device__ __forceinline__ void publish_cols(const Held &held, int col, Pair<T> *line)
    {
#pragma unroll
        for (int i = 0; i < kM; i += 2) {
            const Pair<T> two[2] = {{held.d[i][col], held.d[i][col + 1]},
                                    {held.d[i + 1][col], held.d[i + 1][col + 1]}};
            store_run(line + Tile::row(0) + Tile::row_step(i), two);
        }
    }

    /* One pair of pivots, k and k + 1 with k = trip + run + 2 * lane. All that depends on
     * run and lane is known when this is compiled. */
    static __device__ __forceinline__ void step(const Outlet &outlet, Lines &lines, int trip,
                                                int run, int lane, Held &held)
    {
        const int my_row = Tile::row(0), my_col = Tile::col(0);
        const int row = run % Tile::kWarpRows / 8 * 2, col = run % Tile::kWarpCols / 16 * 2;
        /* Lines of this pair, and of element k + 1 in them. */
        Pair<T> *const row_line = lines.rows[kHasRows ? lane % 2 : (trip + run) / 2 + lane];
        Pair<T> *const col_line = lines.cols[kHasCols ? lane % 2 : (trip + run) / 2 + lane];
        Pair<int32_t> *const pred_line = lines.preds[!kPred     ? 0
                                                     : kHasRows ? lane % 2
                                                                : (trip + run) / 2 + lane];
        const int k = trip + run + 2 * lane, pair = k / 2;
        /* The owner publishes; half the strip away, a thread of another warp that knows the same
         * writes to the panels. */
        const bool owns_row = kHasRows && my_row + Tile::row_step(row) == k;
        const bool owns_col = kHasCols && my_col + Tile::col_step(col) == k;
        const bool writes_row = kHasRows && (my_row + kRows / 2) % kRows + Tile::row_step(row) == k;
        const bool writes_col = kHasCols && (my_col + kCols / 2) % kCols + Tile::col_step(col) == k;
        if (owns_row) {
            publish_rows(held, row, row_line, pred_line);
        }
        if (owns_col) {
            publish_cols(held, col, col_line);
        }
        __syncthreads();

        const T beside = kHasCols ? row_line[k + 1].second : 0;
        const T below = kHasRows ? col_line[k + 1].first : 0;
        Pair<T> b[kN];
        Pair<int32_t> via[kN];
#pragma unroll
        for (int j = 0; j < kN; j += 2) {
            load_run(row_line + my_col + Tile::col_step(j), b + j);
            if constexpr (kPred) {
                load_run(pred_line + my_col + Tile::col_step(j), via + j);
            }
        }
        /* Pivot k + 1 goes through stage k: its row by element [k + 1, k], its column by
         * [k, k + 1]. */
        if constexpr (kHasRows) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                if constexpr (kPred && sizeof(T) == 8) {
                    const bool taken = Ring::take(b[j].first, Ring::term(below, b[j].second));
                    via[j].first = taken ? via[j].second : via[j].first;
                    continue;
                }
                const T before = b[j].first;
                Ring::join(b[j].first, below, b[j].second);
                if constexpr (kPred) {
                    via[j].first = b[j].first < before ? via[j].second : via[j].first;
                }
            }
            if (writes_row) {
#pragma unroll
                for (int j = 0; j < kN; j += 2) {
                    outlet.put_rows(pair, Tile::col_step(j), b + j, via + j);
                }
            }
        }
#pragma unroll
        for (int first = 0; first < kM; first += kAhead) {
            Pair<T> a[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; i += 2) {
                load_run(col_line + my_row + Tile::row_step(first + i), a + i);
            }
            if constexpr (kHasCols) {
#pragma unroll
                for (int i = 0; i < kAhead; ++i) {
                    Ring::join(a[i].second, a[i].first, beside);
                }
                if (writes_col) {
#pragma unroll
                    for (int i = 0; i < kAhead; i += 2) {
                        outlet.put_cols(pair, Tile::row_step(first + i), a + i);
                    }
                }
            }
#pragma unroll
            for (int j = 0; j < kN; ++j) {
#pragma unroll
                for (int i = 0; i < kAhead; ++i) {
                    T &d = held.d[first + i][j];
                    if constexpr (kPred) {
                        update(d, held.p[first + i][j], a[i], b[j], via[j]);
                    }
                    else {
                        fold_values<Ring>(d, a[i], b[j]);
                    }
                }
            }
        }
    }

    static __device__ __forceinline__ void update(T &d, int32_t &p, Pair<T> a, Pair<T> b,
                                                  Pair<int32_t> via)
    {
        if constexpr (kOrderedAsInts<Ring>) {
            fold_tagged<Ring>(d, p, a, b, via);
            return;
        }
        if constexpr (sizeof(T) == 8) { /* which makes moves of what join() does */
            p = Ring::take(d, Ring::term(a.first, b.second)) ? via.second : p;
            p = Ring::take(d, Ring::term(a.second, b.first)) ? via.first : p;
            return;
        }
        const T before = d;
        Ring::join(d, a.first, b.second);
        if (d < before) {
            p = via.second;
        }
        const T between = d;
        Ring::join(d, a.second, b.first);
        if (d < between) {
            p = via.first;
        }
    }
};

/* Phase 1: the pivot tile, one block. */
template <typename Ring, int kPivots, int kThreads, bool kPred, typename Panels>
using PivotTile = Strip<Ring, kPivots, kPivots, kPivots, kThreads, true, true, kPred, Panels>;

template <typename Ring, int kPivots, bool kPred, typename Panels>
__global__ void __launch_bounds__(kStripThreads<kPivots>, kPivots / 64)
    close_pivot_tile(const __grid_constant__ Paths<Ring> paths, ptrdiff_t pivot)
{
    using Closing = PivotTile<Ring, kPivots, kStripThreads<kPivots>, kPred, Panels>;
    extern __shared__ int4 shared[];
    if (left_out<Ring>()) {
        return;
    }
    follow<true>();
    Closing::close(paths, pivot, pivot, pivot,
                   *reinterpret_cast<typename Closing::Lines *>(shared));
}

/* Phase 2. How far a strip extends along its panel: narrower where that keeps more SMs busy. */
template <int kPivots>
constexpr int kStripWidth = kPivots / 2;
template <typename Ring, int kPivots, bool kPred, typename Panels>
using RowStrip = Strip<Ring, kPivots, kPivots, kStripWidth<kPivots>, kStripThreads<kPivots>, true,
                       false, kPred, Panels>;
template <typename Ring, int kPivots, bool kPred, typename Panels>
using ColStrip = Strip<Ring, kPivots, kStripWidth<kPivots>, kPivots, kStripThreads<kPivots>, false,
                       true, kPred, Panels>;

template <typename Ring, int kPivots, bool kPred, typename Panels>
union StripLines {
    typename RowStrip<Ring, kPivots, kPred, Panels>::Lines of_rows;
    typename ColStrip<Ring, kPivots, kPred, Panels>::Lines of_cols;
};

/* Which strips a launch closes: a block each, those of the pivots' columns first. A symmetric
 * matrix has but one for each line: of columns above the pivot tile, of rows right of it. */
struct Strips {
    ptrdiff_t pivot;                /* the first of the round's */
    unsigned of_cols;               /* blocks */
    ptrdiff_t cols_from, rows_from; /* lines that the first of either begin with */
    ptrdiff_t spared, spared_end;   /* strips of columns that begin between these are left alone */
};

template <typename Ring, int kPivots, bool kPred, typename Panels>
__global__ void __launch_bounds__(kStripThreads<kPivots>, kPivots == 64 ? 3 : 2)
    close_strips(const __grid_constant__ Paths<Ring> paths, const __grid_constant__ Strips strips)
{
    using OfRows = RowStrip<Ring, kPivots, kPred, Panels>;
    using OfCols = ColStrip<Ring, kPivots, kPred, Panels>;
    extern __shared__ int4 shared[];
    const bool of_cols = blockIdx.x < strips.of_cols;
    const ptrdiff_t pivot = strips.pivot;
    const ptrdiff_t start =
        of_cols
            ? strips.cols_from + (ptrdiff_t)blockIdx.x * kStripWidth<kPivots>
            : strips.rows_from + (ptrdiff_t)(blockIdx.x - strips.of_cols) * kStripWidth<kPivots>;
    if (left_out<Ring>()) {
        return;
    }
    follow<true>();
    if (start >= pivot && start < pivot + kPivots) {
        return; /* the pivot tile itself */
    }
    if (of_cols && start >= strips.spared && start < strips.spared_end) {
        return;
    }
    if (of_cols) {
        OfCols::close(paths, start, pivot, pivot,
                      *reinterpret_cast<typename OfCols::Lines *>(shared));
    }
    else {
        OfRows::close(paths, pivot, start, pivot,
                      *reinterpret_cast<typename OfRows::Lines *>(shared));
    }
}

/* The kernels of both phases, for kPivots that are closed at a time. blocked.cu has those that
 * bands.cu takes as well (GD_CLOSED_FOR_BANDS): they take long to compile. */
template <typename Ring, int kPivots, bool kPred>
struct ClosingKernels {
    using Panels = Closing<Ring, kPivots, kPred>;
    static constexpr size_t kTileShared =
        sizeof(typename PivotTile<Ring, kPivots, kStripThreads<kPivots>, kPred, Panels>::Lines);
    static constexpr size_t kStripShared = sizeof(StripLines<Ring, kPivots, kPred, Panels>);

    static void (*tile())(Paths<Ring>, ptrdiff_t);
    static void (*strips())(Paths<Ring>, Strips);
};
template <typename Ring, int kPivots, bool kPred>
void (*ClosingKernels<Ring, kPivots, kPred>::tile())(Paths<Ring>, ptrdiff_t)
{
    return close_pivot_tile<Ring, kPivots, kPred, Panels>;
}
template <typename Ring, int kPivots, bool kPred>
void (*ClosingKernels<Ring, kPivots, kPred>::strips())(Paths<Ring>, Strips)
{
    return close_strips<Ring, kPivots, kPred, Panels>;
}

#define GD_CLOSED_FOR_BANDS(X)      \
    X(gd::Plus<float>, 64, false)   \
    X(gd::Plus<float>, 64, true)    \
    X(gd::Plus<float>, 128, false)  \
    X(gd::PlusUnsigned, 128, false) \
    X(gd::Plus<int>, 64, false)     \
    X(gd::Plus<int>, 64, true)      \
    X(gd::Plus<int>, 128, false)    \
    X(gd::Plus<double>, 64, false)  \
    X(gd::Plus<double>, 64, true)

}  // namespace gd
#endif
