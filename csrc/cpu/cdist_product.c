/* cdist_product.c: euclidean distances, and those between rows of unit length that cosine distances
 * are, from products, d^2 = |a|^2 + |b|^2 - 2ab: one instruction a dimension and vector of pairs,
 * where a difference and its square take two.
 *
 * Rows are packed less a centre, so that norms are small: in each dimension the median of three
 * medians of three, and so on, of some rows of B, which outliers do not move, and which leaves
 * whole numbers whole. A register tile of MR x NV vectors takes NV loads and MR broadcasts a
 * dimension for MR * NV multiply-adds. Slabs of a panel of columns stay in L1 while a block of rows
 * passes in L2, and the next panel's are asked for meanwhile. Squares of distances wait in a stage,
 * and a line of roots is found beside each dimension of later ones. A few rows of A have a form
 * without packed columns; bits are the same. In float32 chains are shorter, some are joined
 * in pairs, and all else is in float64: norms, sums of such groups and what becomes of them.
 *
 * The difference cancels where points are close. An element is a suspect where d^2 is not above
 * `share` of |a|^2 + |b|^2 (share_of has the bound), or where norms are too small or too large for
 * products to be right, or no numbers. Suspects are computed again from the rows as given, in the
 * order of metric_terms.h: they have the bits of cdist_tile.c, and equal rows are 0 apart. Whether
 * one is goes by its two rows and the centre. One by one a suspect takes three times as long as a
 * tile's element, with few dimensions ten times, so those of a panel that has many are computed by
 * a tile of their own. Where among sixteen rows of B more than 6 % of the pairs are
 * suspects, in float64 more than 3 % would be if their squares were half as large, cdist_tile.c
 * does it all, and where some rows are no numbers; B alone decides that.
 *
 * The floor is a multiply-add for each vector of pairs and dimension, two a cycle. One core of
 * Emerald Rapids (512-bit, its twin at work for others; 5.4e9 multiply-adds of vectors a second),
 * ms, this and cdist_tile.c: 2000 x 2000 x 1024 euclidean 117 (81 % of the floor) and 227; 3000 x
 * 3000 x 128 euclidean 45 (59 %) and 68, sqeuclidean 37 (72 %) and 63; 1000 x 1000 x 64 3.2 and
 * 4.3. A call of one row of 20000 x 128: 0.8 and 1.0. Clusters, at 2000 x 2000 x 128, cost what
 * cdist_tile.c takes, or up to 1.4 of it where the sixteen rows miss them; 1.6 where every row of A
 * is no number. Columns' slabs that were not asked for ahead made 117 to 140. Chains of 16 or 64
 * and slabs of 64 or 256 dimensions, blocks of 64 to 256 rows, and chunks of 2 or 8 panels were no
 * quicker.
 *
 * In float32, likewise, with what a library's products take that are not computed again: 2000 x
 * 2000 x 1024 euclidean 62 (76 % of the floor), 106 and 62; 3000 x 3000 x 256 39 (68 %), 61 and 40;
 * x 128 22 (60 %), 31 and 24; x 64 14.6, 16.9 and 21; 1000 x 1000 x 64 1.6, 1.9 and 1.4. A call of
 * one row of 20000 x 128: 0.56 and 0.37, as norms have to be found in float64; of eight rows 1.0
 * and 1.1. Clusters cost what cdist_tile.c takes; 2.2 of it where every row of A is no number.
 * These are of chains of 16 in groups of 64; 2000 x 2000 x 1024 took 59 with groups of 128, as they
 * are now, 64 with chains of 8 as well, 70 with chains of 8 in groups of 64. With a centre of nine
 * rows, whose own distance from the mean is added to all norms, 2000 x 2000 x 64 took 9.3 in place
 * of 6.2, for suspects.
 *
 * Roots between chains, as they were, took longer: on a core of such a processor with nothing
 * beside it 1500 x 1500 x 64 took 6.7 ms, and 6.1 with a line beside each dimension, 256 x 256 x 64
 * 0.238 and 0.214, 1504 x 1504 x 128 in float32 5.4 and 4.9. Chains that begin with a product
 * instead of 0 were no quicker, on Zen 4.
 *
 * What came since 9a679e7, medians of pairs of calls by turns, processor time of a thread of such a
 * core beside others at work, float64 1500 x 1500 x 48 0.89, x 64 0.85, x 128 0.92, float32 1500 x
 * 1500 x 64 0.89, x 128 0.94, 1000 x 1000 x 64 0.94: lines of the result that chunks share are put
 * together before they are streamed, which is most of it in float64; chains of 8 in float32, which
 * leave a thirtieth of the suspects with 64 dimensions; a line beside every second dimension where
 * that is enough; and rows without suspects need no marks. With 32 and 48 dimensions float32 takes
 * 1.24 and 0.93 of cdist_tile.c, but where the core's twin is busiest all instructions count, and
 * 48 take more.
 *
 * Not where additions have pipes of their own (gd_host_shares_pipes): there cdist_tile.c is as
 * quick. */
#include "kernels.h"
#include "memory.h"
#include "one_sum.h"
#include "pack.h"
#include "product_tile.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

enum {
    SLAB = 128,              /* dimensions at a time: a panel of them stays in L1 */
    SQUARES = 16,            /* that a norm adds to one chain */
    ROWS = 128,              /* of a task: a slab of them stays in L2 */
    CHUNK = 4,               /* panels that a block of rows passes over at a time */
    ALONE_BYTES = 256 << 10, /* of packed columns that a task has for itself */
    FEW = 4,                 /* rows of A that are worth no packed columns */
    LONG_FROM = 96,          /* dimensions with which float32 has few suspects anyway */
    APART_FROM = 48,         /* dimensions in which a line beside each second one is enough */
    TOGETHER = 4,            /* rows that are computed again with a panel */
    DENSE_ROWS = 32,         /* so few are none that a panel is packed for */
    DENSE_SHARE = 4,         /* from this part of suspects on it is */
    /* Rows by which a call is judged: differences are quicker where more than one of so many are of
     * nothing but suspects. */
    JUDGED_ROWS = 16,
    UNUSUAL_SHARE = 8,
};
#define FOR_TILE(r, mr, v)                             \
    GD_UNROLL for (int r = 0; r < (mr); ++r) GD_UNROLL \
        for (int v = 0; v < NV; ++v)

/* How a call is cut up. Every part but `threads` is the same when sizing and when launched. */
typedef struct product_plan {
    ptrdiff_t depth;         /* dimensions, filled up with zeros to whole vectors */
    ptrdiff_t panels;        /* of NV vectors of columns */
    ptrdiff_t rows;          /* in a task */
    ptrdiff_t chunk;         /* panels that a task passes over at a time */
    ptrdiff_t blocks, spans; /* tasks are blocks of rows by spans of panels */
    int threads;
    int fold;         /* dimensions of a chain of additions */
    int apart;        /* dimensions between lines that are stored beside them */
    bool packs;       /* columns: there are more than a few rows */
    bool stream;      /* store past the caches */
    double share;     /* see share_of */
    size_t own_bytes; /* of a thread */
    size_t shared_bytes;
} product_plan;

/* ---------------------------------------------------------------- float64 */

/* Dimensions of a chain of additions. */
#define FOLD64 32

/* Cosine distances are held to 1e-12 as they stand. Rows are of length sqrt(1/2), so both norms are
 * at most 4 wherever the centre is, and errors of d / 16 + 60 times 4 u are less than that up to so
 * many dimensions. What is left for the guard is that equal rows are 0 apart. */
#define COSINE_COLS64 (1 << 15)
#define COSINE_SHARE 0x1p-12

/* An element is trusted from this share of both norms, N = |a|^2 + |b|^2, on. With u = 2^-53, no
 * sum of some dimensions' products is larger than N / 2, so a chain of FOLD of them errs by at most
 * FOLD u N / 2, and joining them by u N / 2 each: -2ab by FOLD + d / FOLD times u N. A norm goes
 * through the SQUARES of a chain, a lane's chains and the lanes: it errs by at most so many u N.
 * Three more are for products that are rounded before they are added, and for N. The last addition
 * costs u d^2, and the rounded differences from the centre 2 u d sqrt(2 N): 12 u d^2 where d^2 is N
 * / 17, which is about the least share. Of 1e-13 d^2 880 u d^2 are left. */
static double share_of_f64(gd_metric metric, ptrdiff_t d)
{
    enum {
        LANES_ = GD_VEC_BYTES / sizeof(double),
        LOG_LANES = LANES_ == 8 ? 3
        : LANES_ == 4           ? 2
                                : 1
    };
    const double products = FOLD64 + (double)gd_ceil_div(d, FOLD64);
    const double norms = SQUARES + (double)gd_ceil_div(d, SQUARES * LANES_) + LOG_LANES;
    return metric == GD_COSINE ? COSINE_SHARE : (products + norms + 3) / 880;
}

#define T double
#define V gd_vf64
#define MASK gd_vi64
#define N(name) name##_f64
#define TRANSPOSE gd_transpose_f64
#define GUARDED 0
#define FOLD FOLD64
#define FOLD_OF(d) FOLD64
#define GROUP FOLD64
#define WAITING 1
/* With larger norms products might leave the range. Where norms are less than 2^-900, so that what
 * products lost to underflow counts, no square of a distance is above the least. */
#define NORM_MOST 0x1p1000
#define SQUARE_LEAST 0x1p-898
#define CENTRE_ROWS 9
#define COSINE_COLS COSINE_COLS64
#define NEAR_TIMES 2
#define NEAR_SHARE 32
#include "cdist_product_body.h"

/* ---------------------------------------------------------------- float32 */

/* The same for float32, u = 2^-24, where what is in float64 errs by nothing. 5e-7 for a root that
 * is rounded itself leaves its square 14.78 u.
 *
 * A product goes through a rounding for each dimension of its chain and one each time that chains
 * are joined in pairs: 8 and up to 4 where dimensions are few, as the fewer they are, the more
 * pairs are below a share, else 16 and 3, which take less time. Worst is one product P that is
 * nearly all of 2ab while all others round the sum one way: r roundings are r u 2P, and as 2ab is N
 * - d^2, that is (1 / share - 1) r u d^2. Rounded differences from the centre cost 2 u d sqrt(2 N),
 * or 2 sqrt(2 / share) u d^2, and the result u d^2: 14.6 in all, or 14.75 with 19 roundings. Cosine
 * distances are held to 16.8 u as they stand: at the worst those up to 1.1 are, and one of 2 errs
 * by 26 u, by differences by twice that.
 *
 * Rows whose every chain has such a product, of both signs, might lose 19 u N, or 29 u d^2. The
 * like holds of cdist_tile.c, where a square goes through two roundings, the chain's 16 and those
 * of joined folds and groups: 25 u d^2 with 128 dimensions, 32 with 1024, 56 with 4096. Roundings
 * that have no reason to agree leave far less: of normal deviates 1e-7 here and 1.9e-7 there. */
static double share_of_f32(gd_metric metric, ptrdiff_t d)
{
    (void)metric; /* 10, 11, 12 and 19 roundings */
    return d <= 32 ? 0.51 : d <= 64 ? 0.53 : d < LONG_FROM ? 0.55 : 0.65;
}

#define T float
#define V gd_vf32
#define MASK gd_vi32
#define N(name) name##_f32
#define TRANSPOSE gd_transpose_f32
#define GUARDED 1
#define FOLD 8
#define FOLD_OF(d) ((d) < LONG_FROM ? 8 : 16)
#define GROUP 128
#define WAITING 4
/* No square of a distance is infinite, nor less by a digit for products that underflow. */
#define NORM_MOST 0x1p125
#define SQUARE_LEAST 0x1p-90
#define CENTRE_ROWS 81
#define COSINE_COLS PTRDIFF_MAX
#define NEAR_TIMES 1
#define NEAR_SHARE 16
#include "cdist_product_body.h"

gd_status GD_ISA_NAME(gd_cpu_cdist_product)(gd_cdist *call, gd_error *err)
{
    const bool single = call->out.dtype == GD_F32;
    product_plan plan = (single ? plan_of_f32 : plan_of_f64)(call);
    gd_launch *const launch = &call->launch;
    if (launch->sizing) {
        const gd_status status = GD_ISA_NAME(gd_cpu_cdist_tile)(call, err);
        const size_t bytes = plan.shared_bytes + (size_t)plan.threads * plan.own_bytes;
        launch->workspace_bytes = launch->workspace_bytes > bytes ? launch->workspace_bytes : bytes;
        return status;
    }
    return (single ? run_f32 : run_f64)(call, &plan) ? GD_OK
                                                     : GD_ISA_NAME(gd_cpu_cdist_tile)(call, err);
}
