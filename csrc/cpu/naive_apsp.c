/* naive_apsp.c: the loop of Floyd and Warshall as one would write it down, which is what the
 * speed-ups of the ladder apsp are counted from. One thread; the branch in the innermost loop is
 * the study's, and keeps the compiler from making vectors of it. */
#include "kernels.h"

#define DEFINE_LOOP(name, T)                                                   \
    static gd_status name(const gd_apsp *call, gd_error *err)                  \
    {                                                                          \
        const ptrdiff_t n = call->n;                                           \
        T *d = call->dist;                                                     \
        gd_status status = GD_OK;                                              \
        for (ptrdiff_t k = 0; status == GD_OK && k < n; ++k) {                 \
            for (ptrdiff_t i = 0; i < n; ++i) {                                \
                for (ptrdiff_t j = 0; j < n; ++j) {                            \
                    if (d[i * n + k] + d[k * n + j] < d[i * n + j]) {          \
                        d[i * n + j] = d[i * n + k] + d[k * n + j];            \
                    }                                                          \
                }                                                              \
            }                                                                  \
            status = gd_pass(&call->launch, (double)(k + 1) / (double)n, err); \
        }                                                                      \
        return status;                                                         \
    }
DEFINE_LOOP(close_f32, float)
DEFINE_LOOP(close_f64, double)
DEFINE_LOOP(close_i32, int32_t)

gd_status gd_cpu_naive_apsp(gd_apsp *call, gd_error *err)
{
    if (call->pred != NULL) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "kernel 'apsp/cpu_naive' computes path lengths alone; for predecessors ask "
                       "another");
    }
    call->padded = call->n;
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    switch (call->dtype) {
        case GD_F32:
            return close_f32(call, err);
        case GD_F64:
            return close_f64(call, err);
        default:
            return close_i32(call, err);
    }
}
