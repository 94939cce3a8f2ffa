/* join.cuh: parts of sums, which blocks left in the workspace, made one.
 *
 * Parts are of so many rows that are added up, in their order, whoever computed them: so the bits
 * of a sum do not tell which blocks there were. */
#ifndef GPUDIST_GRADIENT_JOIN_CUH
#define GPUDIST_GRADIENT_JOIN_CUH

#include "gradient/call.cuh"

namespace gd {

constexpr int kJoinThreads = 256;

/* Part k of row i of matrix `number` is at parts + ((number * count + k) * rows + i) * d. */
template <typename T>
__global__ void __launch_bounds__(kJoinThreads)
    join_parts(const T *parts, int count, ptrdiff_t rows, ptrdiff_t d, ptrdiff_t all,
               const __grid_constant__ Sums<T> out, const __grid_constant__ Batch batch)
{
    const ptrdiff_t item = blockIdx.x * (ptrdiff_t)kJoinThreads + threadIdx.x;
    if (item >= all) {
        return;
    }
    const ptrdiff_t size = rows * d, number = item / size, place = item - number * size;
    const T *from = parts + number * count * size + place;
    T sum = 0, lost = 0;
#pragma unroll 8
    for (int k = 0; k < count; ++k, from += size) {
        add_exactly(sum, lost, __ldg(from));
    }
    out.data[batch.offset(out.apart, number) + place / d * out.stride + place % d] =
        both_parts(sum, lost);
}

template <typename T>
cudaError_t join(const gd_launch &launch, const T *parts, ptrdiff_t count, ptrdiff_t matrices,
                 ptrdiff_t rows, ptrdiff_t d, const Sums<T> &out, const Batch &batch)
{
    const ptrdiff_t all = matrices * rows * d;
    return enqueue(launch, join_parts<T>, ceil_div(all, kJoinThreads), dim3(kJoinThreads), 0, parts,
                   (int)count, rows, d, all, out, batch);
}

}  // namespace gd
#endif
