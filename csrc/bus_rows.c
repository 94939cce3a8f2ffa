/* bus_rows.c: rows between the host and a device, as they are: operands, matrices, and parts of
 * results. */
#include "bus_crew.h"
#include "bus_slots.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"

/* A piece of an operand is copied past the caches up to this size. What threads have just written
 * stays in their caches, and from there the device reads it at 54 GB/s while they fill the next
 * slot, but at 8 (2 MB) to 34 GB/s (16 MB) once they sleep. Past the caches it is 40 to 54 whatever
 * they do. So only a large piece that another one follows goes by way of the caches. */
static const size_t MOST_PAST = (size_t)4 << 20;
/* No piece is larger: two slots are filled while the bus has the others, and 512 MB came to an H100
 * by pieces of 8 MB in 12.6 ms, by 16 in 14.0. */
static const size_t MOST_PIECE = (size_t)8 << 20;

/* A thread's part of a piece, at least. */
static const size_t PART = (size_t)128 << 10;

/* Rows on their way to a device, by pieces of `step` rows, of which there are `pieces`. */
typedef struct gd_sending {
    gd_bus *bus;
    void *stream;
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, row_bytes;
    ptrdiff_t rows, step, pieces;
} gd_sending;

/* All rows on their way by a stream, not yet cut. */
static gd_sending sending_of(gd_bus *bus, void *stream, void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t row_bytes, ptrdiff_t rows)
{
    return (gd_sending){.bus = bus,
                        .stream = stream,
                        .to = to,
                        .from = from,
                        .to_pitch = to_pitch,
                        .from_pitch = from_pitch,
                        .row_bytes = row_bytes,
                        .rows = rows};
}

/* Cuts the rows into so many pieces at least, of so many bytes at most. */
static void cut(gd_sending *s, int pieces, size_t bytes)
{
    const size_t share = s->row_bytes * (size_t)s->rows / (size_t)pieces;
    const size_t most = gd_between(s->row_bytes, bytes, s->bus->slot_bytes);
    s->step = (ptrdiff_t)(gd_between(s->row_bytes, share, most) / s->row_bytes);
    s->pieces = gd_ceil_div(s->rows, s->step);
}

static ptrdiff_t rows_of_piece(const gd_sending *s, ptrdiff_t piece)
{
    return gd_least(s->step, s->rows - piece * s->step);
}

/* How a piece is copied to its slot. */
static gd_rows piece_for(const gd_sending *s, ptrdiff_t piece, void *slot)
{
    const ptrdiff_t rows = rows_of_piece(s, piece);
    const bool near = (size_t)rows * s->row_bytes > MOST_PAST && piece + 1 < s->pieces;
    return gd_rows_of(slot, s->row_bytes, s->from + (size_t)(piece * s->step) * s->from_pitch,
                      s->from_pitch, s->row_bytes, rows, PART, near);
}

/* Enqueues what is in a slot. */
static gd_status dispatch(const gd_sending *s, ptrdiff_t piece, int slot, gd_error *err)
{
    const gd_status status = gd_cuda_copy_rows(
        s->stream, s->to + (size_t)(piece * s->step) * s->to_pitch, s->to_pitch, s->bus->slot[slot],
        s->row_bytes, s->row_bytes, (size_t)rows_of_piece(s, piece), err);
    return status == GD_OK ? gd_cuda_mark_set(s->bus->landed[slot], s->stream, err) : status;
}

/* Threads fill up to two slots while the bus has the others. */
static gd_status send(void *context, gd_crew *crew, gd_error *err)
{
    const gd_sending *const s = context;
    gd_status status = GD_OK;
    for (ptrdiff_t given = 0, sent = 0; status == GD_OK && sent < s->pieces;) {
        const int slot = (int)(given % GD_SLOTS);
        if (gd_crew_finished(crew) > sent) {
            status = dispatch(s, sent, (int)(sent % GD_SLOTS), err);
            sent += 1;
        }
        else if (given < s->pieces && given < sent + GD_SLOTS / 2) {
            if ((status = gd_cuda_mark_wait(s->bus->landed[slot], err)) == GD_OK) {
                const gd_rows piece = piece_for(s, given, s->bus->slot[slot]);
                gd_crew_give(crew, &piece);
                given += 1;
            }
        }
        else {
            gd_crew_await(crew, sent);
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
        gd_sending way =
            sending_of(bus, bus->stream, to, to_pitch, from, from_pitch, row_bytes, rows);
        gd_crew crew;
        cut(&way, GD_SLOTS, MOST_PIECE);
        status = gd_crew_run(&crew, (ptrdiff_t)(row_bytes * (size_t)rows / PART), send, &way, err);
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
    gd_sending way = sending_of(bus, stream, to, to_pitch, from, from_pitch, row_bytes, rows);
    if (row_bytes * (size_t)rows < GD_WORTH_THE_SLOTS || bus->slot_bytes < row_bytes ||
        bus->crew == NULL) {
        return gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows,
                                 err);
    }
    /* In one piece if it fits: a slot is free again when the device has come to what is in it,
     * behind its work on what was sent before, and the other one can be filled meanwhile. */
    cut(&way, 1, bus->slot_bytes);
    gd_status status = gd_bus_reserve(bus, err);
    for (ptrdiff_t i = 0; i < way.pieces && status == GD_OK; ++i) {
        const int slot = GD_SLOTS + (int)(i % GD_RESERVE);
        if ((status = gd_cuda_mark_wait(bus->landed[slot], err)) == GD_OK) {
            const gd_rows piece = piece_for(&way, i, bus->slot[slot]);
            gd_crew_copy(bus->crew, &piece);
            status = dispatch(&way, i, slot, err);
        }
    }
    return status;
}

gd_status gd_bring_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                        size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    gd_stage stage = {.device = device, .stream = stream};
    const gd_result result = {.stage = &stage,
                              .to = to,
                              .row_bytes = row_bytes,
                              .to_pitch = to_pitch,
                              .rows = rows,
                              .whole = from,
                              .pitch = from_pitch,
                              .panel_rows = rows};
    return gd_bring_result(&result, err);
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

gd_status gd_stage_numbers(gd_stage *stage, const void *host, ptrdiff_t count, const char *what,
                           const void **there, gd_error *err)
{
    const gd_matrix row = {.data = (void *)(uintptr_t)host,
                           .rows = 1,
                           .cols = count,
                           .row_stride = count,
                           .col_stride = 1,
                           .dtype = GD_F64};
    gd_matrix copy;
    const gd_status status = gd_stage_bring(stage, &row, what, &copy, err);
    *there = copy.data;
    return status;
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
