/* rank.cuh: from a row's candidates to its neighbours, by direct distances.
 *
 * The k-th least upper bound says which candidates may be neighbours; their distances are computed
 * and sorted. A warp does that for a row with few candidates, a block for one with many. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_RANK_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_RANK_CUH

#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

constexpr int kShare = GD_GROUP / GD_FOLD; /* lanes that compute a distance, a fold each */

/* The distance in float64 from global memory, for totals that are not safe. */
template <typename M>
__device__ __noinline__ float distance_f64(const Plan &plan, int row, int column)
{
    Cdist<float> call = {};
    call.a = plan.a, call.b = plan.b, call.d = plan.d;
    return result_in_f64<M>(call, row, column);
}

/* The distance that is reported, in the direct form's order of additions: kShare neighbouring lanes
 * together, and all get it. All lanes of the warp call this. */
template <typename M>
__device__ __forceinline__ float distance(const Plan &plan, int row, int column)
{
    const int lane = threadIdx.x % kLanes, part = lane % kShare;
    float total = 0;
    bool unequal = false;
    for (ptrdiff_t group = 0; group < plan.d; group += GD_GROUP) {
        float fold = 0;
#pragma unroll
        for (int k = 0; k < GD_FOLD; k += 4) {
            const ptrdiff_t dim = group + part * GD_FOLD + k;
            const float4 x = load_dims(plan.a, plan.words_a, row, dim, plan.d);
            const float4 y = load_dims(plan.b, plan.words_b, column, dim, plan.d);
            fold = M::term(fold, x.x, y.x);
            fold = M::term(fold, x.y, y.y);
            fold = M::term(fold, x.z, y.z);
            fold = M::term(fold, x.w, y.w);
            unequal = unequal || x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
        }
        float joined = 0;
#pragma unroll
        for (int i = 0; i < kShare; ++i) {
            joined = M::join(joined, __shfl_sync(~0u, fold, lane / kShare * kShare + i));
        }
        total = group == 0 ? joined : M::join(total, joined);
    }
    const unsigned of_pair = ((1u << kShare) - 1) << lane / kShare * kShare;
    const bool equal = (__ballot_sync(~0u, unequal) & of_pair) == 0;
    float result = finish<M>(total, plan.d);
    if (!is_good<M>(result)) {
        result = equal ? 0.0f : distance_f64<M>(plan, row, column);
    }
    return result;
}

__device__ __forceinline__ int next_power(int count)
{
    return count <= 1 ? 1 : 1 << (32 - __clz(count - 1));
}

/* Whether the k-th of sorted distances is infinite: such are equal though products tell them apart.
 */
__device__ __forceinline__ bool is_settled(const Plan &plan, const Key *keys)
{
    return keys[plan.wanted - 1] >> 32 < __float_as_uint(INFINITY);
}

__device__ __forceinline__ void fail(const Plan &plan, int row)
{
    plan.failed_rows[atomicAdd(&plan.found->failed, 1)] = row;
}

/* Computes the distances of chosen and odd columns. All threads of a scope. */
template <typename M, typename Scope>
__device__ __forceinline__ void measure_chosen(const Plan &plan, Key *keys, const int *chosen,
                                               int row, ptrdiff_t self, int near, int odd)
{
    constexpr int kPairs = kLanes / kShare; /* of a warp at once */
    const int total = near + odd;
#pragma unroll 2
    for (int first = Scope::thread() / kLanes * kPairs; first < total;
         first += Scope::threads() / kShare) {
        const int i = first + (int)threadIdx.x % kLanes / kShare;
        const int column = i < near    ? chosen[i]
                           : i < total ? plan.odd_columns[i - near]
                                       : chosen[0];
        const float x = distance<M>(plan, row, column);
        if (i < total && threadIdx.x % kShare == 0) {
            keys[i] = column == self ? kNoKey : key_of(x, column);
        }
    }
}

/* Sorts the first `count`, with as many behind them as make it a power of two. */
template <typename Scope>
__device__ __forceinline__ void sort_keys(const Plan &plan, Key *keys, int count)
{
    const int padded = next_power(max(count, plan.wanted));
    for (int i = count + Scope::thread(); i < padded; i += Scope::threads()) {
        keys[i] = kNoKey;
    }
    sort<Scope>(keys, padded);
}

/* Writes a row's neighbours. Where a check found a bound that does not hold: none at all, rather
 * than a wrong one. */
template <typename Scope>
__device__ __forceinline__ void write_row(const Plan &plan, int row, const Key *keys)
{
    const bool holds = plan.found->worst <= __float_as_uint(1.0f);
    for (int i = Scope::thread(); i < plan.wanted; i += Scope::threads()) {
        write_neighbor(plan, row, i, holds ? keys[i] : kNoKey);
    }
}

/* ---------------------------------------------------------------- a warp a row */

constexpr int kFewWarps = 4, kFewOfLane = 16, kFew = kFewOfLane * kLanes, kFewChosen = 256;
constexpr unsigned kCloseEnough = 64; /* steps of a float */
static_assert(kFewChosen >= kMostNeighbors, "there is room for all");

/* Finds the candidates that may be neighbours, of `count` that there are. Returns how many they
 * are, more than there is room for among them; -1 if the guess failed. */
__device__ __forceinline__ int choose_few(const Plan &plan, int row, const RowFacts &facts,
                                          ptrdiff_t self, int count, int room, int *chosen)
{
    const int lane = threadIdx.x % kLanes;
    const Candidate *const list = plan.lists + (ptrdiff_t)row * plan.list_room;
    unsigned upper[kFewOfLane], low = ~0u, below = 0;
    float lower[kFewOfLane];
    const unsigned limit = ordered(facts.limit);
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
        upper[i] = ~0u;
        lower[i] = INFINITY;
        if (i * kLanes + lane < count) {
            const Candidate one = list[i * kLanes + lane];
            const float e = bound(facts, plan.tile_facts[one.place / kTileCols]);
            if (self < 0 || plan.column_of[one.place] != self) {
                upper[i] = ordered(one.v + e);
                lower[i] = one.v - e;
            }
        }
        low = min(low, upper[i]);
        below += upper[i] <= limit;
    }
    if ((int)__reduce_add_sync(~0u, below) < plan.wanted) {
        return -1;
    }
    const float most =
        unordered(nth_least(upper, plan.wanted, __reduce_min_sync(~0u, low), limit, kCloseEnough));
    int near = 0;
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
        const bool is_near = lower[i] <= most;
        const unsigned some = __ballot_sync(~0u, is_near);
        const int at = near + __popc(some & ((1u << lane) - 1));
        if (is_near && at < room) {
            chosen[at] = plan.column_of[list[i * kLanes + lane].place];
        }
        near += __popc(some);
    }
    __syncwarp();
    return near;
}

template <typename M>
__global__ void __launch_bounds__(kFewWarps *kLanes) rank_few(const __grid_constant__ Plan plan)
{
    follow();
    __shared__ Key keys[kFewWarps][kFewChosen];
    __shared__ int chosen[kFewWarps][kFewChosen];
    const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kFewWarps + warp;
    if (row >= plan.rows) {
        return;
    }
    const int odd = (int)min(plan.found->odd, (unsigned)kMostOdd + 1);
    const int count = (int)min(plan.counts[row], (unsigned)plan.list_room + 1);
    bool fails = count > plan.list_room || count < plan.wanted || odd > kMostOdd;
    bool left = !fails && count > kFew;
    if (!fails && !left) {
        const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + row;
        const int near =
            choose_few(plan, row, plan.row_facts[row], self, count, kFewChosen, chosen[warp]);
        fails = near < 0;
        left = near + odd > kFewChosen;
        if (!fails && !left) {
            measure_chosen<M, Warp>(plan, keys[warp], chosen[warp], row, self, near, odd);
            sort_keys<Warp>(plan, keys[warp], near + odd);
            fails = !is_settled(plan, keys[warp]);
            if (!fails) {
                write_row<Warp>(plan, row, keys[warp]);
            }
        }
    }
    if (lane == 0 && fails) {
        fail(plan, row);
    }
    else if (lane == 0 && left) {
        plan.left_rows[atomicAdd(&plan.found->left, 1)] = row;
    }
}

/* ---------------------------------------------------------------- a block a row */

constexpr int kManyThreads = 256;

/* What a block of rank_many has in shared memory, with lists of so much room. */
struct Many {
    Key *keys;   /* of candidates and odd columns */
    int *chosen; /* columns; when they are measured, keys that are sorted */
    Key *sorted;
    int sorted_room;

    __device__ __forceinline__ Many(Key *memory, int room)
        : keys(memory),
          chosen(reinterpret_cast<int *>(memory + room + kMostOdd)),
          sorted(reinterpret_cast<Key *>(chosen)),
          sorted_room(room / 2)
    {
    }
};
constexpr size_t many_bytes(int room)
{
    return (size_t)(room + kMostOdd) * sizeof(Key) + (size_t)room * sizeof(int);
}

/* Sums over the block, one after the other. */
struct BlockSums {
    int sums[3];
};
__device__ __forceinline__ int sum_block(BlockSums &shared, int turn, int x)
{
    x = __reduce_add_sync(~0u, x);
    if (threadIdx.x == 0) {
        shared.sums[(turn + 1) % 3] = 0;
    }
    if (threadIdx.x % kLanes == 0) {
        atomicAdd(&shared.sums[turn % 3], x);
    }
    __syncthreads();
    return shared.sums[turn % 3];
}

/* The nth least of a block's numbers, or a little more: as nth_least, count(x) being how many of a
 * thread's are at most x. */
template <typename Count>
__device__ __forceinline__ unsigned nth_of_block(BlockSums &shared, int nth, unsigned low,
                                                 unsigned high, unsigned steps, Count &&count)
{
    if (threadIdx.x < 3) {
        shared.sums[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int turn = 0; high - low > steps; ++turn) {
        const unsigned middle = low + (high - low) / 2;
        const int below = sum_block(shared, turn, count(middle));
        if (below >= nth) {
            high = middle;
        }
        else {
            low = middle;
        }
        if (below == nth) {
            break;
        }
    }
    __syncthreads();
    return high;
}

/* Finds the candidates that may be neighbours, as choose_few. All threads get their number. */
__device__ __forceinline__ int choose_many(const Plan &plan, int row, ptrdiff_t self, int count,
                                           const Many &shared, BlockSums &sums, int &near)
{
    constexpr int kOfThread = 16;
    const Candidate *const list = plan.lists + (ptrdiff_t)row * plan.list_room;
    const RowFacts facts = plan.row_facts[row];
    const unsigned limit = ordered(facts.limit);
    unsigned upper[kOfThread], low = ~0u;
    float lower[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
        const int at = i * kManyThreads + (int)threadIdx.x;
        upper[i] = ~0u;
        lower[i] = INFINITY;
        if (at < count) {
            const Candidate one = list[at];
            const float e = bound(facts, plan.tile_facts[one.place / kTileCols]);
            if (self < 0 || plan.column_of[one.place] != self) {
                upper[i] = ordered(one.v + e);
                lower[i] = one.v - e;
            }
        }
        low = min(low, upper[i]);
    }
    const auto count_below = [&](unsigned middle) {
        int below = 0;
#pragma unroll
        for (int i = 0; i < kOfThread; ++i) {
            below += upper[i] <= middle;
        }
        return below;
    };
    /* Lowered step by step from the limit; if fewer are below that, nothing is. */
    unsigned least = __reduce_min_sync(~0u, low);
    if (threadIdx.x == 0) {
        near = 0;
        sums.sums[0] = sums.sums[1] = sums.sums[2] = 0;
    }
    __syncthreads();
    if (threadIdx.x % kLanes == 0) {
        atomicMax(reinterpret_cast<unsigned *>(&sums.sums[2]), ~least);
    }
    const int below = __reduce_add_sync(~0u, count_below(limit));
    if (threadIdx.x % kLanes == 0) {
        atomicAdd(&sums.sums[0], below);
    }
    __syncthreads();
    const int all = sums.sums[0];
    least = ~(unsigned)sums.sums[2];
    __syncthreads();
    if (all < plan.wanted) {
        return -1;
    }
    const float most =
        unordered(nth_of_block(sums, plan.wanted, least, limit, kCloseEnough, count_below));
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
        if (lower[i] <= most) {
            shared.chosen[atomicAdd(&near, 1)] =
                plan.column_of[list[i * kManyThreads + (int)threadIdx.x].place];
        }
    }
    __syncthreads();
    return near;
}

/* Sorts the nearest keys. Returns false if too many are equal to the k-th. */
__device__ __forceinline__ bool sort_nearest(const Plan &plan, const Many &shared, BlockSums &sums,
                                             int &chosen, int total)
{
    const auto bits = [&](int i) { return (unsigned)(shared.keys[i] >> 32); };
    const unsigned most = nth_of_block(sums, plan.wanted, 0, ~0u, 1, [&](unsigned middle) {
        int below = 0;
        for (int i = threadIdx.x; i < total; i += kManyThreads) {
            below += bits(i) <= middle;
        }
        return below;
    });
    if (threadIdx.x == 0) {
        chosen = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < total; i += kManyThreads) {
        const int at = bits(i) <= most ? atomicAdd(&chosen, 1) : shared.sorted_room;
        if (at < shared.sorted_room) {
            shared.sorted[at] = shared.keys[i];
        }
    }
    __syncthreads();
    const int count = chosen;
    if (count > shared.sorted_room) {
        return false;
    }
    sort_keys<Block>(plan, shared.sorted, count);
    return true;
}

/* Rows that rank_few left. */
template <typename M>
__global__ void __launch_bounds__(kManyThreads) rank_many(const __grid_constant__ Plan plan)
{
    follow();
    extern __shared__ Key many_keys[];
    __shared__ int near;
    __shared__ BlockSums sums;
    const Many shared(many_keys, plan.list_room);
    for (int at = blockIdx.x; at < (int)plan.found->left; at += gridDim.x) {
        const int row = plan.left_rows[at], odd = (int)plan.found->odd;
        const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + row;
        __syncthreads();
        const int chosen = choose_many(plan, row, self, (int)plan.counts[row], shared, sums, near);
        bool good = chosen >= 0;
        if (good) {
            measure_chosen<M, Block>(plan, shared.keys, shared.chosen, row, self, chosen, odd);
            __syncthreads();
            good = sort_nearest(plan, shared, sums, near, chosen + odd) &&
                   is_settled(plan, shared.sorted);
        }
        if (good) {
            write_row<Block>(plan, row, shared.sorted);
        }
        else if (threadIdx.x == 0) {
            fail(plan, row);
        }
    }
}

}  // namespace filter
}  // namespace gd
#endif
