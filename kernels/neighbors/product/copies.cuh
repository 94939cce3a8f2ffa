/* copies.cuh: rows of B that are there many times.
 *
 * Idea: of equal rows those with the smallest indices come first, for whatever row of A. So as many
 * as are wanted, and one that may be the row itself, are all that can be neighbours. The others
 * have no images: thousands of candidates at the same distance, more than lists hold, would be
 * looked at. Which rows those are a sample says: each that is there often is in it twice. Rows that
 * are equal to one of these are marked, B being read once; then the last that counts is found.
 *
 * Where no row of the sample is there twice nothing is done. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_COPIES_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_COPIES_CUH

#include <climits>

#include "neighbors/product/prepare.cuh"

namespace gd {
namespace filter {

/* Rows of the sample that are equal, for the row to be looked for; and copies that lists have room
 * for, or so many times as many as are wanted. */
constexpr int kFewestEqual = 2, kFewCopies = 1024, kTimesCopied = 4;

template <typename T>
__device__ __forceinline__ ptrdiff_t row_of_mate(const PlanOf<T> &plan, int i)
{
    return plan.b.count * i / kMates;
}

/* Lists the rows of the sample that are there more than once, or of too many those that are there
 * most often. All threads of a block, one for each row of the sample. */
struct Copied {
    unsigned mates[kMates], count;
};
__device__ __forceinline__ void find_copied(const Plan &plan, Copied &shared)
{
    const int i = (int)threadIdx.x, first = plan.first_mates[i];
    shared.mates[i] = 0;
    if (i == 0) {
        shared.count = 0;
    }
    __syncthreads();
    if (first < kMates) {
        atomicAdd(&shared.mates[first], 1);
    }
    __syncthreads();
    const int mates = (int)shared.mates[i];
    int least = kFewestEqual;
    while (__syncthreads_count(mates >= least) > kMostCopied) {
        ++least;
    }
    if (mates >= least) {
        const unsigned at = atomicAdd(&shared.count, 1);
        plan.copied[at] = i;
        plan.copies[at] = 0;
    }
    __syncthreads();
    if (i == 0) {
        plan.found->copied = shared.count;
        plan.found->marked = 0;
    }
}

/* Numbers that equal rows have in common, of some rows at once. All lanes of a warp get them. */
constexpr int kHashed = 4;
template <typename T>
__device__ __forceinline__ void hash_rows(const PlanOf<T> &plan, const ptrdiff_t (&rows)[kHashed],
                                          unsigned (&hashes)[kHashed])
{
    constexpr unsigned kOdd = 0x9e3779b1u;
    const auto spread = [](unsigned bits) {
        const unsigned x = bits * kOdd;
        return x ^ x >> 16;
    };
    unsigned sums[kHashed] = {};
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
                unsigned bits;
                if constexpr (sizeof(T) == sizeof(float)) {
                    bits = spread(__float_as_uint(four[r].x[i]));
                }
                else {
                    bits = spread((unsigned)__double2hiint(four[r].x[i]) ^
                                  spread((unsigned)__double2loint(four[r].x[i])));
                }
                sums[r] += bits * (2 * (unsigned)(dim + i) + 1);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kHashed; ++r) {
        hashes[r] = __reduce_add_sync(~0u, sums[r]);
    }
}

/* All lanes of a warp. */
template <typename T>
__device__ __forceinline__ bool are_equal(const PlanOf<T> &plan, ptrdiff_t one, ptrdiff_t other)
{
    bool equal = true;
    for (ptrdiff_t dim = (ptrdiff_t)(threadIdx.x % kLanes) * 4; dim < plan.d; dim += 4 * kLanes) {
        const Four<T> x = load_dims(plan.b, plan.words_b, one, dim, plan.d);
        const Four<T> y = load_dims(plan.b, plan.words_b, other, dim, plan.d);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            equal = equal && x.x[i] == y.x[i];
        }
    }
    return __all_sync(~0u, equal);
}

/* What a block knows of listed rows. */
struct Marking {
    unsigned hashes[kMostCopied], counts[kMostCopied];
    int last[kMostCopied];
    bool is_last;
};

/* Which of the listed rows a row of B is, or kNoCopy. All lanes of a warp. */
template <typename T>
__device__ __forceinline__ int find_original(const PlanOf<T> &plan, const Marking &shared,
                                             int copied, ptrdiff_t row, unsigned hash)
{
    for (int from = 0; from < copied; from += kLanes) {
        const int i = from + (int)threadIdx.x % kLanes;
        unsigned same = __ballot_sync(~0u, i < copied && shared.hashes[min(i, copied - 1)] == hash);
        for (; same != 0; same &= same - 1) {
            const int of = from + __ffs(same) - 1;
            if (are_equal(plan, row, row_of_mate(plan, plan.copied[of]))) {
                return of;
            }
        }
    }
    return kNoCopy;
}

/* Finds up to which row of B copies may be neighbours, when all are marked. All threads of a block,
 * each of which looks at 16 rows at once. */
__device__ __forceinline__ void find_last_copies(const Plan &plan, Marking &shared, int copied,
                                                 int points)
{
    constexpr int kAtOnce = (int)sizeof(uint4);
    const unsigned few = (unsigned)max(kFewCopies, kTimesCopied * plan.wanted);
    for (int i = (int)threadIdx.x; i < copied; i += (int)blockDim.x) {
        shared.counts[i] = 0;
        shared.last[i] = __ldcg(&plan.copies[i]) > few ? -1 : INT_MAX;
    }
    bool left = true;
    for (int first = 0; left && first < points; first += (int)blockDim.x * kAtOnce) {
        __syncthreads();
        const int row = first + (int)threadIdx.x * kAtOnce;
        if (row < points) {
            const uint4 word = __ldcg(reinterpret_cast<const uint4 *>(plan.copy_of + row));
            const unsigned parts[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int of = (int)(parts[i / 4] >> 8 * (i % 4) & 255);
                if (row + i < points && of != kNoCopy) {
                    atomicAdd(&shared.counts[of], 1);
                }
            }
        }
        __syncthreads();
        bool mine = false;
        for (int i = (int)threadIdx.x; i < copied; i += (int)blockDim.x) {
            if (shared.last[i] < 0 && (int)shared.counts[i] > plan.wanted) {
                shared.last[i] = first + (int)blockDim.x * kAtOnce - 1;
            }
            mine = mine || shared.last[i] < 0;
        }
        left = __syncthreads_or(mine);
    }
    for (int i = (int)threadIdx.x; i < copied; i += (int)blockDim.x) {
        plan.last_copies[i] = shared.last[i] < 0 ? INT_MAX : shared.last[i];
    }
}

/* Marks and counts rows of B that are equal to a listed one, a warp some rows at a time. The last
 * of `blocks` to end goes on. */
template <typename T>
__device__ __forceinline__ void mark_copies(const PlanOf<T> &plan, Marking &shared, int block,
                                            int blocks)
{
    const int copied = (int)plan.found->copied;
    if (copied == 0) {
        return;
    }
    const int lane = (int)threadIdx.x % kLanes, warp = (int)threadIdx.x / kLanes;
    const int warps = (int)blockDim.x / kLanes;
    ptrdiff_t rows[kHashed];
    unsigned hashes[kHashed];
    for (int first = warp * kHashed; first < copied; first += warps * kHashed) {
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            rows[i] = row_of_mate(plan, plan.copied[min(first + i, copied - 1)]);
        }
        hash_rows(plan, rows, hashes);
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            if (lane == 0 && first + i < copied) {
                shared.hashes[first + i] = hashes[i];
                shared.counts[first + i] = 0;
            }
        }
    }
    __syncthreads();
    for (ptrdiff_t first = ((ptrdiff_t)block * warps + warp) * kHashed; first < plan.b.count;
         first += (ptrdiff_t)blocks * warps * kHashed) {
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            rows[i] = plan.b.clamp(first + i);
        }
        hash_rows(plan, rows, hashes);
#pragma unroll
        for (int i = 0; i < kHashed; ++i) {
            const int of = find_original(plan, shared, copied, rows[i], hashes[i]);
            if (lane == 0 && first + i < plan.b.count) {
                plan.copy_of[first + i] = (unsigned char)of;
                if (of != kNoCopy) {
                    atomicAdd(&shared.counts[of], 1);
                }
            }
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < copied; i += (int)blockDim.x) {
        if (shared.counts[i] > 0) {
            atomicAdd(&plan.copies[i], shared.counts[i]);
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        shared.is_last = (int)atomicAdd(&plan.found->marked, 1) == blocks - 1;
    }
    __syncthreads();
    if (shared.is_last) {
        __threadfence();
        find_last_copies(plan, shared, copied, (int)plan.b.count);
    }
}

}  // namespace filter
}  // namespace gd
#endif
