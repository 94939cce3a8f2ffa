/* periodic.cuh: differences of coordinates in a periodic box, with the bits that the CPU gives them
 * (csrc/cpu/box.h, which says why they are right).
 *
 * A coordinate's image is the place within half a length of 0 that it stands for. Two of them are
 * as far apart as the nearer way is: straight on, or over the end of the box. All of it is float64,
 * whatever coordinates are given in. */
#ifndef GPUDIST_COMMON_PERIODIC_CUH
#define GPUDIST_COMMON_PERIODIC_CUH

namespace gd {

/* Not inlined: hardly any coordinate is so far outside of the box. */
static __device__ __noinline__ double remainder_of(double x, double length)
{
    return remainder(x, length);
}

/* The image of x in a column of that length, above 0; x itself where it is infinite. */
static __device__ __forceinline__ double image_in(double x, double length)
{
    const double size = fabs(x), half = length / 2, left = size - length;
    if (!(size > half)) {
        return x;
    }
    /* The difference of numbers that are within a factor of 2 of each other is exact. */
    const bool near = size <= 2 * length && left <= half;
    return near ? copysign(1.0, x) * left : remainder_of(x, length);
}

/* How far two images are apart, of which `x_left` and `y_left` are half the length less their
 * sizes. */
__device__ __forceinline__ double apart_of(double x, double x_left, double y, double y_left)
{
    const double straight = fabs(x - y), over = x_left + y_left;
    return over < straight ? over : straight;
}

}  // namespace gd
#endif
