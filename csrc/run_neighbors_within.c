/* run_neighbors_within.c: neighbours within a radius on a CUDA device.
 *
 * They are counted first, and written when it is known where each row's begin; where a panel has
 * all columns it is computed once for both. Where only the nearest so many of a row are wanted, but
 * in the order of B, these are found before: the last of them says which others belong to them.
 *
 * Rows of the table that take points count and write by themselves, and the host learns no more
 * than how many neighbours a block of rows has. */
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "device.h"
#include "neighbors_hunt.h"
#include "run_neighbors_cuda.h"
#include "sizes.h"

/* Neighbours of a row, on average, and how many rows of B are fewer than as many times that. */
enum { MANY_OF_ROW = 1024, MANY_SHARE = 256 };

typedef struct gd_within_job {
    const gd_wanted *wanted;
    gd_neighborhoods *found;
    bool home, capped;    /* to the host; at most wanted->most of a row, in the order of B */
    ptrdiff_t panels;     /* of a block of rows */
    double *keys;         /* limits of all rows */
    const double *limits; /* the same on the device */
    double *cuts;         /* of a block: limits of those at most wanted->most, and */
    int64_t *last;        /* up to which index */
    int32_t *tallies;     /* panels x rows x segments, and the same on the host */
    int64_t *starts;
    int32_t *host_tallies;
    int64_t *host_starts;
    gd_ranked nearest; /* of a block, to find the cuts */
    ptrdiff_t segments;
} gd_within_job;

static gd_status limit_rows(gd_hunt *hunt, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    const void *limits;
    const gd_status status =
        gd_stage_numbers(&hunt->job->stage, within->keys, gd_hunt_key_count(hunt, within->wanted),
                         "radii", &limits, err);
    within->limits = limits;
    return status;
}

static gd_status room_for(gd_hunt *hunt, size_t count, size_t size, const char *what, void *into,
                          gd_error *err)
{
    void *memory;
    const gd_status status = gd_stage_memory(&hunt->job->stage, count, size, what, &memory, err);
    memcpy(into, &memory, sizeof memory);
    return status;
}

/* Room for the nearest wanted->most of a block's rows. */
static gd_status room_for_lists(gd_hunt *hunt, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    const size_t list = (size_t)within->wanted->most * (size_t)hunt->rows;
    const gd_status status = room_for(hunt, list, gd_dtype_size(hunt->job->dtype),
                                      "lists of neighbours", &within->nearest.distances, err);
    return status == GD_OK ? room_for(hunt, list, sizeof(int64_t), "lists of neighbours",
                                      &within->nearest.indices, err)
                           : status;
}

static gd_status hold_within(gd_hunt *hunt, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    const gd_wanted *const wanted = within->wanted;
    const size_t rows = (size_t)hunt->rows;
    gd_neighbors *const look = &hunt->look;
    gd_status status = limit_rows(hunt, err);
    status = status == GD_OK ? gd_hunt_panel(hunt, err) : status;
    if (status == GD_OK && (within->capped || wanted->by_distance)) {
        look->ranked.most = within->capped ? wanted->most : 1;
        status = gd_hunt_workspace(hunt, err);
        look->ranked.most = 0;
    }
    if (status == GD_OK && within->capped) {
        status = room_for_lists(hunt, err);
        status = status == GD_OK
                     ? room_for(hunt, rows, sizeof(double), "limits of rows", &within->cuts, err)
                     : status;
        status = status == GD_OK
                     ? room_for(hunt, rows, sizeof(int64_t), "limits of rows", &within->last, err)
                     : status;
    }
    if (status != GD_OK) {
        return status;
    }
    gd_neighbors sizing = *look;
    sizing.launch.sizing = true;
    sizing.panel = hunt->panel;
    if ((status = hunt->finder->launch.neighbors(&sizing, err)) != GD_OK) {
        return status;
    }
    within->segments = sizing.listed.segments;
    within->panels = gd_ceil_div(hunt->job->b->rows, hunt->cols);
    const size_t parts = rows * (size_t)(within->segments * within->panels);
    status = room_for(hunt, parts, sizeof(int32_t), "counts of neighbours", &within->tallies, err);
    status = status == GD_OK ? room_for(hunt, parts + 1, sizeof(int64_t), "places of neighbours",
                                        &within->starts, err)
                             : status;
    if (status == GD_OK && !gd_job_counts(hunt->job)) {
        within->host_tallies = malloc(parts * sizeof(int32_t));
        within->host_starts = malloc((parts + 1) * sizeof(int64_t));
        if (within->host_tallies == NULL || within->host_starts == NULL) {
            return GD_FAIL(err, GD_NO_MEMORY, "no memory for the counts of %zu parts of rows",
                           parts);
        }
    }
    return status;
}

static void tell_tallies(gd_hunt *hunt, ptrdiff_t number)
{
    const gd_within_job *const within = hunt->context;
    hunt->look.listed.tallies = within->tallies + number * hunt->count * within->segments;
}

static void tell_starts(gd_hunt *hunt, ptrdiff_t number)
{
    const gd_within_job *const within = hunt->context;
    hunt->look.listed.starts = within->starts + number * hunt->count * within->segments;
}

/* Limits that at most wanted->most of each row are within: those of rows that have as many become
 * the last one's distance and index. */
static gd_status cut_rows(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    gd_neighbors *const look = &hunt->look;
    const size_t size = gd_dtype_size(hunt->job->dtype), many = (size_t)count;
    const ptrdiff_t most = within->wanted->most, final = most - 1;
    const double sign = look->larger ? -1 : 1;
    double *const cuts = malloc(many * sizeof(double));
    int64_t *const last = malloc(many * sizeof(int64_t));
    char *const distances = malloc(many * size);
    gd_status status = GD_OK;
    if (cuts == NULL || last == NULL || distances == NULL) {
        status = GD_FAIL(err, GD_NO_MEMORY, "no memory for the limits of %td rows", count);
    }
    look->ranked = within->nearest;
    look->ranked.most = most;
    look->limits = within->limits + first;
    status = status == GD_OK ? gd_hunt_look(hunt, first, count, NULL, err) : status;
    look->ranked = (gd_ranked){0};
    if (status == GD_OK) {
        status = gd_hunt_home(hunt, distances,
                              (const char *)within->nearest.distances + (size_t) final * size,
                              (size_t)most * size, size, count, err);
    }
    if (status == GD_OK) {
        status = gd_hunt_home(hunt, last, within->nearest.indices + final,
                              (size_t)most * sizeof(int64_t), sizeof(int64_t), count, err);
    }
    for (ptrdiff_t i = 0; status == GD_OK && i < count; ++i) {
        const bool full = last[i] >= 0;
        const double distance = size == sizeof(float) ? (double)((float *)(void *)distances)[i]
                                                      : ((double *)(void *)distances)[i];
        cuts[i] = full ? sign * distance : within->keys[first + i];
        last[i] = full ? last[i] : INT64_MAX;
    }
    if (status == GD_OK) {
        status = gd_hunt_send(hunt, within->cuts, cuts, many * sizeof(double), err);
    }
    if (status == GD_OK) {
        status = gd_hunt_send(hunt, within->last, last, many * sizeof(int64_t), err);
    }
    free(cuts);
    free(last);
    free(distances);
    return status;
}

/* Where each part of a row's neighbours begins in what the block has; the rows' own places go to
 * found->indptr. Returns how many there are. */
static ptrdiff_t place(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count)
{
    gd_within_job *const within = hunt->context;
    const gd_wanted *const wanted = within->wanted;
    const ptrdiff_t segments = within->segments, parts = segments * within->panels;
    int64_t *const indptr = within->found->indptr + first;
    int64_t at = 0;
    for (ptrdiff_t row = 0; row < count; ++row) {
        int64_t here = 0;
        for (ptrdiff_t part = 0; part < parts; ++part) {
            const ptrdiff_t number = (part / segments * count + row) * segments + part % segments;
            if (!wanted->by_distance) {
                within->host_starts[number] = at + here;
            }
            here += within->host_tallies[number];
        }
        here = here < wanted->most ? here : (int64_t)wanted->most;
        if (wanted->by_distance) {
            within->host_starts[row] = at;
        }
        at += here;
        indptr[row + 1] = indptr[0] + at;
    }
    if (wanted->by_distance) {
        within->host_starts[count] = at;
    }
    return (ptrdiff_t)at;
}

/* Room for what a block has, beyond the stage: it stays when the call is done, unless it goes to
 * the host. */
static gd_status add_chunk(gd_hunt *hunt, ptrdiff_t count, gd_error *err)
{
    gd_neighborhoods *const found = ((gd_within_job *)hunt->context)->found;
    const gd_stage *const stage = &hunt->job->stage;
    const ptrdiff_t number = found->chunk_count;
    gd_chunk *const chunks = realloc(found->chunks, (size_t)(number + 1) * sizeof *chunks);
    gd_status status;
    if (chunks == NULL) {
        return GD_FAIL(err, GD_NO_MEMORY, "no memory for the neighbours of %td blocks of rows",
                       number + 1);
    }
    found->chunks = chunks;
    gd_chunk *const chunk = &chunks[number];
    *chunk = (gd_chunk){.count = count};
    status = gd_alloc(stage->device, stage->stream, (size_t)count * gd_dtype_size(hunt->job->dtype),
                      "the neighbours of rows", &chunk->distances, err);
    if (status == GD_OK) {
        void *indices;
        status = gd_alloc(stage->device, stage->stream, (size_t)count * sizeof(int64_t),
                          "the neighbours of rows", &indices, err);
        chunk->indices = indices;
        if (status != GD_OK) {
            gd_free(stage->device, stage->stream, chunk->distances);
        }
    }
    found->chunk_count += status == GD_OK;
    return status;
}

/* The last chunk to the end of the host's arrays. */
static gd_status bring_chunk(gd_hunt *hunt, gd_error *err)
{
    gd_neighborhoods *const found = ((gd_within_job *)hunt->context)->found;
    const gd_stage *const stage = &hunt->job->stage;
    const size_t size = gd_dtype_size(hunt->job->dtype);
    gd_chunk *const chunk = &found->chunks[found->chunk_count - 1];
    gd_status status = gd_grow_neighborhoods(found, size, chunk->count, err);
    if (status == GD_OK && chunk->count > 0) {
        status = gd_hunt_home(hunt, (char *)found->distances + (size_t)found->count * size,
                              chunk->distances, size, size, chunk->count, err);
    }
    if (status == GD_OK && chunk->count > 0) {
        status = gd_hunt_home(hunt, found->indices + found->count, chunk->indices, sizeof(int64_t),
                              sizeof(int64_t), chunk->count, err);
    }
    found->count += chunk->count;
    gd_free(stage->device, stage->stream, chunk->distances);
    gd_free(stage->device, stage->stream, chunk->indices);
    --found->chunk_count;
    return status;
}

/* Writes what was counted. */
static gd_status write_chunk(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    gd_neighbors *const look = &hunt->look;
    const gd_chunk *const chunk = &within->found->chunks[within->found->chunk_count - 1];
    gd_status status;
    if (chunk->count == 0) {
        return GD_OK;
    }
    if (within->wanted->by_distance) {
        look->ranked = (gd_ranked){.distances = chunk->distances,
                                   .indices = chunk->indices,
                                   .most = 1,
                                   .starts = within->starts};
        status = gd_hunt_look(hunt, first, count, NULL, err);
        look->ranked = (gd_ranked){0};
        return status;
    }
    look->listed.tallies = NULL;
    look->listed.distances = chunk->distances;
    look->listed.indices = chunk->indices;
    return gd_hunt_look(hunt, first, count, tell_starts, err);
}

static gd_status within_block(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    gd_neighbors *const look = &hunt->look;
    const size_t parts = (size_t)(count * within->segments * within->panels);
    gd_status status;
    if (gd_job_counts(hunt->job)) {
        return gd_hunt_look(hunt, first, count, NULL, err);
    }
    status = within->capped ? cut_rows(hunt, first, count, err) : GD_OK;
    look->limits = within->capped ? within->cuts : within->limits + first;
    look->last = within->capped ? within->last : NULL;
    look->listed = (gd_listed){.segments = within->segments};
    status = status == GD_OK ? gd_hunt_look(hunt, first, count, tell_tallies, err) : status;
    if (status == GD_OK) {
        status = gd_hunt_home(hunt, within->host_tallies, within->tallies, sizeof(int32_t),
                              sizeof(int32_t), (ptrdiff_t)parts, err);
    }
    if (status != GD_OK) {
        return status;
    }
    const ptrdiff_t there = place(hunt, first, count);
    const size_t starts = within->wanted->by_distance ? (size_t)count + 1 : parts;
    status = add_chunk(hunt, there, err);
    status = status == GD_OK ? gd_hunt_send(hunt, within->starts, within->host_starts,
                                            starts * sizeof(int64_t), err)
                             : status;
    status = status == GD_OK ? write_chunk(hunt, first, count, err) : status;
    if (within->home) {
        return status == GD_OK ? bring_chunk(hunt, err) : status;
    }
    within->found->count += there;
    return status;
}

/* ---------------------------------------------------------------- among points */

static gd_status hold_points(gd_hunt *hunt, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    gd_neighborhoods *const found = within->found;
    const gd_stage *const stage = &hunt->job->stage;
    gd_neighbors *const look = &hunt->look;
    gd_status status = limit_rows(hunt, err);
    if (status == GD_OK && within->capped) {
        status = room_for_lists(hunt, err);
        look->ranked = within->nearest;
        look->ranked.most = within->wanted->most;
    }
    status = status == GD_OK ? room_for(hunt, (size_t)hunt->rows + 2, sizeof(int64_t),
                                        "places of neighbours", &within->starts, err)
                             : status;
    if (status == GD_OK && !within->home && !gd_job_counts(hunt->job)) {
        void *places;
        status = gd_alloc(stage->device, stage->stream,
                          ((size_t)found->rows + 1) * sizeof *found->places, "places of neighbours",
                          &places, err);
        found->places = status == GD_OK ? places : NULL;
    }
    look->one_limit = within->wanted->one_radius;
    look->within = (gd_within){.starts = within->starts};
    return status == GD_OK ? gd_hunt_arrange(hunt, err) : status;
}

/* Where a block's rows begin, to where they stay. */
static gd_status bring_places(const gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    const gd_within_job *const within = hunt->context;
    const gd_stage *const stage = &hunt->job->stage;
    const size_t bytes = ((size_t)count + 1) * sizeof(int64_t);
    if (within->home) {
        return gd_hunt_home(hunt, within->found->indptr + first, within->starts, sizeof(int64_t),
                            sizeof(int64_t), count + 1, err);
    }
    return gd_copy_rows(stage->device, stage->stream, within->found->places + first, bytes,
                        within->starts, bytes, bytes, 1, err);
}

/* Whether rows have so many neighbours that to put them in order takes longer than panels take,
 * where auto has the choice: their first block tells. A row of 1024 is in order in the time of some
 * thousand pairs, and one of more than a block has room for takes a hundred times as long. */
static bool is_dense(const gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, int64_t all)
{
    const double mean = (double)all / (double)count;
    return first == 0 && hunt->look.may_leave && mean > MANY_OF_ROW &&
           mean * MANY_SHARE > (double)hunt->job->b->rows;
}

static gd_status points_block(gd_hunt *hunt, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_within_job *const within = hunt->context;
    gd_neighborhoods *const found = within->found;
    gd_neighbors *const look = &hunt->look;
    int64_t ends[2]; /* of all of them, and whether any row has many */
    gd_status status;
    if (gd_job_counts(hunt->job) || found->dense) {
        return GD_OK;
    }
    look->limits = within->limits + (look->one_limit ? 0 : first);
    look->within = (gd_within){.starts = within->starts,
                               .base = (int64_t)found->count,
                               .by_distance = within->wanted->by_distance};
    status = gd_hunt_among(hunt, first, count, 0, 0.5, err);
    status = status == GD_OK ? gd_hunt_home(hunt, ends, within->starts + count, sizeof ends,
                                            sizeof ends, 1, err)
                             : status;
    found->dense =
        status == GD_OK &&
        (gd_is_by_boxes(hunt->finder) ? is_dense(hunt, first, count, ends[0]) : ends[1] != 0);
    if (found->dense) {
        return look->may_leave ? GD_OK : gd_hunt_dense(hunt, err);
    }
    status = status == GD_OK ? bring_places(hunt, first, count, err) : status;
    status = status == GD_OK ? add_chunk(hunt, (ptrdiff_t)ends[0] - found->count, err) : status;
    if (status != GD_OK) {
        return status;
    }
    const gd_chunk chunk = found->chunks[found->chunk_count - 1];
    if (chunk.count > 0) {
        look->within.distances = chunk.distances;
        look->within.indices = chunk.indices;
        look->within.any_long = ends[1] != 0;
        status = gd_hunt_among(hunt, first, count, 0.5, 1, err);
    }
    if (within->home) {
        return status == GD_OK ? bring_chunk(hunt, err) : status;
    }
    found->count += chunk.count;
    return status;
}

gd_status gd_cuda_run_within(gd_job *job, const gd_choice *finder, const gd_wanted *wanted,
                             const gd_orders *orders, gd_neighborhoods *found, gd_error *err)
{
    const size_t size = gd_dtype_size(job->dtype) + sizeof(int64_t);
    const bool points = finder->kernel->flags & GD_POINTS;
    gd_within_job within = {
        .wanted = wanted,
        .found = found,
        .home = job->a->device.backend == GD_CPU,
        .capped = wanted->most < job->b->rows && (points || !wanted->by_distance)};
    /* Products list what is within in any case. */
    const bool by_products = gd_is_by_products(finder->kernel);
    const ptrdiff_t listed = within.capped ? wanted->most : by_products ? GD_PRODUCT_NEIGHBORS : 0;
    const gd_prey prey = {
        .hold = points ? hold_points : hold_within,
        .block = points ? points_block : within_block,
        .row_bytes = (double)listed * (double)size,
        .all_columns = true,
    };
    gd_hunt hunt = gd_hunt_begin(job, finder, wanted->self);
    void *const stream = gd_stream_near(job->a->device, finder->device, orders);
    gd_status status = gd_refuse_capture(finder->device, stream, "a search within a radius", err);
    hunt.prey = &prey;
    hunt.context = &within;
    hunt.look.may_leave = orders->kernel == NULL;
    hunt.kept = wanted->kept;
    found->device = finder->device;
    found->stream = stream;
    within.keys = gd_hunt_keys(&hunt, wanted);
    status = status == GD_OK && within.keys == NULL ? gd_hunt_no_keys(&hunt, err) : status;
    status = status == GD_OK ? gd_hunt_run(&hunt, orders, err) : status;
    free(within.keys);
    free(within.host_tallies);
    free(within.host_starts);
    return status;
}
