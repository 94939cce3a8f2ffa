/* cdist_thin.c: the metrics of cdist_tile.c where one operand has few rows, or both.
 *
 * There a tile is mostly empty, and packing takes longer than the sums. So nothing is packed: what
 * has to stand side by side in a vector is transposed in registers on its way from memory, and
 * used once.
 *
 * - Strips: a vector's lanes are rows of the operand that has many; each of the few rows is
 *   broadcast. If those are B's, the result is written transposed: terms are the same either way.
 * - Deep: neither has enough rows to fill a vector, but rows are long. Then lanes are the groups of
 *   GD_GROUP dimensions of one row, whose sums are independent; they are joined in the end.
 *
 * Every sum has the tile's order (metric_terms.h), so no bit tells which of these forms it is from.
 * Dimensions that fill up a vector are -0 in the few rows and 0 in the others, which changes no
 * sum, not even one that is -0, as only products have it. Where a whole fold is filled up that one
 * would change, so deep calls are not for products.
 *
 * The floor is reading the operand with many rows once, 60 GB/s and more a core from the last
 * cache. One Zen 5 core (512-bit), us in this form and in tiles: 20000 x 1 x 128 float64 312 and
 * 1160 (66 GB/s), float32 140 and 746; 1 x 10000 x 16 22 and 33; 1 x 10000 x 2 3.7 and 22; 10000 x
 * 3 x 3 17 and 60; 3 x 3 x 20000 27 and 69; 1 x 1 x 1000 0.5 and 1.8. From five rows on tiles are
 * as quick, and quicker with eight. The compiler's pointer for each of a vector's rows took 30 % of
 * the time, until it was made to forget where they come from (GD_FORGET). */
#include "cdist_thin.h"
#include "kernels.h"
#include "one_sum.h"
#include "pack.h"
#include "sizes.h"
#include "team.h"

enum {
    FEW = 4,          /* rows that are broadcast; with more, tiles are quicker */
    VERY_FEW = 6,     /* of these a fold is worth it that fills half a vector */
    STRIPS_AHEAD = 8, /* to ask for them where a strip is a few lines */
    DEEP_ROWS = 24,   /* of both operands: a fold of so many, transposed, stays in L1 */
};

/* The rows of one operand. */
typedef struct thin_rows {
    const void *data;
    ptrdiff_t count, stride;
} thin_rows;

/* How a call is done; the same when sizing and when launched, but for `threads`. */
typedef struct thin_plan {
    gd_metric metric, terms;
    thin_rows few, many; /* of a deep call: A and B */
    ptrdiff_t d;
    void *out;
    ptrdiff_t few_stride, many_stride; /* of the result, from one row of either to the next */
    int threads;
} thin_plan;

/* Metrics by their terms: another one with the same as the first stands for itself at the end. */
#define FOR_TERMS(X) X(GD_SQEUCLIDEAN) X(GD_CITYBLOCK) X(GD_CHEBYSHEV) X(GD_INNER_PRODUCT)

#define T float
#define V gd_vf32
#define N(name) name##_f32
#define TRANSPOSE gd_transpose_f32
#define TRANSPOSE_HALVES gd_transpose_halves_f32
#define SEPARATE gd_separate_f32
#define GUARDED 1
#include "one_sum_body.h"
#include "cdist_thin_body.h"

#define T double
#define V gd_vf64
#define N(name) name##_f64
#define TRANSPOSE gd_transpose_f64
#define SEPARATE gd_separate_f64
#if GD_VEC_BYTES > 16
#define TRANSPOSE_HALVES gd_transpose_halves_f64
#endif
#define GUARDED 0
#include "one_sum_body.h"
#include "cdist_thin_body.h"

/* How many elements a vector has. */
static ptrdiff_t lanes_of(const gd_cdist *call)
{
    return GD_VEC_BYTES / (ptrdiff_t)(call->out.dtype == GD_F32 ? sizeof(float) : sizeof(double));
}

static bool is_deep(const gd_cdist *call)
{
    const ptrdiff_t rows = call->a.rows + call->b.rows;
    const ptrdiff_t groups = rows <= VERY_FEW ? 4 : lanes_of(call);
    return call->metric != GD_INNER_PRODUCT && rows <= DEEP_ROWS &&
           call->a.cols >= groups * GD_GROUP;
}

bool GD_ISA_NAME(gd_cpu_cdist_is_thin)(const gd_cdist *call)
{
    const ptrdiff_t m = call->a.rows, n = call->b.rows;
    return is_deep(call) ||
           (call->a.cols > 0 && gd_least(m, n) <= FEW && gd_most(m, n) >= lanes_of(call));
}

gd_status GD_ISA_NAME(gd_cpu_cdist_thin)(gd_cdist *call)
{
    const gd_matrix *a = &call->a, *b = &call->b;
    const bool single = call->out.dtype == GD_F32, deep = is_deep(call);
    const bool turned = !deep && b->rows < a->rows;
    const gd_matrix *few = turned ? b : a, *many = turned ? a : b;
    const double steps = (double)a->rows * (double)b->rows * (double)(a->cols + 8);
    thin_plan plan = {
        .metric = call->metric,
        .terms = call->metric == GD_EUCLIDEAN || call->metric == GD_COSINE ? GD_SQEUCLIDEAN
                                                                           : call->metric,
        .few = {few->data, few->rows, few->row_stride},
        .many = {many->data, many->rows, many->row_stride},
        .d = a->cols,
        .out = call->out.data,
        .few_stride = turned ? 1 : call->out.row_stride,
        .many_stride = turned ? call->out.row_stride : 1,
        .threads = steps < 0x1p17 ? 1 : gd_team_size(),
    };
    if (call->launch.sizing) {
        call->launch.workspace_bytes = deep ? (single ? deep_bytes_f32 : deep_bytes_f64)(&plan) : 0;
    }
    else if (deep) {
        (single ? deep_f32 : deep_f64)(&plan, call->launch.workspace, call->launch.workspace_bytes);
    }
    else {
        (single ? strips_f32 : strips_f64)(&plan);
    }
    return GD_OK;
}
