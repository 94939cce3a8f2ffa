/* tensor_f64_redo.cuh: which elements tensor_f64.cu leaves to be computed again, and the way for
 * parts where they are few.
 *
 * Marks stand in the result itself, so there is no list that could overflow, and a block takes a
 * part, 64 rows by 64 columns. Where few of its elements are marked, eight threads compute one, in
 * direct form from the caller's rows; where many are, see tensor_f64_tile.cuh. Which it is changes
 * no bit: both add in the order of GD_FOLD and GD_GROUP. */
#ifndef GPUDIST_TENSOR_F64_REDO_CUH
#define GPUDIST_TENSOR_F64_REDO_CUH

#include "tensor_f64.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kRedoThreads = 128, kRedoWarps = kRedoThreads / 32;
/* From so many elements of a part on, the tile is quicker. Inner products, whose terms are no
 * differences, always take it: only rows with NaN, infinity or huge numbers come here. */
template <gd_metric kMetric>
constexpr unsigned kMany = Rules<kMetric>::product ? 1 : kPart * kPart / 8;

__device__ __forceinline__ unsigned marked_in(const Plan &plan, ptrdiff_t part)
{
    const uint2 counts = __ldg(plan.counts + part);
    return counts.x + counts.y;
}

/* Calls f(row, col) for the first element of every part that `wanted` says yes to. Blocks take
 * every gridDim'th part, so that neighbouring parts with much to do are spread; each thread looks
 * at one part ahead, then all of them go to those that were wanted. */
template <typename Wanted, typename F>
__device__ __forceinline__ void for_parts(const Plan &plan, Wanted wanted, F f)
{
    __shared__ bool some[kRedoThreads];
    const ptrdiff_t parts = plan.parts(), stride = gridDim.x;
    const ptrdiff_t down = plan.tiles_down * kTileParts; /* what lies beyond has no counts */
    for (ptrdiff_t base = blockIdx.x; base < parts; base += stride * kRedoThreads) {
        const ptrdiff_t mine = base + stride * threadIdx.x;
        const bool own = mine < parts && plan.down(mine) < down && wanted(marked_in(plan, mine));
        some[threadIdx.x] = own;
        if (!__syncthreads_or(own)) {
            continue;
        }
#pragma unroll 1
        for (int i = 0; i < kRedoThreads; ++i) {
            if (some[i]) {
                const ptrdiff_t part = base + stride * i;
                f(plan.down(part) * kPart, plan.across(part) * kPart);
                __syncthreads(); /* nobody needs the shared memory of this part any more */
            }
        }
        __syncthreads();
    }
}

/* Differences of four elements and a group of dimensions, on their way from threads that read rows
 * side by side to threads that add up a fold each. Two numbers of padding keep the eight folds of
 * an element out of each other's banks. */
constexpr int kFolds = GD_GROUP / GD_FOLD, kAtOnce = 32 / kFolds, kFoldPitch = GD_FOLD + 2;
struct Few {
    double differences[kRedoWarps][kAtOnce][kFolds][kFoldPitch];
    double totals[kPart * kPart / 8];
    uint16_t elements[kPart * kPart / 8]; /* row * kPart + column, within the part */
    int count;
};

/* The marked elements of a part, in no particular order. */
__device__ __forceinline__ void list_elements(const Cdist<double> &call, ptrdiff_t row,
                                              ptrdiff_t col, Few &few)
{
    if (threadIdx.x == 0) {
        few.count = 0;
    }
    __syncthreads();
    const ptrdiff_t at_col = col + threadIdx.x % kPart;
#pragma unroll 4
    for (int i = threadIdx.x / kPart; i < kPart; i += kRedoThreads / kPart) {
        if (row + i < call.a.count && at_col < call.b.count &&
            is_marked(call.out[(row + i) * call.out_stride + at_col])) {
            few.elements[atomicAdd(&few.count, 1)] = (uint16_t)(i * kPart + threadIdx.x % kPart);
        }
    }
    __syncthreads();
}

/* Two dimensions of a row, zeros beyond the last: equal differences of 0 add nothing. Without
 * branches, so that the loads of all elements are under way at once. */
template <bool kWords>
__device__ __forceinline__ void fetch(const Points<double> &x, ptrdiff_t row, ptrdiff_t k,
                                      ptrdiff_t d, double *to)
{
    if constexpr (kWords) {
        load_word_const(x.data + row * x.row_stride + min(k, d - 2), to);
    }
    else {
        to[0] = x.at(row, min(k, d - 1));
        to[1] = x.at(row, min(k + 1, d - 1));
    }
    to[0] = k < d ? to[0] : 0.0;
    to[1] = k + 1 < d ? to[1] : 0.0;
}

/* Adds a group of dimensions to the totals of up to four elements, from `first` on. */
template <typename M, bool kWords>
__device__ __forceinline__ void add_group(const Cdist<double> &call, ptrdiff_t row, ptrdiff_t col,
                                          ptrdiff_t group, int first, Few &few)
{
    const int lane = threadIdx.x % 32;
    auto &differences = few.differences[threadIdx.x / 32];
    constexpr int kHalves = GD_GROUP / 64;
    double x[kAtOnce][kHalves][2], y[kAtOnce][kHalves][2];
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
        const int element = few.elements[min(first + e, few.count - 1)];
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
            const ptrdiff_t k = group + h * 64 + lane * 2;
            fetch<kWords>(call.a, row + element / kPart, k, call.d, x[e][h]);
            fetch<kWords>(call.b, col + element % kPart, k, call.d, y[e][h]);
        }
    }
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
            const int k = h * 64 + lane * 2;
            const double both[2] = {x[e][h][0] - y[e][h][0], x[e][h][1] - y[e][h][1]};
            store_word(&differences[e][k / GD_FOLD][k % GD_FOLD], both);
        }
    }
    __syncwarp();
    const int e = lane / kFolds, fold = lane % kFolds;
    double sum = 0, joined = 0;
#pragma unroll
    for (int k = 0; k < GD_FOLD; k += 2) {
        double both[2];
        load_word(&differences[e][fold][k], both);
        sum = M::term(sum, both[0], 0.0);
        sum = M::term(sum, both[1], 0.0);
    }
#pragma unroll
    for (int i = 0; i < kFolds; ++i) {
        joined = M::join(joined, __shfl_sync(~0u, sum, i, kFolds));
    }
    if (fold == 0 && first + e < few.count) {
        double &total = few.totals[first + e];
        total = group == 0 ? joined : M::join(total, joined);
    }
    __syncwarp(); /* nobody reads the differences any more */
}

/* Elements take turns within a group of dimensions: 128 rows' share of it stays in the cache. */
template <gd_metric kMetric, bool kWords>
__global__ void __launch_bounds__(kRedoThreads)
    redo_few(const __grid_constant__ Cdist<double> call, const __grid_constant__ Plan plan)
{
    using M = Metric<kMetric>;
    __shared__ alignas(16) Few few;
    const auto wanted = [](unsigned count) { return count > 0 && count < kMany<kMetric>; };
    for_parts(plan, wanted, [&](ptrdiff_t row, ptrdiff_t col) {
        list_elements(call, row, col, few);
        for (ptrdiff_t group = 0; group < call.d; group += GD_GROUP) {
            for (int first = threadIdx.x / 32 * kAtOnce; first < few.count;
                 first += kRedoWarps * kAtOnce) {
                add_group<M, kWords>(call, row, col, group, first, few);
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < few.count; i += kRedoThreads) {
            const int element = few.elements[i];
            call.out[(row + element / kPart) * call.out_stride + col + element % kPart] =
                M::finish(few.totals[i]);
        }
    });
}

}  // namespace tensor_f64
}  // namespace gd
#endif
