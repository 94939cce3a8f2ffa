/* perron_ahead.h: a better vector from the last few. */
#ifndef GPUDIST_PERRON_AHEAD_H
#define GPUDIST_PERRON_AHEAD_H

#include "gpudist.h"

/* Makes from `count` >= 1 consecutive vectors of n positive components, the latest last, one that
 * is nearer to where they are heading. It is positive, too; its largest component is 1. */
void gd_perron_look_ahead(const double *const *vectors, int count, ptrdiff_t n, double *ahead);

/* x / its largest component, lifted to GD_PERRON_LEAST where it is smaller; `to` may be x. */
void gd_perron_normalise(const double *x, ptrdiff_t n, double *to);

#endif
