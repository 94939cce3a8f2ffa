/* product.cuh: the product of two packed panels over a semiring, a tile of the result a block.
 *
 * Idea: a block keeps a tile of the result in registers and streams slabs of the panels past it
 * through shared memory, as phase 3 of blocked Floyd-Warshall does, with the loop of any ring. The
 * arithmetic leaves few issue slots over, so what surrounds it is kept short: long slabs, so few
 * barriers, and addresses that only move on.
 *
 * Cost: rings.cuh. A slab of 32 k in float32 is 24 KB for 262144 updates, so panels are read from
 * L2 at 0.09 byte an update. Of 3324 instructions that a warp issues for a slab of float32 3072 are
 * arithmetic and 128 loads of operands.
 *
 * Launch: 128 threads and 128 x 64 elements a block, 8 x 8 a thread, 3 blocks an SM; float64
 * 64 x 64, 8 x 4 a thread. */
#ifndef GPUDIST_MINPLUS_PRODUCT_CUH
#define GPUDIST_MINPLUS_PRODUCT_CUH

#include <cuda_pipeline_primitives.h>

#include "minplus/pack.cuh"

namespace gd {

constexpr int kPaddedLines = 128; /* of lines: whole tiles */
constexpr int kProductStages = 2; /* slabs in shared memory or under way */

/* A block's tile is that of phase 3. With four blocks an SM float32 is 1 % faster, but int32 has
 * too few registers. Slabs are long where shared memory allows it: half as long cost 2 %. */
template <typename Ring>
struct ProductShape {
    using Word = typename Ring::Word;
    using Tile = std::conditional_t<sizeof(Word) == 4, MinplusTile<Word, 8, 8, 4, 1>,
                                    MinplusTile<Word, 8, 4, 2, 2>>;
    static constexpr int kBlocksPerSm = 3;
    static constexpr int kSlabPairs = sizeof(Word) == 4 ? 16 : 8;
    static constexpr int kSlabWords = 2 * kSlabPairs;
    static_assert(kPaddedLines % kPackLines == 0 && kSlabWords % kPackWords == 0,
                  "panels are whole blocks of pack_pairs");
};

/* A thread's share in copying a panel's slabs to shared memory, kLines pairs wide. The address
 * only ever moves on, which costs fewer instructions than to compute it anew: they would take
 * their slots from the arithmetic. */
template <typename Word, int kThreads, int kPairs, int kLines>
struct Feed {
    static constexpr int kRun = kPerWord<Word> / 2, kWords = kLines / kRun;
    static constexpr int kDown = kThreads / kWords; /* pairs that the block copies at a time */
    static_assert(kThreads % kWords == 0 && kPairs % kDown == 0, "threads share a slab evenly");
    const Pair<Word> *from;
    ptrdiff_t step;

    __device__ __forceinline__ Feed(const Pair<Word> *panel, ptrdiff_t padded)
        : from(panel + threadIdx.x / kWords * padded + threadIdx.x % kWords * kRun),
          step(kDown * padded)
    {
    }
    __device__ __forceinline__ void next(Pair<Word> (&slab)[kPairs][kLines])
    {
        Pair<Word> *const to = &slab[threadIdx.x / kWords][threadIdx.x % kWords * kRun];
#pragma unroll
        for (int pair = 0; pair < kPairs; pair += kDown, from += step) {
            __pipeline_memcpy_async(to + pair * kLines, from, 16);
        }
    }
};

template <typename Ring>
struct Product {
    using Word = typename Ring::Word;
    const Pair<Word> *left, *right; /* panels: depth / 2 rows of padded lines */
    ptrdiff_t padded_rows, padded_cols;
    int slabs;
    ptrdiff_t rows, cols; /* of the result */
    const typename Ring::Element *c;
    ptrdiff_t c_row_stride, c_col_stride;
    typename Ring::Element *out;
    ptrdiff_t out_stride;
    bool flip;
    const int32_t *marked;
};

/* Streams all slabs past the tile whose rows and columns the two panels start with. */
template <typename Ring, typename Tile, typename Word, int kPairs>
__device__ __forceinline__ void multiply_slabs(
    Word (&c)[Tile::kRows][Tile::kCols], int slabs,
    Pair<Word> (&left)[kProductStages][kPairs][Tile::kBlockRows],
    Pair<Word> (&right)[kProductStages][kPairs][Tile::kBlockCols], const Pair<Word> *rows,
    const Pair<Word> *cols, ptrdiff_t padded_rows, ptrdiff_t padded_cols)
{
    Feed<Word, Tile::kThreads, kPairs, Tile::kBlockRows> feed_left(rows, padded_rows);
    Feed<Word, Tile::kThreads, kPairs, Tile::kBlockCols> feed_right(cols, padded_cols);
#pragma unroll
    for (int slab = 0; slab < kProductStages - 1; ++slab) {
        if (slab < slabs) {
            feed_left.next(left[slab]);
            feed_right.next(right[slab]);
        }
        __pipeline_commit();
    }
    for (int slab = 0; slab < slabs; ++slab) {
        /* One barrier a slab: behind it this slab has arrived for all threads, and all are done
         * with the previous one, whose place the next to fetch takes. */
        __pipeline_wait_prior(kProductStages - 2);
        __syncthreads();
        if (slab + kProductStages - 1 < slabs) {
            feed_left.next(left[(slab + kProductStages - 1) % kProductStages]);
            feed_right.next(right[(slab + kProductStages - 1) % kProductStages]);
        }
        __pipeline_commit(); /* even if empty: the wait above counts commits */
        Tile::template for_pairs<kPairs>(left[slab % kProductStages], right[slab % kProductStages],
                                         [&](int i, int j, const Pair<Word> &a,
                                             const Pair<Word> &b) { Ring::fold(c[i][j], a, b); });
    }
}

/* Joins the tile with C and writes it. Neighbours go together where they are whole words. */
template <typename Ring, typename Tile, typename Word>
__device__ __forceinline__ void store_tile(const Product<Ring> &p, ptrdiff_t i0, ptrdiff_t j0,
                                           const Word (&c)[Tile::kRows][Tile::kCols])
{
    using Element = typename Ring::Element;
    struct alignas(Tile::kRun * sizeof(Element)) Run {
        Element at[Tile::kRun];
    };
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
        const ptrdiff_t row = i0 + Tile::row(i);
        if (row >= p.rows) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
            const ptrdiff_t col = j0 + Tile::col(j);
            Run run;
#pragma unroll
            for (int e = 0; e < Tile::kRun; ++e) {
                run.at[e] = Ring::leave(c[i][j + e], p.flip);
                if (p.c != NULL && col + e < p.cols) {
                    run.at[e] = better(p.c[row * p.c_row_stride + (col + e) * p.c_col_stride],
                                       run.at[e], p.flip);
                }
            }
            Element *const to = p.out + row * p.out_stride + col;
            if (col + Tile::kRun <= p.cols && (uintptr_t)to % sizeof(Run) == 0) {
                *reinterpret_cast<Run *>(to) = run;
                continue;
            }
#pragma unroll
            for (int e = 0; e < Tile::kRun; ++e) {
                if (col + e < p.cols) {
                    to[e] = run.at[e];
                }
            }
        }
    }
}

template <typename Ring>
__global__ void __launch_bounds__(ProductShape<Ring>::Tile::kThreads,
                                  ProductShape<Ring>::kBlocksPerSm)
    multiply(const __grid_constant__ Product<Ring> p, unsigned tiles_across)
{
    using Word = typename Ring::Word;
    using Tile = typename ProductShape<Ring>::Tile;
    __shared__ alignas(16) Pair<Word> left[kProductStages][ProductShape<Ring>::kSlabPairs]
                                          [Tile::kBlockRows];
    __shared__ alignas(16) Pair<Word> right[kProductStages][ProductShape<Ring>::kSlabPairs]
                                           [Tile::kBlockCols];
    const ptrdiff_t i0 = (ptrdiff_t)(blockIdx.x / tiles_across) * Tile::kBlockRows;
    const ptrdiff_t j0 = (ptrdiff_t)(blockIdx.x % tiles_across) * Tile::kBlockCols;
    Word c[Tile::kRows][Tile::kCols];
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            c[i][j] = Ring::neutral();
        }
    }
    auto run = [&](auto loop) {
        multiply_slabs<decltype(loop), Tile>(c, p.slabs, left, right, p.left + i0, p.right + j0,
                                             p.padded_rows, p.padded_cols);
    };
    if constexpr (Ring::kSigned) {
        if (*p.marked == 0) {
            run(PlusUnsigned{});
        }
        else {
            run(Ring{});
        }
    }
    else {
        run(Ring{});
    }
    store_tile<Ring, Tile>(p, i0, j0, c);
}

}  // namespace gd
#endif
