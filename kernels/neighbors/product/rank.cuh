/* rank.cuh: from a row's candidates to its neighbours, by direct distances.
 *
 * The k-th least upper bound says which candidates may be neighbours; their distances are computed
 * and sorted. A warp does that for a row with few candidates, a block for one with many. Blocks are
 * as many as registers have room for: 16 bytes of a thread go to memory around the call for totals
 * that are not safe, which hardly a pair takes, and where three blocks share a multiprocessor 40.
 */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_RANK_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_RANK_CUH

#include "common/ends.cuh"
#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

constexpr int kShare = GD_GROUP / GD_FOLD; /* lanes that compute a distance, a fold each, at most */

/* The distance in float64 from global memory, for totals that are not safe. */
template <typename M>
__device__ __noinline__ float distance_f64(const PlanOf<float> &plan, int row, int column)
{
    Cdist<float> call = {};
    call.a = plan.a, call.b = plan.b, call.d = plan.d;
    float result;
    with_end_of<M>(plan.metric,
                   [&](auto end) { result = result_in_f64<decltype(end)>(call, row, column); });
    return result;
}

/* Some dimensions of a row from dim on, zeros beyond d: all of them are on their way at once. */
template <typename T>
constexpr int kLoaded = 64 / (int)sizeof(T);
template <typename T>
__device__ __forceinline__ void load_some(const Points<T> &x, bool words, ptrdiff_t row,
                                          ptrdiff_t dim, ptrdiff_t d, T (&some)[kLoaded<T>])
{
    constexpr int kEach = kPerWord<T>;
    const T *const from = x.data + row * x.row_stride + dim * x.col_stride;
#pragma unroll
    for (int k = 0; k < kLoaded<T>; ++k) {
        some[k] = 0;
    }
    if (words) {
#pragma unroll
        for (int k = 0; k < kLoaded<T>; k += kEach) {
            if (dim + k < d) {
                load_word_const(from + k, some + k);
            }
        }
    }
    else {
        const T *at = from; /* step by step: multiples of the stride would stay in registers */
#pragma unroll
        for (int k = 0; k < kLoaded<T>; ++k) {
            if (dim + k < d) {
                some[k] = __ldg(at);
            }
            at += x.col_stride;
        }
    }
}

/* The result of a total, with the bits of the direct form, and whether that is good. */
template <typename M, typename T>
__device__ __forceinline__ bool finish_total(const PlanOf<T> &plan, T &total)
{
    bool good;
    with_end_of<M>(plan.metric, [&](auto end) {
        using End = decltype(end);
        if constexpr (sizeof(T) == sizeof(double)) {
            T one[1] = {total};
            finish_all<End>(one);
            total = one[0];
        }
        else {
            total = gd::finish<End>(total, plan.d);
        }
        good = !End::template guarded<T> || is_good<End>(total);
    });
    return good;
}

/* The distance that is reported, in the direct form's order of additions: `share` neighbouring
 * lanes together, and all get it. All lanes of the warp call this. */
template <typename M, typename T>
__device__ __forceinline__ T distance(const PlanOf<T> &plan, int share, int row, int column)
{
    const int part = (int)threadIdx.x & (share - 1);
    const int lane_of_first = (int)threadIdx.x % kLanes - part;
    T total = 0;
    bool unequal = false;
    for (ptrdiff_t group = 0; group < plan.d; group += GD_GROUP) {
        T fold = 0;
#pragma unroll
        for (int first = 0; first < GD_FOLD; first += kLoaded<T>) {
            const ptrdiff_t dim = group + part * GD_FOLD + first;
            T y[kLoaded<T>];
            load_some(plan.b, plan.words_b, column, dim, plan.d, y);
#pragma unroll
            for (int k = 0; k < kLoaded<T>; k += 4) { /* the row is in the cache */
                const Four<T> x = load_dims(plan.a, plan.words_a, row, dim + k, plan.d);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    fold = M::term(fold, x.x[i], y[k + i]);
                    unequal = unequal || x.x[i] != y[k + i];
                }
            }
        }
        T joined = 0;
#pragma unroll
        for (int i = 0; i < kShare; ++i) {
            if (i < share) {
                joined = M::join(joined, __shfl_sync(~0u, fold, lane_of_first + i));
            }
        }
        total = group == 0 ? joined : M::join(total, joined);
    }
    const bool good = finish_total<M>(plan, total);
    if constexpr (M::template guarded<T>) {
        const unsigned of_pair = ((1u << share) - 1) << lane_of_first;
        const bool equal = (__ballot_sync(~0u, unequal) & of_pair) == 0;
        if (!good) {
            total = equal ? 0.0f : distance_f64<M>(plan, row, column);
        }
    }
    return total;
}

/* The same where four dimensions are added to each other first: a lane adds up four times four of a
 * group of GD_GROUP, which are two folds. */
template <typename M>
__device__ __forceinline__ float distance_by_fours(const PlanOf<float> &plan, int row, int column)
{
    constexpr int kFours = GD_FOLD / 4, kLanesOfFold = kFoldOf<M> / GD_FOLD;
    const int lane = threadIdx.x % kLanes, part = lane % kShare, first = lane - part;
    float total = 0, of_group = 0;
    for (ptrdiff_t dims = 0; dims < plan.d; dims += GD_GROUP) {
        const ptrdiff_t dim = dims + part * GD_FOLD;
        float y[kLoaded<float>], fours[kFours];
        static_assert(kLoaded<float> == GD_FOLD, "a lane's dimensions");
        load_some(plan.b, plan.words_b, column, dim, plan.d, y);
#pragma unroll
        for (int k = 0; k < kFours; ++k) { /* the row is in the cache */
            fours[k] =
                four_of<M>(load_dims(plan.a, plan.words_a, row, dim + 4 * k, plan.d).x, y + 4 * k);
        }
#pragma unroll
        for (int fold = 0; fold < kShare; fold += kLanesOfFold) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < kLanesOfFold * kFours; ++i) {
                sum = M::join(sum, __shfl_sync(~0u, fours[i % kFours], first + fold + i / kFours));
            }
            of_group = M::join(of_group, sum);
        }
        const ptrdiff_t next = dims + GD_GROUP;
        if (next % kGroupOf<M> == 0 || next >= plan.d) {
            total = next <= kGroupOf<M> ? of_group : M::join(total, of_group);
            of_group = 0;
        }
    }
    return M::finish(total);
}

__device__ __forceinline__ int next_power(int count)
{
    return count <= 1 ? 1 : 1 << (32 - __clz(count - 1));
}

/* Whether the k-th of `count` sorted distances, if there is one, is not infinite: such are equal
 * though products tell them apart. */
template <typename T>
__device__ __forceinline__ bool is_settled(const PlanOf<T> &plan, const KeyOf<T> *keys, int count)
{
    if (count < plan.wanted || is_none(keys[plan.wanted - 1])) {
        return plan.radii != NULL; /* there are no more */
    }
    return bits_of(keys[plan.wanted - 1]) < bits_of(key_of((T)INFINITY, 0));
}

__device__ __forceinline__ void fail(const Plan &plan, int row)
{
    plan.failed_rows[atomicAdd(&plan.found->failed, 1)] = row;
}

/* Computes the distances of chosen and odd columns, `share` lanes each. */
template <typename M, typename Scope, typename T>
__device__ __forceinline__ void measure_pairs(const PlanOf<T> &plan, int share, KeyOf<T> *keys,
                                              const int *chosen, int row, ptrdiff_t self, int near,
                                              int odd)
{
    const int total = near + odd, pairs = kLanes / share; /* of a warp at once */
    const T radius = plan.radius(row);
#pragma unroll 1
    for (int first = Scope::thread() / kLanes * pairs; first < total;
         first += Scope::threads() / kLanes * pairs) {
        const int i = first + (int)threadIdx.x % kLanes / share;
        const int j = i < total ? i : 0;
        const int column = j < near ? chosen[j] : plan.other_than(self, plan.odd_columns[j - near]);
        T x;
        if constexpr (kByFours<M>) {
            x = distance_by_fours<M>(plan, row, max(column, 0));
        }
        else {
            x = distance<M>(plan, share, row, max(column, 0));
        }
        if (i < total && ((int)threadIdx.x & (share - 1)) == 0) {
            keys[i] = column < 0 || !(x <= radius) ? no_key<T>() : key_of(x, (unsigned)column);
        }
    }
}

/* The same for as many lanes as have a fold, which the compiler knows if they are kShare. There is
 * one column at least. All threads of a scope. */
template <typename M, typename Scope, typename T>
__device__ __forceinline__ void measure_chosen(const PlanOf<T> &plan, KeyOf<T> *keys,
                                               const int *chosen, int row, ptrdiff_t self, int near,
                                               int odd)
{
    if (kByFours<M> || plan.d > GD_GROUP / 2) {
        measure_pairs<M, Scope>(plan, kShare, keys, chosen, row, self, near, odd);
        return;
    }
    const int share = plan.d > GD_GROUP / 4 ? kShare / 2 : plan.d > GD_FOLD ? kShare / 4 : 1;
    measure_pairs<M, Scope>(plan, share, keys, chosen, row, self, near, odd);
}

/* Sorts the first `count`, with as many behind them as make it a power of two. */
template <typename Scope, typename T>
__device__ __forceinline__ void sort_keys(KeyOf<T> *keys, int count)
{
    const int padded = next_power(count);
    for (int i = count + Scope::thread(); i < padded; i += Scope::threads()) {
        keys[i] = no_key<T>();
    }
    sort<Scope>(keys, padded);
}

/* A key of the same distance, for another column. */
__device__ __forceinline__ Key with_column(Key key, int column)
{
    return (key & ~(Key)~0u) | (unsigned)column;
}
__device__ __forceinline__ WideKey with_column(const WideKey &key, int column)
{
    return {key.bits, (unsigned)column};
}

/* Where the keys from `first` on, of `count` that are sorted, get another distance. All lanes of a
 * warp. */
template <typename T>
__device__ __forceinline__ int end_of_distance(const KeyOf<T> *keys, int first, int count)
{
    const int lane = (int)threadIdx.x % kLanes;
    const auto bits = bits_of(keys[first]);
    int from = first;
    while (true) {
        const int i = from + lane;
        const unsigned others = __ballot_sync(~0u, i >= count || bits_of(keys[i]) != bits);
        if (others != 0) {
            return from + __ffs(others) - 1;
        }
        from += kLanes;
    }
}

/* Writes a row's neighbours, where each of `count` sorted keys stands for all columns that are
 * equal to its own: of those at one distance the next is the one with the least index. All lanes of
 * a warp. Returns whether the last is there, and not infinitely far. */
template <typename T>
__device__ __noinline__ bool write_copies(const PlanOf<T> &plan, int row, ptrdiff_t self,
                                          KeyOf<T> *keys, int count, bool holds)
{
    constexpr unsigned kNoColumn = ~0u; /* in the place of a column, when there are no more */
    const int lane = (int)threadIdx.x % kLanes;
    int written = 0, first = 0;
    auto last = bits_of(no_key<T>());
    while (written < plan.wanted && first < count && !is_none(keys[first])) {
        const int end = end_of_distance<T>(keys, first, count);
        last = bits_of(keys[first]);
        while (written < plan.wanted) {
            unsigned least = kNoColumn;
            int at = first;
            for (int i = first + lane; i < end; i += kLanes) {
                if (index_of(keys[i]) < least) {
                    least = index_of(keys[i]);
                    at = i;
                }
            }
            const unsigned of_all = __reduce_min_sync(~0u, least);
            if (of_all == kNoColumn) {
                break;
            }
            if (least == of_all) {
                write_neighbor(plan, row, written, holds ? keys[at] : no_key<T>());
                keys[at] = with_column(keys[at], plan.other_than(self, plan.next_copy[least]));
            }
            ++written;
            __syncwarp();
        }
        first = end;
    }
    for (int i = written + lane; i < plan.wanted; i += kLanes) {
        write_neighbor(plan, row, i, no_key<T>());
    }
    return written < plan.wanted ? plan.radii != NULL : last < bits_of(key_of((T)INFINITY, 0));
}

/* Writes a row's neighbours, of `count` sorted keys, and returns whether these are settled. Where a
 * check found a bound that does not hold: none at all, rather than a wrong one. */
template <typename Scope, typename T>
__device__ __forceinline__ bool write_row(const PlanOf<T> &plan, int row, ptrdiff_t self,
                                          KeyOf<T> *keys, int count)
{
    const bool holds = plan.found->worst <= __float_as_uint(1.0f);
    if (plan.has_copies()) {
        return Scope::any(Scope::thread() < kLanes &&
                          write_copies(plan, row, self, keys, count, holds));
    }
    if (!is_settled(plan, keys, count)) {
        return false;
    }
    for (int i = Scope::thread(); i < plan.wanted; i += Scope::threads()) {
        write_neighbor(plan, row, i, holds && i < count ? keys[i] : no_key<T>());
    }
    return true;
}

/* ---------------------------------------------------------------- a warp a row */

constexpr int kFewWarps = 4, kFewOfLane = 16, kFew = kFewOfLane * kLanes, kFewChosen = 256;
constexpr unsigned kCloseEnough = 64; /* steps of a float */
/* Candidates of a thread where a block has a row, at most, and of a row of many neighbours that
 * three blocks of a multiprocessor have room for. */
constexpr int kManyOfThread = 16, kLongList = 3840;

/* Finds the candidates that may be neighbours, of `count` that there are. Returns how many they
 * are, more than there is room for among them; -1 if the guess failed. */
__device__ __forceinline__ int choose_few(const Plan &plan, int place, float limit, ptrdiff_t self,
                                          int count, int room, int *chosen)
{
    const int lane = threadIdx.x % kLanes;
    const Candidate *const list = plan.lists + (ptrdiff_t)place * plan.list_room;
    const RowFacts facts = plan.by_centre(0).facts[place];
    unsigned upper[kFewOfLane], low = ~0u, below = 0;
    float lower[kFewOfLane];
    const unsigned most_upper = ordered(limit);
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
        upper[i] = ~0u;
        lower[i] = INFINITY;
        if (i * kLanes + lane < count) {
            const Candidate one = list[i * kLanes + lane];
            const float e = error_of(plan, place, facts, one);
            if (self < 0 || plan.other_than(self, plan.column_of[one.place]) >= 0) {
                upper[i] = ordered(one.v + e);
                lower[i] = one.v - e;
            }
        }
        low = min(low, upper[i]);
        below += upper[i] <= most_upper;
    }
    const bool enough = (int)__reduce_add_sync(~0u, below) >= plan.wanted;
    if (!enough && !has_all(plan, place, limit)) {
        unsigned rows = 0; /* that candidates stand for */
#pragma unroll
        for (int i = 0; i < kFewOfLane; ++i) {
            if (plan.has_copies() && upper[i] <= most_upper) {
                rows += plan.rows_behind(self, plan.column_of[list[i * kLanes + lane].place]);
            }
        }
        if ((int)__reduce_add_sync(~0u, rows) < plan.wanted) {
            return -1;
        }
    }
    const float most = enough ? unordered(nth_least(upper, plan.wanted, __reduce_min_sync(~0u, low),
                                                    most_upper, kCloseEnough))
                              : limit;
    int near = 0;
#pragma unroll
    for (int i = 0; i < kFewOfLane; ++i) {
        const bool is_near = lower[i] <= most;
        const unsigned some = __ballot_sync(~0u, is_near);
        const int at = near + __popc(some & ((1u << lane) - 1));
        if (is_near && at < room) {
            chosen[at] = plan.other_than(self, plan.column_of[list[i * kLanes + lane].place]);
        }
        near += __popc(some);
    }
    __syncwarp();
    return near;
}

template <typename M, typename T>
__global__ void __launch_bounds__(kFewWarps *kLanes, sizeof(T) == sizeof(float) ? 7 : 4)
    rank_few(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    __shared__ KeyOf<T> keys[kFewWarps][kFewChosen];
    __shared__ int chosen[kFewWarps][kFewChosen];
    const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    const int place = (int)blockIdx.x * kFewWarps + warp;
    if (place >= plan.rows) {
        return;
    }
    const int row = plan.row_at(place);
    const int odd = (int)min(plan.found->odd, (unsigned)kMostOdd + 1);
    const int count = (int)min(plan.counts[place], (unsigned)plan.list_room + 1);
    const float limit = plan.limits[place];
    bool fails = count > plan.list_room || odd > kMostOdd ||
                 (count < plan.wanted && !plan.has_copies() && !has_all(plan, place, limit));
    bool left = !fails && (count > kFew || (plan.wanted > kFewChosen && count >= plan.wanted));
    if (!fails && !left) {
        const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + row;
        const int near = choose_few(plan, place, limit, self, count, kFewChosen, chosen[warp]);
        fails = near < 0;
        left = near + odd > kFewChosen;
        if (!fails && !left) {
            measure_chosen<M, Warp>(plan, keys[warp], chosen[warp], row, self, near, odd);
            sort_keys<Warp, T>(keys[warp], near + odd);
            fails = !write_row<Warp>(plan, row, self, keys[warp], near + odd);
        }
    }
    if (lane == 0 && fails) {
        fail(plan, row);
    }
    else if (lane == 0 && left) {
        const bool is_long = plan.wanted > kFewWanted && count > kLongList;
        const int at = (int)atomicAdd(is_long ? &plan.found->left_long : &plan.found->left, 1);
        plan.left_rows[is_long ? plan.rows - 1 - at : at] = place;
    }
}

/* ---------------------------------------------------------------- a block a row */

/* What a block of rank_many has in shared memory, with lists of as much room as its threads take.
 * kIsLong: it has rows with more candidates than others have room for. */
template <typename T, int kThreadCount, int kCandidates, bool kLongLists>
struct Many {
    using Number = T;
    static constexpr bool kIsLong = kLongLists;
    static constexpr int kThreads = kThreadCount, kOfThread = kCandidates;
    static constexpr int kRoom = kOfThread * kThreads;
    static constexpr int kSortedRoom = kRoom > 4096 ? 4096 : 2048; /* a power of two */
    static constexpr size_t kBytes = (size_t)(kRoom + kMostOdd + kSortedRoom) * sizeof(KeyOf<T>);
    static constexpr int kBlocks = /* of a multiprocessor */
        kOfThread < kManyOfThread ? (sizeof(T) == sizeof(float) ? 3 : 2)
                                  : (int)(1024 / kThreads * sizeof(float) / sizeof(T));
    static_assert(2 * kSortedRoom >= kRoom, "chosen columns have room where keys are sorted");
    static_assert(kBlocks * (kBytes + 2048) <= 228 << 10, "shared memory of a multiprocessor");

    KeyOf<T> *keys; /* of candidates and odd columns */
    int *chosen;    /* columns; when they are measured, keys that are sorted */
    KeyOf<T> *sorted;

    explicit __host__ __device__ __forceinline__ Many(KeyOf<T> *memory)
        : keys(memory),
          chosen(reinterpret_cast<int *>(memory + kRoom + kMostOdd)),
          sorted(memory + kRoom + kMostOdd)
    {
    }
};

/* Sums over the block, one after the other. */
struct BlockSums {
    int sums[3];
    unsigned long long least, most; /* see find_range() */
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

/* A place in a list for each thread that wants one. All threads of a warp call this. */
__device__ __forceinline__ int claim(int &count, bool wants)
{
    const unsigned lane = threadIdx.x % kLanes, some = __ballot_sync(~0u, wants);
    int first = 0;
    if (lane == 0 && some != 0) {
        first = atomicAdd(&count, __popc(some));
    }
    return __shfl_sync(~0u, first, 0) + __popc(some & ((1u << lane) - 1));
}

/* The nth least of a block's numbers, or a little more: as nth_least, count(x) being how many of a
 * thread's are at most x. */
template <typename Number, typename Count>
__device__ __forceinline__ Number nth_of_block(BlockSums &shared, int nth, Number low, Number high,
                                               unsigned steps, Count &&count)
{
    if (threadIdx.x < 3) {
        shared.sums[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int turn = 0; high - low > steps; ++turn) {
        const Number middle = low + (high - low) / 2;
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
template <typename S>
__device__ __forceinline__ int choose_many(const Plan &plan, int place, ptrdiff_t self, int count,
                                           const S &shared, BlockSums &sums, int &near)
{
    constexpr int kOfThread = S::kOfThread;
    const Candidate *const list = plan.lists + (ptrdiff_t)place * plan.list_room;
    const RowFacts facts = plan.by_centre(0).facts[place];
    const unsigned limit = ordered(plan.limits[place]);
    unsigned upper[kOfThread], low = ~0u;
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
        const int at = i * S::kThreads + (int)threadIdx.x;
        upper[i] = ~0u;
        if (at < count) {
            const Candidate one = list[at];
            if (self < 0 || plan.other_than(self, plan.column_of[one.place]) >= 0) {
                upper[i] = ordered(one.v + error_of(plan, place, facts, one));
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
    if (all < plan.wanted && !has_all(plan, place, plan.limits[place])) {
        int rows = 0; /* that candidates stand for */
        if (plan.has_copies()) {
#pragma unroll
            for (int i = 0; i < kOfThread; ++i) {
                if (upper[i] <= limit) {
                    const Candidate one = list[i * S::kThreads + (int)threadIdx.x];
                    rows += plan.rows_behind(self, plan.column_of[one.place]);
                }
            }
        }
        if (threadIdx.x == 0) {
            sums.sums[0] = 0;
        }
        __syncthreads();
        if (sum_block(sums, 0, rows) < plan.wanted) {
            return -1;
        }
        __syncthreads();
    }
    const float most =
        all >= plan.wanted
            ? unordered(nth_of_block(sums, plan.wanted, least, limit, kCloseEnough, count_below))
            : plan.limits[place];
    for (int first = 0; first < count; first += S::kThreads) {
        const int i = first + (int)threadIdx.x;
        bool is_near = false;
        int column = -1;
        if (i < count) { /* read again: lower bounds as well would not stay in registers */
            const Candidate one = list[i];
            column = plan.other_than(self, plan.column_of[one.place]);
            is_near = one.v - error_of(plan, place, facts, one) <= most && column >= 0;
        }
        const int at = claim(near, is_near);
        if (is_near) {
            shared.chosen[at] = column;
        }
    }
    __syncthreads();
    return near;
}

/* Puts keys up to some bits together, of those with just these bits the ones up to an index.
 * Returns how many they are, which may be more than there is room for. */
template <typename S, typename Bits>
__device__ __forceinline__ int gather_keys(const S &shared, int &chosen, int total, Bits most,
                                           unsigned last)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        chosen = 0;
    }
    __syncthreads();
    for (int first = 0; first < total; first += S::kThreads) {
        const int i = first + (int)threadIdx.x;
        bool is_near = false;
        if (i < total) {
            const auto key = shared.keys[i];
            is_near = !is_none(key) &&
                      (bits_of(key) < most || (bits_of(key) == most && index_of(key) <= last));
        }
        const int at = claim(chosen, is_near);
        if (is_near && at < S::kSortedRoom) {
            shared.sorted[at] = shared.keys[i];
        }
    }
    __syncthreads();
    return chosen;
}

/* Finds the least and the largest distance of some keys, as bits. All threads of the block. */
template <typename S, typename Bits>
__device__ __forceinline__ void find_range(const S &shared, BlockSums &sums, int total, Bits &least,
                                           Bits &most)
{
    unsigned long long low = ~0ull, high = 0;
    for (int i = threadIdx.x; i < total; i += S::kThreads) {
        const auto key = shared.keys[i];
        if (!is_none(key)) {
            low = min(low, (unsigned long long)bits_of(key));
            high = max(high, (unsigned long long)bits_of(key));
        }
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        low = min(low, __shfl_xor_sync(~0u, low, step));
        high = max(high, __shfl_xor_sync(~0u, high, step));
    }
    if (threadIdx.x == 0) {
        sums.least = ~0ull;
        sums.most = 0;
    }
    __syncthreads();
    if (threadIdx.x % kLanes == 0) {
        atomicMin(&sums.least, low);
        atomicMax(&sums.most, high);
    }
    __syncthreads();
    least = (Bits)sums.least;
    most = (Bits)sums.most;
}

/* Sorts the nearest keys, all of them where they lie if that takes no longer. Returns how many they
 * are, and where. */
template <typename S>
__device__ __forceinline__ int sort_nearest(const Plan &plan, const S &shared, BlockSums &sums,
                                            int &chosen, int total,
                                            KeyOf<typename S::Number> *&sorted)
{
    using T = typename S::Number;
    using Bits = decltype(bits_of(KeyOf<T>{}));
    if (next_power(total) <= next_power(plan.wanted)) {
        sort_keys<Block, T>(shared.keys, total);
        sorted = shared.keys;
        return total;
    }
    const auto count_keys = [&](auto &&is_counted) {
        int counted = 0;
        for (int i = threadIdx.x; i < total; i += S::kThreads) {
            counted += is_counted(shared.keys[i]);
        }
        return counted;
    };
    Bits least, most;
    find_range(shared, sums, total, least, most);
    most = nth_of_block<Bits>(sums, plan.wanted, least - 1, most, 1, [&](Bits middle) {
        return count_keys([&](const auto &key) { return bits_of(key) <= middle; });
    });
    int count = gather_keys(shared, chosen, total, most, ~0u);
    if (count > S::kSortedRoom) { /* most of them are equal to the last */
        const auto is_nearer = [&](const auto &key) { return bits_of(key) < most; };
        if (threadIdx.x < 3) {
            sums.sums[threadIdx.x] = 0;
        }
        __syncthreads();
        const int nearer = sum_block(sums, 0, count_keys(is_nearer));
        __syncthreads();
        const unsigned last = nth_of_block<unsigned>(
            sums, plan.wanted - nearer, ~0u, ~0u - 1, 1, [&](unsigned middle) {
                return count_keys([&](const auto &key) {
                    return bits_of(key) == most && index_of(key) <= middle;
                });
            });
        count = gather_keys(shared, chosen, total, most, last);
    }
    sorted = shared.sorted;
    sort_keys<Block, T>(shared.sorted, count);
    return count;
}

/* Rows that rank_few left, which are listed from the end if they are long. */
template <typename M, typename S, typename T>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    rank_many(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ int near;
    __shared__ BlockSums sums;
    const S shared(reinterpret_cast<KeyOf<T> *>(memory));
    const int rows = (int)(S::kIsLong ? plan.found->left_long : plan.found->left);
    for (int at = blockIdx.x; at < rows; at += gridDim.x) {
        const int place = plan.left_rows[S::kIsLong ? plan.rows - 1 - at : at];
        const int row = plan.row_at(place);
        const int odd = (int)plan.found->odd;
        const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + row;
        __syncthreads();
        const int chosen =
            choose_many(plan, place, self, (int)plan.counts[place], shared, sums, near);
        int count = chosen;
        KeyOf<T> *sorted = NULL;
        if (chosen >= 0) {
            measure_chosen<M, Block>(plan, shared.keys, shared.chosen, row, self, chosen, odd);
            __syncthreads();
            count = sort_nearest(plan, shared, sums, near, chosen + odd, sorted);
        }
        const bool settled = count >= 0 && write_row<Block>(plan, row, self, sorted, count);
        if (threadIdx.x == 0 && !settled) {
            fail(plan, row);
        }
    }
}

}  // namespace filter
}  // namespace gd
#endif
