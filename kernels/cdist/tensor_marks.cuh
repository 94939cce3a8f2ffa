/* tensor_marks.cuh: which elements are to be computed again, and how. */
#ifndef GPUDIST_TENSOR_MARKS_CUH
#define GPUDIST_TENSOR_MARKS_CUH

#include "tensor.cuh"

namespace gd {
namespace tensor {

/* Two counts a word; no sum of eight passes 8192, so halves do not meet. */
__device__ __forceinline__ int count_marks(const Plan &plan, ptrdiff_t part)
{
    const uint4 counts = __ldg(reinterpret_cast<const uint4 *>(plan.counts) + part);
    const unsigned both = counts.x + counts.y + counts.z + counts.w;
    return (int)((both & 0xffff) + (both >> 16));
}

/* Loads the words of the four lanes that had a row. Not by __ldg: the compiler would put that off
 * until it knows whether the unit has marks, and wait for one load after the other. */
__device__ __forceinline__ uint4 load_marks(const Plan &plan, ptrdiff_t unit, int row)
{
    uint4 lanes;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(lanes.x), "=r"(lanes.y), "=r"(lanes.z), "=r"(lanes.w)
                 : "l"(reinterpret_cast<const uint4 *>(plan.marks) + unit * 8 + row % 8));
    return lanes;
}

/* The marks of a row in a part, one bit a column from bit 0 of `lo` on. Of every sixteen columns
 * each of the four lanes has four, half a byte. */
__device__ __forceinline__ void marks_of_row(uint4 lanes, int row, uint32_t &lo, uint32_t &hi)
{
    const uint32_t words[4] = {lanes.x, lanes.y, lanes.z, lanes.w};
    lo = hi = 0;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        /* The first of the four columns comes first from the top, and now last. */
        const uint32_t fours = __brev(words[q]) >> (row / 8 % 2 * 4) & 0x0f0f0f0f;
        lo |= __byte_perm(fours, 0, 0x4140) << (q * 4);
        hi |= __byte_perm(fours, 0, 0x4342) << (q * 4);
    }
}

/* Stores a result, or what float64 makes of it if float32 lost digits. */
template <typename M>
__device__ __forceinline__ void finish_element(const Cdist<float> &call, ptrdiff_t row,
                                               ptrdiff_t col, float total)
{
    const float result = M::finish(total);
    call.out[row * call.out_stride + col] = result;
    if (M::template guarded<float> && !M::safe(result)) {
        Run<float> run(call, col, 1);
        run.count = 1; /* the neighbours may be other threads' */
        repair<M>(call, row, row + 1, 1, run);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
