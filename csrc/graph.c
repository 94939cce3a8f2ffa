/* graph.c: weighted graphs into the form that path kernels take, and path lengths out of it, on the
 * host. Rows pass in chunks of doubles, which hold every weight exactly, through short loops that
 * the compiler turns into vectors; the work is bound by memory. The device's half is
 * kernels/apsp/graph.cu. */
#include <float.h>
#include <math.h>

#include "gpudist.h"

enum { CHUNK = 512 };

static ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }

/* buffer[c] = element `at + c * stride`, as a double. */
static void load(const gd_matrix *m, ptrdiff_t at, ptrdiff_t stride, ptrdiff_t count,
                 double *buffer)
{
#define LOAD(type)                                                    \
    for (ptrdiff_t c = 0; c < count; ++c) {                           \
        buffer[c] = (double)((const type *)m->data)[at + c * stride]; \
    }                                                                 \
    break
    switch (m->dtype) {
        case GD_F32:
            LOAD(float);
        case GD_F64:
            LOAD(double);
        default:
            LOAD(int32_t);
    }
#undef LOAD
}

/* What else than a non-finite value is no edge; no value equals NaN. */
static double absent_value(const gd_graph *graph)
{
    return graph->no_edge == GD_NO_EDGE_ZERO       ? 0.0
           : graph->no_edge == GD_NO_EDGE_SENTINEL ? graph->sentinel
                                                   : (double)NAN;
}

/* Weights as the kernels see them: infinity where there is no edge. Adding 0 turns -0.0 into 0. */
static void keep_edges(const gd_graph *graph, ptrdiff_t count, double *buffer)
{
    const double absent = absent_value(graph);
    const bool unweighted = graph->unweighted;
    for (ptrdiff_t c = 0; c < count; ++c) {
        const double x = buffer[c];
        const bool edge = (fabs(x) <= DBL_MAX) & (x != absent);
        buffer[c] = edge ? (unweighted ? 1.0 : x + 0.0) : (double)INFINITY;
    }
}

/* Beyond 2**52 every double is whole, below it adding and taking away 1.5 * 2**52 rounds. */
static bool is_fractional(double x)
{
    const double shift = 0x1.8p52;
    return fabs(x) < 0x1p52 && (x + shift) - shift != x;
}

static void note_facts(const double *buffer, ptrdiff_t count, ptrdiff_t at, gd_graph_facts *facts)
{
    double max_abs = facts->max_abs;
    bool negative = false, fractional = false;
    for (ptrdiff_t c = 0; c < count; ++c) {
        const double x = buffer[c], size = fabs(x);
        max_abs = size <= DBL_MAX && size > max_abs ? size : max_abs;
        negative |= x < 0;
        fractional |= is_fractional(x);
    }
    facts->max_abs = max_abs;
    for (ptrdiff_t c = 0; negative && facts->negative_at < 0 && c < count; ++c) {
        facts->negative_at = buffer[c] < 0 ? at + c : -1;
    }
    for (ptrdiff_t c = 0; fractional && facts->fractional_at < 0 && c < count; ++c) {
        facts->fractional_at = is_fractional(buffer[c]) ? at + c : -1;
    }
}

static void join_facts(gd_graph_facts *all, const gd_graph_facts *part)
{
    all->max_abs = fmax(all->max_abs, part->max_abs);
    /* as unsigned numbers, -1 is larger than any index */
    if ((size_t)part->negative_at < (size_t)all->negative_at) {
        all->negative_at = part->negative_at;
    }
    if ((size_t)part->fractional_at < (size_t)all->fractional_at) {
        all->fractional_at = part->fractional_at;
    }
}

/* An int32 weight out of range is clamped; the caller refuses it by max_abs. */
static int32_t int32_weight(double x)
{
    return x == (double)INFINITY     ? GD_I32_FAR
           : x > (double)GD_I32_FAR  ? GD_I32_FAR
           : x < -(double)GD_I32_FAR ? -GD_I32_FAR
                                     : (int32_t)x;
}

static void store_dist(const gd_apsp *call, ptrdiff_t at, ptrdiff_t count, const double *buffer)
{
#define STORE(type, value)                            \
    for (ptrdiff_t c = 0; c < count; ++c) {           \
        const double x = buffer[c];                   \
        ((type *)call->dist)[at + c] = (type)(value); \
    }                                                 \
    break
    switch (call->dtype) {
        case GD_F32:
            STORE(float, (float)x + 0.0f); /* conversion can make a -0.0 again */
        case GD_F64:
            STORE(double, x);
        default:
            STORE(int32_t, int32_weight(x));
    }
#undef STORE
}

/* One row of `padded` elements; rows from n on hold no edge. */
static void read_row(const gd_graph *graph, const gd_apsp *call, ptrdiff_t i, gd_graph_facts *facts)
{
    const gd_matrix *w = &graph->weights;
    const ptrdiff_t n = call->n;
    for (ptrdiff_t j0 = 0; j0 < call->padded; j0 += CHUNK) {
        double buffer[CHUNK], mirror[CHUNK];
        const ptrdiff_t count = least(CHUNK, call->padded - j0);
        const ptrdiff_t inside = i < n ? least(count, n - j0) : 0;
        const ptrdiff_t at = i * call->padded + j0;
        ptrdiff_t c = 0;
        if (inside > 0) {
            load(w, i * w->row_stride + j0 * w->col_stride, w->col_stride, inside, buffer);
            keep_edges(graph, inside, buffer);
            note_facts(buffer, inside, i * n + j0, facts);
            c = inside;
        }
        for (; c < count; ++c) {
            buffer[c] = (double)INFINITY;
        }
        if (!graph->directed && inside > 0) {
            load(w, j0 * w->row_stride + i * w->col_stride, w->row_stride, inside, mirror);
            keep_edges(graph, inside, mirror);
            for (c = 0; c < inside; ++c) {
                buffer[c] = mirror[c] < buffer[c] ? mirror[c] : buffer[c];
            }
        }
        if (i >= j0 && i < j0 + count) {
            buffer[i - j0] = buffer[i - j0] < 0 ? buffer[i - j0] : 0.0;
        }
        store_dist(call, at, count, buffer);
        for (c = 0; call->pred != NULL && c < count; ++c) {
            const bool edge = buffer[c] <= DBL_MAX && j0 + c != i;
            call->pred[at + c] = edge ? (int32_t)i : GD_NO_PREDECESSOR;
        }
    }
}

gd_status gd_cpu_graph_read(const gd_graph *graph, gd_apsp *call, gd_graph_facts *facts,
                            gd_error *err)
{
    const gd_graph_facts nothing = {0, -1, -1};
    (void)err;
    *facts = nothing;
#pragma omp parallel if (call->n >= 256)
    {
        gd_graph_facts mine = nothing;
#pragma omp for
        for (ptrdiff_t i = 0; i < call->padded; ++i) {
            read_row(graph, call, i, &mine);
        }
#pragma omp critical(gd_graph_facts)
        join_facts(facts, &mine);
    }
    return GD_OK;
}

/* ---------------------------------------------------------------- path lengths out */

/* Lengths of this magnitude are sums with GD_I32_FAR in int32 work (gd_apsp says how large real
 * lengths can be), and too long for an int32 result in float64 work. */
static const double i32_far_from = 0x1p29, i32_too_long = 0x1p30;

static ptrdiff_t write_row(const gd_apsp *call, const gd_matrix *out, ptrdiff_t i,
                           double unreachable)
{
    const ptrdiff_t n = call->n, from = i * call->padded, to = i * out->row_stride;
    ptrdiff_t too_long = 0;
#define ROW(in_type, out_type, far)                                \
    do {                                                           \
        const in_type *x = (const in_type *)call->dist + from;     \
        out_type *y = (out_type *)out->data + to;                  \
        for (ptrdiff_t j = 0; j < n; ++j) {                        \
            y[j] = (far) ? (out_type)unreachable : (out_type)x[j]; \
        }                                                          \
    } while (0)
    if (call->dtype == GD_F32) {
        ROW(float, float, isinf(x[j]));
    }
    else if (call->dtype == GD_I32) {
        ROW(int32_t, int32_t, x[j] >= (int32_t)i32_far_from);
    }
    else if (out->dtype == GD_F64) {
        ROW(double, double, isinf(x[j]));
    }
    else {
        const double *lengths = (const double *)call->dist + from;
        for (ptrdiff_t j = 0; j < n; ++j) {
            too_long += fabs(lengths[j]) >= i32_too_long && lengths[j] <= DBL_MAX;
        }
        ROW(double, int32_t, !(fabs(x[j]) < i32_too_long));
    }
#undef ROW
    return too_long;
}

static bool is_negative(const gd_apsp *call, ptrdiff_t at)
{
    return call->dtype == GD_F32   ? ((const float *)call->dist)[at] < 0
           : call->dtype == GD_F64 ? ((const double *)call->dist)[at] < 0
                                   : ((const int32_t *)call->dist)[at] < 0;
}

gd_status gd_cpu_paths_write(const gd_apsp *call, const gd_matrix *out, const gd_matrix *pred,
                             double unreachable, uint8_t *negative_nodes, gd_paths_facts *facts,
                             gd_error *err)
{
    const ptrdiff_t n = call->n;
    ptrdiff_t too_long = 0, on_cycle = 0;
    const bool copy_pred = pred->data != NULL && pred->data != (void *)call->pred;
    (void)err;
#pragma omp parallel for reduction(+ : too_long, on_cycle) if (n >= 256)
    for (ptrdiff_t i = 0; i < n; ++i) {
        negative_nodes[i] = is_negative(call, i * call->padded + i); /* before it is overwritten */
        on_cycle += negative_nodes[i];
        too_long += write_row(call, out, i, unreachable);
        for (ptrdiff_t j = 0; copy_pred && j < n; ++j) {
            ((int32_t *)pred->data)[i * pred->row_stride + j] = call->pred[i * call->padded + j];
        }
    }
    facts->on_negative_cycle = on_cycle;
    facts->too_long = too_long;
    return GD_OK;
}
