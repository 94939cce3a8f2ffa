/* run_neighbors_cuda.c: nearest neighbours and counts on a CUDA device.
 *
 * The nearest are found in one pass over the panels, enqueued without waiting: lists have the form
 * of the result and lie in its place, or where that is on the host, in that of a block of rows. */
#include "run_neighbors_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "device.h"
#include "neighbors_hunt.h"
#include "sizes.h"

/* ---------------------------------------------------------------- the nearest */

typedef struct gd_nearest_job {
    gd_matrix distances; /* the caller's, or room for those of a block */
    int64_t *indices;
    const gd_matrix *to; /* where a block's go, on the host; or NULL */
    int64_t *to_indices;
    const gd_wanted *wanted;
    const double *limits;
} gd_nearest_job;

static gd_status hold_nearest(gd_hunt *hunt, gd_error *err)
{
    gd_nearest_job *const nearest = hunt->context;
    gd_stage *const stage = &hunt->job->stage;
    const ptrdiff_t most = hunt->look.ranked.most;
    void *indices;
    gd_status status = GD_OK;
    if (nearest->to != NULL) {
        status = gd_stage_matrix(stage, hunt->rows, most, hunt->job->dtype, "lists of neighbours",
                                 &nearest->distances, err);
        if (status == GD_OK) {
            status = gd_stage_memory(stage, (size_t)hunt->rows, (size_t)most * sizeof(int64_t),
                                     "lists of neighbours", &indices, err);
            nearest->indices = indices;
        }
    }
    if (status == GD_OK && nearest->limits != NULL) {
        const void *limits;
        status = gd_stage_numbers(&hunt->job->stage, nearest->limits,
                                  gd_hunt_key_count(hunt, nearest->wanted), "radii", &limits, err);
        hunt->look.limits = limits;
        hunt->look.one_limit = nearest->wanted->one_radius;
    }
    if (status != GD_OK) {
        return status;
    }
    if (gd_hunts_points(hunt)) {
        return gd_hunt_arrange(hunt, err);
    }
    status = gd_hunt_panel(hunt, err);
    return status == GD_OK ? gd_hunt_workspace(hunt, err) : status;
}

/* Lists of a block to where the caller wants them. */
static gd_status bring_lists(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    const gd_nearest_job *const nearest = hunt->context;
    const ptrdiff_t most = hunt->look.ranked.most;
    const size_t row_bytes = (size_t)most * gd_dtype_size(hunt->job->dtype);
    const size_t index_bytes = (size_t)most * sizeof(int64_t);
    const gd_status status =
        gd_hunt_home(hunt, (char *)nearest->to->data + (size_t)first * row_bytes,
                     nearest->distances.data, row_bytes, row_bytes, count, err);
    return status == GD_OK ? gd_hunt_home(hunt, nearest->to_indices + first * most,
                                          nearest->indices, index_bytes, index_bytes, count, err)
                           : status;
}

static gd_status nearest_block(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    const gd_nearest_job *const nearest = hunt->context;
    gd_job *const job = hunt->job;
    gd_neighbors *const look = &hunt->look;
    const ptrdiff_t at = nearest->to != NULL ? 0 : first;
    const double *const limits = look->limits;
    gd_status status;
    look->ranked.distances = gd_rows_from(&nearest->distances, at, count).data;
    look->ranked.indices = nearest->indices + at * look->ranked.most;
    const bool points = gd_hunts_points(hunt), one = points && look->one_limit;
    look->limits = limits != NULL && !one ? limits + first : limits;
    if (!points) {
        status = gd_hunt_look(hunt, first, count, NULL, err);
    }
    else {
        status = gd_job_counts(job) ? GD_OK : gd_hunt_among(hunt, first, count, 0, 1, err);
    }
    look->limits = limits;
    return status == GD_OK && nearest->to != NULL && !gd_job_counts(job)
               ? bring_lists(hunt, first, count, err)
               : status;
}

gd_status gd_cuda_run_nearest(gd_job *job, const gd_choice *finder, const gd_matrix *distances,
                              int64_t *indices, const gd_wanted *wanted, const gd_orders *orders,
                              gd_error *err)
{
    const bool home = distances->device.backend == GD_CPU;
    gd_nearest_job nearest = {.distances = *distances,
                              .indices = indices,
                              .to = home ? distances : NULL,
                              .to_indices = indices,
                              .wanted = wanted};
    const size_t size = gd_dtype_size(job->dtype) + sizeof(int64_t);
    const gd_prey prey = {.hold = hold_nearest,
                          .block = nearest_block,
                          .row_bytes = home ? (double)wanted->most * (double)size : 0};
    gd_hunt hunt = gd_hunt_begin(job, finder, wanted->self);
    hunt.prey = &prey;
    hunt.context = &nearest;
    hunt.look.ranked.most = wanted->most;
    hunt.kept = wanted->kept;
    double *const limits = wanted->radii != NULL ? gd_hunt_keys(&hunt, wanted) : NULL;
    if (wanted->radii != NULL && limits == NULL) {
        return gd_hunt_no_keys(&hunt, err);
    }
    nearest.limits = limits;
    const gd_status status = gd_hunt_run(&hunt, orders, err);
    free(limits);
    return status;
}

/* ---------------------------------------------------------------- counts */

typedef struct gd_census_job {
    const gd_census *census;
    double *host_sums; /* of a block's rows */
    int64_t many;      /* of products: whether a row has more than are listed */
} gd_census_job;

static gd_status hold_census(gd_hunt *hunt, gd_error *err)
{
    gd_census_job *const counting = hunt->context;
    const gd_census *const census = counting->census;
    const size_t bins = (size_t)census->bound_count;
    gd_neighbors *const look = &hunt->look;
    const bool sums = census->counts == NULL;
    const bool points = gd_hunts_points(hunt);
    const void *bounds, *weights = NULL;
    void *memory;
    gd_status status = gd_stage_numbers(&hunt->job->stage, census->bounds, census->bound_count,
                                        "radii", &bounds, err);
    if (status == GD_OK && sums) {
        status = gd_stage_numbers(&hunt->job->stage, census->b_weights, hunt->job->b->rows,
                                  "weights", &weights, err);
    }
    status = status == GD_OK
                 ? gd_stage_memory(&hunt->job->stage, sums ? (size_t)hunt->rows : 1,
                                   (bins + !sums) * sizeof(double), "counts of pairs", &memory, err)
                 : status;
    if (status != GD_OK) {
        return status;
    }
    look->bounds = bounds;
    look->weights = weights;
    look->bound_count = census->bound_count;
    look->counts = sums ? NULL : memory;
    look->sums = sums ? memory : NULL;
    if (!gd_job_counts(hunt->job)) {
        if (sums) {
            counting->host_sums = malloc((size_t)hunt->rows * bins * sizeof(double));
            if (counting->host_sums == NULL) {
                return GD_FAIL(err, GD_NO_MEMORY, "no memory for the counts of %td rows",
                               hunt->rows);
            }
        }
        else { /* counts of all rows are added to each other, those of the host are 0 */
            status = gd_hunt_send(hunt, memory, census->counts, bins * sizeof(int64_t), err);
            status = status == GD_OK ? gd_hunt_send(hunt, look->counts + bins, &counting->many,
                                                    sizeof counting->many, err)
                                     : status;
        }
    }
    if (status != GD_OK) {
        return status;
    }
    if (points) { /* what is beyond the last bound is nobody's neighbour */
        look->limits = look->bounds + bins - 1;
        look->one_limit = true;
    }
    return points ? gd_hunt_arrange(hunt, err) : gd_hunt_panel(hunt, err);
}

/* Counts pairs of some rows. */
static gd_status count_some(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    if (!gd_hunts_points(hunt)) {
        return gd_hunt_look(hunt, first, count, NULL, err);
    }
    return gd_job_counts(hunt->job) ? GD_OK : gd_hunt_among(hunt, first, count, 0, 1, err);
}

/* The counts of all rows up to `end`, if these are all there are. */
static gd_status bring_counts(gd_hunt *hunt, ptrdiff_t end, gd_error *err)
{
    gd_census_job *const counting = hunt->context;
    const ptrdiff_t bins = counting->census->bound_count;
    const bool by_products = gd_is_by_products(hunt->finder);
    const bool last = end == hunt->job->a->rows;
    gd_status status = GD_OK;
    if (by_products && counting->many == 0) {
        status = gd_hunt_home(hunt, &counting->many, hunt->look.counts + bins, sizeof(int64_t),
                              sizeof(int64_t), 1, err);
    }
    return status == GD_OK && last && counting->many == 0
               ? gd_hunt_home(hunt, counting->census->counts, hunt->look.counts, sizeof(int64_t),
                              sizeof(int64_t), bins, err)
               : status;
}

static gd_status census_block(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    const gd_census_job *const counting = hunt->context;
    const gd_census *const census = counting->census;
    const ptrdiff_t bins = census->bound_count;
    const size_t bytes = (size_t)(count * bins) * sizeof(double);
    gd_status status = GD_OK;
    if (gd_job_counts(hunt->job)) {
        return count_some(hunt, first, count, err);
    }
    if (counting->many != 0) {
        return GD_OK;
    }
    if (counting->host_sums != NULL) {
        memset(counting->host_sums, 0, bytes);
        status = gd_hunt_send(hunt, hunt->look.sums, counting->host_sums, bytes, err);
    }
    status = status == GD_OK ? count_some(hunt, first, count, err) : status;
    if (status != GD_OK || counting->host_sums == NULL) {
        return status == GD_OK ? bring_counts(hunt, first + count, err) : status;
    }
    status = gd_hunt_home(hunt, counting->host_sums, hunt->look.sums, sizeof(double),
                          sizeof(double), count * bins, err);
    for (ptrdiff_t i = 0; status == GD_OK && i < count; ++i) {
        for (ptrdiff_t bin = 0; bin < bins; ++bin) {
            census->sums[bin] += census->a_weights[first + i] * counting->host_sums[i * bins + bin];
        }
    }
    return status;
}

gd_status gd_cuda_run_count(gd_job *job, const gd_choice *finder, const gd_census *census,
                            const gd_orders *orders, bool *dense, gd_error *err)
{
    gd_census_job counting = {.census = census};
    /* What is listed, and then counted. */
    const size_t listed = gd_is_by_products(finder->kernel) ? GD_PRODUCT_NEIGHBORS : 0;
    const size_t sums = census->counts == NULL ? (size_t)census->bound_count : 0;
    const gd_prey prey = {
        .hold = hold_census,
        .block = census_block,
        .row_bytes = (double)(sums * sizeof(double) +
                              listed * (gd_dtype_size(job->dtype) + sizeof(int64_t)))};
    gd_hunt hunt = gd_hunt_begin(job, finder, census->self);
    void *const stream = gd_stream_near(job->a->device, finder->device, orders);
    gd_status status = gd_refuse_capture(finder->device, stream, "counting pairs", err);
    hunt.prey = &prey;
    hunt.context = &counting;
    hunt.look.may_leave = orders->kernel == NULL;
    status = status == GD_OK ? gd_hunt_run(&hunt, orders, err) : status;
    free(counting.host_sums);
    *dense = counting.many != 0;
    return status == GD_OK && *dense && orders->kernel != NULL ? gd_hunt_dense(&hunt, err) : status;
}
