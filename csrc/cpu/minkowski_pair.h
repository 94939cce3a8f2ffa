/* minkowski_pair.h: minkowski for any p of two float32 rows whose powers leave the range of
 * float64. */
#ifndef GPUDIST_CPU_MINKOWSKI_PAIR_H
#define GPUDIST_CPU_MINKOWSKI_PAIR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Between these, a sum of powers has lost nothing to terms that left the range of float64. */
#define GD_POWERS_SAFE_MIN 0x1p-900
#define GD_POWERS_SAFE_MAX 0x1.fffffffffffffp+1023

static inline bool gd_powers_are_safe(double sum)
{
    return sum >= GD_POWERS_SAFE_MIN && sum <= GD_POWERS_SAFE_MAX;
}

/* The distance may be far from leaving the range of float32 where powers leave that of float64:
 * differences are divided by the largest one that has weight. What has none adds 0, or NaN if it is
 * no number. The columns of b are `b_stride` apart; weights may be NULL. */
static __attribute__((noinline)) double gd_scaled_minkowski(const float *a, const float *b,
                                                            ptrdiff_t b_stride, ptrdiff_t d,
                                                            const double *weights, double p)
{
    double unit = 0, sum = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const double t = fabs((double)a[k] - (double)b[k * b_stride]);
        unit = t > unit && (weights == NULL || weights[k] > 0) ? t : unit;
    }
    unit = unit > 0 && unit < (double)INFINITY ? unit : 1;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const double t = fabs((double)a[k] - (double)b[k * b_stride]) / unit;
        const double weight = weights == NULL ? 1 : weights[k];
        sum += weight > 0 ? weight * pow(t, p) : t * 0;
    }
    return unit * pow(sum, 1 / p);
}

#endif
