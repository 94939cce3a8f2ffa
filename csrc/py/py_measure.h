/* py_measure.h: what functions of points are told beside their arrays. */
#ifndef GPUDIST_PY_MEASURE_H
#define GPUDIST_PY_MEASURE_H

#include "boundary.h"

typedef struct gd_told {
    gd_orders orders;
    gd_measure measure;
    gd_doubles weights, vi, factor, box;
    gd_attention attention;
} gd_told;

/* The parameters that follow the arrays, for a gd_told named told, which starts with p = 2. */
#define GD_TOLD                                                                                    \
    {"metric", gd_to_metric, &told.measure.metric, true}, GD_ORDERS(told.orders),                  \
        {"weights", gd_to_doubles, &told.weights, false},                                          \
        {"p", gd_to_double, &told.measure.p, false},                                               \
        {"base", gd_to_double, &told.measure.base, false}, {"vi", gd_to_doubles, &told.vi, false}, \
        {"factor", gd_to_doubles, &told.factor, false}, {"box", gd_to_doubles, &told.box, false},  \
        {"options", gd_to_options, &told.orders, false},                                           \
        {"progress", gd_to_object, &told.attention.progress, false}, GD_MAX_MEMORY(told.orders),

/* Completes told->measure from the arrays; 0 with an exception. What kernels rely on is checked
 * here; what users get wrong is checked, with better words, before. */
int gd_take_measure(gd_told *told);
/* Takes points to be worked on in `dtype`; rows of truths, where the measure takes such, come as
 * bool. */
int gd_take_points(PyObject *value, const char *name, gd_dtype dtype, const gd_told *told,
                   gd_operand *operand);

#endif
