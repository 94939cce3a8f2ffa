/* neighbors_boxes.c: neighbours of points with few dimensions, without most of their distances.
 *
 * The points of B are split at the median of their widest column, again and again, until 32 are
 * left: a leaf, whose points lie side by side for vectors. Each leaf has a box; 8 of them (16,
 * where a vector has so many lanes) have one, and so on to the top. A row of A looks at the nearest
 * box first, and passes over one whose nearest corner or side is too far away. Splitting goes by
 * ranks, so clusters, heavy tails and equal points make no deeper trees.
 *
 * What is passed over cannot be a neighbour, in the bits that cdist has: the distance of a box is
 * computed as that of a point, operation by operation, from differences that are no larger; and
 * rounding keeps order. So no bound needs a margin for it. Where a distance is another function of
 * its sum (a root, or float64 in place of a float32 sum that lost range) sums are held against a
 * bound a little larger than the limit's, and what passes is computed exactly. Boxes at just the
 * distance of a full list's last are passed over if their least index is larger than its: equal
 * points would all be looked at otherwise. minkowski with other exponents is bounded by euclidean
 * (p < 2) or chebyshev (p > 2), which are never larger.
 *
 * In a periodic box (box.h) points are arranged by their images near 0, in float64 whatever they
 * come in, and a distance is rounded to that at its end, as cdist does it. The nearest image of a
 * node is as near as its box is, or over the end of the periodic box, which the farthest of its
 * points from 0 is nearest to.
 *
 * The floor is what the leaves' points cost, some 300 pairs a row at d = 3 and k = 16, and a list's
 * upkeep beside it; rows of A are walked leaf by leaf, so that neighbours find boxes in the cache.
 */
#include "box.h"
#include "kernels.h"
#include "memory.h"
#include "minkowski_pair.h"
#include "neighbors_list.h"
#include "one_sum.h"
#include "pass.h"
#include "simd_math.h"
#include "sizes.h"
#include "team.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>

enum {
    LEAF = 32,         /* points */
    MOST_COLS = 8,     /* as the row of the table says */
    MOST_LEVELS = 12,  /* of boxes, for 2**31 points */
    STEP = 64,         /* rows of A that a member takes at a time */
    WATCHED_SPAN = 64, /* leaves that are split between two looks at the watcher, at most */
    UNIT = 16,         /* bytes: records are some of them */
};

/* Which sums bound a distance. */
typedef enum boxes_kind { SQUARES, MAGNITUDES, LARGEST } boxes_kind;

/* What a row's neighbours are for. */
typedef enum boxes_sink { LISTS, COUNTS } boxes_sink;

/* Boxes of one level: node i encloses `arity` nodes of the level below, from i * arity on, or at
 * level 0 a leaf. A group is `arity` nodes: for each column their lower ends, then their upper. */
typedef struct boxes_level {
    void *groups;
    int32_t *least; /* the smallest index in each node */
    ptrdiff_t nodes;
} boxes_level;

/* What B is arranged as, and what arranging and a search need beside that, in the workspace. */
typedef struct boxes_plan {
    /* How many have a place in boxes, which rows with NaN have for chebyshev alone, and how many
     * are without NaN. */
    ptrdiff_t *rows;
    ptrdiff_t d, leaves, arity, record; /* of the last, elements */
    void *records;                      /* index and coordinates of each row, while arranging */
    void *points;                       /* of each leaf: column after column */
    int32_t *index;                     /* of each leaf's points in B; -1 where there is none */
    void *cuts;                         /* the split before each leaf: from what on it begins, */
    uint8_t *columns;                   /* in which column */
    int levels;
    boxes_level level[MOST_LEVELS];
    /* A block of A's rows: each one's leaf, all in the order of leaves, where each leaf's begin. */
    int32_t *leaf_of, *order, *starts;
    size_t bytes, workspace_bytes; /* of the arrangement, and of all else */
} boxes_plan;

typedef struct boxes_job {
    gd_neighbors *call;
    const boxes_plan *plan;
    boxes_kind kind;
    ptrdiff_t span; /* leaves of what is split, while arranging */
    _Atomic int64_t pairs;
    gd_passed passed; /* while arranging */
    gd_failure failure;
} boxes_job;

/* Whether to go on arranging, of which no share of the call is done. */
static bool goes_on(boxes_job *job, int member)
{
    return gd_goes_on(&job->call->launch, 0, member, &job->passed, job->failure.err);
}

/* Whether to go on searching, where members may fail as well. The share that is done is told by
 * who calls for one block of rows after the other. */
static bool goes_on_searching(boxes_job *job, int member)
{
    if (member == 0) {
        gd_error err;
        gd_note_failure(&job->failure, gd_pass(&job->call->launch, 0, &err), &err);
    }
    return atomic_load_explicit(&job->failure.status, memory_order_relaxed) == GD_OK;
}

static boxes_kind kind_of(const gd_neighbors *call)
{
    switch (call->metric) {
        case GD_CITYBLOCK:
            return MAGNITUDES;
        case GD_CHEBYSHEV:
            return LARGEST;
        case GD_MINKOWSKI:
            return call->p < 2 ? SQUARES : LARGEST;
        default:
            return SQUARES;
    }
}

/* Sets what follows from the number of rows in boxes. */
static void set_rows(boxes_plan *plan, ptrdiff_t rows)
{
    ptrdiff_t nodes = plan->leaves = gd_ceil_div(rows, LEAF);
    plan->levels = 0;
    do {
        plan->level[plan->levels++].nodes = nodes;
        nodes = gd_ceil_div(nodes, plan->arity);
    } while (plan->level[plan->levels - 1].nodes > plan->arity);
}

static boxes_plan plan_of(const gd_neighbors *call)
{
    char *const base = call->launch.sizing ? NULL : call->arrangement;
    char *const work = call->launch.sizing ? NULL : call->launch.workspace;
    const bool single = call->b.dtype == GD_F32 && call->box == NULL;
    const ptrdiff_t n = call->b.rows, d = call->b.cols;
    const size_t size = single ? sizeof(float) : sizeof(double);
    const ptrdiff_t lanes = GD_VEC_BYTES / (ptrdiff_t)size, unit = UNIT / (ptrdiff_t)size;
    boxes_plan plan = {.d = d, .arity = gd_most(lanes, 8)};
    size_t used = 0, worked = 0;
    plan.record = gd_ceil_div(d + 1, unit) * unit;
    set_rows(&plan, n);
    plan.rows = gd_next_array(base, &used, 2, sizeof *plan.rows);
    plan.points = gd_next_array(base, &used, plan.leaves * LEAF * d, size);
    plan.index = gd_next_array(base, &used, plan.leaves * LEAF, sizeof *plan.index);
    plan.cuts = gd_next_array(base, &used, plan.leaves, size);
    plan.columns = gd_next_array(base, &used, plan.leaves, sizeof *plan.columns);
    for (int i = 0; i < plan.levels; ++i) {
        const ptrdiff_t nodes = gd_ceil_div(plan.level[i].nodes, plan.arity) * plan.arity;
        plan.level[i].groups = gd_next_array(base, &used, nodes * 2 * d, size);
        plan.level[i].least = gd_next_array(base, &used, nodes, sizeof *plan.level[i].least);
    }
    plan.leaf_of = gd_next_array(work, &worked, call->a.rows, sizeof *plan.leaf_of);
    plan.order = gd_next_array(work, &worked, call->a.rows, sizeof *plan.order);
    plan.starts = gd_next_array(work, &worked, plan.leaves + 1, sizeof *plan.starts);
    plan.records = gd_next_array(work, &worked, n * plan.record, size);
    plan.bytes = used;
    plan.workspace_bytes = worked;
    return plan;
}

/* minkowski of two points, operation by operation as cdist_sums.c has it; the columns of b are
 * `stride` apart. */
#define GD_WEIGH(x) (x)
#define ADD_ALL(name)                 \
    for (ptrdiff_t k = 0; k < d; ++k) \
    GD_ADD_##name(&sum, gd_splat(a[k]), gd_splat(b[k]))
static double minkowski(const double *a, const double *b, ptrdiff_t d, double p, bool *safe)
{
    gd_vf64 sum = {0};
    const int kind = GD_SUMS_OF(GD_MINKOWSKI, false, p);
    if (kind == GD_SUM_CUBES)
        ADD_ALL(CUBES);
    else if (kind == GD_SUM_FOURTH_POWERS)
        ADD_ALL(FOURTH_POWERS);
    else if (kind == GD_SUM_SQUARE_ROOTS)
        ADD_ALL(SQUARE_ROOTS);
    else
        ADD_ALL(POWERS);
    *safe = kind != GD_SUM_POWERS || gd_powers_are_safe(sum[0]);
    return GD_FINISH_MINKOWSKI(sum, p, gd_sqrt, gd_cube_root, gd_power)[0];
}
#undef ADD_ALL
#undef GD_WEIGH

#define N(name) name##_f32
#define T float
#define V gd_vf32
#define M gd_vi32
#define BITS gd_bits_f32
#define SINGLE true
#define PERIODIC false
#include "neighbors_boxes_body.h"

#define N(name) name##_f64
#define T double
#define V gd_vf64
#define M gd_vi64
#define BITS gd_bits_f64
#define SINGLE false
#define PERIODIC false
#include "neighbors_boxes_body.h"

#define N(name) name##_in_box
#define T double
#define V gd_vf64
#define M gd_vi64
#define BITS gd_bits_f64
#define SINGLE false
#define PERIODIC true
#include "neighbors_boxes_body.h"

/* The parts of a search, which depend on what points are arranged as. */
typedef struct boxes_steps {
    void (*arrange)(boxes_job *job, boxes_plan *plan);
    gd_team_part *find_leaves, *search_some;
} boxes_steps;
static const boxes_steps of_f32 = {arrange_f32, find_leaves_f32, search_some_f32};
static const boxes_steps of_f64 = {arrange_f64, find_leaves_f64, search_some_f64};
static const boxes_steps of_images = {arrange_in_box, find_leaves_in_box, search_some_in_box};

/* Puts a block's rows in the order of the leaves that they lie in. */
static void sort_rows(const gd_neighbors *call, const boxes_plan *plan)
{
    const ptrdiff_t m = call->a.rows;
    int32_t *const starts = plan->starts;
    memset(starts, 0, (size_t)(plan->leaves + 1) * sizeof *starts);
    for (ptrdiff_t i = 0; i < m; ++i)
        ++starts[plan->leaf_of[i] + 1];
    for (ptrdiff_t leaf = 0; leaf < plan->leaves; ++leaf)
        starts[leaf + 1] += starts[leaf];
    for (ptrdiff_t i = 0; i < m; ++i)
        plan->order[starts[plan->leaf_of[i]]++] = (int32_t)i;
}

gd_status GD_ISA_NAME(gd_cpu_neighbors_boxes)(gd_neighbors *call, gd_error *err)
{
    const boxes_steps *const steps = call->box != NULL         ? &of_images
                                     : call->b.dtype == GD_F32 ? &of_f32
                                                               : &of_f64;
    boxes_plan plan = plan_of(call);
    boxes_job job = {.call = call,
                     .plan = &plan,
                     .kind = kind_of(call),
                     .passed = GD_OK,
                     .failure = {.err = err}};
    if (call->b.rows > INT32_MAX) {
        return GD_FAIL(err, GD_BAD_VALUE, "boxes hold at most %d points, not %td", INT32_MAX,
                       call->b.rows);
    }
    if (call->launch.sizing) {
        call->arrangement_bytes = plan.bytes;
        call->launch.workspace_bytes = plan.workspace_bytes;
        return GD_OK;
    }
    if (!call->arranged) {
        steps->arrange(&job, &plan);
        call->arranged = atomic_load(&job.passed) == GD_OK;
        return atomic_load(&job.passed);
    }
    set_rows(&plan, *plan.rows);
    if (*plan.rows == 0) {
        return GD_OK;
    }
    gd_team_run(gd_team_size(), call->a.rows, 0, steps->find_leaves, &job);
    sort_rows(call, &plan);
    gd_team_run(gd_team_size(), call->a.rows, STEP, steps->search_some, &job);
    call->pairs = (double)atomic_load(&job.pairs);
    return atomic_load(&job.failure.status);
}
