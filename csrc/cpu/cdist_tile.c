/* cdist_tile.c: metrics that are one sum over the dimensions. Distances are in direct form
 * (differences, never norms minus twice a product), so that near-duplicates and offsets cost no
 * digit; the cosine distance is one between rows of unit length.
 *
 * The columns' points are packed into panels of NV vectors, dimension by dimension; a block of rows
 * is packed MR by MR per task. A register tile of MR x NV vectors then costs, per dimension, NV
 * loads and MR broadcasts for MR * NV subtractions and as many fused multiply-adds. The sums'
 * order (metric_terms.h) is the same in every lane, so nothing here can change a result: not
 * the tile's edge, nor the number of threads, nor strides. A row that is left over gets a tile of
 * its own height. Where either operand has a few rows alone, as a single query is, cdist_thin.c
 * gives the same bits without packing, and cdist_narrow.c does where points have few dimensions.
 *
 * The floor is the larger of writing the result and the arithmetic: two vectors of pairs a cycle on
 * a core that adds on two pipes and multiplies on two more, or one where vectors of 512 bits take a
 * pipe for two cycles. One core of Zen 4, which does that, at 3.7 GHz with other work beside it, ms
 * of the processor's time, and before rows' numbers were read by the differences themselves, sums
 * began with their first terms, and roots were taken beside single dimensions instead of between
 * folds: float64 1000 x 1000 x 1024 euclidean 43 (81 % of the floor) and 60, cityblock 62 (84 % of
 * its three operations) and 85; 1504 x 1504 x 128 euclidean 12.2 (80 %) and 17.2, sqeuclidean 12.0
 * and 16.4; 1500 x 1500 x 32 euclidean 3.5 (70 %) and 5.3; float32 1000 x 1000 x 1024 20.7 (84 %),
 * x 64 1.4 (77 %) and 2.0. Slabs of 128 dimensions, chunks of other lengths and blocks of 256 rows
 * were no quicker. On 2 Zen 5 cores (512-bit pipes, 3.8 GHz), before that, 3000 x 3000 x 128 took
 * 13.3 ms (71 %), 2000 x 2000 x 1024 47.
 *
 * Where two pipes do all of it, as on Intel's processors, the floor is a vector of pairs a cycle,
 * and a product's is two: cdist_product.c takes these calls where it may. On one core of Cascade
 * Lake (2.4 GHz, its twin at work for others) tiles in L1 take 1.08 cycles, and
 * whole calls in float64, into memory touched before, ms: 3000 x 3000 x 128 euclidean 87 (69 % of
 * the floor), sqeuclidean 79 (76 %), cityblock 110 (82 % of three operations); 4000 x 4000 x 2
 * euclidean 25, sqeuclidean 23 (5.6 GB/s, of 6.8 that stores alone reach). A root of 8 doubles
 * takes 24 cycles there, on a unit that nothing else needs. Roots by themselves before stores by
 * themselves made those 96, 85, 116, 42 and 23; in the same loop, and beside the next tiles' sums
 * where there are enough, they overlap. A core of a later one with 2 MB of L2, likewise, 3000
 * x 3000 x 128: euclidean 60 (80 % of the floor, from 65), sqeuclidean 57 (88 %), cityblock 80 (96
 * % of three operations, from 88), chebyshev 58. Another such core with nothing beside it, before
 * and since lines are stored beside single dimensions: 1500 x 1500 x 32 euclidean 5.8 and 4.1,
 * sqeuclidean 4.05 and 3.74, 1504 x 1504 x 128 euclidean 16.1 and 14.5, 256 x 256 x 32 0.177 and
 * 0.127; all else takes 0.92 to 1.02 of the time. Totals that need no root may as well be stored at
 * once from 128 dimensions on; with 32 that takes 5 to 9 % more there, and 3 % less on Zen 4. */
#include "cdist_narrow.h"
#include "cdist_thin.h"
#include "kernels.h"
#include "one_sum.h"
#include "pack.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

/* The register tile, with room left for a column's vectors, a row's value and a difference. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 8, NV = 3 };
#define FOR_NV(X, metric) X(metric, 1) X(metric, 2) X(metric, 3)
#else
enum { MR = 6, NV = 2 };
#define FOR_NV(X, metric) X(metric, 1) X(metric, 2)
#endif
#define FOR_TILE(r, v)                               \
    GD_UNROLL for (int r = 0; r < mr; ++r) GD_UNROLL \
        for (int v = 0; v < nv; ++v)

/* A difference is one instruction, which reads the row's number by itself: a broadcast takes one of
 * the pipes of additions on Zen 4, a third of a tile's time. Where additions and multiplications
 * have pipes of their own, sums of absolute values leave the multipliers idle: column * 1 - row,
 * fused, is the same difference. For cityblock two vectors of three are enough, as what makes a
 * value absolute goes to either. Where the pipes do both, neither is quicker. */
#if defined(__FMA__)
#define FUSES_DIFFERENCE(metric, v) \
    ((metric) == GD_CHEBYSHEV || ((metric) == GD_CITYBLOCK && (v) > 0))
#else
#define FUSES_DIFFERENCE(metric, v) false
#endif

enum {
    SLAB = 2 * GD_GROUP,
    MAX_CHUNK = 12,
    ROOTS_FROM = 12,  /* with fewer dimensions there are too few sums to hide roots behind */
    STORES_FROM = 32, /* the same of stores alone */
    HIDDEN_FROM = 24, /* with fewer the unit of roots is too slow */
};

/* How a call is cut up. Every part but `threads` is the same when sizing and when launched. */
typedef struct tile_plan {
    ptrdiff_t panels;        /* of NV vectors of columns */
    ptrdiff_t slab;          /* dimensions at a time: a panel of them stays in L2 */
    ptrdiff_t rows;          /* in a task: a slab of them stays in L2 */
    ptrdiff_t chunk;         /* panels that a block of rows passes over at a time */
    ptrdiff_t kept;          /* elements of lines that are not complete: one a row, if any */
    ptrdiff_t staged;        /* rows whose totals are kept: of a task, of two tiles, or of one */
    ptrdiff_t blocks, spans; /* tasks are blocks of rows by spans of panels */
    int threads;
    bool stream;         /* store past the caches */
    bool defers;         /* storing, until the next rows' sums are computed */
    size_t shared_bytes; /* packed columns, unless there is one block of rows */
    size_t own_bytes;    /* a thread's packed rows, staged tiles and columns of its own */
} tile_plan;

/* A call that all members work on. */
typedef struct tile_job {
    const gd_cdist *call;
    const tile_plan *plan;
} tile_job;

GD_DEFINE_PACK_VECTORS(pack_f32, float, gd_vf32, gd_transpose_f32, gd_half_vf32,
                       gd_transpose_half_f32)
GD_DEFINE_PACK_VECTORS(pack_f64, double, gd_vf64, gd_transpose_f64, gd_vf64, gd_transpose_f64)

#define T float
#define V gd_vf32
#define N(name) name##_f32
#define GUARDED 1
#include "cdist_tile_body.h"

#define T double
#define V gd_vf64
#define N(name) name##_f64
#define GUARDED 0
#include "cdist_tile_body.h"

static size_t round_up_256(ptrdiff_t bytes) { return ((size_t)bytes + 255) / 256 * 256; }

static tile_plan plan_of(const gd_cdist *call)
{
    const ptrdiff_t m = call->out.rows, n = call->out.cols, d = call->a.cols, depth = gd_most(d, 1);
    const ptrdiff_t size = call->out.dtype == GD_F32 ? sizeof(float) : sizeof(double);
    const ptrdiff_t width = NV * GD_VEC_BYTES / size;
    tile_plan plan = {.panels = gd_ceil_div(n, width), .slab = gd_least(depth, SLAB)};

    /* Rows may fill 384 KB of a second-level cache of 1 MB, and panels 128 KB. Longer runs of a row
     * than 12 panels stream out no faster. All of a block's rows are packed at once: beyond 8 MB
     * fewer of them are, lest many threads ask for more memory than the inputs take. */
    const ptrdiff_t tiles = gd_most(
        1, gd_least((384 << 10) / (plan.slab * size * MR), (8 << 20) / (depth * size * MR)));
    plan.rows = MR * gd_least(gd_ceil_div(m, MR), gd_least(16, tiles));
    plan.chunk = gd_most(
        1, gd_least(gd_least(MAX_CHUNK, plan.panels), (128 << 10) / (plan.slab * size * width)));

    /* Waking threads costs about as much as 2**18 pair-dimensions on one. */
    const double pairs = (double)m * (double)n;
    plan.threads = pairs * (double)(d + 8) < 0x1p18 ? 1 : gd_team_size();
    plan.blocks = gd_ceil_div(m, plan.rows);
    plan.spans = plan.threads == 1
                     ? 1
                     : gd_least(plan.panels, gd_ceil_div(4 * (ptrdiff_t)plan.threads, plan.blocks));

    plan.stream = gd_worth_streaming(m, n, (size_t)size) && (uintptr_t)call->out.data % size == 0;

    /* Few rows pass over the columns only once: then each thread packs those it needs just before
     * it needs them, and they never leave its cache. */
    const ptrdiff_t alone = plan.blocks == 1;
    /* Where a line is several vectors, a root each, waiting pays only if the store is slow too. */
    const bool root = call->metric == GD_EUCLIDEAN;
    plan.defers = m > MR && depth >= (root ? ROOTS_FROM : STORES_FROM) &&
                  (plan.stream || (root && GD_VEC_BYTES == GD_LINE));
    plan.staged = depth > SLAB ? plan.rows : plan.defers ? 2 * MR : MR;
    plan.shared_bytes = alone ? 0 : round_up_256(plan.panels * width * d * size);
    /* Of float32 a line is sixteen numbers, put together one by one: that takes 2 % more. */
    plan.kept = plan.stream && size == sizeof(double) ? plan.rows * (GD_LINE / size) : 0;
    plan.own_bytes = round_up_256(
        (plan.rows * d + plan.kept + plan.chunk * width * (plan.staged + (alone ? d : 0))) * size);
    return plan;
}

gd_status GD_ISA_NAME(gd_cpu_cdist_tile)(gd_cdist *call, gd_error *err)
{
    (void)err;
    if (GD_ISA_NAME(gd_cpu_cdist_is_thin)(call))
        return GD_ISA_NAME(gd_cpu_cdist_thin)(call);
    if (GD_ISA_NAME(gd_cpu_cdist_is_narrow)(call))
        return GD_ISA_NAME(gd_cpu_cdist_narrow)(call);
    tile_plan plan = plan_of(call);
    gd_launch *launch = &call->launch;
    if (launch->sizing) {
        launch->workspace_bytes = plan.shared_bytes + (size_t)plan.threads * plan.own_bytes;
        return GD_OK;
    }
    plan.threads =
        gd_team_that_fits(launch->workspace_bytes, plan.shared_bytes, plan.own_bytes, plan.threads);
    (call->out.dtype == GD_F32 ? run_f32 : run_f64)(call, &plan);
    return GD_OK;
}
