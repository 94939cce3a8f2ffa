/* naive_pairwise.c: distances between descriptors as one would write them down, which is what the
 * speed-ups of the ladder pairwise are counted from. One thread; sums in order leave the compiler
 * no vectors to make of them. */
#include "kernels.h"

#include <math.h>

gd_status gd_cpu_pairwise_naive(gd_cdist *call, gd_error *err)
{
    const ptrdiff_t d = call->a.cols;
    (void)err;
    call->launch.workspace_bytes = 0;
    for (ptrdiff_t i = 0; !call->launch.sizing && i < call->out.rows; ++i) {
        const float *a = (const float *)call->a.data + i * d;
        float *out = (float *)call->out.data + i * call->out.row_stride;
        for (ptrdiff_t j = 0; j < call->out.cols; ++j) {
            const float *b = (const float *)call->b.data + j * d;
            float sum = 0;
            for (ptrdiff_t k = 0; k < d; ++k) {
                sum += (a[k] - b[k]) * (a[k] - b[k]);
            }
            out[j] = call->metric == GD_EUCLIDEAN ? sqrtf(sum) : sum;
        }
    }
    return GD_OK;
}
