/* 21_eigenvector_broadcast.cu: one lane reads the largest row sum and tells its warp.
 *
 * Idea: against version 0, one read a warp and a shuffle in place of 32 reads of one address. As
 * the hardware makes one access of those anyway, this gains nothing, which is what it teaches.
 * Bottleneck: as version 0. Reached on an H200: 0.169 ms for 33.5 M elements.
 * Launch: `block` threads, one an element.
 * Source: eigenvector version 1 of the study (6.90 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void scale_told(const T *sums, const T *top, ptrdiff_t n, T *vector)
{
    const ptrdiff_t i = thread_index();
    T most = threadIdx.x % 32 == 0 ? *top : (T)0;
    most = __shfl_sync(~0u, most, 0); /* before anybody leaves */
    if (i < n) {
        vector[i] *= sums[i] / most;
    }
}

template <typename T>
cudaError_t eigenvector_broadcast(const Study<T> &s)
{
    return enqueue_part(s, s.n, scale_told<T>, s.sums, s.top, s.n, s.vector);
}

}  // namespace gd

GD_STUDY_PART(eigenvector_broadcast, clear_nothing)
