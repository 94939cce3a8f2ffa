/* py_cupy.c: CuPy's arrays, for small calls.
 *
 * CuPy has no exchange table, and its DLPack and __cuda_array_interface__ make dictionaries and
 * capsules. Its attributes are quick: eight of them, some 0.6 us, tell all there is to know. */
#include "py_library.h"

#include "../registry.h"

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
static int numbers(PyObject *object, PyObject *name, ptrdiff_t found[GD_MOST_DIMENSIONS])
{
    PyObject *tuple = PyObject_GetAttr(object, name);
    const Py_ssize_t count = tuple != NULL && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    for (Py_ssize_t i = 0; i < count && count <= GD_MOST_DIMENSIONS; ++i) {
        found[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
    }
    Py_XDECREF(tuple);
    return count <= GD_MOST_DIMENSIONS && PyErr_Occurred() == NULL ? (int)count : -1;
}

static bool read_array(const gd_module_state *state, PyObject *value, gd_array *array)
{
    PyObject *dtype = PyObject_GetAttr(value, state->dtype);
    PyObject *memory = PyObject_GetAttr(value, state->data);
    const int type = dtype != NULL && PyArray_DescrCheck(dtype) ? ((PyArray_Descr *)dtype)->type_num
                                                                : NPY_OBJECT;
    bool is = memory != NULL && (type == NPY_FLOAT32 || type == NPY_FLOAT64);
    array->dtype = type == NPY_FLOAT32 ? GD_F32 : GD_F64;
    array->ndim = is ? numbers(value, state->shape, array->shape) : -1;
    is = array->ndim >= 0 && numbers(value, state->strides, array->strides) == array->ndim;
    for (int i = 0; is && i < array->ndim; ++i) {
        is = array->strides[i] % (ptrdiff_t)gd_dtype_size(array->dtype) == 0;
    }
    if (is) {
        array->data = (void *)(uintptr_t)number(memory, state->ptr);
        array->device = (gd_device){GD_CUDA, (int)number(memory, state->device_id)};
        array->writeable = true;
        is = PyErr_Occurred() == NULL;
    }
    Py_XDECREF(dtype);
    Py_XDECREF(memory);
    PyErr_Clear();
    return is;
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

static PyObject *make_array(gd_module_state *state, PyObject *like, const gd_array *array,
                            gd_made_of kind, int ndim, const ptrdiff_t *shape, void **memory)
{
    PyObject *dtype = kind == GD_OF_INT32   ? (PyObject *)PyArray_DescrFromType(NPY_INT32)
                      : kind == GD_OF_INT64 ? (PyObject *)PyArray_DescrFromType(NPY_INT64)
                                            : PyObject_GetAttr(like, state->dtype);
    PyObject *lengths = gd_numbers(shape, ndim), *made = NULL, *data = NULL;
    if (lengths != NULL && dtype != NULL && is_current(state, array->device.index)) {
        made = PyObject_CallFunctionObjArgs(state->cupy_type, lengths, dtype, NULL);
    }
    data = made != NULL ? PyObject_GetAttr(made, state->data) : NULL;
    if (data != NULL) {
        *memory = (void *)(uintptr_t)number(data, state->ptr);
    }
    if (data == NULL || PyErr_Occurred() != NULL) {
        Py_CLEAR(made);
    }
    Py_XDECREF(data);
    Py_XDECREF(lengths);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return made;
}

static bool is_plain_array(const gd_module_state *state, PyObject *array)
{
    gd_array found;
    return read_array(state, array, &found) && is_current(state, found.device.index);
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

const gd_library gd_library_cupy = {is_array, read_array, make_array, is_plain_array,
                                    stream_of_arrays};
