/* launch.cuh: what every CUDA file of gpudist needs: checked launches, and the step from a run-time
 * dtype to a compile-time type. */
#ifndef GPUDIST_COMMON_LAUNCH_CUH
#define GPUDIST_COMMON_LAUNCH_CUH

#include <cuda_runtime.h>
#include <limits.h>

#include "kernels.h"

/* Returns from a launcher when a call of the CUDA runtime fails. The message names the kernel by
 * its id. The runtime also keeps the code as its "last error"; it is taken out, so that the next
 * call does not report it again. */
#define GD_CUDA_TRY(err, id, call)                                                       \
    do {                                                                                 \
        const cudaError_t code_ = (call);                                                \
        if (code_ != cudaSuccess) {                                                      \
            (void)cudaGetLastError();                                                    \
            return gd_error_set(err, GD_DEVICE_ERROR, (int)code_, __FILE__, __LINE__,    \
                                "%s: %s (CUDA error %d)", id, cudaGetErrorString(code_), \
                                (int)code_);                                             \
        }                                                                                \
    } while (0)

namespace gd {

/* Whether devices may come to run code that their driver made of PTX for older ones, in which
 * follow() (arch/dependent.cuh) is nothing. The build says so. */
#ifdef GD_PTX_BELOW_90
constexpr bool kMayNotFollow = true;
#else
constexpr bool kMayNotFollow = false;
#endif

/* When the blocks of a kernel start. */
enum class Start {
    kInTurn,   /* after all that the stream did before */
    kEarly,    /* while the kernel before ends, where the device can do that; the kernel has to call
                * follow() (arch/dependent.cuh) */
    kTogether, /* after all that the stream did before and all at once, since they wait for each
                * other; an error if the device has no room for all */
};

/* How a launcher begins that takes no workspace: it says so, and whether that is all that it is
 * asked for. */
inline bool sizes_nothing(gd_launch &launch)
{
    launch.workspace_bytes = 0;
    return launch.sizing;
}

/* Shared memory of a block, static and dynamic, that a kernel has without asking. */
constexpr size_t kSharedForAll = 48 << 10;

/* Lets a kernel have `bytes` of dynamic shared memory a block. Beyond what all have a kernel gets
 * only as much as was allowed before. That figure is the kernel's own, for all threads of the
 * process. So it is only ever set to the most that a block can have: a thread that set less would
 * fail the launch of another one that has just set more. */
inline cudaError_t allow_shared(const void *kernel, size_t bytes)
{
    cudaFuncAttributes has;
    cudaError_t code = cudaFuncGetAttributes(&has, kernel);
    if (code != cudaSuccess || has.sharedSizeBytes + bytes <= kSharedForAll) {
        return code;
    }
    int device = 0, most = 0;
    code = cudaGetDevice(&device);
    if (code == cudaSuccess) {
        code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    const int limit = most - (int)has.sharedSizeBytes;
    return code != cudaSuccess || has.maxDynamicSharedSizeBytes == limit
               ? code
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
}

/* Enqueues a kernel on the launch's stream. Unlike <<<>>>, this answers for this launch alone, not
 * for an error that somebody else left behind. Grids are one-dimensional: y and z end at 65535. */
template <Start kStart = Start::kInTurn, typename... Parameters, typename... Arguments>
cudaError_t enqueue(const gd_launch &launch, void (*kernel)(Parameters...), ptrdiff_t blocks,
                    dim3 threads, size_t shared_bytes, Arguments &&...arguments)
{
    if (blocks > INT_MAX) {
        return cudaErrorInvalidConfiguration;
    }
    cudaError_t code = cudaSuccess;
    if (shared_bytes > 0) {
        code = allow_shared((const void *)kernel, shared_bytes);
    }
    cudaLaunchAttribute attribute = {};
    unsigned attributes = kStart != Start::kInTurn;
    if constexpr (kStart == Start::kEarly && kMayNotFollow) {
        attributes = 0;
    }
    else if constexpr (kStart == Start::kEarly) {
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        int generation = 0;
        if (code == cudaSuccess) {
            code = cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor,
                                          launch.device.index);
        }
        attributes = generation >= 9; /* older devices do not know it */
    }
    if constexpr (kStart == Start::kTogether) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)launch.stream;
    config.attrs = &attribute;
    config.numAttrs = attributes;
    return code != cudaSuccess
               ? code
               : cudaLaunchKernelEx(&config, kernel, static_cast<Arguments &&>(arguments)...);
}

/* Calls f(float{}) or f(double{}): the argument carries the type into a generic lambda. */
template <typename F>
gd_status with_float_type(gd_dtype dtype, F &&f)
{
    return dtype == GD_F32 ? f(float{}) : f(double{});
}

/* Calls f with a number of the type of a path's weights, which may be whole. */
template <typename F>
gd_status with_weight_type(gd_dtype dtype, F &&f)
{
    return dtype == GD_I32 ? f(int32_t{}) : with_float_type(dtype, static_cast<F &&>(f));
}

__host__ __device__ constexpr ptrdiff_t ceil_div(ptrdiff_t x, ptrdiff_t y)
{
    return (x + y - 1) / y;
}

}  // namespace gd
#endif
