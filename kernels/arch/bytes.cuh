/* bytes.cuh: instructions on the four bytes of a word. */
#ifndef GPUDIST_ARCH_BYTES_CUH
#define GPUDIST_ARCH_BYTES_CUH

namespace gd {

/* The sum, and how far the bytes of two words are apart, all four together: one instruction from
 * sm_75 to sm_100, several on sm_120. */
__device__ __forceinline__ unsigned add_apart(unsigned sum, unsigned x, unsigned y)
{
    unsigned result;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(sum));
    return result;
}

}  // namespace gd
#endif
