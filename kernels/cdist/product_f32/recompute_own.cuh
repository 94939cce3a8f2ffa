/* recompute_own.cuh: suspect elements that the warp which found them computes again itself, in
 * direct form, when it has no tiles left.
 *
 * Where few elements are suspect, what they cost is the way to them: the steps that follow look for
 * suspects, with code that is in no cache, and find rows that are in none; of 8192 x 8192 that
 * takes 10 us for a single element. So a warp lists what it suspects, and in the end computes 32
 * elements at a time, a thread an element; fewer by several threads each, a fold of 16 dimensions a
 * thread. The steps that follow then find nothing to do. What is too much for the lists, or suspect
 * so densely that tiles may do it, is left to recompute/share_out.cuh and recompute/dense.cuh. All
 * add in the order of GD_FOLD and GD_GROUP, so who computes an element changes no bit. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_RECOMPUTE_OWN_CUH
#define GPUDIST_CDIST_PRODUCT_F32_RECOMPUTE_OWN_CUH

#include "cdist/product_f32/operands.cuh"
#include "cdist/product/recompute/singles.cuh"

namespace gd {
namespace tensor {

/* How many places of a warp's list are used: heavy tails, of which there are more than any list
 * takes, are quicker by the way of recompute/share_out.cuh, the more so the longer rows are (16384
 * x 16384, d = 64 0.499 ms without lists, 0.518 with these, 0.540 with 512 places). Other data of
 * so many dimensions has hardly any suspects but those of rows that meet themselves. */
inline int places_of_list(ptrdiff_t d)
{
    return (int)max(min((ptrdiff_t)(1 << 18) / (d * d), (ptrdiff_t)kListed), (ptrdiff_t)64);
}

/* How many suspects of a warp's share of a tile, so many results, are listed at most: from one in
 * 2 d on sorting may pay (recompute/order.cuh). A row's distance to itself is suspect, too, which
 * makes one a row. */
inline int most_listed(ptrdiff_t results, ptrdiff_t rows, ptrdiff_t d)
{
    return (int)max(results / (2 * d), rows);
}

/* Lists the elements of a part that are suspect in lanes' words. row, col: of the first. Returns
 * how many are listed then; `listed` were before. */
__device__ __forceinline__ int list_suspects(const Cdist<float> &call, uint32_t word, ptrdiff_t row,
                                             ptrdiff_t col, int2 *list, int listed)
{
    const int lane = (int)(this_thread() % kLanes);
    while (__any_sync(~0u, word != 0)) {
        const int i = __clz((int)word), place = place_of_element<float>(lane, i & 31);
        const int2 element = make_int2((int)row + place % kUnitRows, (int)col + place / kUnitRows);
        const bool there = word != 0 && element.x < call.a.count && element.y < call.b.count;
        const unsigned have = __ballot_sync(~0u, there);
        if (there) {
            list[listed + __popc(have & ((1u << lane) - 1))] = element;
        }
        word &= ~(0x80000000u >> (i & 31));
        listed += __popc(have);
    }
    return listed;
}

/* Keeps what a warp suspects of the units of a tile that it has, whose first result is at (row,
 * col); the others are beside it, or, with kDown, below it: lists it, if there is little of it and
 * room, else notes it for others. suspected: counts what it notes; listed: what waits in its list.
 * Once for all ways of storing, and in a loop: the code of the multiplying loop has to stay in the
 * cache (d = 128 takes 2.5 % longer with all of it unrolled). */
template <bool kDown, typename Plan, int kHas>
__device__ __forceinline__ void keep_suspects(const Cdist<float> &call, const Plan &plan,
                                              ptrdiff_t row, ptrdiff_t col,
                                              const uint32_t (&suspects)[kHas], unsigned &suspected,
                                              int2 *list, int &listed)
{
    constexpr int kStep = kDown ? 1 : kUnits; /* from a unit to the next */
    const int lane = (int)(this_thread() % kLanes);
    const ptrdiff_t unit =
        (row / kTileRows * plan.suspects.parts_across + col / kPartCols) * kUnits +
        row % kTileRows / kUnitRows;
    unsigned count = 0;
#pragma unroll
    for (int i = 0; i < kHas; ++i) {
        count += (unsigned)__popc(suspects[i]);
    }
    if (!__any_sync(~0u, count != 0)) {
        if (lane < kHas) {
            plan.suspects.counts[unit + lane * kStep] = 0;
        }
        return;
    }
    count = sum_of_warp(count);
    int at = listed;
    /* A vote, so that the compiler knows that the warp stays together: else it keeps two copies of
     * all that follows, the loop that multiplies included. */
    const bool lists = __all_sync(~0u, (int)count <= min(plan.most_listed, plan.places - at));
    __syncwarp();
#pragma unroll 1
    for (int own = 0; own < kHas; ++own) {
        uint32_t word = suspects[0];
#pragma unroll
        for (int i = 1; i < kHas; ++i) {
            word = own == i ? suspects[i] : word;
        }
        if (lists) {
            at = list_suspects(call, word, row + (kDown ? own * kUnitRows : 0),
                               col + (kDown ? 0 : own * kPartCols), list, at);
            word = 0;
        }
        plan.suspects.template note<float>(unit + own * kStep, word);
    }
    if (lane == 0) {
        listed = at;
        suspected += lists ? 0 : count;
    }
    __syncwarp();
}

/* Brings a fold of a row, of which `left` dimensions are there, and zeros beyond. words: all rows
 * start on 16-byte boundaries. Others read by such words, which then slide, take as long, d = 17 3
 * % longer. */
__device__ __forceinline__ void fetch_fold(const float *from, ptrdiff_t stride, bool words,
                                           ptrdiff_t left, float (&to)[GD_FOLD])
{
    constexpr int kWord = kPerWord<float>;
    if (words) {
#pragma unroll
        for (int k = 0; k < GD_FOLD; k += kWord) {
            Word<float> word = {};
            if (k < left) {
                word = __ldg(reinterpret_cast<const Word<float> *>(from + k));
            }
            unpack<float>(word, to + k);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < GD_FOLD; ++k) {
        to[k] = k < left ? __ldg(from + k * stride) : 0.0f;
    }
}

/* The result of a total, as finish_element stores it. */
template <typename M>
__device__ __forceinline__ float finished(const Cdist<float> &call, ptrdiff_t row, ptrdiff_t col,
                                          float total)
{
    const float result = M::finish(total);
    if constexpr (M::template guarded<float>) {
        if (!M::safe(result)) {
            return total == 0 && is_itself(call, row, col) ? 0.0f
                                                           : result_in_f64<M>(call, row, col);
        }
    }
    return result;
}

/* Computes up to 32 elements and stores them. */
template <typename M>
__device__ __forceinline__ void recompute_own(const Cdist<float> &call, bool words,
                                              const int2 *elements, int count)
{
    const int lane = (int)(this_thread() % kLanes);
    const int shift = product_form::log_share(count, call.d), share = 1 << shift;
    const int2 element = elements[min(lane >> shift, count - 1)];
    const float *const row_a = call.a.data + element.x * call.a.row_stride;
    const float *const row_b = call.b.data + element.y * call.b.row_stride;
    float total = 0, group = 0;
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += share * GD_FOLD) {
        const ptrdiff_t first = dim + (lane & (share - 1)) * GD_FOLD;
        float a[GD_FOLD], b[GD_FOLD];
        fetch_fold(row_a + first * call.a.col_stride, call.a.col_stride, words, call.d - first, a);
        fetch_fold(row_b + first * call.b.col_stride, call.b.col_stride, words, call.d - first, b);
        float fold = 0;
#pragma unroll
        for (int k = 0; k < GD_FOLD; ++k) {
            fold = M::term(fold, a[k], b[k]);
        }
        product_form::join_folds<M>(fold, lane, share, dim, call.d, group, total);
    }
    if ((lane & (share - 1)) == 0 && lane >> shift < count) {
        call.row(element.x)[element.y] = finished<M>(call, element.x, element.y, total);
    }
}

/* Computes what waits in a warp's list, 32 at a time. */
template <typename M>
__device__ __forceinline__ void work_off(const Cdist<float> &call, bool words, const int2 *list,
                                         int waiting)
{
    __syncwarp(); /* what else was stored in these places comes before */
#pragma unroll 1
    for (; waiting > 0; waiting -= kLanes, list += kLanes) {
        recompute_own<M>(call, words, list, min(waiting, kLanes));
    }
}

}  // namespace tensor
}  // namespace gd
#endif
