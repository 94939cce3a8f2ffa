/* common.cuh: what every CUDA file of gpudist needs: checked launches, the step from a run-time
 * dtype to a compile-time type, and 16-byte loads and stores. */
#ifndef GPUDIST_COMMON_CUH
#define GPUDIST_COMMON_CUH

#include <cuda_runtime.h>
#include <limits.h>

#include "kernels.h"

/* Returns from a launcher when a call of the CUDA runtime fails. The message names the kernel by
 * its id. The runtime also keeps the code as its "last error"; it is taken out, so that the next
 * call does not report it again. */
#define GD_CUDA_TRY(err, id, call)                                                       \
    do {                                                                                 \
        const cudaError_t code_ = (call);                                                \
        if (code_ != cudaSuccess) {                                                      \
            (void)cudaGetLastError();                                                    \
            return gd_error_set(err, GD_DEVICE_ERROR, (int)code_, __FILE__, __LINE__,    \
                                "%s: %s (CUDA error %d)", id, cudaGetErrorString(code_), \
                                (int)code_);                                             \
        }                                                                                \
    } while (0)

namespace gd {

/* Enqueues a kernel on the launch's stream. Unlike <<<>>>, this answers for this launch alone, not
 * for an error that somebody else left behind. Grids are one-dimensional: y and z end at 65535.
 * With kEarly the kernel may start while its predecessor in the stream ends, if the device can do
 * that, and must call await_predecessor(). */
template <bool kEarly = false, typename... Parameters, typename... Arguments>
cudaError_t enqueue(const gd_launch &launch, void (*kernel)(Parameters...), ptrdiff_t blocks,
                    dim3 threads, size_t shared_bytes, Arguments &&...arguments)
{
    if (blocks > INT_MAX) {
        return cudaErrorInvalidConfiguration;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)launch.stream;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = kEarly ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Arguments &&>(arguments)...);
}

/* Hides where x comes from. What derives from it is then computed anew where it is needed, as in
 * each turn of a loop, where the compiler would compute it once, keep it, and push sums out of the
 * registers instead. */
__device__ __forceinline__ void forget(unsigned &x) { asm volatile("" : "+r"(x)); }
__device__ __forceinline__ void forget(ptrdiff_t &x) { asm volatile("" : "+l"(x)); }

/* Lets the next kernel of the stream start as soon as there is room for it, and waits until all
 * that the stream did before is done. That saves a gap of about a microsecond. */
__device__ __forceinline__ void await_predecessor()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
#endif
}

/* Calls f(float{}) or f(double{}): the argument carries the type into a generic lambda. */
template <typename F>
gd_status with_float_type(gd_dtype dtype, F &&f)
{
    return dtype == GD_F32 ? f(float{}) : f(double{});
}

/* Likewise for weights of paths, which may be whole numbers. */
template <typename F>
gd_status with_weight_type(gd_dtype dtype, F &&f)
{
    return dtype == GD_I32 ? f(int32_t{}) : with_float_type(dtype, static_cast<F &&>(f));
}

__host__ __device__ constexpr ptrdiff_t ceil_div(ptrdiff_t x, ptrdiff_t y)
{
    return (x + y - 1) / y;
}

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

}  // namespace gd
#endif
