/* loop.cuh: what the steps of the apsp ladder share: the relaxation, and the host's side of a call.
 *
 * All of them run the loop of Floyd and Warshall on a square matrix of path lengths d:
 *
 *     for k, for i, for j: d[i][j] = min(d[i][j], d[i][k] + d[k][j])
 *
 * Stage k makes k a node that paths may lead through. The stages depend on each other, the n * n
 * relaxations of one do not: row k and column k hold still, because d[k][k] is 0. (It is less if k
 * lies on a negative cycle. Threads may then read either value of an entry that another one writes,
 * and each is the length of some walk: the diagonal turns negative either way, which is all that a
 * caller learns.) Writing only what is strictly shorter is what keeps them still.
 *
 * The study marks a missing edge by -1 and asks for it at each of three operands. Here it weighs
 * so much, GD_I32_FAR or infinity, that no path gains by it: a relaxation is an add and a minimum.
 * Rows of the matrix start `padded` elements apart, a multiple of 32, so on a line of 128 bytes. */
#ifndef GPUDIST_LADDERS_APSP_LOOP_CUH
#define GPUDIST_LADDERS_APSP_LOOP_CUH

#include <type_traits>

#include "common/launch.cuh"

namespace gd {

/* The length of two legs put together. Sums of int32 may wrap around on a negative cycle, which
 * must not be undefined. */
template <typename T>
__device__ __forceinline__ T legs(T first, T second)
{
    return first + second;
}
template <>
__device__ __forceinline__ int32_t legs(int32_t first, int32_t second)
{
    return (int32_t)((uint32_t)first + (uint32_t)second);
}

template <typename T>
__device__ __forceinline__ void relax(T &length, T through)
{
    if (through < length) { /* never with a NaN, which infinity - infinity is */
        length = through;
    }
}

/* The sizing call of a step that wants rows of a multiple of `multiple` elements. */
inline gd_status size_paths(gd_apsp &call, int multiple, const char *id, gd_error *err)
{
    if (call.pred != NULL) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "kernel '%s' computes path lengths alone; for predecessors ask another", id);
    }
    call.padded = ceil_div(call.n, multiple) * multiple;
    call.launch.workspace_bytes = 0;
    return GD_OK;
}

/* Calls f(T *dist) for the type of the path lengths. */
template <typename F>
gd_status with_paths(const gd_apsp &call, F &&f)
{
    switch (call.dtype) {
        case GD_F32:
            return f(static_cast<float *>(call.dist));
        case GD_F64:
            return f(static_cast<double *>(call.dist));
        default:
            return f(static_cast<int32_t *>(call.dist));
    }
}

/* Calls enqueue_stage(k) for k = 0, pivots, 2 * pivots, ... Launches of one stream run one after
 * the other: that is the barrier between the stages. Whoever watches may stop in between. */
template <typename F>
gd_status for_stages(const gd_apsp &call, int pivots, const char *id, gd_error *err,
                     F &&enqueue_stage)
{
    gd_status status = GD_OK;
    for (ptrdiff_t k = 0; status == GD_OK && k < call.n; k += pivots) {
        GD_CUDA_TRY(err, id, enqueue_stage(k));
        status = gd_pass(&call.launch, fmin(1, (double)(k + pivots) / (double)call.n), err);
    }
    return status;
}

}  // namespace gd
#endif
