/* run_ceiling.c: timing the machine's own limits. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <time.h>

#include "device.h"
#include "registry.h"
#include "run.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gd_status timed_on_cuda(gd_ceiling *call, const gd_kernel *kernel, double *seconds,
                               gd_error *err)
{
    void *start = NULL, *stop = NULL;
    double ms = 0;
    gd_status status;
    if ((status = gd_cuda_event_record(call->launch.stream, &start, err)) == GD_OK &&
        (status = kernel->launch.ceiling(call, err)) == GD_OK &&
        (status = gd_cuda_event_record(call->launch.stream, &stop, err)) == GD_OK) {
        status = gd_cuda_event_elapsed(start, stop, &ms, err);
    }
    gd_cuda_event_free(start);
    gd_cuda_event_free(stop);
    *seconds = 1e-3 * ms;
    return status;
}

static gd_status timed_on_cpu(gd_ceiling *call, const gd_kernel *kernel, double *seconds,
                              gd_error *err)
{
    const double start = now();
    gd_status status = kernel->launch.ceiling(call, err);
    *seconds = now() - start;
    return status;
}

static gd_status measure(gd_ceiling *call, const gd_kernel *kernel, int repeats, double *seconds,
                         gd_error *err)
{
    double warm;
    gd_status status = GD_OK;
    for (int i = -1; i < repeats && status == GD_OK; ++i) { /* the first warms up */
        double *slot = i < 0 ? &warm : &seconds[i];
        status = call->launch.device.backend == GD_CUDA ? timed_on_cuda(call, kernel, slot, err)
                                                        : timed_on_cpu(call, kernel, slot, err);
    }
    return status;
}

gd_status gd_run_ceiling(size_t bytes, const gd_orders *orders, int repeats, double *work,
                         double *seconds, gd_error *err)
{
    gd_ceiling call = {.bytes = bytes};
    gd_choice choice;
    int previous;
    gd_status status;
    const gd_kernel *kernel = orders->kernel == NULL ? NULL : gd_kernel_find(orders->kernel);
    gd_request request = {.op = GD_OP_CEILING, .orders = *orders};
    while (kernel != NULL && !(kernel->dtypes & GD_BIT(request.dtype))) {
        ++request.dtype; /* a ceiling has one dtype, its own */
    }
    if ((status = gd_choose(&request, &choice, err)) != GD_OK ||
        (status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    kernel = choice.kernel;
    call.launch.device = choice.device;
    call.launch.stream = choice.device.backend == GD_CUDA ? GD_THREAD_STREAM : NULL;
    call.launch.sizing = true;
    if ((status = kernel->launch.ceiling(&call, err)) == GD_OK &&
        (status = gd_alloc(choice.device, call.launch.stream, call.launch.workspace_bytes,
                           "the ceiling's buffer", &call.launch.workspace, err)) == GD_OK &&
        (!call.wants_pinned ||
         (status = gd_cuda_pinned_alloc(bytes, &call.pinned, err)) == GD_OK)) {
        call.launch.sizing = false;
        *work = call.work;
        status = measure(&call, kernel, repeats, seconds, err);
    }
    gd_free(choice.device, call.launch.stream, call.launch.workspace);
    gd_cuda_pinned_free(call.pinned);
    gd_leave(choice.device, previous);
    return status;
}
