/* py_minplus.c: minplus at the Python boundary. */
#include "boundary.h"

GD_FUNCTION(gd_py_minplus)
{
    PyObject *a_object, *b_object, *c_object, *out_object, *result = NULL;
    gd_operand a = {0}, b = {0}, c = {0}, out = {0};
    gd_semiring semiring;
    gd_orders orders = {0};
    gd_attention attention = {0};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"a", gd_to_object, &a_object, true},
        {"b", gd_to_object, &b_object, true},
        {"c", gd_to_object, &c_object, true},
        {"out", gd_to_object, &out_object, true},
        {"semiring", gd_to_semiring, &semiring, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("minplus", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    /* The intake's conversion of numbers to bool is NumPy's: true is what is not 0. */
    if (gd_take_output(out_object, "out", 2, &orders, &out) &&
        gd_take_input(a_object, "A", (int)out.matrix.dtype, &orders, &a) &&
        gd_take_input(b_object, "B", (int)out.matrix.dtype, &orders, &b) &&
        (c_object == Py_None || gd_take_input(c_object, "C", (int)out.matrix.dtype, &orders, &c))) {
        /* A C without elements may have no memory either; nothing is computed then. */
        orders.watch = gd_let_go(&attention);
        status =
            gd_run_minplus(&a.matrix, &b.matrix, &c.matrix, &out.matrix, semiring, &orders, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&a);
    gd_release(&b);
    gd_release(&c);
    gd_release(&out);
    return result;
}
