/* search.cuh: the nearest points of rows of A, by boxes.
 *
 * A warp looks for a row's neighbours: of a group it holds each node's box, or of a leaf each
 * point, in a lane, goes to the nearest node first, and comes back to a group until what is left
 * there is too far away. Rows that follow each other on the curve are looked for by neighbouring
 * warps, which find in the cache what these have read.
 *
 * Bound by issue slots: a group or a leaf takes some 50 instructions, a list some 25 for each that
 * comes alone. */
#ifndef GPUDIST_NEIGHBORS_BOXES_SEARCH_CUH
#define GPUDIST_NEIGHBORS_BOXES_SEARCH_CUH

#include "neighbors/boxes/list.cuh"

namespace gd {
namespace boxes {

/* What no point of each node of a group is nearer than, a node a lane; behind all where none is. */
template <typename M, typename Row, typename T, int kDims>
__device__ __forceinline__ T look_at(const Plan<T, kDims> &plan, int level, unsigned group,
                                     const Row &a)
{
    T low[kDims], high[kDims];
    return read_box(plan, level, group, low, high) ? nearest_in<M>(plan, a, low, high)
                                                   : behind_all<T>();
}

/* The distance to a leaf's point, a lane each. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_in(const Plan<T, kDims> &, unsigned, const T (&a)[kDims],
                                         const T (&b)[kDims], unsigned)
{
    return reported<M, T, kDims>(a, b);
}

/* Adds what belongs to the list of a leaf's points, but for the row itself. */
template <typename M, typename Row, int kSlots, typename T, int kDims>
__device__ __forceinline__ void take_leaf(const Plan<T, kDims> &plan, unsigned leaf, unsigned own,
                                          const Row &a, List<T, kSlots> &list)
{
    T b[kDims];
    read_leaf(plan, leaf, b);
    const unsigned index = index_in(plan, leaf);
    const T distance = distance_in<M>(plan, leaf, a, b, list.last.word());
    const bool counts = index != kNone && index != own && distance == distance; /* no NaN */
    list.take(counts ? Key<T>::of(distance, index) : Key<T>::none());
}

template <typename M, typename Row, int kSlots, typename T, int kDims>
__device__ __forceinline__ void search(const Plan<T, kDims> &plan, unsigned own, const Row &a,
                                       T (*lows)[kWarp], List<T, kSlots> &list)
{
    const unsigned lane = threadIdx.x % kWarp;
    int level = plan.levels - 1;
    unsigned group = 0;
    lows[level][lane] = look_at<M, Row>(plan, level, group, a);
    while (true) {
        const T low = lows[level][lane]; /* the lane's own: nobody else writes it */
        const unsigned word = word_of(low), least = least_of_warp(word);
        if (least == ~0u || least > list.last.word()) {
            if (++level == plan.levels) {
                return;
            }
            group /= kWarp;
            continue;
        }
        const int next = __ffs((int)__ballot_sync(kAll, word == least)) - 1;
        const unsigned node = group * kWarp + next;
        if ((int)lane == next) {
            lows[level][lane] = behind_all<T>();
        }
        if (least == list.last.word()) { /* indices may decide */
            const T nearest = __shfl_sync(kAll, low, next);
            if (!(Key<T>::of(nearest, __ldg(plan.least[level] + node)) < list.last)) {
                continue;
            }
        }
        if (level == 0) {
            take_leaf<M, Row>(plan, node, own, a, list);
        }
        else {
            --level;
            group = node;
            lows[level][lane] = look_at<M, Row>(plan, level, group, a);
        }
    }
}

/* Blocks of a multiprocessor: few registers hide more of the way to the cache. */
template <typename T, int kDims>
constexpr int kBlocks = kDims * sizeof(T) <= 12   ? 4
                        : kDims * sizeof(T) <= 32 ? 3
                                                  : 2;

template <typename M, typename Row, int kSlots, typename T, int kDims>
__global__ void __launch_bounds__(kThreads, kBlocks<T, kDims>)
    find_nearest(const __grid_constant__ Plan<T, kDims> plan)
{
    follow();
    __shared__ T lows[kWarps][kMostLevels][kWarp];
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned all = plan.left_count != NULL ? *plan.left_count : plan.first + plan.rows;
    const unsigned end = min(plan.first + plan.rows, all);
    for (unsigned at = plan.first + blockIdx.x * kWarps + warp; at < end;
         at += gridDim.x * kWarps) {
        const unsigned row = plan.order != NULL ? plan.order[at] : at;
        Row a;
        const bool is_near = read_row(plan, row, a);
        List<T, kSlots> list(plan.wanted, plan.limits != NULL
                                              ? Key<T>::of(plan.limit_of(row), kNone)
                                              : Key<T>::none());
        if (is_near) {
            search<M, Row>(plan, plan.self == kNone ? kNone : plan.self + row, a, lows[warp], list);
        }
        list.store(plan.distances + (ptrdiff_t)row * plan.wanted,
                   plan.indices + (ptrdiff_t)row * plan.wanted);
    }
}

}  // namespace boxes
}  // namespace gd
#endif
