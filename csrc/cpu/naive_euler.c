/* naive_euler.c: distances between points that are stored dimension after dimension, as one would
 * write them down, which is what the speed-ups of the ladder euler are counted from. One thread;
 * in the innermost loop neighbouring terms lie a whole dimension apart in memory. */
#include "kernels.h"

#include <math.h>

gd_status gd_cpu_naive_euler(gd_cdist *call, gd_error *err)
{
    const gd_matrix *a = &call->a, *b = &call->b, *out = &call->out;
    (void)err;
    call->launch.workspace_bytes = 0;
    for (ptrdiff_t i = 0; !call->launch.sizing && i < out->rows; ++i) {
        for (ptrdiff_t j = 0; j < out->cols; ++j) {
            float sum = 0;
            for (ptrdiff_t k = 0; k < a->cols; ++k) {
                const float t = ((const float *)a->data)[k * a->col_stride + i] -
                                ((const float *)b->data)[k * b->col_stride + j];
                sum += t * t;
            }
            ((float *)out->data)[i * out->row_stride + j] =
                call->metric == GD_EUCLIDEAN ? sqrtf(sum) : sum;
        }
    }
    return GD_OK;
}
