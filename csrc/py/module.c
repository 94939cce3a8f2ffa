/* module.c: gpudist._core, the module. Multi-phase initialisation, state per module, abi3. */
#define GD_OWNS_NUMPY_API
#include "boundary.h"

/* PyArray_ImportNumPyAPI only fills a table of pointers: no CUDA, no threads at import. */
static int core_exec(PyObject *module)
{
    gd_module_state *state = PyModule_GetState(module);
    if (PyArray_ImportNumPyAPI() < 0) {
        return -1;
    }
    state->device_error = PyErr_NewExceptionWithDoc(
        "gpudist.DeviceError",
        "A CUDA device was asked for and cannot be used, or failed; the message says why.",
        PyExc_RuntimeError, NULL);
    if (state->device_error == NULL ||
        PyModule_AddObjectRef(module, "DeviceError", state->device_error) < 0) {
        return -1;
    }
#define GD_MAKE(field, text)                                         \
    if ((state->field = PyUnicode_InternFromString(text)) == NULL) { \
        return -1;                                                   \
    }
    GD_NAMES(GD_MAKE)
#undef GD_MAKE
    return 0;
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    gd_module_state *state = PyModule_GetState(module);
#define GD_VISIT(field, ...) Py_VISIT(state->field);
    GD_HELD(GD_VISIT)
    GD_NAMES(GD_VISIT)
#undef GD_VISIT
    return 0;
}

static int core_clear(PyObject *module)
{
    gd_module_state *state = PyModule_GetState(module);
#define GD_CLEAR(field, ...) Py_CLEAR(state->field);
    GD_HELD(GD_CLEAR)
    GD_NAMES(GD_CLEAR)
#undef GD_CLEAR
    return 0;
}

static void core_free(void *module) { (void)core_clear(module); }

#define FAST(name, doc)                                                               \
    {#name, (PyCFunction)(void (*)(void))gd_py_##name, METH_FASTCALL | METH_KEYWORDS, \
     PyDoc_STR(doc)}
#define PLAIN(name, doc) {#name, gd_py_##name, METH_NOARGS, PyDoc_STR(doc)}

static PyMethodDef methods[] = {
    FAST(cdist,
         "cdist($module, /, a, b, out, metric, kernel=None, device=None, stream=0, "
         "ordered=False, weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, "
         "options=None, progress=None, max_memory=None)\n--\n\n"
         "Distances of every row of a to every row of b, into out."),
    FAST(cdist_arrays,
         "cdist_arrays($module, /, a, b, metric, out=None, device=None, dtype=None, "
         "arguments=None)\n--\n\n"
         "The array of distances, new or out, where all are simple arrays of NumPy, the result is "
         "small, the metric's arguments are numbers or weights, and device is None or 'cpu'; else "
         "None."),
    FAST(pdist_arrays,
         "pdist_arrays($module, /, x, metric, out=None, device=None, dtype=None, "
         "arguments=None)\n--\n\n"
         "The same for the distances of every two rows of x."),
    FAST(
        nearest_arrays,
        "nearest_arrays($module, /, a, b, k, metric, device, dtype, arguments)\n--\n\n"
        "Distances and indices of the k nearest rows of b, or of a's others where b is None, where "
        "the same holds and the search is brief; else None."),
    FAST(minplus_arrays,
         "minplus_arrays($module, /, a, b, semiring, device, dtype)\n--\n\n"
         "The product of two simple arrays of floats, where it is brief; else None."),
    FAST(weights_fit,
         "weights_fit($module, /, weights)\n--\n\n"
         "Whether sums with these weights, None for none, stay in the range of float32."),
    FAST(cdist_tensors,
         "cdist_tensors($module, /, a, b, metric, out=None, arguments=None, "
         "known_plain=False)\n--\n\n"
         "The tensor of distances, new or out, where all are simple tensors of PyTorch in one "
         "place, or arrays of CuPy, and the metric is one of numbers whose arguments are numbers "
         "or vectors, else None. "
         "Whether PyTorch records tensors is not asked where they are known to be plain memory."),
    FAST(pdist_tensors,
         "pdist_tensors($module, /, x, metric, out=None, arguments=None, known_plain=False)\n--\n\n"
         "The same for the distances of every two rows of x."),
    FAST(
        nearest_tensors,
        "nearest_tensors($module, /, a, b, k, metric, arguments=None)\n--\n\n"
        "Distances and indices of the k nearest rows of b, or of a's others where b is None, where "
        "the same holds, and on the host the search is brief; else None."),
    FAST(minplus_tensors,
         "minplus_tensors($module, /, a, b, semiring)\n--\n\n"
         "The product of two such tensors or arrays of floats, on the host where it is brief; else "
         "None."),
    FAST(pdist,
         "pdist($module, /, x, out, metric, kernel=None, device=None, stream=0, ordered=False, "
         "weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, "
         "options=None, progress=None, max_memory=None, first=0, end=sys.maxsize)\n--\n\n"
         "Distances of every two rows of x, the first of them one of [first, end), into the vector "
         "out."),
    FAST(cdist_batch,
         "cdist_batch($module, /, a, b, out, metric, kernel=None, device=None, stream=0, "
         "ordered=False, weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, "
         "options=None, progress=None, max_memory=None)\n--\n\n"
         "Distances of many matrices at once, arrays of NumPy or PyTorch, or descriptions, whose "
         "first axes are those of out; of every two rows of each of a where b is None."),
    FAST(gradient,
         "gradient($module, /, asked, a, b, distances, out, metric, kernel=None, p=2.0, "
         "stream=0, out_b=None)\n--\n\n"
         "What is asked of distances, for the rows of each matrix of a, into out, and for those of "
         "b into out_b unless that is None; of every two rows of each of a where b is None."),
    FAST(plan_cdist,
         "plan_cdist($module, /, m, n, cols, dtype, truths, on_host, pairs, metric, kernel=None, "
         "device=None, stream=0, ordered=False, weights=None, p=2.0, base=0.0, vi=None, "
         "factor=None, box=None, options=None, progress=None, max_memory=None)\n--\n\n"
         "What cdist, or pdist for the first m rows, would take: (bytes held at once, panels of "
         "the result, parts of XB, bytes of operands over the bus)."),
    FAST(apsp,
         "apsp($module, /, graph, out, pred, no_edge, sentinel, directed, unweighted, unreachable, "
         "kernel=None, device=None, stream=0, ordered=False, options=None, "
         "semiring='min_plus', progress=None, max_memory=None, devices=())\n--\n\n"
         "Best path lengths into out, predecessors into pred unless that is None; returns the "
         "list of nodes that seem to be on negative cycles, and by how much rounding may hide "
         "others. With devices, of which `device` is the first, each holds some of the rows."),
    FAST(apsp_batch,
         "apsp_batch($module, /, graph, out, pred, doubts, n, packed, sizes, first_edges, tails, "
         "heads, no_edge, sentinel, directed, unweighted, unreachable, kernel=None, device=None, "
         "stream=0, ordered=False, options=None, semiring='min_plus', progress=None, "
         "max_memory=None)\n--\n\n"
         "The same for many graphs, each operand in one row; doubts tells by how much rounding may "
         "hide a cycle of each, or NaN where it is to be done alone, and is zero at first; returns "
         "whether it is not for some."),
    FAST(apsp_tensors,
         "apsp_tensors($module, /, graph, predecessors, few)\n--\n\n"
         "What apsp returns, where the graph is a simple tensor of floats of PyTorch on a CUDA "
         "device, or an array of CuPy, or one of many graphs; else, and where an answer has to be "
         "looked at, None. Graphs that do not fit a block go one by one if there are but a few."),
    FAST(hops,
         "hops($module, /, graph, out, no_edge, sentinel, directed, unreachable, most_hops, "
         "kernel=None, device=None, stream=0, ordered=False, progress=None, "
         "max_memory=None)\n--\n\n"
         "The least numbers of edges between all nodes, into out; returns whether it was not given "
         "up."),
    FAST(few_edges,
         "few_edges($module, /, op, n, edges, on_cuda=False)\n--\n\n"
         "Whether hops is tried for such a graph, or closure finds components first."),
    FAST(closure,
         "closure($module, /, graph, out, no_edge, sentinel, directed, reflexive, kernel=None, "
         "device=None, stream=0, ordered=False, options=None, progress=None, "
         "max_memory=None)\n--\n\n"
         "Which nodes can be reached from which, into out."),
    FAST(closure_batch,
         "closure_batch($module, /, graph, out, no_edge, sentinel, directed, reflexive, "
         "kernel=None, device=None, stream=0, ordered=False, options=None, progress=None, "
         "max_memory=None)\n--\n\n"
         "The same for many graphs at once, a NumPy array whose first axes are those of out."),
    FAST(apsp_band,
         "apsp_band($module, /, dist, pred, snapshots, semiring, first, pivot, pivots, stream=0, "
         "ordered=False, max_memory=None)\n--\n\n"
         "Stages [pivot, pivot + pivots) of apsp on rows [first, ...) of the matrix, in place; the "
         "band that has the pivots' rows leaves these in snapshots, others read them."),
    FAST(far_plan,
         "far_plan($module, /, n, dtype, predecessors, device=None, max_memory=None, "
         "kernel=None, semiring='min_plus', devices=())\n--\n\n"
         "How apsp would go through a device with so much memory, or several, as a dictionary."),
    FAST(far,
         "far($module, /, dist, pred, semiring, device, progress=None, max_memory=None, "
         "devices=())\n--\n\n"
         "For tests: closes host matrices in place by way of a device with so much memory, or "
         "several; returns the plan, and what was moved."),
    FAST(several_plan,
         "several_plan($module, /, n, dtype, predecessors, in_place, devices, max_memory=None, "
         "semiring='min_plus')\n--\n\n"
         "How apsp would share out the rows among devices, a dictionary for each that holds some; "
         "in_place: devices read the graph where it is closed."),
    FAST(minplus,
         "minplus($module, /, a, b, c, out, semiring, kernel=None, device=None, stream=0, "
         "ordered=False, options=None, progress=None, max_memory=None)\n--\n\n"
         "The product of a and b over a semiring, joined with c unless that is None, into out."),
    FAST(minplus_batch,
         "minplus_batch($module, /, a, b, c, out, semiring, kernel=None, device=None, stream=0, "
         "ordered=False, options=None, progress=None, max_memory=None)\n--\n\n"
         "The same for many matrices at once, NumPy arrays of out's dtype whose first axes are "
         "those of out."),
    PLAIN(keep,
          "keep($module, /)\n--\n\n"
          "What `kept` of nearest and within takes, to arrange the same b once for several calls."),
    FAST(common,
         "common($module, /, members)\n--\n\n"
         "What `common` of nearest, within and count takes, to bring the same b to so many "
         "devices, each by a thread that calls for it at about the same time."),
    FAST(nearest,
         "nearest($module, /, a, b, distances, indices, radii, first, metric, kernel=None, "
         "device=None, stream=0, ordered=False, "
         "weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, options=None, "
         "progress=None, "
         "max_memory=None, kept=None, common=None)\n--\n\n"
         "The nearest rows of b to every row of a, into distances and indices; a's rows are b's "
         "from "
         "`first` on, unless that is None."),
    FAST(within,
         "within($module, /, a, b, dtype, radii, most, by_distance, first, metric, kernel=None, "
         "device=None, stream=0, ordered=False, "
         "weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, options=None, "
         "progress=None, "
         "max_memory=None, kept=None, common=None)\n--\n\n"
         "The rows of b within a radius of every row of a: (indptr, indices, distances); on a "
         "device (what gather takes, how many there are)."),
    FAST(gather,
         "gather($module, /, found, distances, indices, places, stream=0, ordered=False)"
         "\n--\n\n"
         "What within found on a device into arrays there; where each row's begin into places."),
    FAST(count,
         "count($module, /, a, b, dtype, bounds, a_weights, b_weights, first, metric, kernel=None, "
         "device=None, stream=0, ordered=False, "
         "weights=None, p=2.0, base=0.0, vi=None, factor=None, box=None, options=None, "
         "progress=None, "
         "max_memory=None, common=None)\n--\n\n"
         "The pairs of rows by the first bound that their distance does not exceed."),
    FAST(perron,
         "perron($module, /, a, out, tol, max_iter, shift, x0, kernel=None, device=None, stream=0, "
         "ordered=False, options=None, max_memory=None)\n--\n\n"
         "The Perron vector of a into out; returns (root, lower bound, upper bound, rounds, "
         "converged)."),
    FAST(perron_part,
         "perron_part($module, /, matrix, sums, vector, top, apart, epsilon, kernel=None, "
         "device=None, stream=0, ordered=False, options=None)\n--\n\n"
         "One part of the perron study's loop, on what the loop keeps; matrix may be None."),
    FAST(choose,
         "choose($module, /, op, dtype, metric, n, cols, kernel=None, device=None, operands=None, "
         "weighted=False, p=2.0, semiring='min_plus', rows=0, predecessors=False, "
         "in_panels=False, direct=False, neighbors=0, bounded=False, factored=True, "
         "periodic=False, condensed=False)\n--\n\n"
         "The kernel that would run: (id, device, reason, {id: why another is not taken})."),
    FAST(describe,
         "describe($module, /, value, name)\n--\n\n"
         "What an object exports by DLPack: ((rows, columns), \"float32\", address, strides in "
         "elements or None)."),
    FAST(ceiling,
         "ceiling($module, /, kernel, bytes, repeats, device=None)\n--\n\n"
         "Measures one limit of the machine: (work of a call, (seconds of each call, ...))."),
    FAST(code_for,
         "code_for($module, /, targets, capability)\n--\n\n"
         "How code for such targets (\"80;90+PTX\") runs on a device: machine code, ptx or none."),
    FAST(generation,
         "generation($module, /, capability)\n--\n\n"
         "What the table knows of a device's generation, or None if it is older than all."),
    FAST(
        pretend,
        "pretend($module, /, targets, capability=0, multiprocessors=0, shared_block=0, "
        "shared_multiprocessor=0, double_ratio=1)\n--\n\n"
        "For tests: the chooser believes in such a card, whatever there is; targets=None ends it."),
    FAST(fail_allocation,
         "fail_allocation($module, /, nth)\n--\n\n"
         "For tests: the nth allocation from now on fails; 0 for none."),
    FAST(refuse_peers,
         "refuse_peers($module, /, refuse)\n--\n\n"
         "For tests: whether devices are denied each other's memory from now on."),
    FAST(limit_pinned,
         "limit_pinned($module, /, bytes)\n--\n\n"
         "Bounds the pinned memory of each device; gives back what there is."),
    FAST(most_held,
         "most_held($module, /, device, forget=False)\n--\n\n"
         "The most bytes that we held on a CUDA device at once, since they were forgotten."),
    FAST(event_record,
         "event_record($module, /, device, stream)\n--\n\n"
         "Marks a moment in a CUDA stream."),
    FAST(event_elapsed,
         "event_elapsed($module, /, start, stop)\n--\n\n"
         "Milliseconds between two moments; waits for the second."),
    PLAIN(allocations, "allocations($module, /)\n--\n\nFor tests: the core's blocks of memory."),
    PLAIN(pinned, "pinned($module, /)\n--\n\nBytes of pinned host memory."),
    PLAIN(metrics, "metrics($module, /)\n--\n\nThe rows of the table of metrics, as dictionaries."),
    PLAIN(kernels, "kernels($module, /)\n--\n\nThe rows of the kernel table, as dictionaries."),
    PLAIN(
        host,
        "host($module, /)\n--\n\nThe processor: instruction set, threads, and those that copy host "
        "arrays for a device."),
    PLAIN(cuda, "cuda($module, /)\n--\n\nThe state of CUDA: why not, versions, devices."),
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)core_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gpudist._core",
    .m_doc = PyDoc_STR("The compiled core of gpudist. Private: call the functions of gpudist."),
    .m_size = sizeof(gd_module_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
