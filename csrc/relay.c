/* relay.c: a matrix on the host, copied to another layout. */
#include "gpudist.h"

gd_status gd_cpu_relay(const gd_matrix *x, const gd_matrix *to, gd_error *err)
{
    (void)err;
    for (ptrdiff_t i = 0; i < x->rows; ++i) {
        for (ptrdiff_t k = 0; k < x->cols; ++k) {
            const ptrdiff_t from = i * x->row_stride + k * x->col_stride;
            const ptrdiff_t at = i * to->row_stride + k * to->col_stride;
            if (x->dtype == GD_F32) {
                ((float *)to->data)[at] = ((const float *)x->data)[from];
            }
            else {
                ((double *)to->data)[at] = ((const double *)x->data)[from];
            }
        }
    }
    return GD_OK;
}
