/* words.cuh: 16-byte loads and stores. */
#ifndef GPUDIST_COMMON_WORDS_CUH
#define GPUDIST_COMMON_WORDS_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "gpudist.h"

namespace gd {

/* A word is what one instruction of a thread moves at best: 16 bytes, aligned to 16. */
template <typename T>
struct WordOf;
template <>
struct WordOf<float> {
    using type = float4;
};
template <>
struct WordOf<double> {
    using type = double2;
};
template <>
struct WordOf<int32_t> {
    using type = int4;
};
template <typename T>
using Word = typename WordOf<T>::type;
template <typename T>
constexpr int kPerWord = (int)(sizeof(Word<T>) / sizeof(T));

/* `to` is an array in registers: with constant indices the copies below cost nothing. */
template <typename T>
__device__ __forceinline__ void unpack(Word<T> word, T *to)
{
    if constexpr (kPerWord<T> == 2) {
        to[0] = word.x, to[1] = word.y;
    }
    else {
        to[0] = word.x, to[1] = word.y, to[2] = word.z, to[3] = word.w;
    }
}

template <typename T>
__device__ __forceinline__ Word<T> pack(const T *from)
{
    if constexpr (kPerWord<T> == 2) {
        return Word<T>{from[0], from[1]};
    }
    else {
        return Word<T>{from[0], from[1], from[2], from[3]};
    }
}

/* From shared memory, or from global memory that the kernel itself writes. */
template <typename T>
__device__ __forceinline__ void load_word(const T *from, T *to)
{
    unpack<T>(*reinterpret_cast<const Word<T> *>(from), to);
}

/* From global memory that nobody writes while the kernel runs. */
template <typename T>
__device__ __forceinline__ void load_word_const(const T *from, T *to)
{
    unpack<T>(__ldg(reinterpret_cast<const Word<T> *>(from)), to);
}

template <typename T>
__device__ __forceinline__ void store_word(T *to, const T *from)
{
    *reinterpret_cast<Word<T> *>(to) = pack(from);
}

/* For results that nobody reads soon: they leave the cache first, operands stay. */
template <typename T>
__device__ __forceinline__ void stream_word(T *to, const T *from)
{
    __stcs(reinterpret_cast<Word<T> *>(to), pack(from));
}

/* Whether rows that start at `data` and follow each other at `stride` elements start aligned. */
template <typename T>
bool rows_of_words(const T *data, ptrdiff_t stride)
{
    return (uintptr_t)data % sizeof(Word<T>) == 0 && stride % kPerWord<T> == 0;
}

/* Whether rows can be read by aligned words, the last of which is whole and does not reach beyond
 * its row. */
template <typename T>
bool reads_words(const gd_matrix &x)
{
    return x.cols % kPerWord<T> == 0 && x.col_stride == 1 &&
           rows_of_words((const T *)x.data, x.row_stride);
}

}  // namespace gd
#endif
