/* minplus_tile.c: matrix products over semirings.
 *
 * Both operands are packed before anything is computed, so that the result may take the place of
 * any of them: B into panels of NV vectors of columns, A into strips of MR rows, k by k. Packing
 * tidies the elements. A NaN becomes the neutral element, -0.0 becomes 0.0, and numbers are turned
 * over where a maximum is wanted (`flip`): so five semirings need three inner loops, and a minimum
 * has one answer, whatever the order, the tiles and the number of threads.
 *
 * min_max compares float32 as integers in the order of the numbers, whose minima and maxima have
 * four pipes; AVX2, whose registers are too few for the copies that a fused sum takes, does so in
 * min_plus too where packing met no negative number.
 *
 * The floor of min_plus is a sum and a minimum for each update. On a Zen 5 core with AVX-512 they
 * share two pipes, unless the sum is fused with a product by one: two vectors a cycle then, of 8
 * float64 or 16 float32 or int32. One such core reached, of 1500**3, in 1e9 updates a second with
 * packing, other work beside it: min_plus float64 31, float32 64, int32 71. Of 2000**3: min_max
 * float32 74; or_and 1480. On Zen 4, where a vector takes a pipe for two cycles, 1000**3 takes 42
 * ms of one core's time in float64 and 20 in float32, 64 and 69 % of its floor; 55 and 26 with
 * numbers of A broadcast, which takes a pipe of the minima.
 *
 * Where additions and multiplications share two pipes, as on Intel's processors, nothing is gained
 * by the fusion, which takes a copy of a register for two of three sums; and integers of this width
 * have one pipe for minima and maxima. So there are loops for those (`shared`), which take sums as
 * they are and min_max of floats as floats. The floor is then one vector a cycle. One core of
 * Cascade Lake (2.4 GHz, its twin at work for others), ms of 1000**3 and share of that floor:
 * min_plus float64 73 (72 %), float32 36 (73 %), int32 32 (81 %), max_min float32 40; before them,
 * and with half as many rows in a block, 80, 39, 34 and 57. */
#include "kernels.h"
#include "pass.h"
#include "simd.h"
#include "sizes.h"
#include "team.h"

#include <limits.h>
#include <math.h>

/* The register tile: room is left for a row of vectors, a broadcast and a sum. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 8, NV = 3 };
#else
enum { MR = 6, NV = 2 };
#endif
/* A block of rows and a slab of words of them stay in the second cache, with the results of a chunk
 * of panels; a slab of one panel stays in the first. Every block of rows fetches all of B again, so
 * more of them are better (a fifth quicker than half as many), but for many threads. */
enum { STRIPS = 16, FEWER_STRIPS = 8, SLAB = 128, CHUNK = 6 };
#define FOR_TILE(r, v)                               \
    GD_UNROLL for (int r = 0; r < MR; ++r) GD_UNROLL \
        for (int v = 0; v < NV; ++v)

/* How a call is cut up; all but `threads` is the same when sizing and when launched. */
typedef struct product_plan {
    ptrdiff_t strips, panels, words; /* words of a line, which hold all of its elements */
    ptrdiff_t block;                 /* strips in a task, at most */
    size_t left_bytes, right_bytes, own_bytes;
    int threads;
    bool flip; /* the order of the numbers, since a maximum is wanted */
} product_plan;

/* Tasks are blocks of strips times chunks of panels. */
static ptrdiff_t blocks_of(const product_plan *plan)
{
    return (plan->strips + plan->block - 1) / plan->block;
}
static ptrdiff_t chunks_of(const product_plan *plan) { return (plan->panels + CHUNK - 1) / CHUNK; }

/* ---------------------------------------------------------------- how elements become words */

/* 0 - x and 0 + x are 0.0 for both zeros. */
#define GD_DEFINE_TIDY(T)                                                  \
    GD_INLINE T tidy_##T(T x, bool flip)                                   \
    {                                                                      \
        const T y = flip ? (T)0 - x : (T)0 + x;                            \
        return y == y ? y : (T)INFINITY;                                   \
    }                                                                      \
    GD_INLINE T untidy_##T(T y, bool flip) { return flip ? (T)0 - y : y; } \
    /* The better of an element of C, which may be NaN, and a result. */   \
    GD_INLINE T better_##T(T c, T x, bool flip) { return (flip ? c > x : c < x) ? c + (T)0 : x; }
GD_DEFINE_TIDY(float)
GD_DEFINE_TIDY(double)
#undef GD_DEFINE_TIDY

GD_INLINE int32_t better_int32_t(int32_t c, int32_t x, bool flip)
{
    return (flip ? c > x : c < x) ? c : x;
}

/* The integers in the order of the floats that are their bits, and back. */
GD_INLINE int32_t sorted(int32_t bits) { return bits ^ ((bits >> 31) & INT32_MAX); }
GD_INLINE int32_t bits_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
GD_INLINE float float_of(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* In int32 sums the neutral element is GD_I32_FAR, so that two of them can be added. */
GD_INLINE int32_t worst(bool flip) { return flip ? INT32_MIN : INT32_MAX; }
GD_INLINE bool out_of_range(int32_t x, bool flip)
{
    return (x <= -GD_I32_ADDEND_LIMIT || x >= GD_I32_ADDEND_LIMIT) && x != worst(flip);
}
GD_INLINE int32_t to_addend(int32_t x, bool flip)
{
    return x <= -GD_I32_ADDEND_LIMIT || x >= GD_I32_ADDEND_LIMIT ? GD_I32_FAR : flip ? -x : x;
}
GD_INLINE int32_t from_sum(int32_t y, bool flip)
{
    return y >= GD_I32_NO_PATH ? worst(flip) : flip ? -y : y;
}

/* ---------------------------------------------------------------- the loops */

/* A sum of infinities is NaN, which a minimum passes over. Where sums and minima of floats share
 * two pipes that fused multiply-adds leave alone, a * 1 + b is the same sum, and reads a by itself:
 * a broadcast would take one of those two pipes. Where nothing is gained by that, instructions are
 * what counts, and there is one less of them without a broadcast. */
#define ADD_AND_LESS(c, a, b, one) ((void)(one), gd_min(gd_splat(*(a)) + (b), c))
#define LARGER_AND_LESS(c, a, b, one) ((void)(one), gd_min(gd_max(gd_splat(*(a)), b), c))
#if defined(__AVX512F__)
#define FUSE_AND_LESS(c, a, b, one) gd_min(gd_fused_plus_each(b, one, a), c)
#else
#define FUSE_AND_LESS ADD_AND_LESS
#endif
#define ADD_EACH_AND_LESS(c, a, b, one) ((void)(one), gd_min(gd_plus_each(b, a), c))
#define LARGER_EACH_AND_LESS(c, a, b, one) ((void)(one), gd_min(gd_max_each(b, a), c))

#define N(name) name##_plus_f32
#define E float
#define T float
#define V gd_vf32
#define ELEMENTS 1
#define NEUTRAL INFINITY
#define ENTER(x, flip) tidy_float(x, flip)
#define LEAVE(y, flip) untidy_float(y, flip)
#define BETTER(c, x, flip) better_float(c, x, flip)
#define FOLD FUSE_AND_LESS
#if defined(__AVX512F__) || !defined(__AVX2__)
#define MARKS(x, flip) false
#define FOLD_SHARED ADD_EACH_AND_LESS
#else
#define MARKS(x, flip) ((flip) ? (x) > 0 : (x) < 0)
#define FOLD_UNMARKED(c, a, b, one) \
    ((void)(one), (gd_vf32)gd_min((gd_vi32)(gd_splat(*(a)) + (b)), (gd_vi32)(c)))
#endif
#include "minplus_tile_body.h"

#define N(name) name##_plus_f64
#define E double
#define T double
#define V gd_vf64
#define ELEMENTS 1
#define NEUTRAL (double)INFINITY
#define ENTER(x, flip) tidy_double(x, flip)
#define LEAVE(y, flip) untidy_double(y, flip)
#define MARKS(x, flip) false
#define BETTER(c, x, flip) better_double(c, x, flip)
#define FOLD FUSE_AND_LESS
#define FOLD_SHARED ADD_EACH_AND_LESS
#include "minplus_tile_body.h"

#define N(name) name##_plus_i32
#define E int32_t
#define T int32_t
#define V gd_vi32
#define ELEMENTS 1
#define NEUTRAL GD_I32_FAR
#define ENTER(x, flip) to_addend(x, flip)
#define LEAVE(y, flip) from_sum(y, flip)
#define MARKS(x, flip) out_of_range(x, flip)
#define BETTER(c, x, flip) better_int32_t(c, x, flip)
#define FOLD ADD_AND_LESS
#define FOLD_SHARED ADD_EACH_AND_LESS
#include "minplus_tile_body.h"

#define N(name) name##_larger_f32
#define E float
#define T int32_t
#define V gd_vi32
#define ELEMENTS 1
#define NEUTRAL ((int32_t)0x7f800000) /* the bits of +inf */
#define ENTER(x, flip) sorted(bits_of(tidy_float(x, flip)))
#define LEAVE(y, flip) untidy_float(float_of(sorted(y)), flip)
#define MARKS(x, flip) false
#define BETTER(c, x, flip) better_float(c, x, flip)
#define FOLD LARGER_AND_LESS
#include "minplus_tile_body.h"

/* The larger of two float32, as floats, where gd_pipes_are_shared(): integers of this width then
 * have one pipe for minima and maxima, and floats two. */
#define N(name) name##_larger_f32_shared
#define E float
#define T float
#define V gd_vf32
#define ELEMENTS 1
#define NEUTRAL INFINITY
#define ENTER(x, flip) tidy_float(x, flip)
#define LEAVE(y, flip) untidy_float(y, flip)
#define MARKS(x, flip) false
#define BETTER(c, x, flip) better_float(c, x, flip)
#define FOLD LARGER_EACH_AND_LESS
#include "minplus_tile_body.h"

#define N(name) name##_larger_f64
#define E double
#define T double
#define V gd_vf64
#define ELEMENTS 1
#define NEUTRAL (double)INFINITY
#define ENTER(x, flip) tidy_double(x, flip)
#define LEAVE(y, flip) untidy_double(y, flip)
#define MARKS(x, flip) false
#define BETTER(c, x, flip) better_double(c, x, flip)
#define FOLD LARGER_AND_LESS
#define FOLD_SHARED LARGER_EACH_AND_LESS
#include "minplus_tile_body.h"

/* The complement turns over all integers, the least of them included. */
#define N(name) name##_larger_i32
#define E int32_t
#define T int32_t
#define V gd_vi32
#define ELEMENTS 1
#define NEUTRAL INT32_MAX
#define ENTER(x, flip) ((flip) ? ~(x) : (x))
#define LEAVE(y, flip) ((flip) ? ~(y) : (y))
#define MARKS(x, flip) false
#define BETTER(c, x, flip) better_int32_t(c, x, flip)
#define FOLD LARGER_AND_LESS
#define FOLD_SHARED LARGER_EACH_AND_LESS
#include "minplus_tile_body.h"

/* A word holds 32 truths of neighbouring k. */
#define N(name) name##_or_and
#define E uint8_t
#define T int32_t
#define V gd_vi32
#define ELEMENTS 32
#define NEUTRAL 0
#define ENTER(x, flip) ((void)(flip), (x) != 0)
#define LEAVE(y, flip) ((void)(flip), (y) != 0)
#define MARKS(x, flip) false
#define BETTER(c, x, flip) ((c) != 0 || (x) != 0)
#define FOLD(c, a, b, one) ((void)(one), (c) | (gd_splat(*(a)) & (b)))
#include "minplus_tile_body.h"

/* ---------------------------------------------------------------- the launcher */

typedef product_plan plan_fn(const gd_minplus *call);
typedef gd_status run_fn(const gd_minplus *call, const product_plan *plan, bool *has_mark,
                         gd_error *err);

gd_status GD_ISA_NAME(gd_cpu_minplus_tile)(gd_minplus *call, gd_error *err)
{
#define LOOP(name)            \
    {                         \
        plan##name, run##name \
    }
    static const struct {
        plan_fn *plan;
        run_fn *run;
    } plus[] = {[GD_F32] = LOOP(_plus_f32), [GD_F64] = LOOP(_plus_f64), [GD_I32] = LOOP(_plus_i32)},
      larger[] = {
          [GD_F32] = LOOP(_larger_f32), [GD_F64] = LOOP(_larger_f64), [GD_I32] = LOOP(_larger_i32)};
#undef LOOP
    const bool adds = call->semiring == GD_MIN_PLUS || call->semiring == GD_MAX_PLUS;
    const gd_dtype dtype = call->out.dtype;
    plan_fn *plan_of = call->semiring == GD_OR_AND ? plan_or_and
                       : adds                      ? plus[dtype].plan
                                                   : larger[dtype].plan;
    run_fn *run = call->semiring == GD_OR_AND ? run_or_and
                  : adds                      ? plus[dtype].run
                                              : larger[dtype].run;
    if (!adds && dtype == GD_F32 && gd_pipes_are_shared()) {
        plan_of = plan_larger_f32_shared;
        run = run_larger_f32_shared;
    }
    product_plan plan = plan_of(call);
    gd_launch *const launch = &call->launch;
    const size_t packed = plan.left_bytes + plan.right_bytes;
    if (launch->sizing) {
        launch->workspace_bytes = packed + (size_t)plan.threads * plan.own_bytes;
        return GD_OK;
    }
    plan.threads = gd_team_that_fits(launch->workspace_bytes, packed, plan.own_bytes, plan.threads);
    plan.flip = call->semiring == GD_MAX_PLUS || call->semiring == GD_MAX_MIN;
    bool marked;
    const gd_status status = run(call, &plan, &marked, err);
    if (call->out_of_range != NULL) {
        *call->out_of_range = marked;
    }
    return status;
}
