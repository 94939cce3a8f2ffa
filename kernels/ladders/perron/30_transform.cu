/* 30_transform.cu: element (i, j) of A times sum j, divided by sum i, in place.
 *
 * Idea: a block's rows share their divisors, which stand in shared memory; a thread keeps its
 * column's factor in a register and walks down the rows.
 * Bottleneck: memory, a read and a write of A: two thirds of a round, and the reason why the
 * production kernel never writes A (its x is the product of these factors).
 * Launch: `block` threads for as many columns and 32 rows.
 * Reached on an H200: 0.178 ms for N = 8192, 76 % of what copying A takes.
 * Source: the study's transform (9.96 ms for N = 8192). */
#include "ladders/perron/study.cuh"

namespace gd {

constexpr int kTransformRows = 32;

template <typename T>
__global__ void scale_elements(T *matrix, ptrdiff_t n, const T *sums, ptrdiff_t blocks_across)
{
    __shared__ T divisors[kTransformRows];
    const ptrdiff_t first_row = blockIdx.x / blocks_across * kTransformRows;
    const ptrdiff_t col = blockIdx.x % blocks_across * blockDim.x + threadIdx.x;
    const int rows = (int)min(n - first_row, (ptrdiff_t)kTransformRows);
    if (threadIdx.x < rows) {
        divisors[threadIdx.x] = sums[first_row + threadIdx.x];
    }
    __syncthreads();
    if (col < n) {
        const T factor = sums[col];
        for (int i = 0; i < rows; ++i) {
            T *const element = matrix + (first_row + i) * n + col;
            *element = *element * (factor / divisors[i]);
        }
    }
}

template <typename T>
cudaError_t transform_cached(const Study<T> &s)
{
    const ptrdiff_t across = ceil_div(s.n, s.block), down = ceil_div(s.n, kTransformRows);
    return enqueue(s.launch, scale_elements<T>, across * down, s.block, 0, s.matrix, s.n, s.sums,
                   across);
}

}  // namespace gd

GD_STUDY_PART(transform_cached, clear_nothing)
