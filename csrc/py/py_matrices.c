/* py_matrices.c: many matrices on the host at the Python boundary: their distances, and gradients,
 * products over semirings and closures. */
#include "boundary.h"
#include "py_measure.h"

/* Takes an array whose last axes are the matrices: two, or for the pairs of a result one. The
 * strides of the others, in bytes, are the array's own. Unless it is `strided`, rows have to be
 * dense and in ascending order. */
static int take_stack(PyObject *value, const char *name, int axes, int matrix_axes, bool strided,
                      gd_stack *stack)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    static const int types[] = {
        [GD_F32] = NPY_FLOAT32, [GD_F64] = NPY_FLOAT64, [GD_I32] = NPY_INT32, [GD_BOOL] = NPY_BOOL};
    int dtype = GD_DTYPE_COUNT;
    while (PyArray_Check(value) && --dtype >= 0 && PyArray_TYPE(array) != types[dtype]) {
    }
    if (!PyArray_Check(value) || dtype < 0 || !PyArray_ISBEHAVED_RO(array)) {
        PyErr_Format(PyExc_TypeError,
                     "%s must be an aligned array of float32, float64, int32 or bool", name);
        return 0;
    }
    if (PyArray_NDIM(array) != axes + matrix_axes) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, got %d", name,
                     axes + matrix_axes, PyArray_NDIM(array));
        return 0;
    }
    const npy_intp *shape = PyArray_DIMS(array) + axes, *apart = PyArray_STRIDES(array) + axes;
    const npy_intp size = PyArray_ITEMSIZE(array), cols = shape[matrix_axes - 1];
    const npy_intp rows = matrix_axes == 2 ? shape[0] : 1;
    const bool empty = PyArray_SIZE(array) == 0; /* NumPy's strides are 0 then */
    const npy_intp along = empty || cols == 1 ? size : apart[matrix_axes - 1];
    const npy_intp down = empty || rows == 1 ? cols * size : apart[0];
    if (along % size != 0 || down % size != 0 ||
        (!strided && (along != size || down < cols * size))) {
        PyErr_Format(PyExc_ValueError, "%s must have matrices of dense rows, in ascending order",
                     name);
        return 0;
    }
    *stack = (gd_stack){.first = {.data = PyArray_DATA(array),
                                  .rows = rows,
                                  .cols = cols,
                                  .row_stride = down / size,
                                  .col_stride = along / size,
                                  .dtype = (gd_dtype)dtype,
                                  .device = {GD_CPU, 0}},
                        .strides = PyArray_STRIDES(array)};
    return 1;
}

/* Whether the operand's batch has the result's shape; strides of 0 make it so. */
static int check_batch(PyObject *value, const char *name, int axes, const ptrdiff_t *shape)
{
    for (int axis = 0; axis < axes; ++axis) {
        if (PyArray_DIM((PyArrayObject *)value, axis) != shape[axis]) {
            PyErr_Format(PyExc_ValueError, "%s has a batch of another shape than out", name);
            return 0;
        }
    }
    return 1;
}

/* Takes what is written to, and from it the batch's shape. */
static int take_result(PyObject *value, int matrix_axes, gd_stack *stack, int *axes,
                       const ptrdiff_t **shape, ptrdiff_t *count)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    *axes = PyArray_Check(value) ? PyArray_NDIM(array) - matrix_axes : 0;
    if (!take_stack(value, "out", *axes, matrix_axes, false, stack)) {
        return 0;
    }
    if (!PyArray_ISCARRAY(array)) {
        PyErr_SetString(PyExc_ValueError, "out must be C-contiguous and writeable");
        return 0;
    }
    *shape = PyArray_DIMS(array);
    *count = 1;
    for (int axis = 0; axis < *axes; ++axis) {
        *count *= (*shape)[axis];
    }
    return 1;
}

GD_FUNCTION(gd_py_cdist_batch)
{
    PyObject *a, *b, *out;
    gd_matrices batch = {0};
    gd_told told = {.measure = {.p = 2}};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"out", gd_to_object, &out, true},
                           GD_TOLD};
    if (!gd_parse("cdist_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    batch.pairs = b == Py_None;
    if (!gd_take_measure(&told) ||
        !take_result(out, batch.pairs ? 1 : 2, &batch.out, &batch.axes, &batch.shape,
                     &batch.count) ||
        !take_stack(a, "XA", batch.axes, 2, false, &batch.a) ||
        !check_batch(a, "XA", batch.axes, batch.shape) ||
        (!batch.pairs && (!take_stack(b, "XB", batch.axes, 2, false, &batch.b) ||
                          !check_batch(b, "XB", batch.axes, batch.shape)))) {
        return NULL;
    }
    told.orders.watch = gd_let_go(&told.attention);
    status = gd_run_cdist_batch(&batch, &told.measure, &told.orders, &err);
    gd_take_back(&told.attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_gradient)
{
    PyObject *asked, *a, *b, *distances, *out;
    gd_gradient call = {.p = 2};
    gd_orders orders = {0};
    gd_attention attention = {0};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"asked", gd_to_object, &asked, true},
                           {"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"distances", gd_to_object, &distances, true},
                           {"out", gd_to_object, &out, true},
                           {"metric", gd_to_metric, &call.metric, true},
                           {"kernel", gd_to_kernel, &orders, false},
                           {"p", gd_to_double, &call.p, false}};
    if (!gd_parse("gradient", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    call.pairs = b == Py_None;
    const int matrix_axes = call.pairs ? 1 : 2;
    struct {
        PyObject *value;
        const char *name;
        int matrix_axes;
        bool strided;
        gd_stack *stack;
    } const given[] = {{asked, "asked", matrix_axes, true, &call.asked},
                       {a, "a", 2, false, &call.a},
                       {call.pairs ? a : b, "b", 2, false, &call.b},
                       {distances, "distances", matrix_axes, true, &call.distances}};
    if (!take_result(out, 2, &call.out, &call.axes, &call.shape, &call.count)) {
        return NULL;
    }
    for (int i = 0; i < 4; ++i) {
        if (!take_stack(given[i].value, given[i].name, call.axes, given[i].matrix_axes,
                        given[i].strided, given[i].stack) ||
            !check_batch(given[i].value, given[i].name, call.axes, call.shape)) {
            return NULL;
        }
    }
    orders.watch = gd_let_go(&attention);
    status = gd_run_gradient(&call, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_minplus_batch)
{
    PyObject *a, *b, *c, *out;
    gd_products batch = {0};
    gd_semiring semiring;
    gd_orders orders = {0};
    gd_attention attention = {0};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"c", gd_to_object, &c, true},
                           {"out", gd_to_object, &out, true},
                           {"semiring", gd_to_semiring, &semiring, true},
                           GD_ORDERS(orders),
                           {"options", gd_to_options, &orders, false},
                           {"progress", gd_to_object, &attention.progress, false},
                           GD_MAX_MEMORY(orders)};
    if (!gd_parse("minplus_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !take_result(out, 2, &batch.out, &batch.axes, &batch.shape, &batch.count) ||
        !take_stack(a, "A", batch.axes, 2, false, &batch.a) ||
        !check_batch(a, "A", batch.axes, batch.shape) ||
        !take_stack(b, "B", batch.axes, 2, false, &batch.b) ||
        !check_batch(b, "B", batch.axes, batch.shape) ||
        (c != Py_None && (!take_stack(c, "C", batch.axes, 2, false, &batch.c) ||
                          !check_batch(c, "C", batch.axes, batch.shape)))) {
        return NULL;
    }
    orders.watch = gd_let_go(&attention);
    status = gd_run_minplus_batch(&batch, semiring, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_closure_batch)
{
    PyObject *graph, *out;
    gd_closures batch = {0};
    gd_orders orders = {0};
    gd_attention attention = {0};
    bool reflexive;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"graph", gd_to_object, &graph, true},
                           {"out", gd_to_object, &out, true},
                           {"no_edge", gd_to_no_edge, &batch.graph.no_edge, true},
                           {"sentinel", gd_to_double, &batch.graph.sentinel, true},
                           {"directed", gd_to_bool, &batch.graph.directed, true},
                           {"reflexive", gd_to_bool, &reflexive, true},
                           GD_ORDERS(orders),
                           {"options", gd_to_options, &orders, false},
                           {"progress", gd_to_object, &attention.progress, false},
                           GD_MAX_MEMORY(orders)};
    if (!gd_parse("closure_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !take_result(out, 2, &batch.out, &batch.axes, &batch.shape, &batch.count) ||
        !take_stack(graph, "graph", batch.axes, 2, true, &batch.weights) ||
        !check_batch(graph, "graph", batch.axes, batch.shape)) {
        return NULL;
    }
    orders.watch = gd_let_go(&attention);
    status = gd_run_closure_batch(&batch, reflexive, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}
