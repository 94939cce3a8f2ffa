/* tensor_f64_alone.cuh: what blocks share that go from the caller's rows to results by themselves:
 * how results are finished, and computed again where they are marked. */
#ifndef GPUDIST_TENSOR_F64_ALONE_CUH
#define GPUDIST_TENSOR_F64_ALONE_CUH

#include "tensor_f64_rows.cuh"
#include "tensor_few.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kAloneWarps = 4, kAloneThreads = kAloneWarps * 32;

/* Finishes and stores the products of a unit of rows with some eights of columns. A lane's first
 * result is at (row, col), its rows' norms are norms[0] and norms[8], its columns' are `across`.
 * Returns which are to be computed again, in the order of a word of marks, its last bit last. */
template <gd_metric kMetric, int kTiles>
__device__ __forceinline__ uint32_t store_products(const Cdist<double> &call, const Plan &plan,
                                                   const double (&sums)[kTiles][2][2],
                                                   ptrdiff_t row, ptrdiff_t col,
                                                   const double *norms,
                                                   const double (&across)[kTiles][2])
{
    uint32_t marks = 0;
    double *const to = call.row(row), *const below = to + call.step(row, 8);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
        const Run<double> run(call, col + j * 8, 1);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int start = run.start(call, row + h * 8);
            double results[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                int guard;
                results[e] = Rules<kMetric>::result(sums[j][h][e], norms[h * 8], across[j][e],
                                                    plan.below, guard);
                const bool there = row + h * 8 < call.a.count && start <= e && e < run.count;
                marks = marks << 1 | (unsigned)(guard < 0 && there);
            }
            if (row + h * 8 < call.a.count) {
                run.store((h == 0 ? to : below) + run.first, results, start);
            }
        }
    }
    return marks;
}

/* A column's norm, which the lanes of `sum` have found, for the lanes that need it: those with
 * results in columns 2t and 2t + 1 of eight. */
template <gd_metric kMetric>
__device__ __forceinline__ void spread_norm(const Sum &sum, double (&across)[2])
{
    const double norm = norm_of<kMetric>(sum);
    across[0] = __shfl_sync(~0u, norm, threadIdx.x % 4 * 8);
    across[1] = __shfl_sync(~0u, norm, threadIdx.x % 4 * 8 + 4);
}

/* A block's marked elements, as row * kListCols + column, and room to compute them. */
constexpr int kListCols = 64;
template <int kElements>
struct Alone {
    Few<double> few;
    unsigned listed;
    uint16_t list[kElements];

    /* Puts a lane's elements on the list, which another thread has emptied before a barrier. */
    template <typename F>
    __device__ __forceinline__ void append(uint32_t marks, F &&place)
    {
        if (marks == 0) {
            return;
        }
        unsigned to = atomicAdd(&listed, (unsigned)__popc(marks));
#pragma unroll 1
        for (; marks != 0; marks &= marks - 1) {
            list[to++] = (uint16_t)place(__ffs((int)marks) - 1);
        }
    }

    /* Computes them, 32 at a time; a warp does it. */
    template <gd_metric kMetric, bool kWords>
    __device__ __forceinline__ void compute(const Cdist<double> &call, ptrdiff_t top,
                                            ptrdiff_t left)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll 1
        for (int first = 0; first < (int)listed; first += kLanes) {
            const int count = min((int)listed - first, kLanes);
            if (lane < count) {
                const int place = list[first + lane];
                few.elements[lane] =
                    make_int2((int)top + place / kListCols, (int)left + place % kListCols);
            }
            __syncwarp();
            redo_few<Metric<kMetric>>(call, kWords, few, 0, count);
        }
    }
};

/* That there are any marks is all that anybody asks: so many adding them up would take longer, and
 * mostly the cache knows already. */
__device__ __forceinline__ void note_some(const Marks &marks)
{
    if (*marks.total == 0) {
        *marks.total = ~0ull;
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
