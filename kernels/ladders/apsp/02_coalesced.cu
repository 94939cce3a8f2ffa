/* 02_coalesced.cu: shortest paths between all pairs, neighbouring threads at neighbouring elements.
 *
 * Idea: a one-dimensional grid runs along the matrix as it lies in memory, row after row. A warp's
 * 32 elements of d[i][j] and of d[k][j] are then one line each, and its d[i][k] is one element for
 * all.
 *
 * What changed: since step 1 the order of the threads, nothing else.
 *
 * What to expect: three lines a warp in place of 33. On the study's card that was the step that
 * paid, from 21 to 73.9 times one CPU thread with 128 threads. On an H200 it pays nothing, 0.61 s
 * for n = 5000, as another limit comes first: however little they do, a card starts only so many
 * blocks a second. The sweep tells it: with 32, 64 and 128 threads the time halves each time, and
 * there are 1.6e9 blocks a second in each case. A stage of 195 000 blocks takes 120 us, and reading
 * the 100 MB of the matrix would take 21. With 256 threads it is 0.38 s.
 *
 * Launch: n * n / threads blocks, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 2. */
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/2_coalesced";

/* Index counts elements: a division of 64 bits takes four times as long as one of 32. */
template <typename T, typename Index>
__global__ void __launch_bounds__(1024) relax_run(T *dist, Index n, ptrdiff_t padded, ptrdiff_t k)
{
    const Index element = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    const ptrdiff_t i = element / n, j = element % n;
    if (i < (ptrdiff_t)n) {
        gd::relax(dist[i * padded + j], gd::legs(dist[i * padded + k], dist[k * padded + j]));
    }
}

template <typename T, typename Index>
gd_status run(const gd_apsp &call, T *dist, gd_error *err)
{
    const int threads = call.launch.options.value[0];
    return gd::for_stages(call, 1, kId, err, [&](ptrdiff_t k) {
        return gd::enqueue(call.launch, relax_run<T, Index>, gd::ceil_div(call.n * call.n, threads),
                           threads, 0, dist, (Index)call.n, call.padded, k);
    });
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_2_coalesced(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, 32, kId, err);
    }
    /* The last block may reach beyond the matrix by its own size. */
    const bool small = call->n < 65535;
    return gd::with_paths(*call, [&](auto *dist) {
        using T = std::remove_pointer_t<decltype(dist)>;
        return small ? run<T, uint32_t>(*call, dist, err) : run<T, uint64_t>(*call, dist, err);
    });
}
