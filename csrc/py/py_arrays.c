/* py_arrays.c: calls with small NumPy arrays without the detour over Python.
 *
 * Reading a call in Python takes some microseconds, in which the distances between dozens of points
 * are computed. So what most small calls are, matrices of numbers, a metric's name and perhaps a
 * number or weights, is read here. Whatever is not as simple is left to the usual way, errors
 * included: then the answer is None. */
#include "py_simple.h"

#include "../neighbors.h"
#include "../registry.h"

/* Whether it is a matrix of numbers with elements, and no subclass's, which may mean anything. */
static bool is_matrix(PyObject *value)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    if (!PyArray_CheckExact(value) || PyArray_NDIM(array) != 2 || PyArray_SIZE(array) == 0) {
        return false;
    }
    const int type = PyArray_TYPE(array);
    return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type);
}

static bool both_of(PyObject *a, PyObject *b, int type)
{
    return PyArray_TYPE((PyArrayObject *)a) == type && PyArray_TYPE((PyArrayObject *)b) == type;
}

static int type_of(gd_dtype dtype) { return dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64; }

/* An array, new or checked, whose elements follow each other, as so many rows. */
static gd_matrix matrix_of(PyObject *array, gd_dtype dtype, ptrdiff_t rows, ptrdiff_t cols)
{
    return (gd_matrix){.data = PyArray_DATA((PyArrayObject *)array),
                       .rows = rows,
                       .cols = cols,
                       .row_stride = cols,
                       .col_stride = 1,
                       .dtype = dtype,
                       .device = {GD_CPU, 0}};
}

/* None leaves the place to the chooser. */
static bool find_place(PyObject *device, gd_orders *orders)
{
    const bool on_cpu =
        PyUnicode_Check(device) && PyUnicode_CompareWithASCIIString(device, "cpu") == 0;
    orders->where = on_cpu ? GD_WHERE_CPU : GD_WHERE_AUTO;
    return on_cpu || device == Py_None;
}

/* The type of results, and of what is computed, that is asked for; None leaves the one that the
 * operands have. */
static bool find_dtype(PyObject *asked, gd_dtype *dtype)
{
    const bool single =
        (PyUnicode_Check(asked) && PyUnicode_CompareWithASCIIString(asked, "float32") == 0) ||
        asked == (PyObject *)&PyFloatArrType_Type;
    const bool wide =
        (PyUnicode_Check(asked) && PyUnicode_CompareWithASCIIString(asked, "float64") == 0) ||
        asked == (PyObject *)&PyDoubleArrType_Type;
    if (single || wide) {
        *dtype = single ? GD_F32 : GD_F64;
    }
    return single || wide || asked == Py_None;
}

/* Whether there are more pairs, of a row of a and what is along b's axis, than a small call's
 * result has numbers. It is asked before an operand is copied. */
static bool is_large(PyObject *a, PyObject *b, int axis)
{
    return (double)PyArray_DIM((PyArrayObject *)a, 0) *
               (double)PyArray_DIM((PyArrayObject *)b, axis) * sizeof(float) >
           (double)GD_MOST_BYTES_ON_HOST;
}

/* ---------------------------------------------------------------- distances */

/* A call with points: without b_object, NULL, both operands are one. */
typedef struct simple_call {
    PyObject *a_object, *b_object, *metric, *out, *device, *dtype_object, *arguments;
    gd_operand a, b;
    gd_measure measure;
    gd_orders orders;
    gd_dtype dtype;
} simple_call;

/* Reads the operands in the type of the computation, or truths as what they are where the metric
 * takes such. */
static bool read_operands(simple_call *c)
{
    PyObject *const b = c->b_object != NULL ? c->b_object : c->a_object;
    if (!is_matrix(c->a_object) || !is_matrix(b) || is_large(c->a_object, b, 0) ||
        !gd_read_simple_measure(c->metric, c->arguments,
                                PyArray_DIM((PyArrayObject *)c->a_object, 1), &c->measure)) {
        return false;
    }
    const bool weighted = c->measure.weights != NULL;
    const bool truths = gd_metric_info(c->measure.metric)->domain != GD_NUMBERS && !weighted &&
                        both_of(c->a_object, b, NPY_BOOL);
    c->dtype = both_of(c->a_object, b, NPY_FLOAT32) ? GD_F32 : GD_F64;
    return find_dtype(c->dtype_object, &c->dtype) &&
           (c->dtype == GD_F64 ||
            gd_weights_fit_f32(c->measure.weights, weighted ? c->measure.columns : 0)) &&
           gd_take_input(c->a_object, "XA", truths ? GD_BOOL : c->dtype, &c->orders, &c->a) &&
           (c->b_object == NULL ||
            gd_take_input(b, "XB", truths ? GD_BOOL : c->dtype, &c->orders, &c->b));
}

/* Whether the caller's array can be written to while the operands are read. What stops a call that
 * is not brief has to say how much of it is written. */
static bool can_take_theirs(const simple_call *c, const gd_matrix *b, const gd_matrix *out)
{
    const gd_matrix weights = {.data = (void *)(uintptr_t)c->measure.weights,
                               .rows = c->measure.weights != NULL,
                               .cols = c->measure.columns,
                               .col_stride = 1,
                               .dtype = GD_F64};
    return gd_is_brief(&c->a.matrix, b) && !gd_may_overlap(&c->a.matrix, out) &&
           !gd_may_overlap(b, out) && !gd_may_overlap(&weights, out);
}

/* The caller's array, or a new one; NULL where the usual way has to see to it. */
static PyObject *take_result(const simple_call *c, const gd_matrix *b, gd_matrix *matrix)
{
    const bool pairs = c->b_object == NULL, theirs = c->out != Py_None;
    const npy_intp m = c->a.matrix.rows, n = b->rows;
    const npy_intp shape[] = {pairs ? n * (n - 1) / 2 : m, n};
    const int axes = pairs ? 1 : 2, type = type_of(c->dtype);
    PyObject *out = theirs ? Py_NewRef(c->out) : PyArray_SimpleNew(axes, shape, type);
    PyArrayObject *const array = (PyArrayObject *)out;
    if (out == NULL) {
        return NULL;
    }
    if (PyArray_CheckExact(out) && PyArray_ISCARRAY(array) && PyArray_NDIM(array) == axes &&
        PyArray_TYPE(array) == type && PyArray_DIM(array, 0) == shape[0] &&
        (pairs || PyArray_DIM(array, 1) == shape[1])) {
        *matrix = matrix_of(out, c->dtype, pairs ? 1 : m, shape[axes - 1]);
        if (!theirs || can_take_theirs(c, b, matrix)) {
            return out;
        }
    }
    Py_DECREF(out);
    return NULL;
}

/* The distances, or None where the usual way has to see to it. */
static PyObject *compute(PyObject *module, simple_call *c)
{
    const bool pairs = c->b_object == NULL;
    const gd_matrix *const b = pairs ? &c->a.matrix : &c->b.matrix;
    PyObject *result = NULL;
    gd_matrix out;
    if (find_place(c->device, &c->orders) && read_operands(c) &&
        gd_fit_simply(&c->a.matrix, b, c->dtype, GD_MOST_BYTES_ON_HOST) &&
        !(pairs && b->rows < 2)) {
        result = take_result(c, b, &out);
    }
    if (result != NULL) {
        result = gd_run_simply(module, result, &c->a.matrix, pairs ? NULL : b, &out, &c->measure,
                               &c->orders);
    }
    else {
        PyErr_Clear(); /* where there is no memory, the usual way says so */
        result = Py_NewRef(Py_None);
    }
    gd_release(&c->a);
    gd_release(&c->b);
    return result;
}

GD_FUNCTION(gd_py_cdist_arrays)
{
    simple_call c = {
        .out = Py_None, .device = Py_None, .dtype_object = Py_None, .arguments = Py_None};
    const gd_arg spec[] = {{"a", gd_to_object, &c.a_object, true},
                           {"b", gd_to_object, &c.b_object, true},
                           {"metric", gd_to_object, &c.metric, true},
                           {"out", gd_to_object, &c.out, false},
                           {"device", gd_to_object, &c.device, false},
                           {"dtype", gd_to_object, &c.dtype_object, false},
                           {"arguments", gd_to_object, &c.arguments, false}};
    return gd_parse("cdist_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])
               ? compute(module, &c)
               : NULL;
}

GD_FUNCTION(gd_py_pdist_arrays)
{
    simple_call c = {
        .out = Py_None, .device = Py_None, .dtype_object = Py_None, .arguments = Py_None};
    const gd_arg spec[] = {{"x", gd_to_object, &c.a_object, true},
                           {"metric", gd_to_object, &c.metric, true},
                           {"out", gd_to_object, &c.out, false},
                           {"device", gd_to_object, &c.device, false},
                           {"dtype", gd_to_object, &c.dtype_object, false},
                           {"arguments", gd_to_object, &c.arguments, false}};
    return gd_parse("pdist_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])
               ? compute(module, &c)
               : NULL;
}

/* ---------------------------------------------------------------- neighbours */

/* The pair of distances and indices, or None where the usual way has to see to it. */
static PyObject *find_nearest(PyObject *module, simple_call *c, PyObject *k)
{
    const bool alone = c->b_object == NULL;
    const gd_matrix *const b = alone ? &c->a.matrix : &c->b.matrix;
    PyObject *distances = NULL, *indices = NULL, *result = NULL;
    gd_wanted wanted = {.self = alone ? 0 : -1};
    gd_error err;
    gd_status status = GD_OK;
    if (find_place(c->device, &c->orders) && read_operands(c) && c->a.matrix.cols == b->cols &&
        gd_is_brief(&c->a.matrix, b) && (wanted.most = gd_read_count(k, b->rows - alone)) > 0) {
        const npy_intp shape[] = {c->a.matrix.rows, wanted.most};
        distances = PyArray_SimpleNew(2, shape, type_of(c->dtype));
        indices = PyArray_SimpleNew(2, shape, NPY_INT64);
    }
    if (distances != NULL && indices != NULL) {
        const gd_matrix out = matrix_of(distances, c->dtype, c->a.matrix.rows, wanted.most);
        int64_t *const numbers = PyArray_DATA((PyArrayObject *)indices);
        Py_BEGIN_ALLOW_THREADS;
        status =
            gd_run_nearest(&c->a.matrix, b, &out, numbers, &wanted, &c->measure, &c->orders, &err);
        Py_END_ALLOW_THREADS;
        result = status == GD_OK ? PyTuple_Pack(2, distances, indices) : gd_raise(module, &err);
    }
    else {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    Py_XDECREF(distances);
    Py_XDECREF(indices);
    gd_release(&c->a);
    gd_release(&c->b);
    return result;
}

GD_FUNCTION(gd_py_nearest_arrays)
{
    PyObject *k;
    simple_call c = {.out = Py_None};
    const gd_arg spec[] = {{"a", gd_to_object, &c.a_object, true},
                           {"b", gd_to_object, &c.b_object, true},
                           {"k", gd_to_object, &k, true},
                           {"metric", gd_to_object, &c.metric, true},
                           {"device", gd_to_object, &c.device, true},
                           {"dtype", gd_to_object, &c.dtype_object, true},
                           {"arguments", gd_to_object, &c.arguments, true}};
    if (!gd_parse("nearest_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    c.b_object = c.b_object == Py_None ? NULL : c.b_object;
    return find_nearest(module, &c, k);
}

/* ---------------------------------------------------------------- products */

/* Whether it takes less than a millisecond or so, in which nobody wants to interrupt it. */
static bool is_brief_product(const gd_matrix *a, const gd_matrix *b)
{
    return (double)a->rows * (double)b->cols * (double)(a->cols + 1) <= 0x1p20;
}

GD_FUNCTION(gd_py_minplus_arrays)
{
    PyObject *a_object, *b_object, *name, *device, *dtype_object, *result = NULL;
    gd_operand a = {0}, b = {0};
    gd_orders orders = {0};
    gd_dtype dtype = GD_F64;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"semiring", gd_to_object, &name, true},
                           {"device", gd_to_object, &device, true},
                           {"dtype", gd_to_object, &dtype_object, true}};
    if (!gd_parse("minplus_arrays", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const char *text = PyUnicode_Check(name) ? gd_text(name, "semiring") : NULL;
    const int semiring = text != NULL ? gd_semiring_find(text) : -1;
    /* Whole numbers may stay such. */
    bool simple = semiring >= 0 && semiring != GD_OR_AND && find_place(device, &orders) &&
                  is_matrix(a_object) && is_matrix(b_object) && !is_large(a_object, b_object, 1) &&
                  PyArray_ISFLOAT((PyArrayObject *)a_object) &&
                  PyArray_ISFLOAT((PyArrayObject *)b_object);
    if (simple) {
        dtype = both_of(a_object, b_object, NPY_FLOAT32) ? GD_F32 : GD_F64;
        simple = find_dtype(dtype_object, &dtype) &&
                 gd_take_input(a_object, "A", (int)dtype, &orders, &a) &&
                 gd_take_input(b_object, "B", (int)dtype, &orders, &b) &&
                 a.matrix.cols == b.matrix.rows && is_brief_product(&a.matrix, &b.matrix);
    }
    if (simple) {
        const npy_intp shape[] = {a.matrix.rows, b.matrix.cols};
        result = PyArray_SimpleNew(2, shape, type_of(dtype));
    }
    if (result != NULL) {
        const gd_matrix none = {0};
        const gd_matrix out = matrix_of(result, dtype, a.matrix.rows, b.matrix.cols);
        Py_BEGIN_ALLOW_THREADS;
        status =
            gd_run_minplus(&a.matrix, &b.matrix, &none, &out, (gd_semiring)semiring, &orders, &err);
        Py_END_ALLOW_THREADS;
        if (status != GD_OK) {
            Py_DECREF(result);
            result = gd_raise(module, &err);
        }
    }
    else {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    gd_release(&a);
    gd_release(&b);
    return result;
}
