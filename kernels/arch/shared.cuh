/* shared.cuh: addresses in shared memory, as instructions that are not C++ want them. */
#ifndef GPUDIST_ARCH_SHARED_CUH
#define GPUDIST_ARCH_SHARED_CUH

namespace gd {

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

}  // namespace gd
#endif
