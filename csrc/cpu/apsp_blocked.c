/* apsp_blocked.c: Floyd-Warshall in blocks, with the very bits of the textbook's loop
 *
 *     for k, for i, for j: if d[i,k] + d[k,j] < d[i,j]: d[i,j] = that; p[i,j] = p[k,j]
 *
 * Each round takes a block of pivots k through three phases: 1 the diagonal tile, 2 the row and the
 * column panel through it, 3 the rest, which is a product of the panels in (min, +) and nearly all
 * of the work (Venkataraman, Sahni, Mukhopadhyaya: A blocked all-pairs shortest-paths algorithm,
 * J. Experimental Algorithmics 8, 2003).
 *
 * Snapshots. The textbook's stage k reads column k and row k as stage k found them. The blocked
 * form as published reads what the whole round made of them: as short, but by other sums, which
 * round otherwise, and by other paths, whose predecessors can run in circles along edges of weight
 * 0. So every tile here records row k and column k at stage k, when they hold still (d[k,k] is 0
 * without negative cycles), and all others read the records in ascending order of k. It costs
 * nothing: phase 3 wants its operands packed anyway, and the records are that.
 *
 * Why the textbook's predecessors form trees (weights >= 0; otherwise after a shift by potentials).
 * Rounding is monotone, so d[i, p[i,j]] <= d[i,j] always, and on a circle of row i's predecessors
 * all d[i, .] are one D. Let stage k close the first circle, and let it update j on it: d[i,j] was
 * more than D. A node with predecessor j that is D since before would contradict the inequality
 * then, so it is updated too. So the whole circle is, and lies in row k's tree, which has none.
 *
 * The same holds where a path is as long as its largest weight, with "the larger of" for "+": it is
 * monotone too, and its diagonal, the least number, never changes.
 *
 * A symmetric matrix stays so, stage by stage: only tiles right of the diagonal are computed, and
 * a strip of one panel is one of the other. (Predecessors are not symmetric: with them all are.)
 *
 * Floor: an addition and a minimum for each of n**3 updates. On Zen 5 these share two pipes for
 * floats: one vector a cycle. Fused with a product by one, the same sum goes to the other two, and
 * it is two vectors a cycle (1.96 measured in registers; int32 has four pipes for both): 60 G
 * float64 or 120 G float32 and int32 updates a second on a core of 3.75 GHz. A core reaches, in
 * phase 3 out of the first cache, 1.45 vectors a cycle in floats and 1.7 in int32; n = 1000 whole,
 * in ms of one core, other work beside it, and of that floor:
 *
 *                          float64           float32           int32
 *     as it is             25.0 (67 %)       13.9 (60 %)       11.8 (71 %)
 *     symmetric            19.3              9.7               6.9
 *     with predecessors    55                28                25
 *
 * Whole calls on two cores: 18.2, 8.6 and 10.1 ms, and 158, 68 and 66 ms at n = 2000: 33 to 100
 * times as fast as SciPy's loop, which takes 611 and 6615 ms.
 *
 * On Zen 4, where a vector takes a pipe for two cycles, the floor is one a cycle, and a broadcast
 * takes a pipe of the minima: since the fused sum reads its number by itself, n = 1000 takes 46 ms
 * of one core's time in float64 (from 63), 24 in float32 (from 33), symmetric 30 and 19 (from 37
 * and 21), with predecessors 99 and 58 (from 106 and 60).
 *
 * Predecessors add a comparison and a selection: 0.88, 0.84 and 0.94 vectors a cycle in registers,
 * since comparisons into masks and minima get in each other's way. So where they are taken along
 * they cost twice the time without. Taking along the group of 8 or 16 pivots, by one comparison of
 * its least sum, costs 12 % in the first cache; but then pivots have to be found: 7 cycles an
 * element there, 15 to 35 from further away, and on a random graph of 1000 nodes 45 % of the
 * elements change in a round of 64 pivots. Measured on one core of Emerald Rapids, against 2.0
 * times the time without in float64, float32 and int32: found in each round 1.76, 2.1 and 2.05;
 * found once in the end, from records of what all pivots read (20 bytes an element), 1.70, 1.82
 * and 1.78, but 1.85, 2.0 and 1.95 while others use the memory. So it is not done.
 * With AVX2 an update of a vector is 3.6 instructions of phase 3 in floats and 3.3 in int32, among
 * them 2 of arithmetic; with predecessors 7.0 to 7.5 in float32, 6.5 to 7.0 in int32 and 8.8 to 9.5
 * in float64, whose tags have to be widened: a sum, a comparison, a minimum and a selection, a copy
 * for the selection, and half as many rows in registers to share the loads. So the least is twice
 * the time without, and 1.6 times is out of reach in this form; measured, on one core of an AMD
 * EPYC with others at work, n = 1000: 2.1 (float32), 2.2 (int32), 2.4 (float64).
 *
 * Where additions and multiplications share two pipes, as on Intel's processors, phase 3 adds
 * without fusing, which takes no copies of registers, nor broadcasts: 5 to 25 % less time in all
 * (one core of Cascade Lake, others beside it: n = 1000 float64 107 ms from 127, symmetric 52 from
 * 66, with predecessors 164 from 223; float32 51 from 64, int32 45 from 50).
 *
 * Bands of rows (gd_apsp_band) go through the same phases. One with a round's pivots among its rows
 * hands on the records of these rows; another reads them, and has no row panel to close.
 *
 * What it took beside the micro-tile: fetching the next tile of the matrix (10-25 %), larger blocks
 * for larger matrices, strides off powers of 2, predecessors of 32 bits beside doubles, which masks
 * allow (a fifth of the time). */
#include <math.h>

#include "cpu/pass.h"
#include "cpu/simd.h"
#include "kernels.h"
#include "sizes.h"
#include "team.h"

/* The micro-tile is MR rows by NV vectors, and MR_TAGS rows where predecessors double the
 * registers. Blocks are whole numbers of tiles, whatever the type. */
#if defined(__AVX512F__)
enum { MR = 8, MR_TAGS = 4, NV = 2 };
#else
enum { MR = 4, MR_TAGS = 2, NV = 2 };
#endif
enum { BLOCK_SMALL = 64, BLOCK_LARGE = 128, LARGE_FROM = 1024, PARALLEL_FROM = 160 };
/* Bands of rows begin and end at multiples of this: whole strips of any type. */
enum { BAND_STEP = 32 };

/* Where a new predecessor comes from: nowhere, the pivot's row, the coefficient. */
typedef enum gd_tags { NO_TAGS, OF_ROW, OF_COEFFICIENT } gd_tags;

#define FOR_TILE(r, v)                                 \
    GD_UNROLL for (int r = 0; r < rows; ++r) GD_UNROLL \
        for (int v = 0; v < NV; ++v)
#define WITH_TAGS(function, ...)                               \
    (tags == NO_TAGS  ? function(__VA_ARGS__, MR, NO_TAGS)     \
     : tags == OF_ROW ? function(__VA_ARGS__, MR_TAGS, OF_ROW) \
                      : function(__VA_ARGS__, MR_TAGS, OF_COEFFICIENT))

/* A hint; the address may lie past the matrix. */
GD_INLINE void fetch(const void *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead), 1);
}

/* What is put together is added, or the larger of the two counts. `one` is a vector of ones whose
 * value the compiler does not know. */
#if defined(__FMA__)
#define ADDED(a, b, one) gd_fma(a, one, b)
#else
#define ADDED(a, b, one) ADDED_WHOLE(a, b, one)
#endif
#define ADDED_WHOLE(a, b, one) ((void)(one), (a) + (b))
#define LARGER(a, b, one) ((void)(one), gd_max(a, b))
/* The same of a number in memory, `shared` where gd_pipes_are_shared(). A broadcast would take one
 * of the two pipes that minima have on Zen 4. */
#if defined(__FMA__)
#define ADDED_EACH(a, b, one, shared) \
    ((shared) ? gd_plus_each(b, a) : gd_fused_plus_each(b, one, a))
#else
#define ADDED_EACH(a, b, one, shared) ADDED_EACH_WHOLE(a, b, one, shared)
#endif
#define ADDED_EACH_WHOLE(a, b, one, shared) ((void)(one), (void)(shared), gd_plus_each(b, a))
#define LARGER_EACH(a, b, one, shared) ((void)(one), (void)(shared), gd_max_each(b, a))

#define T double
#define V gd_vf64
#define P gd_tags_f64
#define NO_PATH (double)INFINITY
#define LOAD_TAGS(p) gd_load_tags_f64(p)
#define STORE_TAGS(p, x) gd_store_tags_f64(p, x)
#define SPLAT_TAG(x) ((gd_tags_f64){0} + (x))
#define N(x) x##_f64
#define PUT ADDED
#define PUT_EACH ADDED_EACH
#include "cpu/apsp_blocked_body.h"
#define N(x) x##_larger_f64
#define PUT LARGER
#define PUT_EACH LARGER_EACH
#include "cpu/apsp_blocked_body.h"
#undef T
#undef V
#undef P
#undef NO_PATH
#undef LOAD_TAGS
#undef STORE_TAGS
#undef SPLAT_TAG

#define P gd_vi32
#define LOAD_TAGS(p) gd_load(p)
#define STORE_TAGS(p, x) gd_store(p, x)
#define SPLAT_TAG(x) gd_splat(x)

#define T float
#define V gd_vf32
#define NO_PATH INFINITY
#define N(x) x##_f32
#define PUT ADDED
#define PUT_EACH ADDED_EACH
#include "cpu/apsp_blocked_body.h"
#define N(x) x##_larger_f32
#define PUT LARGER
#define PUT_EACH LARGER_EACH
#include "cpu/apsp_blocked_body.h"
#undef T
#undef V
#undef NO_PATH

/* Without a path an entry can fall below GD_I32_FAR, but not below GD_I32_NO_PATH: skipping a strip
 * without paths changes no real length. */
#define T int32_t
#define V gd_vi32
#define NO_PATH GD_I32_NO_PATH
#define N(x) x##_i32
#define PUT ADDED_WHOLE
#define PUT_EACH ADDED_EACH_WHOLE
#include "cpu/apsp_blocked_body.h"
#define N(x) x##_larger_i32
#define PUT LARGER
#define PUT_EACH LARGER_EACH
#include "cpu/apsp_blocked_body.h"

/* The length of a path of no edge is the neutral element of what puts two together. */
static gd_status run_band(gd_apsp_band *band, const gd_apsp *call, gd_error *err)
{
    const bool adds = call->semiring == GD_MIN_PLUS;
    const double none = adds ? 0 : -(double)INFINITY;
    switch (call->dtype) {
        case GD_F32:
            return adds ? run_band_f32(band, call, INFINITY, (float)none, err)
                        : run_band_larger_f32(band, call, INFINITY, (float)none, err);
        case GD_F64:
            return adds ? run_band_f64(band, call, (double)INFINITY, none, err)
                        : run_band_larger_f64(band, call, (double)INFINITY, none, err);
        default:
            return adds ? run_band_i32(band, call, GD_I32_FAR, 0, err)
                        : run_band_larger_i32(band, call, GD_I32_FAR, -GD_I32_FAR, err);
    }
}

gd_status GD_ISA_NAME(gd_cpu_apsp_blocked)(gd_apsp *call, gd_error *err)
{
    const bool adds = call->semiring == GD_MIN_PLUS;
    if (call->band != NULL)
        return run_band(call->band, call, err);
    switch (call->dtype) {
        case GD_F32:
            return adds ? run_f32(call, err) : run_larger_f32(call, err);
        case GD_F64:
            return adds ? run_f64(call, err) : run_larger_f64(call, err);
        case GD_I32:
            return adds ? run_i32(call, err) : run_larger_i32(call, err);
        default:
            return GD_FAIL(err, GD_BAD_TYPE, "apsp takes float32, float64 and int32");
    }
}
