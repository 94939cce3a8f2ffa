/* census.cuh: how many elements of a panel are in each bin, and sums of weights of those.
 *
 * A bin ends at a bound, inclusive. Counts are gathered in shared memory, for few bins by each lane
 * apart, since most elements may be in one bin, and added to the total at the end: whole numbers
 * have no order. Sums have: those of a row are added up by one thread, in the order of its
 * elements, as the CPU does; a warp brings a square of 32 rows by 32 columns at a time, which it
 * turns in shared memory. */
#ifndef GPUDIST_NEIGHBORS_CENSUS_CUH
#define GPUDIST_NEIGHBORS_CENSUS_CUH

#include "neighbors/keys.cuh"

namespace gd {

constexpr int kCensusThreads = 256, kCensusDeep = 8, kCensusRoom = 4096;

struct Bins {
    const double *bounds;
    ptrdiff_t count;

    __device__ __forceinline__ double last() const { return bounds[count - 1]; }
    /* The first bin whose bound a key is at most; it is at most the last one's. */
    __device__ __forceinline__ ptrdiff_t of(double key) const
    {
        ptrdiff_t first = 0, left = count - 1;
        while (left > 0) {
            const ptrdiff_t half = left / 2;
            if (key <= bounds[first + half]) {
                left = half;
            }
            else {
                first += half + 1;
                left -= half + 1;
            }
        }
        return first;
    }
};

/* What a block's threads count, in `gathered` with `copies` of each bin, or without copies in the
 * totals at once. */
template <int kThreads>
struct Tally {
    const Bins &bins;
    int copies, *gathered;
    unsigned long long *totals;

    __device__ __forceinline__ void begin() const
    {
        const int room = (int)bins.count * copies;
        for (int i = (int)threadIdx.x; i < room; i += kThreads) {
            gathered[i] = 0;
        }
        __syncthreads();
    }
    __device__ __forceinline__ void count(double key, int lane) const
    {
        const ptrdiff_t bin = bins.of(key);
        if (copies > 0) {
            atomicAdd(&gathered[bin * copies + lane % copies], 1);
        }
        else {
            atomicAdd(&totals[bin], 1ull);
        }
    }
    __device__ __forceinline__ void end() const
    {
        __syncthreads();
        for (int bin = (int)threadIdx.x; copies > 0 && bin < bins.count; bin += kThreads) {
            unsigned long long sum = 0;
            for (int copy = 0; copy < copies; ++copy) {
                sum += (unsigned)gathered[bin * copies + copy];
            }
            if (sum > 0) {
                atomicAdd(&totals[bin], sum);
            }
        }
    }
};

/* A warp takes a segment of a row. */
template <typename T, bool kLarger>
__global__ void __launch_bounds__(kCensusThreads)
    count_bins(const __grid_constant__ Panel<T> panel, Bins bins, int copies, int64_t *counts)
{
    constexpr int kStep = kCensusDeep * kWarp;
    __shared__ int gathered[kCensusRoom];
    const Tally<kCensusThreads> tally = {bins, copies, gathered,
                                         reinterpret_cast<unsigned long long *>(counts)};
    const int lane = (int)(threadIdx.x % kWarp);
    const ptrdiff_t number = blockIdx.x * (ptrdiff_t)(kCensusThreads / kWarp) + threadIdx.x / kWarp;
    tally.begin();
    if (number < panel.rows * panel.segments) {
        const Segment<T> segment(panel, number / panel.segments, number % panel.segments);
        const double last = bins.last();
        for (ptrdiff_t column = 0; column < segment.cols; column += kStep) {
            T x[kCensusDeep];
#pragma unroll
            for (int u = 0; u < kCensusDeep; ++u) {
                x[u] = segment.template key<kLarger>(column + u * kWarp + lane);
            }
#pragma unroll
            for (int u = 0; u < kCensusDeep; ++u) {
                if ((double)x[u] <= last) {
                    tally.count((double)x[u], lane);
                }
            }
        }
    }
    tally.end();
}

/* A warp a block takes 32 rows, a row a lane. `weights` are those of the panel's columns. */
template <typename T, bool kLarger>
__global__ void __launch_bounds__(kWarp)
    sum_bins(const __grid_constant__ Panel<T> panel, Bins bins, const double *weights, double *sums)
{
    __shared__ T square[kWarp][kWarp + 1];
    const int lane = (int)threadIdx.x;
    const ptrdiff_t first = blockIdx.x * (ptrdiff_t)kWarp, row = first + lane;
    const double last = bins.last();
    double *const mine = sums + row * bins.count;
    for (ptrdiff_t column = 0; column < panel.cols; column += kWarp) {
#pragma unroll
        for (int i = 0; i < kWarp; ++i) {
            const ptrdiff_t that = first + i < panel.rows ? first + i : panel.rows - 1;
            square[i][lane] = Segment<T>(panel, that, 0).template key<kLarger>(column + lane);
        }
        __syncwarp();
        for (int j = 0; j < kWarp && row < panel.rows; ++j) {
            const double key = (double)square[lane][j];
            if (key <= last) {
                mine[bins.of(key)] += weights[column + j];
            }
        }
        __syncwarp();
    }
}

}  // namespace gd
#endif
