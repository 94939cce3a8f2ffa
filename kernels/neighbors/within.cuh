/* within.cuh: all elements of a panel that are within their row's limit, in the panel's order.
 *
 * A warp takes a segment of a row, 32 columns at a time, and counts those within; a second launch,
 * which is told where each segment's begin, writes them there. */
#ifndef GPUDIST_NEIGHBORS_WITHIN_CUH
#define GPUDIST_NEIGHBORS_WITHIN_CUH

#include "neighbors/keys.cuh"

namespace gd {

/* Rows' limits: keys up to `keys`, and of those at just that, where there is `last`, indices up to
 * it. */
template <typename T>
struct Limits {
    const double *keys;
    const int64_t *last;

    __device__ __forceinline__ T key(ptrdiff_t row) const
    {
        return keys != NULL ? (T)keys[row] : infinity<T>();
    }
};

constexpr int kWithinThreads = 256, kWithinDeep = 8;

/* Calls take(column, whether it is within) for 32 columns at a time where one is, one a lane. */
template <bool kLarger, typename T, typename Take>
__device__ __forceinline__ void walk_within(const Segment<T> &segment, T limit, int64_t last,
                                            Take &&take)
{
    constexpr int kStep = kWithinDeep * kWarp;
    const int lane = (int)(threadIdx.x % kWarp);
    for (ptrdiff_t column = 0; column < segment.cols; column += kStep) {
        if (column + kStep <= segment.cols &&
            !__any_sync(
                kAll, any_within<kLarger, kWithinDeep, kWarp>(segment.at + column + lane, limit))) {
            continue;
        }
#pragma unroll 1
        for (ptrdiff_t at = column; at < column + kStep; at += kWarp) {
            const T key = segment.template key<kLarger>(at + lane);
            take(at + lane, key <= limit && (key < limit || segment.index(at + lane) <= last));
        }
    }
}

template <typename T, bool kLarger>
__global__ void __launch_bounds__(kWithinThreads)
    list_within(const __grid_constant__ Panel<T> panel, Limits<T> limits,
                const __grid_constant__ gd_listed to)
{
    const ptrdiff_t number = blockIdx.x * (ptrdiff_t)(kWithinThreads / kWarp) + threadIdx.x / kWarp;
    const ptrdiff_t row = number / panel.segments;
    if (row >= panel.rows) {
        return;
    }
    const Segment<T> segment(panel, row, number % panel.segments);
    const T limit = limits.key(row);
    const int64_t last = limits.last != NULL ? limits.last[row] : kNobody;
    if (to.tallies != NULL) {
        int count = 0;
        walk_within<kLarger>(segment, limit, last,
                             [&](ptrdiff_t, bool within) { count += within; });
        for (int apart = kWarp / 2; apart > 0; apart /= 2) {
            count += __shfl_xor_sync(kAll, count, apart);
        }
        if (threadIdx.x % kWarp == 0) {
            to.tallies[number] = count;
        }
        return;
    }
    T *distances = (T *)to.distances + to.starts[number];
    int64_t *indices = to.indices + to.starts[number];
    const unsigned below_me = (1u << threadIdx.x % kWarp) - 1;
    walk_within<kLarger>(segment, limit, last, [&](ptrdiff_t column, bool within) {
        const unsigned all = __ballot_sync(kAll, within);
        const int at = __popc(all & below_me);
        if (within) {
            distances[at] = segment.at[column];
            indices[at] = segment.index(column);
        }
        distances += __popc(all);
        indices += __popc(all);
    });
}

}  // namespace gd
#endif
