/* store_run.h: writes a run of finished results to where the caller wants it. */
#ifndef GPUDIST_CPU_STORE_RUN_H
#define GPUDIST_CPU_STORE_RUN_H

#include "simd.h"

#include <stddef.h>

/* Results larger than this in all, of rows * cols elements of `size` bytes, fit no cache's share:
 * it is better not to read their memory before overwriting it. */
GD_INLINE int gd_worth_streaming(ptrdiff_t rows, ptrdiff_t cols, size_t size)
{
    return (double)rows * (double)cols * (double)size > 8e6;
}

/* Copies `bytes` from `from`; with `stream`, past the caches as far as whole lines of `to` go. Some
 * gd_stream_end() must follow before another thread reads them. */
GD_INLINE void gd_store_run(void *to, const void *from, size_t bytes, int stream)
{
    char *t = to;
    const char *f = from;
    if (stream) {
        const size_t head = -(uintptr_t)t % GD_LINE;
        if (head != 0 && head <= bytes) {
            memcpy(t, f, head);
            t += head, f += head, bytes -= head;
        }
        for (; bytes >= GD_LINE && (uintptr_t)t % GD_LINE == 0; bytes -= GD_LINE)
            for (int v = 0; v < GD_LINE / GD_VEC_BYTES; ++v, t += GD_VEC_BYTES, f += GD_VEC_BYTES) {
                gd_vf32 x;
                memcpy(&x, f, sizeof x);
                gd_stream(t, x);
            }
    }
    memcpy(t, f, bytes);
}

#endif
