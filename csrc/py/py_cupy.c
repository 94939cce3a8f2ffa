/* py_cupy.c: CuPy's arrays, for small calls.
 *
 * CuPy has no exchange table, and its DLPack and __cuda_array_interface__ make dictionaries and
 * capsules. Its attributes are quick: eight of them, some 0.6 us, tell all there is to know. */
#include "py_library.h"

static PyObject *attribute_of(PyObject *module, const char *outer, const char *inner)
{
    PyObject *between = PyObject_GetAttrString(module, outer);
    PyObject *found = between != NULL ? PyObject_GetAttrString(between, inner) : NULL;
    Py_XDECREF(between);
    return found;
}

/* The library is known once it was met, all of it or nothing. */
static bool is_array(gd_module_state *state, PyObject *value)
{
    PyObject *const type = (PyObject *)Py_TYPE(value);
    PyObject *name, *cupy, *array, *stream, *device;
    if (state->cupy_type != NULL || PyArray_Check(value)) {
        return type == state->cupy_type;
    }
    name = PyUnicode_InternFromString("cupy");
    cupy = name != NULL ? PyImport_GetModule(name) : NULL; /* NULL if it was never imported */
    Py_XDECREF(name);
    array = cupy != NULL ? PyObject_GetAttrString(cupy, "ndarray") : NULL;
    if (array == NULL || array != type) {
        Py_XDECREF(array);
        Py_XDECREF(cupy);
        PyErr_Clear();
        return false;
    }
    stream = attribute_of(cupy, "cuda", "get_current_stream");
    device = attribute_of(cupy, "cuda", "runtime");
    if (stream != NULL && device != NULL) {
        state->cupy_type = Py_NewRef(array);
        state->cupy_stream = Py_NewRef(stream);
        state->cupy_runtime = Py_NewRef(device);
    }
    Py_XDECREF(stream);
    Py_XDECREF(device);
    Py_DECREF(array);
    Py_DECREF(cupy);
    PyErr_Clear();
    return state->cupy_type == type;
}

/* An attribute that is a whole number, or -1 with an exception. */
static long long number(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    const long long found = value != NULL ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return found;
}

/* The whole numbers of a tuple, and how many; -1 if that is no tuple of so few. */
static int numbers(PyObject *object, PyObject *name, int64_t found[GD_MOST_OF_SHAPE])
{
    PyObject *tuple = PyObject_GetAttr(object, name);
    const Py_ssize_t count = tuple != NULL && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    for (Py_ssize_t i = 0; i < count && count <= GD_MOST_OF_SHAPE; ++i) {
        found[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
    }
    Py_XDECREF(tuple);
    return count <= GD_MOST_OF_SHAPE && PyErr_Occurred() == NULL ? (int)count : -1;
}

/* What an array's attributes tell: strides are in elements. */
typedef struct described {
    int64_t shape[GD_MOST_OF_SHAPE], strides[GD_MOST_OF_SHAPE];
    int ndim, dtype, device;
    void *data;
} described;

static bool describe(const gd_module_state *state, PyObject *array, described *found)
{
    PyObject *dtype = PyObject_GetAttr(array, state->dtype);
    PyObject *memory = PyObject_GetAttr(array, state->data);
    const int type = dtype != NULL && PyArray_DescrCheck(dtype) ? ((PyArray_Descr *)dtype)->type_num
                                                                : NPY_OBJECT;
    const int64_t size = type == NPY_FLOAT32 ? 4 : 8;
    found->dtype = type == NPY_FLOAT32 ? GD_F32 : GD_F64;
    found->ndim = numbers(array, state->shape, found->shape);
    bool is = memory != NULL && (type == NPY_FLOAT32 || type == NPY_FLOAT64) && found->ndim >= 0 &&
              numbers(array, state->strides, found->strides) == found->ndim;
    for (int i = 0; is && i < found->ndim; ++i) {
        is = found->strides[i] % size == 0;
        found->strides[i] /= size;
    }
    if (is) {
        found->data = (void *)(uintptr_t)number(memory, state->ptr);
        found->device = (int)number(memory, state->device_id);
        is = PyErr_Occurred() == NULL;
    }
    Py_XDECREF(dtype);
    Py_XDECREF(memory);
    PyErr_Clear();
    return is;
}

static bool read_array(const gd_module_state *state, PyObject *array, gd_matrix *matrix)
{
    described found;
    if (!describe(state, array, &found) || found.ndim != 2) {
        return false;
    }
    *matrix = (gd_matrix){
        .data = found.data,
        .rows = found.shape[0],
        .cols = found.shape[1],
        .row_stride = found.strides[0],
        .col_stride = found.strides[1],
        .dtype = (gd_dtype)found.dtype,
        .device = {GD_CUDA, found.device},
    };
    return true;
}

static bool read_graphs_of_array(const gd_module_state *state, PyObject *array, gd_graphs *graphs)
{
    described found;
    return describe(state, array, &found) &&
           gd_describe_graphs(found.shape, found.strides, found.ndim, found.dtype, found.data,
                              found.device, graphs);
}

/* CuPy allocates on the device that is current, and its current stream is one of that device's. */
static bool is_current(const gd_module_state *state, int device)
{
    PyObject *found = PyObject_CallMethodObjArgs(state->cupy_runtime, state->get_device, NULL);
    const bool is = found != NULL && PyLong_AsLong(found) == device;
    Py_XDECREF(found);
    PyErr_Clear();
    return is;
}

/* A new array of a dtype, which it takes over, with its memory. */
static PyObject *make_of(gd_module_state *state, PyObject *dtype, const gd_matrix *matrix, int ndim,
                         const ptrdiff_t *shape, void **made)
{
    PyObject *lengths = gd_numbers(shape, ndim), *array = NULL, *memory = NULL;
    if (lengths != NULL && dtype != NULL && is_current(state, matrix->device.index)) {
        array = PyObject_CallFunctionObjArgs(state->cupy_type, lengths, dtype, NULL);
    }
    memory = array != NULL ? PyObject_GetAttr(array, state->data) : NULL;
    if (memory != NULL) {
        *made = (void *)(uintptr_t)number(memory, state->ptr);
    }
    if (memory == NULL || PyErr_Occurred() != NULL) {
        Py_CLEAR(array);
    }
    Py_XDECREF(memory);
    Py_XDECREF(lengths);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return array;
}

/* Reading all attributes of what was just made would take a tenth of the call. */
static PyObject *make_array(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                            ptrdiff_t rows, ptrdiff_t cols, gd_matrix *made)
{
    *made = (gd_matrix){
        .rows = rows,
        .cols = cols,
        .row_stride = cols,
        .col_stride = 1,
        .dtype = matrix->dtype,
        .device = matrix->device,
    };
    return make_of(state, PyObject_GetAttr(like, state->dtype), matrix, 2,
                   (const ptrdiff_t[]){rows, cols}, &made->data);
}

static PyObject *make_indices(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                              ptrdiff_t rows, ptrdiff_t cols, int64_t **made)
{
    void *memory = NULL;
    PyObject *const int64 = (PyObject *)PyArray_DescrFromType(NPY_INT64);
    PyObject *const array =
        make_of(state, int64, matrix, 2, (const ptrdiff_t[]){rows, cols}, &memory);
    (void)like;
    *made = memory;
    return array;
}

static PyObject *make_graphs(gd_module_state *state, PyObject *like, const gd_graphs *graphs,
                             bool whole, void **made)
{
    PyObject *const dtype =
        whole ? (PyObject *)PyArray_DescrFromType(NPY_INT32) : PyObject_GetAttr(like, state->dtype);
    return make_of(state, dtype, &graphs->weights, graphs->ndim, graphs->shape, made);
}

static bool is_plain_array(const gd_module_state *state, PyObject *array)
{
    described found;
    return describe(state, array, &found) && is_current(state, found.device);
}

static int stream_of_arrays(const gd_module_state *state, int device, void **handle)
{
    PyObject *current = PyObject_CallNoArgs(state->cupy_stream);
    const long long pointer = current != NULL ? number(current, state->ptr) : -1;
    (void)device;
    Py_XDECREF(current);
    *handle = (void *)(uintptr_t)pointer;
    return PyErr_Occurred() != NULL ? -1 : 0;
}

const gd_library gd_library_cupy = {is_array,       read_array,           make_array,
                                    make_indices,   read_graphs_of_array, make_graphs,
                                    is_plain_array, stream_of_arrays};
