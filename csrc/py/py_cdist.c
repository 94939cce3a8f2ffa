/* py_cdist.c: cdist and pdist at the Python boundary. */
#include <stdint.h>

#include "../sizes.h"
#include "boundary.h"
#include "py_measure.h"

/* Lets the exception that stopped a call say how many rows are complete. One that takes no
 * attributes says nothing. */
static void tell_complete(ptrdiff_t rows)
{
    PyObject *type, *value, *trace, *count = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value != NULL && ((count = PyLong_FromSsize_t(rows)) == NULL ||
                          PyObject_SetAttrString(value, "rows_complete", count) < 0)) {
        PyErr_Clear();
    }
    Py_XDECREF(count);
    PyErr_Restore(type, value, trace);
}

GD_FUNCTION(gd_py_cdist)
{
    ptrdiff_t complete = 0;
    PyObject *a_object, *b_object, *out_object, *result = NULL;
    gd_operand a = {0}, b = {0}, out = {0};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"out", gd_to_object, &out_object, true},
                           GD_POINT_ARGUMENTS};
    if (!gd_parse("cdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_measure(&arguments) &&
        gd_take_output(out_object, "out", 2, &arguments.orders, &out) &&
        gd_take_points(a_object, "XA", out.matrix.dtype, &arguments, &a) &&
        gd_take_points(b_object, "XB", out.matrix.dtype, &arguments, &b)) {
        arguments.orders.watch = gd_let_go(&arguments.attention);
        arguments.orders.complete = &complete;
        status = gd_run_cdist(&a.matrix, &b.matrix, &out.matrix, &arguments.measure,
                              &arguments.orders, &err);
        gd_take_back(&arguments.attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
        if (status == GD_STOPPED) {
            tell_complete(complete);
        }
    }
    gd_release(&a);
    gd_release(&b);
    gd_release(&out);
    return result;
}

GD_FUNCTION(gd_py_pdist)
{
    PyObject *x_object, *out_object, *result = NULL;
    gd_operand x = {0}, out = {0};
    gd_row_span rows = {0, PTRDIFF_MAX};
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"x", gd_to_object, &x_object, true},
                           {"out", gd_to_object, &out_object, true},
                           GD_POINT_ARGUMENTS{"first", gd_to_size, &rows.first, false},
                           {"end", gd_to_size, &rows.end, false}};
    if (!gd_parse("pdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_measure(&arguments) &&
        gd_take_output(out_object, "out", 1, &arguments.orders, &out) &&
        gd_take_points(x_object, "X", out.matrix.dtype, &arguments, &x)) {
        rows.end = gd_least(rows.end, x.matrix.rows);
        arguments.orders.watch = gd_let_go(&arguments.attention);
        status =
            gd_run_pdist(&x.matrix, rows, &out.matrix, &arguments.measure, &arguments.orders, &err);
        gd_take_back(&arguments.attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&x);
    gd_release(&out);
    return result;
}

/* A matrix without data that is where the call's arrays are, as aligned as arrays are. */
static gd_matrix imagine(ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype, gd_device device,
                         uintptr_t at)
{
    return gd_dense((void *)at, rows, cols, dtype, device);
}

GD_FUNCTION(gd_py_plan_cdist)
{
    ptrdiff_t m, n, cols;
    gd_dtype dtype;
    bool truths, on_host, pairs;
    gd_point_arguments arguments = {.measure = {.p = 2}};
    gd_plan plan;
    gd_error err;
    const gd_arg spec[] = {
        {"m", gd_to_size, &m, true},           {"n", gd_to_size, &n, true},
        {"cols", gd_to_size, &cols, true},     {"dtype", gd_to_dtype, &dtype, true},
        {"truths", gd_to_bool, &truths, true}, {"on_host", gd_to_bool, &on_host, true},
        {"pairs", gd_to_bool, &pairs, true},   GD_POINT_ARGUMENTS};
    if (!gd_parse("plan_cdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !gd_take_measure(&arguments)) {
        return NULL;
    }
    const gd_device device = {on_host ? GD_CPU : GD_CUDA,
                              on_host ? 0 : arguments.orders.cuda_index};
    const gd_dtype operands = truths ? GD_BOOL : dtype;
    const gd_matrix a = imagine(m, cols, operands, device, 1 << 12);
    const gd_matrix b = imagine(n, cols, operands, device, 1 << 13);
    const gd_matrix out = pairs ? imagine(1, m * (2 * n - m - 1) / 2, dtype, device, 1 << 14)
                                : imagine(m, n, dtype, device, 1 << 14);
    if (gd_plan_cdist(pairs ? &b : &a, pairs ? NULL : &b, (gd_row_span){0, m}, &out,
                      &arguments.measure, &arguments.orders, &plan, &err) != GD_OK) {
        return gd_raise(module, &err);
    }
    return Py_BuildValue("(nnnd)", (Py_ssize_t)plan.memory, (Py_ssize_t)plan.panels,
                         (Py_ssize_t)plan.b_parts, plan.brought);
}
