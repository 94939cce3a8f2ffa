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

/* The same on any device, with the same bits: the instruction is a chain of fma that goes up the
 * dimensions. */
__device__ __forceinline__ void multiply_add_anywhere(double (&c)[2][2], const double (&a)[4],
                                                      const double (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    multiply_add(c[0][0], c[0][1], c[1][0], c[1][1], a[0], a[1], a[2], a[3], b[0], b[1]);
#else
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const double x = __shfl_sync(~0u, a[k / 4 * 2 + h], (lane & ~3) + k % 4);
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                const double y = __shfl_sync(~0u, b[k / 4], lane % 4 * 8 + s * 4 + k % 4);
                c[h][s] = fma(x, y, c[h][s]);
            }
        }
    }
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

/* c = a * b or, with kAdd, c += a * b, as above, on sm_75 eight dimensions after the other. The
 * compiler keeps the order in which these stand. */
template <bool kAdd>
__device__ __forceinline__ void multiply_halves(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                unsigned b1)
{
    const float from[4] = {kAdd ? c[0] : 0.0f, kAdd ? c[1] : 0.0f, kAdd ? c[2] : 0.0f,
                           kAdd ? c[3] : 0.0f};
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(from[0]), "f"(from[1]),
          "f"(from[2]), "f"(from[3]));
#else
    float half[4];
#define GD_MULTIPLY(to, a0, a1, b, from)                                                      \
    asm volatile(                                                                             \
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, " \
        "{%7, %8, %9, %10};"                                                                  \
        : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])                                  \
        : "r"(a0), "r"(a1), "r"(b), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]))
    GD_MULTIPLY(half, a[0], a[1], b0, from);
    GD_MULTIPLY(c, a[2], a[3], b1, half);
#undef GD_MULTIPLY
#endif
}

/* Four matrices of 8 rows by 8 halves from shared memory: lane i has the address of row i % 8 of
 * matrix i / 8, 16 bytes, and gets halves 2t and 2t + 1 of row g of each. */
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

}  // namespace gd
#endif
