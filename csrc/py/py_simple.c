/* py_simple.c: what small calls on the host and on a device have in common. */
#include "py_simple.h"

#include <float.h>

#include "../registry.h"

bool gd_fit_simply(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype, ptrdiff_t most_bytes)
{
    ptrdiff_t bytes;
    return a->dtype == b->dtype && gd_same_device(a, b) && a->cols == b->cols &&
           !__builtin_mul_overflow(a->rows, b->rows, &bytes) &&
           !__builtin_mul_overflow(bytes, (ptrdiff_t)gd_dtype_size(dtype), &bytes) &&
           bytes <= most_bytes;
}

bool gd_can_hold(const gd_matrix *out, gd_dtype dtype, const gd_matrix *a, const gd_matrix *b)
{
    return out->dtype == dtype && gd_same_device(out, a) && out->rows == a->rows &&
           out->cols == b->rows && out->col_stride == 1 && out->row_stride == out->cols;
}

bool gd_may_overlap(const gd_matrix *x, const gd_matrix *y)
{
    const gd_matrix *const both[] = {x, y};
    uintptr_t begin[2], end[2];
    for (int i = 0; i < 2; ++i) {
        const gd_matrix *const z = both[i];
        const ptrdiff_t down = (z->rows - 1) * z->row_stride, along = (z->cols - 1) * z->col_stride;
        const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(z->dtype);
        if (z->rows == 0 || z->cols == 0) {
            return false;
        }
        begin[i] = (uintptr_t)z->data +
                   (uintptr_t)(((down < 0 ? down : 0) + (along < 0 ? along : 0)) * size);
        end[i] = (uintptr_t)z->data +
                 (uintptr_t)(((down > 0 ? down : 0) + (along > 0 ? along : 0) + 1) * size);
    }
    return begin[0] < end[1] && begin[1] < end[0];
}

/* A number of Python's or a double of NumPy's: others may become one in ways of their own. */
static bool read_number(PyObject *value, double *number)
{
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) &&
        !PyArray_IsScalar(value, Double)) {
        return false;
    }
    *number = PyFloat_AsDouble(value);
    return PyErr_Occurred() == NULL;
}

static bool read_weights(PyObject *value, ptrdiff_t columns, gd_measure *measure)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    if (!PyArray_CheckExact(value) || PyArray_NDIM(array) != 1 ||
        PyArray_TYPE(array) != NPY_FLOAT64 || !PyArray_ISCARRAY_RO(array) ||
        PyArray_DIM(array, 0) != columns) {
        return false;
    }
    measure->weights = PyArray_DATA(array);
    measure->columns = columns;
    bool negative = false;
    for (ptrdiff_t k = 0; k < columns; ++k) {
        negative |= measure->weights[k] < 0;
    }
    return !negative;
}

static bool read_arguments(PyObject *arguments, ptrdiff_t columns, int takes, gd_measure *measure)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(arguments, &at, &name, &value)) {
        const bool is_w = PyUnicode_CompareWithASCIIString(name, "w") == 0;
        const bool is_p = PyUnicode_CompareWithASCIIString(name, "p") == 0;
        if (is_w && value == Py_None) {
            continue;
        }
        if (is_w   ? !(takes & GD_TAKES_W) || !read_weights(value, columns, measure)
            : is_p ? !(takes & GD_TAKES_P) || !read_number(value, &measure->p) || !(measure->p > 0)
                   : PyUnicode_CompareWithASCIIString(name, "base") != 0 ||
                         !(takes & GD_TAKES_BASE) || !read_number(value, &measure->base) ||
                         !(measure->base > 0) || measure->base == 1) {
            return false;
        }
    }
    /* Of a largest difference weights only say which columns count. */
    return measure->weights == NULL || (measure->metric != GD_CHEBYSHEV && measure->p <= DBL_MAX);
}

bool gd_read_simple_measure(PyObject *name, PyObject *arguments, ptrdiff_t columns,
                            gd_measure *measure)
{
    const char *text = PyUnicode_Check(name) ? gd_text(name, "metric") : NULL;
    const int found = text != NULL ? gd_metric_find(text) : -1;
    bool simple = found >= 0;
    if (simple) {
        const gd_metric_row *row = gd_metric_info((gd_metric)found);
        *measure = (gd_measure){.metric = (gd_metric)found, .p = 2};
        simple =
            row->columns == 0 && !(row->takes & (GD_TAKES_V | GD_TAKES_VI)) &&
            (arguments == Py_None ||
             (PyDict_Check(arguments) && read_arguments(arguments, columns, row->takes, measure)));
    }
    PyErr_Clear();
    return simple;
}

ptrdiff_t gd_read_count(PyObject *value, ptrdiff_t available)
{
    const Py_ssize_t count = PyLong_CheckExact(value) ? PyLong_AsSsize_t(value) : 0;
    PyErr_Clear();
    return count > 0 && count <= available ? count : 0;
}

/* Inner steps: on the host 10 ms of the slowest metric, on a device what nobody cuts up (watch.c).
 */
#define BRIEF_ON_HOST 0x1p20
#define BRIEF_ON_CUDA 0x1p35
/* Python's lock is kept over so many on the host, some microseconds: to give it up and to get it
 * back takes a tenth of that. */
#define MOMENTARY 0x1p13

/* A division, a root or a logarithm takes as long as so many additions. */
#define STEPS_OF_COSTLY 8

static double steps_of(const gd_matrix *a, const gd_matrix *b)
{
    return (double)a->rows * (double)b->rows * (double)(a->cols + 1);
}

bool gd_is_walkable(const gd_matrix *matrix)
{
    return matrix->col_stride == 1 && matrix->row_stride >= matrix->cols && matrix->rows > 0 &&
           matrix->cols > 0 && (uintptr_t)matrix->data % gd_dtype_size(matrix->dtype) == 0;
}

bool gd_is_brief(const gd_matrix *a, const gd_matrix *b)
{
    return steps_of(a, b) <= (a->device.backend == GD_CPU ? BRIEF_ON_HOST : BRIEF_ON_CUDA);
}

static gd_status run(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                     const gd_measure *measure, const gd_orders *orders, gd_error *err)
{
    return b == NULL ? gd_run_pdist(a, gd_all_rows(a), out, measure, orders, err)
                     : gd_run_cdist(a, b, out, measure, orders, err);
}

PyObject *gd_run_simply(PyObject *module, PyObject *result, const gd_matrix *a, const gd_matrix *b,
                        const gd_matrix *out, const gd_measure *measure, gd_orders *orders)
{
    const gd_matrix *columns = b == NULL ? a : b;
    const bool costly = gd_metric_info(measure->metric)->cost == GD_COSTLY;
    gd_attention attention;
    gd_error err;
    gd_status status;
    orders->ordered = true;
    if (a->device.backend == GD_CPU &&
        steps_of(a, columns) * (costly ? STEPS_OF_COSTLY : 1) <= MOMENTARY) {
        status = run(a, b, out, measure, orders, &err);
    }
    else if (gd_is_brief(a, columns)) {
        Py_BEGIN_ALLOW_THREADS;
        status = run(a, b, out, measure, orders, &err);
        Py_END_ALLOW_THREADS;
    }
    else {
        attention = (gd_attention){0};
        orders->watch = gd_let_go(&attention);
        status = run(a, b, out, measure, orders, &err);
        gd_take_back(&attention);
    }
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
