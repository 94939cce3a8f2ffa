/* py_simple.h: calls with matrices, a metric's name and arguments of it that are numbers or
 * weights, which most small ones are; what is not as simple is left to the usual way. */
#ifndef GPUDIST_PY_SIMPLE_H
#define GPUDIST_PY_SIMPLE_H

#include "py_stacks.h"

/* The most bytes of a result on the host: larger ones are allocated with a look at memory that can
 * be used again. */
#define GD_MOST_BYTES_ON_HOST ((ptrdiff_t)1 << 20)

/* A call for distances of matrices, one or many: the operands, of which `pairs` have no b, and the
 * result, of which only dtype and device are said at first. It stays where it is, as `matrices` has
 * parts of it. */
typedef struct gd_simple {
    gd_array a, b, out;
    bool pairs;
    gd_matrices matrices;
} gd_simple;

/* Completes what is there: both operands in the batch that they are broadcast to, by strides of 0,
 * and the result but for its memory. False, without an exception, where they do not fit each other,
 * have no elements, or cannot be walked where they are, or the result has more bytes. */
bool gd_join(gd_simple *call, ptrdiff_t most_bytes);
/* Whether the caller's array is what the result has to be (dtype, device, shape, elements that
 * follow each other), has no memory in common with operands and weights, and is written in a moment
 * if it is on the host: there a stopped call has to tell what is written. */
bool gd_is_room(const gd_simple *call, const gd_measure *measure, const gd_array *theirs);
/* The one matrix of an array that has two dimensions; false if kernels cannot walk it where it is.
 */
bool gd_to_matrix(const gd_array *array, gd_matrix *matrix);

/* A metric with its arguments. It stays where it is, as `measure` may have its arrays in it. */
enum { GD_FEW_COLUMNS = 64 };
typedef struct gd_simple_measure {
    gd_measure measure;
    double weights[GD_FEW_COLUMNS], box[GD_FEW_COLUMNS];
} gd_simple_measure;

/* Whether it is a name, spelled as in the table, of a metric that takes any number of columns, with
 * arguments of it, None or a dictionary, that are numbers, or vectors of so many: arrays of
 * float64, which stay where they are, or few numbers in a list or a tuple; never an exception. */
bool gd_read_simple_measure(PyObject *name, PyObject *arguments, ptrdiff_t columns,
                            gd_simple_measure *simple);
/* Whether sums of the dtype can be taken with its weights. */
bool gd_fits_simply(const gd_simple_measure *simple, gd_dtype dtype);
/* How many neighbours, a whole number of Python's; 0 where there are not so many. */
ptrdiff_t gd_read_count(PyObject *value, ptrdiff_t available);
/* Whether it takes a moment, in which nobody can have wanted to interrupt it. */
bool gd_is_brief(const gd_matrix *a, const gd_matrix *b);
bool gd_is_brief_product(const gd_matrix *a, const gd_matrix *b);
/* Computes a call that is joined into `memory`, that of `result`, whose reference it takes over.
 * The orders say where; the rest of them is filled in here. */
PyObject *gd_run_simply(PyObject *module, PyObject *result, void *memory, gd_simple *call,
                        const gd_measure *measure, gd_orders *orders);

#endif
