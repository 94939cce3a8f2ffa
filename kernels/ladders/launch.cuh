/* launch.cuh: what launchers of the ladders' steps share. The kernels themselves share nothing:
 * each file is to be read alone. */
#ifndef GPUDIST_LADDERS_LAUNCH_CUH
#define GPUDIST_LADDERS_LAUNCH_CUH

#include "common/launch.cuh"

namespace gd {

/* Refuses options that take more dynamic shared memory a block than the card has. */
inline gd_status check_shared(const char *id, size_t bytes, gd_error *err)
{
    int device, most;
    GD_CUDA_TRY(err, id, cudaGetDevice(&device));
    GD_CUDA_TRY(err, id,
                cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    if (bytes > (size_t)most) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "%s: these options take %zu bytes of shared memory a block, and this card "
                       "allows %d",
                       id, bytes, most);
    }
    return GD_OK;
}

}  // namespace gd
#endif
