/* tile_f64.cu: cdist of float64 points with any number of dimensions, by the Lp family, with the
 * bits of tile.cu.
 *
 * Idea: the register tile of tile.cu, for a pipe that is half as wide: it needs every other issue
 * slot, and shared memory is what it waits for. A block of 128 threads computes 64 x 64 results,
 * each thread 4 x 8, from slabs of 16 dimensions. 16384 x 16384 x 128 is 34.4 G pair-dimensions,
 * of two instructions each, which the H200 issues in 4.1 ms at best.
 *
 * - While one slab is added up the next one is on its way, by copies that need no registers; then
 *   one barrier a slab does.
 * - A word of shared memory is two dimensions of a point, as the point has them: nothing is
 *   transposed.
 * - Sums start afresh every GD_FOLD dimensions and are added to totals, and the totals every
 *   GD_GROUP dimensions to those of the groups before, which wait where the results will stand.
 * - A thread's roots of eight results are found side by side (finish_all): of 8192 x 8192 x 5 that
 *   takes 0.18 ms, in tile.cu, one after the other, 0.25.
 * - Where rows start anywhere, a block's results go through shared memory as a tile, so that a warp
 *   stores 512 bytes of a row at a time: by segments of 128 bytes 8191 x 8191 x 8 took 0.26 ms, so
 *   it takes 0.20 (cityblock 0.25 and 0.18).
 * Launch: a block a tile, in bands of 16 tiles' rows (grid.cuh).
 *
 * Reached there: cityblock d = 16 0.70 ms, d = 128 4.94, d = 1024 39.7, which is 83 % of the bound;
 * without its copies it would take 4.75 at d = 128. In registers alone, without a load, these
 * additions take 2.21 cycles each instead of 2, with 4 x 4 of a thread 2.72, with 8 x 8 2.13: two
 * operands of 64 bits are all that the register file gives out meanwhile, and only one that the
 * instruction before had in the same place is free. So 4.54 ms is what could be reached, whatever
 * the clock and the data (whole numbers take as long). chebyshev, whose maximum is a comparison and
 * two selections, 8.5. euclidean 8192 x 8192 (8191 x 8191), whose floor of writing is 0.114 ms: d =
 * 5 0.177 (0.200), d = 8 0.174 (0.204), d = 16 0.228 (0.246); tile.cu takes 0.25, 0.24 and 0.29
 * (0.34, 0.31 and 0.34). 65536 x 64 x 512 0.347, tile.cu 0.410. Pairs take 54 to 63 % of the
 * matrix. */
#include <type_traits>

#include "common/grid.cuh"
#include "common/segments.cuh"
#include "cdist/direct/tile_f64_buffer.cuh"

namespace {

using T = double;
constexpr int kThreads = gd::kBufferThreads;
constexpr unsigned kBand = 16;
constexpr int kFolds = GD_GROUP / GD_FOLD; /* of a group */
static_assert(gd::kBufferDims == GD_FOLD, "a slab is what is added to a fresh accumulator");

/* A warp is 4 rows by 8 columns of threads, a block 4 warps below each other. A thread's rows are
 * 16 apart; its columns are runs of one 16-byte store, 8 runs apart. */
struct Tile {
    static constexpr int word = gd::kPerWord<T>;
    static constexpr int rows = 4, cols = 8; /* of a thread */
    static constexpr int block_rows = 16 * rows, block_cols = 8 * cols, runs = cols / word;
    using StageA = gd::Buffer<T, block_rows>;
    using StageB = gd::Buffer<T, block_cols>;
    /* Neighbouring threads share one of the two words they read, which halves the accesses. */
    static __device__ __forceinline__ int row_of(unsigned thread)
    {
        return thread / 32 * 4 + thread % 32 / 16 * 2 + thread % 2;
    }
    static __device__ __forceinline__ int col_of(unsigned thread) { return thread / 2 % 8; }
};

/* Not a member: the compiler of CUDA 13.3 forgets there whose rows and columns it counts. */
using Results = T[Tile::rows][Tile::cols];

/* The totals of a thread's last rows wait in shared memory: with them the loop over dimensions
 * would need more than the 168 registers that let three blocks share a multiprocessor. */
template <typename M>
struct alignas(16) Parked {
    static constexpr int rows = !M::folds ? 0 : 2;
    static constexpr int runs = Tile::runs, words = rows * runs;
    static constexpr int first = Tile::rows - rows;
    T at[words > 0 ? words : 1][kThreads][Tile::word];

    __device__ __forceinline__ void put(unsigned thread, const Results &total)
    {
#pragma unroll
        for (int w = 0; w < words; ++w) {
            gd::store_word(at[w][thread], &total[first + w / runs][w % runs * Tile::word]);
        }
    }
    __device__ __forceinline__ void take(unsigned thread, Results &total) const
    {
#pragma unroll
        for (int w = 0; w < words; ++w) {
            gd::load_word(at[w][thread], &total[first + w / runs][w % runs * Tile::word]);
        }
    }
};

/* Joins a thread's totals, the first of which is at (row, col), with what the results' places hold,
 * unless `first`, and puts them there if `put`. Done once a group, this costs little, and between
 * groups no register. kWhole: the tile is inside the matrix, whose rows are aligned. */
template <typename M, bool kWhole>
__device__ __forceinline__ void join_group(const gd::Cdist<T> &call, Results &total, ptrdiff_t row,
                                           ptrdiff_t col, bool first, bool put)
{
    constexpr int kWord = Tile::word;
#pragma unroll
    for (int r = 0; r < Tile::runs; ++r) {
        const gd::Run<T> run(call, col + r * 8 * kWord, 1);
        T *at = call.row(row) + run.first;
        const int start = run.start(call, row);
#pragma unroll
        for (int i = 0; i < Tile::rows; at += call.step(row + i * 16, 16), ++i) {
            if (kWhole || row + i * 16 < call.a.count) {
                T joined[kWord], before[kWord] = {};
                if (!first) {
                    if constexpr (kWhole) {
                        gd::load_word(at, before);
                    }
                    else {
                        run.load(at, before, start + i * 16);
                    }
                }
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    joined[j] = first ? total[i][r * kWord + j]
                                      : M::join(before[j], total[i][r * kWord + j]);
                    total[i][r * kWord + j] = joined[j];
                }
                if (put) {
                    if constexpr (kWhole) {
                        gd::store_word(at, joined);
                    }
                    else {
                        run.template store<true>(at, joined, start + i * 16);
                    }
                }
            }
        }
    }
}

/* Stores a thread's results, which start at (row, col). Where rows start anywhere, the block hands
 * its tile round by way of `memory`, which nobody reads any more unless kWhole: a warp then stores
 * rows of the tile, 512 bytes each. The padding keeps a warp's two rows out of each other's banks.
 */
template <typename M, bool kWhole>
__device__ __forceinline__ void store_tile(const gd::Cdist<T> &call, const Results &total,
                                           ptrdiff_t row, ptrdiff_t col, void *memory)
{
    constexpr int kWord = Tile::word, kHigh = Tile::block_rows / (kThreads / 32);
    using Piece = T[kHigh][Tile::block_cols + 4 * kWord];
    static_assert(
        sizeof(Piece) * (kThreads / 32) <= sizeof(Tile::StageA[2]) + sizeof(Tile::StageB[2]),
        "room for a tile");
    Piece *const pieces = (Piece *)memory;
    const int own = Tile::row_of(threadIdx.x), place = Tile::col_of(threadIdx.x) * kWord;
#pragma unroll
    for (int r = 0; r < Tile::runs; ++r) {
        T *to = call.out + row * call.out_stride + col + r * 8 * kWord;
        T results[Tile::rows * kWord];
#pragma unroll
        for (int i = 0; i < Tile::rows * kWord; ++i) {
            results[i] = total[i / kWord][r * kWord + i % kWord];
        }
        gd::finish_all<M>(results);
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i, to += 16 * call.out_stride) {
            if constexpr (kWhole) {
                gd::stream_word(to, results + i * kWord);
            }
            else {
                gd::store_word(&pieces[i][own][place + r * 8 * kWord], results + i * kWord);
            }
        }
    }
    if constexpr (!kWhole) {
        __syncthreads();
        const int piece = threadIdx.x / 32;
        gd::store_segments<kHigh, Tile::block_cols>(call, pieces[piece], call.a.count,
                                                    row - own + piece * kHigh, 0, col - place);
    }
}

/* Calls f(whole), see join_group. */
template <typename F>
__device__ __forceinline__ void with_whole(bool whole, F &&f)
{
    if (whole) {
        f(std::true_type{});
    }
    else {
        f(std::false_type{});
    }
}

template <typename M>
struct Memory {
    Tile::StageA a[2];
    Tile::StageB b[2];
    Parked<M> parked;
};

/* Adds a word's dimensions to a thread's sums, in ascending order; kFresh: they start at 0. */
template <typename M, bool kFresh>
__device__ __forceinline__ void add_word(Results &sum, const T *from_a, const T *from_b)
{
    constexpr int kRows = Tile::rows, kCols = Tile::cols, kWord = Tile::word;
    constexpr int kPitch = gd::kBufferPitch<T>;
    T a[kRows][kWord], b[kCols][kWord];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
        gd::load_word(from_b + j * 8 * kPitch, b[j]);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        gd::load_word(from_a + i * 16 * kPitch, a[i]);
    }
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int s = 0; s < kWord; ++s) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                sum[i][j] = M::term(kFresh && s == 0 ? T(0) : sum[i][j], a[i][s], b[j][s]);
            }
        }
    }
}

/* Joins a thread's sums of a fold with those before. */
template <typename M>
__device__ __forceinline__ void join_fold(Results &total, const Results &fresh)
{
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::cols; ++j) {
            total[i][j] = M::join(total[i][j], fresh[i][j]);
        }
    }
}

/* kWords: both operands can be read by aligned 16-byte words along dimensions. slabs: so many
 * cover d, the last has `last_depth` dimensions. */
template <typename M, bool kWords>
__global__ void __launch_bounds__(kThreads, 3)
    tile(const __grid_constant__ gd::Cdist<T> call, const __grid_constant__ gd::Grid grid,
         int slabs, int last_depth)
{
    using Shape = Tile;
    constexpr int kRows = Shape::rows, kCols = Shape::cols, kWord = Shape::word;
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<M> *>(dynamic);

    unsigned tile_row, tile_col, thread = threadIdx.x;
    if (!grid.find(&tile_row, &tile_col) ||
        !call.has((ptrdiff_t)tile_row * Shape::block_rows,
                  (ptrdiff_t)(tile_col + 1) * Shape::block_cols)) {
        return;
    }

    gd::Copier<T, Shape::block_rows, false, kWords> a(
        call.a, (ptrdiff_t)tile_row * Shape::block_rows, thread);
    gd::Copier<T, Shape::block_cols, true, kWords> b(
        call.b, (ptrdiff_t)tile_col * Shape::block_cols, thread);
    const bool whole = call.words && a.points == Shape::block_rows && b.points == Shape::block_cols;
    const auto copy = [&](int to, int depth) {
        a.copy(memory.a[to], depth, thread);
        b.copy(memory.b[to], depth, thread);
        __pipeline_commit();
    };
    T total[kRows][kCols] = {};
    memory.parked.put(thread, total);
    if (slabs > 0) {
        copy(0, slabs > 1 ? gd::kBufferDims : last_depth);
    }

    int at = 0;
#pragma unroll 1
    for (int left = slabs; left > 0; --left, at ^= 1) {
        gd::hide_origin(tile_row), gd::hide_origin(tile_col), gd::hide_origin(thread);
        __pipeline_wait_prior(0);
        __syncthreads(); /* the slab is there, and nobody reads the one before it any more */
        if (left > 1) {
            copy(at ^ 1, left > 2 ? gd::kBufferDims : last_depth);
        }
        /* The end of the loop as an address saves the register of a counter. */
        const int depth = left > 1 ? gd::kBufferDims : last_depth;
        const T *from_a = memory.a[at][Shape::row_of(thread)];
        const T *from_b = memory.b[at][Shape::col_of(thread)];
        if constexpr (!M::folds) {
            const T *const end = from_a + (unsigned)(depth + kWord - 1) / kWord * kWord;
#pragma unroll 1
            for (; from_a != end; from_a += kWord, from_b += kWord) {
                add_word<M, false>(total, from_a, from_b);
            }
        }
        else {
            const T *const end = from_a + (unsigned)(depth + kWord - 1) / kWord * kWord;
            T fresh[kRows][kCols];
            add_word<M, true>(fresh, from_a, from_b);
#pragma unroll 2
            for (from_a += kWord, from_b += kWord; from_a != end;
                 from_a += kWord, from_b += kWord) {
                add_word<M, false>(fresh, from_a, from_b);
            }
            memory.parked.take(thread, total);
            join_fold<M>(total, fresh);
            const int done = slabs - left + 1;
            if (left > 1 && done % kFolds == 0) {
                const ptrdiff_t row =
                    (ptrdiff_t)tile_row * Shape::block_rows + Shape::row_of(thread);
                const ptrdiff_t col =
                    (ptrdiff_t)tile_col * Shape::block_cols + Shape::col_of(thread) * kWord;
                with_whole(whole, [&](auto is_whole) {
                    join_group<M, decltype(is_whole)::value>(call, total, row, col, done == kFolds,
                                                             true);
                });
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        total[i][j] = 0;
                    }
                }
            }
            memory.parked.put(thread, total);
        }
    }

    const ptrdiff_t row = (ptrdiff_t)tile_row * Shape::block_rows + Shape::row_of(thread);
    const ptrdiff_t col = (ptrdiff_t)tile_col * Shape::block_cols + Shape::col_of(thread) * kWord;
    with_whole(whole, [&](auto is_whole) {
        constexpr bool kWhole = decltype(is_whole)::value;
        if (M::folds && slabs > kFolds) {
            join_group<M, kWhole>(call, total, row, col, false, false);
        }
        if constexpr (!kWhole) {
            __syncthreads(); /* nobody reads the last slab any more */
        }
        store_tile<M, kWhole>(call, total, row, col, memory.a);
    });
}

template <typename M>
cudaError_t launch(const gd_cdist &call)
{
    const bool words = gd::reads_words<T>(call.a) && gd::reads_words<T>(call.b);
    const ptrdiff_t down = gd::ceil_div(call.out.rows, Tile::block_rows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, Tile::block_cols);
    const gd::Grid grid(call.pairs, down, across, kBand, Tile::block_rows, Tile::block_cols);
    const ptrdiff_t slabs = gd::ceil_div(call.a.cols, gd::kBufferDims);
    const auto kernel = words ? tile<M, true> : tile<M, false>;
    constexpr int kBytes = sizeof(Memory<M>);
    return gd::enqueue(call.launch, kernel, grid.blocks(), dim3(kThreads), kBytes,
                       gd::parameters_of<T>(call), grid, (int)slabs,
                       (int)(call.a.cols - (slabs - 1) * gd::kBufferDims));
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tile_f64(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    return gd::with_lp_metric(call->metric, [&](auto metric) {
        GD_CUDA_TRY(err, "cdist/cuda_tile_f64", launch<decltype(metric)>(*call));
        return GD_OK;
    });
}
