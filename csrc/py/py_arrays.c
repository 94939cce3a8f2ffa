/* py_arrays.c: calls with small NumPy arrays without the detour over Python.
 *
 * Reading a call in Python takes some microseconds, in which the distances between dozens of points
 * are computed. So what most small calls are, matrices of numbers, a metric's name and perhaps a
 * number or weights, is read here. Whatever is not as simple is left to the usual way, errors
 * included: then the answer is None. */
#include "py_simple.h"

#include "../neighbors.h"
#include "../registry.h"

/* Whether it is a matrix of numbers with elements, or many, and no subclass's, which may mean
 * anything. */
static bool are_matrices(PyObject *value)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    if (!PyArray_CheckExact(value) || PyArray_NDIM(array) < 2 || PyArray_SIZE(array) == 0) {
        return false;
    }
    const int type = PyArray_TYPE(array);
    return PyTypeNum_ISFLOAT(type) || PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type);
}

static bool is_matrix(PyObject *value)
{
    return are_matrices(value) && PyArray_NDIM((PyArrayObject *)value) == 2;
}

static bool both_of(PyObject *a, PyObject *b, int type)
{
    return PyArray_TYPE((PyArrayObject *)a) == type && PyArray_TYPE((PyArrayObject *)b) == type;
}

static int type_of(gd_dtype dtype) { return dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64; }

/* An array, new or checked, whose elements follow each other, as so many rows. */
static gd_matrix matrix_of(PyObject *array, gd_dtype dtype, ptrdiff_t rows, ptrdiff_t cols)
{
    return gd_dense(PyArray_DATA((PyArrayObject *)array), rows, cols, dtype,
                    (gd_device){GD_CPU, 0});
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

/* Whether so many rows and columns are more than a small call's result has. It is asked before an
 * operand is copied. */
static bool is_large(ptrdiff_t rows, ptrdiff_t columns)
{
    return (double)rows * (double)columns * sizeof(float) > (double)GD_MOST_BYTES_ON_HOST;
}

/* ---------------------------------------------------------------- distances */

/* A call with points: without b_object, NULL, both operands are one. `owners` are what is read. */
typedef struct simple_call {
    PyObject *a_object, *b_object, *metric, *out, *device, *dtype_object, *arguments;
    PyObject *owners[2];
    gd_simple points;
    gd_simple_measure simple;
    gd_orders orders;
} simple_call;

/* Arrays in it are as large as all else together a hundred times, and are not to be cleared. */
static void begin(simple_call *c)
{
    c->a_object = c->b_object = c->owners[0] = c->owners[1] = NULL;
    c->out = c->device = c->dtype_object = c->arguments = Py_None;
    c->orders = (gd_orders){0};
}

static void release(simple_call *c)
{
    Py_XDECREF(c->owners[0]);
    Py_XDECREF(c->owners[1]);
}

static bool read_operand(PyObject *value, gd_dtype dtype, PyObject **owner, gd_array *array)
{
    *owner = gd_to_walkable(value, (int)dtype);
    return *owner != NULL && gd_take_array(NULL, *owner, "points", array) != 0;
}

/* Reads the operands in the type of the computation, or truths as what they are where the metric
 * takes such. */
static bool read_operands(simple_call *c)
{
    PyObject *const b = c->b_object != NULL ? c->b_object : c->a_object;
    if (!are_matrices(c->a_object) || !are_matrices(b)) {
        return false;
    }
    PyArrayObject *const first = (PyArrayObject *)c->a_object, *const second = (PyArrayObject *)b;
    const ptrdiff_t columns = PyArray_DIM(first, PyArray_NDIM(first) - 1);
    if (is_large(PyArray_SIZE(first) / columns, PyArray_DIM(second, PyArray_NDIM(second) - 2)) ||
        !gd_read_simple_measure(c->metric, c->arguments, columns, &c->simple)) {
        return false;
    }
    const gd_measure *const measure = &c->simple.measure;
    const bool truths = gd_metric_info(measure->metric)->domain != GD_NUMBERS &&
                        measure->weights == NULL && both_of(c->a_object, b, NPY_BOOL);
    gd_simple *const points = &c->points;
    gd_dtype dtype = both_of(c->a_object, b, NPY_FLOAT32) ? GD_F32 : GD_F64;
    if (!find_dtype(c->dtype_object, &dtype) || !gd_fits_simply(&c->simple, dtype)) {
        return false;
    }
    points->pairs = c->b_object == NULL;
    points->out.dtype = dtype;
    points->out.device = (gd_device){GD_CPU, 0};
    dtype = truths ? GD_BOOL : dtype;
    return read_operand(c->a_object, dtype, &c->owners[0], &points->a) &&
           (points->pairs || read_operand(b, dtype, &c->owners[1], &points->b));
}

/* The caller's array, or a new one; NULL where the usual way has to see to it. */
static PyObject *take_result(const simple_call *c)
{
    const gd_array *const out = &c->points.out;
    gd_array theirs;
    if (c->out == Py_None) {
        return PyArray_SimpleNew(out->ndim, out->shape, type_of(out->dtype));
    }
    return PyArray_CheckExact(c->out) && gd_take_array(NULL, c->out, "out", &theirs) != 0 &&
                   gd_is_room(&c->points, &c->simple.measure, &theirs)
               ? Py_NewRef(c->out)
               : NULL;
}

/* The distances, or None where the usual way has to see to it. */
static PyObject *compute(PyObject *module, simple_call *c)
{
    PyObject *result = NULL;
    if (find_place(c->device, &c->orders) && read_operands(c) &&
        gd_join(&c->points, GD_MOST_BYTES_ON_HOST)) {
        result = take_result(c);
    }
    if (result != NULL) {
        result = gd_run_simply(module, result, PyArray_DATA((PyArrayObject *)result), &c->points,
                               &c->simple.measure, &c->orders);
    }
    else {
        PyErr_Clear(); /* where there is no memory, the usual way says so */
        result = Py_NewRef(Py_None);
    }
    release(c);
    return result;
}

GD_FUNCTION(gd_py_cdist_arrays)
{
    simple_call c;
    begin(&c);
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
    simple_call c;
    begin(&c);
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
    PyObject *distances = NULL, *indices = NULL, *result = NULL;
    gd_wanted wanted = {.self = alone ? 0 : -1};
    gd_matrix a, b;
    gd_error err;
    gd_status status = GD_OK;
    if (find_place(c->device, &c->orders) && read_operands(c) && gd_to_matrix(&c->points.a, &a) &&
        gd_to_matrix(alone ? &c->points.a : &c->points.b, &b) && a.cols == b.cols &&
        gd_is_brief(&a, &b) && (wanted.most = gd_read_count(k, b.rows - alone)) > 0) {
        const npy_intp shape[] = {a.rows, wanted.most};
        distances = PyArray_SimpleNew(2, shape, type_of(c->points.out.dtype));
        indices = PyArray_SimpleNew(2, shape, NPY_INT64);
    }
    if (distances != NULL && indices != NULL) {
        const gd_matrix out = matrix_of(distances, c->points.out.dtype, a.rows, wanted.most);
        int64_t *const numbers = PyArray_DATA((PyArrayObject *)indices);
        Py_BEGIN_ALLOW_THREADS;
        status =
            gd_run_nearest(&a, &b, &out, numbers, &wanted, &c->simple.measure, &c->orders, &err);
        Py_END_ALLOW_THREADS;
        result = status == GD_OK ? PyTuple_Pack(2, distances, indices) : gd_raise(module, &err);
    }
    else {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    Py_XDECREF(distances);
    Py_XDECREF(indices);
    release(c);
    return result;
}

GD_FUNCTION(gd_py_nearest_arrays)
{
    PyObject *k;
    simple_call c;
    begin(&c);
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
                  is_matrix(a_object) && is_matrix(b_object) &&
                  !is_large(PyArray_DIM((PyArrayObject *)a_object, 0),
                            PyArray_DIM((PyArrayObject *)b_object, 1)) &&
                  PyArray_ISFLOAT((PyArrayObject *)a_object) &&
                  PyArray_ISFLOAT((PyArrayObject *)b_object);
    if (simple) {
        dtype = both_of(a_object, b_object, NPY_FLOAT32) ? GD_F32 : GD_F64;
        simple = find_dtype(dtype_object, &dtype) &&
                 gd_take_input(a_object, "A", (int)dtype, &orders, &a) &&
                 gd_take_input(b_object, "B", (int)dtype, &orders, &b) &&
                 a.matrix.cols == b.matrix.rows && gd_is_brief_product(&a.matrix, &b.matrix);
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
