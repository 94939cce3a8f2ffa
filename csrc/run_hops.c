/* run_hops.c: numbers of hops end to end. They are on the host. */
#include "registry.h"
#include "run.h"
#include "stage.h"
#include "watch.h"

/* What Floyd-Warshall takes n**3 updates for. An update is a share of a vector; a step over an edge
 * takes some 5 ns, hence the last number. Smaller graphs are not worth two ways. */
enum { FROM = 128, EDGES_SHARE = 1, STEPS_SHARE = 512 };

bool gd_hops_worth(ptrdiff_t n, ptrdiff_t edges)
{
    return n >= FROM && edges <= n * n / EDGES_SHARE && edges < INT32_MAX;
}

static gd_status check(const gd_graph *graph, const gd_matrix *out, gd_error *err)
{
    const gd_matrix *w = &graph->weights;
    if (w->rows != w->cols || out->rows != w->rows || out->cols != w->rows) {
        return GD_FAIL(err, GD_BAD_VALUE, "graph and out must be square and of one shape");
    }
    if (out->dtype == GD_BOOL) {
        return GD_FAIL(err, GD_BAD_TYPE, "out must be of float32, float64 or int32");
    }
    if (w->device.backend != GD_CPU || out->device.backend != GD_CPU) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph and out must be on the host");
    }
    return GD_OK;
}

/* Memory for the edges as bits, in the form of closure. */
static gd_status hold(gd_closure *edges, gd_stage *stage, gd_error *err)
{
    void *bits = NULL;
    edges->rows = edges->n;
    edges->words = (edges->n + 31) / 32;
    const gd_status status =
        gd_stage_memory(stage, (size_t)edges->rows, (size_t)edges->words * sizeof *edges->bits,
                        "the packed graph", &bits, err);
    edges->bits = bits;
    return status;
}

static ptrdiff_t count(const gd_closure *edges)
{
    ptrdiff_t sum = 0;
    for (ptrdiff_t i = 0; i < edges->rows * edges->words; ++i) {
        sum += __builtin_popcount(edges->bits[i]);
    }
    return sum;
}

static gd_status work(const gd_graph *graph, gd_hops *call, const gd_kernel *kernel,
                      gd_stage *stage, gd_error *err)
{
    gd_closure edges = {.launch = call->launch, .n = call->n};
    gd_status status = hold(&edges, stage, err);
    if (status != GD_OK || (status = gd_cpu_edges_read(graph, &edges, false, err)) != GD_OK) {
        return status;
    }
    call->bits = edges.bits;
    call->words = edges.words;
    call->edges = count(&edges);
    call->gave_up = !gd_hops_worth(call->n, call->edges);
    if (call->gave_up) {
        return GD_OK;
    }
    call->launch.sizing = true;
    if ((status = kernel->launch.hops(call, err)) != GD_OK ||
        (status = gd_stage_memory(stage, 1, call->launch.workspace_bytes, "the workspace of hops",
                                  &call->launch.workspace, err)) != GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    return kernel->launch.hops(call, err);
}

gd_status gd_run_hops(const gd_graph *graph, const gd_matrix *out, double unreachable,
                      ptrdiff_t most_hops, const gd_orders *orders, bool *gave_up, gd_error *err)
{
    const ptrdiff_t n = graph->weights.rows;
    const gd_request request = {.op = GD_OP_HOPS, .orders = *orders, .dtype = out->dtype, .n = n};
    gd_graph given = *graph;
    gd_choice choice;
    gd_status status = check(graph, out, err);
    if (graph->weights.dtype == GD_F32) { /* 0.1 is to match the float32 array's 0.1 */
        given.sentinel = (double)(float)graph->sentinel;
    }
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK) {
        return status;
    }
    /* What does not fit is computed in place by apsp. */
    gd_budget budget = {.allowed = orders->max_memory, .unasked = orders->max_memory == 0};
    gd_stage stage = {.device = choice.device, .budget = &budget};
    gd_hops call = {
        .launch = {.device = choice.device, .options = choice.options, .watch = orders->watch},
        .n = n,
        .out = *out,
        .unreachable = unreachable,
        .most_hops = most_hops,
        .most_steps = (double)n * (double)n * (double)n / STEPS_SHARE,
    };
    gd_watch_work(orders->watch, call.most_steps);
    status = work(&given, &call, choice.kernel, &stage, err);
    *gave_up = call.gave_up || status == GD_NO_MEMORY;
    gd_stage_release(&stage);
    return status == GD_NO_MEMORY ? GD_OK : status;
}
