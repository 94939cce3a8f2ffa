/* py_arrays.c: cdist of small NumPy arrays without the detour over Python.
 *
 * Reading a call in Python takes some microseconds, in which the distances between dozens of points
 * are computed. So what most small calls are, two matrices of one dtype and a metric's name, is
 * read here. Whatever is not as simple is left to the usual way, errors included: then the answer
 * is None. */
#include "../registry.h"
#include "py_simple.h"

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
    return gd_is_walkable(matrix);
}

/* None leaves the place to the chooser. */
static bool find_place(PyObject *device, gd_orders *orders)
{
    const bool on_cpu =
        PyUnicode_Check(device) && PyUnicode_CompareWithASCIIString(device, "cpu") == 0;
    orders->where = on_cpu ? GD_WHERE_CPU : GD_WHERE_AUTO;
    return on_cpu || device == Py_None;
}

/* The caller's array, or a new one; NULL where the usual way has to see to it. What stops a call
 * that is not brief has to say how much of the caller's is written. */
static PyObject *take_result(PyObject *given, const gd_matrix *a, const gd_matrix *b,
                             gd_matrix *matrix)
{
    const npy_intp shape[] = {a->rows, b->rows};
    const bool theirs = given != Py_None;
    PyObject *out =
        theirs ? Py_NewRef(given)
               : PyArray_SimpleNew(2, shape, a->dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64);
    if (out == NULL || !read_matrix(out, matrix) ||
        (theirs &&
         (!PyArray_ISCARRAY((PyArrayObject *)out) || !gd_can_hold(matrix, a, b) ||
          !gd_is_brief(a, b) || gd_may_overlap(a, matrix) || gd_may_overlap(b, matrix)))) {
        Py_CLEAR(out);
    }
    return out;
}

GD_FUNCTION(gd_py_cdist_arrays)
{
    PyObject *a_object, *b_object, *metric, *out_object = Py_None, *device = Py_None, *result;
    gd_orders orders = {0};
    gd_matrix a, b, out;
    gd_metric found;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"metric", gd_to_object, &metric, true},
                           {"out", gd_to_object, &out_object, false},
                           {"device", gd_to_object, &device, false}};
    if (!gd_parse("cdist_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (!read_matrix(a_object, &a) || !read_matrix(b_object, &b) ||
        !gd_fit_simply(&a, &b, GD_MOST_BYTES_ON_HOST) || !gd_find_simple_metric(metric, &found) ||
        !find_place(device, &orders) || (result = take_result(out_object, &a, &b, &out)) == NULL) {
        PyErr_Clear(); /* where there is no memory, the usual way says so */
        Py_RETURN_NONE;
    }
    return gd_run_simply(module, result, &a, &b, &out, found, &orders);
}
