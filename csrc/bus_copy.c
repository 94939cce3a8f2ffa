/* bus_copy.c: copies on the host, which several threads share. */
#define _DEFAULT_SOURCE /* mincore */
#include "bus_copy.h"

#include "bus.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sizes.h"
#include "team.h"

enum {
    MOST_COPIERS = 12, /* more bring no more: NOTES.md */
    SPARE_CORES = 4,   /* as many spinning threads as cores would keep the driver's from running */
};

int gd_copiers(void)
{
    const int cores = gd_team_cores();
    const int most = cores > 2 * SPARE_CORES ? cores - SPARE_CORES : (cores + 1) / 2;
    return most < MOST_COPIERS ? most : MOST_COPIERS;
}

bool gd_leave_cores(int threads) { return threads <= gd_team_cores() - SPARE_CORES; }

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

bool gd_is_touched(const char *p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char found;
    return mincore((void *)((uintptr_t)p / page * page), 1, &found) == 0 && found % 2 == 1;
}

static bool is_dense(const gd_rows *r)
{
    return r->to_pitch == r->row_bytes && r->from_pitch == r->row_bytes;
}

/* Bytes of the first part that belong to what comes before. */
static size_t before(const gd_rows *r) { return (uintptr_t)r->to % r->part; }

static ptrdiff_t rows_a_part(const gd_rows *r) { return (ptrdiff_t)(1 + r->part / r->row_bytes); }

gd_rows gd_rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_bytes,
                   ptrdiff_t rows, size_t part, bool near)
{
    gd_rows r = {.to = to,
                 .from = from,
                 .to_pitch = to_pitch,
                 .from_pitch = from_pitch,
                 .row_bytes = row_bytes,
                 .part = part,
                 .rows = rows,
                 .near = near};
    const size_t bytes = before(&r) + row_bytes * (size_t)rows;
    r.parts = is_dense(&r) ? (ptrdiff_t)gd_ceil_div((ptrdiff_t)bytes, (ptrdiff_t)part)
                           : gd_ceil_div(rows, rows_a_part(&r));
    return r;
}

static void copy(const gd_rows *r, char *to, const char *from, size_t bytes)
{
    if (r->near) {
        memcpy(to, from, bytes);
    }
    else {
        copy_past(to, from, bytes);
    }
}

void gd_copy_part(const gd_rows *r, ptrdiff_t i)
{
    if (is_dense(r)) {
        const size_t bytes = r->row_bytes * (size_t)r->rows;
        const size_t begin = i == 0 ? 0 : (size_t)i * r->part - before(r);
        const size_t end = (size_t)(i + 1) * r->part - before(r);
        copy(r, r->to + begin, r->from + begin, (end < bytes ? end : bytes) - begin);
        return;
    }
    const ptrdiff_t each = rows_a_part(r), end = gd_least((i + 1) * each, r->rows);
    for (ptrdiff_t row = i * each; row < end; ++row) {
        copy(r, r->to + (size_t)row * r->to_pitch, r->from + (size_t)row * r->from_pitch,
             r->row_bytes);
    }
}
