/* bus_results.c: results on their way to the host, while later panels of them are computed. */
#include "bus_results.h"

#include <pthread.h>

#include "bus_slots.h"
#include "device.h"
#include "sizes.h"
#include "team.h"

enum { PANEL_STEP = 16 }; /* rows: kernels see operands as aligned in a panel as in the whole */
/* Parts of a piece: a huge page where threads fault, since two would fault for the same, and less
 * where nobody does, as waits are short then. */
static const size_t PAGE = (size_t)2 << 20, SHARE = (size_t)512 << 10;
static const size_t LEAST_PANEL = (size_t)16 << 20, MOST_PANEL = (size_t)256 << 20;

/* Some of a result, in a slot; it lies within a panel. */
typedef struct gd_piece {
    size_t offset, bytes;  /* in the result */
    size_t part;           /* bytes of a part, which one thread copies */
    ptrdiff_t parts, left; /* how many there are; not copied yet */
} gd_piece;

/* A result on its way. */
struct gd_transfer {
    const gd_result *result;
    gd_bus *bus;
    void *memory; /* the panels on the device */
    ptrdiff_t panel_rows, panels, filled;
    int ahead; /* so many panels are computed before the first of them has left */
    size_t piece_bytes;
    /* of the next piece to leave: its panel, and where in it it begins */
    ptrdiff_t panel;
    size_t at;
    /* The pieces by number, of which each slot has every GD_SLOTS-th. Copying threads take their
     * parts in order, one after the other, so that none waits for the last of a piece: a fresh page
     * costs several times what one that is there does. */
    gd_piece piece[GD_SLOTS];
    ptrdiff_t sent, landed, taken, finished;
    ptrdiff_t part; /* of piece `taken`, the next to be copied */
    /* Rows that the calling thread wants copied: parts that somebody has begun, and has done. */
    gd_rows request;
    ptrdiff_t begun, run;
    bool over;
    pthread_mutex_t lock;          /* of what follows `piece` but `sent` */
    pthread_cond_t some, done_one; /* parts to copy, or the end; a piece that is finished */
};

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
static bool is_padded(const gd_result *r) { return r->whole != NULL && r->pitch != r->row_bytes; }

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

/* A piece of a panel from `from` on. */
static gd_status copy_piece(const gd_result *r, void *stream, void *to, const char *from,
                            size_t bytes, gd_error *err)
{
    return is_padded(r) ? gd_cuda_copy_rows(stream, to, r->row_bytes, from, r->pitch, r->row_bytes,
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

/* Sends the next piece to its slot. */
static gd_status depart(gd_transfer *t, gd_error *err)
{
    const gd_result *r = t->result;
    gd_bus *bus = t->bus;
    const int slot = (int)(t->sent++ % GD_SLOTS);
    gd_piece *piece = &t->piece[slot];
    const size_t panel_begin = (size_t)(t->panel * t->panel_rows) * r->row_bytes;
    const size_t panel_bytes = (size_t)rows_of_panel(t, t->panel) * r->row_bytes;
    gd_status status = GD_OK;
    /* The panel after this one is computed while this one travels, if it has a place. */
    while (status == GD_OK && t->filled < t->panels && t->filled < t->panel + t->ahead) {
        status = fill_next(t, err);
    }
    if (status == GD_OK && t->at == 0) {
        status = gd_cuda_mark_order(bus->stream, bus->computed[t->panel % GD_PANELS], err);
    }
    if (status != GD_OK) {
        return status;
    }
    piece->offset = panel_begin + t->at;
    piece->bytes = gd_between(0, panel_bytes - t->at, t->piece_bytes);
    char *const to = (char *)r->to + piece->offset;
    piece->part = gd_is_touched(to + piece->bytes - 1) ? SHARE : PAGE;
    piece->parts = piece->left = gd_parts_of(to, piece->bytes, piece->part);
    if ((status = copy_piece(r, bus->stream, bus->slot[slot], panel_at(t, t->panel, t->at),
                             piece->bytes, err)) != GD_OK ||
        (status = gd_cuda_mark_set(bus->landed[slot], bus->stream, err)) != GD_OK) {
        return status;
    }
    t->at += piece->bytes;
    if (t->at == panel_bytes) {
        status = gd_cuda_mark_set(bus->departed[t->panel % GD_PANELS], bus->stream, err);
        t->panel += 1;
        t->at = 0;
    }
    return status;
}

static void tell_complete(const gd_result *r, size_t bytes)
{
    if (r->complete != NULL) {
        *r->complete = (ptrdiff_t)(bytes / r->row_bytes);
    }
}

/* Copies the next part of what has landed; false if there is none. The lock is held, but not while
 * it copies. */
static bool take_part(gd_transfer *t)
{
    if (t->taken == t->landed) {
        return false;
    }
    gd_piece *piece = &t->piece[t->taken % GD_SLOTS];
    const void *slot = t->bus->slot[t->taken % GD_SLOTS];
    const ptrdiff_t part = t->part++;
    if (t->part == piece->parts) {
        t->taken += 1;
        t->part = 0;
    }
    pthread_mutex_unlock(&t->lock);
    gd_copy_part((char *)t->result->to + piece->offset, slot, piece->bytes, piece->part, part);
    pthread_mutex_lock(&t->lock);
    piece->left -= 1;
    /* In order: a piece may be finished before an earlier one. */
    for (; t->finished < t->taken && t->piece[t->finished % GD_SLOTS].left == 0; ++t->finished) {
        const gd_piece *whole = &t->piece[t->finished % GD_SLOTS];
        tell_complete(t->result, whole->offset + whole->bytes);
        pthread_cond_signal(&t->done_one);
    }
    return true;
}

/* Copies the next part of rows that the calling thread wants copied; false if there is none. The
 * lock is held, but not while it copies. */
static bool serve_request(gd_transfer *t)
{
    if (t->begun == t->request.parts) {
        return false;
    }
    const gd_rows rows = t->request;
    const ptrdiff_t part = t->begun++;
    pthread_mutex_unlock(&t->lock);
    gd_copy_part_of_rows(&rows, part);
    pthread_mutex_lock(&t->lock);
    if (++t->run == rows.parts) {
        pthread_cond_signal(&t->done_one);
    }
    return true;
}

void gd_copy_with_helpers(gd_transfer *t, const gd_rows *rows)
{
    pthread_mutex_lock(&t->lock);
    t->request = *rows;
    t->begun = t->run = 0;
    pthread_cond_broadcast(&t->some);
    while (t->run < rows->parts) {
        if (!serve_request(t)) {
            pthread_cond_wait(&t->done_one, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

static void help(gd_transfer *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->over) {
        if (!serve_request(t) && !take_part(t)) {
            pthread_cond_wait(&t->some, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

/* Has the helpers copy what has landed in the next slot. */
static gd_status land(gd_transfer *t, gd_error *err)
{
    const gd_status status = gd_cuda_mark_wait(t->bus->landed[t->landed % GD_SLOTS], err);
    if (status == GD_OK) {
        pthread_mutex_lock(&t->lock);
        t->landed += 1;
        pthread_cond_broadcast(&t->some);
        pthread_mutex_unlock(&t->lock);
    }
    return status;
}

/* Waits until more than `before` pieces are finished; helps, since there need not be anybody else.
 */
static void finish_more(gd_transfer *t, ptrdiff_t before)
{
    pthread_mutex_lock(&t->lock);
    while (t->finished == before) {
        if (!take_part(t)) {
            pthread_cond_wait(&t->done_one, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

static ptrdiff_t finished(gd_transfer *t)
{
    pthread_mutex_lock(&t->lock);
    const ptrdiff_t count = t->finished;
    pthread_mutex_unlock(&t->lock);
    return count;
}

/* What the calling thread does: it alone talks to the device. */
static gd_status travel(gd_transfer *t, gd_error *err)
{
    gd_status status = GD_OK;
    for (ptrdiff_t done;
         status == GD_OK && ((done = finished(t)) < t->sent || t->panel < t->panels);) {
        if (t->panel < t->panels && t->sent < done + GD_SLOTS) {
            status = depart(t, err);
        }
        else if (t->landed < t->sent) {
            status = land(t, err);
        }
        else {
            finish_more(t, done);
        }
    }
    pthread_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_broadcast(&t->some);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* A transfer that the caller and its helpers make. */
typedef struct company {
    gd_transfer *transfer;
    gd_status status;
    gd_error *err;
    bool travelled;
} company;

/* The caller travels, whichever of the items it takes first; the others help until it is there. */
static void join_transfer(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    company *const c = context;
    (void)first, (void)last;
    if (member > 0) {
        help(c->transfer);
    }
    else if (!c->travelled) {
        c->travelled = true;
        c->status = travel(c->transfer, c->err);
    }
}

static gd_status travel_with_helpers(gd_transfer *t, gd_error *err)
{
    const ptrdiff_t parts =
        gd_parts_of(t->result->to, (size_t)t->result->rows * t->result->row_bytes, PAGE);
    const int helpers = parts < gd_copiers() ? (int)parts : gd_copiers();
    company all = {t, GD_OK, err, false};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->some, NULL);
    pthread_cond_init(&t->done_one, NULL);
    t->bus->transfer = t;
    gd_team_run(helpers + 1, helpers + 1, 1, join_transfer, &all);
    t->bus->transfer = NULL;
    pthread_cond_destroy(&t->done_one);
    pthread_cond_destroy(&t->some);
    pthread_mutex_destroy(&t->lock);
    return all.status;
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
            status = copy_piece(r, stage->stream, (char *)r->to + begin, panel_at(t, panel, 0),
                                bytes, err);
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
    t->piece_bytes =
        gd_between(0, gd_between(PAGE, bytes / 8 / PAGE * PAGE, bytes), t->bus->slot_bytes);
    if (is_padded(t->result)) { /* none, where not even one fits */
        t->piece_bytes = t->piece_bytes / t->result->row_bytes * t->result->row_bytes;
    }
    status = t->piece_bytes == 0 ? bring_plainly(t, err) : travel_with_helpers(t, err);
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
    const ptrdiff_t panel_rows = full.panel_rows;
    t.panel_rows = panel_rows;
    t.panels = (result->rows + panel_rows - 1) / panel_rows;
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
