/* multiply_few.cuh: the kernel that multiplies where there are few results: a block for each 64
 * rows by 64 columns of them, half of a part.
 *
 * A tile of multiply.cuh is six of these. Where there are no more of these than
 * multiprocessors a tile takes as long as the call, and most of the device rests. Four warps
 * multiply, one brings the images, a plane a lane. Sums are added in the same order as there: the
 * bits are the same. A call of 128 x 128 takes at d = 64 19 us instead of 24, at d = 512 30 instead
 * of 36, all steps included. Two blocks a multiprocessor are slower than tiles (1024 x 1024 x 512
 * 39.5 us instead of 38.8), and up to 64 rows of `a` the tiles of one group are as quick or quicker
 * (64 x 2000 x 512 38.0 us instead of 40.2). */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_MULTIPLY_FEW_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_MULTIPLY_FEW_CUH

#include "cdist/product_f32_sm90/multiply.cuh"

namespace gd {
namespace tensor {

constexpr int kFewBuffers = 6, kFewThreads = kGroup + kLanes;

struct FewShared {
    union {
        struct {
            uint4 a[kPlanes * kGroupRows], b[kPlanes * kPartCols];
        } buffers[kFewBuffers];
        Rows<float, kUnitRows, kPartCols> staged[kGroup / 32]; /* when all products are there */
    };
    Facts<kGroupRows> a;
    Facts<kPartCols> b;
    unsigned suspected[kGroup / 32];
    int listed[kGroup / 32];
    uint64_t full[kFewBuffers], empty[kFewBuffers], facts_full;
};

/* A warp brings everything; row counts halves of tiles, col their thirds. */
__device__ __forceinline__ void produce_few(const Plan &plan, unsigned row, unsigned col,
                                            FewShared &shared)
{
    constexpr int kHalves = kTileRows / kGroupRows;
    const int lane = (int)this_thread() % kLanes;
    const int in_a = (int)(row % kHalves) * kGroupRows, in_b = (int)(col % kParts) * kPartCols;
    const bool of_a = lane < kPlanes;
    const int plane = lane % kPlanes;
    const uint4 *from =
        of_a ? plan.image_a + row / kHalves * plan.slabs * kImageA + plane * kPlaneA + in_a
             : plan.image_b + col / kParts * plan.slabs * kImageB + plane * kPlaneB + in_b;
    if (lane == 0) {
        const FactsA &a = plan.facts_a[row / kHalves];
        const FactsB &b = plan.facts_b[col / kParts];
        barrier_expect(&shared.facts_full, sizeof shared.a + sizeof shared.b);
        bulk_copy(shared.a.norm, a.norm + in_a, sizeof shared.a.norm, &shared.facts_full);
        bulk_copy(shared.a.unscale, a.unscale + in_a, sizeof shared.a.unscale, &shared.facts_full);
        bulk_copy(shared.b.norm, b.norm + in_b, sizeof shared.b.norm, &shared.facts_full);
        bulk_copy(shared.b.unscale, b.unscale + in_b, sizeof shared.b.unscale, &shared.facts_full);
    }
    unsigned slot = 0, turn = 0;
    for (ptrdiff_t slab = 0; slab < plan.slabs; ++slab) {
        auto &buffer = shared.buffers[slot];
        barrier_wait(&shared.empty[slot], turn ^ 1);
        if (lane == 0) {
            barrier_expect(&shared.full[slot], sizeof buffer);
        }
        __syncwarp();
        if (lane < 2 * kPlanes) {
            bulk_copy(of_a ? buffer.a + plane * kGroupRows : buffer.b + plane * kPartCols, from,
                      kGroupRows * sizeof(uint4), &shared.full[slot]);
        }
        from += of_a ? kImageA : kImageB;
        if (++slot == kFewBuffers) {
            slot = 0, turn ^= 1;
        }
    }
}
static_assert(kGroupRows == kPartCols, "planes of both operands are of one size");

/* As sum_products does, but all sums stay in registers. */
__device__ __forceinline__ void sum_few(FewShared &shared, ptrdiff_t slabs, Sums<kPartCols> &sums)
{
    constexpr int kSums = sizeof sums / sizeof *sums;
    Sums<kPartCols> acc = {}, total = {};
    unsigned slot = 0, turn = 0;
#pragma unroll 1
    for (ptrdiff_t slab = 0; slab < slabs; ++slab) {
        const auto &buffer = shared.buffers[slot];
        barrier_wait(&shared.full[slot], turn);
        multiply_slab<kGroupRows, kPartCols>(acc, buffer.a, buffer.b);
        await_products();
        pin(acc);
        if (this_thread() % 32 == 0) {
            barrier_arrive(&shared.empty[slot]);
        }
        if (++slot == kFewBuffers) {
            slot = 0, turn ^= 1;
        }
        const bool first = slab % kGroupSlabs == 0;
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            total[i] = !first || slab == 0   ? total[i]
                       : slab == kGroupSlabs ? sums[i]
                                             : sums[i] + total[i];
            sums[i] = first ? acc[i] : sums[i] + acc[i];
        }
    }
    if (slabs > kGroupSlabs) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] += total[i];
        }
    }
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kFewThreads, 1)
    multiply_few(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan)
{
    extern __shared__ __align__(128) unsigned char memory[];
    FewShared &shared = *reinterpret_cast<FewShared *>(memory);
    const unsigned across = (unsigned)plan.suspects.parts_across;
    const unsigned row = blockIdx.x / across, col = blockIdx.x % across;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x < kGroup / 32) {
        shared.suspected[threadIdx.x] = 0;
        shared.listed[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < kFewBuffers; ++i) {
            barrier_init(&shared.full[i], 1);
            barrier_init(&shared.empty[i], kGroup / 32);
        }
        barrier_init(&shared.facts_full, 1);
        show_barriers();
        fence_other_way();
    }
    __syncthreads();
    follow<true>();
    if (call.packed() && col < row) {
        return; /* left of the diagonal */
    }
    if (warp == kGroup / 32) {
        produce_few(plan, row, col, shared);
        return;
    }
    const bool direct = plan.suspects.direct();
    Sums<kPartCols> sums;
    sum_few(shared, plan.slabs, sums);
    barrier_wait(&shared.facts_full, 0);
    if (direct) { /* all is computed by compute_dense */
        return;
    }
    unsigned &suspected = shared.suspected[warp];
    int &listed = shared.listed[warp];
    int2 *const list = plan.lists[blockIdx.x * (kGroup / 32) + warp];
    const bool whole = (ptrdiff_t)(row + 1) * kGroupRows <= call.a.count &&
                       (ptrdiff_t)(col + 1) * kPartCols <= call.b.count &&
                       (!call.packed() || row < col);
    uint32_t suspects[1];
    const auto store = [&](auto way) {
        store_unit<kMetric, decltype(way)::value, kPartCols>(
            call, plan.ratio, FactsFrom<false>(shared.a, warp_row()), FactsFrom<false>(shared.b, 0),
            (ptrdiff_t)row * kGroupRows + warp_row(), (ptrdiff_t)col * kPartCols,
            Staging<kPartCols>{shared.staged[warp], whole}, sums, suspects);
    };
    if (whole && call.words) {
        store(std::integral_constant<Way, Way::kLines>{});
    }
    else {
        sync_part<1, kGroup>(); /* nobody multiplies any more */
        store(std::integral_constant<Way, Way::kStaged>{});
    }
    keep_suspects<false>(call, plan, (ptrdiff_t)row * kGroupRows + warp_row(),
                         (ptrdiff_t)col * kPartCols, suspects, suspected, list, listed);
    work_off<Metric<kMetric>>(call, plan.words, list, listed);
    if (lane == 0 && suspected != 0) {
        atomicAdd(plan.suspects.total, suspected);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
