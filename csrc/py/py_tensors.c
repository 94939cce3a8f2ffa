/* py_tensors.c: cdist of PyTorch's CUDA tensors without the detour over Python.
 *
 * A small call takes the device some microseconds, and reading tensors by their Python attributes
 * takes as long again. So what most calls are, two tensors of one dtype and a metric's name, is
 * read here through DLPack's exchange table, in some 50 ns a tensor. Whatever is not as simple is
 * left to the usual way, errors included: then the answer is None. The result is still allocated by
 * its library's own method, lest it is a foreigner there (its streams, its storage). */
#include "boundary.h"

#include "../registry.h"
#include "dlpack_abi.h"

/* Larger results are allocated with a look at how much memory there is. */
#define MOST_BYTES ((ptrdiff_t)1 << 28)

/* Whether `value` is of PyTorch's own type, no subclass: those may be anything. Its table is kept
 * once it was found. */
static bool is_tensor(gd_module_state *state, PyObject *value)
{
    PyObject *const type = (PyObject *)Py_TYPE(value);
    PyObject *name, *torch, *tensor = NULL, *capsule = NULL;
    if (state->tensor_type != NULL || PyArray_Check(value)) {
        return type == state->tensor_type;
    }
    name = PyUnicode_InternFromString("torch");
    torch = name != NULL ? PyImport_GetModule(name) : NULL; /* NULL if it was never imported */
    if (torch != NULL) {
        tensor = PyObject_GetAttrString(torch, "Tensor");
    }
    if (tensor == type) {
        capsule = PyObject_GetAttrString(tensor, "__dlpack_c_exchange_api__");
    }
    if (capsule != NULL) {
        const dl_exchange *table = PyCapsule_GetPointer(capsule, DL_EXCHANGE_CAPSULE);
        if (table != NULL && table->version.major == 1 && table->read_tensor != NULL) {
            state->exchange = table; /* as long as the process lives, says the specification */
            state->tensor_type = Py_NewRef(tensor);
        }
    }
    Py_XDECREF(name);
    Py_XDECREF(torch);
    Py_XDECREF(tensor);
    Py_XDECREF(capsule);
    PyErr_Clear();
    return state->tensor_type == type;
}

/* Whether it is a matrix of floats on a CUDA device, which *matrix then describes. Numbers that are
 * to be negated when they are read are no such thing. */
static bool read_matrix(const gd_module_state *state, PyObject *tensor, gd_matrix *matrix)
{
    dl_tensor t;
    PyObject *negated = PyObject_CallMethodObjArgs(tensor, state->is_neg, NULL);
    const bool plain = negated == Py_False && state->exchange->read_tensor(tensor, &t) == 0;
    Py_XDECREF(negated);
    if (!plain) {
        PyErr_Clear();
        return false;
    }
    if (t.device.type != DL_CUDA || t.ndim != 2 || t.dtype.code != DL_FLOAT || t.dtype.lanes != 1 ||
        (t.dtype.bits != 32 && t.dtype.bits != 64)) {
        return false;
    }
    *matrix = (gd_matrix){
        .data = (char *)t.data + t.byte_offset,
        .rows = t.shape[0],
        .cols = t.shape[1],
        .row_stride = t.strides != NULL ? t.strides[0] : t.shape[1],
        .col_stride = t.strides != NULL ? t.strides[1] : 1,
        .dtype = t.dtype.bits == 32 ? GD_F32 : GD_F64,
        .device = {GD_CUDA, t.device.id},
    };
    return true;
}

static bool fit_each_other(const gd_matrix *a, const gd_matrix *b)
{
    ptrdiff_t bytes;
    return a->dtype == b->dtype && a->device.index == b->device.index && a->cols == b->cols &&
           !__builtin_mul_overflow(a->rows, b->rows, &bytes) &&
           !__builtin_mul_overflow(bytes, (ptrdiff_t)gd_dtype_size(a->dtype), &bytes) &&
           bytes <= MOST_BYTES;
}

bool gd_find_simple_metric(PyObject *name, gd_metric *metric)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const int found = text != NULL ? gd_metric_find(text) : -1;
    PyErr_Clear();
    *metric = (gd_metric)found;
    return found >= 0 && gd_metric_info(*metric)->domain == GD_NUMBERS &&
           gd_metric_info(*metric)->columns == 0 &&
           (gd_metric_info(*metric)->takes & ~GD_TAKES_W) == 0;
}

/* A new tensor of the library's own; NULL without an exception where it has no room, which the
 * usual way will find out again and say. */
static PyObject *allocate(const gd_module_state *state, PyObject *like, const gd_matrix *a,
                          const gd_matrix *b, gd_matrix *matrix)
{
    PyObject *shape = Py_BuildValue("(nn)", a->rows, b->rows);
    PyObject *out =
        shape != NULL ? PyObject_CallMethodObjArgs(like, state->new_empty, shape, NULL) : NULL;
    Py_XDECREF(shape);
    if (out == NULL || (PyObject *)Py_TYPE(out) != state->tensor_type ||
        !read_matrix(state, out, matrix) || matrix->dtype != a->dtype || matrix->col_stride != 1 ||
        matrix->row_stride != b->rows) {
        PyErr_Clear();
        Py_CLEAR(out);
    }
    return out;
}

/* The caller's own tensor for the result, if it is as simple. One that records what is done to it
 * is not to be written to, and the usual way says so. */
static PyObject *take_out(const gd_module_state *state, PyObject *out, const gd_matrix *a,
                          const gd_matrix *b, gd_matrix *matrix)
{
    PyObject *recording = NULL;
    bool fits = (PyObject *)Py_TYPE(out) == state->tensor_type && read_matrix(state, out, matrix) &&
                matrix->dtype == a->dtype && matrix->device.index == a->device.index &&
                matrix->rows == a->rows && matrix->cols == b->rows && matrix->col_stride == 1 &&
                matrix->row_stride == b->rows;
    if (fits) {
        recording = PyObject_GetAttr(out, state->requires_grad);
        fits = recording == Py_False;
        Py_XDECREF(recording);
        PyErr_Clear();
    }
    return fits ? Py_NewRef(out) : NULL;
}

GD_FUNCTION(gd_py_cdist_tensors)
{
    gd_module_state *state = PyModule_GetState(module);
    PyObject *a_object, *b_object, *metric, *out_object = Py_None, *result;
    gd_matrix a, b, out;
    gd_measure measure = {.p = 2};
    gd_orders orders = {.ordered = true};
    gd_attention attention = {0};
    gd_error err;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"metric", gd_to_object, &metric, true},
                           {"out", gd_to_object, &out_object, false}};
    if (!gd_parse("cdist_tensors", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (!is_tensor(state, a_object) || !is_tensor(state, b_object) ||
        !read_matrix(state, a_object, &a) || !read_matrix(state, b_object, &b) ||
        !fit_each_other(&a, &b) || !gd_find_simple_metric(metric, &measure.metric) ||
        (result = out_object == Py_None ? allocate(state, a_object, &a, &b, &out)
                                        : take_out(state, out_object, &a, &b, &out)) == NULL) {
        Py_RETURN_NONE;
    }
    if (state->exchange->current_stream(DL_CUDA, a.device.index, &orders.stream) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    orders.watch = gd_let_go(&attention);
    const gd_status status = gd_run_cdist(&a, &b, &out, &measure, &orders, &err);
    gd_take_back(&attention);
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
