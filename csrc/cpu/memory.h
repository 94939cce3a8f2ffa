/* memory.h: how a kernel's memory is cut into the arrays that it holds. */
#ifndef GPUDIST_CPU_MEMORY_H
#define GPUDIST_CPU_MEMORY_H

#include <stddef.h>

/* The next array of memory that begins at `base`: `count` elements of `bytes` each. While memory is
 * being sized there is no base, and `used` counts all the same. Arrays begin 256 bytes apart or
 * multiples of that. */
static inline void *gd_next_array(char *base, size_t *used, ptrdiff_t count, size_t bytes)
{
    void *const here = base == NULL ? NULL : base + *used;
    *used += ((size_t)count * bytes + 255) / 256 * 256;
    return here;
}

#endif
