/* look.cuh: what a warp sees of rows of A, of groups of boxes and of leaves, one a lane. */
#ifndef GPUDIST_NEIGHBORS_BOXES_LOOK_CUH
#define GPUDIST_NEIGHBORS_BOXES_LOOK_CUH

#include "neighbors/boxes/order.cuh"
#include "neighbors/boxes/sums.cuh"

namespace gd {
namespace boxes {

/* Reads a row of A, and tells whether it is at some distance of others. */
template <typename T, int kDims>
__device__ __forceinline__ bool read_row(const Plan<T, kDims> &plan, unsigned row, T (&a)[kDims])
{
    bool is_nan = false;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        a[k] = k < plan.d ? plan.a.at(row, k) : T(0);
        is_nan |= a[k] != a[k];
    }
    return !is_nan || plan.drops_nan;
}

/* A group's boxes, one a lane: false where none is. */
template <typename T, int kDims>
__device__ __forceinline__ bool read_box(const Plan<T, kDims> &plan, int level, unsigned group,
                                         T (&low)[kDims], T (&high)[kDims])
{
    const unsigned lane = threadIdx.x % kWarp;
    const T *const from = plan.ends[level] + (ptrdiff_t)group * (2 * kDims * kWarp) + lane;
    const bool there = group * kWarp + lane < plan.nodes[level];
    if (there) {
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            low[k] = __ldg(from + 2 * k * kWarp);
            high[k] = __ldg(from + (2 * k + 1) * kWarp);
        }
    }
    return there;
}

/* A leaf's points, one a lane, and their indices. */
template <typename T, int kDims>
__device__ __forceinline__ void read_leaf(const Plan<T, kDims> &plan, unsigned leaf, T (&b)[kDims])
{
    const T *const from = plan.points + (ptrdiff_t)leaf * (kDims * kWarp) + threadIdx.x % kWarp;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        b[k] = __ldg(from + k * kWarp);
    }
}
template <typename T, int kDims>
__device__ __forceinline__ unsigned index_in(const Plan<T, kDims> &plan, unsigned leaf)
{
    return __ldg(plan.index + (ptrdiff_t)leaf * kWarp + threadIdx.x % kWarp);
}

}  // namespace boxes
}  // namespace gd
#endif
