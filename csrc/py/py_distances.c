/* py_distances.c: distances of many matrices at the Python boundary, and gradients. */
#include "boundary.h"
#include "py_measure.h"
#include "py_stacks.h"

/* The stream of the caller's work is that of PyTorch, where nobody said another. */
static int take_stream(PyObject *module, const gd_taken *out, gd_orders *orders)
{
    return gd_take_stream(PyModule_GetState(module), &out->array, orders);
}

GD_FUNCTION(gd_py_cdist_batch)
{
    PyObject *a, *b, *out;
    gd_matrices batch = {0};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_taken taken_a = {.stack = &batch.a}, taken_b = {.stack = &batch.b};
    gd_taken result = {.stack = &batch.out};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"out", gd_to_object, &out, true},
                           GD_POINT_ARGUMENTS};
    if (!gd_parse("cdist_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    batch.pairs = b == Py_None;
    batch.axes = -1;
    if (!gd_take_measure(&arguments) || !gd_take_result(module, out, "out", batch.pairs ? 1 : 2,
                                                        &batch.axes, &batch.count, &result)) {
        return NULL;
    }
    batch.shape = result.array.shape;
    /* Kernels of a device walk any strides. */
    const bool strided = batch.out.first.device.backend == GD_CUDA;
    if (!gd_take_operand(module, a, "XA", &result, batch.axes, 2, strided, &taken_a) ||
        (!batch.pairs &&
         !gd_take_operand(module, b, "XB", &result, batch.axes, 2, strided, &taken_b)) ||
        !take_stream(module, &result, &arguments.orders)) {
        return NULL;
    }
    arguments.orders.watch = gd_let_go(&arguments.attention);
    status = gd_run_cdist_batch(&batch, &arguments.measure, &arguments.orders, &err);
    gd_take_back(&arguments.attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_gradient)
{
    PyObject *asked, *a, *b, *distances, *out, *out_b = Py_None;
    gd_gradient call = {.p = 2};
    gd_orders orders = {0};
    gd_attention attention = {0};
    gd_taken result = {.stack = &call.out}, result_b = {.stack = &call.out_b}, taken[4];
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"asked", gd_to_object, &asked, true},
                           {"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"distances", gd_to_object, &distances, true},
                           {"out", gd_to_object, &out, true},
                           {"metric", gd_to_metric, &call.metric, true},
                           {"kernel", gd_to_kernel, &orders, false},
                           {"p", gd_to_double, &call.p, false},
                           {"stream", gd_to_stream, &orders, false},
                           {"out_b", gd_to_object, &out_b, false}};
    if (!gd_parse("gradient", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    call.pairs = b == Py_None;
    call.axes = -1;
    const int matrix_axes = call.pairs ? 1 : 2;
    const struct {
        PyObject *value;
        const char *name;
        int matrix_axes;
        bool strided;
        gd_stack *stack;
    } given[] = {{asked, "asked", matrix_axes, true, &call.asked},
                 {a, "a", 2, false, &call.a},
                 {call.pairs ? a : b, "b", 2, false, &call.b},
                 {distances, "distances", matrix_axes, true, &call.distances}};
    if (!gd_take_result(module, out, "out", 2, &call.axes, &call.count, &result)) {
        return NULL;
    }
    call.shape = result.array.shape;
    if (out_b != Py_None) {
        ptrdiff_t count;
        if (!gd_take_result(module, out_b, "out_b", 2, &call.axes, &count, &result_b)) {
            return NULL;
        }
        for (int axis = 0; axis < call.axes; ++axis) {
            if (result_b.array.shape[axis] != call.shape[axis]) {
                PyErr_SetString(PyExc_ValueError, "out_b has a batch of another shape than out");
                return NULL;
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        taken[i].stack = given[i].stack;
        taken[i].on_host = false;
        if (!gd_take_operand(module, given[i].value, given[i].name, &result, call.axes,
                             given[i].matrix_axes, given[i].strided, &taken[i])) {
            return NULL;
        }
    }
    if (!take_stream(module, &result, &orders)) {
        return NULL;
    }
    orders.watch = gd_let_go(&attention);
    status = gd_run_gradient(&call, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}
