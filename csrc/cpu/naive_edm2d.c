/* naive_edm2d.c: distances between points of the plane as one would write them down, which is what
 * the speed-ups of the ladder edm2d are counted from. One thread, and the compiler's vectors of the
 * baseline instruction set. */
#include "kernels.h"

#include <math.h>

gd_status gd_cpu_edm2d_naive(gd_cdist *call, gd_error *err)
{
    (void)err;
    call->launch.workspace_bytes = 0;
    for (ptrdiff_t i = 0; !call->launch.sizing && i < call->out.rows; ++i) {
        const float *a = (const float *)call->a.data + 2 * i;
        float *out = (float *)call->out.data + i * call->out.row_stride;
        for (ptrdiff_t j = 0; j < call->out.cols; ++j) {
            const float *b = (const float *)call->b.data + 2 * j;
            const float x = a[0] - b[0], y = a[1] - b[1];
            out[j] = sqrtf(x * x + y * y);
        }
    }
    return GD_OK;
}
