/* py_apsp.c: apsp and closure at the Python boundary. */
#include "boundary.h"

#include <string.h>

#include "../run_apsp_far.h"

static PyObject *list_marked(const uint8_t *marks, ptrdiff_t n)
{
    PyObject *list = PyList_New(0);
    for (ptrdiff_t i = 0; list != NULL && i < n; ++i) {
        PyObject *number = marks[i] ? PyLong_FromSsize_t(i) : NULL;
        if (marks[i] && (number == NULL || PyList_Append(list, number) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(number);
    }
    return list;
}

GD_FUNCTION(gd_py_apsp)
{
    PyObject *graph_object, *out_object, *pred_object, *result = NULL;
    gd_operand weights = {0}, out = {0}, pred = {0};
    gd_graph graph = {0};
    gd_orders orders = {0};
    gd_semiring semiring = GD_MIN_PLUS;
    gd_attention attention = {0};
    double unreachable;
    uint8_t *negative_nodes = NULL;
    ptrdiff_t on_negative_cycle, n;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"graph", gd_to_object, &graph_object, true},
        {"out", gd_to_object, &out_object, true},
        {"pred", gd_to_object, &pred_object, true},
        {"no_edge", gd_to_no_edge, &graph.no_edge, true},
        {"sentinel", gd_to_double, &graph.sentinel, true},
        {"directed", gd_to_bool, &graph.directed, true},
        {"unweighted", gd_to_bool, &graph.unweighted, true},
        {"unreachable", gd_to_double, &unreachable, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        {"semiring", gd_to_semiring, &semiring, false},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("apsp", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (semiring == GD_OR_AND) {
        PyErr_SetString(PyExc_ValueError, "closure is what closes over or_and");
        return NULL;
    }
    if (!gd_take_input(graph_object, "graph", -1, &orders, &weights) ||
        !gd_take_output(out_object, "out", 2, &orders, &out) ||
        (pred_object != Py_None && !gd_take_output(pred_object, "pred", 2, &orders, &pred))) {
        goto done;
    }
    graph.weights = weights.matrix;
    n = weights.matrix.rows;
    negative_nodes = PyMem_Malloc(n > 0 ? (size_t)n : 1);
    if (negative_nodes == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    memset(negative_nodes, 0, n > 0 ? (size_t)n : 1);
    orders.watch = gd_let_go(&attention);
    status = gd_run_apsp(&graph, &out.matrix, &pred.matrix, semiring, unreachable, &orders,
                         negative_nodes, &on_negative_cycle, &err);
    gd_take_back(&attention);
    result = status != GD_OK          ? gd_raise(module, &err)
             : on_negative_cycle == 0 ? PyList_New(0)
                                      : list_marked(negative_nodes, n);
done:
    PyMem_Free(negative_nodes);
    gd_release(&weights);
    gd_release(&out);
    gd_release(&pred);
    return result;
}

GD_FUNCTION(gd_py_closure)
{
    PyObject *graph_object, *out_object, *result = NULL;
    gd_operand weights = {0}, out = {0};
    gd_graph graph = {0};
    gd_orders orders = {0};
    gd_attention attention = {0};
    bool reflexive;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"graph", gd_to_object, &graph_object, true},
        {"out", gd_to_object, &out_object, true},
        {"no_edge", gd_to_no_edge, &graph.no_edge, true},
        {"sentinel", gd_to_double, &graph.sentinel, true},
        {"directed", gd_to_bool, &graph.directed, true},
        {"reflexive", gd_to_bool, &reflexive, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("closure", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_input(graph_object, "graph", -1, &orders, &weights) &&
        gd_take_output(out_object, "out", 2, &orders, &out)) {
        graph.weights = weights.matrix;
        orders.watch = gd_let_go(&attention);
        status = gd_run_closure(&graph, &out.matrix, reflexive, &orders, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&weights);
    gd_release(&out);
    return result;
}

static PyObject *far_plan_of(const gd_far *far, size_t near)
{
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "blocks", far->blocks, "block",
                         far->block, "band", far->band, "bytes", (Py_ssize_t)far->bytes, "each_way",
                         (Py_ssize_t)far->each_way, "sent", (Py_ssize_t)far->sent, "brought",
                         (Py_ssize_t)far->brought, "near", (Py_ssize_t)near);
}

GD_FUNCTION(gd_py_far_plan)
{
    ptrdiff_t n;
    gd_dtype dtype;
    bool predecessors = false;
    gd_semiring semiring = GD_MIN_PLUS;
    gd_orders orders = {0};
    gd_far far = {0};
    size_t near;
    gd_error err;
    const gd_arg spec[] = {
        {"n", gd_to_size, &n, true},
        {"dtype", gd_to_dtype, &dtype, true},
        {"predecessors", gd_to_bool, &predecessors, true},
        {"device", gd_to_device, &orders, false},
        GD_MAX_MEMORY(orders),
        {"kernel", gd_to_kernel, &orders, false},
        {"semiring", gd_to_semiring, &semiring, false},
    };
    if (!gd_parse("far_plan", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_plan_far(n, dtype, semiring, predecessors, &orders, &far, &near, &err) != GD_OK) {
        return gd_raise(module, &err);
    }
    return far_plan_of(&far, near);
}

GD_FUNCTION(gd_py_far)
{
    PyObject *dist_object, *pred_object, *result = NULL;
    gd_operand dist = {0}, pred = {0};
    gd_orders orders = {0};
    gd_semiring semiring = GD_MIN_PLUS;
    gd_attention attention = {0};
    gd_far far = {0};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"dist", gd_to_object, &dist_object, true},
        {"pred", gd_to_object, &pred_object, true},
        {"semiring", gd_to_semiring, &semiring, true},
        {"device", gd_to_device, &orders, true},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("far", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_output(dist_object, "dist", 2, &orders, &dist) &&
        (pred_object == Py_None || gd_take_output(pred_object, "pred", 2, &orders, &pred))) {
        orders.watch = gd_let_go(&attention);
        status = gd_run_far(&dist.matrix, &pred.matrix, semiring, &orders, &far, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? far_plan_of(&far, 0) : gd_raise(module, &err);
    }
    gd_release(&dist);
    gd_release(&pred);
    return result;
}
