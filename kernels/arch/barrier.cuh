/* barrier.cuh: barriers in shared memory, and the bulk copies that report to them, from sm_90 on;
 * and barriers for a part of a block's threads, on every device.
 *
 * A barrier in shared memory counts the arrivals of a phase, and the bytes that bulk copies were
 * announced to bring; its phase ends when all are there. Phases are told apart by their parity: who
 * waits for parity 0 waits for the end of the first, third, fifth phase. */
#ifndef GPUDIST_ARCH_BARRIER_CUH
#define GPUDIST_ARCH_BARRIER_CUH

#include <stdint.h>

#include "arch/shared.cuh"

namespace gd {

__device__ __forceinline__ void barrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

/* Bulk copies see the barriers that this thread has initialised. */
__device__ __forceinline__ void show_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/* The barrier's memory may be used for something else. */
__device__ __forceinline__ void barrier_drop(uint64_t *barrier)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* Arrives, and the phase also waits for so many bytes. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, unsigned bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/* Arrives when all asynchronous copies that this thread has begun are done. */
__device__ __forceinline__ void barrier_arrive_after_copies(uint64_t *barrier)
{
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
        : "memory");
}

/* Waits until the phase of this parity is over. */
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, unsigned parity)
{
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again%=;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

/* Whether the phase of this parity is over, at once. */
__device__ __forceinline__ bool barrier_is_past(uint64_t *barrier, unsigned parity)
{
    unsigned passed;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(passed)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return passed;
}

/* Copies 16 bytes or a multiple, both ends aligned to 16, and tells the barrier. */
__device__ __forceinline__ void bulk_copy(void *to, const void *from, unsigned bytes,
                                          uint64_t *barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

/* Bulk copies and tensor cores reach memory by another way than loads and stores do. What this
 * thread did, or has seen done, before this comes before what it asks them for. */
__device__ __forceinline__ void fence_other_way()
{
    asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void fence_other_way_to_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Waits for kThreads threads of the block, whole warps, at one of its sixteen barriers; number 0 is
 * that of __syncthreads(). */
template <int kBarrier, int kThreads>
__device__ __forceinline__ void sync_part()
{
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
/* At one of several barriers that follow each other. */
template <int kFirst, int kThreads>
__device__ __forceinline__ void sync_part(int which)
{
    asm volatile("bar.sync %0, %1;" ::"r"(kFirst + which), "n"(kThreads) : "memory");
}

/* Is one of those that sync_part waits for, and does not wait. */
template <int kBarrier, int kThreads>
__device__ __forceinline__ void arrive_part()
{
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}
template <int kFirst, int kThreads>
__device__ __forceinline__ void arrive_part(int which)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(kFirst + which), "n"(kThreads) : "memory");
}

}  // namespace gd
#endif
