/* dense.cuh: columns of which many elements were suspect, in a register tile like that of
 * tile.cu, but for rows and columns from anywhere. Where everything is computed in direct form
 * (product/centre.cuh) the same loop takes neighbouring rows and columns, and stores all.
 *
 * In a picked tile, too, everything is computed, but only what was suspect is kept: the other
 * results must not depend on their neighbours. 8 x 8 results a thread, float64 4 x 8, from slabs of
 * 32 dimensions in shared memory. Sums over groups wait in shared memory, as the results' places
 * are all over the matrix.
 *
 * Reached on an H200 in float32: 11.5e12 pair-dimensions a second at d = 1024, as tile.cu. At d <=
 * 128 single results all over the matrix bind: 16.8 million of them, one in 16, take 0.49 ms, and
 * 0.24 if none is stored, since a sector that is stored in part has to be read first: 0.48 GB, 32
 * bytes at a time. They are stored while the next tile is computed, which takes 0.035 ms less than
 * afterwards; to bring their sectors to L2 beforehand takes 0.16 ms more. All in direct form, d =
 * 32: 0.88 ms (tile.cu 0.82). */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_DENSE_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_DENSE_CUH

#include "common/tile.cuh"
#include "cdist/product/recompute/suspects.cuh"

namespace gd {
namespace product_form {

constexpr int kDenseBlocks = 3;      /* on a multiprocessor */
constexpr unsigned kDirectBand = 16; /* see tile.cu */

/* Whether totals are parked in shared memory, see Tile. Not on 7.5, where a block has 64 KB, and
 * all registers of a multiprocessor. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kParksHere = false;
#else
constexpr bool kParksHere = true;
#endif

/* A thread has rows that touch, and runs of one 16-byte store of columns, 8 runs apart. */
template <typename T, bool kParks = kParksHere>
struct Tile {
    static constexpr int run = kPerWord<T>, runs = 8 / run, cols = runs * run;
    static constexpr int rows = sizeof(T) == 4 ? 8 : 4, block_rows = 16 * rows;
    static constexpr int halves = kTileRows / block_rows; /* tiles that a group of rows makes */
    /* The totals of the last rows are parked in shared memory, see tile.cu. */
    static constexpr int kept = kParks && sizeof(T) == 4 ? 6 : rows;
    static constexpr int parked_words = (rows - kept) * runs;

    using Results = T[rows][cols];
    using OrderA = Order<rows / 2, 4>;
    using OrderB = Order<run / 2, 8>;

    Slab<T, block_rows> a;
    Slab<T, kPartCols> b;
    alignas(16) T roots[kSlabDims]; /* of scaled rows alone */
    alignas(16) T parked[parked_words > 0 ? parked_words : 1][kTileThreads][run];
    union {
        T groups[rows * runs][kTileThreads][run];
        T results[block_rows][kPartCols];
    };
    int picked_rows[kTileRows], picked_cols[kPartCols];
    /* The results that wait to be stored: where they go, which are suspect, a bit a row of each
     * warp's, and how many columns they have. */
    int left_rows[block_rows], left_cols[kPartCols], left;
    unsigned suspected[kTileThreads / 32][kPartCols];
};

static_assert(sizeof(Tile<float, false>) <= 64 << 10, "shared memory of a block on 7.5");

/* Loads the rows of a list instead of neighbours. */
template <typename T, int kPoints, bool kSwap, typename Order>
struct Picked : Loader<T, kPoints, kSwap, Order> {
    using Base = Loader<T, kPoints, kSwap, Order>;
    const int *rows;

    __device__ __forceinline__ Picked(const Points<T> &x, const int *rows_, ptrdiff_t dim,
                                      int depth, unsigned thread)
        : Base(x, 0, dim, depth, thread), rows(rows_)
    {
    }
    __device__ __forceinline__ const T *start(int place) const
    {
        return this->corner + rows[Order::point_at(place)] * this->x.row_stride;
    }
    __device__ __forceinline__ void fetch()
    {
#pragma unroll
        for (int i = 0; i < Base::down; ++i) {
            const T *const from = start(this->thread / 4 + i * (kTileThreads / 4));
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

/* Adds up to GD_FOLD dimensions of a slab, from `first` on, to a thread's sums. */
template <typename M, typename T>
__device__ __forceinline__ void add_fold(typename Tile<T>::Results &sum, const Tile<T> &tile,
                                         int first, int depth)
{
    constexpr int kRows = Tile<T>::rows, kCell = kPerCell<T>;
    constexpr int kStep = kPerWord<T> / kCell; /* rows of the slab in a turn of the loop */
    constexpr int kPitchA = sizeof tile.a[0] / sizeof(T), kPitchB = sizeof tile.b[0] / sizeof(T);
    const unsigned thread = this_thread();
    const T *from_a =
        &tile.a[first / kCell][(thread / 32 * 4 * kRows + thread % 32 / 8 * 2) * kCell];
    const T *from_b = &tile.b[first / kCell][thread % 8 * 2 * kCell];
    const T *roots = &tile.roots[first];
    /* The end of the loop as an address saves the register of a counter. */
    const T *const end = from_a + ceil_div(depth, kPerWord<T>) * kStep * kPitchA;
#pragma unroll 1
    while (from_a != end) {
        T root[kPerWord<T>] = {};
        if constexpr (kScales<M>) {
            load_word(roots, root);
            roots += kPerWord<T>;
        }
#pragma unroll
        for (int step = 0; step < kStep; ++step) {
            add_cells(sum, from_a, from_b, [&](T x, T a, T b, int s) {
                return add_term<M>(x, a, b, root[step * kCell + s]);
            });
            from_a += kPitchA;
            from_b += kPitchB;
        }
    }
}

/* Moves the totals of the last rows to shared memory and back. */
template <typename T>
__device__ __forceinline__ void park(Tile<T> &tile, const typename Tile<T>::Results &total)
{
#pragma unroll
    for (int i = 0; i < Tile<T>::parked_words; ++i) {
        store_word(tile.parked[i][this_thread()],
                   &total[Tile<T>::kept + i / Tile<T>::runs][i % Tile<T>::runs * Tile<T>::run]);
    }
}
template <typename T>
__device__ __forceinline__ void unpark(const Tile<T> &tile, typename Tile<T>::Results &total)
{
#pragma unroll
    for (int i = 0; i < Tile<T>::parked_words; ++i) {
        load_word(tile.parked[i][this_thread()],
                  &total[Tile<T>::kept + i / Tile<T>::runs][i % Tile<T>::runs * Tile<T>::run]);
    }
}
template <typename T>
__device__ __forceinline__ void clear(Tile<T> &tile, typename Tile<T>::Results &total)
{
#pragma unroll
    for (int i = 0; i < Tile<T>::rows * Tile<T>::cols; ++i) {
        total[i / Tile<T>::cols][i % Tile<T>::cols] = 0;
    }
    park(tile, total);
}

/* Joins a thread's totals with those of the groups before, unless `first`. Each thread reads and
 * writes its own words, so this needs no barrier. */
template <typename M, typename T>
__device__ __forceinline__ void join_groups(Tile<T> &tile, typename Tile<T>::Results &total,
                                            bool first)
{
    constexpr int kRun = Tile<T>::run, kRuns = Tile<T>::runs;
#pragma unroll
    for (int i = 0; i < Tile<T>::rows * kRuns; ++i) {
        T before[kRun];
        T *const now = &total[i / kRuns][i % kRuns * kRun];
        load_word(tile.groups[i][this_thread()], before);
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            now[j] = first ? now[j] : M::join(before[j], now[j]);
        }
    }
}

/* The sums of a tile, slab by slab, in the order that tile.cu adds in: the bits are the same.
 * at_a, at_b: lists of rows and columns, or the first ones, as the loaders take them. After each
 * fold it calls between(dim), where the fold began, and the groups are not used before the last of
 * kFreeDims. */
constexpr int kFreeDims = GD_GROUP - kSlabDims;
template <typename M, typename LoaderA, typename LoaderB, typename T, Form kForm, typename At,
          typename Between>
__device__ __forceinline__ void sum_tile(const Cdist<T, kForm> &call, bool words, Tile<T> &tile,
                                         At at_a, At at_b, typename Tile<T>::Results &total,
                                         Between &&between)
{
    constexpr int kRows = Tile<T>::rows, kCols = Tile<T>::cols, kRun = Tile<T>::run,
                  kRuns = Tile<T>::runs;
    clear(tile, total);
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += kSlabDims) {
        const int depth = (int)min(call.d - dim, (ptrdiff_t)kSlabDims);
        LoaderA a(call.a, at_a, dim, depth, this_thread());
        LoaderB b(call.b, at_b, dim, depth, this_thread());
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
        if (kScales<M> && this_thread() < kSlabDims) {
            tile.roots[this_thread()] = root_at<M>(call, dim + this_thread());
        }
        __syncthreads(); /* the slab is there */
#pragma unroll 1
        for (int fold = 0; fold < depth; fold += GD_FOLD) {
            typename Tile<T>::Results fresh = {};
            add_fold<M>(fresh, tile, fold, min(depth - fold, GD_FOLD));
            unpark(tile, total);
#pragma unroll
            for (int i = 0; i < kRows * kCols; ++i) {
                T &sum = total[i / kCols][i % kCols];
                sum = M::join(sum, fresh[i / kCols][i % kCols]);
            }
            park(tile, total);
            between(dim + fold);
        }
        if ((dim + kSlabDims) % GD_GROUP == 0 && dim + kSlabDims < call.d) {
            join_groups<M>(tile, total, dim < GD_GROUP);
#pragma unroll
            for (int i = 0; i < kRows * kRuns; ++i) {
                store_word(tile.groups[i][this_thread()], &total[i / kRuns][i % kRuns * kRun]);
            }
            clear(tile, total);
        }
    }
    if (call.d > GD_GROUP) {
        join_groups<M>(tile, total, false);
    }
}

/* Results of a tile wait in shared memory until the next one is at work, whose loop stores them
 * share by share: stored all at once, by all blocks at about the same time, they would keep memory
 * busy while nobody computes, and then the other way round. */
constexpr int kShares = 8;

/* A thread puts its totals where others find them, as results unless these depend on the call: what
 * they need beside would be loaded, or asked, in 64 places. */
template <typename M, typename T>
__device__ __forceinline__ void put_results(Tile<T> &tile, const typename Tile<T>::Results &total)
{
    constexpr int kRun = Tile<T>::run, kRuns = Tile<T>::runs;
    const int thread = (int)this_thread();
    __syncthreads(); /* nobody joins groups any more, or stores what waited before */
#pragma unroll
    for (int i = 0; i < Tile<T>::rows * kRuns; ++i) {
        T results[kRun];
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            results[j] = total[i / kRuns][i % kRuns * kRun + j];
            if constexpr (!kEndsByCall<M>) {
                results[j] = M::finish(results[j]);
            }
        }
        store_word(&tile.results[thread / 8 * Tile<T>::rows + i / kRuns]
                                [thread % 8 * kRun + i % kRuns * 8 * kRun],
                   results);
    }
}

/* A thread leaves its results, of `cols` columns, for others to store. By way of shared memory a
 * warp stores one row at a time: neighbours in the list are near each other in the matrix, and the
 * fewer sectors a store touches, the better. */
template <typename M, typename T>
__device__ __forceinline__ void leave_suspects(Tile<T> &tile, int first_row, const uint4 *masks,
                                               int cols, const typename Tile<T>::Results &total)
{
    constexpr int kEach = Tile<T>::block_rows / (kTileThreads / 32); /* rows of a warp */
    const int thread = (int)this_thread(), warp = thread / 32, lane = thread % 32;
    put_results<M>(tile, total);
    const int first = first_row + warp * kEach;
    for (int at = lane; at < cols; at += 32) {
        tile.suspected[warp][at] =
            reinterpret_cast<const unsigned *>(masks + at)[first / 32] >> first % 32;
    }
    if (thread < Tile<T>::block_rows) {
        tile.left_rows[thread] = tile.picked_rows[first_row + thread];
    }
    if (thread < kPartCols) {
        tile.left_cols[thread] = tile.picked_cols[thread];
    }
    if (thread == 0) {
        tile.left = cols;
    }
}

/* Stores a share of what was left. */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ void store_share(const Cdist<T, kForm> &call, const Tile<T> &tile,
                                            int share)
{
    constexpr int kEach = Tile<T>::block_rows / (kTileThreads / 32), kRows = kEach / kShares;
    const int thread = (int)this_thread(), warp = thread / 32;
#pragma unroll 1
    for (int at = thread % 32; at < tile.left; at += 32) {
        const unsigned suspected = tile.suspected[warp][at] >> share * kRows;
        const int *const rows = tile.left_rows + warp * kEach + share * kRows;
        const int col = tile.left_cols[at];
        unsigned lost = 0;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            T result = tile.results[warp * kEach + share * kRows + i][at];
            if (suspected >> i & 1) {
                if constexpr (kEndsByCall<M>) {
                    result = result_of<M>(call, rows[i], col, result);
                }
                call.row(rows[i])[col] = result;
                lost |= (unsigned)!is_safe<M>(call, result) << i;
            }
        }
        if constexpr (M::template guarded<T>) {
            for (; lost != 0; lost &= lost - 1) {
                const ptrdiff_t row = rows[__ffs((int)lost) - 1];
                Run<T> run(call, col, 1);
                run.count = 1; /* the neighbours may not be suspect */
                recompute_run<M>(call, row, row + 1, run);
            }
        }
    }
}

/* Stores all of a tile that there is; a thread's first result is at (row, col). */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ void keep_all(const Cdist<T, kForm> &call, ptrdiff_t row, ptrdiff_t col,
                                         const typename Tile<T>::Results &total)
{
    constexpr int kRows = Tile<T>::rows, kRun = Tile<T>::run;
    const ptrdiff_t left = call.a.count - row;
    bool safe = true;
#pragma unroll
    for (int r = 0; r < Tile<T>::runs; ++r) {
        const Run<T> run(call, col + r * 8 * kRun, 1);
        T *to = call.row(row) + run.first;
        const int start = run.start(call, row);
#pragma unroll
        for (int i = 0; i < kRows; to += call.step(row + i, 1), ++i) {
            T results[kRun];
#pragma unroll
            for (int j = 0; j < kRun; ++j) {
                results[j] = M::finish(total[i][r * kRun + j]);
                safe &= M::safe(results[j]);
            }
            if (i < left) {
                run.store(to, results, start + i);
            }
        }
    }
    if constexpr (M::template guarded<T>) {
        if (!safe) {
            recompute_tile_f64<M, kRows, Tile<T>::runs>(call, row, col);
        }
    }
}

/* Keeps all of scaled rows, a word of results after the other. (row, col): the tile's. */
template <typename T, Form kForm>
__device__ __forceinline__ void keep_all_scaled(const Cdist<T, kForm> &call, ptrdiff_t row,
                                                ptrdiff_t col, Tile<T> &tile,
                                                const typename Tile<T>::Results &total)
{
    constexpr int kRun = Tile<T>::run, kAcross = kPartCols / kRun;
    put_results<Scaled>(tile, total);
    __syncthreads(); /* all totals are there */
#pragma unroll 1
    for (int i = this_thread(); i < Tile<T>::block_rows * kAcross; i += kTileThreads) {
        const ptrdiff_t at = row + i / kAcross;
        const Run<T> run(call, col + i % kAcross * kRun, 1);
        if (at >= call.a.count) {
            break;
        }
        T results[kRun];
        load_word(&tile.results[i / kAcross][i % kAcross * kRun], results);
        bool safe = true;
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
            results[j] = whole(call).result(results[j], at, call.b.clamp(run.first + j));
            safe &= whole(call).safe(results[j]);
        }
        run.store(call.row(at) + run.first, results, run.start(call, at));
        if constexpr (Scaled::guarded<T>) {
            if (!safe) {
                recompute_run<Scaled>(call, at, at + 1, run);
            }
        }
    }
}

/* A tile of the list: job.x is the group of its rows, job.y which 64 of the group's columns. */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ void recompute_picked(const Cdist<T, kForm> &call,
                                                 const Suspects &suspects, bool words,
                                                 Tile<T> &tile, int2 job, int half)
{
    using A = Picked<T, Tile<T>::block_rows, false, typename Tile<T>::OrderA>;
    using B = Picked<T, kPartCols, true, typename Tile<T>::OrderB>;
    const ptrdiff_t at =
        (job.x * suspects.parts_across + job.y) * kPartCols; /* among all columns listed */
    const int cols = min((int)suspects.listed[job.x] - job.y * kPartCols, kPartCols);
    static_assert(kTileRows == kTileThreads, "a thread a row");
    __syncthreads(); /* nobody reads the last lists any more */
    const int row =
        suspects.row(job.x, suspects.ordered[job.x / kWindowTiles] != 0, (int)threadIdx.x);
    /* Rows beyond the last have no suspects, but they are loaded like others. So are columns beyond
     * the list's end. */
    tile.picked_rows[threadIdx.x] = (int)call.a.clamp(row);
    if (threadIdx.x < kPartCols) {
        tile.picked_cols[threadIdx.x] = suspects.cols[at + min((int)threadIdx.x, cols - 1)];
    }
    __syncthreads();
    typename Tile<T>::Results total;
    const int first = half * Tile<T>::block_rows;
    /* What waits is stored in the folds before groups are used, or in all there are. */
    const int folds = (int)ceil_div(
        min(call.d, (ptrdiff_t)(call.d > GD_GROUP ? kFreeDims : GD_GROUP)), (ptrdiff_t)GD_FOLD);
    const int each = (int)ceil_div(kShares, folds);
    sum_tile<M, A, B>(call, words, tile, (const int *)tile.picked_rows + first,
                      (const int *)tile.picked_cols, total, [&](ptrdiff_t dim) {
                          const int share = (int)dim / GD_FOLD * each;
                          if (share < kShares) {
#pragma unroll 1
                              for (int i = share; i < min(share + each, kShares); ++i) {
                                  store_share<M>(call, tile, i);
                              }
                          }
                      });
    leave_suspects<M>(tile, first, suspects.masks + at, cols, total);
}

/* The i-th tile of all, in bands as in tile.cu. */
template <typename M, typename T, Form kForm>
__device__ __forceinline__ void compute_direct(const Cdist<T, kForm> &call, bool words,
                                               Tile<T> &tile, unsigned i, unsigned down,
                                               unsigned across)
{
    using A = Loader<T, Tile<T>::block_rows, false, typename Tile<T>::OrderA>;
    using B = Loader<T, kPartCols, true, typename Tile<T>::OrderB>;
    const unsigned band = min(down, kDirectBand), in_band = i % (band * across);
    const unsigned top = i / (band * across) * band, height = min(band, down - top);
    const ptrdiff_t row = (ptrdiff_t)(top + in_band % height) * Tile<T>::block_rows;
    const ptrdiff_t col = (ptrdiff_t)(in_band / height) * kPartCols;
    if (!call.has(row, col + kPartCols)) {
        return;
    }
    typename Tile<T>::Results total;
    sum_tile<M, A, B>(call, words, tile, row, col, total, [](ptrdiff_t) {});
    if constexpr (kScales<M>) {
        keep_all_scaled(call, row, col, tile, total);
    }
    else {
        with_end_in<M>(call, [&](auto end) {
            keep_all<decltype(end)>(call, row + this_thread() / 8 * Tile<T>::rows,
                                    col + this_thread() % 8 * Tile<T>::run, total);
        });
    }
}

template <typename M, typename T, Form kForm>
__global__ void __launch_bounds__(kTileThreads, kParksHere ? kDenseBlocks : 1)
    dense(const __grid_constant__ CallFor<M, T, kForm> call,
          const __grid_constant__ Suspects suspects, bool words)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Tile<T> &tile = *reinterpret_cast<Tile<T> *>(memory);
    follow();
    if (suspects.direct()) {
        const unsigned down = (unsigned)ceil_div(call.a.count, (ptrdiff_t)Tile<T>::block_rows);
        const unsigned across = (unsigned)ceil_div(call.b.count, (ptrdiff_t)kPartCols);
#pragma unroll 1
        for (unsigned i = blockIdx.x; i < down * across; i += gridDim.x) {
            compute_direct<M>(call, words, tile, i, down, across);
        }
        return;
    }
    if (suspects.none()) {
        return;
    }
    /* All tiles cost the same, so every gridDim'th will do. Those at work at the same time come
     * from neighbouring groups, which share columns. */
    const unsigned tiles = *suspects.queued * Tile<T>::halves;
    if (threadIdx.x == 0) {
        tile.left = 0;
    }
#pragma unroll 1
    for (unsigned i = blockIdx.x; i < tiles; i += gridDim.x) {
        recompute_picked<M>(call, suspects, words, tile, suspects.queue[i / Tile<T>::halves],
                            (int)(i % Tile<T>::halves));
    }
    __syncthreads(); /* what waits is there */
#pragma unroll 1
    for (int i = 0; i < kShares; ++i) {
        store_share<M>(call, tile, i);
    }
}

}  // namespace product_form
}  // namespace gd
#endif
