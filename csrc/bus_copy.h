/* bus_copy.h: copies on the host, which several threads share; for the files of the bus. */
#ifndef GPUDIST_BUS_COPY_H
#define GPUDIST_BUS_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* How many threads copy. */
int gd_copiers(void);

/* Memory is copied in parts, which end at multiples of `part` bytes of `to`: how many there are. */
ptrdiff_t gd_parts_of(const char *to, size_t bytes, size_t part);
/* Copies the i-th of them, past the caches: what is written is not read soon. */
void gd_copy_part(char *to, const char *from, size_t bytes, size_t part, ptrdiff_t i);

/* Whether memory has been touched before, as far as the system tells. */
bool gd_is_touched(const char *p);

/* Rows between places that have been touched: a thread's part need not end where a page does. */
typedef struct gd_rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, row_bytes, bytes;
    bool near, dense; /* near: through the caches */
    ptrdiff_t parts;
} gd_rows;

gd_rows gd_rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_bytes,
                   ptrdiff_t rows, bool near);
/* Copies the i-th part. */
void gd_copy_part_of_rows(const gd_rows *r, ptrdiff_t i);

#endif
