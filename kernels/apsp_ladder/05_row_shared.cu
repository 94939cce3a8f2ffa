/* 05_row_shared.cu: all shortest paths, a segment of one row a block.
 *
 * Idea: all of a segment share one first leg, d[i][k]: one thread fetches it, the others read it
 * from shared memory. Their own d[k][j] and d[i][j] are neighbours in memory, and are asked for
 * before the barrier, so that all three loads are under way together.
 *
 * What changed: since step 2: a block stays in its row, so the row comes from the block's number (one
 * division a block in place of one a thread); changed since step 4: what is staged is read by a
 * whole block, and every access is along the row.
 *
 * What to expect: traffic, at last. A stage moves the matrix through the memory once, 21 us for
 * n = 5000 on an H200, if nothing has to be written; 5000 stages would take 0.1 s. What is reached
 * is a quarter of that rate, since a thread has only one element to wait for. To do better, each
 * element that comes in from memory must serve more than one stage: step 6.
 *
 * Launch: n * (n / segment) blocks of `segment` threads, n times.
 *
 * Source: the study's best: 102 times the speed of one CPU thread at n = 2000, 87 to 100 times at
 * n = 5000, where segments of 128 to 256 are best. */
#include "apsp_ladder/loop.cuh"

namespace {

constexpr const char *kId = "apsp/5_row_shared";

template <typename T>
__global__ void __launch_bounds__(1024)
    relax_row(T *dist, ptrdiff_t n, ptrdiff_t padded, ptrdiff_t k, unsigned segments)
{
    __shared__ T first_leg;
    const ptrdiff_t i = blockIdx.x / segments;
    const ptrdiff_t j = (ptrdiff_t)(blockIdx.x % segments) * blockDim.x + threadIdx.x;
    const bool inside = j < n;
    T second_leg = 0, length = 0;
    if (threadIdx.x == 0) {
        first_leg = dist[i * padded + k];
    }
    if (inside) {
        second_leg = dist[k * padded + j];
        length = dist[i * padded + j];
    }
    __syncthreads();
    const T through = gd::legs(first_leg, second_leg);
    if (inside && through < length) {
        dist[i * padded + j] = through;
    }
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_5_row_shared(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, 32, kId, err);
    }
    const int segment = call->launch.options.value[0];
    const ptrdiff_t segments = gd::ceil_div(call->n, segment);
    return gd::with_paths(*call, [&](auto *dist) {
        using T = std::remove_pointer_t<decltype(dist)>;
        return gd::for_stages(*call, 1, kId, err, [&](ptrdiff_t k) {
            return gd::enqueue(call->launch, relax_row<T>, call->n * segments, segment, 0, dist,
                               call->n, call->padded, k, (unsigned)segments);
        });
    });
}
