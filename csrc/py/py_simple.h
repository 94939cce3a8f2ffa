/* py_simple.h: calls of cdist with two matrices of one dtype and a metric's name, which most small
 * ones are; what is not as simple is left to the usual way. */
#ifndef GPUDIST_PY_SIMPLE_H
#define GPUDIST_PY_SIMPLE_H

#include "boundary.h"

/* The most bytes of a result on the host: larger ones are allocated with a look at memory that can
 * be used again. */
#define GD_MOST_BYTES_ON_HOST ((ptrdiff_t)1 << 20)

/* Whether the operands fit each other, and the result is of no more bytes than that. */
bool gd_fit_simply(const gd_matrix *a, const gd_matrix *b, ptrdiff_t most_bytes);
/* Whether it is a name, spelled as in the table, of a metric of numbers that needs no argument;
 * never an exception. */
bool gd_find_simple_metric(PyObject *name, gd_metric *metric);
/* Whether the caller's `out` is what a result has to be: dtype, device, shape, and rows that follow
 * each other. */
bool gd_can_hold(const gd_matrix *out, const gd_matrix *a, const gd_matrix *b);
/* Whether the two may have bytes in common. */
bool gd_may_overlap(const gd_matrix *x, const gd_matrix *y);
/* Whether kernels on the host can walk it: it has elements, and dense rows in ascending order. */
bool gd_is_walkable(const gd_matrix *matrix);
/* Whether it takes a moment, in which nobody can have wanted to interrupt it. */
bool gd_is_brief(const gd_matrix *a, const gd_matrix *b);
/* Computes `out`, the memory of `result`, whose reference it takes over. The orders say where; the
 * rest of them is filled in here. */
PyObject *gd_run_simply(PyObject *module, PyObject *result, const gd_matrix *a, const gd_matrix *b,
                        const gd_matrix *out, gd_metric metric, gd_orders *orders);

#endif
