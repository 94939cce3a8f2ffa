/* 20_eigenvector_read.cu: every thread reads the largest row sum for itself.
 *
 * Idea: the vector times the row sums, divided by the largest so that it stays in range. A warp's
 * 32 reads of one address are one access to the cache.
 * Bottleneck: memory, two reads and one write an element; the launch for a matrix's few thousand.
 * Launch: `block` threads, one an element.
 * Reached on an H200: 0.165 ms for 33.5 M elements, 62 % of what copying them takes.
 * Source: eigenvector version 0 of the study (6.83 ms for 33.5 M elements). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void scale_reading(const T *sums, const T *top, ptrdiff_t n, T *vector)
{
    const ptrdiff_t i = thread_index();
    if (i < n) {
        vector[i] *= sums[i] / *top;
    }
}

template <typename T>
cudaError_t eigenvector_read(const Study<T> &s)
{
    return enqueue_part(s, s.n, scale_reading<T>, s.sums, s.top, s.n, s.vector);
}

}  // namespace gd

GD_STUDY_PART(eigenvector_read, clear_nothing)
