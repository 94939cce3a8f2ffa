/* prepare.cuh: from the caller's rows to the panels and norms of operands.cuh.
 *
 * A unit of 16 rows is one warp's, which reads every row once: what a lane loads of two rows are
 * its words of the panels already. Where rows are long several warps share a unit, slab by slab,
 * and leave the sums of squares to two of them, so that these are added in order. If the operands
 * are the same rows, both copies are made at once. 65536 x 512 takes 150 us (3.5e12 bytes a
 * second), 65536 x 16 6. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_PREPARE_CUH
#define GPUDIST_CDIST_PRODUCT_F64_PREPARE_CUH

#include "cdist/product_f64/rows.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kPrepareWarps = 8, kEachSlabs = 2; /* slabs that a warp has under way */
constexpr int kPrepareThreads = kPrepareWarps * 32;

/* The logarithm of the warps that share a unit. */
inline int log_sharing(ptrdiff_t slabs)
{
    int log = 0;
    while (1 << log < kPrepareWarps && kEachSlabs << log < slabs) {
        ++log;
    }
    return log;
}

/* Makes zeros of two rows, eight apart, as far as they are beyond the first `count`. */
__device__ __forceinline__ void clear_beyond(Share (&x)[2], ptrdiff_t count)
{
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        if (h * 8 >= count) {
            x[h][0] = x[h][1] = double2{};
        }
    }
}

/* Adds a lane's squares of a slab of two rows to their sums; if other warps have slabs of theirs as
 * well, leaves them for those who add up all. */
__device__ __forceinline__ void take_squares(const Share (&x)[2], bool alone, Sum (&sums)[2],
                                             double (&squares)[2][32])
{
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const double share = squares_of(x[h]);
        if (alone) {
            sums[h].add(share);
        }
        else {
            squares[h][threadIdx.x % 32] = share;
        }
    }
}

/* Writes the norm of a row, and makes it 1 if there is no such row. */
template <gd_metric kMetric>
__device__ __forceinline__ void put_norm(const Plan &plan, const Points<double> &points,
                                         const Sum &sum, ptrdiff_t row, bool of_a, bool of_b,
                                         bool writes)
{
    double norm = norm_of<kMetric>(sum);
    if (Rules<kMetric>::scalable && plan.terms.a && norm >= 0) {
        norm = plan.terms.norm(norm, points.clamp(row), of_a);
    }
    norm = row < points.count ? norm : 1.0;
    if (writes) {
        if (of_a) {
            plan.norms_a[row] = norm;
        }
        if (of_b) {
            plan.norms_b[row] = norm;
        }
    }
}

/* Moves, and scales, a slab of two rows of a unit, and puts it into the panels of the operands that
 * they are of. first, i: the slab is the i-th from there on. count: rows that there are from the
 * upper one on; those beyond the last stay zeros. at: where the slab is in a panel. */
template <gd_metric kMetric>
__device__ __forceinline__ void put_slab(const Plan &plan, Share (&x)[2], ptrdiff_t d,
                                         ptrdiff_t first, int i, ptrdiff_t count, ptrdiff_t at,
                                         bool of_a, bool of_b)
{
    using R = Rules<kMetric>;
    if constexpr (R::shifts) {
        move_shares(x, plan.shift, Place(first, d), i);
        if (R::scalable && plan.weights.roots) {
            scale_shares(x, plan.weights.roots, Place(first, d), i);
        }
        if (count <= 8) {
            clear_beyond(x, count);
        }
    }
    if (of_a) {
        put_a(plan.panels_a + at, x[0], x[1]);
    }
    if (of_b) {
        put_b(plan.panels_b + at, x[0], x[1]);
    }
}

/* Rows beyond the last become zeros with the norm 1: nothing of theirs is guarded. */
template <gd_metric kMetric, bool kWords>
__global__ void __launch_bounds__(kPrepareThreads, 2)
    prepare(const __grid_constant__ Cdist<double> call, const __grid_constant__ Plan plan,
            bool same, int log_warps)
{
    using R = Rules<kMetric>;
    __shared__ double squares[kPrepareWarps * kEachSlabs][2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warps = 1 << log_warps, own = warp & (warps - 1);
    const ptrdiff_t units_a = plan.suspects.tiles_down * kUnits;
    const ptrdiff_t units_b = plan.suspects.parts_across * kPanelUnits;
    const ptrdiff_t index = (blockIdx.x * (ptrdiff_t)kPrepareWarps + warp) >> log_warps;
    const bool of_a = index < units_a,
               there = index < (same ? max(units_a, units_b) : units_a + units_b);
    const Points<double> &points = of_a ? call.a : call.b;
    const ptrdiff_t unit = index - (of_a || same ? 0 : units_a);
    const bool of_b = same ? unit < units_b : !of_a;
    const ptrdiff_t upper = unit * kUnitRows + lane / 4;
    const double *const rows[2] = {points.data + points.clamp(upper) * points.row_stride,
                                   points.data + points.clamp(upper + 8) * points.row_stride};
    Share x[kEachSlabs][2];
    const auto load = [&](ptrdiff_t first) {
#pragma unroll
        for (int i = 0; i < kEachSlabs; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const bool exists = there && upper + h * 8 < points.count;
                load_share<kWords>(x[i][h], rows[h], points.col_stride,
                                   Place(first, exists ? call.d : 0), i);
            }
        }
    };
    ptrdiff_t first = own * kEachSlabs;
    if constexpr (R::shifts) {
        load(first); /* the steps before do not write what this reads */
    }
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        begin_suspects(plan);
    }
    if (plan.suspects.direct()) {
        return;
    }
    if (call.packed()) {
        plan.suspects.clear();
    }
    if constexpr (!R::shifts) {
        load(first);
    }
    const ptrdiff_t panel =
        unit / kPanelUnits * plan.slabs * kPanelWords + unit % kPanelUnits * kUnitWords;
    Sum sums[2];
    for (ptrdiff_t round = 0; round < plan.slabs; round += kEachSlabs << log_warps) {
#pragma unroll
        for (int i = 0; i < kEachSlabs; ++i) {
            const ptrdiff_t slab = first + i;
            if (slab >= plan.slabs) {
                break;
            }
            if (there) {
                put_slab<kMetric>(plan, x[i], call.d, first, i, points.count - upper,
                                  panel + slab * kPanelWords, of_a, of_b);
            }
            take_squares(x[i], warps == 1, sums, squares[warp * kEachSlabs + i]);
        }
        first += kEachSlabs << log_warps;
        if (first < plan.slabs) {
            load(first);
        }
        if (warps > 1) {
            __syncthreads();
            if (own < 2) {
                const int count = (int)min(plan.slabs - round, (ptrdiff_t)kEachSlabs << log_warps);
                for (int i = 0; i < count; ++i) {
                    sums[0].add(squares[(warp - own) * kEachSlabs + i][own][lane]);
                }
            }
            __syncthreads();
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        /* With several warps one has the upper rows' sums, the next the lower ones'. */
        const int low = warps == 1 ? h : own;
        put_norm<kMetric>(plan, points, sums[h], upper + low * 8, of_a, of_b,
                          there && lane % 4 == 0 && (warps == 1 || (h == 0 && own < 2)));
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
