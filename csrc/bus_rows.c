/* bus_rows.c: rows between the host and a device, as they are: operands, matrices, and parts of
 * results. */
#include "bus_results.h"
#include "bus_slots.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"
#include "team.h"

/* A piece of an operand is copied past the caches up to this size. What threads have just written
 * stays in their caches, and from there the device reads it at 54 GB/s while they fill the next
 * slot, but at 8 (2 MB) to 34 GB/s (16 MB) once they sleep. Past the caches it is 40 to 54 whatever
 * they do. So only a large piece that another one follows goes by way of the caches. */
static const size_t MOST_PAST = (size_t)8 << 20;

static void copy_some_rows(void *rows, ptrdiff_t first, ptrdiff_t last, int member)
{
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        gd_copy_part_of_rows(rows, i);
    }
}

static void copy_rows(const gd_bus *bus, gd_rows rows)
{
    if (bus->transfer != NULL) { /* its helpers are there, and the team's workers are these */
        gd_copy_with_helpers(bus->transfer, &rows);
        return;
    }
    gd_team_run(gd_copiers(), rows.parts, 0, copy_some_rows, &rows);
}

/* How many rows make a piece, if there shall be so many pieces: the threads have one while the bus
 * has another. */
static ptrdiff_t rows_of_piece(const gd_bus *bus, size_t row_bytes, ptrdiff_t rows, int pieces)
{
    const size_t share = row_bytes * (size_t)rows / (size_t)pieces;
    return (ptrdiff_t)(gd_between(row_bytes, share, bus->slot_bytes) / row_bytes);
}

/* Sends rows through `count` slots from `first_slot` on, of which others have nothing more to say,
 * in at least so many pieces. */
static gd_status send(gd_bus *bus, int first_slot, int count, int pieces, void *stream, void *to,
                      size_t to_pitch, const void *from, size_t from_pitch, size_t row_bytes,
                      ptrdiff_t rows, gd_error *err)
{
    const ptrdiff_t step = rows_of_piece(bus, row_bytes, rows, pieces);
    gd_status status = GD_OK;
    for (ptrdiff_t first = 0, i = 0; status == GD_OK && first < rows; first += step, ++i) {
        const int slot = first_slot + (int)(i % count);
        const ptrdiff_t some = rows - first < step ? rows - first : step;
        if ((status = gd_cuda_mark_wait(bus->landed[slot], err)) != GD_OK) {
            break;
        }
        const bool near = (size_t)some * row_bytes > MOST_PAST && first + some < rows;
        copy_rows(bus, gd_rows_of(bus->slot[slot], row_bytes,
                                  (const char *)from + (size_t)first * from_pitch, from_pitch,
                                  row_bytes, some, near));
        status = gd_cuda_copy_rows(stream, (char *)to + (size_t)first * to_pitch, to_pitch,
                                   bus->slot[slot], row_bytes, row_bytes, (size_t)some, err);
        if (status == GD_OK) {
            status = gd_cuda_mark_set(bus->landed[slot], stream, err);
        }
    }
    return status;
}

gd_status gd_send_rows_ahead(gd_device device, void *stream, void *to, size_t to_pitch,
                             const void *from, size_t from_pitch, size_t row_bytes, ptrdiff_t rows,
                             gd_error *err)
{
    gd_bus *bus;
    gd_status status;
    if (row_bytes * (size_t)rows < GD_WORTH_THE_SLOTS) {
        return gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows,
                                 err);
    }
    if ((bus = gd_bus_enter(device, err)) == NULL) {
        return err->status;
    }
    if (bus->slot_bytes < row_bytes) {
        status =
            gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows, err);
    }
    else {
        /* The next to write into the slots waits for their marks, or is the bus's stream. */
        status = send(bus, 0, GD_SLOTS, GD_SLOTS, bus->stream, to, to_pitch, from, from_pitch,
                      row_bytes, rows, err);
        status = status == GD_OK ? gd_bus_order(bus, bus->stream, stream, err)
                                 : gd_settle(device, bus->stream, status, err);
    }
    gd_bus_leave(bus);
    return status;
}

gd_status gd_send_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    gd_status status = GD_OK;
    if (row_bytes * (size_t)rows >= GD_WORTH_THE_SLOTS) {
        gd_bus *const bus = gd_bus_enter(device, err);
        if (bus == NULL) {
            return err->status;
        }
        status = gd_bus_order(bus, stream, bus->stream, err);
        gd_bus_leave(bus);
    }
    return status == GD_OK ? gd_send_rows_ahead(device, stream, to, to_pitch, from, from_pitch,
                                                row_bytes, rows, err)
                           : status;
}

/* Sends rows while the slots are full of a result: for a gd_fill, during whose call they are. */
static gd_status send_by_reserve(gd_bus *bus, void *stream, void *to, size_t to_pitch,
                                 const void *from, size_t from_pitch, size_t row_bytes,
                                 ptrdiff_t rows, gd_error *err)
{
    gd_status status;
    if (row_bytes * (size_t)rows < GD_WORTH_THE_SLOTS || bus->slot_bytes < row_bytes) {
        return gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows,
                                 err);
    }
    status = gd_bus_reserve(bus, err);
    /* In one piece if it fits: a slot is free again when the device has come to what is in it,
     * behind its work on what was sent before, and the other one can be filled meanwhile. */
    return status == GD_OK ? send(bus, GD_SLOTS, GD_RESERVE, 1, stream, to, to_pitch, from,
                                  from_pitch, row_bytes, rows, err)
                           : status;
}

static gd_status receive(gd_bus *bus, void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    const ptrdiff_t step = rows_of_piece(bus, row_bytes, rows, GD_SLOTS);
    gd_status status = GD_OK;
    for (ptrdiff_t sent = 0, arrived = 0; status == GD_OK && arrived < rows;) {
        const bool sends = sent < rows && sent < arrived + GD_SLOTS * step;
        const ptrdiff_t first = sends ? sent : arrived;
        const ptrdiff_t some = rows - first < step ? rows - first : step;
        const int slot = (int)(first / step % GD_SLOTS);
        if (sends) {
            status = gd_cuda_copy_rows(bus->stream, bus->slot[slot], row_bytes,
                                       (const char *)from + (size_t)first * from_pitch, from_pitch,
                                       row_bytes, (size_t)some, err);
            status =
                status == GD_OK ? gd_cuda_mark_set(bus->landed[slot], bus->stream, err) : status;
            sent += some;
            continue;
        }
        if ((status = gd_cuda_mark_wait(bus->landed[slot], err)) == GD_OK) {
            copy_rows(bus, gd_rows_of((char *)to + (size_t)first * to_pitch, to_pitch,
                                      bus->slot[slot], row_bytes, row_bytes, some, false));
        }
        arrived += some;
    }
    return status;
}

gd_status gd_bring_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                        size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    const size_t bytes = row_bytes * (size_t)rows;
    gd_bus *bus;
    gd_status status = GD_OK;
    if (bytes >= GD_WORTH_THE_SLOTS && (bus = gd_bus_enter(device, err)) == NULL) {
        return err->status;
    }
    if (bytes < GD_WORTH_THE_SLOTS || bus->slot_bytes < row_bytes) {
        status =
            gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows, err);
        status = gd_settle(device, stream, status, err);
    }
    else if ((status = gd_bus_order(bus, stream, bus->stream, err)) == GD_OK) {
        status = receive(bus, to, to_pitch, from, from_pitch, row_bytes, rows, err);
        status = gd_settle(device, bus->stream, status, err);
    }
    if (bytes >= GD_WORTH_THE_SLOTS) {
        gd_bus_leave(bus);
    }
    return status;
}

gd_status gd_stage_bring(gd_stage *stage, const gd_matrix *host, const char *what, gd_matrix *there,
                         gd_error *err)
{
    const size_t size = gd_dtype_size(host->dtype), row_bytes = (size_t)host->cols * size;
    const size_t pitch = (size_t)host->row_stride * size;
    const gd_status status =
        gd_stage_matrix(stage, host->rows, host->cols, host->dtype, what, there, err);
    if (status != GD_OK || there->data == NULL ||
        (stage->budget != NULL && stage->budget->counting)) {
        return status;
    }
    return stage->bus != NULL ? send_by_reserve(stage->bus, stage->stream, there->data, row_bytes,
                                                host->data, pitch, row_bytes, host->rows, err)
                              : gd_send_rows(stage->device, stage->stream, there->data, row_bytes,
                                             host->data, pitch, row_bytes, host->rows, err);
}

gd_status gd_stage_home(gd_stage *stage, const gd_matrix *there, void *host, gd_error *err)
{
    const size_t size = gd_dtype_size(there->dtype), row_bytes = (size_t)there->cols * size;
    const gd_result result = {
        .stage = stage,
        .to = host,
        .row_bytes = row_bytes,
        .rows = there->rows,
        .whole = there->data,
        .pitch = (size_t)there->row_stride * size,
    };
    return gd_bring_result(&result, err);
}
