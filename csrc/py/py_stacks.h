/* py_stacks.h: arrays of any number of dimensions, whose last ones are matrices. */
#ifndef GPUDIST_PY_STACKS_H
#define GPUDIST_PY_STACKS_H

#include "boundary.h"

enum { GD_MOST_DIMENSIONS = 64 };

/* What is taken of an array; it borrows from the argument. Strides count bytes. */
typedef struct gd_array {
    void *data;
    int ndim;
    bool writeable;
    ptrdiff_t shape[GD_MOST_DIMENSIONS], strides[GD_MOST_DIMENSIONS];
    gd_dtype dtype;
    gd_device device;
} gd_array;

/* Takes an array of NumPy, a tensor of PyTorch, or the description of an array on a device
 * (gpudist/arrays.py); 1, or 0 with an exception that names `name`. */
int gd_take_array(gd_module_state *state, PyObject *value, const char *name, gd_array *array);
/* One of the two latter alone; of the description 1, 0, or -1 if it is none. */
int gd_take_tensor(const gd_module_state *state, PyObject *from, const char *name, gd_array *array);
int gd_take_description(PyObject *value, const char *name, gd_array *array);
/* Its matrices: the last axes, two, or for the pairs of a result one; the strides of the others are
 * the array's own. Unless it is `strided`, rows have to be dense and in ascending order. */
int gd_take_stack(const gd_array *array, const char *name, int axes, int matrix_axes, bool strided,
                  gd_stack *stack);
/* An operand, or a result, with the array that it is taken from. */
typedef struct gd_taken {
    gd_array array;
    gd_stack *stack;
    bool on_host; /* it has to be */
} gd_taken;

/* Takes what is read. Its batch is that of the result; strides of 0 make it so. */
int gd_take_operand(PyObject *module, PyObject *value, const char *name, const gd_taken *out,
                    int axes, int matrix_axes, bool strided, gd_taken *taken);
/* Takes what is written to, and from it the number of matrices along `axes`, or along as many as
 * it has, which *axes is set to, where that is negative. */
int gd_take_result(PyObject *module, PyObject *value, const char *name, int matrix_axes, int *axes,
                   ptrdiff_t *count, gd_taken *taken);
/* The stream of the caller's work on the device of a tensor of PyTorch becomes that of the orders,
 * unless they have one; 1, or 0 with an exception. */
int gd_take_stream(gd_module_state *state, const gd_array *array, gd_orders *orders);

#endif
