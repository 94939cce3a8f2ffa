/* without_panels.cuh: what blocks share that go from the caller's rows to results by themselves:
 * how results are finished, and computed again where they are suspect. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_WITHOUT_PANELS_CUH
#define GPUDIST_CDIST_PRODUCT_F64_WITHOUT_PANELS_CUH

#include "cdist/product_f64/rows.cuh"
#include "cdist/product/recompute/singles.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kUnpreparedWarps = 4, kUnpreparedThreads = kUnpreparedWarps * 32;

/* What results end by, of metrics whose rows are those of kRows. */
template <gd_metric kRows>
using EndOf = std::conditional_t<kRows == GD_SQEUCLIDEAN, Ended, Metric<kRows>>;

/* Finishes and stores the products of a unit of rows with some eights of columns. A lane's first
 * result is at (row, col), its rows' norms are norms[0] and norms[8], its columns' are `across`.
 * Returns which are to be computed again, in the order of a word of suspects, its last bit last. */
template <gd_metric kMetric, int kTiles>
__device__ __forceinline__ uint32_t store_products(const Cdist<double> &call, const Plan &plan,
                                                   const double (&sums)[kTiles][2][2],
                                                   ptrdiff_t row, ptrdiff_t col,
                                                   const double *norms,
                                                   const double (&across)[kTiles][2])
{
    uint32_t suspects = 0;
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
                suspects = suspects << 1 | (unsigned)(guard < 0 && there);
            }
            if (row + h * 8 < call.a.count) {
                run.store((h == 0 ? to : below) + run.first, results, start);
            }
        }
    }
    return suspects;
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

/* A block's suspect elements, as row * kListCols + column, and room to compute them. */
constexpr int kListCols = 64;
template <int kElements>
struct Unprepared {
    Singles<double> singles;
    unsigned listed;
    uint16_t list[kElements];

    /* Puts a lane's elements on the list, which another thread has emptied before a barrier. */
    template <typename F>
    __device__ __forceinline__ void append(uint32_t suspects, F &&place)
    {
        if (suspects == 0) {
            return;
        }
        unsigned to = atomicAdd(&listed, (unsigned)__popc(suspects));
#pragma unroll 1
        for (; suspects != 0; suspects &= suspects - 1) {
            list[to++] = (uint16_t)place(__ffs((int)suspects) - 1);
        }
    }

    /* Computes them, 32 at a time; a warp does it. */
    template <typename M, bool kWords>
    __device__ __forceinline__ void compute(const Cdist<double> &call, ptrdiff_t top,
                                            ptrdiff_t left)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll 1
        for (int first = 0; first < (int)listed; first += kLanes) {
            const int count = min((int)listed - first, kLanes);
            if (lane < count) {
                const int place = list[first + lane];
                singles.elements[lane] =
                    make_int2((int)top + place / kListCols, (int)left + place % kListCols);
            }
            __syncwarp();
            recompute_singles<M>(call, kWords, singles, 0, count);
        }
    }
};

/* That there are any suspects is all that anybody asks: so many adding them up would take longer,
 * and mostly the cache knows already. */
__device__ __forceinline__ void note_some(const Suspects &suspects)
{
    if (*suspects.total == 0) {
        *suspects.total = ~0ull;
    }
}

}  // namespace tensor_f64
}  // namespace gd
#endif
