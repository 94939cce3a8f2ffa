/* run_perron.c: the Perron root end to end.
 *
 * Kernels do rounds (gd_perron); here it is decided what the rounds are of. They come in bursts,
 * between which the host looks at how fast the interval narrows. Where that promises an end soon it
 * only lets them go on. Otherwise it makes a better vector of the latest (perron_ahead.c). If a few
 * of those have not helped, it adds a shift, x <- A x + s x with s near the root: that moves other
 * eigenvalues of the root's modulus inside, which a cyclic matrix has. Bounds come from A x alone
 * and hold for any positive x, so no remedy touches them. */
#include <math.h>
#include <string.h>

#include "device.h"
#include "perron_ahead.h"
#include "perron_judge.h"
#include "perron_pattern.h"
#include "registry.h"
#include "run.h"
#include "stage.h"

enum {
    BURST = GD_PERRON_KEPT - 1, /* as many steps as there are vectors for */
    SHORT_BURST = 5,            /* the first few: an end may be near, for which these steps do */
    SHORT_BURSTS = 2,
    WORTH_WAITING = 4, /* rounds that are sooner done than improved on */
    MOST_COMPARED = 6, /* rounds over which the interval's narrowing is measured */
    BEFORE_SHIFT = 3,  /* better vectors, before a shift is tried */
    STATE_BYTES = 256,
};
_Static_assert(sizeof(gd_perron_state) <= STATE_BYTES, "it stands before the vectors");
_Static_assert(sizeof(gd_perron_news) <= GD_PAGE_BYTES, "it comes in a page");

static const gd_device GD_HOST = {GD_CPU, 0};
/* A component shrinks to this share of itself at most where a better vector is made. */
static const double LEAST_SHARE = 0.01;

typedef struct perron_job {
    gd_perron call;
    const gd_kernel *kernel;
    const gd_matrix *given; /* A where the caller has it */
    const gd_orders *orders;
    gd_perron_state state; /* on the host; the kernel has its own */
    bool auto_shift;
    int improvements;     /* better vectors made so far */
    ptrdiff_t since;      /* rounds done since the vector or the shift was last changed */
    void *memory;         /* the state, the vectors and scratch, where the kernel runs */
    void *scratch;        /* of GD_PERRON_WALK_BYTES there */
    void *staged;         /* A's copy there, or NULL */
    gd_perron_news *news; /* of a kernel on a device, pinned */
    const gd_matrix *out; /* the caller's */
    bool written;         /* the vector is there already */
} perron_job;

/* ---------------------------------------------------------------- to the device and back */

static gd_status copy(const perron_job *job, void *to, const void *from, size_t bytes,
                      gd_error *err)
{
    const gd_launch *on = &job->call.launch;
    return gd_copy_rows(on->device, on->stream, to, bytes, from, bytes, bytes, 1, err);
}

static bool on_cuda(const perron_job *job) { return job->call.launch.device.backend == GD_CUDA; }

static size_t vector_bytes(const perron_job *job)
{
    return (size_t)job->call.padded * sizeof(double);
}

static double *vector(const perron_job *job, double *vectors, int64_t number)
{
    return vectors + number % GD_PERRON_KEPT * job->call.padded;
}

/* A bit an element. */
static size_t pattern_bytes(const perron_job *job)
{
    const size_t n = (size_t)job->call.a.rows;
    return n * ((n + 63) / 64) * sizeof(uint64_t);
}

/* ---------------------------------------------------------------- what stops a burst */

static gd_status raise_flaw(const perron_job *job, const gd_perron_facts *facts, gd_error *err)
{
    const ptrdiff_t n = job->call.a.rows;
    if (facts->flaw_at >= 0) {
        return GD_FAIL(err, GD_BAD_VALUE, "A must be nonnegative and finite, but A[%td, %td] is %g",
                       facts->flaw_at / n, facts->flaw_at % n, facts->flaw);
    }
    return GD_FAIL(err, GD_BAD_VALUE, "A must be irreducible, but its row %td is zero",
                   facts->empty_row);
}

/* The verdict on the pattern of A's elements, which `pattern` has room for. */
static gd_status look_into(perron_job *job, uint64_t *pattern, void *scratch, gd_error *err)
{
    const ptrdiff_t n = job->call.a.rows;
    gd_perron_facts facts;
    gd_perron_split split;
    gd_status status = scratch == NULL
                           ? gd_cpu_perron_look(job->given, NULL, NULL, pattern, &facts, err)
                           : gd_cuda_perron_look(job->given, job->call.launch.stream, scratch,
                                                 pattern, &facts, err);
    if (status == GD_OK && (facts.flaw_at >= 0 || facts.empty_row >= 0)) {
        status = raise_flaw(job, &facts, err);
    }
    if (status == GD_OK && (status = gd_perron_components(pattern, n, &split, err)) == GD_OK &&
        split.components > 1) {
        status = GD_FAIL(err, GD_BAD_VALUE,
                         "A must be irreducible, but its graph (an edge from i to j where A[i, j] "
                         "is not 0) has %td strongly connected components; no path leads from %td "
                         "to %td, whose component has %td of %td nodes",
                         split.components, split.other, split.source, split.source_size, n);
    }
    return status;
}

/* Looks at the elements again, where they can be negative, infinite, NaN or 0. */
static gd_status look(perron_job *job, gd_error *err)
{
    const gd_launch *on = &job->call.launch;
    const size_t bytes = pattern_bytes(job);
    void *pattern = NULL, *scratch = NULL;
    gd_status status = gd_alloc(GD_HOST, NULL, bytes, "the pattern of A", &pattern, err);
    if (status == GD_OK && job->given->device.backend == GD_CUDA) {
        status = gd_alloc(on->device, on->stream, GD_PERRON_LOOK_BYTES + bytes, "the pattern of A",
                          &scratch, err);
    }
    status = status == GD_OK ? look_into(job, pattern, scratch, err) : status;
    gd_free(on->device, on->stream, scratch);
    gd_free(GD_HOST, NULL, pattern);
    return status;
}

/* ---------------------------------------------------------------- between bursts */

static double width(const perron_job *job, ptrdiff_t rounds_ago)
{
    return job->state.widths[(job->state.round - 1 - rounds_ago) % GD_PERRON_KEPT];
}

/* How many more rounds it takes if the interval goes on to narrow as it does. */
static double rounds_left(const perron_job *job)
{
    const ptrdiff_t compared = job->since - 1 < MOST_COMPARED ? job->since - 1 : MOST_COMPARED;
    const double now = width(job, 0), before = compared > 0 ? width(job, compared) : 0;
    return compared > 0 && now < before && job->call.tol > 0
               ? log(job->call.tol / now) / log(now / before) * (double)compared
               : HUGE_VAL;
}

/* Puts a sum of the latest `count` vectors in the place of the last, and goes on from there. */
static gd_status restart(perron_job *job, int count, const double *weights, double share,
                         gd_error *err)
{
    job->state.stop = GD_PERRON_GOING;
    job->since = 0;
    if (on_cuda(job)) {
        return gd_cuda_perron_combine(&job->call, &job->state, count, weights, share, err);
    }
    gd_cpu_perron_combine(&job->call, &job->state, count, weights, share);
    return GD_OK;
}

/* The vectors that there are since the last change, so many rounds after it. */
static int kept_after(ptrdiff_t rounds)
{
    return rounds + 1 < GD_PERRON_KEPT ? (int)rounds + 1 : GD_PERRON_KEPT;
}

/* Puts a better vector in the place of the latest, made of those since the last change. */
static gd_status improve(perron_job *job, gd_error *err)
{
    const int count = kept_after(job->since);
    double weights[GD_PERRON_KEPT];
    gd_perron_steps steps;
    if (!on_cuda(job)) { /* elsewhere they came with the state */
        gd_cpu_perron_walk(&job->call, count, &steps);
    }
    gd_perron_weigh(on_cuda(job) ? &job->news->steps : &steps, count, weights);
    ++job->improvements;
    return restart(job, count, weights, LEAST_SHARE, err);
}

/* Rounds until the host looks, if nothing speaks for another number. Without a width that ends the
 * iteration there is no end to be near. */
static ptrdiff_t usual_burst(const perron_job *job)
{
    return job->call.tol > 0 && job->improvements < SHORT_BURSTS ? SHORT_BURST : BURST;
}

/* Decides how many rounds come next, and of what. */
static gd_status plan(perron_job *job, ptrdiff_t *burst, gd_error *err)
{
    const double left = rounds_left(job);
    if (job->kernel->flags & GD_TEACHING) {
        return GD_OK; /* the study's loop, as it is */
    }
    if (left <= WORTH_WAITING) {
        *burst = left > 0 ? (ptrdiff_t)left + 1 : 1;
        return GD_OK;
    }
    if (job->auto_shift && job->improvements == BEFORE_SHIFT) {
        job->auto_shift = false;
        job->call.shift = job->state.average;
        job->since = 0; /* the latest vector stays and begins a new history */
        *burst = usual_burst(job);
        return GD_OK;
    }
    const gd_status status = improve(job, err);
    *burst = usual_burst(job);
    return status;
}

/* Goes on with the latest vector after a stop that was none of its rounds' fault. */
static gd_status resume(perron_job *job, gd_error *err)
{
    gd_perron_state *state = &job->state;
    const double size = 1 / state->top;
    if (!(state->top <= 0x1p1000)) {
        return GD_FAIL(err, GD_OVERFLOW,
                       "products of A exceed the range of float64; divide A by a power of 2");
    }
    state->top = 1;
    state->scale = gd_perron_scale(1, state->average + job->call.shift);
    return restart(job, 1, &size, 0, err);
}

/* Does rounds up to call->until, at most, and learns what became of them. A device is asked at once
 * for all that the host may need then, so that it waits for the host once a burst. */
static gd_status advance(perron_job *job, bool may_improve, gd_error *err)
{
    gd_perron *call = &job->call;
    const ptrdiff_t rounds = job->since + (ptrdiff_t)(call->until - call->from);
    gd_status status = job->kernel->launch.perron(call, err);
    if (status == GD_OK && on_cuda(job)) {
        const gd_matrix *out = job->out->device.backend == GD_CUDA ? job->out : NULL;
        status = gd_cuda_perron_walk(call, may_improve ? kept_after(rounds) : 0, job->scratch, out,
                                     job->news, err);
        status = gd_settle(call->launch.device, call->launch.stream, status, err);
    }
    if (status == GD_OK) {
        job->state = on_cuda(job) ? job->news->state : *call->state;
        job->written = on_cuda(job) && may_improve && job->state.stop == GD_PERRON_CONVERGED &&
                       job->out->device.backend == GD_CUDA;
    }
    return status;
}

static gd_status iterate(perron_job *job, ptrdiff_t max_iter, gd_error *err)
{
    gd_perron *call = &job->call;
    gd_perron_state *state = &job->state;
    const bool as_told = job->kernel->flags & GD_TEACHING;
    ptrdiff_t burst = as_told ? max_iter : usual_burst(job);
    gd_status status = GD_OK;
    while (status == GD_OK && state->round < max_iter && state->stop != GD_PERRON_CONVERGED) {
        const int64_t before = state->round;
        call->from = before;
        call->until = burst < max_iter - before ? before + burst : max_iter;
        if ((status = advance(job, !as_told && call->until < max_iter, err)) != GD_OK ||
            (status = gd_pass(&call->launch, 0, err)) != GD_OK) {
            break;
        }
        call->scan = false;
        job->since += state->round - before;
        if (state->stop == GD_PERRON_DOUBTED) {
            status = look(job, err);
        }
        if (status == GD_OK && state->stop != GD_PERRON_CONVERGED && state->round < max_iter) {
            status = state->stop == GD_PERRON_GOING ? plan(job, &burst, err) : resume(job, err);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the whole call */

static gd_status check(const gd_matrix *a, const double *x0, const gd_matrix *out, gd_error *err)
{
    const ptrdiff_t n = a->rows;
    if (n == 0 || a->cols != n) {
        return GD_FAIL(err, GD_BAD_VALUE, "A must be square and not empty, got shape (%td, %td)", n,
                       a->cols);
    }
    if (a->dtype != GD_F32 && a->dtype != GD_F64) {
        return GD_FAIL(err, GD_BAD_TYPE, "A must be of float32 or float64, not %s",
                       gd_dtype_name(a->dtype));
    }
    if (out->cols != n || out->dtype != a->dtype) {
        return GD_FAIL(err, GD_BAD_VALUE, "the vector must have %td elements of %s", n,
                       gd_dtype_name(a->dtype));
    }
    if (!gd_same_device(a, out)) {
        return GD_FAIL(err, GD_BAD_TYPE, "A and the vector are on different devices");
    }
    for (ptrdiff_t i = 0; x0 != NULL && i < n; ++i) {
        if (!(x0[i] > 0 && x0[i] < HUGE_VAL)) {
            return GD_FAIL(err, GD_BAD_VALUE, "x0 must be positive and finite, but x0[%td] is %g",
                           i, x0[i]);
        }
    }
    return GD_OK;
}

static gd_status stage(perron_job *job, gd_error *err)
{
    gd_perron *call = &job->call;
    const gd_launch *on = &call->launch;
    const gd_matrix *a = job->given;
    const size_t size = gd_dtype_size(a->dtype), row_bytes = (size_t)a->cols * size;
    gd_status status;
    if (a->device.backend == on->device.backend) {
        return GD_OK;
    }
    status = gd_alloc(on->device, on->stream, row_bytes * (size_t)a->rows, "A", &job->staged, err);
    if (status == GD_OK) {
        call->a.data = job->staged;
        status = gd_copy_rows(on->device, on->stream, job->staged, row_bytes, a->data,
                              (size_t)a->row_stride * size, row_bytes, (size_t)a->rows, err);
    }
    return status;
}

/* Refuses what does not fit. */
static gd_status count_memory(const perron_job *job, size_t memory, gd_error *err)
{
    const gd_launch *on = &job->call.launch;
    const gd_matrix *a = job->given;
    const bool staged = a->device.backend != on->device.backend;
    gd_budget budget = gd_budget_of(job->orders);
    budget.most = memory + GD_PERRON_LOOK_BYTES + pattern_bytes(job) +
                  (staged ? (size_t)a->rows * (size_t)a->cols * gd_dtype_size(a->dtype) : 0);
    return gd_budget_grant(&budget, on->device, "perron", NULL, err);
}

static gd_status prepare(perron_job *job, gd_error *err)
{
    gd_perron *call = &job->call;
    const gd_launch *on = &call->launch;
    gd_status status;
    if (job->given->device.backend != on->device.backend) { /* as the copy will lie */
        call->a.data = NULL;
        call->a.row_stride = call->a.cols;
        call->a.device = on->device;
    }
    call->padded = (call->a.rows + 63) / 64 * 64;
    call->scan = true;
    call->launch.sizing = true;
    status = job->kernel->launch.perron(call, err);
    call->launch.sizing = false;
    /* One allocation for all: the state, vectors (in units of 64 numbers), scratch, workspace. */
    const size_t vectors = GD_PERRON_KEPT * vector_bytes(job);
    const size_t scratch = on_cuda(job) ? GD_PERRON_WALK_BYTES : 0;
    const size_t bytes = STATE_BYTES + vectors + scratch + on->workspace_bytes;
    if (status != GD_OK || (status = count_memory(job, bytes, err)) != GD_OK ||
        (status = stage(job, err)) != GD_OK ||
        (status = gd_alloc(on->device, on->stream, bytes, "the vectors of perron", &job->memory,
                           err)) != GD_OK) {
        return status;
    }
    call->state = job->memory;
    call->vectors = (double *)((char *)job->memory + STATE_BYTES);
    job->scratch = call->vectors + GD_PERRON_KEPT * call->padded;
    call->launch.workspace = (char *)job->scratch + scratch;
    return on_cuda(job) ? gd_cuda_page_take((void **)&job->news, err) : GD_OK;
}

/* The state and the first vector, in one copy. */
static gd_status start(perron_job *job, const double *x0, gd_error *err)
{
    const ptrdiff_t n = job->call.a.rows;
    const size_t bytes = STATE_BYTES + vector_bytes(job);
    void *first;
    double *x, top = 0;
    gd_status status;
    job->state = (gd_perron_state){.upper = HUGE_VAL, .top = 1, .scale = 1};
    if (x0 == NULL && on_cuda(job)) {
        return gd_cuda_perron_begin(&job->call, &job->state, err);
    }
    if ((status = gd_alloc(GD_HOST, NULL, bytes, "a vector of perron", &first, err)) != GD_OK) {
        return status;
    }
    x = (double *)((char *)first + STATE_BYTES);
    memset(first, 0, bytes);
    memcpy(first, &job->state, sizeof job->state);
    for (ptrdiff_t i = 0; i < n; ++i) {
        top = x0 != NULL && x0[i] > top ? x0[i] : top;
    }
    for (ptrdiff_t i = 0; i < n; ++i) {
        x[i] = x0 == NULL ? 1 : gd_perron_larger(x0[i] / top, GD_PERRON_LEAST);
    }
    /* Copies from memory that is not pinned have read it when they return. */
    status = copy(job, job->memory, first, bytes, err);
    gd_free(GD_HOST, NULL, first);
    return status;
}

/* The latest vector as the caller wants it. */
static gd_status finish(perron_job *job, gd_error *err)
{
    const gd_matrix *out = job->out;
    const gd_launch *on = &job->call.launch;
    const double *x = vector(job, job->call.vectors, job->state.round);
    const size_t bytes = (size_t)out->cols * gd_dtype_size(out->dtype);
    gd_matrix there = *out;
    gd_status status;
    if (on->device.backend == GD_CPU) {
        return gd_cpu_perron_write(x, job->state.top, out, on->stream, err);
    }
    if (out->device.backend ==
        GD_CPU) { /* the workspace is not needed any more, and A's is large */
        there.data = vector(job, job->call.vectors, job->state.round + 1);
        there.device = on->device;
    }
    status = gd_cuda_perron_write(x, job->state.top, &there, on->stream, err);
    return status == GD_OK && there.data != out->data /* the caller waits */
               ? copy(job, out->data, there.data, bytes, err)
               : status;
}

static gd_status solve(perron_job *job, const double *x0, ptrdiff_t max_iter, gd_error *err)
{
    gd_status status;
    if ((status = prepare(job, err)) != GD_OK || (status = start(job, x0, err)) != GD_OK ||
        (status = iterate(job, max_iter, err)) != GD_OK) {
        return status;
    }
    return job->written ? GD_OK : finish(job, err);
}

gd_status gd_run_perron(const gd_matrix *a, const double *x0, const gd_matrix *out, double tol,
                        ptrdiff_t max_iter, double shift, const gd_orders *orders,
                        gd_perron_answer *answer, gd_error *err)
{
    perron_job job = {.given = a, .out = out, .orders = orders, .auto_shift = !(shift >= 0)};
    gd_choice choice;
    int previous;
    gd_status status = check(a, x0, out, err);
    const gd_request request = {
        .op = GD_OP_PERRON,
        .orders = gd_orders_near(out->device, orders),
        .dtype = a->dtype,
        .n = a->rows,
        .cols = a->cols,
    };
    if (status != GD_OK || (status = gd_choose(&request, &choice, err)) != GD_OK ||
        (status = gd_enter(choice.device, &previous, err)) != GD_OK) {
        return status;
    }
    const bool on_host = out->device.backend == GD_CPU;
    job.kernel = choice.kernel;
    job.call = (gd_perron){.a = *a, .tol = tol, .shift = job.auto_shift ? 0 : shift};
    job.call.launch = (gd_launch){
        .device = choice.device,
        .stream = gd_stream_near(out->device, choice.device, orders),
        .options = choice.options,
        .watch = orders->watch,
    };
    status = gd_refuse_capture(choice.device, job.call.launch.stream, "perron", err);
    if (status != GD_OK) {
        gd_leave(choice.device, previous);
        return status;
    }
    status = solve(&job, x0, max_iter, err);
    gd_free(choice.device, job.call.launch.stream, job.memory);
    gd_free(choice.device, job.call.launch.stream, job.staged);
    status = on_host ? gd_settle(choice.device, job.call.launch.stream, status, err) : status;
    gd_cuda_page_give(job.news);
    gd_leave(choice.device, previous);
    if (status == GD_OK) {
        const gd_perron_state *s = &job.state;
        *answer = (gd_perron_answer){
            .value = gd_perron_lesser(s->upper, gd_perron_larger(s->average, s->lower)),
            .lower = s->lower,
            .upper = s->upper,
            .rounds = (ptrdiff_t)s->round,
            .converged = s->stop == GD_PERRON_CONVERGED,
        };
    }
    return status;
}
