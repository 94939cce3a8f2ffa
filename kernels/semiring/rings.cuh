/* rings.cuh: the arithmetic of the five semirings, as three inner loops.
 *
 * A maximum is a minimum with the order turned over: max_plus and max_min run the loops of min_plus
 * and min_max on numbers that are turned over on their way in and out (`flip`), which is exact. So
 * there are three loops: add and take the less, take the larger and the less, and, on packed bits,
 * "and" and "or".
 *
 * A ring says in which words its loop computes, how elements become words and back, and how a pair
 * of terms joins a result. On the way in every NaN becomes the neutral element and -0.0 becomes
 * 0.0: then a minimum has one answer, whatever the order, and numbers that are not negative may be
 * compared as the integers that their bits are.
 *
 * Cost, with minima at half the rate of additions, in updates a second on an H200: min_plus float32
 * FADD + FMNMX, 16.7e12; where nothing is negative, 2 FADD and one minimum of three integers for
 * two updates, 22.3e12; int32 one VIADDMNMX, 16.7e12, or 22.3e12 where half of the updates take two
 * IMAD and such a minimum; small int32 half a VIADDMNMX, 33.4e12; float64 DADD + DSETP + two
 * moves, which read ten registers where selections read twelve. min_max float32 and int32 two
 * VIMNMX and one VIMNMX3 for two updates, 11.1e12. or_and one LOP3 for 32, 535e12. */
#ifndef GPUDIST_SEMIRING_RINGS_CUH
#define GPUDIST_SEMIRING_RINGS_CUH

#include "arch/halfwords.cuh"
#include "arch/registers.cuh"
#include "semiring/tile.cuh"

namespace gd {

/* ---------------------------------------------------------------- elements */

/* Floats as a ring takes them: no NaN, no -0.0, turned over for a maximum. 0 - x and 0 + x make
 * 0.0 of both zeros. */
template <typename T>
__device__ __forceinline__ T tidy(T x, bool flip)
{
    const T y = flip ? (T)0 - x : (T)0 + x;
    return y == y ? y : (T)INFINITY;
}
template <typename T>
__device__ __forceinline__ T untidy(T y, bool flip)
{
    return flip ? (T)0 - y : y;
}

/* The better of an element of C and a result. A NaN in C loses. */
template <typename T>
__device__ __forceinline__ T better(T c, T x, bool flip)
{
    c += (T)0;
    return (flip ? c > x : c < x) ? c : x;
}
__device__ __forceinline__ uint8_t better(uint8_t c, uint8_t x, bool) { return c != 0 || x != 0; }

/* The least of three: one instruction on sm_90. */
__device__ __forceinline__ int32_t least(int32_t x, int32_t y, int32_t z)
{
    return __vimin3_s32(x, y, z);
}

/* ---------------------------------------------------------------- min_plus, max_plus */

/* Each returns the shorter of c and a + b. A NaN sum (inf - inf, after an overflow) must lose:
 * fminf drops it, and so does a comparison. On float, fminf is one instruction and a comparison
 * with its select two; on double, fmin is ten and a comparison with its moves three. */
__device__ __forceinline__ float shorter(float c, float a, float b) { return fminf(c, a + b); }
__device__ __forceinline__ double shorter(double c, double a, double b)
{
    take_lesser(c, a + b);
    return c;
}
/* Sums may wrap around on a negative cycle, which must not be undefined. */
__device__ __forceinline__ int32_t add(int32_t a, int32_t b) { return (uint32_t)a + (uint32_t)b; }
__device__ __forceinline__ int32_t shorter(int32_t c, int32_t a, int32_t b)
{
    return min(c, add(a, b));
}

template <typename T>
struct Plus {
    using Element = T;
    using Word = T;
    static constexpr int kElements = 1;             /* of an operand in a word */
    static constexpr bool kSigned = sizeof(T) == 4; /* has a faster loop without negative numbers */

    static __device__ __forceinline__ T neutral() { return (T)INFINITY; }
    static __device__ __forceinline__ T enter(T x, bool flip) { return tidy(x, flip); }
    static __device__ __forceinline__ T leave(T y, bool flip) { return untidy(y, flip); }
    /* Whether the word rules the faster loop out. */
    static __device__ __forceinline__ bool flags(T, T y, bool) { return y < 0; }

    /* A term; c joined with one term, and with the two terms of a pair. */
    static __device__ __forceinline__ T term(T a, T b) { return a + b; }
    static __device__ __forceinline__ void join(T &c, T a, T b) { c = shorter(c, a, b); }
    static __device__ __forceinline__ void fold(T &c, Pair<T> a, Pair<T> b)
    {
        c = shorter(c, a.first, b.second);
        c = shorter(c, a.second, b.first);
    }
    /* Joins c with another length, and tells whether that is shorter. */
    static __device__ __forceinline__ bool take(T &c, T other)
    {
        const bool taken = other < c;
        c = taken ? other : c;
        return taken;
    }
};

/* float32 min_plus of numbers that are not negative. */
struct PlusUnsigned : Plus<float> {
    static __device__ __forceinline__ void join(float &c, float a, float b)
    {
        c = __int_as_float(min(__float_as_int(c), __float_as_int(a + b)));
    }
    static __device__ __forceinline__ void fold(float &c, Pair<float> a, Pair<float> b)
    {
        c = __int_as_float(least(__float_as_int(c), __float_as_int(a.first + b.second),
                                 __float_as_int(a.second + b.first)));
    }
    static __device__ __forceinline__ bool take(float &c, float other)
    {
        bool stays;
        c = __int_as_float(__vibmin_s32(__float_as_int(c), __float_as_int(other), &stays));
        return !stays;
    }
};

/* One, which the compiler does not know: it would make plain additions of multiply-adds. */
static __constant__ int32_t kOne = 1;

/* The neutral element is GD_I32_FAR inside, so that two of them can be added. */
template <>
struct Plus<int32_t> {
    using Element = int32_t;
    using Word = int32_t;
    static constexpr int kElements = 1;
    static constexpr bool kSigned = false;

    static __device__ __forceinline__ int32_t neutral() { return GD_I32_FAR; }
    static __device__ __forceinline__ int32_t enter(int32_t x, bool flip)
    {
        return flags(x, 0, flip) || x == (flip ? INT_MIN : INT_MAX) ? GD_I32_FAR : flip ? -x : x;
    }
    static __device__ __forceinline__ int32_t leave(int32_t y, bool flip)
    {
        return y >= GD_I32_NO_PATH ? (flip ? INT_MIN : INT_MAX) : (flip ? -y : y);
    }
    /* Whether the element is out of range. */
    static __device__ __forceinline__ bool flags(int32_t x, int32_t, bool flip)
    {
        return (x <= -GD_I32_ADDEND_LIMIT || x >= GD_I32_ADDEND_LIMIT) &&
               x != (flip ? INT_MIN : INT_MAX);
    }
    static __device__ __forceinline__ int32_t term(int32_t a, int32_t b) { return add(a, b); }
    static __device__ __forceinline__ void join(int32_t &c, int32_t a, int32_t b)
    {
        c = shorter(c, a, b);
    }
    static __device__ __forceinline__ void fold(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c = shorter(c, a.first, b.second);
        c = shorter(c, a.second, b.first);
    }
    /* Folds likewise by multiply-adds, which have a pipe of their own, and half as many minima. */
    static __device__ __forceinline__ void fold_beside(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        const uint32_t one = (uint32_t)kOne;
        c = least(c, (int32_t)((uint32_t)a.first * one + (uint32_t)b.second),
                  (int32_t)((uint32_t)a.second * one + (uint32_t)b.first));
    }
    static __device__ __forceinline__ bool take(int32_t &c, int32_t other)
    {
        bool stays;
        c = __vibmin_s32(c, other, &stays);
        return !stays;
    }
};

/* int32 whose numbers are small: two neighbouring k in a word, and one instruction makes two
 * updates. Numbers are shifted to be positive, so that the halves of a sum stay in their 16 bits;
 * two neutral elements do as well. A result is the lesser of its halves. */
struct PlusNarrow {
    using Element = int32_t;
    using Word = int32_t;
    static constexpr int kElements = 2;
    static constexpr bool kSigned = false;
    static constexpr int32_t kReach = 0x1fff, kNeutral = 0x7fff;

    static __device__ __forceinline__ int32_t neutral() { return kNeutral << 16 | kNeutral; }
    static __device__ __forceinline__ int32_t enter(int32_t x, bool flip)
    {
        return x >= -kReach && x <= kReach ? kReach + (flip ? -x : x) : kNeutral;
    }
    static __device__ __forceinline__ int32_t leave(int32_t y, bool flip)
    {
        const int32_t low = y & 0xffff, high = (int32_t)((uint32_t)y >> 16);
        const int32_t x = min(low, high);
        return Plus<int32_t>::leave(x >= kNeutral ? GD_I32_FAR : x - 2 * kReach, flip);
    }
    /* Whether the element is a number, and not a small one. */
    static __device__ __forceinline__ bool flags(int32_t x, int32_t y, bool flip)
    {
        return y == kNeutral && x != (flip ? INT_MIN : INT_MAX);
    }
    static __device__ __forceinline__ void fold(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c = (int32_t)__viaddmin_u16x2((unsigned)a.first, (unsigned)b.second, (unsigned)c);
        c = (int32_t)__viaddmin_u16x2((unsigned)a.second, (unsigned)b.first, (unsigned)c);
    }
};

template <>
constexpr bool kOnHalfwords<PlusNarrow> = true;

/* Joins element (i, j) of a thread with a pair. In int32 half of the elements take either form, so
 * that both pipes are busy. */
template <typename Ring>
__device__ __forceinline__ void fold_at(int, typename Ring::Word &c, Pair<typename Ring::Word> a,
                                        Pair<typename Ring::Word> b)
{
    Ring::fold(c, a, b);
}
template <>
__device__ __forceinline__ void fold_at<Plus<int32_t>>(int place, int32_t &c, Pair<int32_t> a,
                                                       Pair<int32_t> b)
{
    if (place % 2 == 0) {
        Plus<int32_t>::fold(c, a, b);
    }
    else {
        Plus<int32_t>::fold_beside(c, a, b);
    }
}

/* ---------------------------------------------------------------- min_max, max_min */

/* Integers are turned over by their complement, which holds for the least of them as well. */
template <typename T>
struct Larger {
    using Element = T;
    using Word = int32_t;
    static constexpr int kElements = 1;
    static constexpr bool kSigned = false;

    static __device__ __forceinline__ int32_t neutral() { return INT_MAX; }
    static __device__ __forceinline__ int32_t enter(int32_t x, bool flip) { return flip ? ~x : x; }
    static __device__ __forceinline__ int32_t leave(int32_t y, bool flip) { return flip ? ~y : y; }
    static __device__ __forceinline__ bool flags(T, int32_t, bool) { return false; }
    static __device__ __forceinline__ void fold(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c = least(c, max(a.first, b.second), max(a.second, b.first));
    }
};

/* Nothing is added, so the numbers matter by their order alone. Floats are in the order of the
 * integers that their bits are, once the bits below the sign of a negative one are turned over. */
template <>
struct Larger<float> : Larger<int32_t> {
    using Element = float;
    static __device__ __forceinline__ int32_t sorted(int32_t bits)
    {
        return bits ^ ((bits >> 31) & INT_MAX);
    }
    static __device__ __forceinline__ int32_t neutral() { return __float_as_int(INFINITY); }
    static __device__ __forceinline__ int32_t enter(float x, bool flip)
    {
        return sorted(__float_as_int(tidy(x, flip)));
    }
    static __device__ __forceinline__ float leave(int32_t y, bool flip)
    {
        return untidy(__int_as_float(sorted(y)), flip);
    }
    static __device__ __forceinline__ bool flags(float, int32_t, bool) { return false; }
};

template <>
struct Larger<double> : Plus<double> {
    static __device__ __forceinline__ bool flags(double, double, bool) { return false; }
    static __device__ __forceinline__ double larger(double x, double y) { return x > y ? x : y; }
    static __device__ __forceinline__ void fold(double &c, Pair<double> a, Pair<double> b)
    {
        take_lesser(c, larger(a.first, b.second));
        take_lesser(c, larger(a.second, b.first));
    }
};

/* ---------------------------------------------------------------- or_and */

/* A word holds 32 truths of neighbouring k: bit e says whether element e is true. */
struct OrAnd {
    using Element = uint8_t;
    using Word = int32_t;
    static constexpr int kElements = 32;
    static constexpr bool kSigned = false;

    static __device__ __forceinline__ int32_t neutral() { return 0; }
    static __device__ __forceinline__ int32_t enter(uint8_t x, bool) { return x != 0; }
    static __device__ __forceinline__ uint8_t leave(int32_t y, bool) { return y != 0; }
    static __device__ __forceinline__ bool flags(uint8_t, int32_t, bool) { return false; }
    static __device__ __forceinline__ void fold(int32_t &c, Pair<int32_t> a, Pair<int32_t> b)
    {
        c |= a.first & b.second;
        c |= a.second & b.first;
    }
};

}  // namespace gd
#endif
