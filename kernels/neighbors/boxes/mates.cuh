/* mates.cuh: the few nearest points of points of B, of which it is known where they are.
 *
 * A point's leaf and the two beside it on the curve have 95 others, most of which are near. Each
 * lane sees three of them, and the nearest of each are sorted, in one word: up to the k-th of these
 * there are k points. With that as a limit, which takes 200 instructions, a walk through the leaves
 * (walk.cuh) finds all candidates, some 2 k, and each one's place among them says whether it
 * belongs to the k.
 *
 * Where there are more candidates than room for them, as of many equal points, or too many leaves
 * to look at, as where the curve jumps between clusters or in far tails, a row goes to a list, for
 * find_nearest. Whoever finds a row's neighbours, they are the first of all by distance and index.
 * Of more neighbours, and with more columns, candidates become too many. */
#ifndef GPUDIST_NEIGHBORS_BOXES_MATES_CUH
#define GPUDIST_NEIGHBORS_BOXES_MATES_CUH

#include "neighbors/boxes/gathered.cuh"
#include "neighbors/boxes/walk.cuh"

namespace gd {
namespace boxes {

constexpr int kMates = 3;       /* leaves */
constexpr int kMatesRoom = 128; /* candidates of a row */
/* Blocks of a multiprocessor. */
template <typename T, int kDims>
constexpr int kFinders = at_most_blocks(kDims * sizeof(T) <= 12   ? 5
                                        : kDims * sizeof(T) <= 24 ? 4
                                                                  : 3);
/* Neighbours and columns, at most. */
constexpr int kMatesWanted = 20, kMatesCols = 4, kMatesDims = 5; /* these lie in so many */
constexpr int kMatesLeaves = 80; /* looked at for a row, before it is left to others */

/* The largest sum whose word this is; NaN of that of none. */
__device__ __forceinline__ float last_of_word(unsigned word, float)
{
    return __uint_as_float(word);
}
__device__ __forceinline__ double last_of_word(unsigned word, double)
{
    return __hiloint2double((int)word, -1);
}

/* Lanes' words in order (Batcher's bitonic network). */
__device__ __forceinline__ unsigned sort_words(unsigned word)
{
    const int lane = (int)(threadIdx.x % kWarp);
#pragma unroll
    for (int run = 2; run <= kWarp; run *= 2) {
#pragma unroll
        for (int apart = run / 2; apart > 0; apart /= 2) {
            const unsigned other = __shfl_xor_sync(kAll, word, apart);
            const bool keeps_less = ((lane & apart) == 0) == ((lane & run % kWarp) == 0);
            word = keeps_less ? min(word, other) : max(word, other);
        }
    }
    return word;
}

/* A sum that at least `wanted` of the mates' are up to; NaN if there are not so many. */
template <typename T>
__device__ __forceinline__ T sum_of_mates(const T (&sums)[kMates], int wanted)
{
    const unsigned x = word_of(sums[0]), y = word_of(sums[1]), z = word_of(sums[2]);
    const unsigned word = sort_words(min(min(x, y), z));
    return last_of_word(__shfl_sync(kAll, word, wanted - 1), T{});
}

/* Rows are the points of B in the order of the curve. */
template <typename M, typename Row, typename T, int kDims>
__global__ void __launch_bounds__(kThreads, kFinders<T, kDims>)
    find_near(const __grid_constant__ Plan<T, kDims> plan)
{
    follow();
    __shared__ Gathered<T, kMatesRoom> all[kWarps];
    const unsigned at = plan.first + blockIdx.x * kWarps + threadIdx.x / kWarp;
    if (at >= plan.first + plan.rows) {
        return;
    }
    Gathered<T, kMatesRoom> &gathered = all[threadIdx.x / kWarp];
    const unsigned row = plan.order[at];
    const unsigned before = at / kWarp > 0 ? at / kWarp - 1 : 0;
    const unsigned mates = min(before, plan.leaves() - kMates);
    Row a;
    T b[kMates][kDims], sums[kMates], most = behind_all<T>();
    unsigned indices[kMates];
    int count = 0, leaves = 0;
    if (read_row(plan, row, a)) {
#pragma unroll
        for (int i = 0; i < kMates; ++i) {
            read_leaf(plan, mates + i, b[i]);
            indices[i] = index_in(plan, mates + i);
            const bool is_mate = indices[i] != kNone && indices[i] != row;
            sums[i] = is_mate ? sum_to<M>(plan, a, b[i]) : behind_all<T>();
        }
        most = reach_from<M>(plan, a, sum_of_mates(sums, plan.wanted));
    }
    bool all_fit = most <= kMostSum<T>;
    if (all_fit) {
#pragma unroll
        for (int i = 0; i < kMates; ++i) {
            bool is_one = sums[i] <= most;
            const T x = stand_in<M>(plan, mates + i, a, b[i], sums[i], infinity<T>(), infinity<T>(),
                                    is_one);
            count = gathered.add(count, is_one, x, indices[i]);
        }
        walk_leaves<M, Row>(plan, a, most, [&](unsigned leaf) {
            if (leaf - mates < (unsigned)kMates) {
                return true;
            }
            all_fit = ++leaves <= kMatesLeaves;
            T other[kDims];
            read_leaf(plan, leaf, other);
            const T sum = sum_to<M>(plan, a, other);
            bool is_one = sum <= most;
            if (!__any_sync(kAll, is_one)) {
                return all_fit;
            }
            const unsigned index = index_in(plan, leaf);
            all_fit = all_fit && count <= kMatesRoom - kWarp;
            if (all_fit) {
                is_one = is_one && (!kDropsNan<M> || index != kNone);
                const T x =
                    stand_in<M>(plan, leaf, a, other, sum, infinity<T>(), infinity<T>(), is_one);
                count = gathered.add(count, is_one, x, index);
            }
            return all_fit;
        });
    }
    if (all_fit) {
        gathered.template settle<M, Row>(plan, a, count);
        gathered.template write_sorted<true>(count, plan.wanted,
                                             plan.distances + (ptrdiff_t)row * plan.wanted,
                                             plan.indices + (ptrdiff_t)row * plan.wanted);
    }
    else if (threadIdx.x % kWarp == 0) {
        plan.left[atomicAdd(plan.left_count, 1u)] = row;
    }
}

}  // namespace boxes
}  // namespace gd
#endif
