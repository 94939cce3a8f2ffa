/* tiled.cuh: steps 2 and 3 of the ladder euler: tiles of both operands in shared memory.
 *
 * A block computes a square of kTile x kTile elements, one a thread. It walks through the
 * dimensions kTile at a time: its threads copy that piece of their kTile points of A and of B to
 * shared memory, wait for each other, and add up what they find there.
 *
 * What lies outside of an operand counts as 0. Beyond the last dimension both are 0, which adds
 * nothing to the sum; beyond the last point the sum is not stored. (The original asks whether the
 * wrong index is inside, and is wrong where d is no multiple of the tile.) */
#ifndef GPUDIST_LADDERS_EULER_TILED_CUH
#define GPUDIST_LADDERS_EULER_TILED_CUH

#include "common/launch.cuh"

namespace gd {

/* Element k of point i is data[k * pitch + i]. */
struct Points {
    const float *data;
    ptrdiff_t pitch, count;
};

template <int kTile>
__global__ void __launch_bounds__(kTile *kTile)
    tiled(Points a, Points b, ptrdiff_t d, float *out, ptrdiff_t out_stride, unsigned across,
          bool root)
{
    __shared__ float rows[kTile][kTile], cols[kTile][kTile]; /* [dimension][point] */
    const int x = threadIdx.x, y = threadIdx.y;
    const ptrdiff_t first_row = (ptrdiff_t)(blockIdx.x / across) * kTile;
    const ptrdiff_t first_col = (ptrdiff_t)(blockIdx.x % across) * kTile;
    float sum = 0;
    for (ptrdiff_t first = 0; first < d; first += kTile) {
        /* x counts points here: neighbouring threads copy neighbours in memory. */
        const ptrdiff_t k = first + y, row = first_row + x, col = first_col + x;
        rows[y][x] = k < d && row < a.count ? a.data[k * a.pitch + row] : 0;
        cols[y][x] = k < d && col < b.count ? b.data[k * b.pitch + col] : 0;
        __syncthreads();
#pragma unroll
        for (int step = 0; step < kTile; ++step) {
            /* A warp reads one word of rows (two with tiles of 16), the same for all who want it,
             * and of cols neighbours, which lie in different banks. */
            const float difference = rows[step][y] - cols[step][x];
            sum = fmaf(difference, difference, sum);
        }
        __syncthreads(); /* before the next piece takes its place */
    }
    /* And here x counts columns, for the same reason. */
    if (first_row + y < a.count && first_col + x < b.count) {
        out[(first_row + y) * out_stride + first_col + x] = root ? sqrtf(sum) : sum;
    }
}

template <int kTile>
cudaError_t enqueue_tiled(const gd_cdist &call, const Points &a, const Points &b)
{
    const ptrdiff_t across = ceil_div(b.count, kTile);
    return enqueue(call.launch, tiled<kTile>, across * ceil_div(a.count, kTile), dim3(kTile, kTile),
                   0, a, b, call.a.cols, static_cast<float *>(call.out.data), call.out.row_stride,
                   (unsigned)across, call.metric == GD_EUCLIDEAN);
}

/* The tile's width is a constant of the kernel, so that its loop has no counter. */
inline cudaError_t enqueue_tiled(const gd_cdist &call, const Points &a, const Points &b)
{
    switch (call.launch.options.value[0]) {
        case 8:
            return enqueue_tiled<8>(call, a, b);
        case 16:
            return enqueue_tiled<16>(call, a, b);
        case 24:
            return enqueue_tiled<24>(call, a, b);
        default:
            return enqueue_tiled<32>(call, a, b);
    }
}

inline Points points_of(const gd_matrix &x)
{
    return {static_cast<const float *>(x.data), x.col_stride, x.rows};
}

}  // namespace gd
#endif
