/* multiply_long.cuh: the kernel that multiplies rows which do not stay in shared memory.
 *
 * Images of both operands pass through, 64 dimensions of 128 rows and of 256 columns at a time. A
 * group of four warps has 64 rows, and holds their products until all dimensions are there; while
 * one waits for its own, the other's keep the tensor cores busy. 48 KB are brought for 4.2 million
 * operations, which the L2 cache bounds at some 500 TFLOP/s. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_MULTIPLY_LONG_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_MULTIPLY_LONG_CUH

#include "neighbors/product/multiply.cuh"

namespace gd {
namespace filter {

struct LongShared {
    static constexpr int kBuffers = 4, kRing = 2;
    struct {
        RowSlab a;
        ColumnSlab b;
    } buffers[kBuffers];
    struct {
        ColumnFacts columns;
        RowFacts rows[kGroupRows];
    } facts[kRing];
    uint64_t full[kBuffers], empty[kBuffers], facts_full[kRing], facts_empty[kRing];
};
static_assert(sizeof(LongShared) <= 227 << 10, "shared memory of a block");

/* Units of which a strip is 128 rows: there are two of each that is listed. */
struct LongUnits {
    const Units &units;
    bool listed;
    int count;

    __device__ __forceinline__ LongUnits(const Units &of, const Plan &plan)
        : units(of),
          listed(of.listed != NULL && plan.lists_units(of.of_sample)),
          count(listed ? kTileRows / kGroupRows * of.count(true) : of.count())
    {
    }
    __device__ __forceinline__ Unit at(int unit) const
    {
        constexpr int kParts = kTileRows / kGroupRows;
        Unit one = units.at(listed, listed ? unit / kParts : unit);
        one.strip = listed ? kParts * one.strip + unit % kParts : one.strip;
        return one;
    }
};

__device__ __forceinline__ void produce_long(const Plan &plan, const LongUnits &units,
                                             LongShared &shared)
{
    const int slabs = plan.planes / kSlabPlanes;
    unsigned slot = 0, turn = 0, ring = 0, ring_turn = 0;
    for (int at = blockIdx.x; at < units.count; at += gridDim.x) {
        const Unit unit = units.at(at);
        const auto by_centre = plan.by_centre(unit.centre);
        const auto *const rows =
            reinterpret_cast<const RowSlab *>(by_centre.images) + (ptrdiff_t)unit.strip * slabs;
        for (int i = 0; i < unit.end - unit.first; ++i) {
            const ptrdiff_t tile = unit.from + (ptrdiff_t)i * unit.apart;
            const auto *const columns =
                reinterpret_cast<const ColumnSlab *>(plan.columns) + tile * slabs;
            auto &facts = shared.facts[ring];
            barrier_wait(&shared.facts_empty[ring], ring_turn ^ 1);
            barrier_expect(&shared.facts_full[ring], sizeof facts.columns + sizeof facts.rows);
            bulk_copy(&facts.columns, plan.column_facts + tile, sizeof facts.columns,
                      &shared.facts_full[ring]);
            bulk_copy(facts.rows, by_centre.facts + (ptrdiff_t)unit.strip * kGroupRows,
                      sizeof facts.rows, &shared.facts_full[ring]);
            if (++ring == LongShared::kRing) {
                ring = 0, ring_turn ^= 1;
            }
            for (int slab = 0; slab < slabs; ++slab) {
                auto &buffer = shared.buffers[slot];
                barrier_wait(&shared.empty[slot], turn ^ 1);
                barrier_expect(&shared.full[slot], sizeof buffer.a + sizeof buffer.b);
                bulk_copy(&buffer.a, rows + slab, sizeof buffer.a, &shared.full[slot]);
                bulk_copy(&buffer.b, columns + slab, sizeof buffer.b, &shared.full[slot]);
                if (++slot == LongShared::kBuffers) {
                    slot = 0, turn ^= 1;
                }
            }
        }
    }
}

/* Adds a slab's products of 64 rows and 256 columns. */
__device__ __forceinline__ void add_slab(Accumulator &acc, const RowSlab &rows, int group,
                                         const ColumnSlab &columns)
{
    const uint64_t a = describe(shared_address(&rows.planes[0][group * 64]), kGroupRows);
    const uint64_t b = describe(shared_address(&columns.planes[0][0]), kTileCols);
    pin(acc);
    begin_products();
#pragma unroll
    for (int i = 0; i < kSlabPlanes / 2; ++i) {
        multiply<true>(acc, a + i * 2 * kGroupRows, b + i * 2 * kTileCols);
    }
    commit_products();
    await_products();
    pin(acc);
}

template <Look kLook, typename P>
__device__ __forceinline__ void consume_long(const P &plan, const LongUnits &units,
                                             LongShared &shared)
{
    const int slabs = plan.planes / kSlabPlanes, group = (int)this_thread() / kGroup;
    Log log(plan.log_room());
    unsigned slot = 0, turn = 0, ring = 0, ring_turn = 0;
#pragma unroll 1
    for (int at = blockIdx.x; at < units.count; at += gridDim.x) {
        const Unit unit = units.at(at);
        const int strip = unit.strip, end = unit.end;
#pragma unroll 1
        for (int tile = unit.first; tile < end; ++tile) {
            Accumulator acc = {};
#pragma unroll 1
            for (int slab = 0; slab < slabs; ++slab) {
                barrier_wait(&shared.full[slot], turn);
                add_slab(acc, shared.buffers[slot].a, group, shared.buffers[slot].b);
                if (this_thread() % kLanes == 0) {
                    barrier_arrive(&shared.empty[slot]);
                }
                if (++slot == LongShared::kBuffers) {
                    slot = 0, turn ^= 1;
                }
            }
            const auto &facts = shared.facts[ring];
            barrier_wait(&shared.facts_full[ring], ring_turn);
            const int row =
                group * 64 + (int)this_thread() / kLanes % 4 * 16 + (int)this_thread() % kLanes / 4;
            look<kLook>(plan, acc, facts.columns, facts.rows + row, strip * kGroupRows + row, tile,
                        log);
            __syncwarp();
            if (this_thread() % kLanes == 0) {
                barrier_arrive(&shared.facts_empty[ring]);
            }
            if (++ring == LongShared::kRing) {
                ring = 0, ring_turn ^= 1;
            }
        }
    }
    if (kLook == Look::kLog) {
        close_log(plan, log);
    }
}

template <Look kLook, typename P>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_long(const __grid_constant__ P plan, const __grid_constant__ Units units)
{
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<LongShared *>(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < LongShared::kBuffers; ++i) {
            barrier_init(&shared.full[i], 1);
            barrier_init(&shared.empty[i], kWarps);
        }
        for (int i = 0; i < LongShared::kRing; ++i) {
            barrier_init(&shared.facts_full[i], 1);
            barrier_init(&shared.facts_empty[i], kWarps);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        give_registers<kProducerRegisters>();
        if (threadIdx.x == kConsumers) {
            produce_long(plan, LongUnits(units, plan), shared);
        }
    }
    else {
        take_registers<kConsumerRegisters>();
        consume_long<kLook>(plan, LongUnits(units, plan), shared);
    }
}

}  // namespace filter
}  // namespace gd
#endif
