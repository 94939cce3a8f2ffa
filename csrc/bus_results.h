/* bus_results.h: what the helpers of a result on its way do for others; for the files of the bus.
 */
#ifndef GPUDIST_BUS_RESULTS_H
#define GPUDIST_BUS_RESULTS_H

#include "bus_copy.h"

typedef struct gd_transfer gd_transfer;

/* Has all threads copy rows, which are wanted before what has landed. */
void gd_copy_with_helpers(gd_transfer *t, const gd_rows *rows);

#endif
