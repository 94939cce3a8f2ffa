/* neighbors_hunt.c: what all searches for neighbours on a CUDA device do.
 *
 * As on the CPU the matrix of distances comes in panels, which kernels of cdist compute and a row
 * of neighbors looks through (kernels/neighbors). Here a panel is hundreds of megabytes, so that
 * launches are few, and so long that lists are short beside it.
 *
 * What there is of memory decides how large a panel is, and at last whether operands from the host
 * come in parts. */
#include "neighbors_hunt.h"

#include <math.h>
#include <stdlib.h>

#include "bus.h"
#include "device.h"
#include "sizes.h"
#include "watch.h"

enum {
    PANEL_BYTES = 256 << 20, /* of distances */
    LEAST_PANEL = 64 << 10,
    PANEL_STEP = 128,        /* rows and columns of a panel are so many times a whole number */
    FEWEST_ROWS = 32,        /* of a panel that has all columns */
    LIST_BYTES = 256 << 20,  /* of a block's lists, unless one row has more */
    POINTS_ROWS = 5 * 12288, /* whose neighbours are looked for among points, at most, */
    BOXES_ROWS = 1 << 20,    /* and of points with few dimensions */
};
/* Pair-dimensions between two looks at the watcher, as some tenths of a second take. */
static const double QUICK_STEPS = 0x1p38, SLOW_STEPS = 0x1p32;

/* ---------------------------------------------------------------- panels */

static ptrdiff_t stepped(ptrdiff_t count, ptrdiff_t most)
{
    return gd_least(gd_most(count / PANEL_STEP, 1) * PANEL_STEP, most);
}

/* Pairs whose distances take some tenths of a second. */
static double most_pairs(const gd_job *job)
{
    const bool quick = gd_metric_info(job->form.metric)->cost == GD_CHEAP && !job->form.weighted;
    return (quick ? QUICK_STEPS : SLOW_STEPS) / (double)(job->b->cols + 1);
}

/* Rows and columns of panels of so many bytes. */
static void shape_panel(gd_hunt *hunt, size_t bytes)
{
    const gd_job *const job = hunt->job;
    const ptrdiff_t m = job->a->rows, n = job->b->rows;
    const double listed = fmax((double)LIST_BYTES / fmax(hunt->prey->row_bytes, 1), 1);
    if (gd_hunts_points(hunt)) { /* no panel, but lists */
        const bool few_cols = gd_is_by_boxes(hunt->finder);
        const ptrdiff_t most = (ptrdiff_t)fmin(listed, few_cols ? BOXES_ROWS : POINTS_ROWS);
        hunt->rows = gd_least(m, most / (ptrdiff_t)(PANEL_BYTES / bytes) + 1);
        hunt->cols = n;
        return;
    }
    const double room = (double)bytes / (double)gd_dtype_size(job->dtype);
    const double pairs = fmax(fmin(room, most_pairs(job)), 1);
    const double fewest = hunt->prey->all_columns ? FEWEST_ROWS : sqrt(pairs);
    const double fitting = pairs / (double)n >= fewest ? pairs / (double)n : sqrt(pairs);
    const ptrdiff_t at_most = stepped((ptrdiff_t)fmin(fmin(fitting, listed), 0x1p30), m);
    /* Blocks of rows are of equal length, but for the steps. */
    const ptrdiff_t share = gd_ceil_div(m, gd_ceil_div(m, at_most));
    hunt->rows = gd_least(gd_ceil_div(share, PANEL_STEP) * PANEL_STEP, at_most);
    hunt->cols = pairs / (double)hunt->rows >= (double)n
                     ? n
                     : stepped((ptrdiff_t)(pairs / (double)hunt->rows), n);
}

/* Computes the distances of some rows to some columns, unless the panel has them. */
static gd_status compute(gd_hunt *hunt, ptrdiff_t row, ptrdiff_t count, ptrdiff_t column,
                         gd_error *err)
{
    gd_neighbors *const look = &hunt->look;
    const ptrdiff_t cols = gd_least(hunt->job->b->rows - column, hunt->cols);
    look->panel = hunt->panel;
    look->panel.rows = count;
    look->panel.cols = cols;
    look->first = column;
    look->self = hunt->self < 0 ? -1 : hunt->self + row;
    if (hunt->row == row && hunt->count == count && hunt->column == column) {
        return GD_OK;
    }
    hunt->row = row;
    hunt->count = count;
    hunt->column = column;
    return gd_job_rows(hunt->job, row, count, column, column + cols, &look->panel, err);
}

gd_status gd_hunt_look(gd_hunt *hunt, ptrdiff_t row, ptrdiff_t count,
                       void (*each)(gd_hunt *hunt, ptrdiff_t number), gd_error *err)
{
    gd_job *const job = hunt->job;
    const ptrdiff_t n = job->b->rows;
    const gd_launch launch = {
        .device = job->stage.device, .stream = job->stage.stream, .watch = job->watch};
    gd_status status = GD_OK;
    for (ptrdiff_t column = 0; status == GD_OK && column < n; column += hunt->cols) {
        if ((status = compute(hunt, row, count, column, err)) != GD_OK || gd_job_counts(job)) {
            return status;
        }
        if (each != NULL) {
            each(hunt, column / hunt->cols);
        }
        status = hunt->finder->launch.neighbors(&hunt->look, err);
        if (status == GD_OK) {
            const double share = (double)count / (double)job->a->rows;
            const double done = (double)row / (double)job->a->rows +
                                share * (double)gd_least(column + hunt->cols, n) / (double)n;
            status = gd_pass(&launch, done, err);
        }
    }
    return status;
}

gd_status gd_hunt_workspace(gd_hunt *hunt, gd_error *err)
{
    gd_neighbors *const look = &hunt->look;
    gd_status status;
    look->launch.sizing = true;
    look->panel = hunt->panel;
    status = hunt->finder->launch.neighbors(look, err);
    look->launch.sizing = false;
    return status == GD_OK
               ? gd_stage_memory(&hunt->job->stage, 1, look->launch.workspace_bytes,
                                 "the workspace of neighbors", &look->launch.workspace, err)
               : status;
}

/* Leaves B, as it is arranged in the stage's memory, for searches to come. Those need not wait for
 * more than that: it has a stream of its own, where the memory is given back one day. */
static gd_status keep(gd_hunt *hunt, gd_error *err)
{
    gd_stage *const stage = &hunt->job->stage;
    const gd_matrix *const b = hunt->job->b;
    const gd_measure *const measure = hunt->job->measure;
    gd_arrangement made = {.memory = hunt->look.arrangement, .device = stage->device};
    gd_status status = gd_cuda_mark_create(&made.mark, err);
    status = status == GD_OK ? gd_cuda_stream_take(false, &made.stream, err) : status;
    status = status == GD_OK ? gd_cuda_mark_set(made.mark, stage->stream, err) : status;
    if (status == GD_OK && gd_kept_take(hunt->kept, hunt->finder, b, measure, &made)) {
        gd_stage_leave(stage, made.memory);
        hunt->there = gd_kept_find(hunt->kept, hunt->finder, stage->device, b, measure);
    }
    else {
        gd_cuda_mark_free(made.mark);
        gd_cuda_stream_give(made.stream);
    }
    return status;
}

gd_status gd_hunt_arrange(gd_hunt *hunt, gd_error *err)
{
    gd_job *const job = hunt->job;
    gd_neighbors *const look = &hunt->look;
    gd_status status;
    hunt->panel.dtype = job->dtype;
    look->a = gd_rows_from(&job->all_a.rows, 0, gd_least(job->a->rows, hunt->rows));
    look->b = job->all_b.rows;
    look->b.cols = job->b->cols; /* truths, where a row has words of them */
    look->self = hunt->self;
    look->arranged = hunt->there != NULL;
    look->arrangement = hunt->there != NULL ? hunt->there->memory : NULL;
    look->arrangement_bytes = 0;
    status = gd_hunt_workspace(hunt, err);
    if (status == GD_OK && look->arranged) {
        return gd_cuda_mark_order(job->stage.stream, hunt->there->mark, err);
    }
    status = status == GD_OK ? gd_stage_memory(&job->stage, 1, look->arrangement_bytes,
                                               "XB, arranged", &look->arrangement, err)
                             : status;
    if (status != GD_OK || gd_job_counts(job)) {
        return status;
    }
    status = hunt->finder->launch.neighbors(look, err);
    return status == GD_OK && hunt->kept != NULL && look->arrangement != NULL ? keep(hunt, err)
                                                                              : status;
}

gd_status gd_hunt_dense(const gd_hunt *hunt, gd_error *err)
{
    return GD_FAIL(err, GD_BAD_VALUE,
                   "%s lists less than %d neighbours of a row within a radius, and some row has as "
                   "many or more",
                   hunt->finder->id, GD_PRODUCT_NEIGHBORS);
}

gd_status gd_hunt_among(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, double from, double to,
                        gd_error *err)
{
    gd_job *const job = hunt->job;
    gd_neighbors *const look = &hunt->look;
    const double all = (double)job->a->rows;
    const gd_launch launch = {
        .device = job->stage.device, .stream = job->stage.stream, .watch = job->watch};
    look->a = gd_rows_from(&job->all_a.rows, first, count);
    look->self = hunt->self < 0 ? -1 : hunt->self + first;
    look->done = ((double)first + from * (double)count) / all;
    look->share = (to - from) * (double)count / all;
    const gd_status status = hunt->finder->launch.neighbors(look, err);
    return status == GD_OK ? gd_pass(&launch, look->done + look->share, err) : status;
}

gd_status gd_hunt_panel(gd_hunt *hunt, gd_error *err)
{
    /* Rows begin at whole words, and are read by whole lines. */
    const ptrdiff_t line = 128 / (ptrdiff_t)gd_dtype_size(hunt->job->dtype);
    const ptrdiff_t stride = gd_ceil_div(hunt->cols, line) * line;
    const gd_status status =
        gd_stage_matrix(&hunt->job->stage, hunt->rows, stride, hunt->job->dtype,
                        "a panel of distances", &hunt->panel, err);
    hunt->panel.cols = hunt->cols;
    hunt->row = hunt->count = hunt->column = -1;
    return status;
}

/* ---------------------------------------------------------------- a call */

gd_status gd_hunt_home(const gd_hunt *hunt, void *host, const void *there, size_t pitch,
                       size_t size, ptrdiff_t count, gd_error *err)
{
    const gd_result result = {.stage = &hunt->job->stage,
                              .to = host,
                              .row_bytes = size,
                              .rows = count,
                              .whole = there,
                              .pitch = pitch};
    return gd_bring_result(&result, err);
}

static gd_status work(gd_hunt *hunt, gd_error *err)
{
    gd_job *const job = hunt->job;
    const ptrdiff_t m = job->a->rows;
    gd_status status = gd_job_hold(job, err);
    status = status == GD_OK ? hunt->prey->hold(hunt, err) : status;
    for (ptrdiff_t row = 0; status == GD_OK && row < m; row += hunt->rows) {
        status = hunt->prey->block(hunt, row, gd_least(m - row, hunt->rows), err);
        if (gd_job_counts(job)) { /* the others need no more */
            break;
        }
    }
    return status;
}

/* What the work holds at most. */
static gd_status count_memory(const gd_hunt *hunt, size_t *bytes, gd_error *err)
{
    gd_budget budget = {.counting = true}, reserve = {.counting = true};
    gd_job job = *hunt->job;
    gd_hunt trial = *hunt;
    job.stage.budget = &budget;
    job.reserve.budget = &reserve;
    trial.job = &job;
    const gd_status status = work(&trial, err);
    *bytes = budget.most;
    return status;
}

/* Finds the largest panels, and then the least of the operands at a time, that fit. */
static gd_status fit(gd_hunt *hunt, gd_error *err)
{
    gd_job *const job = hunt->job;
    gd_budget *const budget = job->stage.budget;
    const gd_parts whole = {
        .a = job->a->rows, .b = job->b->rows, .panel = job->a->rows, .together = true};
    gd_status status = GD_OK;
    size_t least = SIZE_MAX;
    /* Points are searched among, and for, as a whole. */
    const int forms = job->staged && !gd_hunts_points(hunt) ? 3 : 1;
    for (int form = 0; status == GD_OK && form < forms; ++form) {
        for (size_t bytes = PANEL_BYTES; bytes >= LEAST_PANEL; bytes /= 4) {
            shape_panel(hunt, bytes);
            job->parts = whole;
            job->parts.a = form > 0 ? hunt->rows : whole.a;
            job->parts.b = form > 1 ? hunt->cols : whole.b;
            bool fits;
            if ((status = count_memory(hunt, &budget->most, err)) != GD_OK ||
                (status = gd_budget_fits(budget, job->stage.device, &fits, err)) != GD_OK) {
                return status;
            }
            if (fits) {
                form = 3;
                break;
            }
            least = budget->most < least ? budget->most : least;
            budget->most = least;
        }
    }
    return gd_budget_grant(budget, job->stage.device, "a search for neighbours",
                           "search for those of fewer rows at once", err);
}

/* Finds what an earlier search among B left. A graph that is captured may outlive it, and has none
 * of its work before it. */
static void find_kept(gd_hunt *hunt)
{
    gd_job *const job = hunt->job;
    gd_error ignored;
    if (hunt->kept == NULL ||
        gd_refuse_capture(job->stage.device, job->stage.stream, "keeping XB", &ignored) != GD_OK) {
        hunt->kept = NULL;
        return;
    }
    hunt->there = gd_kept_find(hunt->kept, hunt->finder, job->stage.device, job->b, job->measure);
    if (hunt->there != NULL && job->a != job->b) {
        job->ready_b = job->b; /* as it is arranged nobody reads it any more */
    }
}

gd_status gd_hunt_run(gd_hunt *hunt, const gd_orders *orders, gd_error *err)
{
    gd_job *const job = hunt->job;
    const gd_device home = job->a->device, device = hunt->look.launch.device;
    gd_budget budget = gd_budget_of(orders);
    int previous;
    gd_status status;
    job->staged = home.backend == GD_CPU;
    job->stage = (gd_stage){
        .device = device, .stream = gd_stream_near(home, device, orders), .budget = &budget};
    job->reserve = (gd_stage){0};
    job->common = orders->common;
    hunt->look.launch.stream = job->stage.stream;
    gd_watch_first(job->watch, most_pairs(job) / ((double)job->a->rows * (double)job->b->rows));
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    status = fit(hunt, err);
    if (status == GD_OK) {
        find_kept(hunt);
        status = work(hunt, err);
    }
    if (hunt->there != NULL) {
        gd_error ignored;
        const gd_status ordered =
            gd_cuda_order(hunt->there->stream, job->stage.stream, status == GD_OK ? err : &ignored);
        status = status == GD_OK ? ordered : status;
    }
    gd_job_release(job);
    status = job->staged ? gd_settle(device, job->stage.stream, status, err) : status;
    gd_leave(device, previous);
    return status;
}

gd_hunt gd_hunt_begin(gd_job *job, const gd_choice *finder, ptrdiff_t self)
{
    return (gd_hunt){
        .job = job,
        .finder = finder->kernel,
        .self = self,
        .look = {.launch = {.device = finder->device,
                            .options = finder->options,
                            .watch = job->watch},
                 .larger = gd_metric_info(job->measure->metric)->order == GD_LARGER_IS_NEARER,
                 .metric = job->form.metric,
                 .p = job->measure->p,
                 .box = job->measure->box},
    };
}

ptrdiff_t gd_hunt_key_count(const gd_hunt *hunt, const gd_wanted *wanted)
{
    return gd_hunts_points(hunt) && wanted->one_radius ? 1 : hunt->job->a->rows;
}

double *gd_hunt_keys(const gd_hunt *hunt, const gd_wanted *wanted)
{
    const ptrdiff_t count = gd_hunt_key_count(hunt, wanted);
    double *const keys = malloc((size_t)count * sizeof *keys);
    for (ptrdiff_t i = 0; keys != NULL && i < count; ++i) {
        const double radius = wanted->radii[wanted->one_radius ? 0 : i];
        keys[i] = hunt->look.larger ? -radius : radius;
    }
    return keys;
}

gd_status gd_hunt_no_keys(const gd_hunt *hunt, gd_error *err)
{
    return GD_FAIL(err, GD_NO_MEMORY, "no memory for the radii of %td rows", hunt->job->a->rows);
}

gd_status gd_hunt_send(const gd_hunt *hunt, void *there, const void *host, size_t bytes,
                       gd_error *err)
{
    const gd_stage *const stage = &hunt->job->stage;
    return gd_send_rows(stage->device, stage->stream, there, bytes, host, bytes, bytes, 1, err);
}
