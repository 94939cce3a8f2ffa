/* bus.c: large arrays between host memory and a CUDA device, by way of pinned slots. */
#include "bus.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "device.h"

enum {
    SLOTS = 4,
    PANELS = 2,      /* of a result on the device: one is computed while the other travels */
    PANEL_STEP = 16, /* rows: kernels see operands as aligned in a panel as in the whole */
    MOST_COPIERS = 12,
    SPARE_CORES = 4, /* as many spinning threads as cores would keep the driver's from running */
};
static const size_t SLOT_BYTES = (size_t)32 << 20;
static const size_t PAGE = (size_t)2 << 20; /* a huge one: two threads do not fault for the same */
static const size_t LEAST_PANEL = (size_t)16 << 20, MOST_PANEL = (size_t)256 << 20;

/* What a device's copies go through. */
typedef struct gd_bus {
    pthread_mutex_t lock; /* held by the call that uses it */
    void *slot[SLOTS], *landed[SLOTS];
    void *computed[PANELS], *departed[PANELS];
    void *stream;
    bool ready;
} gd_bus;

static gd_bus buses[GD_MOST_DEVICES];
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void start(void)
{
    for (int i = 0; i < GD_MOST_DEVICES; ++i) {
        pthread_mutex_init(&buses[i].lock, NULL);
    }
}

/* A set that could not be completed is completed by the next call. */
static gd_status complete(gd_bus *bus, gd_error *err)
{
    gd_status status = GD_OK;
    if (bus->stream == NULL) {
        status = gd_cuda_stream_create(&bus->stream, err);
    }
    for (int i = 0; i < SLOTS && status == GD_OK; ++i) {
        if (bus->slot[i] == NULL) {
            status = gd_cuda_pinned_alloc(SLOT_BYTES, &bus->slot[i], err);
        }
        if (status == GD_OK && bus->landed[i] == NULL) {
            status = gd_cuda_mark_create(&bus->landed[i], err);
        }
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

/* In parts that end where huge pages of `to` do. */
static void copy_in_parts(char *to, const char *from, size_t bytes)
{
    const size_t before = (uintptr_t)to % PAGE;
    const ptrdiff_t parts = (ptrdiff_t)((before + bytes + PAGE - 1) / PAGE);
#pragma omp parallel for schedule(dynamic, 1) num_threads(copiers())
    for (ptrdiff_t i = 0; i < parts; ++i) {
        const size_t begin = i == 0 ? 0 : (size_t)i * PAGE - before;
        const size_t end = (size_t)(i + 1) * PAGE - before;
        copy_past(to + begin, from + begin, (end < bytes ? end : bytes) - begin);
    }
}

static void copy_rows(char *to, const char *from, size_t pitch, size_t row_bytes, ptrdiff_t rows)
{
    if (pitch == row_bytes) {
        copy_in_parts(to, from, row_bytes * (size_t)rows);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(copiers())
    for (ptrdiff_t i = 0; i < rows; ++i) {
        copy_past(to + (size_t)i * row_bytes, from + (size_t)i * pitch, row_bytes);
    }
}

/* ---------------------------------------------------------------- results */

/* A result on its way. Its bytes travel in pieces; a piece lies within a panel. */
typedef struct gd_journey {
    const gd_result *result;
    gd_bus *bus;
    void *memory; /* the panels on the device */
    ptrdiff_t panel_rows, panels, filled;
    size_t piece_bytes;
    /* of the next piece to leave: its panel, and where in it it begins */
    ptrdiff_t panel;
    size_t at;
} gd_journey;

typedef struct gd_piece {
    size_t offset, bytes; /* in the result */
} gd_piece;

static size_t between(size_t least, size_t x, size_t most)
{
    return x < least ? least : x > most ? most : x;
}

static ptrdiff_t rows_of_panel(const gd_journey *j, ptrdiff_t panel)
{
    const ptrdiff_t left = j->result->rows - panel * j->panel_rows;
    return left < j->panel_rows ? left : j->panel_rows;
}

static char *panel_memory(const gd_journey *j, ptrdiff_t panel)
{
    const size_t bytes = (size_t)j->panel_rows * j->result->row_bytes;
    return (char *)j->memory + (size_t)(panel % PANELS) * bytes;
}

/* Enqueues the next panel's computation, once the one before it in its memory has departed. */
static gd_status fill_next(gd_journey *j, gd_error *err)
{
    const gd_result *r = j->result;
    const ptrdiff_t panel = j->filled++;
    gd_status status = GD_OK;
    if (panel >= PANELS) {
        status = gd_cuda_mark_order(r->stage->stream, j->bus->departed[panel % PANELS], err);
    }
    if (status == GD_OK && r->whole == NULL) {
        status = r->fill(r->context, panel * j->panel_rows, rows_of_panel(j, panel),
                         panel_memory(j, panel), err);
    }
    return status == GD_OK
               ? gd_cuda_mark_set(j->bus->computed[panel % PANELS], r->stage->stream, err)
               : status;
}

/* Sends the next piece to its slot. */
static gd_status depart(gd_journey *j, int slot, gd_piece *piece, gd_error *err)
{
    const gd_result *r = j->result;
    gd_bus *bus = j->bus;
    const size_t panel_begin = (size_t)(j->panel * j->panel_rows) * r->row_bytes;
    const size_t panel_bytes = (size_t)rows_of_panel(j, j->panel) * r->row_bytes;
    const char *from =
        r->whole != NULL ? (const char *)r->whole + panel_begin : panel_memory(j, j->panel);
    gd_status status = GD_OK;
    /* The panel after this one is computed while this one travels. */
    while (status == GD_OK && j->filled < j->panels && j->filled <= j->panel + 1) {
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
    from += j->at;
    j->at += piece->bytes;
    if ((status = gd_cuda_copy_rows(bus->stream, bus->slot[slot], piece->bytes, from, piece->bytes,
                                    piece->bytes, 1, err)) != GD_OK ||
        (status = gd_cuda_mark_set(bus->landed[slot], bus->stream, err)) != GD_OK) {
        return status;
    }
    if (j->at == panel_bytes) {
        status = gd_cuda_mark_set(bus->departed[j->panel % PANELS], bus->stream, err);
        j->panel += 1;
        j->at = 0;
    }
    return status;
}

static gd_status travel(gd_journey *j, gd_error *err)
{
    gd_piece pieces[SLOTS];
    ptrdiff_t sent = 0, arrived = 0;
    gd_status status = GD_OK;
    while (status == GD_OK && (arrived < sent || j->panel < j->panels)) {
        if (j->panel < j->panels && sent < arrived + SLOTS) {
            status = depart(j, (int)(sent % SLOTS), &pieces[sent % SLOTS], err);
            ++sent;
            continue;
        }
        const int slot = (int)(arrived % SLOTS);
        status = gd_cuda_mark_wait(j->bus->landed[slot], err);
        if (status == GD_OK) {
            copy_in_parts((char *)j->result->to + pieces[slot].offset, j->bus->slot[slot],
                          pieces[slot].bytes);
        }
        ++arrived;
    }
    return status;
}

/* In one piece, without slots. */
static gd_status bring_small(const gd_result *r, size_t bytes, gd_error *err)
{
    gd_stage *stage = r->stage;
    const int kept = stage->owned_count;
    void *memory = NULL;
    const void *from = r->whole;
    gd_status status = GD_OK;
    if (from == NULL &&
        (status = gd_stage_memory(stage, 1, bytes, "the result", &memory, err)) == GD_OK) {
        status = r->fill(r->context, 0, r->rows, memory, err);
        from = memory;
    }
    if (status == GD_OK) {
        status = gd_cuda_copy_rows(stage->stream, r->to, bytes, from, bytes, bytes, 1, err);
    }
    status = gd_settle(stage->device, stage->stream, status, err);
    gd_stage_release_to(stage, kept);
    return status;
}

gd_status gd_bring_result(const gd_result *result, gd_error *err)
{
    const size_t bytes = (size_t)result->rows * result->row_bytes;
    const size_t panel = between(LEAST_PANEL, bytes / 4, MOST_PANEL);
    const ptrdiff_t panel_rows = (ptrdiff_t)(panel / result->row_bytes);
    gd_stage *stage = result->stage;
    const int kept = stage->owned_count;
    gd_journey j = {.result = result};
    gd_status status = GD_OK;
    if (bytes < GD_WORTH_THE_SLOTS) {
        return bytes == 0 ? GD_OK : bring_small(result, bytes, err);
    }
    j.panel_rows = panel_rows < PANEL_STEP ? PANEL_STEP : panel_rows / PANEL_STEP * PANEL_STEP;
    j.panel_rows = j.panel_rows < result->rows ? j.panel_rows : result->rows;
    j.panels = (result->rows + j.panel_rows - 1) / j.panel_rows;
    j.piece_bytes = between(PAGE, bytes / 8 / PAGE * PAGE, SLOT_BYTES);
    if ((j.bus = enter(stage->device, err)) == NULL) {
        return err->status;
    }
    if (result->whole == NULL) {
        status = gd_stage_memory(stage, (size_t)(j.panels < PANELS ? j.panels : PANELS),
                                 (size_t)j.panel_rows * result->row_bytes, "parts of the result",
                                 &j.memory, err);
    }
    if (status == GD_OK) {
        status = travel(&j, err);
    }
    status = gd_settle(stage->device, j.bus->stream, status, err);
    status = gd_settle(stage->device, stage->stream, status, err);
    gd_stage_release_to(stage, kept);
    leave(j.bus);
    return status;
}

/* ---------------------------------------------------------------- operands */

gd_status gd_send_rows(gd_device device, void *stream, void *to, const void *from, size_t pitch,
                       size_t row_bytes, ptrdiff_t rows, gd_error *err)
{
    const size_t bytes = (size_t)rows * row_bytes;
    const ptrdiff_t step = row_bytes == 0 ? 0 : (ptrdiff_t)(SLOT_BYTES / row_bytes);
    gd_bus *bus;
    gd_status status = GD_OK;
    if (bytes < GD_WORTH_THE_SLOTS || step == 0) {
        return gd_cuda_copy_rows(stream, to, row_bytes, from, pitch, row_bytes, (size_t)rows, err);
    }
    if ((bus = enter(device, err)) == NULL) {
        return err->status;
    }
    /* `to` is fresh memory of `stream`. */
    if ((status = gd_cuda_mark_set(bus->computed[0], stream, err)) == GD_OK) {
        status = gd_cuda_mark_order(bus->stream, bus->computed[0], err);
    }
    for (ptrdiff_t first = 0, i = 0; status == GD_OK && first < rows; first += step, ++i) {
        const int slot = (int)(i % SLOTS);
        const ptrdiff_t count = rows - first < step ? rows - first : step;
        const size_t piece = (size_t)count * row_bytes;
        if (i >= SLOTS) {
            status = gd_cuda_mark_wait(bus->landed[slot], err);
        }
        if (status != GD_OK) {
            break;
        }
        copy_rows(bus->slot[slot], (const char *)from + (size_t)first * pitch, pitch, row_bytes,
                  count);
        status = gd_cuda_copy_rows(bus->stream, (char *)to + (size_t)first * row_bytes, piece,
                                   bus->slot[slot], piece, piece, 1, err);
        if (status == GD_OK) {
            status = gd_cuda_mark_set(bus->landed[slot], bus->stream, err);
        }
    }
    /* The next call may write into the slots at once. */
    status = gd_settle(device, bus->stream, status, err);
    leave(bus);
    return status;
}
