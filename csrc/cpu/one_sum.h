/* one_sum.h: the metrics that are one sum over the dimensions (metric_terms.h), in vectors. A
 * metric's term, join or finish is chosen by a constant. */
#ifndef GPUDIST_CPU_ONE_SUM_H
#define GPUDIST_CPU_ONE_SUM_H

#include "metric_terms.h"
#include "simd.h"

#define gd_add_square(acc, t) ((acc) + (t) * (t))
#define gd_add_abs(acc, t) ((acc) + gd_abs(t))
#define gd_add_product(acc, x, y) ((acc) + (x) * (y))
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

#endif
