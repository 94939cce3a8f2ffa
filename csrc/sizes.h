/* sizes.h: arithmetic on sizes. */
#ifndef GPUDIST_SIZES_H
#define GPUDIST_SIZES_H

#include <stddef.h>

static inline ptrdiff_t gd_least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }
static inline ptrdiff_t gd_most(ptrdiff_t x, ptrdiff_t y) { return x > y ? x : y; }
/* How many pieces of y make x; the last may be less than whole. */
static inline ptrdiff_t gd_ceil_div(ptrdiff_t x, ptrdiff_t y) { return (x + y - 1) / y; }
static inline size_t gd_between(size_t least, size_t x, size_t most)
{
    return x < least ? least : x > most ? most : x;
}

#endif
