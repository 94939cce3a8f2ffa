/* warp.cuh: what a warp finds together by one instruction, and loads that stay in order. */
#ifndef GPUDIST_ARCH_WARP_CUH
#define GPUDIST_ARCH_WARP_CUH

namespace gd {

/* One instruction, or five exchanges on devices before sm_80. */
__device__ __forceinline__ unsigned sum_of_warp(unsigned x)
{
#if __CUDA_ARCH__ >= 800
    x = __reduce_add_sync(~0u, x);
#else
    for (int step = 16; step > 0; step /= 2) {
        x += __shfl_xor_sync(~0u, x, step);
    }
#endif
    return x;
}
__device__ __forceinline__ unsigned least_of_warp(unsigned x)
{
#if __CUDA_ARCH__ >= 800
    x = __reduce_min_sync(~0u, x);
#else
    for (int step = 16; step > 0; step /= 2) {
        x = min(x, __shfl_xor_sync(~0u, x, step));
    }
#endif
    return x;
}

/* The sum of a lane's number and those of all lanes before it. */
template <typename T>
__device__ __forceinline__ T sum_to_lane(T x)
{
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        const T before = __shfl_up_sync(~0u, x, step);
        x += lane >= step ? before : 0;
    }
    return x;
}

/* Loads what nobody writes while the kernel runs, where it stands in the code. The compiler would
 * put a __ldg off until it knows whether it is needed. */
__device__ __forceinline__ uint4 load_const_now(const uint4 *from)
{
    uint4 word;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
    return word;
}

}  // namespace gd
#endif
