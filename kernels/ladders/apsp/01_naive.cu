/* 01_naive.cu: shortest paths between all pairs, one thread an element of the matrix.
 *
 * Idea: of the three loops of Floyd and Warshall (loop.cuh) the two inner ones become a grid, the
 * outer one a launch for each k.
 *
 * What to expect: the threads of a warp are neighbours in x, and x counts rows here, which lie far
 * apart. With blocks of 16 x 16 a warp touches 16 lines of d[i][j] and 16 of d[i][k] to get 32
 * elements of each, and the load unit looks up one line a cycle: 33 cycles for 32 relaxations, of
 * which the arithmetic could do 64 a cycle. That is 0.25e12 a second on an H200, 0.49 s for
 * n = 5000. It takes 0.58 s, and twice that with blocks of 8 or 32. (The study's code takes 1.49;
 * with -1 for no edge it has three operands to test where this form adds and compares.)
 * The study reports 21 times one CPU thread with blocks of 16, 17 with 8 and 11 with 32.
 *
 * Launch: a block for each square of `block` x `block` elements, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 1. */
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/1_naive";

template <typename T>
__global__ void __launch_bounds__(1024)
    relax_all(T *dist, ptrdiff_t n, ptrdiff_t padded, ptrdiff_t k, unsigned blocks_across)
{
    /* x counts rows. It looks right, and costs a line of memory for each thread. */
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
