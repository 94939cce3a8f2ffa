/* cdist_job.c: cdist and pdist of operands that need not be on the device as a whole.
 *
 * An operand's rows go one way, whether all of them at once or a part: to the device, into the
 * layout that the kernel assumes, prepared. A row is prepared by itself, and a kernel's result for
 * a row of A and one of B does not depend on which others it is given. What a kernel or preparation
 * takes from all of B, a shift, say, it takes from certain rows (gd_sample_row): where B comes in
 * parts, these are gathered before. So parts have the bits of the whole. */
#include "cdist_job.h"

#include <math.h>
#include <string.h>

#include "bus.h"
#include "bus_common.h"
#include "device.h"
#include "registry.h"
#include "watch.h"

/* Elements of rows that are prepared on the host between two looks at the watcher, times the
 * columns of a factor; and rows that share what a factor takes, which is laid out for each time. */
static const double WATCHED_STEPS = 0x1p24, FEWEST_PREPARED = 128;

/* ---------------------------------------------------------------- checks and the choice */

gd_status gd_check_points(const gd_matrix *x, const char *name, gd_dtype dtype,
                          const gd_measure *measure, gd_error *err)
{
    const gd_metric_row *row = gd_metric_info(measure->metric);
    const bool truths = x->dtype == GD_BOOL && row->domain != GD_NUMBERS && !measure->weights;
    if (x->dtype != dtype && !truths) {
        return GD_FAIL(err, GD_BAD_TYPE, "%s and out differ in dtype: %s, %s", name,
                       gd_dtype_name(x->dtype), gd_dtype_name(dtype));
    }
    if (row->columns != 0 && x->cols != row->columns) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s takes %d columns, %s has %td", row->name,
                       row->columns, name, x->cols);
    }
    const bool has_columns =
        measure->weights != NULL || measure->vi != NULL || measure->box != NULL;
    if (has_columns && measure->columns != x->cols) {
        return GD_FAIL(err, GD_BAD_VALUE, "%s has %td columns, the metric's arguments have %td",
                       name, x->cols, measure->columns);
    }
    return GD_OK;
}

gd_request gd_job_request(const gd_job *job, const gd_orders *orders)
{
    return (gd_request){
        .op = GD_OP_CDIST,
        .orders = *orders,
        .dtype = job->dtype,
        .form = job->form,
        .direct = job->direct,
        .n = job->b->rows,
        .cols = job->a->cols,
    };
}

gd_status gd_job_choose(gd_job *job, const gd_orders *orders, gd_choice *choice, gd_error *err)
{
    job->form = gd_form_of_measure(job->measure, job->a->dtype);
    const gd_request request = gd_job_request(job, orders);
    const gd_status status = gd_choose(&request, choice, err);
    if (status == GD_OK) {
        gd_stand_in(&request, job->a->rows, choice);
        job->kernel = choice->kernel;
        job->options = choice->options;
    }
    return status;
}

/* ---------------------------------------------------------------- the metric's arguments */

/* An array of the metric's arguments where the kernel can read it: the CPU reads the caller's. */
static gd_status bring_array(gd_job *job, const double *host, ptrdiff_t count, const char *what,
                             const double **there, gd_error *err)
{
    const void *copy = host;
    gd_status status = GD_OK;
    if (host != NULL && job->stage.device.backend == GD_CUDA) {
        status = gd_stage_numbers(&job->stage, host, count, what, &copy, err);
    }
    *there = copy;
    return status;
}

/* Fills what the call and the preparation of rows say beside the operands. */
static gd_status set_arguments(gd_job *job, gd_error *err)
{
    const gd_measure *measure = job->measure;
    const gd_preparation what = job->form.preparation;
    const bool in_kernel = job->form.weighted;
    const bool in_preparation = what != GD_AS_GIVEN && what != GD_FACTORED;
    const ptrdiff_t d = job->b->cols;
    const double *weights = NULL;
    gd_cdist *call = &job->call;
    gd_status status = GD_OK;
    call->metric = job->form.metric;
    call->p = measure->p;
    call->scale = 0.5 / (measure->base > 0 ? log(measure->base) : 1);
    call->weight_sum = (double)d;
    job->task = (gd_prepare){.what = what, .stream = job->stage.stream};
    if (in_kernel) {
        call->weight_sum = 0;
        for (ptrdiff_t k = 0; k < d; ++k) {
            call->weight_sum += measure->weights[k];
        }
    }
    status = bring_array(job, measure->box, d, "box", &call->box, err);
    if (status == GD_OK && (in_kernel || in_preparation)) {
        status = bring_array(job, measure->weights, d, "weights", &weights, err);
        call->weights = in_kernel ? weights : NULL;
        job->task.weights = in_preparation ? weights : NULL;
    }
    if (status == GD_OK && call->metric == GD_MAHALANOBIS) {
        status = bring_array(job, measure->vi, d * d, "VI", &call->vi, err);
    }
    return status == GD_OK && what == GD_FACTORED
               ? bring_array(job, measure->factor, d * d, "the factor of VI", &job->task.factor,
                             err)
               : status;
}

/* ---------------------------------------------------------------- rows to the kernel */

/* Names of an operand on its way, for failures to allocate. */
typedef struct gd_names {
    const char *given, *laid_out, *prepared;
} gd_names;
static const gd_names A_NAMES = {"XA", "XA laid out", "XA prepared"};
static const gd_names B_NAMES = {"XB", "XB laid out", "XB prepared"};

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
static gd_status lay_out(gd_job *job, const gd_names *names, gd_matrix *x, gd_error *err)
{
    const gd_matrix given = *x;
    gd_status status;
    if (laid_out(x, job->kernel->flags)) {
        return GD_OK;
    }
    status = gd_stage_matrix(&job->stage, x->rows, x->cols, x->dtype, names->laid_out, x, err);
    if (job->kernel->flags & GD_DIM_MAJOR) {
        x->row_stride = 1;
        x->col_stride = x->rows;
    }
    if (status != GD_OK || gd_job_counts(job)) {
        return status;
    }
    return job->stage.device.backend == GD_CUDA ? gd_cuda_relay(&given, x, job->stage.stream, err)
                                                : gd_cpu_relay(&given, x, err);
}

/* Brings rows to where the kernel runs. */
static gd_status fetch(gd_job *job, const gd_matrix *x, const gd_names *names, gd_matrix *there,
                       gd_error *err)
{
    gd_status status = GD_OK;
    *there = *x;
    if (job->staged) {
        gd_common *const common = x == job->b ? job->common : NULL;
        status = gd_stage_bring_common(&job->stage, x, names->given, common, there, err);
    }
    return status == GD_OK ? lay_out(job, names, there, err) : status;
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

/* Prepares rows on the host, some at a time: each is prepared by itself. */
static gd_status prepare_here(gd_job *job, const gd_prepare *all, gd_error *err)
{
    const double width = (double)(all->x.cols + 1);
    const double work = width * (all->what == GD_FACTORED ? width : 1);
    const ptrdiff_t rows = all->x.rows;
    const ptrdiff_t step =
        job->watch == NULL ? rows : (ptrdiff_t)fmax(WATCHED_STEPS / work, FEWEST_PREPARED);
    gd_status status = GD_OK;
    for (ptrdiff_t first = 0; status == GD_OK && first < rows; first += step) {
        const ptrdiff_t count = rows - first < step ? rows - first : step;
        gd_prepare some = *all;
        some.x = gd_rows_from(&all->x, first, count);
        some.to = gd_rows_from(&all->to, first, count);
        some.terms = all->terms != NULL ? all->terms + first : NULL;
        status = gd_watch_aside(job->watch, err);
        status = status == GD_OK ? gd_cpu_prepare(&some, err) : status;
    }
    return status;
}

/* Makes prepared rows of made->given, or, with `many`, of all the matrices that it is the first
 * of: then made->rows are those of the first. */
static gd_status prepare(gd_job *job, const gd_names *names, const gd_own *many,
                         gd_prepared_rows *made, gd_error *err)
{
    const ptrdiff_t rows = made->given.rows * (many != NULL ? many->count : 1);
    gd_prepare now = job->task;
    const bool has_terms = now.what != GD_UNIT && now.what != GD_CENTRED_UNIT;
    const gd_matrix *x = &made->given;
    const gd_dtype dtype = now.what == GD_BITS ? GD_I32 : x->dtype;
    void *memory = NULL;
    gd_status status;
    made->rows = *x;
    made->terms = NULL;
    if (now.what == GD_AS_GIVEN) {
        return GD_OK;
    }
    status = gd_stage_matrix(&job->stage, rows, prepared_columns(job, x->cols), dtype,
                             names->prepared, &now.to, err);
    if (status == GD_OK && has_terms) {
        status = gd_stage_memory(&job->stage, (size_t)rows, sizeof(double), names->prepared,
                                 &memory, err);
    }
    now.x = *x;
    now.many = many;
    made->rows = gd_rows_from(&now.to, 0, x->rows);
    made->terms = now.terms = memory;
    if (status != GD_OK || gd_job_counts(job)) {
        return status;
    }
    return job->stage.device.backend == GD_CUDA ? gd_cuda_prepare(&now, err)
                                                : prepare_here(job, &now, err);
}

static gd_status bring_and_prepare(gd_job *job, const gd_matrix *x, const gd_names *names,
                                   gd_prepared_rows *made, gd_error *err)
{
    const gd_status status = fetch(job, x, names, &made->given, err);
    return status == GD_OK ? prepare(job, names, NULL, made, err) : status;
}

/* Gives some of all rows; they may begin where the kernel cannot read them. */
static gd_status part_of(gd_job *job, const gd_prepared_rows *all, ptrdiff_t first, ptrdiff_t count,
                         const gd_names *names, gd_prepared_rows *some, gd_error *err)
{
    *some = (gd_prepared_rows){.given = gd_rows_from(&all->given, first, count),
                               .rows = gd_rows_from(&all->rows, first, count),
                               .terms = all->terms != NULL ? all->terms + first : NULL};
    return lay_out(job, names, &some->rows, err);
}

/* ---------------------------------------------------------------- what is there all the time */

/* The rows of B, on the host, that the whole of it is known by. */
static gd_status gather(gd_job *job, gd_matrix *sample, gd_error *err)
{
    const gd_matrix *b = job->b;
    const ptrdiff_t count = b->rows < GD_SAMPLE ? b->rows : GD_SAMPLE;
    const size_t row_bytes = (size_t)b->cols * gd_dtype_size(b->dtype);
    gd_status status =
        gd_stage_matrix(&job->reserve, count, b->cols, b->dtype, "a sample of XB", sample, err);
    for (int i = 0; status == GD_OK && i < count && !gd_job_counts(job); ++i) {
        const gd_matrix from = gd_rows_from(b, gd_sample_row(b->rows, i), 1);
        memcpy(gd_rows_from(sample, i, 1).data, from.data, row_bytes);
    }
    return status;
}

/* Finds what parts of B must agree on: from the whole of it, or from its sample. */
static gd_status hold_b(gd_job *job, gd_error *err)
{
    const bool in_parts = job->parts.b < job->b->rows;
    gd_matrix sample;
    if (job->ready_b != NULL) {
        job->all_b = (gd_prepared_rows){.given = *job->b, .rows = *job->ready_b};
        job->call.whole_b = *job->ready_b;
        return GD_OK;
    }
    gd_status status = in_parts ? gather(job, &sample, err) : GD_OK;
    if (status == GD_OK) {
        status = fetch(job, in_parts ? &sample : job->b, &B_NAMES, &job->all_b.given, err);
    }
    job->task.origin = job->all_b.given;
    status = status == GD_OK ? prepare(job, &B_NAMES, NULL, &job->all_b, err) : status;
    job->call.whole_b = job->all_b.rows;
    return status;
}

gd_status gd_job_hold(gd_job *job, gd_error *err)
{
    const bool whole_a = job->parts.a >= job->a->rows;
    gd_status status = set_arguments(job, err);
    status = status == GD_OK ? hold_b(job, err) : status;
    if (job->a == job->b && whole_a && job->parts.b >= job->b->rows) {
        job->all_a = job->all_b;
        return status;
    }
    return status == GD_OK && whole_a ? bring_and_prepare(job, job->a, &A_NAMES, &job->all_a, err)
                                      : status;
}

void gd_job_release(gd_job *job)
{
    gd_stage_release(&job->stage);
    gd_stage_release(&job->reserve);
}

/* ---------------------------------------------------------------- the kernel */

static gd_status launch(gd_job *job, const gd_prepared_rows *a, const gd_prepared_rows *b,
                        gd_error *err)
{
    const int kept = job->stage.owned_count;
    const bool on_cpu = job->stage.device.backend == GD_CPU;
    /* The workspace that most small calls need; to allocate it would take a tenth of one. */
    _Alignas(256) char on_stack[4096];
    gd_cdist *call = &job->call;
    gd_status status;
    call->a = a->rows;
    call->a_given = a->given;
    call->a_terms = a->terms;
    call->b = b->rows;
    call->b_given = b->given;
    call->b_terms = b->terms;
    call->launch = (gd_launch){.sizing = true,
                               .device = job->stage.device,
                               .stream = job->stage.stream,
                               .options = job->options};
    status = job->kernel->launch.cdist(call, err);
    if (status == GD_OK && on_cpu && !gd_job_counts(job) &&
        call->launch.workspace_bytes <= sizeof on_stack) {
        call->launch.workspace = on_stack;
    }
    else if (status == GD_OK) {
        status = gd_stage_memory(&job->stage, 1, call->launch.workspace_bytes,
                                 "the workspace of cdist", &call->launch.workspace, err);
    }
    if (status == GD_OK && !gd_job_counts(job)) {
        call->launch.sizing = false;
        status = job->kernel->launch.cdist(call, err);
    }
    gd_stage_release_to(&job->stage, kept);
    return status;
}

gd_status gd_job_rows(gd_job *job, ptrdiff_t first, ptrdiff_t count, ptrdiff_t from, ptrdiff_t to,
                      const gd_matrix *out, gd_error *err)
{
    const ptrdiff_t n = job->b->rows, step = job->parts.b;
    const int kept = job->stage.owned_count;
    const bool whole_a = job->parts.a >= job->a->rows, whole_b = step >= n;
    const gd_matrix rows = gd_rows_from(job->a, first, count);
    gd_prepared_rows a, b;
    gd_status status;
    status = whole_a ? part_of(job, &job->all_a, first, count, &A_NAMES, &a, err)
                     : bring_and_prepare(job, &rows, &A_NAMES, &a, err);
    for (ptrdiff_t at = from, cols; status == GD_OK && at < to; at += cols) {
        const int held = job->stage.owned_count;
        /* The last part is as long as the others: kernels are not made for a few columns of many,
         * and what two parts have in common gets the same bits twice. */
        at = to - at < step && to - from > step ? to - step : at;
        cols = to - at < step ? to - at : step;
        const gd_matrix part = gd_rows_from(job->b, at, cols);
        status = whole_b ? part_of(job, &job->all_b, at, cols, &B_NAMES, &b, err)
                         : bring_and_prepare(job, &part, &B_NAMES, &b, err);
        job->call.out = *out;
        job->call.out.rows = count;
        job->call.out.cols = cols;
        if (out->data != NULL) {
            job->call.out.data =
                (char *)out->data + (at - from) * (ptrdiff_t)gd_dtype_size(out->dtype);
        }
        status = status == GD_OK ? launch(job, &a, &b, err) : status;
        gd_stage_release_to(&job->stage, held);
        if (gd_job_counts(job)) { /* the others need no more */
            break;
        }
    }
    gd_stage_release_to(&job->stage, kept);
    return status;
}

/* Small calls feel each step of a longer way. */
bool gd_job_is_immediate(const gd_job *job, const gd_matrix *out)
{
    const double elements = (double)out->rows * (double)out->cols +
                            ((double)job->a->rows + (double)job->b->rows) * (double)job->a->cols;
    return job->watch == NULL && !job->staged && job->form.preparation == GD_AS_GIVEN &&
           elements <= 0x1p24 && laid_out(job->a, job->kernel->flags) &&
           laid_out(job->b, job->kernel->flags);
}

gd_status gd_job_immediate(gd_job *job, const gd_matrix *out, gd_error *err)
{
    const gd_prepared_rows a = {.given = *job->a, .rows = *job->a};
    const gd_prepared_rows b = {.given = *job->b, .rows = *job->b};
    const gd_status status = set_arguments(job, err);
    job->call.whole_b = *job->b;
    job->call.out = *out;
    return status == GD_OK ? launch(job, &a, &b, err) : status;
}

/* Pairs go where a kernel puts them (gd_cdist). */
static void ask_for_pairs(gd_job *job, void *out)
{
    const ptrdiff_t n = job->a->rows;
    job->call.pairs = true;
    job->call.out = gd_dense(out, n, n, job->dtype, job->stage.device);
}

/* Prepares the matrices of an operand that are not one another. Where something was prepared, the
 * strides of `placed` become those of what was made. */
static gd_status prepare_many(gd_job *job, const gd_names *names, gd_axes *placed, int stack,
                              gd_own *own, gd_prepared_rows *made, gd_error *err)
{
    const gd_own given = *own;
    const gd_status status = prepare(job, names, &given, made, err);
    if (job->task.what != GD_AS_GIVEN) {
        const ptrdiff_t bytes =
            made->rows.rows * made->rows.row_stride * (ptrdiff_t)gd_dtype_size(made->rows.dtype);
        for (int axis = 0; axis < placed->count; ++axis) {
            placed->strides[stack][axis] = given.passed[axis] * bytes;
        }
        *own = gd_stack_own(placed, stack, stack);
    }
    return status;
}

gd_status gd_job_many(gd_job *job, const gd_axes *axes, ptrdiff_t count, bool pairs, bool sure_root,
                      const gd_matrix *out, gd_error *err)
{
    const int kept = job->stage.owned_count;
    gd_axes placed = *axes;
    /* Rows times a factor start from the first row of the matrix of B that they go with. */
    const int beside = job->form.preparation == GD_FACTORED ? 1 : 0;
    gd_own own_a = gd_stack_own(axes, 0, beside), own_b = gd_stack_own(axes, 1, 1);
    const gd_own origins_of_a = gd_stack_own(axes, 1, 0), origins_of_b = own_b;
    gd_prepared_rows a = {.given = *job->a}, b = {.given = *job->b};
    gd_cdist *const call = &job->call;
    gd_status status = set_arguments(job, err);
    job->task.origin = *job->b;
    if (status == GD_OK) {
        job->task.origins = &origins_of_b;
        status = prepare_many(job, &B_NAMES, &placed, 1, &own_b, &b, err);
    }
    call->whole_b = b.rows;
    call->out = *out;
    if (pairs) {
        a = b, own_a = own_b;
        memcpy(placed.strides[0], placed.strides[1], sizeof placed.strides[0]);
        ask_for_pairs(job, out->data);
    }
    else if (status == GD_OK) {
        job->task.origins = &origins_of_a;
        status = prepare_many(job, &A_NAMES, &placed, 0, &own_a, &a, err);
    }
    call->many.count = count;
    call->many.axes = placed.count;
    call->many.shape = placed.shape;
    call->many.a = placed.strides[0];
    call->many.b = placed.strides[1];
    call->many.out = placed.strides[2];
    call->many.given_a = axes->strides[0];
    call->many.given_b = axes->strides[1];
    call->many.own_a = &own_a;
    call->many.own_b = &own_b;
    call->many.sure_root = sure_root;
    status = status == GD_OK ? launch(job, &a, &b, err) : status;
    gd_stage_release_to(&job->stage, kept);
    /* What these point to ends here. */
    memset(&call->many, 0, sizeof call->many);
    job->task.origins = NULL;
    return status;
}

gd_status gd_job_pairs(gd_job *job, void *out, gd_error *err)
{
    ask_for_pairs(job, out);
    return launch(job, &job->all_a, &job->all_b, err);
}
