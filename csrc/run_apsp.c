/* run_apsp.c: all-pairs shortest paths end to end. */
#include <float.h>
#include <string.h>

#include "device.h"
#include "registry.h"
#include "run.h"

/* int32 weights must lie below this, path lengths of a result below twice it. */
#define I32_WEIGHT_LIMIT 536870912.0 /* 2**29 */

/* All that one call owns, so that one function can free it. */
typedef struct apsp_job {
    gd_apsp call;
    gd_graph graph;      /* as the kernels see it: on the device */
    gd_matrix out, pred; /* as the caller sees them */
    void *staged;        /* the graph's copy on the device, or NULL */
    void *own_dist;      /* call.dist, unless that is the caller's memory */
    void *own_pred;      /* likewise */
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
    if (w->device.backend != out->device.backend || w->device.index != out->device.index) {
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
    if (out_dtype == GD_I32 && facts->max_abs >= I32_WEIGHT_LIMIT) {
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

static bool aligned(const gd_matrix *x, ptrdiff_t padded)
{
    return x->row_stride == padded && x->col_stride == 1 && (uintptr_t)x->data % 64 == 0;
}

/* Undirected reading looks at [i, j] and [j, i], so it cannot overwrite what it reads. */
static bool overwrites(const gd_graph *graph, const gd_matrix *out)
{
    return graph->weights.data == out->data && !graph->directed;
}

/* Where the kernel works: in the caller's memory where it fits the kernel's form, else in our own.
 */
static gd_status place(gd_matrix *theirs, bool may_use_theirs, gd_apsp *call, size_t size,
                       const char *what, void **own, void **work, gd_error *err)
{
    const gd_device device = call->launch.device;
    size_t bytes;
    *own = NULL;
    if (may_use_theirs && theirs->device.backend == device.backend && call->padded == call->n &&
        aligned(theirs, call->padded)) {
        *work = theirs->data;
        return GD_OK;
    }
    if (__builtin_mul_overflow((size_t)call->padded, (size_t)call->padded, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    gd_status status = gd_alloc(device, call->launch.stream, bytes, what, own, err);
    *work = *own;
    return status;
}

/* Chooses the kernel for the dtype of the computation. */
static gd_status choose(apsp_job *job, const gd_orders *orders, gd_dtype dtype, gd_error *err)
{
    gd_apsp *call = &job->call;
    const bool on_host = job->out.device.backend == GD_CPU;
    gd_choice choice;
    gd_status status;
    const gd_request request = {
        .op = GD_OP_APSP,
        .orders = gd_orders_near(job->out.device, orders),
        .dtype = dtype,
        .n = call->n,
    };
    if ((status = gd_choose(&request, &choice, err)) != GD_OK) {
        return status;
    }
    job->kernel = choice.kernel;
    call->dtype = dtype;
    call->launch.device = choice.device;
    call->launch.options = choice.options;
    call->launch.stream =
        on_host && choice.device.backend == GD_CUDA ? GD_THREAD_STREAM : orders->stream;
    return GD_OK;
}

static gd_status size_and_place(apsp_job *job, gd_error *err)
{
    gd_apsp *call = &job->call;
    gd_status status;
    void *pred = NULL;
    call->launch.sizing = true;
    call->pred = job->pred.data; /* so that sizing knows whether there is one */
    if ((status = job->kernel->launch.apsp(call, err)) != GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    call->pred = NULL;
    status = place(&job->out, job->out.dtype == call->dtype && !overwrites(&job->graph, &job->out),
                   call, gd_dtype_size(call->dtype), "the matrix of path lengths", &job->own_dist,
                   &call->dist, err);
    if (status == GD_OK && job->pred.data != NULL) {
        status = place(&job->pred, true, call, sizeof(int32_t), "the matrix of predecessors",
                       &job->own_pred, &pred, err);
        call->pred = pred;
    }
    if (status == GD_OK) {
        status = gd_alloc(call->launch.device, call->launch.stream, call->launch.workspace_bytes,
                          "the workspace of apsp", &call->launch.workspace, err);
    }
    return status;
}

static void release(apsp_job *job)
{
    const gd_device device = job->call.launch.device;
    void *stream = job->call.launch.stream;
    gd_free(device, stream, job->call.launch.workspace);
    gd_free(device, stream, job->own_dist);
    gd_free(device, stream, job->own_pred);
    job->call.launch.workspace = job->own_dist = job->own_pred = NULL;
}

static gd_status graph_read(apsp_job *job, gd_graph_facts *facts, gd_error *err)
{
    return job->call.launch.device.backend == GD_CUDA
               ? gd_cuda_graph_read(&job->graph, &job->call, facts, err)
               : gd_cpu_graph_read(&job->graph, &job->call, facts, err);
}

static gd_status stage_graph(apsp_job *job, gd_error *err)
{
    gd_matrix *w = &job->graph.weights;
    const gd_device device = job->call.launch.device;
    void *stream = job->call.launch.stream;
    const size_t size = gd_dtype_size(w->dtype), row_bytes = (size_t)w->cols * size;
    const void *host = w->data;
    const size_t pitch = (size_t)w->row_stride * size;
    gd_status status;
    if (w->device.backend == device.backend) {
        return GD_OK;
    }
    status = gd_alloc(device, stream, row_bytes * (size_t)w->rows, "the graph", &job->staged, err);
    if (status == GD_OK) {
        status = gd_copy_rows(device, stream, job->staged, row_bytes, host, pitch, row_bytes,
                              (size_t)w->rows, err);
        w->data = job->staged;
        w->row_stride = w->cols;
        w->device = device;
    }
    return status;
}

/* A host result of work on a device: written in place there, then copied. */
static gd_status write_out(apsp_job *job, double unreachable, uint8_t *negative_nodes,
                           gd_paths_facts *facts, gd_error *err)
{
    const gd_apsp *call = &job->call;
    const gd_device device = call->launch.device;
    const size_t n = (size_t)call->n, size = gd_dtype_size(job->out.dtype);
    gd_matrix out = job->out, pred = job->pred;
    void *narrow = NULL;
    gd_status status = GD_OK;
    if (device.backend == GD_CPU) {
        return gd_cpu_paths_write(call, &out, &pred, unreachable, negative_nodes, facts, err);
    }
    if (job->out.device.backend == GD_CUDA) {
        return gd_cuda_paths_write(call, &out, &pred, unreachable, negative_nodes, facts, err);
    }
    out.device = pred.device = device;
    out.data = call->dist;
    out.row_stride = call->padded;
    pred.data = call->pred;
    pred.row_stride = call->padded;
    if (job->out.dtype != call->dtype) {
        status = gd_alloc(device, call->launch.stream, n * n * size, "the result", &narrow, err);
        out.data = narrow;
        out.row_stride = call->n;
    }
    if (status == GD_OK) {
        status = gd_cuda_paths_write(call, &out, &pred, unreachable, negative_nodes, facts, err);
    }
    if (status == GD_OK) {
        status = gd_copy_rows(device, call->launch.stream, job->out.data,
                              (size_t)job->out.row_stride * size, out.data,
                              (size_t)out.row_stride * size, n * size, n, err);
    }
    if (status == GD_OK && job->pred.data != NULL) {
        status =
            gd_copy_rows(device, call->launch.stream, job->pred.data,
                         (size_t)job->pred.row_stride * sizeof(int32_t), pred.data,
                         (size_t)pred.row_stride * sizeof(int32_t), n * sizeof(int32_t), n, err);
    }
    gd_free(device, call->launch.stream, narrow);
    return status;
}

static gd_status solve(apsp_job *job, const gd_orders *orders, double unreachable,
                       uint8_t *negative_nodes, ptrdiff_t *on_negative_cycle, gd_error *err)
{
    gd_graph_facts facts;
    gd_paths_facts found;
    gd_status status;
    if ((status = stage_graph(job, err)) != GD_OK || (status = size_and_place(job, err)) != GD_OK ||
        (status = graph_read(job, &facts, err)) != GD_OK ||
        (status = check_facts(&job->graph, job->out.dtype, &facts, err)) != GD_OK) {
        return status;
    }
    if (job->call.dtype == GD_I32 &&
        facts.max_abs * (double)(job->call.n - 1) >= I32_WEIGHT_LIMIT) {
        /* Sums could meet the int32 sentinel. float64 holds every such sum exactly, so compute
         * there and convert. */
        release(job);
        if ((status = choose(job, orders, GD_F64, err)) != GD_OK ||
            (status = size_and_place(job, err)) != GD_OK ||
            (status = graph_read(job, &facts, err)) != GD_OK) {
            return status;
        }
    }
    job->call.nonnegative = facts.negative_at < 0;
    job->call.symmetric = !job->graph.directed;
    job->call.longest = facts.negative_at < 0 && facts.fractional_at < 0
                            ? facts.max_abs * (double)(job->call.n - 1)
                            : 0;
    if ((status = job->kernel->launch.apsp(&job->call, err)) != GD_OK) {
        return status;
    }
    if (job->out.device.backend != job->call.launch.device.backend) { /* while the device works */
        const size_t elements = (size_t)job->call.n * (size_t)job->call.n;
        gd_touch(job->out.data, elements * gd_dtype_size(job->out.dtype));
        gd_touch(job->pred.data, job->pred.data == NULL ? 0 : elements * sizeof(int32_t));
    }
    if ((status = write_out(job, unreachable, negative_nodes, &found, err)) != GD_OK) {
        return status;
    }
    *on_negative_cycle = found.on_negative_cycle;
    if (found.on_negative_cycle == 0 && found.too_long > 0) {
        return GD_FAIL(err, GD_OVERFLOW,
                       "%td path lengths reach 2**30, which int32 results do not hold; use "
                       "dtype=float64",
                       found.too_long);
    }
    return GD_OK;
}

gd_status gd_run_apsp(const gd_graph *graph, const gd_matrix *out, const gd_matrix *pred,
                      double unreachable, const gd_orders *orders, uint8_t *negative_nodes,
                      ptrdiff_t *on_negative_cycle, gd_error *err)
{
    const bool narrow = graph->weights.dtype == GD_F32;
    apsp_job job = {.graph = *graph, .out = *out, .pred = *pred, .call.n = graph->weights.rows};
    int previous;
    gd_status status = check(graph, out, pred, err);
    *on_negative_cycle = 0;
    if (narrow) { /* 0.1 is to match the float32 array's 0.1 */
        job.graph.sentinel = (double)(float)graph->sentinel;
    }
    if (status != GD_OK || (status = choose(&job, orders, out->dtype, err)) != GD_OK ||
        job.call.n == 0) {
        return status;
    }
    const gd_device device = job.call.launch.device;
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    status = solve(&job, orders, unreachable, negative_nodes, on_negative_cycle, err);
    release(&job);
    gd_free(device, job.call.launch.stream, job.staged);
    status = gd_settle(device, job.call.launch.stream, status, err);
    gd_leave(device, previous);
    return status;
}
