/* one_sum.h: the metrics that are one sum over the dimensions (metric_terms.h), in vectors. A
 * metric's term, join or finish is chosen by a constant. */
#ifndef GPUDIST_CPU_ONE_SUM_H
#define GPUDIST_CPU_ONE_SUM_H

#include "metric_terms.h"
#include "simd.h"

#define gd_add_square(acc, t) gd_fma(t, t, acc)
#define gd_add_abs(acc, t) ((acc) + gd_abs(t))
#define gd_add_product(acc, x, y) gd_fma(x, y, acc)
#define gd_root(x) gd_sqrt(x)
#define gd_at_most_two(x) gd_min(gd_splat((T)2), x)

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
