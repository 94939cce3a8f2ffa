/* py_cdist.c: cdist at the Python boundary. */
#include "boundary.h"

GD_FUNCTION(gd_py_cdist)
{
    PyObject *a_object, *b_object, *out_object, *result = NULL;
    gd_operand a = {0}, b = {0}, out = {0};
    gd_orders orders = {0};
    gd_metric metric;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"a", gd_to_object, &a_object, true},     {"b", gd_to_object, &b_object, true},
        {"out", gd_to_object, &out_object, true}, {"metric", gd_to_metric, &metric, true},
        {"kernel", gd_to_kernel, &orders, false}, {"device", gd_to_device, &orders, false},
        {"stream", gd_to_stream, &orders, false}, {"ordered", gd_to_bool, &orders.ordered, false},
    };
    if (!gd_parse("cdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (!gd_take_output(out_object, "out", &orders, &out) ||
        !gd_take_input(a_object, "XA", (int)out.matrix.dtype, &orders, &a) ||
        !gd_take_input(b_object, "XB", (int)out.matrix.dtype, &orders, &b)) {
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS status =
        gd_run_cdist(&a.matrix, &b.matrix, &out.matrix, metric, &orders, &err);
    Py_END_ALLOW_THREADS result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
done:
    gd_release(&a);
    gd_release(&b);
    gd_release(&out);
    return result;
}
