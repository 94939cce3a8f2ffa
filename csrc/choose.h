/* choose.h: from a request to a row of the kernel table, with the reason in words. */
#ifndef GPUDIST_CHOOSE_H
#define GPUDIST_CHOOSE_H

#include "gpudist.h"
#include "metric.h"
#include "options.h"

/* Where a caller wants the work done. Arrays on a device want that device. */
typedef enum gd_where { GD_WHERE_AUTO, GD_WHERE_CPU, GD_WHERE_CUDA } gd_where;

/* What every operation is told beside its operands. */
typedef struct gd_orders {
    const char *kernel;   /* an id, or NULL for auto */
    gd_settings settings; /* of that kernel */
    gd_where where;
    int cuda_index;  /* with GD_WHERE_CUDA */
    void *stream;    /* the caller's stream, for arrays on a device */
    bool ordered;    /* the arrays' own work is on it as well: nothing to wait for */
    gd_watch *watch; /* or NULL */
    /* Bytes of its device's memory that the call may hold at once; 0 sets no bound (stage.h). */
    size_t max_memory;
    /* cdist counts the rows of the result that are complete, which an interrupted call leaves
     * behind; NULL if nobody asks. */
    ptrdiff_t *complete;
    /* Searches: what brings B from the host together with other devices' calls (bus_common.h), or
     * NULL. */
    struct gd_common *common;
} gd_orders;

bool gd_same_device(const gd_matrix *x, const gd_matrix *y);

/* The orders for arrays that live on `device`: those on a CUDA device are worked on there. */
gd_orders gd_orders_near(gd_device device, const gd_orders *orders);
/* The stream for arrays on `device` that are worked on where the chooser said: the caller's, or the
 * thread's own where they come from the host. */
void *gd_stream_near(gd_device device, gd_device chosen, const gd_orders *orders);

/* What there is to do. There is no number of rows of A in it: a result's row must not depend on how
 * many rows are computed with it (but see gd_stand_in). */
typedef struct gd_request {
    gd_op op;
    gd_orders orders;
    gd_dtype dtype;      /* of the computation */
    gd_form form;        /* cdist and neighbors alone; gradient has a metric */
    bool condensed;      /* gradient: of the pairs of one operand */
    bool direct;         /* cdist: for neighbours, whose distances are of the direct form */
    bool in_panels;      /* neighbors: of distances that a certain kernel of cdist computes */
    bool bottleneck;     /* apsp: over GD_MIN_MAX */
    bool predecessors;   /* apsp: are wanted as well */
    ptrdiff_t neighbors; /* neighbors: the most of a row; 0 where that is not known before */
    bool bounded, sums;  /* neighbors: within a radius; weights of neighbours are added up */
    ptrdiff_t n;         /* rows of B; nodes of the graph; columns of a product */
    ptrdiff_t cols;      /* dimensions d; 0 for graphs; rows of a product's B */
} gd_request;

typedef struct gd_choice {
    const gd_kernel *kernel;
    gd_device device;
    gd_options options;
    const char *because; /* and not another; what is good about it is its idea */
} gd_choice;

/* Whether a row of neighbors arranges points in boxes, which it does if they have few columns. */
static inline bool gd_is_by_boxes(const gd_kernel *kernel)
{
    return (kernel->flags & GD_POINTS) && kernel->max_cols <= GD_BOXES_COLS;
}
/* Whether it finds points by products, as others that take points do. */
static inline bool gd_is_by_products(const gd_kernel *kernel)
{
    return (kernel->flags & GD_POINTS) && !gd_is_by_boxes(kernel);
}

/* Fills *choice, or fails with the reason why nothing can run. */
gd_status gd_choose(const gd_request *request, gd_choice *choice, gd_error *err);

/* A choice of auto may be made again for the number of rows of A, among rows of the table that give
 * a result the same bits. */
void gd_stand_in(const gd_request *request, ptrdiff_t rows, gd_choice *choice);

/* The row that computes batches of what was chosen, of so many rows of A, with its bits; NULL if
 * there is none. *sure_root is what it is to be told (gd_cdist). */
const gd_kernel *gd_for_many(const gd_request *request, ptrdiff_t rows, const gd_choice *choice,
                             bool *sure_root);

/* Why this row is not what auto takes for the request, in at most `size` bytes of `why`; false when
 * it could be. */
bool gd_rejects(const gd_kernel *kernel, const gd_request *request, char *why, size_t size);

/* Why this machine can never run the row, whatever the request and the device; false when it can.
 */
bool gd_cannot_run(const gd_kernel *kernel, char *why, size_t size);
/* Why this machine can never run the row, or why none of its devices can; false when one can. */
bool gd_no_card_runs(const gd_kernel *kernel, char *why, size_t size);

#endif
