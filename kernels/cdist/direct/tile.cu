/* tile.cu: cdist of points with any number of dimensions, in direct form: differences, never norms
 * minus products, so nothing cancels.
 *
 * Idea: the register tile of a matrix product. A block of 128 threads computes 64 x 64 results,
 * each thread 4 x 8, from slabs of 32 dimensions in shared memory. A dimension costs a result a
 * subtraction and a fused multiply-add, and 32 results 12 numbers from shared memory, so
 * arithmetic binds: 16384 x 16384 x 128 float32 is 34.4 G pair-dimensions, which the H200 issues
 * in 2.06 ms at best, in 2.3 ms at what such a loop reaches. Up to some 13 dimensions the 0.23 ms
 * of writing the results bind instead. An inner product, having nothing to subtract, issues half
 * as much; cosine is the sum of squares of rows made for it (GD_UNIT).
 *
 * Two details carry the speed:
 * - The register file reads one even and one odd register a cycle. Slabs hold dimensions in pairs,
 *   (k, k + 1) for rows of `a` and (k + 1, k) for rows of `b`, and a pair lands in an even and the
 *   next odd register: so every subtraction takes one operand of each kind.
 * - Nothing is double-buffered. Four blocks (float64: three) share a multiprocessor, and while one
 *   loads its slab the others compute; that leaves registers for the running totals.
 *
 * Sums start afresh every GD_FOLD dimensions and are added to totals, and the totals every GD_GROUP
 * dimensions to those of the groups before, which wait where the results will stand.
 *
 * Launch: a block a tile, in bands of 16 tiles' rows (grid.cuh).
 *
 * Reached on an H200, float32: 65536 x 64 x 512 0.213 ms, 2000 x 2000 x 128 0.057, 1000 x 1000 x
 * 512 0.068, 700 x 700 x 200 0.023, 4096 x 4096 x 128 0.200. Loading slabs stands in the way up to
 * d = 64, folding takes 4 % and joining groups 10 %; float64 chebyshev, whose maximum is no single
 * instruction, runs at 4.0e12 pair-dimensions a second. The clock stays at 1.98 GHz. So most of
 * what is missing is not loading. Pairs take 52 to 55 % of the time from d = 128 on, 70 to 86 % at
 * d = 17. Tiles of 128 x 64 results, of which a thread has 8 x 8 and a multiprocessor three blocks,
 * are in NOTES.md.
 *
 * Of a batch (matrices.cuh) all matrices' tiles are one grid: (64, 1024, 1024, 64) float32
 * euclidean 0.43 ms, (64, 512, 512, 64) cityblock 0.11, where a launch for each would leave most of
 * the device without work. */
#include <type_traits>

#include "cdist/matrices.cuh"
#include "common/ends.cuh"
#include "common/grid.cuh"
#include "common/segments.cuh"
#include "common/tile.cuh"

namespace {

using gd::add_slab, gd::Tile;
constexpr int kThreads = gd::kTileThreads;
constexpr unsigned kBand = 16;
constexpr int kTileRows = 4; /* of a thread */

/* Joins a thread's totals, the first of which is at (row, col), with what the results' places hold,
 * unless `first`, and puts them there if `put`. Being done once a group, this costs little, and
 * between groups no register. Runs are the outer loop, because what there is to know about one
 * holds for all rows. */
template <typename M, typename Shape>
__device__ __forceinline__ void join_group(const gd::Cdist<typename Shape::T> &call,
                                           typename Shape::Results &total, ptrdiff_t row,
                                           ptrdiff_t col, bool first, bool put)
{
    using T = typename Shape::T;
    constexpr int kRows = Shape::rows, kWord = Shape::word, kRuns = Shape::cols / kWord;
    const ptrdiff_t left = call.a.count - row;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
        const gd::Run<T> run(call, col + r * 8 * kWord, 1);
        T *at = call.row(row) + run.first;
        const int start = run.start(call, row);
#pragma unroll
        for (int i = 0; i < kRows; at += call.step(row + i, 1), ++i) {
            if (i < left) {
                /* By way of a copy: joined in place nothing spills, but the whole is 7 % slower. */
                T joined[kWord], before[kWord] = {};
                if (!first) {
                    run.load(at, before, start + i);
                }
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    joined[j] = first ? total[i][r * kWord + j]
                                      : M::join(before[j], total[i][r * kWord + j]);
                    total[i][r * kWord + j] = joined[j];
                }
                if (put) {
                    run.template store<true>(at, joined, start + i);
                }
            }
        }
    }
}

/* Finishes and stores a thread's results, run by run as well. `memory` has room for a warp's rows
 * of a run; nobody reads it any more. */
template <typename M, typename Shape>
__device__ __forceinline__ void store_tile(const gd::Cdist<typename Shape::T> &call,
                                           const typename Shape::Results &total, gd_metric metric,
                                           ptrdiff_t row, ptrdiff_t col, void *memory)
{
    using T = typename Shape::T;
    constexpr int kRows = Shape::rows, kWord = Shape::word, kRuns = Shape::cols / kWord;
    using Segments = gd::Segments<T, 4 * kRows>;
    Segments &segments = ((Segments *)memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, own = lane / 8 * kRows;
    const ptrdiff_t left = call.a.count - row;
    bool safe = true;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
        const gd::Run<T> run(call, col + r * 8 * kWord, 1);
        T *to = call.out + row * call.out_stride + run.first;
#pragma unroll
        for (int i = 0; i < kRows; ++i, to += call.out_stride) {
            T results[kWord];
            gd::with_end<M, false>(metric, [&](auto end) {
                using End = decltype(end);
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    results[j] = gd::finish<End>(total[i][r * kWord + j], call.d);
                    safe &= gd::is_good<End>(results[j]);
                }
            });
            if (!call.words) {
                gd::store_word(&segments[own + i][lane % 8 * kWord], results);
            }
            else if (i < left) {
                run.store(to, results);
            }
        }
        if (!call.words) {
            __syncwarp();
            gd::store_segments<4 * kRows>(call, segments, call.a.count, row - own, 0,
                                          run.first - lane % 8 * kWord);
            __syncwarp();
        }
    }
    if constexpr (M::template guarded<T>) {
        /* After all stores, when no total is needed any more. */
        if (!safe) {
            gd::with_end<M, false>(metric, [&](auto end) {
                gd::recompute_tile_f64<decltype(end), kRows, kRuns>(call, row, col);
            });
        }
    }
}

/* What a kernel for one matrix knows of others, and the call for it. */
struct Alone {
    template <typename T>
    __device__ __forceinline__ const gd::Cdist<T> &one(const gd::Cdist<T> &call, ptrdiff_t) const
    {
        return call;
    }
};

/* kWords: both operands can be read by aligned 16-byte words along dimensions. All: the matrices
 * that there are, `each` blocks for one, or Alone. M has the terms of `metric`. */
template <typename M, bool kWords, typename Shape, typename All>
__global__ void __launch_bounds__(kThreads, Shape::blocks)
    tile(const __grid_constant__ gd::Cdist<typename Shape::T> first,
         const __grid_constant__ gd::Grid grid, const __grid_constant__ All all, unsigned each,
         gd_metric metric)
{
    using T = typename Shape::T;
    constexpr bool kMany = !std::is_same_v<All, Alone>;
    decltype(auto) call = all.one(first, kMany ? blockIdx.x / each : 0);
    constexpr int kRows = Shape::rows, kCols = Shape::cols, kWord = Shape::word;
    __shared__ alignas(16) typename Shape::SlabA slab_a;
    __shared__ alignas(16) typename Shape::SlabB slab_b;

    unsigned tile_row, tile_col, thread = threadIdx.x;
    if (!grid.find(&tile_row, &tile_col, kMany ? blockIdx.x % each : blockIdx.x) ||
        !call.has((ptrdiff_t)tile_row * Shape::block_rows,
                  (ptrdiff_t)(tile_col + 1) * Shape::block_cols)) {
        return;
    }
    T total[kRows][kCols] = {};

    for (ptrdiff_t dim = 0; dim < call.d; dim += gd::kSlabDims) {
        const ptrdiff_t ahead = call.d - dim;
        const int depth = ahead < gd::kSlabDims ? (int)ahead : gd::kSlabDims;
        gd::hide_origin(tile_row), gd::hide_origin(tile_col), gd::hide_origin(thread);
        const ptrdiff_t row = (ptrdiff_t)tile_row * Shape::block_rows;
        const ptrdiff_t col = (ptrdiff_t)tile_col * Shape::block_cols;
        typename Shape::LoaderA a(call.a, row, dim, depth, thread);
        typename Shape::LoaderB b(call.b, col, dim, depth, thread);
        /* Loads start before the barrier, so that slower warps hide part of the wait. */
        if constexpr (kWords) {
            a.fetch();
            b.fetch();
        }
        __syncthreads(); /* nobody reads the last slab any more */
        if constexpr (kWords) {
            a.put(slab_a);
            b.put(slab_b);
        }
        else {
            a.copy(slab_a);
            b.copy(slab_b);
        }
        __syncthreads(); /* the slab is there */

        if constexpr (!M::folds) {
            add_slab<M, Shape>(total, slab_a, slab_b, 0, depth, thread);
        }
        else {
#pragma unroll 1
            for (int fold = 0; fold < depth; fold += GD_FOLD) {
                T fresh[kRows][kCols] = {};
                add_slab<M, Shape>(fresh, slab_a, slab_b, fold,
                                   depth - fold < GD_FOLD ? depth - fold : GD_FOLD, thread);
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        total[i][j] = M::join(total[i][j], fresh[i][j]);
                    }
                }
            }
            if ((dim + gd::kSlabDims) % GD_GROUP == 0 && ahead > gd::kSlabDims) {
                join_group<M, Shape>(call, total, row + thread / 8 * kRows,
                                     col + thread % 8 * kWord, dim < GD_GROUP, true);
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        total[i][j] = 0;
                    }
                }
            }
        }
    }
    const ptrdiff_t row = (ptrdiff_t)tile_row * Shape::block_rows + thread / 8 * kRows;
    const ptrdiff_t col = (ptrdiff_t)tile_col * Shape::block_cols + thread % 8 * kWord;
    if (M::folds && call.d > GD_GROUP) {
        join_group<M, Shape>(call, total, row, col, false, false);
    }
    if (!call.words) {
        __syncthreads(); /* nobody reads the last slab any more */
    }
    store_tile<M, Shape>(call, total, metric, row, col, slab_a);
}

template <typename M, typename T>
cudaError_t launch(const gd_cdist &call)
{
    using Shape = Tile<T, kTileRows>;
    const bool words = gd::reads_words<T>(call.a) && gd::reads_words<T>(call.b);
    const gd::Grid grid(call.pairs, gd::ceil_div(call.out.rows, Shape::block_rows),
                        gd::ceil_div(call.out.cols, Shape::block_cols), kBand, Shape::block_rows,
                        Shape::block_cols);
    const ptrdiff_t blocks = grid.blocks();
    /* auto leaves these to tile_f64.cu but in batches: who asks for one by name gets a batch. */
    constexpr bool kIsBatch = sizeof(T) == sizeof(double) && M::lp && !M::squares;
    if constexpr (!kIsBatch) {
        if (call.many.count == 0) {
            return gd::enqueue(call.launch,
                               words ? tile<M, true, Shape, Alone> : tile<M, false, Shape, Alone>,
                               blocks, dim3(kThreads), 0, gd::parameters_of<T>(call), grid, Alone{},
                               (unsigned)blocks, call.metric);
        }
    }
    const gd::Matrices all = gd::matrices_of<T>(call);
    const bool all_words =
        words && gd::all_of_words<T>(all, all.a) && gd::all_of_words<T>(all, all.b);
    return gd::enqueue(
        call.launch,
        all_words ? tile<M, true, Shape, gd::Matrices> : tile<M, false, Shape, gd::Matrices>,
        blocks * all.count, dim3(kThreads), 0, gd::first_of<T>(call, all), grid, all,
        (unsigned)blocks, call.metric);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tile(gd_cdist *call, gd_error *err)
{
    const auto with_metric = [](gd_metric metric, auto &&f) {
        return gd::with_terms<false>(metric, f);
    };
    return gd::launch_for_metric(
        call, "cdist/cuda_tile", err, with_metric,
        [&](auto terms, auto type) { return launch<decltype(terms), decltype(type)>(*call); });
}
