/* cdist_narrow.h: what cdist_tile.c and cdist_sums.c leave to cdist_narrow.c. */
#ifndef GPUDIST_CPU_CDIST_NARROW_H
#define GPUDIST_CPU_CDIST_NARROW_H

#include "gpudist.h"
#include "simd.h"

/* Whether points have so few dimensions that writing the result is most of the work. */
bool GD_ISA_NAME(gd_cpu_cdist_is_narrow)(const gd_cdist *call);
/* Whether they have, in a periodic box, where metrics are of one cheap sum without weights. */
bool GD_ISA_NAME(gd_cpu_cdist_is_narrow_in_box)(const gd_cdist *call);
/* The launcher for these: the bits of the tiles, or in a box those of cdist_sums.c. */
gd_status GD_ISA_NAME(gd_cpu_cdist_narrow)(gd_cdist *call);

#endif
