/* pass.h: what members of a call tell each other: that the watcher wants it to end, or that
 * something went wrong. */
#ifndef GPUDIST_CPU_PASS_H
#define GPUDIST_CPU_PASS_H

#include <stdatomic.h>

#include "gpudist.h"

/* What came of passing so far, for all members of a call. */
typedef _Atomic gd_status gd_passed;

/* For each task of a call of the team: whether to do it. The caller, in whose thread the launcher
 * was called, passes by the watcher; all the others read what came of it. A task should take less
 * than some 50 ms. */
static inline bool gd_goes_on(const gd_launch *launch, double done, int member, gd_passed *passed,
                              gd_error *err)
{
    gd_status now = atomic_load_explicit(passed, memory_order_relaxed);
    if (now == GD_OK && member == 0) {
        now = gd_pass(launch, done, err);
        if (now != GD_OK) {
            atomic_store_explicit(passed, now, memory_order_relaxed);
        }
    }
    return now == GD_OK;
}

/* What went wrong first in a call, for all its members; its words are in *err. */
typedef struct gd_failure {
    _Atomic gd_status status;
    gd_error *err;
} gd_failure;

static inline void gd_note_failure(gd_failure *failure, gd_status status, const gd_error *err)
{
    gd_status none = GD_OK;
    if (status != GD_OK && atomic_compare_exchange_strong(&failure->status, &none, status)) {
        *failure->err = *err;
    }
}

#endif
