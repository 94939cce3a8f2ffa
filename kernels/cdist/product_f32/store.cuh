/* store.cuh: the way from a tile's sums to results and suspects. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_STORE_CUH
#define GPUDIST_CDIST_PRODUCT_F32_STORE_CUH

#include "cdist/product_f32/operands.cuh"
#include "cdist/product/lines.cuh"
#include "cdist/product_f32/recompute_own.cuh"

namespace gd {
namespace tensor {

/* How a tile is stored: all of it there and in aligned rows; all there, in rows that start
 * anywhere; or whatever is there, by way of shared memory or, where there is none left, as lanes
 * have it. */
enum class Way { kLines, kSliding, kStaged, kSingly };

/* Where a warp's results wait that go by way of shared memory. whole: all of them are there. */
template <int kCols>
struct Staging {
    Rows<float, kUnitRows, kCols> &rows;
    bool whole;
};
/* For ways that need no shared memory. */
struct NotStaged {};

/* Stores what there is of eight results that touch. */
__device__ __forceinline__ void store_singly(const Cdist<float> &call, ptrdiff_t row, ptrdiff_t col,
                                             const float (&results)[2][kPerWord<float>])
{
    if (row < call.a.count) {
        float *const to = call.row(row) + col;
        const ptrdiff_t left = call.packed() ? row + 1 - col : 0;
#pragma unroll
        for (int i = 0; i < 2 * kPerWord<float>; ++i) {
            if (i >= left && col + i < call.cols) {
                __stcs(to + i, results[i / kPerWord<float>][i % kPerWord<float>]);
            }
        }
    }
}

/* From sums to results: a lane has rows g and g + 8 of its warp's sixteen, and of every 32 columns
 * eight that touch. first_row, first_col: of the first result. facts_a, facts_b: norms and scales
 * from these on. suspects: of each part, a word a lane (recompute/suspects.cuh). */
template <gd_metric kMetric, Way kWay, int kCols, bool kConst, typename S>
__device__ __forceinline__ void store_unit(const Cdist<float> &call, float ratio,
                                           const FactsFrom<kConst> &facts_a,
                                           const FactsFrom<kConst> &facts_b, ptrdiff_t first_row,
                                           ptrdiff_t first_col, [[maybe_unused]] const S &staging,
                                           const float *sums,
                                           uint32_t (&suspects)[kCols / kPartCols])
{
    constexpr int kWord = kPerWord<float>, kLine = kLineCols<float>;
    constexpr int kAcross = kCols / kPartCols;
    const int lane = (int)this_thread() % 32;
    const int in_unit = lane / 4, quarter = lane % 4 * 2 * kWord;
    const bool lower = lane / 4 % 2;
    float norm_a[2], unscale_a[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        facts_a.load(in_unit + h * 8, norm_a[h], unscale_a[h]);
    }
    /* See store_lines. */
    float *const to = call.out + (first_row + lane / 4 - lower) * call.out_stride + first_col +
                      quarter + lower * kWord;
    const auto start = [&](int row) { return call.row(first_row + lane / 4 + row) + first_col; };
    Sliding<float> sliding({start(0), start(8)});
    float *rooms[2] = {};
    if constexpr (kWay == Way::kStaged) {
        staging.rows.aim(call, first_row, first_col);
        rooms[0] = staging.rows.room(in_unit) + quarter;
        rooms[1] = staging.rows.room(in_unit + 8) + quarter;
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
                facts_b.load_words(first + quarter + i, norm_b + i, unscale_b + i);
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float (&of_row)[2][kWord] = results[h];
#pragma unroll
                for (int i = 0; i < 2 * kWord; ++i) {
                    const int sum = first / 2 + i / 2 * 4 + h * 2 + i % 2;
                    float guard;
                    of_row[i / kWord][i % kWord] = Rules<kMetric>::result(
                        sums[sum], norm_a[h], unscale_a[h], norm_b[i], unscale_b[i], ratio, guard);
                    suspects[part] = __funnelshift_l(__float_as_uint(guard), suspects[part], 1);
                }
                if constexpr (kWay == Way::kSliding) {
                    sliding.store(h, first, first == 0, first == kCols - kLine, of_row);
                }
                if constexpr (kWay == Way::kSingly) {
                    store_singly(call, first_row + in_unit + h * 8, first_col + first + quarter,
                                 of_row);
                }
                if constexpr (kWay == Way::kStaged) {
#pragma unroll
                    for (int i = 0; i < 2 * kWord; ++i) {
                        rooms[h][first + i] = of_row[i / kWord][i % kWord];
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
    bool whole = kWay != Way::kSingly;
    if constexpr (kWay == Way::kStaged) {
        whole = staging.whole;
        staging.rows.send(call, first_row, first_col, whole);
    }
    if (!whole && call.packed() && first_col <= first_row + kUnitRows) {
#pragma unroll
        for (int part = 0; part < kAcross; ++part) {
            suspects[part] =
                right_of_diagonal<float>(suspects[part], first_row, first_col + part * kPartCols);
        }
    }
}

}  // namespace tensor
}  // namespace gd
#endif
