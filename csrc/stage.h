/* stage.h: memory that one call owns on its device, and the way of matrices there and back. */
#ifndef GPUDIST_STAGE_H
#define GPUDIST_STAGE_H

#include "gpudist.h"

enum { GD_STAGE_MOST = 16 };

/* Starts with a device, a stream and nothing owned. */
typedef struct gd_stage {
    gd_device device;
    void *stream;
    void *owned[GD_STAGE_MOST]; /* to be given back, in the stream's order */
    int owned_count;
} gd_stage;

/* rows * row_bytes of memory, NULL for 0 bytes; a failure names `what`. */
gd_status gd_stage_memory(gd_stage *stage, size_t rows, size_t row_bytes, const char *what,
                          void **out, gd_error *err);
/* A dense matrix. */
gd_status gd_stage_matrix(gd_stage *stage, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                          const char *what, gd_matrix *out, gd_error *err);
/* The same matrix on the device: a dense copy of a host view. */
gd_status gd_stage_bring(gd_stage *stage, const gd_matrix *host, const char *what, gd_matrix *there,
                         gd_error *err);
/* Copies a matrix on the device, with dense rows, to dense memory on the host. Finished on return.
 */
gd_status gd_stage_home(const gd_launch *launch, const gd_matrix *there, void *host, gd_error *err);
/* Gives everything back; may be called again. */
void gd_stage_release(gd_stage *stage);

#endif
