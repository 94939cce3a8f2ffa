/* metric.c: the table of metrics, and the rules by which arguments reduce one metric to another. */
#include "metric.h"

#include <math.h>

#define GD_METRIC(e, name, aliases, reduces_to, preparation, domain, takes, columns, cost, order, \
                  formula)                                                                        \
    [e] = {name, aliases, formula, reduces_to, preparation, domain, takes, columns, cost, order},
static const gd_metric_row rows[] = {
#include "metrics.def"
};
#undef GD_METRIC

const gd_metric_row *gd_metric_info(gd_metric metric) { return &rows[metric]; }

uint64_t gd_metrics_reducing_to(uint64_t set, bool weights)
{
    uint64_t all = 0;
    for (int i = 0; i < GD_METRIC_COUNT; ++i) {
        const bool brings_weights = rows[i].takes & GD_TAKES_V;
        if ((set & GD_BIT(rows[i].reduces_to)) && (weights || !brings_weights)) {
            all |= GD_BIT(i);
        }
    }
    return all;
}

gd_form gd_form_of(gd_metric metric, bool weighted, double p, bool factored, bool periodic,
                   gd_dtype operands)
{
    const gd_metric_row *row = &rows[metric];
    const bool truths = operands == GD_BOOL;
    gd_form form = {.metric = row->reduces_to,
                    .preparation = row->preparation,
                    .weighted = weighted,
                    .whole_power = p == 4 || (p == 3 && !weighted),
                    .periodic = periodic};
    if (metric == GD_MINKOWSKI) {
        form.metric = p == 1     ? GD_CITYBLOCK
                      : p == 2   ? GD_EUCLIDEAN
                      : isinf(p) ? GD_CHEBYSHEV
                                 : GD_MINKOWSKI;
    }
    /* Rows are scaled by the weights' roots. */
    if (row->preparation == GD_UNIT || row->preparation == GD_CENTRED_UNIT) {
        form.weighted = false;
    }
    if (row->preparation == GD_FACTORED && !factored) {
        form.preparation = GD_AS_GIVEN;
    }
    /* Bits can be counted, not weighed. Dice on numbers is arithmetic on how true they are. */
    if (row->preparation == GD_BITS && (weighted || (metric == GD_DICE && !truths))) {
        form.preparation = GD_AS_GIVEN;
    }
    if (row->domain == GD_EITHER && truths) {
        form.preparation = GD_BITS;
    }
    return form;
}

/* Between these bounds no product of two sums of float32 weights leaves the range. */
bool gd_weights_fit_f32(const double *weights, ptrdiff_t count)
{
    bool fit = true;
    for (ptrdiff_t k = 0; k < count; ++k) {
        const double size = fabs(weights[k]);
        fit &= size == 0 || (size >= 0x1p-48 && size <= 0x1p48);
    }
    return fit;
}

gd_form gd_form_of_measure(const gd_measure *measure, gd_dtype operands)
{
    return gd_form_of(measure->metric, measure->weights != NULL, measure->p,
                      measure->factor != NULL, measure->box != NULL, operands);
}
