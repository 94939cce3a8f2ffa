/* bus.h: large arrays between host memory and a CUDA device, at the speed of the bus.
 *
 * The device reads and writes pinned memory at 55 GB/s, ordinary memory at 10 to 18 (CEILINGS in
 * the README's tables). So arrays travel in pieces by way of a few pinned slots: while one piece is
 * on the bus, several threads copy others between their slots and the caller's array. The slots are
 * made when first needed, one set a device, and kept; callers take turns. */
#ifndef GPUDIST_BUS_H
#define GPUDIST_BUS_H

#include "gpudist.h"
#include "stage.h"

/* From so many bytes on the slots beat a plain copy. */
#define GD_WORTH_THE_SLOTS ((size_t)1 << 20)

/* How much pinned memory the slots of a device may take, and how much those of all devices do take.
 * Too little for slots makes all copies plain. What there is more is given back; waits for those
 * who use it. */
#define GD_PINNED_AT_FIRST ((size_t)256 << 20)
void gd_limit_pinned(size_t bytes);
size_t gd_pinned_bytes(void);

/* How many threads copy between the slots of a device and the caller's arrays. It is the machine's
 * matter, not OpenMP's: a process that is to compute by one thread, as each of those with a device
 * of its own may be, has as much to bring. */
int gd_copiers(void);

typedef struct gd_bus gd_bus;

/* Enqueues the computation of rows [first, first + count) of a result into the dense `panel`, or
 * where they are (panel is NULL) if the result has its place on the device. */
typedef gd_status gd_fill(void *context, ptrdiff_t first, ptrdiff_t count, void *panel,
                          gd_error *err);

/* A result on its way to the host: computed on the stage's stream in panels of rows, while
 * earlier panels travel. */
typedef struct gd_result {
    gd_stage *stage; /* on a CUDA device, which is current; panels count in its budget */
    void *to;        /* rows of row_bytes bytes on the host */
    size_t row_bytes;
    size_t to_pitch; /* from one of them to the next; 0: row_bytes */
    ptrdiff_t rows;
    /* Where the whole result is on the device, or NULL: then panels are for `fill` to compute. */
    const void *whole;
    size_t pitch;  /* of `whole`, from one row to the next; 0: row_bytes */
    gd_fill *fill; /* NULL: `whole` is complete (when the stream gets there) */
    void *context;
    ptrdiff_t panel_rows; /* so many rows at a time; 0: what gd_panel_rows says is best */
    bool single;          /* there is room for one panel, and no next one while it travels */
    ptrdiff_t *complete;  /* NULL, or counts the rows that are where they belong */
} gd_result;

/* Finished on return, whatever the status: the device is done with the caller's memory. While the
 * stage's budget counts, it counts the panels and what `fill` needs. */
gd_status gd_bring_result(const gd_result *result, gd_error *err);
ptrdiff_t gd_panel_rows(ptrdiff_t rows, size_t row_bytes);

/* Copies rows of a host matrix to the current device, where `stream` may use them; pitches are the
 * bytes from one row to the next. The host matrix has been read on return. */
gd_status gd_send_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err);
/* Copies as gd_send_rows does, without waiting for what `stream` is at: the memory is in no use. */
gd_status gd_send_rows_ahead(gd_device device, void *stream, void *to, size_t to_pitch,
                             const void *from, size_t from_pitch, size_t row_bytes, ptrdiff_t rows,
                             gd_error *err);
/* Is told that rows [first, first + count) are there when `stream` gets there. Neither waits for
 * another call nor sends rows itself. */
typedef gd_status gd_arrived(void *context, void *stream, ptrdiff_t first, ptrdiff_t count,
                             gd_error *err);

/* A host matrix on its way to a CUDA device, which is current: to memory in no use, and whoever is
 * to work on it is told piece by piece. */
typedef struct gd_arrival {
    gd_device device;
    void *stream; /* by which it goes where the slots do not pay */
    void *to;
    size_t to_pitch;
    const void *from;
    size_t from_pitch, row_bytes;
    ptrdiff_t rows;
    gd_arrived *arrived; /* or NULL */
    void *context;
} gd_arrival;

/* The host matrix has been read on return, and all rows are on their way. */
gd_status gd_send_arrival(const gd_arrival *arrival, gd_error *err);
/* The way back, for rows that are complete when `stream` gets there. Finished on return. */
gd_status gd_bring_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                        size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err);
/* Copies a view on the host to the device, where it is a dense matrix. */
gd_status gd_stage_bring(gd_stage *stage, const gd_matrix *host, const char *what, gd_matrix *there,
                         gd_error *err);
/* The same, together with other devices' calls that want it too (bus_common.h), unless `common` is
 * NULL. */
gd_status gd_stage_bring_common(gd_stage *stage, const gd_matrix *host, const char *what,
                                struct gd_common *common, gd_matrix *there, gd_error *err);
/* Copies an array on the host, of float64 or int64, to the device. */
gd_status gd_stage_numbers(gd_stage *stage, const void *host, ptrdiff_t count, const char *what,
                           const void **there, gd_error *err);
/* Copies a matrix on the device, with dense rows, to dense memory on the host. Finished on return.
 */
gd_status gd_stage_home(gd_stage *stage, const gd_matrix *there, void *host, gd_error *err);

#endif
