/* 01_row_sum_warp.cu: a warp adds up 32 elements, then does one atomic addition.
 *
 * Idea: against version 0, lanes join their elements by shuffles, five steps for 32 of them, and
 * one lane adds the sum to the row's: a 32nd of the atomic operations. A warp must not reach into
 * the next row, so it takes 32 columns of one, the last of them perhaps past its end.
 * Bottleneck: still n / 32 atomic operations a row; one element a thread keeps few loads under way.
 * Reached on an H200: 0.75 ms for N = 8192, 67 times as fast as version 0, 8 % of the bandwidth.
 * Launch: `block` threads, a warp for each 32 columns of each row.
 * Source: row_sum version 1 of the study (502 ms for N = 8192). */
#include "ladders/perron/study.cuh"

namespace gd {

template <typename T>
__global__ void add_warps(const T *matrix, ptrdiff_t n, ptrdiff_t warps_in_row, T *sums)
{
    const ptrdiff_t warp = thread_index() / 32, row = warp / warps_in_row;
    const ptrdiff_t col = warp % warps_in_row * 32 + threadIdx.x % 32;
    /* All lanes take part in the shuffles, those past the end with nothing to add. */
    const T sum = sum_of_warp(row < n && col < n ? matrix[row * n + col] : (T)0);
    if (threadIdx.x % 32 == 0 && row < n) {
        atomicAdd(sums + row, sum);
    }
}

template <typename T>
cudaError_t row_sum_warp(const Study<T> &s)
{
    const ptrdiff_t warps_in_row = ceil_div(s.n, 32);
    return enqueue_part(s, s.n * warps_in_row * 32, add_warps<T>, s.matrix, s.n, warps_in_row,
                        s.sums);
}

}  // namespace gd

GD_STUDY_PART(row_sum_warp, clear_sums)
