/* run_cdist.c: cdist and pdist end to end.
 *
 * Check, choose, bring what is needed to the device, prepare the rows, launch, and bring the result
 * back. pdist runs the same kernels, so its bits are those of cdist. Kernels that store pairs to
 * their places (GD_PAIRS) compute nothing else; of the others, which run over blocks of rows, what
 * lies right of the diagonal is kept: each pair is computed once but for a few at the diagonal. */
#include <math.h>
#include <string.h>

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "run.h"
#include "stage.h"
#include "watch.h"

/* ---------------------------------------------------------------- a call on its way */

/* What a call needs between entering the device and leaving it. */
typedef struct gd_job {
    gd_cdist call;
    gd_form form;
    const gd_measure *measure;
    const gd_kernel *kernel;
    gd_options options;
    gd_watch *watch; /* or NULL */
    gd_stage stage;
} gd_job;

/* ---------------------------------------------------------------- checks */

static gd_status check_operand(const gd_matrix *x, const char *name, const gd_matrix *out,
                               const gd_measure *measure, gd_error *err)
{
    const gd_metric_row *row = gd_metric_info(measure->metric);
    const bool truths = x->dtype == GD_BOOL && row->domain != GD_NUMBERS && !measure->weights;
    if (!gd_same_device(x, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out are on different devices", name);
    }
    if (x->dtype != out->dtype && !truths) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out differ in dtype: %s, %s", name,
                       gd_dtype_name(x->dtype), gd_dtype_name(out->dtype));
    }
    if (row->columns != 0 && x->cols != row->columns) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s takes %d columns, %s has %td", row->name,
                       row->columns, name, x->cols);
    }
    if ((measure->weights != NULL || measure->vi != NULL) && measure->columns != x->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s has %td columns, the metric's arguments have %td",
                       name, x->cols, measure->columns);
    }
    return GD_OK;
}

/* ---------------------------------------------------------------- before the kernel */

/* Whether a kernel with these flags can read the matrix as it lies. */
static bool laid_out(const gd_matrix *x, uint64_t flags)
{
    if (flags & GD_DIM_MAJOR) {
        return x->row_stride == 1 && x->col_stride >= x->rows;
    }
    return !(flags & GD_DENSE_ROWS) ||
           (x->col_stride == 1 && x->row_stride == x->cols && (uintptr_t)x->data % 16 == 0);
}

/* Replaces *x by a copy in the layout that the kernel assumes, if it lies in another. */
static gd_status lay_out(gd_job *job, const char *what, gd_matrix *copy, const gd_matrix **x,
                         gd_error *err)
{
    const gd_matrix *given = *x;
    gd_status status;
    if (laid_out(given, job->kernel->flags)) {
        return GD_OK;
    }
    status = gd_stage_matrix(&job->stage, given->rows, given->cols, given->dtype, what, copy, err);
    if (status != GD_OK) {
        return status;
    }
    if (job->kernel->flags & GD_DIM_MAJOR) {
        copy->row_stride = 1;
        copy->col_stride = given->rows;
    }
    *x = copy;
    return job->stage.device.backend == GD_CUDA ? gd_cuda_relay(given, copy, job->stage.stream, err)
                                                : gd_cpu_relay(given, copy, err);
}

/* An array of the metric's arguments where the kernel can read it: the CPU reads the caller's. */
static gd_status bring_array(gd_job *job, const double *host, ptrdiff_t count, const char *what,
                             const double **there, gd_error *err)
{
    gd_matrix copy;
    gd_status status = GD_OK;
    *there = host;
    if (host != NULL && job->stage.device.backend == GD_CUDA) {
        const gd_matrix row = {.data = (void *)(uintptr_t)host,
                               .rows = 1,
                               .cols = count,
                               .row_stride = count,
                               .col_stride = 1,
                               .dtype = GD_F64};
        status = gd_stage_bring(&job->stage, &row, what, &copy, err);
        *there = copy.data;
    }
    return status;
}

/* Fills what the call says beside its operands. */
static gd_status set_arguments(gd_job *job, const gd_matrix *given, gd_error *err)
{
    const gd_measure *measure = job->measure;
    gd_cdist *call = &job->call;
    call->metric = job->form.metric;
    call->p = measure->p;
    call->scale = 0.5 / (measure->base > 0 ? log(measure->base) : 1);
    call->weight_sum = (double)given->cols;
    if (job->form.weighted) {
        call->weight_sum = 0;
        for (ptrdiff_t k = 0; k < given->cols; ++k) {
            call->weight_sum += measure->weights[k];
        }
    }
    return job->form.weighted
               ? bring_array(job, measure->weights, given->cols, "weights", &call->weights, err)
               : GD_OK;
}

static ptrdiff_t prepared_columns(const gd_job *job, ptrdiff_t cols)
{
    enum { BITS = 32 * GD_BITS_ALIGNMENT };
    switch (job->form.preparation) {
        case GD_BITS:
            return (cols + BITS - 1) / BITS * GD_BITS_ALIGNMENT;
        case GD_UNIT:
        case GD_CENTRED_UNIT:
            return cols > 0 ? cols : 1;
        default:
            return cols;
    }
}

/* Fills *to and *terms with what the kernel shall see of x. `task` has what both operands share. */
static gd_status prepare(gd_job *job, const gd_prepare *task, const gd_matrix *x, const char *what,
                         gd_matrix *to, const double **terms, gd_error *err)
{
    const bool has_terms = task->what != GD_UNIT && task->what != GD_CENTRED_UNIT;
    const gd_dtype dtype = task->what == GD_BITS ? GD_I32 : x->dtype;
    gd_prepare now = *task;
    void *memory = NULL;
    gd_status status = gd_stage_matrix(&job->stage, x->rows, prepared_columns(job, x->cols), dtype,
                                       what, &now.to, err);
    if (status == GD_OK && has_terms) {
        status = gd_stage_memory(&job->stage, (size_t)x->rows, sizeof(double), what, &memory, err);
    }
    if (status != GD_OK) {
        return status;
    }
    now.x = *x;
    now.terms = memory;
    *to = now.to;
    *terms = memory;
    return job->stage.device.backend == GD_CUDA ? gd_cuda_prepare(&now, err)
                                                : gd_cpu_prepare(&now, err);
}

/* Fills call->a and call->b from the operands, which are on the job's device by now. `a` and `b`
 * are the same for pdist. */
static gd_status prepare_both(gd_job *job, const gd_matrix *a, const gd_matrix *b, gd_error *err)
{
    const gd_measure *measure = job->measure;
    const ptrdiff_t d = a->cols;
    gd_cdist *call = &job->call;
    gd_prepare task = {.what = job->form.preparation, .stream = job->stage.stream, .origin = *b};
    gd_status status = set_arguments(job, a, err);
    call->a = call->a_given = *a;
    call->b = call->b_given = *b;
    if (status == GD_OK && job->form.metric == GD_MAHALANOBIS) {
        status = bring_array(job, measure->vi, d * d, "VI", &call->vi, err);
    }
    if (status != GD_OK || task.what == GD_AS_GIVEN) {
        call->whole_b = *b;
        return status;
    }
    if (task.what == GD_FACTORED) {
        status = bring_array(job, measure->factor, d * d, "the factor of VI", &task.factor, err);
    }
    else {
        status = bring_array(job, measure->weights, d, "weights", &task.weights, err);
    }
    if (status == GD_OK) {
        status = prepare(job, &task, b, "XB prepared", &call->b, &call->b_terms, err);
    }
    if (status == GD_OK && a == b) {
        call->a = call->b;
        call->a_terms = call->b_terms;
    }
    else if (status == GD_OK) {
        status = prepare(job, &task, a, "XA prepared", &call->a, &call->a_terms, err);
    }
    call->whole_b = call->b;
    return status;
}

/* ---------------------------------------------------------------- the kernel */

static gd_status launch(gd_job *job, gd_error *err)
{
    const int kept = job->stage.owned_count;
    gd_cdist *call = &job->call;
    gd_status status;
    call->launch = (gd_launch){.sizing = true,
                               .device = job->stage.device,
                               .stream = job->stage.stream,
                               .options = job->options};
    status = job->kernel->launch.cdist(call, err);
    if (status == GD_OK) {
        status = gd_stage_memory(&job->stage, 1, call->launch.workspace_bytes,
                                 "the workspace of cdist", &call->launch.workspace, err);
    }
    if (status == GD_OK) {
        call->launch.sizing = false;
        status = job->kernel->launch.cdist(call, err);
    }
    gd_stage_release_to(&job->stage, kept);
    return status;
}

/* For between launches: `done` of `all` rows of the result are. */
static gd_status pass(const gd_job *job, ptrdiff_t done, ptrdiff_t all, gd_error *err)
{
    const gd_launch launch = {
        .device = job->stage.device, .stream = job->stage.stream, .watch = job->watch};
    return gd_pass(&launch, (double)done / (double)all, err);
}

static gd_matrix rows_from(const gd_matrix *x, ptrdiff_t first, ptrdiff_t count)
{
    gd_matrix part = *x;
    part.data = (char *)x->data + first * x->row_stride * (ptrdiff_t)gd_dtype_size(x->dtype);
    part.rows = count;
    return part;
}

/* Leaves the call's operand A with the rows [first, first + count) of `whole`. */
static void keep_rows(gd_cdist *call, const gd_cdist *whole, ptrdiff_t first, ptrdiff_t count)
{
    call->a = rows_from(&whole->a, first, count);
    call->a_given = rows_from(&whole->a_given, first, count);
    call->a_terms = whole->a_terms != NULL ? whole->a_terms + first : NULL;
}

/* Some rows of the result into a panel, which gd_bring_result asks for. The kernel was chosen
 * without regard to the number of rows, so they have the bits that they have in one piece. */
static gd_status fill_panel(void *context, ptrdiff_t first, ptrdiff_t count, void *panel,
                            gd_error *err)
{
    gd_job *job = context;
    const gd_cdist whole = job->call;
    keep_rows(&job->call, &whole, first, count);
    job->call.out.data = panel;
    job->call.out.rows = count;
    const gd_status status = launch(job, err);
    job->call = whole;
    return status == GD_OK ? pass(job, first + count, whole.out.rows, err) : status;
}

/* How much of the call to begin with, where the first launches tell how long the others may be:
 * less than some tenths of a second for the slowest metrics, several for the quickest. */
static double first_piece(const gd_job *job)
{
    const gd_cdist *call = &job->call;
    const uint64_t quick_metrics = GD_BIT(GD_EUCLIDEAN) | GD_BIT(GD_SQEUCLIDEAN) |
                                   GD_BIT(GD_CITYBLOCK) | GD_BIT(GD_CHEBYSHEV) | GD_BIT(GD_COSINE) |
                                   GD_BIT(GD_INNER_PRODUCT);
    const bool quick =
        (quick_metrics & GD_BIT(call->metric)) != 0 || job->form.preparation == GD_BITS;
    const bool narrow = call->a.dtype != GD_F64;
    const double all = (double)call->a.rows * (double)call->b.rows * (double)(call->a.cols + 1);
    const double cuda = quick ? (narrow ? 0x1p39 : 0x1p37) : (narrow ? 0x1p36 : 0x1p33);
    const double cpu = quick ? 0x1p32 : 0x1p26;
    return (job->stage.device.backend == GD_CUDA ? cuda : cpu) / all;
}

/* All rows of the result, in pieces if there is somebody to watch a long call. */
static gd_status launch_rows(gd_job *job, gd_error *err)
{
    const gd_cdist whole = job->call;
    const ptrdiff_t m = whole.out.rows;
    const double begin = first_piece(job);
    gd_status status = GD_OK;
    for (ptrdiff_t first = 0, rows; status == GD_OK && first < m; first += rows) {
        const double wanted = gd_watch_piece(job->watch, begin) * (double)m;
        rows = wanted < (double)(m - first) ? 1 + (ptrdiff_t)wanted : m - first;
        keep_rows(&job->call, &whole, first, rows);
        job->call.out = rows_from(&whole.out, first, rows);
        status = launch(job, err);
        status = status == GD_OK ? pass(job, first + rows, m, err) : status;
    }
    return status;
}

/* So many rows in a block that little is computed left of the diagonal, but enough to be worth the
 * launches. On the CPU a block stays in the last cache on its way to the result; a GPU is quicker
 * with fewer, larger ones. */
static ptrdiff_t rows_of_block(const gd_job *job, ptrdiff_t n, size_t size)
{
    const bool on_cuda = job->stage.device.backend == GD_CUDA;
    const ptrdiff_t least = on_cuda ? 1024 : 32, step = 32;
    const ptrdiff_t room = ((ptrdiff_t)(on_cuda ? 256 : 4) << 20) / (n * (ptrdiff_t)size);
    const ptrdiff_t share = n / (on_cuda ? 4 : 8);
    const ptrdiff_t wanted = share < least ? least : share;
    const ptrdiff_t rows = (room < wanted ? room : wanted) / step * step;
    return rows < step ? step : rows;
}

/* Every two rows of the operand (call->a and call->b are the same) into the condensed `out`, by a
 * kernel that knows matrices alone. */
static gd_status launch_blocks(gd_job *job, void *out, gd_dtype dtype, gd_error *err)
{
    const gd_cdist whole = job->call;
    const ptrdiff_t n = whole.a.rows, most = rows_of_block(job, n, gd_dtype_size(dtype));
    gd_matrix block;
    gd_status status = gd_stage_matrix(&job->stage, most < n ? most : n, n, dtype,
                                       "a block of the result", &block, err);
    for (ptrdiff_t first = 0; status == GD_OK && first < n - 1; first += most) {
        const ptrdiff_t rows = most < n - first ? most : n - first;
        job->call = whole;
        keep_rows(&job->call, &whole, first, rows);
        job->call.b = rows_from(&whole.b, first, n - first);
        job->call.b_given = rows_from(&whole.b_given, first, n - first);
        job->call.b_terms = whole.b_terms != NULL ? whole.b_terms + first : NULL;
        job->call.out = block;
        job->call.out.rows = rows;
        job->call.out.cols = job->call.out.row_stride = n - first;
        status = launch(job, err);
        if (status == GD_OK) {
            status = job->stage.device.backend == GD_CUDA
                         ? gd_cuda_condense(&job->call.out, first, n, out, job->stage.stream, err)
                         : gd_cpu_condense(&job->call.out, first, n, out, job->stage.stream, err);
        }
        status = status == GD_OK ? pass(job, first + rows, n, err) : status;
    }
    return status;
}

/* ---------------------------------------------------------------- end to end */

/* The result on the device of its operands. */
static gd_status launch_here(gd_job *job, const gd_matrix *out, bool pairs, gd_error *err)
{
    const bool in_blocks = pairs && !(job->kernel->flags & GD_PAIRS);
    if (in_blocks) {
        return launch_blocks(job, out->data, out->dtype, err);
    }
    job->call.out = *out;
    job->call.pairs = pairs;
    if (pairs) {
        job->call.out.rows = job->call.out.cols = job->call.out.row_stride = job->call.a.rows;
        return launch(job, err);
    }
    return launch_rows(job, err);
}

/* The result of operands on the device to the host: rows travel while later ones are computed. A
 * condensed result is computed first. */
static gd_status launch_and_bring(gd_job *job, const gd_matrix *out, bool pairs, gd_error *err)
{
    const size_t size = gd_dtype_size(out->dtype);
    gd_result result = {.stage = &job->stage,
                        .to = out->data,
                        .row_bytes = pairs ? size : (size_t)out->cols * size,
                        .rows = pairs ? out->cols : out->rows,
                        .fill = fill_panel,
                        .context = job};
    gd_matrix there = *out;
    gd_status status = GD_OK;
    there.device = job->stage.device;
    there.data = NULL;
    if (pairs) {
        status = gd_stage_matrix(&job->stage, 1, out->cols, out->dtype, "the result", &there, err);
        status = status == GD_OK ? launch_here(job, &there, true, err) : status;
        result.whole = there.data;
    }
    job->call.out = there;
    return status == GD_OK ? gd_bring_result(&result, err) : status;
}

/* Whether both are the caller's same array, seen the same way. */
static bool same_view(const gd_matrix *x, const gd_matrix *y)
{
    return x->data == y->data && x->rows == y->rows && x->row_stride == y->row_stride &&
           x->col_stride == y->col_stride;
}

static gd_status work(gd_job *job, const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                      gd_error *err)
{
    const bool pairs = b == NULL, same = pairs || same_view(a, b);
    const bool staged = out->device.backend == GD_CPU && job->stage.device.backend == GD_CUDA;
    const gd_matrix *there_a = a, *there_b = same ? a : b;
    gd_matrix copy_a, copy_b, laid_a, laid_b;
    gd_status status = GD_OK;
    if (staged) {
        there_a = &copy_a;
        there_b = same ? &copy_a : &copy_b;
        status = gd_stage_bring(&job->stage, a, "XA", &copy_a, err);
        if (status == GD_OK && !same) {
            status = gd_stage_bring(&job->stage, b, "XB", &copy_b, err);
        }
    }
    if (status == GD_OK) {
        status = lay_out(job, "XA laid out", &laid_a, &there_a, err);
    }
    if (same) {
        there_b = there_a;
    }
    else if (status == GD_OK) {
        status = lay_out(job, "XB laid out", &laid_b, &there_b, err);
    }
    if (status == GD_OK) {
        status = prepare_both(job, there_a, there_b, err);
    }
    if (status == GD_OK) {
        status =
            staged ? launch_and_bring(job, out, pairs, err) : launch_here(job, out, pairs, err);
    }
    gd_stage_release(&job->stage);
    return staged ? gd_settle(job->stage.device, job->stage.stream, status, err) : status;
}

static gd_status run(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                     const gd_measure *measure, const gd_orders *orders, gd_error *err)
{
    const gd_matrix *columns = b != NULL ? b : a;
    gd_budget budget = gd_budget_of(orders);
    gd_job job = {.measure = measure};
    gd_choice choice;
    int previous;
    gd_status status;
    job.form = gd_form_of(measure->metric, measure->weights != NULL, measure->p,
                          measure->factor != NULL, a->dtype);
    const gd_request request = {
        .op = GD_OP_CDIST,
        .orders = gd_orders_near(out->device, orders),
        .dtype = out->dtype,
        .form = job.form,
        .n = columns->rows,
        .cols = a->cols,
    };
    if ((status = gd_choose(&request, &choice, err)) != GD_OK || out->rows == 0 || out->cols == 0) {
        return status;
    }
    job.kernel = choice.kernel;
    job.options = choice.options;
    job.watch = orders->watch;
    gd_watch_work(job.watch, (double)a->rows * (double)columns->rows * (double)(a->cols + 1));
    job.stage.device = choice.device;
    job.stage.stream = gd_stream_near(out->device, choice.device, orders);
    budget.counting = false;
    job.stage.budget = &budget;
    if ((status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    status = work(&job, a, b, out, err);
    gd_leave(choice.device, previous);
    return status;
}

gd_status gd_run_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                       const gd_measure *measure, const gd_orders *orders, gd_error *err)
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
    if ((status = check_operand(a, "XA", out, measure, err)) != GD_OK ||
        (status = check_operand(b, "XB", out, measure, err)) != GD_OK) {
        return status;
    }
    return run(a, b, out, measure, orders, err);
}

gd_status gd_run_pdist(const gd_matrix *x, const gd_matrix *out, const gd_measure *measure,
                       const gd_orders *orders, gd_error *err)
{
    const ptrdiff_t n = x->rows;
    ptrdiff_t twice;
    gd_status status;
    if (__builtin_mul_overflow(n, n - 1, &twice) || out->cols != twice / 2) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "out must have n (n - 1) / 2 elements for n = %td, got %td", n, out->cols);
    }
    if ((status = check_operand(x, "X", out, measure, err)) != GD_OK) {
        return status;
    }
    return run(x, NULL, out, measure, orders, err);
}
