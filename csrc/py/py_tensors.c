/* py_tensors.c: distances, neighbours and products of PyTorch's tensors and CuPy's arrays without
 * the detour over Python.
 *
 * A small call takes the device some microseconds, and the way over Python, which knows arrays of
 * every kind, takes as long again. So what most calls are, two arrays of one dtype and a metric's
 * name, is read here: tensors through DLPack's exchange table, in some 50 ns each. Whatever is not
 * as simple is left to the usual way, errors included: then the answer is None. */
#include "py_library.h"
#include "py_simple.h"

#include "../neighbors.h"
#include "../registry.h"
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

/* Some of PyTorch's zeros have no memory. */
static bool read_tensor(const gd_module_state *state, PyObject *tensor, gd_array *array)
{
    const bool taken = gd_take_tensor(state, tensor, "tensor", array) != 0;
    PyErr_Clear();
    return taken && array->data != NULL && (array->dtype == GD_F32 || array->dtype == GD_F64);
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

/* Where something else than PyTorch itself answers, it may be another tensor. */
static PyObject *make_tensor(gd_module_state *state, PyObject *like, const gd_array *array,
                             gd_made_of kind, int ndim, const ptrdiff_t *shape, void **memory)
{
    PyObject *const dtype = kind == GD_OF_INT32   ? state->tensor_int32
                            : kind == GD_OF_INT64 ? state->tensor_int64
                                                  : NULL;
    PyObject *keywords = dtype != NULL ? PyDict_New() : NULL, *tensor = NULL;
    dl_tensor t;
    if (dtype == NULL || (keywords != NULL && PyDict_SetItem(keywords, state->dtype, dtype) == 0)) {
        tensor = new_tensor(state, like, ndim, shape, keywords);
    }
    if (tensor != NULL &&
        (!gd_is_tensor(state, tensor) || state->exchange->read_tensor(tensor, &t) != 0 ||
         t.device.type != (array->device.backend == GD_CUDA ? DL_CUDA : DL_CPU) ||
         (kind == GD_AS_LIKE && gd_dtype_of_tensor(&t) != (int)array->dtype))) {
        Py_CLEAR(tensor);
    }
    *memory = tensor != NULL ? (char *)t.data + t.byte_offset : NULL;
    Py_XDECREF(keywords);
    PyErr_Clear();
    return tensor;
}

/* One that records what is done with it is neither to be read nor to be written to in silence: the
 * usual way refuses it. Numbers that are to be negated when they are read are no floats. */
static bool is_plain_tensor(const gd_module_state *state, PyObject *tensor)
{
    PyObject *recording = PyObject_GetAttr(tensor, state->requires_grad);
    PyObject *negated =
        recording == Py_False ? PyObject_CallMethodObjArgs(tensor, state->is_neg, NULL) : NULL;
    const bool plain = negated == Py_False;
    Py_XDECREF(recording);
    Py_XDECREF(negated);
    PyErr_Clear();
    return plain;
}

static int stream_of_tensors(const gd_module_state *state, int device, void **stream)
{
    return state->exchange->current_stream(DL_CUDA, device, stream);
}

const gd_library gd_library_torch = {gd_is_tensor, read_tensor, make_tensor, is_plain_tensor,
                                     stream_of_tensors};

/* ---------------------------------------------------------------- any library */

const gd_library *gd_library_of(gd_module_state *state, PyObject *array)
{
    return gd_is_tensor(state, array) ? &gd_library_torch : &gd_library_cupy;
}

/* Whether it is one of the library's arrays of floats, and no more than its memory, which the
 * caller may know. */
static bool read_points(gd_module_state *state, const gd_library *library, PyObject *object,
                        bool known_plain, gd_array *array)
{
    return library->owns(state, object) && library->read(state, object, array) &&
           (known_plain || library->plain(state, object));
}

static bool read_metric(PyObject *metric, PyObject *arguments, const gd_matrix *points,
                        gd_simple_measure *simple)
{
    return gd_read_simple_measure(metric, arguments, points->cols, simple) &&
           gd_metric_info(simple->measure.metric)->domain == GD_NUMBERS &&
           gd_fits_simply(simple, points->dtype);
}

/* Where the result goes: the caller's own array if it is as simple, or a new one; NULL where the
 * usual way has to see to it. */
static PyObject *take_result(gd_module_state *state, const gd_library *library, PyObject *given,
                             PyObject *like, const gd_simple *call, const gd_measure *measure,
                             void **memory)
{
    gd_array theirs;
    if (given == Py_None) {
        return library->make(state, like, &call->out, GD_AS_LIKE, call->out.ndim, call->out.shape,
                             memory);
    }
    if (!read_points(state, library, given, false, &theirs) ||
        !gd_is_room(call, measure, &theirs)) {
        return NULL;
    }
    *memory = theirs.data;
    return Py_NewRef(given);
}

/* A call for distances of the rows of two arrays, or of every two rows of one, with b NULL. */
typedef struct tensor_call {
    PyObject *a, *b, *metric, *out, *arguments;
    bool known_plain;
} tensor_call;

static PyObject *compute(PyObject *module, const tensor_call *c)
{
    gd_module_state *const state = PyModule_GetState(module);
    const gd_library *const library = gd_library_of(state, c->a);
    PyObject *result;
    void *memory;
    gd_simple call;
    gd_simple_measure simple;
    gd_orders orders = {0};
    call.pairs = c->b == NULL;
    if (!read_points(state, library, c->a, c->known_plain, &call.a) ||
        (c->b != NULL && !read_points(state, library, c->b, c->known_plain, &call.b))) {
        Py_RETURN_NONE;
    }
    call.out.dtype = call.a.dtype;
    call.out.device = call.a.device;
    const bool on_host = call.a.device.backend == GD_CPU;
    if (!gd_join(&call, on_host ? GD_MOST_BYTES_ON_HOST : GD_MOST_BYTES_ON_DEVICE) ||
        !read_metric(c->metric, c->arguments, &call.matrices.a.first, &simple) ||
        (result = take_result(state, library, c->out, c->a, &call, &simple.measure, &memory)) ==
            NULL) {
        Py_RETURN_NONE;
    }
    if (!on_host && library->stream(state, call.a.device.index, &orders.stream) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    return gd_run_simply(module, result, memory, &call, &simple.measure, &orders);
}

/* The parameters after the points. */
#define AFTER_POINTS(call)                                                                     \
    {"metric", gd_to_object, &(call).metric, true}, {"out", gd_to_object, &(call).out, false}, \
        {"arguments", gd_to_object, &(call).arguments, false},                                 \
    {                                                                                          \
        "known_plain", gd_to_bool, &(call).known_plain, false                                  \
    }

GD_FUNCTION(gd_py_cdist_tensors)
{
    tensor_call c = {.out = Py_None, .arguments = Py_None};
    const gd_arg spec[] = {
        {"a", gd_to_object, &c.a, true}, {"b", gd_to_object, &c.b, true}, AFTER_POINTS(c)};
    return gd_parse("cdist_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])
               ? compute(module, &c)
               : NULL;
}

GD_FUNCTION(gd_py_pdist_tensors)
{
    tensor_call c = {.out = Py_None, .arguments = Py_None};
    const gd_arg spec[] = {{"x", gd_to_object, &c.a, true}, AFTER_POINTS(c)};
    return gd_parse("pdist_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])
               ? compute(module, &c)
               : NULL;
}

/* Whether there are few enough results, and on the host points, that a short way pays. */
static bool can_search(const gd_matrix *a, const gd_matrix *b, ptrdiff_t count)
{
    const bool on_host = a->device.backend == GD_CPU;
    return gd_same_device(a, b) && a->dtype == b->dtype && a->cols == b->cols && count > 0 &&
           a->rows <= GD_MOST_BYTES_ON_DEVICE / (ptrdiff_t)sizeof(int64_t) / count &&
           (!on_host || gd_is_brief(a, b));
}

GD_FUNCTION(gd_py_nearest_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *a_object, *b_object, *k, *metric, *arguments = Py_None, *distances = NULL,
                                                *indices = NULL, *result = NULL;
    gd_array a_array, b_array;
    gd_matrix a, b;
    void *numbers, *memory;
    gd_wanted wanted = {.self = -1};
    gd_simple_measure simple;
    gd_orders orders = {.ordered = true};
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"k", gd_to_object, &k, true},
                           {"metric", gd_to_object, &metric, true},
                           {"arguments", gd_to_object, &arguments, false}};
    if (!gd_parse("nearest_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (b_object == Py_None) {
        b_object = a_object;
        wanted.self = 0;
    }
    const gd_library *const library = gd_library_of(state, a_object);
    if (read_points(state, library, a_object, false, &a_array) &&
        read_points(state, library, b_object, false, &b_array) && gd_to_matrix(&a_array, &a) &&
        gd_to_matrix(&b_array, &b)) {
        wanted.most = gd_read_count(k, b.rows - (wanted.self == 0));
        if (can_search(&a, &b, wanted.most) && read_metric(metric, arguments, &a, &simple)) {
            const ptrdiff_t shape[] = {a.rows, wanted.most};
            distances = library->make(state, a_object, &a_array, GD_AS_LIKE, 2, shape, &memory);
            indices = library->make(state, a_object, &a_array, GD_OF_INT64, 2, shape, &numbers);
        }
    }
    if (distances == NULL || indices == NULL) {
        result = Py_NewRef(Py_None);
    }
    else if (a.device.backend == GD_CPU ||
             library->stream(state, a.device.index, &orders.stream) == 0) {
        const gd_matrix out = gd_dense(memory, a.rows, wanted.most, a.dtype, a.device);
        gd_attention attention = {0};
        gd_error err;
        orders.watch = gd_let_go(&attention);
        const gd_status status =
            gd_run_nearest(&a, &b, &out, numbers, &wanted, &simple.measure, &orders, &err);
        gd_take_back(&attention);
        result = status == GD_OK ? PyTuple_Pack(2, distances, indices) : gd_raise(module, &err);
    }
    Py_XDECREF(distances);
    Py_XDECREF(indices);
    return result;
}

/* Whether the factors fit each other, and the product is as small as one that is allocated without
 * a look at the memory that there is, and on the host brief. */
static bool can_multiply(const gd_matrix *a, const gd_matrix *b)
{
    const ptrdiff_t most = GD_MOST_BYTES_ON_DEVICE / (ptrdiff_t)gd_dtype_size(a->dtype);
    return gd_same_device(a, b) && a->dtype == b->dtype && a->cols == b->rows &&
           a->rows <= most / b->cols && (a->device.backend == GD_CUDA || gd_is_brief_product(a, b));
}

GD_FUNCTION(gd_py_minplus_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *a_object, *b_object, *name, *result = NULL;
    gd_array a_array, b_array;
    gd_matrix a, b, none = {0};
    void *memory;
    gd_orders orders = {.ordered = true};
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"semiring", gd_to_object, &name, true}};
    if (!gd_parse("minplus_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const gd_library *const library = gd_library_of(state, a_object);
    const char *text = PyUnicode_Check(name) ? gd_text(name, "semiring") : NULL;
    const int semiring = text != NULL ? gd_semiring_find(text) : -1;
    PyErr_Clear();
    if (semiring >= 0 && semiring != GD_OR_AND &&
        read_points(state, library, a_object, false, &a_array) &&
        read_points(state, library, b_object, false, &b_array) && gd_to_matrix(&a_array, &a) &&
        gd_to_matrix(&b_array, &b) && can_multiply(&a, &b)) {
        const ptrdiff_t shape[] = {a.rows, b.cols};
        result = library->make(state, a_object, &a_array, GD_AS_LIKE, 2, shape, &memory);
    }
    if (result == NULL) {
        Py_RETURN_NONE;
    }
    if (a.device.backend == GD_CUDA &&
        library->stream(state, a.device.index, &orders.stream) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    const gd_matrix out = gd_dense(memory, a.rows, b.cols, a.dtype, a.device);
    gd_attention attention = {0};
    gd_error err;
    orders.watch = gd_let_go(&attention);
    const gd_status status =
        gd_run_minplus(&a, &b, &none, &out, (gd_semiring)semiring, &orders, &err);
    gd_take_back(&attention);
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
