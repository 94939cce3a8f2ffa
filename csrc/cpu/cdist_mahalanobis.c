/* cdist_mahalanobis.c: sqrt((x - y)^T V (x - y)) for a symmetric matrix V.
 *
 * If V is F F^T, preparation has made rows x F of the operands, and the distance is the euclidean
 * one of those: d operations a pair instead of d * d. Where two such rows are too close for their
 * lengths, which the rows' terms say, and where they left the range, the pair is computed again
 * from the operands as given. If V is no such product, every pair is computed that way.
 *
 * The direct form is a small matrix product: the differences of MR pairs (rows x - y) times a panel
 * of NV vectors of columns of V, in registers, and each pair's products with its own difference
 * are added up. A pair fills the same lanes whatever pairs stand beside it, so its bits depend on
 * nothing else; and t and -t have the same, so that cdist(X, X) is symmetric.
 *
 * The floor is that of cdist_tile.c plus reading the result once; in direct form d * d fused
 * multiply-adds a pair. On one Zen 5 core (512-bit pipes, 3.8 GHz), float64, 1000 x 1000 x 128:
 * 3.4 ms, of which the tile takes 3.0; in direct form 353 ms, 76 % of that floor. */
#include "kernels.h"
#include "simd.h"
#include "sizes.h"
#include "team.h"

/* The register tile of the direct form: MR pairs by NV vectors of V's columns. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 8, NV = 3 };
#else
enum { MR = 4, NV = 2 };
#endif

enum {
    LANES = sizeof(gd_vf64) / sizeof(double),
    WIDTH = NV * LANES,
    PAIRS = 64, /* at a time: a panel of V is read once for all of them */
    RUN = 256,  /* results of a row that are examined at a time */
};

static ptrdiff_t panels_of(ptrdiff_t d) { return (d + WIDTH - 1) / WIDTH; }
static size_t round_up_256(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* ---------------------------------------------------------------- pairs in direct form */

/* A member's pairs that wait to be computed. */
typedef struct waiting {
    double *differences; /* PAIRS rows, zeros after column d up to whole panels */
    ptrdiff_t at[PAIRS]; /* where the results belong in out */
    int count;
    double same; /* what equal rows are apart: 0, or NaN if an element of V is no number */
} waiting;

/* Row x[i] - y[j] in float64. */
static void difference(const gd_matrix *x, ptrdiff_t i, const gd_matrix *y, ptrdiff_t j, double *t)
{
    if (x->dtype == GD_F32) {
        const float *const a = (const float *)x->data + i * x->row_stride;
        const float *const b = (const float *)y->data + j * y->row_stride;
        for (ptrdiff_t k = 0; k < x->cols; ++k)
            t[k] = (double)a[k] - (double)b[k];
    }
    else {
        const double *const a = (const double *)x->data + i * x->row_stride;
        const double *const b = (const double *)y->data + j * y->row_stride;
        for (ptrdiff_t k = 0; k < x->cols; ++k)
            t[k] = a[k] - b[k];
    }
}

static void put(const gd_matrix *out, ptrdiff_t at, double value)
{
    if (out->dtype == GD_F32)
        ((float *)out->data)[at] = (float)value;
    else
        ((double *)out->data)[at] = value;
}

/* Adds to `sums`, a vector for each of MR differences `stride` apart, what the columns of one panel
 * of V contribute to their quadratic forms. Not inlined, where registers would run out. */
static __attribute__((noinline)) void quadratic(const double *t, ptrdiff_t stride, const double *v,
                                                ptrdiff_t d, ptrdiff_t panel, double *sums)
{
    gd_vf64 acc[MR][NV] = {0};
    for (ptrdiff_t k = 0; k < d; ++k) {
        gd_vf64 column[NV];
        GD_UNROLL for (int c = 0; c < NV; ++c)
            column[c] = gd_load(v + k * WIDTH + c * LANES);
        GD_UNROLL for (int r = 0; r < MR; ++r) {
            const gd_vf64 row = gd_splat(t[r * stride + k]);
            GD_UNROLL for (int c = 0; c < NV; ++c)
                acc[r][c] = gd_fma(row, column[c], acc[r][c]);
        }
    }
    GD_UNROLL for (int c = 0; c < NV; ++c) {
        /* What stands after column d is infinity times zero where a difference is infinite. */
        gd_vi64 real;
        for (int l = 0; l < LANES; ++l)
            real[l] = panel * WIDTH + c * LANES + l < d ? -1 : 0;
        GD_UNROLL for (int r = 0; r < MR; ++r) {
            const gd_vf64 product = acc[r][c] * gd_load(t + r * stride + panel * WIDTH + c * LANES);
            gd_store(sums + r * LANES,
                     gd_load(sums + r * LANES) + (gd_vf64)((gd_vi64)product & real));
        }
    }
}

/* Computes the pairs that wait. */
static void flush(const gd_cdist *call, const double *vi, waiting *pairs)
{
    const ptrdiff_t d = call->a.cols, panels = panels_of(d), stride = panels * WIDTH;
    double sums[PAIRS * LANES] = {0};
    /* What stands in the rows after the last pair is old, but harmless: nothing reads its sums. */
    for (ptrdiff_t p = 0; p < panels; ++p)
        for (int r = 0; r < pairs->count; r += MR)
            quadratic(pairs->differences + r * stride, stride, vi + p * WIDTH * d, d, p,
                      sums + r * LANES);
    for (int r = 0; r < pairs->count; ++r) {
        double sum = 0;
        for (int l = 0; l < LANES; ++l)
            sum += sums[r * LANES + l];
        put(&call->out, pairs->at[r], __builtin_sqrt(sum));
    }
    pairs->count = 0;
}

/* Has element [i, j] computed in direct form, now or when enough pairs wait. */
static void demand(const gd_cdist *call, const double *vi, const gd_matrix *a, const gd_matrix *b,
                   ptrdiff_t i, ptrdiff_t j, waiting *pairs)
{
    const ptrdiff_t d = a->cols, at = i * call->out.row_stride + j;
    double *const t = pairs->differences + pairs->count * panels_of(d) * WIDTH;
    int64_t differ = 0, nan = 0;
    difference(a, i, b, j, t);
    for (ptrdiff_t k = 0; k < d; ++k) {
        differ |= t[k] != 0;
        nan |= t[k] != t[k];
    }
    /* Equal rows and missing data come in numbers, and need no product. */
    if (!differ || nan) {
        put(&call->out, at, nan ? (double)__builtin_nan("") : pairs->same);
    }
    else {
        pairs->at[pairs->count++] = at;
        if (pairs->count == PAIRS)
            flush(call, vi, pairs);
    }
}

/* ---------------------------------------------------------------- which pairs need it */

/* Whether a distance holds, by its square: no less than the terms, and in range. NaN, of the
 * distance or of a term, never is. */
GD_INLINE bool holds(double distance, double terms)
{
    const double square = distance * distance;
    return (square >= terms) & (square <= 0x1.fffffffffffffp+1023);
}

/* Has those of `count` elements of row i from column j on computed again that do not hold. Nearly
 * always all do, which one pass over them in vectors finds. */
#define DEFINE_EXAMINE(T, name)                                                                  \
    static void examine_##name(const gd_cdist *call, const double *vi, ptrdiff_t i, ptrdiff_t j, \
                               ptrdiff_t count, waiting *pairs)                                  \
    {                                                                                            \
        const T *const out = (const T *)call->out.data + i * call->out.row_stride + j;           \
        const double a_term = call->a_terms[i], *const b_terms = call->b_terms + j;              \
        int64_t all = 1;                                                                         \
        for (ptrdiff_t c = 0; c < count; ++c)                                                    \
            all &= holds(out[c], a_term + b_terms[c]);                                           \
        for (ptrdiff_t c = 0; !all && c < count; ++c)                                            \
            if (!holds(out[c], a_term + b_terms[c]))                                             \
                demand(call, vi, &call->a_given, &call->b_given, i, j + c, pairs);               \
    }
DEFINE_EXAMINE(float, f32)
DEFINE_EXAMINE(double, f64)
#undef DEFINE_EXAMINE

/* Examines all of row i. */
static void examine(const gd_cdist *call, const double *vi, ptrdiff_t i, waiting *pairs)
{
    const ptrdiff_t n = call->out.cols;
    for (ptrdiff_t j = 0; j < n; j += RUN) {
        const ptrdiff_t count = gd_least(RUN, n - j);
        if (call->out.dtype == GD_F32)
            examine_f32(call, vi, i, j, count, pairs);
        else
            examine_f64(call, vi, i, j, count, pairs);
    }
}

/* ---------------------------------------------------------------- launching */

/* V in panels of WIDTH columns. */
static void pack_panel(const gd_cdist *call, ptrdiff_t panel, double *vi)
{
    const ptrdiff_t d = call->a.cols;
    for (ptrdiff_t k = 0; k < d; ++k)
        for (ptrdiff_t c = 0; c < WIDTH; ++c) {
            const ptrdiff_t j = panel * WIDTH + c;
            vi[(panel * d + k) * WIDTH + c] = j < d ? call->vi[k * d + j] : 0;
        }
}

/* A call that all members work on: V in panels, and each member's pairs. */
typedef struct recomputing {
    const gd_cdist *call;
    double *vi;
    char *own;
    size_t own_bytes;
} recomputing;

static waiting *pairs_of(const recomputing *r, ptrdiff_t member)
{
    return (waiting *)(r->own + (size_t)member * r->own_bytes);
}

static void pack_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const recomputing *const r = context;
    (void)member;
    for (ptrdiff_t p = first; p < last; ++p)
        pack_panel(r->call, p, r->vi);
}

static void recompute_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const recomputing *const r = context;
    const gd_cdist *const call = r->call;
    waiting *const mine = pairs_of(r, member);
    for (ptrdiff_t i = first; i < last; ++i) {
        if (call->a_terms)
            examine(call, r->vi, i, mine);
        for (ptrdiff_t j = 0; !call->a_terms && j < call->out.cols; ++j)
            demand(call, r->vi, &call->a, &call->b, i, j, mine);
    }
}

static void flush_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const recomputing *const r = context;
    (void)member;
    for (ptrdiff_t m = first; m < last; ++m)
        flush(r->call, r->vi, pairs_of(r, m));
}

/* Computes the elements in direct form that do not hold, or all of them. */
static void recompute(const gd_cdist *call, double *vi, char *own, size_t own_bytes, int members)
{
    recomputing all = {call, vi, own, own_bytes};
    const ptrdiff_t elements = call->a.cols * call->a.cols;
    double same = 0;
    for (ptrdiff_t k = 0; k < elements; ++k)
        same += 0 * call->vi[k];
    memset(own, 0, (size_t)members * own_bytes);
    for (int m = 0; m < members; ++m) {
        waiting *const pairs = pairs_of(&all, m);
        pairs->differences = (double *)((char *)pairs + round_up_256(sizeof(waiting)));
        pairs->same = same;
    }
    gd_team_run(members, panels_of(call->a.cols), 0, pack_some, &all);
    gd_team_run(members, call->out.rows, 1 + RUN / call->out.cols, recompute_some, &all);
    gd_team_run(members, members, 1, flush_some, &all);
}

/* The workspace is the tile's first, then holds V in panels and every member's pairs. */
gd_status GD_ISA_NAME(gd_cpu_cdist_mahalanobis)(gd_cdist *call, gd_error *err)
{
    const ptrdiff_t d = call->a.cols, stride = panels_of(d) * WIDTH;
    const size_t vi_bytes = round_up_256((size_t)(stride * d) * sizeof(double));
    const size_t own_bytes =
        round_up_256(sizeof(waiting)) + round_up_256((size_t)(PAIRS * stride) * sizeof(double) + 1);
    gd_launch *const launch = &call->launch;
    int threads = gd_team_size();
    if (call->a_terms) {
        gd_cdist tile = *call;
        tile.metric = GD_EUCLIDEAN;
        const gd_status status = GD_ISA_NAME(gd_cpu_cdist_tile)(&tile, err);
        if (status != GD_OK)
            return status;
        launch->workspace_bytes = tile.launch.workspace_bytes;
    }
    else if (launch->sizing) {
        launch->workspace_bytes = 0;
    }
    if (launch->sizing) {
        const size_t bytes = vi_bytes + (size_t)threads * own_bytes;
        launch->workspace_bytes = launch->workspace_bytes > bytes ? launch->workspace_bytes : bytes;
        return GD_OK;
    }
    const double work =
        (double)call->out.rows * (double)call->out.cols * (call->a_terms ? 1 : (double)(d * d));
    threads = work < 0x1p15
                  ? 1
                  : gd_team_that_fits(launch->workspace_bytes, vi_bytes, own_bytes, threads);
    recompute(call, launch->workspace, (char *)launch->workspace + vi_bytes, own_bytes, threads);
    return GD_OK;
}
