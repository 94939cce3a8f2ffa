/* neighbors_kept.h: points that are arranged once for several searches among them. */
#ifndef GPUDIST_NEIGHBORS_KEPT_H
#define GPUDIST_NEIGHBORS_KEPT_H

#include <stdatomic.h>

#include "gpudist.h"
#include "metric.h"

/* What the points of one caller are arranged in. The first search fills it; any number of threads
 * may read it at once. */
typedef struct gd_kept gd_kept;

/* Points as one search left them for others. Those on a CUDA device come with a mark that is set
 * when they are complete, and a stream of their own, which everybody who searches among them has it
 * wait for: there the memory is given back. */
typedef struct gd_arrangement {
    gd_matrix rows; /* prepared, if the metric is one of prepared rows; else without data */
    void *memory;   /* as the kernel arranged them */
    gd_device device;
    void *mark, *stream;
    /* On the host: whether the last search among them was quicker than one in panels. */
    _Atomic bool worth;
} gd_arrangement;

/* An empty one, or NULL where there is no memory; gd_kept_free takes NULL too. */
gd_kept *gd_kept_new(void);
void gd_kept_free(gd_kept *kept);

/* What there is for searches by this kernel and measure among these points, on that device; NULL if
 * that is nothing. It stays as long as `kept` does. */
gd_arrangement *gd_kept_find(gd_kept *kept, const gd_kernel *kernel, gd_device device,
                             const gd_matrix *points, const gd_measure *measure);

/* Takes the memory of an arrangement over, from a search that found none. False if there is one by
 * now, or no memory to note what it is for: it remains the search's. */
bool gd_kept_take(gd_kept *kept, const gd_kernel *kernel, const gd_matrix *points,
                  const gd_measure *measure, const gd_arrangement *made);

#endif
