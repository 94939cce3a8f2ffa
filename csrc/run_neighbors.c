/* run_neighbors.c: nearest neighbours, neighbours within a radius, and counts, end to end.
 *
 * The matrix of distances is computed in panels that stay in the cache, by the kernels of cdist, so
 * that every metric and type is there and distances have the bits of cdist; and each panel is
 * looked through (cpu/neighbors_filter.c) before the next takes its place. A panel of r rows and c
 * columns costs r + c rows of packing beside r c pairs, so it is about square.
 *
 * The rows of A are walked in blocks, and for each of them all of B: a block's lists are complete
 * before the next begins, and are the only thing that grows with the number of neighbours.
 *
 * There are kernels that take points and pass over most pairs: with few dimensions by boxes
 * (cpu/neighbors_boxes.c), with more by products that bound their distances
 * (cpu/neighbors_product.c). On a CUDA device all this is run_neighbors_cuda.c.
 * Whether they can, data tell: they look for the neighbours of some rows first, and where that is
 * no less than looking at every pair, panels are what auto takes after all. */
#include "neighbors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cdist_job.h"
#include "neighbors_list.h"
#include "registry.h"
#include "run_neighbors_cuda.h"
#include "sizes.h"
#include "team.h"
#include "watch.h"

enum {
    PANEL_BYTES = 4 << 20,  /* of distances: a megabyte or two for each member */
    FEWEST_COLS = 256,      /* of a panel, if there are as many */
    LIST_BYTES = 64 << 20,  /* of a block's lists, unless one row has more */
    BLOCK_ROWS = 1 << 16,   /* whose neighbours are looked for among points, at most, */
    GROWING_ROWS = 1 << 13, /* and if their lists grow */
    TRIED_ROWS = 64,        /* before the others, */
    TRIED_SHARE = 16,       /* and one in so many at most where every pair has a product */
};
/* Pair-dimensions between two looks at the watcher, as some tenths of a second take. */
static const double QUICK_STEPS = 0x1p31, SLOW_STEPS = 0x1p25;
/* How many pairs of panels take the time of one that is looked for among points, and of what a
 * row's list takes beside them: some 0.7 ns each on an EPYC with AVX2, where d = 3. A pair in a
 * product takes half of one in a panel. */
static const double PANEL_PAIRS = 3, SWEPT_PAIRS = 0.5, LIST_PAIRS = 4096;

/* A call. */
typedef struct gd_search {
    gd_job job;
    gd_matrix panel;      /* room for one */
    ptrdiff_t rows, cols; /* of a panel */
    gd_neighbors look;
    const gd_kernel *filter;
    bool asked;            /* for it by name */
    bool in_panels;        /* on a device: not by points, for which there was too little memory */
    gd_kept *kept;         /* where B is arranged for other searches as well, or NULL; */
    gd_arrangement *there; /* and what was found there, or NULL */
    ptrdiff_t neighbors;   /* as in gd_request, as these: */
    bool bounded, sums;
    ptrdiff_t self;
    const struct gd_search_kind *kind;
    void *context; /* of that kind */
} gd_search;

/* What the kinds of calls do otherwise. `prepare` allocates what a block needs, once the shape of a
 * panel is known; `start` makes it ready for rows [first, first + count), `finish` takes what all
 * of B has left there; `end`, which may be NULL, gives back what is not the stage's. */
typedef struct gd_search_kind {
    gd_status (*prepare)(gd_search *search, gd_error *err);
    void (*start)(gd_search *search, ptrdiff_t first, ptrdiff_t count);
    gd_status (*finish)(gd_search *search, ptrdiff_t first, ptrdiff_t count, gd_error *err);
    void (*end)(gd_search *search);
} gd_search_kind;

/* ---------------------------------------------------------------- panels */

/* Rows and columns of a panel; not more rows than `at_most`. */
static void shape_panel(gd_search *search, ptrdiff_t at_most)
{
    const gd_job *const job = &search->job;
    const ptrdiff_t m = gd_least(job->a->rows, at_most), n = job->b->rows, d = job->b->cols;
    const ptrdiff_t room = PANEL_BYTES / (ptrdiff_t)gd_dtype_size(job->dtype);
    const bool quick = gd_metric_info(job->form.metric)->cost == GD_CHEAP && !job->form.weighted;
    const double steps = quick ? QUICK_STEPS : SLOW_STEPS;
    const double pairs = fmin((double)room, fmax(steps / (double)(d + 1), 1));
    const ptrdiff_t edge = (ptrdiff_t)sqrt(pairs);
    search->rows = gd_most(gd_least(m, edge), 1);
    search->cols =
        gd_most(gd_least(n, (ptrdiff_t)(pairs / (double)search->rows)), gd_least(n, FEWEST_COLS));
}

/* Nobody is a neighbour of itself: no filter passes NaN. */
static void leave_out_self(const gd_search *search, const gd_matrix *panel, ptrdiff_t row,
                           ptrdiff_t column)
{
    for (ptrdiff_t i = 0; i < panel->rows; ++i) {
        const ptrdiff_t j = search->self + row + i - column;
        if (j < 0 || j >= panel->cols) {
            continue;
        }
        if (panel->dtype == GD_F32) {
            ((float *)panel->data)[i * panel->row_stride + j] = NAN;
        }
        else {
            ((double *)panel->data)[i * panel->row_stride + j] = (double)NAN;
        }
    }
}

static gd_status look_through(gd_search *search, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                              ptrdiff_t cols, gd_error *err)
{
    gd_matrix panel = search->panel;
    gd_status status;
    panel.rows = rows;
    panel.cols = panel.row_stride = cols;
    status = gd_job_rows(&search->job, row, rows, column, column + cols, &panel, err);
    if (status != GD_OK || gd_job_counts(&search->job)) {
        return status;
    }
    if (search->self >= 0) {
        leave_out_self(search, &panel, row, column);
    }
    search->look.panel = panel;
    search->look.first = column;
    return search->filter->launch.neighbors(&search->look, err);
}

/* All panels, block after block. */
static gd_status walk(gd_search *search, gd_error *err)
{
    gd_job *const job = &search->job;
    const ptrdiff_t m = job->a->rows, n = job->b->rows;
    const gd_launch launch = {.device = job->stage.device, .watch = job->watch};
    gd_status status = gd_stage_matrix(&job->stage, search->rows, search->cols, job->dtype,
                                       "a panel of distances", &search->panel, err);
    for (ptrdiff_t row = 0; status == GD_OK && row < m; row += search->rows) {
        const ptrdiff_t rows = gd_least(m - row, search->rows);
        if (!gd_job_counts(job)) {
            search->kind->start(search, row, rows);
        }
        for (ptrdiff_t column = 0; status == GD_OK && column < n; column += search->cols) {
            const ptrdiff_t cols = gd_least(n - column, search->cols);
            const double done =
                ((double)row + (double)rows * (double)column / (double)n) / (double)m;
            status = gd_job_counts(job) ? GD_OK : gd_pass(&launch, done, err);
            status = status == GD_OK ? look_through(search, row, rows, column, cols, err) : status;
            if (gd_job_counts(job)) { /* the others need no more */
                return status;
            }
        }
        status = status == GD_OK ? search->kind->finish(search, row, rows, err) : status;
    }
    return status;
}

/* ---------------------------------------------------------------- points */

static bool takes_points(const gd_search *search) { return search->filter->flags & GD_POINTS; }

/* Whether every pair goes through a product, which the kernel looks up from by itself. */
static bool takes_products(const gd_search *search)
{
    return takes_points(search) && (search->filter->flags & GD_PRODUCT);
}

/* Points as the kernel takes them: the caller's, or what preparation made of them. */
static bool takes_prepared(const gd_search *search)
{
    return search->job.form.preparation != GD_AS_GIVEN;
}
static const gd_matrix *points_of_a(const gd_search *search)
{
    return takes_prepared(search) ? &search->job.all_a.rows : search->job.a;
}
static const gd_matrix *points_of_b(const gd_search *search)
{
    return takes_prepared(search) ? &search->job.all_b.rows : search->job.b;
}

/* Looks for the neighbours of some rows, `apart` of each other. */
static gd_status look_among(gd_search *search, ptrdiff_t first, ptrdiff_t count, ptrdiff_t apart,
                            gd_error *err)
{
    search->kind->start(search, first, count);
    search->look.a = gd_rows_from(points_of_a(search), first, count);
    search->look.a.row_stride *= apart;
    search->look.self = search->self < 0 || apart > 1 ? -1 : search->self + first;
    return search->filter->launch.neighbors(&search->look, err);
}

/* Rows that take no longer than a panel where one takes as many pairs as each of the last. */
static ptrdiff_t rows_at_pace(const gd_search *search)
{
    const double pairs = search->look.pairs / (double)search->look.a.rows;
    if (takes_products(search)) {
        return search->rows;
    }
    const gd_form *const form = &search->job.form;
    const bool quick = gd_metric_info(form->metric)->cost == GD_CHEAP;
    const double steps = (quick ? QUICK_STEPS : SLOW_STEPS) / (double)(search->job.b->cols + 1);
    return (ptrdiff_t)fmax(fmin(steps / fmax(pairs, 1), (double)search->rows), 1);
}

/* Finds what an earlier search among B left. */
static void find_kept(gd_search *search)
{
    gd_job *const job = &search->job;
    search->there =
        gd_kept_find(search->kept, search->filter, job->stage.device, job->b, job->measure);
    job->ready_b = search->there != NULL && takes_prepared(search) ? &search->there->rows : NULL;
}

/* Leaves B, as it is prepared and arranged now, for searches to come. */
static void keep(gd_search *search)
{
    gd_job *const job = &search->job;
    gd_arrangement made = {.memory = search->look.arrangement, .device = job->stage.device};
    if (takes_prepared(search)) {
        made.rows = job->all_b.rows;
    }
    if (gd_kept_take(search->kept, search->filter, job->b, job->measure, &made)) {
        gd_stage_leave(&job->stage, made.memory);
        gd_stage_leave(&job->stage, made.rows.data);
        search->there =
            gd_kept_find(search->kept, search->filter, made.device, job->b, job->measure);
    }
}

/* Arranges B, unless it is kept from a search before; nothing if memory is counted. */
static gd_status arrange(gd_search *search, gd_error *err)
{
    gd_job *const job = &search->job;
    gd_neighbors *const look = &search->look;
    gd_status status;
    look->launch = (gd_launch){.sizing = true, .device = job->stage.device, .watch = job->watch};
    look->a = gd_rows_from(points_of_a(search), 0, search->rows);
    look->b = *points_of_b(search);
    look->metric = job->form.metric;
    look->p = job->measure->p;
    look->box = job->measure->box;
    look->arrangement = search->there != NULL ? search->there->memory : NULL;
    look->arranged = search->there != NULL;
    status = search->filter->launch.neighbors(look, err);
    status = status == GD_OK ? gd_stage_memory(&job->stage, 1, look->launch.workspace_bytes,
                                               "arranging XB", &look->launch.workspace, err)
                             : status;
    look->launch.sizing = false;
    if (status != GD_OK || look->arranged) {
        return status;
    }
    status = gd_stage_memory(&job->stage, 1, look->arrangement_bytes, "XB, arranged",
                             &look->arrangement, err);
    if (status != GD_OK || gd_job_counts(job)) {
        return status;
    }
    status = search->filter->launch.neighbors(look, err);
    if (status == GD_OK && search->kept != NULL) {
        keep(search);
    }
    return status;
}

/* Whether looking at every pair of the last rows would have taken longer. */
static bool was_worth_it(const gd_search *search)
{
    const double rows = (double)search->look.a.rows;
    const double lists = takes_products(search) ? 0 : LIST_PAIRS;
    return PANEL_PAIRS * search->look.pairs + SWEPT_PAIRS * search->look.swept <=
           ((double)search->job.b->rows + lists) * rows;
}

/* Tries some rows, and leaves search->filter NULL where panels are quicker. Products that were
 * asked for, or worth it the last time, need no trial. */
static gd_status try_some(gd_search *search, gd_error *err)
{
    gd_job *const job = &search->job;
    const ptrdiff_t m = job->a->rows;
    const ptrdiff_t some = takes_products(search) ? gd_most(m / TRIED_SHARE, 1) : m;
    const ptrdiff_t tried = gd_least(gd_least(some, TRIED_ROWS), search->rows);
    gd_status status;
    if (takes_products(search) &&
        (search->asked || (search->there != NULL && atomic_load(&search->there->worth)))) {
        return GD_OK;
    }
    status = look_among(search, 0, tried, m / tried, err);
    if (status == GD_OK && !search->asked && !was_worth_it(search)) {
        search->filter = NULL;
    }
    return status;
}

/* Arranges B, tries some rows, and does all if it is worth that; else search->filter is NULL. */
static gd_status walk_points(gd_search *search, gd_error *err)
{
    gd_job *const job = &search->job;
    const ptrdiff_t m = job->a->rows;
    const gd_launch launch = {.device = job->stage.device, .watch = job->watch};
    const bool counts = gd_job_counts(job);
    gd_status status;
    if (!counts) {
        gd_watch_part(job->watch, 0, 0);
    }
    status = arrange(search, err);
    if (status != GD_OK || counts) {
        return status;
    }
    status = try_some(search, err);
    gd_watch_part(job->watch, 0, 1);
    if (search->filter == NULL) {
        return status;
    }
    const ptrdiff_t step = rows_at_pace(search);
    for (ptrdiff_t row = 0, rows; status == GD_OK && row < m; row += rows) {
        rows = gd_least(m - row, step);
        status = gd_pass(&launch, (double)row / (double)m, err);
        gd_watch_part(job->watch, (double)row / (double)m, (double)rows / (double)m);
        status = status == GD_OK ? look_among(search, row, rows, 1, err) : status;
        gd_watch_part(job->watch, 0, 1);
        status = status == GD_OK ? search->kind->finish(search, row, rows, err) : status;
        if (status == GD_OK && search->there != NULL) {
            atomic_store(&search->there->worth, was_worth_it(search));
        }
    }
    return status;
}

/* ---------------------------------------------------------------- a call */

static gd_status work(gd_search *search, gd_error *err)
{
    const bool counts = gd_job_counts(&search->job);
    const bool points = takes_points(search);
    if (!counts && search->kept != NULL) {
        find_kept(search);
    }
    gd_status status = points && !takes_prepared(search) ? GD_OK : gd_job_hold(&search->job, err);
    status = status == GD_OK ? search->kind->prepare(search, err) : status;
    if (status == GD_OK) {
        status = points ? walk_points(search, err) : walk(search, err);
    }
    if (!counts && search->kind->end != NULL) {
        search->kind->end(search);
    }
    return status;
}

/* Refuses what max_memory does not allow, before anything is allocated. */
static gd_status count_memory(const gd_search *search, gd_budget *budget, gd_error *err)
{
    gd_search trial = *search;
    const gd_status status = work(&trial, err);
    return status == GD_OK
               ? gd_budget_grant(budget, search->job.stage.device, "a search for neighbours",
                                 "search for those of fewer rows at once", err)
               : status;
}

static gd_status check(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                       const gd_measure *measure, gd_error *err)
{
    const gd_matrix *const operands[] = {a, b};
    static const char *const names[] = {"XA", "XB"};
    if (a->cols != b->cols) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "XA and XB must have the same number of columns, got %td and %td", a->cols,
                       b->cols);
    }
    for (int i = 0; i < 2; ++i) {
        const gd_status status = gd_check_points(operands[i], names[i], dtype, measure, err);
        if (status != GD_OK) {
            return status;
        }
    }
    return gd_same_device(a, b) ? GD_OK
                                : GD_FAIL(err, GD_BAD_TYPE, "XA and XB are on different devices");
}

/* The call with the kernel that is chosen by now. */
static gd_status attempt(gd_search *search, const gd_orders *orders, ptrdiff_t at_most,
                         gd_error *err)
{
    gd_job *const job = &search->job;
    gd_budget budget = gd_budget_of(orders);
    const gd_device host = {GD_CPU, 0};
    gd_status status;
    job->stage = (gd_stage){.device = host, .budget = &budget};
    job->reserve = (gd_stage){.budget = &budget};
    if (takes_points(search)) {
        search->rows = gd_least(gd_least(job->a->rows, at_most), BLOCK_ROWS);
    }
    else {
        shape_panel(search, at_most);
    }
    status = count_memory(search, &budget, err);
    status = status == GD_OK ? work(search, err) : status;
    gd_job_release(job);
    return status;
}

/* The orders for a row that auto takes beside one on that device. */
static gd_orders orders_at(gd_device device, const gd_orders *orders)
{
    gd_orders there = *orders;
    there.kernel = NULL;
    there.settings = (gd_settings){0};
    there.where = device.backend == GD_CUDA ? GD_WHERE_CUDA : GD_WHERE_CPU;
    there.cuda_index = device.index;
    return there;
}

/* Finds the kernels: who looks for neighbours, and who computes distances where that is. A kernel
 * that is asked for by name is one of either; where auto has the choice, it is of the former. */
static gd_status choose(gd_search *search, const gd_orders *orders, gd_request *request,
                        gd_choice *finder, gd_error *err)
{
    gd_job *const job = &search->job;
    const gd_kernel *const asked = orders->kernel != NULL ? gd_kernel_find(orders->kernel) : NULL;
    const bool by_distances =
        orders->kernel != NULL && !(asked != NULL && asked->op == GD_OP_NEIGHBORS);
    gd_orders of_distances = gd_orders_near(job->a->device, orders);
    gd_choice choice;
    gd_status status;
    search->asked = orders->kernel != NULL && !by_distances;
    *request = (gd_request){.op = GD_OP_NEIGHBORS,
                            .orders = of_distances,
                            .dtype = job->dtype,
                            .form = gd_form_of_measure(job->measure, job->a->dtype),
                            .in_panels = by_distances || search->in_panels,
                            .neighbors = search->neighbors,
                            .bounded = search->bounded,
                            .sums = search->sums,
                            .n = job->b->rows,
                            .cols = job->b->cols};
    if (by_distances) {
        if ((status = gd_job_choose(job, &of_distances, &choice, err)) != GD_OK) {
            return status;
        }
        request->orders = orders_at(choice.device, &of_distances);
        return gd_choose(request, finder, err);
    }
    if ((status = gd_choose(request, finder, err)) != GD_OK) {
        return status;
    }
    const bool keeps = finder->device.backend == GD_CPU || gd_is_by_boxes(finder->kernel);
    if (search->kept == NULL || !keeps) { /* B that is kept is not arranged for these rows alone */
        gd_stand_in(request, job->a->rows, finder);
    }
    of_distances = orders_at(finder->device, &of_distances);
    return gd_job_choose(job, &of_distances, &choice, err);
}

/* Panels on the CPU do what points are not worth, or where there is too little memory for them. */
static gd_status run_here(gd_search *search, gd_request *request, const gd_orders *orders,
                          ptrdiff_t at_most, gd_error *err)
{
    gd_choice choice;
    gd_status status = attempt(search, orders, at_most, err);
    const bool too_much = status == GD_NO_MEMORY && takes_points(search) && !search->asked;
    if (too_much || (status == GD_OK && search->filter == NULL)) {
        request->orders.where = GD_WHERE_CPU;
        request->in_panels = true;
        status = gd_choose(request, &choice, err);
        search->filter = choice.kernel;
        status = status == GD_OK ? attempt(search, orders, at_most, err) : status;
    }
    return status;
}

/* Chooses the kernels, and does the work if that is on the CPU: else *there says so, and by which
 * row of the table it is for others to do. `at_most` bounds the rows of a panel. */
static gd_status run(gd_search *search, const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                     const gd_measure *measure, const gd_orders *orders, ptrdiff_t at_most,
                     gd_choice *there, gd_error *err)
{
    gd_job *const job = &search->job;
    gd_request request;
    gd_status status;
    *job = (gd_job){
        .a = a, .b = b, .dtype = dtype, .measure = measure, .watch = orders->watch, .direct = true};
    if ((status = check(a, b, dtype, measure, err)) != GD_OK ||
        (status = choose(search, orders, &request, there, err)) != GD_OK || a->rows == 0 ||
        there->device.backend != GD_CPU) {
        return status;
    }
    search->filter = there->kernel;
    job->parts = (gd_parts){.a = a->rows, .b = b->rows, .panel = a->rows, .together = true};
    search->look.larger = gd_metric_info(measure->metric)->order == GD_LARGER_IS_NEARER;
    return run_here(search, &request, orders, at_most, err);
}

/* ---------------------------------------------------------------- lists */

/* What calls that list neighbours need beside the search. */
typedef struct gd_listing {
    const gd_wanted *wanted;
    gd_candidates *lists;
    gd_candidate *candidates; /* of all lists, unless they grow */
    ptrdiff_t room;           /* of a list; 0 if they grow */
    bool unordered;           /* lists are not filled in B's order */
    gd_matrix distances;      /* gd_run_nearest */
    int64_t *indices;
    gd_neighborhoods *found; /* gd_run_within */
} gd_listing;

/* Elements of a list that is cut to `most`: as many again, and some. */
static ptrdiff_t room_for(ptrdiff_t wanted, ptrdiff_t n)
{
    ptrdiff_t room;
    if (wanted >= n || __builtin_mul_overflow(wanted, 2, &room) ||
        __builtin_add_overflow(room, 64, &room)) {
        return n + 1;
    }
    return room < n + 1 ? room : n + 1;
}

static gd_status prepare_lists(gd_search *search, gd_error *err)
{
    gd_listing *const listing = search->context;
    const size_t rows = (size_t)search->rows;
    void *lists, *candidates = NULL;
    size_t bytes;
    gd_status status = gd_stage_memory(&search->job.stage, rows, sizeof(gd_candidates),
                                       "the lists of neighbours", &lists, err);
    if (status == GD_OK && listing->room > 0) {
        if (__builtin_mul_overflow((size_t)listing->room, sizeof(gd_candidate), &bytes)) {
            return GD_FAIL(err, GD_NO_MEMORY, "no memory holds lists of %td neighbours",
                           listing->room);
        }
        status = gd_stage_memory(&search->job.stage, rows, bytes, "the lists of neighbours",
                                 &candidates, err);
    }
    if (status == GD_OK && !gd_job_counts(&search->job)) {
        memset(lists, 0, rows * sizeof(gd_candidates));
        listing->lists = search->look.lists = lists;
        listing->unordered = takes_points(search);
        listing->candidates = candidates;
    }
    return status;
}

static void start_lists(gd_search *search, ptrdiff_t first, ptrdiff_t count)
{
    const gd_listing *const listing = search->context;
    const gd_wanted *const wanted = listing->wanted;
    for (ptrdiff_t i = 0; i < count; ++i) {
        gd_candidates *const list = &listing->lists[i];
        const double radius = wanted->radii != NULL
                                  ? wanted->radii[wanted->one_radius ? 0 : first + i]
                                  : (double)INFINITY;
        list->count = 0;
        list->cut = false;
        list->most = wanted->most;
        list->limit = wanted->radii != NULL && search->look.larger ? -radius : radius;
        if (listing->room > 0) {
            list->list = listing->candidates + i * listing->room;
            list->room = listing->room;
        }
    }
}

/* Gives back lists that grew. */
static void end_lists(gd_search *search)
{
    const gd_listing *const listing = search->context;
    for (ptrdiff_t i = 0; listing->lists != NULL && listing->room == 0 && i < search->rows; ++i) {
        free(listing->lists[i].list);
    }
}

static void put_distance(const gd_search *search, void *to, ptrdiff_t at, double key)
{
    const double distance = search->look.larger ? -key : key;
    if (search->job.dtype == GD_F32) {
        ((float *)to)[at] = (float)distance;
    }
    else {
        ((double *)to)[at] = distance;
    }
}

/* Cuts a row's list to the nearest that are wanted, and sorts it. */
static void sort_list(const gd_listing *listing, gd_candidates *list)
{
    const bool by_distance = listing->found == NULL || listing->wanted->by_distance;
    if (list->count > list->most) {
        gd_keep_nearest(list->list, list->count, list->most);
        list->count = list->most;
        list->cut = true;
    }
    if (by_distance || list->cut || listing->unordered) {
        gd_sort_candidates(list->list, list->count, by_distance);
    }
}

static void sort_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const gd_listing *const listing = context;
    (void)member;
    for (ptrdiff_t i = first; i < last; ++i) {
        sort_list(listing, &listing->lists[i]);
    }
}

/* ---------------------------------------------------------------- the nearest */

static gd_status finish_nearest(gd_search *search, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_listing *const listing = search->context;
    const ptrdiff_t k = listing->wanted->most;
    (void)err;
    gd_team_run(gd_team_size(), count, 0, sort_some, listing);
    for (ptrdiff_t i = 0; i < count; ++i) {
        const gd_candidates *const list = &listing->lists[i];
        const ptrdiff_t at = (first + i) * k;
        for (ptrdiff_t j = 0; j < k; ++j) {
            const bool there = j < list->count;
            const double none = search->look.larger ? -(double)NAN : (double)NAN;
            put_distance(search, listing->distances.data, at + j, there ? list->list[j].key : none);
            listing->indices[at + j] = there ? list->list[j].index : -1;
        }
    }
    return GD_OK;
}

static const gd_search_kind nearest = {prepare_lists, start_lists, finish_nearest, NULL};

/* Rows of a panel whose lists have that much room. */
static ptrdiff_t rows_of_lists(ptrdiff_t room)
{
    return gd_most(LIST_BYTES / (ptrdiff_t)sizeof(gd_candidate) / gd_most(room, 1), 1);
}

/* Whether a search among points on a device, for which there was too little memory, is to be done
 * again by panels. */
static bool goes_through_panels(gd_search *search, const gd_choice *there, gd_status status)
{
    const bool points = there->kernel->flags & GD_POINTS;
    search->in_panels = status == GD_NO_MEMORY && points && !search->asked && !search->in_panels;
    return search->in_panels;
}

gd_status gd_run_nearest(const gd_matrix *a, const gd_matrix *b, const gd_matrix *distances,
                         int64_t *indices, const gd_wanted *wanted, const gd_measure *measure,
                         const gd_orders *orders, gd_error *err)
{
    gd_listing listing = {.wanted = wanted,
                          .room = room_for(wanted->most, b->rows),
                          .distances = *distances,
                          .indices = indices};
    gd_search search = {.self = wanted->self,
                        .kind = &nearest,
                        .context = &listing,
                        .kept = wanted->kept,
                        .neighbors = wanted->most,
                        .bounded = wanted->radii != NULL};
    gd_choice there;
    if (distances->rows != a->rows || distances->cols != wanted->most) {
        return GD_FAIL(err, GD_BAD_VALUE, "distances must have shape (%td, %td), got (%td, %td)",
                       a->rows, wanted->most, distances->rows, distances->cols);
    }
    if (wanted->most == 0) {
        return GD_OK;
    }
    while (true) {
        gd_status status = run(&search, a, b, distances->dtype, measure, orders,
                               rows_of_lists(listing.room), &there, err);
        if (status != GD_OK || a->rows == 0 || there.device.backend == GD_CPU) {
            return status;
        }
        status = gd_cuda_run_nearest(&search.job, &there, distances, indices, wanted, orders, err);
        if (!goes_through_panels(&search, &there, status)) {
            return status;
        }
    }
}

/* ---------------------------------------------------------------- within a radius */

static gd_status finish_within(gd_search *search, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    gd_listing *const listing = search->context;
    gd_neighborhoods *const found = listing->found;
    ptrdiff_t more = 0;
    gd_team_run(gd_team_size(), count, 0, sort_some, listing);
    for (ptrdiff_t i = 0; i < count; ++i) {
        more += listing->lists[i].count;
    }
    const gd_status status =
        gd_grow_neighborhoods(found, gd_dtype_size(search->job.dtype), more, err);
    if (status != GD_OK) {
        return status;
    }
    for (ptrdiff_t i = 0; i < count; ++i) {
        const gd_candidates *const list = &listing->lists[i];
        for (ptrdiff_t j = 0; j < list->count; ++j) {
            put_distance(search, found->distances, found->count + j, list->list[j].key);
            found->indices[found->count + j] = list->list[j].index;
        }
        found->count += list->count;
        found->indptr[first + i + 1] = found->count;
    }
    return GD_OK;
}

static const gd_search_kind within = {prepare_lists, start_lists, finish_within, end_lists};

gd_status gd_run_within(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                        const gd_wanted *wanted, const gd_measure *measure, const gd_orders *orders,
                        gd_neighborhoods *found, gd_error *err)
{
    const bool all = wanted->most >= b->rows;
    gd_listing listing = {
        .wanted = wanted, .room = all ? 0 : room_for(wanted->most, b->rows), .found = found};
    gd_search search = {.self = wanted->self,
                        .kind = &within,
                        .context = &listing,
                        .kept = wanted->kept,
                        .neighbors = all ? 0 : wanted->most,
                        .bounded = true};
    gd_choice there;
    gd_status status = GD_OK;
    *found = (gd_neighborhoods){0};
    while (status == GD_OK) {
        gd_free_neighborhoods(found);
        found->rows = a->rows;
        found->indptr = calloc((size_t)a->rows + 1, sizeof *found->indptr);
        if (found->indptr == NULL) {
            return GD_FAIL(err, GD_NO_MEMORY, "no memory for the lists of %td rows", a->rows);
        }
        if (b->rows == 0) {
            break;
        }
        status = run(&search, a, b, dtype, measure, orders,
                     all ? GROWING_ROWS : rows_of_lists(listing.room), &there, err);
        if (status != GD_OK || a->rows == 0 || there.device.backend == GD_CPU) {
            break;
        }
        status = gd_cuda_run_within(&search.job, &there, wanted, orders, found, err);
        if (found->dense) {
            search.in_panels = true;
        }
        else if (found->count == 0 && goes_through_panels(&search, &there, status)) {
            status = GD_OK;
        }
        else {
            break;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- counts */

/* What calls that count need beside the search. */
typedef struct gd_counting {
    const gd_census *census;
    void *bins; /* of each row of a block, one a bound: int64, or sums of weights */
} gd_counting;

static gd_status prepare_bins(gd_search *search, gd_error *err)
{
    gd_counting *const counting = search->context;
    const gd_census *const census = counting->census;
    gd_status status;
    if (__builtin_mul_overflow((size_t)census->bound_count, sizeof(double), &(size_t){0})) {
        return GD_FAIL(err, GD_NO_MEMORY, "no memory holds %td counts", census->bound_count);
    }
    status = gd_stage_memory(&search->job.stage, (size_t)search->rows,
                             (size_t)census->bound_count * sizeof(double), "the counts of rows",
                             &counting->bins, err);
    search->look.bounds = census->bounds;
    search->look.bound_count = census->bound_count;
    search->look.weights = census->b_weights;
    search->look.counts = census->counts != NULL ? counting->bins : NULL;
    search->look.sums = census->counts != NULL ? NULL : counting->bins;
    return status;
}

static void start_bins(gd_search *search, ptrdiff_t first, ptrdiff_t count)
{
    const gd_counting *const counting = search->context;
    (void)first;
    memset(counting->bins, 0, (size_t)(count * counting->census->bound_count) * sizeof(double));
}

static gd_status finish_bins(gd_search *search, ptrdiff_t first, ptrdiff_t count, gd_error *err)
{
    const gd_counting *const counting = search->context;
    const gd_census *const census = counting->census;
    (void)err;
    for (ptrdiff_t i = 0; i < count; ++i) {
        for (ptrdiff_t bin = 0; bin < census->bound_count; ++bin) {
            const ptrdiff_t at = i * census->bound_count + bin;
            if (census->counts != NULL) {
                census->counts[bin] += ((const int64_t *)counting->bins)[at];
            }
            else {
                census->sums[bin] +=
                    census->a_weights[first + i] * ((const double *)counting->bins)[at];
            }
        }
    }
    return GD_OK;
}

static const gd_search_kind count = {prepare_bins, start_bins, finish_bins, NULL};

gd_status gd_run_count(const gd_matrix *a, const gd_matrix *b, gd_dtype dtype,
                       const gd_census *census, const gd_measure *measure, const gd_orders *orders,
                       gd_error *err)
{
    gd_counting counting = {.census = census};
    gd_search search = {
        .self = census->self, .kind = &count, .context = &counting, .sums = census->sums != NULL};
    const ptrdiff_t at_most =
        gd_most(LIST_BYTES / (ptrdiff_t)sizeof(double) / gd_most(census->bound_count, 1), 1);
    gd_choice there;
    gd_status status = GD_OK;
    bool dense = false;
    while (b->rows > 0 && census->bound_count > 0) {
        status = run(&search, a, b, dtype, measure, orders, at_most, &there, err);
        if (status != GD_OK || a->rows == 0 || there.device.backend == GD_CPU) {
            break;
        }
        status = gd_cuda_run_count(&search.job, &there, census, orders, &dense, err);
        if (status == GD_OK && dense) {
            search.in_panels = true;
        }
        else if (!goes_through_panels(&search, &there, status)) {
            break;
        }
    }
    return status;
}
