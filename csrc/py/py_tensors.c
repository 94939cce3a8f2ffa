/* py_tensors.c: distances and neighbours of PyTorch's tensors and CuPy's arrays without the detour
 * over Python.
 *
 * A small call takes the device some microseconds, and the way over Python, which knows arrays of
 * every kind, takes as long again. So what most calls are, two arrays of one dtype and a metric's
 * name, is read here: tensors through DLPack's exchange table, in some 50 ns each. Whatever is not
 * as simple is left to the usual way, errors included: then the answer is None. */
#include "py_library.h"
#include "py_simple.h"

#include "../neighbors.h"
#include "dlpack_abi.h"

/* Its table is kept once it was found. */
bool gd_is_tensor(gd_module_state *state, PyObject *value)
{
    PyObject *const type = (PyObject *)Py_TYPE(value);
    PyObject *name, *torch, *tensor = NULL, *int64 = NULL, *int32 = NULL, *capsule = NULL;
    if (state->tensor_type != NULL || PyArray_Check(value)) {
        return type == state->tensor_type;
    }
    name = PyUnicode_InternFromString("torch");
    torch = name != NULL ? PyImport_GetModule(name) : NULL; /* NULL if it was never imported */
    if (torch != NULL) {
        tensor = PyObject_GetAttrString(torch, "Tensor");
    }
    if (tensor == type) {
        int64 = PyObject_GetAttrString(torch, "int64");
        int32 = PyObject_GetAttrString(torch, "int32");
        capsule = PyObject_GetAttrString(tensor, "__dlpack_c_exchange_api__");
    }
    if (capsule != NULL && int64 != NULL && int32 != NULL) {
        const dl_exchange *table = PyCapsule_GetPointer(capsule, DL_EXCHANGE_CAPSULE);
        if (table != NULL && table->version.major == 1 && table->read_tensor != NULL) {
            state->exchange = table; /* as long as the process lives, says the specification */
            state->tensor_type = Py_NewRef(tensor);
            state->tensor_int64 = Py_NewRef(int64);
            state->tensor_int32 = Py_NewRef(int32);
        }
    }
    Py_XDECREF(name);
    Py_XDECREF(torch);
    Py_XDECREF(tensor);
    Py_XDECREF(int64);
    Py_XDECREF(int32);
    Py_XDECREF(capsule);
    PyErr_Clear();
    return state->tensor_type == type;
}

static bool describe(const gd_module_state *state, PyObject *tensor, gd_matrix *matrix)
{
    dl_tensor t;
    if (state->exchange->read_tensor(tensor, &t) != 0) {
        PyErr_Clear();
        return false;
    }
    const bool on_cuda = t.device.type == DL_CUDA;
    if ((!on_cuda && t.device.type != DL_CPU) || t.ndim != 2 || t.dtype.code != DL_FLOAT ||
        t.dtype.lanes != 1 || (t.dtype.bits != 32 && t.dtype.bits != 64)) {
        return false;
    }
    *matrix = (gd_matrix){
        .data = (char *)t.data + t.byte_offset,
        .rows = t.shape[0],
        .cols = t.shape[1],
        .row_stride = t.strides != NULL ? t.strides[0] : t.shape[1],
        .col_stride = t.strides != NULL ? t.strides[1] : 1,
        .dtype = t.dtype.bits == 32 ? GD_F32 : GD_F64,
        .device = {on_cuda ? GD_CUDA : GD_CPU, on_cuda ? t.device.id : 0},
    };
    return on_cuda || gd_is_walkable(matrix);
}

/* Numbers that are to be negated when they are read are no matrix of floats. */
static bool is_as_stored(const gd_module_state *state, PyObject *tensor)
{
    PyObject *negated = PyObject_CallMethodObjArgs(tensor, state->is_neg, NULL);
    const bool plain = negated == Py_False;
    Py_XDECREF(negated);
    PyErr_Clear();
    return plain;
}

static bool read_tensor(const gd_module_state *state, PyObject *tensor, gd_matrix *matrix)
{
    return is_as_stored(state, tensor) && describe(state, tensor, matrix);
}

static bool read_graphs_of_tensor(const gd_module_state *state, PyObject *tensor, gd_graphs *graphs)
{
    dl_tensor t;
    if (!is_as_stored(state, tensor) || state->exchange->read_tensor(tensor, &t) != 0) {
        PyErr_Clear();
        return false;
    }
    return t.device.type == DL_CUDA &&
           gd_describe_graphs(t.shape, t.strides, t.ndim, gd_dtype_of_tensor(&t),
                              (char *)t.data + t.byte_offset, t.device.id, graphs);
}

/* A new tensor with the dtype of `like`, unless keywords name another, on its device. Its method
 * reads lengths half a microsecond quicker one by one than as a tuple. */
static PyObject *new_tensor(const gd_module_state *state, PyObject *like, int ndim,
                            const ptrdiff_t *shape, PyObject *keywords)
{
    PyObject *lengths = gd_numbers(shape, ndim);
    PyObject *method = lengths != NULL ? PyObject_GetAttr(like, state->new_empty) : NULL;
    PyObject *tensor = method != NULL ? PyObject_Call(method, lengths, keywords) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(lengths);
    return tensor;
}

static PyObject *make_tensor(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                             ptrdiff_t rows, ptrdiff_t cols, gd_matrix *made)
{
    PyObject *tensor = new_tensor(state, like, 2, (const ptrdiff_t[]){rows, cols}, NULL);
    (void)matrix;
    if (tensor != NULL && (!gd_is_tensor(state, tensor) || !describe(state, tensor, made))) {
        Py_CLEAR(tensor);
    }
    PyErr_Clear();
    return tensor;
}

/* The same with its memory, of that dtype unless it is NULL. */
static PyObject *new_tensor_of(gd_module_state *state, PyObject *like, int ndim,
                               const ptrdiff_t *shape, PyObject *dtype, void **made)
{
    PyObject *keywords = dtype != NULL ? PyDict_New() : NULL, *tensor = NULL;
    dl_tensor t;
    if (dtype == NULL || (keywords != NULL && PyDict_SetItem(keywords, state->dtype, dtype) == 0)) {
        tensor = new_tensor(state, like, ndim, shape, keywords);
    }
    if (tensor != NULL &&
        (!gd_is_tensor(state, tensor) || state->exchange->read_tensor(tensor, &t) != 0)) {
        Py_CLEAR(tensor);
    }
    *made = tensor != NULL ? (char *)t.data + t.byte_offset : NULL;
    Py_XDECREF(keywords);
    PyErr_Clear();
    return tensor;
}

static PyObject *make_numbers(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                              ptrdiff_t rows, ptrdiff_t cols, int64_t **made)
{
    void *memory;
    PyObject *const tensor = new_tensor_of(state, like, 2, (const ptrdiff_t[]){rows, cols},
                                           state->tensor_int64, &memory);
    (void)matrix;
    *made = memory;
    return tensor;
}

static PyObject *make_graphs(gd_module_state *state, PyObject *like, const gd_graphs *graphs,
                             bool whole, void **made)
{
    PyObject *const dtype = whole ? state->tensor_int32 : NULL;
    return new_tensor_of(state, like, graphs->ndim, graphs->shape, dtype, made);
}

/* One that records what is done with it is neither to be read nor to be written to in silence: the
 * usual way refuses it. */
static bool is_plain_tensor(const gd_module_state *state, PyObject *tensor)
{
    PyObject *recording = PyObject_GetAttr(tensor, state->requires_grad);
    const bool plain = recording == Py_False;
    Py_XDECREF(recording);
    PyErr_Clear();
    return plain;
}

static int stream_of_tensors(const gd_module_state *state, int device, void **stream)
{
    return state->exchange->current_stream(DL_CUDA, device, stream);
}

const gd_library gd_library_torch = {gd_is_tensor,    read_tensor,           make_tensor,
                                     make_numbers,    read_graphs_of_tensor, make_graphs,
                                     is_plain_tensor, stream_of_tensors};

/* ---------------------------------------------------------------- any library */

const gd_library *gd_library_of(gd_module_state *state, PyObject *array)
{
    return gd_is_tensor(state, array) ? &gd_library_torch : &gd_library_cupy;
}

/* Where the result goes: the caller's own array if it is as simple, or a new one; NULL where the
 * usual way has to see to it. */
static PyObject *take_result(gd_module_state *state, const gd_library *library, PyObject *given,
                             PyObject *like, const gd_matrix *a, const gd_matrix *b,
                             gd_matrix *matrix)
{
    const bool on_host =
        a->device.backend == GD_CPU; /* there a stopped call tells what is written */
    PyObject *out = given == Py_None ? library->make(state, like, a, a->rows, b->rows, matrix)
                                     : Py_NewRef(given);
    if (out == NULL ||
        (given != Py_None && (!library->owns(state, out) || !library->read(state, out, matrix) ||
                              !library->plain(state, out) || (on_host && !gd_is_brief(a, b)) ||
                              gd_may_overlap(a, matrix) || gd_may_overlap(b, matrix))) ||
        !gd_can_hold(matrix, a->dtype, a, b)) {
        Py_CLEAR(out);
    }
    return out;
}

/* The library of two arrays that are as simple, which are described; or NULL. */
static const gd_library *read_pair(gd_module_state *state, PyObject *a_object, PyObject *b_object,
                                   gd_matrix *a, gd_matrix *b)
{
    const gd_library *const library = gd_library_of(state, a_object);
    return library->owns(state, a_object) && library->owns(state, b_object) &&
                   library->read(state, a_object, a) && library->read(state, b_object, b) &&
                   library->plain(state, a_object) && library->plain(state, b_object)
               ? library
               : NULL;
}

static bool read_metric(PyObject *metric, ptrdiff_t columns, gd_measure *measure)
{
    return gd_read_simple_measure(metric, Py_None, columns, measure) &&
           gd_metric_info(measure->metric)->domain == GD_NUMBERS;
}

GD_FUNCTION(gd_py_cdist_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *a_object, *b_object, *metric, *out_object = Py_None, *result;
    const gd_library *library;
    gd_matrix a, b, out;
    gd_measure measure;
    gd_orders orders = {0};
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"metric", gd_to_object, &metric, true},
                           {"out", gd_to_object, &out_object, false}};
    if (!gd_parse("cdist_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if ((library = read_pair(state, a_object, b_object, &a, &b)) == NULL ||
        !gd_fit_simply(
            &a, &b, a.dtype,
            a.device.backend == GD_CPU ? GD_MOST_BYTES_ON_HOST : GD_MOST_BYTES_ON_DEVICE) ||
        !read_metric(metric, a.cols, &measure) ||
        (result = take_result(state, library, out_object, a_object, &a, &b, &out)) == NULL) {
        Py_RETURN_NONE;
    }
    if (a.device.backend == GD_CUDA &&
        library->stream(state, a.device.index, &orders.stream) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    return gd_run_simply(module, result, &a, &b, &out, &measure, &orders);
}

/* Whether there are rows, and few enough of the result, on a device, where it pays for any number
 * of points. */
static bool can_search(const gd_matrix *a, const gd_matrix *b, ptrdiff_t count)
{
    return a->device.backend == GD_CUDA && gd_same_device(a, b) && a->dtype == b->dtype &&
           a->cols == b->cols && a->rows > 0 && a->cols > 0 && count > 0 &&
           a->rows <= GD_MOST_BYTES_ON_DEVICE / (ptrdiff_t)sizeof(int64_t) / count;
}

GD_FUNCTION(gd_py_nearest_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *a_object, *b_object, *k, *metric, *distances = NULL, *indices = NULL, *result = NULL;
    const gd_library *library;
    gd_matrix a, b, out;
    int64_t *numbers;
    gd_wanted wanted = {.self = -1};
    gd_measure measure;
    gd_orders orders = {.ordered = true};
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"k", gd_to_object, &k, true},
                           {"metric", gd_to_object, &metric, true}};
    if (!gd_parse("nearest_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (b_object == Py_None) {
        b_object = a_object;
        wanted.self = 0;
    }
    if ((library = read_pair(state, a_object, b_object, &a, &b)) != NULL) {
        wanted.most = gd_read_count(k, b.rows - (wanted.self == 0));
        if (can_search(&a, &b, wanted.most) && read_metric(metric, a.cols, &measure)) {
            distances = library->make(state, a_object, &a, a.rows, wanted.most, &out);
            indices = library->make_indices(state, a_object, &a, a.rows, wanted.most, &numbers);
        }
    }
    if (distances == NULL || indices == NULL) {
        result = Py_NewRef(Py_None);
    }
    else if (library->stream(state, a.device.index, &orders.stream) == 0) {
        gd_attention attention = {0};
        gd_error err;
        orders.watch = gd_let_go(&attention);
        const gd_status status =
            gd_run_nearest(&a, &b, &out, numbers, &wanted, &measure, &orders, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? PyTuple_Pack(2, distances, indices) : gd_raise(module, &err);
    }
    Py_XDECREF(distances);
    Py_XDECREF(indices);
    return result;
}
