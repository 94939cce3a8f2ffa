/* py_neighbors.c: neighbours of points at the Python boundary. Indices on a device, which no array
 * of the core's has the type of, are told by their address. */
#include "boundary.h"
#include "py_measure.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../bus_common.h"
#include "../neighbors.h"
#include "../registry.h"
#include "../sizes.h"

/* Takes a C-contiguous array of int64 with `count` elements, to be written, or if it is to be on a
 * device the address of one; 0 with an exception. */
static int take_indices(PyObject *value, ptrdiff_t count, gd_device device, int64_t **into)
{
    if (device.backend == GD_CUDA) {
        void *address;
        const int taken = gd_to_pointer(value, "indices", &address);
        *into = address;
        return taken;
    }
    PyArrayObject *const array = (PyArrayObject *)value;
    if (!PyArray_Check(value) || PyArray_TYPE(array) != NPY_INT64 || !PyArray_ISCARRAY(array) ||
        PyArray_SIZE(array) != count) {
        PyErr_SetString(PyExc_ValueError,
                        "indices must be a C-contiguous array of int64, as large as distances");
        return 0;
    }
    *into = PyArray_DATA(array);
    return 1;
}

/* None, or a number for each row of A, or one for all. */
static int take_radii(const gd_doubles *radii, const gd_operand *a, gd_wanted *wanted)
{
    if (radii->data != NULL && radii->count != a->matrix.rows && radii->count != 1) {
        PyErr_Format(PyExc_ValueError,
                     "radii must have one element, or one for each of %zd rows, got %zd",
                     (Py_ssize_t)a->matrix.rows, (Py_ssize_t)radii->count);
        return 0;
    }
    wanted->radii = radii->data;
    wanted->one_radius = radii->count == 1;
    return 1;
}

/* The number of the row of B that A begins with; -1, None, if A is no part of B. */
static int to_self(PyObject *value, const char *name, void *into)
{
    if (value == Py_None) {
        *(ptrdiff_t *)into = -1;
        return 1;
    }
    return gd_to_size(value, name, into);
}

/* What `keep` or `common` gave for the argument of that name, or None: a capsule that is called
 * after it. Pointers to structures look alike, whatever these are. */
static int to_held(PyObject *value, const char *name, void *into)
{
    if (value == Py_None) {
        return 1;
    }
    char called[32];
    snprintf(called, sizeof called, "gpudist.%s", name);
    void *const held = PyCapsule_GetPointer(value, called);
    memcpy(into, &held, sizeof held);
    return held != NULL;
}

static const char kept_name[] = "gpudist.kept";

static void free_kept(PyObject *capsule) { gd_kept_free(PyCapsule_GetPointer(capsule, kept_name)); }

PyObject *gd_py_keep(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    gd_kept *const kept = gd_kept_new();
    PyObject *const capsule = kept != NULL ? PyCapsule_New(kept, kept_name, free_kept) : NULL;
    if (kept == NULL) {
        PyErr_NoMemory();
    }
    else if (capsule == NULL) {
        gd_kept_free(kept);
    }
    return capsule;
}

static const char common_name[] = "gpudist.common";

static void free_common(PyObject *capsule)
{
    gd_common_free(PyCapsule_GetPointer(capsule, common_name));
}

GD_FUNCTION(gd_py_common)
{
    ptrdiff_t members;
    (void)module;
    const gd_arg spec[] = {{"members", gd_to_size, &members, true}};
    if (!gd_parse("common", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    gd_common *const common = gd_common_new((int)gd_least(members, INT_MAX));
    if (common == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *const capsule = PyCapsule_New(common, common_name, free_common);
    if (capsule == NULL) {
        gd_common_free(common);
    }
    return capsule;
}

GD_FUNCTION(gd_py_nearest)
{
    PyObject *a_object, *b_object, *distances_object, *indices_object, *result = NULL;
    gd_operand a = {0}, b = {0}, distances = {0};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_doubles radii = {0};
    gd_wanted wanted = {.self = -1};
    int64_t *indices;
    gd_error err;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"distances", gd_to_object, &distances_object, true},
                           {"indices", gd_to_object, &indices_object, true},
                           {"radii", gd_to_doubles, &radii, true},
                           {"first", to_self, &wanted.self, true},
                           GD_POINT_ARGUMENTS{"kept", to_held, &wanted.kept, false},
                           {"common", to_held, &arguments.orders.common, false}};
    if (!gd_parse("nearest", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_measure(&arguments) &&
        gd_take_output(distances_object, "distances", 2, &arguments.orders, &distances) &&
        take_indices(indices_object, distances.matrix.rows * distances.matrix.cols,
                     distances.matrix.device, &indices) &&
        gd_take_points(a_object, "XA", distances.matrix.dtype, &arguments, &a) &&
        gd_take_points(b_object, "XB", distances.matrix.dtype, &arguments, &b) &&
        take_radii(&radii, &a, &wanted)) {
        wanted.most = distances.matrix.cols;
        arguments.orders.watch = gd_let_go(&arguments.attention);
        const gd_status status =
            gd_run_nearest(&a.matrix, &b.matrix, &distances.matrix, indices, &wanted,
                           &arguments.measure, &arguments.orders, &err);
        gd_take_back(&arguments.attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&a);
    gd_release(&b);
    gd_release(&distances);
    return result;
}

static void free_memory(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NULL)); }

/* An array of `count` elements that owns *memory, which is from malloc; takes it over even if it
 * fails. */
static PyObject *array_of(void **memory, ptrdiff_t count, int type)
{
    npy_intp shape = (npy_intp)count;
    void *const data = *memory;
    PyObject *array = NULL, *owner;
    *memory = NULL;
    if (data == NULL) {
        return PyArray_SimpleNew(1, &shape, type);
    }
    owner = PyCapsule_New(data, NULL, free_memory);
    if (owner == NULL) {
        free(data);
        return NULL;
    }
    array = PyArray_SimpleNewFromData(1, &shape, type, data);
    if (array == NULL) {
        Py_DECREF(owner);
    }
    else if (PyArray_SetBaseObject((PyArrayObject *)array, owner) < 0) { /* it took the owner */
        Py_CLEAR(array);
    }
    return array;
}

/* (indptr, indices, distances) */
static PyObject *arrays_of(gd_neighborhoods *found, ptrdiff_t rows, gd_dtype dtype)
{
    PyObject *const indptr = array_of((void **)&found->indptr, rows + 1, NPY_INT64);
    PyObject *const indices = array_of((void **)&found->indices, found->count, NPY_INT64);
    PyObject *const distances =
        array_of(&found->distances, found->count, dtype == GD_F32 ? NPY_FLOAT32 : NPY_FLOAT64);
    if (indptr == NULL || indices == NULL || distances == NULL) {
        Py_XDECREF(indptr);
        Py_XDECREF(indices);
        Py_XDECREF(distances);
        return NULL;
    }
    return Py_BuildValue("(NNN)", indptr, indices, distances);
}

static const char found_name[] = "gpudist.neighborhoods";

static void free_found(PyObject *capsule)
{
    gd_neighborhoods *const found = PyCapsule_GetPointer(capsule, found_name);
    gd_free_neighborhoods(found);
    PyMem_Free(found);
}

/* (what `gather` takes, how many there are), where they are on a device. */
static PyObject *found_on_device(gd_neighborhoods *found)
{
    gd_neighborhoods *const kept = PyMem_Malloc(sizeof *kept);
    PyObject *capsule = NULL;
    if (kept != NULL) {
        *kept = *found;
        *found = (gd_neighborhoods){0};
        capsule = PyCapsule_New(kept, found_name, free_found);
        if (capsule == NULL) {
            gd_free_neighborhoods(kept);
            PyMem_Free(kept);
        }
    }
    else {
        PyErr_NoMemory();
    }
    return capsule != NULL ? Py_BuildValue("(Nn)", capsule, (Py_ssize_t)kept->count) : NULL;
}

GD_FUNCTION(gd_py_gather)
{
    PyObject *found_object, *distances_object, *indices_object, *places_object;
    PyObject *result = NULL;
    gd_operand distances = {0};
    gd_orders orders = {0};
    gd_neighborhoods *found;
    int64_t *indices, *places;
    gd_error err;
    const gd_arg spec[] = {{"found", gd_to_object, &found_object, true},
                           {"distances", gd_to_object, &distances_object, true},
                           {"indices", gd_to_object, &indices_object, true},
                           {"places", gd_to_object, &places_object, true},
                           {"stream", gd_to_stream, &orders, false},
                           {"ordered", gd_to_bool, &orders.ordered, false}};
    if (!gd_parse("gather", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        (found = PyCapsule_GetPointer(found_object, found_name)) == NULL) {
        return NULL;
    }
    if (gd_take_output(distances_object, "distances", 1, &orders, &distances) &&
        distances.matrix.device.backend == GD_CUDA &&
        take_indices(indices_object, found->count, distances.matrix.device, &indices) &&
        take_indices(places_object, found->rows + 1, distances.matrix.device, &places)) {
        gd_status status;
        Py_BEGIN_ALLOW_THREADS;
        status =
            gd_gather_neighborhoods(found, &distances.matrix, indices, places, orders.stream, &err);
        Py_END_ALLOW_THREADS;
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&distances);
    return result;
}

GD_FUNCTION(gd_py_within)
{
    PyObject *a_object, *b_object, *result = NULL;
    gd_operand a = {0}, b = {0};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_doubles radii = {0};
    gd_wanted wanted = {.self = -1};
    gd_neighborhoods found = {0};
    gd_dtype dtype;
    gd_error err;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"dtype", gd_to_dtype, &dtype, true},
                           {"radii", gd_to_doubles, &radii, true},
                           {"most", gd_to_size, &wanted.most, true},
                           {"by_distance", gd_to_bool, &wanted.by_distance, true},
                           {"first", to_self, &wanted.self, true},
                           GD_POINT_ARGUMENTS{"kept", to_held, &wanted.kept, false},
                           {"common", to_held, &arguments.orders.common, false}};
    if (!gd_parse("within", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_measure(&arguments) && gd_take_points(a_object, "XA", dtype, &arguments, &a) &&
        gd_take_points(b_object, "XB", dtype, &arguments, &b) && take_radii(&radii, &a, &wanted)) {
        arguments.orders.watch = gd_let_go(&arguments.attention);
        const gd_status status = gd_run_within(&a.matrix, &b.matrix, dtype, &wanted,
                                               &arguments.measure, &arguments.orders, &found, &err);
        gd_take_back(&arguments.attention);
        result = status != GD_OK                      ? gd_raise(module, &err)
                 : a.matrix.device.backend == GD_CUDA ? found_on_device(&found)
                                                      : arrays_of(&found, a.matrix.rows, dtype);
    }
    gd_free_neighborhoods(&found);
    gd_release(&a);
    gd_release(&b);
    return result;
}

/* None, or a weight for each row. */
static int check_weights(const gd_doubles *weights, const gd_operand *x, const char *name)
{
    if (weights->data != NULL && weights->count != x->matrix.rows) {
        PyErr_Format(PyExc_ValueError, "weights of %s must have an element for each of %zd rows",
                     name, (Py_ssize_t)x->matrix.rows);
        return 0;
    }
    return 1;
}

GD_FUNCTION(gd_py_count)
{
    PyObject *a_object, *b_object, *result = NULL;
    gd_operand a = {0}, b = {0};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_doubles bounds = {0}, a_weights = {0}, b_weights = {0};
    gd_census census = {.self = -1};
    gd_dtype dtype;
    gd_error err;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"dtype", gd_to_dtype, &dtype, true},
                           {"bounds", gd_to_doubles, &bounds, true},
                           {"a_weights", gd_to_doubles, &a_weights, true},
                           {"b_weights", gd_to_doubles, &b_weights, true},
                           {"first", to_self, &census.self, true},
                           GD_POINT_ARGUMENTS{"common", to_held, &arguments.orders.common, false}};
    if (!gd_parse("count", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const bool weighted = a_weights.data != NULL;
    npy_intp shape = (npy_intp)bounds.count;
    if ((b_weights.data != NULL) != weighted) {
        PyErr_SetString(PyExc_ValueError, "either both or none of XA and XB have weights");
        return NULL;
    }
    if (gd_take_measure(&arguments) && gd_take_points(a_object, "XA", dtype, &arguments, &a) &&
        gd_take_points(b_object, "XB", dtype, &arguments, &b) &&
        check_weights(&a_weights, &a, "XA") && check_weights(&b_weights, &b, "XB") &&
        (result = PyArray_ZEROS(1, &shape, weighted ? NPY_FLOAT64 : NPY_INT64, 0)) != NULL) {
        void *const memory = PyArray_DATA((PyArrayObject *)result);
        census.bounds = bounds.data;
        census.bound_count = bounds.count;
        census.a_weights = a_weights.data;
        census.b_weights = b_weights.data;
        census.counts = weighted ? NULL : memory;
        census.sums = weighted ? memory : NULL;
        arguments.orders.watch = gd_let_go(&arguments.attention);
        const gd_status status = gd_run_count(&a.matrix, &b.matrix, dtype, &census,
                                              &arguments.measure, &arguments.orders, &err);
        gd_take_back(&arguments.attention);
        if (status != GD_OK) {
            Py_DECREF(result);
            result = gd_raise(module, &err);
        }
    }
    gd_release(&a);
    gd_release(&b);
    return result;
}
