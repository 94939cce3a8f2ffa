/* run_apsp_band.c: stages of shortest paths on a band of rows, for callers who keep the bands: each
 * call is one band's part of one turn, as run_apsp_far.c describes turns. */
#include "choose.h"
#include "device.h"
#include "run.h"
#include "stage.h"
#include "watch.h"

gd_status gd_cpu_apsp_band(gd_apsp_band *call, gd_error *err)
{
    const gd_request request = {
        .op = GD_OP_APSP,
        .orders = {.where = GD_WHERE_CPU},
        .dtype = call->dtype,
        .bottleneck = call->semiring == GD_MIN_MAX,
        .n = call->n,
    };
    gd_choice choice;
    gd_status status = gd_choose(&request, &choice, err);
    if (status == GD_OK) {
        gd_apsp stages = {
            .launch = call->launch, .dtype = call->dtype, .semiring = call->semiring, .band = call};
        status = choice.kernel->launch.apsp(&stages, err);
    }
    return status;
}

static gd_status check(const gd_apsp_band *call, const gd_matrix *dist, const gd_matrix *pred,
                       const gd_matrix *snapshots, gd_error *err)
{
    const ptrdiff_t end = call->first + call->rows, last = call->pivot + call->pivots;
    const bool apart = last <= call->first || call->pivot >= end;
    const size_t bytes = (size_t)(snapshots->rows * snapshots->cols) * sizeof(int32_t);
    if (dist->dtype == GD_BOOL || snapshots->dtype != GD_I32 ||
        (pred->data != NULL && pred->dtype != GD_I32)) {
        return GD_FAIL(err, GD_BAD_TYPE, "a band is of numbers, pred and snapshots are of int32");
    }
    if (!gd_same_device(dist, snapshots) || (pred->data != NULL && !gd_same_device(dist, pred))) {
        return GD_FAIL(err, GD_BAD_TYPE, "a band, pred and snapshots are on different devices");
    }
    if (pred->data != NULL && (pred->rows != dist->rows || pred->cols != dist->cols)) {
        return GD_FAIL(err, GD_BAD_VALUE, "pred must have the band's shape (%td, %td)", dist->rows,
                       dist->cols);
    }
    if (call->padded != call->n || call->first % call->step != 0 || call->rows % call->step != 0 ||
        call->pivot % call->step != 0 || call->pivots % call->step != 0) {
        return GD_FAIL(err, GD_BAD_VALUE, "bands begin and end at multiples of %td", call->step);
    }
    if (call->rows == 0 || call->pivots == 0 || end > call->n || last > call->n ||
        (!apart && (call->pivot < call->first || last > end))) {
        return GD_FAIL(err, GD_BAD_VALUE, "the band has rows %td to %td, the pivots are %td to %td",
                       call->first, end, call->pivot, last);
    }
    return bytes == call->snapshot_bytes
               ? GD_OK
               : GD_FAIL(err, GD_BAD_VALUE, "the snapshots take %zu bytes, not %zu",
                         call->snapshot_bytes, bytes);
}

gd_status gd_run_apsp_band(const gd_matrix *dist, const gd_matrix *pred, const gd_matrix *snapshots,
                           gd_semiring semiring, ptrdiff_t first, ptrdiff_t pivot, ptrdiff_t pivots,
                           const gd_orders *orders, gd_error *err)
{
    const gd_device device = dist->device;
    gd_apsp_band_kernel *const launch =
        device.backend == GD_CUDA ? gd_cuda_apsp_band : gd_cpu_apsp_band;
    gd_apsp_band call = {
        .launch = {.device = device,
                   .stream = gd_stream_near(device, device, orders),
                   .watch = orders->watch},
        .n = dist->cols,
        .dtype = dist->dtype,
        .semiring = semiring,
        .dist = dist->data,
        .pred = pred->data,
        .first = first,
        .rows = dist->rows,
        .pivot = pivot,
        .pivots = pivots,
        .snapshots = snapshots->data,
        .share = 1,
    };
    gd_budget budget = gd_budget_of(orders);
    gd_stage stage = {.device = device, .stream = call.launch.stream, .budget = &budget};
    int previous;
    gd_status status;
    if (semiring != GD_MIN_PLUS && semiring != GD_MIN_MAX) {
        return GD_FAIL(err, GD_BAD_VALUE, "bands are closed over min_plus and min_max");
    }
    gd_watch_work(orders->watch, (double)call.rows * (double)pivots * (double)call.n);
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    call.launch.sizing = true;
    status = launch(&call, err);
    call.launch.sizing = false;
    status = status == GD_OK ? check(&call, dist, pred, snapshots, err) : status;
    if (status == GD_OK) {
        budget.most = call.launch.workspace_bytes;
        status = gd_budget_grant(&budget, device, "a band of apsp", NULL, err);
    }
    if (status == GD_OK) {
        status = gd_stage_memory(&stage, 1, call.launch.workspace_bytes, "the workspace of apsp",
                                 &call.launch.workspace, err);
    }
    status = status == GD_OK ? launch(&call, err) : status;
    gd_stage_release(&stage);
    gd_leave(device, previous);
    return status;
}
