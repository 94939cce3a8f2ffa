/* py_perron_part.c: the parts of the perron study's loop at the Python boundary. */
#include "boundary.h"

GD_FUNCTION(gd_py_perron_part)
{
    enum { MATRIX, SUMS, VECTOR, TOP, APART, ARRAYS };
    static const char *const names[ARRAYS] = {"matrix", "sums", "vector", "top", "apart"};
    PyObject *objects[ARRAYS], *result = NULL;
    gd_operand operands[ARRAYS] = {0};
    gd_orders orders = {0};
    double epsilon;
    bool taken = true;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"matrix", gd_to_object, &objects[MATRIX], true},
        {"sums", gd_to_object, &objects[SUMS], true},
        {"vector", gd_to_object, &objects[VECTOR], true},
        {"top", gd_to_object, &objects[TOP], true},
        {"apart", gd_to_object, &objects[APART], true},
        {"epsilon", gd_to_double, &epsilon, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
    };
    if (!gd_parse("perron_part", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    for (int i = 0; taken && i < ARRAYS; ++i) {
        taken = (i == MATRIX && objects[i] == Py_None) ||
                gd_take_output(objects[i], names[i], i == MATRIX ? 2 : 1, &orders, &operands[i]);
    }
    if (taken) {
        Py_BEGIN_ALLOW_THREADS status = gd_run_perron_part(
            &operands[MATRIX].matrix, &operands[SUMS].matrix, &operands[VECTOR].matrix,
            &operands[TOP].matrix, &operands[APART].matrix, epsilon, &orders, &err);
        Py_END_ALLOW_THREADS result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    for (int i = 0; i < ARRAYS; ++i) {
        gd_release(&operands[i]);
    }
    return result;
}
