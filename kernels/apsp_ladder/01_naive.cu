/* 01_naive.cu: all shortest paths, one thread an element of the matrix.
 *
 * Idea: the two inner loops become a grid, the outer one a launch for each k.
 *
 * What to expect: memory, by the way in which it is asked. Threads of a warp are neighbours in x, and
 * x counts rows here, which lie far apart. With blocks of 16 x 16 a warp asks for 16 different
 * lines of d[i][j] and 16 of d[i][k] to get 32 elements of each. What these requests cost is time
 * in the load unit, which looks up one line a cycle: 33 cycles for 32 relaxations. Step 2 swaps
 * the roles of x and y, so to speak, and needs three lines instead.
 *
 * Launch: n / block squared blocks of block * block threads, n times.
 *
 * Source: the study reports 21 times the speed of one CPU thread with blocks of 16 (17 with 8,
 * 11 with 32) on a GTX 680. */
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
