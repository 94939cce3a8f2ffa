/* rows.cuh: from the caller's rows to moved values and norms, in one order of additions
 * wherever that is done: by prepare.cuh ahead of the products of many rows, and by
 * multiply_few.cuh along with those of few.
 *
 * A lane (g, t) = (lane / 4, lane % 4) of a warp has of every 8 dimensions 2t and 2t + 1, of the
 * rows that it has: what the tensor cores' instruction wants of it. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_ROWS_CUH
#define GPUDIST_CDIST_PRODUCT_F64_ROWS_CUH

#include "cdist/product_f64/operands.cuh"

namespace gd {
namespace tensor_f64 {

/* What the first step after the centre does for those that follow the products: nothing is suspect
 * yet. One thread does it. */
__device__ __forceinline__ void begin_suspects(const Plan &plan)
{
    *plan.suspects.total = 0;
    if (plan.terms.lost) {
        *plan.terms.lost = 0;
    }
    if (!plan.by_itself && plan.one_group()) {
        plan.suspects.keep_order();
    }
}

/* A lane's share of a slab of one row: two dimensions of each half. */
using Share = double2[2];

/* A lane's way along the dimensions of a row, or of what there is of each dimension: it stands at
 * the lane's first value of a slab, and slabs are counted from there. */
struct Place {
    ptrdiff_t dim;
    int left; /* dimensions from there on; more than a million are a million */

    __device__ __forceinline__ Place(ptrdiff_t slab, ptrdiff_t d)
        : dim(slab * kDims + threadIdx.x % 4 * 2), left((int)min(d - dim, (ptrdiff_t)1 << 20))
    {
    }
};

/* Loads a share as it stands, from a row that begins at `row`; what is beyond the row is 0. kWords:
 * the row can be read by aligned words, the last of which is whole. */
template <bool kWords>
__device__ __forceinline__ void load_share(Share &x, const double *row, ptrdiff_t col_stride,
                                           const Place &place, int slab)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int k = slab * kDims + half * 8;
        const double *const from = row + (place.dim + k) * (kWords ? 1 : col_stride);
        x[half] = double2{};
        if (kWords && k < place.left) {
            x[half] = __ldg(reinterpret_cast<const double2 *>(from));
        }
        if (!kWords && k < place.left) {
            x[half].x = __ldg(from);
        }
        if (!kWords && k + 1 < place.left) {
            x[half].y = __ldg(from + col_stride);
        }
    }
}

/* Where a share's dimensions move: of each half two. */
using ShareShift = Shift<double>[2][2];

/* Loads the shifts of a lane's dimensions; those beyond the last one are 0. */
__device__ __forceinline__ void load_shift(ShareShift &to, const Shift<double> *shift,
                                           const Place &place, int slab)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = slab * kDims + i / 2 * 8 + i % 2;
        to[i / 2][i % 2] = {};
        if (k < place.left) {
            to[i / 2][i % 2] = shift[place.dim + k];
        }
    }
}

__device__ __forceinline__ void move_share(Share &x, const ShareShift &shift)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        x[half].x = shift[half][0].move(x[half].x);
        x[half].y = shift[half][1].move(x[half].y);
    }
}

/* Multiplies shares of kRows rows, which have moved, by the roots of their dimensions' weights.
 * Beyond the last dimension they stay 0. */
template <int kRows>
__device__ __forceinline__ void scale_shares(Share (&x)[kRows], const double *roots,
                                             const Place &place, int slab)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int k = slab * kDims + half * 8;
        const double root_x = k < place.left ? roots[place.dim + k] : 0.0;
        const double root_y = k + 1 < place.left ? roots[place.dim + k + 1] : 0.0;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            x[i][half].x *= root_x;
            x[i][half].y *= root_y;
        }
    }
}

/* Moves a share of each of kRows rows. */
template <int kRows>
__device__ __forceinline__ void move_shares(Share (&x)[kRows], const Shift<double> *shift,
                                            const Place &place, int slab)
{
    ShareShift by;
    load_shift(by, shift, place, slab);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        move_share(x[i], by);
    }
}

/* The sum of a share's squares. Where squares vanish the sum is not nothing, so that the norm comes
 * out as too small, and the row is computed directly. NaN may have a sign. By integers, as float64
 * is what everybody waits for. */
__device__ __forceinline__ double squares_of(const Share &x)
{
    constexpr unsigned kTiny = (unsigned)(1023 - 1000) << 20; /* the upper half of 2^-1000 */
    double sum = x[0].x * x[0].x;
    sum = fma(x[0].y, x[0].y, sum);
    sum = fma(x[1].x, x[1].x, sum);
    sum = fma(x[1].y, x[1].y, sum);
    const int high = __double2hiint(x[0].x) | __double2hiint(x[0].y) | __double2hiint(x[1].x) |
                     __double2hiint(x[1].y);
    const int low = __double2loint(x[0].x) | __double2loint(x[0].y) | __double2loint(x[1].x) |
                    __double2loint(x[1].y);
    const bool vanishes =
        (unsigned)__double2hiint(sum) < kTiny && ((unsigned)high << 1 | (unsigned)low) != 0;
    return __hiloint2double(vanishes ? (int)kTiny : __double2hiint(sum),
                            vanishes ? 0 : __double2loint(sum));
}

/* A sum in two numbers: what the first loses in rounding is kept in the second. Norms need that,
 * since they are added up in full only to cancel. Which of two sums is joined to the other makes no
 * difference. */
struct Sum {
    double high = 0, low = 0;

    __device__ __forceinline__ void add(double x)
    {
        const double before = high;
        high = before + x;
        const double taken = high - before;
        low += (before - (high - taken)) + (x - taken);
    }
    __device__ __forceinline__ void join(double other_high, double other_low)
    {
        low += other_low;
        add(other_high);
    }
};

/* A row's norm, see Rules, from the sums of its four lanes, each of which gets it; a lane adds its
 * shares slab by slab. Comparisons with NaN are false, and one NaN or infinity makes the sum NaN or
 * infinite. */
template <gd_metric kMetric>
__device__ __forceinline__ double norm_of(Sum sum)
{
    using R = Rules<kMetric>;
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const double high = __shfl_xor_sync(~0u, sum.high, step);
        const double low = __shfl_xor_sync(~0u, sum.low, step);
        sum.join(high, low);
    }
    const double squares = sum.high + sum.low;
    const bool usual = squares <= R::most && (R::product || squares == 0 || squares >= R::least);
    return !usual ? -__longlong_as_double(0x7ff0000000000000) : R::product ? 0.0 : squares;
}

/* The words of two rows' shares, eight rows apart, in a unit of `a` and of `b`: a lane has a word
 * in each quarter, see operands.cuh. */
__device__ __forceinline__ void put_a(double2 *unit, const Share &upper, const Share &lower)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        unit[half * 64 + lane] = {upper[half].x, lower[half].x};
        unit[half * 64 + 32 + lane] = {upper[half].y, lower[half].y};
    }
}
__device__ __forceinline__ void put_b(double2 *unit, const Share &upper, const Share &lower)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        unit[half * 32 + lane] = upper[half];
        unit[64 + half * 32 + lane] = lower[half];
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
