/* mma.cuh: tensor cores as a warp uses them, with operands in registers. In all of these thread
 * (g, t) = (lane / 4, lane % 4) has, of the sums, columns 2t and 2t + 1 of rows g and, if there are
 * sixteen, g + 8. */
#ifndef GPUDIST_ARCH_MMA_CUH
#define GPUDIST_ARCH_MMA_CUH

namespace gd {

/* acc += a * b for 16 rows, 8 columns and 8 dimensions, from sm_80 on. Of a the thread has
 * dimensions t and t + 4 (a0 and a1, a2 and a3) of rows g and g + 8, of b the same in column g. All
 * add up in the order of the dimensions. */
__device__ __forceinline__ void multiply_add(double &c0, double &c1, double &c2, double &c3,
                                             double a0, double a1, double a2, double a3, double b0,
                                             double b1)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c0), "+d"(c1), "+d"(c2), "+d"(c3)
        : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
#elif __CUDA_ARCH__ >= 800
#define GD_MULTIPLY(c0, c1, a, b)                                                         \
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" \
        : "+d"(c0), "+d"(c1)                                                              \
        : "d"(a), "d"(b))
    GD_MULTIPLY(c0, c1, a0, b0);
    GD_MULTIPLY(c0, c1, a2, b1);
    GD_MULTIPLY(c2, c3, a1, b0);
    GD_MULTIPLY(c2, c3, a3, b1);
#undef GD_MULTIPLY
#else
    __trap(); /* the table keeps older devices away */
#endif
}

/* acc += a * b for 16 rows, 8 columns and 16 dimensions of halves, two a register, from sm_80 on.
 */
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4],
                                             const unsigned (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap(); /* the table keeps older devices away */
#endif
}

}  // namespace gd
#endif
