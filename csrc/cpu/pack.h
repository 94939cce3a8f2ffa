/* pack.h: rows of a matrix, transposed for kernels that take a vector of rows at a time. */
#ifndef GPUDIST_CPU_PACK_H
#define GPUDIST_CPU_PACK_H

#include "gpudist.h"

/* Defines name(x, from, width, to), which copies `width` rows of type T from `from` on, transposed:
 * to[k * width + r]. The last real row stands in for rows beyond the end, so that padding computes
 * nothing unusual. */
#define GD_DEFINE_PACK(name, T, TO)                                                             \
    static void name(const gd_matrix *x, ptrdiff_t from, ptrdiff_t width, TO *to)               \
    {                                                                                           \
        enum { RUN_ = 64 }; /* so few dimensions at a time that the lines written stay in L1 */ \
        for (ptrdiff_t k = 0; k < x->cols; k += RUN_) {                                         \
            const ptrdiff_t run = x->cols - k < RUN_ ? x->cols - k : RUN_;                      \
            for (ptrdiff_t r = 0; r < width; ++r) {                                             \
                const ptrdiff_t row = from + r < x->rows ? from + r : x->rows - 1;              \
                const T *source = (const T *)x->data + row * x->row_stride + k;                 \
                for (ptrdiff_t e = 0; e < run; ++e)                                             \
                    to[(k + e) * width + r] = source[e];                                        \
            }                                                                                   \
        }                                                                                       \
    }

#endif
