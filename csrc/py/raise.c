/* raise.c: a gd_error becomes a Python exception, here and nowhere else. */
#include "boundary.h"

PyObject *gd_raise(PyObject *module, const gd_error *err)
{
    const gd_module_state *state = PyModule_GetState(module);
    PyObject *type = PyExc_SystemError;
    switch (err->status) {
        case GD_OK:
            break; /* a caller's mistake: SystemError */
        case GD_BAD_VALUE:
            type = PyExc_ValueError;
            break;
        case GD_BAD_TYPE:
            type = PyExc_TypeError;
            break;
        case GD_NO_MEMORY:
            type = PyExc_MemoryError;
            break;
        case GD_OVERFLOW:
            type = PyExc_OverflowError;
            break;
        case GD_DEVICE_ERROR:
            type = state->device_error;
            break;
        case GD_STOPPED:
            return NULL; /* set where it happened */
    }
    PyErr_SetString(type, err->msg);
    return NULL;
}
