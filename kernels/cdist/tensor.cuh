/* tensor.cuh: what the parts of tensor_sm90a.cu share: how operands lie in memory, and Hopper's
 * instructions for matrix products, bulk copies and barriers.
 *
 * Numbers are split in two halves, x = hi + lo, each of 16 bits, so 22 bits survive. Eight
 * dimensions make a chunk, 32 a slab, and a slab of one tile is one image: it lies in global memory
 * just as it will in shared memory, so one bulk copy brings it, whatever strides the caller had. */
#ifndef GPUDIST_TENSOR_CUH
#define GPUDIST_TENSOR_CUH

#include <cuda_fp16.h>

#include "metrics.cuh"

namespace gd {
namespace tensor {

/* ---------------------------------------------------------------- shapes */

constexpr int kTileRows = 128, kTileCols = 192; /* results of a block at a time */
constexpr int kChunk = 8, kDims = 32, kChunks = kDims / kChunk;
/* A part is what one accumulator of a warpgroup covers in columns. A unit is a warp's share of it:
 * 16 rows by 64 columns. */
constexpr int kPartCols = 64, kParts = kTileCols / kPartCols;
constexpr int kUnitRows = 16, kUnits = kTileRows / kUnitRows, kLanes = 32;

/* Rows of `a` lie in the order in which the threads of a warp hold their fragments: a word of a
 * lane is (hi of row g, hi of row g + 8, lo of row g, lo of row g + 8), two dimensions each.
 * Columns, the rows of `b`, lie in planes of one chunk: lo, hi, lo, hi, ... of 16 bytes a column.
 */
constexpr int kPlane = kTileCols, kPlanes = 2 * kChunks; /* in words */
constexpr int kImageA = kUnits * kChunks * kLanes, kImageB = kPlanes * kPlane;

/* Rows are put in order within windows. */
constexpr int kWindow = 16384, kWindowTiles = kWindow / kTileRows;

/* What else is known of a tile's rows: half the square of the row's length (see Rules), and the
 * power of two that undoes the scaling of its image. */
template <int kCount>
struct alignas(16) Facts {
    float norm[kCount], unscale[kCount];
};
using FactsA = Facts<kTileRows>;
using FactsB = Facts<kTileCols>;

/* A column's place in the image. Of eight neighbouring columns a thread holds two; moved like this,
 * the two it has in one group of eight and the two in the next are four neighbours. */
__device__ __forceinline__ int place_of_column(int col)
{
    return (col & ~15) | (col >> 1 & 1) << 3 | (col >> 2 & 3) << 1 | (col & 1);
}

/* The workspace, and the tiles. */
struct Plan {
    ptrdiff_t slabs, tiles_down, tiles_across;
    float *shift; /* one a dimension */
    FactsA *facts_a;
    FactsB *facts_b;
    uint4 *image_a, *image_b;
    /* Of every unit: how many of its elements are to be computed again, and if any, which: a word a
     * lane, whose first bit, from the top, is the lane's first element (see element_of). */
    uint16_t *counts;
    uint32_t *marks;
    /* How rows with marks in the same columns become neighbours (tensor_order.cuh): marks of each
     * unit's rows, the rows' keys, the order of the rows in each window, and whether it is one. */
    uint32_t *strips;
    uint16_t *keys, *order;
    uint32_t *ordered;
    /* What is computed in tiles (tensor_dense.cuh): of each group of 128 rows, in their order, the
     * columns, and of each of these which rows are marked, from bit 0 on; how many columns; and the
     * tiles: a group, and which 64 of its columns. */
    int *cols;
    uint4 *masks;
    unsigned *listed;
    int2 *queue;
    unsigned *queued;

    __host__ __device__ ptrdiff_t parts_across() const { return tiles_across * kParts; }
    /* The i-th row of a group, of 32 bits: each row has an image, so there are less than 2^31. */
    __device__ __forceinline__ int row(ptrdiff_t group, bool sorted, int i) const
    {
        const ptrdiff_t at = group * kTileRows + i;
        return (int)(sorted ? group / kWindowTiles * kWindow + order[at] : at);
    }
    /* 2^32 tiles would be a result of 400 TB. */
    __host__ __device__ unsigned tiles() const { return (unsigned)(tiles_down * tiles_across); }
    __host__ __device__ ptrdiff_t parts() const { return tiles_down * tiles_across * kParts; }
    __device__ ptrdiff_t part(ptrdiff_t tile_row, ptrdiff_t tile_col, int part) const
    {
        return (tile_row * tiles_across + tile_col) * kParts + part;
    }
};

/* ---------------------------------------------------------------- metrics */

/* d^2 = |a|^2 + |b|^2 - 2ab cancels where d^2 is small beside the norms. An element is computed
 * again directly where d^2 < share * (|a|^2 + |b|^2): half keeps the relative error of a distance
 * below 5e-7; the cosine distance is held to an absolute error, and needs the guard only for what
 * is next to zero.
 * The norm of a row that has to be computed directly is -infinity. Inner products need no norms;
 * there it is minus the product below which digits that a half cannot hold might matter. */
template <gd_metric kMetric>
struct Rules {
    static constexpr bool product = kMetric == GD_INNER_PRODUCT;
    static constexpr bool shifts = !product;
    static constexpr float share = kMetric == GD_COSINE ? 0x1p-8f : 0.5f;

    /* The sign bit of `guard` says that the element is to be computed again. */
    static __device__ __forceinline__ float result(float acc, float norm_a, float unscale_a,
                                                   float norm_b, float unscale_b, float &guard)
    {
        if constexpr (product) {
            guard = fabsf(acc) + (norm_a + norm_b);
            return acc * unscale_a * unscale_b;
        }
        else {
            const float norms = norm_a + norm_b;
            guard = fmaf(-2 * unscale_a * unscale_b, acc, (2 - 2 * share) * norms);
            const float square = fmaf(2 * share, norms, guard);
            return finish(square);
        }
    }
    static __device__ __forceinline__ float finish(float square)
    {
        if constexpr (kMetric == GD_EUCLIDEAN) {
            /* Good to an ulp. Nothing subnormal comes here: those elements are guarded. */
            float root;
            asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(square));
            return root;
        }
        return Metric<kMetric>::finish(square);
    }
};

/* ---------------------------------------------------------------- barriers and copies */

/* The thread's number, asked for anew: registers are too scarce to keep it. */
__device__ __forceinline__ unsigned this_thread()
{
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void init_barrier(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

__device__ __forceinline__ void arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Arrives, and announces bytes that bulk copies will bring: the phase ends when they are there. */
__device__ __forceinline__ void arrive_expecting(uint64_t *barrier, int bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/* Waits for the end of a barrier's phase of the given parity. */
__device__ __forceinline__ void wait(uint64_t *barrier, unsigned parity)
{
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

__device__ __forceinline__ void bulk_copy(void *to, const void *from, int bytes, uint64_t *barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

/* ---------------------------------------------------------------- matrix products */

using Accumulator = float[32]; /* a thread's share of 64 rows by 64 columns */

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most kPending committed groups are under way. */
template <int kPending>
__device__ __forceinline__ void await_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/* The tensor cores write accumulators behind the compiler's back. This keeps it from moving their
 * use across the waits. */
__device__ __forceinline__ void pin(Accumulator &acc)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        asm volatile("" : "+f"(acc[i])::"memory");
    }
}

/* Columns in shared memory, for the tensor cores: without swizzle, groups of 8 columns 128 bytes
 * apart, and `step` words from one chunk of a product's 16 dimensions to the other. */
__device__ __forceinline__ uint64_t describe(unsigned address, unsigned step)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)step << 16 | (uint64_t)(128 >> 4) << 32;
}

/* acc = [acc +] a * b for 64 rows, 64 columns and 16 dimensions. */
#define GD_ACC4(i) "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3])
template <bool kAdd>
__device__ __forceinline__ void multiply(Accumulator &acc, unsigned a0, unsigned a1, unsigned a2,
                                         unsigned a3, uint64_t b)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
        "}"
        : GD_ACC4(0), GD_ACC4(4), GD_ACC4(8), GD_ACC4(12), GD_ACC4(16), GD_ACC4(20), GD_ACC4(24),
          GD_ACC4(28)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"((int)kAdd));
}
#undef GD_ACC4

}  // namespace tensor
}  // namespace gd
#endif
