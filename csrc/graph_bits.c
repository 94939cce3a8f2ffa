/* graph_bits.c: graphs into packed bits, and reachability out of them, on the host. The device's
 * half is kernels/closure/graph.cu. */
#include <math.h>
#include <string.h>

#include "gpudist.h"
#include "team.h"

/* Smaller matrices are not worth waking threads for. */
enum { PARALLEL_FROM = 512 };

/* Eight truths as the bits of a byte, and back; a truth's byte may be any but 0. */
static uint8_t pack_truths(const uint8_t *truths, ptrdiff_t count)
{
    uint64_t x = 0;
    memcpy(&x, truths, (size_t)count);
    x |= x >> 4;
    x |= x >> 2;
    x |= x >> 1; /* the lowest bit of each byte; what comes from the byte above is masked */
    x &= UINT64_C(0x0101010101010101);
    return (uint8_t)(x * UINT64_C(0x0102040810204080) >> 56);
}

static uint64_t unpack_truths(uint8_t bits)
{
    const uint64_t spread = bits * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
    return (spread + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
}

/* x - x is 0 for what is neither infinite nor NaN. Where nothing finite is absent, it is NaN. */
#define GD_DEFINE_EDGES(T)                                                                  \
    static void edges_of_##T(const T *from, ptrdiff_t step, ptrdiff_t count, double absent, \
                             uint8_t *truths)                                               \
    {                                                                                       \
        for (ptrdiff_t c = 0; c < count; ++c) {                                             \
            const double x = (double)from[c * step];                                        \
            truths[c] = (x - x == 0) & (x != absent);                                       \
        }                                                                                   \
    }
GD_DEFINE_EDGES(float)
GD_DEFINE_EDGES(double)
GD_DEFINE_EDGES(int32_t)
#undef GD_DEFINE_EDGES

/* Truths of one row's edges, in the direction that `step` goes. */
static void edges_of(const gd_graph *graph, ptrdiff_t at, ptrdiff_t step, ptrdiff_t count,
                     uint8_t *truths)
{
    const gd_matrix *w = &graph->weights;
    const double absent = graph->no_edge == GD_NO_EDGE_ZERO       ? 0
                          : graph->no_edge == GD_NO_EDGE_SENTINEL ? graph->sentinel
                                                                  : (double)NAN;
    switch (w->dtype) {
        case GD_F32:
            edges_of_float((const float *)w->data + at, step, count, absent, truths);
            break;
        case GD_F64:
            edges_of_double((const double *)w->data + at, step, count, absent, truths);
            break;
        case GD_I32:
            edges_of_int32_t((const int32_t *)w->data + at, step, count, absent, truths);
            break;
        default:
            for (ptrdiff_t c = 0; c < count; ++c) {
                truths[c] = ((const uint8_t *)w->data)[at + c * step] != 0;
            }
    }
}

static void read_row(const gd_graph *graph, const gd_closure *call, ptrdiff_t i, bool reflexive)
{
    enum { RUN = 256 };
    const gd_matrix *w = &graph->weights;
    const ptrdiff_t n = call->n;
    uint8_t *const row = (uint8_t *)(call->bits + i * call->words);
    memset(row, 0, (size_t)call->words * sizeof *call->bits);
    for (ptrdiff_t j = 0; i < n && j < n; j += RUN) {
        const ptrdiff_t count = RUN < n - j ? RUN : n - j;
        uint8_t truths[RUN] = {0}, back[RUN];
        const bool dense = w->dtype == GD_BOOL && w->col_stride == 1 && graph->directed;
        const uint8_t *from = truths;
        if (dense) {
            from = (const uint8_t *)w->data + i * w->row_stride + j;
        }
        else {
            edges_of(graph, i * w->row_stride + j * w->col_stride, w->col_stride, count, truths);
        }
        if (!graph->directed) {
            edges_of(graph, j * w->row_stride + i * w->col_stride, w->row_stride, count, back);
            for (ptrdiff_t c = 0; c < count; ++c) {
                truths[c] |= back[c];
            }
        }
        for (ptrdiff_t c = 0; c < count; c += 8) {
            row[(j + c) / 8] = pack_truths(from + c, count - c < 8 ? count - c : 8);
        }
    }
    if (reflexive && i < n) {
        row[i / 8] |= (uint8_t)(1u << i % 8);
    }
}

typedef struct edges_reading {
    const gd_graph *graph;
    const gd_closure *call;
    bool reflexive;
} edges_reading;

static void read_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const edges_reading *const r = context;
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        read_row(r->graph, r->call, i, r->reflexive);
    }
}

static int members_for(const gd_closure *call)
{
    return call->n < PARALLEL_FROM ? 1 : gd_team_size();
}

gd_status gd_cpu_edges_read(const gd_graph *graph, const gd_closure *call, bool reflexive,
                            gd_error *err)
{
    edges_reading all = {graph, call, reflexive};
    (void)err;
    gd_team_run(members_for(call), call->rows, 0, read_some, &all);
    return GD_OK;
}

typedef struct reached_writing {
    const gd_closure *call;
    const gd_matrix *out;
} reached_writing;

static void write_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const reached_writing *const w = context;
    const ptrdiff_t n = w->call->n;
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        const uint8_t *const row = (const uint8_t *)(w->call->bits + i * w->call->words);
        uint8_t *const to = (uint8_t *)w->out->data + i * w->out->row_stride;
        for (ptrdiff_t j = 0; j < n; j += 8) {
            const uint64_t truths = unpack_truths(row[j / 8]);
            memcpy(to + j, &truths, n - j < 8 ? (size_t)(n - j) : 8);
        }
    }
}

gd_status gd_cpu_reached_write(const gd_closure *call, const gd_matrix *out, gd_error *err)
{
    reached_writing all = {call, out};
    (void)err;
    gd_team_run(members_for(call), call->n, 0, write_some, &all);
    return GD_OK;
}
