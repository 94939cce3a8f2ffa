/* neighbors_product.c: neighbours of points with many dimensions, of whose distances few are
 * computed.
 *
 * A product in float32 bounds every distance from below, d^2 >= |a|^2 + |b|^2 - 2ab - share *
 * (|a|^2 + |b|^2), which takes half the instructions of differences, or a quarter of theirs in
 * float64. It bounds inner_product likewise, of which the largest are nearest: -2ab without the
 * norms, but for their share, and about no centre. A pair whose bound is beyond the limit of its
 * row's list is passed over; all others are computed from the rows as given, operation by operation
 * as cdist_tile.c does it. So the answer has the bits of one that looks at every distance, and
 * rounding in the products can only cost time.
 *
 * Rows are packed less a centre, the median in each dimension of a few rows of B, and times a power
 * of two, so that a usual row's length is about 1. A panel of WIDTH columns stays in L1, or with
 * many dimensions in L2, while a block of rows passes it by; a tile of MR rows leaves nothing but a
 * bit for each pair that is to be computed. These wait until there is a vector of them in a row.
 *
 * Where many pairs cannot be told apart (points in tight clusters far from each other, or norms far
 * beyond the usual one) most are computed one by one, three times slower than in panels: the caller
 * tries some rows first.
 *
 * The floor is a multiply-add for each vector of pairs and dimension, two a cycle. Two cores of
 * Emerald Rapids (512-bit, others at work beside), 2000 rows among 100000 x 128, k = 10, float32:
 * 199 ms, 74 % of the floor; panels of distances 400, FAISS's flat index 922, scikit-learn's brute
 * force 1222. One core, ms, this and panels: float32 k = 10 388 and 760, k = 100 560 and 935;
 * float64 409 and 1610; 2000 among 50000 x 16 47 and 118; 1000 among 20000 x 1024 333 and 561.
 * Clusters 1e-3 and less of what is between them: 133 where panels take 53, and 64 with the trial.
 * Inner_product, whose panels take products as well, 2000 among 50000: float32 x 16 47 and 91, x
 * 128 204 and 236; float64 48 and 125, 211 and 426. Ten rows among 100000 x 128 that are kept
 * packed take 4.3; to pack them as well takes 15, and to prepare cosines before 51. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>

#include "kernels.h"
#include "memory.h"
#include "neighbors_list.h"
#include "one_sum.h"
#include "pack.h"
#include "pass.h"
#include "product_tile.h"
#include "sizes.h"
#include "team.h"

enum {
    LANES = sizeof(gd_vf32) / sizeof(float),
    WIDTH = NV * LANES,             /* columns of a panel */
    FOLD = 128,                     /* dimensions of a chain of additions */
    HIGH = LANES > MR ? LANES : MR, /* rows of A that are packed side by side */
    ROWS = 128,      /* of A that a member takes at a time; their packed rows stay in L2 */
    CENTRE_ROWS = 9, /* that the centre and the scale are taken of */
    LINE_FLOATS = GD_LINE / sizeof(float),
};
/* Pair-dimensions between two looks at the watcher: some 20 ms of a member. */
static const double TASK_STEPS = 0x1p31;

/* Half a unit in the last place of float32. */
#define HALF_ULP 0x1p-24
/* Products of packed rows with no larger squares of their lengths stay in the range. */
#define NORM_MOST 0x1p80
/* More than all that is lost to underflow in packed rows and in their products. */
#define LEAST 0x1p-90

/* B as it is arranged. */
typedef struct product_plan {
    ptrdiff_t d, n, panels;
    double *scale;  /* packed rows are rows less the centre, which is of the rows' type, */
    void *centre;   /* times the scale */
    float *columns; /* panel after panel: WIDTH columns of each dimension */
    float *norms;   /* what each column brings to a bound (see part_of) */
    size_t bytes;
} product_plan;

/* What a member works with: a block of A's rows, packed, and what each has pending. */
typedef struct product_own {
    float *rows;      /* HIGH at a time */
    double *norms;    /* what each row brings to a bound; infinite: a row without neighbours */
    float *within;    /* what a column's norm less twice the product is below, for neighbours */
    int32_t *pending; /* up to LANES columns of each row, counted from the round's first */
    int *counts;      /* of them */
    size_t bytes;
} product_own;

typedef struct product_job {
    gd_neighbors *call;
    const product_plan *plan;
    ptrdiff_t rows;         /* of A in a task */
    ptrdiff_t panel, until; /* which panels this round is about */
    double part_of_norm;    /* see part_of */
    double most_norm;       /* packed rows with larger ones are computed with everybody */
    double begun, part;     /* of the work, before this round and in it */
    _Atomic int64_t pairs;
    gd_passed passed;
    gd_failure failure;
    gd_error *heard; /* the words of who stopped the call */
} product_job;

/* What to add to |a|^2 + |b|^2 - 2ab, in shares of N = |a|^2 + |b|^2, for it to be no larger than
 * the square of the distance of the rows as given. With u = HALF_ULP, no sum of some dimensions'
 * products is larger than N / 2, so a chain of FOLD of them, each of which may be rounded twice,
 * errs by at most (FOLD + 1) u N / 2, and joining chains by u N / 2 each: -2ab by FOLD + 1 + d /
 * FOLD times u N. Norms are sums of the same kind and err by as much at most. Packing moves a row
 * by 2 u times its length, so a distance by 2 u (|a| + |b|), and its square by 8 u N; norms are
 * those from before it is rounded, which are 2 u N away. Rounding norms, the sum and the limit
 * takes 4 u N, and two more are for the errors of errors. */
static double share_of(ptrdiff_t d)
{
    const double chains = FOLD + 1 + (double)gd_ceil_div(d, FOLD);
    return (2 * chains + 8 + 2 + 4 + 2) * HALF_ULP;
}

/* What a distance of the direct form may be smaller by than the rows' own, in shares of its square:
 * a sum of 16, of 8 such and of all those of 128, and a root. It is more than what twice a product
 * of the direct form may be larger by than the rows' own, in shares of N. */
static double slack_of(ptrdiff_t d)
{
    return (16 + 8 + (double)gd_ceil_div(d, 128) + 4) * 2 * HALF_ULP;
}

/* What a row brings to a bound, in shares of the square of its length: this and the other row's
 * less twice their product is at most the square of their distance. Of inner_product it is to be at
 * most -2ab as the direct form has it: nothing, less what twice the product may err by. This is as
 * above, where packing moves no norm, and norms err by nothing that counts. */
static double part_of(gd_metric metric, ptrdiff_t d)
{
    return metric == GD_INNER_PRODUCT ? -(share_of(d) + slack_of(d)) : 1 - share_of(d);
}

/* The largest norm that a packed row may have. Sums of products in float64, whose additions may go
 * beyond the range and come back, are to stay in it. */
static double most_norm_of(const gd_neighbors *call, double scale)
{
    const bool sums = call->metric == GD_INNER_PRODUCT && call->b.dtype == GD_F64;
    return sums ? fmin(NORM_MOST, 0x1p1000 * scale * scale) : NORM_MOST;
}

static product_plan plan_of(const gd_neighbors *call)
{
    char *const base = call->launch.sizing ? NULL : call->arrangement;
    const ptrdiff_t n = call->b.rows, d = call->b.cols;
    product_plan plan = {.d = d, .n = n, .panels = gd_ceil_div(n, WIDTH)};
    plan.scale = gd_next_array(base, &plan.bytes, 1, sizeof *plan.scale);
    plan.centre = gd_next_array(base, &plan.bytes, d,
                                call->b.dtype == GD_F32 ? sizeof(float) : sizeof(double));
    plan.columns = gd_next_array(base, &plan.bytes, plan.panels * WIDTH * d, sizeof(float));
    plan.norms = gd_next_array(base, &plan.bytes, plan.panels * WIDTH, sizeof(float));
    return plan;
}

static product_own own_of(char *base, ptrdiff_t d)
{
    product_own own = {.bytes = 0};
    own.rows = gd_next_array(base, &own.bytes, ROWS * d, sizeof(float));
    own.norms = gd_next_array(base, &own.bytes, ROWS, sizeof *own.norms);
    own.within = gd_next_array(base, &own.bytes, ROWS, sizeof *own.within);
    own.pending = gd_next_array(base, &own.bytes, ROWS * LANES, sizeof *own.pending);
    own.counts = gd_next_array(base, &own.bytes, ROWS, sizeof *own.counts);
    return own;
}

/* ---------------------------------------------------------------- the tile */

/* Sets bit v * LANES + i of marks[r] where the norm of column i of vector v, less twice its product
 * with row r, is below within[r]. `next` is what is read after the panel. */
static void mark(const float *a, const float *b, ptrdiff_t d, const float *norms,
                 const float *within, const float *next, uint64_t *marks)
{
    gd_vf32 acc[MR][NV], total[MR][NV];
    for (ptrdiff_t k = 0;;) {
        const ptrdiff_t end = gd_least(k + FOLD, d);
        const bool alone = k == 0;
        GD_UNROLL for (int r = 0; r < MR; ++r) GD_UNROLL
            for (int v = 0; v < NV; ++v)
                acc[r][v] = (gd_vf32){0};
        for (; k < end; ++k) {
            gd_vf32 column[NV];
            GD_UNROLL for (int v = 0; v < NV; ++v)
                column[v] = gd_load(b + (k * NV + v) * LANES);
            gd_fetch(next, k * GD_LINE);
            GD_UNROLL for (int r = 0; r < MR; ++r) {
                const gd_vf32 row = gd_splat(a[k * HIGH + r]);
                GD_UNROLL for (int v = 0; v < NV; ++v)
                    acc[r][v] = gd_fma(row, column[v], acc[r][v]);
            }
        }
        if (!alone) GD_UNROLL
            for (int r = 0; r < MR; ++r) GD_UNROLL
                for (int v = 0; v < NV; ++v)
                    acc[r][v] += total[r][v];
        if (k == d)
            break;
        GD_UNROLL for (int r = 0; r < MR; ++r) GD_UNROLL
            for (int v = 0; v < NV; ++v)
                total[r][v] = acc[r][v];
    }
    GD_UNROLL for (int r = 0; r < MR; ++r) {
        const gd_vf32 limit = gd_splat(within[r]);
        uint64_t bits = 0;
        GD_UNROLL for (int v = 0; v < NV; ++v) {
            const gd_vf32 norm = gd_load(norms + v * LANES);
            const gd_vf32 apart = gd_fnma(gd_splat(2.0f), acc[r][v], norm);
            bits |= (uint64_t)gd_bits_f32((gd_vi32)(apart < limit)) << v * LANES;
        }
        marks[r] = bits;
    }
}

/* ---------------------------------------------------------------- rows */

/* A number of float32 that is not larger, or not smaller. */
static float rounded_down(double x)
{
    const float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}
static float rounded_up(double x) { return -rounded_down(-x); }

static double limit_of(const gd_candidates *to) { return to->cut ? to->list[0].key : to->limit; }

GD_INLINE void store_floats_f32(float *to, gd_vf32 x) { gd_store(to, x); }
GD_INLINE void store_floats_f64(float *to, gd_vf64 x)
{
    const gd_half_vf32 y = __builtin_convertvector(x, gd_half_vf32);
    memcpy(to, &y, sizeof y);
}

#define N(name) name##_f32
#define T float
#define V gd_vf32
#define GUARDED 1
#include "neighbors_product_body.h"

#define N(name) name##_f64
#define T double
#define V gd_vf64
#define GUARDED 0
#include "neighbors_product_body.h"

/* ---------------------------------------------------------------- a call */

static void search_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    product_job *const job = context;
    const gd_neighbors *const call = job->call;
    const bool single = call->b.dtype == GD_F32;
    const size_t bytes = own_of(NULL, call->b.cols).bytes;
    product_own own = own_of((char *)call->launch.workspace + (size_t)member * bytes, call->b.cols);
    int64_t pairs = 0;
    for (ptrdiff_t task = first; task < last; ++task) {
        const double done =
            job->begun + job->part * (double)task * (double)job->rows / (double)call->a.rows;
        gd_error err;
        if (!gd_goes_on(&call->launch, done, member, &job->passed, job->heard))
            break;
        const gd_status status = (single ? search_block_f32 : search_block_f64)(
            job, &own, task * job->rows, &pairs, &err);
        gd_note_failure(&job->failure, status, &err);
    }
    atomic_fetch_add(&job->pairs, pairs);
}

static gd_status search_all(product_job *job, int members)
{
    const gd_neighbors *const call = job->call;
    const product_plan *const plan = job->plan;
    const ptrdiff_t each = gd_ceil_div(gd_ceil_div(call->a.rows, members), MR) * MR;
    job->rows = gd_least(each, ROWS);
    const double steps = TASK_STEPS / ((double)plan->d * (double)job->rows * WIDTH);
    const ptrdiff_t round = (ptrdiff_t)fmax(fmin(steps, (double)plan->panels), 1);
    gd_status status = GD_OK;
    for (; job->panel < plan->panels && status == GD_OK; job->panel = job->until) {
        job->until = gd_least(job->panel + round, plan->panels);
        job->begun = (double)job->panel / (double)plan->panels;
        job->part = (double)(job->until - job->panel) / (double)plan->panels;
        gd_team_run(members, gd_ceil_div(call->a.rows, job->rows), 1, search_some, job);
        status = atomic_load(&job->failure.status);
        status = status == GD_OK ? atomic_load(&job->passed) : status;
    }
    return status;
}

gd_status GD_ISA_NAME(gd_cpu_neighbors_product)(gd_neighbors *call, gd_error *err)
{
    const product_plan plan = plan_of(call);
    const size_t own = own_of(NULL, plan.d).bytes;
    const bool single = call->b.dtype == GD_F32;
    gd_error heard;
    if (call->launch.sizing) {
        call->arrangement_bytes = plan.bytes;
        call->launch.workspace_bytes = (size_t)gd_team_size() * own;
        return GD_OK;
    }
    product_job job = {.call = call,
                       .plan = &plan,
                       .part_of_norm = part_of(call->metric, plan.d),
                       .passed = GD_OK,
                       .failure = {.err = err},
                       .heard = &heard};
    gd_status status;
    if (!call->arranged)
        (single ? find_frame_f32 : find_frame_f64)(call, &plan);
    job.most_norm = most_norm_of(call, *plan.scale);
    if (!call->arranged) {
        gd_team_run(gd_team_size(), plan.panels, 0, single ? pack_some_f32 : pack_some_f64, &job);
        status = atomic_load(&job.passed);
        if (status != GD_OK)
            *err = heard;
        call->arranged = status == GD_OK;
        return status;
    }
    const int members = gd_team_that_fits(call->launch.workspace_bytes, 0, own, gd_team_size());
    status = search_all(&job, members);
    if (status != GD_OK && status == atomic_load(&job.passed))
        *err = heard;
    call->pairs = (double)atomic_load(&job.pairs);
    call->swept = (double)call->a.rows * (double)plan.n;
    return status;
}
