/* py_simple.h: calls with matrices, a metric's name and arguments of it that are numbers or
 * weights, which most small ones are; what is not as simple is left to the usual way. */
#ifndef GPUDIST_PY_SIMPLE_H
#define GPUDIST_PY_SIMPLE_H

#include "boundary.h"

/* The most bytes of a result on the host: larger ones are allocated with a look at memory that can
 * be used again. */
#define GD_MOST_BYTES_ON_HOST ((ptrdiff_t)1 << 20)

/* Whether the operands fit each other, and the result, of that dtype, is of no more bytes. */
bool gd_fit_simply(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype, ptrdiff_t most_bytes);
/* Whether it is a name, spelled as in the table, of a metric that takes any number of columns, with
 * arguments of it, None or a dictionary, that are `p`, `base`, or weights of so many columns in
 * float64; never an exception. Weights stay where they are. */
bool gd_read_simple_measure(PyObject *name, PyObject *arguments, ptrdiff_t columns,
                            gd_measure *measure);
/* How many neighbours, a whole number of Python's; 0 where there are not so many. */
ptrdiff_t gd_read_count(PyObject *value, ptrdiff_t available);
/* Whether the caller's `out` is what a result of that dtype has to be: device, shape, and rows that
 * follow each other. */
bool gd_can_hold(const gd_matrix *out, gd_dtype dtype, const gd_matrix *a, const gd_matrix *b);
/* Whether the two may have bytes in common. */
bool gd_may_overlap(const gd_matrix *x, const gd_matrix *y);
/* Whether kernels on the host can walk it: it has elements, and dense rows in ascending order. */
bool gd_is_walkable(const gd_matrix *matrix);
/* Whether it takes a moment, in which nobody can have wanted to interrupt it. */
bool gd_is_brief(const gd_matrix *a, const gd_matrix *b);
/* Computes `out`, the memory of `result`, whose reference it takes over: distances of the rows of a
 * and b, or of every two rows of a if b is NULL. The orders say where; the rest of them is filled
 * in here. */
PyObject *gd_run_simply(PyObject *module, PyObject *result, const gd_matrix *a, const gd_matrix *b,
                        const gd_matrix *out, const gd_measure *measure, gd_orders *orders);

#endif
