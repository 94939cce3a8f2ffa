/* naive_band.c: stages of Floyd-Warshall on a band of rows, as the textbook has them. On the CPU
 * the matrix is in place already and nobody needs bands; this is what checks, on any machine, the
 * way that csrc/run_apsp_far.c sends bands. Its multiple of rows is small, so that small matrices
 * have many bands. */
#include <math.h>
#include <string.h>

#include "gpudist.h"

enum { STEP = 16 };

#define ADDED(a, b) ((a) + (b))
#define ADDED_I32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b))) /* wraps on negative cycles */
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* One function for each type and semiring. Stage k: row i offers itself the ways over k. */
#define BAND(name, T, PUT)                                                          \
    static void name(const gd_apsp_band *c, ptrdiff_t k, T far, T loop)             \
    {                                                                               \
        const ptrdiff_t padded = c->padded, pivot = c->pivot + k;                   \
        T *const dist = c->dist, *const row = (T *)c->snapshots + k * padded;       \
        int32_t *const preds = (int32_t *)((T *)c->snapshots + c->pivots * padded); \
        int32_t *const via = preds + k * padded;                                    \
        for (ptrdiff_t i = 0; k == 0 && i < c->rows; ++i) {                         \
            const ptrdiff_t real = c->first + i < c->n ? c->n : 0;                  \
            for (ptrdiff_t j = real; j < padded; ++j) {                             \
                dist[i * padded + j] = j == c->first + i ? loop : far;              \
                if (c->pred != NULL) {                                              \
                    c->pred[i * padded + j] = GD_NO_PREDECESSOR;                    \
                }                                                                   \
            }                                                                       \
        }                                                                           \
        if (pivot >= c->first && pivot < c->first + c->rows) {                      \
            const ptrdiff_t at = (pivot - c->first) * padded;                       \
            memcpy(row, dist + at, (size_t)padded * sizeof(T));                     \
            if (c->pred != NULL) {                                                  \
                memcpy(via, c->pred + at, (size_t)padded * sizeof(int32_t));        \
            }                                                                       \
        }                                                                           \
        for (ptrdiff_t i = 0; i < c->rows; ++i) {                                   \
            T *const d = dist + i * padded;                                         \
            const T there = d[pivot];                                               \
            for (ptrdiff_t j = 0; j < padded; ++j) {                                \
                const T way = PUT(there, row[j]);                                   \
                if (way < d[j]) {                                                   \
                    d[j] = way;                                                     \
                    if (c->pred != NULL) {                                          \
                        c->pred[i * padded + j] = via[j];                           \
                    }                                                               \
                }                                                                   \
            }                                                                       \
        }                                                                           \
    }
BAND(add_f32, float, ADDED)
BAND(add_f64, double, ADDED)
BAND(add_i32, int32_t, ADDED_I32)
BAND(larger_f32, float, LARGER)
BAND(larger_f64, double, LARGER)
BAND(larger_i32, int32_t, LARGER)

static void stage(const gd_apsp_band *call, ptrdiff_t k)
{
    const bool adds = call->semiring == GD_MIN_PLUS;
    switch (call->dtype) {
        case GD_F32:
            adds ? add_f32(call, k, INFINITY, 0) : larger_f32(call, k, INFINITY, -INFINITY);
            break;
        case GD_F64:
            adds ? add_f64(call, k, (double)INFINITY, 0)
                 : larger_f64(call, k, (double)INFINITY, -(double)INFINITY);
            break;
        default:
            adds ? add_i32(call, k, GD_I32_FAR, 0) : larger_i32(call, k, GD_I32_FAR, -GD_I32_FAR);
    }
}

gd_status gd_cpu_apsp_band(gd_apsp_band *call, gd_error *err)
{
    const size_t element = call->dtype == GD_F64 ? sizeof(double) : sizeof(float);
    gd_status status = GD_OK;
    if (call->launch.sizing) {
        call->step = STEP;
        call->padded = (call->n + STEP - 1) / STEP * STEP;
        call->snapshot_bytes = (size_t)call->pivots * (size_t)call->padded *
                               (element + (call->pred != NULL ? sizeof(int32_t) : 0));
        call->launch.workspace_bytes = 0;
        return GD_OK;
    }
    for (ptrdiff_t k = 0; k < call->pivots && status == GD_OK; ++k) {
        const double part = (double)(k + 1) / (double)call->pivots;
        stage(call, k);
        status = gd_pass(&call->launch, call->done + call->share * part, err);
    }
    return status;
}
