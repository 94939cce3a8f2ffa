/* run_cdist_batch.c: cdist and pdist of many matrices in one call.
 *
 * Each is computed as it is alone, or with the same bits. On the host small ones are shared out
 * among the team's members, each of which does whole matrices; larger ones come one after the
 * other, with the whole team at each. On a device a launch does all of them, where a kernel takes
 * batches and one of the matrices does not fill it by itself; others are enqueued one after the
 * other, and nobody waits between. One choice of a kernel tells for all, since a request has no
 * number of rows of A (choose.h) and all else is the same. */
#include "cdist_job.h"
#include "device.h"
#include "run.h"
#include "sizes.h"
#include "stack.h"
#include "team.h"
#include "watch.h"

/* Inner steps of the largest matrix that one member does: a millisecond. */
#define SMALL 0x1p20
/* Results of a matrix that fills a device; and inner steps between two looks of a watcher there. */
#define FILLS 0x1p21
#define BETWEEN_LOOKS 0x1p38

typedef struct gd_pass_over {
    const gd_matrices *batch;
    const gd_measure *measure;
    const gd_orders *orders;
} gd_pass_over;

static gd_status compute(void *context, ptrdiff_t index, int member, gd_error *err)
{
    const gd_pass_over *const over = context;
    const gd_matrices *const batch = over->batch;
    const gd_matrix a = gd_stack_at(&batch->a, batch->axes, batch->shape, index);
    const gd_matrix out = gd_stack_at(&batch->out, batch->axes, batch->shape, index);
    (void)member;
    if (batch->pairs) {
        return gd_run_pdist(&a, gd_all_rows(&a), &out, over->measure, over->orders, err);
    }
    const gd_matrix b = gd_stack_at(&batch->b, batch->axes, batch->shape, index);
    return gd_run_cdist(&a, &b, &out, over->measure, over->orders, err);
}

/* Inner steps of one of the matrices. */
static double steps_of(const gd_matrices *batch)
{
    const gd_matrix *const a = &batch->a.first;
    return (double)batch->out.first.rows * (double)batch->out.first.cols * (double)(a->cols + 1) +
           1;
}

/* Whether each is done by one member: it is small, and done on the host. */
static gd_status are_small(const gd_matrices *batch, const gd_measure *measure,
                           const gd_orders *orders, bool *small, gd_error *err)
{
    gd_job job = {.a = &batch->a.first,
                  .b = batch->pairs ? &batch->a.first : &batch->b.first,
                  .dtype = batch->out.first.dtype,
                  .measure = measure};
    const gd_orders near = gd_orders_near(batch->out.first.device, orders);
    gd_choice choice;
    const gd_status status = gd_job_choose(&job, &near, &choice, err);
    *small = status == GD_OK && choice.device.backend == GD_CPU && orders->max_memory == 0 &&
             steps_of(batch) <= SMALL;
    return status;
}

static gd_status check(const gd_matrices *batch, const gd_measure *measure, gd_error *err)
{
    return batch->pairs
               ? gd_check_pdist(&batch->a.first, gd_all_rows(&batch->a.first), &batch->out.first,
                                measure, err)
               : gd_check_cdist(&batch->a.first, &batch->b.first, &batch->out.first, measure, err);
}

/* Launches for all that lies along these axes, as many at a time as a watcher allows. */
static gd_status launch_many(gd_job *job, const gd_matrices *batch, gd_axes *axes, bool sure_root,
                             gd_error *err)
{
    const ptrdiff_t outer = axes->count > 0 ? axes->shape[0] : 1, inner = batch->count / outer;
    const double each = steps_of(batch) * (double)inner;
    const ptrdiff_t most = job->watch == NULL || each * (double)outer <= BETWEEN_LOOKS
                               ? outer
                               : 1 + (ptrdiff_t)(BETWEEN_LOOKS / each);
    gd_matrix a = batch->a.first, b = batch->pairs ? batch->a.first : batch->b.first;
    gd_matrix out = batch->out.first;
    gd_matrix *const moved[] = {&a, &b, &out};
    gd_status status = GD_OK;
    job->a = &a;
    job->b = batch->pairs ? &a : &b;
    for (ptrdiff_t first = 0, count; status == GD_OK && first < outer; first += count) {
        const gd_launch passing = {
            .device = job->stage.device, .stream = job->stage.stream, .watch = job->watch};
        count = gd_least(most, outer - first);
        if (axes->count > 0) {
            axes->shape[0] = count;
        }
        status = gd_job_many(job, axes, count * inner, batch->pairs, sure_root, &out, err);
        for (int i = 0; i < 3 && axes->count > 0; ++i) {
            moved[i]->data = (char *)moved[i]->data + count * axes->strides[i][0];
        }
        status = status == GD_OK ? gd_pass(&passing, (double)(first + count) / (double)outer, err)
                                 : status;
    }
    job->a = &batch->a.first;
    job->b = batch->pairs ? &batch->a.first : &batch->b.first;
    return status;
}

/* Whether there is memory for what is prepared of all matrices: one by one they need less. */
static gd_status fits(gd_job *job, const gd_matrices *batch, const gd_axes *axes, bool sure_root,
                      bool *yes, gd_error *err)
{
    const gd_status status =
        gd_job_many(job, axes, batch->count, batch->pairs, sure_root, &batch->out.first, err);
    return status == GD_OK ? gd_budget_fits(job->stage.budget, job->stage.device, yes, err)
                           : status;
}

/* Does all with few launches if a kernel of the device can, and says whether. */
static gd_status run_at_once(const gd_matrices *batch, const gd_measure *measure,
                             const gd_orders *orders, bool *done, gd_error *err)
{
    const gd_orders near = gd_orders_near(batch->out.first.device, orders);
    const gd_stack *const stacks[] = {&batch->a, batch->pairs ? &batch->a : &batch->b, &batch->out};
    gd_budget budget = gd_budget_of(orders);
    gd_status status = check(batch, measure, err);
    gd_job job = {.a = &batch->a.first,
                  .b = batch->pairs ? &batch->a.first : &batch->b.first,
                  .dtype = batch->out.first.dtype,
                  .measure = measure,
                  .watch = orders->watch};
    gd_choice choice;
    gd_axes axes;
    int previous;
    bool sure_root;
    *done = false;
    if (status != GD_OK || (status = gd_job_choose(&job, &near, &choice, err)) != GD_OK) {
        return status;
    }
    const gd_request request = gd_job_request(&job, &near);
    const gd_kernel *const kernel = gd_for_many(&request, job.a->rows, &choice, &sure_root);
    const double results = (double)batch->out.first.rows * (double)batch->out.first.cols;
    *done = results == 0;
    if (kernel == NULL || results == 0 || results > FILLS ||
        !gd_stack_merge(batch->axes, batch->shape, stacks, 3, &axes)) {
        return GD_OK;
    }
    job.kernel = kernel;
    job.stage = (gd_stage){.device = choice.device, .stream = orders->stream, .budget = &budget};
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    status = fits(&job, batch, &axes, sure_root, done, err);
    budget.counting = false;
    if (status == GD_OK && *done) {
        status = launch_many(&job, batch, &axes, sure_root, err);
    }
    gd_job_release(&job);
    gd_leave(choice.device, previous);
    return status;
}

gd_status gd_run_cdist_batch(const gd_matrices *batch, const gd_measure *measure,
                             const gd_orders *orders, gd_error *err)
{
    gd_orders unwatched = *orders;
    gd_pass_over over = {batch, measure, orders};
    bool small;
    gd_status status;
    if (batch->count == 0) {
        return GD_OK;
    }
    if (batch->out.first.device.backend == GD_CUDA) {
        bool done;
        status = run_at_once(batch, measure, orders, &done, err);
        return status != GD_OK || done
                   ? status
                   : gd_stack_in_turn(orders->watch, 0, batch->count, compute, &over, err);
    }
    gd_watch_part(orders->watch, 0, 1 / (double)batch->count);
    status = compute(&over, 0, 0, err); /* refuses what does not do, for all */
    gd_watch_part(orders->watch, 0, 1);
    if (status != GD_OK || batch->count == 1 ||
        (status = are_small(batch, measure, orders, &small, err)) != GD_OK) {
        return status;
    }
    if (!small) {
        return gd_stack_in_turn(orders->watch, 1, batch->count - 1, compute, &over, err);
    }
    const gd_launch passing = {.device = {GD_CPU, 0}, .watch = orders->watch};
    unwatched.watch = NULL;
    over.orders = &unwatched;
    return gd_stack_share(&passing, gd_team_size(), 1, batch->count - 1, steps_of(batch), compute,
                          &over, err);
}
