/* copies.cuh: asynchronous copies from global to shared memory, from sm_80 on; older devices have
 * no kernel that asks for one. */
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
#endif
}

/* Copies 16 bytes past L1 to an address in shared memory. */
__device__ __forceinline__ void copy_word(unsigned to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}

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
