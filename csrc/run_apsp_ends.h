/* run_apsp_ends.h: the first and the last stages of a host graph's shortest paths, beside its way
 * over the bus. */
#ifndef GPUDIST_RUN_APSP_ENDS_H
#define GPUDIST_RUN_APSP_ENDS_H

#include "gpudist.h"
#include "stage.h"

typedef struct gd_ends {
    ptrdiff_t head,
        tail;       /* how many stages rows go through as they arrive, and before they leave */
    ptrdiff_t rows; /* of a band */
    gd_apsp_band band;
} gd_ends;

/* Takes the stages from the call, whose kernel must have a step, and memory from the stage. Takes
 * none where the graph is too small for it to pay. */
gd_status gd_ends_take(gd_ends *ends, gd_apsp *call, bool arrives, bool leaves, gd_stage *stage,
                       gd_error *err);
/* Brings a host graph to call->dist, which is graph->weights on the device, and reads it there. */
gd_status gd_ends_arrive(gd_ends *ends, const gd_matrix *host, const gd_graph *graph,
                         const gd_apsp *call, gd_error *err);
/* Enqueues the last stages: first of their pivots' rows, */
gd_status gd_ends_begin_leaving(gd_ends *ends, const gd_apsp *call, gd_error *err);
/* and then of rows [first, first + rows), whole bands but at the end; the pivots' are left out. */
gd_status gd_ends_leave(gd_ends *ends, const gd_apsp *call, ptrdiff_t first, ptrdiff_t rows,
                        gd_error *err);

#endif
