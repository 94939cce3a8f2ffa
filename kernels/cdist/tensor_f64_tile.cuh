/* tensor_f64_tile.cuh: parts of which many elements were marked, in a register tile like that of
 * tile.cu.
 *
 * Everything is computed and what was marked is kept: the other results must not depend on their
 * neighbours. 4 x 8 results a thread, from slabs of 32 dimensions in shared memory. */
#ifndef GPUDIST_TENSOR_F64_TILE_CUH
#define GPUDIST_TENSOR_F64_TILE_CUH

#include "slab.cuh"
#include "tensor_f64_redo.cuh"

namespace gd {
namespace tensor_f64 {

static_assert(kRedoThreads == kTileThreads, "the loaders' threads");

/* A thread has four rows that touch and four runs of two columns, 16 columns apart. */
constexpr int kRows = 4, kRuns = 4, kRun = 2, kCols = kRuns * kRun;
using Side = Slab<double, kPart>;
using LoaderA = Loader<double, kPart, false, Order<kRows / 2, 4>>;
using LoaderB = Loader<double, kPart, true, Order<kRun / 2, 8>>;
using Totals = double[kRows][kCols];

/* The groups before wait in shared memory: where the results will stand there are marks. */
struct Many {
    Side a, b;
    double groups[kRows * kRuns][kRedoThreads][kRun];
};

/* Adds up to GD_FOLD dimensions of a slab, from `first` on, to a thread's sums. */
template <typename M>
__device__ __forceinline__ void add_fold(Totals &sum, const Many &many, int first, int depth)
{
    const double *from_a = &many.a[first][threadIdx.x / 32 * 4 * kRows + threadIdx.x % 32 / 8 * 2];
    const double *from_b = &many.b[first][threadIdx.x % 8 * 2];
#pragma unroll 2
    for (int k = 0; k < depth; ++k) {
        double a[kRows], b[kCols];
#pragma unroll
        for (int i = 0; i < kRows; i += 2) {
            load_word(from_a + i * 4, a + i);
        }
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            load_word(from_b + j * 8, b + j);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                sum[i][j] = M::term(sum[i][j], a[i], b[j]);
            }
        }
        from_a += sizeof many.a[0] / sizeof(double);
        from_b += sizeof many.b[0] / sizeof(double);
    }
}

/* Joins a thread's totals with those of the groups before. */
template <typename M>
__device__ __forceinline__ void join_groups(Totals &total, Many &many, bool first)
{
#pragma unroll
    for (int w = 0; w < kRows * kRuns; ++w) {
        double *const before = many.groups[w][threadIdx.x];
        double *const now = &total[w / kRuns][w % kRuns * kRun];
        if (!first) {
            double sum[kRun];
            load_word(before, sum);
            now[0] = M::join(sum[0], now[0]);
            now[1] = M::join(sum[1], now[1]);
        }
        store_word(before, now);
    }
}

/* Stores those of a thread's results whose places are marked. All marks are read before anything is
 * stored: reads and stores in turns would wait for each other. */
template <typename M>
__device__ __forceinline__ void store_marked(const Cdist<double> &call, const Totals &total,
                                             ptrdiff_t row, ptrdiff_t col)
{
    unsigned marks = 0;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
        const Run<double> run(call, col + r * 8 * kRun, 1);
        const double *at = call.out + row * call.out_stride + run.first;
#pragma unroll
        for (int i = 0; i < kRows; ++i, at += call.out_stride) {
            double before[kRun] = {};
            if (row + i < call.a.count) {
                run.load(at, before);
            }
#pragma unroll
            for (int j = 0; j < kRun; ++j) {
                marks |= (unsigned)is_marked(before[j]) << (i * kCols + r * kRun + j);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
        const Run<double> run(call, col + r * 8 * kRun, 1);
        double *at = call.out + row * call.out_stride + run.first;
#pragma unroll
        for (int i = 0; i < kRows; ++i, at += call.out_stride) {
            const unsigned here = marks >> (i * kCols + r * kRun) & 3;
            double results[kRun];
#pragma unroll
            for (int j = 0; j < kRun; ++j) {
                results[j] = M::finish(total[i][r * kRun + j]);
            }
            if (here == 3 && run.word) {
                stream_word(at, results);
                continue;
            }
#pragma unroll
            for (int j = 0; j < kRun; ++j) {
                if (here >> j & 1) {
                    at[j] = results[j];
                }
            }
        }
    }
}

template <gd_metric kMetric, bool kWords>
__global__ void __launch_bounds__(kRedoThreads, 3)
    redo_many(const __grid_constant__ Cdist<double> call, const __grid_constant__ Plan plan)
{
    using M = Metric<kMetric>;
    extern __shared__ __align__(128) unsigned char memory[];
    Many &many = *reinterpret_cast<Many *>(memory);
    const auto wanted = [](unsigned count) { return count >= kMany<kMetric>; };
    for_parts(plan, wanted, [&](ptrdiff_t row, ptrdiff_t col) {
        Totals total = {};
#pragma unroll 1
        for (ptrdiff_t dim = 0; dim < call.d; dim += kSlabDims) {
            const int depth = (int)min(call.d - dim, (ptrdiff_t)kSlabDims);
            LoaderA a(call.a, row, dim, depth, threadIdx.x);
            LoaderB b(call.b, col, dim, depth, threadIdx.x);
            if constexpr (kWords) {
                a.fetch();
                b.fetch();
                __syncthreads(); /* nobody reads the last slab any more */
                a.put(many.a);
                b.put(many.b);
            }
            else {
                __syncthreads();
                a.copy(many.a);
                b.copy(many.b);
            }
            __syncthreads(); /* the slab is there */
#pragma unroll 1
            for (int fold = 0; fold < depth; fold += GD_FOLD) {
                Totals fresh = {};
                add_fold<M>(fresh, many, fold, min(depth - fold, GD_FOLD));
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        total[i][j] = M::join(total[i][j], fresh[i][j]);
                    }
                }
            }
            const bool last = dim + kSlabDims >= call.d;
            if (last ? call.d > GD_GROUP : (dim + kSlabDims) % GD_GROUP == 0) {
                join_groups<M>(total, many, dim < GD_GROUP);
                if (!last) {
#pragma unroll
                    for (int i = 0; i < kRows * kCols; ++i) {
                        total[i / kCols][i % kCols] = 0;
                    }
                }
            }
        }
        store_marked<M>(call, total, row + threadIdx.x / 8 * kRows, col + threadIdx.x % 8 * kRun);
    });
}

}  // namespace tensor_f64
}  // namespace gd
#endif
