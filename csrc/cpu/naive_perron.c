/* naive_perron.c: the parts of the perron study's loop as one would write them down, which is what
 * the speed-ups of their ladders are counted from. One thread, in the matrix's own type; the whole
 * loop is perron_naive.c. */
#include "kernels.h"

#define DEFINE_PARTS(T)                                                         \
    static void row_sum_##T(const gd_perron_part *call)                         \
    {                                                                           \
        const ptrdiff_t n = call->n;                                            \
        const T *matrix = call->matrix;                                         \
        T *sums = call->sums;                                                   \
        for (ptrdiff_t i = 0; i < n; ++i) {                                     \
            T sum = 0;                                                          \
            for (ptrdiff_t j = 0; j < n; ++j) {                                 \
                sum += matrix[i * n + j];                                       \
            }                                                                   \
            sums[i] = sum;                                                      \
        }                                                                       \
    }                                                                           \
    static void vector_max_##T(const gd_perron_part *call)                      \
    {                                                                           \
        const T *sums = call->sums;                                             \
        T most = 0;                                                             \
        for (ptrdiff_t i = 0; i < call->n; ++i) {                               \
            most = sums[i] > most ? sums[i] : most;                             \
        }                                                                       \
        *(T *)call->top = most;                                                 \
    }                                                                           \
    static void eigenvector_##T(const gd_perron_part *call)                     \
    {                                                                           \
        const T *sums = call->sums, most = *(const T *)call->top;               \
        T *vector = call->vector;                                               \
        for (ptrdiff_t i = 0; i < call->n; ++i) {                               \
            vector[i] *= sums[i] / most;                                        \
        }                                                                       \
    }                                                                           \
    static void transform_##T(const gd_perron_part *call)                       \
    {                                                                           \
        const ptrdiff_t n = call->n;                                            \
        const T *sums = call->sums;                                             \
        T *matrix = call->matrix;                                               \
        for (ptrdiff_t i = 0; i < n; ++i) {                                     \
            for (ptrdiff_t j = 0; j < n; ++j) {                                 \
                matrix[i * n + j] = matrix[i * n + j] * (sums[j] / sums[i]);    \
            }                                                                   \
        }                                                                       \
    }                                                                           \
    static void converged_##T(const gd_perron_part *call)                       \
    {                                                                           \
        const T *sums = call->sums, epsilon = (T)call->epsilon;                 \
        ptrdiff_t i = 0;                                                        \
        while (i + 1 < call->n && sums[i] - sums[i + 1] <= epsilon * sums[i] && \
               sums[i + 1] - sums[i] <= epsilon * sums[i]) {                    \
            ++i;                                                                \
        }                                                                       \
        *call->apart = i + 1 < call->n;                                         \
    }
DEFINE_PARTS(float)
DEFINE_PARTS(double)
#undef DEFINE_PARTS

#define DEFINE_LAUNCHER(part)                                           \
    gd_status gd_cpu_perron_##part(gd_perron_part *call, gd_error *err) \
    {                                                                   \
        (void)err;                                                      \
        if (call->dtype == GD_F32) {                                    \
            part##_float(call);                                         \
        }                                                               \
        else {                                                          \
            part##_double(call);                                        \
        }                                                               \
        return GD_OK;                                                   \
    }
DEFINE_LAUNCHER(row_sum)
DEFINE_LAUNCHER(vector_max)
DEFINE_LAUNCHER(eigenvector)
DEFINE_LAUNCHER(transform)
DEFINE_LAUNCHER(converged)
