/* gradient_strips.c: what is asked of distances, brought back to the rows of A.
 *
 * A vector's lanes are rows of A, whose points lie transposed beside the sums; each row of B is
 * broadcast. So it is as quick for 3 dimensions as for 300. Terms are differences times what is
 * asked of a pair, and that is divided by the distance once a pair, not once a dimension; where the
 * quotient leaves the range that its digits are safe in, the pair is added by itself, difference by
 * difference.
 *
 * The order of additions goes by the rows of B alone: BLOCK terms one after the other, and these
 * sums with a second number each that keeps what rounding took (Knuth's sum of two). So no row's
 * bits depend on the rows beside it, and long sums lose no more digits than BLOCK terms do. */
#include "kernels.h"
#include "simd.h"
#include "simd_math.h"
#include "sizes.h"
#include "stack.h"
#include "team.h"

#include <float.h>
#include <math.h>

enum {
    BLOCK = 32,       /* rows of B between two sums of two */
    TILE = 8,         /* dimensions whose sums stay in registers */
    MOST_FACTORS = 8, /* of a power that is taken by products */
};

/* x^p for x >= 0 and p > 0; of floats in doubles. */
GD_INLINE gd_vf64 power_f64(gd_vf64 x, double p) { return gd_power(x, p); }
GD_INLINE gd_vf32 power_f32(gd_vf32 x, double p)
{
    typedef float half __attribute__((vector_size(GD_VEC_BYTES / 2)));
    half parts[2];
    memcpy(parts, &x, sizeof x);
    for (int i = 0; i < 2; ++i) {
        const gd_vf64 wide = __builtin_convertvector(parts[i], gd_vf64);
        parts[i] = __builtin_convertvector(power_f64(wide, p), half);
    }
    memcpy(&x, parts, sizeof x);
    return x;
}

#define T float
#define V gd_vf32
#define I gd_vi32
#define N(name) name##_f32
#define S(name) name##_gd_vf32
#define LEAST (FLT_MIN * 0x1p24f)
#define SIGN INT32_MIN
#include "gradient_strips_body.h"

#define T double
#define V gd_vf64
#define I gd_vi64
#define N(name) name##_f64
#define S(name) name##_gd_vf64
#define LEAST (DBL_MIN * 0x1p53)
#define SIGN INT64_MIN
#include "gradient_strips_body.h"

typedef struct strips_job {
    const gd_gradient *call;
    ptrdiff_t first, strips; /* the item to begin with, and how many there are of a matrix */
    size_t room;             /* bytes of each member */
} strips_job;

static void do_strips(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const strips_job *const job = context;
    const gd_gradient *const call = job->call;
    void *const room = (char *)call->launch.workspace + (size_t)member * job->room;
    for (ptrdiff_t item = job->first + first; item < job->first + last; ++item) {
        const ptrdiff_t number = item / job->strips, strip = item % job->strips;
        (call->out.first.dtype == GD_F32 ? do_strip_f32 : do_strip_f64)(call, number, strip, room);
    }
}

gd_status GD_ISA_NAME(gd_cpu_gradient_strips)(gd_gradient *call, gd_error *err)
{
    enum { UNSEEN = 1 << 25 };
    const gd_matrix *const a = &call->a.first;
    const double steps =
        (double)GD_VEC_BYTES / 4 * (double)call->b.first.rows * (double)(a->cols + 4);
    const ptrdiff_t lanes =
        GD_VEC_BYTES / (ptrdiff_t)(a->dtype == GD_F32 ? sizeof(float) : sizeof(double));
    strips_job job = {.call = call, .strips = gd_ceil_div(a->rows, lanes)};
    const ptrdiff_t items = job.strips * call->count;
    const int members = steps * (double)items < 0x1p17 ? 1 : gd_team_size();
    const ptrdiff_t most = 1 + (ptrdiff_t)((double)UNSEEN / steps);
    job.room = (size_t)(3 * a->cols + 2 * BLOCK) * GD_VEC_BYTES;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)members * job.room;
        return GD_OK;
    }
    for (; job.first < items; job.first += most) {
        const ptrdiff_t count = gd_least(most, items - job.first);
        gd_team_run(members, count, 0, do_strips, &job);
        const gd_status status =
            gd_pass(&call->launch, (double)(job.first + count) / (double)items, err);
        if (status != GD_OK) {
            return status;
        }
    }
    return GD_OK;
}
