/* run_closure.c: reachability end to end. */
#include "bus.h"
#include "device.h"
#include "run.h"
#include "sizes.h"
#include "stack.h"
#include "team.h"
#include "watch.h"

/* Nodes of the largest graph of a batch that one thread closes. Alone they have more from then on
 * (closure_bits.c). */
enum { SHARED_TO = 511 };
/* At least so many truths are closed in the time of a number. */
enum { BITS_A_STEP = 64 };

typedef struct closure_job {
    gd_closure call;
    gd_graph graph; /* on the device */
    const gd_kernel *kernel;
    gd_stage stage;
    bool reflexive;
} closure_job;

static gd_status check(const gd_graph *graph, const gd_matrix *out, gd_error *err)
{
    const gd_matrix *w = &graph->weights;
    if (w->rows != w->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "graph must be square, got shape (%td, %td)", w->rows,
                       w->cols);
    }
    if (out->rows != w->rows || out->cols != w->rows) {
        return GD_FAIL(err, GD_BAD_VALUE, "out must have shape (%td, %td), got (%td, %td)", w->rows,
                       w->rows, out->rows, out->cols);
    }
    if (out->dtype != GD_BOOL) {
        return GD_FAIL(err, GD_BAD_TYPE, "out must be of bool");
    }
    if (!gd_same_device(w, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph and out are on different devices");
    }
    return GD_OK;
}

/* What the call needs on its device: of a graph and a result on the host, copies. */
static gd_status hold(closure_job *job, const gd_matrix *out, gd_matrix *there, gd_error *err)
{
    gd_closure *call = &job->call;
    const gd_matrix host = job->graph.weights;
    void *bits = NULL;
    gd_status status = GD_OK;
    *there = *out;
    if (out->device.backend != job->stage.device.backend &&
        ((status = gd_stage_bring(&job->stage, &host, "the graph", &job->graph.weights, err)) !=
             GD_OK ||
         (status = gd_stage_matrix(&job->stage, out->rows, out->cols, GD_BOOL, "the result", there,
                                   err)) != GD_OK)) {
        return status;
    }
    call->launch.sizing = true;
    if ((status = job->kernel->launch.closure(call, err)) != GD_OK ||
        (status = gd_stage_memory(&job->stage, (size_t)call->rows,
                                  (size_t)call->words * sizeof *call->bits, "the packed graph",
                                  &bits, err)) != GD_OK ||
        (status = gd_stage_memory(&job->stage, 1, call->launch.workspace_bytes,
                                  "the workspace of closure", &call->launch.workspace, err)) !=
            GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    call->bits = bits;
    return GD_OK;
}

/* Refuses what does not fit. The job is a copy to play with. */
static gd_status count_memory(closure_job job, const gd_matrix *out, gd_error *err)
{
    gd_matrix there;
    const gd_status status = hold(&job, out, &there, err);
    return status == GD_OK
               ? gd_budget_grant(job.stage.budget, job.stage.device, "closure", NULL, err)
               : status;
}

/* Graph to bits, closed: the graph may be overwritten afterwards. */
static gd_status close_bits(closure_job *job, gd_error *err)
{
    gd_closure *call = &job->call;
    const gd_status status = call->launch.device.backend == GD_CUDA
                                 ? gd_cuda_edges_read(&job->graph, call, job->reflexive, err)
                                 : gd_cpu_edges_read(&job->graph, call, job->reflexive, err);
    return status == GD_OK ? job->kernel->launch.closure(call, err) : status;
}

static gd_status work(closure_job *job, const gd_matrix *out, gd_error *err)
{
    gd_closure *call = &job->call;
    const gd_device device = call->launch.device;
    const bool staged = out->device.backend != device.backend;
    gd_matrix there;
    gd_status status = count_memory(*job, out, err);
    status = status == GD_OK ? hold(job, out, &there, err) : status;
    status = status == GD_OK ? close_bits(job, err) : status;
    if (status == GD_OK) {
        status = device.backend == GD_CUDA ? gd_cuda_reached_write(call, &there, err)
                                           : gd_cpu_reached_write(call, &there, err);
    }
    if (status == GD_OK && staged) {
        status = gd_stage_home(&job->stage, &there, out->data, err);
    }
    gd_stage_release(&job->stage);
    return staged ? gd_settle(device, call->launch.stream, status, err) : status;
}

static gd_request request_of(const gd_matrix *out, const gd_orders *orders)
{
    return (gd_request){
        .op = GD_OP_CLOSURE,
        .orders = gd_orders_near(out->device, orders),
        .dtype = GD_BOOL,
        .n = out->rows,
    };
}

/* 0.1 is to match the float32 array's 0.1. */
static gd_graph as_read(const gd_graph *graph)
{
    gd_graph read = *graph;
    if (graph->weights.dtype == GD_F32) {
        read.sentinel = (double)(float)graph->sentinel;
    }
    return read;
}

gd_status gd_run_closure(const gd_graph *graph, const gd_matrix *out, bool reflexive,
                         const gd_orders *orders, gd_error *err)
{
    const double n = (double)graph->weights.rows;
    closure_job job = {
        .graph = as_read(graph), .call.n = graph->weights.rows, .reflexive = reflexive};
    const gd_request request = request_of(out, orders);
    gd_budget budget = gd_budget_of(orders);
    gd_choice choice;
    int previous;
    gd_status status = check(graph, out, err);
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK ||
        job.call.n == 0) {
        return status;
    }
    job.kernel = choice.kernel;
    job.call.launch = (gd_launch){.device = choice.device,
                                  .stream = gd_stream_near(out->device, choice.device, orders),
                                  .options = choice.options,
                                  .watch = orders->watch};
    job.stage =
        (gd_stage){.device = choice.device, .stream = job.call.launch.stream, .budget = &budget};
    gd_watch_work(orders->watch, n * n * n / BITS_A_STEP);
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    status = work(&job, out, err);
    gd_leave(choice.device, previous);
    return status;
}

/* ---------------------------------------------------------------- batches */

/* With a kernel in the job each graph is closed by one thread, in memory of its member's; without
 * one by all that gd_run_closure does. */
typedef struct closure_batch {
    const gd_closures *batch;
    const gd_orders *orders;
    closure_job job; /* as for the first graph */
    size_t bits;     /* bytes of a graph's; its workspace comes after them */
} closure_batch;

static gd_status close_one(void *context, ptrdiff_t number, int member, gd_error *err)
{
    const closure_batch *const all = context;
    const gd_closures *const batch = all->batch;
    const gd_matrix out = gd_stack_at(&batch->out, batch->axes, batch->shape, number);
    closure_job job = all->job;
    gd_closure *const call = &job.call;
    gd_status status;
    job.graph.weights = gd_stack_at(&batch->weights, batch->axes, batch->shape, number);
    if (all->job.kernel == NULL) {
        status = gd_run_closure(&job.graph, &out, job.reflexive, all->orders, err);
    }
    else {
        char *const own = (char *)call->launch.workspace +
                          (size_t)member * (all->bits + call->launch.workspace_bytes);
        call->bits = (uint32_t *)own;
        call->launch.workspace = own + all->bits;
        status = close_bits(&job, err);
        status = status == GD_OK ? gd_cpu_reached_write(call, &out, err) : status;
    }
    return status == GD_OK ? GD_OK
                           : gd_stack_blame(err, "graph", batch->axes, batch->shape, number);
}

/* Memory for each member, and then the graphs. */
static gd_status share(closure_batch *all, gd_error *err)
{
    const gd_closures *const batch = all->batch;
    closure_job *const job = &all->job;
    gd_closure *const call = &job->call;
    const int members = (int)gd_least(gd_team_size(), batch->count);
    const double n = (double)call->n, steps = n * n * (1 + n / BITS_A_STEP);
    const gd_launch passing = {.device = call->launch.device, .watch = all->orders->watch};
    gd_status status;
    call->launch.sizing = true;
    if ((status = job->kernel->launch.closure(call, err)) != GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    call->launch.workspace_bytes = (call->launch.workspace_bytes + 63) / 64 * 64;
    all->bits = (size_t)(call->rows * call->words) * sizeof *call->bits;
    status = gd_stage_memory(&job->stage, (size_t)members, all->bits + call->launch.workspace_bytes,
                             "the workspace of closure", &call->launch.workspace, err);
    if (status == GD_OK) {
        status = gd_stack_share(&passing, members, 0, batch->count, steps, close_one, all, err);
    }
    gd_stage_release(&job->stage);
    return status;
}

gd_status gd_run_closure_batch(const gd_closures *batch, bool reflexive, const gd_orders *orders,
                               gd_error *err)
{
    const gd_matrix *const out = &batch->out.first;
    gd_graph graph = batch->graph;
    closure_batch all = {.batch = batch, .orders = orders};
    const gd_request request = request_of(out, orders);
    gd_choice choice;
    gd_status status;
    graph.weights = batch->weights.first;
    if (batch->count == 0) {
        return GD_OK;
    }
    if ((status = check(&graph, out, err)) != GD_OK ||
        (status = gd_choose(&request, &choice, err)) != GD_OK || out->rows == 0) {
        return status;
    }
    all.job = (closure_job){.graph = as_read(&graph), .call.n = out->rows, .reflexive = reflexive};
    if (choice.device.backend != GD_CPU || orders->max_memory != 0 || batch->count == 1 ||
        out->rows > SHARED_TO) {
        return gd_stack_in_turn(orders->watch, 0, batch->count, close_one, &all, err);
    }
    all.job.kernel = choice.kernel;
    all.job.call.launch = (gd_launch){.device = choice.device, .options = choice.options};
    all.job.stage = (gd_stage){.device = choice.device};
    return share(&all, err);
}
