/* order.cuh: what neighbours are ordered by.
 *
 * A key is a distance's bits, which for numbers that are not below 0 are in their order, and an
 * index. */
#ifndef GPUDIST_NEIGHBORS_BOXES_ORDER_CUH
#define GPUDIST_NEIGHBORS_BOXES_ORDER_CUH

#include "neighbors/boxes/plan.cuh"

namespace gd {
namespace boxes {

/* The number that a distance is ordered by first: all its bits, or the upper half of them. */
__device__ __forceinline__ unsigned word_of(float distance) { return __float_as_uint(distance); }
__device__ __forceinline__ unsigned word_of(double distance)
{
    return (unsigned)__double2hiint(distance);
}
/* A distance that is behind all others, NaN with the largest word. */
template <typename T>
__device__ __forceinline__ T behind_all()
{
    return sizeof(T) == sizeof(float) ? (T)__uint_as_float(~0u) : (T)__longlong_as_double(-1ll);
}

template <typename T>
struct Key;

template <>
struct Key<float> {
    unsigned long long bits;

    static __device__ __forceinline__ Key none() { return {~0ull}; }
    static __device__ __forceinline__ Key of(float distance, unsigned index)
    {
        return {(unsigned long long)__float_as_uint(distance) << 32 | index};
    }
    __device__ __forceinline__ float distance() const
    {
        return __uint_as_float((unsigned)(bits >> 32));
    }
    __device__ __forceinline__ unsigned index() const { return (unsigned)bits; }
    __device__ __forceinline__ unsigned word() const { return (unsigned)(bits >> 32); }
    __device__ __forceinline__ bool operator<(const Key &other) const { return bits < other.bits; }
    __device__ __forceinline__ Key from_lane(int lane) const
    {
        return {__shfl_sync(kAll, bits, lane)};
    }
};

template <>
struct Key<double> {
    unsigned long long bits;
    unsigned number;

    static __device__ __forceinline__ Key none() { return {~0ull, kNone}; }
    static __device__ __forceinline__ Key of(double distance, unsigned index)
    {
        return {(unsigned long long)__double_as_longlong(distance), index};
    }
    __device__ __forceinline__ double distance() const
    {
        return __longlong_as_double((long long)bits);
    }
    __device__ __forceinline__ unsigned index() const { return number; }
    __device__ __forceinline__ unsigned word() const { return (unsigned)(bits >> 32); }
    __device__ __forceinline__ bool operator<(const Key &other) const
    {
        return bits < other.bits || (bits == other.bits && number < other.number);
    }
    __device__ __forceinline__ Key from_lane(int lane) const
    {
        return {__shfl_sync(kAll, bits, lane), __shfl_sync(kAll, number, lane)};
    }
};

}  // namespace boxes
}  // namespace gd
#endif
