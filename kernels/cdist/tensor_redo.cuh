/* tensor_redo.cuh: decides how each marked element is computed again.
 *
 * A warp takes 128 rows, in the order of tensor_order.cuh, by 64 columns. Columns of many marks are
 * listed for tensor_dense.cuh, which computes them for all 128 rows; other elements it computes by
 * itself (tensor_few.cuh). Which it is changes no bit: all add in the order of GD_FOLD and
 * GD_GROUP. No warp waits for another.
 *
 * On an H200, 16384 x 16384 normal data: 0.08 ms at d = 32 (0.15 % marked), 0.005 ms for none. What
 * binds is latency: marks, rows and results are loads that depend on each other. */
#ifndef GPUDIST_TENSOR_REDO_CUH
#define GPUDIST_TENSOR_REDO_CUH

#include "tensor_few.cuh"

namespace gd {
namespace tensor {

constexpr int kRedoThreads = 256, kRedoWarps = kRedoThreads / 32, kRedoBlocks = 3;
/* Marks of a column, of 128, from which on it is listed. The register tile is that much faster. */
constexpr int kDense = 10;
/* Marks of a part from which on it is worth looking for such columns, where rows are not sorted. */
constexpr int kSome = 64;

/* Sorted rows of a part: lane i has rows i, i + 32, ..., two words of columns each. */
constexpr int kBlocks = kTileRows / 32, kWords = kBlocks * 2;

/* Exchanges rows, one a lane, and columns, one a bit. Bits whose lane and place differ in one digit
 * change places, digit by digit. */
__device__ __forceinline__ uint32_t transpose(uint32_t x)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t mask = 0x0000ffff;
#pragma unroll
    for (unsigned step = 16; step > 0; step /= 2, mask ^= mask << step) {
        const uint32_t y = __shfl_xor_sync(~0u, x, step);
        x = lane & step ? (x & ~mask) | ((y & ~mask) >> step) : (x & mask) | ((y & mask) << step);
    }
    return x;
}

/* Lists columns of many marks and takes their marks away. */
__device__ __forceinline__ void list_columns(const Plan &plan, ptrdiff_t group, ptrdiff_t part,
                                             uint32_t (&marks)[kWords])
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t rows[2][kBlocks];
    unsigned listed[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int count = 0;
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            rows[half][i] = transpose(marks[i * 2 + half]);
            count += __popc(rows[half][i]);
        }
        listed[half] = __ballot_sync(~0u, count >= kDense);
    }
    /* Its columns stand together in the list, in ascending order: stores of neighbours then share
     * sectors. Where they stand is for the warps to fight out, it changes no result. */
    const unsigned count = __popc(listed[0]) + __popc(listed[1]);
    if (count == 0) {
        return;
    }
    unsigned at = 0;
    if (lane == 0) {
        at = atomicAdd(plan.listed + group, count);
        /* Whoever lists the first column of a tile puts the tile in the queue. */
        for (unsigned i = (at + kPartCols - 1) / kPartCols; i * kPartCols < at + count; ++i) {
            plan.queue[atomicAdd(plan.queued, 1)] = make_int2((int)group, (int)i);
        }
    }
    at = __shfl_sync(~0u, at, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (listed[half] >> lane & 1) {
            const ptrdiff_t i = group * plan.parts_across() * kPartCols + at +
                                __popc(listed[half] & ((1u << lane) - 1));
            plan.cols[i] = (int)(part * kPartCols) + half * 32 + (int)lane;
            plan.masks[i] = make_uint4(rows[half][0], rows[half][1], rows[half][2], rows[half][3]);
        }
        at += __popc(listed[half]);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            marks[i * 2 + half] &= ~listed[half];
        }
    }
}

/* Puts elements of one word, marked in a lane's row, on the list, and computes them when there are
 * enough. Returns how many wait afterwards; `waiting` did before. */
template <typename M>
__device__ __forceinline__ int redo_word(const Cdist<float> &call, bool words, uint32_t marks,
                                         int row, int first_col, Few &few, int waiting)
{
    const unsigned lane = threadIdx.x % 32;
    while (const unsigned have = __ballot_sync(~0u, marks != 0)) {
        if (marks != 0) {
            few.elements[waiting + __popc(have & ((1u << lane) - 1))] =
                make_int2(row, first_col + __ffs((int)marks) - 1);
            marks &= marks - 1;
        }
        waiting += __popc(have);
        __syncwarp();
        if (waiting >= kLanes) {
            redo_few<M>(call, words, few, kLanes);
            waiting -= kLanes;
            const int2 moved = few.elements[kLanes + lane];
            __syncwarp();
            few.elements[lane] = moved;
            __syncwarp();
        }
    }
    return waiting;
}

template <typename M>
__device__ __forceinline__ int redo_part(const Cdist<float> &call, const Plan &plan, bool words,
                                         unsigned group, unsigned part, bool sorted, Few &few,
                                         int waiting)
{
    const int lane = (int)(threadIdx.x % 32), first_col = (int)(part * kPartCols);
    const int cols = (int)min(call.b.count - first_col, (ptrdiff_t)kPartCols);
    int rows[kBlocks];
    uint4 lanes[kBlocks];
    uint16_t counts[kBlocks];
    uint32_t marks[kWords];
    /* All loads of a kind first, so that their waits overlap. */
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        rows[i] = plan.row(group, sorted, i * 32 + lane);
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        const ptrdiff_t unit =
            ((ptrdiff_t)(rows[i] / kTileRows) * plan.parts_across() + part) * kUnits +
            rows[i] / kUnitRows % kUnits;
        lanes[i] = load_marks(plan, unit, rows[i]);
        counts[i] = __ldg(plan.counts + unit);
    }
    int count = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        uint32_t lo, hi;
        marks_of_row(lanes[i], rows[i], lo, hi);
        if (rows[i] >= call.a.count || counts[i] == 0) { /* nobody wrote the marks */
            lo = hi = 0;
        }
        marks[i * 2] = cols >= 32 ? lo : cols > 0 ? lo & ((1u << cols) - 1) : 0;
        marks[i * 2 + 1] = cols >= 64 ? hi : cols > 32 ? hi & ((1u << (cols - 32)) - 1) : 0;
        count += __popc(marks[i * 2]) + __popc(marks[i * 2 + 1]);
    }
    if (__reduce_add_sync(~0u, (unsigned)count) >= (sorted ? kDense : kSome)) {
        list_columns(plan, group, part, marks);
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        waiting =
            redo_word<M>(call, words, marks[i], rows[i / 2], first_col + i % 2 * 32, few, waiting);
    }
    return waiting;
}

template <gd_metric kMetric>
__global__ void __launch_bounds__(kRedoThreads, kRedoBlocks)
    redo(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan, bool words)
{
    using M = Metric<kMetric>;
    extern __shared__ __align__(128) unsigned char memory[];
    Few &few = reinterpret_cast<Few *>(memory)[threadIdx.x / 32];
    /* 2^32 parts would be a result of 140 TB. */
    const unsigned across = (unsigned)plan.parts_across(), parts = (unsigned)plan.parts();
    const unsigned warp = blockIdx.x * kRedoWarps + threadIdx.x / 32,
                   warps = gridDim.x * kRedoWarps;
    int waiting = 0;
    /* Neighbouring parts go to different warps, as they may be the only ones with much to do. A
     * lane looks at one part ahead, then the warp goes to those that need it. */
    for (unsigned base = warp; base < parts; base += warps * 32) {
        const unsigned mine = base + threadIdx.x % 32 * warps;
        /* Rows in another order have marks in any part. */
        const bool sorted = mine < parts && plan.ordered[mine / across / kWindowTiles] != 0;
        const unsigned in_order = __ballot_sync(~0u, sorted);
        const bool any = mine < parts && (sorted || count_marks(plan, mine) != 0);
        for (unsigned todo = __ballot_sync(~0u, any); todo != 0; todo &= todo - 1) {
            const int i = __ffs((int)todo) - 1;
            const unsigned part = base + i * warps;
            waiting = redo_part<M>(call, plan, words, part / across, part % across,
                                   in_order >> i & 1, few, waiting);
        }
    }
    if (waiting != 0) {
        redo_few<M>(call, words, few, waiting);
    }
}

}  // namespace tensor
}  // namespace gd
#endif
