/* neighbors_kept.h: points that are arranged once for several searches among them. */
#ifndef GPUDIST_NEIGHBORS_KEPT_H
#define GPUDIST_NEIGHBORS_KEPT_H

#include "gpudist.h"

/* What the points of one caller are arranged in. The first search fills it; several may read it at
 * once. */
typedef struct gd_kept gd_kept;

/* An empty one, or NULL where there is no memory; gd_kept_free takes NULL too. */
gd_kept *gd_kept_new(void);
void gd_kept_free(gd_kept *kept);

/* Gives a search that is sized the arrangement of its points, made here if there is none yet, and
 * says so in look->arranged. A search for other points, or one that finds another thread at it,
 * goes without. */
gd_status gd_kept_arrange(gd_kept *kept, const gd_kernel *kernel, gd_neighbors *look,
                          gd_error *err);

#endif
