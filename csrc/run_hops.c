/* run_hops.c: numbers of hops end to end. */
#include "bus.h"
#include "device.h"
#include "registry.h"
#include "run.h"
#include "sizes.h"
#include "stage.h"
#include "watch.h"

/* What Floyd-Warshall takes n**3 updates for. An update is a share of a vector; a step over an edge
 * takes some 5 ns, hence the last number. Smaller graphs are not worth two ways. */
enum { FROM = 128, EDGES_SHARE = 1, STEPS_SHARE = 512 };
/* On a device, where smaller ones take Floyd-Warshall little more than a launch takes. Half of the
 * time that it takes for others (29e12 updates/s, and 0.12 us a pivot, which nothing hides), in
 * steps of 0.13 ns each: what is given up has cost half as much again. */
enum { FROM_THERE = 2048, UPDATES_A_STEP = 7500, STEPS_A_PIVOT = 470 };

typedef struct hops_job {
    gd_hops call;
    gd_graph graph; /* on the device, as `call.out` is */
    const gd_kernel *kernel;
    gd_stage stage;
    bool on_cuda;
} hops_job;

bool gd_hops_worth(ptrdiff_t n, ptrdiff_t edges, bool on_cuda)
{
    if (on_cuda) {
        return n >= FROM_THERE && n <= GD_HOPS_MOST;
    }
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
    if (!gd_same_device(w, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph and out are on different devices");
    }
    return GD_OK;
}

/* Memory for the edges as bits, in the form of closure; of a graph and a result on the host, which
 * a device is to work on, copies. */
static gd_status hold(hops_job *job, const gd_matrix *out, gd_closure *edges, gd_error *err)
{
    const gd_matrix host = job->graph.weights;
    const ptrdiff_t n = edges->n, words = (n + 31) / 32;
    void *bits = NULL;
    gd_status status = GD_OK;
    edges->rows = job->on_cuda ? gd_ceil_div(n, 32) * 32 : n;
    edges->words = job->on_cuda ? gd_ceil_div(words, GD_HOPS_WORDS) * GD_HOPS_WORDS : words;
    if (job->on_cuda && out->device.backend == GD_CPU &&
        ((status = gd_stage_bring(&job->stage, &host, "the graph", &job->graph.weights, err)) !=
             GD_OK ||
         (status = gd_stage_matrix(&job->stage, n, n, out->dtype, "the result", &job->call.out,
                                   err)) != GD_OK)) {
        return status;
    }
    status =
        gd_stage_memory(&job->stage, (size_t)edges->rows,
                        (size_t)edges->words * sizeof *edges->bits, "the packed graph", &bits, err);
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

/* On the CPU it depends on the edges whether it is tried. */
static gd_status read_edges(hops_job *job, const gd_closure *edges, gd_error *err)
{
    gd_hops *const call = &job->call;
    call->bits = edges->bits;
    call->words = edges->words;
    if (job->on_cuda) {
        return gd_cuda_edges_read(&job->graph, edges, false, err);
    }
    const gd_status status = gd_cpu_edges_read(&job->graph, edges, false, err);
    if (status == GD_OK) {
        call->edges = count(edges);
        call->gave_up = !gd_hops_worth(call->n, call->edges, false);
    }
    return status;
}

static gd_status work(hops_job *job, const gd_matrix *out, gd_error *err)
{
    gd_hops *const call = &job->call;
    gd_closure edges = {.launch = call->launch, .n = call->n};
    gd_status status = hold(job, out, &edges, err);
    status = status == GD_OK ? read_edges(job, &edges, err) : status;
    if (status != GD_OK || call->gave_up) {
        return status;
    }
    call->launch.sizing = true;
    if ((status = job->kernel->launch.hops(call, err)) != GD_OK ||
        (status = gd_stage_memory(&job->stage, 1, call->launch.workspace_bytes,
                                  "the workspace of hops", &call->launch.workspace, err)) !=
            GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    status = job->kernel->launch.hops(call, err);
    if (status == GD_OK && !call->gave_up && call->out.data != out->data) {
        status = gd_stage_home(&job->stage, &call->out, out->data, err);
    }
    return status;
}

/* The row of hops for where apsp would be computed. */
static gd_status choose(const gd_matrix *out, const gd_orders *orders, gd_choice *choice,
                        gd_error *err)
{
    gd_request request = {.op = GD_OP_APSP,
                          .orders = gd_orders_near(out->device, orders),
                          .dtype = out->dtype,
                          .n = out->rows};
    const gd_status status = gd_choose(&request, choice, err);
    if (status != GD_OK) {
        return status;
    }
    request.op = GD_OP_HOPS;
    request.orders.where = choice->device.backend == GD_CUDA ? GD_WHERE_CUDA : GD_WHERE_CPU;
    request.orders.cuda_index = choice->device.index;
    return gd_choose(&request, choice, err);
}

gd_status gd_run_hops(const gd_graph *graph, const gd_matrix *out, double unreachable,
                      ptrdiff_t most_hops, const gd_orders *orders, bool *gave_up, gd_error *err)
{
    const ptrdiff_t n = graph->weights.rows;
    const double nodes = (double)n, updates = nodes * nodes * nodes;
    gd_choice choice;
    int previous;
    gd_status status = check(graph, out, err);
    if (status != GD_OK || (status = choose(out, orders, &choice, err)) != GD_OK) {
        return status;
    }
    /* What does not fit is computed in place by apsp. */
    gd_budget budget = {.allowed = orders->max_memory, .unasked = orders->max_memory == 0};
    const gd_launch launch = {.device = choice.device,
                              .stream = gd_stream_near(out->device, choice.device, orders),
                              .options = choice.options,
                              .watch = orders->watch};
    hops_job job = {
        .call = {.launch = launch,
                 .n = n,
                 .out = *out,
                 .unreachable = unreachable,
                 .most_hops = most_hops,
                 .most_steps = updates / STEPS_SHARE},
        .graph = *graph,
        .kernel = choice.kernel,
        .stage = {.device = choice.device, .stream = launch.stream, .budget = &budget},
        .on_cuda = choice.device.backend == GD_CUDA,
    };
    if (graph->weights.dtype == GD_F32) { /* 0.1 is to match the float32 array's 0.1 */
        job.graph.sentinel = (double)(float)graph->sentinel;
    }
    *gave_up = !gd_hops_worth(n, 0, job.on_cuda);
    if (*gave_up) {
        return GD_OK;
    }
    if (job.on_cuda) {
        job.call.most_steps = updates / UPDATES_A_STEP + nodes * STEPS_A_PIVOT;
    }
    gd_watch_work(orders->watch, job.call.most_steps);
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    status = gd_refuse_capture(choice.device, launch.stream, "apsp", err);
    if (status == GD_OK) {
        status = work(&job, out, err);
        gd_stage_release(&job.stage);
        status = gd_settle(choice.device, launch.stream, status, err);
    }
    gd_leave(choice.device, previous);
    *gave_up = job.call.gave_up || status == GD_NO_MEMORY;
    return status == GD_NO_MEMORY ? GD_OK : status;
}
