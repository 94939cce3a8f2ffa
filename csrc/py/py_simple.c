/* py_simple.c: what small calls on the host and on a device have in common. */
#include "py_simple.h"

#include "../registry.h"

bool gd_fit_simply(const gd_matrix *a, const gd_matrix *b, ptrdiff_t most_bytes)
{
    ptrdiff_t bytes;
    return a->dtype == b->dtype && gd_same_device(a, b) && a->cols == b->cols &&
           !__builtin_mul_overflow(a->rows, b->rows, &bytes) &&
           !__builtin_mul_overflow(bytes, (ptrdiff_t)gd_dtype_size(a->dtype), &bytes) &&
           bytes <= most_bytes;
}

bool gd_can_hold(const gd_matrix *out, const gd_matrix *a, const gd_matrix *b)
{
    return out->dtype == a->dtype && gd_same_device(out, a) && out->rows == a->rows &&
           out->cols == b->rows && out->col_stride == 1 && out->row_stride == out->cols;
}

bool gd_may_overlap(const gd_matrix *x, const gd_matrix *y)
{
    const gd_matrix *const both[] = {x, y};
    uintptr_t begin[2], end[2];
    for (int i = 0; i < 2; ++i) {
        const gd_matrix *const z = both[i];
        const ptrdiff_t down = (z->rows - 1) * z->row_stride, along = (z->cols - 1) * z->col_stride;
        const ptrdiff_t size = (ptrdiff_t)gd_dtype_size(z->dtype);
        if (z->rows == 0 || z->cols == 0) {
            return false;
        }
        begin[i] = (uintptr_t)z->data +
                   (uintptr_t)(((down < 0 ? down : 0) + (along < 0 ? along : 0)) * size);
        end[i] = (uintptr_t)z->data +
                 (uintptr_t)(((down > 0 ? down : 0) + (along > 0 ? along : 0) + 1) * size);
    }
    return begin[0] < end[1] && begin[1] < end[0];
}

bool gd_find_simple_metric(PyObject *name, gd_metric *metric)
{
    const char *text = PyUnicode_Check(name) ? gd_text(name, "metric") : NULL;
    const int found = text != NULL ? gd_metric_find(text) : -1;
    PyErr_Clear();
    *metric = (gd_metric)found;
    return found >= 0 && gd_metric_info(*metric)->domain == GD_NUMBERS &&
           gd_metric_info(*metric)->columns == 0 &&
           (gd_metric_info(*metric)->takes & ~(GD_TAKES_W | GD_TAKES_BOX)) == 0;
}

/* Inner steps: on the host 10 ms of the slowest metric, on a device what nobody cuts up (watch.c).
 */
#define BRIEF_ON_HOST 0x1p20
#define BRIEF_ON_CUDA 0x1p35
/* Python's lock is kept over so many on the host, some microseconds: to give it up and to get it
 * back takes a tenth of that. */
#define MOMENTARY 0x1p13

static double steps_of(const gd_matrix *a, const gd_matrix *b)
{
    return (double)a->rows * (double)b->rows * (double)(a->cols + 1);
}

bool gd_is_walkable(const gd_matrix *matrix)
{
    return matrix->col_stride == 1 && matrix->row_stride >= matrix->cols && matrix->rows > 0 &&
           matrix->cols > 0 && (uintptr_t)matrix->data % gd_dtype_size(matrix->dtype) == 0;
}

bool gd_is_brief(const gd_matrix *a, const gd_matrix *b)
{
    return steps_of(a, b) <= (a->device.backend == GD_CPU ? BRIEF_ON_HOST : BRIEF_ON_CUDA);
}

PyObject *gd_run_simply(PyObject *module, PyObject *result, const gd_matrix *a, const gd_matrix *b,
                        const gd_matrix *out, gd_metric metric, gd_orders *orders)
{
    const gd_measure measure = {.metric = metric, .p = 2};
    gd_attention attention;
    gd_error err;
    gd_status status;
    orders->ordered = true;
    if (a->device.backend == GD_CPU && steps_of(a, b) <= MOMENTARY) {
        status = gd_run_cdist(a, b, out, &measure, orders, &err);
    }
    else if (gd_is_brief(a, b)) {
        Py_BEGIN_ALLOW_THREADS;
        status = gd_run_cdist(a, b, out, &measure, orders, &err);
        Py_END_ALLOW_THREADS;
    }
    else {
        attention = (gd_attention){0};
        orders->watch = gd_let_go(&attention);
        status = gd_run_cdist(a, b, out, &measure, orders, &err);
        gd_take_back(&attention);
    }
    if (status != GD_OK) {
        Py_DECREF(result);
        return gd_raise(module, &err);
    }
    return result;
}
