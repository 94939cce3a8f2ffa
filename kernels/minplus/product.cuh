/* product.cuh: the product of two packed panels over a semiring, a tile of the result a block.
 *
 * Idea: a block keeps a tile of the result in registers and streams slabs of the panels past it
 * through shared memory, as phase 3 of blocked Floyd-Warshall does, with the loop of any ring.
 *
 * Cost: semiring/rings.cuh. A slab of 32 k in float32 is 32 KB for 524288 updates, so panels are
 * read from L2 at 0.06 byte an update. Of 1.55 instructions an update in float32 without negative
 * numbers 1.5 are arithmetic.
 *
 * Launch: 128 threads and 128 x 128 elements a block, 16 x 8 a thread, 2 blocks an SM. In the last
 * wave it may be 64 x 128, 8 x 8 a thread. Results of too few such tiles, and float64, take tiles
 * of 64 x 64, 8 x 4 a thread. */
#ifndef GPUDIST_MINPLUS_PRODUCT_CUH
#define GPUDIST_MINPLUS_PRODUCT_CUH

#include "semiring/slabs.cuh"
#include "minplus/pack.cuh"

namespace gd {

template <typename Ring, bool kWide>
struct ProductShape {
    using Word = typename Ring::Word;
    using Tile = MinplusTile<Word, 8, 4, 2, 2>;
    static constexpr int kBlocksPerSm = sizeof(Word) == 4 ? 4 : 3, kBuffers = 2;
};
template <typename Ring>
struct ProductShape<Ring, true> {
    using Tile = MinplusTile<typename Ring::Word, 16, 8, 2, 2>;
    using Half = MinplusTile<typename Ring::Word, 8, 8, 2, 2>; /* of its rows */
    static constexpr int kBlocksPerSm = 2, kBuffers = 3;
};

template <typename Ring, bool kWide, typename Tile = typename ProductShape<Ring, kWide>::Tile>
using ProductStream = SlabStream<typename Ring::Word, Tile::kBlockRows, Tile::kBlockCols,
                                 kProductSlabPairs<typename Ring::Word>,
                                 ProductShape<Ring, kWide>::kBuffers, Tile::kThreads>;

template <typename Ring>
struct Product {
    using Word = typename Ring::Word;
    const Pair<Word> *left, *right; /* panels, in tiles */
    int slabs;
    ptrdiff_t pairs;      /* of words, in all slabs; whole turns of the inner loop */
    ptrdiff_t rows, cols; /* of the result */
    ptrdiff_t halved;     /* the row from which on wide tiles are cut in two */
    const typename Ring::Element *c;
    ptrdiff_t c_row_stride, c_col_stride;
    typename Ring::Element *out;
    ptrdiff_t out_stride;
    bool flip;
    const int32_t *flagged;
    Gate gate;
};

/* Joins the tile with C and writes it. Neighbours go together where they are whole words. */
template <typename Ring, typename Tile, typename Word>
__device__ __forceinline__ void store_tile(const Product<Ring> &p, ptrdiff_t i0, ptrdiff_t j0,
                                           const Word (&c)[Tile::kRows][Tile::kCols])
{
    using Element = typename Ring::Element;
    struct alignas(Tile::kRun * sizeof(Element)) Run {
        Element at[Tile::kRun];
    };
    const ptrdiff_t first_col = j0 + Tile::col(0);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
        const ptrdiff_t row = i0 + Tile::row(i);
        /* Of C: added to in each branch below, this would be multiplied out in each of them. */
        const ptrdiff_t first = row * p.c_row_stride + first_col * p.c_col_stride;
        Element *const to_row = p.out + row * p.out_stride + first_col;
        if (row >= p.rows) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < Tile::kCols; j += Tile::kRun) {
            const ptrdiff_t col = first_col + Tile::col_step(j);
            Run run;
#pragma unroll
            for (int e = 0; e < Tile::kRun; ++e) {
                run.at[e] = Ring::leave(c[i][j + e], p.flip);
                if (p.c != NULL && col + e < p.cols) {
                    run.at[e] = better(p.c[first + (Tile::col_step(j) + e) * p.c_col_stride],
                                       run.at[e], p.flip);
                }
            }
            Element *const to = to_row + Tile::col_step(j);
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

/* The tile at (i0, j0). */
template <typename Ring, typename Tile, typename Stream>
__device__ __forceinline__ void multiply_tile(const Product<Ring> &p, ptrdiff_t i0, ptrdiff_t j0,
                                              void *shared)
{
    using Word = typename Ring::Word;
    constexpr int kSlabPairs = kProductSlabPairs<Word>;
    const ptrdiff_t panel_pairs = (ptrdiff_t)p.slabs * kSlabPairs;
    Stream stream(shared, p.left + i0 * panel_pairs, p.right + j0 * panel_pairs, p.slabs);
    Word c[Tile::kRows][Tile::kCols];
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kCols; ++j) {
            c[i][j] = Ring::neutral();
        }
    }
    const int last = (int)(p.pairs - (ptrdiff_t)(p.slabs - 1) * kSlabPairs);
    auto run = [&](auto loop) {
#pragma unroll 1
        for (int s = 0; s < p.slabs; ++s) {
            const auto &slab = stream.wait(s);
            /* The last slab is computed as far as is needed. */
            Tile::for_pairs(s + 1 < p.slabs ? kSlabPairs : last, slab.left[0], slab.right[0],
                            [&](int i, int j, const Pair<Word> &a, const Pair<Word> &b) {
                                fold_at<decltype(loop)>(i + j, c[i][j], a, b);
                            });
            stream.release();
        }
    };
    if constexpr (Ring::kSigned) {
        if (*p.flagged == 0) {
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

template <typename Ring, bool kWide>
__global__ void __launch_bounds__(ProductShape<Ring, kWide>::Tile::kThreads,
                                  ProductShape<Ring, kWide>::kBlocksPerSm)
    multiply(const __grid_constant__ Product<Ring> p, unsigned tiles_across, unsigned whole)
{
    using Shape = ProductShape<Ring, kWide>;
    using Tile = typename Shape::Tile;
    extern __shared__ int4 shared[];
    if (left_out<Ring>() || !p.gate.open()) {
        return;
    }
    if constexpr (kWide) {
        using Half = typename Shape::Half;
        if (blockIdx.x >= whole) {
            const unsigned half = blockIdx.x - whole;
            multiply_tile<Ring, Half, ProductStream<Ring, kWide, Half>>(
                p, p.halved + (ptrdiff_t)(half / tiles_across) * Half::kBlockRows,
                (ptrdiff_t)(half % tiles_across) * Half::kBlockCols, shared);
            return;
        }
    }
    multiply_tile<Ring, Tile, ProductStream<Ring, kWide>>(
        p, (ptrdiff_t)(blockIdx.x / tiles_across) * Tile::kBlockRows,
        (ptrdiff_t)(blockIdx.x % tiles_across) * Tile::kBlockCols, shared);
}

}  // namespace gd
#endif
