/* metric_terms.h: the arithmetic of the metrics, written once for every backend.
 *
 * The text is shared, not the types: a backend defines the primitives below for what it computes
 * in (a vector of the processor, a scalar of a CUDA thread) before it expands a macro.
 *
 *   gd_add_square(acc, t)   acc + t * t, fused where the hardware can
 *   gd_add_abs(acc, t)      acc + |t|
 *   gd_add_product(acc, x, y)   acc + x * y, fused where the hardware can
 *   gd_product(x, y)        x * y, rounded by itself whatever is done with it
 *   gd_max_abs(acc, t)      the larger of acc and |t|; acc where t is NaN, as SciPy has it
 *   gd_root(x)              the square root
 *   gd_abs(x)               the magnitude
 *   gd_power(x, y)          x to the power y, x >= 0
 *   gd_unequal(x, y)        1 where x != y, as NaN is to everything, else 0
 *   gd_true(x)              1 where x != 0, as NaN is, else 0
 *   gd_at_most_two(x)       the smaller of x and 2; NaN where x is NaN
 *   gd_ratio(x, y)          x / y, 0 where y is 0
 *
 *   gd_entropy(x, y)        x log(x / m) + y log(y / m) with m = (x + y) / 2, for x, y >= 0;
 *                           0 where neither is above 0, NaN where only one is NaN and the other
 *                           above 0
 *
 *   gd_relative_entropy(x, y)   x log(x / y); 0 where x is 0 <= y, else infinity where x or y is
 *                               not above 0; NaN where either is NaN
 *
 * A kernel adds the dimensions in ascending order, starting its sums at 0 every GD_FOLD dimensions;
 * joins the sums of every GD_GROUP dimensions in order; joins the groups likewise; then finishes.
 * Keeping to that order makes tiles, instruction sets with fused multiply-add and devices agree. */
#ifndef GPUDIST_METRIC_TERMS_H
#define GPUDIST_METRIC_TERMS_H

/* ---------------------------------------------------------------- one sum, no weights
 *
 * What the register tiles compute, whose loops leave room for nothing else. */

#define GD_TERM_EUCLIDEAN(acc, a, b) gd_add_square(acc, (a) - (b))
#define GD_TERM_SQEUCLIDEAN(acc, a, b) gd_add_square(acc, (a) - (b))
#define GD_TERM_COSINE(acc, a, b) gd_add_square(acc, (a) - (b))
#define GD_TERM_CITYBLOCK(acc, a, b) gd_add_abs(acc, (a) - (b))
#define GD_TERM_CHEBYSHEV(acc, a, b) gd_max_abs(acc, (a) - (b))
#define GD_TERM_INNER_PRODUCT(acc, a, b) gd_add_product(acc, a, b)

#define GD_JOIN_EUCLIDEAN(total, acc) ((total) + (acc))
#define GD_JOIN_SQEUCLIDEAN(total, acc) ((total) + (acc))
#define GD_JOIN_COSINE(total, acc) ((total) + (acc))
#define GD_JOIN_CITYBLOCK(total, acc) ((total) + (acc))
#define GD_JOIN_CHEBYSHEV(total, acc) gd_max_abs(total, acc)
#define GD_JOIN_INNER_PRODUCT(total, acc) ((total) + (acc))

#define GD_FINISH_EUCLIDEAN(total) gd_root(total)
#define GD_FINISH_SQEUCLIDEAN(total) (total)
/* Rounding may leave [0, 2]. */
#define GD_FINISH_COSINE(total) gd_at_most_two(total)
#define GD_FINISH_CITYBLOCK(total) (total)
#define GD_FINISH_CHEBYSHEV(total) (total)
#define GD_FINISH_INNER_PRODUCT(total) (total)

/* ---------------------------------------------------------------- any number of sums
 *
 * Every other metric, and all of them with weights. GD_ADD_* are statements: s is an array of the
 * sums, a and b are elements, and GD_WEIGH(x) is x times the column's weight, or x where there are
 * none. GD_LET declares a constant of its initialiser's type. */

/* X(name, number of sums, metric): the metric is the only one that these sums belong to, or
 * GD_SEVERAL, where the call says which it is. Those of the first list depend on the size of a - b
 * alone, for which a column may have another rule (cpu/box.h). */
#define GD_SEVERAL GD_METRIC_COUNT
#define GD_SUMS_OF_DIFFERENCES(X)     \
    X(SQUARES, 1, GD_SEVERAL)         \
    X(MAGNITUDES, 1, GD_CITYBLOCK)    \
    X(LARGEST, 1, GD_CHEBYSHEV)       \
    X(CUBES, 1, GD_MINKOWSKI)         \
    X(FOURTH_POWERS, 1, GD_MINKOWSKI) \
    X(SQUARE_ROOTS, 1, GD_MINKOWSKI)  \
    X(POWERS, 1, GD_MINKOWSKI)
#define GD_SUMS(X)                           \
    GD_SUMS_OF_DIFFERENCES(X)                \
    X(UNEQUAL, 1, GD_HAMMING)                \
    X(RATIOS, 1, GD_CANBERRA)                \
    X(DIFFERENCE_AND_SUM, 2, GD_BRAYCURTIS)  \
    X(ENTROPY, 1, GD_JENSENSHANNON)          \
    X(RELATIVE_ENTROPY, 1, GD_KL_DIVERGENCE) \
    X(PARTIAL_TRUTHS, 2, GD_DICE)            \
    X(UNEQUAL_AND_TRUE, 2, GD_DICE)          \
    X(TRUTHS, 4, GD_SEVERAL)

enum gd_sums {
#define GD_ENUMERATE_SUMS(name, ...) GD_SUM_##name,
    GD_SUMS(GD_ENUMERATE_SUMS)
#undef GD_ENUMERATE_SUMS
        GD_NO_SUMS /* what belongs to a metric that nobody has given any */
};

#ifdef __cplusplus
#define GD_LET const auto
#else
#define GD_LET const __auto_type
#endif

#define GD_ADD_SQUARES(s, a, b)                          \
    do {                                                 \
        GD_LET t = (a) - (b);                            \
        (s)[0] = gd_add_product((s)[0], GD_WEIGH(t), t); \
    } while (0)
#define GD_ADD_MAGNITUDES(s, a, b) ((s)[0] = gd_add_abs((s)[0], GD_WEIGH((a) - (b))))
/* Weights are 0 or 1 here; infinity times 0 is NaN, which the maximum passes over. */
#define GD_ADD_LARGEST(s, a, b) ((s)[0] = gd_max_abs((s)[0], GD_WEIGH((a) - (b))))
#define GD_ADD_CUBES(s, a, b)                                        \
    do {                                                             \
        GD_LET t = (a) - (b);                                        \
        (s)[0] = gd_add_product((s)[0], GD_WEIGH(t * t), gd_abs(t)); \
    } while (0)
#define GD_ADD_FOURTH_POWERS(s, a, b)                              \
    do {                                                           \
        GD_LET t = (a) - (b);                                      \
        GD_LET square = t * t;                                     \
        (s)[0] = gd_add_product((s)[0], GD_WEIGH(square), square); \
    } while (0)
#define GD_ADD_SQUARE_ROOTS(s, a, b) ((s)[0] = (s)[0] + GD_WEIGH(gd_root(gd_abs((a) - (b)))))
/* p is in scope where this is expanded. */
#define GD_ADD_POWERS(s, a, b) ((s)[0] = (s)[0] + GD_WEIGH(gd_power(gd_abs((a) - (b)), p)))
#define GD_ADD_UNEQUAL(s, a, b) ((s)[0] = (s)[0] + GD_WEIGH(gd_unequal(a, b)))
#define GD_ADD_RATIOS(s, a, b) \
    ((s)[0] = (s)[0] + GD_WEIGH(gd_ratio(gd_abs((a) - (b)), gd_abs(a) + gd_abs(b))))
#define GD_ADD_DIFFERENCE_AND_SUM(s, a, b)                \
    do {                                                  \
        (s)[0] = gd_add_abs((s)[0], GD_WEIGH((a) - (b))); \
        (s)[1] = gd_add_abs((s)[1], GD_WEIGH((a) + (b))); \
    } while (0)
#define GD_ADD_ENTROPY(s, a, b) ((s)[0] = (s)[0] + gd_entropy(a, b))
#define GD_ADD_RELATIVE_ENTROPY(s, a, b) ((s)[0] = (s)[0] + gd_relative_entropy(a, b))
/* Dice on numbers without weights, as SciPy has it: a and b are how far a column is true. Both
 * products are rounded, so that the bits are the same with a and b exchanged. The form a + b - 2 a
 * b would overflow where one is huge and the other 0. */
#define GD_ADD_PARTIAL_TRUTHS(s, a, b)                                       \
    do {                                                                     \
        (s)[0] = (s)[0] + (gd_product(a, 1 - (b)) + gd_product(b, 1 - (a))); \
        (s)[1] = gd_add_product((s)[1], a, b);                               \
    } while (0)
/* Dice on numbers with weights, as SciPy has it: columns that differ at all, and columns where both
 * are true. */
#define GD_ADD_UNEQUAL_AND_TRUE(s, a, b)                                   \
    do {                                                                   \
        (s)[0] = (s)[0] + GD_WEIGH(gd_unequal(a, b));                      \
        (s)[1] = gd_add_product((s)[1], GD_WEIGH(gd_true(a)), gd_true(b)); \
    } while (0)
/* The four counts, tt, tf, ft and ff. One factor of each product is 0 or 1, so it is exact, and
 * what it is weighed with depends on one row only. */
#define GD_ADD_TRUTHS(s, a, b)                                   \
    do {                                                         \
        GD_LET x = gd_true(a);                                   \
        GD_LET y = gd_true(b);                                   \
        (s)[0] = gd_add_product((s)[0], GD_WEIGH(x), y);         \
        (s)[1] = gd_add_product((s)[1], GD_WEIGH(x), 1 - y);     \
        (s)[2] = gd_add_product((s)[2], GD_WEIGH(1 - x), y);     \
        (s)[3] = gd_add_product((s)[3], GD_WEIGH(1 - x), 1 - y); \
    } while (0)

/* Which item of GD_SUMS belongs to a metric, or GD_NO_SUMS; p is minkowski's exponent. */
#define GD_SUMS_OF(metric, weighted, p)                                                            \
    ((metric) == GD_CITYBLOCK       ? GD_SUM_MAGNITUDES                                            \
     : (metric) == GD_CHEBYSHEV     ? GD_SUM_LARGEST                                               \
     : (metric) == GD_MINKOWSKI     ? (p) == 3     ? GD_SUM_CUBES                                  \
                                      : (p) == 4   ? GD_SUM_FOURTH_POWERS                          \
                                      : (p) == 0.5 ? GD_SUM_SQUARE_ROOTS                           \
                                                   : GD_SUM_POWERS                                 \
     : (metric) == GD_CANBERRA      ? GD_SUM_RATIOS                                                \
     : (metric) == GD_BRAYCURTIS    ? GD_SUM_DIFFERENCE_AND_SUM                                    \
     : (metric) == GD_HAMMING       ? GD_SUM_UNEQUAL                                               \
     : (metric) == GD_JENSENSHANNON ? GD_SUM_ENTROPY                                               \
     : (metric) == GD_KL_DIVERGENCE ? GD_SUM_RELATIVE_ENTROPY                                      \
     : (metric) == GD_DICE          ? (weighted) ? GD_SUM_UNEQUAL_AND_TRUE : GD_SUM_PARTIAL_TRUTHS \
     : (metric) == GD_EUCLIDEAN || (metric) == GD_SQEUCLIDEAN || (metric) == GD_HELLINGER          \
         ? GD_SUM_SQUARES                                                                          \
     : (metric) == GD_JACCARD || (metric) == GD_KULCZYNSKI1 || (metric) == GD_ROGERSTANIMOTO ||    \
             (metric) == GD_RUSSELLRAO || (metric) == GD_SOKALSNEATH || (metric) == GD_YULE        \
         ? GD_SUM_TRUTHS                                                                           \
         : GD_NO_SUMS)

/* Whether float32 sums of this kind are checked for terms that left the range
 * (GD_F32_SQUARES_SAFE_*). */
#define GD_SUM_IS_OF_POWERS(sum)                                                          \
    ((sum) == GD_SUM_SQUARES || (sum) == GD_SUM_CUBES || (sum) == GD_SUM_FOURTH_POWERS || \
     (sum) == GD_SUM_POWERS)

/* ---------------------------------------------------------------- from sums to a distance
 *
 * The root of a sum of powers; p is a scalar, the sum may be a vector. */
#define GD_FINISH_MINKOWSKI(sum, p, root, cube_root, power) \
    ((p) == 3     ? cube_root(sum)                          \
     : (p) == 4   ? root(root(sum))                         \
     : (p) == 0.5 ? (sum) * (sum)                           \
                  : power(sum, 1 / (p)))

/* GD_DEFINE_FINISH(qualifiers, name, real, root, cube_root, power) defines a function of that name
 * and the type `real`, from the C library's functions for it. Beside the sums it is given what
 * gd_cdist says: p, weight_sum, scale, and the sum of the two rows' terms. */
#define GD_DEFINE_FINISH(qualifiers, name, real, root, cube_root, power)                          \
    qualifiers real name(gd_metric metric, const real *s, real p, real weight_sum, real scale,    \
                         real terms)                                                              \
    {                                                                                             \
        switch (metric) {                                                                         \
            case GD_EUCLIDEAN:                                                                    \
                return root(s[0]);                                                                \
            case GD_MINKOWSKI:                                                                    \
                return GD_FINISH_MINKOWSKI(s[0], p, root, cube_root, power);                      \
            case GD_BRAYCURTIS:                                                                   \
                return s[0] / s[1];                                                               \
            case GD_DICE:                           /* of numbers */                              \
                return s[0] / (s[1] + s[1] + s[0]); /* no product that a compiler may fuse */     \
            case GD_HAMMING:                                                                      \
                return s[0] / weight_sum;                                                         \
            case GD_JENSENSHANNON: /* the terms are 0, or infinity for what is no distribution */ \
                return terms > 0 ? terms : root(s[0] * scale);                                    \
            case GD_HELLINGER: {                                                                  \
                const real square = s[0] / 2 + terms;                                             \
                return square < 0 ? 0 : root(square);                                             \
            }                                                                                     \
            default:                                                                              \
                return s[0];                                                                      \
        }                                                                                         \
    }

/* Likewise for the four counts: GD_DEFINE_FINISH_TRUTHS(qualifiers, name, real). Sums of counts
 * rather than differences, so that weights cancel nowhere. */
#define GD_DEFINE_FINISH_TRUTHS(qualifiers, name, real)                        \
    qualifiers real name(gd_metric metric, real tt, real tf, real ft, real ff) \
    {                                                                          \
        const real unequal = tf + ft, some = tt + unequal, all = some + ff;    \
        const real crossed = tf * ft;                                          \
        switch (metric) {                                                      \
            case GD_DICE:                                                      \
                return unequal / (2 * tt + unequal);                           \
            case GD_JACCARD:                                                   \
                return some == 0 ? 0 : unequal / some;                         \
            case GD_KULCZYNSKI1:                                               \
                return tt / unequal;                                           \
            case GD_ROGERSTANIMOTO:                                            \
                return 2 * unequal / (all + unequal);                          \
            case GD_RUSSELLRAO:                                                \
                return (unequal + ff) / all;                                   \
            case GD_SOKALSNEATH:                                               \
                return 2 * unequal / (2 * unequal + tt);                       \
            case GD_YULE:                                                      \
                return crossed == 0 ? 0 : 2 * crossed / (tt * ff + crossed);   \
            default: /* GD_HAMMING */                                          \
                return unequal / all;                                          \
        }                                                                      \
    }

#endif
