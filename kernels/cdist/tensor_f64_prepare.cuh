/* tensor_f64_prepare.cuh: from the caller's rows to the panels and norms of tensor_f64.cuh.
 *
 * A block takes a unit of 16 rows, a warp two of their norms. Both operands are read twice, the
 * second time mostly from cache, and written once: for 16384 x 128 on both sides 67 MB, some 20 us
 * of an H200's memory. */
#ifndef GPUDIST_TENSOR_F64_PREPARE_CUH
#define GPUDIST_TENSOR_F64_PREPARE_CUH

#include "tensor_f64.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kPrepareThreads = 256;

/* Distances do not change when all rows move together, but norms do: near the middle of the rows
 * they are small, and less cancels. The shift is a mean of rows of all of `b`, in an order that
 * depends on nothing else, so a row's results do not depend on other rows of `a`. Elements that are
 * not finite are left out; any shift is right. */
constexpr int kShiftRows = 128, kShiftDims = 32, kShiftThreads = 16;
__global__ void __launch_bounds__(kShiftDims *kShiftThreads)
    find_shift(const __grid_constant__ Points<double> b, ptrdiff_t d, double *shift)
{
    __shared__ double sums[kShiftThreads][kShiftDims];
    const ptrdiff_t k = (ptrdiff_t)blockIdx.x * kShiftDims + threadIdx.x;
    const ptrdiff_t rows = min(b.count, (ptrdiff_t)kShiftRows), step = b.count / rows;
    double sum = 0;
    if (k < d) {
#pragma unroll
        for (int i = 0; i < kShiftRows / kShiftThreads; ++i) {
            const ptrdiff_t row = i * kShiftThreads + threadIdx.y;
            const double x = row < rows ? b.at(row * step, k) : 0.0;
            sum += isfinite(x) ? x / (double)rows : 0.0; /* the sum itself might overflow */
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && k < d) {
        for (int i = 1; i < kShiftThreads; ++i) {
            sum += sums[i][threadIdx.x];
        }
        shift[k] = sum;
    }
}

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

/* The row's norm, see Rules. Within the range no square or product leaves that of float64.
 * Comparisons with NaN are false, and one NaN or infinity makes the sum NaN. */
template <gd_metric kMetric, typename X>
__device__ __forceinline__ double norm_of(const X &x, ptrdiff_t d, double keep)
{
    using R = Rules<kMetric>;
    Sum sum;
    bool some = false;
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
    const bool usual = squares <= 0x1p1000 && (R::product || !some || squares >= 0x1p-900);
    return !usual       ? -__longlong_as_double(0x7ff0000000000000)
           : R::product ? 0.0
           : some       ? keep * squares
                        : -0.0;
}

/* Rows beyond the last become zeros with the norm 1: nothing of theirs is guarded. So do, but for
 * the norm, rows that are computed directly, as NaN or infinity would make sums NaN. */
template <gd_metric kMetric>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare(const __grid_constant__ Cdist<double> call, const __grid_constant__ Plan plan)
{
    __shared__ bool zeros[kUnit];
    const ptrdiff_t units_a = plan.tiles_down * (kTileRows / kUnit);
    const bool of_a = blockIdx.x < units_a;
    const Points<double> &points = of_a ? call.a : call.b;
    const ptrdiff_t unit = blockIdx.x - (of_a ? 0 : units_a), first = unit * kUnit;
    const auto x = [&](int r, ptrdiff_t k) {
        const double y = points.at(first + r, k);
        return Rules<kMetric>::shifts ? y - __ldg(plan.shift + k) : y;
    };
    for (int r = threadIdx.x / 32; r < kUnit; r += kPrepareThreads / 32) {
        double norm = 1;
        if (first + r < points.count) {
            norm = norm_of<kMetric>([&](ptrdiff_t k) { return x(r, k); }, call.d, plan.keep);
        }
        if (threadIdx.x % 32 == 0) {
            (of_a ? plan.norms_a : plan.norms_b)[first + r] = norm;
            zeros[r] = first + r >= points.count || isinf(norm);
        }
    }
    __syncthreads();
    const auto value = [&](int r, ptrdiff_t k) { return zeros[r] || k >= call.d ? 0.0 : x(r, k); };
    constexpr int kUnits = kPart / kUnit;
    double2 *const words = (of_a ? plan.panels_a : plan.panels_b) +
                           unit / kUnits * plan.slabs * kPanelWords + unit % kUnits * kUnitWords;
    for (ptrdiff_t i = threadIdx.x; i < plan.slabs * kUnitWords; i += kPrepareThreads) {
        const ptrdiff_t slab = i / kUnitWords;
        const int word = (int)(i % kUnitWords), g = word % 32 / 4, t = word % 4;
        const int quarter = word / 32;
        double2 both;
        if (of_a) {
            const ptrdiff_t k = slab * kDims + quarter / 2 * 8 + t * 2 + quarter % 2;
            both.x = value(g, k);
            both.y = value(g + 8, k);
        }
        else {
            const ptrdiff_t k = slab * kDims + quarter % 2 * 8 + t * 2;
            both.x = value(quarter / 2 * 8 + g, k);
            both.y = value(quarter / 2 * 8 + g, k + 1);
        }
        words[slab * kPanelWords + word] = both;
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
