/* arrange.cuh: points of B in the order of a curve through space, and boxes around them.
 *
 * A column's place is what share of a sample of B is below it, in 64 steps, and linear between
 * these: so tails, offsets and clusters leave no column with few places. Columns that spread less
 * than the widest one begin with as many zeros as that is wider in powers of two: what follows each
 * other on the curve then is near in space, not by ranks alone. The curve is Hilbert's, by J.
 * Skilling (Programming the Hilbert curve, AIP Conference Proceedings 707, 2004). Any order would
 * do for the answer; the curve decides how many boxes are looked at. */
#ifndef GPUDIST_NEIGHBORS_BOXES_ARRANGE_CUH
#define GPUDIST_NEIGHBORS_BOXES_ARRANGE_CUH

#include "neighbors/boxes/look.cuh"

namespace gd {
namespace boxes {

/* Bits of a place, and of these in each of so many columns; the first kSortedBits decide. */
constexpr int kPlaceBits = 64, kSortedBits = 48, kMostBits = 32;
__host__ __device__ constexpr int bits_of(int d)
{
    return kPlaceBits / d < kMostBits ? kPlaceBits / d : kMostBits;
}

/* A block finds a column's knots, of values from anywhere in B: regular places would meet regular
 * data. A thread compares a pair at a time, and reads no other. */
constexpr int kPairs = kSample / 2;
template <typename T, int kDims>
__global__ void __launch_bounds__(kPairs) find_knots(const __grid_constant__ Plan<T, kDims> plan)
{
    follow();
    __shared__ T values[kSample];
    const int i = (int)threadIdx.x, column = (int)blockIdx.x;
    const T most = sizeof(T) == sizeof(float) ? (T)(FLT_MAX / 4) : (T)(DBL_MAX / 4);
    for (int at = i; at < kSample; at += kPairs) {
        const double part = (at + (at + 1) * 2654435761u * 0x1p-32) / kSample;
        const ptrdiff_t row = (ptrdiff_t)(part * plan.count);
        const T x =
            (T)plan.place(plan.b, row < (ptrdiff_t)plan.count ? row : plan.count - 1, column);
        values[at] = x < -most ? -most : x < most ? x : most; /* NaN too is large */
    }
    for (int run = 2; run <= kSample; run *= 2) {
        for (int apart = run / 2; apart > 0; apart /= 2) {
            __syncthreads();
            const int at = 2 * i - (i & (apart - 1)), other = at + apart;
            const T x = values[at], y = values[other];
            if ((x > y) == ((at & run) == 0)) {
                values[at] = y;
                values[other] = x;
            }
        }
    }
    __syncthreads();
    if (i <= kKnots) {
        const int at = i * (kSample / kKnots);
        plan.knots[column * (kKnots + 1) + i] = values[at < kSample ? at : kSample - 1];
    }
    if (i == 0) {
        const T middle = values[kSample - kSample / 8] - values[kSample / 8];
        plan.spreads[column] = middle > 0 ? middle : values[kSample - 1] - values[0];
    }
}

/* The place of a value in a column, of so many bits. */
template <typename T>
__device__ __forceinline__ unsigned place_in(const T *knots, T x, int bits)
{
    int at = 0;
#pragma unroll
    for (int step = kKnots / 2; step > 0; step /= 2) {
        at += knots[at + step] <= x ? step : 0;
    }
    const T low = knots[at], width = knots[at + 1] - low;
    const double share = width > 0 ? (double)((x - low) / width) : 0;
    const double inside = share < 0 ? 0 : share < 0x1.ffffffp-1 ? share : 0x1.ffffffp-1;
    return (unsigned)((at + inside) * (1.0 / kKnots) * (double)(1ull << bits));
}

/* The place on the curve of one that has these in `d` columns, of `bits` each. */
template <int kDims>
__device__ __forceinline__ uint64_t place_on_curve(unsigned (&x)[kDims], int d, int bits)
{
    const unsigned top = 1u << (bits - 1);
    unsigned last = 0, turned = 0;
    for (unsigned bit = top; bit > 1;
         bit /= 2) { /* each half of space is turned to meet the next */
        const unsigned below = bit - 1;
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            if (k < d) {
                const unsigned changed = (x[0] ^ x[k]) & below;
                if (x[k] & bit) {
                    x[0] ^= below;
                }
                else {
                    x[0] ^= changed;
                    x[k] ^= changed;
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < kDims; ++k) { /* Gray's code */
        x[k] ^= k > 0 && k < d ? x[k > 0 ? k - 1 : 0] : 0;
        last = k < d ? x[k] : last;
    }
    for (unsigned bit = top; bit > 1; bit /= 2) {
        turned ^= last & bit ? bit - 1 : 0;
    }
    uint64_t place = 0;
    for (int bit = bits - 1; bit >= 0; --bit) {
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            place = k < d ? place << 1 | ((x[k] ^ turned) >> bit & 1) : place;
        }
    }
    return place;
}

/* Places of the rows of `points`, B or some of A. */
template <typename T, int kDims>
__global__ void __launch_bounds__(kThreads) find_places(const __grid_constant__ Plan<T, kDims> plan,
                                                        const __grid_constant__ Points<T> points)
{
    follow();
    __shared__ T knots[kDims][kKnots + 1];
    __shared__ int zeros[kDims];
    for (int i = (int)threadIdx.x; i < plan.d * (kKnots + 1); i += kThreads) {
        knots[i / (kKnots + 1)][i % (kKnots + 1)] = plan.knots[i];
    }
    if ((int)threadIdx.x < plan.d) {
        double widest = 0;
        for (int k = 0; k < plan.d; ++k) {
            widest = plan.spreads[k] > widest ? (double)plan.spreads[k] : widest;
        }
        const double times = widest / (double)plan.spreads[threadIdx.x];
        const double steps = times >= 1 ? log2(times) : plan.bits;
        zeros[threadIdx.x] = (int)(steps < plan.bits - 1 ? steps : plan.bits - 1);
    }
    __syncthreads();
    const ptrdiff_t row = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (row >= points.count) {
        return;
    }
    unsigned x[kDims] = {};
    bool is_nan = false;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        if (k < plan.d) {
            const T value = (T)plan.place(points, row, k);
            is_nan |= value != value;
            x[k] = place_in(knots[k], value, plan.bits) >> zeros[k];
        }
    }
    plan.places[row] = is_nan ? ~(uint64_t)0 : place_on_curve<kDims>(x, plan.d, plan.bits);
    plan.numbers[row] = (unsigned)row;
}

/* A box in the making, of the lanes of a warp. */
template <typename T, int kDims>
struct Box {
    T low[kDims], high[kDims];
    unsigned least;

    /* The box around those of all lanes, in all lanes. */
    __device__ __forceinline__ void join()
    {
#pragma unroll
        for (int apart = kWarp / 2; apart > 0; apart /= 2) {
#pragma unroll
            for (int k = 0; k < kDims; ++k) {
                const T lower = __shfl_xor_sync(kAll, low[k], apart);
                const T higher = __shfl_xor_sync(kAll, high[k], apart);
                low[k] = lower < low[k] ? lower : low[k];
                high[k] = higher > high[k] ? higher : high[k];
            }
        }
        least = least_of_warp(least);
    }
    /* Writes it as a node's. By one thread. */
    __device__ __forceinline__ void write(const Plan<T, kDims> &plan, int level,
                                          unsigned node) const
    {
        const unsigned place = node % kWarp;
        T *const to = plan.ends[level] + (ptrdiff_t)(node / kWarp) * (2 * kDims * kWarp) + place;
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            to[2 * k * kWarp] = low[k];
            to[(2 * k + 1) * kWarp] = high[k];
        }
        plan.least[level][node] = least;
    }
};

/* A warp a leaf: its points, and the box around those that are in order. */
template <typename T, int kDims>
__global__ void __launch_bounds__(kThreads) fill_leaves(const __grid_constant__ Plan<T, kDims> plan)
{
    follow();
    const unsigned leaf = blockIdx.x * kWarps + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    if (leaf >= plan.leaves()) {
        return;
    }
    const ptrdiff_t place = (ptrdiff_t)leaf * kWarp + lane;
    const bool there = place < (ptrdiff_t)plan.count;
    const unsigned index = there ? plan.index[place] : kNone;
    T x[kDims];
    bool is_nan = false;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const double exact = there && k < plan.d ? plan.place(plan.b, index, k) : 0;
        const ptrdiff_t at = ((ptrdiff_t)leaf * kDims + k) * kWarp + lane;
        x[k] = there ? (T)exact : behind_all<T>();
        is_nan |= x[k] != x[k];
        plan.points[at] = x[k];
        if (sizeof(T) < sizeof(double) && plan.periodic) {
            plan.images[at] = there ? exact : behind_all<double>();
        }
    }
    if (!there) {
        plan.index[place] = kNone;
    }
    const bool inside = there && (!is_nan || plan.drops_nan);
    Box<T, kDims> box;
    box.least = inside ? index : kNone;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const bool open = x[k] != x[k]; /* at no distance in this column: as near as can be */
        box.low[k] = !inside ? infinity<T>() : open ? -infinity<T>() : x[k];
        box.high[k] = !inside ? -infinity<T>() : open ? infinity<T>() : x[k];
    }
    box.join();
    if (lane == 0) {
        box.write(plan, 0, leaf);
    }
}

/* A warp a node of a level above the leaves. */
template <typename T, int kDims>
__global__ void __launch_bounds__(kThreads)
    fill_level(const __grid_constant__ Plan<T, kDims> plan, int level)
{
    follow();
    const unsigned node = blockIdx.x * kWarps + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    if (node >= plan.nodes[level]) {
        return;
    }
    const unsigned child = node * kWarp + lane;
    const bool there = child < plan.nodes[level - 1];
    const T *const from = plan.ends[level - 1] + (ptrdiff_t)node * (2 * kDims * kWarp) + lane;
    Box<T, kDims> box;
    box.least = there ? plan.least[level - 1][child] : kNone;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        box.low[k] = there ? from[2 * k * kWarp] : infinity<T>();
        box.high[k] = there ? from[(2 * k + 1) * kWarp] : -infinity<T>();
    }
    box.join();
    if (lane == 0) {
        box.write(plan, level, node);
    }
}

}  // namespace boxes
}  // namespace gd
#endif
