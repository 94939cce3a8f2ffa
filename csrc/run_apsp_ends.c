/* run_apsp_ends.c: the first and the last stages of shortest paths, beside the bus.
 *
 * Row i at stage k needs of other rows only row k (run_apsp_far.c). So while a graph arrives, each
 * band of its rows goes through the first stages as soon as it is there, after the band that holds
 * their pivots; and before the answer leaves, each band goes through the last stages just before it
 * does. The bits are those of the triple loop in any case. What is in between is the kernel's that
 * closes the whole matrix, which is some per cent quicker than band by band.
 *
 * How many stages: a band is to take no longer than the bus takes for the next one, or the bus
 * waits. That is rate * bytes of an element / speed of the bus, whatever n is: at 14e12 updates/s
 * and 55e9 bytes/s 1000 stages in float32, at 4e12 600 in float64. On arrival nobody knows yet
 * whether a weight is negative, and the kernels for any weights are slower.
 *
 * Reached on an H200, NumPy to NumPy into out=, ms beyond what the same call takes on the device:
 * float32 n = 16384 15.5 (40.5 without this file's stages; the bus alone needs 19.4 each way),
 * n = 8192 7.0 (10.4). */
#include "run_apsp_ends.h"

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"

enum {
    MANY = 8192, /* nodes; with fewer, a band's part of the pivots' columns costs what it saves */
    ROWS = 2048, /* of a band */
    STEP = 128,  /* every kernel takes multiples of it */
    HEAD_BYTES = 24 * STEP, /* of a row's elements at the stages */
    TAIL_BYTES = 32 * STEP,
};

gd_status gd_ends_take(gd_ends *ends, gd_apsp *call, bool arrives, bool leaves, gd_stage *stage,
                       gd_error *err)
{
    gd_apsp_band *band = &ends->band;
    const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(call->dtype);
    gd_status status;
    call->begin = call->end = 0;
    *ends = (gd_ends){.rows = ROWS};
    if (call->n < MANY || call->step == 0 || !(arrives || leaves)) {
        return GD_OK;
    }
    ends->head = arrives ? HEAD_BYTES / size : 0;
    ends->tail = leaves ? TAIL_BYTES / size : 0;
    const ptrdiff_t most = ends->head > ends->tail ? ends->head : ends->tail;
    *band = (gd_apsp_band){.launch = call->launch,
                           .n = call->padded, /* so that snapshots are as wide as the matrix */
                           .dtype = call->dtype,
                           .semiring = call->semiring,
                           .rows = ends->rows > most ? ends->rows : most,
                           .pivots = most};
    band->launch.sizing = true;
    status = gd_cuda_apsp_band(band, err);
    band->launch.sizing = false;
    band->n = call->n;
    call->begin = ends->head;
    call->end = ends->tail > 0 ? call->padded - ends->tail : 0;
    if (status == GD_OK) {
        status =
            gd_stage_memory(stage, 1, band->snapshot_bytes, "snapshots", &band->snapshots, err);
    }
    return status == GD_OK ? gd_stage_memory(stage, 1, band->launch.workspace_bytes,
                                             "the workspace of bands", &band->launch.workspace, err)
                           : status;
}

static gd_status pass(gd_ends *ends, const gd_apsp *call, ptrdiff_t first, ptrdiff_t rows,
                      ptrdiff_t pivot, ptrdiff_t pivots, gd_error *err)
{
    gd_apsp_band *band = &ends->band;
    const double side = (double)call->padded;
    band->dist = (char *)call->dist + first * call->padded * (ptrdiff_t)gd_dtype_size(call->dtype);
    band->first = first;
    band->rows = rows;
    band->pivot = pivot;
    band->pivots = pivots;
    band->share = (double)rows / side * ((double)pivots / side);
    const gd_status status = gd_cuda_apsp_band(band, err);
    band->done += band->share;
    return status;
}

gd_status gd_ends_arrive(gd_ends *ends, const gd_matrix *host, const gd_graph *graph,
                         const gd_apsp *call, gd_error *err)
{
    const gd_launch *launch = &call->launch;
    const size_t size = gd_dtype_size(call->dtype), row = (size_t)call->n * size;
    const size_t pitch = (size_t)call->padded * size, host_pitch = (size_t)host->row_stride * size;
    ends->band.nonnegative = false;
    ends->band.done = 0;
    /* The bus has a stream of its own, in which the memory must be there. */
    gd_status status = gd_wait(launch->device, launch->stream, err);
    for (ptrdiff_t first = 0, rows; first < call->padded && status == GD_OK; first += rows) {
        /* The pivots' band comes first and is small, so that the device soon has work. */
        rows = gd_least(first == 0 ? ends->head : ends->rows, call->padded - first);
        if (first < call->n) {
            status = gd_send_rows_ahead(launch->device, launch->stream,
                                        (char *)call->dist + (size_t)first * pitch, pitch,
                                        (const char *)host->data + (size_t)first * host_pitch,
                                        host_pitch, row, gd_least(rows, call->n - first), err);
        }
        status = status == GD_OK ? gd_cuda_graph_read(graph, call, first, rows, err) : status;
        status = status == GD_OK ? pass(ends, call, first, rows, 0, ends->head, err) : status;
    }
    return status;
}

gd_status gd_ends_begin_leaving(gd_ends *ends, const gd_apsp *call, gd_error *err)
{
    const double side = (double)call->padded;
    if (ends->tail == 0) {
        return GD_OK;
    }
    ends->band.nonnegative = call->nonnegative;
    ends->band.done = (double)call->end / side;
    return pass(ends, call, call->end, ends->tail, call->end, ends->tail, err);
}

gd_status gd_ends_leave(gd_ends *ends, const gd_apsp *call, ptrdiff_t first, ptrdiff_t rows,
                        gd_error *err)
{
    const ptrdiff_t count = gd_least(rows, call->end - first);
    return ends->tail > 0 && count > 0 ? pass(ends, call, first, count, call->end, ends->tail, err)
                                       : GD_OK;
}
