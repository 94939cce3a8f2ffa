/* run_apsp_stacked.c: shortest paths in many graphs of one size, on a CUDA device.
 *
 * Arrays of the device are read and written where they are. Those of the host travel in parts, by
 * the bus. A part's kernels need no answer of the host in between: they leave a mark for each graph
 * that has to be looked at alone, and one for all, which is what is waited for. */
#include "run_apsp_stacked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"
#include "stage.h"
#include "watch.h"

/* What a part of host arrays takes on the device at most. */
static const double PART_BYTES = 0x1p30;
/* Where the marks of graphs begin in the page, behind the one for all, and for how many there is
 * room. Those of more graphs are in device memory. */
enum { MARKS_AT = 64, MARKS = GD_PAGE_BYTES - MARKS_AT };

typedef struct stacked {
    gd_apsp_batch all; /* as the caller has it */
    const gd_batch *batch;
    const gd_kernel *kernel;
    const gd_orders *orders;
    bool staged; /* the arrays are on the host */
    void *stream;
    gd_device device;
    unsigned *page;
    double *doubts;
    bool *left;
    ptrdiff_t part; /* graphs at a time */
} stacked;

static uint8_t *marks_of(const stacked *job) { return (uint8_t *)job->page + MARKS_AT; }

/* The matrices of some graphs in one of the caller's rows, one below the other. */
static gd_matrix rows_of(const stacked *job, const void *data, gd_dtype dtype, ptrdiff_t first,
                         ptrdiff_t count)
{
    const ptrdiff_t n = job->all.pitch;
    return gd_dense((char *)data + (size_t)(first * n * n) * gd_dtype_size(dtype), count * n, n,
                    dtype, job->staged ? (gd_device){GD_CPU, 0} : job->device);
}

/* Brings what the kernels read, and makes room for what they write. */
static gd_status settle(const stacked *job, ptrdiff_t first, ptrdiff_t count, gd_stage *stage,
                        gd_apsp_batch *call, gd_error *err)
{
    const ptrdiff_t n = job->all.pitch;
    const gd_matrix given =
        rows_of(job, job->all.graph.weights.data, job->all.graph.weights.dtype, first, count);
    gd_matrix weights = given, sizes = {0};
    gd_matrix out = rows_of(job, job->all.out, job->all.dtype, first, count), pred = {0};
    void *doubts;
    gd_status status = GD_OK;
    if (job->all.pred != NULL) {
        pred = rows_of(job, job->all.pred, GD_I32, first, count);
    }
    if (job->staged) {
        status = gd_stage_bring(stage, &given, "the graphs", &weights, err);
        status = status == GD_OK ? gd_stage_matrix(stage, count * n, n, out.dtype,
                                                   "the path lengths", &out, err)
                                 : status;
        if (status == GD_OK && job->all.pred != NULL) {
            status = gd_stage_matrix(stage, count * n, n, GD_I32, "the predecessors", &pred, err);
        }
    }
    if (status == GD_OK && job->batch->sizes != NULL) {
        const gd_matrix listed =
            gd_dense((void *)(job->batch->sizes + first), 1, count, GD_I32, (gd_device){GD_CPU, 0});
        status = gd_stage_bring(stage, &listed, "the graphs' sizes", &sizes, err);
    }
    *call = job->all;
    call->count = count;
    call->graph.weights = weights;
    call->out = out.data;
    call->pred = pred.data;
    call->sizes = sizes.data;
    call->page = job->page;
    call->launch.sizing = true;
    status = status == GD_OK ? job->kernel->launch.apsp_batch(call, err) : status;
    call->launch.sizing = false;
    doubts = marks_of(job);
    if (status == GD_OK && count > MARKS) {
        status =
            gd_stage_memory(stage, (size_t)count, 1, "what is found of each graph", &doubts, err);
    }
    if (status != GD_OK) {
        return status;
    }
    call->doubts = doubts;
    return gd_stage_memory(stage, 1, call->launch.workspace_bytes, "the workspace of apsp_batch",
                           &call->launch.workspace, err);
}

/* Which of the graphs have to be looked at alone. */
static gd_status learn(const stacked *job, ptrdiff_t first, const gd_apsp_batch *call,
                       gd_error *err)
{
    const size_t count = (size_t)call->count;
    uint8_t *own = NULL;
    gd_status status = gd_wait(job->device, job->stream, err);
    if (status != GD_OK || *job->page == 0) {
        return status;
    }
    if (call->count > MARKS) {
        if ((own = malloc(count)) == NULL) {
            return GD_FAIL(err, GD_NO_MEMORY, "%zu graphs need %zu bytes", count, count);
        }
        status =
            gd_copy_rows(job->device, job->stream, own, count, call->doubts, count, count, 1, err);
        status = gd_settle(job->device, job->stream, status, err);
    }
    const uint8_t *const found = own != NULL ? own : call->doubts;
    for (size_t i = 0; status == GD_OK && i < count; ++i) {
        if (found[i] != 0) {
            job->doubts[first + (ptrdiff_t)i] = (double)NAN;
            *job->left = true;
        }
    }
    free(own);
    return status;
}

static gd_status do_part(const stacked *job, ptrdiff_t first, ptrdiff_t count, gd_stage *stage,
                         gd_error *err)
{
    gd_apsp_batch call;
    gd_status status = settle(job, first, count, stage, &call, err);
    if (status != GD_OK || stage->budget->counting) {
        return status;
    }
    *job->page = 0;
    if (count > MARKS) {
        status = gd_cuda_clear(job->stream, call.doubts, (size_t)count, err);
    }
    else {
        memset(call.doubts, 0, (size_t)count);
    }
    status = status == GD_OK ? job->kernel->launch.apsp_batch(&call, err) : status;
    if (status == GD_OK && job->staged) {
        gd_matrix there = rows_of(job, job->all.out, call.dtype, first, count);
        void *const home = there.data;
        there.device = job->device;
        there.data = call.out;
        status = gd_stage_home(stage, &there, home, err);
    }
    if (status == GD_OK && job->staged && call.pred != NULL) {
        gd_matrix there = rows_of(job, job->all.pred, GD_I32, first, count);
        void *const home = there.data;
        there.device = job->device;
        there.data = call.pred;
        status = gd_stage_home(stage, &there, home, err);
    }
    return status == GD_OK ? learn(job, first, &call, err) : status;
}

/* As many graphs at a time as there is memory for. */
static gd_status plan(stacked *job, gd_budget *budget, gd_error *err)
{
    const double n = (double)job->all.pitch;
    const ptrdiff_t count = job->all.count;
    const double each = n * n *
                        (double)(gd_dtype_size(job->all.graph.weights.dtype) +
                                 gd_dtype_size(job->all.dtype) + sizeof(int32_t));
    gd_status status = GD_OK;
    job->part = count;
    if (job->staged && each * (double)count > PART_BYTES) {
        job->part = gd_most((ptrdiff_t)(PART_BYTES / each), 1);
    }
    for (;; job->part = gd_ceil_div(job->part, (ptrdiff_t)2)) {
        *budget = gd_budget_of(job->orders);
        gd_stage dry = {.device = job->device, .stream = job->stream, .budget = budget};
        status = do_part(job, 0, job->part, &dry, err);
        bool fits = false;
        status = status == GD_OK ? gd_budget_fits(budget, job->device, &fits, err) : status;
        gd_stage_release(&dry);
        if (status != GD_OK || job->part == 1 || fits) {
            break;
        }
    }
    return status == GD_OK ? gd_budget_grant(budget, job->device, "apsp of many graphs", NULL, err)
                           : status;
}

static gd_status run(stacked *job, gd_error *err)
{
    const ptrdiff_t count = job->all.count;
    gd_budget budget;
    gd_stage stage = {.device = job->device, .stream = job->stream, .budget = &budget};
    gd_status status = plan(job, &budget, err);
    for (ptrdiff_t first = 0; status == GD_OK && first < count; first += job->part) {
        const double share = 1 / (double)count;
        const ptrdiff_t some = gd_least(job->part, count - first);
        gd_watch_part(job->orders->watch, (double)first * share, (double)some * share);
        status = do_part(job, first, some, &stage, err);
        if (status != GD_OK) {
            status = gd_settle(job->device, job->stream, status, err);
        }
        gd_stage_release(&stage);
    }
    gd_watch_part(job->orders->watch, 0, 1);
    return status;
}

gd_status gd_run_apsp_stacked(const gd_apsp_batch *call, const gd_batch *batch, gd_device where,
                              const gd_choice *choice, const gd_orders *orders, double *doubts,
                              bool *left, gd_error *err)
{
    stacked job = {.all = *call,
                   .batch = batch,
                   .kernel = choice->kernel,
                   .orders = orders,
                   .staged = where.backend == GD_CPU,
                   .stream = gd_stream_near(where, choice->device, orders),
                   .device = choice->device,
                   .doubts = doubts,
                   .left = left};
    void *page = NULL;
    int previous;
    gd_status status = gd_enter(job.device, &previous, err);
    if (status != GD_OK) {
        return status;
    }
    job.all.launch.stream = job.stream;
    status = gd_refuse_capture(job.device, job.stream, "apsp of many graphs", err);
    status = status == GD_OK ? gd_cuda_page_take(&page, err) : status;
    if (status == GD_OK) {
        job.page = page;
        status = run(&job, err);
        gd_cuda_page_give(page);
    }
    gd_leave(job.device, previous);
    return status;
}
