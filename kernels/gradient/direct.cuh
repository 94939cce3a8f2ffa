/* direct.cuh: sums by differences, for kernels that find out on the device that these are better.
 */
#ifndef GPUDIST_GRADIENT_DIRECT_CUH
#define GPUDIST_GRADIENT_DIRECT_CUH

#include "common/launch.cuh"

namespace gd {

/* Enqueues tile.cu for one side of a euclidean or sqeuclidean call of float32; wanted: one a
 * matrix, 0 where nothing is to be done. The call's workspace is as large as bytes_of_direct says.
 */
cudaError_t sum_directly(const gd_gradient &call, bool turned, const unsigned *wanted);
size_t bytes_of_direct(const gd_gradient &call, bool turned);

}  // namespace gd
#endif
