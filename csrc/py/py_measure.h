/* py_measure.h: what functions of points are told beside their arrays. */
#ifndef GPUDIST_PY_MEASURE_H
#define GPUDIST_PY_MEASURE_H

#include "boundary.h"

typedef struct gd_point_arguments {
    gd_orders orders;
    gd_measure measure;
    gd_doubles weights, vi, factor, box;
    gd_attention attention;
} gd_point_arguments;

/* The parameters that follow the arrays, for a gd_point_arguments named arguments, which starts
 * with p = 2. */
#define GD_POINT_ARGUMENTS                                                                  \
    {"metric", gd_to_metric, &arguments.measure.metric, true}, GD_ORDERS(arguments.orders), \
        {"weights", gd_to_doubles, &arguments.weights, false},                              \
        {"p", gd_to_double, &arguments.measure.p, false},                                   \
        {"base", gd_to_double, &arguments.measure.base, false},                             \
        {"vi", gd_to_doubles, &arguments.vi, false},                                        \
        {"factor", gd_to_doubles, &arguments.factor, false},                                \
        {"box", gd_to_doubles, &arguments.box, false},                                      \
        {"options", gd_to_options, &arguments.orders, false},                               \
        {"progress", gd_to_object, &arguments.attention.progress, false},                   \
        GD_MAX_MEMORY(arguments.orders),

/* Completes arguments->measure from the arrays; 0 with an exception. What kernels rely on is
 * checked here; what users get wrong is checked, with better words, before. */
int gd_take_measure(gd_point_arguments *arguments);
/* Takes points to be worked on in `dtype`; rows of truths, where the measure takes such, come as
 * bool. */
int gd_take_points(PyObject *value, const char *name, gd_dtype dtype,
                   const gd_point_arguments *arguments, gd_operand *operand);

#endif
