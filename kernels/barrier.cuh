/* barrier.cuh: barriers in shared memory, and the bulk copies that report to them. From sm_90 on.
 *
 * A barrier counts the arrivals of a phase, and the bytes that bulk copies were announced to bring;
 * its phase ends when all are there. Phases are told apart by their parity: who waits for parity 0
 * waits for the end of the first, third, fifth phase. */
#ifndef GPUDIST_BARRIER_CUH
#define GPUDIST_BARRIER_CUH

#include <stdint.h>

namespace gd {

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Its memory may be used for something else. */
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

/* 16 bytes or a multiple, both ends aligned to 16. */
__device__ __forceinline__ void bulk_copy(void *to, const void *from, unsigned bytes,
                                          uint64_t *barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

}  // namespace gd
#endif
