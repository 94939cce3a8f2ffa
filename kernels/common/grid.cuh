/* grid.cuh: which tile of the result a block computes.
 *
 * Tiles come in bands, within which they are counted downwards: with bands of 16, 400 blocks at
 * work are some 16 x 25 tiles, and the operands of 41 serve 400, where a row of tiles would need
 * those of 401.
 *
 * Pairs need the tiles right of the diagonal alone, and the others should cost no block, as many
 * as there are. A band is so much shorter the further down it is; so two bands are folded together,
 * the first and the last, the second and the last but one: all of these are of about one length,
 * and a division tells where a block belongs. */
#ifndef GPUDIST_COMMON_GRID_CUH
#define GPUDIST_COMMON_GRID_CUH

#include "arch/registers.cuh"
#include "common/metrics.cuh"

namespace gd {

struct Grid {
    unsigned down, across, band; /* tiles below each other, side by side, and in a band's height */
    /* Pairs alone: rows of results in a band, the logarithm of a tile's columns, the last band, and
     * columns of tiles in two bands folded together. */
    unsigned band_rows, log_cols, last, folded;

    /* A grid of tiles of so many rows and columns, the latter a power of two for pairs. */
    Grid(bool pairs, ptrdiff_t down_, ptrdiff_t across_, unsigned most, ptrdiff_t rows,
         ptrdiff_t cols)
        : down((unsigned)down_),
          across((unsigned)across_),
          band_rows(0),
          log_cols(0),
          last(0),
          folded(0)
    {
        /* A matrix lower than a band is one band, which keeps band * across within 32 bits. */
        band = down < most ? down : most;
        if (pairs) {
            band_rows = (unsigned)(band * rows);
            while ((ptrdiff_t)1 << log_cols < cols) {
                ++log_cols;
            }
            last = (down - 1) / band;
            /* What two bands leave out is at least what the last one does, but for rounding. */
            folded = last == 0 ? across : 2 * across - left_out(last) + 1;
        }
    }
    ptrdiff_t blocks() const
    {
        return (ptrdiff_t)(folded == 0 ? across : folded) *
               (folded == 0 ? down : (last / 2 + 1) * band);
    }

    /* Columns of tiles that are left of the diagonal in all of a band. */
    __host__ __device__ __forceinline__ unsigned left_out(unsigned at) const
    {
        return (unsigned)((unsigned long long)at * band_rows >> log_cols);
    }

    /* The tile of a block, of this one unless it is said; false if it has none. kBands: bands may
     * be higher than a tile. */
    __device__ __forceinline__ bool find(unsigned *row, unsigned *col,
                                         unsigned block = blockIdx.x) const
    {
        return folded == 0 ? find<Form::kMatrix>(row, col, block)
                           : find<Form::kPairs>(row, col, block);
    }
    template <Form kForm, bool kBands = true>
    __device__ __forceinline__ bool find(unsigned *row, unsigned *col,
                                         unsigned block = blockIdx.x) const
    {
        if constexpr (kForm == Form::kMatrix && !kBands) {
            *row = block / across;
            *col = block % across;
            return true;
        }
        else if constexpr (kForm == Form::kMatrix) {
            const unsigned in_band = block % (band * across);
            const unsigned top = block / (band * across) * band;
            const unsigned height = min(band, down - top);
            *row = top + in_band % height;
            *col = in_band / height;
            return true;
        }
        else {
            const unsigned cell = block / band % folded, above = block / band / folded;
            const unsigned below = last - above, length = across - left_out(above);
            const bool upper = cell < length;
            const unsigned at = upper ? above : below;
            *row = at * band + block % band;
            *col = left_out(at) + (upper ? cell : cell - length);
            /* Nothing is folded onto a band in the middle. */
            return *row < down && *col < across && (upper || above != below);
        }
    }
};

}  // namespace gd
#endif
