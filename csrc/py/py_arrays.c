/* py_arrays.c: cdist of small NumPy arrays without the detour over Python.
 *
 * Reading a call in Python takes some microseconds, in which the distances between dozens of points
 * are computed. So what most small calls are, two matrices of one dtype and a metric's name, is
 * read here. Whatever is not as simple is left to the usual way, errors included: then the answer
 * is None. */
#include "py_simple.h"

/* Of the result: larger ones are allocated with a look at memory that can be used again. */
#define MOST_BYTES ((ptrdiff_t)1 << 20)

/* Whether it is a matrix of floats, and no subclass's, which may mean anything. */
static bool read_matrix(PyObject *value, gd_matrix *matrix)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    if (!PyArray_CheckExact(value) || PyArray_NDIM(array) != 2 || !PyArray_ISBEHAVED_RO(array) ||
        (PyArray_TYPE(array) != NPY_FLOAT32 && PyArray_TYPE(array) != NPY_FLOAT64)) {
        return false;
    }
    const npy_intp size = PyArray_ITEMSIZE(array);
    *matrix = (gd_matrix){
        .data = PyArray_DATA(array),
        .rows = PyArray_DIM(array, 0),
        .cols = PyArray_DIM(array, 1),
        .row_stride = PyArray_STRIDE(array, 0) / size,
        .col_stride = PyArray_STRIDE(array, 1) / size,
        .dtype = PyArray_TYPE(array) == NPY_FLOAT32 ? GD_F32 : GD_F64,
        .device = {GD_CPU, 0},
    };
    return matrix->col_stride == 1 && matrix->row_stride >= matrix->cols && matrix->rows > 0 &&
           matrix->cols > 0;
}

GD_FUNCTION(gd_py_cdist_arrays)
{
    PyObject *a_object, *b_object, *metric, *result;
    gd_matrix a, b, out;
    gd_metric found;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"metric", gd_to_object, &metric, true}};
    if (!gd_parse("cdist_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (!read_matrix(a_object, &a) || !read_matrix(b_object, &b) ||
        !gd_fit_simply(&a, &b, MOST_BYTES) || !gd_find_simple_metric(metric, &found)) {
        Py_RETURN_NONE;
    }
    const npy_intp shape[] = {a.rows, b.rows};
    result = PyArray_SimpleNew(2, shape, a.dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64);
    if (result == NULL || !read_matrix(result, &out)) {
        Py_XDECREF(result);
        return NULL;
    }
    return gd_run_simply(module, result, &a, &b, &out, found, NULL);
}
