/* minplus.cuh: the min-plus product c[i][j] = min(c[i][j], min over k of a[k][i] + b[k][j]) of a
 * register tile with two slabs in shared memory, the inner loop of everything that relaxes paths.
 *
 * Cost: an update is one add and one minimum (FADD + FMNMX in float32, one VIADDMNMX in int32,
 * DADD + DSETP + two selects in float64). An SM issues 128 lane instructions a clock but only 64
 * of them minima, so 64 updates a clock are the float32 bound: 16.7e12 a second on an H200.
 *
 * Layout: operands travel as pairs of neighbouring pivots, (a[k][i], a[k+1][i]) on the left and
 * (b[k+1][j], b[k][j]) on the right. The register file reads one even and one odd register a
 * clock; a 16-byte load puts a[k] and b[k+1] into even registers, so that each add below reads one
 * of either kind and never waits: 6 % more than with plain operands. */
#ifndef GPUDIST_MINPLUS_CUH
#define GPUDIST_MINPLUS_CUH

#include "common.cuh"

namespace gd {

/* Two neighbouring pivots of one row or column: {k, k + 1} on the left, {k + 1, k} on the right. */
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};

/* ---------------------------------------------------------------- one element */

/* Each returns the shorter of c and a + b. A NaN sum (inf - inf, after an overflow) must lose:
 * fminf drops it, and so does a comparison. On float, fminf is one instruction and a comparison
 * with its select two; on double, fmin is ten and a comparison with its selects three. */
__device__ __forceinline__ float shorter(float c, float a, float b) { return fminf(c, a + b); }
__device__ __forceinline__ double shorter(double c, double a, double b)
{
    const double sum = a + b;
    return sum < c ? sum : c;
}
/* Sums may wrap around on a negative cycle, which must not be undefined. */
__device__ __forceinline__ int32_t add(int32_t a, int32_t b) { return (uint32_t)a + (uint32_t)b; }
__device__ __forceinline__ int32_t shorter(int32_t c, int32_t a, int32_t b)
{
    return min(c, add(a, b));
}

/* The same for a pair of pivots, a and b as in the layout above; `winner` becomes `pair` where one
 * of them is strictly shorter. Which one it was is left open: to ask once a tile is cheaper than to
 * select once a pivot. The sums are compared with each other first, since a minimum is exact. */
__device__ __forceinline__ void fold(float &c, int &winner, int pair, Pair<float> a, Pair<float> b)
{
    const float sum = fminf(a.first + b.second, a.second + b.first);
    winner = sum < c ? pair : winner;
    c = fminf(c, sum);
}
__device__ __forceinline__ void fold(int32_t &c, int &winner, int pair, Pair<int32_t> a,
                                     Pair<int32_t> b)
{
    const int32_t sum = shorter(add(a.first, b.second), a.second, b.first);
    winner = sum < c ? pair : winner;
    c = min(c, sum);
}
__device__ __forceinline__ void fold(double &c, int &winner, int pair, Pair<double> a,
                                     Pair<double> b)
{
    /* One after the other: without fmin, a NaN sum could hide the other one. */
    const double before = c;
    c = shorter(c, a.first, b.second);
    c = shorter(c, a.second, b.first);
    winner = c < before ? pair : winner;
}

/* ---------------------------------------------------------------- one tile */

/* A block's tile of kBlockRows x kBlockCols elements: kWarpsDown x kWarpsAcross warps of 4 x 8
 * lanes, kM x kN elements a thread. A thread's rows are not neighbours: lanes interleave, so that
 * each 16-byte load of a warp covers neighbouring bytes and asks no bank twice. */
template <typename T, int kM, int kN, int kWarpsDown, int kWarpsAcross>
struct MinplusTile {
    static constexpr int kRows = kM, kCols = kN; /* of a thread */
    static constexpr int kLanesDown = 4, kLanesAcross = 8;
    static constexpr int kBlockRows = kWarpsDown * kLanesDown * kM;
    static constexpr int kBlockCols = kWarpsAcross * kLanesAcross * kN;
    static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
    static constexpr int kRun = kPerWord<T> / 2; /* neighbours that one word of pairs brings */
    static_assert(kM % kRun == 0 && kN % kRun == 0, "a thread owns whole words of pairs");

    /* Where row i and column j of this thread lie in the tile: a place of its own, and a step that
     * is the same for all threads. */
    static __device__ constexpr int row_step(int i)
    {
        return i / kRun * kRun * kLanesDown + i % kRun;
    }
    static __device__ constexpr int col_step(int j)
    {
        return j / kRun * kRun * kLanesAcross + j % kRun;
    }
    static __device__ __forceinline__ int row(int i)
    {
        const int warp = threadIdx.x / 32 / kWarpsAcross, lane = threadIdx.x % 32 / kLanesAcross;
        return warp * kM * kLanesDown + lane * kRun + row_step(i);
    }
    static __device__ __forceinline__ int col(int j)
    {
        const int warp = threadIdx.x / 32 % kWarpsAcross, lane = threadIdx.x % kLanesAcross;
        return warp * kN * kLanesAcross + lane * kRun + col_step(j);
    }

    /* Calls fold(p, i, j, a, b) for kPairs pairs p of pivots and each element (i, j) of a thread,
     * with the pairs of its row and column. */
    template <int kPairs, typename Fold>
    static __device__ __forceinline__ void for_pairs(const Pair<T> (*left)[kBlockRows],
                                                     const Pair<T> (*right)[kBlockCols],
                                                     const Fold &fold)
    {
        const Pair<T> *const my_left = &left[0][row(0)], *const my_right = &right[0][col(0)];
#pragma unroll 4 /* a longer body would not fit the instruction cache */
        for (int p = 0; p < kPairs; ++p) {
            Pair<T> a[kM], b[kN];
#pragma unroll
            for (int i = 0; i < kM; i += kRun) {
                load_word<T>(&my_left[p * kBlockRows + row_step(i)].first, &a[i].first);
            }
#pragma unroll
            for (int j = 0; j < kN; j += kRun) {
                load_word<T>(&my_right[p * kBlockCols + col_step(j)].first, &b[j].first);
            }
#pragma unroll
            for (int i = 0; i < kM; ++i) {
#pragma unroll
                for (int j = 0; j < kN; ++j) {
                    fold(p, i, j, a[i], b[j]);
                }
            }
        }
    }

    /* Folds kPairs pairs of pivots into c. With kTrack, winner takes the number of the pair, from
     * first_pair on, that brought the last strict improvement. */
    template <int kPairs, bool kTrack>
    static __device__ __forceinline__ void multiply(T (&c)[kM][kN], int (&winner)[kM][kN],
                                                    const Pair<T> (*left)[kBlockRows],
                                                    const Pair<T> (*right)[kBlockCols],
                                                    int first_pair)
    {
        for_pairs<kPairs>(left, right,
                          [&](int p, int i, int j, const Pair<T> &a, const Pair<T> &b) {
                              if constexpr (kTrack) {
                                  fold(c[i][j], winner[i][j], first_pair + p, a, b);
                              }
                              else {
                                  c[i][j] = shorter(c[i][j], a.first, b.second);
                                  c[i][j] = shorter(c[i][j], a.second, b.first);
                              }
                          });
    }
};

}  // namespace gd
#endif
