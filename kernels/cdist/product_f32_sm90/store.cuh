/* store.cuh: the way from a tile's sums to results and suspects. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_STORE_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_STORE_CUH

#include "cdist/product_f32_sm90/operands.cuh"
#include "cdist/product/lines.cuh"
#include "cdist/product_f32_sm90/recompute_own.cuh"

namespace gd {
namespace tensor {

/* A warp's results, if they start anywhere. */
template <int kCols>
using Staged = Rows<float, kUnitRows, kCols>;

/* How a tile is stored: all of it there and in aligned rows; all there, in rows that start
 * anywhere; or whatever is there. */
enum class Way { kLines, kSliding, kStaged };

/* From sums to results: a lane has rows g and g + 8 of its warp's sixteen, and of every 32 columns
 * eight that touch. tile_row, tile_col: of the tile of kRows x kCols. suspects: of each
 * part, a word a lane (recompute/suspects.cuh). */
template <gd_metric kMetric, Way kWay, int kRows, int kCols>
__device__ __forceinline__ void store_tile(const Cdist<float> &call, const Plan &plan,
                                           const Facts<kRows> &facts_a, const Facts<kCols> &facts_b,
                                           ptrdiff_t tile_row, ptrdiff_t tile_col,
                                           Staged<kCols> &staged, const Sums<kCols> &sums,
                                           uint32_t (&suspects)[kCols / kPartCols])
{
    constexpr int kWord = kPerWord<float>, kLine = kLineCols<float>;
    constexpr int kAcross = kCols / kPartCols;
    const int thread = (int)this_thread(), warp = thread / 32, lane = thread % 32;
    const int in_tile = warp * kUnitRows + lane / 4, quarter = lane % 4 * 2 * kWord;
    const bool lower = lane / 4 % 2;
    const ptrdiff_t first_row = tile_row * kRows + warp * kUnitRows;
    const ptrdiff_t first_col = tile_col * kCols;
    const float norm_a[2] = {facts_a.norm[in_tile], facts_a.norm[in_tile + 8]};
    const float unscale_a[2] = {facts_a.unscale[in_tile], facts_a.unscale[in_tile + 8]};
    /* See store_lines. */
    float *const to = call.out + (first_row + lane / 4 - lower) * call.out_stride + first_col +
                      quarter + lower * kWord;
    const auto start = [&](int row) { return call.row(first_row + lane / 4 + row) + first_col; };
    Sliding<float> sliding({start(0), start(8)});
    int moved[2] = {};
    if constexpr (kWay == Way::kStaged) {
        staged.aim(call, first_row, first_col);
        moved[0] = staged.rows[lane / 4].moved;
        moved[1] = staged.rows[lane / 4 + 8].moved;
    }
#pragma unroll
    for (uint32_t &word : suspects) {
        word = 0;
    }
#pragma unroll
    for (int part = 0; part < kAcross; ++part) {
#pragma unroll
        for (int line = 0; line < kPartCols / kLine; ++line) {
            const int first = part * kPartCols + line * kLine;
            float norm_b[2 * kWord], unscale_b[2 * kWord];
            float results[2][2][kWord]; /* two rows, two words */
#pragma unroll
            for (int i = 0; i < 2 * kWord; i += kWord) {
                load_word(facts_b.norm + first + quarter + i, norm_b + i);
                load_word(facts_b.unscale + first + quarter + i, unscale_b + i);
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float (&of_row)[2][kWord] = results[h];
#pragma unroll
                for (int i = 0; i < 2 * kWord; ++i) {
                    const int sum = first / 2 + i / 2 * 4 + h * 2 + i % 2;
                    float guard;
                    of_row[i / kWord][i % kWord] =
                        Rules<kMetric>::result(sums[sum], norm_a[h], unscale_a[h], norm_b[i],
                                               unscale_b[i], plan.ratio, guard);
                    suspects[part] = __funnelshift_l(__float_as_uint(guard), suspects[part], 1);
                }
                if constexpr (kWay == Way::kSliding) {
                    sliding.store(h, first, first == 0, first == kCols - kLine, of_row);
                }
                if constexpr (kWay == Way::kStaged) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        staged.put(lane / 4 + h * 8, moved[h], first + quarter + i * kWord,
                                   first + kLine - (2 - i) * kWord, of_row[i]);
                    }
                }
            }
            if constexpr (kWay == Way::kLines) {
                store_lines(to + first, call.out_stride, lower, results[0]);
                store_lines(to + 8 * call.out_stride + first, call.out_stride, lower, results[1]);
            }
            if constexpr (kWay == Way::kSliding) {
                /* Else ptxas begins all lines before it ends the first one, runs out of registers,
                 * and takes longer (d = 128 0.325 ms instead of 0.313). */
                __syncwarp();
            }
        }
    }
    if constexpr (kWay == Way::kStaged) {
        staged.send();
        if (call.packed() && first_col <= first_row + kUnitRows) {
#pragma unroll
            for (int part = 0; part < kAcross; ++part) {
                suspects[part] = right_of_diagonal<float>(suspects[part], first_row,
                                                          first_col + part * kPartCols);
            }
        }
    }
}

}  // namespace tensor
}  // namespace gd
#endif
