/* tile.cuh: pairs of pivots, and the register tile that everything about paths computes in.
 *
 * Cost: an update c[i][j] = min(c[i][j], a[i][k] + b[k][j]) is one add and one minimum, and an SM
 * issues 128 lane instructions a clock but only 64 of them minima (rings.cuh has the
 * forms).
 *
 * Layout: operands travel as pairs of neighbouring pivots, (a[k][i], a[k+1][i]) on the left and
 * (b[k+1][j], b[k][j]) on the right. The register file reads one even and one odd register a
 * clock; a 16-byte load puts a[k] and b[k+1] into even registers, so that each add below reads one
 * of either kind and never waits: 19.3e12 updates a second from registers instead of 15.1e12.
 *
 * Order: the minimum of three reads three registers, so two updates read seven where three clocks
 * give six. An addition saves one if it keeps an operand of the one before it, and which additions
 * the compiler puts beside each other follows from the order in which for_pairs names them. Of 60
 * orders, rows a quarter of the tile apart have the fewest conflicts in the machine code; that
 * count foretells the rate: apsp 2.5 % above rows one after the other, columns there and back. */
#ifndef GPUDIST_SEMIRING_TILE_CUH
#define GPUDIST_SEMIRING_TILE_CUH

#include "common/launch.cuh"
#include "common/words.cuh"

namespace gd {

/* Two neighbouring pivots of one row or column: {k, k + 1} on the left, {k + 1, k} on the right. */
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};

/* Two neighbours of a matrix at once; both lie at an even place of their row. */
template <typename T>
__device__ __forceinline__ void load_two(const T *from, T *to)
{
    const Pair<T> both = *reinterpret_cast<const Pair<T> *>(from);
    to[0] = both.first, to[1] = both.second;
}
template <typename T>
__device__ __forceinline__ void store_two(T *to, const T *from)
{
    *reinterpret_cast<Pair<T> *>(to) = {from[0], from[1]};
}

/* A block's tile of kBlockRows x kBlockCols elements: kWarpsDown x kWarpsAcross warps of 4 x 8
 * lanes, kM x kN elements a thread. A thread's rows are not neighbours but come in runs: lanes
 * interleave, so that each 16-byte load of a warp covers neighbouring bytes and asks no bank
 * twice. A run is as long as one such load of pairs, or as is asked for. */
template <typename T, int kM, int kN, int kWarpsDown, int kWarpsAcross,
          int kRunLength = kPerWord<T> / 2>
struct MinplusTile {
    static constexpr int kRows = kM, kCols = kN; /* of a thread */
    static constexpr int kLanesDown = 4, kLanesAcross = 8;
    static constexpr int kWarpRows = kLanesDown * kM, kWarpCols = kLanesAcross * kN;
    static constexpr int kBlockRows = kWarpsDown * kWarpRows;
    static constexpr int kBlockCols = kWarpsAcross * kWarpCols;
    static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
    static constexpr int kRun = kRunLength;
    static constexpr int kPairsATime = 4; /* a longer loop would not fit the instruction cache */
    static_assert(kM % kRun == 0 && kN % kRun == 0, "a thread owns whole runs");
    static_assert(kM % 4 == 0, "rows are taken a quarter apart");

    static __device__ __forceinline__ int warp_down() { return threadIdx.x / 32 / kWarpsAcross; }
    static __device__ __forceinline__ int warp_across() { return threadIdx.x / 32 % kWarpsAcross; }
    static __device__ __forceinline__ int lane_down() { return threadIdx.x % 32 / kLanesAcross; }
    static __device__ __forceinline__ int lane_across() { return threadIdx.x % kLanesAcross; }

    /* Where row i and column j of this thread lie in the tile: a place of its own, and a step that
     * is the same for all threads. */
    static __device__ constexpr int row_step(unsigned i)
    {
        return i / kRun * kRun * kLanesDown + i % kRun;
    }
    static __device__ constexpr int col_step(unsigned j)
    {
        return j / kRun * kRun * kLanesAcross + j % kRun;
    }
    static __device__ __forceinline__ int row(int i)
    {
        return warp_down() * kWarpRows + lane_down() * kRun + row_step(i);
    }
    static __device__ __forceinline__ int col(int j)
    {
        return warp_across() * kWarpCols + lane_across() * kRun + col_step(j);
    }

    /* Pairs of this thread's rows and columns, from where the first of each lies. */
    static __device__ __forceinline__ void load_rows(const Pair<T> *mine, Pair<T> (&a)[kM])
    {
#pragma unroll
        for (int i = 0; i < kM; i += kPerWord<T> / 2) {
            load_word<T>(&mine[row_step(i)].first, &a[i].first);
        }
    }
    static __device__ __forceinline__ void load_cols(const Pair<T> *mine, Pair<T> (&b)[kN])
    {
#pragma unroll
        for (int j = 0; j < kN; j += kPerWord<T> / 2) {
            load_word<T>(&mine[col_step(j)].first, &b[j].first);
        }
    }

    /* Calls fold(i, j, a, b) for so many pairs of pivots, a multiple of kPairsATime, and each
     * element (i, j) of a thread, with the pairs of its row and column. */
    template <int kDown, int kAcross, int kATime = kPairsATime, typename Fold>
    static __device__ __forceinline__ void for_pairs(int pairs, const Pair<T> (*left)[kDown],
                                                     const Pair<T> (*right)[kAcross],
                                                     const Fold &fold)
    {
        const Pair<T> *rows = &left[0][kDown == kBlockRows ? row(0) : row(0) % kDown];
        const Pair<T> *cols = &right[0][kAcross == kBlockCols ? col(0) : col(0) % kAcross];
#pragma unroll 1
        for (int more = pairs; more > 0; more -= kATime) {
#pragma unroll
            for (int p = 0; p < kATime; ++p) {
                Pair<T> a[kM], b[kN];
                load_rows(rows + p * kDown, a);
                load_cols(cols + p * kAcross, b);
#pragma unroll
                for (int step = 0; step < kM; ++step) {
                    const int i = step / 4 + step % 4 * (kM / 4);
#pragma unroll
                    for (int j = 0; j < kN; ++j) {
                        fold(i, j, a[i], b[j]);
                    }
                }
            }
            rows += kATime * kDown;
            cols += kATime * kAcross;
        }
    }
};

}  // namespace gd
#endif
