/* bus_copy.c: copies on the host, which several threads share. */
#define _DEFAULT_SOURCE /* mincore */
#include "bus_copy.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "team.h"

enum {
    MOST_COPIERS = 12,
    SPARE_CORES = 4, /* as many spinning threads as cores would keep the driver's from running */
};
static const size_t PART = (size_t)128 << 10; /* a thread's, where none has to wait */

int gd_copiers(void)
{
    const int cores = gd_team_cores(), wanted = gd_team_size();
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

ptrdiff_t gd_parts_of(const char *to, size_t bytes, size_t part)
{
    return (ptrdiff_t)(((uintptr_t)to % part + bytes + part - 1) / part);
}

void gd_copy_part(char *to, const char *from, size_t bytes, size_t part, ptrdiff_t i)
{
    const size_t before = (uintptr_t)to % part;
    const size_t begin = i == 0 ? 0 : (size_t)i * part - before;
    const size_t end = (size_t)(i + 1) * part - before;
    copy_past(to + begin, from + begin, (end < bytes ? end : bytes) - begin);
}

bool gd_is_touched(const char *p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char found;
    return mincore((void *)((uintptr_t)p / page * page), 1, &found) == 0 && found % 2 == 1;
}

gd_rows gd_rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_bytes,
                   ptrdiff_t rows, bool near)
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

void gd_copy_part_of_rows(const gd_rows *r, ptrdiff_t i)
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
