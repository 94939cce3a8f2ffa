/* 07_blocked_registers.cu: shortest paths between all pairs, a thread holds 4 x 4 elements.
 *
 * Idea: in step 6 each relaxation fetches an operand from shared memory, which gives out before the
 * arithmetic does. A thread with a tile of 4 x 4 elements needs 4 left and 4 right operands for 16
 * relaxations; read four at a time, that is one load for 8 of them.
 *
 * What changed: the register tile, and with it tiles of 64 x 64 for 256 threads and rounds of 64
 * pivots, which halves the traffic. The phases are those of step 6.
 *
 * Layout: tiles lie in shared memory as in the matrix. A load from the left one brings four
 * neighbouring pivots of one row, so four such loads serve four k. A warp reads rows 0 to 3 and 4
 * to 7 at the same time; with rows four words longer than the tile they lie in different banks.
 *
 * What to expect: the arithmetic binds. The compiler makes one instruction of the add and the
 * minimum of int32 (VIADDMNMX), of which an SM does 64 a cycle: 16.7e12 relaxations a second on an
 * H200, 7.5 ms for n = 5000. The loads of operands take 1 issue slot in 9. It takes 13.5 ms. What
 * is lost goes to blocks that fetch their tiles while they compute nothing, and to phases 1 and 2,
 * some 20 us a round in which most of the card is idle.
 *
 * Launch: 1, 2 * (n / 64) and (n / 64) squared blocks a round; 1024 threads in the first, 256 in
 * the others, four blocks an SM.
 * Source: beyond the study: the register tile is that of matrix products, as in V. Volkov,
 * J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008). */
#include "common/words.cuh"
#include "ladders/apsp/loop.cuh"

namespace {

constexpr const char *kId = "apsp/7_blocked_registers";
constexpr int kTile = 64, kSide = 4;        /* elements of a block and of a thread, each way */
constexpr int kAcross = kTile / kSide;      /* threads of a block, each way */
constexpr int kThreads = kAcross * kAcross; /* 256 */
constexpr int kClosers = 1024;              /* threads of phase 1 */
static_assert(kSide == gd::kPerWord<int32_t>, "a tile's row has as many words as threads");

/* Phase 1: the plain loop in shared memory, four elements of one column a thread. */
__global__ void __launch_bounds__(kClosers)
    close_pivots(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot)
{
    __shared__ int32_t tile[kTile][kTile];
    const int x = threadIdx.x % kTile, first = threadIdx.x / kTile;
    constexpr int kStep = kClosers / kTile;
    int32_t *const corner = dist + pivot * padded + pivot;
    for (int y = first; y < kTile; y += kStep) {
        tile[y][x] = corner[y * padded + x];
    }
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
        /* Row k and column k hold still (loop.cuh): one barrier a stage is enough. */
        const int32_t second_leg = tile[k][x];
#pragma unroll
        for (int y = first; y < kTile; y += kStep) {
            gd::relax(tile[y][x], gd::legs(tile[y][k], second_leg));
        }
        __syncthreads();
    }
    for (int y = first; y < kTile; y += kStep) {
        corner[y * padded + x] = tile[y][x];
    }
}

/* Copies a tile to shared memory, a word a thread at a time. */
template <int kPitch>
__device__ __forceinline__ void bring(int32_t (&to)[kTile][kPitch], const int32_t *from,
                                      ptrdiff_t padded)
{
#pragma unroll
    for (int word = threadIdx.x; word < kTile * kAcross; word += kThreads) {
        const int y = word / kAcross, x = word % kAcross * kSide;
        int32_t four[kSide];
        gd::load_word(from + y * padded + x, four);
        gd::store_word(&to[y][x], four);
    }
}

/* Relaxes the tile at (row, col) over the round's pivots. A tile of the cross is one of its own two
 * operands: nothing is written before all of the block have read. */
__device__ __forceinline__ void relax_tile(int32_t *dist, ptrdiff_t padded, ptrdiff_t row,
                                           ptrdiff_t col, ptrdiff_t pivot)
{
    __shared__ alignas(16) int32_t left[kTile][kTile + 4], right[kTile][kTile];
    const int x = threadIdx.x % kAcross * kSide, y = threadIdx.x / kAcross * kSide;
    int32_t *const mine = dist + (row + y) * padded + col + x;
    int32_t c[kSide][kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        gd::load_word(mine + i * padded, c[i]);
    }
    bring(left, dist + row * padded + pivot, padded);
    bring(right, dist + pivot * padded + col, padded);
    __syncthreads();

#pragma unroll 4 /* a body of 16 pivots; all 64 would be more than the instruction cache likes */
    for (int k = 0; k < kTile; k += kSide) {
        int32_t a[kSide][kSide]; /* four rows, four pivots each */
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
            gd::load_word(&left[y + i][k], a[i]);
        }
#pragma unroll
        for (int q = 0; q < kSide; ++q) {
            int32_t b[kSide]; /* of pivot k + q, four columns */
            gd::load_word(&right[k + q][x], b);
#pragma unroll
            for (int i = 0; i < kSide; ++i) {
#pragma unroll
                for (int j = 0; j < kSide; ++j) {
                    c[i][j] = min(c[i][j], gd::legs(a[i][q], b[j]));
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        gd::store_word(mine + i * padded, c[i]);
    }
}

/* Phase 2: even blocks take the tiles of the pivots' row, odd ones those of their column. */
__global__ void __launch_bounds__(kThreads, 4)
    relax_cross(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot)
{
    const ptrdiff_t other = (ptrdiff_t)(blockIdx.x / 2) * kTile;
    if (other == pivot) {
        return; /* closed; the whole block leaves */
    }
    const bool of_row = blockIdx.x % 2 == 0;
    relax_tile(dist, padded, of_row ? pivot : other, of_row ? other : pivot, pivot);
}

/* Phase 3. */
__global__ void __launch_bounds__(kThreads, 4)
    relax_rest(int32_t *dist, ptrdiff_t padded, ptrdiff_t pivot, unsigned tiles)
{
    const ptrdiff_t row = (ptrdiff_t)(blockIdx.x / tiles) * kTile;
    const ptrdiff_t col = (ptrdiff_t)(blockIdx.x % tiles) * kTile;
    if (row != pivot && col != pivot) {
        relax_tile(dist, padded, row, col, pivot);
    }
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_7_blocked_registers(gd_apsp *call, gd_error *err)
{
    if (call->launch.sizing) {
        return gd::size_paths(*call, kTile, kId, err);
    }
    int32_t *const dist = static_cast<int32_t *>(call->dist);
    const ptrdiff_t padded = call->padded, tiles = padded / kTile;
    return gd::for_stages(*call, kTile, kId, err, [&](ptrdiff_t pivot) {
        cudaError_t code =
            gd::enqueue(call->launch, close_pivots, 1, kClosers, 0, dist, padded, pivot);
        if (code == cudaSuccess) {
            code =
                gd::enqueue(call->launch, relax_cross, 2 * tiles, kThreads, 0, dist, padded, pivot);
        }
        if (code == cudaSuccess) {
            code = gd::enqueue(call->launch, relax_rest, tiles * tiles, kThreads, 0, dist, padded,
                               pivot, (unsigned)tiles);
        }
        return code;
    });
}
