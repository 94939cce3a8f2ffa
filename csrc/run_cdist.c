/* run_cdist.c: cdist end to end. */
#include <string.h>

#include "device.h"
#include "registry.h"
#include "run.h"

static bool same_device(const gd_matrix *x, const gd_matrix *y)
{
    return x->device.backend == y->device.backend && x->device.index == y->device.index;
}

static gd_status check(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                       gd_metric metric, gd_error *err)
{
    if (!same_device(a, b) || !same_device(a, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "XA, XB and out are on different devices");
    }
    if (a->dtype != out->dtype || b->dtype != out->dtype) {
        return GD_FAIL(err, GD_BAD_TYPE, "XA, XB and out differ in dtype: %s, %s, %s",
                       gd_dtype_name(a->dtype), gd_dtype_name(b->dtype), gd_dtype_name(out->dtype));
    }
    if (a->cols != b->cols) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "XA and XB must have the same number of columns, got %td and %td", a->cols,
                       b->cols);
    }
    if (out->rows != a->rows || out->cols != b->rows) {
        return GD_FAIL(err, GD_BAD_VALUE, "out must have shape (%td, %td), got (%td, %td)", a->rows,
                       b->rows, out->rows, out->cols);
    }
    if (metric == GD_HAVERSINE && a->cols != 2) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "haversine takes columns (latitude, longitude), got %td columns", a->cols);
    }
    return GD_OK;
}

/* The same matrix on the device: a dense copy of a host view (or only room for it). */
static gd_status to_device(const gd_matrix *host, gd_device device, void *stream, bool copy,
                           const char *what, gd_matrix *there, gd_error *err)
{
    const size_t size = gd_dtype_size(host->dtype);
    const size_t row_bytes = (size_t)host->cols * size;
    size_t bytes;
    gd_status status;
    *there = *host;
    there->device = device;
    there->row_stride = host->cols;
    there->data = NULL;
    if (__builtin_mul_overflow(row_bytes, (size_t)host->rows, &bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "%s is larger than any memory", what);
    }
    status = gd_alloc(device, stream, bytes, what, &there->data, err);
    if (status == GD_OK && copy) {
        status = gd_copy_rows(device, stream, there->data, row_bytes, host->data,
                              (size_t)host->row_stride * size, row_bytes, (size_t)host->rows, err);
    }
    return status;
}

static gd_status launch(gd_cdist *call, const gd_kernel *kernel, gd_error *err)
{
    gd_status status;
    call->launch.sizing = true;
    status = kernel->launch.cdist(call, err);
    if (status == GD_OK) {
        status = gd_alloc(call->launch.device, call->launch.stream, call->launch.workspace_bytes,
                          "the workspace of cdist", &call->launch.workspace, err);
    }
    if (status == GD_OK) {
        call->launch.sizing = false;
        status = kernel->launch.cdist(call, err);
    }
    gd_free(call->launch.device, call->launch.stream, call->launch.workspace);
    return status;
}

/* Host arrays, CUDA device: over the bus and back. */
static gd_status launch_staged(gd_cdist *call, const gd_kernel *kernel, gd_error *err)
{
    const gd_matrix host_a = call->a, host_b = call->b, host_out = call->out;
    const gd_device device = call->launch.device;
    void *stream = call->launch.stream;
    const size_t size = gd_dtype_size(host_out.dtype);
    const size_t row_bytes = (size_t)host_out.cols * size;
    gd_status status, waited;
    gd_error late;
    call->a.data = call->b.data = call->out.data = NULL;
    if ((status = to_device(&host_a, device, stream, true, "XA", &call->a, err)) == GD_OK &&
        (status = to_device(&host_b, device, stream, true, "XB", &call->b, err)) == GD_OK &&
        (status = to_device(&host_out, device, stream, false, "the result", &call->out, err)) ==
            GD_OK &&
        (status = launch(call, kernel, err)) == GD_OK) {
        gd_touch(host_out.data, row_bytes * (size_t)host_out.rows);
        status = gd_copy_rows(device, stream, host_out.data, (size_t)host_out.row_stride * size,
                              call->out.data, row_bytes, row_bytes, (size_t)host_out.rows, err);
    }
    gd_free(device, stream, call->a.data);
    gd_free(device, stream, call->b.data);
    gd_free(device, stream, call->out.data);
    waited =
        gd_wait(device, stream, &late); /* also after a failure: the caller's memory is in use */
    if (status == GD_OK && waited != GD_OK) {
        *err = late;
        status = waited;
    }
    return status;
}

gd_status gd_run_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                       gd_metric metric, const gd_orders *orders, gd_error *err)
{
    const bool on_host = out->device.backend == GD_CPU;
    gd_cdist call = {.a = *a, .b = *b, .out = *out, .metric = metric};
    gd_choice choice;
    int previous;
    gd_status status = check(a, b, out, metric, err);
    if (status != GD_OK) {
        return status;
    }
    const gd_request request = {
        .op = GD_OP_CDIST,
        .orders = gd_orders_near(out->device, orders),
        .dtype = out->dtype,
        .metric = metric,
        .n = b->rows,
        .cols = a->cols,
    };
    if ((status = gd_choose(&request, &choice, err)) != GD_OK || a->rows == 0 || b->rows == 0) {
        return status;
    }
    call.launch.device = choice.device;
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    if (on_host && choice.device.backend == GD_CUDA) {
        call.launch.stream = GD_THREAD_STREAM;
        status = launch_staged(&call, choice.kernel, err);
    }
    else {
        call.launch.stream = orders->stream;
        status = launch(&call, choice.kernel, err);
    }
    gd_leave(choice.device, previous);
    return status;
}
