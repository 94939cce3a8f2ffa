/* plan.cuh: what the steps of product_sm90a.cu share: how operands lie in the workspace, and which
 * pairs a product may have. */
#ifndef GPUDIST_GRADIENT_PRODUCT_SM90_PLAN_CUH
#define GPUDIST_GRADIENT_PRODUCT_SM90_PLAN_CUH

#include <cuda_fp16.h>

#include "common/steps.cuh"
#include "gradient/terms.cuh"
#include "gradient/call.cuh"

namespace gd {
namespace gradient_product {

constexpr int kRows = 128, kSlab = 64, kDims = 128; /* of a block at a time: of a, of b, columns */
constexpr int kMostDims = 2 * kDims;
constexpr int kUnit = 16;          /* rows of a warp that multiplies */
constexpr int kGroup = 8;          /* rows of a warp that adds near pairs */
constexpr int kChunks = kSlab / 8; /* of eight rows of b, whose halves make a word */

/* Rows of b as the tensor cores read them: of each chunk and column a word of halves, the first and
 * the second half of each number; what these are to be multiplied by; and kShare times the square
 * of the row's length, infinite where no product can have the row. */
struct alignas(16) Image {
    uint4 high[kChunks][kDims], low[kChunks][kDims];
    float scale[kSlab], norm[kSlab];
    unsigned endless, padding[3]; /* whether a length is infinite */
};

/* Which row of a slab is number `at` of chunk `chunk`: so the four neighbours of a row that a
 * thread reads as one word are those that it has in its registers for the tensor cores. */
__device__ __forceinline__ int row_of_chunk(int chunk, int at)
{
    return chunk / 2 * 16 + at / 2 * 4 + chunk % 2 * 2 + at % 2;
}

/* A product has what a pair adds, W (a - b), as W a and W b. Of pairs that are near each other and
 * far from the centre this cancels: those with a distance below the root of kShare (|a|^2 + |b|^2)
 * are added by themselves, by differences. kLeast, kMost: bits of W that scaling does not push
 * out of float32's normal numbers; kFar: elements of rows are 0, or from its reciprocal to it. */
constexpr float kShare = 0.125f, kFar = 0x1p40f;
constexpr unsigned kLeast = (127 - 70) << 23, kMost = (127 + 80) << 23;

/* W, and whether the product may have it. Of a pair that is asked for with 0, W is of no use. Bits
 * without the sign tell W's size, of NaN as well: that is two instructions. */
template <gd_metric kMetric>
__device__ __forceinline__ bool is_safe(float asked, float away, float norms, float &factor)
{
    float guard;
    if constexpr (kMetric == GD_EUCLIDEAN) {
        factor = asked * approximate_reciprocal_ftz(away);
        guard = __fmaf_rn(away, away, -norms);
    }
    else {
        factor = asked + asked;
        guard = away - norms;
    }
    const unsigned size = 2 * __float_as_uint(factor) - 2 * kLeast;
    return (guard > 0) & (size <= 2 * (kMost - kLeast));
}

/* 2^13 / x and x / 2^13, but for x rounded down to a power of two; of 0 some power. */
struct Scaling {
    unsigned exponent; /* of x, with its bias */

    static __device__ __forceinline__ Scaling of(float x)
    {
        return {min(max(__float_as_uint(x) >> 23, 14u), 240u)};
    }
    __device__ __forceinline__ float down() const
    {
        return __uint_as_float((267 - exponent) << 23);
    }
    __device__ __forceinline__ float up() const { return __uint_as_float((exponent - 13) << 23); }
};

/* Two numbers in halves, and what these leave over. */
__device__ __forceinline__ void split(float x, float y, unsigned &high, unsigned &low)
{
    const __half2 taken = __floats2half2_rn(x, y);
    const float2 back = __half22float2(taken);
    const __half2 rest = __floats2half2_rn(x - back.x, y - back.y);
    high = *reinterpret_cast<const unsigned *>(&taken);
    low = *reinterpret_cast<const unsigned *>(&rest);
}

/* How the numbers of pairs lie: along rows of the result, or along its columns, by whole words or
 * one by one; or it is the same one for all. */
struct Lie {
    bool along_rows, words, same;
};

struct Plan {
    ptrdiff_t slabs, part_slabs, parts; /* of the rows of b */
    ptrdiff_t tiles, blocks;            /* of kRows rows of a, of kDims columns */
    ptrdiff_t items;                    /* tiles, blocks and parts of all matrices */
    Lie asked, away;
    float *centre; /* one a column of each matrix */
    /* Of each matrix: pairs of the sample that products may not have, and whether all is done by
     * differences. */
    unsigned *near_pairs, *direct;
    float *norms;   /* of the rows of a, as those of b in the images */
    Image *images;  /* of each slab, of each block of columns */
    uint8_t *near;  /* of each slab, of each unit: whether pairs are to be added by themselves */
    uint8_t *found; /* of each group, of each part: whether some were */
    float *sums, *near_sums; /* parts of the results */

    __device__ __forceinline__ ptrdiff_t columns() const { return blocks * kDims; }
    __device__ __forceinline__ ptrdiff_t rows() const { return tiles * kRows; }
    __device__ __forceinline__ const Image &image(ptrdiff_t number, ptrdiff_t block,
                                                  ptrdiff_t slab) const
    {
        return images[(number * blocks + block) * slabs + slab];
    }
    __device__ __forceinline__ uint8_t *near_of(ptrdiff_t number, ptrdiff_t unit) const
    {
        return near + (number * (rows() / kUnit) + unit) * slabs;
    }
    __device__ __forceinline__ uint8_t &found_of(ptrdiff_t number, ptrdiff_t part,
                                                 ptrdiff_t group) const
    {
        return found[(number * parts + part) * (rows() / kGroup) + group];
    }
};

}  // namespace gradient_product
}  // namespace gd
#endif
