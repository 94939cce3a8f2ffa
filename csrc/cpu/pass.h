/* pass.h: passing by the watcher from within a parallel loop. */
#ifndef GPUDIST_CPU_PASS_H
#define GPUDIST_CPU_PASS_H

#include <omp.h>

#include "gpudist.h"

/* For each task of a loop: whether to do it. Thread 0, which the launcher was called in, passes by
 * the watcher; all the others read in *status what came of it. A loop's tasks should take less than
 * some 50 ms. */
static inline bool gd_goes_on(const gd_launch *launch, double done, gd_status *status,
                              gd_error *err)
{
    gd_status now;
#pragma omp atomic read
    now = *status;
    if (now == GD_OK && omp_get_thread_num() == 0) {
        now = gd_pass(launch, done, err);
        if (now != GD_OK) {
#pragma omp atomic write
            *status = now;
        }
    }
    return now == GD_OK;
}

#endif
