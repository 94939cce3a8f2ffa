/* walk.cuh: which tiles of the result a block computes, one after the other. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_WALK_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_WALK_CUH

#include "cdist/product_f32_sm90/products.cuh"

namespace gd {
namespace tensor {

/* Tiles are counted row by row within bands of plan.band columns of tiles: those at work at the
 * same time then share operands in L2. Pairs need no tile left of the diagonal, so there rows begin
 * further right the further down they are. Steps go along rows instead of dividing: one thread
 * takes them, which has time. */
struct Walk {
    unsigned down, across, band;
    bool pairs;
    unsigned row = 0, begin = 0, at = 0; /* begin: of the band; at: tiles from the row's first on */

    __device__ __forceinline__ Walk(const Plan &plan, bool pairs_, unsigned first)
        : down((unsigned)plan.tiles_down),
          across((unsigned)plan.tiles_across),
          band(plan.band),
          pairs(pairs_)
    {
        advance(first);
    }
    __device__ __forceinline__ bool there() const { return begin < across; }
    __device__ __forceinline__ unsigned first_col() const
    {
        /* The tile that holds the first element right of the diagonal. */
        return pairs ? max(begin, row * (kTileRows / kPartCols) / kParts) : begin;
    }
    __device__ __forceinline__ unsigned col() const { return first_col() + at; }

    __device__ __forceinline__ void advance(unsigned tiles)
    {
        at += tiles;
        while (there()) {
            const unsigned end = min(begin + band, across), first = min(first_col(), end);
            if (at < end - first) {
                return;
            }
            at -= end - first;
            if (++row == down || first == end) {
                row = 0;
                begin += band;
            }
        }
    }
};

}  // namespace tensor
}  // namespace gd
#endif
