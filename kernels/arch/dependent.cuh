/* dependent.cuh: kernels that start while the one before them in the stream ends (Start::kEarly of
 * common/launch.cuh). Devices before sm_90 start each kernel after the one before. */
#ifndef GPUDIST_ARCH_DEPENDENT_CUH
#define GPUDIST_ARCH_DEPENDENT_CUH

namespace gd {

/* Waits until all that the stream did before is done and can be seen, and lets the next kernel of
 * the stream come as soon as there is room for it. kAtOnce: the latter comes before the wait, and
 * waits no less, as this kernel ends after the one before; that is quicker where there is room for
 * it. What such a kernel reads before it follows must come from before a kernel that waited first.
 */
template <bool kAtOnce = false>
__device__ __forceinline__ void follow()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (kAtOnce) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if constexpr (!kAtOnce) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
#endif
}

}  // namespace gd
#endif
