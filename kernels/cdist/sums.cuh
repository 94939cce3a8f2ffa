/* sums.cuh: the terms of sums.cu, and what becomes of their sums.
 *
 * The primitives of metric_terms.h as scalars of a CUDA thread. Many of them lean on what happens
 * elsewhere: elements are prepared once, when they come to shared memory and serve 64 results and
 * more, and float32 results with a doubtful sum are computed again in float64. A primitive may
 * therefore answer NaN, or anything that leaves the sum below its bound, where it is not good. */
#ifndef GPUDIST_SUMS_CUH
#define GPUDIST_SUMS_CUH

#include "metrics.cuh"

#include <float.h>

namespace gd {
namespace sums {

/* ---------------------------------------------------------------- what belongs to a kind */

#define GD_COUNT_SUMS(name, count) kSum == GD_SUM_##name ? count:
template <int kSum>
constexpr int kCount = GD_SUMS(GD_COUNT_SUMS) 0;
#undef GD_COUNT_SUMS

/* The other kinds belong to metrics without weights. */
template <int kSum>
constexpr bool kTakesWeights =
    kSum != GD_SUM_ENTROPY && kSum != GD_SUM_RELATIVE_ENTROPY && kSum != GD_SUM_PARTIAL_TRUTHS;

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

__device__ __forceinline__ float base2_logarithm(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float base2_power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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
    r = __fmaf_rn(p.p, base2_logarithm(m), r);
    return base2_power(r) * __int_as_float((__float_as_int(shifted) << 23) + (127 << 23));
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
__device__ __forceinline__ float gd_power(float x, const Exponent &p) { return power(x, p); }
__device__ __forceinline__ double gd_power(double x, double p) { return pow(x, p); }
/* One instruction, where a comparison and a selection would be two. */
__device__ __forceinline__ float gd_unequal(float x, float y)
{
    float one;
    asm("set.neu.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y));
    return one;
}
__device__ __forceinline__ double gd_unequal(double x, double y) { return x != y; }
template <typename R>
__device__ __forceinline__ R gd_true(R x)
{
    return gd_unequal(x, R(0));
}

/* Good for subnormal x too, unlike the one of metrics.cuh, and 0 for 0; its error is 2**-23. */
__device__ __forceinline__ float gd_root(float x)
{
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
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
    const float far =
        __fmaf_rn(u, base2_logarithm(u), v * base2_logarithm(fmaxf(v, FLT_MIN))); /* 0 log 0: 0 */
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

/* ---------------------------------------------------------------- elements in shared memory */

/* What a slab holds of an element: kParts numbers, of a row of a or of b. */
template <int kSum, typename R, bool kOfA>
struct Element {
    using type = R;
    static constexpr int parts = 1;

    template <typename T>
    static __device__ __forceinline__ void split(T x, R *to)
    {
        to[0] = (R)x;
        /* A ratio's denominator has to be 0 or a normal number, and its reciprocal too. */
        if constexpr (kSum == GD_SUM_RATIOS && sizeof(R) == sizeof(float)) {
            const float size = fabsf(x);
            to[0] = size == 0 || (size >= 0x1p-125f && size <= 0x1p125f) ? x : NAN;
        }
    }
    static __device__ __forceinline__ type join(const R *part, int) { return part[0]; }
};

/* Not inlined: its float64 arithmetic would be unrolled in each place. */
static __device__ __noinline__ float2 logarithm(float x)
{
    const double exact = log((double)x);
    const float high = (float)exact;
    /* Of an infinity, the rest is none. A negative number's is NaN, which makes sums doubtful. */
    return make_float2(high, isinf(high) ? 0.0f : (float)(exact - (double)high));
}

template <>
struct Element<GD_SUM_RELATIVE_ENTROPY, float, true> {
    using type = WithLogarithm;
    static constexpr int parts = 3;

    static __device__ __forceinline__ void split(float x, float *to)
    {
        const float2 log_x = logarithm(x);
        to[0] = x, to[1] = log_x.x, to[2] = log_x.y;
    }
    /* Neighbours' parts are kStep apart. */
    static __device__ __forceinline__ type join(const float *part, int step)
    {
        return {part[0], {part[step], part[2 * step]}};
    }
};

template <>
struct Element<GD_SUM_RELATIVE_ENTROPY, float, false> {
    using type = Logarithm;
    static constexpr int parts = 2;

    static __device__ __forceinline__ void split(float x, float *to)
    {
        const float2 log_x = logarithm(x);
        to[0] = log_x.x, to[1] = isinf(x) ? NAN : log_x.y;
    }
    static __device__ __forceinline__ type join(const float *part, int step)
    {
        return {part[0], part[step]};
    }
};

/* ---------------------------------------------------------------- terms */

template <bool kWeighted, typename R>
__device__ __forceinline__ R weigh(R x, R weight)
{
    return kWeighted ? x * weight : x;
}

/* Adds a column's terms to the sums s. P: the type of an exponent. */
template <int kSum, bool kWeighted, typename R, typename A, typename B, typename P>
__device__ __forceinline__ void add(R *s, const A &a, const B &b, [[maybe_unused]] R weight,
                                    [[maybe_unused]] const P &p)
{
#define GD_WEIGH(x) weigh<kWeighted, R>(x, weight)
#define GD_ADD_IF(name, count)             \
    if constexpr (kSum == GD_SUM_##name) { \
        GD_ADD_##name(s, a, b);            \
    }
    GD_SUMS(GD_ADD_IF)
#undef GD_ADD_IF
#undef GD_WEIGH
}

template <int kSum, typename R>
__device__ __forceinline__ R join(R total, R acc)
{
    return kSum == GD_SUM_LARGEST ? gd_max_abs(total, acc) : total + acc;
}

/* A column's weight: only whether there is one for a maximum, NaN where float32 cannot hold it. */
template <int kSum, typename R>
__device__ __forceinline__ R weight_of(double weight)
{
    if constexpr (kSum == GD_SUM_LARGEST) {
        return weight > 0;
    }
    else if constexpr (sizeof(R) == sizeof(float)) {
        return weight == 0 || (weight >= FLT_MIN && weight <= kLargestWeight<kSum>) ? (R)weight
                                                                                    : NAN;
    }
    else {
        return weight;
    }
}

/* ---------------------------------------------------------------- a call, and what becomes of its
 * sums */

template <typename T>
struct Call : Cdist<T> {
    gd_metric metric;
    const double *weights, *a_terms, *b_terms;
    double p, weight_sum, scale;
    Exponent power, root; /* p and 1 / p */
    float least;          /* last sum that is good, where sums can be too small */

    __device__ __forceinline__ double terms(ptrdiff_t row, ptrdiff_t col) const
    {
        return a_terms ? a_terms[row] + b_terms[col] : 0;
    }
};

/* p in the type that terms of the given type want. */
template <typename T>
__device__ __forceinline__ const Exponent &exponent_for(const Call<T> &call, float)
{
    return call.power;
}
template <typename T>
__device__ __forceinline__ double exponent_for(const Call<T> &call, double)
{
    return call.p;
}

GD_DEFINE_FINISH(static __device__ __forceinline__, distance, float, sqrtf, cbrtf, powf)
GD_DEFINE_FINISH(static __device__ __forceinline__, distance, double, sqrt, cbrt, pow)
GD_DEFINE_FINISH_TRUTHS(static __device__ __noinline__, truths_distance, float)
GD_DEFINE_FINISH_TRUTHS(static __device__ __noinline__, truths_distance, double)

/* Exponents above 1 magnify the error of `power`. */
static __device__ __noinline__ double wide_power(double x, double p) { return pow(x, p); }

/* Float64 in either type: the terms cancel the sum of rows that do not add up to 1. */
static __device__ __noinline__ double hellinger(double sum, double terms)
{
    return distance(GD_HELLINGER, &sum, 0.0, 0.0, 0.0, terms);
}

/* The metric of sums that have but one; as a constant, it leaves of `distance` what it needs. */
template <int kSum>
constexpr __device__ gd_metric metric_of()
{
    return kSum == GD_SUM_DIFFERENCE_AND_SUM ? GD_BRAYCURTIS
           : kSum == GD_SUM_UNEQUAL          ? GD_HAMMING
           : kSum == GD_SUM_ENTROPY          ? GD_JENSENSHANNON
           : kSum == GD_SUM_PARTIAL_TRUTHS   ? GD_DICE
           : kSum == GD_SUM_UNEQUAL_AND_TRUE ? GD_DICE
           : kSum == GD_SUM_CUBES || kSum == GD_SUM_FOURTH_POWERS || kSum == GD_SUM_SQUARE_ROOTS ||
                   kSum == GD_SUM_POWERS
               ? GD_MINKOWSKI
               : GD_CITYBLOCK; /* or another that is the sum itself */
}
template <int kSum>
__device__ __forceinline__ double exponent_of(double p)
{
    return kSum == GD_SUM_CUBES           ? 3
           : kSum == GD_SUM_FOURTH_POWERS ? 4
           : kSum == GD_SUM_SQUARE_ROOTS  ? 0.5
                                          : p;
}

template <int kSum, typename R, typename T>
__device__ __forceinline__ R finish(const Call<T> &call, const R *s, ptrdiff_t row, ptrdiff_t col)
{
    constexpr bool kSingle = sizeof(R) == sizeof(float);
    if constexpr (kSum == GD_SUM_TRUTHS) {
        /* Products of weights may be too large or too small for float32. */
        if (kSingle && call.metric == GD_YULE) {
            return (R)truths_distance(GD_YULE, (double)s[0], (double)s[1], (double)s[2],
                                      (double)s[3]);
        }
        return truths_distance(call.metric, s[0], s[1], s[2], s[3]);
    }
    else if constexpr (kSum == GD_SUM_POWERS && kSingle) {
        return call.p < 1 ? (R)wide_power(s[0], 1 / call.p) : power(s[0], call.root);
    }
    else if constexpr (kSum == GD_SUM_SQUARES) {
        return call.metric == GD_HELLINGER   ? (R)hellinger(s[0], call.terms(row, col))
               : call.metric == GD_EUCLIDEAN ? distance(GD_EUCLIDEAN, s, R(0), R(0), R(0), R(0))
                                             : s[0];
    }
    else {
        const double terms = kSum == GD_SUM_ENTROPY ? call.terms(row, col) : 0;
        return distance(metric_of<kSum>(), s, (R)exponent_of<kSum>(call.p), (R)call.weight_sum,
                        (R)call.scale, (R)terms);
    }
}

/* Whether float32 sums are good. Relative entropy may well be infinite. */
template <int kSum, bool kWeighted, typename R, typename T>
__device__ __forceinline__ bool good(const Call<T> &call, const R *s)
{
    bool yes = true;
    if constexpr (kDoubtful<kSum, kWeighted, R>) {
#pragma unroll
        for (int i = 0; i < kCount<kSum>; ++i) {
            yes &= kSum == GD_SUM_RELATIVE_ENTROPY ? s[i] == s[i] : s[i] <= FLT_MAX;
        }
        if constexpr (kBounded<kSum, R>) {
            yes &= s[kCount<kSum> - 1] >= call.least;
        }
    }
    return yes;
}

/* The power of two by which differences are divided before they are raised to a power, so that the
 * largest cannot over- or underflow even float64. */
static __device__ double unit_of(const Call<float> &call, ptrdiff_t row, ptrdiff_t col)
{
    double largest = 0;
    for (ptrdiff_t k = 0; k < call.d; ++k) {
        largest = fmax(largest, fabs((double)call.a.at(row, k) - (double)call.b.at(col, k)));
    }
    return largest > 0 && largest <= DBL_MAX ? exp2((double)ilogb(largest)) : 1;
}

/* Computes a run's results that are NaN again, in float64 from global memory, as gd::repair does.
 */
template <int kSum, bool kWeighted>
__device__ __noinline__ void repair(const Call<float> &call, ptrdiff_t row, ptrdiff_t end,
                                    Run<float> run)
{
    using E = Element<kSum, double, true>;
    for (; row < end; ++row) {
        for (int j = 0; j < run.count; ++j) {
            const ptrdiff_t col = run.first + j * run.step;
            float *const at = call.out + row * call.out_stride + col;
            if (*at == *at) {
                continue;
            }
            const double unit = kSum == GD_SUM_POWERS ? unit_of(call, row, col) : 1;
            double total[kCount<kSum>] = {};
            for (ptrdiff_t k = 0; k < call.d; ++k) {
                double a, b, weight = 1;
                E::split(call.a.at(row, k) / unit, &a);
                E::split(call.b.at(col, k) / unit, &b);
                if constexpr (kWeighted) {
                    weight = weight_of<kSum, double>(call.weights[k]);
                }
                add<kSum, kWeighted, double>(total, a, b, weight, call.p);
            }
            *at = (float)(unit * finish<kSum, double>(call, total, row, col));
        }
    }
}

}  // namespace sums
}  // namespace gd
#endif
