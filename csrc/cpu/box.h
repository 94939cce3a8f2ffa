/* box.h: differences of coordinates in a periodic box.
 *
 * In a column of length L two coordinates are as far apart as their nearest images: the smallest
 * |x - y - k L| over all whole k. To subtract first and whole lengths then would leave the rounding
 * of x - y in a difference that may be far smaller. So each coordinate is replaced by its image in
 * [-L / 2, L / 2], which is exact (a remainder always is), and no two of them need more than these:
 *
 *   near  |x - y|
 *   far   (L / 2 - |x|) + (L / 2 - |y|), the way over the end of the box
 *
 * Where both have one sign, near is never the larger. Where they have not, the two add up to L, and
 * no digits cancel in either: both are within two roundings of what is exact. So is the smaller
 * one, which x and y may exchange. L / 2 and -L / 2, the same place, are 0 apart. Where L is
 * infinite, far is infinite or NaN, and near is what is taken. An infinite coordinate has no image:
 * it is NaN in a column that is periodic. */
#ifndef GPUDIST_CPU_BOX_H
#define GPUDIST_CPU_BOX_H

#include <math.h>
#include <stdbool.h>

#include "simd.h"

/* The image of x in a column of that length, above 0; x itself where it is infinite. */
static inline double gd_wrapped(double x, double length)
{
    const double size = fabs(x), half = length / 2;
    if (!(size > half)) {
        return x;
    }
    /* The difference of numbers that are within a factor of 2 of each other is exact. */
    const bool near = size <= 2 * length && size - length <= half;
    return near ? copysign(1, x) * (size - length) : remainder(x, length);
}

/* How far x and y are apart, of which `x_left` and `y_left` are the half length less their sizes.
 */
#define gd_apart(x, x_left, y, y_left) gd_min((x_left) + (y_left), gd_abs((x) - (y)))

#endif
