/* neighbors_hunt.h: what all searches for neighbours on a CUDA device have in common. */
#ifndef GPUDIST_NEIGHBORS_HUNT_H
#define GPUDIST_NEIGHBORS_HUNT_H

#include "cdist_job.h"
#include "neighbors.h"

/* A search. */
typedef struct gd_hunt {
    gd_job *job;
    const gd_kernel *finder;
    gd_neighbors look;
    ptrdiff_t self;
    ptrdiff_t rows, cols;         /* of a panel */
    gd_matrix panel;              /* room for one, */
    ptrdiff_t row, count, column; /* and which rows and columns there are in it; none if -1 */
    gd_kept *kept;                /* where B is arranged for other searches as well, or NULL; */
    gd_arrangement *there;        /* and what was found there, or NULL */
    const struct gd_prey *prey;
    void *context; /* of that kind */
} gd_hunt;

/* What the kinds of searches do otherwise: what they hold all the time, how many bytes lists take
 * for a row, and what is done for rows [first, first + count). */
typedef struct gd_prey {
    gd_status (*hold)(gd_hunt *hunt, gd_error *err);
    gd_status (*block)(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err);
    double row_bytes;
    bool all_columns; /* panels that have all columns are worth having few rows */
} gd_prey;

/* Whether the row takes points, not panels of their distances. */
static inline bool gd_hunts_points(const gd_hunt *hunt) { return hunt->finder->flags & GD_POINTS; }

gd_hunt gd_hunt_begin(gd_job *job, const gd_choice *finder, ptrdiff_t self);
/* Enters the device, finds the largest panels, and then the parts of operands, that fit the memory,
 * and does the work: first played through, then in earnest. */
gd_status gd_hunt_run(gd_hunt *hunt, const gd_orders *orders, gd_error *err);

/* For prey->hold: room for a panel; what the row needs beside it for hunt->look, as that is filled
 * in. */
gd_status gd_hunt_panel(gd_hunt *hunt, gd_error *err);
gd_status gd_hunt_workspace(gd_hunt *hunt, gd_error *err);

/* The same of rows of the table that take points: what they need, and B arranged in it. */
gd_status gd_hunt_arrange(gd_hunt *hunt, gd_error *err);

/* Refuses rows of which products would not list all that is within a radius. */
gd_status gd_hunt_dense(const gd_hunt *hunt, gd_error *err);

/* For prey->block: all panels of some rows, one after the other. Each is computed, unless it is the
 * one that is there, and looked through as hunt->look says; `each`, which may be NULL, is called
 * before with the panel's number. */
gd_status gd_hunt_look(gd_hunt *hunt, ptrdiff_t row, ptrdiff_t count,
                       void (*each)(gd_hunt *hunt, ptrdiff_t number), gd_error *err);
/* The same of rows of the table that take points, as hunt->look says: rows [first, first + count),
 * as the part [from, to) of the work on these. */
gd_status gd_hunt_among(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, double from, double to,
                        gd_error *err);
/* `count` pieces of `size` bytes, each `pitch` after the one before, to dense memory on the host;
 * finished on return. And bytes to the device, which have been read on return. */
gd_status gd_hunt_home(const gd_hunt *hunt, void *host, const void *there, size_t pitch,
                       size_t size, ptrdiff_t count, gd_error *err);
gd_status gd_hunt_send(const gd_hunt *hunt, void *there, const void *host, size_t bytes,
                       gd_error *err);

/* The keys of rows' radii, to be freed: of similarities they are minus these. There is one a row,
 * or where points are searched and all radii are one, that one: gd_hunt_key_count. NULL where there
 * is no memory for them, which the last one says. */
double *gd_hunt_keys(const gd_hunt *hunt, const gd_wanted *wanted);
ptrdiff_t gd_hunt_key_count(const gd_hunt *hunt, const gd_wanted *wanted);
gd_status gd_hunt_no_keys(const gd_hunt *hunt, gd_error *err);

#endif
