/* tensor.cuh: what the parts of tensor_sm90a.cu share: how operands lie in memory, and Hopper's
 * instructions for matrix products.
 *
 * Numbers are split in two halves, x = hi + lo, each of 16 bits, so 22 bits survive. Eight
 * dimensions make a chunk, 32 a slab, and a slab of one tile is one image: it lies in global memory
 * just as it will in shared memory, so one bulk copy brings it, whatever strides the caller had. */
#ifndef GPUDIST_TENSOR_CUH
#define GPUDIST_TENSOR_CUH

#include <cuda_fp16.h>

#include "tensor_centre.cuh"

namespace gd {
namespace tensor {

using namespace marked;

/* ---------------------------------------------------------------- shapes */

constexpr int kTileCols = 192; /* results of a block at a time, and 128 rows */
constexpr int kChunk = 8, kDims = 32, kChunks = kDims / kChunk;
/* A part is what one accumulator of a warpgroup covers in columns. */
constexpr int kParts = kTileCols / kPartCols;

/* An image consists of planes, one of a chunk's eight dimensions in halves, 16 bytes a row: for `a`
 * hi, lo, hi, lo, ..., and for columns, the rows of `b`, lo, hi, lo, hi, ... */
constexpr int kPlaneA = kTileRows, kPlaneB = kTileCols, kPlanes = 2 * kChunks; /* in words */
constexpr int kImageA = kPlanes * kPlaneA, kImageB = kPlanes * kPlaneB;

/* Blocks that multiply, at most, and warps of one. */
constexpr int kMostBlocks = 256, kWarps = kTileRows / kUnitRows;
constexpr int kListed = 512; /* places of a warp's list, at most */

/* What else is known of a tile's rows: what is kept of the square of the row's length (see Rules),
 * and the number that undoes the scaling of its image. */
template <int kCount>
struct alignas(16) Facts {
    float norm[kCount], unscale[kCount];
};
using FactsA = Facts<kTileRows>;
using FactsB = Facts<kTileCols>;

/* A column's place in the image. Of eight neighbouring columns a thread holds two; moved like this,
 * those it has of four such groups are eight neighbours, a quarter of a line. */
__device__ __forceinline__ int place_of_column(int col)
{
    return (col & ~31) | (col >> 1 & 3) << 3 | (col >> 3 & 3) << 1 | (col & 1);
}

/* The workspace, and the tiles. */
struct Plan {
    ptrdiff_t slabs, tiles_down, tiles_across;
    unsigned band;   /* tiles side by side that are walked down together */
    double keep = 1; /* see Rules, as for this: */
    float ratio = 1;
    Sample *sample;
    unsigned *all_direct;
    Shift<float> *shift; /* one a dimension */
    FactsA *facts_a;
    FactsB *facts_b;
    uint4 *image_a, *image_b;
    /* Marked elements that wait for the warp that found them (tensor_own.cuh): a list a warp, how
     * many places of it are used, how many marks of a warp's share of a tile go there at most, and
     * whether rows can be read by words. */
    int2 (*lists)[kListed];
    int places, most_listed;
    bool words;
    Marks marks;
};

/* ---------------------------------------------------------------- metrics */

/* d^2 = |a|^2 + |b|^2 - 2ab cancels where d^2 is small beside the norms. An element is computed
 * again directly where d^2 < share * (|a|^2 + |b|^2): half keeps the relative error of a distance
 * below 5e-7.
 *
 * The cosine distance is held to an absolute error of 1e-6, which is that of the product: some
 * 6e-7 of 2|a||b|, and up to 8e-7 next to cos = -1. Rows of length sqrt(1/2) keep 2|a||b| at 1 as
 * long as they do not move; where they do (tensor_centre.cuh), rows on the other side reach twice
 * that length, and products of two of these erred by 2.6e-6, so elements with 2ab > 1.25 are
 * marked. The share then is for what is next to zero.
 *
 * Few dimensions mark much: with a half 0.15 % of normal data at d = 32, which is a quarter of the
 * time. A smaller share alone is not right (3/7 erred by 5.1e-7, 0.385 by more). So up to d = 64
 * rows are `fine`: divided by numbers that leave next to nothing of the largest element to be left
 * out (tensor_prepare.cuh), and norms are made smaller by 2^-24, which is about what tensor cores
 * cut off products next to the guard. Worst of 5e7 pairs each of 80 kinds, heavy tails and rows of
 * which one element outweighs the rest among them, euclidean on an H200:
 *
 *   d        share  worst   ms        half, not fine
 *   24       11/27  4.0e-7  0.418     4.0e-7  0.517
 *   32       11/27  3.6e-7  0.365     3.9e-7  0.434   (5/13: 4.4e-7, 0.350)
 *   33       3/7    3.9e-7  0.412     3.7e-7  0.502   (11/27: 4.9e-7, 0.390)
 *   48       3/7    4.3e-7  0.359     4.4e-7  0.380
 *   64       3/7    4.5e-7  0.361     4.2e-7  0.357; heavy tails 0.516 instead of 0.618
 *
 * From there on a half marks next to nothing of ordinary data, and dividing takes 6 us.
 *
 * The norm kept of a row is (1 - share) |a|^2, but |a|^2 for the cosine distance; the ratio of
 * share to 1 - share makes d^2 of it.
 *
 * The norm of a row that has to be computed directly is -infinity. Inner products need no norms;
 * there it is minus the product below which digits that a half cannot hold might matter. */
constexpr int kFineDims = 64;
/* share / (1 - share) */
inline double ratio_of(ptrdiff_t d) { return d <= kDims ? 0.6875 : d <= kFineDims ? 0.75 : 1; }

template <gd_metric kMetric>
struct Rules {
    static constexpr bool product = kMetric == GD_INNER_PRODUCT;
    static constexpr bool shifts = !product, absolute = kMetric == GD_COSINE;
    static constexpr float least_share = 0x1p-8f, most_product = 1.25f;
    /* Rows whose squares' sum is not between these are computed directly, unless it is 0: no
     * result, square or scale of others leaves float32's normal numbers. */
    static constexpr double least = 0x1p-90, most = 0x1p120;

    static constexpr bool may_be_fine = shifts && !absolute;

    /* The sign bit of `guard` says that the element is to be computed again. */
    static __device__ __forceinline__ float result(float acc, float norm_a, float unscale_a,
                                                   float norm_b, float unscale_b, float ratio,
                                                   float &guard)
    {
        if constexpr (product) {
            guard = fabsf(acc) + (norm_a + norm_b);
            return acc * unscale_a * unscale_b;
        }
        const float norms = norm_a + norm_b, factor = -2 * unscale_a * unscale_b;
        if constexpr (absolute) {
            guard = fmaf(factor, acc, fminf((1 - least_share) * norms, most_product));
            return finish(fmaf(factor, acc, norms));
        }
        guard = fmaf(factor, acc, norms);
        return finish(fmaf(ratio, norms, guard));
    }
    static __device__ __forceinline__ float finish(float square)
    {
        if constexpr (kMetric == GD_EUCLIDEAN) {
            return quick_root(square); /* nothing subnormal comes here: those are guarded */
        }
        return Metric<kMetric>::finish(square);
    }
};

/* ---------------------------------------------------------------- matrix products */

/* A thread's share of 64 rows by so many columns. */
template <int kCols>
using Sums = float[kCols / 2];
using Accumulator = Sums<kTileCols>;

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void await_products()
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* The tensor cores write accumulators behind the compiler's back. This keeps it from moving their
 * use across the waits. */
template <int kCount>
__device__ __forceinline__ void pin(float (&acc)[kCount])
{
#pragma unroll
    for (float &x : acc) {
        asm volatile("" : "+f"(x)::"memory");
    }
}

/* A plane's rows in shared memory, for the tensor cores: without swizzle, groups of 8 rows 128
 * bytes apart, and `step` words from one chunk of a product's 16 dimensions to the other. */
__device__ __forceinline__ uint64_t describe(unsigned address, unsigned step)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)step << 16 | (uint64_t)(128 >> 4) << 32;
}

/* acc = [acc +] a * b for 64 rows, 192 or 64 columns and 16 dimensions. */
#define GD_ACC8(i)                                                                        \
    "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]), \
        "+f"(acc[i + 5]), "+f"(acc[i + 6]), "+f"(acc[i + 7])
template <bool kAdd>
__device__ __forceinline__ void multiply(Accumulator &acc, uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
        "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
        "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
        "%92, %93, %94, %95}, "
        "%96, %97, add, 1, 1, 0, 0;\n"
        "}"
        : GD_ACC8(0), GD_ACC8(8), GD_ACC8(16), GD_ACC8(24), GD_ACC8(32), GD_ACC8(40), GD_ACC8(48),
          GD_ACC8(56), GD_ACC8(64), GD_ACC8(72), GD_ACC8(80), GD_ACC8(88)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
template <bool kAdd>
__device__ __forceinline__ void multiply(Sums<kPartCols> &acc, uint64_t a, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, 0;\n"
        "}"
        : GD_ACC8(0), GD_ACC8(8), GD_ACC8(16), GD_ACC8(24)
        : "l"(a), "l"(b), "n"((int)kAdd));
}
#undef GD_ACC8

/* Starts the three products of a slab, in the order that makes symmetric bits. kRowsA, kRowsB: of
 * the planes. They replace what the accumulator held. */
template <int kRowsA, int kRowsB, int kCount>
__device__ __forceinline__ void multiply_slab(float (&acc)[kCount], const uint4 *image_a,
                                              const uint4 *image_b)
{
    const uint64_t a = describe(shared_address(image_a), kRowsA);
    const uint64_t b = describe(shared_address(image_b), kRowsB);
    const uint64_t far_a = (uint64_t)kRowsA << 16, far_b = (uint64_t)kRowsB << 16;
    pin(acc);
    begin_products();
    /* Rows' [hi | lo] with columns' [lo | hi], chunk by chunk. */
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
        if (i == 0) {
            multiply<false>(acc, a, b);
        }
        else {
            multiply<true>(acc, a + i * 2 * kRowsA, b + i * 2 * kRowsB);
        }
    }
    /* [hi | hi] with [hi | hi], two chunks at once: from one to the other it is twice as far. */
#pragma unroll
    for (int i = 0; i < kChunks; i += 2) {
        multiply<true>(acc, a + far_a + i * 2 * kRowsA, b + far_b + (i * 2 + 1) * kRowsB);
    }
    commit_products();
}

}  // namespace tensor
}  // namespace gd
#endif
