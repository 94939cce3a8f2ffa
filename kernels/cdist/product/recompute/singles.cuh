/* singles.cuh: computes single elements again, in direct form.
 *
 * A warp collects elements and computes 32 at once, a thread an element; fewer by several threads
 * each, a fold of 16 dimensions a thread. Together they bring the folds of their rows to shared
 * memory, where each finds its two: so reads of rows are whole sectors, and many are under way at
 * the same time, the next folds while these are computed. The floor is reading two rows an element
 * from L2. */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_SINGLES_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_SINGLES_CUH

#include "cdist/product/recompute/suspects.cuh"

namespace gd {
namespace product_form {

/* In float32 two are quicker than three: the L1 cache, which has the rest of shared memory, then
 * holds both folds of a line (d = 24 0.493 ms instead of 0.508, heavy tails d = 32 0.89 instead of
 * 0.95). */
template <typename T>
constexpr int kSinglesBuffers = sizeof(T) == sizeof(float) ? 2 : 3;
/* Folds of a step: 32 of rows of `a`, then as many of `b`. */
template <typename T>
using Folds = T[2 * kLanes][GD_FOLD];
/* The words of a fold change places, so that of eight neighbours, read at once, no two meet. */
template <typename T>
__device__ __forceinline__ int place_in_fold(int slot, int k)
{
    constexpr int kWord = kPerWord<T>, kLines = 128 / (GD_FOLD * (int)sizeof(T)); /* of banks */
    return k ^ (slot / kLines % (8 / kLines) * kWord);
}

/* A warp's shared memory. Elements, a row and a column each, wait until there are 32;
 * fewer than that and those of one part may come together. */
template <typename T>
struct Singles {
    alignas(16) Folds<T> folds[kSinglesBuffers<T>];
    int2 elements[kLanes + kUnits * kPlaces];
};

/* Brings folds of the rows of elements, of each 2^shift that follow each other; kEach dimensions
 * are one copy. A lane's copies of a step are a turn, so many slots apart. */
template <typename T, int kEach>
struct Copier {
    static constexpr int across = GD_FOLD / kEach, at_once = kLanes / across;
    static constexpr int turns = kLanes / at_once;
    static constexpr bool keeps = kEach > 1; /* else there are too many turns */

    const Cdist<T> &call;
    const int2 *elements;
    int count, shift;
    const T *from[2][keeps ? turns : 1]; /* where the copies of a turn start, for a and b */

    __device__ __forceinline__ Copier(const Cdist<T> &call_, const int2 *elements_, int count_,
                                      int shift_)
        : call(call_), elements(elements_), count(count_), shift(shift_)
    {
        if constexpr (keeps) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                from[0][i] = start(call.a, 0, i);
                from[1][i] = start(call.b, 1, i);
            }
        }
    }
    __device__ __forceinline__ int slot(int turn) const
    {
        return (int)threadIdx.x % 32 / across + turn * at_once;
    }
    /* The first dimension of a turn's copy in a step from 0 on. */
    __device__ __forceinline__ int first(int turn) const
    {
        return (slot(turn) & ((1 << shift) - 1)) * GD_FOLD + (int)threadIdx.x % across * kEach;
    }
    __device__ __forceinline__ const T *start(const Points<T> &x, int side, int turn) const
    {
        const int2 element = elements[min(slot(turn) >> shift, count - 1)];
        return x.data + (ptrdiff_t)(side == 0 ? element.x : element.y) * x.row_stride +
               first(turn) * x.col_stride;
    }

    __device__ __forceinline__ void start_step(ptrdiff_t k, Folds<T> &folds) const
    {
        if (k < call.d) {
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const Points<T> &x = side == 0 ? call.a : call.b;
#pragma unroll(keeps ? turns : 4)
                for (int i = 0; i < turns; ++i) {
                    const bool there = k + first(i) < call.d;
                    const T *at;
                    if constexpr (keeps) {
                        at = from[side][i] + k;
                    }
                    else {
                        at = start(x, side, i) + k * x.col_stride;
                    }
                    if (slot(i) < count << shift) {
                        copy_async<kEach *(int)sizeof(T)>(
                            &folds[side * kLanes + slot(i)]
                                  [place_in_fold<T>(slot(i), (int)threadIdx.x % across * kEach)],
                            there ? at : x.data, there);
                    }
                }
            }
        }
        /* A group of copies in any case, even if it is empty: that is what the wait counts. */
        end_copies();
    }
};

/* The binary logarithm of how many threads compute each of `count` elements: no more than a group
 * has folds. */
__device__ __forceinline__ int log_share(int count, ptrdiff_t d)
{
    int shift = 0;
    while (GD_FOLD << shift < GD_GROUP && count << shift <= kLanes / 2 && GD_FOLD << shift < d) {
        ++shift;
    }
    return shift;
}

/* Joins the folds that an element's `share` threads have made of its dimensions from `dim` on, in
 * order; those beyond the last dimension are 0 and change nothing. */
template <typename M, typename T>
__device__ __forceinline__ void join_folds(T fold, int lane, int share, ptrdiff_t dim, ptrdiff_t d,
                                           T &group, T &total)
{
    for (int i = 0; i < share; ++i) {
        group = M::join(group, __shfl_sync(~0u, fold, (lane & -share) + i));
    }
    const ptrdiff_t end = dim + share * GD_FOLD;
    if (end % GD_GROUP == 0 || end >= d) {
        total = dim < GD_GROUP ? group : M::join(total, group);
        group = 0;
    }
}

template <typename M, int kEach, typename T>
__device__ __forceinline__ void recompute_elements(const Cdist<T> &call, Singles<T> &singles,
                                                   const int2 *elements, int count)
{
    const int lane = threadIdx.x % 32;
    const int shift = log_share(count, call.d), share = 1 << shift;
    /* Steps never cross the end of a group, since both are powers of two. */
    const int step = share * GD_FOLD;
    const Copier<T, kEach> copier(call, elements, count, shift);
#pragma unroll 1
    for (int i = 0; i < kSinglesBuffers<T>; ++i) {
        copier.start_step(i * step, singles.folds[i]);
    }
    T total = 0, group = 0;
    int buffer = 0;
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += step) {
        await_copies<kSinglesBuffers<T> - 1>();
        __syncwarp();
        const T *const from_a = singles.folds[buffer][lane];
        const T *const from_b = from_a + kLanes * GD_FOLD;
        const ptrdiff_t first = dim + (lane & (share - 1)) * GD_FOLD;
        T fold = 0;
#pragma unroll
        for (int k = 0; k < GD_FOLD; k += kPerWord<T>) {
            T x[kPerWord<T>], y[kPerWord<T>];
            load_word(from_a + place_in_fold<T>(lane, k), x);
            load_word(from_b + place_in_fold<T>(lane, k), y);
#pragma unroll
            for (int s = 0; s < kPerWord<T>; ++s) {
                fold = add_term<M>(fold, x[s], y[s], root_at<M>(call, first + k + s));
            }
        }
        join_folds<M>(fold, lane, share, dim, call.d, group, total);
        __syncwarp(); /* everybody has read the folds */
        copier.start_step(dim + kSinglesBuffers<T> * step, singles.folds[buffer]);
        buffer = buffer + 1 == kSinglesBuffers<T> ? 0 : buffer + 1;
    }
    if ((lane & (share - 1)) == 0 && lane >> shift < count) {
        const int2 element = elements[lane >> shift];
        finish_element<M>(call, element.x, element.y, total);
    }
    __syncwarp();
}

/* Computes `count` elements from the `first` on, 32 at most, and stores them. A function of its
 * own: it is needed in several places. words: rows can be read by aligned words. */
template <typename M, typename T>
__device__ __noinline__ void recompute_singles(const Cdist<T> &call, bool words,
                                               Singles<T> &singles, int first, int count)
{
    if (words) {
        recompute_elements<M, kPerWord<T>>(call, singles, singles.elements + first, count);
    }
    else {
        recompute_elements<M, 1>(call, singles, singles.elements + first, count);
    }
}

}  // namespace product_form
}  // namespace gd
#endif
