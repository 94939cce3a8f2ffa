/* closure.cuh: phases 1 and 2 of blocked Floyd-Warshall: closing the pivot tile, and then the rows
 * and columns of tiles through it, over the pivots of one round.
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
 * Launch: 256 threads a strip, 8 x 4, 4 x 4 or, for a pivot tile of 128, 8 x 8 elements a thread. */
#ifndef GPUDIST_CLOSURE_CUH
#define GPUDIST_CLOSURE_CUH

#include "apsp/panels.cuh"

namespace gd {

constexpr int kStripThreads = 256;

/* A block's share of closing: kRows x kCols elements at (row0, col0), over kPivots pivots.
 * kHasRows: its rows are the pivots' rows, and are published here; kHasCols likewise. */
template <typename Ring, int kPivots, int kRows, int kCols, int kThreads, bool kHasRows,
          bool kHasCols, bool kPred>
struct Strip {
    using Hold = Storage<Ring>;
    using T = typename Hold::Value;
    /* A wide tile is 8 x 8 a thread, four warps by two; other shapes make do with less. */
    static constexpr int kWarps = kThreads / 32;
    static constexpr int kM = kRows * kCols / kThreads >= 32 ? 8 : 4;
    static constexpr int kN = kRows * kCols / kThreads / kM;
    static constexpr int kWarpsDown = kRows / (4 * kM), kWarpsAcross = kCols / (8 * kN);
    static_assert(kWarpsDown * kWarpsAcross == kWarps && kN % 2 == 0, "threads cover the strip");
    /* Runs of two: one thread holds both pivots of a pair. */
    using Tile = MinplusTile<T, kM, kN, kWarpsDown, kWarpsAcross, 2>;
    /* Pivots that come round before the same registers hold pivots again. */
    static constexpr int kTrip =
        Tile::kWarpRows > Tile::kWarpCols ? Tile::kWarpRows : Tile::kWarpCols;
    static_assert(kPivots % kTrip == 0, "trips are whole");
    /* Predecessors of 64 elements have no room in registers beside them. */
    static constexpr bool kPredsShared = kPred && kM * kN > 32;
    static constexpr int kColsATime = kPredsShared ? 4 : kN; /* as many as registers allow */

    /* Two lines of pairs are used in turn, so that one barrier a pair is enough: whoever
     * overwrites a line has passed the barrier that all its readers reach after reading. */
    struct Lines {
        Pair<T> rows[kHasRows ? 2 : kPivots / 2][kCols], cols[kHasCols ? 2 : kPivots / 2][kRows];
        Pair<int32_t> preds[!kPred ? 1 : kHasRows ? 2 : kPivots / 2][kPred ? kCols : 1];
        int32_t tile_preds[kPredsShared ? kRows : 1][kPredsShared ? kCols : 1];
    };

    /* The predecessors of this thread's elements. */
    struct Preds {
        int32_t kept[kPredsShared ? 1 : kM][kPredsShared ? 1 : kN];
        int32_t *shared;
        __device__ __forceinline__ int32_t &at(int i, int j)
        {
            return kPredsShared ? shared[Tile::row_step(i) * kCols + Tile::col_step(j)]
                                : kept[kPredsShared ? 0 : i][kPredsShared ? 0 : j];
        }
    };

    static __device__ __forceinline__ void close(const Paths<Ring> &paths, ptrdiff_t row0,
                                                 ptrdiff_t col0, Lines &lines)
    {
        T d[kM][kN];
        Preds p;
        p.shared = kPredsShared ? &lines.tile_preds[Tile::row(0)][Tile::col(0)] : NULL;
        auto *const dist = paths.dist + (row0 + Tile::row(0)) * paths.stride + col0 + Tile::col(0);
        int32_t *const pred =
            kPred ? paths.pred + (row0 + Tile::row(0)) * paths.padded + col0 + Tile::col(0) : NULL;
        for_runs([&](int i, int j) {
            Hold::load(dist + Tile::row_step(i) * paths.stride + Tile::col_step(j), &d[i][j]);
            if constexpr (kPred) {
                load_two(pred + Tile::row_step(i) * paths.padded + Tile::col_step(j), &p.at(i, j));
            }
        });

#pragma unroll 1
        for (int trip = 0; trip < kPivots; trip += kTrip) {
#pragma unroll
            for (int run = 0; run < kTrip; run += 8) { /* four pairs in the same registers */
                const int i = run % Tile::kWarpRows / 8 * 2, j = run % Tile::kWarpCols / 16 * 2;
#pragma unroll 1
                for (int lane = 0; lane < 4; ++lane) {
                    const int k = trip + run + 2 * lane;
                    const bool owns_row = kHasRows && Tile::warp_down() == k / Tile::kWarpRows &&
                                          Tile::lane_down() == lane;
                    const bool owns_col = kHasCols && Tile::warp_across() == k / Tile::kWarpCols &&
                                          Tile::lane_across() == k % 16 / 2;
                    step(paths, row0, col0, lines, k / 2, owns_row, owns_col, d, p, i, j);
                }
            }
        }

        for_runs([&](int i, int j) {
            Hold::store(dist + Tile::row_step(i) * paths.stride + Tile::col_step(j), &d[i][j]);
            if constexpr (kPred) {
                store_two(pred + Tile::row_step(i) * paths.padded + Tile::col_step(j), &p.at(i, j));
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

    /* One pair of pivots, k = 2 * pair and k + 1. Where this thread owns them, d[row] and
     * d[row + 1] are their rows, and likewise columns. */
    static __device__ __forceinline__ void step(const Paths<Ring> &paths, ptrdiff_t row0,
                                                ptrdiff_t col0, Lines &lines, int pair,
                                                bool owns_row, bool owns_col, T (&d)[kM][kN],
                                                Preds &p, int row, int col)
    {
        /* This thread's place in each line; its elements lie at fixed steps from there. */
        const int my_row = Tile::row(0), my_col = Tile::col(0);
        Pair<T> *const row_line = lines.rows[kHasRows ? pair % 2 : pair] + my_col;
        Pair<T> *const col_line = lines.cols[kHasCols ? pair % 2 : pair] + my_row;
        Pair<int32_t> *const pred_line =
            lines.preds[!kPred ? 0 : kHasRows ? pair % 2 : pair] + (kPred ? my_col : 0);
        if (owns_row) {
#pragma unroll
            for (int j = 0; j < kN; ++j) {
                row_line[Tile::col_step(j)] = {d[row + 1][j], d[row][j]};
                if constexpr (kPred) {
                    pred_line[Tile::col_step(j)] = {p.at(row + 1, j), p.at(row, j)};
                }
            }
        }
        if (owns_col) {
#pragma unroll
            for (int i = 0; i < kM; ++i) {
                col_line[Tile::row_step(i)] = {d[i][col], d[i][col + 1]};
            }
        }
        __syncthreads();

        const T beside = row_line[2 * pair + 1 - my_col].second;
        const T below = col_line[2 * pair + 1 - my_row].first;
#pragma unroll
        for (int first = 0; first < kN; first += kColsATime) {
            Pair<T> b[kColsATime];
            Pair<int32_t> via[kColsATime];
#pragma unroll
            for (int j = 0; j < kColsATime; j += 2) {
                const int step = Tile::col_step(first + j);
                load_run(row_line + step, b + j);
                if constexpr (kPred) {
                    load_run(pred_line + step, via + j);
                }
            }
            /* Pivot k + 1 goes through stage k: its row by element [k + 1, k], its column by
             * [k, k + 1]. */
            if constexpr (kHasRows) {
#pragma unroll
                for (int j = 0; j < kColsATime; ++j) {
                    const T before = b[j].first;
                    Ring::join(b[j].first, below, b[j].second);
                    if constexpr (kPred) {
                        via[j].first = b[j].first < before ? via[j].second : via[j].first;
                    }
                }
                if (owns_row) {
                    publish_rows(paths, pair, col0 + my_col, Tile::col_step(first), b, via);
                }
            }
#pragma unroll
            for (int i = 0; i < kM; i += 2) {
                Pair<T> a[2];
                load_run(col_line + Tile::row_step(i), a);
                if constexpr (kHasCols) {
                    Ring::join(a[0].second, a[0].first, beside);
                    Ring::join(a[1].second, a[1].first, beside);
                    if (owns_col && first == 0) {
                        publish_cols(paths, pair, row0 + my_row, Tile::row_step(i), a);
                    }
                }
#pragma unroll
                for (int j = 0; j < kColsATime; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        if constexpr (kPred) {
                            update(d[i + e][first + j], p.at(i + e, first + j), a[e], b[j], via[j]);
                        }
                        else {
                            fold_values<Ring>(d[i + e][first + j], a[e], b[j]);
                        }
                    }
                }
            }
        }
    }

    /* Finished pairs go to the panels: of columns from `line` on, by the thread that owns the
     * pivots' rows, and of two rows. A strip of a symmetric matrix is a strip of both kinds. */
    static __device__ __forceinline__ void publish_rows(const Paths<Ring> &paths, int pair,
                                                        ptrdiff_t line, int first_step,
                                                        const Pair<T> (&b)[kColsATime],
                                                        const Pair<int32_t> (&via)[kColsATime])
    {
        const ptrdiff_t at = paths.template rows_at<kPivots, kPred>(pair, line);
#pragma unroll
        for (int j = 0; j < kColsATime; j += 2) {
            const int step = first_step + Tile::col_step(j);
            Hold::put_rows(paths.rows + at + step / Hold::kPerWord, b[j], b[j + 1]);
            if constexpr (kPred) {
                paths.preds[at + step] = via[j], paths.preds[at + step + 1] = via[j + 1];
            }
            else if (!kHasCols && paths.symmetric) {
                Hold::put_cols(paths.cols + paths.template cols_at<kPivots>(pair, line) + step,
                               turned(b[j]), turned(b[j + 1]));
            }
        }
    }
    static __device__ __forceinline__ void publish_cols(const Paths<Ring> &paths, int pair,
                                                        ptrdiff_t line, int step,
                                                        const Pair<T> (&a)[2])
    {
        Hold::put_cols(paths.cols + paths.template cols_at<kPivots>(pair, line) + step, a[0], a[1]);
        if (!kPred && !kHasRows && paths.symmetric) {
            const ptrdiff_t at = paths.template rows_at<kPivots, kPred>(pair, line);
            Hold::put_rows(paths.rows + at + step / Hold::kPerWord, turned(a[0]), turned(a[1]));
        }
    }

    template <typename V>
    static __device__ __forceinline__ void load_run(const Pair<V> *from, Pair<V> *to)
    {
#pragma unroll
        for (int e = 0; e < 2; e += kPerWord<V> / 2) {
            load_word<V>(&from[e].first, &to[e].first);
        }
    }

    static __device__ __forceinline__ void update(T &d, int32_t &p, Pair<T> a, Pair<T> b,
                                                  Pair<int32_t> via)
    {
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
template <typename Ring, int kPivots, int kThreads, bool kPred>
using PivotTile = Strip<Ring, kPivots, kPivots, kPivots, kThreads, true, true, kPred>;

template <typename Ring, int kPivots, bool kPred>
__global__ void __launch_bounds__(kStripThreads, 2)
    close_pivot_tile(const __grid_constant__ Paths<Ring> paths, ptrdiff_t pivot)
{
    using Closing = PivotTile<Ring, kPivots, kStripThreads, kPred>;
    extern __shared__ int4 shared[];
    await_predecessor();
    Closing::close(paths, pivot, pivot, *reinterpret_cast<typename Closing::Lines *>(shared));
}

/* Phase 2. How far a strip extends along its panel: narrower where that keeps more SMs busy. */
template <int kPivots>
constexpr int kStripWidth = kPivots == 128 ? 64 : 32;
template <typename Ring, int kPivots, bool kPred>
using RowStrip =
    Strip<Ring, kPivots, kPivots, kStripWidth<kPivots>, kStripThreads, true, false, kPred>;
template <typename Ring, int kPivots, bool kPred>
using ColStrip =
    Strip<Ring, kPivots, kStripWidth<kPivots>, kPivots, kStripThreads, false, true, kPred>;

template <typename Ring, int kPivots, bool kPred>
constexpr size_t kStripSharedBytes = sizeof(typename RowStrip<Ring, kPivots, kPred>::Lines) >
                                             sizeof(typename ColStrip<Ring, kPivots, kPred>::Lines)
                                         ? sizeof(typename RowStrip<Ring, kPivots, kPred>::Lines)
                                         : sizeof(typename ColStrip<Ring, kPivots, kPred>::Lines);

/* The pivot tile's part of a panel becomes the lines of a strip that lacks them: get(pair, line, to)
 * brings two neighbouring lines. */
template <int kPivots, typename V, typename Get>
__device__ __forceinline__ void copy_snapshots(Pair<V> (*lines)[kPivots], const Get &get)
{
#pragma unroll 4
    for (int at = 2 * threadIdx.x; at < kPivots / 2 * kPivots; at += 2 * kStripThreads) {
        Pair<V> two[2];
        get(at / kPivots, at % kPivots, two);
        Pair<V> *const to = &lines[at / kPivots][at % kPivots];
        to[0] = two[0], to[1] = two[1];
    }
}

/* Even blocks close strips of the pivots' rows, odd ones strips of their columns. In a symmetric
 * matrix there is one block a strip: of rows right of the pivot tile, of columns above it. */
template <typename Ring, int kPivots, bool kPred>
__global__ void __launch_bounds__(kStripThreads, 2)
    close_strips(const __grid_constant__ Paths<Ring> paths, ptrdiff_t pivot)
{
    using OfRows = RowStrip<Ring, kPivots, kPred>;
    using OfCols = ColStrip<Ring, kPivots, kPred>;
    extern __shared__ int4 shared[];
    const ptrdiff_t strip = paths.symmetric ? blockIdx.x : blockIdx.x / 2;
    const ptrdiff_t start = strip * kStripWidth<kPivots>;
    const bool of_rows = paths.symmetric ? start > pivot : blockIdx.x % 2 == 0;
    await_predecessor();
    if (start >= pivot && start < pivot + kPivots) {
        return; /* the pivot tile itself */
    }
    /* The first barrier in close() stands between the copies and their readers. */
    using Hold = Storage<Ring>;
    using V = typename Hold::Value;
    if (of_rows) {
        auto &lines = *reinterpret_cast<typename OfRows::Lines *>(shared);
        copy_snapshots<kPivots>(lines.cols, [&](int pair, int line, Pair<V> *two) {
            Hold::get_cols(paths.cols + paths.template cols_at<kPivots>(pair, pivot + line), two);
        });
        OfRows::close(paths, pivot, start, lines);
    }
    else {
        auto &lines = *reinterpret_cast<typename OfCols::Lines *>(shared);
        copy_snapshots<kPivots>(lines.rows, [&](int pair, int line, Pair<V> *two) {
            Hold::get_rows(paths.rows + paths.template rows_at<kPivots, kPred>(pair, pivot + line),
                           two);
        });
        if constexpr (kPred) {
            copy_snapshots<kPivots>(lines.preds, [&](int pair, int line, Pair<int32_t> *two) {
                const Pair<int32_t> *const from =
                    paths.preds + paths.template rows_at<kPivots, kPred>(pair, pivot + line);
                two[0] = from[0], two[1] = from[1];
            });
        }
        OfCols::close(paths, start, pivot, lines);
    }
}

}  // namespace gd
#endif
