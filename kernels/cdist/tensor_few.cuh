/* tensor_few.cuh: computes single elements again, in direct form.
 *
 * A warp collects elements and computes 32 at once, a thread an element; fewer by several threads
 * each, a fold of 16 dimensions a thread. Together they bring the folds of their rows to shared
 * memory, where each finds its two: so reads of rows are whole sectors, and many are under way at
 * the same time, the next folds while these are computed. The floor is reading two rows an element
 * from L2. */
#ifndef GPUDIST_TENSOR_FEW_CUH
#define GPUDIST_TENSOR_FEW_CUH

#include "tensor_marks.cuh"

namespace gd {
namespace tensor {

constexpr int kFewStages = 2;
/* Folds of a step: 32 of rows of `a`, then as many of `b`. */
using Folds = float[2 * kLanes][GD_FOLD];
/* The words of a fold change places, so that of eight neighbours, read at once, no two meet. */
__device__ __forceinline__ int place_in_fold(int slot, int k) { return k ^ (slot / 2 % 4 * 4); }

/* What a warp has in shared memory. Elements, a row and a column each, wait until there are 32;
 * then there may be another 31. */
struct Few {
    alignas(16) Folds folds[kFewStages];
    int2 elements[2 * kLanes];
};

/* Copies kBytes without a register in between, or zeros. */
template <int kBytes>
__device__ __forceinline__ void copy_async(float *to, const float *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                 "l"(from), "n"(kBytes), "r"(there ? kBytes : 0)
                 : "memory");
}

/* Starts bringing folds from dimension k on, 2^shift of each element. kEach dimensions are one
 * copy. */
template <int kEach>
__device__ __forceinline__ void start_copies(const Cdist<float> &call, const Few &few, int count,
                                             int shift, ptrdiff_t k, Folds &folds)
{
    constexpr int kAcross = GD_FOLD / kEach, kSlotsAtOnce = kLanes / kAcross;
    const int lane = threadIdx.x % 32, part = lane % kAcross * kEach;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
        const Points<float> &x = side == 0 ? call.a : call.b;
#pragma unroll 4
        for (int slot = lane / kAcross; slot < count << shift; slot += kSlotsAtOnce) {
            const int2 element = few.elements[slot >> shift];
            const ptrdiff_t dim = k + (slot & ((1 << shift) - 1)) * GD_FOLD + part;
            const bool there = dim < call.d;
            const ptrdiff_t row = side == 0 ? element.x : element.y;
            copy_async<kEach *(int)sizeof(float)>(
                &folds[side * kLanes + slot][place_in_fold(slot, part)],
                x.data + row * x.row_stride + (there ? dim : 0) * x.col_stride, there);
        }
    }
}

__device__ __forceinline__ void start_step(const Cdist<float> &call, bool words, const Few &few,
                                           int count, int shift, ptrdiff_t k, Folds &folds)
{
    if (k < call.d) {
        if (words) {
            start_copies<4>(call, few, count, shift, k, folds);
        }
        else {
            start_copies<1>(call, few, count, shift, k, folds);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Computes the first `count` elements, 32 at most, and stores them. A function of its own: it is
 * needed in two places. */
template <typename M>
__device__ __noinline__ void redo_few(const Cdist<float> &call, bool words, Few &few, int count)
{
    const int lane = threadIdx.x % 32;
    /* An element has 2^shift threads, no more than a group has folds. */
    int shift = 0;
    while (GD_FOLD << shift < GD_GROUP && count << shift <= kLanes / 2 &&
           GD_FOLD << shift < call.d) {
        ++shift;
    }
    const int share = 1 << shift;
    /* Steps never cross the end of a group, since both are powers of two. */
    const int step = share * GD_FOLD;
#pragma unroll 1
    for (int i = 0; i < kFewStages; ++i) {
        start_step(call, words, few, count, shift, i * step, few.folds[i]);
    }
    float total = 0, group = 0;
    int stage = 0;
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kFewStages - 1) : "memory");
        __syncwarp();
        const float *const from_a = few.folds[stage][lane], *const from_b =
                                                                from_a + kLanes * GD_FOLD;
        float fold = 0;
#pragma unroll
        for (int k = 0; k < GD_FOLD; k += 4) {
            float x[4], y[4];
            load_word(from_a + place_in_fold(lane, k), x);
            load_word(from_b + place_in_fold(lane, k), y);
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                fold = M::term(fold, x[s], y[s]);
            }
        }
        /* In order; folds beyond the last dimension are 0 and change nothing. */
        for (int i = 0; i < share; ++i) {
            group = M::join(group, __shfl_sync(~0u, fold, (lane & -share) + i));
        }
        if ((dim + step) % GD_GROUP == 0 || dim + step >= call.d) {
            total = dim < GD_GROUP ? group : M::join(total, group);
            group = 0;
        }
        __syncwarp(); /* everybody has read the folds */
        /* A group of copies in any case, even if it is empty: that is what the wait counts. */
        start_step(call, words, few, count, shift, dim + kFewStages * step, few.folds[stage]);
        stage = stage + 1 == kFewStages ? 0 : stage + 1;
    }
    if ((lane & (share - 1)) == 0 && lane >> shift < count) {
        const int2 element = few.elements[lane >> shift];
        finish_element<M>(call, element.x, element.y, total);
    }
    __syncwarp();
}

}  // namespace tensor
}  // namespace gd
#endif
