/* run_gradient.c: gradients of distances end to end.
 *
 * Host arrays stay on the host; work on device arrays is enqueued. A device's launchers see few
 * axes of a batch: of those that do not lie together the outermost are gone through here. */
#include "device.h"
#include "registry.h"
#include "run.h"
#include "stack.h"
#include "stage.h"

static gd_status check_result(const gd_stack *stack, const gd_matrix *points, gd_error *err)
{
    const gd_matrix *const out = &stack->first;
    if (out->rows != points->rows || out->cols != points->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "a, b and out must have as many columns, out a's rows");
    }
    return GD_OK;
}

static gd_status check(const gd_gradient *call, gd_error *err)
{
    const gd_matrix *const a = &call->a.first, *const b = &call->b.first;
    const gd_matrix *const out = &call->out.first, *const out_b = &call->out_b.first;
    const gd_matrix *const of_pairs[] = {&call->asked.first, &call->distances.first};
    const gd_matrix *const others[] = {a, b, of_pairs[0], of_pairs[1], out_b};
    const ptrdiff_t n = b->rows;
    gd_status status = check_result(&call->out, a, err);
    if (status == GD_OK && out_b->data != NULL) {
        status = call->pairs ? GD_FAIL(err, GD_BAD_VALUE, "out_b is for two operands")
                             : check_result(&call->out_b, b, err);
    }
    if (status != GD_OK) {
        return status;
    }
    if (a->cols != b->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "a and b must have as many columns");
    }
    for (int i = 0; i < 2; ++i) {
        const gd_matrix *const x = of_pairs[i];
        const bool fits = call->pairs ? x->rows == 1 && x->cols == n * (n - 1) / 2
                                      : x->rows == a->rows && x->cols == n;
        if (!fits) {
            return GD_FAIL(err, GD_BAD_VALUE, "%s must have an element for each pair",
                           i == 0 ? "asked" : "distances");
        }
    }
    for (int i = 0; i < (out_b->data != NULL ? 5 : 4); ++i) {
        if (others[i]->dtype != out->dtype) {
            return GD_FAIL(err, GD_BAD_TYPE, "all must be of the dtype of out");
        }
        if (!gd_same_device(others[i], out)) {
            return GD_FAIL(err, GD_BAD_TYPE, "all must be on the device of out");
        }
    }
    if (call->metric == GD_MINKOWSKI && !(call->p > 0)) {
        return GD_FAIL(err, GD_BAD_VALUE, "p must be above 0");
    }
    return GD_OK;
}

static gd_status launch(gd_gradient *call, const gd_kernel *kernel, gd_error *err)
{
    gd_stage stage = {.device = call->launch.device, .stream = call->launch.stream};
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

/* What the call asks for the rows of b, as a call of its own. */
static gd_gradient other_side(const gd_gradient *call)
{
    gd_gradient other = *call;
    gd_matrix *const of_pairs[] = {&other.asked.first, &other.distances.first};
    other.a = call->b;
    other.b = call->a;
    other.out = call->out_b;
    other.out_b.first.data = NULL;
    for (int i = 0; i < 2; ++i) {
        const gd_matrix given = *of_pairs[i];
        of_pairs[i]->rows = given.cols;
        of_pairs[i]->cols = given.rows;
        of_pairs[i]->row_stride = given.col_stride;
        of_pairs[i]->col_stride = given.row_stride;
    }
    return other;
}

static gd_status launch_on_device(gd_gradient *call, const gd_kernel *kernel, gd_error *err)
{
    gd_stack *const stacks[] = {&call->asked,     &call->a,   &call->b,
                                &call->distances, &call->out, &call->out_b};
    const int count = call->out_b.first.data != NULL ? 6 : 5;
    gd_axes merged;
    gd_status status = GD_OK;
    if (gd_stack_merge(call->axes, call->shape, (const gd_stack *const *)stacks, count, &merged)) {
        call->axes = merged.count;
        call->shape = merged.shape;
        for (int i = 0; i < count; ++i) {
            stacks[i]->strides = merged.strides[i];
        }
        return launch(call, kernel, err);
    }
    for (ptrdiff_t at = 0; status == GD_OK && at < call->shape[0]; ++at) {
        gd_gradient part = *call;
        gd_stack *const parts[] = {&part.asked,     &part.a,   &part.b,
                                   &part.distances, &part.out, &part.out_b};
        part.axes = call->axes - 1;
        part.shape = call->shape + 1;
        part.count = call->count / call->shape[0];
        for (int i = 0; i < count; ++i) {
            parts[i]->first.data = (char *)stacks[i]->first.data + at * stacks[i]->strides[0];
            parts[i]->strides = stacks[i]->strides + 1;
        }
        status = launch_on_device(&part, kernel, err);
    }
    return status;
}

/* Chooses for the sums over so many rows. */
static gd_status choose(const gd_gradient *call, ptrdiff_t rows, const gd_orders *orders,
                        gd_choice *choice, gd_error *err)
{
    const gd_matrix *const out = &call->out.first;
    gd_request request = {.op = GD_OP_GRADIENT,
                          .orders = gd_orders_near(out->device, orders),
                          .dtype = out->dtype,
                          .form = {.metric = call->metric},
                          .condensed = call->pairs,
                          .n = rows,
                          .cols = out->cols};
    if (out->device.backend == GD_CPU) {
        request.orders.where = GD_WHERE_CPU;
    }
    return gd_choose(&request, choice, err);
}

/* Whether the rows of b are to have a call of their own. Kernels of the host do one side; of an
 * empty one there is nothing to do; and what is taken for one side must not depend on the other. */
static gd_status is_apart(const gd_gradient *call, const gd_choice *choice, const gd_orders *orders,
                          bool *apart, gd_error *err)
{
    gd_choice other;
    *apart = choice->device.backend == GD_CPU || call->out.first.rows == 0;
    if (*apart || call->a.first.rows == call->b.first.rows) {
        return GD_OK;
    }
    const gd_status status = choose(call, call->a.first.rows, orders, &other, err);
    *apart = status == GD_OK && other.kernel != choice->kernel;
    return status;
}

gd_status gd_run_gradient(gd_gradient *call, const gd_orders *orders, gd_error *err)
{
    const gd_matrix *const out = &call->out.first;
    gd_choice choice;
    int previous;
    bool apart = false;
    gd_status status = check(call, err);
    if (status != GD_OK || call->count == 0 || out->cols == 0 ||
        (status = choose(call, call->b.first.rows, orders, &choice, err)) != GD_OK) {
        return status;
    }
    if (call->out_b.first.data != NULL) {
        status = is_apart(call, &choice, orders, &apart, err);
    }
    if (status == GD_OK && apart) {
        gd_gradient other = other_side(call);
        call->out_b.first.data = NULL;
        status = gd_run_gradient(&other, orders, err);
    }
    if (status != GD_OK || out->rows == 0) {
        return status;
    }
    call->launch = (gd_launch){.device = choice.device,
                               .stream = orders->stream,
                               .options = choice.options,
                               .watch = orders->watch};
    if (choice.device.backend == GD_CPU) {
        return launch(call, choice.kernel, err);
    }
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    status = launch_on_device(call, choice.kernel, err);
    gd_leave(choice.device, previous);
    return status;
}
