/* bytes.cuh: instructions on the four bytes of a word, and on its bits. */
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

/* The number of the highest bit that is set, -1 without any. From __clz() the compiler takes two
 * instructions more for it. */
__device__ __forceinline__ int highest_bit(unsigned x)
{
    int bit;
    asm("bfind.u32 %0, %1;" : "=r"(bit) : "r"(x));
    return bit;
}

}  // namespace gd
#endif
