/* perron_ahead.c: reduced rank extrapolation of the vectors of perron.
 *
 * Where rounds crawl, their errors are a sum of few slow geometric sequences. Among the averages
 * (weights g_j that sum to 1, of either sign) of the last vectors, take the one whose step would
 * have been the shortest: the least squares problem min |sum g_j (v_{j+1} - v_j)|. That is GMRES,
 * restarted, on the space that the vectors span (Sidi, Ford and Smith 1986), without a basis to
 * keep. Steps are measured relative to the components, as the ratios are whose spread is the goal.
 *
 * Nothing here needs to be exact. The next round bounds the root with whatever positive vector it
 * gets; components that come out too small or negative are lifted to a share of the old ones. */
#include "perron_ahead.h"

#include <float.h>
#include <math.h>

#include "perron_judge.h"

enum { MOST = GD_PERRON_KEPT - 1 };

/* The share of the equations' diagonal that is added to it, so that they can be solved where steps
 * are nearly parallel. */
static const double damping = 1e-13;

/* ---------------------------------------------------------------- the weights */

/* Cholesky's factor of the products of the last `count` of `steps` steps, each taken in its own
 * length; false if it breaks down. */
static bool factorise(const gd_perron_steps *of, int steps, int count, double *lengths,
                      double factor[MOST][MOST])
{
    const int first = steps - count;
    for (int j = 0; j < count; ++j) {
        lengths[j] = sqrt(of->products[first + j][first + j]);
        if (!(lengths[j] > 0 && lengths[j] < HUGE_VAL)) {
            return false;
        }
        for (int k = 0; k <= j; ++k) {
            double rest = of->products[first + j][first + k] / (lengths[j] * lengths[k]);
            rest += j == k ? damping : 0;
            for (int l = 0; l < k; ++l) {
                rest -= factor[j][l] * factor[k][l];
            }
            if (j == k && !(rest > 0)) {
                return false;
            }
            factor[j][k] = j == k ? sqrt(rest) : rest / factor[k][k];
        }
    }
    return true;
}

/* The steps' weights g, from products * g = ones, brought to the sum 1; false if there are none. */
static bool solve(const double *lengths, double factor[MOST][MOST], int count, double *g)
{
    double total = 0;
    for (int j = 0; j < count; ++j) {
        g[j] = 1 / lengths[j];
        for (int k = 0; k < j; ++k) {
            g[j] -= factor[j][k] * g[k];
        }
        g[j] /= factor[j][j];
    }
    for (int j = count - 1; j >= 0; --j) {
        for (int k = j + 1; k < count; ++k) {
            g[j] -= factor[k][j] * g[k];
        }
        g[j] /= factor[j][j];
    }
    for (int j = 0; j < count; ++j) {
        g[j] /= lengths[j];
        total += g[j];
    }
    for (int j = 0; j < count; ++j) {
        g[j] /= total;
    }
    return fabs(total) > 0 && fabs(total) < HUGE_VAL;
}

void gd_perron_weigh(const gd_perron_steps *steps, int count, double *weights)
{
    double lengths[MOST], factor[MOST][MOST], g[MOST];
    int used = count - 1;
    while (used > 0 && !(factorise(steps, count - 1, used, lengths, factor) &&
                         solve(lengths, factor, used, g))) {
        --used;
    }
    for (int j = 0; j < count; ++j) {
        weights[j] = 0;
    }
    if (used == 0) {
        weights[count - 1] = 1;
    }
    /* The vectors at the ends of the steps, which are a round further than those at the starts. */
    for (int j = 0; j < used; ++j) {
        const int vector = count - used + j;
        weights[vector] = g[j] * (steps->sums[count - 1] / steps->sums[vector]);
    }
}

/* ---------------------------------------------------------------- on the processor */

/* The one that comes so many before the one that the next round takes. */
static double *vector_of(const gd_perron *call, int64_t before)
{
    return call->vectors + (call->state->round - before) % GD_PERRON_KEPT * call->padded;
}

void gd_cpu_perron_walk(const gd_perron *call, int count, gd_perron_steps *steps)
{
    const ptrdiff_t n = call->a.rows;
    const double *x[GD_PERRON_KEPT], *const latest = vector_of(call, 0);
    *steps = (gd_perron_steps){.sums = {0}};
    for (int k = 0; k < count; ++k) {
        x[k] = vector_of(call, count - 1 - k);
        for (ptrdiff_t i = 0; i < n; ++i) {
            steps->sums[k] += x[k][i];
        }
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double unit = steps->sums[count - 1] / latest[i];
        double step[MOST];
        for (int j = 0; j < count - 1; ++j) {
            step[j] = (x[j + 1][i] / steps->sums[j + 1] - x[j][i] / steps->sums[j]) * unit;
        }
        for (int j = 0; j < count - 1; ++j) {
            for (int k = 0; k <= j; ++k) {
                steps->products[j][k] += step[j] * step[k];
            }
        }
    }
}

void gd_cpu_perron_combine(const gd_perron *call, const gd_perron_state *state, int count,
                           const double *weights, double share)
{
    *call->state = *state;
    double *const latest = vector_of(call, 0);
    for (ptrdiff_t i = 0; i < call->a.rows; ++i) {
        double sum = 0;
        for (int k = 0; k < count; ++k) {
            sum += weights[k] * vector_of(call, count - 1 - k)[i];
        }
        latest[i] = gd_perron_larger(gd_perron_larger(sum, share * latest[i]), GD_PERRON_LEAST);
    }
}

gd_status gd_cpu_perron_write(const double *x, double top, const gd_matrix *out, void *stream,
                              gd_error *err)
{
    (void)stream, (void)err;
    for (ptrdiff_t i = 0; i < out->cols; ++i) {
        const double share = x[i] / top;
        if (out->dtype == GD_F32) {
            const float narrow = (float)share;
            ((float *)out->data)[i] = narrow > 0 ? narrow : FLT_TRUE_MIN;
        }
        else {
            ((double *)out->data)[i] = share; /* no less than GD_PERRON_LEAST / 2**100 */
        }
    }
    return GD_OK;
}
