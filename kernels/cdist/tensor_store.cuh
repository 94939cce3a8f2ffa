/* tensor_store.cuh: which tile comes when, and the way from its sums to results and marks. */
#ifndef GPUDIST_TENSOR_STORE_CUH
#define GPUDIST_TENSOR_STORE_CUH

#include "tensor.cuh"
#include "tensor_lines.cuh"

namespace gd {
namespace tensor {

/* Tiles are numbered row by row within bands of plan.band columns of tiles: those at work at the
 * same time then share operands in L2. */
struct Position {
    ptrdiff_t row, col;

    __device__ __forceinline__ Position(const Plan &plan, unsigned tile)
    {
        const unsigned down = (unsigned)plan.tiles_down, across = (unsigned)plan.tiles_across;
        const unsigned band = tile / (down * plan.band), in_band = tile - band * (down * plan.band);
        const unsigned width = min(across - band * plan.band, plan.band);
        const unsigned down_band = in_band / width;
        row = down_band;
        col = band * plan.band + in_band - down_band * width;
    }
};

/* Where results that no 16-byte store takes wait until a warp has 16 rows of 32: stored row by row,
 * they fill cache lines from any address on (d = 128: 0.81 ms instead of 1.9, aligned 0.53). Places
 * of odd rows are turned by half a row: two rows, written together, lie in different banks. */
using Staged = float[kUnitRows][kLineCols<float>];
__device__ __forceinline__ int place_of_staged(int row, int col)
{
    return col ^ (row % 2 * (kLineCols<float> / 2));
}

/* Stores what there is of a warp's staged results, the first of which belongs to (row, col). */
__device__ __forceinline__ void store_staged(const Cdist<float> &call, const Staged &staged,
                                             ptrdiff_t row, ptrdiff_t col)
{
    const int lane = (int)this_thread() % 32;
    const int rows = (int)min(call.a.count - row, (ptrdiff_t)kUnitRows);
    __syncwarp();
    if (col + lane < call.b.count) {
        float *const to = call.out + row * call.out_stride + col + lane;
#pragma unroll 8
        for (int i = 0; i < kUnitRows; ++i) {
            if (i < rows) {
                __stcs(to + i * call.out_stride, staged[i][place_of_staged(i, lane)]);
            }
        }
    }
    __syncwarp();
}

/* From sums to results: a lane has rows g and g + 8 of its warp's sixteen, and of every 16 columns
 * four that touch. kWhole: the tile is all there, and its rows are aligned. */
template <gd_metric kMetric, bool kWhole>
__device__ __forceinline__ void store_tile(const Cdist<float> &call, const Plan &plan,
                                           const FactsA &facts_a, const FactsB &facts_b,
                                           const Position &at, Staged &staged,
                                           const Accumulator (&sums)[kParts])
{
    const int thread = (int)this_thread(), warp = thread / 32, lane = thread % 32;
    const int in_tile = warp * kUnitRows + lane / 4, quad = lane % 4 * 4, lower = lane / 4 % 2;
    const ptrdiff_t row = at.row * kTileRows + in_tile, col = at.col * kTileCols + quad;
    const float norm_a[2] = {facts_a.norm[in_tile], facts_a.norm[in_tile + 8]};
    const float unscale_a[2] = {facts_a.unscale[in_tile], facts_a.unscale[in_tile + 8]};
    /* See store_lines. */
    float *const to = call.out + (row - lower) * call.out_stride + col + lower * kHalfLine<float>;
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
                        const int sum = (line * 2 + half) * 8 + e / 2 * 4 + h * 2 + e % 2;
                        float guard;
                        results[h][half][e] =
                            Rules<kMetric>::result(sums[part][sum], norm_a[h], unscale_a[h],
                                                   norm_b[e], unscale_b[e], guard);
                        marks[part] = __funnelshift_l(__float_as_uint(guard), marks[part], 1);
                    }
                    if constexpr (!kWhole) {
                        const int in_unit = lane / 4 + h * 8;
                        store_word(&staged[in_unit][place_of_staged(in_unit, half * 16 + quad)],
                                   results[h][half]);
                    }
                }
            }
            if constexpr (kWhole) {
                store_lines(to + first, call.out_stride, lower, results[0]);
                store_lines(to + 8 * call.out_stride + first, call.out_stride, lower, results[1]);
            }
            else {
                store_staged(call, staged, at.row * kTileRows + warp * kUnitRows,
                             at.col * kTileCols + first);
            }
        }
    }
    /* Last, so that nothing stands between the stores. */
    const ptrdiff_t unit = plan.part(at.row, at.col, 0) * kUnits + warp;
    if (__any_sync(~0u, (marks[0] | marks[1] | marks[2]) != 0)) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            plan.marks.note<float>(unit + part * kUnits, marks[part]);
        }
    }
    else if (lane < kParts) {
        plan.marks.counts[unit + lane * kUnits] = 0;
    }
}

}  // namespace tensor
}  // namespace gd
#endif
