/* cdist_thin.h: what cdist_tile.c leaves to cdist_thin.c. */
#ifndef GPUDIST_CPU_CDIST_THIN_H
#define GPUDIST_CPU_CDIST_THIN_H

#include "gpudist.h"
#include "simd.h"

/* Whether one operand has so few rows that packing the other is not worth its while. */
bool GD_ISA_NAME(gd_cpu_cdist_is_thin)(const gd_cdist *call);
/* The launcher for these: the bits of the tiles. */
gd_status GD_ISA_NAME(gd_cpu_cdist_thin)(gd_cdist *call);

#endif
