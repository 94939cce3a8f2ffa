/* multiply.cuh: the kernel that multiplies: images in, results and suspects out.
 *
 * One block a multiprocessor walks over tiles of 128 x 192. A producer thread brings images of 32
 * dimensions, three of them ahead; two groups of 128 threads multiply, 64 rows each. A thread holds
 * 96 sums, and an accumulator of as many. While one group drains it, or writes its results, the
 * other multiplies.
 *
 * By clocks read in the kernel (which cost some themselves), d = 128: of 11300 cycles a tile, 4400
 * wait for products and 3700 make and store results, and both groups do so at the same time, so the
 * tensor cores rest. But with five images ahead, and one group one to three images behind the
 * other, all took as long or up to 7 % longer.
 *
 * Up to 64 rows of `a` are for one group; the other lets images pass, and warps without rows store
 * nothing. With 1 x 65536 that takes 13 us instead of 22 at d = 64, and 47 instead of 62 at d =
 * 512, where memory takes 32. Block and barriers are ready before the step before has ended: a call
 * is 1 us shorter.
 *
 * Registers bind: with some 210 of them alive at once ptxas waits for every product by itself
 * (notes C7510 to C7515; setup.py takes them for errors), which costs a quarter of the speed. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_SM90_MULTIPLY_CUH
#define GPUDIST_CDIST_PRODUCT_F32_SM90_MULTIPLY_CUH

#include <type_traits>

#include "cdist/product_f32/store.cuh"
#include "cdist/product_f32_sm90/walk.cuh"

namespace gd {
namespace tensor {

constexpr int kGroup = 128, kGroupRows = 64, kConsumers = 2 * kGroup,
              kThreads = kConsumers + kGroup;
constexpr int kBuffers = 3, kRing = 3;
/* Slabs whose sums are added up before they join the total: 512 dimensions. Where one element of
 * each row outweighs the rest, all sums after it are rounded to its digits: d = 1024 erred by
 * 5.2e-7, 4096 by 7.5e-7 and cosine distances by 1.1e-6; now 3.8e-7, 4.5e-7, 6.5e-7, and d = 1024
 * takes 2.46 ms instead of 2.42 (with 256 dimensions 2.57). */
constexpr int kGroupSlabs = 16;
using Staged = Rows<float, kUnitRows, kTileCols>;
static_assert(sizeof(Staged::places) >= kLanes * sizeof(Accumulator), "a warp's sums wait there");
/* Registers of a thread: three groups of 128 share 65536. */
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

struct Shared {
    struct {
        uint4 a[kImageA], b[kImageB];
    } buffers[kBuffers];
    struct {
        FactsA a;
        FactsB b;
        int row, col; /* of the tile; no row, no tile */
    } facts[kRing];
    Staged staged[kConsumers / 32];
    unsigned suspected[kConsumers / 32]; /* elements, by each warp */
    int listed[kConsumers / 32];         /* elements that wait in its list */
    uint64_t full[kBuffers], empty[kBuffers], facts_full[kRing], facts_empty[kRing];
};

static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a block");

/* One thread brings everything, as soon as there is room. It is the one that follows the step
 * before: the others wait for what it brings. */
__device__ __forceinline__ void produce(const Plan &plan, bool pairs, Shared &shared)
{
    constexpr int kBytes = sizeof shared.buffers[0];
    unsigned slot = 0, turn = 0, ring = 0, ring_turn = 0;
    Walk walk(plan, pairs, blockIdx.x);
    follow<true>();
    const bool direct = plan.suspects.direct();
    for (;; walk.advance(gridDim.x)) {
        auto &facts = shared.facts[ring];
        barrier_wait(&shared.facts_empty[ring], ring_turn ^ 1);
        const ptrdiff_t row = walk.row, col = walk.col();
        const bool there = walk.there() && !direct;
        facts.row = there ? (int)row : -1;
        facts.col = (int)col;
        if (!there) {
            barrier_arrive(&shared.facts_full[ring]);
            return;
        }
        barrier_expect(&shared.facts_full[ring], sizeof facts.a + sizeof facts.b);
        bulk_copy(&facts.a, plan.facts_a + row, sizeof facts.a, &shared.facts_full[ring]);
        bulk_copy(&facts.b, plan.facts_b + col, sizeof facts.b, &shared.facts_full[ring]);
        if (++ring == kRing) {
            ring = 0, ring_turn ^= 1;
        }
        const uint4 *a = plan.image_a + row * plan.slabs * kImageA;
        const uint4 *b = plan.image_b + col * plan.slabs * kImageB;
        for (ptrdiff_t slab = 0; slab < plan.slabs; ++slab, a += kImageA, b += kImageB) {
            barrier_wait(&shared.empty[slot], turn ^ 1);
            barrier_expect(&shared.full[slot], kBytes);
            bulk_copy(shared.buffers[slot].a, a, kImageA * 16, &shared.full[slot]);
            bulk_copy(shared.buffers[slot].b, b, kImageB * 16, &shared.full[slot]);
            if (++slot == kBuffers) {
                slot = 0, turn ^= 1;
            }
        }
    }
}

/* The first of a warp's rows in its tile. */
__device__ __forceinline__ int warp_row() { return (int)this_thread() / 32 * kUnitRows; }

/* A group's way through the slots of shared memory. */
struct Consumer {
    Shared &shared;
    unsigned slot, turn;

    /* Starts the products of the next slab as soon as it is there. They replace what the
     * accumulator held. */
    __device__ __forceinline__ void start(Accumulator &acc)
    {
        barrier_wait(&shared.full[slot], turn);
        const auto &buffer = shared.buffers[slot];
        multiply_slab<kPlaneA, kPlaneB>(acc, buffer.a + this_thread() / kGroup * kGroupRows,
                                        buffer.b);
    }

    /* Waits for the products, and gives back the slot. */
    __device__ __forceinline__ void finish(Accumulator &acc)
    {
        await_products();
        pin(acc);
        give_back();
    }
    /* Does without a slab. */
    __device__ __forceinline__ void pass()
    {
        barrier_wait(&shared.full[slot], turn);
        give_back();
    }
    __device__ __forceinline__ void give_back()
    {
        if (this_thread() % 32 == 0) {
            barrier_arrive(&shared.empty[slot]);
        }
        if (++slot == kBuffers) {
            slot = 0, turn ^= 1;
        }
    }
};

/* While one group drains its accumulator the other keeps the tensor cores busy. The sums of a group
 * of slabs wait in shared memory while those of the next are made. */
__device__ __forceinline__ void sum_products(Consumer &consumer, ptrdiff_t slabs, float *total,
                                             Accumulator &sums)
{
    constexpr int kSums = sizeof sums / sizeof *sums;
    Accumulator acc = {};
#pragma unroll 1
    for (bool first = true;; first = false) {
        /* The first slab is its own sum. */
        consumer.start(sums);
        consumer.finish(sums);
        const int more = (int)min(slabs, (ptrdiff_t)kGroupSlabs) - 1;
#pragma unroll 1
        for (int slab = 0; slab < more; ++slab) {
            consumer.start(acc);
            consumer.finish(acc);
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
                sums[i] += acc[i];
            }
        }
        if (!first) {
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
                sums[i] += total[i * kLanes];
            }
        }
        slabs -= kGroupSlabs;
        if (slabs <= 0) {
            return;
        }
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            total[i * kLanes] = sums[i];
        }
    }
}

/* kOneGroup: only the first group has rows, and not all of its warps need have some. A kernel of
 * its own: with these tests that for many rows takes 3 % longer. */
template <gd_metric kMetric, bool kOneGroup>
__device__ __forceinline__ void consume(const Cdist<float> &call, const Plan &plan, Shared &shared)
{
    /* Cosine's results leave no registers for rows that slide. */
    constexpr bool kSlides = kMetric != GD_COSINE;
    Consumer consumer = {shared, 0, 0};
    unsigned ring = 0, ring_turn = 0;
    while (true) {
        const auto &facts = shared.facts[ring];
        barrier_wait(&shared.facts_full[ring], ring_turn);
        if (facts.row < 0) {
            break;
        }
        Accumulator sums;
        auto &staged = shared.staged[this_thread() / 32];
        if (!kOneGroup || this_thread() < kGroup) {
            sum_products(consumer, plan.slabs, &staged.places[0][0] + this_thread() % 32, sums);
        }
        else {
            for (ptrdiff_t slab = 0; slab < plan.slabs; ++slab) {
                consumer.pass();
            }
        }
        const ptrdiff_t row = facts.row, col = facts.col;
        unsigned &suspected = shared.suspected[this_thread() / 32];
        /* Tiles that are all there take ways without tests. */
        const bool whole = !kOneGroup && (row + 1) * kTileRows <= call.a.count &&
                           (col + 1) * kTileCols <= call.b.count &&
                           (!call.packed() || (row + 1) * kTileRows <= col * kTileCols);
        uint32_t suspects[kParts];
        const auto store = [&](auto way) {
            store_unit<kMetric, decltype(way)::value, kTileCols>(
                call, plan.ratio, FactsFrom<false>(facts.a, warp_row()),
                FactsFrom<false>(facts.b, 0), row * kTileRows + warp_row(), col * kTileCols,
                Staging<kTileCols>{staged, whole}, sums, suspects);
        };
        if (kOneGroup && this_thread() / 32 * kUnitRows >= call.a.count) {
            suspects[0] = suspects[1] = suspects[2] = 0;
        }
        else if (whole && call.words) {
            store(std::integral_constant<Way, Way::kLines>{});
        }
        else if (kSlides && whole) {
            store(std::integral_constant<Way, Way::kSliding>{});
        }
        else {
            store(std::integral_constant<Way, Way::kStaged>{});
        }
        /* Last, so that nothing stands between the stores. */
        keep_suspects<false>(call, plan, row * kTileRows + warp_row(), col * kTileCols, suspects,
                             suspected, plan.lists[blockIdx.x * kWarps + this_thread() / 32],
                             shared.listed[this_thread() / 32]);
        if (this_thread() % 32 == 0) {
            barrier_arrive(&shared.facts_empty[ring]);
        }
        if (++ring == kRing) {
            ring = 0, ring_turn ^= 1;
        }
    }
    work_off<Metric<kMetric>>(call, plan.words,
                              plan.lists[blockIdx.x * kWarps + this_thread() / 32],
                              shared.listed[this_thread() / 32]);
    /* One word for all: so only now, and not for each tile. */
    const unsigned &suspected = shared.suspected[this_thread() / 32];
    if (this_thread() % 32 == 0 && suspected != 0) {
        atomicAdd(plan.suspects.total, suspected);
    }
}

template <gd_metric kMetric, bool kOneGroup>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_rows(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x < kConsumers / 32) {
        shared.suspected[threadIdx.x] = 0;
        shared.listed[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        /* Warps give back what they have read: eight of them. */
        for (int i = 0; i < kBuffers; ++i) {
            barrier_init(&shared.full[i], 1);
            barrier_init(&shared.empty[i], kConsumers / 32);
        }
        for (int i = 0; i < kRing; ++i) {
            barrier_init(&shared.facts_full[i], 1);
            barrier_init(&shared.facts_empty[i], kConsumers / 32);
        }
        show_barriers();
        fence_other_way();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        give_registers<kProducerRegisters>();
        if (threadIdx.x == kConsumers) {
            produce(plan, call.pairs, shared);
        }
    }
    else {
        take_registers<kConsumerRegisters>();
        consume<kMetric, kOneGroup>(call, plan, shared);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
