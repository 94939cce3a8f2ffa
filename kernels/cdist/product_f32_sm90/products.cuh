/* products.cuh: the tiles of tensor_sm90a.cu, and Hopper's instructions for matrix products. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_PRODUCTS_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_PRODUCTS_CUH

#include "arch/wgmma_sm90.cuh"
#include "cdist/product_f32/operands.cuh"

namespace gd {
namespace tensor {

constexpr int kTileCols = 192; /* results of a block at a time, and 128 rows */
/* A part is what one accumulator of a warpgroup covers in columns. */
constexpr int kParts = Shape<kTileCols>::parts;
constexpr int kPlaneA = Shape<kTileCols>::plane_a, kPlaneB = Shape<kTileCols>::plane_b;
constexpr int kImageA = Shape<kTileCols>::image_a, kImageB = Shape<kTileCols>::image_b;
using FactsA = Facts<kTileRows>;
using FactsB = Facts<kTileCols>;
using Plan = PlanOf<kTileCols>;

/* Blocks that multiply, at most, and warps of one. */
constexpr int kMostBlocks = 256, kWarps = kTileRows / kUnitRows;

using Accumulator = Sums<kTileCols>;

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
