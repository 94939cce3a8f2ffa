/* simd_math.h: powers and logarithms of gd_vf64 vectors, in plain arithmetic.
 *
 * Every lane of every instruction set runs the same branches, and no C library is asked, so vectors
 * need not go to memory and back around a call. All rest on two series, of atanh and 2^r, after
 * the exponents have been split off:
 *
 *   log(x / y) = k log 2 + 2 atanh((x - y') / (x + y')),  y' = y 2^k within a factor 1.5 of x
 *
 * which is as good near x = y, where a quotient would cancel, as anywhere else. The coefficients
 * were fitted at Chebyshev nodes in 60 digits; as rounded they are good to the errors named. */
#ifndef GPUDIST_CPU_SIMD_MATH_H
#define GPUDIST_CPU_SIMD_MATH_H

#include "simd.h"

typedef uint64_t gd_vu64 __attribute__((vector_size(GD_VEC_BYTES)));

/* (atanh s / s - 1) / s^2 in s^2 <= 0.04: 8e-19. */
static const double gd_atanh_series[] = {
    0x1.5555555555555p-2, 0x1.9999999999f30p-3, 0x1.24924923dba6ap-3, 0x1.c71c72e2f78d5p-4,
    0x1.745cab2727663p-4, 0x1.3b29fcbbce66dp-4, 0x1.0e88ea4725d3dp-4, 0x1.16b68338bd78bp-4,
};
/* (2^r - 1) / r for |r| <= 1/2: 1.4e-17 of 2^r. */
static const double gd_exp2_series[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c7p-5,  0x1.3b2ab6fba4e79p-7,
    0x1.5d87fe78a3e53p-10, 0x1.430912f86b758p-13, 0x1.ffcbfc6e29fe3p-17, 0x1.62c02242ec602p-20,
    0x1.b524ea8189e6fp-24, 0x1.e4cf0fd4e7081p-28, 0x1.e9ee7233d69dep-32, 0x1.c4a469e32e6cbp-36,
};
/* ((1 + t) log(1 + t) + (1 - t) log(1 - t)) / (2 t^2) in t^2 <= 1/4: 9e-19 of it. */
static const double gd_near_entropy_series[] = {
    0x1.0000000000000p-1,  0x1.555555555556ap-4, 0x1.111111110e721p-5,  0x1.24924926a6222p-6,
    0x1.6c16c090bb109p-7,  0x1.f07c550c36678p-8, 0x1.681236cc781fcp-8,  0x1.114c00b114efbp-8,
    0x1.a7f6c0b225eadp-9,  0x1.75ef015e9df83p-9, 0x1.2da637e2dd179p-10, 0x1.42668084f6cfcp-8,
    -0x1.1f2759e52f72cp-8, 0x1.d3b40f57bcae8p-8,
};
/* ((2 - v) log(2 - v) / 2 - log 2) / v for v <= 1/2: 2e-16 of the entropy. */
static const double gd_far_entropy_series[] = {
    -0x1.b17217f7d1cf8p-1, 0x1.ffffffffffedfp-4,  0x1.5555555574b99p-6,  0x1.5555553fece33p-8,
    0x1.9999a12905562p-10, 0x1.1110467e8fc84p-11, 0x1.8633766616b05p-13, 0x1.235dd7f8f12dep-14,
    0x1.d9b799f1001b8p-16, 0x1.0ae308ee55237p-17, 0x1.3c33b9417cb7cp-17, -0x1.cb73e79f3671dp-19,
    0x1.e9daf283d3537p-19,
};
#define GD_SERIES(name, x) gd_polynomial(name, (int)(sizeof name / sizeof *name), x)

/* Even and odd coefficients apart: time goes by the length of the longest chain. */
GD_INLINE gd_vf64 gd_polynomial(const double *c, const int count, gd_vf64 x)
{
    const gd_vf64 square = x * x;
    gd_vf64 last = gd_splat(c[count - 1]), other = gd_splat(c[count - 2]);
    GD_UNROLL for (int i = count - 3; i >= 0; i -= 2) {
        last = gd_fma(last, square, gd_splat(c[i]));
        if (i > 0)
            other = gd_fma(other, square, gd_splat(c[i - 1]));
    }
    return count % 2 ? gd_fma(other, x, last) : gd_fma(last, x, other);
}

/* x where the comparison held, else y. */
GD_INLINE gd_vf64 gd_select(gd_vi64 held, gd_vf64 x, gd_vf64 y)
{
    return (gd_vf64)(((gd_vi64)x & held) | ((gd_vi64)y & ~held));
}

/* x * y - product, rounded once: the rounding error of a product, if that is what it is given. */
GD_INLINE gd_vf64 gd_product_error(gd_vf64 x, gd_vf64 y, gd_vf64 product)
{
#if defined(__FMA__) || defined(__aarch64__)
    return gd_fms(x, y, product);
#else
    /* Halves of 26 and 27 bits, whose products are exact but for the last one's last bit. */
    const gd_vf64 xh = (gd_vf64)((gd_vi64)x & ~INT64_C(0x7ffffff)), xl = x - xh;
    const gd_vf64 yh = (gd_vf64)((gd_vi64)y & ~INT64_C(0x7ffffff)), yl = y - yh;
    return ((xh * yh - product) + xh * yl + xl * yh) + xl * yl;
#endif
}

/* Integers of less than 51 bits, from a double that is one and to a double. Adding 1.5 * 2^52
 * leaves an integer in the low bits, which not every instruction set has a conversion for. */
GD_INLINE gd_vi64 gd_to_integer(gd_vf64 x)
{
    return (gd_vi64)(x + 0x1.8p+52) - (gd_vi64)gd_splat(0x1.8p+52);
}
GD_INLINE gd_vf64 gd_from_integer(gd_vi64 n)
{
    return (gd_vf64)(n + (gd_vi64)gd_splat(0x1.8p+52)) - 0x1.8p+52;
}

/* 2^n for normal results. */
GD_INLINE gd_vf64 gd_power_of_two(gd_vi64 n) { return (gd_vf64)((n + 1023) << 52); }

/* x^p for x >= 0 and p > 0, within 2 units in the last place; p is finite.
 *
 * The logarithm, to base 2, is a sum of two doubles: p multiplies its error, and up to 1024 of it
 * become the result's exponent. */
GD_INLINE gd_vf64 gd_power_gd_vf64(gd_vf64 x, double p)
{
    /* 0, infinity and NaN are their own powers. */
    const gd_vi64 ordinary = (x > 0) & (x < __builtin_inf());
    const gd_vi64 subnormal = x < 0x1p-1022;
    const gd_vf64 normal = gd_select(subnormal, x * 0x1p+54, x);

    /* x = 2^k m, m from the root of 1/2 to that of 2. */
    const gd_vi64 least = (gd_vi64)gd_splat(0x1.6a09e667f3bcdp-1);
    const gd_vi64 above = (gd_vi64)normal - least;
    const gd_vf64 m = (gd_vf64)((above & INT64_C(0xfffffffffffff)) + least);
    const gd_vi64 biased = (gd_vi64)((gd_vu64)(above + (INT64_C(1023) << 52)) >> 52);
    const gd_vf64 k = gd_from_integer(biased - 1023 - (subnormal & 54));

    /* s + rest = (m - 1) / (m + 1), then log2 x = whole + part. */
    const gd_vf64 numerator = m - 1.0, denominator = m + 1.0;
    const gd_vf64 reciprocal = 1.0 / denominator, s = numerator * reciprocal;
    const gd_vf64 missing = gd_product_error(s, denominator, numerator);
    const gd_vf64 rest = -gd_fma(s, m - (denominator - 1.0), missing) * reciprocal;
    const gd_vf64 square = s * s;
    const gd_vf64 tail = gd_fma(s * square, GD_SERIES(gd_atanh_series, square), rest);
    const gd_vf64 scale = gd_splat(0x1.71547652b82fep+1); /* 2 / log 2, and what it lacks */
    const gd_vf64 lead = scale * s;
    const gd_vf64 whole = k + lead;
    const gd_vf64 part = (lead - (whole - k)) + gd_product_error(scale, s, lead) +
                         gd_fma(s, gd_splat(0x1.777d0ffda0d24p-55), tail * scale);

    /* Beyond +-1100 the result is infinite or 0 anyway, and the sum of two may be NaN. */
    const gd_vf64 exponent = whole * p;
    const gd_vf64 more = gd_fma(part, gd_splat(p), gd_product_error(whole, gd_splat(p), exponent));
    const gd_vf64 low = gd_select(gd_abs(exponent) < 1100, more, gd_splat(0.0));
    const gd_vf64 high = gd_max(gd_min(exponent, gd_splat(1100.0)), gd_splat(-1100.0));
    const gd_vi64 n = gd_to_integer(high + low);
    const gd_vf64 r = (high - gd_from_integer(n)) + low;
    const gd_vf64 power = gd_fma(r, GD_SERIES(gd_exp2_series, r), gd_splat(1.0));
    /* In two steps, each in the range of exponents: only the last one can round. */
    const gd_vi64 half = (gd_vi64)((gd_vu64)(n + 2048) >> 1) - 1024;
    return gd_select(ordinary, power * gd_power_of_two(half) * gd_power_of_two(n - half), x);
}

/* The power 1/3 is off by 1/3 - (1/3 rounded); one step of Newton's sets that right. */
GD_INLINE gd_vf64 gd_cube_root(gd_vf64 x)
{
    const gd_vf64 y = gd_power_gd_vf64(x, 1.0 / 3);
    const gd_vf64 better = gd_fma(x / (y * y) - y, gd_splat(1.0 / 3), y);
    return gd_select((x > 0) & (x < __builtin_inf()), better, x);
}

/* log(x / y) for positive normal x and y, to 2 units in the last place. */
GD_INLINE gd_vf64 gd_log_ratio(gd_vf64 x, gd_vf64 y)
{
    /* Bits of positive doubles are nearly logarithms: those of 2^k x'/y' differ by k in the
     * exponents and at most half of one in the fractions. Unsigned, since 2^63 is added. */
    const gd_vu64 apart = ((gd_vu64)x - (gd_vu64)y) + (UINT64_C(0x8008) << 48);
    const gd_vi64 k = (gd_vi64)(apart >> 52) - 2048;
    const gd_vi64 fraction = (gd_vi64)(apart & UINT64_C(0xfffffffffffff)) - (INT64_C(1) << 51);
    const gd_vi64 from_one = ((gd_vi64)x & INT64_C(0xfffffffffffff)) | (gd_vi64)gd_splat(1.0);
    const gd_vf64 scaled_x = (gd_vf64)from_one, scaled_y = (gd_vf64)(from_one - fraction);
    const gd_vf64 s = (scaled_x - scaled_y) / (scaled_x + scaled_y), square = s * s;
    const gd_vf64 twice = s + s, times = gd_from_integer(k);
    /* log 2 in two parts; multiples of the first are exact. */
    const gd_vf64 tail = twice * square * GD_SERIES(gd_atanh_series, square);
    const gd_vf64 rest = twice + gd_fma(times, gd_splat(0x1.9ef35793c7673p-41), tail);
    return gd_fma(times, gd_splat(0x1.62e42fefa2000p-1), rest);
}

/* See metric_terms.h. With s = x + y and t = |x - y| / s, half the sum of (1 + t) log(1 + t) and
 * (1 - t) log(1 - t) is wanted, times s. For t up to 1/2 a series in t^2 has all digits, where
 * the logarithms would cancel; beyond, v = 1 - t is taken from the smaller of x and y. */
GD_INLINE gd_vf64 gd_entropy(gd_vf64 x, gd_vf64 y)
{
    const gd_vf64 s = x + y, t = gd_abs(x - y) / s, square = t * t;
    gd_vf64 half = square * GD_SERIES(gd_near_entropy_series, square);
    const gd_vi64 far = t > 0.5;
    if (gd_any((gd_vi32)far)) {
        const gd_vf64 v = 2 * gd_min(x, y) / s;
        /* log 0 is not wanted where v is 0, nor that of subnormals: v takes all but nothing. */
        const gd_vf64 log_v = gd_log_ratio(gd_max(v, gd_splat(0x1p-1000)), gd_splat(1.0));
        const gd_vf64 less = gd_fma(log_v, gd_splat(0.5), GD_SERIES(gd_far_entropy_series, v));
        half = gd_select(far, gd_fma(v, less, gd_splat(0x1.62e42fefa39efp-1)), half);
    }
    return gd_select((x > 0) | (y > 0), s * half, gd_splat(0.0));
}

/* See metric_terms.h. */
GD_INLINE gd_vf64 gd_relative_entropy(gd_vf64 x, gd_vf64 y)
{
    const double infinity = __builtin_inf();
    const gd_vi64 usual = (x >= 0x1p-1022) & (x < infinity) & (y >= 0x1p-1022) & (y < infinity);
    if (!gd_any((gd_vi32)~usual))
        return x * gd_log_ratio(x, y);
    const gd_vi64 known = (x == x) & (y == y), positive = (x > 0) & (y > 0);
    const gd_vi64 tiny_x = x < 0x1p-1022, tiny_y = y < 0x1p-1022;
    const gd_vf64 log_ratio =
        gd_log_ratio(gd_select(tiny_x, x * 0x1p+54, x), gd_select(tiny_y, y * 0x1p+54, y));
    const gd_vf64 shift = gd_from_integer((tiny_y & 54) - (tiny_x & 54)) * 0x1.62e42fefa39efp-1;
    /* An infinity on one side decides: x - y has its sign, and is NaN for two of them. */
    gd_vf64 term = gd_select((x < infinity) & (y < infinity), x * (log_ratio + shift), x - y);
    term = gd_select(known & ~positive, gd_splat(infinity), term);
    return gd_select((x == 0) & (y >= 0), gd_splat(0.0), term);
}

#define gd_power(x, p) gd_power_gd_vf64(x, p)

#endif
