/* 04_shared.cu: shortest paths between all pairs, a tile's legs staged in shared memory.
 *
 * Idea: a tile of block x block elements needs only `block` different d[i][k] and as many d[k][j].
 * The first threads in y and in x fetch them, all others read shared memory.
 *
 * What changed: since step 1, from which this branches off, the staging. x still counts rows: the
 * study's figures are step 1's times 1.3 at every block size, not step 2's.
 *
 * What to expect: d[i][j] itself is read and written in the order that made step 1 slow. Staging
 * saves the other 16 lines a warp, and costs a barrier, behind which the block waits for the
 * slowest of its loads and only then asks for d[i][j]. On an H200 the two balance: 37 ms at
 * n = 2000 after step 1's 41, but 0.67 s at n = 5000 after 0.58, where the matrix has outgrown the
 * L2 cache and there is more to wait for. Shared memory pays for what is read from it often (step
 * 6: 32 times), not for what is read once.
 * The study reports 27.3 times one CPU thread with blocks of 16, 15 with 32.
 *
 * Launch: a block for each square of `block` x `block` elements, n times.
 * Source: the study apsp (GTX 680, n = 5000), step 4. */
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/4_shared";
constexpr int kMostBlock = 32;

template <typename T>
__global__ void __launch_bounds__(kMostBlock *kMostBlock)
    relax_tile(T *dist, ptrdiff_t n, ptrdiff_t padded, ptrdiff_t k, unsigned blocks_across)
{
    __shared__ T first_leg[kMostBlock], second_leg[kMostBlock];
    const ptrdiff_t i = (ptrdiff_t)(blockIdx.x / blocks_across) * blockDim.x + threadIdx.x;
    const ptrdiff_t j = (ptrdiff_t)(blockIdx.x % blocks_across) * blockDim.y + threadIdx.y;
    if (threadIdx.y == 0 && i < n) {
        first_leg[threadIdx.x] = dist[i * padded + k];
    }
    if (threadIdx.x == 0 && j < n) {
        second_leg[threadIdx.y] = dist[k * padded + j];
    }
    __syncthreads(); /* all threads come here, also those that lie outside the matrix */
    if (i < n && j < n) {
        gd::relax(dist[i * padded + j], gd::legs(first_leg[threadIdx.x], second_leg[threadIdx.y]));
    }
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_4_shared(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, 32, kId, err);
    }
    const int block = call->launch.options.value[0];
    const ptrdiff_t across = gd::ceil_div(call->n, block);
    return gd::with_paths(*call, [&](auto *dist) {
        using T = std::remove_pointer_t<decltype(dist)>;
        return gd::for_stages(*call, 1, kId, err, [&](ptrdiff_t k) {
            return gd::enqueue(call->launch, relax_tile<T>, across * across, dim3(block, block), 0,
                               dist, call->n, call->padded, k, (unsigned)across);
        });
    });
}
