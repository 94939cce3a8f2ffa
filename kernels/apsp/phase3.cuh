/* phase3.cuh: phase 3 of blocked Floyd-Warshall: everything outside the pivots' rows and columns, a
 * min-plus product of the two panels that phases 1 and 2 left in device memory.
 *
 * Idea: a block keeps a tile of the matrix in registers and streams the panels' slabs past it
 * through shared memory. With predecessors, winners.cuh finds the pivots that shortened elements.
 *
 * Look-ahead: the tiles in the rows and columns of the next round's pivots are a part of their own,
 * so that the next round's phases 1 and 2 need not wait for the others. Or, where all run as one
 * grid, its first block closes the next pivot tile as well.
 *
 * Cost: semiring/rings.cuh for the arithmetic. In float32 a thread of 16 x 8 elements issues 1024
 * FADD, 512 VIMNMX3, 48 LDS and 5 others for 4 pairs of pivots: 1.55 instructions an update; with
 * predecessors, of 8 x 4, for 8 pairs 512, 256, 48 and 141, of which 96 note what changed: 1.87.
 * Panels are read from L2 at 0.06 byte an update, and the matrix once a round.
 *
 * Launch: 128 threads a tile of pivots x pivots, or as Phase3 says. Several blocks an SM, since one
 * waits for its tile or writes it while the others compute. */
#ifndef GPUDIST_APSP_PHASE3_CUH
#define GPUDIST_APSP_PHASE3_CUH

#include "apsp/pivot_phases.cuh"
#include "apsp/paths16.cuh"
#include "apsp/winners.cuh"

namespace gd {

/* The tile is as large as the registers allow: 128 accumulators a thread of 4 bytes; 32 where
 * rounds are short, or where each is a double or has its old value beside it. */
template <typename Ring, int kPivots, bool kPred>
struct Phase3 {
    using T = typename Ring::Word;
    using Tile = MinplusTile<T, 8, 4, 2, 2>;
    static constexpr int kBlocksPerSm = (sizeof(T) == 4 ? 4 : 3) - (kPred ? 1 : 0);
    static constexpr int kSlabPairs = 8;
    static constexpr int kBuffers = kPred ? kPivots / (2 * kSlabPairs) : 3; /* all, to look back */
};
template <typename Ring>
struct Phase3<Ring, 128, false> {
    using Tile = MinplusTile<typename Ring::Word, 16, 8, 2, 2>;
    static constexpr int kBlocksPerSm = 2, kSlabPairs = 16, kBuffers = 3;
};
template <>
struct Phase3<Plus<float>, 128, false> { /* where minima wait, more warps are better */
    using Tile = MinplusTile<float, 8, 8, 4, 1>;
    static constexpr int kBlocksPerSm = 3, kSlabPairs = 16, kBuffers = 3;
};
template <>
struct Phase3<Narrow, 128, false> { /* 64 words across */
    using Tile = MinplusTile<int32_t, 8, 8, 4, 1>;
    static constexpr int kBlocksPerSm = 3, kSlabPairs = 16, kBuffers = 3;
};
template <typename Ring>
struct Phase3<Ring, 128, true> {
    using Tile = MinplusTile<typename Ring::Word, 8, 4, 4, 2>;
    static constexpr int kBlocksPerSm = 2, kSlabPairs = 8, kBuffers = 8;
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
    ptrdiff_t first;       /* of the tiles, in the order of find_tile; those before are left out */
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

/* The tile of this number in a region; false if there is none. */
__device__ __forceinline__ bool find_tile(const Region &region, ptrdiff_t number, ptrdiff_t &i,
                                          ptrdiff_t &j)
{
    const ptrdiff_t next = region.next;
    /* A grid's blocks fit 31 bits, and dividing 64 takes as long as loading a tile. */
    const unsigned tiles = (unsigned)region.tiles, block = (unsigned)number;
    bool is_ours = true;
    if (region.part == kNextLines) {
        const bool in_row = region.symmetric ? block >= next : block < tiles;
        const unsigned place = block < tiles ? block : block - tiles;
        i = in_row ? next : place;
        j = in_row ? place : next;
        is_ours = in_row || i != next;
    }
    else if (region.symmetric) { /* row r, which has tiles - r of them, and after it row -1 - r */
        const unsigned row = block / (tiles + 1), place = block % (tiles + 1);
        const bool is_first = place < tiles - row;
        i = is_first ? row : tiles - 1 - row;
        j = is_first ? row + place : place - 1;
        is_ours = is_first || 2 * row + 1 != tiles;
    }
    else {
        const unsigned group = block / (kTileGroup * tiles) * kTileGroup;
        const unsigned rows = min((unsigned)kTileGroup, tiles - group);
        const unsigned place = block % (kTileGroup * tiles);
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

template <typename Ring, int kPivots, bool kPred, typename Panels>
struct Relaxing {
    using T = typename Ring::Word;
    using Shape = Phase3<Ring, kPivots, kPred>;
    using Tile = typename Shape::Tile;
    static constexpr int kPerWord = Storage<Ring>::kPerWord;
    static constexpr int kSlabs = kPivots / (2 * Shape::kSlabPairs);
    static constexpr int kRightWidth = Panels::kRowsWidth / kPerWord; /* in words */
    using Stream =
        SlabStream<T, Tile::kBlockRows, Tile::kBlockCols, Shape::kSlabPairs, Shape::kBuffers,
                   Tile::kThreads, Panels::kColsWidth, kRightWidth, kPred>;
    using Finding = Winners<Ring, Tile, kPivots, Shape::kSlabPairs>;
    using NextPivotTile = PivotTile<Ring, kPivots, Tile::kThreads, kPred, Panels>;
    static constexpr bool kClosesNext = kPivots == 64 && Panels::kPivots == 64;
    static constexpr size_t finding_bytes()
    {
        if constexpr (kPred) {
            return sizeof(typename Finding::Shared);
        }
        return 0;
    }
    static constexpr size_t kWorkBytes = Stream::kSharedBytes + finding_bytes();
    static constexpr size_t kLinesBytes = kClosesNext ? sizeof(typename NextPivotTile::Lines) : 0;
    static constexpr size_t kSharedBytes = kWorkBytes > kLinesBytes ? kWorkBytes : kLinesBytes;
    /* A tile of pivots x pivots is a block's, or several blocks' beside each other. */
    static constexpr int kParts = kPivots / (Tile::kBlockCols * kPerWord);
    static_assert(Tile::kBlockRows == kPivots &&
                      (kPivots == Panels::kPivots ||
                       (kPivots == Panels::kColsWidth && Tile::kBlockCols == Panels::kRowsWidth)),
                  "blocks of a panel follow each other by as many pivots as slabs have");
    static_assert(!kClosesNext || kParts == 1, "who closes a tile has relaxed all of it");
    static_assert(!kPred || Shape::kBuffers >= kSlabs, "all slabs are there until the end");

    /* `goes_on` if the block uses the shared memory for something else afterwards. */
    static __device__ __forceinline__ void relax(const Paths<Ring> &paths, ptrdiff_t i0,
                                                 ptrdiff_t j0, void *shared, bool goes_on = false)
    {
        T c[Tile::kRows][Tile::kCols];
        relax(paths, i0, j0, shared, goes_on, c, false);
    }
    /* `stays` if the tile is left in c alone. */
    static __device__ __forceinline__ void relax(const Paths<Ring> &paths, ptrdiff_t i0,
                                                 ptrdiff_t j0, void *shared, bool goes_on,
                                                 T (&c)[Tile::kRows][Tile::kCols], bool stays)
    {
        const ptrdiff_t stride = paths.stride / kPerWord; /* in words */
        T *const tile =
            reinterpret_cast<T *>(paths.dist + j0) + (i0 + Tile::row(0)) * stride + Tile::col(0);
        auto for_runs = [&](auto move) {
#pragma unroll
            for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
                for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
                    move(tile + Tile::row_step(i) * stride + Tile::col_step(j), &c[i][j]);
                }
            }
        };
        if constexpr (kPred) {
            Finding finding(*reinterpret_cast<typename Finding::Shared *>(
                static_cast<char *>(shared) + Stream::kSharedBytes));
            Stream stream = open(paths, i0, j0, shared);
            for_runs([](T *at, T *mine) { load_passing(at, mine); });
            constexpr int kGroup = Finding::kGroupPairs;
            static_assert(kGroup == Shape::kSlabPairs, "a slab is a group");
#pragma unroll 1
            for (int s = 0; s < kSlabs; ++s) {
                const auto &slab = stream.wait(s);
                T least[Tile::kRows][Tile::kCols];
#pragma unroll
                for (int e = 0; e < Tile::kRows * Tile::kCols; ++e) {
                    least[e / Tile::kCols][e % Tile::kCols] = Ring::neutral();
                }
                fold<kGroup>(kGroup, slab, 0, least);
                finding.join(c, least);
                stream.release();
            }
            for_runs([](T *at, T *mine) { store_passing(at, mine); });
            const bool found = finding.template find<Panels>(stream, paths, i0, j0);
            if (found || goes_on) {
                stream.close();
            }
            if (found) {
                finding.template write<Panels>(paths, i0, j0, shared);
            }
        }
        else {
            Stream stream = open(paths, i0, j0, shared);
            for_runs([](T *at, T *mine) { load_passing(at, mine); });
#pragma unroll 1
            for (int s = 0; s < kSlabs; ++s) {
                fold<Tile::kPairsATime>(Shape::kSlabPairs, stream.wait(s), 0, c);
                stream.release();
            }
            if (!stays) {
                for_runs([](T *at, T *mine) { store_passing(at, mine); });
            }
            if (goes_on) {
                stream.close();
            }
        }
    }

private:
    static __device__ __forceinline__ Stream open(const Paths<Ring> &paths, ptrdiff_t i0,
                                                  ptrdiff_t j0, void *shared)
    {
        return Stream(shared, paths.cols + paths.template cols_at<Panels>(0, i0),
                      paths.rows + paths.template rows_at<Panels>(0, j0), kSlabs);
    }

    /* Joins a thread's elements with so many pairs of pivots of a slab. */
    template <int kATime>
    static __device__ __forceinline__ void fold(int pairs, const typename Stream::Slab &slab,
                                                int first, T (&c)[Tile::kRows][Tile::kCols])
    {
        constexpr int kDown = Panels::kColsWidth, kAcross = kRightWidth;
        const int down = kDown == Tile::kBlockRows ? 0 : Tile::row(0) / kDown;
        const int across = kAcross == Tile::kBlockCols ? 0 : Tile::col(0) / kAcross;
        Tile::template for_pairs<kDown, kAcross, kATime>(
            pairs, slab.left[down] + first, slab.right[across] + first,
            [&](int i, int j, const Pair<T> &a, const Pair<T> &b) {
                if constexpr (kPred && sizeof(T) == 8) { /* moves are slower here (NOTES.md) */
                    (void)Ring::take(c[i][j], Ring::term(a.first, b.second));
                    (void)Ring::take(c[i][j], Ring::term(a.second, b.first));
                }
                else {
                    fold_at<Ring>(i + j, c[i][j], a, b);
                }
            });
    }
};

template <typename Ring, int kPivots, bool kPred, typename Panels>
__global__ void __launch_bounds__(Phase3<Ring, kPivots, kPred>::Tile::kThreads,
                                  Phase3<Ring, kPivots, kPred>::kBlocksPerSm)
    relax_phase3(const __grid_constant__ Paths<Ring> paths,
                 const __grid_constant__ Paths<Ring> next_paths,
                 const __grid_constant__ Region region)
{
    using Work = Relaxing<Ring, kPivots, kPred, Panels>;
    extern __shared__ int4 shared[];
    ptrdiff_t i, j;
    if (left_out<Ring>()) {
        return;
    }
    follow<true>();
    if (!find_tile(region, region.first + blockIdx.x / Work::kParts, i, j)) {
        return;
    }
    const ptrdiff_t part = blockIdx.x % Work::kParts;
    const bool closes_next =
        Work::kClosesNext && region.part == kAllTiles && blockIdx.x == 0 && region.next >= 0;
    Work::relax(paths, i * kPivots, j * kPivots + part * (kPivots / Work::kParts), shared,
                closes_next);
    if constexpr (Work::kClosesNext) {
        if (closes_next) {
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
