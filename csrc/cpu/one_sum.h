/* one_sum.h: the metrics that are one sum over the dimensions (metric_terms.h), in vectors. A
 * metric's term, join or finish is chosen by a constant. */
#ifndef GPUDIST_CPU_ONE_SUM_H
#define GPUDIST_CPU_ONE_SUM_H

#include "metric_terms.h"
#include "simd.h"

#define gd_add_square(acc, t) gd_fma(t, t, acc)
#define gd_add_abs(acc, t) ((acc) + gd_abs(t))
#define gd_add_product(acc, x, y) gd_fma(x, y, acc)
#define gd_root(x) _Generic((x), gd_vf32: gd_sqrt_gd_vf32, gd_vf64: gd_multiplied_gd_vf64)(x)
#define gd_multiplied_root(x) \
    _Generic((x), gd_vf32: gd_multiplied_gd_vf32, gd_vf64: gd_multiplied_gd_vf64)(x)
#define gd_at_most_two(x) gd_min(gd_splat((T)2), x)

/* Square roots with the bits of the instruction. For a vector of 512 bits that takes 12 cycles in
 * float32 and 24 in float64, on a unit of its own: beside enough multiply-adds none at all, else
 * about three times as long as this, which is worth its instructions in float64 alone.
 *
 * From 14 bits of 1 / sqrt(x) follows y with two thirds of the type's digits or more, in float64
 * (1 - e)^(-1/2) times those bits with e = 1 - x y^2, as a polynomial whose middle coefficient
 * takes in the next term. One step of Newton's leads from g = x y, whose remainder x - g^2 is
 * exact, to the root: before it is rounded it errs by less than 8 * 2^-p units in the last place,
 * of p digits. The nearest to half a unit are roots of (N^2 - r) / 4 with odd N of p + 1 digits and
 * a small r = 1 (mod 8): they are |r| 2^-(p + 3) units from it or more. So only where |r| < 64, for
 * some hundred mantissas, the step might round otherwise: tests/test_roots.py asks for all of them.
 * In float32 it was seen right for every number. Where x is so small that the remainder might leave
 * the range, or no finite positive number, the instruction does it. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
enum { GD_ROOT_LEAST_F32 = 27, GD_ROOT_LEAST_F64 = 63 }; /* exponents, as they are stored */
GD_INLINE gd_vf32 gd_multiplied_gd_vf32(gd_vf32 x)
{
    const gd_vi32 above = (gd_vi32)x - (GD_ROOT_LEAST_F32 << 23);
    const __m512i usual = _mm512_set1_epi32((255 - GD_ROOT_LEAST_F32) << 23);
    if (__builtin_expect(_mm512_cmpge_epu32_mask((__m512i)above, usual) != 0, 0))
        return gd_sqrt(x);
    const gd_vf32 near = (gd_vf32)_mm512_rsqrt14_ps((__m512)x);
    const gd_vf32 product = x * near, half = 0.5f * near;
    const gd_vf32 rest = gd_fnma(product, half, gd_splat(0.5f));
    const gd_vf32 root = gd_fma(product, rest, product);
    return gd_fma(gd_fnma(root, root, x), gd_fma(half, rest, half), root);
}
GD_INLINE gd_vf64 gd_multiplied_gd_vf64(gd_vf64 x)
{
    const gd_vi64 above = (gd_vi64)x - ((int64_t)GD_ROOT_LEAST_F64 << 52);
    const __m512i usual = _mm512_set1_epi64((int64_t)(2047 - GD_ROOT_LEAST_F64) << 52);
    if (__builtin_expect(_mm512_cmpge_epu64_mask((__m512i)above, usual) != 0, 0))
        return gd_sqrt(x);
    const gd_vf64 near = (gd_vf64)_mm512_rsqrt14_pd((__m512d)x);
    const gd_vf64 e = gd_fnma(x * near, near, gd_splat(1.0));
    const gd_vf64 third = gd_fma(gd_splat(0x5p-4), e, gd_splat(0x3p-3 + 0x23p-7 * 0x1p-26));
    const gd_vf64 inverse = gd_fma(gd_fma(third, e, gd_splat(0.5)), e * near, near);
    const gd_vf64 root = x * inverse;
    return gd_fma(gd_fnma(root, root, x), 0.5 * inverse, root);
}
#else
GD_INLINE gd_vf32 gd_multiplied_gd_vf32(gd_vf32 x) { return gd_sqrt(x); }
GD_INLINE gd_vf64 gd_multiplied_gd_vf64(gd_vf64 x) { return gd_sqrt(x); }
#endif

#define FOR_METRICS(X) \
    X(GD_EUCLIDEAN)    \
    X(GD_SQEUCLIDEAN) X(GD_CITYBLOCK) X(GD_CHEBYSHEV) X(GD_COSINE) X(GD_INNER_PRODUCT)
#define PICK(what, metric, ...)                                          \
    ((metric) == GD_EUCLIDEAN     ? GD_##what##_EUCLIDEAN(__VA_ARGS__)   \
     : (metric) == GD_SQEUCLIDEAN ? GD_##what##_SQEUCLIDEAN(__VA_ARGS__) \
     : (metric) == GD_CITYBLOCK   ? GD_##what##_CITYBLOCK(__VA_ARGS__)   \
     : (metric) == GD_CHEBYSHEV   ? GD_##what##_CHEBYSHEV(__VA_ARGS__)   \
     : (metric) == GD_COSINE      ? GD_##what##_COSINE(__VA_ARGS__)      \
                                  : GD_##what##_INNER_PRODUCT(__VA_ARGS__))

/* The first term of a sum, of a difference t, where that is what adding it to 0 gives. To begin
 * with it takes no instruction more, and registers that are cleared right after they were stored
 * cost Zen 4 a tenth of a fold of a tile. */
#define GD_HAS_FIRST_TERM(metric)                                                       \
    ((metric) == GD_EUCLIDEAN || (metric) == GD_SQEUCLIDEAN || (metric) == GD_COSINE || \
     (metric) == GD_CITYBLOCK)
#define GD_FIRST_TERM(metric, t) ((metric) == GD_CITYBLOCK ? gd_abs(t) : (t) * (t))

/* Which float32 sums may have lost digits on the way, because terms left the range: squares (see
 * GD_F32_SQUARES_SAFE_MIN), and products, whose sum may be anything once one of them is infinite. A
 * sum of products that is 0 passes for good, lest rows without a common column be slow: what
 * underflow can take from it is nothing beside any sum that is not tiny. */
#define GD_CAN_LOSE_RANGE(metric) \
    ((metric) == GD_EUCLIDEAN || (metric) == GD_SQEUCLIDEAN || (metric) == GD_INNER_PRODUCT)
GD_INLINE bool gd_lost_range(gd_metric metric, float sum)
{
    const float size = __builtin_fabsf(sum);
    return metric == GD_INNER_PRODUCT
               ? !(size <= GD_F32_SQUARES_SAFE_MAX) || (size < GD_F32_SQUARES_SAFE_MIN && size > 0)
               : sum < GD_F32_SQUARES_SAFE_MIN || sum > GD_F32_SQUARES_SAFE_MAX;
}

/* Whether range was lost in vectors of sums, seen one after the other; NaN is no loss of squares.
 */
typedef struct gd_range {
    gd_vf32 low, high; /* of the squares */
    gd_vi32 lost;      /* the products' lanes */
} gd_range;
GD_INLINE gd_range gd_no_range(void) { return (gd_range){gd_splat(1.0f), gd_splat(1.0f), {0}}; }
GD_INLINE void gd_see(gd_metric metric, gd_range *seen, gd_vf32 sum)
{
    if (metric == GD_INNER_PRODUCT) {
        const gd_vf32 size = gd_abs(sum);
        seen->lost |=
            ~(size <= GD_F32_SQUARES_SAFE_MAX) | ((size < GD_F32_SQUARES_SAFE_MIN) & (size > 0));
    }
    else {
        seen->low = gd_min(sum, seen->low);
        seen->high = gd_max(sum, seen->high);
    }
}
GD_INLINE bool gd_saw_loss(gd_metric metric, const gd_range *seen)
{
    return gd_any(metric == GD_INNER_PRODUCT ? seen->lost
                                             : (seen->low < GD_F32_SQUARES_SAFE_MIN) |
                                                   (seen->high > GD_F32_SQUARES_SAFE_MAX));
}

/* A dimension's term of such a sum in float64, where it cannot leave the range. */
GD_INLINE double gd_wide_term(gd_metric metric, float a, float b)
{
    const double t = (double)a - (double)b;
    return metric == GD_INNER_PRODUCT ? (double)a * (double)b : t * t;
}

#endif
