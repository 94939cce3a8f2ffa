/* multiply.cuh: the kernel that multiplies: images in, and out what may be near. What is
 * multiplied, and what becomes of it, is a kind: halves here, truths in neighbors/truths.
 *
 * One block a multiprocessor; a unit of its work is 256 rows of A, whose image stays, with some
 * tiles of 256 columns of B, which a producer thread brings. Two groups of four warps have 128 rows
 * each, and multiply 64 rows by 256 columns at a time. They take turns: while one looks at its
 * accumulators the other keeps the tensor cores busy.
 *
 * What becomes of accumulators stands in look.cuh; longer rows have multiply_long.cuh. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_MULTIPLY_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_MULTIPLY_CUH

#include "arch/barrier.cuh"
#include "arch/registers.cuh"
#include "arch/wgmma_sm90.cuh"
#include "neighbors/product/look.cuh"

namespace gd {
namespace filter {

constexpr int kGroup = 128, kConsumers = 2 * kGroup, kThreads = kConsumers + kGroup;
constexpr int kWarps = kConsumers / kLanes;
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

/* Products of halves. P: a Plan, or a PlanOf the points that products are held against. */
template <int kStepCount, Look kLook, typename P>
struct Halves {
    using Call = P;
    static constexpr int kSteps = kStepCount;
    /* Short rows are multiplied sooner than looked at: turns would only cost. */
    static constexpr bool kTakesTurns = kSteps > 4;
    using Image = Columns<kSteps>;
    using Facts = RowFacts;
    using Sums = Accumulator;
    using Hits = Log;
    struct Limits {};

    static __device__ __forceinline__ bool lists_units(const P &plan, bool of_sample)
    {
        return plan.lists_units(of_sample);
    }
    static __device__ __forceinline__ Plan::ByCentre by_centre(const P &plan, int centre)
    {
        return plan.by_centre(centre);
    }
    static __device__ __forceinline__ unsigned log_room(const P &plan) { return plan.log_room(); }
    static __device__ __forceinline__ Limits limits(const P &, const Image &, int) { return {}; }
    static __device__ __forceinline__ void look(const P &plan, const Sums &acc,
                                                const Image &columns, const Facts *facts,
                                                const Limits &, int row, int tile, Hits &log)
    {
        filter::look<kLook>(plan, acc, columns.facts, facts, row, tile, log);
    }
    static __device__ __forceinline__ void close(const P &plan, const Hits &log)
    {
        if (kLook == Look::kLog) {
            close_log(plan, log);
        }
    }
};

template <typename Kind>
struct Shared {
    static constexpr int kSteps = Kind::kSteps;
    static constexpr int kBuffers = kSteps > 6 ? 2 : kSteps > 4 ? 3 : kSteps > 2 ? 4 : 8;
    typename Kind::Image buffers[kBuffers];
    Rows<kSteps> rows[2];
    typename Kind::Facts facts[kTileRows];
    uint64_t full[kBuffers], empty[kBuffers], rows_full[2], rows_empty[2];
};

/* Units of work: `each` tiles for a strip of rows. Strips are next to each other, so that blocks
 * that work at the same time read the same tiles. Where there are several centres, or of a sample
 * with copies, they are listed instead. */
struct Units {
    Tiles tiles;
    int strips, each;
    const Unit *listed = NULL;
    const unsigned *listed_count = NULL;
    bool of_sample = false;

    template <typename Kind>
    __device__ __forceinline__ bool are_listed(const typename Kind::Call &plan) const
    {
        return listed != NULL && Kind::lists_units(plan, of_sample);
    }
    __device__ __forceinline__ int count(bool are_listed) const
    {
        return are_listed ? (int)*listed_count : count();
    }
    __device__ __forceinline__ Unit at(bool are_listed, int unit) const
    {
        return are_listed ? listed[unit]
                          : Unit{strip(unit), 0, first(unit), end(unit), first(unit) * tiles.apart,
                                 tiles.apart};
    }
    __device__ __forceinline__ int count() const
    {
        return strips * ((tiles.end - tiles.begin + each - 1) / each);
    }
    __device__ __forceinline__ int strip(int unit) const { return unit % strips; }
    __device__ __forceinline__ int first(int unit) const
    {
        return tiles.begin + unit / strips * each;
    }
    __device__ __forceinline__ int end(int unit) const
    {
        return min(first(unit) + each, tiles.end);
    }
};

template <typename Kind>
__device__ __forceinline__ void produce(const typename Kind::Call &plan, const Units &units,
                                        Shared<Kind> &shared)
{
    using S = Shared<Kind>;
    using Image = typename Kind::Image;
    constexpr unsigned kFacts =
        std::is_empty_v<typename Kind::Facts> ? 0 : kGroupRows * sizeof(typename Kind::Facts);
    const auto *const columns = reinterpret_cast<const Image *>(plan.columns);
    const bool listed = units.are_listed<Kind>(plan);
    const int count = units.count(listed);
    unsigned slot = 0, turn = 0, rows_turn = 0;
    for (int at = blockIdx.x; at < count; at += gridDim.x, rows_turn ^= 1) {
        const Unit unit = units.at(listed, at);
        const auto by_centre = Kind::by_centre(plan, unit.centre);
        const auto *const rows =
            reinterpret_cast<const Rows<Kind::kSteps> *>(by_centre.images) + 2 * unit.strip;
        for (int i = 0; i < 2; ++i) {
            barrier_wait(&shared.rows_empty[i], rows_turn ^ 1);
            barrier_expect(&shared.rows_full[i], sizeof shared.rows[i] + kFacts);
            bulk_copy(&shared.rows[i], rows + i, sizeof shared.rows[i], &shared.rows_full[i]);
            if constexpr (kFacts > 0) {
                bulk_copy(shared.facts + i * kGroupRows,
                          by_centre.facts + unit.strip * kTileRows + i * kGroupRows, kFacts,
                          &shared.rows_full[i]);
            }
        }
        for (int i = 0; i < unit.end - unit.first; ++i) {
            barrier_wait(&shared.empty[slot], turn ^ 1);
            barrier_expect(&shared.full[slot], sizeof(Image));
            bulk_copy(&shared.buffers[slot], columns + unit.from + (ptrdiff_t)i * unit.apart,
                      sizeof(Image), &shared.full[slot]);
            if (++slot == S::kBuffers) {
                slot = 0, turn ^= 1;
            }
        }
    }
}

/* Multiplies 64 rows with a tile. */
template <typename Kind>
__device__ __forceinline__ void multiply_tile(typename Kind::Sums &acc,
                                              const Rows<Kind::kSteps> &rows, int half,
                                              const typename Kind::Image &columns)
{
    const uint64_t a = describe(shared_address(&rows.planes[0][half * 64]), kGroupRows);
    const uint64_t b = describe(shared_address(&columns.planes[0][0]), kTileCols);
    if (Kind::kTakesTurns) {
        if (this_thread() < kGroup) {
            sync_part<1, kConsumers>();
        }
        else {
            sync_part<2, kConsumers>();
        }
    }
    pin(acc);
    begin_products();
    multiply<false>(acc, a, b);
#pragma unroll
    for (int i = 1; i < Kind::kSteps; ++i) {
        multiply<true>(acc, a + i * 2 * kGroupRows, b + i * 2 * kTileCols);
    }
    commit_products();
    if (Kind::kTakesTurns) {
        if (this_thread() < kGroup) {
            arrive_part<2, kConsumers>();
        }
        else {
            arrive_part<1, kConsumers>();
        }
    }
    await_products();
    pin(acc);
}

template <typename Kind>
__device__ __forceinline__ void consume(const typename Kind::Call &plan, const Units &units,
                                        Shared<Kind> &shared)
{
    using S = Shared<Kind>;
    const int group = (int)this_thread() / kGroup;
    const bool listed = units.are_listed<Kind>(plan);
    const int count = units.count(listed);
    typename Kind::Hits log(Kind::log_room(plan));
    typename Kind::Sums acc;
    unsigned slot = 0, turn = 0, rows_turn = 0;
    if (Kind::kTakesTurns && group == 1) {
        arrive_part<1, kConsumers>();
    }
#pragma unroll 1
    for (int at = blockIdx.x; at < count; at += gridDim.x, rows_turn ^= 1) {
        const Unit unit = units.at(listed, at);
        const int strip = unit.strip, end = unit.end;
        barrier_wait(&shared.rows_full[group], rows_turn);
#pragma unroll 1
        for (int tile = unit.first; tile < end; ++tile) {
            const auto &columns = shared.buffers[slot];
            barrier_wait(&shared.full[slot], turn);
#pragma unroll 1
            for (int half = 0; half < 2; ++half) {
                const auto in_strip = [&] {
                    return group * kGroupRows + half * 64 + (int)this_thread() / kLanes % 4 * 16 +
                           (int)this_thread() % kLanes / 4;
                };
                const auto limits = Kind::limits(plan, columns, strip * kTileRows + in_strip());
                multiply_tile<Kind>(acc, shared.rows[group], half, columns);
                Kind::look(plan, acc, columns, shared.facts + in_strip(), limits,
                           strip * kTileRows + in_strip(), tile, log);
            }
            __syncwarp();
            if (this_thread() % kLanes == 0) {
                barrier_arrive(&shared.empty[slot]);
            }
            if (++slot == S::kBuffers) {
                slot = 0, turn ^= 1;
            }
        }
        __syncwarp();
        if (this_thread() % kLanes == 0) {
            barrier_arrive(&shared.rows_empty[group]);
        }
    }
    Kind::close(plan, log);
    /* The other group has announced one turn more than this one takes. */
    if (Kind::kTakesTurns && group == 0) {
        sync_part<1, kConsumers>();
    }
}

template <typename Kind>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_rows(const __grid_constant__ typename Kind::Call plan,
                  const __grid_constant__ Units units)
{
    static_assert(sizeof(Shared<Kind>) <= 227 << 10, "shared memory of a block");
    follow();
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<Shared<Kind> *>(memory);
    if (threadIdx.x == 0) {
        for (int i = 0; i < Shared<Kind>::kBuffers; ++i) {
            barrier_init(&shared.full[i], 1);
            barrier_init(&shared.empty[i], kWarps);
        }
        for (int i = 0; i < 2; ++i) {
            barrier_init(&shared.rows_full[i], 1);
            barrier_init(&shared.rows_empty[i], kWarps / 2);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        give_registers<kProducerRegisters>();
        if (threadIdx.x == kConsumers) {
            produce<Kind>(plan, units, shared);
        }
    }
    else {
        take_registers<kConsumerRegisters>();
        consume<Kind>(plan, units, shared);
    }
}

}  // namespace filter
}  // namespace gd
#endif
