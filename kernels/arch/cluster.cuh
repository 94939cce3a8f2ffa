/* cluster.cuh: clusters of blocks, which write into each other's shared memory; from sm_90 on. */
#ifndef GPUDIST_ARCH_CLUSTER_CUH
#define GPUDIST_ARCH_CLUSTER_CUH

#include <stdint.h>

#include "arch/shared.cuh"

/* Of a kernel of which so many neighbouring blocks are a cluster. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GD_CLUSTER_OF(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define GD_CLUSTER_OF(blocks)
#endif

namespace gd {

/* Where the cluster's block `rank` has what is at this address in this block. */
__device__ __forceinline__ unsigned address_in(unsigned address, unsigned rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

/* All threads of all blocks meet, and see what the others have written. */
__device__ __forceinline__ void cluster_meet()
{
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}

/* The first meeting in two steps, with other work between: this thread's block has begun; all have,
 * and their shared memory may be written. */
__device__ __forceinline__ void cluster_begin()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_begun()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Stores a number in a block's shared memory. */
__device__ __forceinline__ void store_in(unsigned address, unsigned x)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

/* Stores 16 bytes in a block's shared memory, and tells a barrier there when they have come. */
__device__ __forceinline__ void send_word(unsigned address, uint4 x, unsigned barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(address),
        "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
        : "memory");
}

}  // namespace gd
#endif
