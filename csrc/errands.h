/* errands.h: something that is done for each of several devices at once. */
#ifndef GPUDIST_ERRANDS_H
#define GPUDIST_ERRANDS_H

#include "gpudist.h"

/* What is done for the device of this number. */
typedef gd_status gd_errand(void *context, int number, gd_error *err);

/* Has it done for each number below `count`, at most GD_MOST_DEVICES, by a thread for each; the
 * caller has the first, whose work is watched. Where there are no more threads, the caller does it
 * after that. *failed, 0 before, is who was the first to fail, counted from 1, for all to see; what
 * is returned is his failure. */
gd_status gd_run_errands(int count, gd_errand *errand, void *context, _Atomic int *failed,
                         gd_error *err);

#endif
