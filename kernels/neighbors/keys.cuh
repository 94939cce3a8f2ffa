/* keys.cuh: what neighbours are ordered by, and a panel of distances as kernels walk through it.
 *
 * A key is a distance, or minus a similarity: the smaller, the nearer. Candidates are ordered by
 * key and then by index, which is total; NaN is nobody's key. A place in a list that nobody has
 * taken is behind all who could: its key is infinity, and its index larger than any. */
#ifndef GPUDIST_NEIGHBORS_KEYS_CUH
#define GPUDIST_NEIGHBORS_KEYS_CUH

#include <math_constants.h>

#include "common/launch.cuh"

namespace gd {

constexpr int kWarp = 32;
constexpr unsigned kAll = ~0u;
constexpr int64_t kNobody = INT64_MAX;

template <typename T>
__device__ __forceinline__ T infinity()
{
    return sizeof(T) == 4 ? (T)CUDART_INF_F : (T)CUDART_INF;
}

/* What stands for a distance where there is no neighbour: the bits that C's NAN has. */
__device__ __forceinline__ float no_distance(float) { return __int_as_float(0x7fc00000); }
__device__ __forceinline__ double no_distance(double)
{
    return __longlong_as_double(0x7ff8000000000000ll);
}

/* The largest number that is smaller; of minus infinity NaN, as nothing is at most that. */
__device__ __forceinline__ float below(float x)
{
    const int bits = __float_as_int(x);
    return x == 0 ? -__int_as_float(1) : __int_as_float(x > 0 ? bits - 1 : bits + 1);
}
__device__ __forceinline__ double below(double x)
{
    const long long bits = __double_as_longlong(x);
    return x == 0 ? -__longlong_as_double(1) : __longlong_as_double(x > 0 ? bits - 1 : bits + 1);
}

/* A key of a distance, or back. */
template <bool kLarger, typename T>
__device__ __forceinline__ T key_of(T distance)
{
    return kLarger ? -distance : distance;
}

template <typename T>
__device__ __forceinline__ bool nearer(T x, int64_t i, T y, int64_t j)
{
    return x < y || (x == y && i < j);
}

/* Rows of distances. Each is cut into `segments` of `length` columns, of which a warp or a block
 * takes one. Element j of a row is row first + j of B, or indices[row * stride + j]; row i's own is
 * number own + i, which is no neighbour. */
template <typename T>
struct Panel {
    const T *data;
    const int64_t *indices;
    ptrdiff_t rows, cols, stride, segments, length;
    int64_t first;
    ptrdiff_t own; /* so small that no row has one, where A's rows are others */
};

/* One segment of a row. */
template <typename T>
struct Segment {
    const T *at;
    const int64_t *indices;
    ptrdiff_t cols, own;
    int64_t first;

    __device__ __forceinline__ Segment(const Panel<T> &panel, ptrdiff_t row, ptrdiff_t segment)
    {
        const ptrdiff_t begin = segment * panel.length, left = panel.cols - begin;
        at = panel.data + row * panel.stride + begin;
        indices = panel.indices != NULL ? panel.indices + row * panel.stride + begin : NULL;
        cols = left < panel.length ? left : panel.length;
        own = panel.own + row - begin;
        first = panel.first + begin;
    }
    __device__ __forceinline__ int64_t index(ptrdiff_t column) const
    {
        return indices != NULL ? indices[column] : first + column;
    }
    /* The key of a column, NaN beyond the last one and for the row's own. */
    template <bool kLarger>
    __device__ __forceinline__ T key(ptrdiff_t column) const
    {
        return column < cols && column != own ? key_of<kLarger>(at[column]) : no_distance(T{});
    }
};

/* Whether one of kDeep * kThreads elements from `column` on is at most the bound, for the thread's
 * own: element u of thread t is number u * kThreads + t. All are in the segment. */
template <bool kLarger, int kDeep, int kThreads, typename T>
__device__ __forceinline__ bool any_within(const T *at, T bound)
{
    T x[kDeep];
#pragma unroll
    for (int u = 0; u < kDeep; ++u) {
        x[u] = key_of<kLarger>(at[u * kThreads]);
    }
    bool any = false;
#pragma unroll
    for (int u = 0; u < kDeep; ++u) {
        any |= x[u] <= bound;
    }
    return any;
}

}  // namespace gd
#endif
