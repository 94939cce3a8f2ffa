/* args.c: the one argument parser, and the converters of everything that is not an array. */
#include "boundary.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../registry.h"

static int find(const gd_arg *spec, int count, PyObject *name)
{
    for (int i = 0; i < count; ++i) {
        if (PyUnicode_CompareWithASCIIString(name, spec[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

int gd_parse(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
             const gd_arg *spec, int count)
{
    enum { MOST = 24 };
    PyObject *given[MOST] = {NULL};
    const Py_ssize_t nkeywords = kwnames == NULL ? 0 : PyTuple_Size(kwnames);
    if (count > MOST || nargs > count) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, got %zd", function, count,
                     nargs + nkeywords);
        return 0;
    }
    for (Py_ssize_t i = 0; i < nargs; ++i) {
        given[i] = args[i];
    }
    for (Py_ssize_t i = 0; i < nkeywords; ++i) {
        PyObject *name = PyTuple_GetItem(kwnames, i); /* borrowed */
        const int at = find(spec, count, name);
        if (at < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function,
                         name);
            return 0;
        }
        if (given[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got two values for '%s'", function, spec[at].name);
            return 0;
        }
        given[at] = args[nargs + i];
    }
    for (int i = 0; i < count; ++i) {
        if (given[i] == NULL && spec[i].required) {
            PyErr_Format(PyExc_TypeError, "%s() lacks the argument '%s'", function, spec[i].name);
            return 0;
        }
        if (given[i] != NULL && !spec[i].convert(given[i], spec[i].name, spec[i].into)) {
            return 0;
        }
    }
    return 1;
}

int gd_to_object(PyObject *value, const char *name, void *into)
{
    (void)name;
    *(PyObject **)into = value;
    return 1;
}

int gd_to_bool(PyObject *value, const char *name, void *into)
{
    const int truth = PyObject_IsTrue(value);
    (void)name;
    *(bool *)into = truth > 0;
    return truth >= 0;
}

int gd_to_double(PyObject *value, const char *name, void *into)
{
    const double x = PyFloat_AsDouble(value);
    if (x == -1.0 && PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "%s must be a number", name);
        return 0;
    }
    *(double *)into = x;
    return 1;
}

int gd_to_size(PyObject *value, const char *name, void *into)
{
    const Py_ssize_t x = PyLong_AsSsize_t(value);
    if (x == -1 && PyErr_Occurred()) {
        const bool large = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Format(large ? PyExc_OverflowError : PyExc_TypeError, "%s %s, got %R", name,
                     large ? "is too large" : "must be a whole number", value);
        return 0;
    }
    if (x < 0) {
        PyErr_Format(PyExc_ValueError, "%s must not be negative, got %zd", name, x);
        return 0;
    }
    *(ptrdiff_t *)into = x;
    return 1;
}

int gd_to_pointer(PyObject *value, const char *name, void *into)
{
    void *p = PyLong_AsVoidPtr(value);
    (void)name;
    if (p == NULL && PyErr_Occurred()) {
        return 0;
    }
    *(void **)into = p;
    return 1;
}

const char *gd_text(PyObject *value, const char *name)
{
    Py_ssize_t size = 0;
    const char *s = NULL;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a string, got %R", name, value);
        return NULL;
    }
    s = PyUnicode_AsUTF8AndSize(value, &size);
    if (s == NULL || strlen(s) != (size_t)size) {
        PyErr_Format(PyExc_ValueError, "%s has a character that no name has, got %R", name, value);
        return NULL;
    }
    return s;
}

/* Enumerations by name; `find_name` answers -1 for a name it does not know. */
static int to_enumerator(PyObject *value, const char *name, int (*find_name)(const char *),
                         int *into)
{
    const char *s = gd_text(value, name);
    if (s == NULL) {
        return 0;
    }
    *into = find_name(s);
    if (*into < 0) {
        PyErr_Format(PyExc_ValueError, "unknown %s %R", name, value);
        return 0;
    }
    return 1;
}

int gd_to_op(PyObject *value, const char *name, void *into)
{
    int found;
    if (!to_enumerator(value, name, gd_op_find, &found)) {
        return 0;
    }
    *(gd_op *)into = (gd_op)found;
    return 1;
}

int gd_to_metric(PyObject *value, const char *name, void *into)
{
    int found;
    if (!to_enumerator(value, name, gd_metric_find, &found)) {
        return 0;
    }
    *(gd_metric *)into = (gd_metric)found;
    return 1;
}

int gd_to_semiring(PyObject *value, const char *name, void *into)
{
    int found;
    if (!to_enumerator(value, name, gd_semiring_find, &found)) {
        return 0;
    }
    *(gd_semiring *)into = (gd_semiring)found;
    return 1;
}

int gd_to_dtype(PyObject *value, const char *name, void *into)
{
    int found;
    if (!to_enumerator(value, name, gd_dtype_find, &found)) {
        return 0;
    }
    *(gd_dtype *)into = (gd_dtype)found;
    return 1;
}

int gd_to_no_edge(PyObject *value, const char *name, void *into)
{
    static const char *const names[] = {[GD_NO_EDGE_ZERO] = "zero",
                                        [GD_NO_EDGE_INFINITE] = "infinite",
                                        [GD_NO_EDGE_SENTINEL] = "sentinel"};
    for (int i = 0; PyUnicode_Check(value) && i < 3; ++i) {
        if (PyUnicode_CompareWithASCIIString(value, names[i]) == 0) {
            *(gd_no_edge *)into = (gd_no_edge)i;
            return 1;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown %s %R", name, value);
    return 0;
}

/* None and "auto" leave the choice to the chooser. The string lives as long as the argument. */
int gd_to_kernel(PyObject *value, const char *name, void *into)
{
    gd_orders *orders = into;
    const char *id;
    if (value == Py_None) {
        return 1;
    }
    id = gd_text(value, name);
    if (id == NULL) {
        return 0;
    }
    orders->kernel = strcmp(id, "auto") == 0 ? NULL : id;
    return 1;
}

/* The dictionary is ours alone: the words of an error run code of its keys and values, which could
 * take them out of the caller's. */
static int take_options(PyObject *options, const char *name, gd_settings *settings)
{
    PyObject *key, *number;
    Py_ssize_t at = 0;
    if (PyDict_Size(options) > GD_MOST_OPTIONS) {
        PyErr_Format(PyExc_ValueError, "%s has %zd entries; no kernel takes more than %d", name,
                     PyDict_Size(options), (int)GD_MOST_OPTIONS);
        return 0;
    }
    while (PyDict_Next(options, &at, &key, &number)) {
        gd_setting *setting = &settings->setting[settings->count++];
        const char *option = gd_text(key, "an option's name");
        if (option == NULL) {
            return 0;
        }
        if (!PyLong_Check(number) || PyBool_Check(number)) {
            PyErr_Format(PyExc_TypeError, "option %R must be a whole number, got %R", key, number);
            return 0;
        }
        snprintf(setting->name, sizeof setting->name, "%s", option);
        setting->value = PyLong_AsLongLong(number);
        if (setting->value == -1 && PyErr_Occurred()) {
            PyErr_Format(PyExc_OverflowError, "option %R is too big: %R", key, number);
            return 0;
        }
    }
    return 1;
}

/* None, or a dictionary of whole numbers by name. */
int gd_to_options(PyObject *value, const char *name, void *into)
{
    PyObject *options;
    int taken;
    if (value == Py_None) {
        return 1;
    }
    if (!PyDict_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a dictionary, got %R", name, value);
        return 0;
    }
    options = PyDict_Copy(value);
    taken = options != NULL && take_options(options, name, &((gd_orders *)into)->settings);
    Py_XDECREF(options);
    return taken;
}

/* None, "cpu", "cuda", "cuda:1". */
int gd_to_device(PyObject *value, const char *name, void *into)
{
    gd_orders *orders = into;
    const char *s;
    long index = 0;
    char *end;
    if (value == Py_None) {
        return 1;
    }
    s = gd_text(value, name);
    if (s == NULL) {
        return 0;
    }
    if (strcmp(s, "cpu") == 0) {
        orders->where = GD_WHERE_CPU;
        return 1;
    }
    if (strcmp(s, "cuda") == 0) {
        orders->where = GD_WHERE_CUDA;
        return 1;
    }
    if (strncmp(s, "cuda:", 5) == 0 && s[5] >= '0' && s[5] <= '9') {
        index = strtol(s + 5, &end, 10);
        if (*end == '\0' && index <= INT_MAX) {
            orders->where = GD_WHERE_CUDA;
            orders->cuda_index = (int)index;
            return 1;
        }
    }
    PyErr_Format(PyExc_ValueError,
                 "%s must be None, 'cpu', 'cuda' or 'cuda:N', got %R; several GPUs, for what they "
                 "can share, are 'cuda:all' or 'cuda:0,2'",
                 name, value);
    return 0;
}

int gd_to_stream(PyObject *value, const char *name, void *into)
{
    return gd_to_pointer(value, name, &((gd_orders *)into)->stream);
}

int gd_to_max_memory(PyObject *value, const char *name, void *into)
{
    PyObject *whole = NULL;
    size_t bytes = 0;
    if (value == Py_None) {
        return 1;
    }
    if (PyBool_Check(value) || (whole = PyNumber_Index(value)) == NULL) {
        PyErr_Format(PyExc_TypeError, "%s must be a whole number of bytes or None, got %R", name,
                     value);
        return 0;
    }
    bytes = PyLong_AsSize_t(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred() || bytes == 0) {
        PyErr_Format(PyExc_ValueError, "%s must be a positive number of bytes, got %R", name,
                     value);
        return 0;
    }
    *(size_t *)into = bytes;
    return 1;
}
