/* mahalanobis.cuh: the second step of mahalanobis, for kernels that do the first. */
#ifndef GPUDIST_CDIST_MAHALANOBIS_CUH
#define GPUDIST_CDIST_MAHALANOBIS_CUH

#include "common/launch.cuh"

namespace gd {

/* Computes again, as quadratic forms, all results that the terms of their rows tell have lost
 * digits (GD_FACTORED). lost: on the device; if it is 0 by then there are none, and no result is
 * looked at. NULL: all are. */
cudaError_t recompute_lost_forms(const gd_cdist &call, const unsigned *lost);

}  // namespace gd
#endif
