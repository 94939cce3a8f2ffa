/* 11_vector_max_warp.cu: a warp finds its largest element, then does one atomic maximum.
 *
 * Idea: against version 0, shuffles find the largest of 32, and one lane offers it.
 * Bottleneck: n / 32 atomic operations on one address; for the study's sizes memory as well.
 * Launch: `block` threads, one an element.
 * Reached on an H200: 0.80 ms for 33.5 M elements, to the microsecond what version 0 takes: a
 * warp's operations on one address are joined there as well.
 * Source: vector_max version 1 of the study (53.7 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void offer_warps(const T *sums, ptrdiff_t n, T *top)
{
    const ptrdiff_t i = thread_index();
    const T most = max_of_warp(i < n ? sums[i] : (T)0);
    if (threadIdx.x % 32 == 0) {
        atomic_max(top, most);
    }
}

template <typename T>
cudaError_t vector_max_warp(const Study<T> &s)
{
    return enqueue_part(s, s.n, offer_warps<T>, s.sums, s.n, s.top);
}

}  // namespace gd

GD_STUDY_PART(vector_max_warp, clear_top)
