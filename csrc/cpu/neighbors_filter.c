/* neighbors_filter.c: which elements of a panel of distances are neighbours.
 *
 * Nearly all elements are none: after a few hundred columns a row's list has a limit that one in
 * thousands is below. So a row is read four vectors at a time, and only where one of their elements
 * is below the limit are they looked at one by one. The panel is in the second or third cache,
 * which gives a vector a cycle or less; that is the floor, and small beside what the distances
 * took.
 *
 * A list that is full is cut to the nearest it wants by selection, and the last of those is the new
 * limit. Keys and indices order candidates totally, so when a list is cut does not change it. */
#include "gpudist.h"
#include "kernels.h"
#include "neighbors_list.h"
#include "pass.h"
#include "simd.h"
#include "team.h"

#include <math.h>

/* ---------------------------------------------------------------- a row's candidates */

/* Makes room in a full list: by cutting it where it wants no more, else by growing it. */
static gd_status make_room(gd_candidates *to, gd_error *err)
{
    if (to->most < to->room) {
        gd_keep_nearest(to->list, to->count, to->most);
        to->count = to->most;
        to->limit = to->list[0].key;
        to->cut = true;
        return GD_OK;
    }
    return gd_grow_list(to, err);
}

static gd_status add(gd_candidates *to, double key, ptrdiff_t index, gd_error *err)
{
    const bool belongs = to->cut ? key < to->limit : key <= to->limit;
    if (!belongs) {
        return GD_OK;
    }
    if (to->count == to->room) {
        const gd_status status = make_room(to, err);
        if (status != GD_OK) {
            return status;
        }
        if (to->cut && !(key < to->limit)) {
            return GD_OK;
        }
    }
    to->list[to->count++] = (gd_candidate){key, index};
    return GD_OK;
}

/* ---------------------------------------------------------------- rows of a panel */

#define N(name) name##_f32
#define T float
#define V gd_vf32
#define below_f32(x) nextafterf(x, -INFINITY)
#include "neighbors_filter_body.h"

#define N(name) name##_f64
#define T double
#define V gd_vf64
#define below_f64(x) nextafter(x, -(double)INFINITY)
#include "neighbors_filter_body.h"

typedef struct filter_job {
    const gd_neighbors *call;
    gd_failure failure;
} filter_job;

static gd_status filter_row(const gd_neighbors *call, ptrdiff_t row, gd_error *err)
{
    const bool single = call->panel.dtype == GD_F32;
    if (call->lists == NULL) {
        (single ? count_f32 : count_f64)(call, row);
        return GD_OK;
    }
    return (single ? filter_f32 : filter_f64)(call, row, err);
}

static void filter_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    filter_job *const job = context;
    (void)member;
    for (ptrdiff_t row = first; row < last; ++row) {
        gd_error err;
        gd_note_failure(&job->failure, filter_row(job->call, row, &err), &err);
    }
}

gd_status GD_ISA_NAME(gd_cpu_neighbors_filter)(gd_neighbors *call, gd_error *err)
{
    if (call->launch.sizing) {
        call->launch.workspace_bytes = 0;
        return GD_OK;
    }
    const double elements = (double)call->panel.rows * (double)call->panel.cols;
    filter_job job = {.call = call, .failure = {.err = err}};
    gd_team_run(elements < 0x1p16 ? 1 : gd_team_size(), call->panel.rows, 0, filter_some, &job);
    return atomic_load(&job.failure.status);
}
