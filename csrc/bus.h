/* bus.h: large arrays between host memory and a CUDA device, at the speed of the bus.
 *
 * The device reads and writes pinned memory at 55 GB/s, ordinary memory at 10 to 18 (CEILINGS in
 * the README's tables). So arrays travel in pieces by way of a few pinned slots: while one piece is
 * on the bus, several threads copy another between its slot and the caller's array. The slots are
 * made when first needed, one set a device, and kept; callers take turns. */
#ifndef GPUDIST_BUS_H
#define GPUDIST_BUS_H

#include "gpudist.h"
#include "stage.h"

/* From so many bytes on the slots beat a plain copy. */
#define GD_WORTH_THE_SLOTS ((size_t)1 << 20)

/* Enqueues the computation of rows [first, first + count) of a result into the dense `panel`. */
typedef gd_status gd_fill(void *context, ptrdiff_t first, ptrdiff_t count, void *panel,
                          gd_error *err);

/* A dense result on its way to the host: computed on the stage's stream in panels of rows, while
 * earlier panels travel. */
typedef struct gd_result {
    gd_stage *stage; /* on a CUDA device, which is current; panels count in its budget */
    void *to;        /* rows * row_bytes bytes on the host */
    size_t row_bytes;
    ptrdiff_t rows;
    const void
        *whole;    /* where the result is complete already (when the stream gets there), or NULL */
    gd_fill *fill; /* otherwise computes it */
    void *context;
} gd_result;

/* Finished on return, whatever the status: the device is done with the caller's memory. */
gd_status gd_bring_result(const gd_result *result, gd_error *err);

/* Copies rows of a host matrix to the dense `to` on the current device; `stream` may use it. The
 * host matrix has been read on return. */
gd_status gd_send_rows(gd_device device, void *stream, void *to, const void *from, size_t pitch,
                       size_t row_bytes, ptrdiff_t rows, gd_error *err);

#endif
