/* py_measure.c: what functions of points are told beside their arrays. */
#include "py_measure.h"

#include <math.h>

/* Every column has a length, which is above 0. */
static int check_box(const gd_measure *measure, ptrdiff_t count)
{
    bool fits = measure->box == NULL || ((gd_metric_info(measure->metric)->takes & GD_TAKES_BOX) &&
                                         count == measure->columns);
    for (ptrdiff_t k = 0; measure->box != NULL && k < count; ++k) {
        fits &= measure->box[k] > 0;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "box does not fit the metric or its other arguments");
    }
    return fits;
}

int gd_take_measure(gd_point_arguments *arguments)
{
    gd_measure *measure = &arguments->measure;
    const gd_doubles *w = &arguments->weights, *vi = &arguments->vi, *factor = &arguments->factor;
    const gd_doubles *box = &arguments->box;
    measure->weights = w->data;
    measure->vi = vi->data;
    measure->factor = factor->data;
    measure->box = box->data;
    measure->columns = w->data != NULL     ? w->count
                       : box->data != NULL ? box->count
                                           : (ptrdiff_t)llround(sqrt((double)vi->count));
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
    return check_box(measure, box->count);
}

GD_FUNCTION(gd_py_weights_fit)
{
    gd_doubles weights = {0};
    const gd_arg spec[] = {{"weights", gd_to_doubles, &weights, true}};
    (void)module;
    return gd_parse("weights_fit", args, nargs, kwnames, spec, 1)
               ? PyBool_FromLong(gd_weights_fit_f32(weights.data, weights.count))
               : NULL;
}

int gd_take_points(PyObject *value, const char *name, gd_dtype dtype,
                   const gd_point_arguments *arguments, gd_operand *operand)
{
    const bool may_be_truths = gd_metric_info(arguments->measure.metric)->domain != GD_NUMBERS &&
                               arguments->measure.weights == NULL;
    const int wanted = may_be_truths && gd_is_bool(value) ? (int)GD_BOOL : (int)dtype;
    return gd_take_input(value, name, wanted, &arguments->orders, operand);
}
