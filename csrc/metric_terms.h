/* metric_terms.h: what one dimension adds to a distance, written once for every backend.
 *
 * The text is shared, not the types: a backend defines the primitives below for what it computes
 * in (a vector of the processor, a scalar of a CUDA thread) before it expands a term.
 *
 *   gd_add_square(acc, t)   acc + t * t, fused where the hardware can
 *   gd_add_abs(acc, t)      acc + |t|
 *   gd_max_abs(acc, t)      the larger of acc and |t|; acc where t is NaN, as SciPy has it
 *   gd_root(x)              the square root
 *
 * A kernel applies GD_TERM_* to the dimensions in ascending order, starting acc at 0 every GD_FOLD
 * dimensions; joins the accs of every GD_GROUP dimensions in order with GD_JOIN_*; joins the groups
 * likewise; and ends with GD_FINISH_*. Keeping to that order makes tiles, instruction sets with
 * fused multiply-add and devices agree. */
#ifndef GPUDIST_METRIC_TERMS_H
#define GPUDIST_METRIC_TERMS_H

#define GD_TERM_EUCLIDEAN(acc, a, b) gd_add_square(acc, (a) - (b))
#define GD_TERM_SQEUCLIDEAN(acc, a, b) gd_add_square(acc, (a) - (b))
#define GD_TERM_CITYBLOCK(acc, a, b) gd_add_abs(acc, (a) - (b))
#define GD_TERM_CHEBYSHEV(acc, a, b) gd_max_abs(acc, (a) - (b))

#define GD_JOIN_EUCLIDEAN(total, acc) ((total) + (acc))
#define GD_JOIN_SQEUCLIDEAN(total, acc) ((total) + (acc))
#define GD_JOIN_CITYBLOCK(total, acc) ((total) + (acc))
#define GD_JOIN_CHEBYSHEV(total, acc) gd_max_abs(total, acc)

#define GD_FINISH_EUCLIDEAN(total) gd_root(total)
#define GD_FINISH_SQEUCLIDEAN(total) (total)
#define GD_FINISH_CITYBLOCK(total) (total)
#define GD_FINISH_CHEBYSHEV(total) (total)

#endif
