/* apsp_lanes.c: shortest paths in many small graphs at once, one in each lane of a vector.
 *
 * Element [i, j] of a vector's worth of graphs makes one vector, so that the textbook's loop on
 * vectors is the textbook's loop on each graph, with its bits, and nothing is lost at the ends of
 * short rows. Squares of elements are turned in registers on the way in and out (pack.h).
 *
 * A few pivots are taken at a time. The rows of these pivots go first: each is brought to its own
 * stage and recorded there. All other rows then pass once, and take the records in order; what a
 * row holds in the columns of the pivots when their stages come is computed beforehand, from the
 * records too. That is the same sums in the same order, with a fraction of the loads and stores.
 *
 * Floor: an addition and a minimum for each update of a vector, on two pipes: one vector a cycle.
 * Graphs have up to GD_LANES_MOST nodes; a group of larger ones leaves the second cache, and
 * apsp_blocked.c, which fills vectors with rows, is as quick from there on. */
#include <float.h>
#include <math.h>

#include "cpu/pack.h"
#include "cpu/pass.h"
#include "cpu/simd.h"
#include "kernels.h"
#include "sizes.h"
#include "team.h"

/* PIVOTS pass at a time. With fewer than one graph for every SPARE lanes, graphs of more than FEW
 * nodes are better done one by one. */
enum { PIVOTS = 8, SPARE = 4, FEW = 24 };

#define T float
#define V gd_vf32
#define M gd_vi32
#define P gd_vi32
#define SQUARE gd_vf32
#define TAGS gd_vf32
#define TRANSPOSE gd_transpose_f32
#define TRANSPOSE_TAGS gd_transpose_f32
#define LOAD_TAGS(p) gd_load(p)
#define STORE_TAGS(p, x) gd_store(p, x)
#define SPLAT_TAG(x) gd_splat(x)
#define NONE INFINITY
#define NO_PATH INFINITY
#define LARGEST FLT_MAX
#define FLOATING 1
#define DTYPE GD_F32
#define WHOLE_FROM 0x1p23f
#define N(x) x##_f32
#include "cpu/apsp_lanes_body.h"
#undef T
#undef V
#undef M
#undef SQUARE
#undef NONE
#undef NO_PATH
#undef LARGEST
#undef FLOATING
#undef DTYPE
#undef WHOLE_FROM
#undef N

#define T int32_t
#define V gd_vi32
#define M gd_vi32
#define SQUARE gd_vf32
#define NONE GD_I32_FAR
#define NO_PATH GD_I32_NO_PATH
#define LARGEST (GD_I32_NO_PATH - 1)
#define FLOATING 0
#define DTYPE GD_I32
#define N(x) x##_i32
#include "cpu/apsp_lanes_body.h"
#undef T
#undef V
#undef M
#undef P
#undef SQUARE
#undef TAGS
#undef TRANSPOSE
#undef TRANSPOSE_TAGS
#undef LOAD_TAGS
#undef STORE_TAGS
#undef SPLAT_TAG
#undef NONE
#undef NO_PATH
#undef LARGEST
#undef FLOATING
#undef DTYPE
#undef N

#define T double
#define V gd_vf64
#define M gd_vi64
#define P gd_tags_f64
#define SQUARE gd_vf64
#define TAGS gd_half_vf32
#define TRANSPOSE gd_transpose_f64
#define TRANSPOSE_TAGS gd_transpose_half_f32
#define LOAD_TAGS(p) gd_load_tags_f64(p)
#define STORE_TAGS(p, x) gd_store_tags_f64(p, x)
#define SPLAT_TAG(x) ((gd_tags_f64){0} + (x))
#define NONE (double)INFINITY
#define NO_PATH (double)INFINITY
#define LARGEST DBL_MAX
#define FLOATING 1
#define DTYPE GD_F64
#define WHOLE_FROM 0x1p52
#define N(x) x##_f64
#include "cpu/apsp_lanes_body.h"

gd_status GD_ISA_NAME(gd_cpu_apsp_lanes)(gd_apsp_batch *call, gd_error *err)
{
    switch (call->dtype) {
        case GD_F32:
            return run_f32(call, err);
        case GD_F64:
            return run_f64(call, err);
        case GD_I32:
            return run_i32(call, err);
        default:
            return GD_FAIL(err, GD_BAD_TYPE, "apsp takes float32, float64 and int32");
    }
}
