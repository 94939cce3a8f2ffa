/* bus_rows.c: rows between the host and a device, as they are: operands, matrices, and parts of
 * results. */
#include "bus_common.h"
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
/* There is a helper for so many bytes. To wake one and to see it gone takes longer than some parts
 * do: operands of 8 and 4 MB for each of two H100s, and a result of 1 GB after them, took 16.9 ms
 * with as many helpers as there are, 15.2 with one for each MB, 14.4 with one for two. */
static const size_t HELPED = (size_t)2 << 20;

/* Rows on their way to a device, by pieces of `step` rows, of which there are `pieces`. */
typedef struct gd_sending {
    gd_bus *bus;
    void *stream;
    const gd_arrival *all;
    ptrdiff_t step, pieces;
} gd_sending;

/* Cuts the rows into so many pieces at least, of so many bytes at most. */
static gd_sending cut(const gd_arrival *all, gd_bus *bus, void *stream, int pieces, size_t bytes)
{
    const size_t share = all->row_bytes * (size_t)all->rows / (size_t)pieces;
    const size_t most = gd_between(all->row_bytes, bytes, bus->slot_bytes);
    const size_t step = gd_between(all->row_bytes, share, most) / all->row_bytes;
    return (gd_sending){bus, stream, all, (ptrdiff_t)step, gd_ceil_div(all->rows, (ptrdiff_t)step)};
}

static ptrdiff_t rows_of_piece(const gd_sending *s, ptrdiff_t piece)
{
    return gd_least(s->step, s->all->rows - piece * s->step);
}

/* How a piece is copied to its slot. */
static gd_rows piece_for(const gd_sending *s, ptrdiff_t piece, void *slot)
{
    const gd_arrival *a = s->all;
    const ptrdiff_t rows = rows_of_piece(s, piece);
    const bool near = (size_t)rows * a->row_bytes > MOST_PAST && piece + 1 < s->pieces;
    const char *from = (const char *)a->from + (size_t)(piece * s->step) * a->from_pitch;
    return gd_rows_of(slot, a->row_bytes, from, a->from_pitch, a->row_bytes, rows, PART, near);
}

/* Enqueues what is in a slot. */
static gd_status dispatch(const gd_sending *s, ptrdiff_t piece, int slot, gd_error *err)
{
    const gd_arrival *a = s->all;
    const gd_status status = gd_cuda_copy_rows(
        s->stream, (char *)a->to + (size_t)(piece * s->step) * a->to_pitch, a->to_pitch,
        s->bus->slot[slot], a->row_bytes, a->row_bytes, (size_t)rows_of_piece(s, piece), err);
    return status == GD_OK ? gd_cuda_mark_set(s->bus->landed[slot], s->stream, err) : status;
}

/* Tells who waits for them of the rows of some pieces. */
static gd_status tell_arrived(const gd_sending *s, ptrdiff_t first, ptrdiff_t end, gd_error *err)
{
    const gd_arrival *a = s->all;
    const ptrdiff_t row = first * s->step, rows = gd_least(end * s->step, a->rows) - row;
    return a->arrived != NULL ? a->arrived(a->context, s->stream, row, rows, err) : GD_OK;
}

/* Threads fill up to two slots while the bus has the others, and while somebody is told. */
static gd_status send(void *context, gd_crew *crew, gd_error *err)
{
    const gd_sending *const s = context;
    gd_status status = GD_OK;
    for (ptrdiff_t given = 0, sent = 0, told = 0; status == GD_OK && told < s->pieces;) {
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
        else if (told < sent) {
            status = tell_arrived(s, told, sent, err);
            told = sent;
        }
        else {
            gd_crew_await(crew, sent);
        }
    }
    return status;
}

/* All in one piece, by no slot. */
static gd_status send_plainly(const gd_arrival *a, gd_error *err)
{
    const gd_status status = gd_cuda_copy_rows(a->stream, a->to, a->to_pitch, a->from,
                                               a->from_pitch, a->row_bytes, (size_t)a->rows, err);
    return status == GD_OK && a->arrived != NULL
               ? a->arrived(a->context, a->stream, 0, a->rows, err)
               : status;
}

gd_status gd_send_arrival(const gd_arrival *a, gd_error *err)
{
    const size_t bytes = a->row_bytes * (size_t)a->rows;
    gd_bus *bus;
    gd_status status;
    if (bytes < GD_WORTH_THE_SLOTS) {
        return send_plainly(a, err);
    }
    if ((bus = gd_bus_enter(a->device, err)) == NULL) {
        return err->status;
    }
    if (bus->slot_bytes < a->row_bytes) {
        status = send_plainly(a, err);
    }
    else {
        /* The next to write into the slots waits for their marks, or is the bus's stream. */
        gd_sending way = cut(a, bus, bus->stream, GD_SLOTS, MOST_PIECE);
        gd_crew crew;
        status = gd_crew_run(&crew, (ptrdiff_t)(bytes / HELPED) + 1, send, &way, err);
        status = status == GD_OK ? gd_bus_order(bus, bus->stream, a->stream, err)
                                 : gd_settle(a->device, bus->stream, status, err);
    }
    gd_bus_leave(bus);
    return status;
}

gd_status gd_send_rows_ahead(gd_device device, void *stream, void *to, size_t to_pitch,
                             const void *from, size_t from_pitch, size_t row_bytes, ptrdiff_t rows,
                             gd_error *err)
{
    const gd_arrival all = {.device = device,
                            .stream = stream,
                            .to = to,
                            .to_pitch = to_pitch,
                            .from = from,
                            .from_pitch = from_pitch,
                            .row_bytes = row_bytes,
                            .rows = rows};
    return gd_send_arrival(&all, err);
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
static gd_status send_by_reserve(gd_bus *bus, const gd_arrival *a, gd_error *err)
{
    if (a->row_bytes * (size_t)a->rows < GD_WORTH_THE_SLOTS || bus->slot_bytes < a->row_bytes ||
        bus->crew == NULL) {
        return send_plainly(a, err);
    }
    /* In one piece if it fits: a slot is free again when the device has come to what is in it,
     * behind its work on what was sent before, and the other one can be filled meanwhile, with the
     * next operand too. */
    const gd_sending way = cut(a, bus, a->stream, 1, bus->slot_bytes);
    gd_status status = gd_bus_reserve(bus, err);
    for (ptrdiff_t i = 0; i < way.pieces && status == GD_OK; ++i) {
        const int slot = GD_SLOTS + (int)(bus->reserved++ % GD_RESERVE);
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

gd_status gd_stage_bring_common(gd_stage *stage, const gd_matrix *host, const char *what,
                                gd_common *common, gd_matrix *there, gd_error *err)
{
    const size_t size = gd_dtype_size(host->dtype), row_bytes = (size_t)host->cols * size;
    const size_t pitch = (size_t)host->row_stride * size;
    const gd_status status =
        gd_stage_matrix(stage, host->rows, host->cols, host->dtype, what, there, err);
    if (status != GD_OK || there->data == NULL ||
        (stage->budget != NULL && stage->budget->counting)) {
        return status;
    }
    const gd_arrival all = {.device = stage->device,
                            .stream = stage->stream,
                            .to = there->data,
                            .to_pitch = row_bytes,
                            .from = host->data,
                            .from_pitch = pitch,
                            .row_bytes = row_bytes,
                            .rows = host->rows};
    if (common != NULL) {
        return gd_common_send(common, &all, err);
    }
    return stage->bus != NULL ? send_by_reserve(stage->bus, &all, err)
                              : gd_send_rows(stage->device, stage->stream, there->data, row_bytes,
                                             host->data, pitch, row_bytes, host->rows, err);
}

gd_status gd_stage_bring(gd_stage *stage, const gd_matrix *host, const char *what, gd_matrix *there,
                         gd_error *err)
{
    return gd_stage_bring_common(stage, host, what, NULL, there, err);
}

gd_status gd_stage_numbers(gd_stage *stage, const void *host, ptrdiff_t count, const char *what,
                           const void **there, gd_error *err)
{
    const gd_matrix row =
        gd_dense((void *)(uintptr_t)host, 1, count, GD_F64, (gd_device){GD_CPU, 0});
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
