/* 01_naive.cu: shortest paths between all pairs, one thread an element of the matrix.
 *
 * Idea: of the three loops of Floyd and Warshall (loop.cuh) the two inner ones become a grid, the
 * outer one a launch for each k.
 *
 * What to expect: the threads of a warp are neighbours in x, and x counts rows here, which lie far
 * apart. With blocks of 16 x 16 a warp touches 16 lines of d[i][j] and 16 of d[i][k] to get 32
 * elements of each, and the load unit looks up one line a cycle: 33 cycles for 32 relaxations, of
 * which the arithmetic could do 64 a cycle. Lines that come in for 4 bytes of 128 are still in the
 * cache when the next warps want their share only while the block is alive.
 * The study reports 21 times one CPU thread with blocks of 16 (17 with 8, 11 with 32); its code
 * takes 1493 ms for n = 5000 on an H200, 84e9 relaxations a second.
 *
 * Launch: a block for each square of `block` x `block` elements, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 1. */
#include "apsp_ladder/loop.cuh"

namespace {

constexpr const char *kId = "apsp/1_naive";

template <typename T>
__global__ void __launch_bounds__(1024)
    relax_all(T *dist, ptrdiff_t n, ptrdiff_t padded, ptrdiff_t k, unsigned blocks_across)
{
    const ptrdiff_t i = (ptrdiff_t)(blockIdx.x / blocks_across) * blockDim.x + threadIdx.x;
    const ptrdiff_t j = (ptrdiff_t)(blockIdx.x % blocks_across) * blockDim.y + threadIdx.y;
    if (i < n && j < n) {
        gd::relax(dist[i * padded + j], gd::legs(dist[i * padded + k], dist[k * padded + j]));
    }
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_1_naive(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, 32, kId, err);
    }
    const int block = call->launch.options.value[0];
    const ptrdiff_t across = gd::ceil_div(call->n, block);
    return gd::with_paths(*call, [&](auto *dist) {
        using T = std::remove_pointer_t<decltype(dist)>;
        return gd::for_stages(*call, 1, kId, err, [&](ptrdiff_t k) {
            return gd::enqueue(call->launch, relax_all<T>, across * across, dim3(block, block), 0,
                               dist, call->n, call->padded, k, (unsigned)across);
        });
    });
}
