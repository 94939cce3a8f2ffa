/* bus_results.c: results on their way to the host, while later panels of them are computed. */
#include "bus_crew.h"
#include "bus_slots.h"
#include "device.h"
#include "sizes.h"

enum { PANEL_STEP = 16 }; /* rows: kernels see operands as aligned in a panel as in the whole */
/* Parts of a piece: a huge page where threads fault, since two would fault for the same, and less
 * where nobody does, as waits are short then. */
static const size_t PAGE = (size_t)2 << 20, SHARE = (size_t)512 << 10;
static const size_t LEAST_PANEL = (size_t)16 << 20, MOST_PANEL = (size_t)256 << 20;

/* A result on its way. */
typedef struct gd_transfer {
    const gd_result *result;
    gd_bus *bus;
    void *memory; /* the panels on the device */
    ptrdiff_t panel_rows, panels, filled;
    int ahead; /* so many panels are computed before the first of them has left */
    /* of the next piece to leave: its panel, and where in it it begins */
    ptrdiff_t panel;
    size_t at;
    /* Of the pieces by number each slot has every GD_SLOTS-th. */
    gd_rows piece[GD_SLOTS];
    size_t end[GD_SLOTS]; /* where in the result it ends */
    ptrdiff_t sent, landed, told;
} gd_transfer;

static ptrdiff_t rows_of_panel(const gd_transfer *t, ptrdiff_t panel)
{
    const ptrdiff_t left = t->result->rows - panel * t->panel_rows;
    return left < t->panel_rows ? left : t->panel_rows;
}

/* NULL where the result has its place. */
static char *panel_memory(const gd_transfer *t, ptrdiff_t panel)
{
    const size_t bytes = (size_t)t->panel_rows * t->result->row_bytes;
    return t->memory != NULL ? (char *)t->memory + (size_t)(panel % t->ahead) * bytes : NULL;
}

/* Rows with padding between them travel as rows, all others as bytes. */
static bool is_padded(const gd_result *r)
{
    return (r->whole != NULL && r->pitch != r->row_bytes) || r->to_pitch != r->row_bytes;
}

/* Where on the host the byte of the result is; a padded one's row begins there. */
static char *place_of(const gd_result *r, size_t byte)
{
    return (char *)r->to + byte / r->row_bytes * r->to_pitch + byte % r->row_bytes;
}

/* Where in the device's memory a panel is from byte `at` on; a padded one's row begins there. */
static const char *panel_at(const gd_transfer *t, ptrdiff_t panel, size_t at)
{
    const gd_result *r = t->result;
    if (r->whole == NULL) {
        return panel_memory(t, panel) + at;
    }
    const size_t row = (size_t)(panel * t->panel_rows) + at / r->row_bytes;
    return (const char *)r->whole + row * r->pitch + at % r->row_bytes;
}

/* A piece of a panel from `from` on, to rows with a pitch of their own. */
static gd_status copy_piece(const gd_result *r, void *stream, void *to, size_t to_pitch,
                            const char *from, size_t bytes, gd_error *err)
{
    const size_t pitch = r->whole != NULL ? r->pitch : r->row_bytes;
    return is_padded(r) ? gd_cuda_copy_rows(stream, to, to_pitch, from, pitch, r->row_bytes,
                                            bytes / r->row_bytes, err)
                        : gd_cuda_copy_rows(stream, to, bytes, from, bytes, bytes, 1, err);
}

/* Enqueues the next panel's computation, once the one before it in its memory has departed. */
static gd_status fill_next(gd_transfer *t, gd_error *err)
{
    const gd_result *r = t->result;
    const ptrdiff_t panel = t->filled++;
    gd_status status = GD_OK;
    if (r->whole == NULL && panel >= t->ahead) {
        status = gd_cuda_mark_order(r->stage->stream,
                                    t->bus->departed[(panel - t->ahead) % GD_PANELS], err);
    }
    if (r->fill != NULL && status == GD_OK) {
        status = r->fill(r->context, panel * t->panel_rows, rows_of_panel(t, panel),
                         panel_memory(t, panel), err);
    }
    return status == GD_OK
               ? gd_cuda_mark_set(t->bus->computed[panel % GD_PANELS], r->stage->stream, err)
               : status;
}

/* How the piece that is in a slot is copied to its place. */
static gd_rows piece_of(const gd_transfer *t, int slot, size_t offset, size_t bytes)
{
    const gd_result *r = t->result;
    char *const to = place_of(r, offset);
    const char *const last = place_of(r, offset + bytes - 1);
    const size_t part = gd_is_touched(last) ? SHARE : PAGE;
    const bool dense = r->to_pitch == r->row_bytes;
    const size_t row = dense ? bytes : r->row_bytes;
    return gd_rows_of(to, dense ? bytes : r->to_pitch, t->bus->slot[slot], row, row,
                      (ptrdiff_t)(bytes / row), part, false);
}

/* How many bytes a piece from byte `begin` on may have, whole rows where it has to. The last ones
 * are short, since nothing is left that copying them could hide behind. While many devices are at
 * work, pieces are half a slot: from four H100s came 86 GB/s by 16 MB and 113 by 8. With fewer that
 * is slower: what threads have just read is in their own caches, 24 MB of 12 threads, from which it
 * has to be taken before the bus can write there again. One H100 brought 52 GB/s by 4 slots of 16
 * MB, 40 by 8, 30 by 4. */
static size_t most_of_piece(const gd_transfer *t, size_t begin)
{
    const gd_result *r = t->result;
    const size_t all = (size_t)r->rows * r->row_bytes;
    const size_t share = gd_between(0, all / 8, (all - begin) / 2) / PAGE * PAGE;
    const size_t halves = gd_buses_at_work() > GD_FEW_BUSES ? 2 : 1;
    const size_t most =
        gd_between(0, gd_between(PAGE, share, SIZE_MAX), t->bus->slot_bytes / halves);
    return is_padded(r) ? gd_between(1, most / r->row_bytes, SIZE_MAX) * r->row_bytes : most;
}

/* Sends the next piece to its slot. */
static gd_status depart(gd_transfer *t, gd_error *err)
{
    const gd_result *r = t->result;
    gd_bus *bus = t->bus;
    const int slot = (int)(t->sent++ % GD_SLOTS);
    const size_t begin = (size_t)(t->panel * t->panel_rows) * r->row_bytes + t->at;
    const size_t panel_bytes = (size_t)rows_of_panel(t, t->panel) * r->row_bytes;
    const size_t bytes = gd_between(0, panel_bytes - t->at, most_of_piece(t, begin));
    gd_status status = t->filled == t->panel ? fill_next(t, err) : GD_OK;
    if (status == GD_OK && t->at == 0) {
        status = gd_cuda_mark_order(bus->stream, bus->computed[t->panel % GD_PANELS], err);
    }
    if (status != GD_OK) {
        return status;
    }
    t->piece[slot] = piece_of(t, slot, begin, bytes);
    t->end[slot] = begin + bytes;
    if ((status = copy_piece(r, bus->stream, bus->slot[slot], r->row_bytes,
                             panel_at(t, t->panel, t->at), bytes, err)) != GD_OK ||
        (status = gd_cuda_mark_set(bus->landed[slot], bus->stream, err)) != GD_OK) {
        return status;
    }
    t->at += bytes;
    if (t->at == panel_bytes) {
        status = gd_cuda_mark_set(bus->departed[t->panel % GD_PANELS], bus->stream, err);
        t->panel += 1;
        t->at = 0;
    }
    return status;
}

/* Has the helpers copy what has landed in the next slot. */
static gd_status land(gd_transfer *t, gd_crew *crew, gd_error *err)
{
    const int slot = (int)(t->landed % GD_SLOTS);
    const gd_status status = gd_cuda_mark_wait(t->bus->landed[slot], err);
    if (status == GD_OK) {
        gd_crew_give(crew, &t->piece[slot]);
        t->landed += 1;
    }
    return status;
}

static void tell_complete(const gd_result *r, size_t bytes)
{
    if (r->complete != NULL) {
        *r->complete = (ptrdiff_t)(bytes / r->row_bytes);
    }
}

/* Tells how far the result is complete; returns how many pieces are. */
static ptrdiff_t tell_finished(gd_transfer *t, ptrdiff_t finished)
{
    if (finished > t->told) {
        t->told = finished;
        tell_complete(t->result, t->end[(finished - 1) % GD_SLOTS]);
    }
    return finished;
}

/* The first pieces of a panel leave before the next one is enqueued, to be computed meanwhile if it
 * has a place. */
static gd_status travel(void *context, gd_crew *crew, gd_error *err)
{
    gd_transfer *const t = context;
    gd_status status = GD_OK;
    while (status == GD_OK) {
        const ptrdiff_t done = tell_finished(t, gd_crew_finished(crew));
        if (t->panel < t->panels && t->sent < done + GD_SLOTS) {
            status = depart(t, err);
        }
        else if (t->filled < t->panels && t->filled < t->panel + t->ahead) {
            status = fill_next(t, err);
        }
        else if (t->landed < t->sent) {
            status = land(t, crew, err);
        }
        else if (done < t->sent) {
            gd_crew_await(crew, done);
        }
        else {
            break;
        }
    }
    return status;
}

static gd_status travel_with_helpers(gd_transfer *t, gd_error *err)
{
    const size_t bytes = (size_t)t->result->rows * t->result->row_bytes;
    gd_crew crew;
    t->bus->crew = &crew;
    const gd_status status = gd_crew_run(&crew, (ptrdiff_t)(bytes / PAGE) + 1, travel, t, err);
    t->bus->crew = NULL;
    (void)tell_finished(t, crew.finished);
    return status;
}

/* Without slots: panel by panel, each when it is computed. */
static gd_status bring_plainly(gd_transfer *t, gd_error *err)
{
    const gd_result *r = t->result;
    const gd_stage *stage = r->stage;
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; status == GD_OK && i < t->panels; ++i) {
        const ptrdiff_t rows = rows_of_panel(t, i);
        const size_t begin = (size_t)(i * t->panel_rows) * r->row_bytes;
        const size_t bytes = (size_t)rows * r->row_bytes;
        const ptrdiff_t panel = r->whole != NULL ? i : 0;
        if (r->fill != NULL) {
            status = r->fill(r->context, i * t->panel_rows, rows, panel_memory(t, 0), err);
        }
        if (status == GD_OK) {
            status = copy_piece(r, stage->stream, place_of(r, begin), r->to_pitch,
                                panel_at(t, panel, 0), bytes, err);
        }
        status = gd_settle(stage->device, stage->stream, status, err);
        if (status == GD_OK) {
            tell_complete(r, begin + bytes);
        }
    }
    return status;
}

ptrdiff_t gd_panel_rows(ptrdiff_t rows, size_t row_bytes)
{
    const size_t bytes = (size_t)rows * row_bytes;
    const size_t panel = gd_between(LEAST_PANEL, bytes / 4, MOST_PANEL);
    const ptrdiff_t count = (ptrdiff_t)(panel / row_bytes);
    if (bytes < GD_WORTH_THE_SLOTS) {
        return rows;
    }
    const ptrdiff_t stepped = count < PANEL_STEP ? PANEL_STEP : count / PANEL_STEP * PANEL_STEP;
    return stepped < rows ? stepped : rows;
}

static gd_status bring(gd_transfer *t, gd_error *err)
{
    gd_stage *stage = t->result->stage;
    const size_t bytes = (size_t)t->result->rows * t->result->row_bytes;
    gd_status status;
    if (bytes < GD_WORTH_THE_SLOTS) {
        return bring_plainly(t, err);
    }
    if ((t->bus = gd_bus_enter(stage->device, err)) == NULL) {
        return err->status;
    }
    stage->bus = t->bus;
    const size_t least = is_padded(t->result) ? t->result->row_bytes : 1;
    status = t->bus->slot_bytes < least ? bring_plainly(t, err) : travel_with_helpers(t, err);
    status = gd_settle(stage->device, t->bus->stream, status, err);
    stage->bus = NULL;
    gd_bus_leave(t->bus);
    return status;
}

gd_status gd_bring_result(const gd_result *wanted, gd_error *err)
{
    gd_result full = *wanted;
    const gd_result *const result = &full;
    gd_stage *stage = result->stage;
    const int kept = stage->owned_count;
    gd_transfer t = {.result = result, .ahead = result->single ? 1 : GD_PANELS};
    gd_status status = GD_OK;
    if (result->rows == 0 || result->row_bytes == 0) {
        return GD_OK;
    }
    if (full.panel_rows == 0) {
        full.panel_rows = gd_panel_rows(result->rows, result->row_bytes);
    }
    full.pitch = full.pitch == 0 ? full.row_bytes : full.pitch;
    full.to_pitch = full.to_pitch == 0 ? full.row_bytes : full.to_pitch;
    const ptrdiff_t panel_rows = full.panel_rows;
    t.panel_rows = panel_rows;
    t.panels = gd_ceil_div(result->rows, panel_rows);
    if (result->whole == NULL) {
        status = gd_stage_memory(stage, (size_t)(t.panels < t.ahead ? t.panels : t.ahead),
                                 (size_t)panel_rows * result->row_bytes, "parts of the result",
                                 &t.memory, err);
    }
    if (stage->budget != NULL && stage->budget->counting) {
        if (status == GD_OK && result->whole == NULL) {
            status = result->fill(result->context, 0, panel_rows, t.memory, err);
        }
        gd_stage_release_to(stage, kept);
        return status;
    }
    status = status == GD_OK ? bring(&t, err) : status;
    status = gd_settle(stage->device, stage->stream, status, err);
    gd_stage_release_to(stage, kept);
    return status;
}
