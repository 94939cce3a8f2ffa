/* primitives.cuh: the kinds of sums, and the primitives of metric_terms.h as scalars of a CUDA
 * thread.
 *
 * Many primitives lean on what happens elsewhere: elements are prepared once, when they come to
 * shared memory and serve 32 results and more, and float32 results with a doubtful sum are computed
 * again in float64. A primitive may therefore answer NaN, or anything that leaves the sum below its
 * bound, where it is not good. */
#ifndef GPUDIST_CDIST_SUMS_PRIMITIVES_CUH
#define GPUDIST_CDIST_SUMS_PRIMITIVES_CUH

#include "common/metrics.cuh"

#include <float.h>

namespace gd {
namespace sums {

/* ---------------------------------------------------------------- what belongs to a kind */

/* Swift forms of kinds (swift.cuh); all are one sum. */
enum { kSwiftMagnitudes = GD_NO_SUMS, kSwiftRatios, kSwiftEntropy, kSwiftPowers };

#define GD_COUNT_SUMS(name, count, ...) kSum == GD_SUM_##name ? count:
template <int kSum>
constexpr int kCount = GD_SUMS(GD_COUNT_SUMS) 1;
#undef GD_COUNT_SUMS

/* The other kinds belong to metrics without weights. */
template <int kSum>
constexpr bool kTakesWeights =
    kSum != GD_SUM_ENTROPY && kSum != GD_SUM_RELATIVE_ENTROPY && kSum != GD_SUM_PARTIAL_TRUTHS;

/* Whether sums need a fresh accumulator every GD_FOLD dimensions: maxima and counts do not. */
template <int kSum, bool kWeighted>
constexpr bool kFolds = kSum != GD_SUM_LARGEST && (kSum != GD_SUM_UNEQUAL || kWeighted);

/* The type of the arithmetic. Partial truths cancel without bounds: they are summed in float64. */
template <int kSum, typename T>
struct RealOf {
    using type = T;
};
template <>
struct RealOf<GD_SUM_PARTIAL_TRUTHS, float> {
    using type = double;
};
template <int kSum, typename T>
using Real = typename RealOf<kSum, T>::type;

/* Whether a sum can be doubtful; kBounded: whether the last may be for being small. */
template <int kSum, typename R>
constexpr bool kBounded =
    sizeof(R) == sizeof(float) && (GD_SUM_IS_OF_POWERS(kSum) || kSum == GD_SUM_DIFFERENCE_AND_SUM);
template <int kSum, bool kWeighted, typename R>
constexpr bool kDoubtful = sizeof(R) == sizeof(float) && kSum != GD_SUM_LARGEST &&
                           (kWeighted || kBounded<kSum, R> || kSum == GD_SUM_RATIOS ||
                            kSum == GD_SUM_ENTROPY || kSum == GD_SUM_RELATIVE_ENTROPY);

/* ---------------------------------------------------------------- powers
 *
 * powf takes some 60 instructions, as it has to hold for any exponent. Here, with x = 2^e m and m
 * around 1, x^p is 2^n 2^r: n is p e rounded to an integer, r = (p e - n) + p log2 m. The product
 * p e is exact in two parts, which leaves the special-function unit small numbers: the error is
 * that of its logarithm, 2**-22 absolute, and does not grow with x. */
struct Exponent {
    float p, high, low; /* high has 16 bits, so that its product with any e is exact */

    Exponent() = default;
    __host__ __device__ explicit Exponent(double exponent)
        : p((float)exponent),
          high((float)((double)(float)(exponent * 257) - (double)(float)(exponent * 256))),
          low((float)(exponent - (double)high))
    {
    }
};

/* For normal x: a guess from its logarithm, and a step of Newton. */
__device__ __forceinline__ float cube_root(float x)
{
    const float y = approximate_exp2_ftz(approximate_log2_ftz(x) * (1.0f / 3)), square = y * y;
    return __fmaf_rn(__fmaf_rn(-square, y, x), reciprocal(3 * square), y);
}

/* For x = 0 and subnormal x this is 2**(-127 p) or little more: too little to be seen in a sum that
 * passes for good (smallest_good_power_sum). Infinite x gives NaN. */
__device__ __forceinline__ float power(float x, const Exponent &p)
{
    constexpr float kMagic = 0x1.8p23f; /* added to a number, it leaves the nearest integer */
    const int bits = __float_as_int(fabsf(x));
    const int e = (bits - 0x3f3504f3) >> 23; /* m is within sqrt(1/2) and sqrt(2) */
    const float m = __int_as_float(bits - e * (1 << 23));
    const float exponent = __int_as_float(__float_as_int(kMagic) + e) - kMagic;
    /* The clamps keep 2^n a number; what they cut off is in r, where it over- or underflows. */
    const float shifted =
        fminf(fmaxf(__fmaf_rn(p.high, exponent, kMagic), kMagic - 126), kMagic + 127);
    float r = __fmaf_rn(p.high, exponent, kMagic - shifted);
    r = __fmaf_rn(p.low, exponent, r);
    r = __fmaf_rn(x, 0.0f, r); /* NaN, if x is not finite */
    r = __fmaf_rn(p.p, approximate_log2_ftz(m), r);
    return approximate_exp2_ftz(r) * __int_as_float((__float_as_int(shifted) << 23) + (127 << 23));
}

/* The least float32 sum of p-th powers that is good: 2**36 times what a subnormal difference can
 * add to it. Small p magnify any error of the sum, and none of their sums are good; nor are those
 * of huge p, whose product with an exponent is no float32 integer. */
inline float smallest_good_power_sum(double p)
{
    return p < 0.5 || p > 1024 ? (float)HUGE_VAL
                               : fmaxf(GD_F32_SQUARES_SAFE_MIN, (float)exp2(36 - 126 * p));
}

/* Weights beyond this times a term that lost digits to underflow could make a good sum bad. */
template <int kSum>
constexpr float kLargestWeight = kSum == GD_SUM_POWERS  ? 0x1p26f
                                 : kSum == GD_SUM_CUBES ? 0x1p88f
                                                        : FLT_MAX;

/* ---------------------------------------------------------------- primitives of metric_terms.h */

__device__ __forceinline__ float gd_abs(float x) { return fabsf(x); }
__device__ __forceinline__ double gd_abs(double x) { return fabs(x); }
__device__ __forceinline__ double gd_product(double x, double y) { return __dmul_rn(x, y); }
__device__ __forceinline__ float gd_power(float x, const Exponent &p) { return power(x, p); }
__device__ __forceinline__ double gd_power(double x, double p) { return pow(x, p); }
__device__ __forceinline__ float gd_unequal(float x, float y) { return one_if_unequal(x, y); }
__device__ __forceinline__ double gd_unequal(double x, double y) { return x != y; }
template <typename R>
__device__ __forceinline__ R gd_true(R x)
{
    return gd_unequal(x, R(0));
}

/* Good for subnormal x too, unlike the one of metrics.cuh, and 0 for 0; its error is 2**-23. */
__device__ __forceinline__ float gd_root(float x) { return approximate_sqrt(x); }
__device__ __forceinline__ double gd_root(double x) { return sqrt(x); }

/* y is 0, and then so is x, or a normal number whose reciprocal is one too (element). */
__device__ __forceinline__ float gd_ratio(float x, float y)
{
    return x * fminf(reciprocal(y), 0x1p126f);
}
__device__ __forceinline__ double gd_ratio(double x, double y) { return y == 0 ? 0 : x / y; }

/* With s = x + y and delta = (x - y) / s, this is (s / 2) h(delta),
 *   h = (1 + delta) log(1 + delta) + (1 - delta) log(1 - delta)
 *     = sum of delta^(2 k) / (k (2 k - 1)),
 * an even function: the logarithms where they do not cancel, the series elsewhere. Each step has
 * the same bits with x and y exchanged. Sums that come out NaN are doubtful in float32. */
__device__ __forceinline__ float gd_entropy(float x, float y)
{
    constexpr float kLog2 = 0.693147182f;
    const float s = x + y, inverse = fminf(reciprocal(s), 0x1p126f);
    const float delta = fabsf(x - y) * inverse, square = delta * delta;
    /* Up to delta = 0.35; in units of log 2, as the logarithms are. */
    float h = 1 / (45 * kLog2);
    h = __fmaf_rn(h, square, 1 / (28 * kLog2));
    h = __fmaf_rn(h, square, 1 / (15 * kLog2));
    h = __fmaf_rn(h, square, 1 / (6 * kLog2));
    h = __fmaf_rn(h, square, 1 / kLog2) * square;
    const float u = 1 + delta, v = 2 * fminf(x, y) * inverse;
    const float far = __fmaf_rn(u, approximate_log2_ftz(u),
                                v * approximate_log2_ftz(fmaxf(v, FLT_MIN))); /* 0 log 0: 0 */
    return s * (kLog2 / 2) * (delta < 0.35f ? h : far);
}

__device__ __forceinline__ double gd_entropy(double x, double y)
{
    if (!(x > 0) && !(y > 0)) {
        return 0;
    }
    const double s = x + y, delta = fabs(x - y) / s;
    if (delta < 0.125) {
        const double square = delta * delta;
        double h = 1.0 / 153;
        h = fma(h, square, 1.0 / 120);
        h = fma(h, square, 1.0 / 91);
        h = fma(h, square, 1.0 / 66);
        h = fma(h, square, 1.0 / 45);
        h = fma(h, square, 1.0 / 28);
        h = fma(h, square, 1.0 / 15);
        h = fma(h, square, 1.0 / 6);
        h = fma(h, square, 1.0);
        return s / 2 * (h * square);
    }
    const double u = 1 + delta, v = 1 - delta;
    return s / 2 * fma(u, log(u), v == 0 ? 0 : v * log(v));
}

/* log x to twice the digits of float32, so that a difference of two has the digits of one. */
struct Logarithm {
    float high, low;
};
struct WithLogarithm {
    float x;
    Logarithm log;
};

/* `element` makes the numbers such that this holds for x or y = 0 too: log 0 is -infinity, and the
 * maximum drops the NaN of log 0 - log 0. */
__device__ __forceinline__ float gd_relative_entropy(const WithLogarithm &x, const Logarithm &y)
{
    const float high = fmaxf(x.log.high - y.high, -FLT_MAX), low = x.log.low - y.low;
    return x.x * (high + low);
}

/* log1p of the excess of the larger over the smaller is good for all x and y; the smaller may be
 * too small to divide by. */
__device__ __forceinline__ double gd_relative_entropy(double x, double y)
{
    if (isnan(x) || isnan(y)) {
        return x + y;
    }
    if (x == 0 && y >= 0) {
        return 0;
    }
    if (!(x > 0 && y > 0)) {
        return HUGE_VAL;
    }
    const double excess = fabs(x - y) / fmin(x, y);
    const double log_ratio = excess <= DBL_MAX ? copysign(log1p(excess), x - y) : log(x) - log(y);
    return x * log_ratio;
}

}  // namespace sums
}  // namespace gd
#endif
