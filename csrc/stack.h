/* stack.h: the matrices of a batch. */
#ifndef GPUDIST_STACK_H
#define GPUDIST_STACK_H

#include "gpudist.h"

/* The matrix of that number, along axes of these lengths. */
static inline gd_matrix gd_stack_at(const gd_stack *stack, int axes, const ptrdiff_t *shape,
                                    ptrdiff_t number)
{
    gd_matrix matrix = stack->first;
    ptrdiff_t offset = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
        offset += number % shape[axis] * stack->strides[axis];
        number /= shape[axis];
    }
    matrix.data = (char *)matrix.data + offset;
    return matrix;
}

#endif
