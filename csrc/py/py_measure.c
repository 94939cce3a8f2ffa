/* py_measure.c: what functions of points are told beside their arrays. */
#include "py_measure.h"

#include <math.h>

int gd_take_measure(gd_told *told)
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

int gd_take_points(PyObject *value, const char *name, gd_dtype dtype, const gd_told *told,
                   gd_operand *operand)
{
    const bool may_be_truths =
        gd_metric_info(told->measure.metric)->domain != GD_NUMBERS && told->measure.weights == NULL;
    const int wanted = may_be_truths && gd_is_bool(value) ? (int)GD_BOOL : (int)dtype;
    return gd_take_input(value, name, wanted, &told->orders, operand);
}
