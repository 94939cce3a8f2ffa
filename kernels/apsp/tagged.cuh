/* tagged.cuh: lengths that take along where their paths come from. */
#ifndef GPUDIST_APSP_TAGGED_CUH
#define GPUDIST_APSP_TAGGED_CUH

#include "semiring/rings.cuh"

namespace gd {

/* Whether lengths are ordered as the integers that their bits are: the least of three is one
 * instruction then. */
template <typename Ring>
constexpr bool kOrderedAsInts =
    std::is_same<Ring, PlusUnsigned>::value || std::is_same<Ring, Plus<int32_t>>::value;
__device__ __forceinline__ int32_t as_int(float x) { return __float_as_int(x); }
__device__ __forceinline__ int32_t as_int(int32_t x) { return x; }
__device__ __forceinline__ float from_int(int32_t x, float) { return __int_as_float(x); }
__device__ __forceinline__ int32_t from_int(int32_t x, int32_t) { return x; }

/* Joins c with the terms of pivots k and k + 1, as Ring::fold does. `before` is where the path of
 * length c comes from; the paths from the pivots, b, come from `from`. */
template <typename Ring>
__device__ __forceinline__ void fold_tagged(typename Ring::Word &c, int32_t &before,
                                            const Pair<typename Ring::Word> &a,
                                            const Pair<typename Ring::Word> &b,
                                            const Pair<int32_t> &from)
{
    using T = typename Ring::Word;
    if constexpr (kOrderedAsInts<Ring>) {
        const int32_t x = as_int(Ring::term(a.first, b.second)), old = as_int(c);
        const int32_t now = least(old, x, as_int(Ring::term(a.second, b.first)));
        before = now == old ? before : now == x ? from.second : from.first;
        c = from_int(now, T());
    }
    else {
        const bool first = Ring::take(c, Ring::term(a.first, b.second));
        const bool second = Ring::take(c, Ring::term(a.second, b.first));
        before = second ? from.first : first ? from.second : before;
    }
}

/* Joins c with the terms of a pair of pivots, and tells whether one is shorter. */
template <typename Ring>
__device__ __forceinline__ bool shortens(typename Ring::Word &c, const Pair<typename Ring::Word> &a,
                                         const Pair<typename Ring::Word> &b)
{
    using T = typename Ring::Word;
    if constexpr (kOrderedAsInts<Ring>) {
        const int32_t old = as_int(c);
        const int32_t now = least(old, as_int(Ring::term(a.first, b.second)),
                                  as_int(Ring::term(a.second, b.first)));
        c = from_int(now, T());
        return now != old;
    }
    else {
        const T old = c;
        Ring::fold(c, a, b);
        return c < old;
    }
}

/* Of the pair that shortened c last, whether the first pivot did. */
template <typename Ring>
__device__ __forceinline__ bool is_first(typename Ring::Word c, const Pair<typename Ring::Word> &a,
                                         const Pair<typename Ring::Word> &b)
{
    if constexpr (kOrderedAsInts<Ring>) {
        return as_int(Ring::term(a.first, b.second)) == as_int(c);
    }
    else {
        return Ring::term(a.first, b.second) == c;
    }
}

/* Takes row k + 1 of a pair of rows through pivot k, to which its path of length `back` leads. */
template <typename Ring>
__device__ __forceinline__ void join_tagged(Pair<typename Ring::Word> &rows, Pair<int32_t> &from,
                                            typename Ring::Word back)
{
    const bool taken = Ring::take(rows.first, Ring::term(back, rows.second));
    from.first = taken ? from.second : from.first;
}

}  // namespace gd
#endif
