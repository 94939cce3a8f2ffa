/* run_cdist_batch.c: cdist and pdist of many matrices in one call.
 *
 * Each is computed as it is alone, so it has those bits. Small ones are shared out among the team's
 * members, each of which does whole matrices; larger ones come one after the other, with the whole
 * team at each. One choice of a kernel tells for all, since a request has no number of rows of A
 * (choose.h) and all else is the same. */
#include <stdatomic.h>

#include "cdist_job.h"
#include "run.h"
#include "sizes.h"
#include "stack.h"
#include "team.h"
#include "watch.h"

/* Inner steps: of the largest matrix that one member does, a millisecond; and of those that are
 * done before somebody is looked at, some tens of them. */
#define SMALL 0x1p20
#define UNSEEN 0x1p25

typedef struct gd_pass_over {
    const gd_matrices *batch;
    const gd_measure *measure;
    const gd_orders *orders;
    ptrdiff_t first; /* the matrix that item 0 stands for */
    atomic_int failed;
    gd_error *err; /* written by who failed first */
    gd_status status;
} gd_pass_over;

static gd_status compute(const gd_matrices *batch, ptrdiff_t index, const gd_measure *measure,
                         const gd_orders *orders, gd_error *err)
{
    const gd_matrix a = gd_stack_at(&batch->a, batch->axes, batch->shape, index);
    const gd_matrix out = gd_stack_at(&batch->out, batch->axes, batch->shape, index);
    if (batch->pairs) {
        return gd_run_pdist(&a, &out, measure, orders, err);
    }
    const gd_matrix b = gd_stack_at(&batch->b, batch->axes, batch->shape, index);
    return gd_run_cdist(&a, &b, &out, measure, orders, err);
}

static void compute_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    gd_pass_over *const over = context;
    (void)member;
    for (ptrdiff_t i = first; i < last && !atomic_load(&over->failed); ++i) {
        gd_error err;
        const gd_status status =
            compute(over->batch, over->first + i, over->measure, over->orders, &err);
        if (status != GD_OK && !atomic_exchange(&over->failed, 1)) {
            over->status = status;
            *over->err = err;
        }
    }
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

static gd_status run_small(const gd_matrices *batch, ptrdiff_t begin, const gd_measure *measure,
                           const gd_orders *orders, gd_error *err)
{
    const gd_launch passing = {.device = {GD_CPU, 0}, .watch = orders->watch};
    const ptrdiff_t most = 1 + (ptrdiff_t)(UNSEEN / steps_of(batch));
    gd_orders unwatched = *orders;
    gd_status status = GD_OK;
    unwatched.watch = NULL;
    for (ptrdiff_t first = begin; status == GD_OK && first < batch->count; first += most) {
        gd_pass_over over = {.batch = batch,
                             .measure = measure,
                             .orders = &unwatched,
                             .first = first,
                             .err = err,
                             .status = GD_OK};
        const ptrdiff_t count = gd_least(most, batch->count - first);
        gd_team_run(gd_team_size(), count, 0, compute_some, &over);
        status = over.status == GD_OK
                     ? gd_pass(&passing, (double)(first + count) / (double)batch->count, err)
                     : over.status;
    }
    return status;
}

static gd_status run_one_by_one(const gd_matrices *batch, ptrdiff_t begin,
                                const gd_measure *measure, const gd_orders *orders, gd_error *err)
{
    const double share = 1 / (double)batch->count;
    gd_status status = GD_OK;
    for (ptrdiff_t i = begin; status == GD_OK && i < batch->count; ++i) {
        gd_watch_part(orders->watch, (double)i * share, share);
        status = compute(batch, i, measure, orders, err);
    }
    gd_watch_part(orders->watch, 0, 1);
    return status;
}

gd_status gd_run_cdist_batch(const gd_matrices *batch, const gd_measure *measure,
                             const gd_orders *orders, gd_error *err)
{
    bool small;
    gd_status status;
    if (batch->count == 0) {
        return GD_OK;
    }
    gd_watch_part(orders->watch, 0, 1 / (double)batch->count);
    status = compute(batch, 0, measure, orders, err); /* refuses what does not do, for all */
    gd_watch_part(orders->watch, 0, 1);
    if (status != GD_OK || batch->count == 1 ||
        (status = are_small(batch, measure, orders, &small, err)) != GD_OK) {
        return status;
    }
    return small ? run_small(batch, 1, measure, orders, err)
                 : run_one_by_one(batch, 1, measure, orders, err);
}
