/* graph.c: weighted graphs into the form that path kernels take, and path lengths out of it, on the
 * host. Rows pass in chunks of doubles, which hold every weight exactly, through short loops
 * without branches; the work is bound by memory. The device's half is kernels/apsp/graph.cu. */
#include <float.h>
#include <math.h>
#include <pthread.h>

#include "cpu/pass.h"
#include "cpu/simd.h"
#include "gpudist.h"
#include "sizes.h"
#include "team.h"

/* A chunk is a whole number of vectors. Undirected graphs are also read down their columns, ROWS
 * columns at a time, which uses up the cache lines; others row by row, which memory likes best. */
enum { CHUNK = 256, ROWS = 16, LANES = sizeof(gd_vf64) / sizeof(double) };

/* Smaller matrices are not worth waking threads for. */
enum { PARALLEL_FROM = 256 };

/* buffer[c] = element `at + c * stride`, as a double. */
static void load(const gd_matrix *m, ptrdiff_t at, ptrdiff_t stride, ptrdiff_t count,
                 double *buffer)
{
#define LOAD(type)                                                    \
    if (stride == 1) {                                                \
        for (ptrdiff_t c = 0; c < count; ++c) {                       \
            buffer[c] = (double)((const type *)m->data + at)[c];      \
        }                                                             \
        break;                                                        \
    }                                                                 \
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

static gd_vf64 pick(gd_vi64 mask, gd_vf64 yes, gd_vf64 no)
{
    return (gd_vf64)(((gd_vi64)yes & mask) | ((gd_vi64)no & ~mask));
}

/* Adding 2**52 leaves no room for a fraction; doubles from there on are whole. */
static gd_vf64 fraction(gd_vf64 x)
{
    const gd_vf64 shift = gd_splat(0x1p52), size = gd_min(gd_abs(x), shift);
    return (size + shift) - shift - size;
}

/* Keeps the lesser of two flat indices; as an unsigned number, -1 is larger than any index. */
static void note(ptrdiff_t at, ptrdiff_t *first)
{
    *first = (size_t)at < (size_t)*first ? at : *first;
}

/* Looks closer at a chunk that has a negative or a fractional weight. */
static void find_first(const double *buffer, ptrdiff_t count, ptrdiff_t at, gd_graph_facts *facts)
{
    for (ptrdiff_t c = 0; c < count; ++c) {
        if (buffer[c] < 0) {
            note(at + c, &facts->negative_at);
        }
        if (fraction(gd_splat(buffer[c]))[0] != 0) {
            note(at + c, &facts->fractional_at);
        }
    }
}

/* Turns a chunk's values into weights as the kernels see them, infinity where there is no edge;
 * adding 0 turns -0.0 into 0. What the kernel's type cannot hold is refused by the facts. Unless
 * `facts` is NULL, notes what the weights are; the chunk begins at flat index `at`. */
static void keep_edges(const gd_graph *graph, ptrdiff_t count, double *buffer, ptrdiff_t at,
                       gd_graph_facts *facts)
{
    const gd_vf64 absent = gd_splat(absent_value(graph)), none = gd_splat((double)INFINITY);
    const gd_vf64 limit = gd_splat(DBL_MAX);
    const bool unweighted = graph->unweighted;
    gd_vf64 lowest = {0}, highest = {0};
    gd_vi64 fractions = {0};
    ptrdiff_t padded = count;
    for (; padded % LANES != 0; ++padded) {
        buffer[padded] = (double)INFINITY;
    }
    /* No mask meets another: GCC makes scalar code of that. */
    for (ptrdiff_t c = 0; c < padded; c += LANES) {
        gd_vf64 x = gd_load(buffer + c);
        x = pick((gd_vi64)(x != absent), x, none);
        x = pick((gd_vi64)(gd_abs(x) <= limit), unweighted ? gd_splat(1.0) : x, none) + 0.0;
        gd_store(buffer + c, x);
        lowest = gd_min(x, lowest);
        highest = gd_max((gd_vf64)((gd_vi64)x & (gd_vi64)(x <= limit)), highest);
        fractions |= (gd_vi64)fraction(x);
    }
    if (facts == NULL) {
        return;
    }
    bool unusual = false;
    for (int l = 0; l < LANES; ++l) {
        facts->max_abs = fmax(facts->max_abs, fmax(highest[l], -lowest[l]));
        unusual |= (lowest[l] < 0 && (size_t)at < (size_t)facts->negative_at) ||
                   (fractions[l] != 0 && (size_t)at < (size_t)facts->fractional_at);
    }
    if (unusual) {
        find_first(buffer, count, at, facts);
    }
}

/* The larger is the better: so the lesser of the negated. 0 - x makes 0.0 of 0.0. */
static void turn_over(ptrdiff_t count, double *buffer)
{
    for (ptrdiff_t c = 0; c < count; ++c) {
        buffer[c] = buffer[c] <= DBL_MAX ? 0.0 - buffer[c] : buffer[c];
    }
}

static void join_facts(gd_graph_facts *all, const gd_graph_facts *part)
{
    all->max_abs = fmax(all->max_abs, part->max_abs);
    note(part->negative_at, &all->negative_at);
    note(part->fractional_at, &all->fractional_at);
}

/* An int32 weight out of range is clamped; the caller refuses it by max_abs. */
static int32_t int32_weight(double x)
{
    const double far = GD_I32_FAR, low = x < far ? x : far;
    return (int32_t)(low > -far ? low : -far);
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

/* One row's part of a chunk, the weights in the other direction in `mirror` unless directed. */
static void write_chunk(const gd_apsp *call, ptrdiff_t i, ptrdiff_t j0, ptrdiff_t inside,
                        ptrdiff_t count, double *buffer, const double *mirror)
{
    const ptrdiff_t at = i * call->padded + j0;
    for (ptrdiff_t c = 0; mirror != NULL && c < inside; ++c) {
        buffer[c] = mirror[c] < buffer[c] ? mirror[c] : buffer[c];
    }
    for (ptrdiff_t c = inside; c < count; ++c) {
        buffer[c] = (double)INFINITY;
    }
    if (i >= j0 && i < j0 + count) {
        const double loop = buffer[i - j0];
        buffer[i - j0] = call->semiring == GD_MIN_MAX ? -(double)INFINITY : loop < 0 ? loop : 0.0;
    }
    store_dist(call, at, count, buffer);
    if (call->pred != NULL) {
        for (ptrdiff_t c = 0; c < count; ++c) {
            call->pred[at + c] = buffer[c] <= DBL_MAX ? (int32_t)i : GD_NO_PREDECESSOR;
        }
        if (i >= j0 && i < j0 + count) {
            call->pred[at + i - j0] = GD_NO_PREDECESSOR;
        }
    }
}

static ptrdiff_t rows_at_a_time(const gd_graph *graph) { return graph->directed ? 1 : ROWS; }

/* Reads a chunk of rows of `padded` elements; rows from n on hold no edge. A chunk is read before
 * any of it is written: the weights may be call->dist, if the graph is directed. */
static void read_rows(const gd_graph *graph, const gd_apsp *call, ptrdiff_t i0,
                      gd_graph_facts *facts)
{
    const gd_matrix *w = &graph->weights;
    const ptrdiff_t n = call->n, rows = gd_least(rows_at_a_time(graph), call->padded - i0);
    double buffer[CHUNK], mirror[ROWS][CHUNK], column[ROWS];
    for (ptrdiff_t j0 = 0; j0 < call->padded; j0 += CHUNK) {
        const ptrdiff_t count = gd_least(CHUNK, call->padded - j0);
        const ptrdiff_t across = gd_least(rows, n - i0);
        for (ptrdiff_t c = 0; !graph->directed && c < gd_least(count, n - j0); ++c) {
            load(w, (j0 + c) * w->row_stride + i0 * w->col_stride, w->col_stride, across, column);
            for (ptrdiff_t r = 0; r < across; ++r) {
                mirror[r][c] = column[r];
            }
        }
        for (ptrdiff_t r = 0; r < rows; ++r) {
            const ptrdiff_t i = i0 + r, inside = i < n && j0 < n ? gd_least(count, n - j0) : 0;
            load(w, i * w->row_stride + j0 * w->col_stride, w->col_stride, inside, buffer);
            keep_edges(graph, inside, buffer, i * n + j0, facts);
            if (!graph->directed) {
                keep_edges(graph, inside, mirror[r], 0, NULL);
            }
            if (graph->flip) {
                turn_over(inside, buffer);
                turn_over(graph->directed ? 0 : inside, mirror[r]);
            }
            write_chunk(call, i, j0, inside, count, buffer, graph->directed ? NULL : mirror[r]);
        }
    }
}

/* A graph that all members read. */
typedef struct reading {
    const gd_graph *graph;
    gd_apsp *call;
    gd_passed passed;
    gd_error *err;
    pthread_mutex_t lock; /* of the facts */
    gd_graph_facts *facts;
} reading;

static const gd_graph_facts NO_FACTS = {0, -1, -1};

static void read_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    reading *const r = context;
    const ptrdiff_t rows = rows_at_a_time(r->graph);
    gd_graph_facts mine = NO_FACTS;
    for (ptrdiff_t i = first; i < last; ++i) {
        if (gd_goes_on(&r->call->launch, 0, member, &r->passed, r->err)) {
            read_rows(r->graph, r->call, i * rows, &mine);
        }
    }
    pthread_mutex_lock(&r->lock);
    join_facts(r->facts, &mine);
    pthread_mutex_unlock(&r->lock);
}

gd_status gd_cpu_graph_read(const gd_graph *graph, gd_apsp *call, gd_graph_facts *facts,
                            gd_error *err)
{
    reading all = {graph, call, GD_OK, err, PTHREAD_MUTEX_INITIALIZER, facts};
    const ptrdiff_t rows = rows_at_a_time(graph);
    *facts = NO_FACTS;
    gd_team_run(call->n < PARALLEL_FROM ? 1 : gd_team_size(), gd_ceil_div(call->padded, rows), 0,
                read_some, &all);
    return all.passed;
}

/* ---------------------------------------------------------------- path lengths out */

/* Too long for an int32 result of float64 work. */
#define TOO_LONG 0x1p30

/* Whether lengths are where they are wanted, as they are wanted. */
static bool is_written(const gd_apsp *call, const gd_matrix *out, double unreachable, bool flip)
{
    return out->data == call->dist && out->row_stride == call->padded &&
           out->dtype == call->dtype && call->dtype != GD_I32 && !flip &&
           unreachable == (double)INFINITY;
}

/* Copies a row, one type to one type; returns how many lengths were too long. */
static ptrdiff_t write_row(const gd_apsp *call, const gd_matrix *out, ptrdiff_t i,
                           double unreachable, bool flip)
{
    const ptrdiff_t n = call->n, from = i * call->padded, to = i * out->row_stride;
    ptrdiff_t too_long = 0;
#define LOOP(out_type, found, value)                    \
    for (ptrdiff_t j = 0; j < n; ++j) {                 \
        y[j] = (found) ? (out_type)(value) : otherwise; \
    }
#define ROW(in_type, out_type, found)                          \
    do {                                                       \
        const in_type *x = (const in_type *)call->dist + from; \
        out_type *y = (out_type *)out->data + to;              \
        const out_type otherwise = (out_type)unreachable;      \
        if (flip) {                                            \
            LOOP(out_type, found, (in_type)0 - x[j]);          \
        }                                                      \
        else {                                                 \
            LOOP(out_type, found, x[j]);                       \
        }                                                      \
    } while (0)
    if (call->dtype == GD_F32) {
        ROW(float, float, x[j] < INFINITY);
    }
    else if (call->dtype == GD_I32) {
        ROW(int32_t, int32_t, x[j] < GD_I32_NO_PATH);
        if (call->semiring == GD_MIN_MAX) {
            ((int32_t *)out->data)[to + i] = flip ? INT32_MAX : INT32_MIN;
        }
    }
    else if (out->dtype == GD_F64) {
        ROW(double, double, x[j] < (double)INFINITY);
    }
    else {
        const double *lengths = (const double *)call->dist + from;
        for (ptrdiff_t j = 0; j < n; ++j) {
            too_long += fabs(lengths[j]) >= TOO_LONG && fabs(lengths[j]) <= DBL_MAX;
        }
        ROW(double, int32_t, fabs(x[j]) < TOO_LONG);
    }
#undef ROW
#undef LOOP
    return too_long;
}

/* Copies a row of predecessors, without those of the sums that GD_I32_NO_PATH sorts out; they have
 * to go even if the row stays where it is. */
static void write_pred(const gd_apsp *call, const gd_matrix *pred, ptrdiff_t i)
{
    const ptrdiff_t n = call->n, from = i * call->padded;
    const int32_t *p = call->pred + from;
    int32_t *q = (int32_t *)pred->data + i * pred->row_stride;
    if (call->dtype == GD_I32) {
        const int32_t *x = (const int32_t *)call->dist + from;
        for (ptrdiff_t j = 0; j < n; ++j) {
            q[j] = x[j] < GD_I32_NO_PATH ? p[j] : GD_NO_PREDECESSOR;
        }
    }
    else if (p != q) {
        memcpy(q, p, (size_t)n * sizeof *q);
    }
}

static bool is_negative(const gd_apsp *call, ptrdiff_t at)
{
    return call->dtype == GD_F32   ? ((const float *)call->dist)[at] < 0
           : call->dtype == GD_F64 ? ((const double *)call->dist)[at] < 0
                                   : ((const int32_t *)call->dist)[at] < 0;
}

/* Paths that all members write. */
typedef struct writing {
    const gd_apsp *call;
    const gd_matrix *out, *pred;
    double unreachable;
    bool flip;
    uint8_t *negative_nodes;
    gd_passed passed;
    gd_error *err;
    _Atomic ptrdiff_t too_long, on_cycle;
} writing;

static void write_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    writing *const w = context;
    const gd_apsp *const call = w->call;
    const bool lengths = call->semiring == GD_MIN_PLUS; /* others have no length of nothing */
    ptrdiff_t too_long = 0, on_cycle = 0;
    for (ptrdiff_t i = first; i < last; ++i) {
        if (!gd_goes_on(&call->launch, 1, member, &w->passed, w->err)) {
            continue;
        }
        /* `out` may lie over call->dist: it comes last. */
        w->negative_nodes[i] = lengths && is_negative(call, i * call->padded + i);
        on_cycle += w->negative_nodes[i];
        if (w->pred->data != NULL && call->pred != NULL) {
            write_pred(call, w->pred, i);
        }
        if (!is_written(call, w->out, w->unreachable, w->flip)) {
            too_long += write_row(call, w->out, i, w->unreachable, w->flip);
        }
    }
    atomic_fetch_add(&w->too_long, too_long);
    atomic_fetch_add(&w->on_cycle, on_cycle);
}

gd_status gd_cpu_paths_write(const gd_apsp *call, const gd_matrix *out, const gd_matrix *pred,
                             double unreachable, bool flip, uint8_t *negative_nodes,
                             gd_paths_facts *facts, gd_error *err)
{
    writing all = {
        .call = call,
        .out = out,
        .pred = pred,
        .unreachable = unreachable,
        .flip = flip,
        .negative_nodes = negative_nodes,
        .passed = GD_OK,
        .err = err,
    };
    gd_team_run(call->n < PARALLEL_FROM ? 1 : gd_team_size(), call->n, 0, write_some, &all);
    facts->on_negative_cycle = all.on_cycle;
    facts->too_long = all.too_long;
    return all.passed;
}
