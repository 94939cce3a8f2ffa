/* perron_ahead.c: reduced rank extrapolation of the vectors of perron.
 *
 * Where rounds crawl, their errors are a sum of few slow geometric sequences. Among the averages
 * (weights g_j that sum to 1, of either sign) of the last vectors, take the one whose step would
 * have been the shortest: the least squares problem min |sum g_j (v_{j+1} - v_j)|. That is GMRES,
 * restarted, on the space that the vectors span (Sidi, Ford and Smith 1988), without a basis to
 * keep. Steps are measured relative to the components, as the ratios are whose spread is the goal.
 *
 * Nothing here needs to be exact. The next round bounds the root with whatever positive vector it
 * gets; components that come out too small or negative are lifted to a share of the old ones. */
#include "perron_ahead.h"

#include <float.h>
#include <math.h>

enum { MOST = GD_PERRON_KEPT - 1 };

/* Of the equations' diagonal, so that they can be solved where steps are nearly parallel. */
static const double damping = 1e-13;
/* A component shrinks to this share of itself at most. */
static const double least_share = 0.01;

void gd_perron_normalise(const double *x, ptrdiff_t n, double *to)
{
    double top = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        top = x[i] > top ? x[i] : top;
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double share = x[i] / top;
        to[i] = share > GD_PERRON_LEAST ? share : GD_PERRON_LEAST;
    }
}

/* gram[j][k] = step j . step k, relative to the latest vector; vectors are divided by their sums.
 */
static void multiply_steps(const double *const *vectors, const double *sums, int steps, ptrdiff_t n,
                           double gram[MOST][MOST])
{
    for (int j = 0; j < steps; ++j) {
        for (int k = 0; k < steps; ++k) {
            gram[j][k] = 0;
        }
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double unit = sums[steps] / vectors[steps][i];
        double step[MOST];
        for (int j = 0; j < steps; ++j) {
            step[j] = (vectors[j + 1][i] / sums[j + 1] - vectors[j][i] / sums[j]) * unit;
        }
        for (int j = 0; j < steps; ++j) {
            for (int k = 0; k <= j; ++k) {
                gram[j][k] += step[j] * step[k];
            }
        }
    }
}

/* Solves for the weights of the last `count` of `steps` steps by Cholesky's method, each step taken
 * in its own length; false if that breaks down. */
static bool find_weights(double gram[MOST][MOST], int steps, int count, double *weights)
{
    double length[MOST], factor[MOST][MOST], total = 0;
    const int first = steps - count;
    for (int j = 0; j < count; ++j) {
        length[j] = sqrt(gram[first + j][first + j]);
        if (!(length[j] > 0 && length[j] < HUGE_VAL)) {
            return false;
        }
    }
    for (int j = 0; j < count; ++j) {
        for (int k = 0; k <= j; ++k) {
            double rest = gram[first + j][first + k] / (length[j] * length[k]);
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
    for (int j = 0; j < count; ++j) {
        weights[j] = 1 / length[j];
        for (int k = 0; k < j; ++k) {
            weights[j] -= factor[j][k] * weights[k];
        }
        weights[j] /= factor[j][j];
    }
    for (int j = count - 1; j >= 0; --j) {
        for (int k = j + 1; k < count; ++k) {
            weights[j] -= factor[k][j] * weights[k];
        }
        weights[j] /= factor[j][j];
    }
    for (int j = 0; j < count; ++j) {
        weights[j] /= length[j];
        total += weights[j];
    }
    for (int j = 0; j < count; ++j) {
        weights[j] /= total;
    }
    return fabs(total) > 0 && fabs(total) < HUGE_VAL;
}

void gd_perron_look_ahead(const double *const *vectors, int count, ptrdiff_t n, double *ahead)
{
    double sums[GD_PERRON_KEPT], gram[MOST][MOST], weights[MOST];
    const int steps = count - 1;
    int used = steps;
    const double *latest = vectors[steps];
    for (int j = 0; j < count; ++j) {
        sums[j] = 0;
        for (ptrdiff_t i = 0; i < n; ++i) {
            sums[j] += vectors[j][i];
        }
    }
    multiply_steps(vectors, sums, steps, n, gram);
    while (used > 0 && !find_weights(gram, steps, used, weights)) {
        --used;
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double share = latest[i] / sums[steps];
        double sum = used > 0 ? 0 : share;
        for (int j = 0; j < used; ++j) {
            const int vector = steps - used + j + 1;
            sum += weights[j] * (vectors[vector][i] / sums[vector]);
        }
        ahead[i] = sum > least_share * share ? sum : least_share * share;
    }
    gd_perron_normalise(ahead, n, ahead);
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
