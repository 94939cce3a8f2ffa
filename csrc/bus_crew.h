/* bus_crew.h: threads that copy pieces for one that talks to the device; for the files of the bus.
 */
#ifndef GPUDIST_BUS_CREW_H
#define GPUDIST_BUS_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "bus_copy.h"
#include "gpudist.h"

/* Pieces that are given and not finished, at most. */
enum { GD_CREW_PIECES = 4 };

/* Pieces by number. Helpers take their parts in order, one after the other, so that none waits for
 * the last of a piece: a fresh page costs several times what one that is there does. */
typedef struct gd_crew {
    gd_rows piece[GD_CREW_PIECES];
    ptrdiff_t left[GD_CREW_PIECES]; /* parts of it that are not copied yet */
    ptrdiff_t given, taken, finished;
    ptrdiff_t part; /* of piece `taken`, the next to be copied */
    /* What the leader wants copied before all pieces: parts that somebody has begun, and has done.
     */
    gd_rows urgent;
    ptrdiff_t begun, done;
    bool over;
    int helpers;
    _Atomic uint32_t bell; /* rung with `some` */
    pthread_mutex_t lock;
    pthread_cond_t some, one; /* there are parts, or the end; a piece or what is urgent is done */
} gd_crew;

/* What the calling thread does; it alone talks to the device. */
typedef gd_status gd_lead(void *context, gd_crew *crew, gd_error *err);

/* Leads, while as many threads as there are copiers, and no more than parts, help. What was given
 * need not be finished on return: nobody copies any more. */
gd_status gd_crew_run(gd_crew *crew, ptrdiff_t parts, gd_lead *lead, void *context, gd_error *err);

/* All that follows is the leader's. Has helpers copy another piece. */
void gd_crew_give(gd_crew *crew, const gd_rows *piece);
/* How many pieces are finished, without a gap. */
ptrdiff_t gd_crew_finished(gd_crew *crew);
/* Waits until more than `before` are; helps, since there need not be anybody else. */
void gd_crew_await(gd_crew *crew, ptrdiff_t before);
/* Copies rows that are wanted before all pieces, with all helpers. */
void gd_crew_copy(gd_crew *crew, const gd_rows *rows);

#endif
