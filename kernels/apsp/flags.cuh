/* flags.cuh: counts in global memory by which blocks of one launch tell each other how far they
 * are. What was written before a release is there for whoever acquires what it wrote. */
#ifndef GPUDIST_APSP_FLAGS_CUH
#define GPUDIST_APSP_FLAGS_CUH

namespace gd {

__device__ __forceinline__ unsigned load_acquire(const unsigned *at)
{
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
    return x;
}
__device__ __forceinline__ void store_release(unsigned *at, unsigned x)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}
__device__ __forceinline__ void add_release(unsigned *at)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(at) : "memory");
}
__device__ __forceinline__ void add_relaxed(unsigned *at, unsigned x)
{
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(x) : "memory");
}

}  // namespace gd
#endif
