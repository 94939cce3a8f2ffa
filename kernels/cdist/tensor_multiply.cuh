/* tensor_multiply.cuh: the kernel that multiplies: images in, results and marks out.
 *
 * One block a multiprocessor walks over tiles of 128 x 192. A producer thread brings images of 32
 * dimensions, three of them ahead; two groups of 128 threads multiply, 64 rows each. A thread holds
 * 96 sums, and two accumulators of 32 that are multiplied into and drained in turn. While one group
 * writes its results the other multiplies.
 *
 * Registers bind: with some 210 of them alive at once ptxas waits for every product by itself
 * (notes C7510 to C7515; setup.py takes them for errors), which costs a quarter of the speed. */
#ifndef GPUDIST_TENSOR_MULTIPLY_CUH
#define GPUDIST_TENSOR_MULTIPLY_CUH

#include "tensor_store.cuh"
#include "tensor_walk.cuh"

namespace gd {
namespace tensor {

constexpr int kGroup = 128, kConsumers = 2 * kGroup, kThreads = kConsumers + kGroup;
constexpr int kStages = 3, kRing = 3;
/* Registers of a thread: three groups of 128 share 65536. */
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

struct Shared {
    struct {
        uint4 a[kImageA], b[kImageB];
    } stages[kStages];
    struct {
        FactsA a;
        FactsB b;
        int row, col; /* of the tile; no row, no tile */
    } facts[kRing];
    Staged staged[kConsumers / 32];
    uint64_t full[kStages], empty[kStages], facts_full[kRing], facts_empty[kRing];
};

static_assert(sizeof(Shared) <= 227 * 1024, "shared memory of a block");

/* One thread brings everything, as soon as there is room. */
__device__ __forceinline__ void produce(const Plan &plan, bool pairs, Shared &shared)
{
    constexpr int kBytes = sizeof shared.stages[0];
    unsigned slot = 0, turn = 0, ring = 0, ring_turn = 0;
    for (Walk walk(plan, pairs, blockIdx.x);; walk.advance(gridDim.x)) {
        auto &facts = shared.facts[ring];
        barrier_wait(&shared.facts_empty[ring], ring_turn ^ 1);
        const ptrdiff_t row = walk.row, col = walk.col();
        facts.row = walk.there() ? (int)row : -1;
        facts.col = (int)col;
        if (!walk.there()) {
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
            bulk_copy(shared.stages[slot].a, a, kImageA * 16, &shared.full[slot]);
            bulk_copy(shared.stages[slot].b, b, kImageB * 16, &shared.full[slot]);
            if (++slot == kStages) {
                slot = 0, turn ^= 1;
            }
        }
    }
}

/* A slab as the tensor cores take it: rows from registers, columns from shared memory. */
struct Operands {
    uint4 a[kChunks];
    uint64_t b;
};

/* A group's way through the slots of shared memory. */
struct Consumer {
    Shared &shared;
    unsigned slot, turn;

    __device__ __forceinline__ void load(Operands &to)
    {
        barrier_wait(&shared.full[slot], turn);
        const unsigned thread = this_thread();
        const uint4 *const from =
            shared.stages[slot].a + thread / 32 * (kChunks * kLanes) + thread % 32;
#pragma unroll
        for (int i = 0; i < kChunks; ++i) {
            to.a[i] = from[i * kLanes];
        }
        to.b = describe(shared_address(shared.stages[slot].b), kPlane);
        if (++slot == kStages) {
            slot = 0, turn ^= 1;
        }
    }

    /* Gives back the slot loaded `ago` loads before the last. */
    __device__ __forceinline__ void release(unsigned ago)
    {
        if (this_thread() % 32 == 0) {
            const unsigned back = ago + 1;
            barrier_arrive(&shared.empty[slot >= back ? slot - back : slot + kStages - back]);
        }
    }
};

/* Starts the products of a slab, with one part of the columns or with all. The first replaces what
 * the accumulator held. */
template <int kPart, typename Accumulators>
__device__ __forceinline__ void start(Accumulators &acc, const Operands &from)
{
    const uint64_t lo = from.b + kPart * kPartCols, hi = lo + kPlane + ((uint64_t)kPlane << 16);
    pin(acc);
    begin_products();
    /* Rows' [hi | lo] with columns' [lo | hi], chunk by chunk. */
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
        const uint4 a = from.a[i];
        if (i == 0) {
            multiply<false>(acc, a.x, a.y, a.z, a.w, lo);
        }
        else {
            multiply<true>(acc, a.x, a.y, a.z, a.w, lo + i * 2 * kPlane);
        }
    }
    /* [hi | hi] with [hi | hi], two chunks at once. */
#pragma unroll
    for (int i = 0; i < kChunks; i += 2) {
        const uint4 a = from.a[i], next = from.a[i + 1];
        multiply<true>(acc, a.x, a.y, next.x, next.y, hi + i * 2 * kPlane);
    }
    commit_products();
}

template <int kPending, typename Accumulators>
__device__ __forceinline__ void finish(Accumulators &acc)
{
    await_products<kPending>();
    pin(acc);
}

__device__ __forceinline__ void drain(const Accumulator &acc, Accumulator &sum)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        sum[i] += acc[i];
    }
}

/* A slab after the first: three parts through two accumulators. If kCarry, `y` brings the last part
 * of the slab before; `x` takes away that of this one. What is drained, and the next operands,
 * which are loaded if there are `more`, take their time while tensor cores are busy. */
template <bool kCarry>
__device__ __forceinline__ void add_slab(Consumer &consumer, Accumulator (&sums)[kParts],
                                         Accumulator &x, Accumulator &y, const Operands &now,
                                         Operands &next, bool more)
{
    start<0>(x, now);
    if constexpr (kCarry) {
        drain(y, sums[2]);
    }
    start<1>(y, now);
    if (more) {
        consumer.load(next);
    }
    finish<1>(x);
    drain(x, sums[0]);
    start<2>(x, now);
    finish<1>(y);
    drain(y, sums[1]);
    finish<0>(x);
    consumer.release(more ? 1 : 0);
}

__device__ __forceinline__ void sum_products(Consumer &consumer, ptrdiff_t slabs,
                                             Accumulator (&sums)[kParts])
{
    Operands even, odd;
    consumer.load(even);
    /* The first slab is its own sum. */
    start<0>(sums, even);
    if (slabs > 1) {
        consumer.load(odd);
    }
    finish<0>(sums);
    consumer.release(slabs > 1 ? 1 : 0);
    if (slabs == 1) {
        return;
    }
    Accumulator x = {}, y = {};
    add_slab<false>(consumer, sums, x, y, odd, even, slabs > 2);
    /* Two slabs a turn: accumulators and operands change places by name, not by copying. The second
     * slab stands before the loop because ptxas waits for products in between if an accumulator can
     * come from anywhere else (its note C7517). */
#pragma unroll 1
    while (true) {
        if (slabs == 2) {
            drain(x, sums[2]);
            return;
        }
        add_slab<true>(consumer, sums, y, x, even, odd, slabs > 3);
        if (slabs == 3) {
            drain(y, sums[2]);
            return;
        }
        add_slab<true>(consumer, sums, x, y, odd, even, slabs > 4);
        slabs -= 2;
    }
}

template <gd_metric kMetric>
__device__ __forceinline__ void consume(const Cdist<float> &call, const Plan &plan, Shared &shared)
{
    Consumer consumer = {shared, 0, 0};
    unsigned ring = 0, ring_turn = 0;
    while (true) {
        const auto &facts = shared.facts[ring];
        barrier_wait(&shared.facts_full[ring], ring_turn);
        if (facts.row < 0) {
            return;
        }
        Accumulator sums[kParts];
        sum_products(consumer, plan.slabs, sums);
        const ptrdiff_t row = facts.row, col = facts.col;
        Staged &staged = shared.staged[this_thread() / 32];
        /* Tiles that are all there take a way without tests. */
        if (call.words && (row + 1) * kTileRows <= call.a.count &&
            (col + 1) * kTileCols <= call.b.count) {
            store_tile<kMetric, true>(call, plan, facts.a, facts.b, row, col, staged, sums);
        }
        else {
            store_tile<kMetric, false>(call, plan, facts.a, facts.b, row, col, staged, sums);
        }
        if (this_thread() % 32 == 0) {
            barrier_arrive(&shared.facts_empty[ring]);
        }
        if (++ring == kRing) {
            ring = 0, ring_turn ^= 1;
        }
    }
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_rows(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    follow();
    if (plan.marks.direct()) {
        return;
    }
    if (threadIdx.x == 0) {
        /* Warps give back what they have read: eight of them. */
        for (int i = 0; i < kStages; ++i) {
            barrier_init(&shared.full[i], 1);
            barrier_init(&shared.empty[i], kConsumers / 32);
        }
        for (int i = 0; i < kRing; ++i) {
            barrier_init(&shared.facts_full[i], 1);
            barrier_init(&shared.facts_empty[i], kConsumers / 32);
        }
        /* Bulk copies have to see the barriers, too. */
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
        if (threadIdx.x == kConsumers) {
            produce(plan, call.pairs, shared);
        }
    }
    else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
        consume<kMetric>(call, plan, shared);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
