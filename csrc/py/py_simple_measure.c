/* py_simple_measure.c: the metric of a small call, and arguments of it that are few numbers. */
#include "py_simple.h"

#include <float.h>
#include <math.h>

#include "../registry.h"

/* The least length of a box, as half of a subnormal number need not be a number. */
#define LEAST_LENGTH (2 * DBL_MIN)

/* A number of Python's or a double of NumPy's: others may become one in ways of their own. */
static bool read_number(PyObject *value, double *number)
{
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) &&
        !PyArray_IsScalar(value, Double)) {
        return false;
    }
    *number = PyFloat_AsDouble(value);
    const bool fits = PyErr_Occurred() == NULL;
    PyErr_Clear();
    return fits;
}

/* Numbers, one a column: of an array of float64 where they are, of a list or a tuple of few in
 * `room`; NULL for all else. */
static const double *read_vector(PyObject *value, ptrdiff_t columns, double *room)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    if (PyArray_CheckExact(value)) {
        return PyArray_NDIM(array) == 1 && PyArray_TYPE(array) == NPY_FLOAT64 &&
                       PyArray_ISCARRAY_RO(array) && PyArray_DIM(array, 0) == columns
                   ? PyArray_DATA(array)
                   : NULL;
    }
    bool fits = (PyList_CheckExact(value) || PyTuple_CheckExact(value)) &&
                columns <= GD_FEW_COLUMNS && PySequence_Size(value) == columns;
    for (ptrdiff_t k = 0; fits && k < columns; ++k) {
        PyObject *const item = PySequence_GetItem(value, k);
        fits = item != NULL && read_number(item, &room[k]);
        Py_XDECREF(item);
    }
    return fits ? room : NULL;
}

static bool read_weights(PyObject *value, ptrdiff_t columns, gd_simple_measure *simple)
{
    const double *const weights = read_vector(value, columns, simple->weights);
    bool negative = weights == NULL;
    for (ptrdiff_t k = 0; !negative && k < columns; ++k) {
        negative = weights[k] < 0;
    }
    simple->measure.weights = weights;
    simple->measure.columns = columns;
    return !negative;
}

/* Variances are the weights' reciprocals. That of a subnormal one is a number, lest a difference of
 * 0 becomes NaN. */
static bool read_variances(PyObject *value, ptrdiff_t columns, gd_simple_measure *simple)
{
    if (columns > GD_FEW_COLUMNS) {
        return false;
    }
    const double *const variances = read_vector(value, columns, simple->weights);
    for (ptrdiff_t k = 0; variances != NULL && k < columns; ++k) {
        const double variance = variances[k], weight = 1 / variance;
        if (!(variance >= 0)) {
            return false;
        }
        simple->weights[k] = isinf(weight) && variance > 0 ? DBL_MAX : weight;
    }
    simple->measure.weights = simple->weights;
    simple->measure.columns = columns;
    return variances != NULL;
}

/* One length for all columns, or one for each; 0 and infinity are those of columns that are not
 * periodic. */
static bool read_box(PyObject *value, ptrdiff_t columns, gd_simple_measure *simple)
{
    double one;
    bool periodic = false;
    if (columns > GD_FEW_COLUMNS) {
        return false;
    }
    const bool single = read_number(value, &one);
    const double *const lengths = single ? &one : read_vector(value, columns, simple->box);
    for (ptrdiff_t k = 0; lengths != NULL && k < columns; ++k) {
        const double length = lengths[single ? 0 : k];
        if (length != 0 && !(length >= LEAST_LENGTH)) {
            return false;
        }
        simple->box[k] = length > 0 ? length : INFINITY;
        periodic |= length > 0 && length <= DBL_MAX;
    }
    if (periodic) {
        simple->measure.box = simple->box;
        simple->measure.columns = columns;
    }
    return lengths != NULL;
}

/* One argument; not one that the metric does not take, unless that is no weights. */
static bool read_argument(PyObject *name, PyObject *value, ptrdiff_t columns, int takes,
                          gd_simple_measure *simple)
{
    gd_measure *const measure = &simple->measure;
    if (PyUnicode_CompareWithASCIIString(name, "w") == 0) {
        return value == Py_None || ((takes & GD_TAKES_W) && read_weights(value, columns, simple));
    }
    if (PyUnicode_CompareWithASCIIString(name, "p") == 0) {
        return (takes & GD_TAKES_P) && read_number(value, &measure->p) && measure->p > 0;
    }
    if (PyUnicode_CompareWithASCIIString(name, "V") == 0) {
        return (takes & GD_TAKES_V) && read_variances(value, columns, simple);
    }
    if (PyUnicode_CompareWithASCIIString(name, "box") == 0) {
        return (takes & GD_TAKES_BOX) && (value == Py_None || read_box(value, columns, simple));
    }
    return PyUnicode_CompareWithASCIIString(name, "base") == 0 && (takes & GD_TAKES_BASE) &&
           read_number(value, &measure->base) && measure->base > 0 && measure->base != 1;
}

static bool read_arguments(PyObject *arguments, ptrdiff_t columns, int takes,
                           gd_simple_measure *simple)
{
    const gd_measure *const measure = &simple->measure;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(arguments, &at, &name, &value)) {
        if (!read_argument(name, value, columns, takes, simple)) {
            return false;
        }
    }
    /* Of a largest difference weights only say which columns count. */
    return measure->weights == NULL || (measure->metric != GD_CHEBYSHEV && measure->p <= DBL_MAX);
}

bool gd_read_simple_measure(PyObject *name, PyObject *arguments, ptrdiff_t columns,
                            gd_simple_measure *simple)
{
    const char *text = PyUnicode_Check(name) ? gd_text(name, "metric") : NULL;
    const int found = text != NULL ? gd_metric_find(text) : -1;
    bool is = found >= 0;
    if (is) {
        const gd_metric_row *row = gd_metric_info((gd_metric)found);
        simple->measure = (gd_measure){.metric = (gd_metric)found, .p = 2};
        is = row->columns == 0 && !(row->takes & GD_TAKES_VI) &&
             (arguments == Py_None || (PyDict_Check(arguments) &&
                                       read_arguments(arguments, columns, row->takes, simple))) &&
             (!(row->takes & GD_TAKES_V) || simple->measure.weights != NULL);
    }
    PyErr_Clear();
    return is;
}

bool gd_fits_simply(const gd_simple_measure *simple, gd_dtype dtype)
{
    const gd_measure *const measure = &simple->measure;
    return dtype == GD_F64 || measure->weights == NULL ||
           gd_weights_fit_f32(measure->weights, measure->columns);
}

ptrdiff_t gd_read_count(PyObject *value, ptrdiff_t available)
{
    const Py_ssize_t count = PyLong_CheckExact(value) ? PyLong_AsSsize_t(value) : 0;
    PyErr_Clear();
    return count > 0 && count <= available ? count : 0;
}
