/* 10_vector_max_atomic.cu: one atomic maximum for each element.
 *
 * Idea: every thread offers its row sum as the largest. All of them meet at one address; the
 * hardware joins what a warp sends there, which is why this loses less than row sums do.
 * Bottleneck: atomic operations on one address.
 * Launch: `block` threads, one an element.
 * Reached on an H200: 0.80 ms for 33.5 M elements, 4 % of the bandwidth.
 * Source: vector_max version 0 of the study (91.2 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void offer_elements(const T *sums, ptrdiff_t n, T *top)
{
    const ptrdiff_t i = thread_index();
    if (i < n) {
        atomic_max(top, sums[i]);
    }
}

template <typename T>
cudaError_t vector_max_atomic(const Study<T> &s)
{
    return enqueue_part(s, s.n, offer_elements<T>, s.sums, s.n, s.top);
}

}  // namespace gd

GD_STUDY_PART(vector_max_atomic, clear_top)
