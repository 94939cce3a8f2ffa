/* approximate.cuh: functions that are one instruction, and as good as that is. ftz: subnormal
 * arguments and results are 0. */
#ifndef GPUDIST_ARCH_APPROXIMATE_CUH
#define GPUDIST_ARCH_APPROXIMATE_CUH

namespace gd {

__device__ __forceinline__ float approximate_rsqrt_ftz(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The approximation sees the upper half of x and gives a number of 20 bits; its lower half may be
 * anything. */
__device__ __forceinline__ double approximate_rsqrt_ftz(double x)
{
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

/* A root that is good to 2**-23. Infinite x give infinity. */
__device__ __forceinline__ float approximate_sqrt_ftz(float x)
{
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float approximate_sqrt(float x)
{
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float approximate_reciprocal_ftz(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* A reciprocal of 20 bits. */
__device__ __forceinline__ double approximate_reciprocal_ftz(double x)
{
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

__device__ __forceinline__ float approximate_log2_ftz(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float approximate_exp2_ftz(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 if x and y differ or one is NaN, else 0: a comparison and a selection would be two. */
__device__ __forceinline__ float one_if_unequal(float x, float y)
{
    float one;
    asm("set.neu.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y));
    return one;
}

}  // namespace gd
#endif
