/* run_gradient.c: gradients of distances end to end, of host arrays. */
#include "registry.h"
#include "run.h"
#include "stage.h"

static gd_status check(const gd_gradient *call, gd_error *err)
{
    const gd_matrix *const a = &call->a.first, *const b = &call->b.first;
    const gd_matrix *const out = &call->out.first;
    const gd_matrix *const of_pairs[] = {&call->asked.first, &call->distances.first};
    const ptrdiff_t n = b->rows;
    if (a->cols != b->cols || out->rows != a->rows || out->cols != a->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "a, b and out must have as many columns, out a's rows");
    }
    for (int i = 0; i < 2; ++i) {
        const gd_matrix *const x = of_pairs[i];
        const bool fits = call->pairs ? x->rows == 1 && x->cols == n * (n - 1) / 2
                                      : x->rows == a->rows && x->cols == n;
        if (!fits) {
            return GD_FAIL(err, GD_BAD_VALUE, "%s must have an element for each pair",
                           i == 0 ? "asked" : "distances");
        }
        if (x->dtype != out->dtype) {
            return GD_FAIL(err, GD_BAD_TYPE, "all must be of the dtype of out");
        }
    }
    if (a->dtype != out->dtype || b->dtype != out->dtype) {
        return GD_FAIL(err, GD_BAD_TYPE, "all must be of the dtype of out");
    }
    if (call->metric == GD_MINKOWSKI && !(call->p > 0)) {
        return GD_FAIL(err, GD_BAD_VALUE, "p must be above 0");
    }
    return GD_OK;
}

static gd_status launch(gd_gradient *call, const gd_kernel *kernel, gd_error *err)
{
    gd_stage stage = {.device = call->launch.device};
    gd_status status;
    call->launch.sizing = true;
    status = kernel->launch.gradient(call, err);
    if (status == GD_OK) {
        call->launch.sizing = false;
        status = gd_stage_memory(&stage, 1, call->launch.workspace_bytes,
                                 "the workspace of gradients", &call->launch.workspace, err);
    }
    status = status == GD_OK ? kernel->launch.gradient(call, err) : status;
    gd_stage_release(&stage);
    return status;
}

gd_status gd_run_gradient(gd_gradient *call, const gd_orders *orders, gd_error *err)
{
    const gd_matrix *const out = &call->out.first;
    gd_request request = {.op = GD_OP_GRADIENT,
                          .orders = gd_orders_near(out->device, orders),
                          .dtype = out->dtype,
                          .n = call->b.first.rows,
                          .cols = out->cols};
    gd_choice choice;
    gd_status status = check(call, err);
    request.orders.where = GD_WHERE_CPU;
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK) {
        return status;
    }
    if (!(choice.kernel->metrics & GD_BIT(call->metric))) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s knows no gradient of %s", choice.kernel->id,
                       gd_metric_name(call->metric));
    }
    if (call->count == 0 || out->rows == 0 || out->cols == 0) {
        return GD_OK;
    }
    call->launch =
        (gd_launch){.device = choice.device, .options = choice.options, .watch = orders->watch};
    return launch(call, choice.kernel, err);
}
