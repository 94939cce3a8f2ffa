/* tensor_f64.cuh: what the parts of tensor_f64.cu share: how operands lie in memory, which results
 * are trusted, and the instruction of the FP64 tensor cores. */
#ifndef GPUDIST_TENSOR_F64_CUH
#define GPUDIST_TENSOR_F64_CUH

#include "metrics.cuh"

namespace gd {
namespace tensor_f64 {

/* ---------------------------------------------------------------- shapes */

/* A part is 64 rows by 64 columns of the result, a block of the main kernel takes two of them, one
 * above the other, and a warp half a part. */
constexpr int kPart = 64, kTileParts = 2;
constexpr int kTileRows = kTileParts * kPart, kTileCols = kPart;
constexpr int kBand = 16; /* parts, or tiles, below each other that are done together */

/* Copies of the operands stand in panels of 64 rows, cut into slabs of 16 dimensions, and slabs in
 * units of 16 rows, a product's share. A unit is in the order in which the threads of a warp hold
 * it, a word of 16 bytes each: so reading it meets no bank twice, and a slab of a panel is one run
 * of memory. A thread's words are two dimensions of a column, but two rows of `a`, eight apart, in
 * one dimension: those are what the instruction wants in neighbouring registers. */
constexpr int kDims = 16, kUnit = 16, kUnitWords = kUnit * kDims / 2;
constexpr int kPanelWords = kPart / kUnit * kUnitWords;

/* Sums of products go on for so many slabs, 1024 dimensions, before they start afresh. */
constexpr int kGroupSlabs = 64;

/* The workspace, and the parts. */
struct Plan {
    ptrdiff_t slabs, tiles_down, parts_across;
    double keep, ratio; /* 1 - share and share / (1 - share), see Rules */
    double *shift;      /* one a dimension */
    double *norms_a, *norms_b;
    double2 *panels_a, *panels_b;
    uint2 *counts; /* of every part: how many elements of its halves are to be computed again */

    /* Parts are counted downwards in bands of kBand, so that blocks at work on neighbours share
     * operands in the cache. The last band may reach beyond the result. */
    __host__ __device__ ptrdiff_t parts() const
    {
        return ceil_div(tiles_down * kTileParts, (ptrdiff_t)kBand) * kBand * parts_across;
    }
    __device__ ptrdiff_t part(ptrdiff_t down, ptrdiff_t across) const
    {
        return (down / kBand * parts_across + across) * kBand + down % kBand;
    }
    __device__ ptrdiff_t down(ptrdiff_t part) const
    {
        return part / (kBand * parts_across) * kBand + part % kBand;
    }
    __device__ ptrdiff_t across(ptrdiff_t part) const { return part / kBand % parts_across; }
};

/* ---------------------------------------------------------------- metrics */

/* d^2 = N - 2ab, N = |a|^2 + |b|^2, cancels where d^2 is small beside N. With u = 2^-53 a sum of
 * up to 1024 products errs by some d/4 u N if all its roundings point the same way, as they may
 * for rows of one number each, so d^2 by d/2 u N; what else is rounded makes 3 u N. An element is
 * computed again directly where d^2 < share * N. With share = d/1024, but at least 1/32, the others
 * are then good to 7e-14 of d^2; measured were 3e-14 for such rows and 1e-14 for all others. From
 * d = 512 on the share is 1/2, which does for the 1024 dimensions of a group: there the sum ends
 * below N/4. The cosine distance, for which N = 1, is held to an absolute error of 1e-12, and needs
 * the guard only next to zero.
 *
 * A row's norm is (1 - share) |a|^2; -infinity for a row of which all elements are computed
 * directly, and -0 for a row of zeros: -0 + -0 - 2 * 0 keeps the sign, so two such rows are
 * guarded, while -0 vanishes in any other sum. Inner products have 0 or -infinity. */
template <gd_metric kMetric>
struct Rules {
    static constexpr bool product = kMetric == GD_INNER_PRODUCT;
    static constexpr bool shifts = kMetric == GD_EUCLIDEAN || kMetric == GD_SQEUCLIDEAN;

    static double share(ptrdiff_t d)
    {
        const double wanted = (double)d / 1024;
        return kMetric == GD_COSINE ? 0x1p-12
               : wanted < 0x1p-5    ? 0x1p-5
               : wanted > 0.5       ? 0.5
                                    : wanted;
    }

    /* The result, or what stands for it until it is computed again, which `marked` counts. The sign
     * bit of the guard says which. */
    static __device__ __forceinline__ double result(double acc, double norm_a, double norm_b,
                                                    double ratio, int &marked)
    {
        const double norms = norm_a + norm_b;
        const double guard = product ? norms : fma(-2.0, acc, norms);
        const double x = product ? acc : finish(fma(ratio, norms, guard));
        const int sign = __double2hiint(guard) >> 31;
        marked -= sign;
        return __hiloint2double(__double2hiint(x) | sign, __double2loint(x)); /* NaN, or x */
    }

    /* sqrt() tests for arguments that do not come here, being guarded, and rounds correctly; this
     * takes half the time and is good to 2 ulp. The approximation has 20 bits, so what the series
     * of (1 - e)^(-1/2) leaves out is 2^-57. */
    static __device__ __forceinline__ double finish(double square)
    {
        if constexpr (kMetric == GD_EUCLIDEAN) {
            double reciprocal;
            asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(reciprocal) : "d"(square));
            const double root = square * reciprocal;
            const double e = fma(-root, reciprocal, 1.0);
            return fma(root * e, fma(e, 0.375, 0.5), root);
        }
        return Metric<kMetric>::finish(square);
    }
};

/* No trusted result is NaN. */
__device__ __forceinline__ bool is_marked(double x) { return x != x; }

/* ---------------------------------------------------------------- tensor cores */

/* acc += a * b for 16 rows, 8 columns and 8 dimensions. Thread (g, t) = (lane / 4, lane % 4) holds
 * two dimensions, of a in rows g and g + 8, x and y, and of b in column g; of the sums columns 2t
 * and 2t + 1 of both rows. Which dimensions those are is the caller's choice, as long as it is the
 * same for a and b: every sum adds them in the same order. */
__device__ __forceinline__ void multiply_add(double (&acc)[2][2], const double2 (&a)[2],
                                             const double2 &b)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(acc[0][0]), "+d"(acc[0][1]), "+d"(acc[1][0]), "+d"(acc[1][1])
        : "d"(a[0].x), "d"(a[0].y), "d"(a[1].x), "d"(a[1].y), "d"(b.x), "d"(b.y));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+d"(acc[h][0]), "+d"(acc[h][1])
                : "d"(h == 0 ? a[s].x : a[s].y), "d"(s == 0 ? b.x : b.y));
        }
    }
#else
    __trap(); /* the table keeps older devices away */
#endif
}

/* Copies a word from global to shared memory; nobody waits. */
__device__ __forceinline__ void copy_async(unsigned to, const double2 *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}
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

}  // namespace tensor_f64
}  // namespace gd
#endif
