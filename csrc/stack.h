/* stack.h: the matrices of a batch, one by one or shared out. */
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

/* A batch as launchers on a device take it: its axes without those of length 1, and those along
 * which all of some operands lie evenly made one. */
enum { GD_MOST_STACKS = 6 };
typedef struct gd_axes {
    int count;
    ptrdiff_t shape[GD_MOST_AXES], strides[GD_MOST_STACKS][GD_MOST_AXES];
} gd_axes;
/* False if more than GD_MOST_AXES are left. */
bool gd_stack_merge(int axes, const ptrdiff_t *shape, const gd_stack *const *stacks, int count,
                    gd_axes *merged);

/* The matrices of one of the stacks that are not one another, or not beside one another's matrix of
 * the stack `beside`. */
gd_own gd_stack_own(const gd_axes *axes, int stack, int beside);

/* Computes the matrix of that number; what belongs to `member` of the team is scratch. */
typedef gd_status gd_stack_part(void *context, ptrdiff_t number, int member, gd_error *err);

/* Has `members` compute `count` matrices of so many inner steps each, one thread a matrix, from
 * number `first` on. Of those that fail the error is that of the smallest number, and those after
 * it may have been computed or not. */
gd_status gd_stack_share(const gd_launch *launch, int members, ptrdiff_t first, ptrdiff_t count,
                         double steps, gd_stack_part *part, void *context, gd_error *err);

/* Computes them one after the other, the whole team at each. */
gd_status gd_stack_in_turn(gd_watch *watch, ptrdiff_t first, ptrdiff_t count, gd_stack_part *part,
                           void *context, gd_error *err);

/* Puts before what the error says which matrix, or another `what`, it is about. */
gd_status gd_stack_blame(gd_error *err, const char *what, int axes, const ptrdiff_t *shape,
                         ptrdiff_t number);

#endif
