/* signals.cuh: numbers in global memory by which blocks of one launch tell each other how far they
 * are, or what they have got. What was written before a release is there for whoever acquires what
 * it wrote; relaxed accesses say nothing about other memory. */
#ifndef GPUDIST_ARCH_SIGNALS_CUH
#define GPUDIST_ARCH_SIGNALS_CUH

#include <stdint.h>

namespace gd {

/* On which multiprocessor this thread runs. */
__device__ __forceinline__ unsigned multiprocessor()
{
    unsigned x;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(x));
    return x;
}

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

__device__ __forceinline__ double load_relaxed(const double *from)
{
    double x;
    asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ void store_relaxed(double *to, double x)
{
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}

/* Two numbers, aligned to 16 bytes, each of which may be old or new. */
__device__ __forceinline__ double2 load_two_relaxed(const double *from)
{
    double2 x;
    asm volatile("ld.relaxed.gpu.global.v2.f64 {%0, %1}, [%2];"
                 : "=d"(x.x), "=d"(x.y)
                 : "l"(from)
                 : "memory");
    return x;
}
__device__ __forceinline__ void load_two_relaxed(const uint64_t *from, uint64_t &x, uint64_t &y)
{
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(x), "=l"(y)
                 : "l"(from)
                 : "memory");
}
__device__ __forceinline__ void store_two_relaxed(uint64_t *to, uint64_t x, uint64_t y)
{
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(x), "l"(y)
                 : "memory");
}

}  // namespace gd
#endif
