/* run_apsp_several.h: all-pairs shortest paths of a host matrix whose rows several devices hold. */
#ifndef GPUDIST_RUN_APSP_SEVERAL_H
#define GPUDIST_RUN_APSP_SEVERAL_H

#include <pthread.h>

#include "device.h"
#include "gpudist.h"
#include "stage.h"

/* How many parts a turn has at most whose pivots are closed one part after the other. */
enum { GD_TURN_PARTS = 6, GD_TURN_MARKS = 2 + GD_TURN_PARTS - 1 };

/* A device, and the rows of the padded matrix that it holds. */
typedef struct gd_holder {
    gd_device device;
    ptrdiff_t first, rows;
    size_t bytes; /* that it takes in all */
    gd_budget budget;
    gd_stage stage;
    char *dist;
    int32_t *pred;
    void *snapshots[2]; /* of every other turn */
    /* The stream in which all rows go through a turn, and the one for what others wait for. */
    void *stream, *ahead, *work, *work_ahead;
    /* Marks of every other turn: rows have gone through it; its pivots are closed; their snapshots
     * are with all. The last two are of who holds the pivots, and of earlier parts of a turn there
     * are more of them. */
    void *passed[2], *closed[GD_TURN_MARKS], *told[GD_TURN_MARKS];
    void *arrived;  /* a mark: rows have come to the device */
    double done;    /* the share of its work that has been enqueued for all rows */
    gd_graph graph; /* where the device reads it, and */
    gd_apsp paths;  /* writes what comes of it */
} gd_holder;

/* What threads wait at until somebody has let so many parts through, or shuts it for good. */
typedef struct gd_gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    ptrdiff_t open;
    bool shut;
} gd_gate;

/* The stages of some pivots, which one device holds: a turn, or some parts of one. */
typedef struct gd_turn {
    gd_holder *owner;
    ptrdiff_t pivot, pivots, number;
    ptrdiff_t before; /* pivots of the turn that come before these, and */
    ptrdiff_t after;  /* those that come after them */
} gd_turn;

/* What the facts of all weights say, once every row is there: an error, or whether they are all
 * nonnegative. */
typedef gd_status gd_judge(void *context, const gd_graph_facts *facts, bool *nonnegative,
                           gd_error *err);

/* The matrix comes from the host and goes back there, in dense rows of n. */
typedef struct gd_several {
    gd_apsp_band_kernel *launch;
    gd_apsp_band call; /* its launch's watch, n, dtype, semiring, nonnegative */
    void *dist;
    int32_t *pred; /* or NULL */
    /* NULL: dist and pred come as gd_apsp describes them, and leave so. Else rows come from these
     * weights, of call.dtype and directed, and CUDA devices read and write what the caller sees. */
    const gd_graph *graph;
    double unreachable;
    gd_judge *judge;
    void *context;
    uint8_t *negative_nodes;
    gd_paths_facts found;
    /* The plan: how many stages the first turn has, one in between, the one before the last, and
     * the last, which begins at `end`; those of a part of the first and of the last; rows of a band
     * that arrives or leaves. */
    ptrdiff_t head, pivots, late, end, part, band;
    int count;
    gd_holder holders[GD_MOST_DEVICES];
    gd_turn last;
    _Atomic int failed; /* who was the first to fail, counted from 1 */
    gd_gate begun;      /* lets those parts of the first turn through that are told to all */
} gd_several;

/* Shares out the rows. Devices beyond the number of steps hold none. */
gd_status gd_several_plan(gd_several *several, const gd_devices *devices, size_t max_memory,
                          gd_error *err);
/* Refuses what does not fit. */
gd_status gd_several_grant(gd_several *several, gd_error *err);
/* Closes the matrix as planned. Finished on return, on all devices and whatever the status. */
gd_status gd_several_run(gd_several *several, gd_error *err);

#endif
