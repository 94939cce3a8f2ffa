/* cublas.h: the matrix product of cuBLAS, for the ladder step that is built on it. The library is
 * neither linked nor shipped: it is opened on first use, where it can be found. */
#ifndef GPUDIST_CUBLAS_H
#define GPUDIST_CUBLAS_H

#include "gpudist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why cuBLAS cannot be used, or NULL. The first call opens the library. */
const char *gd_cublas_why_not(void);

/* out[i, j] = factor * sum over k of a[i, k] * b[j, k], all float32 on the launch's device, which
 * is current; d >= 1. a and b have row_stride 1 and col_stride >= rows, out has col_stride 1.
 * Enqueued on the launch's stream. */
gd_status gd_cublas_multiply(const gd_launch *launch, float factor, const gd_matrix *a,
                             const gd_matrix *b, const gd_matrix *out, gd_error *err);

#ifdef __cplusplus
}
#endif
#endif
