/* py_distances.c: distances of many matrices at the Python boundary, and gradients.
 *
 * Both write to arrays of the caller's, or for PyTorch's tensors to new ones: that PyTorch is asked
 * for them here saves a small call some microseconds in Python. */
#include "boundary.h"
#include "py_library.h"
#include "py_measure.h"
#include "py_stacks.h"

/* The stream of the caller's work is that of PyTorch, where nobody said another. */
static int take_stream(PyObject *module, const gd_taken *out, gd_orders *orders)
{
    return gd_take_stream(PyModule_GetState(module), &out->array, orders);
}

/* A new tensor for the distances of a's rows to b's, or of every two of a's where b is None. */
static PyObject *make_distances(PyObject *module, PyObject *a, PyObject *b)
{
    gd_module_state *state = PyModule_GetState(module);
    const bool pairs = b == Py_None;
    gd_array of_a, of_b;
    if (!gd_take_array(state, a, "XA", &of_a) ||
        (!pairs && !gd_take_array(state, b, "XB", &of_b))) {
        return NULL;
    }
    if (of_a.ndim < 2 || (!pairs && of_b.ndim < 2)) {
        PyErr_SetString(PyExc_ValueError, "XA and XB must have two dimensions or more");
        return NULL;
    }
    ptrdiff_t *const last = &of_a.shape[of_a.ndim - 1], rows = last[-1];
    of_a.ndim -= pairs ? 1 : 0;
    if (pairs) {
        last[-1] = rows * (rows - 1) / 2;
    }
    else {
        *last = of_b.shape[of_b.ndim - 2];
    }
    return gd_make_tensor(state, a, of_a.ndim, of_a.shape);
}

static int run_batch(PyObject *module, PyObject *a, PyObject *b, PyObject *out,
                     gd_point_arguments *arguments)
{
    gd_matrices batch = {.pairs = b == Py_None, .axes = -1};
    gd_taken taken_a = {.stack = &batch.a}, taken_b = {.stack = &batch.b};
    gd_taken result = {.stack = &batch.out};
    gd_error err;
    if (!gd_take_result(module, out, "out", batch.pairs ? 1 : 2, &batch.axes, &batch.count,
                        &result)) {
        return 0;
    }
    batch.shape = result.array.shape;
    /* Kernels of a device walk any strides. */
    const bool strided = batch.out.first.device.backend == GD_CUDA;
    if (!gd_take_operand(module, a, "XA", &result, batch.axes, 2, strided, &taken_a) ||
        (!batch.pairs &&
         !gd_take_operand(module, b, "XB", &result, batch.axes, 2, strided, &taken_b)) ||
        !take_stream(module, &result, &arguments->orders)) {
        return 0;
    }
    arguments->orders.watch = gd_let_go(&arguments->attention);
    const gd_status status =
        gd_run_cdist_batch(&batch, &arguments->measure, &arguments->orders, &err);
    gd_take_back(&arguments->attention);
    return status == GD_OK || gd_raise(module, &err) != NULL;
}

GD_FUNCTION(gd_py_cdist_batch)
{
    PyObject *a, *b, *out, *made = NULL;
    gd_point_arguments arguments = {.measure = {.p = 2}};
    const gd_arg spec[] = {{"a", gd_to_object, &a, true},
                           {"b", gd_to_object, &b, true},
                           {"out", gd_to_object, &out, true},
                           GD_POINT_ARGUMENTS};
    if (!gd_parse("cdist_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !gd_take_measure(&arguments) ||
        (out == Py_None && (made = make_distances(module, a, b)) == NULL)) {
        return NULL;
    }
    if (!run_batch(module, a, b, made != NULL ? made : out, &arguments)) {
        Py_CLEAR(made);
        return NULL;
    }
    return made != NULL ? made : Py_NewRef(Py_None);
}

/* The arrays of a call, as the caller gave them; b and out_b may be None. */
typedef struct gd_gradient_objects {
    PyObject *asked, *a, *b, *distances, *out, *out_b;
} gd_gradient_objects;

static int take_results(PyObject *module, const gd_gradient_objects *of, gd_gradient *call,
                        gd_taken *result, gd_taken *result_b)
{
    ptrdiff_t count;
    call->axes = -1;
    if (!gd_take_result(module, of->out, "out", 2, &call->axes, &call->count, result)) {
        return 0;
    }
    call->shape = result->array.shape;
    if (of->out_b == Py_None) {
        return 1;
    }
    if (!gd_take_result(module, of->out_b, "out_b", 2, &call->axes, &count, result_b)) {
        return 0;
    }
    for (int axis = 0; axis < call->axes; ++axis) {
        if (result_b->array.shape[axis] != call->shape[axis]) {
            PyErr_SetString(PyExc_ValueError, "out_b has a batch of another shape than out");
            return 0;
        }
    }
    return 1;
}

static int run_gradient(PyObject *module, const gd_gradient_objects *of, gd_gradient *call,
                        gd_orders *orders)
{
    gd_attention attention = {0};
    gd_taken result = {.stack = &call->out}, result_b = {.stack = &call->out_b}, taken[4];
    gd_error err;
    call->pairs = of->b == Py_None;
    const int matrix_axes = call->pairs ? 1 : 2;
    const struct {
        PyObject *value;
        const char *name;
        int matrix_axes;
        bool strided;
        gd_stack *stack;
    } given[] = {{of->asked, "asked", matrix_axes, true, &call->asked},
                 {of->a, "a", 2, false, &call->a},
                 {call->pairs ? of->a : of->b, "b", 2, false, &call->b},
                 {of->distances, "distances", matrix_axes, true, &call->distances}};
    if (!take_results(module, of, call, &result, &result_b)) {
        return 0;
    }
    for (int i = 0; i < 4; ++i) {
        taken[i].stack = given[i].stack;
        taken[i].on_host = false;
        if (!gd_take_operand(module, given[i].value, given[i].name, &result, call->axes,
                             given[i].matrix_axes, given[i].strided, &taken[i])) {
            return 0;
        }
    }
    if (!take_stream(module, &result, orders)) {
        return 0;
    }
    orders->watch = gd_let_go(&attention);
    const gd_status status = gd_run_gradient(call, orders, &err);
    gd_take_back(&attention);
    return status == GD_OK || gd_raise(module, &err) != NULL;
}

/* A new tensor for the gradient of points. */
static PyObject *make_gradient(PyObject *module, PyObject *points, const char *name)
{
    gd_module_state *state = PyModule_GetState(module);
    gd_array array;
    return gd_take_array(state, points, name, &array)
               ? gd_make_tensor(state, points, array.ndim, array.shape)
               : NULL;
}

/* Gradients for both operands, as a tuple of new tensors, or for one, as a new tensor. */
static PyObject *make_and_run(PyObject *module, gd_gradient_objects *of, gd_gradient *call,
                              gd_orders *orders)
{
    PyObject *result = NULL;
    const bool both = of->b != Py_None;
    of->out = make_gradient(module, of->a, "a");
    of->out_b = !both             ? Py_NewRef(Py_None)
                : of->out != NULL ? make_gradient(module, of->b, "b")
                                  : NULL;
    if (of->out != NULL && of->out_b != NULL && run_gradient(module, of, call, orders)) {
        result = both ? PyTuple_Pack(2, of->out, of->out_b) : Py_NewRef(of->out);
    }
    Py_XDECREF(of->out);
    Py_XDECREF(of->out_b);
    return result;
}

GD_FUNCTION(gd_py_gradient)
{
    gd_gradient_objects of = {.out_b = Py_None};
    gd_gradient call = {.p = 2};
    gd_orders orders = {0};
    const gd_arg spec[] = {
        {"asked", gd_to_object, &of.asked, true}, {"a", gd_to_object, &of.a, true},
        {"b", gd_to_object, &of.b, true},         {"distances", gd_to_object, &of.distances, true},
        {"out", gd_to_object, &of.out, true},     {"metric", gd_to_metric, &call.metric, true},
        {"kernel", gd_to_kernel, &orders, false}, {"p", gd_to_double, &call.p, false},
        {"stream", gd_to_stream, &orders, false}, {"out_b", gd_to_object, &of.out_b, false}};
    if (!gd_parse("gradient", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (of.out == Py_None) {
        return make_and_run(module, &of, &call, &orders);
    }
    return run_gradient(module, &of, &call, &orders) ? Py_NewRef(Py_None) : NULL;
}
