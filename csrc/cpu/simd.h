/* simd.h: vectors of the instruction set that this file is being compiled for.
 *
 * Every .c file in csrc/cpu is compiled once per instruction set (setup.py adds the flags); the
 * functions it exports are named with GD_ISA_NAME, and the registry picks one at run time.
 * Arithmetic uses GCC's and clang's vector extensions; only what they cannot say (minimum and
 * maximum of two vectors in one instruction, square root, streaming stores) is spelled out. */
#ifndef GPUDIST_CPU_SIMD_H
#define GPUDIST_CPU_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define GD_VEC_BYTES 64
#define GD_ISA_NAME(name) name##_avx512
#elif defined(__AVX2__)
#define GD_VEC_BYTES 32
#define GD_ISA_NAME(name) name##_avx2
#else
#define GD_VEC_BYTES 16
#define GD_ISA_NAME(name) name##_baseline
#endif

enum { GD_LINE = 64 }; /* bytes that caches and memory move together */

#define GD_INLINE static inline __attribute__((always_inline))

typedef float gd_vf32 __attribute__((vector_size(GD_VEC_BYTES)));
typedef double gd_vf64 __attribute__((vector_size(GD_VEC_BYTES)));
typedef int32_t gd_vi32 __attribute__((vector_size(GD_VEC_BYTES)));
typedef int64_t gd_vi64 __attribute__((vector_size(GD_VEC_BYTES)));

/* Loads and stores take any element alignment. */
#define GD_DEFINE_MEMORY(v, t)                                          \
    GD_INLINE v gd_load_##v(const t *p)                                 \
    {                                                                   \
        v x;                                                            \
        memcpy(&x, p, sizeof x);                                        \
        return x;                                                       \
    }                                                                   \
    GD_INLINE void gd_store_##v(t *p, v x) { memcpy(p, &x, sizeof x); } \
    GD_INLINE v gd_splat_##v(t x) { return x - (v){0}; }
GD_DEFINE_MEMORY(gd_vf32, float)
GD_DEFINE_MEMORY(gd_vf64, double)
GD_DEFINE_MEMORY(gd_vi32, int32_t)
#undef GD_DEFINE_MEMORY

/* The first `count` elements at p, zeros for the others; none but the first are read. And such of
 * each p and q, in one half of a vector each. */
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define GD_FIRST_LANES(count, lanes) \
    ((count) <= 0 ? 0u : (count) >= (lanes) ? (1u << (lanes)) - 1 : (1u << (count)) - 1)
GD_INLINE gd_vf32 gd_load_first_gd_vf32(const float *p, ptrdiff_t count)
{
    return (gd_vf32)_mm512_maskz_loadu_ps((__mmask16)GD_FIRST_LANES(count, 16), p);
}
GD_INLINE gd_vf64 gd_load_first_gd_vf64(const double *p, ptrdiff_t count)
{
    return (gd_vf64)_mm512_maskz_loadu_pd((__mmask8)GD_FIRST_LANES(count, 8), p);
}
GD_INLINE gd_vf32 gd_load_firsts_gd_vf32(const float *p, const float *q, ptrdiff_t count)
{
    const __mmask8 mask = (__mmask8)GD_FIRST_LANES(count, 8);
    const __m512 low = _mm512_castps256_ps512(_mm256_maskz_loadu_ps(mask, p));
    return (gd_vf32)_mm512_insertf32x8(low, _mm256_maskz_loadu_ps(mask, q), 1);
}
GD_INLINE gd_vf64 gd_load_firsts_gd_vf64(const double *p, const double *q, ptrdiff_t count)
{
    const __mmask8 mask = (__mmask8)GD_FIRST_LANES(count, 4);
    const __m512d low = _mm512_castpd256_pd512(_mm256_maskz_loadu_pd(mask, p));
    return (gd_vf64)_mm512_insertf64x4(low, _mm256_maskz_loadu_pd(mask, q), 1);
}
#undef GD_FIRST_LANES
#else
#define GD_DEFINE_LOAD_FIRST(v, t)                                                  \
    GD_INLINE v gd_load_first_##v(const t *p, ptrdiff_t count)                      \
    {                                                                               \
        v x = {0};                                                                  \
        for (size_t i = 0; i < sizeof x / sizeof x[0] && (ptrdiff_t)i < count; ++i) \
            x[i] = p[i];                                                            \
        return x;                                                                   \
    }                                                                               \
    GD_INLINE v gd_load_firsts_##v(const t *p, const t *q, ptrdiff_t count)         \
    {                                                                               \
        enum { HALF_ = sizeof(v) / sizeof(t) / 2 };                                 \
        v x = {0};                                                                  \
        for (int i = 0; i < HALF_ && i < count; ++i) {                              \
            x[i] = p[i];                                                            \
            x[i + HALF_] = q[i];                                                    \
        }                                                                           \
        return x;                                                                   \
    }
GD_DEFINE_LOAD_FIRST(gd_vf32, float)
GD_DEFINE_LOAD_FIRST(gd_vf64, double)
#undef GD_DEFINE_LOAD_FIRST
#endif

/* min(x, y) and max(x, y) as x86 has them: y where x or y is NaN, and where both are zeros. So
 * gd_max(candidate, best) ignores a NaN candidate. */
#if defined(__AVX512F__)
GD_INLINE gd_vf32 gd_min_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm512_min_ps((__m512)x, (__m512)y);
}
GD_INLINE gd_vf64 gd_min_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm512_min_pd((__m512d)x, (__m512d)y);
}
GD_INLINE gd_vi32 gd_min_gd_vi32(gd_vi32 x, gd_vi32 y)
{
    return (gd_vi32)_mm512_min_epi32((__m512i)x, (__m512i)y);
}
GD_INLINE gd_vf32 gd_max_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm512_max_ps((__m512)x, (__m512)y);
}
GD_INLINE gd_vf64 gd_max_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm512_max_pd((__m512d)x, (__m512d)y);
}
GD_INLINE gd_vi32 gd_max_gd_vi32(gd_vi32 x, gd_vi32 y)
{
    return (gd_vi32)_mm512_max_epi32((__m512i)x, (__m512i)y);
}
GD_INLINE gd_vf32 gd_sqrt_gd_vf32(gd_vf32 x) { return (gd_vf32)_mm512_sqrt_ps((__m512)x); }
GD_INLINE gd_vf64 gd_sqrt_gd_vf64(gd_vf64 x) { return (gd_vf64)_mm512_sqrt_pd((__m512d)x); }
GD_INLINE void gd_stream(void *p, gd_vf32 x) { _mm512_stream_ps(p, (__m512)x); }
#elif defined(__AVX2__)
GD_INLINE gd_vf32 gd_min_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm256_min_ps((__m256)x, (__m256)y);
}
GD_INLINE gd_vf64 gd_min_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm256_min_pd((__m256d)x, (__m256d)y);
}
GD_INLINE gd_vi32 gd_min_gd_vi32(gd_vi32 x, gd_vi32 y)
{
    return (gd_vi32)_mm256_min_epi32((__m256i)x, (__m256i)y);
}
GD_INLINE gd_vf32 gd_max_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm256_max_ps((__m256)x, (__m256)y);
}
GD_INLINE gd_vf64 gd_max_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm256_max_pd((__m256d)x, (__m256d)y);
}
GD_INLINE gd_vi32 gd_max_gd_vi32(gd_vi32 x, gd_vi32 y)
{
    return (gd_vi32)_mm256_max_epi32((__m256i)x, (__m256i)y);
}
GD_INLINE gd_vf32 gd_sqrt_gd_vf32(gd_vf32 x) { return (gd_vf32)_mm256_sqrt_ps((__m256)x); }
GD_INLINE gd_vf64 gd_sqrt_gd_vf64(gd_vf64 x) { return (gd_vf64)_mm256_sqrt_pd((__m256d)x); }
GD_INLINE void gd_stream(void *p, gd_vf32 x) { _mm256_stream_ps(p, (__m256)x); }
#else
#define GD_DEFINE_PICK(name, v, mask, op)           \
    GD_INLINE v name##_##v(v x, v y)                \
    {                                               \
        mask m = (mask)(x op y);                    \
        return (v)(((mask)x & m) | ((mask)y & ~m)); \
    }
#if defined(__x86_64__)
GD_INLINE gd_vf32 gd_min_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm_min_ps((__m128)x, (__m128)y);
}
GD_INLINE gd_vf64 gd_min_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm_min_pd((__m128d)x, (__m128d)y);
}
GD_INLINE gd_vf32 gd_max_gd_vf32(gd_vf32 x, gd_vf32 y)
{
    return (gd_vf32)_mm_max_ps((__m128)x, (__m128)y);
}
GD_INLINE gd_vf64 gd_max_gd_vf64(gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)_mm_max_pd((__m128d)x, (__m128d)y);
}
#else
GD_DEFINE_PICK(gd_min, gd_vf32, gd_vi32, <)
GD_DEFINE_PICK(gd_min, gd_vf64, gd_vi64, <)
GD_DEFINE_PICK(gd_max, gd_vf32, gd_vi32, >)
GD_DEFINE_PICK(gd_max, gd_vf64, gd_vi64, >)
#endif
GD_DEFINE_PICK(gd_min, gd_vi32, gd_vi32, <)
GD_DEFINE_PICK(gd_max, gd_vi32, gd_vi32, >)
#undef GD_DEFINE_PICK
#define GD_DEFINE_SQRT(v, root)                             \
    GD_INLINE v gd_sqrt_##v(v x)                            \
    {                                                       \
        for (size_t i = 0; i < sizeof x / sizeof x[0]; ++i) \
            x[i] = root(x[i]);                              \
        return x;                                           \
    }
GD_DEFINE_SQRT(gd_vf32, __builtin_sqrtf)
GD_DEFINE_SQRT(gd_vf64, __builtin_sqrt)
#undef GD_DEFINE_SQRT
#if defined(__x86_64__)
GD_INLINE void gd_stream(void *p, gd_vf32 x) { _mm_stream_ps(p, (__m128)x); }
#else
GD_INLINE void gd_stream(void *p, gd_vf32 x) { memcpy(p, &x, sizeof x); }
#endif
#endif

/* x * y + z, x * y - z and z - x * y, rounded once where the instruction set can, else twice.
 * Compilers may not fuse by themselves (-ffp-contract=off): they do so in one copy of unrolled code
 * and not in the next, and the bits of a result would go by its place. */
#if defined(__AVX512F__)
#define GD_FUSED(name, t, type, plain) _mm512_##name##_##t((type)x, (type)y, (type)z)
#define GD_FUSED_F32(name, plain) GD_FUSED(name, ps, __m512, plain)
#define GD_FUSED_F64(name, plain) GD_FUSED(name, pd, __m512d, plain)
#elif defined(__FMA__)
#define GD_FUSED(name, t, type, plain) _mm256_##name##_##t((type)x, (type)y, (type)z)
#define GD_FUSED_F32(name, plain) GD_FUSED(name, ps, __m256, plain)
#define GD_FUSED_F64(name, plain) GD_FUSED(name, pd, __m256d, plain)
#elif defined(__aarch64__)
#define GD_NEON_fmadd(t, z, x, y) vfmaq_##t(z, x, y)
#define GD_NEON_fmsub(t, z, x, y) vfmaq_##t(-(z), x, y)
#define GD_NEON_fnmadd(t, z, x, y) vfmsq_##t(z, x, y)
#define GD_FUSED_F32(name, plain) \
    GD_NEON_##name(f32, (float32x4_t)z, (float32x4_t)x, (float32x4_t)y)
#define GD_FUSED_F64(name, plain) \
    GD_NEON_##name(f64, (float64x2_t)z, (float64x2_t)x, (float64x2_t)y)
#else
#define GD_FUSED_F32(name, plain) (plain)
#define GD_FUSED_F64(name, plain) (plain)
#endif
#define GD_DEFINE_FUSED(gd_name, name, plain)                            \
    GD_INLINE gd_vf32 gd_name##_gd_vf32(gd_vf32 x, gd_vf32 y, gd_vf32 z) \
    {                                                                    \
        return (gd_vf32)GD_FUSED_F32(name, plain);                       \
    }                                                                    \
    GD_INLINE gd_vf64 gd_name##_gd_vf64(gd_vf64 x, gd_vf64 y, gd_vf64 z) \
    {                                                                    \
        return (gd_vf64)GD_FUSED_F64(name, plain);                       \
    }
GD_DEFINE_FUSED(gd_fma, fmadd, (x * y) + z)
GD_DEFINE_FUSED(gd_fms, fmsub, (x * y) - z)
GD_DEFINE_FUSED(gd_fnma, fnmadd, z - x * y)
#undef GD_DEFINE_FUSED
#undef GD_FUSED
#undef GD_FUSED_F32
#undef GD_FUSED_F64

/* As many elements as a vector has doubles, in float64, and such a vector stored as the elements'
 * type. GCC 12 makes several instructions of __builtin_convertvector. */
GD_INLINE gd_vf64 gd_load_wide_gd_vf64(const double *p) { return gd_load_gd_vf64(p); }
GD_INLINE void gd_store_narrow_gd_vf64(double *p, gd_vf64 x) { gd_store_gd_vf64(p, x); }
GD_INLINE gd_vf64 gd_load_wide_gd_vf32(const float *p)
{
#if defined(__AVX512F__)
    return (gd_vf64)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
    return (gd_vf64)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
    gd_vf64 x;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; ++i)
        x[i] = (double)p[i];
    return x;
#endif
}
GD_INLINE void gd_store_narrow_gd_vf32(float *p, gd_vf64 x)
{
#if defined(__AVX512F__)
    _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)x));
#elif defined(__AVX2__)
    _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)x));
#else
    for (size_t i = 0; i < sizeof x / sizeof x[0]; ++i)
        p[i] = (float)x[i];
#endif
}

/* Makes this thread's streaming stores visible before whatever it stores next. */
GD_INLINE void gd_stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

GD_INLINE gd_vf32 gd_abs_gd_vf32(gd_vf32 x) { return (gd_vf32)((gd_vi32)x & INT32_MAX); }
GD_INLINE gd_vf64 gd_abs_gd_vf64(gd_vf64 x) { return (gd_vf64)((gd_vi64)x & INT64_MAX); }

/* The larger of best and |x|; best where x is NaN. best is no NaN. */
#if defined(__AVX512DQ__)
GD_INLINE gd_vf32 gd_max_abs_gd_vf32(gd_vf32 best, gd_vf32 x)
{
    return (gd_vf32)_mm512_range_ps((__m512)x, (__m512)best, 11);
}
GD_INLINE gd_vf64 gd_max_abs_gd_vf64(gd_vf64 best, gd_vf64 x)
{
    return (gd_vf64)_mm512_range_pd((__m512d)x, (__m512d)best, 11);
}
#else
GD_INLINE gd_vf32 gd_max_abs_gd_vf32(gd_vf32 best, gd_vf32 x)
{
    return gd_max_gd_vf32(gd_abs_gd_vf32(x), best);
}
GD_INLINE gd_vf64 gd_max_abs_gd_vf64(gd_vf64 best, gd_vf64 x)
{
    return gd_max_gd_vf64(gd_abs_gd_vf64(x), best);
}
#endif

/* Every lane of x and one number: read by the instruction itself, where a broadcast would be one
 * more for the front end; with several vectors that is more loads, too. */
#if defined(__AVX512F__)
#define GD_DEFINE_EACH(name, instruction, plain, lanes, v, t)                            \
    GD_INLINE v name##_##v(v x, const t *p)                                              \
    {                                                                                    \
        v y;                                                                             \
        __asm__(instruction " %2%{1to" #lanes "%}, %1, %0" : "=v"(y) : "v"(x), "m"(*p)); \
        return y;                                                                        \
    }
#else
#define GD_DEFINE_EACH(name, instruction, plain, lanes, v, t) \
    GD_INLINE v name##_##v(v x, const t *p)                   \
    {                                                         \
        const v y = gd_splat_##v(*p);                         \
        return plain;                                         \
    }
#endif
#define GD_DEFINE_EACH_OF(v, t, lanes, add, subtract, max)      \
    GD_DEFINE_EACH(gd_plus_each, add, x + y, lanes, v, t)       \
    GD_DEFINE_EACH(gd_minus_each, subtract, x - y, lanes, v, t) \
    GD_DEFINE_EACH(gd_max_each, max, gd_max_##v(x, y), lanes, v, t)
GD_DEFINE_EACH_OF(gd_vf32, float, 16, "vaddps", "vsubps", "vmaxps")
GD_DEFINE_EACH_OF(gd_vf64, double, 8, "vaddpd", "vsubpd", "vmaxpd")
GD_DEFINE_EACH_OF(gd_vi32, int32_t, 16, "vpaddd", "vpsubd", "vpmaxsd")
#undef GD_DEFINE_EACH
#undef GD_DEFINE_EACH_OF
/* x * y less that number, and x plus its product with y, rounded once where the instruction set
 * can.
 */
#if defined(__AVX512F__)
#define GD_DEFINE_FUSED_EACH(name, instruction, plain, lanes, v, t)                      \
    GD_INLINE v name##_##v(v x, v y, const t *p)                                         \
    {                                                                                    \
        __asm__(instruction " %2%{1to" #lanes "%}, %1, %0" : "+v"(x) : "v"(y), "m"(*p)); \
        return x;                                                                        \
    }
#else
#define GD_DEFINE_FUSED_EACH(name, instruction, plain, lanes, v, t) \
    GD_INLINE v name##_##v(v x, v y, const t *p)                    \
    {                                                               \
        const v z = gd_splat_##v(*p);                               \
        return plain;                                               \
    }
#endif
#define GD_DEFINE_FUSED_EACH_OF(v, t, lanes, add, subtract)                         \
    GD_DEFINE_FUSED_EACH(gd_fused_plus_each, add, gd_fma_##v(z, y, x), lanes, v, t) \
    GD_DEFINE_FUSED_EACH(gd_fused_minus_each, subtract, gd_fms_##v(x, y, z), lanes, v, t)
GD_DEFINE_FUSED_EACH_OF(gd_vf32, float, 16, "vfmadd231ps", "vfmsub213ps")
GD_DEFINE_FUSED_EACH_OF(gd_vf64, double, 8, "vfmadd231pd", "vfmsub213pd")
#undef GD_DEFINE_FUSED_EACH
#undef GD_DEFINE_FUSED_EACH_OF
#define GD_EACH(name, x, p) \
    _Generic((x), gd_vf32: name##_gd_vf32, gd_vf64: name##_gd_vf64, gd_vi32: name##_gd_vi32)(x, p)
#define gd_plus_each(x, p) GD_EACH(gd_plus_each, x, p)
#define gd_minus_each(x, p) GD_EACH(gd_minus_each, x, p)
#define gd_max_each(x, p) GD_EACH(gd_max_each, x, p)
#define GD_FUSED_EACH(name, x, y, p) \
    _Generic((x), gd_vf32: name##_gd_vf32, gd_vf64: name##_gd_vf64)(x, y, p)
#define gd_fused_plus_each(x, y, p) GD_FUSED_EACH(gd_fused_plus_each, x, y, p)
#define gd_fused_minus_each(x, y, p) GD_FUSED_EACH(gd_fused_minus_each, x, y, p)

/* Whether wide additions and multiplications share pipes, as in Intel's processors. Those of AMD
 * have two pipes for either, which loops that use both can fill only with fewer loads. */
GD_INLINE int gd_pipes_are_shared(void)
{
#if defined(__AVX512F__)
    return __builtin_cpu_is("intel");
#else
    return 0;
#endif
}

/* Hides from the compiler what it knows of a vector's value. */
#if defined(__x86_64__)
#define GD_OPAQUE(x) __asm__("" : "+v"(x))
#else
#define GD_OPAQUE(x) __asm__("" : "+w"(x))
#endif

/* Hides where a pointer comes from: compilers keep one for each of many rows, on the stack, where
 * one and a stride would do. */
#define GD_FORGET(p) __asm__("" : "+r"(p))

/* Whether a comparison held in any lane. */
GD_INLINE int gd_any(gd_vi32 mask)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(__x86_64__)
    return _mm_movemask_epi8((__m128i)mask) != 0;
#else
    int any = 0;
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; ++i)
        any |= mask[i];
    return any != 0;
#endif
}

/* Bit i: whether lane i of a comparison held. */
GD_INLINE unsigned gd_bits_f32(gd_vi32 mask)
{
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__x86_64__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#else
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; ++i)
        bits |= (unsigned)(mask[i] & 1) << i;
    return bits;
#endif
}
GD_INLINE unsigned gd_bits_f64(gd_vi64 mask)
{
#if defined(__AVX512DQ__)
    return _mm512_movepi64_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_pd((__m256d)mask);
#elif defined(__x86_64__)
    return (unsigned)_mm_movemask_pd((__m128d)mask);
#else
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; ++i)
        bits |= (unsigned)(mask[i] & 1) << i;
    return bits;
#endif
}

/* A bit for each lane in which x > y; none where either is NaN. Compilers make a vector of a
 * comparison before they make bits of it, where one instruction gives them. */
GD_INLINE unsigned gd_lanes_above(gd_vf64 x, gd_vf64 y)
{
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_GT_OQ);
#else
    return gd_bits_f64((gd_vi64)(x > y));
#endif
}

/* Those of `lanes` in which x > y, all of them GD_ALL_DOUBLES: without a word of bits in between.
 */
enum { GD_ALL_DOUBLES = (1 << (GD_VEC_BYTES / (int)sizeof(double))) - 1 };
GD_INLINE unsigned gd_also_above(unsigned lanes, gd_vf64 x, gd_vf64 y)
{
#if defined(__AVX512F__)
    return _mm512_mask_cmp_pd_mask((__mmask8)lanes, (__m512d)x, (__m512d)y, _CMP_GT_OQ);
#else
    return lanes & gd_lanes_above(x, y);
#endif
}

/* Integers of 32 bits in memory beside doubles: in registers as wide as lanes have to match. */
typedef int32_t gd_half_vi32 __attribute__((vector_size(GD_VEC_BYTES / 2)));
#if defined(__AVX512F__)
typedef gd_half_vi32 gd_tags_f64;
#else
typedef gd_vi64 gd_tags_f64;
#endif
GD_INLINE gd_tags_f64 gd_load_tags_f64(const int32_t *p)
{
    gd_half_vi32 x;
    memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, gd_tags_f64);
}
GD_INLINE void gd_store_tags_f64(int32_t *p, gd_tags_f64 x)
{
    const gd_half_vi32 y = __builtin_convertvector(x, gd_half_vi32);
    memcpy(p, &y, sizeof y);
}

/* Where x < *best, *best becomes x and *best_tag becomes tag, an integer beside it. */
#if defined(__AVX512F__)
#define GD_DEFINE_TAKE_LESS(v, tv, bits, lanes, less)                                     \
    GD_INLINE void gd_take_less_##v(v *best, tv *best_tag, v x, tv tag)                   \
    {                                                                                     \
        __mmask##lanes m = less;                                                          \
        *best_tag = (tv)_mm512_mask_mov_epi##bits((__m512i)(*best_tag), m, (__m512i)tag); \
        *best = gd_min_##v(x, *best);                                                     \
    }
GD_DEFINE_TAKE_LESS(gd_vf32, gd_vi32, 32, 16,
                    _mm512_cmp_ps_mask((__m512)x, (__m512)*best, _CMP_LT_OQ))
GD_DEFINE_TAKE_LESS(gd_vi32, gd_vi32, 32, 16, _mm512_cmplt_epi32_mask((__m512i)x, (__m512i)*best))
/* A mask has no width: tags of 32 bits go with doubles too, and need no widening. */
GD_INLINE void gd_take_less_gd_vf64(gd_vf64 *best, gd_tags_f64 *best_tag, gd_vf64 x,
                                    gd_tags_f64 tag)
{
    const __mmask8 m = _mm512_cmp_pd_mask((__m512d)x, (__m512d)*best, _CMP_LT_OQ);
    *best_tag = (gd_tags_f64)_mm256_mask_mov_epi32((__m256i)*best_tag, m, (__m256i)tag);
    *best = gd_min_gd_vf64(x, *best);
}
#else
#if defined(__AVX2__)
#define GD_PICK_TAG(m, x, y) _mm256_blendv_epi8((__m256i)(y), (__m256i)(x), (__m256i)(m))
#else
#define GD_PICK_TAG(m, x, y) (((x) & (m)) | ((y) & ~(m)))
#endif
#define GD_DEFINE_TAKE_LESS(v, tv)                                      \
    GD_INLINE void gd_take_less_##v(v *best, tv *best_tag, v x, tv tag) \
    {                                                                   \
        tv m = (tv)(x < *best);                                         \
        *best_tag = (tv)GD_PICK_TAG(m, tag, *best_tag);                 \
        *best = gd_min_##v(x, *best);                                   \
    }
GD_DEFINE_TAKE_LESS(gd_vf32, gd_vi32)
GD_DEFINE_TAKE_LESS(gd_vf64, gd_vi64)
GD_DEFINE_TAKE_LESS(gd_vi32, gd_vi32)
#undef GD_PICK_TAG
#endif
#undef GD_DEFINE_TAKE_LESS

/* Before a loop with a constant count over an array of vectors: the array stays in registers. */
#if defined(__clang__)
#define GD_UNROLL _Pragma("clang loop unroll(full)")
/* clang makes one copy of memory of a loop that only copies, then warns that none is left. */
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#define GD_UNROLL _Pragma("GCC unroll 32")
#endif

/* One name for every vector type. */
#define gd_load(p)                        \
    _Generic((p),                         \
        const float *: gd_load_gd_vf32,   \
        float *: gd_load_gd_vf32,         \
        const double *: gd_load_gd_vf64,  \
        double *: gd_load_gd_vf64,        \
        const int32_t *: gd_load_gd_vi32, \
        int32_t *: gd_load_gd_vi32)(p)
#define gd_load_first(p, count)                                                                 \
    _Generic((p), const float *: gd_load_first_gd_vf32, const double *: gd_load_first_gd_vf64)( \
        p, count)
#define gd_load_firsts(p, q, count)                                                               \
    _Generic((p), const float *: gd_load_firsts_gd_vf32, const double *: gd_load_firsts_gd_vf64)( \
        p, q, count)
#define gd_store(p, x)              \
    _Generic((p),                   \
        float *: gd_store_gd_vf32,  \
        double *: gd_store_gd_vf64, \
        int32_t *: gd_store_gd_vi32)(p, x)
#define gd_load_wide(p)                       \
    _Generic((p),                             \
        const float *: gd_load_wide_gd_vf32,  \
        float *: gd_load_wide_gd_vf32,        \
        const double *: gd_load_wide_gd_vf64, \
        double *: gd_load_wide_gd_vf64)(p)
#define gd_store_narrow(p, x) \
    _Generic((p), float *: gd_store_narrow_gd_vf32, double *: gd_store_narrow_gd_vf64)(p, x)
#define gd_splat(x) \
    _Generic((x), float: gd_splat_gd_vf32, double: gd_splat_gd_vf64, int32_t: gd_splat_gd_vi32)(x)
#define gd_fma(x, y, z) _Generic((x), gd_vf32: gd_fma_gd_vf32, gd_vf64: gd_fma_gd_vf64)(x, y, z)
#define gd_fms(x, y, z) _Generic((x), gd_vf32: gd_fms_gd_vf32, gd_vf64: gd_fms_gd_vf64)(x, y, z)
#define gd_fnma(x, y, z) _Generic((x), gd_vf32: gd_fnma_gd_vf32, gd_vf64: gd_fnma_gd_vf64)(x, y, z)
#define gd_min(x, y) \
    _Generic((x), gd_vf32: gd_min_gd_vf32, gd_vf64: gd_min_gd_vf64, gd_vi32: gd_min_gd_vi32)(x, y)
#define gd_take_less(best, best_tag, x, tag) \
    _Generic((x),                            \
        gd_vf32: gd_take_less_gd_vf32,       \
        gd_vf64: gd_take_less_gd_vf64,       \
        gd_vi32: gd_take_less_gd_vi32)(best, best_tag, x, tag)
#define gd_max(x, y) \
    _Generic((x), gd_vf32: gd_max_gd_vf32, gd_vf64: gd_max_gd_vf64, gd_vi32: gd_max_gd_vi32)(x, y)
#define gd_max_abs(best, x) \
    _Generic((x), gd_vf32: gd_max_abs_gd_vf32, gd_vf64: gd_max_abs_gd_vf64)(best, x)
#define gd_abs(x) _Generic((x), gd_vf32: gd_abs_gd_vf32, gd_vf64: gd_abs_gd_vf64)(x)
#define gd_sqrt(x) _Generic((x), gd_vf32: gd_sqrt_gd_vf32, gd_vf64: gd_sqrt_gd_vf64)(x)

#endif
