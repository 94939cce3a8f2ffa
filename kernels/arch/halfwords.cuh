/* halfwords.cuh: kernels that add and compare halves of a word, and where they are left out.
 *
 * A launcher takes them where gd_has_halfwords (card.h) says that this is one or two instructions,
 * which no generation before 9.0 has. Elsewhere it is eight of them, on which the compiler spends
 * more time than on any other kernel, and nobody can launch it: so there it is not compiled. */
#ifndef GPUDIST_ARCH_HALFWORDS_CUH
#define GPUDIST_ARCH_HALFWORDS_CUH

namespace gd {

#define GD_GENERATION(e, name, capability, target, lanes, bus, fp64_tensor, halfwords, ...) \
    static_assert(!(halfwords) || (capability) >= 90, "older devices have no such kernels");
#include "generations.def"
#undef GD_GENERATION

/* Whether a ring's arithmetic is on halves of a word. */
template <typename Ring>
constexpr bool kOnHalfwords = false;

/* Whether the kernel of this ring is left out for this target: it ends here, and its caller. */
template <typename Ring>
__device__ __forceinline__ bool left_out()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    if constexpr (kOnHalfwords<Ring>) {
        __trap();
        return true;
    }
#endif
    return false;
}

}  // namespace gd
#endif
