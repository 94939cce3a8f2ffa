/* run_apsp.c: all-pairs shortest paths end to end. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "run.h"
#include "run_apsp.h"
#include "run_apsp_ends.h"
#include "run_apsp_far.h"
#include "run_apsp_several.h"
#include "stage.h"
#include "watch.h"

typedef struct apsp_job {
    gd_apsp call;
    gd_graph graph;      /* as the kernels see it: on the device */
    gd_matrix out, pred; /* as the caller sees them */
    gd_stage brought;    /* the graph's copy on the device */
    gd_stage own;        /* what a launch needs, but for the caller's memory */
    gd_budget *budget;   /* of both */
    gd_ends ends;        /* of the stages of a host graph */
    double rounding;     /* of a cycle's sum, if there may be negative ones */
    bool guesses;        /* that no weight of an undirected graph is negative */
    const gd_kernel *kernel;
} apsp_job;

static gd_status check(const gd_graph *graph, const gd_matrix *out, const gd_matrix *pred,
                       gd_error *err)
{
    const gd_matrix *w = &graph->weights;
    const ptrdiff_t n = w->rows;
    if (w->dtype == GD_BOOL) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph must be of float32, float64 or int32, not bool");
    }
    if (w->cols != n) {
        return GD_FAIL(err, GD_BAD_VALUE, "graph must be square, got shape (%td, %td)", n, w->cols);
    }
    if (out->rows != n || out->cols != n || (pred->data && (pred->rows != n || pred->cols != n))) {
        return GD_FAIL(err, GD_BAD_VALUE, "the results must have shape (%td, %td)", n, n);
    }
    if (pred->data != NULL && pred->dtype != GD_I32) {
        return GD_FAIL(err, GD_BAD_TYPE, "predecessors are int32, not %s",
                       gd_dtype_name(pred->dtype));
    }
    if (!gd_same_device(w, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "graph and out are on different devices");
    }
    return GD_OK;
}

/* What the weights rule out, found while reading them. */
static gd_status check_facts(const gd_graph *graph, gd_dtype out_dtype, const gd_graph_facts *facts,
                             gd_error *err)
{
    const ptrdiff_t n = graph->weights.rows;
    if (graph->no_edge == GD_NO_EDGE_SENTINEL && graph->sentinel < 0 && facts->negative_at >= 0) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "graph[%td, %td] is a negative weight, which no_edge=%g leaves no room for",
                       facts->negative_at / n, facts->negative_at % n, graph->sentinel);
    }
    if (out_dtype == GD_I32 && facts->fractional_at >= 0) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "graph[%td, %td] is not a whole number, which dtype=int32 needs",
                       facts->fractional_at / n, facts->fractional_at % n);
    }
    if (out_dtype == GD_I32 && facts->max_abs >= GD_I32_WEIGHT_LIMIT) {
        return GD_FAIL(
            err, GD_BAD_VALUE,
            "graph has a weight of magnitude %.0f; dtype=int32 takes weights below 2**29",
            facts->max_abs);
    }
    if (out_dtype == GD_F32 && facts->max_abs > FLT_MAX) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "graph has a weight of magnitude %g, which float32 cannot hold",
                       facts->max_abs);
    }
    return GD_OK;
}

/* Whether check_facts finds nothing to say of any weights. */
static bool takes_any(const gd_graph *graph, gd_dtype out_dtype)
{
    return graph->weights.dtype == GD_F32 && out_dtype == GD_F32 &&
           !(graph->no_edge == GD_NO_EDGE_SENTINEL && graph->sentinel < 0);
}

static bool aligned(const gd_matrix *x, ptrdiff_t padded)
{
    return x->row_stride == padded && x->col_stride == 1 && (uintptr_t)x->data % 64 == 0;
}

/* Undirected reading looks at [i, j] and [j, i], so it cannot overwrite what it reads; nor can
 * reading int32, which may have to be done again in float64. */
static bool overwrites(const gd_graph *graph, const gd_matrix *out)
{
    return graph->weights.data == out->data && (!graph->directed || out->dtype == GD_I32);
}

/* Where the kernel works: in the caller's memory where it fits the kernel's form, else in our own.
 */
static gd_status place(apsp_job *job, const gd_matrix *theirs, bool may_use_theirs, gd_dtype dtype,
                       const char *what, void **work, gd_error *err)
{
    const ptrdiff_t padded = job->call.padded;
    gd_matrix own;
    if (may_use_theirs && theirs->device.backend == job->own.device.backend &&
        padded == job->call.n && aligned(theirs, padded)) {
        *work = theirs->data;
        return GD_OK;
    }
    const gd_status status = gd_stage_matrix(&job->own, padded, padded, dtype, what, &own, err);
    *work = own.data;
    return status;
}

/* Chooses the kernel for the dtype of the computation. */
static gd_status choose(apsp_job *job, const gd_orders *orders, gd_dtype dtype, gd_error *err)
{
    gd_apsp *call = &job->call;
    gd_choice choice;
    gd_status status;
    const gd_request request = {
        .op = GD_OP_APSP,
        .orders = gd_orders_near(job->out.device, orders),
        .dtype = dtype,
        .bottleneck = call->semiring == GD_MIN_MAX,
        .predecessors = job->pred.data != NULL,
        .n = call->n,
    };
    if ((status = gd_choose(&request, &choice, err)) != GD_OK) {
        return status;
    }
    job->kernel = choice.kernel;
    call->dtype = dtype;
    call->launch.device = choice.device;
    call->launch.options = choice.options;
    call->launch.stream = gd_stream_near(job->out.device, choice.device, orders);
    call->launch.watch = orders->watch;
    job->own =
        (gd_stage){.device = choice.device, .stream = call->launch.stream, .budget = job->budget};
    return GD_OK;
}

/* Whether a host graph can be read where it is closed. */
static bool lands_in_place(const apsp_job *job)
{
    const gd_matrix *host = &job->graph.weights;
    return job->graph.directed && host->dtype == job->call.dtype && host->dtype != GD_I32;
}

/* Stages beside the bus take memory, and one matrix that goes there or home. */
static gd_status take_ends(apsp_job *job, gd_error *err)
{
    const bool staged = job->out.device.backend != job->own.device.backend;
    const bool can = staged && job->pred.data == NULL && job->budget->unasked;
    const bool arrives = job->graph.weights.device.backend == GD_CPU && lands_in_place(job);
    return gd_ends_take(&job->ends, &job->call, can && arrives, can, &job->own, err);
}

static gd_status size_and_place(apsp_job *job, gd_error *err)
{
    gd_apsp *call = &job->call;
    gd_status status;
    void *pred = NULL;
    call->step = 0;
    call->zeros = 0;
    call->looks = call->tells = false;
    call->launch.sizing = true;
    call->pred = job->pred.data; /* so that sizing knows whether there is one */
    if ((status = job->kernel->launch.apsp(call, err)) != GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    call->pred = NULL;
    status =
        place(job, &job->out, job->out.dtype == call->dtype && !overwrites(&job->graph, &job->out),
              call->dtype, "the matrix of path lengths", &call->dist, err);
    if (status == GD_OK && job->pred.data != NULL) {
        status = place(job, &job->pred, true, GD_I32, "the matrix of predecessors", &pred, err);
        call->pred = pred;
    }
    if (status == GD_OK) { /* one allocation for both */
        const bool on_cuda = call->launch.device.backend == GD_CUDA;
        const size_t found = on_cuda ? GD_FOUND_BYTES(call->n) : 0;
        void *memory;
        status = gd_stage_memory(&job->own, 1, found + call->launch.workspace_bytes,
                                 "the workspace of apsp", &memory, err);
        call->found = on_cuda ? memory : NULL;
        call->launch.workspace = status == GD_OK ? (char *)memory + found : NULL;
    }
    return status == GD_OK ? take_ends(job, err) : status;
}

/* facts may be NULL on a device, where they are waited for. */
static gd_status graph_read(apsp_job *job, gd_graph_facts *facts, gd_error *err)
{
    gd_apsp *call = &job->call;
    if (call->launch.device.backend == GD_CPU) {
        return gd_cpu_graph_read(&job->graph, call, facts, err);
    }
    const gd_status status = gd_cuda_graph_read(&job->graph, call, 0, call->padded, err);
    return status == GD_OK && facts != NULL ? gd_cuda_graph_facts(call, facts, err) : status;
}

/* Where a graph is that is read in place. */
static void settle_in_place(apsp_job *job)
{
    gd_matrix *there = &job->graph.weights;
    there->data = job->call.dist;
    there->row_stride = job->call.padded;
    there->device = job->own.device;
}

/* A host graph goes straight to where it is closed, if it can be read in place there. */
static gd_status bring_graph(apsp_job *job, gd_error *err)
{
    const gd_apsp *call = &job->call;
    const gd_matrix host = job->graph.weights;
    gd_matrix *there = &job->graph.weights;
    const gd_stage *own = &job->own;
    const size_t size = gd_dtype_size(host.dtype);
    if (host.device.backend == own->device.backend) {
        return GD_OK;
    }
    if (!lands_in_place(job)) {
        return gd_stage_bring(&job->brought, &host, "the graph", there, err);
    }
    settle_in_place(job);
    return job->budget->counting
               ? GD_OK
               : gd_send_rows(own->device, own->stream, call->dist, (size_t)call->padded * size,
                              host.data, (size_t)host.row_stride * size, (size_t)host.cols * size,
                              host.rows, err);
}

/* Where host results are on the device, before they come home: in place, but for a result of
 * another dtype than the computation's. */
static gd_status locate(apsp_job *job, gd_matrix *out, gd_matrix *pred, gd_error *err)
{
    const gd_apsp *call = &job->call;
    *out = job->out;
    *pred = job->pred;
    out->device = pred->device = call->launch.device;
    out->data = call->dist;
    pred->data = call->pred;
    out->row_stride = pred->row_stride = call->padded;
    return job->out.dtype == call->dtype ? GD_OK
                                         : gd_stage_matrix(&job->own, call->n, call->n,
                                                           job->out.dtype, "the result", out, err);
}

/* Rows on their way home: closed, if that was left over, and written on the device. */
typedef struct leaving {
    apsp_job *job;
    gd_matrix out, pred;
    double unreachable;
} leaving;

static gd_status leave(void *context, ptrdiff_t first, ptrdiff_t rows, void *panel, gd_error *err)
{
    leaving *way = context;
    apsp_job *job = way->job;
    const gd_status status = gd_ends_leave(&job->ends, &job->call, first, rows, err);
    (void)panel;
    return status == GD_OK
               ? gd_cuda_paths_write(&job->call, &way->out, &way->pred, way->unreachable,
                                     job->graph.flip, first, rows, err)
               : status;
}

static gd_status bring_home(leaving *way, gd_error *err)
{
    apsp_job *job = way->job;
    const size_t size = gd_dtype_size(way->out.dtype);
    const gd_result result = {
        .stage = &job->own,
        .to = job->out.data,
        .row_bytes = (size_t)job->call.n * size,
        .rows = job->call.n,
        .whole = way->out.data,
        .pitch = (size_t)way->out.row_stride * size,
        .fill = leave,
        .context = way,
        .panel_rows = job->ends.tail > 0 ? job->ends.rows : 0,
    };
    gd_status status = gd_ends_begin_leaving(&job->ends, &job->call, err);
    status = status == GD_OK ? gd_bring_result(&result, err) : status;
    return status == GD_OK && job->pred.data != NULL
               ? gd_stage_home(&job->own, &way->pred, job->pred.data, err)
               : status;
}

/* Refuses what does not fit. The job is a copy to play with. */
static gd_status count_memory(apsp_job job, gd_error *err)
{
    const bool staged = job.out.device.backend != job.own.device.backend;
    gd_matrix out, pred;
    gd_status status = size_and_place(&job, err);
    status = status == GD_OK ? bring_graph(&job, err) : status;
    if (status == GD_OK && staged) { /* results take nothing on their way home */
        status = locate(&job, &out, &pred, err);
    }
    return status == GD_OK ? gd_budget_grant(job.budget, job.own.device, "apsp", NULL, err)
                           : status;
}

/* A host result of work on a device: written in place there, then copied. */
static gd_status write_out(apsp_job *job, double unreachable, uint8_t *negative_nodes,
                           gd_paths_facts *facts, gd_error *err)
{
    const gd_apsp *call = &job->call;
    const bool flip = job->graph.flip;
    leaving way = {job, job->out, job->pred, unreachable};
    gd_status status;
    if (call->launch.device.backend == GD_CPU) {
        return gd_cpu_paths_write(call, &way.out, &way.pred, unreachable, flip, negative_nodes,
                                  facts, err);
    }
    if (job->out.device.backend == GD_CUDA) {
        status = gd_cuda_paths_write(call, &way.out, &way.pred, unreachable, flip, 0, call->n, err);
    }
    else if ((status = locate(job, &way.out, &way.pred, err)) == GD_OK) {
        status = bring_home(&way, err);
    }
    return status == GD_OK ? gd_cuda_paths_facts(call, negative_nodes, facts, err) : status;
}

/* What the facts say to the kernel. They are of the weights as given, which it may see negated. An
 * undirected edge of negative weight is a cycle whose sum is exact. */
static void tell(apsp_job *job, const gd_graph_facts *facts)
{
    gd_apsp *call = &job->call;
    job->rounding =
        call->semiring == GD_MIN_PLUS && job->graph.directed &&
                (facts->negative_at >= 0 || job->graph.flip)
            ? gd_cycle_rounding(call->dtype, call->n, facts->max_abs, facts->fractional_at >= 0)
            : 0;
    call->nonnegative = facts->negative_at < 0 && !job->graph.flip;
    call->longest =
        call->nonnegative && facts->fractional_at < 0 ? facts->max_abs * (double)(call->n - 1) : 0;
}

/* Sums could meet the int32 sentinel. float64 holds every such sum exactly, so compute there and
 * convert. */
static bool leaves_int32(const apsp_job *job, const gd_graph_facts *facts)
{
    return job->call.dtype == GD_I32 && job->call.semiring == GD_MIN_PLUS &&
           facts->max_abs * (double)(job->call.n - 1) >= GD_I32_WEIGHT_LIMIT;
}

static gd_status choose_float64(apsp_job *job, const gd_orders *orders, const gd_graph_facts *facts,
                                gd_error *err)
{
    if (!(job->kernel->dtypes & GD_BIT(GD_F64))) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "kernel '%s' computes in int32 alone: with %td nodes it takes weights "
                       "whose sums stay below 2**29, got one of magnitude %.0f",
                       job->kernel->id, job->call.n, facts->max_abs);
    }
    /* The graph may be there already. */
    gd_orders same = *orders;
    same.where = job->call.launch.device.backend == GD_CUDA ? GD_WHERE_CUDA : GD_WHERE_CPU;
    same.cuda_index = job->call.launch.device.index;
    return choose(job, &same, GD_F64, err);
}

/* ---------------------------------------------------------------- larger than the devices */

/* Several devices always can. */
static bool can_go_far(const apsp_job *job)
{
    return job->out.device.backend == GD_CPU && job->kernel->backend == GD_CUDA &&
           !(job->kernel->flags & GD_TEACHING);
}

/* What is free on each of them, but for what others ask for meanwhile. */
static gd_status find_room(const gd_devices *devices, size_t *room, gd_error *err)
{
    gd_status status = GD_OK;
    *room = SIZE_MAX;
    for (int i = 0; i < devices->count && status == GD_OK; ++i) {
        size_t bytes;
        int previous;
        if ((status = gd_enter(devices->each[i], &previous, err)) == GD_OK) {
            status = gd_cuda_free_memory(&bytes, err);
            *room = status == GD_OK && bytes < *room ? bytes : *room;
            gd_leave(devices->each[i], previous);
        }
    }
    *room -= *room / 32;
    return status;
}

/* Plans for what there may be, and refuses what even the smallest blocks do not fit. */
static gd_status plan_far(apsp_job *job, const gd_orders *orders, const gd_devices *devices,
                          gd_far *far, gd_error *err)
{
    const gd_apsp *call = &job->call;
    const gd_devices one = {1, {call->launch.device}};
    const bool on_cuda = call->launch.device.backend == GD_CUDA, unasked = orders->max_memory == 0;
    size_t room = orders->max_memory;
    *far = (gd_far){.launch = on_cuda ? gd_cuda_apsp_band : gd_cpu_apsp_band,
                    .devices = devices != NULL ? *devices : one,
                    .pred = job->pred.data};
    far->call.launch = call->launch;
    far->call.n = call->n;
    far->call.dtype = call->dtype;
    far->call.semiring = call->semiring;
    gd_status status = unasked ? find_room(&far->devices, &room, err) : GD_OK;
    if (status != GD_OK || (status = gd_far_plan(far, room, err)) != GD_OK) {
        return status;
    }
    *job->budget = (gd_budget){.allowed = room, .unasked = unasked, .most = far->bytes};
    return gd_budget_grant(job->budget, call->launch.device, "apsp", NULL, err);
}

/* ---------------------------------------------------------------- shared by several devices */

static gd_status judge(void *context, const gd_graph_facts *facts, bool *nonnegative, gd_error *err)
{
    apsp_job *job = context;
    const gd_status status = check_facts(&job->graph, job->out.dtype, facts, err);
    tell(job, facts);
    *nonnegative = job->call.nonnegative;
    return status;
}

/* Plans, and refuses what does not fit. */
static gd_status plan_shared(apsp_job *job, const gd_orders *orders, const gd_devices *devices,
                             gd_several *several, gd_error *err)
{
    const gd_apsp *call = &job->call;
    const bool on_cuda = call->launch.device.backend == GD_CUDA;
    if (job->kernel->flags & GD_TEACHING) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "kernel '%s' is for one device: several close bands of rows, as "
                       "kernel='auto' does",
                       job->kernel->id);
    }
    *several = (gd_several){.launch = on_cuda ? gd_cuda_apsp_band : gd_cpu_apsp_band,
                            .dist = job->out.data,
                            .pred = job->pred.data};
    several->call.launch = call->launch;
    several->call.n = call->n;
    several->call.dtype = call->dtype;
    several->call.semiring = call->semiring;
    /* Whole numbers that are closed in float64 are made on the host again. */
    const bool reads = on_cuda && lands_in_place(job) && job->out.dtype == call->dtype;
    several->graph = reads ? &job->graph : NULL;
    const gd_status status = gd_several_plan(several, devices, orders->max_memory, err);
    return status == GD_OK ? gd_several_grant(several, err) : status;
}

/* ---------------------------------------------------------------- read and written on the host */

/* Where the answer goes beside the matrices, and what is found on its way. */
typedef struct gd_answer {
    double unreachable;
    uint8_t *negative_nodes;
    gd_paths_facts found;
} gd_answer;

/* The matrix is closed where the caller wants it, or in host memory of our own. */
static gd_status read_on_host(apsp_job *job, gd_stage *host, gd_graph_facts *facts, gd_error *err)
{
    gd_apsp *call = &job->call;
    gd_matrix dist = job->out;
    gd_status status = GD_OK;
    if (job->out.dtype != call->dtype || overwrites(&job->graph, &job->out)) {
        status = gd_stage_matrix(host, call->n, call->n, call->dtype, "the matrix of path lengths",
                                 &dist, err);
    }
    call->padded = call->n;
    call->dist = dist.data;
    call->pred = job->pred.data;
    return status == GD_OK ? gd_cpu_graph_read(&job->graph, call, facts, err) : status;
}

/* A graph that devices read and write themselves. */
static gd_status close_shared(apsp_job *job, gd_several *several, gd_answer *answer, gd_error *err)
{
    several->unreachable = answer->unreachable;
    several->negative_nodes = answer->negative_nodes;
    several->judge = judge;
    several->context = job;
    const gd_status status = gd_several_run(several, err);
    answer->found = several->found;
    return status;
}

/* Closes what several devices share, or else what a device does not hold, nor all of several, and
 * leaves the answer where it belongs. */
static gd_status close_large(apsp_job *job, const gd_orders *orders, const gd_devices *devices,
                             gd_answer *answer, gd_stage *host, gd_error *err)
{
    gd_several several;
    gd_far far;
    gd_graph_facts facts;
    bool held, again;
    gd_status status;
    do {
        status = devices != NULL ? plan_shared(job, orders, devices, &several, err) : GD_NO_MEMORY;
        held = status == GD_OK;
        if (held && several.graph != NULL) {
            return close_shared(job, &several, answer, err);
        }
        if (status == GD_NO_MEMORY) {
            status = plan_far(job, orders, devices, &far, err);
        }
        gd_stage_release(host);
        status = status == GD_OK ? read_on_host(job, host, &facts, err) : status;
        status = status == GD_OK ? check_facts(&job->graph, job->out.dtype, &facts, err) : status;
        again = status == GD_OK && leaves_int32(job, &facts);
        status = again ? choose_float64(job, orders, &facts, err) : status;
    } while (again && status == GD_OK);
    if (status != GD_OK) {
        return status;
    }
    tell(job, &facts);
    several.call.nonnegative = far.call.nonnegative = job->call.nonnegative;
    several.dist = far.dist = job->call.dist;
    status = held ? gd_several_run(&several, err) : gd_far_run(&far, job->budget, err);
    return status == GD_OK
               ? gd_cpu_paths_write(&job->call, &job->out, &job->pred, answer->unreachable,
                                    job->graph.flip, answer->negative_nodes, &answer->found, err)
               : status;
}

/* ---------------------------------------------------------------- one call */

/* Leaves the graph where it is closed, after the stages that rows go through as they come. */
static gd_status take_graph(apsp_job *job, gd_graph_facts *facts, gd_error *err)
{
    const gd_matrix host = job->graph.weights;
    gd_status status;
    if (job->ends.head == 0) {
        status = bring_graph(job, err);
        return status == GD_OK ? graph_read(job, facts, err) : status;
    }
    settle_in_place(job);
    status = gd_ends_arrive(&job->ends, &host, &job->graph, &job->call, err);
    return status == GD_OK ? gd_cuda_graph_facts(&job->call, facts, err) : status;
}

/* Whether the kernel may start before the host knows of the weights: if it finds out itself whether
 * one is negative, or if that shows in the answer. An undirected edge of negative weight is a
 * negative cycle, whatever is done with its length; then all is done again. Notes whether it is
 * such a guess, of which a call makes one. */
static bool may_start(apsp_job *job)
{
    const bool looks = job->call.looks && takes_any(&job->graph, job->out.dtype);
    const bool guesses = looks && !job->call.tells;
    if (guesses && (job->guesses || job->graph.flip || job->graph.weights.data == job->out.data)) {
        return false;
    }
    job->guesses = guesses;
    return looks;
}

/* Leaves the answer where write_out finds it. */
static gd_status close_near(apsp_job *job, const gd_orders *orders, gd_error *err)
{
    gd_graph_facts facts;
    gd_status status = size_and_place(job, err);
    if (status == GD_OK && may_start(job)) {
        status = bring_graph(job, err);
        status = status == GD_OK ? graph_read(job, NULL, err) : status;
        job->call.nonnegative = !job->graph.flip;
        return status == GD_OK ? job->kernel->launch.apsp(&job->call, err) : status;
    }
    if (status != GD_OK || (status = take_graph(job, &facts, err)) != GD_OK ||
        (status = check_facts(&job->graph, job->out.dtype, &facts, err)) != GD_OK) {
        return status;
    }
    if (leaves_int32(job, &facts)) {
        gd_stage_release(&job->own);
        if ((status = choose_float64(job, orders, &facts, err)) != GD_OK ||
            (status = size_and_place(job, err)) != GD_OK ||
            (status = graph_read(job, &facts, err)) != GD_OK) {
            return status;
        }
    }
    tell(job, &facts);
    return job->kernel->launch.apsp(&job->call, err);
}

/* Whether elements of a device's matrix follow each other in rows that do. */
static bool is_dense(const gd_matrix *x)
{
    return x->device.backend == GD_CUDA && x->col_stride == 1 && x->row_stride == x->cols;
}

/* Whether a kernel may take the weights as they are and leave the answer where it belongs, without
 * losing the weights. */
static bool is_there(const apsp_job *job)
{
    const gd_matrix *w = &job->graph.weights, *out = &job->out;
    const size_t size = gd_dtype_size(w->dtype), rows = (size_t)job->call.n;
    const uintptr_t from = (uintptr_t)w->data, to = (uintptr_t)out->data;
    return job->kernel->backend == GD_CUDA && !(job->kernel->flags & GD_TEACHING) &&
           job->call.semiring == GD_MIN_PLUS && w->device.backend == GD_CUDA &&
           w->col_stride == 1 && w->row_stride >= w->cols && is_dense(out) &&
           (job->pred.data == NULL || is_dense(&job->pred)) &&
           (from + rows * (size_t)w->row_stride * size <= to ||
            to + rows * rows * gd_dtype_size(out->dtype) <= from);
}

/* Closes a graph in one go, as a batch of one, if that can be done and there is no doubt about the
 * answer: a negative cycle, or one that rounding may hide. */
static gd_status close_whole(const apsp_job *job, double unreachable, const gd_orders *orders,
                             bool *done, gd_error *err)
{
    enum { MARK_AT = 64 }; /* in the page */
    unsigned *const page = job->call.page;
    gd_stage stage = {.device = job->own.device, .stream = job->own.stream};
    gd_apsp_batch call = {.launch = job->call.launch,
                          .count = 1,
                          .pitch = job->call.n,
                          .graph = job->graph,
                          .dtype = job->call.dtype,
                          .semiring = job->call.semiring,
                          .out = job->out.data,
                          .pred = job->pred.data,
                          .unreachable = unreachable,
                          .doubts = (uint8_t *)page + MARK_AT,
                          .page = page};
    gd_status status;
    bool takes;
    *done = false;
    if (!is_there(job)) {
        return GD_OK;
    }
    call.launch.sizing = true;
    status = gd_cuda_apsp_whole(&call, &takes, err);
    call.launch.sizing = false;
    if (status != GD_OK || !takes ||
        (orders->max_memory != 0 && call.launch.workspace_bytes > orders->max_memory)) {
        return status;
    }
    *page = *call.doubts = 0;
    status = gd_stage_memory(&stage, 1, call.launch.workspace_bytes, "the workspace of apsp",
                             &call.launch.workspace, err);
    status = status == GD_OK ? gd_cuda_apsp_whole(&call, &takes, err) : status;
    status = status == GD_OK ? gd_wait(stage.device, stage.stream, err) : status;
    gd_stage_release(&stage); /* on the default stream a wait for this, too, takes some 7 us more */
    *done = status == GD_OK && *page == 0;
    return status;
}

static gd_status solve(apsp_job *job, const gd_orders *orders, const gd_devices *devices,
                       double unreachable, uint8_t *negative_nodes, gd_cycles_facts *cycles,
                       gd_error *err)
{
    gd_answer answer = {.unreachable = unreachable, .negative_nodes = negative_nodes};
    gd_stage host = {.device = {GD_CPU, 0}};
    bool done = false;
    gd_status status = devices == NULL ? close_whole(job, unreachable, orders, &done, err) : GD_OK;
    if (status != GD_OK || done) {
        return status;
    }
    status = devices == NULL ? count_memory(*job, err) : GD_OK;
    if (devices != NULL || (status == GD_NO_MEMORY && can_go_far(job))) {
        status = close_large(job, orders, devices, &answer, &host, err);
        gd_stage_release(&host);
    }
    else if (status == GD_OK && (status = close_near(job, orders, err)) == GD_OK) {
        status = write_out(job, unreachable, negative_nodes, &answer.found, err);
        if (status == GD_OK && job->guesses && answer.found.on_negative_cycle > 0) {
            gd_stage_release(&job->own);
            status = close_near(job, orders, err);
            status = status == GD_OK
                         ? write_out(job, unreachable, negative_nodes, &answer.found, err)
                         : status;
        }
    }
    if (status != GD_OK) {
        return status;
    }
    *cycles = (gd_cycles_facts){answer.found.on_negative_cycle, job->rounding};
    if (answer.found.on_negative_cycle == 0 && answer.found.too_long > 0) {
        return GD_FAIL(err, GD_OVERFLOW,
                       "%td path lengths reach 2**30, which int32 results do not hold; use "
                       "dtype=float64",
                       answer.found.too_long);
    }
    return GD_OK;
}

gd_status gd_run_apsp(const gd_graph *graph, const gd_matrix *out, const gd_matrix *pred,
                      gd_semiring semiring, double unreachable, const gd_orders *orders,
                      const gd_devices *devices, uint8_t *negative_nodes, gd_cycles_facts *cycles,
                      gd_error *err)
{
    const bool narrow = graph->weights.dtype == GD_F32;
    const double n = (double)graph->weights.rows;
    gd_budget budget = gd_budget_of(orders);
    apsp_job job = {.graph = *graph,
                    .out = *out,
                    .pred = *pred,
                    .call.n = graph->weights.rows,
                    .call.symmetric = !graph->directed,
                    .budget = &budget};
    int previous;
    gd_status status = check(graph, out, pred, err);
    *cycles = (gd_cycles_facts){0, 0};
    job.graph.flip = semiring == GD_MAX_PLUS || semiring == GD_MAX_MIN;
    job.call.semiring = gd_ring_within(semiring);
    gd_watch_work(orders->watch, n * n * n);
    if (narrow) { /* 0.1 is to match the float32 array's 0.1 */
        job.graph.sentinel = (double)(float)graph->sentinel;
    }
    if (status != GD_OK || (status = choose(&job, orders, out->dtype, err)) != GD_OK ||
        job.call.n == 0) {
        return status;
    }
    const gd_device device = job.call.launch.device;
    job.brought = job.own;
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    if ((status = gd_refuse_capture(device, job.call.launch.stream, "apsp", err)) != GD_OK) {
        gd_leave(device, previous);
        return status;
    }
    if (device.backend == GD_CUDA) {
        status = gd_cuda_page_take(&job.call.page, err);
    }
    if (status == GD_OK) {
        status = solve(&job, orders, devices, unreachable, negative_nodes, cycles, err);
    }
    gd_stage_release(&job.own);
    gd_stage_release(&job.brought);
    if (status != GD_OK) { /* an answer has been waited for, with its facts */
        status = gd_settle(device, job.call.launch.stream, status, err);
    }
    gd_cuda_page_give(job.call.page);
    gd_leave(device, previous);
    return status;
}
