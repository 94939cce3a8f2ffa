/* run_cdist.c: cdist and pdist end to end.
 *
 * Check, choose, find out into which parts the call must be cut to fit the memory that it may hold,
 * bring what is needed to the device, prepare the rows, launch, and bring the result back. pdist
 * runs the same kernels, so its bits are those of cdist. Kernels that store pairs to their places
 * (GD_PAIRS) compute nothing else; of the others, which run over blocks of rows, what lies right of
 * the diagonal is kept: each pair is computed once but for a few at the diagonal. */
#include <math.h>

#include "bus.h"
#include "cdist_job.h"
#include "device.h"
#include "registry.h"
#include "run.h"
#include "sizes.h"
#include "watch.h"

/* ---------------------------------------------------------------- checks */

static gd_status check_operand(const gd_matrix *x, const char *name, const gd_matrix *out,
                               const gd_measure *measure, gd_error *err)
{
    if (!gd_same_device(x, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out are on different devices", name);
    }
    return gd_check_points(x, name, out->dtype, measure, err);
}

/* ---------------------------------------------------------------- rows of a matrix */

/* For between launches: `done` of `all` rows of the result are. */
static gd_status pass(const gd_job *job, ptrdiff_t done, ptrdiff_t all, gd_error *err)
{
    const gd_launch launch = {
        .device = job->stage.device, .stream = job->stage.stream, .watch = job->watch};
    return gd_job_counts(job) ? GD_OK : gd_pass(&launch, (double)done / (double)all, err);
}

/* How much of the call to begin with, where the first launches tell how long the others may be:
 * less than some tenths of a second for the slowest metrics, several for the quickest. Rows times a
 * factor are quick but where their distances lost digits, and then not that slow. */
static double first_piece(const gd_job *job)
{
    const gd_matrix *a = job->a, *b = job->b;
    const bool quick =
        gd_metric_info(job->form.metric)->cost == GD_CHEAP || job->form.preparation == GD_BITS;
    const bool light = job->dtype != GD_F64 || job->form.preparation == GD_FACTORED;
    const double all = (double)a->rows * (double)b->rows * (double)(a->cols + 1);
    const double cuda = quick ? (light ? 0x1p39 : 0x1p37) : (light ? 0x1p36 : 0x1p32);
    const double cpu = quick ? 0x1p32 : 0x1p26;
    return (job->stage.device.backend == GD_CUDA ? cuda : cpu) / all;
}

/* All rows of the result where the operands are, in panels, and in shorter pieces if there is
 * somebody to watch a long call. */
static gd_status compute_rows(gd_job *job, const gd_matrix *out, gd_error *err)
{
    const ptrdiff_t m = out->rows;
    gd_status status = GD_OK;
    for (ptrdiff_t first = 0, rows; status == GD_OK && first < m; first += rows) {
        const ptrdiff_t most = gd_least(m - first, job->parts.panel);
        const double wanted = gd_watch_piece(job->watch) * (double)m;
        const bool fewer = wanted < (double)most && !gd_job_counts(job); /* pieces may grow */
        const gd_matrix part = gd_rows_from(out, first, most);
        rows = fewer ? 1 + (ptrdiff_t)wanted : most;
        status = gd_job_rows(job, first, rows, 0, out->cols, &part, err);
        if (gd_job_counts(job)) { /* the others need no more */
            break;
        }
        if (status == GD_OK) {
            *job->complete = first + rows;
            status = pass(job, first + rows, m, err);
        }
    }
    return status;
}

/* Bytes of operands that come to the device: A once, and B once or, if it is in parts, for each
 * panel; the last of these parts is as long as the others. */
static double brought(const gd_job *job, const gd_parts *parts)
{
    const double row = (double)job->b->cols * (double)gd_dtype_size(job->b->dtype);
    const bool one = job->a == job->b && parts->a >= job->a->rows && parts->b >= job->b->rows;
    const double panels = (double)gd_ceil_div(job->a->rows, parts->panel);
    const double b_rows =
        parts->b < job->b->rows
            ? panels * (double)gd_ceil_div(job->b->rows, parts->b) * (double)parts->b
            : (double)job->b->rows;
    return row * (b_rows + (one ? 0 : (double)job->a->rows));
}

static const double FEW_BYTES = 0x1p25; /* the reserve's slots hold them */

/* Whether operands are so few bytes that the threads that copy the result bring them as well: to
 * call these together once more for each operand takes longer. */
static bool comes_with_result(const gd_job *job) { return brought(job, &job->parts) <= FEW_BYTES; }

/* Some rows of the result into a panel, which gd_bring_result asks for. */
static gd_status fill_panel(void *context, ptrdiff_t first, ptrdiff_t count, void *panel,
                            gd_error *err)
{
    gd_job *job = context;
    const ptrdiff_t n = job->b->rows;
    gd_status status = first == 0 && comes_with_result(job) ? gd_job_hold(job, err) : GD_OK;
    const gd_matrix out = gd_dense(panel, count, n, job->dtype, job->stage.device);
    status = status == GD_OK ? gd_job_rows(job, first, count, 0, n, &out, err) : status;
    return status == GD_OK ? pass(job, first + count, job->a->rows, err) : status;
}

/* The result of operands on the host: rows travel while later ones are computed. */
static gd_status bring_rows(gd_job *job, const gd_matrix *out, gd_error *err)
{
    const gd_result result = {.stage = &job->stage,
                              .to = out->data,
                              .row_bytes = (size_t)out->cols * gd_dtype_size(out->dtype),
                              .rows = out->rows,
                              .panel_rows = job->parts.panel,
                              .single = job->parts.single,
                              .fill = fill_panel,
                              .context = job,
                              .complete = job->complete};
    return gd_bring_result(&result, err);
}

/* ---------------------------------------------------------------- pairs */

/* Whether all pairs of the operand are asked for. */
static bool has_all_pairs(const gd_job *job)
{
    return job->pairs_of.first == 0 && job->pairs_of.end >= job->a->rows;
}

/* As many rows in a block that little is computed left of the diagonal, but enough to be worth the
 * launches. On the CPU a block stays in the last cache on its way to the result; a GPU is quicker
 * with fewer, larger ones. */
static ptrdiff_t rows_of_block(const gd_job *job)
{
    const ptrdiff_t n = job->a->rows;
    const bool on_cuda = job->stage.device.backend == GD_CUDA;
    const ptrdiff_t fewest = on_cuda ? 1024 : 32, step = 32;
    const ptrdiff_t row_bytes = n * (ptrdiff_t)gd_dtype_size(job->dtype);
    const ptrdiff_t room = ((ptrdiff_t)(on_cuda ? 256 : 4) << 20) / row_bytes;
    const ptrdiff_t share = n / (on_cuda ? 4 : 8);
    const ptrdiff_t wanted = share < fewest ? fewest : share;
    const ptrdiff_t rows = gd_least(room, wanted) / step * step;
    return gd_least(rows < step ? step : rows, job->pairs_of.end - job->pairs_of.first);
}

/* The element of the condensed result at which row i begins. */
static ptrdiff_t pairs_before(ptrdiff_t n, ptrdiff_t i) { return i * (2 * n - i - 1) / 2; }

/* The pairs of rows [first, first + count) with those after them, by way of a block that holds the
 * rows from column `first` on, to their places in `out`, the whole condensed result. */
static gd_status pairs_of_block(gd_job *job, ptrdiff_t first, ptrdiff_t count,
                                const gd_matrix *room, void *out, gd_error *err)
{
    const ptrdiff_t n = job->a->rows;
    gd_matrix block = *room;
    block.rows = count;
    block.cols = block.row_stride = n - first;
    const gd_status status = gd_job_rows(job, first, count, first, n, &block, err);
    if (status != GD_OK || gd_job_counts(job)) {
        return status;
    }
    return job->stage.device.backend == GD_CUDA
               ? gd_cuda_condense(&block, first, n, out, job->stage.stream, err)
               : gd_cpu_condense(&block, first, n, out, job->stage.stream, err);
}

/* Where the condensed result of all pairs would begin, if what is asked for begins at `there`. */
static void *whole_from(const gd_job *job, void *there, ptrdiff_t first)
{
    const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(job->dtype);
    return (void *)((uintptr_t)there - (uintptr_t)(pairs_before(job->a->rows, first) * size));
}

/* For between blocks: the pairs of all rows before `end` are computed. */
static gd_status pass_block(const gd_job *job, ptrdiff_t end, gd_error *err)
{
    const gd_row_span rows = job->pairs_of;
    return pass(job, end - rows.first, rows.end - rows.first, err);
}

/* The pairs, where the operand is: by a kernel that knows pairs if the operand is there as a whole,
 * and so is the result, else block by block. */
static gd_status compute_pairs(gd_job *job, void *out, gd_error *err)
{
    const ptrdiff_t n = job->a->rows, most = job->parts.panel;
    const ptrdiff_t end = gd_least(job->pairs_of.end, n - 1);
    const bool whole = job->parts.a >= n && job->parts.b >= n && has_all_pairs(job);
    gd_matrix room;
    if (whole && most >= n && (job->kernel->flags & GD_PAIRS)) {
        return gd_job_pairs(job, out, err);
    }
    void *const all = whole_from(job, out, job->pairs_of.first);
    gd_status status =
        gd_stage_matrix(&job->stage, most, n, job->dtype, "a block of the result", &room, err);
    for (ptrdiff_t first = job->pairs_of.first; status == GD_OK && first < end; first += most) {
        const ptrdiff_t rows = gd_least(most, job->pairs_of.end - first);
        status = pairs_of_block(job, first, rows, &room, all, err);
        if (gd_job_counts(job)) {
            break;
        }
        status = status == GD_OK ? pass_block(job, first + rows, err) : status;
    }
    return status;
}

/* A condensed result, or some of it, from the device to the host. */
static gd_status bring_pairs(gd_job *job, const void *whole, void *to, ptrdiff_t count,
                             gd_error *err)
{
    const gd_result result = {.stage = &job->stage,
                              .to = to,
                              .row_bytes = gd_dtype_size(job->dtype),
                              .rows = count,
                              .whole = whole};
    return gd_job_counts(job) ? GD_OK : gd_bring_result(&result, err);
}

/* The pairs of an operand on the host: all computed, then brought; or block by block. */
static gd_status compute_and_bring_pairs(gd_job *job, const gd_matrix *out, gd_error *err)
{
    const ptrdiff_t n = job->a->rows, most = job->parts.panel;
    const ptrdiff_t start = job->pairs_of.first, end = gd_least(job->pairs_of.end, n - 1);
    const ptrdiff_t before_all = pairs_before(n, start);
    const ptrdiff_t held =
        job->parts.together ? out->cols : pairs_before(n, start + most) - before_all;
    gd_matrix there, room;
    gd_status status = gd_stage_matrix(&job->stage, 1, held, job->dtype, "the result", &there, err);
    if (job->parts.together) {
        status = status == GD_OK ? compute_pairs(job, there.data, err) : status;
        return status == GD_OK ? bring_pairs(job, there.data, out->data, held, err) : status;
    }
    status = status == GD_OK ? gd_stage_matrix(&job->stage, most, n, job->dtype,
                                               "a block of the result", &room, err)
                             : status;
    for (ptrdiff_t first = start; status == GD_OK && first < end; first += most) {
        const ptrdiff_t rows = gd_least(most, job->pairs_of.end - first);
        const ptrdiff_t before = pairs_before(n, first);
        status = pairs_of_block(job, first, rows, &room, whole_from(job, there.data, first), err);
        if (status == GD_OK) {
            char *const to =
                (char *)out->data + (before - before_all) * (ptrdiff_t)gd_dtype_size(job->dtype);
            status = bring_pairs(job, there.data, to, pairs_before(n, first + rows) - before, err);
        }
        if (gd_job_counts(job)) {
            break;
        }
        status = status == GD_OK ? pass_block(job, first + rows, err) : status;
    }
    return status;
}

/* ---------------------------------------------------------------- memory */

static gd_status work(gd_job *job, const gd_matrix *out, bool pairs, gd_error *err)
{
    const bool later = job->staged && !pairs && comes_with_result(job);
    const gd_status status = later ? GD_OK : gd_job_hold(job, err);
    if (status != GD_OK) {
        return status;
    }
    if (pairs) {
        return job->staged ? compute_and_bring_pairs(job, out, err)
                           : compute_pairs(job, out->data, err);
    }
    return job->staged ? bring_rows(job, out, err) : compute_rows(job, out, err);
}

/* What the work holds at most if it is cut into these parts. */
static gd_status count_memory(const gd_job *job, const gd_matrix *out, bool pairs,
                              const gd_parts *parts, size_t *bytes, gd_error *err)
{
    gd_budget budget = {.counting = true}, reserve = {.counting = true};
    gd_job trial = *job;
    trial.parts = *parts;
    trial.stage.budget = &budget;
    trial.reserve.budget = job->staged ? &reserve : &budget;
    const gd_status status = work(&trial, out, pairs, err);
    *bytes = budget.most;
    return status;
}

/* What parts cost beside the computation, in bytes over the bus: the operands; launches, each of
 * which takes as long as some megabytes; and the result where the device waits for it, which are
 * pairs that are not brought together, and panels that are single, each of these twice a launch.
 * (An H200: a launch and its panel 60 us, a single panel 150 more.) */
static double cost_of(const gd_job *job, const gd_matrix *out, const gd_parts *parts)
{
    const double launch = 0x1p22;
    const double panels = (double)gd_ceil_div(job->a->rows, parts->panel);
    const double b_parts = (double)gd_ceil_div(job->b->rows, parts->b);
    const double bytes = (double)out->rows * (double)out->cols * (double)gd_dtype_size(out->dtype);
    const double waiting = parts->single || !parts->together ? bytes : 0;
    const double gaps = (parts->a < job->a->rows ? 1 : 0) + (parts->single ? 2 : 0);
    return brought(job, parts) + waiting + panels * (b_parts + gaps) * launch;
}

/* As many parts as `part` rows make of `rows`, of equal length but for the steps that kernels see
 * operands aligned in. */
static ptrdiff_t even(ptrdiff_t rows, ptrdiff_t part)
{
    enum { STEP = 16 };
    const ptrdiff_t share = gd_ceil_div(rows, gd_ceil_div(rows, part));
    return gd_least(gd_ceil_div(share, STEP) * STEP, part);
}

/* How the largest parts that fit are found. */
typedef struct gd_fitting {
    const gd_job *job;
    const gd_matrix *out;
    bool pairs, whole_a;
    size_t allowed, least; /* of all that were tried, the least bytes needed */
} gd_fitting;

static gd_status try_parts(gd_fitting *fitting, gd_parts *parts, size_t *needed, gd_error *err)
{
    gd_status status;
    parts->a = fitting->whole_a ? fitting->job->a->rows : parts->panel;
    status = count_memory(fitting->job, fitting->out, fitting->pairs, parts, needed, err);
    if (status == GD_OK && *needed < fitting->least) {
        fitting->least = *needed;
    }
    return status;
}

/* Makes *part, one of those in `parts`, as large as fits, at most `most`; 0 if not even 1 does. */
static gd_status enlarge(gd_fitting *fitting, gd_parts *parts, ptrdiff_t *part, ptrdiff_t most,
                         gd_error *err)
{
    ptrdiff_t fits = 0, beyond = most + 1;
    for (*part = most; beyond - fits > 1; *part = fits + (beyond - fits) / 2) {
        size_t needed;
        const gd_status status = try_parts(fitting, parts, &needed, err);
        if (status != GD_OK) {
            return status;
        }
        *(needed <= fitting->allowed ? &fits : &beyond) = *part;
    }
    *part = fits;
    return GD_OK;
}

/* The cheapest parts that fit `allowed` bytes; if none do, *bytes is the least that some need. */
static gd_status find_parts(gd_job *job, const gd_matrix *out, bool pairs, size_t allowed,
                            size_t *bytes, gd_error *err)
{
    const gd_parts begin = job->parts;
    const ptrdiff_t m = job->a->rows, n = job->b->rows;
    const bool cut_b = job->staged || job->stage.device.backend == GD_CPU;
    gd_fitting fitting = {job, out, pairs, .allowed = allowed, .least = SIZE_MAX};
    gd_parts best = begin;
    double lowest = HUGE_VAL;
    gd_status status = GD_OK;
    for (int form = 0; form < (job->staged ? 4 : 2); ++form) {
        gd_parts parts = begin;
        fitting.whole_a = form % 2 == 0;
        parts.together = !pairs || form < 2;
        parts.single = !pairs && form >= 2;
        /* As long as the panel gains by it; smaller parts than the sample of B gain nothing. */
        for (parts.b = n;; parts.b = (parts.b + 1) / 2) {
            if ((status = enlarge(&fitting, &parts, &parts.panel, begin.panel, err)) != GD_OK) {
                return status;
            }
            const bool fits = parts.panel > 0, most = parts.panel == begin.panel;
            gd_parts trial = parts;
            if (fits) {
                trial.panel = even(m, parts.panel);
                status = enlarge(&fitting, &trial, &trial.b, gd_least(2 * parts.b, n), err);
                trial.b = even(n, trial.b);
                trial.a = fitting.whole_a ? m : trial.panel;
            }
            if (fits && status == GD_OK && cost_of(job, out, &trial) < lowest) {
                lowest = cost_of(job, out, &trial);
                best = trial;
            }
            if (status != GD_OK || most || !cut_b || parts.b <= GD_SAMPLE) {
                break;
            }
        }
    }
    *bytes = fitting.least;
    job->parts = best;
    return status == GD_OK && lowest < HUGE_VAL ? count_memory(job, out, pairs, &best, bytes, err)
                                                : status;
}

/* As much at once as is best, or as fits. */
static gd_status cut_up(gd_job *job, const gd_matrix *out, bool pairs, size_t *needed,
                        gd_error *err)
{
    gd_budget *budget = job->stage.budget;
    const size_t row_bytes = (size_t)out->cols * gd_dtype_size(out->dtype);
    bool fits;
    gd_status status;
    job->parts = (gd_parts){.a = job->a->rows, .b = job->b->rows, .panel = job->a->rows};
    job->parts.together = true;
    if (pairs && !((job->kernel->flags & GD_PAIRS) && has_all_pairs(job))) {
        job->parts.panel = rows_of_block(job);
    }
    else if (!pairs && job->staged) {
        job->parts.panel = gd_panel_rows(out->rows, row_bytes);
    }
    if ((status = count_memory(job, out, pairs, &job->parts, &budget->most, err)) == GD_OK &&
        (status = gd_budget_fits(budget, job->stage.device, &fits, err)) == GD_OK && !fits) {
        if (pairs && (job->kernel->flags & GD_PAIRS)) {
            job->parts.panel = rows_of_block(job);
        }
        status = find_parts(job, out, pairs, budget->allowed, &budget->most, err);
    }
    *needed = budget->most;
    return status == GD_OK ? gd_budget_grant(budget, job->stage.device, pairs ? "pdist" : "cdist",
                                             pairs ? "compute it for parts of X, by cdist"
                                                   : "compute it for parts of XB",
                                             err)
                           : status;
}

/* ---------------------------------------------------------------- end to end */

/* Whether both are the caller's same array, seen the same way. */
static bool same_view(const gd_matrix *x, const gd_matrix *y)
{
    return x->data == y->data && x->rows == y->rows && x->row_stride == y->row_stride &&
           x->col_stride == y->col_stride;
}

/* Does it in parts that fit, or says in *plan what that would take, unless that is NULL. */
static gd_status run_in_parts(gd_job *job, const gd_matrix *out, bool pairs, gd_plan *plan,
                              gd_error *err)
{
    size_t needed;
    const gd_status status = cut_up(job, out, pairs, &needed, err);
    if (status != GD_OK || plan == NULL) {
        return status == GD_OK ? work(job, out, pairs, err) : status;
    }
    *plan = (gd_plan){.memory = needed,
                      .panels = gd_ceil_div(job->a->rows, job->parts.panel),
                      .b_parts = gd_ceil_div(job->b->rows, job->parts.b),
                      .brought = job->staged ? brought(job, &job->parts) : 0};
    return GD_OK;
}

/* Computes a result in parts, or at once where it is small. */
static gd_status run(const gd_matrix *a, const gd_matrix *b, gd_row_span rows, const gd_matrix *out,
                     const gd_measure *measure, const gd_orders *orders, gd_plan *plan,
                     gd_error *err)
{
    const bool pairs = b == NULL;
    const gd_matrix *columns = pairs || same_view(a, b) ? a : b;
    ptrdiff_t unasked;
    gd_budget budget = gd_budget_of(orders);
    gd_job job = {.a = a,
                  .b = columns,
                  .pairs_of = rows,
                  .dtype = out->dtype,
                  .measure = measure,
                  .watch = orders->watch,
                  .complete = orders->complete != NULL ? orders->complete : &unasked};
    gd_choice choice;
    int previous;
    gd_status status;
    const gd_orders near = gd_orders_near(out->device, orders);
    if ((status = gd_job_choose(&job, &near, &choice, err)) != GD_OK || out->rows == 0 ||
        out->cols == 0) {
        return status;
    }
    job.staged = out->device.backend == GD_CPU && choice.device.backend == GD_CUDA;
    job.stage = (gd_stage){.device = choice.device,
                           .stream = gd_stream_near(out->device, choice.device, orders),
                           .budget = &budget};
    job.reserve.budget = job.staged ? NULL : &budget;
    gd_watch_first(job.watch, first_piece(&job));
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    if (plan == NULL && !pairs && orders->max_memory == 0 && gd_job_is_immediate(&job, out)) {
        budget.counting = false;
        status = gd_job_immediate(&job, out, err);
    }
    else {
        status = run_in_parts(&job, out, pairs, plan, err);
    }
    gd_job_release(&job);
    status = job.staged ? gd_settle(choice.device, job.stage.stream, status, err) : status;
    gd_leave(choice.device, previous);
    return status;
}

gd_status gd_check_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                         const gd_measure *measure, gd_error *err)
{
    gd_status status;
    if (a->cols != b->cols) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "XA and XB must have the same number of columns, got %td and %td", a->cols,
                       b->cols);
    }
    if (a->dtype != b->dtype) {
        return GD_FAIL(err, GD_BAD_TYPE, "XA and XB differ in dtype: %s, %s",
                       gd_dtype_name(a->dtype), gd_dtype_name(b->dtype));
    }
    if (out->rows != a->rows || out->cols != b->rows) {
        return GD_FAIL(err, GD_BAD_VALUE, "out must have shape (%td, %td), got (%td, %td)", a->rows,
                       b->rows, out->rows, out->cols);
    }
    status = check_operand(a, "XA", out, measure, err);
    return status == GD_OK ? check_operand(b, "XB", out, measure, err) : status;
}

gd_status gd_check_pdist(const gd_matrix *x, gd_row_span rows, const gd_matrix *out,
                         const gd_measure *measure, gd_error *err)
{
    const ptrdiff_t n = x->rows, first = rows.first, end = rows.end;
    ptrdiff_t twice;
    if (first < 0 || end < first || n < end) {
        return GD_FAIL(err, GD_BAD_VALUE, "rows [%td, %td) are not among the %td of X", first, end,
                       n);
    }
    if (__builtin_mul_overflow(n, n - 1, &twice) ||
        out->cols != pairs_before(n, end) - pairs_before(n, first)) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "out must have an element for each pair of rows of X, of which there are "
                       "%td, got %td",
                       n, out->cols);
    }
    return check_operand(x, "X", out, measure, err);
}

gd_status gd_run_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                       const gd_measure *measure, const gd_orders *orders, gd_error *err)
{
    const gd_status status = gd_check_cdist(a, b, out, measure, err);
    return status == GD_OK ? run(a, b, gd_all_rows(a), out, measure, orders, NULL, err) : status;
}

gd_status gd_run_pdist(const gd_matrix *x, gd_row_span rows, const gd_matrix *out,
                       const gd_measure *measure, const gd_orders *orders, gd_error *err)
{
    const gd_status status = gd_check_pdist(x, rows, out, measure, err);
    return status == GD_OK ? run(x, NULL, rows, out, measure, orders, NULL, err) : status;
}

gd_status gd_plan_cdist(const gd_matrix *a, const gd_matrix *b, gd_row_span rows,
                        const gd_matrix *out, const gd_measure *measure, const gd_orders *orders,
                        gd_plan *plan, gd_error *err)
{
    *plan = (gd_plan){0};
    return run(a, b, rows, out, measure, orders, plan, err);
}
