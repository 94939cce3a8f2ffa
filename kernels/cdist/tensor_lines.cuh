/* tensor_lines.cuh: how results that tensor cores leave all over a warp are stored by cache lines.
 * In float32 on an H200, 16384 x 16384: d = 64 0.386 ms where half lines take 0.42, d = 128 0.51
 * where they take 0.54. */
#ifndef GPUDIST_TENSOR_LINES_CUH
#define GPUDIST_TENSOR_LINES_CUH

#include "common.cuh"

namespace gd {
namespace marked {

/* Results of a cache line, of which half is a word of each of four neighbouring lanes. */
template <typename T>
constexpr int kLineCols = 128 / (int)sizeof(T);
template <typename T>
constexpr int kHalfLine = kLineCols<T> / 2;

/* Stores a line of each of two neighbouring rows. Lanes 0 to 3, 8 to 11 and so on hold the upper
 * row, those after them the lower one: `own` is a word of the line's left half, and one of the
 * right. As they stand a store would fill two half lines. So the upper lanes give their right half
 * for the left half of the lower row, and eight lanes fill one line after the other. `to` is where
 * the lane's word stands in the upper row: upper lanes have the left half, lower ones the right. */
template <typename T>
__device__ __forceinline__ void store_lines(T *to, ptrdiff_t stride, bool lower,
                                            const T (&own)[2][kPerWord<T>])
{
    T first[kPerWord<T>], second[kPerWord<T>];
#pragma unroll
    for (int e = 0; e < kPerWord<T>; ++e) {
        const T other = __shfl_xor_sync(~0u, lower ? own[0][e] : own[1][e], 4);
        first[e] = lower ? other : own[0][e];
        second[e] = lower ? own[1][e] : other;
    }
    stream_word(to, first);
    stream_word(to + stride, second);
}

}  // namespace marked
}  // namespace gd
#endif
