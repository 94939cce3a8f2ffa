/* walk.cuh: all leaves with points within a limit of a row of A.
 *
 * A warp walks down from the top: the nodes of a group that are near enough are bits of a word, the
 * leaves among them are taken one after the other, other nodes entered. Lane `level` keeps that
 * level's word while those below it are walked through. Which node comes first does not matter, so
 * nothing is looked for: that is quicker than to go to the nearest first wherever the limit is
 * known beforehand. */
#ifndef GPUDIST_NEIGHBORS_BOXES_WALK_CUH
#define GPUDIST_NEIGHBORS_BOXES_WALK_CUH

#include "neighbors/boxes/look.cuh"

namespace gd {
namespace boxes {

/* Blocks of a multiprocessor that walk: few registers hide more of the way to the cache. Those
 * before 8.0 have threads for four. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kMostBlocks = 4;
#else
constexpr int kMostBlocks = 6;
#endif
constexpr int at_most_blocks(int wanted) { return wanted < kMostBlocks ? wanted : kMostBlocks; }
template <typename T, int kDims>
constexpr int kWalkers = at_most_blocks(kDims * sizeof(T) <= 12   ? 6
                                        : kDims * sizeof(T) <= 32 ? 4
                                                                  : 3);
/* Those that list what they find have more in registers. */
template <typename T, int kDims>
constexpr int kListers = at_most_blocks(kDims * sizeof(T) <= 20   ? 5
                                        : kDims * sizeof(T) <= 32 ? 4
                                                                  : 3);

/* Nodes of a group that may have points with sums up to `most`, a bit each. */
template <typename M, typename Row, typename T, int kDims>
__device__ __forceinline__ unsigned near_nodes(const Plan<T, kDims> &plan, int level,
                                               unsigned group, const Row &a, T most)
{
    T low[kDims], high[kDims];
    const bool there = read_box(plan, level, group, low, high);
    return __ballot_sync(kAll, there && least_sum<M>(plan, a, low, high) <= most);
}

/* Calls take(leaf) until that is false, for every leaf that may have points with such sums. */
template <typename M, typename Row, typename T, int kDims, typename Take>
__device__ __forceinline__ void walk_leaves(const Plan<T, kDims> &plan, const Row &a, T most,
                                            Take &&take)
{
    const int lane = (int)(threadIdx.x % kWarp);
    int level = plan.levels - 1;
    unsigned group = 0, words = 0;
    unsigned word = near_nodes<M, Row>(plan, level, group, a, most);
    while (true) {
        for (; level == 0 && word != 0; word &= word - 1) {
            if (!take(group * kWarp + (unsigned)(__ffs((int)word) - 1))) {
                return;
            }
        }
        if (word == 0) {
            if (++level == plan.levels) {
                return;
            }
            group /= kWarp;
            word = __shfl_sync(kAll, words, level);
            continue;
        }
        group = group * kWarp + (unsigned)(__ffs((int)word) - 1);
        words = lane == level ? word & (word - 1) : words;
        --level;
        word = near_nodes<M, Row>(plan, level, group, a, most);
    }
}

}  // namespace boxes
}  // namespace gd
#endif
