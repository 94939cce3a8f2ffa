/* pack.h: rows of a matrix, transposed for kernels that take a vector of rows at a time.
 *
 * One element at a time costs more than a kernel that uses each only once: a single query, say. So
 * where elements keep their type, squares of a vector's rows by as many dimensions are transposed
 * in registers. That takes a few exchanges of pairs of vectors, each of half as many lanes as the
 * one before. What is read next is asked for: the hardware does not foresee so many rows at once.
 */
#ifndef GPUDIST_CPU_PACK_H
#define GPUDIST_CPU_PACK_H

#include "gpudist.h"
#include "simd.h"

/* A hint; the address may lie past the matrix. */
GD_INLINE void gd_fetch(const void *p, ptrdiff_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)ahead));
}

/* X(j, s, n) for each lane j of n. */
#define GD_LANES_2(X, s, n) X(0, s, n), X(1, s, n)
#define GD_LANES_4(X, s, n) GD_LANES_2(X, s, n), X(2, s, n), X(3, s, n)
#define GD_LANES_8(X, s, n) GD_LANES_4(X, s, n), X(4, s, n), X(5, s, n), X(6, s, n), X(7, s, n)
#define GD_LANES_16(X, s, n)                                                            \
    GD_LANES_8(X, s, n), X(8, s, n), X(9, s, n), X(10, s, n), X(11, s, n), X(12, s, n), \
        X(13, s, n), X(14, s, n), X(15, s, n)

/* What stands in lane j of either vector once they have exchanged blocks of s lanes: every second
 * block of the first for the block before it of the second. The second's lanes count from n on. */
#define GD_OF_FIRST(j, s, n) ((j) & (s) ? (n) + (j) - (s) : (j))
#define GD_OF_SECOND(j, s, n) ((j) & (s) ? (n) + (j) : (j) + (s))

#define GD_EXCHANGE(V, x, s, n)                                                                  \
    GD_UNROLL for (int i_ = 0; i_ < (n); ++i_)                                                   \
        if (!(i_ & (s))) {                                                                       \
            const V first_ = (x)[i_], second_ = (x)[i_ + (s) < (n) ? i_ + (s) : 0];              \
            (x)[i_] = __builtin_shufflevector(first_, second_, GD_LANES_##n(GD_OF_FIRST, s, n)); \
            (x)[i_ + (s)] =                                                                      \
                __builtin_shufflevector(first_, second_, GD_LANES_##n(GD_OF_SECOND, s, n));      \
        }
#define GD_TRANSPOSE_2(V, x) GD_EXCHANGE(V, x, 1, 2)
#define GD_TRANSPOSE_4(V, x) GD_EXCHANGE(V, x, 1, 4) GD_EXCHANGE(V, x, 2, 4)
#define GD_TRANSPOSE_8(V, x) GD_EXCHANGE(V, x, 1, 8) GD_EXCHANGE(V, x, 2, 8) GD_EXCHANGE(V, x, 4, 8)
#define GD_TRANSPOSE_16(V, x) \
    GD_EXCHANGE(V, x, 1, 16)  \
    GD_EXCHANGE(V, x, 2, 16) GD_EXCHANGE(V, x, 4, 16) GD_EXCHANGE(V, x, 8, 16)

/* An exchange where vectors hold two rows each, i and i + n / 2: then they are half as many. */
#define GD_EXCHANGE_HALVES(V, x, s, n)                                                           \
    GD_UNROLL for (int i_ = 0; i_ < (n) / 2; ++i_)                                               \
        if (!(i_ & (s))) {                                                                       \
            const V first_ = (x)[i_], second_ = (x)[i_ + (s) < (n) / 2 ? i_ + (s) : 0];          \
            (x)[i_] = __builtin_shufflevector(first_, second_, GD_LANES_##n(GD_OF_FIRST, s, n)); \
            (x)[i_ + (s)] =                                                                      \
                __builtin_shufflevector(first_, second_, GD_LANES_##n(GD_OF_SECOND, s, n));      \
        }
#define GD_TRANSPOSE_HALVES_4(V, x) GD_EXCHANGE_HALVES(V, x, 1, 4)
#define GD_TRANSPOSE_HALVES_8(V, x) GD_EXCHANGE_HALVES(V, x, 1, 8) GD_EXCHANGE_HALVES(V, x, 2, 8)
#define GD_TRANSPOSE_HALVES_16(V, x) \
    GD_EXCHANGE_HALVES(V, x, 1, 16)  \
    GD_EXCHANGE_HALVES(V, x, 2, 16) GD_EXCHANGE_HALVES(V, x, 4, 16)

/* Defines name(x): transposes a square of as many vectors as one has lanes. */
#define GD_DEFINE_TRANSPOSE(name, V, n) \
    GD_INLINE void name(V *x) { GD_TRANSPOSE_##n(V, x) }
#define GD_DEFINE_TRANSPOSE_HALVES(name, V, n) \
    GD_INLINE void name(V *x) { GD_TRANSPOSE_HALVES_##n(V, x) }
/* Defines name(first, second, x): of the pairs in two vectors, x[0] gets the first elements, x[1]
 * the others. */
#define GD_FIRST_OF_PAIR(j, s, n) (2 * (j))
#define GD_SECOND_OF_PAIR(j, s, n) (2 * (j) + 1)
#define GD_DEFINE_SEPARATE(name, V, n)                                                        \
    GD_INLINE void name(V first, V second, V *x)                                              \
    {                                                                                         \
        x[0] = __builtin_shufflevector(first, second, GD_LANES_##n(GD_FIRST_OF_PAIR, 0, n));  \
        x[1] = __builtin_shufflevector(first, second, GD_LANES_##n(GD_SECOND_OF_PAIR, 0, n)); \
    }
/* Kernels with fewer rows in a tile than a vector has lanes pack these by halves of vectors. */
typedef float gd_half_vf32 __attribute__((vector_size(GD_VEC_BYTES / 2)));
#if GD_VEC_BYTES == 64
GD_DEFINE_TRANSPOSE(gd_transpose_f32, gd_vf32, 16)
GD_DEFINE_SEPARATE(gd_separate_f32, gd_vf32, 16)
GD_DEFINE_SEPARATE(gd_separate_f64, gd_vf64, 8)
GD_DEFINE_TRANSPOSE(gd_transpose_f64, gd_vf64, 8)
GD_DEFINE_TRANSPOSE(gd_transpose_half_f32, gd_half_vf32, 8)
GD_DEFINE_TRANSPOSE_HALVES(gd_transpose_halves_f32, gd_vf32, 16)
GD_DEFINE_TRANSPOSE_HALVES(gd_transpose_halves_f64, gd_vf64, 8)
#elif GD_VEC_BYTES == 32
GD_DEFINE_TRANSPOSE(gd_transpose_f32, gd_vf32, 8)
GD_DEFINE_SEPARATE(gd_separate_f32, gd_vf32, 8)
GD_DEFINE_SEPARATE(gd_separate_f64, gd_vf64, 4)
GD_DEFINE_TRANSPOSE(gd_transpose_f64, gd_vf64, 4)
GD_DEFINE_TRANSPOSE(gd_transpose_half_f32, gd_half_vf32, 4)
GD_DEFINE_TRANSPOSE_HALVES(gd_transpose_halves_f32, gd_vf32, 8)
GD_DEFINE_TRANSPOSE_HALVES(gd_transpose_halves_f64, gd_vf64, 4)
#else
GD_DEFINE_TRANSPOSE(gd_transpose_f32, gd_vf32, 4)
GD_DEFINE_SEPARATE(gd_separate_f32, gd_vf32, 4)
GD_DEFINE_SEPARATE(gd_separate_f64, gd_vf64, 2)
GD_DEFINE_TRANSPOSE(gd_transpose_f64, gd_vf64, 2)
GD_DEFINE_TRANSPOSE(gd_transpose_half_f32, gd_half_vf32, 2)
GD_DEFINE_TRANSPOSE_HALVES(gd_transpose_halves_f32, gd_vf32, 4)
#endif

/* Defines name_part(x, from, width, k, end, r, rows, to), which copies dimensions k to end of rows
 * r to rows, counted from `from` on, to to[k * width + r]. The last real row stands in for rows
 * beyond the end, so that padding computes nothing unusual. */
#define GD_DEFINE_PACK_PART(name, T, TO)                                                         \
    static const T *name##_row(const gd_matrix *x, ptrdiff_t row)                                \
    {                                                                                            \
        return (const T *)x->data + (row < x->rows ? row : x->rows - 1) * x->row_stride;         \
    }                                                                                            \
    static void name##_part(const gd_matrix *x, ptrdiff_t from, ptrdiff_t width, ptrdiff_t k,    \
                            ptrdiff_t end, ptrdiff_t r, ptrdiff_t rows, TO *to)                  \
    {                                                                                            \
        enum { RUN_ = 128 }; /* so few dimensions at a time that the lines written stay in L1 */ \
        for (; k < end; k += RUN_) {                                                             \
            const ptrdiff_t past = end - k < RUN_ ? end : k + RUN_;                              \
            for (ptrdiff_t row = r; row < rows; ++row) {                                         \
                const T *const source = name##_row(x, from + row);                               \
                for (ptrdiff_t e = k; e < past; ++e)                                             \
                    to[e * width + row] = source[e];                                             \
            }                                                                                    \
        }                                                                                        \
    }

/* Defines name(x, from, width, to), which copies `width` rows from `from` on, likewise. */
#define GD_DEFINE_PACK(name, T, TO)                                               \
    GD_DEFINE_PACK_PART(name, T, TO)                                              \
    static void name(const gd_matrix *x, ptrdiff_t from, ptrdiff_t width, TO *to) \
    {                                                                             \
        name##_part(x, from, width, 0, x->cols, 0, width, to);                    \
    }

/* Defines name(x, from, r, width, to), which copies rows r to r + LANES, as many as V has lanes, in
 * squares, and returns how many dimensions these cover. It asks for the rows after them: without,
 * a single query among 20 000 rows of 128 takes twice the time. */
#define GD_DEFINE_PACK_SQUARES(name, T, V, row_of, transpose)                                      \
    static ptrdiff_t name(const gd_matrix *x, ptrdiff_t from, ptrdiff_t r, ptrdiff_t width, T *to) \
    {                                                                                              \
        enum { LANES_ = sizeof(V) / sizeof(T) };                                                   \
        const ptrdiff_t depth = x->cols / LANES_ * LANES_;                                         \
        const T *source[LANES_];                                                                   \
        for (int i = 0; i < LANES_; ++i)                                                           \
            source[i] = row_of(x, from + r + i);                                                   \
        for (ptrdiff_t k = 0; k < depth; k += LANES_) {                                            \
            V square[LANES_];                                                                      \
            GD_UNROLL for (int i = 0; i < LANES_; ++i) {                                           \
                memcpy(&square[i], source[i] + k, sizeof(V));                                      \
                gd_fetch(source[i] + k, LANES_ * x->row_stride * (ptrdiff_t)sizeof(T));            \
            }                                                                                      \
            transpose(square);                                                                     \
            GD_UNROLL for (int i = 0; i < LANES_; ++i)                                             \
                memcpy(to + (k + i) * width + r, &square[i], sizeof(V));                           \
        }                                                                                          \
        return depth;                                                                              \
    }

/* Packs elements that keep their type, a vector V of them at a time; then H of them, half of one or
 * V again. */
#define GD_DEFINE_PACK_VECTORS(name, T, V, transpose, H, transpose_half)                           \
    GD_DEFINE_PACK_PART(name, T, T)                                                                \
    GD_DEFINE_PACK_SQUARES(name##_whole, T, V, name##_row, transpose)                              \
    GD_DEFINE_PACK_SQUARES(name##_half, T, H, name##_row, transpose_half)                          \
    static void name(const gd_matrix *x, ptrdiff_t from, ptrdiff_t width, T *to)                   \
    {                                                                                              \
        enum { LANES_ = sizeof(V) / sizeof(T), HALF_ = sizeof(H) / sizeof(T) };                    \
        ptrdiff_t r = 0;                                                                           \
        for (; r + LANES_ <= width; r += LANES_)                                                   \
            name##_part(x, from, width, name##_whole(x, from, r, width, to), x->cols, r,           \
                        r + LANES_, to);                                                           \
        for (; r + HALF_ <= width; r += HALF_)                                                     \
            name##_part(x, from, width, name##_half(x, from, r, width, to), x->cols, r, r + HALF_, \
                        to);                                                                       \
        name##_part(x, from, width, 0, x->cols, r, width, to);                                     \
    }

#endif
