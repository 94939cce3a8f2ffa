/* py_apsp.c: apsp and closure at the Python boundary. */
#include "boundary.h"

#include <string.h>

#include "../run_apsp_far.h"
#include "../run_apsp_several.h"

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

/* A tuple of texts, as gd_to_device takes them. */
static int to_devices(PyObject *value, const char *name, void *into)
{
    gd_devices *devices = into;
    devices->count = 0;
    if (!PyTuple_Check(value) || PyTuple_Size(value) > GD_MOST_DEVICES) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of at most %d devices", name,
                     GD_MOST_DEVICES);
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i) {
        gd_orders orders = {0};
        if (!gd_to_device(PyTuple_GetItem(value, i), name, &orders)) {
            return 0;
        }
        const gd_backend backend = orders.where == GD_WHERE_CUDA ? GD_CUDA : GD_CPU;
        devices->each[devices->count++] = (gd_device){backend, orders.cuda_index};
        if (backend != devices->each[0].backend) {
            PyErr_Format(PyExc_ValueError, "%s must be of one backend", name);
            return 0;
        }
    }
    return 1;
}

GD_FUNCTION(gd_py_apsp)
{
    PyObject *graph_object, *out_object, *pred_object, *nodes, *result = NULL;
    gd_operand weights = {0}, out = {0}, pred = {0};
    gd_graph graph = {0};
    gd_orders orders = {0};
    gd_semiring semiring = GD_MIN_PLUS;
    gd_attention attention = {0};
    gd_devices devices = {0};
    double unreachable;
    uint8_t *negative_nodes = NULL;
    gd_cycles_facts cycles;
    ptrdiff_t n;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"graph", gd_to_object, &graph_object, true},
        {"out", gd_to_object, &out_object, true},
        {"pred", gd_to_object, &pred_object, true},
        GD_EDGES(graph),
        {"unweighted", gd_to_bool, &graph.unweighted, true},
        {"unreachable", gd_to_double, &unreachable, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        {"semiring", gd_to_semiring, &semiring, false},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
        {"devices", to_devices, &devices, false},
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
    if (devices.count > 0 &&
        (weights.matrix.device.backend != GD_CPU || out.matrix.device.backend != GD_CPU ||
         pred.matrix.device.backend != GD_CPU)) {
        PyErr_SetString(PyExc_TypeError, "several devices take arrays on the host");
        goto done;
    }
    n = weights.matrix.rows;
    negative_nodes = PyMem_Malloc(n > 0 ? (size_t)n : 1);
    if (negative_nodes == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    memset(negative_nodes, 0, n > 0 ? (size_t)n : 1);
    orders.watch = gd_let_go(&attention);
    status = gd_run_apsp(&graph, &out.matrix, &pred.matrix, semiring, unreachable, &orders,
                         devices.count > 0 ? &devices : NULL, negative_nodes, &cycles, &err);
    gd_take_back(&attention);
    if (status != GD_OK) {
        result = gd_raise(module, &err);
        goto done;
    }
    nodes = cycles.nodes == 0 ? PyList_New(0) : list_marked(negative_nodes, n);
    result = nodes == NULL ? NULL : Py_BuildValue("Nd", nodes, cycles.rounding);
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
        GD_EDGES(graph),
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

GD_FUNCTION(gd_py_hops)
{
    PyObject *graph_object, *out_object, *result = NULL;
    gd_operand weights = {0}, out = {0};
    gd_graph graph = {0};
    gd_orders orders = {0};
    gd_attention attention = {0};
    double unreachable;
    ptrdiff_t most_hops;
    bool gave_up = false;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"graph", gd_to_object, &graph_object, true},
        {"out", gd_to_object, &out_object, true},
        GD_EDGES(graph),
        {"unreachable", gd_to_double, &unreachable, true},
        {"most_hops", gd_to_size, &most_hops, true},
        GD_ORDERS(orders),
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("hops", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_input(graph_object, "graph", -1, &orders, &weights) &&
        gd_take_output(out_object, "out", 2, &orders, &out)) {
        graph.weights = weights.matrix;
        orders.watch = gd_let_go(&attention);
        status = gd_run_hops(&graph, &out.matrix, unreachable, most_hops, &orders, &gave_up, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? PyBool_FromLong(!gave_up) : gd_raise(module, &err);
    }
    gd_release(&weights);
    gd_release(&out);
    return result;
}

GD_FUNCTION(gd_py_few_edges)
{
    gd_op op;
    ptrdiff_t n, edges;
    bool on_cuda = false;
    const gd_arg spec[] = {{"op", gd_to_op, &op, true},
                           {"n", gd_to_size, &n, true},
                           {"edges", gd_to_size, &edges, true},
                           {"on_cuda", gd_to_bool, &on_cuda, false}};
    (void)module;
    if (!gd_parse("few_edges", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    return PyBool_FromLong(op == GD_OP_HOPS ? gd_hops_worth(n, edges, on_cuda)
                                            : gd_closure_has_few_edges(n, edges));
}

/* None, or a C-contiguous array of one dimension and NumPy's type; 0 with an exception. */
static int take_numbers(PyObject *value, const char *name, int type, const void **into,
                        ptrdiff_t *count)
{
    PyArrayObject *const array = (PyArrayObject *)value;
    *into = NULL;
    *count = 0;
    if (value == Py_None) {
        return 1;
    }
    if (!PyArray_Check(value) || PyArray_TYPE(array) != type || !PyArray_ISCARRAY_RO(array) ||
        PyArray_NDIM(array) != 1) {
        PyErr_Format(PyExc_ValueError, "%s must be a C-contiguous array of %s, of one dimension",
                     name,
                     type == NPY_INT64   ? "int64"
                     : type == NPY_INT32 ? "int32"
                                         : "float64");
        return 0;
    }
    *into = PyArray_DATA(array);
    *count = PyArray_SIZE(array);
    return 1;
}

/* Reads what says where graphs begin and end. */
static int take_batch(PyObject *const *object, gd_batch *batch)
{
    static const char *const names[] = {"sizes", "first_edges", "tails", "heads"};
    const void *data[4];
    ptrdiff_t count[4];
    for (int i = 0; i < 4; ++i) {
        if (!take_numbers(object[i], names[i], i == 1 ? NPY_INT64 : NPY_INT32, &data[i],
                          &count[i])) {
            return 0;
        }
    }
    if ((data[0] != NULL && count[0] != batch->count) ||
        (data[1] != NULL && (count[1] != batch->count + 1 || data[2] == NULL || data[3] == NULL ||
                             count[2] != count[3]))) {
        PyErr_SetString(PyExc_ValueError, "sizes, first_edges, tails and heads do not match");
        return 0;
    }
    batch->sizes = data[0];
    batch->first_edges = data[1];
    batch->tails = data[2];
    batch->heads = data[3];
    batch->edges = count[2];
    return 1;
}

GD_FUNCTION(gd_py_apsp_batch)
{
    PyObject *graph_object, *out_object, *pred_object, *doubts_object, *lists[4], *result = NULL;
    gd_operand weights = {0}, out = {0}, pred = {0}, doubts = {0};
    gd_graph graph = {0};
    gd_batch batch = {0};
    gd_orders orders = {0};
    gd_semiring semiring = GD_MIN_PLUS;
    gd_attention attention = {0};
    bool left;
    double unreachable;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"graph", gd_to_object, &graph_object, true},
        {"out", gd_to_object, &out_object, true},
        {"pred", gd_to_object, &pred_object, true},
        {"doubts", gd_to_object, &doubts_object, true},
        {"n", gd_to_size, &batch.n, true},
        {"packed", gd_to_bool, &batch.packed, true},
        {"sizes", gd_to_object, &lists[0], true},
        {"first_edges", gd_to_object, &lists[1], true},
        {"tails", gd_to_object, &lists[2], true},
        {"heads", gd_to_object, &lists[3], true},
        GD_EDGES(graph),
        {"unweighted", gd_to_bool, &graph.unweighted, true},
        {"unreachable", gd_to_double, &unreachable, true},
        GD_ORDERS(orders),
        {"options", gd_to_options, &orders, false},
        {"semiring", gd_to_semiring, &semiring, false},
        {"progress", gd_to_object, &attention.progress, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("apsp_batch", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (semiring == GD_OR_AND) {
        PyErr_SetString(PyExc_ValueError, "closure is what closes over or_and");
        return NULL;
    }
    if ((graph_object != Py_None && !gd_take_input(graph_object, "graph", -1, &orders, &weights)) ||
        !gd_take_output(out_object, "out", 1, &orders, &out) ||
        (pred_object != Py_None && !gd_take_output(pred_object, "pred", 1, &orders, &pred)) ||
        !gd_take_output(doubts_object, "doubts", 1, &orders, &doubts)) {
        goto done;
    }
    batch.count = doubts.matrix.cols;
    if (doubts.matrix.dtype != GD_F64 || doubts.matrix.device.backend != GD_CPU) {
        PyErr_SetString(PyExc_ValueError, "doubts must be float64, on the host");
        goto done;
    }
    if (!take_batch(lists, &batch)) {
        goto done;
    }
    if (graph_object == Py_None && batch.first_edges == NULL) {
        PyErr_SetString(PyExc_ValueError, "graph can be None where there are edges alone");
        goto done;
    }
    graph.weights = weights.matrix;
    orders.watch = gd_let_go(&attention);
    status = gd_run_apsp_batch(&graph, &batch, &out.matrix, &pred.matrix, semiring, unreachable,
                               &orders, doubts.matrix.data, &left, &err);
    gd_take_back(&attention);
    result = status == GD_OK ? PyBool_FromLong(left) : gd_raise(module, &err);
done:
    gd_release(&weights);
    gd_release(&out);
    gd_release(&pred);
    gd_release(&doubts);
    return result;
}

GD_FUNCTION(gd_py_apsp_band)
{
    PyObject *dist_object, *pred_object, *snapshots_object, *result = NULL;
    gd_operand dist = {0}, pred = {0}, snapshots = {0};
    gd_orders orders = {0};
    gd_semiring semiring = GD_MIN_PLUS;
    gd_attention attention = {0};
    ptrdiff_t first, pivot, pivots;
    bool taken;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"dist", gd_to_object, &dist_object, true},
        {"pred", gd_to_object, &pred_object, true},
        {"snapshots", gd_to_object, &snapshots_object, true},
        {"semiring", gd_to_semiring, &semiring, true},
        {"first", gd_to_size, &first, true},
        {"pivot", gd_to_size, &pivot, true},
        {"pivots", gd_to_size, &pivots, true},
        {"stream", gd_to_stream, &orders, false},
        {"ordered", gd_to_bool, &orders.ordered, false},
        GD_MAX_MEMORY(orders),
    };
    if (!gd_parse("apsp_band", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !gd_take_output(dist_object, "dist", 2, &orders, &dist)) {
        return NULL;
    }
    /* The band that has the pivots writes their snapshots; those of others may be read-only. */
    taken = pivot >= first && pivot < first + dist.matrix.rows
                ? gd_take_output(snapshots_object, "snapshots", 2, &orders, &snapshots)
                : gd_take_input(snapshots_object, "snapshots", GD_I32, &orders, &snapshots);
    if (taken &&
        (pred_object == Py_None || gd_take_output(pred_object, "pred", 2, &orders, &pred))) {
        orders.watch = gd_let_go(&attention);
        status = gd_run_apsp_band(&dist.matrix, &pred.matrix, &snapshots.matrix, semiring, first,
                                  pivot, pivots, &orders, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&dist);
    gd_release(&pred);
    gd_release(&snapshots);
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
    gd_devices devices = {0};
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
        {"devices", to_devices, &devices, false},
    };
    if (!gd_parse("far_plan", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_plan_far(n, dtype, semiring, predecessors, &orders, devices.count > 0 ? &devices : NULL,
                    &far, &near, &err) != GD_OK) {
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
    gd_devices devices = {0};
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
        {"devices", to_devices, &devices, false},
    };
    if (!gd_parse("far", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (gd_take_output(dist_object, "dist", 2, &orders, &dist) &&
        (pred_object == Py_None || gd_take_output(pred_object, "pred", 2, &orders, &pred))) {
        orders.watch = gd_let_go(&attention);
        status = gd_run_far(&dist.matrix, &pred.matrix, semiring, &orders,
                            devices.count > 0 ? &devices : NULL, &far, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? far_plan_of(&far, 0) : gd_raise(module, &err);
    }
    gd_release(&dist);
    gd_release(&pred);
    return result;
}

GD_FUNCTION(gd_py_several_plan)
{
    static int32_t some; /* only whether there are any is asked */
    ptrdiff_t n;
    gd_dtype dtype;
    bool predecessors, in_place;
    gd_semiring semiring = GD_MIN_PLUS;
    gd_orders orders = {0};
    gd_devices devices = {0};
    gd_graph graph = {0};
    gd_error err;
    PyObject *shares = NULL;
    const gd_arg spec[] = {
        {"n", gd_to_size, &n, true},
        {"dtype", gd_to_dtype, &dtype, true},
        {"predecessors", gd_to_bool, &predecessors, true},
        {"in_place", gd_to_bool, &in_place, true},
        {"devices", to_devices, &devices, true},
        GD_MAX_MEMORY(orders),
        {"semiring", gd_to_semiring, &semiring, false},
    };
    if (!gd_parse("several_plan", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const bool on_cuda = devices.count > 0 && devices.each[0].backend == GD_CUDA;
    gd_several several = {.launch = on_cuda ? gd_cuda_apsp_band : gd_cpu_apsp_band,
                          .pred = predecessors ? &some : NULL,
                          .graph = in_place && on_cuda ? &graph : NULL};
    several.call.n = n;
    several.call.dtype = dtype;
    several.call.semiring = gd_ring_within(semiring);
    if (n > 0 && devices.count > 0 &&
        gd_several_plan(&several, &devices, orders.max_memory, &err) != GD_OK) {
        return gd_raise(module, &err);
    }
    shares = PyList_New(0);
    for (int i = 0; shares != NULL && i < several.count; ++i) {
        const gd_holder *h = &several.holders[i];
        const ptrdiff_t end = h->first + h->rows < n ? h->first + h->rows : n;
        PyObject *share = Py_BuildValue("{s:n,s:n,s:n,s:n}", "first", h->first, "end", end, "bytes",
                                        (Py_ssize_t)h->bytes, "pivots", several.pivots);
        if (share == NULL || PyList_Append(shares, share) < 0) {
            Py_CLEAR(shares);
        }
        Py_XDECREF(share);
    }
    return shares;
}
