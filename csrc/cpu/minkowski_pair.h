/* minkowski_pair.h: minkowski for any p of two float32 rows whose powers leave the range of
 * float64. */
#ifndef GPUDIST_CPU_MINKOWSKI_PAIR_H
#define GPUDIST_CPU_MINKOWSKI_PAIR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "box.h"

/* Between these, a sum of powers has lost nothing to terms that left the range of float64. */
#define GD_POWERS_SAFE_MIN 0x1p-900
#define GD_POWERS_SAFE_MAX 0x1.fffffffffffffp+1023

static inline bool gd_powers_are_safe(double sum)
{
    return sum >= GD_POWERS_SAFE_MIN && sum <= GD_POWERS_SAFE_MAX;
}

/* |a - b|, or in a column of a box that of the nearest images. */
static inline double gd_scalar_apart(double a, double b, const double *box, ptrdiff_t k)
{
    if (box == NULL) {
        return fabs(a - b);
    }
    const double half = box[k] / 2, x = gd_wrapped(a, box[k]), y = gd_wrapped(b, box[k]);
    const double near = fabs(x - y), far = (half - fabs(x)) + (half - fabs(y));
    return far < near ? far : near;
}

/* The distance may be far from leaving the range of float32 where powers leave that of float64:
 * differences are divided by the largest one that has weight. What has none adds 0, or NaN if it is
 * no number. The columns of b are `b_stride` apart; weights and box may be NULL. */
static __attribute__((noinline)) double gd_scaled_minkowski(const float *a, const float *b,
                                                            ptrdiff_t b_stride, ptrdiff_t d,
                                                            const double *weights,
                                                            const double *box, double p)
{
    double unit = 0, sum = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const double t = gd_scalar_apart(a[k], b[k * b_stride], box, k);
        unit = t > unit && (weights == NULL || weights[k] > 0) ? t : unit;
    }
    unit = unit > 0 && unit < (double)INFINITY ? unit : 1;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const double t = gd_scalar_apart(a[k], b[k * b_stride], box, k) / unit;
        const double weight = weights == NULL ? 1 : weights[k];
        sum += weight > 0 ? weight * pow(t, p) : t * 0;
    }
    return unit * pow(sum, 1 / p);
}

#endif
