/* kernels.h: the launchers' prototypes, generated from the kernel table, so that the compiler
 * holds every launcher to its row. Included by the files that define launchers. */
#ifndef GPUDIST_KERNELS_H
#define GPUDIST_KERNELS_H

#include "gpudist.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GD_ROW(id, op, ladder, step, backend, dtypes, metrics, min_cols, max_cols, worth, needs, \
               flags, options, launcher, idea, source)                                           \
    gd_##op##_kernel launcher;
#include "kernels.def"
#undef GD_ROW

#ifdef __cplusplus
}
#endif
#endif
