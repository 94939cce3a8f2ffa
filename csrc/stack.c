/* stack.c: computing the matrices of a batch. */
#include "stack.h"

#include <stdio.h>

#include "cpu/pass.h"
#include "sizes.h"
#include "team.h"
#include "watch.h"

/* Inner steps: of what is taken as one chunk, beside which taking it costs little; and those in
 * whose time a call gets to a matrix. */
#define CHUNK_STEPS 0x1p17
#define WAY_STEPS 0x1p8
enum { CHUNKS_A_MEMBER = 4 }; /* at least, lest one is left over in the end */

typedef struct gd_sharing {
    const gd_launch *launch;
    ptrdiff_t first, count, grain;
    gd_stack_part *part;
    void *context;
    gd_passed passed;
    gd_error *stopped, *failure; /* of the caller's passing by, and of the matrix `failed` */
    _Atomic ptrdiff_t failed;    /* the smallest number that did, or the one after all */
    atomic_flag writing;
} gd_sharing;

static void note(gd_sharing *all, ptrdiff_t number, const gd_error *err)
{
    while (atomic_flag_test_and_set_explicit(&all->writing, memory_order_acquire)) {
    }
    if (number < atomic_load_explicit(&all->failed, memory_order_relaxed)) {
        *all->failure = *err;
        atomic_store_explicit(&all->failed, number, memory_order_relaxed);
    }
    atomic_flag_clear_explicit(&all->writing, memory_order_release);
}

/* Computes some matrices. Numbers below one that failed are done all the same: one of them may fail
 * as well. */
static void compute_some(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    gd_sharing *const all = context;
    for (ptrdiff_t i = begin; i < end; ++i) {
        const ptrdiff_t number = all->first + i;
        const double done = (double)number / (double)(all->first + all->count);
        gd_error err;
        if ((i - begin) % all->grain == 0 &&
            !gd_goes_on(all->launch, done, member, &all->passed, all->stopped)) {
            return;
        }
        if (number >= atomic_load_explicit(&all->failed, memory_order_relaxed)) {
            return;
        }
        if (all->part(all->context, number, member, &err) != GD_OK) {
            note(all, number, &err);
        }
    }
}

gd_status gd_stack_share(const gd_launch *launch, int members, ptrdiff_t first, ptrdiff_t count,
                         double steps, gd_stack_part *part, void *context, gd_error *err)
{
    const ptrdiff_t grain = 1 + (ptrdiff_t)(CHUNK_STEPS / (steps + WAY_STEPS));
    gd_error stopped;
    gd_sharing all = {
        .launch = launch,
        .first = first,
        .count = count,
        .grain = gd_least(grain, gd_ceil_div(count, (ptrdiff_t)members * CHUNKS_A_MEMBER)),
        .part = part,
        .context = context,
        .passed = GD_OK,
        .stopped = &stopped,
        .failure = err,
        .failed = first + count,
        .writing = ATOMIC_FLAG_INIT};
    gd_team_run(members, count, all.grain, compute_some, &all);
    if (all.passed != GD_OK) {
        *err = stopped;
        return all.passed;
    }
    return all.failed < first + count ? err->status : GD_OK;
}

gd_status gd_stack_in_turn(gd_watch *watch, ptrdiff_t first, ptrdiff_t count, gd_stack_part *part,
                           void *context, gd_error *err)
{
    const double share = 1 / (double)(first + count);
    gd_status status = GD_OK;
    for (ptrdiff_t i = first; status == GD_OK && i < first + count; ++i) {
        gd_watch_part(watch, (double)i * share, share);
        status = part(context, i, 0, err);
    }
    gd_watch_part(watch, 0, 1);
    return status;
}

/* Whether each step along this axis is as many of the merged batch's last one as that is long. */
static bool goes_on(const gd_axes *merged, const gd_stack *const *stacks, int count, int axis,
                    ptrdiff_t length)
{
    const int last = merged->count - 1;
    bool goes = last >= 0;
    for (int i = 0; goes && i < count; ++i) {
        goes = merged->strides[i][last] == stacks[i]->strides[axis] * length;
    }
    return goes;
}

bool gd_stack_merge(int axes, const ptrdiff_t *shape, const gd_stack *const *stacks, int count,
                    gd_axes *merged)
{
    merged->count = 0;
    for (int axis = 0; axis < axes; ++axis) {
        if (shape[axis] == 1) {
            continue;
        }
        const bool one = goes_on(merged, stacks, count, axis, shape[axis]);
        if (!one && merged->count == GD_MOST_AXES) {
            return false;
        }
        const int at = one ? merged->count - 1 : merged->count++;
        merged->shape[at] = one ? merged->shape[at] * shape[axis] : shape[axis];
        for (int i = 0; i < count; ++i) {
            merged->strides[i][at] = stacks[i]->strides[axis];
        }
    }
    return true;
}

gd_own gd_stack_own(const gd_axes *axes, int stack, int beside)
{
    const ptrdiff_t *const strides = axes->strides[stack], *const others = axes->strides[beside];
    gd_own own = {.count = 1};
    for (int axis = 0; axis < axes->count; ++axis) {
        if (strides[axis] != 0 || others[axis] != 0) {
            own.shape[own.axes] = axes->shape[axis];
            own.strides[own.axes++] = strides[axis];
        }
    }
    for (int axis = axes->count - 1; axis >= 0; --axis) {
        const bool moves = strides[axis] != 0 || others[axis] != 0;
        own.passed[axis] = moves ? own.count : 0;
        own.count *= moves ? axes->shape[axis] : 1;
    }
    return own;
}

gd_status gd_stack_blame(gd_error *err, const char *what, int axes, const ptrdiff_t *shape,
                         ptrdiff_t number)
{
    gd_error before = *err;
    char place[sizeof err->msg / 2];
    int length = 0;
    ptrdiff_t matrices = 1;
    for (int axis = 1; axis < axes; ++axis) {
        matrices *= shape[axis];
    }
    for (int axis = 0; axis < axes && length < (int)sizeof place; ++axis) {
        length += snprintf(place + length, sizeof place - (size_t)length, "%s%td",
                           axis > 0 ? ", " : "", number / matrices);
        number %= matrices;
        matrices /= axis + 1 < axes ? shape[axis + 1] : 1;
    }
    snprintf(err->msg, sizeof err->msg, axes > 1 ? "%s (%s): %s" : "%s %s: %s", what, place,
             before.msg);
    return err->status;
}
