/* run_apsp_batch.c: shortest paths in many graphs end to end: what is checked and chosen, and the
 * work on the CPU. Work on a device goes on in run_apsp_stacked.c. */
#include <math.h>
#include <stdlib.h>

#include "registry.h"
#include "run.h"
#include "run_apsp.h"
#include "run_apsp_far.h"
#include "run_apsp_stacked.h"
#include "sizes.h"
#include "stage.h"
#include "watch.h"

static ptrdiff_t nodes_of(const gd_batch *batch, ptrdiff_t i)
{
    return batch->sizes != NULL ? batch->sizes[i] : batch->n;
}

/* The edges of graph i join its nodes. */
static gd_status check_edges(const gd_batch *batch, ptrdiff_t i, gd_error *err)
{
    const int64_t first = batch->first_edges[i], last = batch->first_edges[i + 1];
    const ptrdiff_t n = nodes_of(batch, i);
    if (first < 0 || last < first || last > batch->edges) {
        return GD_FAIL(err, GD_BAD_VALUE, "the edges of graph %td are not among all %td", i,
                       batch->edges);
    }
    for (int64_t e = first; e < last; ++e) {
        const int32_t tail = batch->tails[e], head = batch->heads[e];
        if (tail < 0 || head < 0 || tail >= n || head >= n) {
            return GD_FAIL(err, GD_BAD_VALUE,
                           "graph %td of %td nodes has an edge from node %d to node %d", i, n,
                           (int)tail, (int)head);
        }
    }
    return GD_OK;
}

/* Fills graphs[i] and says how many elements all matrices have. */
static gd_status lay_out(const gd_batch *batch, gd_batch_graph *graphs, ptrdiff_t *elements,
                         gd_error *err)
{
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; i < batch->count; ++i) {
        const ptrdiff_t n = nodes_of(batch, i), side = batch->packed ? n : batch->n;
        if (n < 0 || (!batch->packed && n > batch->n)) {
            return GD_FAIL(err, GD_BAD_VALUE, "graph %td cannot have %td nodes", i, n);
        }
        graphs[i] = (gd_batch_graph){.index = i, .n = n, .at = at};
        ptrdiff_t size;
        if (__builtin_mul_overflow(side, side, &size) || __builtin_add_overflow(at, size, &at)) {
            return GD_FAIL(err, GD_NO_MEMORY, "the graphs are larger than any memory");
        }
        if (batch->first_edges != NULL) {
            const gd_status status = check_edges(batch, i, err);
            if (status != GD_OK) {
                return status;
            }
            graphs[i].first_edge = (ptrdiff_t)batch->first_edges[i];
            graphs[i].last_edge = (ptrdiff_t)batch->first_edges[i + 1];
        }
    }
    *elements = at;
    return GD_OK;
}

static bool holds(const gd_matrix *m, ptrdiff_t elements)
{
    return m->rows == 1 && m->cols == elements && (m->col_stride == 1 || elements <= 1);
}

static gd_status check(const gd_graph *graph, const gd_batch *batch, ptrdiff_t elements,
                       const gd_matrix *out, const gd_matrix *pred, gd_error *err)
{
    const gd_matrix *w = &graph->weights;
    if (w->data != NULL && w->dtype == GD_BOOL) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph must be of float32, float64 or int32, not bool");
    }
    if (w->data != NULL && !holds(w, batch->first_edges != NULL ? batch->edges : elements)) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "graph must be one dense row, of a weight for each element or edge");
    }
    if (!holds(out, elements) || (pred->data != NULL && !holds(pred, elements))) {
        return GD_FAIL(err, GD_BAD_VALUE, "the results must be dense rows of %td elements",
                       elements);
    }
    if (pred->data != NULL && pred->dtype != GD_I32) {
        return GD_FAIL(err, GD_BAD_TYPE, "predecessors are int32, not %s",
                       gd_dtype_name(pred->dtype));
    }
    if ((w->data != NULL && !gd_same_device(w, out)) ||
        (pred->data != NULL && !gd_same_device(pred, out))) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph, out and pred are on different devices");
    }
    return GD_OK;
}

static int by_size(const void *x, const void *y)
{
    const gd_batch_graph *const one = x, *const other = y;
    return one->n != other->n ? (one->n > other->n) - (one->n < other->n)
                              : (one->index > other->index) - (one->index < other->index);
}

/* What a graph's facts mean (check_facts, leaves_int32 and tell of run_apsp.c). */
static double doubt_of(const gd_apsp_batch *call, const gd_batch_graph *graph)
{
    const gd_batch_facts *const facts = &call->facts[graph->index];
    const gd_graph *const given = &call->graph;
    const bool sums = call->semiring == GD_MIN_PLUS;
    const double longest = sums ? facts->max_abs * (double)(graph->n - 1) : facts->max_abs;
    if (facts->alone || facts->on_cycle ||
        (facts->negative && given->no_edge == GD_NO_EDGE_SENTINEL && given->sentinel < 0) ||
        (call->dtype == GD_I32 && fmax(longest, facts->max_abs) >= GD_I32_WEIGHT_LIMIT)) {
        return (double)NAN;
    }
    return sums && given->directed && (facts->negative || given->flip)
               ? gd_cycle_rounding(call->dtype, graph->n, facts->max_abs, facts->fractional)
               : 0;
}

static gd_status launch(gd_apsp_batch *call, const gd_kernel *kernel, gd_stage *stage,
                        gd_error *err)
{
    gd_status status;
    call->launch.sizing = true;
    if ((status = kernel->launch.apsp_batch(call, err)) != GD_OK ||
        (status = gd_stage_memory(stage, 1, call->launch.workspace_bytes,
                                  "the workspace of apsp_batch", &call->launch.workspace, err)) !=
            GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    return stage->budget->counting ? GD_OK : kernel->launch.apsp_batch(call, err);
}

static gd_status work(gd_apsp_batch *call, const gd_kernel *kernel, const gd_orders *orders,
                      gd_error *err)
{
    gd_budget budget = gd_budget_of(orders);
    gd_stage stage = {.device = call->launch.device, .budget = &budget};
    gd_apsp_batch counted = *call;
    gd_stage dry = stage;
    gd_status status = launch(&counted, kernel, &dry, err);
    status =
        status == GD_OK ? gd_budget_grant(&budget, stage.device, "apsp_batch", NULL, err) : status;
    status = status == GD_OK ? launch(call, kernel, &stage, err) : status;
    gd_stage_release(&stage);
    return status;
}

/* What kernels on the CPU and on a device are told alike. */
static gd_apsp_batch call_of(const gd_graph *graph, const gd_batch *batch, const gd_matrix *out,
                             const gd_matrix *pred, gd_semiring semiring, double unreachable,
                             const gd_choice *choice, const gd_orders *orders)
{
    gd_apsp_batch call = {
        .launch = {.device = choice->device, .options = choice->options, .watch = orders->watch},
        .count = batch->count,
        .pitch = batch->packed ? 0 : batch->n,
        .graph = *graph,
        .tails = batch->first_edges != NULL ? batch->tails : NULL,
        .heads = batch->heads,
        .dtype = out->dtype,
        .semiring = gd_ring_within(semiring),
        .out = out->data,
        .pred = pred->data,
        .unreachable = unreachable,
    };
    call.graph.flip = semiring == GD_MAX_PLUS || semiring == GD_MAX_MIN;
    if (graph->weights.dtype == GD_F32) { /* 0.1 is to match the float32 array's 0.1 */
        call.graph.sentinel = (double)(float)graph->sentinel;
    }
    return call;
}

static gd_status run_on_cpu(gd_apsp_batch *call, const gd_batch *batch, gd_batch_graph *graphs,
                            const gd_kernel *kernel, const gd_orders *orders, double *doubts,
                            bool *left, gd_error *err)
{
    double steps = 0;
    gd_status status;
    for (ptrdiff_t i = 0; i < batch->count; ++i) {
        steps += (double)graphs[i].n * (double)graphs[i].n * (double)graphs[i].n;
    }
    if (batch->sizes != NULL) {
        qsort(graphs, (size_t)batch->count, sizeof *graphs, by_size);
    }
    gd_watch_work(orders->watch, steps);
    call->graphs = graphs;
    status = work(call, kernel, orders, err);
    for (ptrdiff_t i = 0; status == GD_OK && i < batch->count; ++i) {
        const double doubt = doubt_of(call, &graphs[i]);
        doubts[graphs[i].index] = doubt;
        *left |= !(doubt == 0);
    }
    return status;
}

/* On a device, matrices of one size over sums; all other graphs are looked at alone. */
static gd_status run_on_device(gd_apsp_batch *call, const gd_batch *batch, const gd_matrix *out,
                               const gd_choice *choice, const gd_orders *orders, double *doubts,
                               bool *left, gd_error *err)
{
    const double n = (double)batch->n;
    if (batch->packed || batch->first_edges != NULL || call->semiring != GD_MIN_PLUS) {
        for (ptrdiff_t i = 0; i < batch->count; ++i) {
            doubts[i] = (double)NAN;
        }
        *left = true;
        return GD_OK;
    }
    gd_watch_work(orders->watch, n * n * n * (double)batch->count);
    call->facts = NULL;
    return batch->n > 0
               ? gd_run_apsp_stacked(call, batch, out->device, choice, orders, doubts, left, err)
               : GD_OK;
}

/* Counts the elements of matrices of one size; lay_out does more, for each graph. */
static gd_status count_elements(const gd_batch *batch, ptrdiff_t *elements, gd_error *err)
{
    for (ptrdiff_t i = 0; batch->sizes != NULL && i < batch->count; ++i) {
        if (batch->sizes[i] < 0 || batch->sizes[i] > batch->n) {
            return GD_FAIL(err, GD_BAD_VALUE, "graph %td cannot have %d nodes", i,
                           (int)batch->sizes[i]);
        }
    }
    return __builtin_mul_overflow(batch->n, batch->n, elements) ||
                   __builtin_mul_overflow(*elements, batch->count, elements)
               ? GD_FAIL(err, GD_NO_MEMORY, "the graphs are larger than any memory")
               : GD_OK;
}

gd_status gd_run_apsp_batch(const gd_graph *graph, const gd_batch *batch, const gd_matrix *out,
                            const gd_matrix *pred, gd_semiring semiring, double unreachable,
                            const gd_orders *orders, double *doubts, bool *left, gd_error *err)
{
    const gd_orders near = gd_orders_near(out->device, orders);
    const bool on_cuda = near.where == GD_WHERE_CUDA;
    const gd_request request = {.op = GD_OP_APSP_BATCH,
                                .orders = near,
                                .dtype = out->dtype,
                                .n = batch->n,
                                .cols = on_cuda ? batch->n : 0};
    const bool plain = on_cuda && !batch->packed && batch->first_edges == NULL;
    const size_t count = plain ? 1 : (size_t)gd_most(batch->count, 1);
    gd_batch_graph *const graphs = calloc(count, sizeof *graphs);
    gd_batch_facts *const facts = calloc(count, sizeof *facts);
    ptrdiff_t elements = 0;
    gd_choice choice;
    *left = false;
    gd_status status = graphs == NULL || facts == NULL
                           ? GD_FAIL(err, GD_NO_MEMORY, "%td graphs need %zu bytes", batch->count,
                                     count * (sizeof *graphs + sizeof *facts))
                           : GD_OK;
    if (status == GD_OK) {
        status =
            plain ? count_elements(batch, &elements, err) : lay_out(batch, graphs, &elements, err);
    }
    if (status == GD_OK && (status = check(graph, batch, elements, out, pred, err)) == GD_OK &&
        (status = gd_choose(&request, &choice, err)) == GD_OK && batch->count > 0) {
        gd_apsp_batch call =
            call_of(graph, batch, out, pred, semiring, unreachable, &choice, orders);
        call.facts = facts;
        status = choice.device.backend == GD_CPU
                     ? run_on_cpu(&call, batch, graphs, choice.kernel, orders, doubts, left, err)
                     : run_on_device(&call, batch, out, &choice, orders, doubts, left, err);
    }
    free(graphs);
    free(facts);
    return status;
}
