/* rest.cuh: phase 3 of blocked Floyd-Warshall: everything outside the pivots' rows and columns, a
 * min-plus product of the two panels that phases 1 and 2 left in device memory.
 *
 * Idea: a block keeps a tile of the matrix in registers and streams the panels' slabs past it
 * through shared memory. With predecessors, it only notes in which slab an element was shortened
 * last, one comparison a slab; the few elements that changed in the round look up at the end which
 * pivot of that slab it was, 32 of them a warp at a time, while all slabs are in shared memory.
 *
 * Look-ahead: the tiles in the rows and columns of the next round's pivots are a part of their own,
 * so that the next round's phases 1 and 2 need not wait for the others. Or, where all run as one
 * grid, its first block closes the next pivot tile as well.
 *
 * Cost: rings.cuh for the arithmetic. In float32 a thread of 16 x 8 elements issues 1024 FADD, 512
 * VIMNMX3, 48 LDS and about 15 others for 4 pairs of pivots: 1.56 instructions an update. Panels
 * are read from L2 at 0.06 byte an update, and the matrix once a round.
 *
 * Launch: 128 threads a tile of pivots x pivots, or as Rest says. Several blocks an SM, since one
 * waits for its tile or writes it while the others compute. */
#ifndef GPUDIST_REST_CUH
#define GPUDIST_REST_CUH

#include <string.h>

#include "apsp/closure.cuh"
#include "apsp/narrow.cuh"
#include "apsp/slabs.cuh"

namespace gd {

/* The tile is as large as the registers allow. 128 accumulators a thread of 4 bytes; 32 where
 * rounds are short, or where each is a double or has its old value and a slab's number beside it.
 */
template <typename Ring, int kPivots, bool kPred>
struct Rest {
    using T = typename Ring::Word;
    using Tile = MinplusTile<T, 8, 4, 2, 2>;
    static constexpr int kBlocksPerSm = kPred ? (sizeof(T) == 4 ? 3 : 2) : sizeof(T) == 4 ? 4 : 3;
    static constexpr int kSlabPairs = kPred && sizeof(T) == 4 ? 16 : 8;
    static constexpr int kStages = kPred ? kPivots / (2 * kSlabPairs) : 3; /* all, to look back */
};
template <typename Ring>
struct Rest<Ring, 128, false> {
    using Tile = MinplusTile<typename Ring::Word, 16, 8, 2, 2>;
    static constexpr int kBlocksPerSm = 2, kSlabPairs = 16, kStages = 3;
};
template <>
struct Rest<Plus<float>, 128, false> { /* where minima wait, more warps are better */
    using Tile = MinplusTile<float, 8, 8, 4, 1>;
    static constexpr int kBlocksPerSm = 3, kSlabPairs = 16, kStages = 3;
};
template <>
struct Rest<Narrow, 128, false> { /* 64 words across */
    using Tile = MinplusTile<int32_t, 8, 8, 4, 1>;
    static constexpr int kBlocksPerSm = 3, kSlabPairs = 16, kStages = 3;
};

/* Which tiles a grid relaxes, of those outside the pivots' rows and columns. */
enum Part {
    kAllTiles,  /* all; the block of the next pivot tile comes first and closes it as well */
    kNextLines, /* those in the next pivots' rows and columns */
    kOtherTiles /* the others */
};

struct Region {
    Part part;
    bool symmetric;        /* only those on and above the diagonal */
    ptrdiff_t tiles;       /* along a side of the matrix */
    ptrdiff_t pivot, next; /* which tiles are the pivot tile and the next one, or -1 */
};

/* How many tiles a region is searched for. */
inline ptrdiff_t count_tiles(const Region &region)
{
    const ptrdiff_t tiles = region.tiles;
    return region.part == kNextLines ? (region.symmetric ? tiles : 2 * tiles)
           : region.symmetric        ? (tiles + 1) / 2 * (tiles + 1)
                                     : tiles * tiles;
}

constexpr int kTileGroup = 8; /* rows of tiles that go along the columns together, for L2 */

/* Tile number `block` of a region; false if there is none. */
__device__ __forceinline__ bool find_tile(const Region &region, ptrdiff_t block, ptrdiff_t &i,
                                          ptrdiff_t &j)
{
    const ptrdiff_t tiles = region.tiles, next = region.next;
    bool is_ours = true;
    if (region.part == kNextLines) {
        const bool in_row = region.symmetric ? block >= next : block < tiles;
        const ptrdiff_t place = block < tiles ? block : block - tiles;
        i = in_row ? next : place;
        j = in_row ? place : next;
        is_ours = in_row || i != next;
    }
    else if (region.symmetric) { /* row r, which has tiles - r of them, and after it row -1 - r */
        const ptrdiff_t row = block / (tiles + 1), place = block % (tiles + 1);
        const bool is_first = place < tiles - row;
        i = is_first ? row : tiles - 1 - row;
        j = is_first ? row + place : place - 1;
        is_ours = is_first || 2 * row + 1 != tiles;
    }
    else {
        const ptrdiff_t group = block / (kTileGroup * tiles) * kTileGroup;
        const ptrdiff_t rows = min((ptrdiff_t)kTileGroup, tiles - group);
        const ptrdiff_t place = block % (kTileGroup * tiles);
        i = group + place % rows, j = place / rows;
    }
    if (region.part == kAllTiles && next >= 0) { /* tile 0 and the next pivot tile change places */
        const bool takes_next = block == 0, was_next = i == next && j == next;
        i = takes_next ? next : was_next ? 0 : i;
        j = takes_next ? next : was_next ? 0 : j;
    }
    const bool left_out = region.part == kOtherTiles && (i == next || j == next);
    return is_ours && i != region.pivot && j != region.pivot && !left_out;
}

/* Copies what lies above the diagonal of a square matrix to its place below, tiles of 32 x 32. */
constexpr int kMirrorSide = 32, kMirrorThreads = 256;
template <typename T>
__global__ void __launch_bounds__(kMirrorThreads) mirror(T *matrix, ptrdiff_t side)
{
    __shared__ T tile[kMirrorSide][kMirrorSide + 1]; /* spreads columns over the banks */
    const ptrdiff_t across = side / kMirrorSide;
    const ptrdiff_t i0 = (ptrdiff_t)blockIdx.x / across * kMirrorSide;
    const ptrdiff_t j0 = (ptrdiff_t)blockIdx.x % across * kMirrorSide;
    const int x = threadIdx.x % kMirrorSide, y0 = threadIdx.x / kMirrorSide;
    if (i0 >= j0) { /* tiles on the diagonal are whole */
        return;
    }
    for (int y = y0; y < kMirrorSide; y += kMirrorThreads / kMirrorSide) {
        tile[y][x] = matrix[(i0 + y) * side + j0 + x];
    }
    __syncthreads();
    for (int y = y0; y < kMirrorSide; y += kMirrorThreads / kMirrorSide) {
        matrix[(j0 + y) * side + i0 + x] = tile[x][y];
    }
}

/* The matrix only passes through: marked to be evicted first, it leaves the panels in L2. A run of
 * a row that lies together in a thread is 8 bytes: two floats or one double. */
__device__ __forceinline__ void load_passing(const float *from, float *to)
{
    const float2 both = __ldcs(reinterpret_cast<const float2 *>(from));
    to[0] = both.x, to[1] = both.y;
}
__device__ __forceinline__ void load_passing(const int32_t *from, int32_t *to)
{
    const int2 both = __ldcs(reinterpret_cast<const int2 *>(from));
    to[0] = both.x, to[1] = both.y;
}
__device__ __forceinline__ void load_passing(const double *from, double *to) { *to = __ldcs(from); }
__device__ __forceinline__ void store_passing(float *to, const float *from)
{
    __stcs(reinterpret_cast<float2 *>(to), make_float2(from[0], from[1]));
}
__device__ __forceinline__ void store_passing(int32_t *to, const int32_t *from)
{
    __stcs(reinterpret_cast<int2 *>(to), make_int2(from[0], from[1]));
}
__device__ __forceinline__ void store_passing(double *to, const double *from) { __stcs(to, *from); }

/* An element that was shortened: its row and column in the tile and the slab, 8 bits each. */
template <typename T>
struct alignas(2 * sizeof(T)) Shortened {
    T length;
    uint32_t where;
};

/* Gives the elements that were shortened their predecessors. An element's last slab holds the first
 * pivot whose sum is its length: by the triple loop that is the one that shortened it last, as
 * later ones did not do so strictly. Each warp lists such elements, kListed of a thread at a time,
 * and takes 32 of them together. */
constexpr int kListed = 8;
template <typename Ring, typename Shape, int kPivots, typename Stream>
__device__ __forceinline__ void write_predecessors(
    const Paths<Ring> &paths, ptrdiff_t i0, ptrdiff_t j0, const Stream &stream,
    const typename Ring::Word (&c)[Shape::Tile::kRows][Shape::Tile::kCols],
    const int (&slab)[Shape::Tile::kRows][Shape::Tile::kCols], Shortened<typename Ring::Word> *list)
{
    using T = typename Ring::Word;
    using Tile = typename Shape::Tile;
    static_assert(Tile::kBlockRows <= 256 && Tile::kBlockCols <= 256, "8 bits hold a place");
    constexpr int kElements = Tile::kRows * Tile::kCols;
    Shortened<T> *const mine = list + threadIdx.x / 32 * (32 * kListed);
    const unsigned lanes_before = (1u << threadIdx.x % 32) - 1;
#pragma unroll
    for (int first = 0; first < kElements; first += kListed) {
        int count = 0;
        __syncwarp();
#pragma unroll
        for (int e = first; e < first + kListed; ++e) {
            const int i = e / Tile::kCols, j = e % Tile::kCols;
            const unsigned changed = __ballot_sync(~0u, slab[i][j] >= 0);
            if (slab[i][j] >= 0) {
                mine[count + __popc(changed & lanes_before)] = {
                    c[i][j], (uint32_t)slab[i][j] << 16 | (uint32_t)Tile::row(i) << 8 |
                                 (uint32_t)Tile::col(j)};
            }
            count += __popc(changed);
        }
        __syncwarp();
        for (int at = threadIdx.x % 32; at < count; at += 32) {
            const Shortened<T> x = mine[at];
            const int s = (int)(x.where >> 16), i = x.where >> 8 & 255, j = x.where & 255;
            const auto &both = stream.at(s);
            int winner = 0;
#pragma unroll 8
            for (int p = Shape::kSlabPairs - 1; p >= 0; --p) { /* the first has the last word */
                const Pair<T> a = both.left[p][i], b = both.right[p][j];
                winner = Ring::term(a.second, b.first) == x.length ? 2 * p + 1 : winner;
                winner = Ring::term(a.first, b.second) == x.length ? 2 * p : winner;
            }
            const Pair<int32_t> via = paths.preds[paths.template rows_at<kPivots>(
                s * Shape::kSlabPairs + winner / 2, j0 + j)];
            paths.pred[(i0 + i) * paths.padded + j0 + j] = winner % 2 == 0 ? via.second : via.first;
        }
    }
}

template <typename Ring, int kPivots, bool kPred>
struct Relaxing {
    using T = typename Ring::Word;
    using Shape = Rest<Ring, kPivots, kPred>;
    using Tile = typename Shape::Tile;
    static constexpr int kPerWord = Storage<Ring>::kPerWord;
    using Stream = SlabStream<T, Tile::kBlockRows, Tile::kBlockCols, Shape::kSlabPairs,
                              Shape::kStages, Tile::kThreads>;
    using NextPivotTile = PivotTile<Ring, kPivots, Tile::kThreads, kPred>;
    static constexpr bool kClosesNext = kPivots == 64;
    static constexpr size_t kListBytes =
        kPred ? sizeof(Shortened<T>) * Tile::kThreads * kListed : 0;
    static constexpr size_t kLinesBytes = kClosesNext ? sizeof(typename NextPivotTile::Lines) : 0;
    static constexpr size_t kSharedBytes = Stream::kSharedBytes + kListBytes > kLinesBytes
                                               ? Stream::kSharedBytes + kListBytes
                                               : kLinesBytes;
    /* A tile of pivots x pivots is a block's, or several blocks' beside each other. */
    static constexpr int kParts = kPivots / (Tile::kBlockCols * kPerWord);
    static_assert(Tile::kBlockRows == kPivots &&
                      Tile::kBlockCols * kPerWord == kRowsWidth<Ring, kPivots>,
                  "a block's tile is as wide as a block of a panel");
    static_assert(!kClosesNext || kParts == 1, "who closes a tile has relaxed all of it");

    static __device__ __forceinline__ void relax(const Paths<Ring> &paths, ptrdiff_t i0,
                                                 ptrdiff_t j0, void *shared)
    {
        constexpr int kSlabs = kPivots / (2 * Shape::kSlabPairs);
        Stream stream(shared, paths.cols + paths.template cols_at<kPivots>(0, i0),
                      paths.rows + paths.template rows_at<kPivots>(0, j0), kSlabs);
        T c[Tile::kRows][Tile::kCols];
        const ptrdiff_t stride = paths.stride / kPerWord; /* in words */
        T *const tile =
            reinterpret_cast<T *>(paths.dist + j0) + (i0 + Tile::row(0)) * stride + Tile::col(0);
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
                load_passing(tile + Tile::row_step(i) * stride + Tile::col_step(j), &c[i][j]);
            }
        }
        int changed[Tile::kRows][Tile::kCols]; /* in which slab an element was shortened last */
#pragma unroll
        for (int i = 0; kPred && i < Tile::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::kCols; ++j) {
                changed[i][j] = -1;
            }
        }
#pragma unroll 1
        for (int s = 0; s < kSlabs; ++s) {
            const auto &slab = stream.wait(s);
            T before[Tile::kRows][Tile::kCols];
#pragma unroll
            for (int i = 0; kPred && i < Tile::kRows; ++i) {
#pragma unroll
                for (int j = 0; j < Tile::kCols; ++j) {
                    before[i][j] = c[i][j];
                }
            }
            Tile::for_pairs(Shape::kSlabPairs, slab.left, slab.right,
                            [&](int i, int j, const Pair<T> &a, const Pair<T> &b) {
                                Ring::fold(c[i][j], a, b);
                            });
            stream.release(s);
#pragma unroll
            for (int i = 0; kPred && i < Tile::kRows; ++i) {
#pragma unroll
                for (int j = 0; j < Tile::kCols; ++j) {
                    changed[i][j] = c[i][j] < before[i][j] ? s : changed[i][j];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
                store_passing(tile + Tile::row_step(i) * stride + Tile::col_step(j), &c[i][j]);
            }
        }
        if constexpr (kPred) {
            static_assert(Shape::kStages >= kSlabs, "all slabs are still there");
            write_predecessors<Ring, Shape, kPivots>(
                paths, i0, j0, stream, c, changed,
                reinterpret_cast<Shortened<T> *>(static_cast<char *>(shared) +
                                                 Stream::kSharedBytes));
        }
    }
};

template <typename Ring, int kPivots, bool kPred>
__global__ void __launch_bounds__(Rest<Ring, kPivots, kPred>::Tile::kThreads,
                                  Rest<Ring, kPivots, kPred>::kBlocksPerSm)
    relax_rest(const __grid_constant__ Paths<Ring> paths,
               const __grid_constant__ Paths<Ring> next_paths,
               const __grid_constant__ Region region)
{
    using Work = Relaxing<Ring, kPivots, kPred>;
    extern __shared__ int4 shared[];
    ptrdiff_t i, j;
    await_predecessor();
    if (!find_tile(region, blockIdx.x / Work::kParts, i, j)) {
        return;
    }
    const ptrdiff_t part = blockIdx.x % Work::kParts;
    Work::relax(paths, i * kPivots, j * kPivots + part * kRowsWidth<Ring, kPivots>, shared);
    if constexpr (Work::kClosesNext) {
        if (region.part == kAllTiles && blockIdx.x == 0 && region.next >= 0) {
            /* The tile is in memory for all threads of the block. The panels are other ones:
             * other blocks still read these. */
            __syncthreads();
            Work::NextPivotTile::close(
                next_paths, i * kPivots, j * kPivots, j * kPivots,
                *reinterpret_cast<typename Work::NextPivotTile::Lines *>(shared));
        }
    }
}

}  // namespace gd
#endif
