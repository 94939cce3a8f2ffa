/* run_cdist_batch.c: cdist and pdist of many matrices in one call.
 *
 * Each is computed as it is alone, so it has those bits. Small ones are shared out among the team's
 * members, each of which does whole matrices; larger ones come one after the other, with the whole
 * team at each. One choice of a kernel tells for all, since a request has no number of rows of A
 * (choose.h) and all else is the same. */
#include "cdist_job.h"
#include "run.h"
#include "stack.h"
#include "team.h"
#include "watch.h"

/* Inner steps of the largest matrix that one member does: a millisecond. */
#define SMALL 0x1p20

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
        return gd_run_pdist(&a, &out, over->measure, over->orders, err);
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
