/* py_matrices.c: many matrices on the host at the Python boundary: products over semirings and
 * closures. */
#include "boundary.h"
#include "py_stacks.h"

GD_FUNCTION(gd_py_minplus_batch)
{
    PyObject *a, *b, *c, *out;
    gd_products batch = {0};
    gd_taken taken_a = {.stack = &batch.a, .on_host = true};
    gd_taken taken_b = {.stack = &batch.b, .on_host = true};
    gd_taken taken_c = {.stack = &batch.c, .on_host = true};
    gd_taken result = {.stack = &batch.out, .on_host = true};
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
    batch.axes = -1;
    if (!gd_parse("minplus_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !gd_take_result(module, out, "out", 2, &batch.axes, &batch.count, &result) ||
        !gd_take_operand(module, a, "A", &result, batch.axes, 2, false, &taken_a) ||
        !gd_take_operand(module, b, "B", &result, batch.axes, 2, false, &taken_b) ||
        (c != Py_None &&
         !gd_take_operand(module, c, "C", &result, batch.axes, 2, false, &taken_c))) {
        return NULL;
    }
    batch.shape = result.array.shape;
    orders.watch = gd_let_go(&attention);
    status = gd_run_minplus_batch(&batch, semiring, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}

GD_FUNCTION(gd_py_closure_batch)
{
    PyObject *graph, *out;
    gd_closures batch = {0};
    gd_taken taken = {.stack = &batch.weights, .on_host = true};
    gd_taken result = {.stack = &batch.out, .on_host = true};
    gd_orders orders = {0};
    gd_attention attention = {0};
    bool reflexive;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"graph", gd_to_object, &graph, true},
                           {"out", gd_to_object, &out, true},
                           GD_EDGES(batch.graph),
                           {"reflexive", gd_to_bool, &reflexive, true},
                           GD_ORDERS(orders),
                           {"options", gd_to_options, &orders, false},
                           {"progress", gd_to_object, &attention.progress, false},
                           GD_MAX_MEMORY(orders)};
    batch.axes = -1;
    if (!gd_parse("closure_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !gd_take_result(module, out, "out", 2, &batch.axes, &batch.count, &result) ||
        !gd_take_operand(module, graph, "graph", &result, batch.axes, 2, true, &taken)) {
        return NULL;
    }
    batch.shape = result.array.shape;
    orders.watch = gd_let_go(&attention);
    status = gd_run_closure_batch(&batch, reflexive, &orders, &err);
    gd_take_back(&attention);
    return status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
}
