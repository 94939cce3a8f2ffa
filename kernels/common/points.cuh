/* points.cuh: points of few dimensions, several at a time. */
#ifndef GPUDIST_COMMON_POINTS_CUH
#define GPUDIST_COMMON_POINTS_CUH

#include "common/words.cuh"

namespace gd {

/* Brings four points of D dimensions by words, if they follow each other without gaps, from a word
 * on. They lie in global memory, which nobody writes meanwhile. */
template <int D, typename T>
__device__ __forceinline__ void load_four_points(const T *from, T (&to)[4][D])
{
    constexpr int kWord = kPerWord<T>;
#pragma unroll
    for (int i = 0; i < 4 * D; i += kWord) {
        T word[kWord];
        load_word_const(from + i, word);
#pragma unroll
        for (int e = 0; e < kWord; ++e) {
            to[(i + e) / D][(i + e) % D] = word[e];
        }
    }
}

}  // namespace gd
#endif
