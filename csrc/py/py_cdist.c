/* py_cdist.c: cdist and pdist at the Python boundary. */
#include "boundary.h"

#include <math.h>

/* What both functions are told beside their arrays. */
typedef struct gd_told {
    gd_orders orders;
    gd_measure measure;
    gd_doubles weights, vi, factor;
    gd_attention attention;
} gd_told;

/* The parameters that follow the arrays, for a gd_told named told. */
#define GD_TOLD                                                                                    \
    {"metric", gd_to_metric, &told.measure.metric, true}, GD_ORDERS(told.orders),                  \
        {"weights", gd_to_doubles, &told.weights, false},                                          \
        {"p", gd_to_double, &told.measure.p, false},                                               \
        {"base", gd_to_double, &told.measure.base, false}, {"vi", gd_to_doubles, &told.vi, false}, \
        {"factor", gd_to_doubles, &told.factor, false},                                            \
        {"options", gd_to_options, &told.orders, false},                                           \
        {"progress", gd_to_object, &told.attention.progress, false}, GD_MAX_MEMORY(told.orders),

/* Completes told->measure from the arrays; 0 with an exception. What kernels rely on is checked
 * here; what users get wrong is checked, with better words, before. */
static int take_measure(gd_told *told)
{
    gd_measure *measure = &told->measure;
    const gd_doubles *w = &told->weights, *vi = &told->vi, *factor = &told->factor;
    measure->weights = w->data;
    measure->vi = vi->data;
    measure->factor = factor->data;
    measure->columns = w->data != NULL ? w->count : (ptrdiff_t)llround(sqrt((double)vi->count));
    if (!(measure->p > 0) || !(measure->base >= 0) || measure->base == 1) {
        PyErr_SetString(PyExc_ValueError, "p must be above 0, base above 0 and not 1");
        return 0;
    }
    if ((w->data != NULL && vi->data != NULL) || (factor->data != NULL && vi->data == NULL) ||
        (vi->data != NULL && measure->columns * measure->columns != vi->count) ||
        (factor->data != NULL && factor->count != vi->count) ||
        (measure->metric == GD_MAHALANOBIS) != (vi->data != NULL)) {
        PyErr_SetString(PyExc_ValueError,
                        "weights, vi and factor do not fit each other or the metric");
        return 0;
    }
    if (w->data != NULL && !(gd_metric_info(measure->metric)->takes & (GD_TAKES_W | GD_TAKES_V))) {
        PyErr_Format(PyExc_ValueError, "%s takes no weights",
                     gd_metric_info(measure->metric)->name);
        return 0;
    }
    return 1;
}

/* Rows of truths come as bool; everything else has the dtype of the result. */
static int take_rows(PyObject *value, const char *name, const gd_operand *out, const gd_told *told,
                     gd_operand *operand)
{
    const bool may_be_truths =
        gd_metric_info(told->measure.metric)->domain != GD_NUMBERS && told->measure.weights == NULL;
    const int dtype = may_be_truths && gd_is_bool(value) ? (int)GD_BOOL : (int)out->matrix.dtype;
    return gd_take_input(value, name, dtype, &told->orders, operand);
}

/* Lets the exception that stopped a call say how many rows are complete. One that takes no
 * attributes says nothing. */
static void tell_complete(ptrdiff_t rows)
{
    PyObject *type, *value, *trace, *count = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value != NULL && ((count = PyLong_FromSsize_t(rows)) == NULL ||
                          PyObject_SetAttrString(value, "rows_complete", count) < 0)) {
        PyErr_Clear();
    }
    Py_XDECREF(count);
    PyErr_Restore(type, value, trace);
}

GD_FUNCTION(gd_py_cdist)
{
    ptrdiff_t complete = 0;
    PyObject *a_object, *b_object, *out_object, *result = NULL;
    gd_operand a = {0}, b = {0}, out = {0};
    gd_told told = {.measure = {.p = 2}};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {{"a", gd_to_object, &a_object, true},
                           {"b", gd_to_object, &b_object, true},
                           {"out", gd_to_object, &out_object, true},
                           GD_TOLD};
    if (!gd_parse("cdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (take_measure(&told) && gd_take_output(out_object, "out", 2, &told.orders, &out) &&
        take_rows(a_object, "XA", &out, &told, &a) && take_rows(b_object, "XB", &out, &told, &b)) {
        told.orders.watch = gd_let_go(&told.attention);
        told.orders.complete = &complete;
        status = gd_run_cdist(&a.matrix, &b.matrix, &out.matrix, &told.measure, &told.orders, &err);
        gd_take_back(&told.attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
        if (status == GD_STOPPED) {
            tell_complete(complete);
        }
    }
    gd_release(&a);
    gd_release(&b);
    gd_release(&out);
    return result;
}

GD_FUNCTION(gd_py_pdist)
{
    PyObject *x_object, *out_object, *result = NULL;
    gd_operand x = {0}, out = {0};
    gd_told told = {.measure = {.p = 2}};
    gd_error err;
    gd_status status;
    const gd_arg spec[] = {
        {"x", gd_to_object, &x_object, true}, {"out", gd_to_object, &out_object, true}, GD_TOLD};
    if (!gd_parse("pdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0])) {
        return NULL;
    }
    if (take_measure(&told) && gd_take_output(out_object, "out", 1, &told.orders, &out) &&
        take_rows(x_object, "X", &out, &told, &x)) {
        told.orders.watch = gd_let_go(&told.attention);
        status = gd_run_pdist(&x.matrix, &out.matrix, &told.measure, &told.orders, &err);
        gd_take_back(&told.attention);
        result = status == GD_OK ? Py_NewRef(Py_None) : gd_raise(module, &err);
    }
    gd_release(&x);
    gd_release(&out);
    return result;
}

/* A matrix without data that is where the call's arrays are, as aligned as arrays are. */
static gd_matrix imagine(ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype, gd_device device,
                         uintptr_t at)
{
    return (gd_matrix){.data = (void *)at,
                       .rows = rows,
                       .cols = cols,
                       .row_stride = cols,
                       .col_stride = 1,
                       .dtype = dtype,
                       .device = device};
}

GD_FUNCTION(gd_py_plan_cdist)
{
    ptrdiff_t m, n, cols;
    gd_dtype dtype;
    bool truths, on_host, pairs;
    gd_told told = {.measure = {.p = 2}};
    gd_plan plan;
    gd_error err;
    const gd_arg spec[] = {
        {"m", gd_to_size, &m, true},           {"n", gd_to_size, &n, true},
        {"cols", gd_to_size, &cols, true},     {"dtype", gd_to_dtype, &dtype, true},
        {"truths", gd_to_bool, &truths, true}, {"on_host", gd_to_bool, &on_host, true},
        {"pairs", gd_to_bool, &pairs, true},   GD_TOLD};
    if (!gd_parse("plan_cdist", args, nargs, kwnames, spec, sizeof spec / sizeof spec[0]) ||
        !take_measure(&told)) {
        return NULL;
    }
    const gd_device device = {on_host ? GD_CPU : GD_CUDA, on_host ? 0 : told.orders.cuda_index};
    const gd_dtype operands = truths ? GD_BOOL : dtype;
    const gd_matrix a = imagine(m, cols, operands, device, 1 << 12);
    const gd_matrix b = imagine(n, cols, operands, device, 1 << 13);
    const gd_matrix out = pairs ? imagine(1, n * (n - 1) / 2, dtype, device, 1 << 14)
                                : imagine(m, n, dtype, device, 1 << 14);
    if (gd_plan_cdist(&a, pairs ? NULL : &b, &out, &told.measure, &told.orders, &plan, &err) !=
        GD_OK) {
        return gd_raise(module, &err);
    }
    return Py_BuildValue("(nnnd)", (Py_ssize_t)plan.memory, (Py_ssize_t)plan.panels,
                         (Py_ssize_t)plan.b_parts, plan.brought);
}
