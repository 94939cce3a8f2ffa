/* terms.cuh: what shared memory holds of an element, and what two elements add to the sums. */
#ifndef GPUDIST_CDIST_SUMS_TERMS_CUH
#define GPUDIST_CDIST_SUMS_TERMS_CUH

#include "cdist/sums/primitives.cuh"

namespace gd {
namespace sums {

/* ---------------------------------------------------------------- elements in shared memory */

/* An element as a slab holds it: kParts numbers, of a row of a or of b. */
template <int kSum, typename R, bool kOfA>
struct Element {
    static constexpr int parts = 1;
    /* Whether `split` does anything. */
    static constexpr bool changes = kSum == GD_SUM_RATIOS && sizeof(R) == sizeof(float);

    template <typename T>
    static __device__ __forceinline__ void split(T x, float, R *to)
    {
        to[0] = (R)x;
        /* A ratio's denominator has to be 0 or a normal number, and its reciprocal too. */
        if constexpr (kSum == GD_SUM_RATIOS && sizeof(R) == sizeof(float)) {
            const float size = fabsf(x);
            to[0] = size == 0 || (size >= 0x1p-125f && size <= 0x1p125f) ? x : NAN;
        }
    }
    template <typename T>
    static __device__ __forceinline__ R join(const T *part, int)
    {
        return part[0];
    }
};

/* Not inlined: its float64 arithmetic would be unrolled in each place. */
static __device__ __noinline__ float2 logarithm(float x)
{
    const double exact = log((double)x);
    const float high = (float)exact;
    /* The rest of an infinity is none. A negative number's is NaN, which makes sums doubtful. */
    return make_float2(high, isinf(high) ? 0.0f : (float)(exact - (double)high));
}

template <>
struct Element<GD_SUM_RELATIVE_ENTROPY, float, true> {
    static constexpr int parts = 3;
    static constexpr bool changes = true;

    static __device__ __forceinline__ void split(float x, float, float *to)
    {
        const float2 log_x = logarithm(x);
        to[0] = x, to[1] = log_x.x, to[2] = log_x.y;
    }
    /* An element's parts are `step` apart. */
    static __device__ __forceinline__ WithLogarithm join(const float *part, int step)
    {
        return {part[0], {part[step], part[2 * step]}};
    }
};

template <>
struct Element<GD_SUM_RELATIVE_ENTROPY, float, false> {
    static constexpr int parts = 2;
    static constexpr bool changes = true;

    static __device__ __forceinline__ void split(float x, float, float *to)
    {
        const float2 log_x = logarithm(x);
        to[0] = log_x.x, to[1] = isinf(x) ? NAN : log_x.y;
    }
    static __device__ __forceinline__ Logarithm join(const float *part, int step)
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
    constexpr bool kSingle = sizeof(R) == sizeof(float);
    if constexpr (kSum == GD_SUM_SQUARES && kWeighted && kSingle) {
        /* The weight is a root: a product of three different registers would take two cycles. */
        const R t = (a - b) * weight;
        s[0] = gd_add_product(s[0], t, t);
    }
    else if constexpr ((kSum == GD_SUM_MAGNITUDES || kSum == kSwiftMagnitudes) && kWeighted &&
                       kSingle) {
        s[0] = gd_add_product(s[0], gd_abs(a - b), weight);
    }
    else if constexpr (kSum == GD_SUM_DIFFERENCE_AND_SUM && kWeighted && kSingle) {
        s[0] = gd_add_product(s[0], gd_abs(a - b), weight);
        s[1] = gd_add_product(s[1], gd_abs(a + b), weight);
    }
    else if constexpr (kSum == kSwiftMagnitudes) {
        GD_ADD_MAGNITUDES(s, a, b);
    }
    else if constexpr (kSum == kSwiftEntropy) {
        const float both = a + b;
        s[0] = __fmaf_rn(both, approximate_log2_ftz(both), s[0]);
    }
    else if constexpr (kSum == kSwiftPowers) {
        s[0] += approximate_exp2_ftz(p.p * approximate_log2_ftz(fabsf(a - b)));
    }
#define GD_ADD_IF(name, count, ...)           \
    else if constexpr (kSum == GD_SUM_##name) \
    {                                         \
        GD_ADD_##name(s, a, b);               \
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

/* A column's weight: only whether there is one for a maximum, NaN where float32 cannot hold it, the
 * root for squares in float32. */
template <int kSum, typename R>
__device__ __forceinline__ R weight_of(double weight)
{
    if constexpr (kSum == GD_SUM_LARGEST) {
        return weight > 0;
    }
    else if constexpr (kSum == kSwiftRatios) {
        return weight == 0 || (weight >= 0x1p-12 && weight <= 0x1p12) ? (R)weight : NAN;
    }
    else if constexpr (kSum == GD_SUM_SQUARES && sizeof(R) == sizeof(float)) {
        return weight == 0 || (weight >= FLT_MIN && weight <= FLT_MAX) ? (R)sqrt(weight) : NAN;
    }
    else if constexpr (sizeof(R) == sizeof(float)) {
        return weight == 0 || (weight >= FLT_MIN && weight <= kLargestWeight<kSum>) ? (R)weight
                                                                                    : NAN;
    }
    else {
        return weight;
    }
}

}  // namespace sums
}  // namespace gd
#endif
