/* cdist_sums.c: distances that are a function of one to four sums over the dimensions, with or
 * without weights of the columns: what cdist_tile.c has no room for.
 *
 * Rows and columns' points are packed as float64, whatever the operands are, so that float32 needs
 * no guard; the result is rounded once. A register tile of rows times vectors of columns' points is
 * as large as the sums leave registers for, and a single row where a term is a hundred
 * instructions. The sums' order (metric_terms.h) is the same in every lane and every tile, so the
 * tiling cannot change a result. Sums of a run of columns wait in L1 until a loop of their own
 * makes distances of them.
 *
 * The floor is arithmetic: per vector of terms, one division for canberra, some 100 instructions
 * for a power (minkowski with any p) or an entropy. On one Zen 5 core (512-bit pipes, 3.8 GHz),
 * 2000 x 2000 x 64 float64, in milliseconds and cycles a vector of 8 terms: weighted euclidean 10.6
 * (1.3), hamming 11 (1.3), minkowski p = 3 19 (2.3), braycurtis 20 (2.4), weighted jaccard 33
 * (3.9), kl_divergence 136 (16), jensenshannon 383 (45), minkowski p = 2.5 458 (54, less than two
 * instructions a cycle: chains are the limit).
 *
 * Canberra was at the divider's pace, 4.3 cycles a vector there, and 16 where the divider is slower
 * (Emerald Rapids). Two quotients are now one, and with AVX-512 that is a guess with two
 * corrections: 7.6 cycles a vector on the latter. With two lanes, pairs take 1.6 times as long.
 *
 * In a periodic box (box.h) packed coordinates are images near 0, and terms are of how far these
 * are apart, which takes five instructions where a difference takes one. Points of few dimensions
 * are for cdist_narrow.c there, with the same bits. */
#include "box.h"
#include "cdist_narrow.h"
#include "kernels.h"
#include "metric_terms.h"
#include "minkowski_pair.h"
#include "pack.h"
#include "simd_math.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

#include <math.h>

enum {
    LANES = sizeof(gd_vf64) / sizeof(double),
    MR = 4,                    /* rows packed together */
    NV = 2,                    /* vectors of columns' points packed together: a panel */
    WIDTH = NV * LANES,        /* of a panel */
    PANELS = 32,               /* whose sums wait together */
    BLOCK = 64,                /* rows in a task, at most */
    PAIRS = GD_VEC_BYTES > 16, /* of ratios: two doubles are divided in less than it takes */
};

/* Between these, the product of two denominators leaves the residue of a quotient its bits. */
#define RATIOS_SAFE_MIN 0x1p-800
#define RATIOS_SAFE_MAX 0x1p+900

/* ---------------------------------------------------------------- sums */

#define gd_add_product(acc, x, y) gd_fma(x, y, acc)
#define gd_product(x, y) ((x) * (y))
#define gd_add_abs(acc, t) ((acc) + gd_abs(t))
#define gd_root(x) gd_sqrt(x)
#define gd_unequal(x, y) one_where((x) != (y))
#define gd_true(x) one_where((x) != 0)

GD_INLINE gd_vf64 one_where(gd_vi64 held) { return (gd_vf64)(held & (gd_vi64)gd_splat(1.0)); }

/* A denominator >= 0, or 1 for a ratio that is to be 0. */
GD_INLINE gd_vf64 denominator(gd_vf64 y)
{
#if defined(__AVX512F__)
    const __mmask8 zero = _mm512_cmp_pd_mask((__m512d)y, _mm512_setzero_pd(), _CMP_EQ_OQ);
    return (gd_vf64)_mm512_mask_mov_pd((__m512d)y, zero, _mm512_set1_pd(1));
#else
    return (gd_vf64)((gd_vi64)y | (gd_vi64)one_where(y == 0));
#endif
}

/* x / y where x is 0 if y is. */
GD_INLINE gd_vf64 gd_ratio(gd_vf64 x, gd_vf64 y) { return x / denominator(y); }

/* x0 / y0 + x1 / y1, 0 <= x <= y, each 0 where its y is, by one division: where the product of both
 * y would be too large or too small, each is divided for itself, and no lane sees what the others
 * do. The divider of some processors takes 16 cycles for 8 doubles; two corrections of a guess of
 * 14 bits take 4. */
GD_INLINE gd_vf64 two_ratios(gd_vf64 x0, gd_vf64 y0, gd_vf64 x1, gd_vf64 y1)
{
    y0 = denominator(y0);
    y1 = denominator(y1);
    const gd_vf64 x = gd_add_product(x0 * y1, x1, y0), y = y0 * y1;
#if defined(__AVX512F__)
    const gd_vf64 guess = (gd_vf64)_mm512_rcp14_pd((__m512d)y);
    const gd_vf64 inverse = gd_fma(guess, gd_fnma(y, guess, gd_splat(1.0)), guess);
    const gd_vf64 near = x * inverse, sum = gd_fma(gd_fnma(y, near, x), inverse, near);
    const __mmask8 above =
        _mm512_cmp_pd_mask((__m512d)y, _mm512_set1_pd(RATIOS_SAFE_MIN), _CMP_GE_OQ);
    const __mmask8 fine =
        _mm512_mask_cmp_pd_mask(above, (__m512d)y, _mm512_set1_pd(RATIOS_SAFE_MAX), _CMP_LE_OQ);
    if (!_kortestc_mask8_u8(fine, fine))
        return (gd_vf64)_mm512_mask_mov_pd((__m512d)(x0 / y0 + x1 / y1), fine, (__m512d)sum);
    return sum;
#else
    const gd_vi64 fine = (y >= RATIOS_SAFE_MIN) & (y <= RATIOS_SAFE_MAX);
    const gd_vf64 sum = x / y;
    if (gd_any((gd_vi32)~fine))
        return (gd_vf64)(((gd_vi64)sum & fine) | ((gd_vi64)(x0 / y0 + x1 / y1) & ~fine));
    return sum;
#endif
}

#define GD_WEIGH(x) (weighted ? (x) * weight : (x))

/* sum plus 1 where x and y differ, without a vector of ones and zeros. */
GD_INLINE gd_vf64 count_unequal(gd_vf64 sum, gd_vf64 x, gd_vf64 y)
{
#if defined(__AVX512F__)
    const __mmask8 unequal = _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_NEQ_UQ);
    return (gd_vf64)_mm512_mask_add_pd((__m512d)sum, unequal, (__m512d)sum, _mm512_set1_pd(1));
#else
    return sum + gd_unequal(x, y);
#endif
}

GD_INLINE void add_term(const enum gd_sums kind, const bool weighted, gd_vf64 *s, gd_vf64 a,
                        gd_vf64 b, double weight, double p)
{
    if (kind == GD_SUM_UNEQUAL && !weighted) {
        s[0] = count_unequal(s[0], a, b);
        return;
    }
    switch (kind) {
#define ADD(name, count, ...)   \
    case GD_SUM_##name:         \
        GD_ADD_##name(s, a, b); \
        break;
        GD_SUMS(ADD)
#undef ADD
        case GD_NO_SUMS: /* the table keeps such metrics away */
            break;
    }
}

GD_INLINE gd_vf64 joined(const enum gd_sums kind, gd_vf64 total, gd_vf64 sum)
{
    return kind == GD_SUM_LARGEST ? gd_max_abs(total, sum) : total + sum;
}

/* Rows and vectors of a register tile. A long term fills the registers by itself: two vectors are
 * enough to overlap. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { ACCUMULATORS = 16 };
#else
enum { ACCUMULATORS = 8 };
#endif
#define IS_LONG(kind) \
    ((kind) == GD_SUM_POWERS || (kind) == GD_SUM_ENTROPY || (kind) == GD_SUM_RELATIVE_ENTROPY)
#define TILE_VECTORS(count) (ACCUMULATORS / (count) >= NV * MR ? NV : 1)
#define TILE_ROWS(kind, count)                                                    \
    (IS_LONG(kind)                                       ? 1                      \
     : ACCUMULATORS / (count) / TILE_VECTORS(count) < MR ? ACCUMULATORS / (count) \
                                                         : MR)

#define FOR_TILE(r, v)                                      \
    GD_UNROLL for (int r = 0; r < tile_rows; ++r) GD_UNROLL \
        for (int v = 0; v < tile_vectors; ++v)
#define FOR_SUMS(r, v, i)     \
    FOR_TILE (r, v) GD_UNROLL \
        for (int i = 0; i < count; ++i)

/* Where sums go: sum i of row r and column c is at[i * plane + r * stride + c]. */
typedef struct sums_at {
    double *at;
    ptrdiff_t plane, stride;
} sums_at;

/* Computes the sums of one register tile over the call's dimensions. a and b are packed, with the
 * dimension as the slow index. */
GD_INLINE void tile(const enum gd_sums kind, const int count, const bool weighted,
                    const bool periodic, const int tile_rows, const int tile_vectors,
                    const double *a, const double *b, const gd_cdist *call, sums_at to)
{
    const ptrdiff_t d = call->a.cols;
    gd_vf64 sum[MR][NV][4], group[MR][NV][4], total[MR][NV][4];
    FOR_SUMS (r, v, i)
        group[r][v][i] = total[r][v][i] = (gd_vf64){0};
    for (ptrdiff_t k = 0; k < d;) {
        const ptrdiff_t end = k + GD_FOLD < d ? k + GD_FOLD : d;
        FOR_SUMS (r, v, i)
            sum[r][v][i] = (gd_vf64){0};
        for (; PAIRS && kind == GD_SUM_RATIOS && !weighted && k + 2 <= end; k += 2) {
            gd_vf64 column[2][NV];
            GD_UNROLL for (int v = 0; v < 2 * tile_vectors; ++v)
                column[v % 2][v / 2] = gd_load(b + (k + v % 2) * WIDTH + v / 2 * LANES);
            FOR_TILE (r, v) {
                const gd_vf64 a0 = gd_splat(a[k * MR + r]), a1 = gd_splat(a[(k + 1) * MR + r]);
                const gd_vf64 b0 = column[0][v], b1 = column[1][v];
                sum[r][v][0] += two_ratios(gd_abs(a0 - b0), gd_abs(a0) + gd_abs(b0),
                                           gd_abs(a1 - b1), gd_abs(a1) + gd_abs(b1));
            }
        }
        for (; k < end; ++k) {
            const double weight = weighted ? call->weights[k] : 1;
            const gd_vf64 half = gd_splat(periodic ? call->box[k] / 2 : 0.0);
            gd_vf64 column[NV];
            GD_UNROLL for (int v = 0; v < tile_vectors; ++v)
                column[v] = gd_load(b + k * WIDTH + v * LANES);
            FOR_TILE (r, v) {
                const gd_vf64 x = gd_splat(a[k * MR + r]), y = column[v];
                if (periodic)
                    add_term(kind, weighted, sum[r][v],
                             gd_apart(x, half - gd_abs(x), y, half - gd_abs(y)), (gd_vf64){0},
                             weight, call->p);
                else
                    add_term(kind, weighted, sum[r][v], x, y, weight, call->p);
            }
        }
        FOR_SUMS (r, v, i)
            group[r][v][i] = joined(kind, group[r][v][i], sum[r][v][i]);
        if (k % GD_GROUP == 0 || k == d)
            FOR_SUMS (r, v, i) {
                total[r][v][i] = joined(kind, total[r][v][i], group[r][v][i]);
                group[r][v][i] = (gd_vf64){0};
            }
    }
    FOR_SUMS (r, v, i)
        gd_store(to.at + i * to.plane + r * to.stride + v * LANES, total[r][v][i]);
}

typedef void tiles_fn(const double *a, const double *b, const gd_cdist *call, sums_at to);

/* One function per kind of sums, with and without weights, for MR rows and a panel; and likewise in
 * a box. */
#define DEFINE_AS(name, suffix, kind, count, weighted, periodic)                                   \
    static void name##suffix(const double *a, const double *b, const gd_cdist *call, sums_at to)   \
    {                                                                                              \
        for (int r = 0; r < MR; r += TILE_ROWS(kind, count))                                       \
            for (int v = 0; v < NV; v += TILE_VECTORS(count)) {                                    \
                const sums_at at = {to.at + r * to.stride + v * LANES, to.plane, to.stride};       \
                tile(kind, count, weighted, periodic, TILE_ROWS(kind, count), TILE_VECTORS(count), \
                     a + r, b + v * LANES, call, at);                                              \
            }                                                                                      \
    }
#define DEFINE(name, count, ...)                                     \
    DEFINE_AS(name, _unweighted, GD_SUM_##name, count, false, false) \
    DEFINE_AS(name, _weighted, GD_SUM_##name, count, true, false)
#define DEFINE_IN_BOX(name, count, ...)                         \
    DEFINE_AS(name, _in_box, GD_SUM_##name, count, false, true) \
    DEFINE_AS(name, _weighted_in_box, GD_SUM_##name, count, true, true)
GD_SUMS(DEFINE)
GD_SUMS_OF_DIFFERENCES(DEFINE_IN_BOX)
#define ENTRY(name, count, ...) [GD_SUM_##name] = {name##_unweighted, name##_weighted},
#define ENTRY_IN_BOX(name, count, ...) [GD_SUM_##name] = {name##_in_box, name##_weighted_in_box},
static tiles_fn *const tiles[][2] = {GD_SUMS(ENTRY)};
static tiles_fn *const tiles_in_box[][2] = {GD_SUMS_OF_DIFFERENCES(ENTRY_IN_BOX)};
#undef DEFINE
#undef DEFINE_IN_BOX
#undef DEFINE_AS
#undef ENTRY
#undef ENTRY_IN_BOX

static ptrdiff_t count_of(enum gd_sums kind)
{
#define COUNT(name, count, ...) [GD_SUM_##name] = count,
    static const unsigned char counts[] = {GD_SUMS(COUNT)};
#undef COUNT
    return counts[kind];
}

/* ---------------------------------------------------------------- from sums to results */

GD_DEFINE_FINISH(GD_INLINE, finished, double, sqrt, cbrt, pow)
GD_DEFINE_FINISH_TRUTHS(GD_INLINE, finished_truths, double)

/* Makes distances of `count` sums, in place, for a metric that is a constant: the loop is then
 * vectorised. `terms` are the columns' (NULL for none), `row` is the row's. */
GD_INLINE void finish_as(const gd_metric metric, const gd_cdist *call, double *s, ptrdiff_t plane,
                         ptrdiff_t count, const double *terms, double row)
{
    const bool two = metric == GD_BRAYCURTIS || metric == GD_DICE;
    for (ptrdiff_t c = 0; c < count; ++c) {
        const double sums[] = {s[c], two ? s[c + plane] : 0};
        s[c] = finished(metric, sums, call->p, call->weight_sum, call->scale,
                        terms != NULL ? row + terms[c] : 0);
    }
}
GD_INLINE void finish_truths_as(const gd_metric metric, double *s, ptrdiff_t plane, ptrdiff_t count)
{
    for (ptrdiff_t c = 0; c < count; ++c)
        s[c] = finished_truths(metric, s[c], s[c + plane], s[c + 2 * plane], s[c + 3 * plane]);
}

/* Makes distances of the sums of one row. Sums fill whole vectors: whole vectors of roots may be
 * taken of them. */
static void finish(const gd_cdist *call, enum gd_sums kind, double *s, ptrdiff_t plane,
                   ptrdiff_t count, const double *terms, double row)
{
#define FINISH(metric)                                        \
    case metric:                                              \
        finish_as(metric, call, s, plane, count, terms, row); \
        break;
#define FINISH_TRUTHS(metric)                      \
    case metric:                                   \
        finish_truths_as(metric, s, plane, count); \
        break;
    if (kind == GD_SUM_TRUTHS) {
        switch (call->metric) {
            FINISH_TRUTHS(GD_JACCARD)
            FINISH_TRUTHS(GD_KULCZYNSKI1)
            FINISH_TRUTHS(GD_ROGERSTANIMOTO)
            FINISH_TRUTHS(GD_RUSSELLRAO)
            FINISH_TRUTHS(GD_SOKALSNEATH)
            FINISH_TRUTHS(GD_YULE)
            default:
                break;
        }
        return;
    }
    switch (call->metric) {
        FINISH(GD_EUCLIDEAN)
        FINISH(GD_BRAYCURTIS)
        FINISH(GD_DICE)
        FINISH(GD_HAMMING)
        FINISH(GD_JENSENSHANNON)
        FINISH(GD_HELLINGER)
        case GD_MINKOWSKI:
            for (ptrdiff_t c = 0; c < count; c += LANES) {
                const gd_vf64 sum = gd_load(s + c);
                gd_store(s + c, GD_FINISH_MINKOWSKI(sum, call->p, gd_sqrt, gd_cube_root, gd_power));
            }
            break;
        default: /* the sum is the distance */
            break;
    }
#undef FINISH
#undef FINISH_TRUTHS
}

/* ---------------------------------------------------------------- the whole matrix */

GD_DEFINE_PACK(pack_f32, float, double)
GD_DEFINE_PACK_VECTORS(pack_f64, double, gd_vf64, gd_transpose_f64, gd_vf64, gd_transpose_f64)

static void pack(const gd_cdist *call, const gd_matrix *x, ptrdiff_t from, ptrdiff_t width,
                 double *to)
{
    (x->dtype == GD_F32 ? pack_f32 : pack_f64)(x, from, width, to);
    for (ptrdiff_t k = 0; call->box != NULL && k < x->cols; ++k)
        for (ptrdiff_t r = 0; r < width; ++r)
            to[k * width + r] = gd_wrapped(to[k * width + r], call->box[k]);
}

/* How a call is cut up. Every part but `threads` is the same when sizing and when launched. */
typedef struct sums_plan {
    enum gd_sums kind;
    ptrdiff_t panels;        /* of WIDTH columns' points */
    ptrdiff_t rows;          /* in a task: they stay in L2 */
    ptrdiff_t chunk;         /* panels that a block of rows passes over at a time; they do too */
    ptrdiff_t blocks, spans; /* tasks are blocks of rows by spans of panels */
    int threads;
    bool stream;         /* store past the caches */
    size_t shared_bytes; /* packed columns' points */
    size_t own_bytes;    /* a thread's packed rows and waiting sums */
} sums_plan;

static size_t round_up_256(ptrdiff_t doubles)
{
    return ((size_t)doubles * sizeof(double) + 255) / 256 * 256;
}

static sums_plan plan_of(const gd_cdist *call)
{
    const ptrdiff_t m = call->out.rows, n = call->out.cols, d = call->a.cols;
    const ptrdiff_t bytes = gd_most(d, 1) * (ptrdiff_t)sizeof(double);
    sums_plan plan = {.kind = GD_SUMS_OF(call->metric, call->weights != NULL, call->p),
                      .panels = gd_ceil_div(n, WIDTH)};

    /* Rows may fill 256 KB of a second-level cache of 1 MB, and panels 256 KB. */
    plan.rows = gd_least(gd_ceil_div(m, MR) * MR,
                         gd_most(1, gd_least(BLOCK, (256 << 10) / bytes) / MR) * MR);
    plan.chunk = gd_most(1, gd_least(PANELS, (256 << 10) / (bytes * WIDTH)));

    /* Waking threads costs about as much as 2**16 terms on one. */
    const double pairs = (double)m * (double)n;
    plan.threads = pairs * (double)(d + 8) < 0x1p16 ? 1 : gd_team_size();
    plan.blocks = gd_ceil_div(m, plan.rows);
    plan.spans = plan.threads == 1
                     ? 1
                     : gd_least(plan.panels, gd_ceil_div(4 * (ptrdiff_t)plan.threads, plan.blocks));
    plan.stream =
        gd_worth_streaming(m, n, call->out.dtype == GD_F32 ? sizeof(float) : sizeof(double));
    plan.shared_bytes = round_up_256(plan.panels * WIDTH * d);
    plan.own_bytes = round_up_256(plan.rows * d + count_of(plan.kind) * MR * plan.chunk * WIDTH);
    return plan;
}

/* Computes those of a row's distances again whose sums were not good: `sums`, before they were
 * finished. A column without weight may have made one NaN. */
static void recompute_powers(const gd_cdist *call, const double *sums, double *distances,
                             ptrdiff_t count, ptrdiff_t row, ptrdiff_t column)
{
    const float *const a = (const float *)call->a.data + row * call->a.row_stride;
    const float *const b = (const float *)call->b.data + column * call->b.row_stride;
    for (ptrdiff_t c = 0; c < count; ++c)
        if (!gd_powers_are_safe(sums[c]))
            distances[c] = gd_scaled_minkowski(a, b + c * call->b.row_stride, 1, call->a.cols,
                                               call->weights, call->box, call->p);
}

/* Finishes one row's waiting sums, from `column` on, and stores them. */
static void store_row(const gd_cdist *call, const sums_plan *plan, sums_at sums, ptrdiff_t row,
                      ptrdiff_t column)
{
    const gd_matrix *out = &call->out;
    const ptrdiff_t count = gd_least(sums.stride, out->cols - column);
    const ptrdiff_t at = row * out->row_stride + column;
    const bool terms = call->a_terms != NULL;
    const bool recomputes = plan->kind == GD_SUM_POWERS && out->dtype == GD_F32;
    double unfinished[PANELS * WIDTH];
    if (recomputes)
        memcpy(unfinished, sums.at, (size_t)count * sizeof(double));
    finish(call, plan->kind, sums.at, sums.plane, count, terms ? call->b_terms + column : NULL,
           terms ? call->a_terms[row] : 0);
    if (recomputes)
        recompute_powers(call, unfinished, sums.at, count, row, column);
    if (out->dtype == GD_F32) {
        _Alignas(64) float narrow[PANELS * WIDTH];
        for (ptrdiff_t c = 0; c < count; ++c)
            narrow[c] = (float)sums.at[c];
        gd_store_run((float *)out->data + at, narrow, (size_t)count * sizeof(float), plan->stream);
    }
    else {
        gd_store_run((double *)out->data + at, sums.at, (size_t)count * sizeof(double),
                     plan->stream);
    }
}

/* Fills out[row : row + plan->rows, the columns of panels [panel, panels_end)]. */
static void block(const gd_cdist *call, const sums_plan *plan, double *own, ptrdiff_t row,
                  ptrdiff_t panel, ptrdiff_t panels_end)
{
    const ptrdiff_t d = call->a.cols, rows = gd_least(plan->rows, call->a.rows - row);
    const double *const packed = call->launch.workspace;
    tiles_fn *const sum =
        (call->box != NULL ? tiles_in_box : tiles)[plan->kind][call->weights != NULL];
    const ptrdiff_t stride = plan->chunk * WIDTH;
    const sums_at sums = {own + plan->rows * d, MR * stride, stride};
    for (ptrdiff_t r = 0; r < rows; r += MR)
        pack(call, &call->a, row + r, MR, own + r * d);

    for (; panel < panels_end; panel += plan->chunk) {
        const ptrdiff_t end = gd_least(panel + plan->chunk, panels_end);
        for (ptrdiff_t r = 0; r < rows; r += MR) {
            for (ptrdiff_t p = panel; p < end; ++p) {
                const sums_at at = {sums.at + (p - panel) * WIDTH, sums.plane, stride};
                sum(own + r * d, packed + p * WIDTH * d, call, at);
            }
            for (ptrdiff_t i = 0; i < gd_least(MR, rows - r); ++i) {
                const sums_at at = {sums.at + i * stride, sums.plane, (end - panel) * WIDTH};
                store_row(call, plan, at, row + r + i, panel * WIDTH);
            }
        }
    }
    if (plan->stream)
        gd_stream_end();
}

/* A call that all members work on. */
typedef struct sums_job {
    const gd_cdist *call;
    const sums_plan *plan;
} sums_job;

static void pack_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const gd_cdist *const call = ((const sums_job *)context)->call;
    (void)member;
    for (ptrdiff_t p = first; p < last; ++p)
        pack(call, &call->b, p * WIDTH, WIDTH,
             (double *)call->launch.workspace + p * WIDTH * call->a.cols);
}

static void do_tasks(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const sums_job *const job = context;
    const sums_plan *const plan = job->plan;
    double *const own = (double *)((char *)job->call->launch.workspace + plan->shared_bytes +
                                   (size_t)member * plan->own_bytes);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t span = t % plan->spans;
        block(job->call, plan, own, t / plan->spans * plan->rows, plan->panels * span / plan->spans,
              plan->panels * (span + 1) / plan->spans);
    }
}

gd_status GD_ISA_NAME(gd_cpu_cdist_sums)(gd_cdist *call, gd_error *err)
{
    (void)err;
    if (GD_ISA_NAME(gd_cpu_cdist_is_narrow_in_box)(call))
        return GD_ISA_NAME(gd_cpu_cdist_narrow)(call);
    sums_plan plan = plan_of(call);
    gd_launch *launch = &call->launch;
    if (launch->sizing) {
        launch->workspace_bytes = plan.shared_bytes + (size_t)plan.threads * plan.own_bytes;
        return GD_OK;
    }
    const int threads =
        gd_team_that_fits(launch->workspace_bytes, plan.shared_bytes, plan.own_bytes, plan.threads);
    sums_job job = {call, &plan};
    gd_team_run(threads, plan.panels, 0, pack_some, &job);
    gd_team_run(threads, plan.blocks * plan.spans, 1, do_tasks, &job);
    return GD_OK;
}
