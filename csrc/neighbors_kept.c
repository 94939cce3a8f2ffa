/* neighbors_kept.c: points that are arranged once for several searches among them.
 *
 * An arrangement depends on the points, the measure and the kernel. These are noted beside it, so
 * that a search for anything else goes without. Nobody waits, and nothing is locked: whoever
 * finds no arrangement makes one, and the first that is complete stays until the end. */
#include "neighbors_kept.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"

/* What points were arranged for, and how. */
typedef struct kept_points {
    gd_arrangement arrangement;
    const gd_kernel *kernel;
    gd_matrix points;
    gd_metric metric;
    double p;
    bool weighted, periodic;
    double arguments[]; /* weights, lengths of the box */
} kept_points;

struct gd_kept {
    _Atomic(kept_points *) first;
};

gd_kept *gd_kept_new(void) { return calloc(1, sizeof(gd_kept)); }

void gd_kept_free(gd_kept *kept)
{
    kept_points *const first = kept != NULL ? atomic_load(&kept->first) : NULL;
    if (first != NULL) {
        const gd_arrangement *const made = &first->arrangement;
        int previous;
        gd_error err;
        if (gd_enter(made->device, &previous, &err) == GD_OK) {
            gd_free(made->device, made->stream, made->memory);
            gd_free(made->device, made->stream, made->rows.data);
            gd_cuda_mark_free(made->mark);
            gd_cuda_stream_give(made->stream);
            gd_leave(made->device, previous);
        }
        free(first);
    }
    free(kept);
}

/* Whether numbers of columns are those that were noted, or as few as none. */
static bool are_noted(const double *numbers, bool noted, const double *at, ptrdiff_t columns)
{
    return noted == (numbers != NULL) &&
           (!noted || memcmp(numbers, at, (size_t)columns * sizeof *at) == 0);
}

static bool is_for(const kept_points *one, const gd_kernel *kernel, gd_device device,
                   const gd_matrix *points, const gd_measure *measure)
{
    const bool there = one->arrangement.device.index == device.index;
    const gd_matrix *const x = &one->points, *const y = points;
    const bool alike = x->data == y->data && x->rows == y->rows && x->cols == y->cols &&
                       x->row_stride == y->row_stride && x->col_stride == y->col_stride &&
                       x->dtype == y->dtype;
    return alike && there && one->kernel == kernel && one->metric == measure->metric &&
           one->p == measure->p &&
           are_noted(measure->weights, one->weighted, one->arguments, x->cols) &&
           are_noted(measure->box, one->periodic, one->arguments + x->cols, x->cols);
}

gd_arrangement *gd_kept_find(gd_kept *kept, const gd_kernel *kernel, gd_device device,
                             const gd_matrix *points, const gd_measure *measure)
{
    kept_points *const first = atomic_load(&kept->first);
    return first != NULL && is_for(first, kernel, device, points, measure) ? &first->arrangement
                                                                           : NULL;
}

bool gd_kept_take(gd_kept *kept, const gd_kernel *kernel, const gd_matrix *points,
                  const gd_measure *measure, const gd_arrangement *made)
{
    const size_t bytes = (size_t)points->cols * sizeof(double);
    kept_points *none = NULL;
    kept_points *const one =
        atomic_load(&kept->first) == NULL ? malloc(sizeof *one + 2 * bytes) : NULL;
    if (one == NULL) {
        return false;
    }
    one->arrangement.rows = made->rows;
    one->arrangement.memory = made->memory;
    one->arrangement.device = made->device;
    one->arrangement.mark = made->mark;
    one->arrangement.stream = made->stream;
    atomic_init(&one->arrangement.worth, false);
    one->kernel = kernel;
    one->points = *points;
    one->metric = measure->metric;
    one->p = measure->p;
    one->weighted = measure->weights != NULL;
    one->periodic = measure->box != NULL;
    if (one->weighted) {
        memcpy(one->arguments, measure->weights, bytes);
    }
    if (one->periodic) {
        memcpy(one->arguments + points->cols, measure->box, bytes);
    }
    if (!atomic_compare_exchange_strong(&kept->first, &none, one)) {
        free(one);
        return false;
    }
    return true;
}
