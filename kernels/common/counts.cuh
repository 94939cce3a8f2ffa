/* counts.cuh: distances of truths from four counts, with the bits that all kernels of truths give.
 */
#ifndef GPUDIST_COMMON_COUNTS_CUH
#define GPUDIST_COMMON_COUNTS_CUH

#include <math.h>

#include "common/metrics.cuh"

namespace gd {

/* The upper half of a whole number says it, and a comparison of float64 would take the pipe that
 * divides. */
__device__ __forceinline__ bool is_zero(float x) { return x == 0; }
__device__ __forceinline__ bool is_zero(double x) { return __double2hiint(x) == 0; }

/* A number that divides by the quick quotient. Good for what counts can be: whole numbers, and
 * zero. */
template <typename R>
struct Count {
    R value;

    Count() = default;
    __device__ __forceinline__ Count(R x) : value(x) {}
    __device__ __forceinline__ explicit operator R() const { return value; }
    friend __device__ __forceinline__ Count operator+(Count x, Count y)
    {
        return x.value + y.value;
    }
    friend __device__ __forceinline__ Count operator-(Count x, Count y)
    {
        return x.value - y.value;
    }
    friend __device__ __forceinline__ Count operator*(Count x, Count y)
    {
        return x.value * y.value;
    }
    friend __device__ __forceinline__ Count operator/(Count x, Count y)
    {
        const R exact = quotient(x.value, y.value);
        return is_zero(y.value) ? x.value * R(HUGE_VAL) : exact; /* infinity, or NaN for 0 / 0 */
    }
    /* Numbers are compared with 0 alone. */
    friend __device__ __forceinline__ bool operator==(Count x, int) { return is_zero(x.value); }
};

GD_DEFINE_FINISH_TRUTHS(__device__ __forceinline__, finish_truths, Count<float>)
GD_DEFINE_FINISH_TRUTHS(__device__ __forceinline__, finish_truths, Count<double>)

/* The distance of two rows of so many columns, from the columns that are true in both, and in each
 * of them. */
template <typename R>
__device__ __forceinline__ R distance_of_counts(gd_metric metric, R both, R x, R y, R columns)
{
    const R only_y = y - both;
    return finish_truths(metric, both, x - both, only_y, columns - x - only_y);
}

}  // namespace gd
#endif
