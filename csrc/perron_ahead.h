/* perron_ahead.h: a better vector from the last few. */
#ifndef GPUDIST_PERRON_AHEAD_H
#define GPUDIST_PERRON_AHEAD_H

#include "gpudist.h"

/* The weights of `count` >= 1 consecutive vectors whose sum is nearer to where they are heading. */
void gd_perron_weigh(const gd_perron_steps *steps, int count, double *weights);

#endif
