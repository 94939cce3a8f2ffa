/* bus_copy.h: copies on the host, which several threads share; for the files of the bus. */
#ifndef GPUDIST_BUS_COPY_H
#define GPUDIST_BUS_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether so many threads leave cores to others. */
bool gd_leave_cores(int threads);

/* Whether memory has been touched before, as far as the system tells. */
bool gd_is_touched(const char *p);

/* Rows to be copied, in parts that threads take. */
typedef struct gd_rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, row_bytes, part;
    ptrdiff_t rows, parts;
    bool near;
} gd_rows;

/* Parts of dense rows end at multiples of `part` bytes of `to`, others where a row does that has
 * come so far. Copies go past the caches, as what is written is not read soon, unless it is `near`.
 */
gd_rows gd_rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_bytes,
                   ptrdiff_t rows, size_t part, bool near);
/* Copies the i-th part. */
void gd_copy_part(const gd_rows *r, ptrdiff_t i);

#endif
