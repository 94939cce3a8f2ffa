/* copies.cuh: rows of B that are there more than once.
 *
 * Idea: of equal rows the first alone has an image, and says in the end which ones follow it. If a
 * row is among the k nearest by distance and index, then the first of those that are equal to it is
 * among the k nearest that are first: each of these that came before it would be nearer, or as near
 * with a smaller index, and so would be k rows. So lists have what differs, of which there may be
 * few, and not thousands of candidates at one distance; a candidate counts for as many rows as are
 * equal to it, and rank.cuh writes these one after the other.
 *
 * Whether rows are there more than once a sample says. Then each row goes to a slot by its hash,
 * and belongs to the group of whoever was there first, if they are equal; a block sorts 4096 rows
 * by their groups, and the last one links what all have found, in the order of rows. Any groups of
 * equal rows are right: that some rows find no slot, or share a hash with others, or that rows with
 * NaN are equal to none, decides only what a search takes.
 *
 * The guess counts rows, so that its sample has images of all (prepare_columns.cuh). */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_COPIES_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_COPIES_CUH

#include "neighbors/product/prepare.cuh"

namespace gd {
namespace filter {

template <typename T>
__device__ __forceinline__ ptrdiff_t row_of_mate(const PlanOf<T> &plan, int i)
{
    return plan.b.count * i / kMates;
}

/* Notes how many rows of the sample are there before. All threads of a block, one for each. */
__device__ __forceinline__ void count_copies(const Plan &plan)
{
    const int i = (int)threadIdx.x;
    const int copies = __syncthreads_count(plan.first_mates[i] < i);
    if (i == 0) {
        plan.found->copies = (unsigned)copies;
        plan.found->grouped = plan.found->groups = 0;
    }
}

/* Makes slots and groups empty, where they are wanted. All threads of `blocks`. */
__device__ __forceinline__ void empty_slots(const Plan &plan, ptrdiff_t rows, int block, int blocks)
{
    if (!plan.has_copies()) {
        return;
    }
    const uint4 empty = {~0u, ~0u, ~0u, ~0u};
    constexpr ptrdiff_t kOfWord = sizeof(uint4);
    const ptrdiff_t slots =
        ceil_div(kSlotsOfRow * rows * (ptrdiff_t)sizeof *plan.hash_slots, kOfWord);
    const ptrdiff_t groups = ceil_div(rows * (ptrdiff_t)sizeof *plan.groups, kOfWord);
    for (ptrdiff_t i = (ptrdiff_t)block * blockDim.x + threadIdx.x; i < slots + groups;
         i += (ptrdiff_t)blocks * blockDim.x) {
        uint4 *const to = i < slots ? reinterpret_cast<uint4 *>(plan.hash_slots) + i
                                    : reinterpret_cast<uint4 *>(plan.groups) + (i - slots);
        *to = empty;
    }
}

/* Numbers that equal rows have in common, of some rows at once, or kNoHash of those with NaN. All
 * lanes of a warp get them. */
constexpr int kHashed = 4;
constexpr unsigned kNoHash = 0;
__device__ __forceinline__ unsigned spread(unsigned x)
{
    x ^= x >> 15;
    x *= 0x9e3779b1u;
    x ^= x >> 13;
    x *= 0x85ebca77u;
    return x ^ x >> 16;
}
template <typename T>
__device__ __forceinline__ void hash_rows(const PlanOf<T> &plan, const ptrdiff_t (&rows)[kHashed],
                                          unsigned (&hashes)[kHashed])
{
    constexpr unsigned kOfDim = 0xc2b2ae3du;
    unsigned sums[kHashed] = {};
    bool is_nan[kHashed] = {};
    for (ptrdiff_t dim = (ptrdiff_t)(threadIdx.x % kLanes) * 4; dim < plan.d; dim += 4 * kLanes) {
        Four<T> four[kHashed];
#pragma unroll
        for (int r = 0; r < kHashed; ++r) {
            four[r] = load_dims(plan.b, plan.words_b, rows[r], dim, plan.d);
        }
#pragma unroll
        for (int r = 0; r < kHashed; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const T x = four[r].x[i];
                unsigned bits;
                if constexpr (sizeof(T) == sizeof(float)) {
                    bits = __float_as_uint(x);
                }
                else {
                    bits = (unsigned)__double2hiint(x) + spread((unsigned)__double2loint(x));
                }
                sums[r] += spread(bits + (unsigned)(dim + i) * kOfDim);
                is_nan[r] = is_nan[r] || x != x;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kHashed; ++r) {
        const unsigned sum = __reduce_add_sync(~0u, sums[r]);
        hashes[r] = __any_sync(~0u, is_nan[r]) ? kNoHash : max(sum, kNoHash + 1);
    }
}

/* The row whose group a row of B belongs to if they are equal, as their hashes are: that which came
 * first to a slot; itself if no slot is near. A slot has a hash and a row. */
__device__ __forceinline__ int find_group(const Plan &plan, ptrdiff_t rows, int row, unsigned hash)
{
    constexpr int kSlotsTried = 64;
    constexpr unsigned long long kEmpty = ~0ull;
    if (hash == kNoHash) {
        return row;
    }
    const unsigned slots = kSlotsOfRow * (unsigned)rows;
    unsigned at = __umulhi(hash, slots);
    for (int tried = 0; tried < kSlotsTried; ++tried) {
        unsigned long long there = __ldcg(plan.hash_slots + at);
        if (there == kEmpty) {
            there = atomicCAS(plan.hash_slots + at, kEmpty,
                              (unsigned long long)hash << 32 | (unsigned)row);
        }
        if (there == kEmpty) {
            return row;
        }
        if ((unsigned)(there >> 32) == hash) {
            return (int)(unsigned)there;
        }
        at = at + 1 < slots ? at + 1 : 0;
    }
    return row;
}

/* Whether some rows of B are equal to others, a bit each. All lanes of a warp get them. */
template <typename T>
constexpr int kCompared = 16 / (int)sizeof(T);
template <typename T>
__device__ __forceinline__ unsigned find_equal(const PlanOf<T> &plan,
                                               const ptrdiff_t (&rows)[kCompared<T>],
                                               const ptrdiff_t (&others)[kCompared<T>])
{
    bool equal[kCompared<T>];
#pragma unroll
    for (int r = 0; r < kCompared<T>; ++r) {
        equal[r] = true;
    }
    for (ptrdiff_t dim = (ptrdiff_t)(threadIdx.x % kLanes) * 4; dim < plan.d; dim += 4 * kLanes) {
        Four<T> x[kCompared<T>], y[kCompared<T>];
#pragma unroll
        for (int r = 0; r < kCompared<T>; ++r) {
            x[r] = load_dims(plan.b, plan.words_b, rows[r], dim, plan.d);
            y[r] = load_dims(plan.b, plan.words_b, others[r], dim, plan.d);
        }
#pragma unroll
        for (int r = 0; r < kCompared<T>; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                equal[r] = equal[r] && x[r].x[i] == y[r].x[i];
            }
        }
    }
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < kCompared<T>; ++r) {
        bits |= __all_sync(~0u, equal[r]) ? 1u << r : 0;
    }
    return bits;
}

/* What a block groups: rows of B that follow each other, by their groups. */
constexpr int kGroupedRows = 4096, kGroupThreads = 1024;
struct Grouping {
    Key keys[kGroupedRows]; /* a hash, later a group, and a row */
    int runs;
    bool is_last;
};

/* Finds the groups of `count` rows from `base` on. All threads of a block. */
template <typename T>
__device__ __forceinline__ void find_groups(const PlanOf<T> &plan, Grouping &shared, ptrdiff_t base,
                                            int count)
{
    constexpr int kWarpsOfBlock = kGroupThreads / kLanes;
    const int thread = (int)threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
    for (int first = warp * kHashed; first < count; first += kWarpsOfBlock * kHashed) {
        ptrdiff_t rows[kHashed];
        unsigned hashes[kHashed];
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            rows[i] = plan.b.clamp(base + first + i);
        }
        hash_rows(plan, rows, hashes);
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            if (lane == 0) {
                shared.keys[first + i] = (Key)hashes[i] << 32 | (unsigned)(base + first + i);
            }
        }
    }
    __syncthreads();
    for (int i = thread; i < kGroupedRows; i += kGroupThreads) {
        const int row = (int)base + i;
        shared.keys[i] =
            i < count ? (Key)(unsigned)find_group(plan, plan.b.count, row, bits_of(shared.keys[i]))
                                << 32 |
                            (unsigned)row
                      : no_key<float>();
    }
    __syncthreads();
    constexpr int kEach = kCompared<T>;
    for (int first = warp * kEach; first < count; first += kWarpsOfBlock * kEach) {
        ptrdiff_t rows[kEach], groups[kEach];
        bool is_all = true;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const Key key = shared.keys[min(first + i, count - 1)];
            rows[i] = index_of(key);
            groups[i] = bits_of(key);
            is_all = is_all && rows[i] == groups[i];
        }
        if (is_all) {
            continue;
        }
        const unsigned equal = find_equal(plan, rows, groups);
        if (lane < kEach && first + lane < count && !(equal >> lane & 1)) {
            const unsigned row = index_of(shared.keys[first + lane]);
            shared.keys[first + lane] = (Key)row << 32 | row;
        }
    }
}

/* Links rows of a group, of `count` that are sorted, and lists the block's runs of them. */
__device__ __forceinline__ void list_runs(const Plan &plan, Grouping &shared, int count)
{
    const auto group_of = [&](int i) { return (int)bits_of(shared.keys[i]); };
    Run *const to = plan.runs + (ptrdiff_t)blockIdx.x * kGroupedRows;
    for (int i = (int)threadIdx.x; i < count; i += kGroupThreads) {
        const int group = group_of(i), row = (int)index_of(shared.keys[i]);
        const bool goes_on = i + 1 < count && group_of(i + 1) == group;
        plan.next_copy[row] = goes_on ? (int)index_of(shared.keys[i + 1]) : -1;
        plan.copies[row] = 0;
        if (i > 0 && group_of(i - 1) == group) {
            continue;
        }
        int low = i, high = count; /* the run's last is low at least, and before high */
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (group_of(middle) == group) {
                low = middle;
            }
            else {
                high = middle;
            }
        }
        to[atomicAdd(&shared.runs, 1)] = {group, row, (int)index_of(shared.keys[low]), high - i};
    }
}

/* Links the runs of groups, in the order of rows, and counts groups and each one's rows, when all
 * blocks have listed theirs. All threads of a block. */
__device__ __forceinline__ void link_runs(const Plan &plan, int blocks)
{
    constexpr int kOfThread = kGroupedRows / kGroupThreads;
    const int thread = (int)threadIdx.x;
    int next[kOfThread] = {}, next_count = 0; /* groups of the next block's runs */
    int firsts = 0;
    const auto bring = [&](int block) {
        next_count = block < blocks ? __ldcg(plan.run_counts + block) : 0;
#pragma unroll
        for (int i = 0; i < kOfThread; ++i) {
            const int at = thread + i * kGroupThreads;
            if (at < next_count) {
                next[i] = __ldcg(&plan.runs[(ptrdiff_t)block * kGroupedRows + at].group);
            }
        }
    };
    bring(0);
    for (int block = 0; block < blocks; ++block) {
        const Run *const runs = plan.runs + (ptrdiff_t)block * kGroupedRows + thread;
        Group groups[kOfThread];
        int4 words[kOfThread];
        const int count = next_count - thread;
#pragma unroll
        for (int i = 0; i < kOfThread; ++i) {
            if (i * kGroupThreads < count) {
                groups[i] = plan.groups[next[i]];
                words[i] = __ldcg(reinterpret_cast<const int4 *>(runs + i * kGroupThreads));
            }
        }
        bring(block + 1);
#pragma unroll
        for (int i = 0; i < kOfThread; ++i) {
            if (i * kGroupThreads >= count) {
                continue;
            }
            const Run run = {words[i].x, words[i].y, words[i].z, words[i].w};
            const bool is_first = groups[i].first < 0;
            const int first = is_first ? run.first : groups[i].first;
            if (!is_first) {
                plan.next_copy[groups[i].last] = run.first;
            }
            firsts += is_first;
            atomicAdd(&plan.copies[first], run.count);
            plan.groups[run.group] = {first, run.last};
        }
        __syncthreads(); /* a group has one run of each block */
    }
    firsts = __reduce_add_sync(~0u, firsts);
    if (thread % kLanes == 0) {
        atomicAdd(&plan.found->groups, (unsigned)firsts);
    }
}

/* A block takes kGroupedRows rows. The last to end goes on. */
template <typename T>
__global__ void __launch_bounds__(kGroupThreads) group_rows(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    __shared__ Grouping shared;
    if (!plan.has_copies()) {
        return;
    }
    const ptrdiff_t base = (ptrdiff_t)blockIdx.x * kGroupedRows;
    const int count = (int)min((ptrdiff_t)kGroupedRows, plan.b.count - base);
    if (threadIdx.x == 0) {
        shared.runs = 0;
    }
    find_groups(plan, shared, base, count);
    sort<Block>(shared.keys, kGroupedRows);
    list_runs(plan, shared, count);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        plan.run_counts[blockIdx.x] = shared.runs;
        __threadfence();
        shared.is_last = atomicAdd(&plan.found->grouped, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (shared.is_last) {
        __threadfence();
        link_runs(plan, (int)gridDim.x);
    }
}

}  // namespace filter
}  // namespace gd
#endif
