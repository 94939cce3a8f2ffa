/* 12_vector_max_block.cu: a block finds its largest element, then does one atomic maximum.
 *
 * Idea: against version 1, the warps' maxima meet in shared memory first. (The study's own version
 * adds there what it should compare, and gives a number that is too large.)
 * Bottleneck: memory; for the few thousand sums of a matrix, the launch.
 * Launch: `block` threads, one an element.
 * Reached on an H200: 0.126 ms for 33.5 M elements, 24 % of the bandwidth.
 * Source: vector_max version 2 of the study (53.7 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void offer_blocks(const T *sums, ptrdiff_t n, T *top)
{
    __shared__ T of_warps[32];
    const ptrdiff_t i = thread_index();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    T most = max_of_warp(i < n ? sums[i] : (T)0);
    if (lane == 0) {
        of_warps[warp] = most;
    }
    __syncthreads();
    if (warp == 0) {
        most = max_of_warp(lane < warps ? of_warps[lane] : (T)0);
        if (lane == 0) {
            atomic_max(top, most);
        }
    }
}

template <typename T>
cudaError_t vector_max_block(const Study<T> &s)
{
    return enqueue_part(s, s.n, offer_blocks<T>, s.sums, s.n, s.top);
}

}  // namespace gd

GD_STUDY_PART(vector_max_block, clear_top)
