/* run_minplus.c: products over semirings end to end. */
#include "device.h"
#include "registry.h"
#include "run.h"

/* All that one call owns, so that one function can free it. */
typedef struct product_job {
    gd_minplus call;
    const gd_kernel *kernel;
    void *owned[5];
    int owned_count;
} product_job;

static gd_status take_memory(product_job *job, size_t bytes, const char *what, void **out,
                             gd_error *err)
{
    const gd_launch *launch = &job->call.launch;
    const gd_status status = gd_alloc(launch->device, launch->stream, bytes, what, out, err);
    if (status == GD_OK && *out != NULL) {
        job->owned[job->owned_count++] = *out;
    }
    return status;
}

/* ---------------------------------------------------------------- checks */

static gd_status check_operand(const gd_matrix *x, const char *name, ptrdiff_t rows, ptrdiff_t cols,
                               const gd_matrix *out, gd_error *err)
{
    if (x->rows != rows || x->cols != cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s must have shape (%td, %td), got (%td, %td)", name,
                       rows, cols, x->rows, x->cols);
    }
    if (x->dtype != out->dtype) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out differ in dtype: %s, %s", name,
                       gd_dtype_name(x->dtype), gd_dtype_name(out->dtype));
    }
    if (x->device.backend != out->device.backend || x->device.index != out->device.index) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out are on different devices", name);
    }
    return GD_OK;
}

static gd_status check(const gd_minplus *call, gd_error *err)
{
    const gd_matrix *a = &call->a, *b = &call->b, *c = &call->c, *out = &call->out;
    const bool truths = call->semiring == GD_OR_AND;
    gd_status status;
    if (a->cols != b->rows) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "A must have as many columns as B has rows, got %td and %td", a->cols,
                       b->rows);
    }
    if (truths != (out->dtype == GD_BOOL)) {
        return GD_FAIL(err, GD_BAD_TYPE, "or_and takes bool, the others numbers, got %s",
                       gd_dtype_name(out->dtype));
    }
    if ((status = check_operand(out, "out", a->rows, b->cols, out, err)) != GD_OK ||
        (status = check_operand(a, "A", a->rows, a->cols, out, err)) != GD_OK ||
        (status = check_operand(b, "B", b->rows, b->cols, out, err)) != GD_OK) {
        return status;
    }
    return c->data == NULL ? GD_OK : check_operand(c, "C", out->rows, out->cols, out, err);
}

/* ---------------------------------------------------------------- on the device */

/* A dense copy on the device takes the place of a host matrix, with or without its elements. */
static gd_status stage(product_job *job, gd_matrix *x, const char *what, bool copied, gd_error *err)
{
    const gd_launch *launch = &job->call.launch;
    const size_t size = gd_dtype_size(x->dtype), row_bytes = (size_t)x->cols * size;
    const void *host = x->data;
    const size_t pitch = (size_t)x->row_stride * size;
    gd_status status = take_memory(job, row_bytes * (size_t)x->rows, what, &x->data, err);
    x->row_stride = x->cols;
    x->device = launch->device;
    if (status == GD_OK && copied && x->data != NULL) {
        status = gd_copy_rows(launch->device, launch->stream, x->data, row_bytes, host, pitch,
                              row_bytes, (size_t)x->rows, err);
    }
    return status;
}

static gd_status launch(product_job *job, gd_error *err)
{
    gd_minplus *call = &job->call;
    const bool sums = call->semiring == GD_MIN_PLUS || call->semiring == GD_MAX_PLUS;
    void *flag = NULL;
    gd_status status = GD_OK;
    if (sums && call->out.dtype == GD_I32) {
        status = take_memory(job, sizeof(int32_t), "a mark", &flag, err);
        call->out_of_range = flag;
    }
    if (status == GD_OK) {
        call->launch.sizing = true;
        status = job->kernel->launch.minplus(call, err);
    }
    if (status == GD_OK) {
        call->launch.sizing = false;
        status = take_memory(job, call->launch.workspace_bytes, "the workspace of minplus",
                             &call->launch.workspace, err);
    }
    return status == GD_OK ? job->kernel->launch.minplus(call, err) : status;
}

/* Waits, if there is an answer to wait for. */
static gd_status check_range(const product_job *job, gd_error *err)
{
    const gd_launch *launch = &job->call.launch;
    int32_t out_of_range = 0;
    gd_status status;
    if (job->call.out_of_range == NULL) {
        return GD_OK;
    }
    if ((status = gd_copy_rows(launch->device, launch->stream, &out_of_range, sizeof(int32_t),
                               job->call.out_of_range, sizeof(int32_t), sizeof(int32_t), 1, err)) !=
            GD_OK ||
        (status = gd_wait(launch->device, launch->stream, err)) != GD_OK) {
        return status;
    }
    return out_of_range == 0
               ? GD_OK
               : GD_FAIL(err, GD_BAD_VALUE,
                         "A or B has an element of magnitude 2**28 or more, which sums in int32 do "
                         "not take; use dtype=float64");
}

static gd_status work(product_job *job, const gd_matrix *out, gd_error *err)
{
    gd_minplus *call = &job->call;
    const gd_launch *on = &call->launch;
    const bool staged = out->device.backend != on->device.backend;
    const size_t row_bytes = (size_t)out->cols * gd_dtype_size(out->dtype);
    gd_status status = GD_OK;
    if (staged) {
        status = stage(job, &call->a, "A", true, err);
        status = status == GD_OK ? stage(job, &call->b, "B", true, err) : status;
        /* C becomes the result where it stands. */
        status =
            status == GD_OK && call->c.data != NULL ? stage(job, &call->c, "C", true, err) : status;
        if (status == GD_OK && call->c.data != NULL) {
            call->out = call->c;
        }
        else if (status == GD_OK) {
            status = stage(job, &call->out, "the result", false, err);
        }
    }
    status = status == GD_OK ? launch(job, err) : status;
    status = status == GD_OK ? check_range(job, err) : status;
    if (status == GD_OK && staged) {
        gd_touch(out->data, row_bytes * (size_t)out->rows); /* while the device works */
        status = gd_copy_rows(on->device, on->stream, out->data,
                              (size_t)out->row_stride * gd_dtype_size(out->dtype), call->out.data,
                              row_bytes, row_bytes, (size_t)out->rows, err);
    }
    while (job->owned_count > 0) {
        gd_free(on->device, on->stream, job->owned[--job->owned_count]);
    }
    return staged ? gd_settle(on->device, on->stream, status, err) : status;
}

gd_status gd_run_minplus(const gd_matrix *a, const gd_matrix *b, const gd_matrix *c,
                         const gd_matrix *out, gd_semiring semiring, const gd_orders *orders,
                         gd_error *err)
{
    product_job job = {.call = {.a = *a, .b = *b, .c = *c, .out = *out, .semiring = semiring}};
    const gd_request request = {
        .op = GD_OP_MINPLUS,
        .orders = gd_orders_near(out->device, orders),
        .dtype = out->dtype,
        .n = b->cols,
        .cols = b->rows,
    };
    gd_choice choice;
    int previous;
    gd_status status = check(&job.call, err);
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK ||
        out->rows == 0 || out->cols == 0) {
        return status;
    }
    const bool on_host = out->device.backend == GD_CPU;
    const gd_device device = choice.device;
    job.kernel = choice.kernel;
    job.call.launch.device = device;
    job.call.launch.options = choice.options;
    job.call.launch.stream =
        on_host && device.backend == GD_CUDA ? GD_THREAD_STREAM : orders->stream;
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    status = work(&job, out, err);
    gd_leave(device, previous);
    return status;
}
