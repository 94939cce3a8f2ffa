/* intake.c: the one place where Python's arrays become gd_matrix views.
 *
 * Order: a NumPy array; an array on a CUDA device by the description that gpudist/arrays.py gives
 * of it, by DLPack, or by __cuda_array_interface__; else whatever NumPy makes of the object.
 * Nothing is ever written to an input, and nothing is kept beyond gd_release. */
#include "boundary.h"

#include <limits.h>

#include "../device.h"
#include "../registry.h"
#include "dlpack_abi.h"
#include "py_library.h"
#include "py_stacks.h"

static const int numpy_types[] = {
    [GD_F32] = NPY_FLOAT32, [GD_F64] = NPY_FLOAT64, [GD_I32] = NPY_INT32, [GD_BOOL] = NPY_BOOL};
static const char one_of[] = "must be of float32, float64, int32 or bool";

static int fail(PyObject *type, const char *name, const char *what)
{
    PyErr_Format(type, "%s %s", name, what);
    return 0;
}

static int wrong_dimensions(const char *name, int wanted, long long found)
{
    PyErr_Format(PyExc_ValueError, "%s must be %s, got %lld dimension%s", name,
                 wanted == 1 ? "one-dimensional" : "two-dimensional", found, found == 1 ? "" : "s");
    return 0;
}

/* ---------------------------------------------------------------- NumPy */

static int dtype_of(PyArrayObject *array)
{
    for (int i = 0; i < GD_DTYPE_COUNT; ++i) {
        if (PyArray_TYPE(array) == numpy_types[i]) {
            return i;
        }
    }
    return -1;
}

/* Matrices that the kernels can walk: dense rows, in ascending order, whole elements apart. */
static bool walkable(PyArrayObject *array)
{
    const int last = PyArray_NDIM(array) - 1;
    const npy_intp size = PyArray_ITEMSIZE(array);
    const npy_intp rows = PyArray_DIM(array, last - 1), cols = PyArray_DIM(array, last);
    const npy_intp down = PyArray_STRIDE(array, last - 1), along = PyArray_STRIDE(array, last);
    return (cols <= 1 || along == size) && (rows <= 1 || (down >= cols * size && down % size == 0));
}

/* A vector becomes a matrix of one row. */
static int fill_from_numpy(PyArrayObject *array, int dtype, gd_operand *operand)
{
    const bool vector = PyArray_NDIM(array) == 1;
    const ptrdiff_t rows = vector ? 1 : PyArray_DIM(array, 0);
    const ptrdiff_t cols = PyArray_DIM(array, vector ? 0 : 1);
    const bool one_row = rows <= 1;
    operand->matrix = (gd_matrix){
        .data = PyArray_DATA(array),
        .rows = rows,
        .cols = cols,
        .row_stride = one_row ? cols : PyArray_STRIDE(array, 0) / PyArray_ITEMSIZE(array),
        .col_stride = 1,
        .dtype = (gd_dtype)dtype,
        .device = {GD_CPU, 0},
    };
    return 1;
}

PyObject *gd_to_walkable(PyObject *value, int dtype)
{
    const int wanted = NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_FORCECAST;
    PyArray_Descr *descr = dtype < 0 ? NULL : PyArray_DescrFromType(numpy_types[dtype]);
    PyObject *array = PyArray_CheckFromAny(value, descr, 0, 0, wanted, NULL); /* takes descr */
    if (array != NULL && PyArray_NDIM((PyArrayObject *)array) >= 2 &&
        !walkable((PyArrayObject *)array)) {
        PyObject *const dense =
            PyArray_FromArray((PyArrayObject *)array, NULL, wanted | NPY_ARRAY_C_CONTIGUOUS);
        Py_DECREF(array);
        array = dense;
    }
    return array;
}

static int take_numpy(PyObject *value, const char *name, int dtype, gd_operand *operand)
{
    PyArrayObject *const array = (PyArrayObject *)gd_to_walkable(value, dtype);
    if (array == NULL) {
        return 0;
    }
    operand->owner = (PyObject *)array;
    if (PyArray_NDIM(array) != 2) {
        return wrong_dimensions(name, 2, PyArray_NDIM(array));
    }
    dtype = dtype_of(array);
    if (dtype < 0) {
        return fail(PyExc_TypeError, name, one_of);
    }
    return fill_from_numpy(array, dtype, operand);
}

static int take_numpy_output(PyArrayObject *array, const char *name, int ndim, gd_operand *operand)
{
    const int dtype = dtype_of(array);
    if (PyArray_NDIM(array) != ndim) {
        return wrong_dimensions(name, ndim, PyArray_NDIM(array));
    }
    if (dtype < 0) {
        return fail(PyExc_ValueError, name, one_of);
    }
    if (!(PyArray_FLAGS(array) & NPY_ARRAY_ALIGNED) || PyArray_ISBYTESWAPPED(array)) {
        return fail(PyExc_ValueError, name, "must be aligned and in native byte order");
    }
    if (!(PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS)) {
        return fail(PyExc_ValueError, name, "must be C-contiguous");
    }
    if (!(PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE)) {
        return fail(PyExc_ValueError, name, "is read-only");
    }
    operand->owner = Py_NewRef((PyObject *)array);
    return fill_from_numpy(array, dtype, operand);
}

/* ---------------------------------------------------------------- arrays on a device */

static int check_device_dtype(int found, int wanted, const char *name)
{
    if (found < 0 || (wanted >= 0 && found != wanted)) {
        PyErr_Format(
            PyExc_TypeError, "%s is a device array that is not %s", name,
            wanted < 0 ? "float32, float64, int32 or bool" : gd_dtype_name((gd_dtype)wanted));
        return 0;
    }
    return 1;
}

/* Adds the bytes from an axis's first element to its last one to the range below or above the first
 * element of all; false on overflow. */
static bool widen(int64_t count, int64_t stride, int64_t item, int64_t range[2])
{
    int64_t apart;
    return !__builtin_mul_overflow(count - 1, stride, &apart) &&
           !__builtin_mul_overflow(apart, item, &apart) &&
           !__builtin_add_overflow(range[apart > 0], apart, &range[apart > 0]);
}

/* Whether the elements are where memory can be, each at a multiple of its size. A kernel that finds
 * them elsewhere takes the caller's context on the device with it. */
static int check_place(const char *name, const gd_matrix *m)
{
    const int64_t item = (int64_t)gd_dtype_size(m->dtype);
    const uintptr_t first = (uintptr_t)m->data;
    int64_t range[2] = {0, item};
    if (first == 0) {
        return fail(PyExc_ValueError, name, "has elements, but no memory");
    }
    if (first % (uintptr_t)item != 0) {
        return fail(PyExc_ValueError, name, "begins at an address that its elements cannot have");
    }
    if (!widen(m->rows, m->row_stride, item, range) ||
        !widen(m->cols, m->col_stride, item, range) || 0 - (uintptr_t)range[0] > first ||
        (uintptr_t)range[1] > UINTPTR_MAX - first) {
        return fail(PyExc_ValueError, name, "has strides that lead out of memory");
    }
    return 1;
}

/* Completes a matrix that has its data and dtype by a shape of `wanted` dimensions, and by strides
 * where there are some, which count in units of which `item` make an element. The stride of an axis
 * along which there is no second element means nothing. */
static int read_shape(const char *name, int wanted, int64_t ndim, const int64_t *shape,
                      const int64_t *strides, int64_t item, gd_matrix *matrix)
{
    const int last = wanted - 1;
    if (ndim != wanted) {
        return wrong_dimensions(name, wanted, ndim);
    }
    if (shape == NULL || shape[0] < 0 || shape[last] < 0) {
        return fail(PyExc_ValueError, name, "has a bad shape");
    }
    matrix->rows = wanted == 1 ? 1 : shape[0];
    matrix->cols = shape[last];
    matrix->col_stride = 1;
    matrix->row_stride = matrix->cols;
    if (matrix->rows == 0 || matrix->cols == 0) {
        return 1;
    }
    for (int i = 0; strides != NULL && i < wanted; ++i) {
        if (shape[i] > 1 && strides[i] % item != 0) {
            return fail(PyExc_ValueError, name, "has strides that are not whole elements");
        }
        if (shape[i] > 1) {
            *(i == last ? &matrix->col_stride : &matrix->row_stride) = strides[i] / item;
        }
    }
    return check_place(name, matrix);
}

/* An exception of the object itself, or of reading what it says, becomes a TypeError that names
 * it, unless there is none; 0. */
static int blame(const char *name, const char *what)
{
    PyObject *type, *value, *trace, *text;
    PyErr_Fetch(&type, &value, &trace);
    if (type != NULL && !PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyErr_Restore(type, value, trace); /* KeyboardInterrupt, say, is about nothing here */
        return 0;
    }
    text = value != NULL ? PyObject_Str(value) : NULL;
    PyErr_Clear();
    if (text != NULL) {
        PyErr_Format(PyExc_TypeError, "%s %s: %U", name, what, text);
    }
    else {
        fail(PyExc_TypeError, name, what);
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return 0;
}

/* ---- DLPack */

/* The array's device as (type, index); 1, or 0 with an exception; type 0 without the protocol. */
static int dlpack_device(PyObject *value, const char *name, long *type, long *index)
{
    PyObject *pair;
    bool read = false;
    *type = *index = 0;
    if (!PyObject_HasAttrString(value, "__dlpack_device__")) {
        return 1;
    }
    pair = PyObject_CallMethod(value, "__dlpack_device__", NULL);
    if (pair != NULL && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        *type = PyLong_AsLong(PyTuple_GetItem(pair, 0));
        *index = PyErr_Occurred() == NULL ? PyLong_AsLong(PyTuple_GetItem(pair, 1)) : 0;
        read = PyErr_Occurred() == NULL;
    }
    Py_XDECREF(pair);
    return read ? 1 : blame(name, "has no __dlpack_device__ that gives two integers");
}

/* More dimensions than any library has; a larger number is no number of dimensions. */
enum { DL_MOST_DIMENSIONS = 64 };

/* Streams in the protocol: -1 asks for no ordering, 1 is the legacy default stream, 0 is not
 * allowed. */
static PyObject *ask_for_capsule(PyObject *value, const gd_orders *orders)
{
    PyObject *method = PyObject_GetAttrString(value, "__dlpack__");
    PyObject *empty = PyTuple_New(0);
    const long long stream = orders->ordered          ? -1
                             : orders->stream == NULL ? 1
                                                      : (intptr_t)orders->stream;
    PyObject *keywords = Py_BuildValue("{s:L,s:(ii)}", "stream", stream, "max_version", 1, 0);
    PyObject *capsule = NULL;
    if (method != NULL && empty != NULL && keywords != NULL) {
        capsule = PyObject_Call(method, empty, keywords);
        if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear(); /* an exporter from before max_version */
            if (PyDict_DelItemString(keywords, "max_version") == 0) {
                capsule = PyObject_Call(method, empty, keywords);
            }
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(empty);
    Py_XDECREF(keywords);
    return capsule;
}

/* The tensor in a capsule that nobody has taken one from. The capsule is renamed as the protocol
 * asks: from here on gd_release owns the tensor. */
static const dl_tensor *open_capsule(PyObject *capsule, const char *name, gd_operand *operand,
                                     bool *read_only)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->version.major != 1) {
            PyErr_Format(PyExc_BufferError, "%s exports DLPack version %u, gpudist reads version 1",
                         name, managed->version.major);
            return NULL;
        }
        if (PyCapsule_SetName(capsule, "used_dltensor_versioned") != 0) {
            return NULL;
        }
        operand->managed = managed;
        operand->versioned = true;
        *read_only = managed->flags & DL_FLAG_READ_ONLY;
        return &managed->tensor;
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (PyCapsule_SetName(capsule, "used_dltensor") != 0) {
            return NULL;
        }
        operand->managed = managed;
        operand->versioned = false;
        *read_only = false;
        return &managed->tensor;
    }
    PyErr_Format(
        PyExc_TypeError,
        PyCapsule_IsValid(capsule, "used_dltensor") ||
                PyCapsule_IsValid(capsule, "used_dltensor_versioned")
            ? "%s.__dlpack__() returned a capsule whose tensor was taken before; it has to "
              "make a new one for each call"
            : "%s.__dlpack__() did not return a DLPack capsule",
        name);
    return NULL;
}

/* What Python code a deleter runs must not meet an exception that is on its way. */
static void give_back(gd_operand *operand)
{
    dl_managed *plain = operand->versioned ? NULL : operand->managed;
    dl_managed_versioned *versioned = operand->versioned ? operand->managed : NULL;
    PyObject *type, *value, *trace;
    operand->managed = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (versioned != NULL && versioned->deleter != NULL) {
        versioned->deleter(versioned);
    }
    if (plain != NULL && plain->deleter != NULL) {
        plain->deleter(plain);
    }
    PyErr_Restore(type, value, trace);
}

/* Asks for a tensor and takes it, with as many lengths and strides as it has dimensions; gd_release
 * gives it back. */
static const dl_tensor *take_tensor(PyObject *value, const char *name, const gd_orders *orders,
                                    gd_operand *operand, bool *read_only)
{
    PyObject *capsule = ask_for_capsule(value, orders);
    const dl_tensor *t = capsule != NULL ? open_capsule(capsule, name, operand, read_only) : NULL;
    Py_XDECREF(capsule);
    if (t != NULL && t->device.type != DL_CUDA && t->device.type != DL_CUDA_MANAGED) {
        fail(PyExc_TypeError, name,
             "says that it is on a CUDA device and exports an array that is not");
        return NULL;
    }
    if (t != NULL &&
        (t->ndim < 0 || t->ndim > DL_MOST_DIMENSIONS || (t->ndim > 0 && t->shape == NULL))) {
        fail(PyExc_ValueError, name, "exports an array without a shape");
        return NULL;
    }
    return t;
}

int gd_dtype_of_tensor(const dl_tensor *t)
{
    if (t->dtype.lanes == 1 && t->dtype.code == DL_FLOAT) {
        return t->dtype.bits == 32 ? (int)GD_F32 : t->dtype.bits == 64 ? (int)GD_F64 : -1;
    }
    if (t->dtype.lanes == 1 && t->dtype.code == DL_INT && t->dtype.bits == 32) {
        return GD_I32;
    }
    return t->dtype.lanes == 1 && t->dtype.code == DL_BOOL && t->dtype.bits == 8 ? (int)GD_BOOL
                                                                                 : -1;
}

static int take_dlpack(PyObject *value, const char *name, int dtype, int ndim,
                       const gd_orders *orders, gd_operand *operand, bool *read_only)
{
    const dl_tensor *t = take_tensor(value, name, orders, operand, read_only);
    uintptr_t first;
    if (t == NULL) {
        return 0;
    }
    const int found = gd_dtype_of_tensor(t);
    if (!check_device_dtype(found, dtype, name)) {
        return 0;
    }
    if (__builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &first)) {
        return fail(PyExc_ValueError, name, "has a byte_offset that leads out of memory");
    }
    operand->matrix = (gd_matrix){
        .data = (void *)(t->data != NULL ? first : 0),
        .dtype = (gd_dtype)found,
        .device = {GD_CUDA, t->device.id},
    };
    return read_shape(name, ndim, t->ndim, t->shape, t->strides, 1, &operand->matrix);
}

/* ---- __cuda_array_interface__, version 3 */

/* Reads the first `most` integers of a tuple; how many it has, or -1 with an exception. */
static int64_t read_numbers(PyObject *tuple, const char *name, const char *field, int most,
                            int64_t *numbers)
{
    const Py_ssize_t count = tuple != NULL && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    if (count < 0) {
        PyErr_Format(PyExc_TypeError, "%s has a __cuda_array_interface__ whose %s is no tuple",
                     name, field);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && i < most; ++i) {
        numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred() != NULL) {
            blame(name, "has a __cuda_array_interface__ with what is no whole number");
            return -1;
        }
    }
    return (int64_t)count;
}

static int typestr_dtype(PyObject *typestr)
{
    static const char *const names[] = {
        [GD_F32] = "<f4", [GD_F64] = "<f8", [GD_I32] = "<i4", [GD_BOOL] = "|b1"};
    for (int i = 0; typestr != NULL && PyUnicode_Check(typestr) && i < GD_DTYPE_COUNT; ++i) {
        if (PyUnicode_CompareWithASCIIString(typestr, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* Work that the producer has on its stream comes before ours. */
static int wait_for_producer(PyObject *theirs, const gd_orders *orders, const char *name)
{
    long long other;
    gd_error err;
    if (theirs == NULL || theirs == Py_None) {
        return 1;
    }
    other = PyLong_AsLongLong(theirs);
    if (PyErr_Occurred() != NULL) {
        return blame(name, "has a __cuda_array_interface__ whose stream is no handle");
    }
    if (other <= 0) {
        PyErr_Format(PyExc_ValueError, "%s names the stream %lld, which is none", name, other);
        return 0;
    }
    if (gd_cuda_order(orders->stream, (void *)(intptr_t)other, &err) != GD_OK) {
        PyErr_SetString(PyExc_RuntimeError, err.msg);
        return 0;
    }
    return 1;
}

/* The dictionary is ours alone, so that what is borrowed from it stays: to read whole numbers may
 * run code of theirs. */
static int read_interface(PyObject *interface, const char *name, int dtype, int ndim,
                          const gd_orders *orders, gd_operand *operand, bool *read_only)
{
    PyObject *data, *mask, *apart;
    void *first;
    int64_t shape[2] = {0}, strides[2] = {0}, dimensions;
    int found, fixed;
    mask = PyDict_GetItemString(interface, "mask");
    if (mask != NULL && mask != Py_None) {
        return fail(PyExc_TypeError, name, "is masked, which gpudist does not take");
    }
    found = typestr_dtype(PyDict_GetItemString(interface, "typestr"));
    if (!check_device_dtype(found, dtype, name)) {
        return 0;
    }
    dimensions = read_numbers(PyDict_GetItemString(interface, "shape"), name, "shape", 2, shape);
    apart = PyDict_GetItemString(interface, "strides");
    apart = apart != Py_None ? apart : NULL;
    if (dimensions < 0) {
        return 0;
    }
    if (apart != NULL) {
        const int64_t count = read_numbers(apart, name, "strides", 2, strides);
        if (count != dimensions) {
            return count < 0 ? 0
                             : fail(PyExc_ValueError, name,
                                    "has a shape and strides that differ in length");
        }
    }
    data = PyDict_GetItemString(interface, "data");
    if (data == NULL || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
        return fail(PyExc_TypeError, name, "has a __cuda_array_interface__ without data");
    }
    first = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    fixed = PyErr_Occurred() == NULL ? PyObject_IsTrue(PyTuple_GetItem(data, 1)) : -1;
    if (fixed < 0) {
        return blame(name, "has a __cuda_array_interface__ whose data are no int and bool");
    }
    *read_only = fixed;
    operand->matrix = (gd_matrix){
        .data = first,
        .dtype = (gd_dtype)found,
        .device = {GD_CUDA, 0},
    };
    if (!read_shape(name, ndim, dimensions, shape, apart != NULL ? strides : NULL,
                    (int64_t)gd_dtype_size((gd_dtype)found), &operand->matrix)) {
        return 0;
    }
    operand->matrix.device.index = gd_cuda_pointer_device(operand->matrix.data);
    return wait_for_producer(PyDict_GetItemString(interface, "stream"), orders, name);
}

static int take_interface(PyObject *value, const char *name, int dtype, int ndim,
                          const gd_orders *orders, gd_operand *operand, bool *read_only)
{
    PyObject *interface = PyObject_GetAttrString(value, "__cuda_array_interface__");
    PyObject *own = NULL;
    int taken = 0;
    if (interface != NULL && !PyDict_Check(interface)) {
        fail(PyExc_TypeError, name, "has a __cuda_array_interface__ that is no dictionary");
    }
    else if (interface != NULL && (own = PyDict_Copy(interface)) != NULL) {
        taken = read_interface(own, name, dtype, ndim, orders, operand, read_only);
    }
    Py_XDECREF(own);
    Py_XDECREF(interface);
    return taken;
}

/* ---- descriptions: the same facts in a tuple, for libraries whose protocols take longer than the
 * rest of a small call. Their work is on orders->stream already. */

enum { IN_PTR, IN_SHAPE, IN_STRIDES, IN_UNIT, IN_DTYPE, IN_DEVICE, IN_ALL };

static bool is_description(PyObject *value)
{
    return PyTuple_CheckExact(value) && PyTuple_Size(value) == IN_ALL &&
           PyUnicode_Check(PyTuple_GetItem(value, IN_DTYPE));
}

static int described_dtype(PyObject *description)
{
    const char *name = gd_text(PyTuple_GetItem(description, IN_DTYPE), "dtype");
    PyErr_Clear(); /* whoever asks has better words */
    return name != NULL ? gd_dtype_find(name) : -1;
}

/* The numbers of axes and of bytes that strides count in, the dtype and the device of a
 * description; 1, or 0 with an exception. */
static int read_description(PyObject *value, const char *name, int most, int64_t *shape,
                            int64_t *strides, int64_t *dimensions, int64_t *unit, gd_matrix *matrix)
{
    *dimensions = read_numbers(PyTuple_GetItem(value, IN_SHAPE), name, "shape", most, shape);
    if (*dimensions < 0) {
        return 0;
    }
    void *const first = PyLong_AsVoidPtr(PyTuple_GetItem(value, IN_PTR));
    *unit = PyErr_Occurred() == NULL ? PyLong_AsLongLong(PyTuple_GetItem(value, IN_UNIT)) : 0;
    const long index =
        PyErr_Occurred() == NULL ? PyLong_AsLong(PyTuple_GetItem(value, IN_DEVICE)) : 0;
    if (PyErr_Occurred() != NULL) {
        return blame(name, "has a bad description");
    }
    if (read_numbers(PyTuple_GetItem(value, IN_STRIDES), name, "strides", most, strides) !=
            *dimensions ||
        *unit < 1 || index < 0 || index > INT_MAX) {
        return PyErr_Occurred() ? 0 : fail(PyExc_ValueError, name, "has a bad description");
    }
    *matrix = (gd_matrix){
        .data = first, .dtype = (gd_dtype)described_dtype(value), .device = {GD_CUDA, (int)index}};
    return 1;
}

static int take_description(PyObject *value, const char *name, int dtype, int ndim,
                            gd_operand *operand)
{
    int64_t shape[2] = {0}, strides[2] = {0}, dimensions, unit;
    return check_device_dtype(described_dtype(value), dtype, name) &&
           read_description(value, name, 2, shape, strides, &dimensions, &unit, &operand->matrix) &&
           read_shape(name, ndim, dimensions, shape, strides, unit, &operand->matrix);
}

int gd_take_description(PyObject *value, const char *name, gd_array *array)
{
    int64_t shape[GD_MOST_DIMENSIONS], strides[GD_MOST_DIMENSIONS], dimensions, unit;
    gd_matrix matrix;
    if (!is_description(value)) {
        return -1;
    }
    if (!check_device_dtype(described_dtype(value), -1, name) ||
        !read_description(value, name, GD_MOST_DIMENSIONS, shape, strides, &dimensions, &unit,
                          &matrix)) {
        return 0;
    }
    const int64_t size = (int64_t)gd_dtype_size(matrix.dtype);
    if (dimensions > GD_MOST_DIMENSIONS) {
        return fail(PyExc_ValueError, name, "has too many dimensions");
    }
    array->data = matrix.data;
    array->ndim = (int)dimensions;
    array->writeable = true;
    array->dtype = matrix.dtype;
    array->device = matrix.device;
    for (int axis = 0; axis < array->ndim; ++axis) {
        array->shape[axis] = shape[axis];
        array->strides[axis] = strides[axis] * (unit == 1 ? size : 1);
    }
    return 1;
}

/* ---------------------------------------------------------------- any array */

int gd_to_doubles(PyObject *value, const char *name, void *into)
{
    gd_doubles *to = into;
    PyArrayObject *array = (PyArrayObject *)value;
    if (value == Py_None) {
        *to = (gd_doubles){NULL, 0};
        return 1;
    }
    if (!PyArray_Check(value) || PyArray_TYPE(array) != NPY_FLOAT64 ||
        !PyArray_ISCARRAY_RO(array)) {
        return fail(PyExc_TypeError, name, "must be a C-contiguous NumPy array of float64");
    }
    *to = (gd_doubles){PyArray_DATA(array), PyArray_SIZE(array)};
    return 1;
}

bool gd_is_bool(PyObject *value)
{
    if (PyArray_Check(value)) {
        return PyArray_TYPE((PyArrayObject *)value) == NPY_BOOL;
    }
    if (is_description(value)) {
        return described_dtype(value) == GD_BOOL;
    }
    PyObject *dtype = PyObject_GetAttrString(value, "dtype");
    PyObject *text = dtype != NULL ? PyObject_Str(dtype) : NULL;
    const bool is = text != NULL && (PyUnicode_CompareWithASCIIString(text, "bool") == 0 ||
                                     PyUnicode_CompareWithASCIIString(text, "torch.bool") == 0);
    Py_XDECREF(dtype);
    Py_XDECREF(text);
    PyErr_Clear();
    return is;
}

/* 1 when a CUDA array was taken, 0 with an exception, -1 when the object is no CUDA array. */
static int take_cuda(PyObject *value, const char *name, int dtype, int ndim,
                     const gd_orders *orders, gd_operand *operand, bool *read_only)
{
    long type, index;
    if (PyArray_Check(value)) {
        return -1;
    }
    if (is_description(value)) {
        *read_only = false;
        return take_description(value, name, dtype, ndim, operand);
    }
    if (!dlpack_device(value, name, &type, &index)) {
        return 0;
    }
    if (type == DL_CUDA || type == DL_CUDA_MANAGED) {
        return take_dlpack(value, name, dtype, ndim, orders, operand, read_only);
    }
    if (type != 0 || !PyObject_HasAttrString(value, "__cuda_array_interface__")) {
        return -1;
    }
    return take_interface(value, name, dtype, ndim, orders, operand, read_only);
}

int gd_take_input(PyObject *value, const char *name, int dtype, const gd_orders *orders,
                  gd_operand *operand)
{
    bool read_only;
    const int taken = take_cuda(value, name, dtype, 2, orders, operand, &read_only);
    return taken >= 0 ? taken : take_numpy(value, name, dtype, operand);
}

int gd_take_output(PyObject *value, const char *name, int ndim, const gd_orders *orders,
                   gd_operand *operand)
{
    const gd_matrix *m = &operand->matrix;
    bool read_only = false;
    const int taken = take_cuda(value, name, -1, ndim, orders, operand, &read_only);
    if (taken < 0) {
        if (!PyArray_Check(value)) {
            PyErr_Format(PyExc_TypeError, "%s must be an array to write to, got %R", name,
                         (PyObject *)Py_TYPE(value));
            return 0;
        }
        return take_numpy_output((PyArrayObject *)value, name, ndim, operand);
    }
    if (taken == 0) {
        return 0;
    }
    if (read_only) {
        return fail(PyExc_ValueError, name, "is read-only");
    }
    if ((m->cols > 1 && m->col_stride != 1) || (m->rows > 1 && m->row_stride != m->cols)) {
        return fail(PyExc_ValueError, name, "must be C-contiguous");
    }
    operand->matrix.col_stride = 1;
    operand->matrix.row_stride = m->cols;
    return 1;
}

void gd_release(gd_operand *operand)
{
    if (operand->managed != NULL) {
        give_back(operand);
    }
    Py_CLEAR(operand->owner);
}

PyObject *gd_numbers(const int64_t *number, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; ++i) {
        PyObject *one = PyLong_FromLongLong(number[i]);
        if (one == NULL || PyTuple_SetItem(tuple, i, one) < 0) { /* takes one */
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

GD_FUNCTION(gd_py_describe)
{
    const gd_orders orders = {.ordered = true}; /* nothing is read but what the host knows */
    PyObject *value, *name_object, *result = NULL;
    gd_operand operand = {0};
    bool read_only;
    const gd_arg spec[] = {{"value", gd_to_object, &value, true},
                           {"name", gd_to_object, &name_object, true}};
    (void)module;
    if (!gd_parse("describe", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    const char *name = gd_text(name_object, "name");
    const dl_tensor *t =
        name != NULL ? take_tensor(value, name, &orders, &operand, &read_only) : NULL;
    if (t != NULL && check_device_dtype(gd_dtype_of_tensor(t), -1, name)) {
        result = Py_BuildValue(
            "(NsKN)", gd_numbers(t->shape, t->ndim), gd_dtype_name((gd_dtype)gd_dtype_of_tensor(t)),
            (unsigned long long)(uintptr_t)t->data + t->byte_offset,
            t->strides != NULL ? gd_numbers(t->strides, t->ndim) : Py_NewRef(Py_None));
    }
    gd_release(&operand);
    return result;
}
