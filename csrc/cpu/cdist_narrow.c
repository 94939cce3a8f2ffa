/* cdist_narrow.c: the metrics of cdist_tile.c where points have a few dimensions only.
 *
 * There a result takes a few instructions, and the way to memory is most of the work. Tiles make
 * totals of some rows, then roots of them on their way past the caches, and neither is done while
 * the other is. Here the columns' points are planes, one for each dimension, so that a row's
 * results begin wherever a line of memory does: sums, roots and stores are one loop, nothing waits
 * in between, and memory takes lines while the next ones are computed. Sums have the tiles' order
 * (metric_terms.h), so no bit tells the two apart.
 *
 * The floor is the larger of writing the result and its roots. One Zen 3 core (256-bit, 3.2 GHz),
 * 3000 x 3000 into memory touched before, in milliseconds, here and in tiles; stores alone take 1.6
 * (float32) and 3.4 (float64), with roots 2.1 and 6.5: float32 d = 2 euclidean 2.4 and 4.9,
 * sqeuclidean 2.0 and 3.5; float64 d = 2 euclidean 6.8 and 10.9, sqeuclidean 3.5 and 5.4; d = 4
 * cityblock float32 2.4 and 3.7, float64 4.6 and 7.3. From 12 dimensions on tiles are quicker,
 * which take fewer loads a term. Planes in L2, four times as long, gained nothing.
 *
 * On a core of Emerald Rapids (512-bit), beside others at work, roots of a vector by their own unit
 * alone take longer than storing it, so some are made by multiplications (one_sum.h); and where
 * tasks met, two of them wrote a line each in part, which was read from memory before. Processor
 * time in ms of 4000 x 4000 into memory touched before, at 9a679e7 and since, of 3.0 (float32) and
 * 5.9 that stores alone take: euclidean float32 d = 1 4.1 and 3.1, d = 2 4.2 and 3.4, d = 3 4.3 and
 * 3.5, d = 4 5.3 and 4.0; float64 d = 1 16.5 and 6.5, d = 2 16.5 and 8.0, d = 4 17.3 and 9.4. All
 * roots by multiplications took as long in float32 as none, and a tenth longer in float64.
 *
 * In a periodic box (box.h) planes are of images, in float64 whatever the result is, and the bits
 * are those of cdist_sums.c. */
#include "box.h"
#include "cdist_narrow.h"
#include "kernels.h"
#include "one_sum.h"
#include "pack.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

enum {
    MOST_DIMS = 8,     /* with more, tiles are quicker */
    KNOWN_DIMS = 4,    /* so many or fewer have functions of their own */
    VECTORS = 4,       /* of a row's results at a time */
    PLANES = 24 << 10, /* bytes of columns' points in one task: they stay in L1 */
    LEAST_ROWS = 32,   /* in a task, which packs its columns' points for itself */
};

_Static_assert(MOST_DIMS <= GD_FOLD, "sums are of one fold: none are joined here");

/* How a call is cut up. Every part but `threads` is the same when sizing and when launched. */
typedef struct narrow_plan {
    ptrdiff_t chunk; /* columns in a task */
    ptrdiff_t width; /* of a plane: a chunk, what bounds add, and what vectors read beyond */
    ptrdiff_t rows;  /* in a task */
    ptrdiff_t blocks, spans; /* tasks are blocks of rows by spans of columns */
    int threads;
    bool stream;      /* store past the caches */
    size_t own_bytes; /* a thread's planes */
} narrow_plan;

/* A call that all members work on. */
typedef struct narrow_job {
    const gd_cdist *call;
    const narrow_plan *plan;
} narrow_job;

GD_DEFINE_PACK_VECTORS(pack_f32, float, gd_vf32, gd_transpose_f32, gd_half_vf32,
                       gd_transpose_half_f32)
GD_DEFINE_PACK_VECTORS(pack_f64, double, gd_vf64, gd_transpose_f64, gd_vf64, gd_transpose_f64)

/* Planes of images, from points of either type. */
GD_DEFINE_PACK(pack_wide, float, double)
static void wrap(const double *box, ptrdiff_t d, ptrdiff_t width, double *planes)
{
    for (ptrdiff_t k = 0; k < d; ++k)
        for (ptrdiff_t c = 0; c < width; ++c)
            planes[k * width + c] = gd_wrapped(planes[k * width + c], box[k]);
}

/* Results of two vectors as one of float32. */
#define SAME_LANE(j, s, n) (j)
#if GD_VEC_BYTES == 64
#define SAME_LANES GD_LANES_16(SAME_LANE, 0, 0)
#elif GD_VEC_BYTES == 32
#define SAME_LANES GD_LANES_8(SAME_LANE, 0, 0)
#else
#define SAME_LANES GD_LANES_4(SAME_LANE, 0, 0)
#endif
GD_INLINE gd_vf32 joined(gd_vf64 first, gd_vf64 second)
{
    return __builtin_shufflevector(__builtin_convertvector(first, gd_half_vf32),
                                   __builtin_convertvector(second, gd_half_vf32), SAME_LANES);
}

#define T float
#define V gd_vf32
#define O float
#define N(name) name##_f32
#define GUARDED 1
#define PERIODIC 0
#define METRICS FOR_METRICS
#include "one_sum_body.h"
#include "cdist_narrow_body.h"

#define T double
#define V gd_vf64
#define O double
#define N(name) name##_f64
#define GUARDED 0
#define PERIODIC 0
#define METRICS FOR_METRICS
#include "one_sum_body.h"
#include "cdist_narrow_body.h"

#define IN_BOX(X) X(GD_EUCLIDEAN) X(GD_SQEUCLIDEAN) X(GD_CITYBLOCK) X(GD_CHEBYSHEV)
#define T double
#define V gd_vf64
#define O float
#define N(name) name##_in_box_f32
#define GUARDED 0
#define PERIODIC 1
#define METRICS IN_BOX
#include "one_sum_body.h"
#include "cdist_narrow_body.h"

#define T double
#define V gd_vf64
#define O double
#define N(name) name##_in_box_f64
#define GUARDED 0
#define PERIODIC 1
#define METRICS IN_BOX
#include "one_sum_body.h"
#include "cdist_narrow_body.h"

static narrow_plan plan_of(const gd_cdist *call)
{
    const ptrdiff_t m = call->out.rows, n = call->out.cols, d = call->a.cols;
    const ptrdiff_t size = call->out.dtype == GD_F32 ? sizeof(float) : sizeof(double);
    const ptrdiff_t line = GD_LINE / size;
    const ptrdiff_t held = call->box != NULL ? (ptrdiff_t)sizeof(double) : size;
    const double pairs = (double)m * (double)n;
    narrow_plan plan = {.spans = gd_ceil_div(n, PLANES / (d * held))};

    /* Waking threads costs about as much as 2**18 pair-dimensions on one. */
    plan.threads = pairs * (double)(d + 8) < 0x1p18 ? 1 : gd_team_size();
    plan.chunk = gd_ceil_div(gd_ceil_div(n, plan.spans), line) * line;
    plan.spans = gd_ceil_div(n, plan.chunk);
    plan.blocks = plan.threads == 1
                      ? 1
                      : gd_least(gd_ceil_div(m, LEAST_ROWS),
                                 gd_ceil_div(4 * (ptrdiff_t)plan.threads, plan.spans));
    plan.rows = gd_ceil_div(m, plan.blocks);
    plan.width = plan.chunk + 2 * line;
    plan.own_bytes = ((size_t)(plan.width * d * held) + GD_LINE - 1) / GD_LINE * GD_LINE;
    plan.stream = gd_worth_streaming(m, n, (size_t)size) && (uintptr_t)call->out.data % size == 0;
    return plan;
}

bool GD_ISA_NAME(gd_cpu_cdist_is_narrow)(const gd_cdist *call)
{
    return call->a.cols > 0 && call->a.cols <= MOST_DIMS && call->a.rows > 0 && call->b.rows > 0;
}

bool GD_ISA_NAME(gd_cpu_cdist_is_narrow_in_box)(const gd_cdist *call)
{
    return call->box != NULL && call->weights == NULL && call->metric != GD_MINKOWSKI &&
           GD_ISA_NAME(gd_cpu_cdist_is_narrow)(call);
}

gd_status GD_ISA_NAME(gd_cpu_cdist_narrow)(gd_cdist *call)
{
    const bool single = call->out.dtype == GD_F32;
    gd_team_part *const do_tasks = call->box == NULL ? (single ? do_tasks_f32 : do_tasks_f64)
                                   : single          ? do_tasks_in_box_f32
                                                     : do_tasks_in_box_f64;
    narrow_plan plan = plan_of(call);
    gd_launch *launch = &call->launch;
    if (launch->sizing) {
        launch->workspace_bytes = (size_t)plan.threads * plan.own_bytes;
        return GD_OK;
    }
    plan.threads = gd_team_that_fits(launch->workspace_bytes, 0, plan.own_bytes, plan.threads);
    narrow_job job = {call, &plan};
    gd_team_run(plan.threads, plan.blocks * plan.spans, 1, do_tasks, &job);
    return GD_OK;
}
