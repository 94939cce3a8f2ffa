/* join.cuh: parts of sums, which blocks left in the workspace, made one.
 *
 * Parts are of so many rows that are added up, in their order, whoever computed them: so the bits
 * of a sum do not tell which blocks there were. */
#ifndef GPUDIST_GRADIENT_JOIN_CUH
#define GPUDIST_GRADIENT_JOIN_CUH

#include "arch/dependent.cuh"
#include "gradient/call.cuh"

namespace gd {

constexpr int kJoinThreads = 256;
constexpr ptrdiff_t kJoinWanted = 1024; /* blocks of a matrix where there may be nothing to do */

/* Part k of row i of matrix `number` is at parts + ((number * count + k) * rows + i) * d. size: of
 * a matrix, which has so many blocks. wanted: see direct.cuh. */
template <typename T>
__global__ void __launch_bounds__(kJoinThreads)
    join_parts(const T *parts, int count, ptrdiff_t size, ptrdiff_t d, unsigned blocks,
               const __grid_constant__ Sums<T> out, const __grid_constant__ Batch batch,
               const unsigned *wanted)
{
    const unsigned number = blockIdx.x / blocks;
    follow();
    if (wanted != nullptr && wanted[number] == 0) {
        return;
    }
    for (ptrdiff_t place = blockIdx.x % blocks * (ptrdiff_t)kJoinThreads + threadIdx.x;
         place < size; place += blocks * (ptrdiff_t)kJoinThreads) {
        const T *from = parts + (ptrdiff_t)number * count * size + place;
        T sum = 0, lost = 0;
#pragma unroll 16
        for (int k = 0; k < count; ++k, from += size) {
            add_exactly(sum, lost, __ldg(from));
        }
        const ptrdiff_t to = out.stride == d ? place : place / d * out.stride + place % d;
        out.data[batch.offset(out.apart, number) + to] = both_parts(sum, lost);
    }
}

template <typename T>
cudaError_t join(const gd_launch &launch, const T *parts, ptrdiff_t count, ptrdiff_t matrices,
                 ptrdiff_t rows, ptrdiff_t d, const Sums<T> &out, const Batch &batch,
                 const unsigned *wanted = nullptr)
{
    const ptrdiff_t size = rows * d, all = ceil_div(size, kJoinThreads);
    const ptrdiff_t blocks = wanted != nullptr ? min(all, kJoinWanted) : all;
    return enqueue<Start::kEarly>(launch, join_parts<T>, matrices * blocks, dim3(kJoinThreads), 0,
                                  parts, (int)count, size, d, (unsigned)blocks, out, batch, wanted);
}

}  // namespace gd
#endif
