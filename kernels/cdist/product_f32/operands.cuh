/* operands.cuh: what products of float32 points share, whatever instructions multiply: how operands
 * lie in memory, and the rules by which a result is trusted.
 *
 * Numbers are split in two halves, x = hi + lo, each of 16 bits, so 22 bits survive. Eight
 * dimensions make a chunk, 32 a slab, and a slab of one tile is one image: it lies in global memory
 * just as it will in shared memory, so it is copied word by word or in bulk, whatever strides the
 * caller had. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_OPERANDS_CUH
#define GPUDIST_CDIST_PRODUCT_F32_OPERANDS_CUH

#include <cuda_fp16.h>

#include "cdist/product/centre.cuh"

namespace gd {
namespace tensor {

using namespace product_form;

/* ---------------------------------------------------------------- shapes */

constexpr int kChunk = 8, kDims = 32, kChunks = kDims / kChunk;

/* An image consists of planes, one of a chunk's eight dimensions in halves, 16 bytes a row: for `a`
 * hi, lo, hi, lo, ..., and for columns, the rows of `b`, lo, hi, lo, hi, ... */
constexpr int kPlanes = 2 * kChunks;

/* The results of a block at a time, 128 rows of so many columns, and its images, in words. */
template <int kCols>
struct Shape {
    static constexpr int cols = kCols, parts = kCols / kPartCols;
    static constexpr int plane_a = kTileRows, plane_b = kCols;
    static constexpr int image_a = kPlanes * plane_a, image_b = kPlanes * plane_b;
};

constexpr int kListed = 512; /* places of a warp's list, at most */

/* What else is known of a tile's rows: what is kept of the square of the row's length (see Rules),
 * and the number that undoes the scaling of its image. */
template <int kCount>
struct alignas(16) Facts {
    float norm[kCount], unscale[kCount];
};

/* These facts from one of the rows on. kConst: in global memory, which nobody writes meanwhile. */
template <bool kConst>
struct FactsFrom {
    const float *norms, *unscales;

    template <int kCount>
    __device__ __forceinline__ FactsFrom(const Facts<kCount> &facts, int row)
        : norms(facts.norm + row), unscales(facts.unscale + row)
    {
    }
    __device__ __forceinline__ void load(int row, float &norm, float &unscale) const
    {
        norm = kConst ? __ldg(norms + row) : norms[row];
        unscale = kConst ? __ldg(unscales + row) : unscales[row];
    }
    /* Loads those of a word of neighbours. */
    __device__ __forceinline__ void load_words(int row, float *norm, float *unscale) const
    {
        if constexpr (kConst) {
            load_word_const(norms + row, norm);
            load_word_const(unscales + row, unscale);
        }
        else {
            load_word(norms + row, norm);
            load_word(unscales + row, unscale);
        }
    }
};

/* A lane's share of a unit's 16 rows by so many columns. */
template <int kCols>
using Sums = float[kCols / 2];

/* A column's place in the image. Of eight neighbouring columns a thread holds two; moved like this,
 * those it has of four such groups are eight neighbours, a quarter of a line. */
__device__ __forceinline__ int place_of_column(int col)
{
    return (col & ~31) | (col >> 1 & 3) << 3 | (col >> 3 & 3) << 1 | (col & 1);
}

/* The workspace, and the tiles. */
template <int kCols>
struct PlanOf {
    using Shape = tensor::Shape<kCols>;

    ptrdiff_t slabs, tiles_down, tiles_across;
    unsigned band;   /* tiles side by side that are walked down together */
    double keep = 1; /* see Rules, as for this: */
    float ratio = 1;
    Sample *sample;
    unsigned *all_direct;
    Shift<float> *shift; /* one a dimension */
    Weights<float> weights;
    RowTerms terms;
    Facts<kTileRows> *facts_a;
    Facts<kCols> *facts_b;
    uint4 *image_a, *image_b;
    /* Suspect elements that wait for the warp that found them (recompute_own.cuh):
     * a list a warp, how many places of it are used, how many suspects of a warp's share of a tile
     * go there at most, and whether rows can be read by words. */
    int2 (*lists)[kListed];
    int places, most_listed;
    bool words;
    Suspects suspects;
};

/* ---------------------------------------------------------------- metrics */

/* d^2 = |a|^2 + |b|^2 - 2ab cancels where d^2 is small beside the norms. An element is computed
 * again directly where d^2 < share * (|a|^2 + |b|^2): half keeps the relative error of a distance
 * below 5e-7.
 *
 * The cosine distance is held to an absolute error of 1e-6, which is that of the product: some
 * 6e-7 of 2|a||b|, and up to 8e-7 next to cos = -1. Rows of length sqrt(1/2) keep 2|a||b| at 1 as
 * long as they do not move; where they do (product/centre.cuh), rows on the other side reach twice
 * that length, and products of two of these erred by 2.6e-6, so elements with 2ab > 1.25 are
 * suspect. The share then is for what is next to zero.
 *
 * Few dimensions make many suspects: with a half 0.15 % of normal data at d = 32, which is a
 * quarter of the time. A smaller share alone is not right (3/7 erred by 5.1e-7, 0.385 by more). So
 * up to d = 64 rows are `fine`: divided by numbers that leave next to nothing of the largest
 * element to be left out (prepare.cuh), and norms are made smaller by 2^-24, which is about what
 * tensor cores cut off products next to the guard. Worst of 5e7 pairs each of 80 kinds, heavy tails
 * and rows of which one element outweighs the rest among them, euclidean on an H200:
 *
 *   d        share  worst   ms        half, not fine
 *   24       11/27  4.0e-7  0.418     4.0e-7  0.517
 *   32       11/27  3.6e-7  0.365     3.9e-7  0.434   (5/13: 4.4e-7, 0.350)
 *   33       3/7    3.9e-7  0.412     3.7e-7  0.502   (11/27: 4.9e-7, 0.390)
 *   48       3/7    4.3e-7  0.359     4.4e-7  0.380
 *   64       3/7    4.5e-7  0.361     4.2e-7  0.357; heavy tails 0.516 instead of 0.618
 *
 * From there on a half suspects next to nothing of ordinary data, and dividing takes 6 us. Of
 * scaled rows (recompute/scaled.cuh), which are rounded once more, a half would leave 5.1e-7 where
 * one column outweighs the rest; 11/19 suspects 3e-4 of normal data at d = 66, 1e-6 at d = 128.
 *
 * The norm kept of a row is (1 - share) |a|^2, but |a|^2 for the cosine distance; the ratio of
 * share to 1 - share makes d^2 of it.
 *
 * The norm of a row that has to be computed directly is -infinity. Inner products need no norms;
 * there it is minus the product below which digits that a half cannot hold might matter. */
constexpr int kFineDims = 64;
/* share / (1 - share) */
inline double ratio_of(ptrdiff_t d, bool scaled)
{
    return d <= kDims ? 0.6875 : d <= kFineDims ? 0.75 : scaled ? 1.375 : 1;
}

template <gd_metric kMetric>
struct Rules {
    static constexpr bool product = kMetric == GD_INNER_PRODUCT;
    static constexpr bool shifts = !product, absolute = kMetric == GD_COSINE;
    static constexpr float least_share = 0x1p-8f, most_product = 1.25f;
    /* Rows whose squares' sum is not between these are computed directly, unless it is 0: no
     * result, square or scale of others leaves float32's normal numbers. */
    static constexpr double least = 0x1p-90, most = 0x1p120;

    static constexpr bool may_be_fine = shifts && !absolute, scalable = may_be_fine;

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
            return approximate_sqrt_ftz(
                square); /* nothing subnormal comes here: those are guarded */
        }
        return Metric<kMetric>::finish(square);
    }
};

}  // namespace tensor
}  // namespace gd
#endif
