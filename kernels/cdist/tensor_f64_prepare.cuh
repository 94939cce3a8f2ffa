/* tensor_f64_prepare.cuh: from the caller's rows to the panels and norms of tensor_f64.cuh.
 *
 * A block takes a unit of 16 rows, a warp two of their norms; if the operands are the same rows, it
 * makes both copies of them. Both operands are read twice, the second time mostly from cache, and
 * written once: for 16384 x 128 on both sides 67 MB, some 20 us of an H200's memory. */
#ifndef GPUDIST_TENSOR_F64_PREPARE_CUH
#define GPUDIST_TENSOR_F64_PREPARE_CUH

#include "tensor_f64.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kPrepareThreads = 256;

/* A sum in two numbers: what the first loses in rounding is kept in the second. Norms need that,
 * since they are added up in full only to cancel. */
struct Sum {
    double high = 0, low = 0;

    __device__ __forceinline__ void add(double x)
    {
        const double before = high;
        high = before + x;
        const double taken = high - before;
        low += (before - (high - taken)) + (x - taken);
    }
    __device__ __forceinline__ void add_square(double x)
    {
        const double square = __dmul_rn(x, x);
        add(square);
        low += fma(x, x, -square);
    }
};

/* The row's norm, see Rules. Comparisons with NaN are false, and one NaN or infinity makes the sum
 * NaN. */
template <gd_metric kMetric, typename X>
__device__ __forceinline__ double norm_of(const X &x, ptrdiff_t d)
{
    using R = Rules<kMetric>;
    Sum sum;
    bool some = false; /* squares may vanish */
    for (ptrdiff_t k = threadIdx.x % 32; k < d; k += 32) {
        const double y = x(k);
        sum.add_square(y);
        some |= y != 0;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const double high = __shfl_xor_sync(~0u, sum.high, step);
        const double low = __shfl_xor_sync(~0u, sum.low, step);
        sum.add(high);
        sum.low += low;
    }
    some = __any_sync(~0u, some);
    const double squares = sum.high + sum.low;
    const bool usual = squares <= R::most && (R::product || !some || squares >= R::least);
    return !usual ? -__longlong_as_double(0x7ff0000000000000) : R::product ? 0.0 : squares;
}

/* Rows beyond the last become zeros with the norm 1: nothing of theirs is guarded. So do, but for
 * the norm, rows that are computed directly, as NaN or infinity would make sums NaN. */
template <gd_metric kMetric>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare(const __grid_constant__ Cdist<double> call, const __grid_constant__ Plan plan,
            bool same)
{
    __shared__ bool zeros[kUnitRows];
    follow();
    if (plan.marks.direct()) {
        return;
    }
    if (call.packed()) {
        plan.marks.clear();
    }
    const ptrdiff_t units_a = plan.marks.tiles_down * kUnits;
    const bool of_a = blockIdx.x < units_a;
    const Points<double> &points = of_a ? call.a : call.b;
    const ptrdiff_t unit = blockIdx.x - (of_a || same ? 0 : units_a), first = unit * kUnitRows;
    const bool of_b = same ? unit < plan.marks.parts_across * kPanelUnits : !of_a;
    const auto x = [&](int r, ptrdiff_t k) {
        const double y = points.at(first + r, k);
        return Rules<kMetric>::shifts ? plan.shift[k].move(y) : y;
    };
    for (int r = threadIdx.x / 32; r < kUnitRows; r += kPrepareThreads / 32) {
        double norm = 1;
        if (first + r < points.count) {
            norm = norm_of<kMetric>([&](ptrdiff_t k) { return x(r, k); }, call.d);
        }
        if (threadIdx.x % 32 == 0) {
            if (of_a) {
                plan.norms_a[first + r] = norm;
            }
            if (of_b) {
                plan.norms_b[first + r] = norm;
            }
            zeros[r] = first + r >= points.count || isinf(norm);
        }
    }
    __syncthreads();
    const auto value = [&](int r, ptrdiff_t k) { return zeros[r] || k >= call.d ? 0.0 : x(r, k); };
    const ptrdiff_t panel = unit / kPanelUnits * plan.slabs * kPanelWords;
    const ptrdiff_t in_panel = unit % kPanelUnits * kUnitWords;
    for (ptrdiff_t i = threadIdx.x; i < plan.slabs * kUnitWords; i += kPrepareThreads) {
        const ptrdiff_t slab = i / kUnitWords;
        const int word = (int)(i % kUnitWords), g = word % 32 / 4, t = word % 4;
        const int quarter = word / 32;
        const ptrdiff_t at = panel + slab * kPanelWords + in_panel + word;
        double2 both;
        if (of_a) {
            const ptrdiff_t k = slab * kDims + quarter / 2 * 8 + t * 2 + quarter % 2;
            both.x = value(g, k);
            both.y = value(g + 8, k);
            plan.panels_a[at] = both;
        }
        if (of_b) {
            const ptrdiff_t k = slab * kDims + quarter % 2 * 8 + t * 2;
            both.x = value(quarter / 2 * 8 + g, k);
            both.y = value(quarter / 2 * 8 + g, k + 1);
            plan.panels_b[at] = both;
        }
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
