/* run_apsp_batch.c: shortest paths in many graphs end to end. They are on the host. */
#include <math.h>
#include <stdlib.h>

#include "registry.h"
#include "run.h"
#include "run_apsp.h"
#include "run_apsp_far.h"
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
    return m->device.backend == GD_CPU && m->rows == 1 && m->cols == elements;
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
                       "graph must be one row on the host, of a weight for each "
                       "element or edge");
    }
    if (!holds(out, elements) || (pred->data != NULL && !holds(pred, elements))) {
        return GD_FAIL(err, GD_BAD_VALUE, "the results must be one row of %td elements on the host",
                       elements);
    }
    if (pred->data != NULL && pred->dtype != GD_I32) {
        return GD_FAIL(err, GD_BAD_TYPE, "predecessors are int32, not %s",
                       gd_dtype_name(pred->dtype));
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

gd_status gd_run_apsp_batch(const gd_graph *graph, const gd_batch *batch, const gd_matrix *out,
                            const gd_matrix *pred, gd_semiring semiring, double unreachable,
                            const gd_orders *orders, double *doubts, gd_error *err)
{
    const gd_request request = {
        .op = GD_OP_APSP_BATCH, .orders = *orders, .dtype = out->dtype, .n = batch->n};
    const size_t count = (size_t)gd_most(batch->count, 1);
    gd_batch_graph *const graphs = calloc(count, sizeof *graphs);
    gd_batch_facts *const facts = calloc(count, sizeof *facts);
    ptrdiff_t elements = 0;
    double steps = 0;
    gd_choice choice;
    gd_status status = graphs == NULL || facts == NULL
                           ? GD_FAIL(err, GD_NO_MEMORY, "%td graphs need %zu bytes", batch->count,
                                     count * (sizeof *graphs + sizeof *facts))
                           : GD_OK;
    if (status == GD_OK && (status = lay_out(batch, graphs, &elements, err)) == GD_OK &&
        (status = check(graph, batch, elements, out, pred, err)) == GD_OK &&
        (status = gd_choose(&request, &choice, err)) == GD_OK && batch->count > 0) {
        gd_apsp_batch call = {
            .launch = {.device = choice.device, .options = choice.options, .watch = orders->watch},
            .graphs = graphs,
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
            .facts = facts,
        };
        call.graph.flip = semiring == GD_MAX_PLUS || semiring == GD_MAX_MIN;
        if (graph->weights.dtype == GD_F32) { /* 0.1 is to match the float32 array's 0.1 */
            call.graph.sentinel = (double)(float)graph->sentinel;
        }
        for (ptrdiff_t i = 0; i < batch->count; ++i) {
            steps += (double)graphs[i].n * (double)graphs[i].n * (double)graphs[i].n;
        }
        if (batch->sizes != NULL) {
            qsort(graphs, (size_t)batch->count, sizeof *graphs, by_size);
        }
        gd_watch_work(orders->watch, steps);
        status = work(&call, choice.kernel, orders, err);
        for (ptrdiff_t i = 0; status == GD_OK && i < batch->count; ++i) {
            doubts[graphs[i].index] = doubt_of(&call, &graphs[i]);
        }
    }
    free(graphs);
    free(facts);
    return status;
}
