/* py_graphs.c: apsp of arrays on a device without the detour over Python.
 *
 * A graph of some hundred nodes takes a device some 50 us, and the way over Python, which knows
 * graphs of every kind, a good part of that again. So what most calls are, weights of one dtype
 * where they are to stay, and 0 for no edge, is read here. Whatever is not as simple is left to the
 * usual way, errors included, and so is an answer that has to be looked at: then there is none. */
#include "py_library.h"

#include <math.h>

#include "../registry.h"

/* Square matrices in one array on a CUDA device. */
typedef struct gd_graphs {
    gd_array array;
    gd_matrix weights; /* the matrix, or one dense row of all if there are many */
    ptrdiff_t n, count;
} gd_graphs;

/* False if they are empty, not square or on the host, or many that do not follow each other. */
static bool describe(gd_graphs *graphs)
{
    const gd_array *const array = &graphs->array;
    const int ndim = array->ndim;
    const ptrdiff_t *const shape = array->shape, *const strides = array->strides;
    const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(array->dtype);
    ptrdiff_t bytes = size;
    if (ndim < 2 || array->device.backend != GD_CUDA || shape[ndim - 1] != shape[ndim - 2]) {
        return false;
    }
    for (int i = ndim - 1; i >= 0; --i) {
        const bool follows = strides[i] == bytes || shape[i] == 1;
        if ((ndim > 2 && !follows) || shape[i] <= 0 ||
            __builtin_mul_overflow(bytes, shape[i], &bytes)) {
            return false;
        }
    }
    const ptrdiff_t n = shape[ndim - 1], elements = bytes / size;
    const bool many = ndim > 2;
    graphs->n = n;
    graphs->count = elements / n / n;
    graphs->weights = (gd_matrix){
        .data = array->data,
        .rows = many ? 1 : n,
        .cols = many ? elements : n,
        .row_stride = many ? elements : strides[0] / size,
        .col_stride = many ? 1 : strides[1] / size,
        .dtype = array->dtype,
        .device = array->device,
    };
    return true;
}

/* Whether these are done together, as many are, or are one; and their results are no larger than
 * what is allocated without a look at the memory that there is. */
static bool fits(const gd_graphs *graphs, ptrdiff_t few)
{
    const gd_matrix *const w = &graphs->weights;
    const ptrdiff_t n = graphs->n;
    const ptrdiff_t most = GD_MOST_BYTES_ON_DEVICE / (ptrdiff_t)gd_dtype_size(w->dtype);
    return graphs->count <= most / n / n &&
           (graphs->array.ndim == 2 ||
            (n <= GD_TILES_MOST && (n <= GD_LANES_MOST || graphs->count >= few)));
}

/* What the call writes; NULL where the usual way has to see to it. */
static PyObject *make_result(gd_module_state *state, const gd_library *library, PyObject *like,
                             const gd_graphs *graphs, bool whole, gd_matrix *matrix)
{
    const gd_array *const array = &graphs->array;
    const bool many = array->ndim > 2;
    const ptrdiff_t cols = many ? graphs->count * graphs->n * graphs->n : graphs->n;
    *matrix = gd_dense(NULL, many ? 1 : graphs->n, cols, whole ? GD_I32 : graphs->weights.dtype,
                       graphs->weights.device);
    return library->make(state, like, array, whole ? GD_OF_INT32 : GD_AS_LIKE, array->ndim,
                         array->shape, &matrix->data);
}

/* `sure` tells whether the answer stands: no cycle seems to be negative, and no graph is left. */
static gd_status run(const gd_graphs *graphs, const gd_matrix *out, const gd_matrix *pred,
                     const gd_orders *orders, void *memory, bool *sure, gd_error *err)
{
    const gd_graph graph = {
        .weights = graphs->weights, .no_edge = GD_NO_EDGE_ZERO, .directed = true};
    const gd_batch batch = {.count = graphs->count, .n = graphs->n};
    gd_cycles_facts cycles = {0};
    bool left = false;
    const gd_status status = graphs->array.ndim > 2
                                 ? gd_run_apsp_batch(&graph, &batch, out, pred, GD_MIN_PLUS,
                                                     INFINITY, orders, memory, &left, err)
                                 : gd_run_apsp(&graph, out, pred, GD_MIN_PLUS, INFINITY, orders,
                                               NULL, memory, &cycles, err);
    *sure = !left && cycles.nodes == 0;
    return status;
}

GD_FUNCTION(gd_py_apsp_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *object, *out = NULL, *pred = NULL, *result = NULL;
    gd_graphs graphs;
    gd_matrix out_matrix, pred_matrix = {0};
    gd_orders orders = {.ordered = true};
    gd_attention attention = {0};
    bool predecessors, sure = false;
    void *memory = NULL; /* a mark for each node, or a number for each graph */
    ptrdiff_t few;
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"graph", gd_to_object, &object, true},
                           {"predecessors", gd_to_bool, &predecessors, true},
                           {"few", gd_to_size, &few, true}};
    if (!gd_parse("apsp_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const gd_library *const library = gd_library_of(state, object);
    if (!library->owns(state, object) || !library->read(state, object, &graphs.array) ||
        !library->plain(state, object) || !describe(&graphs) || !fits(&graphs, few) ||
        (out = make_result(state, library, object, &graphs, false, &out_matrix)) == NULL ||
        (predecessors &&
         (pred = make_result(state, library, object, &graphs, true, &pred_matrix)) == NULL)) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    memory =
        PyMem_Calloc((size_t)(graphs.array.ndim > 2 ? graphs.count : graphs.n), sizeof(double));
    if (memory == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    if (library->stream(state, graphs.weights.device.index, &orders.stream) != 0) {
        goto done;
    }
    orders.watch = gd_let_go(&attention);
    status = run(&graphs, &out_matrix, &pred_matrix, &orders, memory, &sure, &err);
    gd_take_back(&attention);
    result = status != GD_OK ? gd_raise(module, &err)
             : !sure         ? Py_NewRef(Py_None)
             : predecessors  ? PyTuple_Pack(2, out, pred)
                             : Py_NewRef(out);
done:
    PyMem_Free(memory);
    Py_XDECREF(out);
    Py_XDECREF(pred);
    return result;
}
