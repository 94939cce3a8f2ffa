/* steps.cuh: what launchers of several kernels need: a workspace of several arrays, and kernels
 * that follow each other. */
#ifndef GPUDIST_COMMON_STEPS_CUH
#define GPUDIST_COMMON_STEPS_CUH

#include "arch/dependent.cuh"
#include "common/launch.cuh"

namespace gd {

/* Lays arrays out from `at` on, or counts their bytes if that is NULL. */
struct Layout {
    unsigned char *at;
    size_t bytes = 0;

    template <typename T>
    void operator()(T *&array, ptrdiff_t count)
    {
        array = reinterpret_cast<T *>(at + bytes);
        bytes += ((size_t)count * sizeof(T) + 255) & ~(size_t)255;
    }
};

/* The steps of a call, kernels that begin with follow(), as long as all goes well. */
struct Steps {
    const gd_launch &launch;
    int processors = 0;
    size_t shared = 0; /* bytes that a block can have */
    cudaError_t code;

    explicit Steps(const gd_launch &launch_)
        : launch(launch_),
          code(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                      launch.device.index))
    {
        int most = 0;
        if (code == cudaSuccess) {
            code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                          launch.device.index);
        }
        shared = (size_t)most;
    }

    template <typename... Parameters, typename... Arguments>
    void enqueue(void (*kernel)(Parameters...), ptrdiff_t blocks, dim3 threads, size_t shared_bytes,
                 const Arguments &...arguments)
    {
        if (code == cudaSuccess) {
            code = gd::enqueue<Start::kEarly>(launch, kernel, blocks, threads, shared_bytes,
                                              arguments...);
        }
    }
};

}  // namespace gd
#endif
