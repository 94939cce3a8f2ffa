/* 02_row_sum_block.cu: a block adds up its part of a row, then does one atomic addition.
 *
 * Idea: against version 1, the warps' sums meet in shared memory, where the first warp joins them:
 * one atomic operation for `block` elements.
 * Bottleneck: memory now, as it should be; a block is short-lived, though, and waits at a barrier
 * with one load a thread under way.
 * Reached on an H200: 0.26 ms for N = 8192, 24 % of the bandwidth.
 * Launch: `block` threads, a block for each `block` columns of each row.
 * Source: row_sum version 2 of the study (220 ms for N = 8192). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void add_blocks(const T *matrix, ptrdiff_t n, ptrdiff_t blocks_in_row, T *sums)
{
    __shared__ T of_warps[32];
    const ptrdiff_t row = blockIdx.x / blocks_in_row;
    const ptrdiff_t col = blockIdx.x % blocks_in_row * blockDim.x + threadIdx.x;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    T sum = sum_of_warp(col < n ? matrix[row * n + col] : (T)0);
    if (lane == 0) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        sum = sum_of_warp(lane < warps ? of_warps[lane] : (T)0);
        if (lane == 0) {
            atomicAdd(sums + row, sum);
        }
    }
}

template <typename T>
cudaError_t row_sum_block(const Study<T> &s)
{
    const ptrdiff_t blocks_in_row = ceil_div(s.n, s.block);
    return enqueue_part(s, s.n * blocks_in_row * s.block, add_blocks<T>, s.matrix, s.n,
                        blocks_in_row, s.sums);
}

}  // namespace gd

GD_STUDY_PART(row_sum_block, clear_sums)
