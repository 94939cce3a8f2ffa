/* copies.cuh: asynchronous copies from global to shared memory, from sm_80 on; on older devices
 * copies by way of registers, which are done when the next instruction begins. */
#ifndef GPUDIST_ARCH_COPIES_CUH
#define GPUDIST_ARCH_COPIES_CUH

#include "arch/shared.cuh"

namespace gd {

/* Copies kBytes, 4, 8 or 16, without a register in between, or zeros. */
template <int kBytes, typename T>
__device__ __forceinline__ void copy_async(T *to, const T *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                 "l"(from), "n"(kBytes), "r"(there ? kBytes : 0)
                 : "memory");
#else
    constexpr int kCount = kBytes / (int)sizeof(T);
    T x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        x[i] = there ? from[i] : T(0);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        to[i] = x[i];
    }
#endif
}

/* Copies 16 bytes past L1 to an address in shared memory. */
__device__ __forceinline__ void copy_word(unsigned to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}

/* Copies the first `bytes` of a word of 16 past L1 to an address in shared memory, and zeros behind
 * them. */
__device__ __forceinline__ void copy_part_of_word(unsigned to, const void *from, int bytes)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
#endif
}

/* A copy of kCount words of 16 bytes that are kApart words apart. It is asynchronous where devices
 * can do that; on older ones the words are loaded where it begins and stored where it ends, so that
 * what stands between hides their way. */
template <int kCount, int kApart>
struct WordsCopy {
#if __CUDA_ARCH__ >= 800
    __device__ __forceinline__ void begin(uint4 *to, const uint4 *from)
    {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            copy_word(shared_address(to + i * kApart), from + i * kApart);
        }
    }
    __device__ __forceinline__ void end(uint4 *) const {}
#else
    uint4 words[kCount];

    __device__ __forceinline__ void begin(uint4 *, const uint4 *from)
    {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            words[i] = from[i * kApart];
        }
    }
    __device__ __forceinline__ void end(uint4 *to) const
    {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            to[i * kApart] = words[i];
        }
    }
#endif
};

/* Ends a group of asynchronous copies. */
__device__ __forceinline__ void end_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most kPending of the groups that end_copies ended are under way. */
template <int kPending>
__device__ __forceinline__ void await_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace gd
#endif
