/* perron_judge.h: what one round of perron means, the same for every backend. C and CUDA.
 *
 * For a nonnegative A and any positive x the root lies between the least and the largest of
 * r_i = (A x)_i / x_i (Collatz 1942, Wielandt 1950). A round's computed product is off by a factor:
 * no term of it is negative, so a sum of terms that go through k roundings each is within (1 + u)^k
 * of the true one, u = 2**-53, in whatever order it is added up. Widening the interval by that much
 * makes the bounds true ones. (What products lose that underflow widens each ratio by
 * itself, see gd_perron_note.) */
#ifndef GPUDIST_PERRON_JUDGE_H
#define GPUDIST_PERRON_JUDGE_H

#include <float.h>
#include <math.h>

#include "gpudist.h"

#ifdef __CUDACC__
#define GD_ANYWHERE static inline __host__ __device__
#else
#define GD_ANYWHERE static inline
#endif

/* What a round found, over all rows or some. */
typedef struct gd_perron_found {
    double least, most; /* bounds of the ratios */
    double xy, xx;      /* sums of x (A x) and x x */
    double top;         /* the next vector's largest component */
} gd_perron_found;

/* Inlined everywhere, unlike fmin and fmax. A NaN x is passed over. */
GD_ANYWHERE double gd_perron_lesser(double x, double best) { return x < best ? x : best; }
GD_ANYWHERE double gd_perron_larger(double x, double best) { return x > best ? x : best; }

GD_ANYWHERE gd_perron_found gd_perron_found_none(void)
{
    const gd_perron_found none = {HUGE_VAL, 0, 0, 0, 0};
    return none;
}

GD_ANYWHERE void gd_perron_join(gd_perron_found *all, const gd_perron_found *some)
{
    all->least = gd_perron_lesser(some->least, all->least);
    all->most = gd_perron_larger(some->most, all->most);
    all->xy += some->xy;
    all->xx += some->xx;
    all->top = gd_perron_larger(some->top, all->top);
}

/* One row: y is (A x)_i, x its x_i > 0. Returns the next vector's component. */
GD_ANYWHERE double gd_perron_next(double y, double x, double shift, double scale)
{
    return gd_perron_lesser(gd_perron_larger((y + shift * x) * scale, GD_PERRON_LEAST), DBL_MAX);
}

/* Takes the row into what was found. Each of its n products may have lost half of the least
 * subnormal number, `lost` in all. */
GD_ANYWHERE void gd_perron_note(gd_perron_found *found, double y, double x, double next,
                                double lost)
{
    const gd_perron_found row = {(y - lost) / x, (y + lost) / x, x * y, x * x, next};
    gd_perron_join(found, &row);
}

GD_ANYWHERE double gd_perron_lost(ptrdiff_t n) { return (double)n * 0x1p-1074; }

/* The power of 2 that brings a vector of that top, which a round multiplies by about `growth`, to
 * components of at most about 1. */
GD_ANYWHERE double gd_perron_scale(double top, double growth)
{
    const double size = top * growth;
    const int power = size > 0 && size <= DBL_MAX ? -ilogb(size) : 0;
    return scalbn(1.0, power < -1020 ? -1020 : power > 1020 ? 1020 : power);
}

/* Takes a round into the state. The eight roundings on top are those of the ratio and of the
 * widening itself. The scan's doubts are in the state already. */
GD_ANYWHERE void gd_perron_judge(gd_perron_state *state, const gd_perron_found *found, double tol,
                                 double shift, ptrdiff_t roundings, bool scanned)
{
    const double widening = (double)(roundings + 8) * 0x1p-53;
    /* A product beyond the range is infinite: the root is at least the largest number's share. */
    const double least = gd_perron_lesser(found->least, DBL_MAX) * (1 - widening);
    const double most = found->most * (1 + widening);
    state->lower = gd_perron_larger(least, state->lower);
    state->upper = gd_perron_lesser(most, state->upper);
    state->average = found->xy / found->xx;
    state->top = found->top;
    state->scale = gd_perron_scale(found->top, state->average + shift);
    state->widths[state->round % GD_PERRON_KEPT] = (most - least) / most;
    ++state->round;
    if (scanned && state->doubts != 0) {
        state->stop = GD_PERRON_DOUBTED;
    }
    else if (most - least <= tol * least) { /* of this vector: it is to be good as well */
        state->stop = GD_PERRON_CONVERGED;
    }
    else if (!(state->top >= 0x1p-100 && state->top <= 0x1p100)) {
        state->stop = GD_PERRON_RESCALE;
    }
}

#endif
