/* 41_converged_neighbours.cu: the neighbour's row sum comes by a shuffle, the block's verdict by
 * shared memory.
 *
 * Idea: against version 0, a thread reads its own sum only and gets the next from the next lane;
 * the last lane reads one more. A flag in shared memory makes one write a block.
 * Bottleneck: as version 0: the second read was the cache's.
 * Launch: `block` threads, one a pair.
 * Reached on an H200: 116 us for 33.5 M elements, slower than version 0 (93): the read that is
 * saved cost nothing, and the block now waits for itself twice, before and behind its one load.
 * Source: converged version 1 of the study (54.0 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void compare_neighbours(const T *sums, ptrdiff_t n, T epsilon, int *apart)
{
    __shared__ int differ;
    const ptrdiff_t i = thread_index();
    if (threadIdx.x == 0) {
        differ = 0;
    }
    __syncthreads();
    const T mine = sums[min(i, n - 1)];
    T next = __shfl_down_sync(~0u, mine, 1);
    if (threadIdx.x % 32 == 31) {
        next = sums[min(i + 1, n - 1)];
    }
    if (i + 1 < n && !(fabs(mine - next) <= epsilon * mine)) {
        differ = 1; /* whoever writes, writes the same */
    }
    __syncthreads();
    if (threadIdx.x == 0 && differ) {
        *apart = 1;
    }
}

template <typename T>
cudaError_t converged_neighbours(const Study<T> &s)
{
    return enqueue_part(s, s.n, compare_neighbours<T>, s.sums, s.n, (T)s.epsilon, s.apart);
}

}  // namespace gd

GD_STUDY_PART(converged_neighbours, clear_mark)
