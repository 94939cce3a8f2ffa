/* metric.h: what a metric and its arguments ask for. */
#ifndef GPUDIST_METRIC_H
#define GPUDIST_METRIC_H

#include "gpudist.h"

/* A metric with its arguments, as a caller gives them; arrays are dense, on the host. */
typedef struct gd_measure {
    gd_metric metric;
    const double *weights; /* one a column, >= 0, or NULL; seuclidean's are 1 / V */
    const double *box;     /* one a column, > 0, infinity where it is not periodic, or NULL */
    double p;              /* minkowski's exponent */
    double base;           /* jensenshannon's, 0 for the natural logarithm */
    const double *vi;      /* mahalanobis's d x d matrix, symmetric */
    const double *factor;  /* d x d, lower triangular, factor @ factor.T == vi; NULL if vi is
                            * not positive definite */
    ptrdiff_t columns;     /* of the arrays */
} gd_measure;

/* What kernels have to do for it. */
typedef struct gd_form {
    gd_metric metric; /* one that others reduce to */
    gd_preparation preparation;
    bool weighted;    /* the kernel takes the weights; preparation may have dealt with them */
    bool whole_power; /* minkowski's exponent is 4, or 3 without weights: a product or two */
    bool periodic;    /* columns are those of a box */
} gd_form;

/* The rules by which arguments reduce a metric; `operands` is the dtype that the rows come in. */
gd_form gd_form_of(gd_metric metric, bool weighted, double p, bool factored, bool periodic,
                   gd_dtype operands);
/* The form of a measure, by these rules. */
gd_form gd_form_of_measure(const gd_measure *measure, gd_dtype operands);

/* One row of the table of metrics. */
typedef struct gd_metric_row {
    const char *name, *aliases, *formula;
    gd_metric reduces_to;
    gd_preparation preparation;
    gd_domain domain;
    int takes; /* gd_argument */
    int columns;
    gd_cost cost;
    gd_order order;
} gd_metric_row;

/* Whether sums with so many weights stay in the range of float32, as those without do. */
bool gd_weights_fit_f32(const double *weights, ptrdiff_t count);

const gd_metric_row *gd_metric_info(gd_metric metric);
/* The metrics that reduce to some metric of the set, the set included; without `weights`, not those
 * that always bring them. */
uint64_t gd_metrics_reducing_to(uint64_t set, bool weights);

#endif
