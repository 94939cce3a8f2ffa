/* 03_segmented.cu: shortest paths between all pairs, several consecutive elements a thread.
 *
 * Idea: a thread that owns `segment` elements divides once for all of them to find its row, and
 * loads d[i][k] once as long as it stays in that row.
 *
 * What changed: since step 2 the loop over the segment, and with it fewer blocks.
 *
 * What to expect: the price is that neighbouring threads are now `segment` elements apart. A warp
 * that asks for one element a thread touches `segment` lines, and finds the rest of them in the
 * cache in the next turns of its loop. The study gains a little, 75.2 times one CPU thread with
 * segments of 2, its best. Where starting blocks is what binds, half as many are twice as fast: an
 * H200 takes 0.31 s for n = 5000. Segments of 4 are better still, of 16 worse than none.
 *
 * Launch: n * n / (threads * segment) blocks, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 3. */
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/3_segmented";

template <typename T, typename Index>
__global__ void __launch_bounds__(1024)
    relax_segments(T *dist, Index n, ptrdiff_t padded, ptrdiff_t k, int segment)
{
    const Index element = ((Index)blockIdx.x * blockDim.x + threadIdx.x) * segment;
    ptrdiff_t i = element / n, j = element % n;
    if (i >= (ptrdiff_t)n) {
        return; /* no barrier below */
    }
    T first_leg = dist[i * padded + k];
    for (int step = 0; step < segment; ++step) {
        gd::relax(dist[i * padded + j], gd::legs(first_leg, dist[k * padded + j]));
        if (++j == (ptrdiff_t)n) { /* on to the next row */
            j = 0;
            if (++i == (ptrdiff_t)n) {
                return;
            }
            first_leg = dist[i * padded + k];
        }
    }
}

template <typename T, typename Index>
gd_status run(const gd_apsp &call, T *dist, gd_error *err)
{
    const int threads = call.launch.options.value[0], segment = call.launch.options.value[1];
    const ptrdiff_t blocks = gd::ceil_div(call.n * call.n, (ptrdiff_t)threads * segment);
    return gd::for_stages(call, 1, kId, err, [&](ptrdiff_t k) {
        return gd::enqueue(call.launch, relax_segments<T, Index>, blocks, threads, 0, dist,
                           (Index)call.n, call.padded, k, segment);
    });
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_3_segmented(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, 32, kId, err);
    }
    /* The last block may reach beyond the matrix by its own size. */
    const bool small = call->n < 65000;
    return gd::with_paths(*call, [&](auto *dist) {
        using T = std::remove_pointer_t<decltype(dist)>;
        return small ? run<T, uint32_t>(*call, dist, err) : run<T, uint64_t>(*call, dist, err);
    });
}
