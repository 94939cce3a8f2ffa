/* bus_common.h: rows of the host that several devices want as a whole, each for a call of its own.
 *
 * Each device brings a share of them over its own bus, and they send each other the rest, which
 * takes a fraction of that: 512 MB came to each of two H100s in 7.6 ms, a small search included,
 * where each of them by itself took 12.3. */
#ifndef GPUDIST_BUS_COMMON_H
#define GPUDIST_BUS_COMMON_H

#include "bus.h"

/* What so many calls have in common, each of which is made by a thread and on a device of its own,
 * at about the same time. NULL if there is no memory. */
typedef struct gd_common gd_common;
gd_common *gd_common_new(int members);
void gd_common_free(gd_common *common);

/* Copies rows as gd_send_rows does: together with the other calls, if they are many bytes, all come
 * within a tenth of a second, once each, and their devices reach each other; else alone. Nobody is
 * told of rows that arrive. */
gd_status gd_common_send(gd_common *common, const gd_arrival *arrival, gd_error *err);

#endif
