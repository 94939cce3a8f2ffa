/* rest.cuh: phase 3 of blocked Floyd-Warshall: everything outside the pivots' rows and columns, a
 * min-plus product of the two panels that phases 1 and 2 left in device memory.
 *
 * Idea: a block keeps a tile of the matrix in registers and streams the panels' slabs past it
 * through shared memory. Copies to shared memory run ahead of the arithmetic by two slabs and pass
 * no register. With predecessors, the loop only notes which pair of pivots won an element last; the
 * few elements that changed in the round look up the rest at the end.
 *
 * Cost: minplus.cuh for the arithmetic. A slab of 16 pivots in float32 is 12 KB for 131072 updates,
 * so panels are read from L2 at 0.09 byte an update, 1.2 TB/s at 13e12 updates/s, and the matrix
 * once a round.
 *
 * Launch: 128 threads and 128 x 64 elements a block, or as Rest says. Several blocks an SM, since
 * one waits for its tile or writes it while the others compute. */
#ifndef GPUDIST_REST_CUH
#define GPUDIST_REST_CUH

#include <cuda_pipeline_primitives.h>
#include <string.h>

#include "apsp/closure.cuh"

namespace gd {

constexpr int kStages = 3;    /* slabs in shared memory or under way */
constexpr int kSlabPairs = 8; /* pairs of pivots in a slab */

/* The tile is as large as the registers allow: 64 accumulators a thread of 4 bytes, half as many
 * where each is a double or has a winner beside it, 16 where both. An SM's registers are then 128
 * for each of 512 threads, or 168 for each of 384. */
template <typename T, bool kPred>
struct Rest {
    using Tile = MinplusTile<T, 8, 8, 4, 1>;
    static constexpr int kBlocksPerSm = 4;
};
template <typename T>
struct Rest<T, true> {
    using Tile = MinplusTile<T, 8, 4, 2, 2>;
    static constexpr int kBlocksPerSm = 3;
};
template <>
struct Rest<double, false> {
    using Tile = MinplusTile<double, 8, 4, 2, 2>;
    static constexpr int kBlocksPerSm = 3;
};
template <>
struct Rest<double, true> {
    using Tile = MinplusTile<double, 4, 4, 4, 2>;
    static constexpr int kBlocksPerSm = 2;
};

/* Starts copying kSlabPairs rows of a panel, kLines pairs long, to shared memory. */
template <int kThreads, int kLines, typename T>
__device__ __forceinline__ void fetch_slab(Pair<T> (*slab)[kLines], const Pair<T> *panel,
                                           ptrdiff_t padded)
{
    constexpr int kRun = kPerWord<T> / 2, kWords = kLines / kRun;
    static_assert(kSlabPairs * kWords % kThreads == 0, "threads share a slab evenly");
#pragma unroll
    for (int start = 0; start < kSlabPairs * kWords; start += kThreads) {
        const int row = (start + threadIdx.x) / kWords,
                  line = (start + threadIdx.x) % kWords * kRun;
        __pipeline_memcpy_async(&slab[row][line], panel + row * padded + line, 16);
    }
}

/* The elements of a row that lie together in a thread are 8 bytes: two floats or one double. The
 * matrix only passes through: marked to be evicted first, it leaves the panels in L2. */
template <typename T>
__device__ __forceinline__ void load_passing(const T *from, T *to)
{
    const long long bits = __ldcs(reinterpret_cast<const long long *>(from));
    memcpy(to, &bits, sizeof bits);
}
template <typename T>
__device__ __forceinline__ void store_passing(T *to, const T *from)
{
    long long bits;
    memcpy(&bits, from, sizeof bits);
    __stcs(reinterpret_cast<long long *>(to), bits);
}

/* Turns winning pairs into predecessors. Of the two pivots the first whose sum is the distance has
 * won. Few elements change in a round; the loads of four are asked for together. */
template <typename Tile, typename T>
__device__ __forceinline__ void write_predecessors(const Paths<T> &paths, ptrdiff_t i0,
                                                   ptrdiff_t j0,
                                                   const T (&c)[Tile::kRows][Tile::kCols],
                                                   const int (&winner)[Tile::kRows][Tile::kCols])
{
    const Panels<T> &panels = paths.panels;
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
        const ptrdiff_t row = i0 + Tile::row(i);
        T sum[Tile::kCols];
        int32_t via[Tile::kCols];
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            const ptrdiff_t at = winner[i][j] * paths.padded;
            sum[j] = 0;
            if (winner[i][j] >= 0) {
                sum[j] = panels.cols[at + row].first + panels.rows[at + j0 + Tile::col(j)].second;
            }
        }
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            const ptrdiff_t k = 2 * winner[i][j] + (sum[j] == c[i][j] ? 0 : 1);
            via[j] = GD_NO_PREDECESSOR;
            if (winner[i][j] >= 0) {
                via[j] = panels.preds[k * paths.padded + j0 + Tile::col(j)];
            }
        }
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            if (winner[i][j] >= 0) {
                paths.pred[row * paths.padded + j0 + Tile::col(j)] = via[j];
            }
        }
    }
}

/* Relaxes one tile over a round's pivots. Tiles inside the pivots' rows or columns are done. A tile
 * that merely overlaps them relaxes that part again, which changes nothing. */
template <typename T, bool kPred>
__global__ void __launch_bounds__(Rest<T, kPred>::Tile::kThreads, Rest<T, kPred>::kBlocksPerSm)
    relax_rest(const __grid_constant__ Paths<T> paths, ptrdiff_t pivot, int pivots,
               unsigned tiles_across)
{
    using Tile = typename Rest<T, kPred>::Tile;
    __shared__ alignas(16) Pair<T> left[kStages][kSlabPairs][Tile::kBlockRows];
    __shared__ alignas(16) Pair<T> right[kStages][kSlabPairs][Tile::kBlockCols];
    const ptrdiff_t i0 = (ptrdiff_t)(blockIdx.x / tiles_across) * Tile::kBlockRows;
    const ptrdiff_t j0 = (ptrdiff_t)(blockIdx.x % tiles_across) * Tile::kBlockCols;
    if ((i0 >= pivot && i0 + Tile::kBlockRows <= pivot + pivots) ||
        (j0 >= pivot && j0 + Tile::kBlockCols <= pivot + pivots)) {
        return;
    }

    const int slabs = pivots / (2 * kSlabPairs);
    auto fetch = [&](int slab) {
        const ptrdiff_t at = slab * kSlabPairs * paths.padded;
        fetch_slab<Tile::kThreads>(left[slab % kStages], paths.panels.cols + at + i0, paths.padded);
        fetch_slab<Tile::kThreads>(right[slab % kStages], paths.panels.rows + at + j0,
                                   paths.padded);
    };
#pragma unroll
    for (int slab = 0; slab < kStages - 1; ++slab) {
        fetch(slab);
        __pipeline_commit();
    }

    T c[Tile::kRows][Tile::kCols];
    int winner[Tile::kRows][Tile::kCols];
    T *const tile = paths.dist + i0 * paths.padded + j0;
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            if (j % Tile::kRun == 0) {
                load_passing(tile + Tile::row(i) * paths.padded + Tile::col(j), &c[i][j]);
            }
            winner[i][j] = -1;
        }
    }

    for (int slab = 0; slab < slabs; ++slab) {
        /* One barrier a slab: behind it this slab has arrived for all threads, and all are done
         * with the previous one, whose place the next fetch takes. */
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();
        if (slab + kStages - 1 < slabs) {
            fetch(slab + kStages - 1);
        }
        __pipeline_commit(); /* even if empty: the wait above counts commits */
        Tile::template multiply<kSlabPairs, kPred>(c, winner, left[slab % kStages],
                                                   right[slab % kStages], slab * kSlabPairs);
    }

#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
            store_passing(tile + Tile::row(i) * paths.padded + Tile::col(j), &c[i][j]);
        }
    }
    if constexpr (kPred) {
        write_predecessors<Tile>(paths, i0, j0, c, winner);
    }
}

}  // namespace gd
#endif
