/* 06_blocked.cu: shortest paths between all pairs, many k a round while a tile is in shared memory.
 *
 * Idea: up to here every stage moved the whole matrix through memory, for one add and one minimum
 * an element. Cut the matrix into tiles of block x block, and take `block` nodes k a round, the
 * pivots:
 *   1. close the pivots' own tile by the plain loop, in shared memory;
 *   2. relax the tiles beside, above and below it, the cross, over these pivots;
 *   3. relax all the rest, each tile by the two of the cross that lie in its row and its column.
 * Phase 2 needs no stages. Once the pivots' tile is closed, a shortest path from one of its nodes p
 * to any j runs inside the tile to the pivot that it leaves last, and on from there by what earlier
 * rounds found: the minimum over k of d[p][k] + d[k][j], the same product as in phase 3.
 *
 * What changed: a tile is loaded once for `block` stages, and n / block rounds of three launches
 * replace n launches.
 *
 * What to expect: the limit moves to shared memory, from which a warp gets 32 words a cycle. For
 * each relaxation a thread reads one operand of the right tile; four of the left come in one load,
 * which is the same for the whole warp and takes two cycles. That is 21 relaxations a cycle and SM,
 * of 64 that the arithmetic allows: 5.6e12 a second on an H200, 22 ms for n = 5000. It takes 39,
 * ten times less than step 5: two blocks of 1024 threads are all that an SM holds, so often one of
 * them waits for its tiles and the other one is alone.
 *
 * int32 alone: a closed cross adds in another order than the plain loop, which rounds floats
 * otherwise. Integers are exact in any order. How to keep the bits: kernels/apsp/blocked.cu.
 *
 * Launch: 1, 2 * (n / block) and n / block squared blocks a round, block * block threads, one
 * element a thread.
 * Source: beyond the study: Venkataraman, Sahni, Mukhopadhyaya (2003); Katz, Kider (2008). */
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/6_blocked";
constexpr int kPadding = 96; /* whole tiles of 8, 16, 24 and 32 */

/* Phase 1. */
template <int kBlock>
__global__ void __launch_bounds__(kBlock *kBlock)
    close_pivots(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot)
{
    __shared__ int32_t tile[kBlock][kBlock];
    const int x = threadIdx.x, y = threadIdx.y;
    int32_t *const mine = dist + (pivot + y) * padded + pivot + x;
    tile[y][x] = *mine;
    __syncthreads();
    for (int k = 0; k < kBlock; ++k) {
        /* Row k and column k hold still (loop.cuh): one barrier a stage is enough. */
        gd::relax(tile[y][x], gd::legs(tile[y][k], tile[k][x]));
        __syncthreads();
    }
    *mine = tile[y][x];
}

/* Relaxes the tile at (row, col) over the round's pivots. A tile of the cross is one of its own two
 * operands: nothing is written before all of the block have read. */
template <int kBlock>
__device__ __forceinline__ void relax_tile(int32_t *dist, ptrdiff_t padded, ptrdiff_t row,
                                           ptrdiff_t col, ptrdiff_t pivot)
{
    /* Aligned, so that four neighbours in k are one load. */
    __shared__ alignas(16) int32_t left[kBlock][kBlock], right[kBlock][kBlock];
    const int x = threadIdx.x, y = threadIdx.y;
    int32_t *const mine = dist + (row + y) * padded + col + x;
    left[y][x] = dist[(row + y) * padded + pivot + x];
    right[y][x] = dist[(pivot + y) * padded + col + x];
    const int32_t before = *mine;
    __syncthreads();
    int32_t length = before;
#pragma unroll
    for (int k = 0; k < kBlock; ++k) {
        length = min(length, gd::legs(left[y][k], right[k][x]));
    }
    if (length < before) { /* in most rounds few are: that saves half of the traffic */
        *mine = length;
    }
}

/* Phase 2: even blocks take the tiles of the pivots' row, odd ones those of their column. */
template <int kBlock>
__global__ void __launch_bounds__(kBlock *kBlock)
    relax_cross(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot)
{
    const ptrdiff_t other = (ptrdiff_t)(blockIdx.x / 2) * kBlock;
    if (other == pivot) {
        return; /* closed; the whole block leaves */
    }
    const bool of_row = blockIdx.x % 2 == 0;
    relax_tile<kBlock>(dist, padded, of_row ? pivot : other, of_row ? other : pivot, pivot);
}

/* Phase 3. */
template <int kBlock>
__global__ void __launch_bounds__(kBlock *kBlock)
    relax_rest(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot, unsigned tiles)
{
    const ptrdiff_t row = (ptrdiff_t)(blockIdx.x / tiles) * kBlock;
    const ptrdiff_t col = (ptrdiff_t)(blockIdx.x % tiles) * kBlock;
    if (row != pivot && col != pivot) {
        relax_tile<kBlock>(dist, padded, row, col, pivot);
    }
}

template <int kBlock>
gd_status run(const gd_apsp &call, gd_error *err)
{
    int32_t *const dist = static_cast<int32_t *>(call.dist);
    const ptrdiff_t tiles = gd::ceil_div(call.n, kBlock);
    const dim3 threads(kBlock, kBlock);
    return gd::for_stages(call, kBlock, kId, err, [&](ptrdiff_t pivot) {
        cudaError_t code =
            gd::enqueue(call.launch, close_pivots<kBlock>, 1, threads, 0, dist, call.padded, pivot);
        if (code == cudaSuccess) {
            code = gd::enqueue(call.launch, relax_cross<kBlock>, 2 * tiles, threads, 0, dist,
                               call.padded, pivot);
        }
        if (code == cudaSuccess) {
            code = gd::enqueue(call.launch, relax_rest<kBlock>, tiles * tiles, threads, 0, dist,
                               call.padded, pivot, (unsigned)tiles);
        }
        return code;
    });
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_6_blocked(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, kPadding, kId, err);
    }
    switch (call->launch.options.value[0]) {
        case 8:
            return run<8>(*call, err);
        case 16:
            return run<16>(*call, err);
        case 24:
            return run<24>(*call, err);
        default:
            return run<32>(*call, err);
    }
}
