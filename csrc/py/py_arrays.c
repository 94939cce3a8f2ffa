/* py_arrays.c: cdist of small NumPy arrays without the detour over Python.
 *
 * Reading a call in Python takes some microseconds, in which the distances between dozens of points
 * are computed. So what most small calls are, two matrices of one dtype and a metric's name, is
 * read here. Whatever is not as simple is left to the usual way, errors included: then the answer
 * is None. */
#include "boundary.h"

#include "../registry.h"

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

static bool fit_each_other(const gd_matrix *a, const gd_matrix *b)
{
    ptrdiff_t bytes;
    return a->dtype == b->dtype && a->cols == b->cols &&
           !__builtin_mul_overflow(a->rows, b->rows, &bytes) &&
           !__builtin_mul_overflow(bytes, (ptrdiff_t)gd_dtype_size(a->dtype), &bytes) &&
           bytes <= MOST_BYTES;
}

GD_FUNCTION(gd_py_cdist_arrays)
{
    PyObject *a_object, *b_object, *metric, *result;
    gd_matrix a, b, out;
    gd_measure measure = {.p = 2};
    gd_orders orders = {.ordered = true};
    gd_attention attention = {0};
    gd_error err;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"metric", gd_to_object, &metric, true}};
    if (!gd_parse("cdist_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (!read_matrix(a_object, &a) || !read_matrix(b_object, &b) || !fit_each_other(&a, &b) ||
        !gd_find_simple_metric(metric, &measure.metric)) {
        Py_RETURN_NONE;
    }
    const npy_intp shape[] = {a.rows, b.rows};
    result = PyArray_SimpleNew(2, shape, a.dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64);
    if (result == NULL || !read_matrix(result, &out)) {
        Py_XDECREF(result);
        return NULL;
    }
    orders.watch = gd_let_go(&attention);
    const gd_status status = gd_run_cdist(&a, &b, &out, &measure, &orders, &err);
    gd_take_back(&attention);
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
