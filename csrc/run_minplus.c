/* run_minplus.c: products over semirings end to end. */
#include "bus.h"
#include "device.h"
#include "registry.h"
#include "run.h"
#include "sizes.h"
#include "stack.h"
#include "team.h"
#include "watch.h"

/* Updates of the largest product of a batch that one thread computes: some 20 ms. */
#define SHARED_TO 0x1p28

typedef struct product_job {
    gd_minplus call;
    const gd_kernel *kernel;
    gd_stage stage;
} product_job;

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
    if (!gd_same_device(x, out)) {
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

/* They are looked at, and the host waits for what is found. */
static bool sums_of_integers(const gd_minplus *call)
{
    return (call->semiring == GD_MIN_PLUS || call->semiring == GD_MAX_PLUS) &&
           call->out.dtype == GD_I32;
}

static double updates_of(const gd_minplus *call)
{
    return (double)call->a.rows * (double)call->a.cols * (double)call->b.cols;
}

static gd_status launch(product_job *job, gd_error *err)
{
    gd_minplus *call = &job->call;
    void *flag = NULL;
    gd_status status = GD_OK;
    if (sums_of_integers(call)) {
        status = gd_stage_memory(&job->stage, 1, sizeof(int32_t), "a mark", &flag, err);
        call->out_of_range = flag;
    }
    if (status == GD_OK) {
        call->launch.sizing = true;
        status = job->kernel->launch.minplus(call, err);
    }
    if (status == GD_OK) {
        call->launch.sizing = false;
        status = gd_stage_memory(&job->stage, 1, call->launch.workspace_bytes,
                                 "the workspace of minplus", &call->launch.workspace, err);
    }
    return status != GD_OK || job->stage.budget->counting ? status
                                                          : job->kernel->launch.minplus(call, err);
}

static gd_status refuse_range(gd_error *err)
{
    return GD_FAIL(err, GD_BAD_VALUE,
                   "A or B has an element of magnitude 2**28 or more, which sums in int32 do not "
                   "take; use dtype=float64");
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
    return out_of_range == 0 ? GD_OK : refuse_range(err);
}

/* Copies of host operands on the device take their place. C becomes the result where it stands. */
static gd_status bring(product_job *job, gd_error *err)
{
    gd_minplus *call = &job->call;
    gd_matrix *const operands[] = {&call->a, &call->b, &call->c};
    static const char *const names[] = {"A", "B", "C"};
    gd_status status = GD_OK;
    for (int i = 0; status == GD_OK && i < (call->c.data == NULL ? 2 : 3); ++i) {
        const gd_matrix host = *operands[i];
        status = gd_stage_bring(&job->stage, &host, names[i], operands[i], err);
    }
    if (status != GD_OK || call->c.data != NULL) {
        call->out = call->c;
        return status;
    }
    return gd_stage_matrix(&job->stage, call->a.rows, call->b.cols, call->a.dtype, "the result",
                           &call->out, err);
}

/* Refuses what does not fit. The job is a copy to play with. */
static gd_status count_memory(product_job job, bool staged, gd_error *err)
{
    gd_status status = staged ? bring(&job, err) : GD_OK;
    status = status == GD_OK ? launch(&job, err) : status;
    return status == GD_OK ? gd_budget_grant(job.stage.budget, job.stage.device, "minplus",
                                             "multiply A's rows in parts", err)
                           : status;
}

static gd_status work(product_job *job, const gd_matrix *out, gd_error *err)
{
    gd_minplus *call = &job->call;
    const gd_device device = call->launch.device;
    const bool staged = out->device.backend != device.backend;
    gd_status status = count_memory(*job, staged, err);
    if (status == GD_OK && staged) {
        status = bring(job, err);
    }
    status = status == GD_OK ? launch(job, err) : status;
    status = status == GD_OK ? check_range(job, err) : status;
    if (status == GD_OK && staged) {
        status = gd_stage_home(&job->stage, &call->out, out->data, err);
    }
    gd_stage_release(&job->stage);
    return staged ? gd_settle(device, call->launch.stream, status, err) : status;
}

static gd_request request_of(const gd_minplus *call, const gd_orders *orders)
{
    return (gd_request){
        .op = GD_OP_MINPLUS,
        .orders = gd_orders_near(call->out.device, orders),
        .dtype = call->out.dtype,
        .n = call->b.cols,
        .cols = call->b.rows,
    };
}

gd_status gd_run_minplus(const gd_matrix *a, const gd_matrix *b, const gd_matrix *c,
                         const gd_matrix *out, gd_semiring semiring, const gd_orders *orders,
                         gd_error *err)
{
    product_job job = {.call = {.a = *a, .b = *b, .c = *c, .out = *out, .semiring = semiring}};
    const gd_request request = request_of(&job.call, orders);
    gd_budget budget = gd_budget_of(orders);
    gd_choice choice;
    int previous;
    gd_status status = check(&job.call, err);
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK ||
        out->rows == 0 || out->cols == 0) {
        return status;
    }
    const gd_device device = choice.device;
    job.kernel = choice.kernel;
    job.call.launch.device = device;
    job.call.launch.options = choice.options;
    job.call.launch.stream = gd_stream_near(out->device, device, orders);
    job.call.launch.watch = orders->watch;
    job.stage = (gd_stage){.device = device, .stream = job.call.launch.stream, .budget = &budget};
    gd_watch_work(orders->watch, updates_of(&job.call));
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    status = sums_of_integers(&job.call)
                 ? gd_refuse_capture(device, job.call.launch.stream, "minplus in int32", err)
                 : GD_OK;
    status = status == GD_OK ? work(&job, out, err) : status;
    gd_leave(device, previous);
    return status;
}

/* ---------------------------------------------------------------- batches */

/* With a kernel each product is computed by one thread, in memory of its member's; without one by
 * all that gd_run_minplus does. */
typedef struct product_batch {
    const gd_products *batch;
    const gd_orders *orders;
    const gd_kernel *kernel;
    gd_minplus call; /* as for the first product */
} product_batch;

/* Operands without elements may have no memory either. */
static gd_minplus call_of(const product_batch *all, ptrdiff_t number)
{
    const gd_products *const batch = all->batch;
    gd_minplus call = all->call;
    call.a = gd_stack_at(&batch->a, batch->axes, batch->shape, number);
    call.b = gd_stack_at(&batch->b, batch->axes, batch->shape, number);
    call.out = gd_stack_at(&batch->out, batch->axes, batch->shape, number);
    if (batch->c.first.data != NULL) {
        call.c = gd_stack_at(&batch->c, batch->axes, batch->shape, number);
    }
    return call;
}

static gd_status multiply(void *context, ptrdiff_t number, int member, gd_error *err)
{
    const product_batch *const all = context;
    gd_minplus call = call_of(all, number);
    int32_t out_of_range = 0;
    gd_status status;
    if (all->kernel == NULL) {
        status =
            gd_run_minplus(&call.a, &call.b, &call.c, &call.out, call.semiring, all->orders, err);
    }
    else {
        call.out_of_range = sums_of_integers(&call) ? &out_of_range : NULL;
        call.launch.workspace =
            (char *)call.launch.workspace + (size_t)member * call.launch.workspace_bytes;
        status = all->kernel->launch.minplus(&call, err);
        status = status == GD_OK && out_of_range != 0 ? refuse_range(err) : status;
    }
    return status == GD_OK
               ? GD_OK
               : gd_stack_blame(err, "product", all->batch->axes, all->batch->shape, number);
}

/* Memory for each member, and then the products. */
static gd_status share(product_batch *all, gd_error *err)
{
    const gd_products *const batch = all->batch;
    gd_minplus *const call = &all->call;
    const int members = (int)gd_least(gd_team_size(), batch->count);
    const gd_launch passing = {.device = call->launch.device, .watch = all->orders->watch};
    gd_stage stage = {.device = call->launch.device};
    gd_status status;
    call->alone = call->launch.sizing = true;
    if ((status = all->kernel->launch.minplus(call, err)) != GD_OK) {
        return status;
    }
    call->launch.sizing = false;
    call->launch.workspace_bytes = (call->launch.workspace_bytes + 63) / 64 * 64;
    status = gd_stage_memory(&stage, (size_t)members, call->launch.workspace_bytes,
                             "the workspace of minplus", &call->launch.workspace, err);
    if (status == GD_OK) {
        status = gd_stack_share(&passing, members, 0, batch->count, updates_of(call), multiply, all,
                                err);
    }
    gd_stage_release(&stage);
    return status;
}

gd_status gd_run_minplus_batch(const gd_products *batch, gd_semiring semiring,
                               const gd_orders *orders, gd_error *err)
{
    const gd_matrix *const out = &batch->out.first;
    product_batch all = {.batch = batch, .orders = orders, .call.semiring = semiring};
    gd_choice choice;
    gd_status status;
    if (batch->count == 0) {
        return GD_OK;
    }
    all.call = call_of(&all, 0);
    const gd_request request = request_of(&all.call, orders);
    if ((status = check(&all.call, err)) != GD_OK ||
        (status = gd_choose(&request, &choice, err)) != GD_OK || out->rows == 0 || out->cols == 0) {
        return status;
    }
    if (choice.device.backend != GD_CPU || orders->max_memory != 0 || batch->count == 1 ||
        updates_of(&all.call) > SHARED_TO) {
        return gd_stack_in_turn(orders->watch, 0, batch->count, multiply, &all, err);
    }
    all.kernel = choice.kernel;
    all.call.launch.device = choice.device;
    all.call.launch.options = choice.options;
    return share(&all, err);
}
