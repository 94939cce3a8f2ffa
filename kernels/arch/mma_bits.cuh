/* mma_bits.cuh: tensor cores that count bits, as a warp uses them, with operands in registers.
 * Thread (g, t) = (lane / 4, lane % 4) has, of the counts, columns 2t and 2t + 1 of rows g and g
 * + 8. They are apart from mma.cuh, of which 9.0 compiles another text than 8.0. */
#ifndef GPUDIST_ARCH_MMA_BITS_CUH
#define GPUDIST_ARCH_MMA_BITS_CUH

namespace gd {

/* Turing's tensor cores know `xor` alone: they count the bits in which rows differ. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kCountsUnequal = true;
#else
constexpr bool kCountsUnequal = false;
#endif

/* c += the counts of a & b, or of a ^ b, over 256 bits, for 16 rows and 8 columns. Of the two
 * halves of the bits (0 and 1) the thread has word t in rows g and g + 8, and in column g. */
__device__ __forceinline__ void count_bits(int (&c)[4], unsigned upper0, unsigned lower0,
                                           unsigned upper1, unsigned lower1, unsigned b0,
                                           unsigned b1)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GD_COUNT(c0, c1, a, b)                                                                     \
    asm("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1}, {%2}, {%3}, {%0, %1};" \
        : "+r"(c0), "+r"(c1)                                                                       \
        : "r"(a), "r"(b))
    GD_COUNT(c[0], c[1], upper0, b0);
    GD_COUNT(c[2], c[3], lower0, b0);
    GD_COUNT(c[0], c[1], upper1, b1);
    GD_COUNT(c[2], c[3], lower1, b1);
#undef GD_COUNT
#else
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(upper0), "r"(lower0), "r"(upper1), "r"(lower1), "r"(b0), "r"(b1));
#endif
}

}  // namespace gd
#endif
