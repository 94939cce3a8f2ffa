/* py_perron.c: perron at the Python boundary. */
#include "boundary.h"

GD_FUNCTION(gd_py_perron)
{
    PyObject *a_object, *out_object, *result = NULL;
    gd_operand a = {0}, out = {0};
    gd_doubles x0 = {0};
    gd_perron_answer answer;
    gd_orders orders = {0};
    gd_attention attention = {0};
    double tol, shift;
    ptrdiff_t max_iter;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"a", gd_to_object, &a_object, true},
        {"out", gd_to_object, &out_object, true},
        {"tol", gd_to_double, &tol, true},
        {"max_iter", gd_to_size, &max_iter, true},
        {"shift", gd_to_double, &shift, true},
        {"x0", gd_to_doubles, &x0, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("perron", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_output(out_object, "out", 1, &orders, &out) &&
        gd_take_input(a_object, "A", (int)out.matrix.dtype, &orders, &a)) {
        if (x0.data != NULL && x0.count != a.matrix.rows) {
            PyErr_Format(PyExc_ValueError, "x0 must have %zd elements, got %zd",
                         (Py_ssize_t)a.matrix.rows, (Py_ssize_t)x0.count);
        }
        else {
            orders.watch = gd_let_go(&attention);
            status = gd_run_perron(&a.matrix, x0.data, &out.matrix, tol, max_iter, shift, &orders,
                                   &answer, &err);
            gd_take_back(&attention);
            result = status == GD_OK ? Py_BuildValue("(dddnN)", answer.value, answer.lower,
                                                     answer.upper, (Py_ssize_t)answer.rounds,
                                                     PyBool_FromLong(answer.converged))
                                     : gd_raise(module, &err);
        }
    }
    gd_release(&a);
    gd_release(&out);
    return result;
}
