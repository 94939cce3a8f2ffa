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

/* Rows [first, end) of a matrix. */
typedef struct gd_row_span {
    ptrdiff_t first, end;
} gd_row_span;

static inline gd_row_span gd_all_rows(const gd_matrix *x) { return (gd_row_span){0, x->rows}; }

/* Computes the distances of every two rows i < j of x, i one of `rows`: out is one row, sorted by
 * i, then by j, of n * (n - 1) / 2 elements if these are all rows. Each has the bits that
 * gd_run_cdist gives. */
gd_status gd_run_pdist(const gd_matrix *x, gd_row_span rows, const gd_matrix *out,
                       const gd_measure *measure, const gd_orders *orders, gd_error *err);

/* `count` matrices, along axes of these lengths; with `pairs` there is no b. All are on the host.
 */
typedef struct gd_matrices {
    gd_stack a, b, out;
    bool pairs;
    int axes;
    const ptrdiff_t *shape;
    ptrdiff_t count;
} gd_matrices;

/* gd_run_cdist, or gd_run_pdist, for each of them, with the same bits. Finished on return. */
gd_status gd_run_cdist_batch(const gd_matrices *batch, const gd_measure *measure,
                             const gd_orders *orders, gd_error *err);

/* The gradient that *call describes, whose launch is filled in here. Finished on return. */
gd_status gd_run_gradient(gd_gradient *call, const gd_orders *orders, gd_error *err);

/* What a call would take: bytes that it holds at once on its device, as many panels of rows of the
 * result, and parts of XB for each; and bytes of operands that the bus brings, 0 where there is
 * none between. */
typedef struct gd_plan {
    size_t memory;
    ptrdiff_t panels, b_parts;
    double brought;
} gd_plan;

/* Plans gd_run_cdist, or with b NULL gd_run_pdist for these rows. Matrices need no data. */
gd_status gd_plan_cdist(const gd_matrix *a, const gd_matrix *b, gd_row_span rows,
                        const gd_matrix *out, const gd_measure *measure, const gd_orders *orders,
                        gd_plan *plan, gd_error *err);

/* What the computed lengths say of negative cycles, positive ones with GD_MAX_PLUS: how many nodes
 * seem to be on one, and by how much the rounding of sums can lengthen one. That is 0 where weights
 * are not negative or their sums are exact, and where a device looked at them by itself: so far
 * nobody asks it. It is infinite where sums may leave the dtype's range. */
typedef struct gd_cycles_facts {
    ptrdiff_t nodes;
    double rounding;
} gd_cycles_facts;

struct gd_devices;

/* The best path lengths of the graph over a semiring (any but GD_OR_AND) into `out`, predecessors
 * into `pred` unless pred->data is NULL. With devices (NULL: the one that the orders name), whose
 * first the orders name, all on the host, each holds some of the rows. Finished on return.
 * negative_nodes (n host bytes) tells the nodes that seem to be on negative cycles; with one, out
 * and pred are unspecified. graph->flip is filled in here. */
gd_status gd_run_apsp(const gd_graph *graph, const gd_matrix *out, const gd_matrix *pred,
                      gd_semiring semiring, double unreachable, const gd_orders *orders,
                      const struct gd_devices *devices, uint8_t *negative_nodes,
                      gd_cycles_facts *cycles, gd_error *err);

/* How many graphs lie in one operand: each has `n` nodes, or sizes[i] of them. Their matrices, and
 * those of the results, take n rows of n each; or, if they are `packed`, as many as they have
 * nodes. With first_edges, of count + 1 numbers, edges take the place of matrices: graph i has
 * those from first_edges[i] to before first_edges[i + 1], of `edges` in all. */
typedef struct gd_batch {
    ptrdiff_t count, n;
    const int32_t *sizes;
    bool packed;
    const int64_t *first_edges;
    const int32_t *tails, *heads;
    ptrdiff_t edges;
} gd_batch;

/* gd_run_apsp for many graphs. Operand and results are one row each; of edges the
 * operand is their weights, or has no data. doubts[i] is by how much rounding can lengthen a cycle
 * of graph i, as in gd_cycles_facts, or NaN where it has to be done alone: then its results are
 * unspecified; on a device that is the only doubt, and others are not written. `left` tells whether
 * there is one. Arrays may be on a CUDA device, but for doubts and what the batch says. */
gd_status gd_run_apsp_batch(const gd_graph *graph, const gd_batch *batch, const gd_matrix *out,
                            const gd_matrix *pred, gd_semiring semiring, double unreachable,
                            const gd_orders *orders, double *doubts, bool *left, gd_error *err);

/* A band's part of a turn, in place: gd_apsp_band says what `dist`, `pred` (without data: none) and
 * the snapshots, words of GD_I32, hold; n is the number of columns, and padded already. The
 * semiring is GD_MIN_PLUS or GD_MIN_MAX. Work on host arrays is finished on return, work on device
 * arrays enqueued on orders->stream. */
gd_status gd_run_apsp_band(const gd_matrix *dist, const gd_matrix *pred, const gd_matrix *snapshots,
                           gd_semiring semiring, ptrdiff_t first, ptrdiff_t pivot, ptrdiff_t pivots,
                           const gd_orders *orders, gd_error *err);

/* The least numbers of edges between all nodes into `out`, `unreachable` where that is more than
 * most_hops, on the device where apsp would be computed. It is given up, out unspecified, where
 * another way is quicker. Waits for the device. */
gd_status gd_run_hops(const gd_graph *graph, const gd_matrix *out, double unreachable,
                      ptrdiff_t most_hops, const gd_orders *orders, bool *gave_up, gd_error *err);
/* Whether it is tried; on a CUDA device for any number of edges. */
bool gd_hops_worth(ptrdiff_t n, ptrdiff_t edges, bool on_cuda);

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

/* `count` of either, along axes of these lengths, on the host. c.first has no data where there is
 * no c. */
typedef struct gd_products {
    gd_stack a, b, c, out;
    int axes;
    const ptrdiff_t *shape;
    ptrdiff_t count;
} gd_products;
typedef struct gd_closures {
    gd_graph graph; /* but for its weights */
    gd_stack weights, out;
    int axes;
    const ptrdiff_t *shape;
    ptrdiff_t count;
} gd_closures;

/* gd_run_minplus and gd_run_closure for each of them, with the same bits, but out may not share
 * memory with an operand. Errors of one matrix name it. Finished on return. */
gd_status gd_run_minplus_batch(const gd_products *batch, gd_semiring semiring,
                               const gd_orders *orders, gd_error *err);
gd_status gd_run_closure_batch(const gd_closures *batch, bool reflexive, const gd_orders *orders,
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
