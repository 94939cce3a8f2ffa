/* 05_row_shared.cu: shortest paths between all pairs, a segment of one row a block.
 *
 * Idea: all elements of a row share one first leg, d[i][k]: one thread fetches it, the block reads
 * it from shared memory. Their own d[k][j] and d[i][j] are neighbours in memory, and are asked for
 * before the barrier, so that all three loads are under way together.
 *
 * What changed: since step 2 a block stays in its row, so the row comes from the block's number,
 * one division for all. Since step 4 what is staged serves a whole block, and every access is along
 * a row.
 *
 * What to expect: an H200 could read the matrix in 21 us a stage, 0.1 s in all for n = 5000. It
 * takes 0.41 s with segments of 256. Starting the blocks takes 62 of 80 us (02_coalesced.cu);
 * larger ones start sooner, but end later, as a thread has one element to wait for and its block
 * ends with it. To do much better, each element that comes in must serve more than one stage:
 * step 6.
 * The study reports its best: 102 times one CPU thread at n = 2000, and 87 to 100 times at 5000,
 * where segments of 128 to 256 are best. Its code takes 0.46 s on an H200.
 *
 * Launch: n * (n / segment) blocks of `segment` threads, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 5. */
#include "ladders/apsp/loop.cuh"

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
    T second_leg = 0,
      length = 0; /* of threads beyond the row's end, which the barrier needs, too */
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
