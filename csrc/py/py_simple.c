/* py_simple.c: what small calls on the host and on a device have in common. */
#include "py_simple.h"

#include "../registry.h"

bool gd_fit_simply(const gd_matrix *a, const gd_matrix *b, ptrdiff_t most_bytes)
{
    ptrdiff_t bytes;
    return a->dtype == b->dtype && a->device.index == b->device.index && a->cols == b->cols &&
           !__builtin_mul_overflow(a->rows, b->rows, &bytes) &&
           !__builtin_mul_overflow(bytes, (ptrdiff_t)gd_dtype_size(a->dtype), &bytes) &&
           bytes <= most_bytes;
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

PyObject *gd_run_simply(PyObject *module, PyObject *result, const gd_matrix *a, const gd_matrix *b,
                        const gd_matrix *out, gd_metric metric, void *stream)
{
    const gd_measure measure = {.metric = metric, .p = 2};
    gd_orders orders = {.ordered = true, .stream = stream};
    gd_attention attention = {0};
    gd_error err;
    orders.watch = gd_let_go(&attention);
    const gd_status status = gd_run_cdist(a, b, out, &measure, &orders, &err);
    gd_take_back(&attention);
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
