/* neighbors.h: the neighbours of rows, end to end. There never is a matrix of all distances. */
#ifndef GPUDIST_NEIGHBORS_H
#define GPUDIST_NEIGHBORS_H

#include "choose.h"
#include "gpudist.h"
#include "neighbors_kept.h"

/* Which rows of B are neighbours of a row of A. The nearer of two is the one at the smaller
 * distance (the larger one of a similarity), or of equal ones the one with the smaller index; a row
 * at the distance NaN is nobody's neighbour. */
typedef struct gd_wanted {
    ptrdiff_t most;      /* at most the nearest so many; PTRDIFF_MAX for all */
    const double *radii; /* within this distance, for each row of A, inclusive; NULL: any */
    bool one_radius;     /* the first is that of all rows */
    /* A's rows are rows `self` and following of B, and none is a neighbour of itself; -1 if they
     * are others. */
    ptrdiff_t self;
    bool by_distance; /* neighbours within a radius: the nearest first, else in B's order */
    gd_kept *kept;    /* on the host: where B is arranged for later searches as well, or NULL */
} gd_wanted;

/* The nearest wanted->most rows of B to each row of A, the nearest first: `distances` is a dense
 * matrix of the computation's dtype with as many columns, `indices` one of int64 beside it. Where a
 * row has fewer neighbours, NaN and -1 follow. Everything is on the host, or on one device, where
 * it is enqueued on orders->stream. */
gd_status gd_run_nearest(const gd_matrix *a, const gd_matrix *b, const gd_matrix *distances,
                         int64_t *indices, const gd_wanted *wanted, const gd_measure *measure,
                         const gd_orders *orders, gd_error *err);

/* Neighbours of some rows, on a device. */
typedef struct gd_chunk {
    void *distances;
    int64_t *indices;
    ptrdiff_t count;
} gd_chunk;

/* Neighbours of all rows, one row after the other: those of row i are elements indptr[i] to before
 * indptr[i + 1]. Those of operands on a device stay there, in chunks, which are in the way of
 * `stream`; all others are on the host. */
typedef struct gd_neighborhoods {
    void *distances; /* of the computation's dtype */
    int64_t *indices, *indptr;
    int64_t *places;            /* indptr where that is on the device; or NULL */
    ptrdiff_t rows;             /* of A */
    bool dense;                 /* so many that boxes were not worth it: nothing else is there */
    ptrdiff_t count, allocated; /* elements */
    gd_chunk *chunks;
    ptrdiff_t chunk_count;
    gd_device device;
    void *stream;
} gd_neighborhoods;

/* Makes room for `more` elements of `size` bytes in the arrays on the host. */
gd_status gd_grow_neighborhoods(gd_neighborhoods *found, size_t size, ptrdiff_t more,
                                gd_error *err);
/* Copies what is in chunks, and where rows begin, to arrays on the same device, enqueued on
 * `stream`. `distances` is one row. */
gd_status gd_gather_neighborhoods(const gd_neighborhoods *found, const gd_matrix *distances,
                                  int64_t *indices, int64_t *places, void *stream, gd_error *err);
/* Gives back all that is there. */
void gd_free_neighborhoods(gd_neighborhoods *found);

gd_status gd_run_within(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                        const gd_wanted *wanted, const gd_measure *measure, const gd_orders *orders,
                        gd_neighborhoods *found, gd_error *err);

/* Pairs by distance: how many are at bounds[0] or nearer, then at bounds[i] or nearer but not at
 * bounds[i - 1], into counts[i]; bounds go outwards. With weights of the rows of A and of B, sums
 * of their products, in the order of A's rows and then of B's, into sums[i], and counts is NULL. */
typedef struct gd_census {
    const double *bounds;
    ptrdiff_t bound_count;
    const double *a_weights, *b_weights;
    int64_t *counts;
    double *sums;
    ptrdiff_t self; /* as in gd_wanted */
} gd_census;

gd_status gd_run_count(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                       const gd_census *census, const gd_measure *measure, const gd_orders *orders,
                       gd_error *err);

#endif
