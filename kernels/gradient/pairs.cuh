/* pairs.cuh: what tiles of pairs share, whoever adds them up: how they are read, and the terms that
 * are added by themselves. */
#ifndef GPUDIST_GRADIENT_PAIRS_CUH
#define GPUDIST_GRADIENT_PAIRS_CUH

#include "gradient/call.cuh"

namespace gd {

constexpr int kEdge = 64; /* rows of either side in a tile */

/* Four numbers of pairs that touch, in a tile whose threads walk `along` b's rows, or along a's. */
template <typename T>
__device__ __forceinline__ void load_four(T (&to)[4], const T *from, ptrdiff_t step, bool words,
                                          bool there)
{
    if (!there) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            to[k] = 0;
        }
        return;
    }
    if (words) {
#pragma unroll
        for (int k = 0; k < 4; k += kPerWord<T>) {
            load_word_const(from + k, to + k);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        to[k] = __ldg(from + k * step);
    }
}

/* Whether all fours of a matrix are aligned words, where `step` lies between neighbours, and `row`
 * from one row of fours to the next. */
template <typename T>
__device__ __forceinline__ bool are_words(const T *data, ptrdiff_t step, ptrdiff_t row)
{
    return step == 1 && (uintptr_t)data % 16 == 0 && row % kPerWord<T> == 0;
}

/* The terms of a row that are to be added alone: those of pairs with `others` from `first` on. */
template <typename Term, bool kTurned, typename T>
__device__ __noinline__ T sum_alone(const PairsOfOne<T> &asked, const PairsOfOne<T> &away,
                                    ptrdiff_t row, const T *point, ptrdiff_t first, ptrdiff_t count,
                                    const T *others, ptrdiff_t stride)
{
    T sum = 0;
    for (ptrdiff_t other = first; other < count && other < first + kEdge; ++other) {
        const ptrdiff_t i = kTurned ? other : row, j = kTurned ? row : other;
        if (asked.has(i, j)) {
            const T g = *asked.at(i, j), x = *away.at(i, j);
            bool apart = false;
            (void)Term::factor(g, x, &apart);
            sum += apart ? Term::alone(g, x, *point - others[other * stride]) : T(0);
        }
    }
    return sum;
}

}  // namespace gd
#endif
