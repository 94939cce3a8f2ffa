/* tensor_store.cuh: the way from a tile's sums to results and marks. */
#ifndef GPUDIST_TENSOR_STORE_CUH
#define GPUDIST_TENSOR_STORE_CUH

#include "tensor.cuh"
#include "tensor_lines.cuh"

namespace gd {
namespace tensor {

using Staged = Rows<float, kUnitRows, kTileCols>; /* a warp's, if they start anywhere */

/* From sums to results: a lane has rows g and g + 8 of its warp's sixteen, and of every 16 columns
 * four that touch. kWhole: the tile is all there, and its rows are aligned. tile_row, tile_col: of
 * the tile. marked: counts what the warp marks. */
template <gd_metric kMetric, bool kWhole>
__device__ __forceinline__ void store_tile(const Cdist<float> &call, const Plan &plan,
                                           const FactsA &facts_a, const FactsB &facts_b,
                                           ptrdiff_t tile_row, ptrdiff_t tile_col, Staged &staged,
                                           unsigned &marked, const Accumulator &sums)
{
    const int thread = (int)this_thread(), warp = thread / 32, lane = thread % 32;
    const int in_tile = warp * kUnitRows + lane / 4, quad = lane % 4 * 4, lower = lane / 4 % 2;
    const ptrdiff_t first_row = tile_row * kTileRows + warp * kUnitRows;
    const ptrdiff_t first_col = tile_col * kTileCols;
    const float norm_a[2] = {facts_a.norm[in_tile], facts_a.norm[in_tile + 8]};
    const float unscale_a[2] = {facts_a.unscale[in_tile], facts_a.unscale[in_tile + 8]};
    /* See store_lines. */
    float *const to = call.out + (first_row + lane / 4 - lower) * call.out_stride + first_col +
                      quad + lower * kHalfLine<float>;
    int moved[2] = {};
    if constexpr (!kWhole) {
        staged.aim(call, first_row, first_col);
        moved[0] = staged.rows[lane / 4].moved;
        moved[1] = staged.rows[lane / 4 + 8].moved;
    }
    uint32_t marks[kParts] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int line = 0; line < kPartCols / kLineCols<float>; ++line) {
            const int first = part * kPartCols + line * kLineCols<float>;
            float results[2][2][4]; /* two rows, two halves of the line */
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float norm_b[4], unscale_b[4];
                load_word(facts_b.norm + first + half * 16 + quad, norm_b);
                load_word(facts_b.unscale + first + half * 16 + quad, unscale_b);
#pragma unroll
                for (int h = 0; h < 2; ++h) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int sum = (first / 16 + half) * 8 + e / 2 * 4 + h * 2 + e % 2;
                        float guard;
                        results[h][half][e] =
                            Rules<kMetric>::result(sums[sum], norm_a[h], unscale_a[h], norm_b[e],
                                                   unscale_b[e], plan.ratio, guard);
                        marks[part] = __funnelshift_l(__float_as_uint(guard), marks[part], 1);
                    }
                    if constexpr (!kWhole) {
                        const int group = first + half * 16;
                        staged.put(lane / 4 + h * 8, moved[h], group + quad, group + 12,
                                   results[h][half]);
                    }
                }
            }
            if constexpr (kWhole) {
                store_lines(to + first, call.out_stride, lower, results[0]);
                store_lines(to + 8 * call.out_stride + first, call.out_stride, lower, results[1]);
            }
        }
    }
    if constexpr (!kWhole) {
        staged.send();
        if (call.packed() && first_col <= first_row + kUnitRows) {
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                marks[part] =
                    right_of_diagonal<float>(marks[part], first_row, first_col + part * kPartCols);
            }
        }
    }
    /* Last, so that nothing stands between the stores. */
    const ptrdiff_t unit = plan.part(tile_row, tile_col, 0) * kUnits + warp;
    if (__any_sync(~0u, (marks[0] | marks[1] | marks[2]) != 0)) {
        unsigned sum = 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            sum += plan.marks.note<float>(unit + part * kUnits, marks[part]);
        }
        if (lane == 0) {
            marked += sum;
        }
    }
    else if (lane < kParts) {
        plan.marks.counts[unit + lane * kUnits] = 0;
    }
}

}  // namespace tensor
}  // namespace gd
#endif
