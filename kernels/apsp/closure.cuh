/* closure.cuh: phases 1 and 2 of blocked Floyd-Warshall: closing the pivot tile, and then the rows
 * and columns of tiles through it, over the pivots of one round.
 *
 * Idea: a strip of the matrix stays in the registers of one block, and the pivots pass over it one
 * by one, as in the textbook loop. Pivot k needs row k and column k as they are at that stage. A
 * strip that contains them publishes them in shared memory before the stage; one that lacks them
 * reads what the pivot tile published, the snapshots. Every published row and column also goes to
 * the panels in device memory, from which phase 3 computes everything else.
 *
 * Cost: one barrier a pivot. The pivot tile is one SM's work: at 64 updates a clock 64 pivots take
 * 2.1 us and 128 take 17, and 64 or 128 barriers of some 100 clocks come on top. The strips make
 * 2 * pivots / n of the updates of phase 3.
 *
 * Launch: 256 threads a block; 4 x 4 elements a thread, 8 x 8 or 8 x 4 with 128 pivots. */
#ifndef GPUDIST_CLOSURE_CUH
#define GPUDIST_CLOSURE_CUH

#include "apsp/minplus.cuh"

namespace gd {

/* What phases 1 and 2 hand on: for each pivot k of the round, column k and row k of the whole
 * matrix as they were at stage k, and the predecessors in that row. Each row of a panel is
 * `padded` long; `cols` and `rows` have a row for each pair of pivots, `preds` one for each pivot.
 */
template <typename T>
struct Panels {
    Pair<T> *cols, *rows;
    int32_t *preds;
};

/* The matrices that are closed in place; pred is NULL without predecessors. */
template <typename T>
struct Paths {
    T *dist;
    int32_t *pred;
    ptrdiff_t padded;
    Panels<T> panels;
};

constexpr int kStripThreads = 256;
constexpr int kStripWidth = 64; /* how far a strip extends along its panel */

template <int kCount, typename T>
__device__ __forceinline__ void copy_run(const T *from, T *to)
{
    static_assert(kCount % kPerWord<T> == 0, "a run is whole words");
#pragma unroll
    for (int i = 0; i < kCount; i += kPerWord<T>) {
        store_word(to + i, from + i);
    }
}

template <int kCount, typename T>
__device__ __forceinline__ void load_run(const T *from, T (&to)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; i += kPerWord<T>) {
        load_word(from + i, to + i);
    }
}

/* Closes the kRows x kCols strip at (row0, col0) over kPivots pivots. kHasRows: the strip's rows
 * are the pivots' rows, and are published here; kHasCols likewise. Then row_lines is two rows of
 * shared memory, used in turn so that one barrier a pivot is enough: whoever overwrites a line has
 * passed the barrier that all its readers reach after reading. Otherwise it is the snapshots of all
 * pivots. */
template <int kPivots, int kRows, int kCols, bool kHasRows, bool kHasCols, bool kPred, typename T>
__device__ __forceinline__ void close_strip(const Paths<T> &paths, ptrdiff_t row0, ptrdiff_t col0,
                                            T *row_lines, T *col_lines, int32_t *pred_lines)
{
    constexpr int kM = kPivots / 16, kN = kRows * kCols / kStripThreads / kM; /* of a thread */
    constexpr int kTrip = kM > kN ? kM : kN; /* pivots a trip, so that register indices are fixed */
    static_assert(kPivots % kTrip == 0 && kTrip % kM == 0 && kTrip % kN == 0 && kM % 2 == 0,
                  "a trip covers whole threads, and one thread holds both pivots of a pair");
    const ptrdiff_t padded = paths.padded;
    const int tx = threadIdx.x % (kCols / kN), ty = threadIdx.x / (kCols / kN);
    const ptrdiff_t i0 = row0 + ty * kM, j0 = col0 + tx * kN;
    T d[kM][kN], even_row[kN], even_col[kM];
    int32_t p[kM][kN];
#pragma unroll
    for (int i = 0; i < kM; ++i) {
        load_run(paths.dist + (i0 + i) * padded + j0, d[i]);
        if constexpr (kPred) {
            load_run(paths.pred + (i0 + i) * padded + j0, p[i]);
        }
    }

#pragma unroll 1
    for (int trip = 0; trip < kPivots; trip += kTrip) {
#pragma unroll
        for (int u = 0; u < kTrip; ++u) {
            const int k = trip + u;
            T *const row_line = row_lines + (kHasRows ? u % 2 : k) * kCols + tx * kN;
            T *const col_line = col_lines + (kHasCols ? u % 2 : k) * kRows + ty * kM;
            int32_t *const pred_line = pred_lines + (kHasRows ? u % 2 : k) * kCols + tx * kN;
            if (kHasRows && ty == k / kM) { /* this thread holds a piece of row k */
                copy_run<kN>(d[u % kM], row_line);
                if constexpr (kPred) {
                    copy_run<kN>(p[u % kM], pred_line);
                    copy_run<kN>(p[u % kM], paths.panels.preds + k * padded + j0);
                }
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    if (u % 2 == 0) {
                        even_row[j] = d[u % kM][j]; /* as it is now, until the pair is complete */
                    }
                    else {
                        paths.panels.rows[k / 2 * padded + j0 + j] = {d[u % kM][j], even_row[j]};
                    }
                }
            }
            if (kHasCols && tx == k / kN) { /* and this one a piece of column k */
#pragma unroll
                for (int i = 0; i < kM; ++i) {
                    const T value = d[i][u % kN];
                    col_line[i] = value;
                    if (u % 2 == 0) {
                        even_col[i] = value;
                    }
                    else {
                        paths.panels.cols[k / 2 * padded + i0 + i] = {even_col[i], value};
                    }
                }
            }
            __syncthreads();

            T row[kN], col[kM];
            int32_t via[kN];
            load_run(row_line, row);
            load_run(col_line, col);
            if constexpr (kPred) {
                load_run(pred_line, via);
            }
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    const T length = shorter(d[i][j], col[i], row[j]);
                    if constexpr (kPred) {
                        p[i][j] = length < d[i][j] ? via[j] : p[i][j];
                    }
                    d[i][j] = length;
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < kM; ++i) {
        copy_run<kN>(d[i], paths.dist + (i0 + i) * padded + j0);
        if constexpr (kPred) {
            copy_run<kN>(p[i], paths.pred + (i0 + i) * padded + j0);
        }
    }
}

/* Phase 1: the pivot tile, one block. */
template <typename T, int kPivots, bool kPred>
__global__ void __launch_bounds__(kStripThreads, 1)
    close_pivot_tile(const __grid_constant__ Paths<T> paths, ptrdiff_t pivot)
{
    __shared__ alignas(16) T row_lines[2 * kPivots], col_lines[2 * kPivots];
    __shared__ alignas(16) int32_t pred_lines[kPred ? 2 * kPivots : 1];
    close_strip<kPivots, kPivots, kPivots, true, true, kPred>(paths, pivot, pivot, row_lines,
                                                              col_lines, pred_lines);
}

/* Snapshots of the pivot tile, and two lines of the strip's own. */
constexpr size_t strip_shared_bytes(int pivots, size_t element, bool pred)
{
    return (size_t)(pivots * pivots + 2 * kStripWidth) * (element + (pred ? sizeof(int32_t) : 0));
}

/* Phase 2: even blocks close strips of the pivots' rows, odd ones strips of their columns. */
template <typename T, int kPivots, bool kPred>
__global__ void __launch_bounds__(kStripThreads, 1)
    close_strips(const __grid_constant__ Paths<T> paths, ptrdiff_t pivot)
{
    extern __shared__ int4 shared[];
    T *const snapshots = reinterpret_cast<T *>(shared);
    T *const lines = snapshots + kPivots * kPivots;
    int32_t *const pred_snapshots = reinterpret_cast<int32_t *>(lines + 2 * kStripWidth);
    int32_t *const pred_lines = pred_snapshots + kPivots * kPivots;
    const ptrdiff_t start = (ptrdiff_t)(blockIdx.x / 2) * kStripWidth;
    const bool of_rows = blockIdx.x % 2 == 0;
    if (start >= pivot && start < pivot + kPivots) {
        return; /* the pivot tile itself */
    }

    /* A strip of rows lacks the pivots' columns, a strip of columns their rows. The first barrier
     * in close_strip stands between these stores and their readers. */
    const Pair<T> *const from = (of_rows ? paths.panels.cols : paths.panels.rows) + pivot;
    for (int e = threadIdx.x; e < kPivots / 2 * kPivots; e += kStripThreads) {
        const int pair = e / kPivots, line = e % kPivots;
        const Pair<T> both = from[pair * paths.padded + line];
        snapshots[2 * pair * kPivots + line] = of_rows ? both.first : both.second;
        snapshots[(2 * pair + 1) * kPivots + line] = of_rows ? both.second : both.first;
    }
    if (kPred && !of_rows) {
        for (int e = threadIdx.x; e < kPivots * kPivots; e += kStripThreads) {
            pred_snapshots[e] =
                paths.panels.preds[e / kPivots * paths.padded + pivot + e % kPivots];
        }
    }

    if (of_rows) {
        close_strip<kPivots, kPivots, kStripWidth, true, false, kPred>(paths, pivot, start, lines,
                                                                       snapshots, pred_lines);
    }
    else {
        close_strip<kPivots, kStripWidth, kPivots, false, true, kPred>(
            paths, start, pivot, snapshots, lines, pred_snapshots);
    }
}

}  // namespace gd
#endif
