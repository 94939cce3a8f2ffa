/* tensor_dense.cuh: columns of which many elements were marked, in a register tile like that of
 * tile.cu, but for 128 rows and 64 columns from anywhere.
 *
 * Everything is computed and what was marked is kept: the other results must not depend on their
 * neighbours. 8 x 8 results a thread, from slabs of 32 dimensions in shared memory. Sums over
 * groups wait in shared memory, as the results' places are all over the matrix.
 *
 * Reached on an H200: 11.5e12 pair-dimensions a second at d = 1024, as tile.cu. At d <= 128 single
 * results all over the matrix bind: 16.8 million of them, one in 16, take 0.45 ms, since a sector
 * that is stored in part has to be read first. */
#ifndef GPUDIST_TENSOR_DENSE_CUH
#define GPUDIST_TENSOR_DENSE_CUH

#include "slab.cuh"
#include "tensor_marks.cuh"

namespace gd {
namespace tensor {

/* A thread has 8 rows that touch and two runs of four columns, 32 columns apart. */
constexpr int kRows = 8, kRuns = 2, kRun = 4, kCols = kRuns * kRun;
/* The totals of its last rows are parked in shared memory, see tile.cu. */
constexpr int kKept = 6;
using Results = float[kRows][kCols];
using SlabA = Slab<float, kTileRows>;
using SlabB = Slab<float, kPartCols>;

/* Loads the rows of a list instead of neighbours. */
template <int kPoints, bool kSwap, typename Order>
struct Picked : Loader<float, kPoints, kSwap, Order> {
    using Base = Loader<float, kPoints, kSwap, Order>;
    const int *rows;

    __device__ __forceinline__ Picked(const Points<float> &x, const int *rows_, ptrdiff_t dim,
                                      int depth, unsigned thread)
        : Base(x, 0, dim, depth, thread), rows(rows_)
    {
    }
    __device__ __forceinline__ const float *start(int place) const
    {
        return this->corner + rows[Order::point_at(place)] * this->x.row_stride;
    }
    __device__ __forceinline__ void fetch()
    {
#pragma unroll
        for (int i = 0; i < Base::down; ++i) {
            const float *const from = start(this->thread / 4 + i * (kTileThreads / 4));
#pragma unroll
            for (int h = 0; h < Base::along; ++h) {
                load_word_const(from + min(this->dim_at(h), this->depth - Base::word),
                                this->words[i][h]);
            }
        }
    }
    template <typename S>
    __device__ __forceinline__ void copy(S &slab) const
    {
        /* A warp reads what lies closest together: dimensions of a row, or rows of a list. The
         * division is by a power of two. */
        const bool along_rows = llabs(this->x.col_stride) <= llabs(this->x.row_stride);
#pragma unroll 4
        for (int i = this->thread; i < kSlabDims * kPoints; i += kTileThreads) {
            const int k = along_rows ? i % kSlabDims : i / kPoints;
            const int place = along_rows ? i / kSlabDims : i % kPoints;
            this->put_element(slab, k, place, start(place) + k * this->x.col_stride);
        }
    }
};
using LoaderA = Picked<kTileRows, false, Order<kRows / 2, 4>>;
using LoaderB = Picked<kPartCols, true, Order<kRun / 2, 8>>;

struct Tile {
    SlabA a;
    SlabB b;
    alignas(16) float parked[(kRows - kKept) * kRuns][kTileThreads][kRun];
    union {
        float groups[kRows * kRuns][kTileThreads][kRun];
        float results[kTileRows][kPartCols];
    };
    int rows[kTileRows], cols[kPartCols];
};

/* Adds up to GD_FOLD dimensions of a slab, from `first` on, to a thread's sums. */
template <typename M>
__device__ __forceinline__ void add_fold(Results &sum, const Tile &tile, int first, int depth)
{
    const unsigned thread = this_thread();
    constexpr int kPitchA = sizeof tile.a[0] / sizeof(float);
    constexpr int kPitchB = sizeof tile.b[0] / sizeof(float);
    const float *from_a = &tile.a[first / 2][(thread / 32 * 4 * kRows + thread % 32 / 8 * 2) * 2];
    const float *from_b = &tile.b[first / 2][thread % 8 * 2 * 2];
    /* The end of the loop as an address saves the register of a counter. */
    const float *const end = from_a + (depth + 3) / 4 * 2 * kPitchA;
#pragma unroll 1
    while (from_a != end) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            float a[kRows * 2], b[kCols * 2];
#pragma unroll
            for (int i = 0; i < kRows; i += 2) {
                load_word(from_a + i * 4 * 2, a + i * 2);
            }
#pragma unroll
            for (int j = 0; j < kCols; j += 2) {
                load_word(from_b + j * 8 * 2, b + j * 2);
            }
#pragma unroll
            for (int s = 0; s < 2; ++s) {
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        /* Pairs of dimensions are swapped in b, see tile.cu. */
                        sum[i][j] = M::term(sum[i][j], a[i * 2 + s], b[j * 2 + 1 - s]);
                    }
                }
            }
            from_a += kPitchA;
            from_b += kPitchB;
        }
    }
}

/* Moves the totals of the last rows to shared memory and back. */
__device__ __forceinline__ void park(Tile &tile, const Results &total)
{
#pragma unroll
    for (int i = 0; i < (kRows - kKept) * kRuns; ++i) {
        store_word(tile.parked[i][this_thread()], &total[kKept + i / kRuns][i % kRuns * kRun]);
    }
}
__device__ __forceinline__ void unpark(const Tile &tile, Results &total)
{
#pragma unroll
    for (int i = 0; i < (kRows - kKept) * kRuns; ++i) {
        load_word(tile.parked[i][this_thread()], &total[kKept + i / kRuns][i % kRuns * kRun]);
    }
}

/* Joins a thread's totals with those of the groups before, unless `first`. Each thread reads and
 * writes its own words, so this needs no barrier. */
template <typename M>
__device__ __forceinline__ void join_groups(Tile &tile, Results &total, bool first)
{
#pragma unroll
    for (int i = 0; i < kRows * kRuns; ++i) {
        float before[kRun];
        float *const now = &total[i / kRuns][i % kRuns * kRun];
        load_word(tile.groups[i][this_thread()], before);
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            now[j] = first ? now[j] : M::join(before[j], now[j]);
        }
    }
}

/* The sums of a tile, slab by slab, in the order that tile.cu adds in: the bits are the same. */
template <typename M>
__device__ __forceinline__ void sum_tile(const Cdist<float> &call, bool words, Tile &tile,
                                         Results &total)
{
#pragma unroll
    for (int i = 0; i < kRows * kCols; ++i) {
        total[i / kCols][i % kCols] = 0;
    }
    park(tile, total);
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += kSlabDims) {
        const int depth = (int)min(call.d - dim, (ptrdiff_t)kSlabDims);
        LoaderA a(call.a, tile.rows, dim, depth, this_thread());
        LoaderB b(call.b, tile.cols, dim, depth, this_thread());
        if (words) {
            a.fetch();
            b.fetch();
            __syncthreads(); /* nobody reads the last slab any more */
            a.put(tile.a);
            b.put(tile.b);
        }
        else {
            __syncthreads();
            a.copy(tile.a);
            b.copy(tile.b);
        }
        __syncthreads(); /* the slab is there */
#pragma unroll 1
        for (int fold = 0; fold < depth; fold += GD_FOLD) {
            Results fresh = {};
            add_fold<M>(fresh, tile, fold, min(depth - fold, GD_FOLD));
            unpark(tile, total);
#pragma unroll
            for (int i = 0; i < kRows * kCols; ++i) {
                float &sum = total[i / kCols][i % kCols];
                sum = M::join(sum, fresh[i / kCols][i % kCols]);
            }
            park(tile, total);
        }
        if ((dim + kSlabDims) % GD_GROUP == 0 && dim + kSlabDims < call.d) {
            join_groups<M>(tile, total, dim < GD_GROUP);
#pragma unroll
            for (int i = 0; i < kRows * kRuns; ++i) {
                store_word(tile.groups[i][this_thread()], &total[i / kRuns][i % kRuns * kRun]);
            }
#pragma unroll
            for (int i = 0; i < kRows * kCols; ++i) {
                total[i / kCols][i % kCols] = 0;
            }
            park(tile, total);
        }
    }
    if (call.d > GD_GROUP) {
        join_groups<M>(tile, total, false);
    }
}

/* Stores what was marked, of `cols` columns. By way of shared memory, so that a warp stores one row
 * at a time: neighbours in the list are near each other in the matrix, and the fewer sectors a
 * store touches, the better. */
template <typename M>
__device__ __forceinline__ void keep_marked(const Cdist<float> &call, Tile &tile,
                                            const uint4 *masks, int cols, const Results &total)
{
    const int thread = (int)this_thread(), warp = thread / 32, lane = thread % 32;
    __syncthreads(); /* nobody joins groups any more */
#pragma unroll
    for (int i = 0; i < kRows * kRuns; ++i) {
        float results[kRun];
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            results[j] = M::finish(total[i / kRuns][i % kRuns * kRun + j]);
        }
        store_word(
            &tile.results[thread / 8 * kRows + i / kRuns][thread % 8 * kRun + i % kRuns * 32],
            results);
    }
    __syncthreads(); /* the results are there */
    /* A lane stores two columns of 32 rows. */
    static_assert(kTileRows == kTileThreads && kPartCols == 64,
                  "rows of a warp, columns of a lane");
#pragma unroll 1
    for (int at = lane; at < cols; at += 32) {
        const unsigned marked = reinterpret_cast<const unsigned *>(masks + at)[warp];
        float *const to = call.out + tile.cols[at];
        unsigned lost = 0;
#pragma unroll 8
        for (int i = 0; i < 32; ++i) {
            const int row = warp * 32 + i;
            const float result = tile.results[row][at];
            if (marked >> i & 1) {
                to[tile.rows[row] * call.out_stride] = result;
                lost |= (unsigned)!M::safe(result) << i;
            }
        }
        if constexpr (M::template guarded<float>) {
            for (; lost != 0; lost &= lost - 1) {
                const ptrdiff_t row = tile.rows[warp * 32 + __ffs((int)lost) - 1];
                Run<float> run(call, tile.cols[at], 1);
                run.count = 1; /* the neighbours may not be marked */
                repair<M>(call, row, row + 1, 1, run);
            }
        }
    }
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kTileThreads, 3)
    dense(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan, bool words)
{
    using M = Metric<kMetric>;
    extern __shared__ __align__(128) unsigned char memory[];
    Tile &tile = *reinterpret_cast<Tile *>(memory);
    const unsigned tiles = *plan.queued;
    /* All tiles cost the same, so every gridDim'th will do. Those at work at the same time come
     * from neighbouring groups, which share columns. */
#pragma unroll 1
    for (unsigned i = blockIdx.x; i < tiles; i += gridDim.x) {
        const int2 job = plan.queue[i];
        const ptrdiff_t at =
            (job.x * plan.parts_across() + job.y) * kPartCols; /* among all columns listed */
        const int cols = min((int)plan.listed[job.x] - job.y * kPartCols, kPartCols);
        __syncthreads(); /* nobody reads the last lists any more */
        const int row = plan.row(job.x, plan.ordered[job.x / kWindowTiles] != 0, (int)threadIdx.x);
        /* Rows beyond the last have no marks, but they are loaded like others. So are columns
         * beyond the list's end. */
        tile.rows[threadIdx.x] = (int)call.a.clamp(row);
        if (threadIdx.x < kPartCols) {
            tile.cols[threadIdx.x] = plan.cols[at + min((int)threadIdx.x, cols - 1)];
        }
        __syncthreads();
        Results total;
        sum_tile<M>(call, words, tile, total);
        keep_marked<M>(call, tile, plan.masks + at, cols, total);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
