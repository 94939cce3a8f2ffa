/* ladder.cuh: what launchers of the ladders' steps share. The kernels themselves share nothing:
 * each file is to be read alone. */
#ifndef GPUDIST_LADDER_CUH
#define GPUDIST_LADDER_CUH

#include "common.cuh"

namespace gd {

/* Asks the card for a block's dynamic shared memory, or refuses options that want more of it than
 * the card has. More than 48 KB a kernel gets only if it asked before. */
template <typename... Parameters>
gd_status ask_shared(const char *id, void (*kernel)(Parameters...), size_t bytes, gd_error *err)
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
    GD_CUDA_TRY(err, id,
                cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    return GD_OK;
}

}  // namespace gd
#endif
