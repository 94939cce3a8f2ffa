/* cdist_job.h: cdist and pdist of operands that need not be on the device as a whole. */
#ifndef GPUDIST_CDIST_JOB_H
#define GPUDIST_CDIST_JOB_H

#include "metric.h"
#include "options.h"
#include "registry.h"
#include "run.h"
#include "stack.h"
#include "stage.h"

/* How many rows there are at once: of A and of B on the device, prepared; and of the result, one
 * panel of it. All of an operand are brought once, parts of A with each panel, parts of B again for
 * each panel. Rows have the same bits however that is cut. */
typedef struct gd_parts {
    ptrdiff_t a, b, panel;
    /* cdist of host arrays: no panel is computed while another travels; it can be larger so. */
    bool single;
    /* pdist of host arrays: the result travels when all of it is there, not panel by panel. */
    bool together;
} gd_parts;

/* What a kernel sees of some rows of an operand. */
typedef struct gd_prepared_rows {
    gd_matrix given, rows; /* on the device as they came, and prepared */
    const double *terms;   /* what preparation found out, or NULL */
} gd_prepared_rows;

/* A call, between entering the device and leaving it. */
typedef struct gd_job {
    const gd_matrix *a, *b; /* as the caller has them; the same for pdist, or if they are */
    gd_row_span pairs_of;   /* pdist: the rows whose pairs with later ones are asked for */
    gd_dtype dtype;         /* of the result */
    bool staged;            /* they are on the host, and the stage is not */
    bool direct;            /* auto is to take distances of the direct form (gd_request) */
    const gd_measure *measure;
    gd_form form;
    const gd_kernel *kernel;
    gd_options options;
    gd_watch *watch; /* or NULL */
    /* NULL, or what brings B as a whole from the host together with other devices' calls. */
    struct gd_common *common;
    ptrdiff_t *complete; /* rows of the result that are where the caller wants them */
    gd_stage stage;
    gd_stage reserve; /* on the host */
    gd_parts parts;
    /* What stands for all of B prepared, where it is not to be prepared here: B as it was prepared
     * before, or as given where it is arranged already and nobody reads it; or NULL. */
    const gd_matrix *ready_b;
    /* Filled by gd_job_hold. */
    gd_cdist call;
    gd_prepare task;
    gd_prepared_rows all_a, all_b; /* where these are there as a whole; or in all_b a sample of B */
} gd_job;

/* Whether these are points that the measure takes, to be worked on in `dtype`. */
gd_status gd_check_points(const gd_matrix *x, const char *name, gd_dtype dtype,
                          const gd_measure *measure, gd_error *err);
/* What gd_run_cdist and gd_run_pdist refuse. */
gd_status gd_check_cdist(const gd_matrix *a, const gd_matrix *b, const gd_matrix *out,
                         const gd_measure *measure, gd_error *err);
gd_status gd_check_pdist(const gd_matrix *x, gd_row_span rows, const gd_matrix *out,
                         const gd_measure *measure, gd_error *err);
/* What there is to do, of a job whose form is set. */
gd_request gd_job_request(const gd_job *job, const gd_orders *orders);
/* Sets what the operands, their dtype and the measure ask of a kernel, and the kernel. */
gd_status gd_job_choose(gd_job *job, const gd_orders *orders, gd_choice *choice, gd_error *err);

/* Brings and prepares what is there from beginning to end. It is given back by gd_job_release. */
gd_status gd_job_hold(gd_job *job, gd_error *err);
void gd_job_release(gd_job *job);
/* Enqueues rows [first, first + count) of the result, columns [from, to), into `out`. */
gd_status gd_job_rows(gd_job *job, ptrdiff_t first, ptrdiff_t count, ptrdiff_t from, ptrdiff_t to,
                      const gd_matrix *out, gd_error *err);
/* Does the whole call at once, where that holds little memory and nobody watches: the kernel reads
 * the caller's arrays as they are, and writes to `out`. False if it is none of these calls. */
bool gd_job_is_immediate(const gd_job *job, const gd_matrix *out);
gd_status gd_job_immediate(gd_job *job, const gd_matrix *out, gd_error *err);
/* Enqueues `count` results, the first of which is `out`, along these axes (of a, b and out), with a
 * kernel that has GD_MANY; the operands are the first ones, where the kernel can read them. */
gd_status gd_job_many(gd_job *job, const gd_axes *axes, ptrdiff_t count, bool pairs, bool sure_root,
                      const gd_matrix *out, gd_error *err);
/* Enqueues all pairs, with a kernel that has GD_PAIRS and operands that are there as a whole. */
gd_status gd_job_pairs(gd_job *job, void *out, gd_error *err);

static inline gd_matrix gd_rows_from(const gd_matrix *x, ptrdiff_t first, ptrdiff_t count)
{
    gd_matrix part = *x;
    if (x->data != NULL) {
        part.data = (char *)x->data + first * x->row_stride * (ptrdiff_t)gd_dtype_size(x->dtype);
    }
    part.rows = count;
    return part;
}

/* Whether the job is played dry: it counts the memory that it would hold, and does nothing else. */
static inline bool gd_job_counts(const gd_job *job) { return job->stage.budget->counting; }

#endif
