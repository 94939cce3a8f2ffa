/* 00_row_sum_atomic.cu: one atomic addition for each element.
 *
 * Idea: a thread takes an element and adds it to its row's sum. Nothing is simpler, or slower: all
 * n additions to one sum must happen one after the other, in the L2 cache, and the threads of a
 * warp mostly meet at the same sum. The study needed 192 s for N = 8192.
 * Bottleneck: atomic operations on one address, n a row.
 * Launch: `block` threads, one an element of the whole matrix.
 * Reached on an H200: 50 ms for N = 8192. An L2 cache that does the addition itself, with no answer
 * to wait for, is what makes it four thousand times as fast as the study's; it is still the sum of
 * 8192 additions one after the other, some 6 ns each.
 * Source: row_sum version 0 of the study. */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void add_elements(const T *matrix, ptrdiff_t n, T *sums)
{
    const ptrdiff_t i = thread_index();
    if (i < n * n) {
        atomicAdd(sums + i / n, matrix[i]);
    }
}

template <typename T>
cudaError_t row_sum_atomic(const Study<T> &s)
{
    return enqueue_part(s, s.n * s.n, add_elements<T>, s.matrix, s.n, s.sums);
}

}  // namespace gd

GD_STUDY_PART(row_sum_atomic, clear_sums)
