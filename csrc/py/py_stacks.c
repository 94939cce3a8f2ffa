/* py_stacks.c: arrays of any number of dimensions, whose last ones are matrices.
 *
 * Small batches feel what it takes to read their arrays: tensors of PyTorch are read through
 * DLPack's exchange table (py_tensors.c), in some 50 ns each. */
#include "py_stacks.h"

#include <string.h>

#include "../registry.h"
#include "dlpack_abi.h"
#include "py_library.h"

static int fail_type(const char *name)
{
    PyErr_Format(PyExc_TypeError, "%s must be an aligned array of float32, float64, int32 or bool",
                 name);
    return 0;
}

static int take_numpy(PyArrayObject *from, const char *name, gd_array *array)
{
    static const int types[] = {
        [GD_F32] = NPY_FLOAT32, [GD_F64] = NPY_FLOAT64, [GD_I32] = NPY_INT32, [GD_BOOL] = NPY_BOOL};
    int dtype = GD_DTYPE_COUNT;
    while (--dtype >= 0 && PyArray_TYPE(from) != types[dtype]) {
    }
    if (dtype < 0 || !PyArray_ISBEHAVED_RO(from)) {
        return fail_type(name);
    }
    array->data = PyArray_DATA(from);
    array->ndim = PyArray_NDIM(from);
    array->writeable = PyArray_ISWRITEABLE(from);
    array->dtype = (gd_dtype)dtype;
    array->device = (gd_device){GD_CPU, 0};
    for (int axis = 0; axis < array->ndim; ++axis) {
        array->shape[axis] = PyArray_DIM(from, axis);
        array->strides[axis] = PyArray_STRIDE(from, axis);
    }
    return 1;
}

int gd_take_tensor(const gd_module_state *state, PyObject *from, const char *name, gd_array *array)
{
    dl_tensor t;
    if (state->exchange->read_tensor(from, &t) != 0) {
        return 0;
    }
    const int dtype = gd_dtype_of_tensor(&t);
    const bool on_cuda = t.device.type == DL_CUDA;
    if (dtype < 0 || (!on_cuda && t.device.type != DL_CPU) || t.ndim > GD_MOST_DIMENSIONS) {
        return fail_type(name);
    }
    const ptrdiff_t size = (ptrdiff_t)gd_dtype_size((gd_dtype)dtype);
    array->data = (char *)t.data + t.byte_offset;
    array->ndim = t.ndim;
    array->writeable = true;
    array->dtype = (gd_dtype)dtype;
    array->device = (gd_device){on_cuda ? GD_CUDA : GD_CPU, on_cuda ? t.device.id : 0};
    ptrdiff_t dense = size;
    for (int axis = t.ndim - 1; axis >= 0; --axis) {
        array->shape[axis] = t.shape[axis];
        array->strides[axis] = t.strides != NULL ? t.strides[axis] * size : dense;
        dense *= t.shape[axis];
    }
    return 1;
}

int gd_take_array(gd_module_state *state, PyObject *value, const char *name, gd_array *array)
{
    if (PyArray_Check(value)) {
        return take_numpy((PyArrayObject *)value, name, array);
    }
    if (gd_is_tensor(state, value)) {
        return gd_take_tensor(state, value, name, array);
    }
    const int taken = gd_take_description(value, name, array);
    return taken >= 0 ? taken : fail_type(name);
}

int gd_take_stack(const gd_array *array, const char *name, int axes, int matrix_axes, bool strided,
                  gd_stack *stack)
{
    if (array->ndim != axes + matrix_axes) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions, got %d", name,
                     axes + matrix_axes, array->ndim);
        return 0;
    }
    const ptrdiff_t *const shape = array->shape + axes, *const apart = array->strides + axes;
    const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(array->dtype), cols = shape[matrix_axes - 1];
    const ptrdiff_t rows = matrix_axes == 2 ? shape[0] : 1;
    bool empty = false; /* NumPy's strides are 0 then */
    for (int axis = 0; axis < array->ndim; ++axis) {
        empty |= array->shape[axis] == 0;
    }
    const ptrdiff_t along = empty || cols == 1 ? size : apart[matrix_axes - 1];
    const ptrdiff_t down = empty || rows == 1 ? cols * size : apart[0];
    if (along % size != 0 || down % size != 0 ||
        (!strided && (along != size || down < cols * size))) {
        PyErr_Format(PyExc_ValueError, "%s must have matrices of dense rows, in ascending order",
                     name);
        return 0;
    }
    *stack = (gd_stack){.first = {.data = array->data,
                                  .rows = rows,
                                  .cols = cols,
                                  .row_stride = down / size,
                                  .col_stride = along / size,
                                  .dtype = array->dtype,
                                  .device = array->device},
                        .strides = array->strides};
    return 1;
}

static int take_array(PyObject *module, PyObject *value, const char *name, gd_taken *taken)
{
    if (!gd_take_array(PyModule_GetState(module), value, name, &taken->array)) {
        return 0;
    }
    if (taken->on_host && taken->array.device.backend != GD_CPU) {
        PyErr_Format(PyExc_TypeError, "%s must be on the host", name);
        return 0;
    }
    return 1;
}

int gd_take_operand(PyObject *module, PyObject *value, const char *name, const gd_taken *out,
                    int axes, int matrix_axes, bool strided, gd_taken *taken)
{
    gd_array *const array = &taken->array;
    if (!take_array(module, value, name, taken) ||
        !gd_take_stack(array, name, axes, matrix_axes, strided, taken->stack)) {
        return 0;
    }
    for (int axis = 0; axis < axes; ++axis) {
        if (array->shape[axis] != out->array.shape[axis]) {
            PyErr_Format(PyExc_ValueError, "%s has a batch of another shape than out", name);
            return 0;
        }
    }
    return 1;
}

int gd_take_result(PyObject *module, PyObject *value, const char *name, int matrix_axes, int *axes,
                   ptrdiff_t *count, gd_taken *taken)
{
    gd_array *const array = &taken->array;
    bool dense = true;
    if (!take_array(module, value, name, taken)) {
        return 0;
    }
    *axes = *axes < 0 ? array->ndim - matrix_axes : *axes;
    if (*axes < 0) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimensions or more", name, matrix_axes);
        return 0;
    }
    if (!gd_take_stack(array, name, *axes, matrix_axes, false, taken->stack)) {
        return 0;
    }
    ptrdiff_t next = (ptrdiff_t)gd_dtype_size(array->dtype);
    for (int axis = array->ndim - 1; axis >= 0; --axis) {
        dense &= array->shape[axis] <= 1 || array->strides[axis] == next;
        next *= array->shape[axis];
    }
    if ((!dense && next != 0) || !array->writeable) {
        PyErr_Format(PyExc_ValueError, "%s must be C-contiguous and writeable", name);
        return 0;
    }
    *count = 1;
    for (int axis = 0; axis < *axes; ++axis) {
        *count *= array->shape[axis];
    }
    return 1;
}

int gd_take_stream(gd_module_state *state, const gd_array *array, gd_orders *orders)
{
    if (array->device.backend == GD_CPU || orders->stream != NULL || state->exchange == NULL) {
        return 1;
    }
    return state->exchange->current_stream(DL_CUDA, array->device.index, &orders->stream) == 0;
}
