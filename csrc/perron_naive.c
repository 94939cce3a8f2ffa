/* perron_naive.c: the study's loop on one thread, as plainly as C allows.
 *
 * Sum the rows of a copy of A, multiply each element by its column's sum and divide it by its
 * row's, until all row sums are alike; the eigenvector gathers the sums. They bound the root as
 * well as the ratios of a product with A do, but for the copy's rounding; so the interval that
 * counts comes from such a product, once the sums are alike. The first round is one too, which
 * looks at the elements.
 *
 * Bottleneck: one chain of additions, four cycles each, and a division an element.
 * Source: the study's serial baseline. */
#include <float.h>

#include "kernels.h"
#include "perron_judge.h"

typedef struct loop {
    gd_perron *call;
    ptrdiff_t n;
    double *copy, *sums, *vector;
} loop;

static double element(const gd_matrix *a, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t at = i * a->row_stride + j * a->col_stride;
    return a->dtype == GD_F32 ? ((const float *)a->data)[at] : ((const double *)a->data)[at];
}

static double *vector_of(const gd_perron *call, int64_t number)
{
    return call->vectors + number % GD_PERRON_KEPT * call->padded;
}

/* One product with A, whose interval counts. */
static void certify(gd_perron *call, bool scan)
{
    gd_perron_state *state = call->state;
    const ptrdiff_t n = call->a.rows;
    const double *x = vector_of(call, state->round), lost = gd_perron_lost(n);
    double *next = vector_of(call, state->round + 1);
    gd_perron_found found = gd_perron_found_none();
    for (ptrdiff_t i = 0; i < n; ++i) {
        double sum = 0;
        for (ptrdiff_t j = 0; j < n; ++j) {
            const double e = element(&call->a, i, j);
            sum += e * x[j];
            state->doubts |= !(e > 0 && e <= DBL_MAX);
        }
        next[i] = gd_perron_next(sum, x[i], call->shift, state->scale);
        gd_perron_note(&found, sum, x[i], next[i], lost);
    }
    gd_perron_judge(state, &found, call->tol, call->shift, call->roundings, scan);
}

/* The copy: inv(D) A D, with D the diagonal matrix of x. */
static void begin(const loop *l, const double *x)
{
    for (ptrdiff_t i = 0; i < l->n; ++i) {
        l->vector[i] = x[i];
        for (ptrdiff_t j = 0; j < l->n; ++j) {
            l->copy[i * l->n + j] = element(&l->call->a, i, j) * (x[j] / x[i]);
        }
    }
}

/* Sums the rows and takes them into the vector; whether they are alike. */
static bool sum_rows(const loop *l)
{
    double least = HUGE_VAL, most = 0;
    for (ptrdiff_t i = 0; i < l->n; ++i) {
        double sum = 0;
        for (ptrdiff_t j = 0; j < l->n; ++j) {
            sum += l->copy[i * l->n + j];
        }
        l->sums[i] = sum;
        least = sum < least ? sum : least;
        most = sum > most ? sum : most;
    }
    for (ptrdiff_t i = 0; i < l->n; ++i) {
        l->vector[i] *= l->sums[i] / most;
    }
    return most - least <= l->call->tol * least;
}

static void rescale(const loop *l)
{
    for (ptrdiff_t i = 0; i < l->n; ++i) {
        for (ptrdiff_t j = 0; j < l->n; ++j) {
            l->copy[i * l->n + j] = l->copy[i * l->n + j] * l->sums[j] / l->sums[i];
        }
    }
}

/* The vector becomes the one that the next product takes. */
static void hand_over(const loop *l)
{
    gd_perron_state *state = l->call->state;
    double *x = vector_of(l->call, state->round);
    for (ptrdiff_t i = 0; i < l->n; ++i) {
        x[i] = gd_perron_larger(l->vector[i], GD_PERRON_LEAST);
    }
    state->top = 1;
    state->scale = gd_perron_scale(1, state->average);
}

gd_status gd_cpu_perron_naive(gd_perron *call, gd_error *err)
{
    const ptrdiff_t n = call->a.rows;
    gd_perron_state *state = call->state;
    double *memory = call->launch.workspace;
    const loop l = {call, n, memory, memory + n * n, memory + n * n + n};
    gd_status status = GD_OK;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)(n * n + 2 * n) * sizeof(double);
        call->roundings = n + 1;
        return GD_OK;
    }
    if (call->scan) {
        certify(call, true);
    }
    if (state->stop == GD_PERRON_GOING && state->round < call->until) {
        begin(&l, vector_of(call, state->round));
    }
    while (status == GD_OK && state->stop == GD_PERRON_GOING && state->round < call->until) {
        bool alike = true;
        if (state->round + 1 < call->until) { /* the last round is a product */
            alike = sum_rows(&l);
            ++state->round;
        }
        if (alike || state->round + 1 >= call->until) {
            hand_over(&l);
            certify(call, false);
        }
        if (state->stop == GD_PERRON_GOING) {
            rescale(&l);
        }
        status = gd_pass(&call->launch, 0, err);
    }
    return status;
}
