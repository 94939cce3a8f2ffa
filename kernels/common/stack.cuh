/* stack.cuh: the matrices of a batch: how many there are along its axes, and where each begins. */
#ifndef GPUDIST_COMMON_STACK_CUH
#define GPUDIST_COMMON_STACK_CUH

#include <stddef.h>

#include "gpudist.h"

namespace gd {

/* How many elements apart the matrices of an operand are along each axis, 0 where one stands for
 * all. */
struct Apart {
    ptrdiff_t along[GD_MOST_AXES];
};

struct Batch {
    int axes;
    unsigned shape[GD_MOST_AXES];

    /* Where matrix `number` begins. */
    __device__ __forceinline__ ptrdiff_t offset(const Apart &apart, ptrdiff_t number) const
    {
        unsigned left = (unsigned)number; /* a batch is no larger than a grid */
        ptrdiff_t offset = 0;
#pragma unroll
        for (int axis = GD_MOST_AXES - 1; axis > 0; --axis) {
            if (axis < axes) {
                offset += left % shape[axis] * apart.along[axis];
                left /= shape[axis];
            }
        }
        /* What is left is below the first length: mostly nothing has been divided. */
        return offset + left * apart.along[0];
    }
};

inline Batch batch_of(int axes, const ptrdiff_t *shape)
{
    Batch batch = {};
    batch.axes = axes;
    for (int axis = 0; axis < axes; ++axis) {
        batch.shape[axis] = (unsigned)shape[axis];
    }
    return batch;
}

}  // namespace gd
#endif
