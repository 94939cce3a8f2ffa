/* wgmma_sm90.cuh: tensor cores as a warpgroup, 128 threads, uses them on sm_90a, with operands in
 * shared memory. The tensor cores work beside the threads: products are begun, committed as a
 * group, and waited for. */
#ifndef GPUDIST_ARCH_WGMMA_SM90_CUH
#define GPUDIST_ARCH_WGMMA_SM90_CUH

#include <stdint.h>

namespace gd {

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most kPending of the committed groups are under way. */
template <int kPending = 0>
__device__ __forceinline__ void await_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/* The tensor cores write accumulators behind the compiler's back. This keeps it from moving their
 * use across the waits. */
template <int kCount>
__device__ __forceinline__ void pin(float (&acc)[kCount])
{
#pragma unroll
    for (float &x : acc) {
        asm volatile("" : "+f"(x)::"memory");
    }
}
template <int kCount>
__device__ __forceinline__ void pin(int (&acc)[kCount])
{
#pragma unroll
    for (int &x : acc) {
        asm volatile("" : "+r"(x)::"memory");
    }
}

/* A plane's rows in shared memory, for the tensor cores: without swizzle, groups of 8 rows 128
 * bytes apart, and `step` words of 16 bytes from 8 of a product's 16 dimensions to the others, or
 * from 128 of its 256 bits. */
__device__ __forceinline__ uint64_t describe(unsigned address, unsigned step)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)step << 16 | (uint64_t)(128 >> 4) << 32;
}

/* acc = [acc +] a * b for 64 rows, 64, 192 or 256 columns and 16 dimensions of halves. */
#define GD_ACC8(i)                                                                        \
    "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]), \
        "+f"(acc[i + 5]), "+f"(acc[i + 6]), "+f"(acc[i + 7])
#define GD_ACC32(i) GD_ACC8(i), GD_ACC8(i + 8), GD_ACC8(i + 16), GD_ACC8(i + 24)
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&acc)[32], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, 0;\n"
        "}"
        : GD_ACC32(0)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&acc)[96], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
        "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
        "%92, %93, %94, %95}, "
        "%96, %97, add, 1, 1, 0, 0;\n"
        "}"
        : GD_ACC32(0), GD_ACC32(32), GD_ACC32(64)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&acc)[128], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
        "%125, %126, %127}, %128, %129, add, 1, 1, 0, 0;\n"
        "}"
        : GD_ACC32(0), GD_ACC32(32), GD_ACC32(64), GD_ACC32(96)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
/* The same for 128 columns, with the thread's share of a in registers: as of a product by a warp
 * (arch/mma.cuh), whose number in the warpgroup tells which 16 rows it has. */
template <bool kAdd>
__device__ __forceinline__ void multiply(float (&acc)[64], const unsigned (&a)[4], uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"
        "}"
        : GD_ACC32(0), GD_ACC32(32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)kAdd));
}
/* acc = [acc +] the numbers of bits that are set in both, for 64 rows, 256 columns and 256 bits. */
#define GD_COUNT8(i)                                                                      \
    "+r"(acc[i]), "+r"(acc[i + 1]), "+r"(acc[i + 2]), "+r"(acc[i + 3]), "+r"(acc[i + 4]), \
        "+r"(acc[i + 5]), "+r"(acc[i + 6]), "+r"(acc[i + 7])
#define GD_COUNT32(i) GD_COUNT8(i), GD_COUNT8(i + 8), GD_COUNT8(i + 16), GD_COUNT8(i + 24)
template <bool kAdd>
__device__ __forceinline__ void multiply(int (&acc)[128], uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k256.s32.b1.b1.and.popc "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
        "%125, %126, %127}, %128, %129, add;\n"
        "}"
        : GD_COUNT32(0), GD_COUNT32(32), GD_COUNT32(64), GD_COUNT32(96)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
#undef GD_COUNT32
#undef GD_COUNT8
#undef GD_ACC32
#undef GD_ACC8

}  // namespace gd
#endif
