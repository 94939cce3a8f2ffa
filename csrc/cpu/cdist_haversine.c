/* cdist_haversine.c: great-circle angles of (latitude, longitude) points in radians, by the
 * haversine formula as scikit-learn has it:
 *
 *   h = sin^2((lat1 - lat2) / 2) + cos lat1 cos lat2 sin^2((lon1 - lon2) / 2)
 *   distance = 2 asin(sqrt(h))
 *
 * in float64 for either element type. Cosines belong to points, so the C library computes them;
 * sines and the arcsine belong to pairs, and are polynomials in vectors here. The coefficients were
 * fitted at Chebyshev nodes in 60 digits; as rounded they are within 4e-17 (sine) and 6e-17.
 *
 * A vector of pairs takes some 60 instructions, 40 of them multiply-adds, and a square root: 20 to
 * 25 cycles at two pipes. On 2 Zen 5 cores (512-bit pipes, 3.8 GHz) 8000 x 8000 float64 take
 * 70 to 98 ms, 33 cycles a vector at best. */
#include "kernels.h"
#include "simd.h"
#include "store_run.h"
#include "team.h"

#include <math.h>

enum {
    LANES = sizeof(gd_vf64) / sizeof(double),
    RUN = 512, /* columns at a time: their coordinates and one row of results stay in L1 */
    ROWS = 16, /* rows in a task */
};

/* sin x / x and asin x / x are 1 + x^2 times these polynomials in x^2, for |x| <= pi / 2 and for
 * x^2 <= 1/2. */
static const double sine[] = {
    -0x1.5555555555555p-3,  0x1.1111111111107p-7,  -0x1.a01a01a018aaap-13, 0x1.71de3a54564dfp-19,
    -0x1.ae6455a1c0795p-26, 0x1.612401540ed0fp-33, -0x1.ae51366b753a9p-41, 0x1.89a43bea5b135p-49,
};
static const double arcsine[] = {
    0x1.5555555555553p-3,  0x1.3333333334c7cp-4, 0x1.6db6db6b10c8dp-5,  0x1.f1c71e32d00b0p-6,
    0x1.6e8b54c120c29p-6,  0x1.1c570429dee60p-6, 0x1.c873d5e81ccf7p-7,  0x1.88be2808f11cap-7,
    0x1.8222b9bf75ef1p-8,  0x1.151605a2bb0c2p-5, -0x1.e1310b9ecce0fp-4, 0x1.dcfd74eebb55ep-2,
    -0x1.4238f00d4810ep+0, 0x1.4968b6564c6dep+1, -0x1.deecb9d28c4c2p+1, 0x1.dda69feae7717p+1,
    -0x1.2395313e601bcp+1, 0x1.536ddca5f9b30p-1,
};

GD_INLINE gd_vf64 polynomial(const double *c, const int count, gd_vf64 x)
{
    gd_vf64 sum = gd_splat(c[count - 1]);
    GD_UNROLL for (int i = count - 2; i >= 0; --i)
        sum = gd_fma(sum, x, gd_splat(c[i]));
    return sum;
}

/* sin(x)^2 for |x| <= 2**20, with its relative accuracy kept where it nearly vanishes. */
GD_INLINE gd_vf64 sine_squared(gd_vf64 x)
{
    /* The multiple of pi nearest to x: adding and taking away 1.5 * 2**52 rounds to integers. */
    const gd_vf64 n = gd_fma(x, gd_splat(0x1.45f306dc9c883p-2), gd_splat(0x1.8p+52)) - 0x1.8p+52;
    /* pi in three parts, the first two of 33 bits: their multiples by n are exact. */
    gd_vf64 r = gd_fnma(n, gd_splat(0x1.921fb54400000p+1), x);
    r = gd_fnma(n, gd_splat(0x1.0b4611a600000p-33), r);
    r = gd_fnma(n, gd_splat(0x1.3198a2e037073p-68), r);
    const gd_vf64 square = r * r;
    const gd_vf64 s = gd_fma(r * square, polynomial(sine, 8, square), r);
    return s * s;
}

/* 2 asin(sqrt(h)). Beyond 1/2 by way of the other leg, pi - 2 asin(sqrt(1 - h)), whose 1 - h is
 * exact: one square root and one polynomial serve both. */
GD_INLINE gd_vf64 angle(gd_vf64 h)
{
    /* Rounding may leave [0, 1]. The order of the arguments lets NaN through. */
    h = gd_max(gd_splat(0.0), gd_min(gd_splat(1.0), h));
    const gd_vf64 u = gd_min(1.0 - h, h);
    const gd_vf64 y = gd_sqrt(u);
    const gd_vf64 twice = 2 * gd_fma(y * u, polynomial(arcsine, 18, u), y);
    const gd_vf64 rest = (0x1.1a62633145c07p-53 - twice) + 0x1.921fb54442d18p+1;
    const gd_vi64 far = h > 0.5;
    return (gd_vf64)(((gd_vi64)rest & far) | ((gd_vi64)twice & ~far));
}

/* Points as the kernel reads them; each array is padded to whole vectors. */
typedef struct points {
    double *latitude, *longitude, *cosine;
} points;

static ptrdiff_t padded(ptrdiff_t count) { return (count + LANES - 1) / LANES * LANES; }

static points points_at(double *memory, ptrdiff_t count)
{
    return (points){memory, memory + padded(count), memory + 2 * padded(count)};
}

/* An angle that sine_squared can take the difference of. Larger ones are brought near 0 by the C
 * library's exact reduction; only those, since that rounds them. */
static double moderate(double x) { return fabs(x) > 0x1p19 ? atan2(sin(x), cos(x)) : x; }

static void load_point(const gd_matrix *x, ptrdiff_t i, const points *to)
{
    const ptrdiff_t row = i < x->rows ? i : x->rows - 1; /* the last point fills up the padding */
    double latitude, longitude;
    if (x->dtype == GD_F32) {
        const float *p = (const float *)x->data + row * x->row_stride;
        latitude = p[0], longitude = p[1];
    }
    else {
        const double *p = (const double *)x->data + row * x->row_stride;
        latitude = p[0], longitude = p[1];
    }
    to->latitude[i] = moderate(latitude);
    to->longitude[i] = moderate(longitude);
    to->cosine[i] = cos(latitude);
}

/* One row's angles to `count` columns from `column` on, in whole vectors. */
static void angles(const points *a, ptrdiff_t row, const points *b, ptrdiff_t column,
                   ptrdiff_t count, double *out)
{
    const gd_vf64 latitude = gd_splat(a->latitude[row]), longitude = gd_splat(a->longitude[row]);
    const gd_vf64 cosine = gd_splat(a->cosine[row]);
    for (ptrdiff_t c = 0; c < count; c += LANES) {
        const ptrdiff_t j = column + c;
        const gd_vf64 s = sine_squared((latitude - gd_load(b->latitude + j)) * 0.5);
        const gd_vf64 t = sine_squared((longitude - gd_load(b->longitude + j)) * 0.5);
        gd_store(out + c, angle(gd_fma(cosine * gd_load(b->cosine + j), t, s)));
    }
}

/* Fills out[row : row + ROWS, column : column + RUN], as far as they exist. */
static void block(const gd_matrix *out, const points *a, const points *b, ptrdiff_t row,
                  ptrdiff_t column, int stream)
{
    _Alignas(64) double run[RUN];
    _Alignas(64) float narrow[RUN];
    const ptrdiff_t count = out->cols - column < RUN ? out->cols - column : RUN;
    for (const ptrdiff_t end = out->rows - row < ROWS ? out->rows : row + ROWS; row < end; ++row) {
        const ptrdiff_t at = row * out->row_stride + column;
        angles(a, row, b, column, count, run);
        if (out->dtype == GD_F32) {
            for (ptrdiff_t c = 0; c < count; ++c)
                narrow[c] = (float)run[c];
            gd_store_run((float *)out->data + at, narrow, (size_t)count * sizeof(float), stream);
        }
        else {
            gd_store_run((double *)out->data + at, run, (size_t)count * sizeof(double), stream);
        }
    }
    if (stream)
        gd_stream_end();
}

/* A call that all members work on. */
typedef struct haversine_job {
    const gd_cdist *call;
    points a, b;
    ptrdiff_t runs; /* in a row */
    int stream;
} haversine_job;

/* Points of A, then those of B. */
static void load_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const haversine_job *const job = context;
    const ptrdiff_t of_a = padded(job->call->out.rows);
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        if (i < of_a)
            load_point(&job->call->a, i, &job->a);
        else
            load_point(&job->call->b, i - of_a, &job->b);
    }
}

static void do_blocks(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const haversine_job *const job = context;
    (void)member;
    for (ptrdiff_t t = first; t < last; ++t)
        block(&job->call->out, &job->a, &job->b, t / job->runs * ROWS, t % job->runs * RUN,
              job->stream);
}

gd_status GD_ISA_NAME(gd_cpu_cdist_haversine)(gd_cdist *call, gd_error *err)
{
    (void)err;
    const gd_matrix *out = &call->out;
    const ptrdiff_t m = out->rows, n = out->cols;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)(3 * (padded(m) + padded(n))) * sizeof(double);
        return GD_OK;
    }
    const size_t size = out->dtype == GD_F32 ? sizeof(float) : sizeof(double);
    haversine_job job = {
        .call = call,
        .a = points_at(call->launch.workspace, m),
        .b = points_at((double *)call->launch.workspace + 3 * padded(m), n),
        .runs = (n + RUN - 1) / RUN,
        .stream = gd_worth_streaming(m, n, size),
    };
    const double pairs = (double)m * (double)n;
    /* Waking threads costs about as much as a few thousand pairs on one. */
    const int members = pairs > 4096 ? gd_team_size() : 1;
    gd_team_run(members, padded(m) + padded(n), 0, load_some, &job);
    gd_team_run(members, (m + ROWS - 1) / ROWS * job.runs, 1, do_blocks, &job);
    return GD_OK;
}
