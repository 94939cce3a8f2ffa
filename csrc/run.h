/* run.h: one operation end to end: check, choose, stage in, launch, stage out. */
#ifndef GPUDIST_RUN_H
#define GPUDIST_RUN_H

#include "choose.h"
#include "gpudist.h"

/* out[i, j] = metric(a[i, :], b[j, :]); all three on the host, or all on one device. a and b have
 * the dtype of out, or are GD_BOOL where the metric takes truths and has no weights. Work on host
 * arrays is finished on return, work on device arrays enqueued on orders->stream. */
gd_status gd_run_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                       const gd_measure *measure, const gd_orders *orders, gd_error *err);

/* The same for every two rows of x, i < j: out is one row of n * (n - 1) / 2 elements, sorted by i,
 * then by j. Each has the bits that gd_run_cdist gives. */
gd_status gd_run_pdist(const gd_matrix *x, const gd_matrix *out, const gd_measure *measure,
                       const gd_orders *orders, gd_error *err);

/* What a call would take: bytes that it holds at once on its device, as many panels of rows of the
 * result, and parts of XB for each; and bytes of operands that the bus brings, 0 where there is
 * none between. */
typedef struct gd_plan {
    size_t memory;
    ptrdiff_t panels, b_parts;
    double brought;
} gd_plan;

/* Of gd_run_cdist, or with b NULL of gd_run_pdist. Matrices need no data. */
gd_status gd_plan_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                        const gd_measure *measure, const gd_orders *orders, gd_plan *plan,
                        gd_error *err);

/* The best path lengths of the graph over a semiring (any but GD_OR_AND) into `out`, predecessors
 * into `pred` unless pred->data is NULL. Finished on return. negative_nodes (n host bytes) and
 * *on_negative_cycle tell the nodes on negative cycles, positive ones with GD_MAX_PLUS; with one,
 * out and pred are unspecified. graph->flip is filled in here. */
gd_status gd_run_apsp(const gd_graph *graph, const gd_matrix *out, const gd_matrix *pred,
                      gd_semiring semiring, double unreachable, const gd_orders *orders,
                      uint8_t *negative_nodes, ptrdiff_t *on_negative_cycle, gd_error *err);

/* Which nodes can be reached from which into `out`, truths, by one edge or more, or if `reflexive`
 * by none. Work on host arrays is finished on return, work on device arrays enqueued. */
gd_status gd_run_closure(const gd_graph *graph, const gd_matrix *out, bool reflexive,
                         const gd_orders *orders, gd_error *err);

/* The product of a and b over the semiring, joined with c unless c->data is NULL; out may be any of
 * them. All four on the host, or all on one device, of out's dtype. Work on host arrays is finished
 * on return, work on device arrays enqueued on orders->stream; int32 sums wait for it. */
gd_status gd_run_minplus(const gd_matrix *a, const gd_matrix *b, const gd_matrix *c,
                         const gd_matrix *out, gd_semiring semiring, const gd_orders *orders,
                         gd_error *err);

/* What is known of a Perron root in the end. */
typedef struct gd_perron_answer {
    double value, lower, upper;
    ptrdiff_t rounds;
    bool converged;
} gd_perron_answer;

/* The Perron root of a square nonnegative irreducible matrix, and its vector, with 1 as the largest
 * component, into `out`, one row of a's dtype beside it. x0 holds as many positive host numbers, or
 * is NULL for ones. A negative shift leaves it to the run to find one. Finished on return, but for
 * `out` on a device, which is enqueued. */
gd_status gd_run_perron(const gd_matrix *a, const double *x0, const gd_matrix *out, double tol,
                        ptrdiff_t max_iter, double shift, const gd_orders *orders,
                        gd_perron_answer *answer, gd_error *err);

/* One part of the study's loop, by name. The matrix is square or has no data; sums and vector are
 * rows of as many elements, top and apart have one; all are to be written, of one dtype but for
 * apart (GD_I32), all on the host or all on one device. Work on the host is finished on return,
 * work on a device enqueued on orders->stream. */
gd_status gd_run_perron_part(const gd_matrix *matrix, const gd_matrix *sums,
                             const gd_matrix *vector, const gd_matrix *top, const gd_matrix *apart,
                             double epsilon, const gd_orders *orders, gd_error *err);

/* Runs a ceiling `repeats` times after one warm call. seconds[i] is each call's time, *work what
 * one call does. */
gd_status gd_run_ceiling(size_t bytes, const gd_orders *orders, int repeats, double *work,
                         double *seconds, gd_error *err);

#endif
