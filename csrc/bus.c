/* bus.c: large arrays between host memory and a CUDA device, by way of pinned slots. */
#define _DEFAULT_SOURCE /* mincore */
#include "bus.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "device.h"

enum {
    SLOTS = 4,
    ASIDE = 2,       /* slots for operands while the others are full of results */
    PANELS = 2,      /* of a result on the device: one is computed while the other travels */
    PANEL_STEP = 16, /* rows: kernels see operands as aligned in a panel as in the whole */
    MOST_COPIERS = 12,
    SPARE_CORES = 4, /* as many spinning threads as cores would keep the driver's from running */
};
/* Slots that together fit the last cache: what the bus wrote there need not come from memory. */
static const size_t MOST_SLOT = (size_t)16 << 20, LEAST_SLOT = (size_t)1 << 20;
static const size_t PAGE = (size_t)2 << 20; /* a huge one: two threads do not fault for the same */
static const size_t SHARE = (size_t)512
                            << 10;            /* of a piece, where nobody faults: waits are short */
static const size_t PART = (size_t)128 << 10; /* of a piece: a thread's, where none has to wait */
/* Of operands. What threads have just written stays in their caches, and from there the device
 * reads it at 54 GB/s while they fill the next slot, but at 8 (2 MB) to 34 GB/s (16 MB) once they
 * sleep. Past the caches it is 40 to 54 whatever they do. So only a large piece that another one
 * follows goes by way of the caches. */
static const size_t MOST_PAST = (size_t)8 << 20;
static const size_t LEAST_PANEL = (size_t)16 << 20, MOST_PANEL = (size_t)256 << 20;

/* What a device's copies go through. */
struct gd_bus {
    pthread_mutex_t lock; /* held by the call that uses it */
    size_t slot_bytes;    /* 0: there are no slots, and copies are plain */
    void *slot[SLOTS + ASIDE], *landed[SLOTS + ASIDE];
    void *computed[PANELS], *departed[PANELS];
    void *stream;
    bool ready;                 /* but for the slots aside, which few calls need */
    struct gd_journey *journey; /* a result that is using it, or NULL */
};

static gd_bus buses[GD_MOST_DEVICES];
static pthread_once_t started = PTHREAD_ONCE_INIT;
static _Atomic size_t pinned_limit = GD_PINNED_AT_FIRST, pinned;

static void start(void)
{
    for (int i = 0; i < GD_MOST_DEVICES; ++i) {
        pthread_mutex_init(&buses[i].lock, NULL);
    }
}

static gd_status make_slot(gd_bus *bus, int i, gd_error *err)
{
    gd_status status = GD_OK;
    if (bus->slot[i] == NULL &&
        (status = gd_cuda_pinned_alloc(bus->slot_bytes, &bus->slot[i], err)) == GD_OK) {
        atomic_fetch_add(&pinned, bus->slot_bytes);
    }
    return status == GD_OK && bus->landed[i] == NULL ? gd_cuda_mark_create(&bus->landed[i], err)
                                                     : status;
}

static void drop_slots(gd_bus *bus)
{
    gd_error ignored;
    if (bus->stream != NULL) { /* it may still read operands there */
        (void)gd_cuda_wait(bus->stream, &ignored);
    }
    for (int i = 0; i < SLOTS + ASIDE; ++i) {
        if (bus->slot[i] != NULL) {
            gd_cuda_pinned_free(bus->slot[i]);
            bus->slot[i] = NULL;
            atomic_fetch_sub(&pinned, bus->slot_bytes);
        }
    }
    bus->ready = false;
}

/* A set that could not be completed is completed by the next call. */
static gd_status complete(gd_bus *bus, gd_error *err)
{
    const size_t share = atomic_load(&pinned_limit) / (SLOTS + ASIDE) / LEAST_SLOT * LEAST_SLOT;
    const size_t slot_bytes = share < MOST_SLOT ? share : MOST_SLOT;
    gd_status status = GD_OK;
    if (slot_bytes != bus->slot_bytes) {
        drop_slots(bus);
        bus->slot_bytes = slot_bytes;
    }
    if (bus->stream == NULL) {
        status = gd_cuda_stream_create(&bus->stream, err);
    }
    for (int i = 0; i < SLOTS && slot_bytes > 0 && status == GD_OK; ++i) {
        status = make_slot(bus, i, err);
    }
    for (int i = 0; i < PANELS && status == GD_OK; ++i) {
        if (bus->computed[i] == NULL) {
            status = gd_cuda_mark_create(&bus->computed[i], err);
        }
        if (status == GD_OK && bus->departed[i] == NULL) {
            status = gd_cuda_mark_create(&bus->departed[i], err);
        }
    }
    bus->ready = status == GD_OK;
    return status;
}

void gd_limit_pinned(size_t bytes)
{
    pthread_once(&started, start);
    atomic_store(&pinned_limit, bytes);
    for (int i = 0; i < GD_MOST_DEVICES; ++i) {
        pthread_mutex_lock(&buses[i].lock);
        drop_slots(&buses[i]);
        pthread_mutex_unlock(&buses[i].lock);
    }
}

size_t gd_pinned_bytes(void) { return atomic_load(&pinned); }

/* The device's bus, ours until `leave`; NULL with *err set. */
static gd_bus *enter(gd_device device, gd_error *err)
{
    gd_bus *bus =
        &buses[device.index]; /* below GD_MOST_DEVICES, or the device could not be entered */
    pthread_once(&started, start);
    pthread_mutex_lock(&bus->lock);
    if (!bus->ready && complete(bus, err) != GD_OK) {
        pthread_mutex_unlock(&bus->lock);
        return NULL;
    }
    return bus;
}

static void leave(gd_bus *bus) { pthread_mutex_unlock(&bus->lock); }

/* ---------------------------------------------------------------- copying on the host */

static int copiers(void)
{
    const int cores = omp_get_num_procs(), wanted = gd_host_threads();
    const int most = cores > 2 * SPARE_CORES ? cores - SPARE_CORES : (cores + 1) / 2;
    const int fit = wanted < most ? wanted : most;
    return fit < MOST_COPIERS ? fit : MOST_COPIERS;
}

/* Past the caches: what is written is not read soon, and a line need not be fetched first. */
static void copy_past(char *to, const char *from, size_t bytes)
{
#if defined(__x86_64__)
    const size_t head = -(uintptr_t)to % 64;
    if (bytes < 256) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
        const __m128i *line = (const __m128i *)(const void *)(from + i);
        __m128i *there = (__m128i *)(void *)(to + i);
        const __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1);
        const __m128i c = _mm_loadu_si128(line + 2), d = _mm_loadu_si128(line + 3);
        _mm_stream_si128(there, a);
        _mm_stream_si128(there + 1, b);
        _mm_stream_si128(there + 2, c);
        _mm_stream_si128(there + 3, d);
    }
    memcpy(to + i, from + i, bytes - i);
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

/* Parts end at multiples of `part` bytes of `to`. */
static ptrdiff_t parts_of(const char *to, size_t bytes, size_t part)
{
    return (ptrdiff_t)(((uintptr_t)to % part + bytes + part - 1) / part);
}

static void copy_part(char *to, const char *from, size_t bytes, size_t part, ptrdiff_t i)
{
    const size_t before = (uintptr_t)to % part;
    const size_t begin = i == 0 ? 0 : (size_t)i * part - before;
    const size_t end = (size_t)(i + 1) * part - before;
    copy_past(to + begin, from + begin, (end < bytes ? end : bytes) - begin);
}

/* Whether memory has been touched before, as far as the system tells. */
static bool is_there(const char *p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char found;
    return mincore((void *)((uintptr_t)p / page * page), 1, &found) == 0 && found % 2 == 1;
}

/* Rows between places that have been touched: a thread's part need not end where a page does. */
typedef struct gd_rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, row_bytes, bytes;
    bool near, dense; /* near: through the caches */
    ptrdiff_t parts;
} gd_rows;

static gd_rows rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                       size_t row_bytes, ptrdiff_t rows, bool near)
{
    const bool dense = to_pitch == row_bytes && from_pitch == row_bytes;
    const size_t bytes = row_bytes * (size_t)rows;
    return (gd_rows){.to = to,
                     .from = from,
                     .to_pitch = to_pitch,
                     .from_pitch = from_pitch,
                     .row_bytes = row_bytes,
                     .bytes = bytes,
                     .near = near,
                     .dense = dense,
                     .parts = dense ? (ptrdiff_t)((bytes + PART - 1) / PART) : rows};
}

static void copy_part_of_rows(const gd_rows *r, ptrdiff_t i)
{
    const size_t begin = r->dense ? (size_t)i * PART : 0;
    char *to = r->to + (r->dense ? begin : (size_t)i * r->to_pitch);
    const char *from = r->from + (r->dense ? begin : (size_t)i * r->from_pitch);
    const size_t left = r->bytes - begin;
    const size_t bytes = !r->dense ? r->row_bytes : left < PART ? left : PART;
    if (r->near) {
        memcpy(to, from, bytes);
    }
    else {
        copy_past(to, from, bytes);
    }
}

/* ---------------------------------------------------------------- results */

/* Some of a result, in a slot; it lies within a panel. */
typedef struct gd_piece {
    size_t offset, bytes;  /* in the result */
    size_t part;           /* bytes of a part, which one thread copies */
    ptrdiff_t parts, left; /* how many there are; not copied yet */
} gd_piece;

/* A result on its way. */
typedef struct gd_journey {
    const gd_result *result;
    gd_bus *bus;
    void *memory; /* the panels on the device */
    ptrdiff_t panel_rows, panels, filled;
    int ahead; /* so many panels are computed before the first of them has left */
    size_t piece_bytes;
    /* of the next piece to leave: its panel, and where in it it begins */
    ptrdiff_t panel;
    size_t at;
    /* The pieces by number, of which each slot has every SLOTS-th. Copying threads take their parts
     * in order, one after the other, so that none waits for the last of a piece: a fresh page costs
     * several times what one that is there does. */
    gd_piece piece[SLOTS];
    ptrdiff_t sent, landed, taken, finished;
    ptrdiff_t part; /* of piece `taken`, the next to be copied */
    /* Rows that the calling thread wants copied: parts that somebody has begun, and has done. */
    gd_rows errand;
    ptrdiff_t begun, run;
    bool over;
    pthread_mutex_t lock;          /* of what follows `piece` but `sent` */
    pthread_cond_t some, done_one; /* parts to copy, or the end; a piece that is finished */
} gd_journey;

static size_t between(size_t least, size_t x, size_t most)
{
    return x < least ? least : x > most ? most : x;
}

static ptrdiff_t rows_of_panel(const gd_journey *j, ptrdiff_t panel)
{
    const ptrdiff_t left = j->result->rows - panel * j->panel_rows;
    return left < j->panel_rows ? left : j->panel_rows;
}

/* NULL where the result has its place. */
static char *panel_memory(const gd_journey *j, ptrdiff_t panel)
{
    const size_t bytes = (size_t)j->panel_rows * j->result->row_bytes;
    return j->memory != NULL ? (char *)j->memory + (size_t)(panel % j->ahead) * bytes : NULL;
}

/* Rows with padding between them travel as rows, all others as bytes. */
static bool is_padded(const gd_result *r) { return r->whole != NULL && r->pitch != r->row_bytes; }

/* Where in the device's memory a panel is from byte `at` on; a padded one's row begins there. */
static const char *panel_at(const gd_journey *j, ptrdiff_t panel, size_t at)
{
    const gd_result *r = j->result;
    if (r->whole == NULL) {
        return panel_memory(j, panel) + at;
    }
    const size_t row = (size_t)(panel * j->panel_rows) + at / r->row_bytes;
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
static gd_status fill_next(gd_journey *j, gd_error *err)
{
    const gd_result *r = j->result;
    const ptrdiff_t panel = j->filled++;
    gd_status status = GD_OK;
    if (r->whole == NULL && panel >= j->ahead) {
        status = gd_cuda_mark_order(r->stage->stream, j->bus->departed[(panel - j->ahead) % PANELS],
                                    err);
    }
    if (r->fill != NULL && status == GD_OK) {
        status = r->fill(r->context, panel * j->panel_rows, rows_of_panel(j, panel),
                         panel_memory(j, panel), err);
    }
    return status == GD_OK
               ? gd_cuda_mark_set(j->bus->computed[panel % PANELS], r->stage->stream, err)
               : status;
}

/* Sends the next piece to its slot. */
static gd_status depart(gd_journey *j, gd_error *err)
{
    const gd_result *r = j->result;
    gd_bus *bus = j->bus;
    const int slot = (int)(j->sent++ % SLOTS);
    gd_piece *piece = &j->piece[slot];
    const size_t panel_begin = (size_t)(j->panel * j->panel_rows) * r->row_bytes;
    const size_t panel_bytes = (size_t)rows_of_panel(j, j->panel) * r->row_bytes;
    gd_status status = GD_OK;
    /* The panel after this one is computed while this one travels, if it has a place. */
    while (status == GD_OK && j->filled < j->panels && j->filled < j->panel + j->ahead) {
        status = fill_next(j, err);
    }
    if (status == GD_OK && j->at == 0) {
        status = gd_cuda_mark_order(bus->stream, bus->computed[j->panel % PANELS], err);
    }
    if (status != GD_OK) {
        return status;
    }
    piece->offset = panel_begin + j->at;
    piece->bytes = between(0, panel_bytes - j->at, j->piece_bytes);
    char *const to = (char *)r->to + piece->offset;
    piece->part = is_there(to + piece->bytes - 1) ? SHARE : PAGE;
    piece->parts = piece->left = parts_of(to, piece->bytes, piece->part);
    if ((status = copy_piece(r, bus->stream, bus->slot[slot], panel_at(j, j->panel, j->at),
                             piece->bytes, err)) != GD_OK ||
        (status = gd_cuda_mark_set(bus->landed[slot], bus->stream, err)) != GD_OK) {
        return status;
    }
    j->at += piece->bytes;
    if (j->at == panel_bytes) {
        status = gd_cuda_mark_set(bus->departed[j->panel % PANELS], bus->stream, err);
        j->panel += 1;
        j->at = 0;
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
static bool take_part(gd_journey *j)
{
    if (j->taken == j->landed) {
        return false;
    }
    gd_piece *piece = &j->piece[j->taken % SLOTS];
    const void *slot = j->bus->slot[j->taken % SLOTS];
    const ptrdiff_t part = j->part++;
    if (j->part == piece->parts) {
        j->taken += 1;
        j->part = 0;
    }
    pthread_mutex_unlock(&j->lock);
    copy_part((char *)j->result->to + piece->offset, slot, piece->bytes, piece->part, part);
    pthread_mutex_lock(&j->lock);
    piece->left -= 1;
    /* In order: a piece may be finished before an earlier one. */
    for (; j->finished < j->taken && j->piece[j->finished % SLOTS].left == 0; ++j->finished) {
        const gd_piece *whole = &j->piece[j->finished % SLOTS];
        tell_complete(j->result, whole->offset + whole->bytes);
        pthread_cond_signal(&j->done_one);
    }
    return true;
}

/* Copies the next part of rows that the calling thread wants copied; false if there is none. The
 * lock is held, but not while it copies. */
static bool run_errand(gd_journey *j)
{
    if (j->begun == j->errand.parts) {
        return false;
    }
    const gd_rows rows = j->errand;
    const ptrdiff_t part = j->begun++;
    pthread_mutex_unlock(&j->lock);
    copy_part_of_rows(&rows, part);
    pthread_mutex_lock(&j->lock);
    if (++j->run == rows.parts) {
        pthread_cond_signal(&j->done_one);
    }
    return true;
}

/* Has all threads copy rows, which are wanted before what has landed. */
static void copy_with_helpers(gd_journey *j, const gd_rows *rows)
{
    pthread_mutex_lock(&j->lock);
    j->errand = *rows;
    j->begun = j->run = 0;
    pthread_cond_broadcast(&j->some);
    while (j->run < rows->parts) {
        if (!run_errand(j)) {
            pthread_cond_wait(&j->done_one, &j->lock);
        }
    }
    pthread_mutex_unlock(&j->lock);
}

static void help(gd_journey *j)
{
    pthread_mutex_lock(&j->lock);
    while (!j->over) {
        if (!run_errand(j) && !take_part(j)) {
            pthread_cond_wait(&j->some, &j->lock);
        }
    }
    pthread_mutex_unlock(&j->lock);
}

/* Has the helpers copy what has landed in the next slot. */
static gd_status land(gd_journey *j, gd_error *err)
{
    const gd_status status = gd_cuda_mark_wait(j->bus->landed[j->landed % SLOTS], err);
    if (status == GD_OK) {
        pthread_mutex_lock(&j->lock);
        j->landed += 1;
        pthread_cond_broadcast(&j->some);
        pthread_mutex_unlock(&j->lock);
    }
    return status;
}

/* Waits until more than `before` pieces are finished; helps, since there need not be anybody else.
 */
static void finish_more(gd_journey *j, ptrdiff_t before)
{
    pthread_mutex_lock(&j->lock);
    while (j->finished == before) {
        if (!take_part(j)) {
            pthread_cond_wait(&j->done_one, &j->lock);
        }
    }
    pthread_mutex_unlock(&j->lock);
}

static ptrdiff_t finished(gd_journey *j)
{
    pthread_mutex_lock(&j->lock);
    const ptrdiff_t count = j->finished;
    pthread_mutex_unlock(&j->lock);
    return count;
}

static void copy_rows(const gd_bus *bus, gd_rows rows)
{
    if (bus->journey != NULL) { /* parallel regions do not nest, and its threads are there */
        copy_with_helpers(bus->journey, &rows);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(copiers())
    for (ptrdiff_t i = 0; i < rows.parts; ++i) {
        copy_part_of_rows(&rows, i);
    }
}

/* What the calling thread does: it alone talks to the device. */
static gd_status travel(gd_journey *j, gd_error *err)
{
    gd_status status = GD_OK;
    for (ptrdiff_t done;
         status == GD_OK && ((done = finished(j)) < j->sent || j->panel < j->panels);) {
        if (j->panel < j->panels && j->sent < done + SLOTS) {
            status = depart(j, err);
        }
        else if (j->landed < j->sent) {
            status = land(j, err);
        }
        else {
            finish_more(j, done);
        }
    }
    pthread_mutex_lock(&j->lock);
    j->over = true;
    pthread_cond_broadcast(&j->some);
    pthread_mutex_unlock(&j->lock);
    return status;
}

static gd_status travel_with_helpers(gd_journey *j, gd_error *err)
{
    const ptrdiff_t parts =
        parts_of(j->result->to, (size_t)j->result->rows * j->result->row_bytes, PAGE);
    const int helpers = parts < copiers() ? (int)parts : copiers();
    gd_status status = GD_OK;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->some, NULL);
    pthread_cond_init(&j->done_one, NULL);
    j->bus->journey = j;
#pragma omp parallel num_threads(helpers + 1)
    {
        if (omp_get_thread_num() == 0) {
            status = travel(j, err);
        }
        else {
            help(j);
        }
    }
    j->bus->journey = NULL;
    pthread_cond_destroy(&j->done_one);
    pthread_cond_destroy(&j->some);
    pthread_mutex_destroy(&j->lock);
    return status;
}

/* Without slots: panel by panel, each when it is computed. */
static gd_status bring_plainly(gd_journey *j, gd_error *err)
{
    const gd_result *r = j->result;
    const gd_stage *stage = r->stage;
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; status == GD_OK && i < j->panels; ++i) {
        const ptrdiff_t rows = rows_of_panel(j, i);
        const size_t begin = (size_t)(i * j->panel_rows) * r->row_bytes;
        const size_t bytes = (size_t)rows * r->row_bytes;
        const ptrdiff_t panel = r->whole != NULL ? i : 0;
        if (r->fill != NULL) {
            status = r->fill(r->context, i * j->panel_rows, rows, panel_memory(j, 0), err);
        }
        if (status == GD_OK) {
            status = copy_piece(r, stage->stream, (char *)r->to + begin, panel_at(j, panel, 0),
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
    const size_t panel = between(LEAST_PANEL, bytes / 4, MOST_PANEL);
    const ptrdiff_t count = (ptrdiff_t)(panel / row_bytes);
    if (bytes < GD_WORTH_THE_SLOTS) {
        return rows;
    }
    const ptrdiff_t stepped = count < PANEL_STEP ? PANEL_STEP : count / PANEL_STEP * PANEL_STEP;
    return stepped < rows ? stepped : rows;
}

static gd_status bring(gd_journey *j, gd_error *err)
{
    gd_stage *stage = j->result->stage;
    const size_t bytes = (size_t)j->result->rows * j->result->row_bytes;
    gd_status status;
    if (bytes < GD_WORTH_THE_SLOTS) {
        return bring_plainly(j, err);
    }
    if ((j->bus = enter(stage->device, err)) == NULL) {
        return err->status;
    }
    stage->bus = j->bus;
    j->piece_bytes =
        between(0, between(PAGE, bytes / 8 / PAGE * PAGE, MOST_SLOT), j->bus->slot_bytes);
    if (is_padded(j->result)) { /* none, where not even one fits */
        j->piece_bytes = j->piece_bytes / j->result->row_bytes * j->result->row_bytes;
    }
    status = j->piece_bytes == 0 ? bring_plainly(j, err) : travel_with_helpers(j, err);
    status = gd_settle(stage->device, j->bus->stream, status, err);
    stage->bus = NULL;
    leave(j->bus);
    return status;
}

gd_status gd_bring_result(const gd_result *wanted, gd_error *err)
{
    gd_result full = *wanted;
    const gd_result *const result = &full;
    gd_stage *stage = result->stage;
    const int kept = stage->owned_count;
    gd_journey j = {.result = result, .ahead = result->single ? 1 : PANELS};
    gd_status status = GD_OK;
    if (result->rows == 0 || result->row_bytes == 0) {
        return GD_OK;
    }
    if (full.panel_rows == 0) {
        full.panel_rows = gd_panel_rows(result->rows, result->row_bytes);
    }
    full.pitch = full.pitch == 0 ? full.row_bytes : full.pitch;
    const ptrdiff_t panel_rows = full.panel_rows;
    j.panel_rows = panel_rows;
    j.panels = (result->rows + panel_rows - 1) / panel_rows;
    if (result->whole == NULL) {
        status = gd_stage_memory(stage, (size_t)(j.panels < j.ahead ? j.panels : j.ahead),
                                 (size_t)panel_rows * result->row_bytes, "parts of the result",
                                 &j.memory, err);
    }
    if (stage->budget != NULL && stage->budget->counting) {
        if (status == GD_OK && result->whole == NULL) {
            status = result->fill(result->context, 0, panel_rows, j.memory, err);
        }
        gd_stage_release_to(stage, kept);
        return status;
    }
    status = status == GD_OK ? bring(&j, err) : status;
    status = gd_settle(stage->device, stage->stream, status, err);
    gd_stage_release_to(stage, kept);
    return status;
}

/* ---------------------------------------------------------------- rows as they are */

/* What `first` is at now comes before all that `second` will be. */
static gd_status order(const gd_bus *bus, void *first, void *second, gd_error *err)
{
    const gd_status status = gd_cuda_mark_set(bus->computed[0], first, err);
    return status == GD_OK ? gd_cuda_mark_order(second, bus->computed[0], err) : status;
}

/* Rows of a piece, of at least so many: the threads have one while the bus has another. */
static ptrdiff_t rows_of_piece(const gd_bus *bus, size_t row_bytes, ptrdiff_t rows, int pieces)
{
    const size_t share = row_bytes * (size_t)rows / (size_t)pieces;
    return (ptrdiff_t)(between(row_bytes, share, bus->slot_bytes) / row_bytes);
}

/* Through `count` slots from `first_slot` on, of which others have nothing more to say, in at least
 * so many pieces. */
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
        copy_rows(bus, rows_of(bus->slot[slot], row_bytes,
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
    if ((bus = enter(device, err)) == NULL) {
        return err->status;
    }
    if (bus->slot_bytes < row_bytes) {
        status =
            gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows, err);
    }
    else {
        /* Who writes into the slots next waits for their marks, or is the bus's stream. */
        status = send(bus, 0, SLOTS, SLOTS, bus->stream, to, to_pitch, from, from_pitch, row_bytes,
                      rows, err);
        status = status == GD_OK ? order(bus, bus->stream, stream, err)
                                 : gd_settle(device, bus->stream, status, err);
    }
    leave(bus);
    return status;
}

gd_status gd_send_rows(gd_device device, void *stream, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    gd_status status = GD_OK;
    if (row_bytes * (size_t)rows >= GD_WORTH_THE_SLOTS) {
        gd_bus *const bus = enter(device, err);
        if (bus == NULL) {
            return err->status;
        }
        status = order(bus, stream, bus->stream, err);
        leave(bus);
    }
    return status == GD_OK ? gd_send_rows_ahead(device, stream, to, to_pitch, from, from_pitch,
                                                row_bytes, rows, err)
                           : status;
}

gd_status gd_send_rows_aside(gd_bus *bus, void *stream, void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    gd_status status = GD_OK;
    if (row_bytes * (size_t)rows < GD_WORTH_THE_SLOTS || bus->slot_bytes < row_bytes) {
        return gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows,
                                 err);
    }
    for (int i = SLOTS; i < SLOTS + ASIDE && status == GD_OK; ++i) {
        status = make_slot(bus, i, err);
    }
    /* In one piece if it fits: a slot is free again when the device has come to what is in it,
     * behind its work on what was sent before, and the other one can be filled meanwhile. */
    return status == GD_OK ? send(bus, SLOTS, ASIDE, 1, stream, to, to_pitch, from, from_pitch,
                                  row_bytes, rows, err)
                           : status;
}

static gd_status receive(gd_bus *bus, void *to, size_t to_pitch, const void *from,
                         size_t from_pitch, size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    const ptrdiff_t step = rows_of_piece(bus, row_bytes, rows, SLOTS);
    gd_status status = GD_OK;
    for (ptrdiff_t sent = 0, arrived = 0; status == GD_OK && arrived < rows;) {
        const bool sends = sent < rows && sent < arrived + SLOTS * step;
        const ptrdiff_t first = sends ? sent : arrived;
        const ptrdiff_t some = rows - first < step ? rows - first : step;
        const int slot = (int)(first / step % SLOTS);
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
            copy_rows(bus, rows_of((char *)to + (size_t)first * to_pitch, to_pitch, bus->slot[slot],
                                   row_bytes, row_bytes, some, false));
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
    if (bytes >= GD_WORTH_THE_SLOTS && (bus = enter(device, err)) == NULL) {
        return err->status;
    }
    if (bytes < GD_WORTH_THE_SLOTS || bus->slot_bytes < row_bytes) {
        status =
            gd_cuda_copy_rows(stream, to, to_pitch, from, from_pitch, row_bytes, (size_t)rows, err);
        status = gd_settle(device, stream, status, err);
    }
    else if ((status = order(bus, stream, bus->stream, err)) == GD_OK) {
        status = receive(bus, to, to_pitch, from, from_pitch, row_bytes, rows, err);
        status = gd_settle(device, bus->stream, status, err);
    }
    if (bytes >= GD_WORTH_THE_SLOTS) {
        leave(bus);
    }
    return status;
}
