/* compare.cuh: the kernel that compares images: rows and columns in bytes in, and out what may be
 * near.
 *
 * Two blocks of 256 threads a multiprocessor; a step of a block's work is 128 rows of A by 128 rows
 * of B by up to 128 dimensions, of which a thread has 8 x 8 pairs. Images of both come through a
 * ring of buffers in shared memory by bulk copies, which the block's first thread asks for. Four
 * dimensions of a pair are one instruction, and 64 pairs read sixteen words for sixteen dimensions:
 * so instructions bind, 32 of them for a pair at d = 128.
 *
 * A warp has 64 rows and a run of 32 columns: lane 4 y + x has rows y + 8 i, and columns 2 x + 0,
 * 1, 8, 9, 16, 17, 24, 25, which are what a group of eight in the log is. */
#ifndef GPUDIST_NEIGHBORS_BYTES_COMPARE_CUH
#define GPUDIST_NEIGHBORS_BYTES_COMPARE_CUH

#include "arch/barrier.cuh"
#include "arch/bytes.cuh"
#include "neighbors/bytes/images.cuh"
#include "neighbors/bytes/log_rows.cuh"

namespace gd {
namespace filter {

constexpr int kByteThreads = 256, kByteBlocks = 2, kByteBuffers = 3;
constexpr int kRunsOfGroup = kImageRows / kRun;

struct ByteShared {
    ByteSlab rows[kByteBuffers], columns[kByteBuffers];
    float limits[kImageRows]; /* and what a row's bound has beside the tile's */
    uint64_t full[kByteBuffers];
};
static_assert(kByteBlocks * (sizeof(ByteShared) + 1024) <= 227 << 10,
              "shared memory of a multiprocessor");

/* Units of work: some tiles for a group of rows. Groups are next to each other, so that blocks that
 * work at the same time read the same tiles. */
struct ByteUnits {
    Tiles tiles;
    int groups, each;

    __device__ __forceinline__ int count() const
    {
        return groups * ((tiles.end - tiles.begin + each - 1) / each);
    }
};

/* A block's walk through its work, step by step. */
struct ByteStep {
    int unit, tile, half, slab;

    __device__ __forceinline__ ByteStep(const ByteUnits &units)
        : unit(blockIdx.x), tile(first(units)), half(0), slab(0)
    {
    }
    __device__ __forceinline__ int group(const ByteUnits &units) const
    {
        return unit % units.groups;
    }
    __device__ __forceinline__ int first(const ByteUnits &units) const
    {
        return units.tiles.begin + unit / units.groups * units.each;
    }
    __device__ __forceinline__ bool there(const ByteUnits &units) const
    {
        return unit < units.count();
    }
    __device__ __forceinline__ void go(const ByteUnits &units, int slabs)
    {
        if (++slab < slabs) {
            return;
        }
        slab = 0;
        half ^= 1;
        if (half != 0) {
            return;
        }
        if (++tile == min(first(units) + units.each, units.tiles.end)) {
            unit += gridDim.x;
            tile = first(units);
        }
    }
};

/* Asks for the images of a step. One thread. */
__device__ __forceinline__ void bring_slabs(const ByteImages &images, int planes,
                                            const ByteUnits &units, const ByteStep &step,
                                            ByteShared &shared, int buffer)
{
    const int first = step.slab * kSlabPlanes;
    const unsigned bytes = min(planes - first, kSlabPlanes) * (unsigned)sizeof(BytePlane);
    const ptrdiff_t column =
        ((ptrdiff_t)step.tile * units.tiles.apart * 2 + step.half) * planes + first;
    barrier_expect(&shared.full[buffer], 2 * bytes);
    bulk_copy(&shared.rows[buffer], images.rows + (ptrdiff_t)step.group(units) * planes + first,
              bytes, &shared.full[buffer]);
    bulk_copy(&shared.columns[buffer], images.columns + column, bytes, &shared.full[buffer]);
}

using ByteSums = unsigned[kPairs][kPairs];

/* Adds some planes to the sums of a thread, whose first row and column are these. */
__device__ __forceinline__ void add_planes(ByteSums &sums, const ByteShared &shared, int buffer,
                                           int planes, int row, int column)
{
    const uint4 *rows = shared.rows[buffer].planes[0].words + row;
    const uint4 *columns = shared.columns[buffer].planes[0].words + column;
#pragma unroll 1
    for (int plane = 0; plane < planes; ++plane) {
        uint4 a[kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            a[i] = rows[8 * i];
        }
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            const uint4 b = columns[j / 2 * 8 + j % 2];
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                sums[i][j] = add_apart(sums[i][j], a[i].x, b.x);
                sums[i][j] = add_apart(sums[i][j], a[i].y, b.y);
                sums[i][j] = add_apart(sums[i][j], a[i].z, b.z);
                sums[i][j] = add_apart(sums[i][j], a[i].w, b.w);
            }
        }
        rows += kImageRows, columns += kImageRows;
    }
}

/* The least sum of each row. */
__device__ __forceinline__ void find_least(const ByteSums &sums, unsigned (&least)[kPairs])
{
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        least[i] = sums[i][0];
#pragma unroll
        for (int j = 1; j < kPairs; ++j) {
            least[i] = min(least[i], sums[i][j]);
        }
    }
}

/* Holds a sum against float64: the largest share of its bound that an error takes goes to
 * found->worst. */
template <typename T>
__device__ __noinline__ void check_sum(const PlanOf<T> &plan, const int *shifts, int row, int place,
                                       unsigned sum)
{
    const int column = plan.column_of[place];
    if (column < 0 || row >= plan.rows || plan.row_facts[row].limit == -INFINITY) {
        return;
    }
    double apart = 0;
    for (ptrdiff_t dim = 0; dim < plan.d; ++dim) {
        apart += fabs((double)plan.a.at(row, dim) - (double)plan.b.at(column, dim));
    }
    const double exact = apart * plan.found->scale, v = (double)sum;
    const bool is_far = shifts[place] >= kFarShift; /* or NaN */
    const double error = is_far ? (exact < kMostShifted ? INFINITY : 0) : fabs(v - exact);
    const float share =
        (float)(error / bound(plan.row_facts[row], plan.tile_facts[place / kTileCols]));
    atomicMax(&plan.found->worst, __float_as_uint(share));
}

/* What becomes of the sums of a thread: row, of the group, and column, of the tile, are its first.
 */
template <Look kLook, typename P>
__device__ __forceinline__ void look_at(const P &plan, const ByteImages &images,
                                        const ByteSums &sums, const ByteShared &shared,
                                        const TileFacts &facts, int group, int row, int tile,
                                        int column, Log &log)
{
    if constexpr (kLook == Look::kCheck) {
#pragma unroll
        for (int i = 0; i < kPairs * kPairs; ++i) {
            const int j = i % kPairs;
            check_sum(plan, images.shifts, group * kImageRows + row + i / kPairs * 8,
                      tile * kTileCols + column + j / 2 * 8 + j % 2, sums[i / kPairs][j]);
        }
    }
    else if constexpr (kLook == Look::kMinima) {
        unsigned least[kPairs];
        find_least(sums, least);
        const ptrdiff_t first = (ptrdiff_t)group * kImageRows + row;
        float *const to = minima_of(plan, first, tile, column / kRun);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            least[i] = min(least[i], __shfl_xor_sync(~0u, least[i], 1));
            least[i] = min(least[i], __shfl_xor_sync(~0u, least[i], 2));
            if (this_thread() % 4 == 0) {
                const RowFacts &of_row = plan.row_facts[first + 8 * i];
                to[8 * i * (ptrdiff_t)plan.minima_pitch] = (float)least[i] + bound(of_row, facts);
            }
        }
    }
    else {
        unsigned least[kPairs];
        find_least(sums, least);
        bool near[kPairs], any = false;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            near[i] = (float)least[i] <= shared.limits[row + 8 * i] + facts.rest;
            any = any || near[i];
        }
        if (__any_sync(~0u, any)) {
            log_rows<kPairs>(plan, sums, near, group * kImageRows + row, tile * kTileCols + column,
                             log);
        }
    }
}

/* P: a Plan, or a PlanOf the points that sums are held against. */
template <Look kLook, typename P>
__global__ void __launch_bounds__(kByteThreads, kByteBlocks)
    compare_images(const __grid_constant__ P plan, const __grid_constant__ ByteImages images,
                   const __grid_constant__ ByteUnits units)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<ByteShared *>(memory);
    const int slabs = (plan.planes + kSlabPlanes - 1) / kSlabPlanes;
    ByteStep ahead(units), step(units);
    if (threadIdx.x == 0) {
        for (int i = 0; i < kByteBuffers; ++i) {
            barrier_init(&shared.full[i], 1);
        }
        show_barriers();
        for (int i = 0; i < kByteBuffers - 1 && ahead.there(units); ++i) {
            bring_slabs(images, plan.planes, units, ahead, shared, i);
            ahead.go(units, slabs);
        }
    }
    __syncthreads();
    const int lane = (int)threadIdx.x % kLanes, warp = (int)threadIdx.x / kLanes;
    const int row = warp / kRunsOfGroup * 64 + lane / 4;
    const int column = warp % kRunsOfGroup * kRun + lane % 4 * 2;
    Log log(plan.chunks);
    ByteSums sums;
    int buffer = 0, group = -1;
    unsigned turn = 0;
#pragma unroll 1
    while (step.there(units)) {
        if (kLook == Look::kLog && step.group(units) != group) {
            __syncthreads(); /* nobody reads the last group's any more */
            group = step.group(units);
            if (threadIdx.x < kImageRows) {
                const RowFacts facts = plan.row_facts[group * kImageRows + threadIdx.x];
                shared.limits[threadIdx.x] = facts.limit + facts.rest;
            }
        }
        __syncthreads(); /* the last step's buffer is free, and limits are there */
        if (threadIdx.x == 0 && ahead.there(units)) {
            bring_slabs(images, plan.planes, units, ahead, shared,
                        (buffer + kByteBuffers - 1) % kByteBuffers);
            ahead.go(units, slabs);
        }
        const int tile = step.tile * units.tiles.apart;
        if (step.slab == 0) {
            const int *const shifts =
                images.shifts + (ptrdiff_t)tile * kTileCols + step.half * kImageRows + column;
#pragma unroll
            for (int j = 0; j < kPairs; j += 2) {
                const int2 two = __ldg(reinterpret_cast<const int2 *>(shifts + j * 4));
#pragma unroll
                for (int i = 0; i < kPairs; ++i) {
                    sums[i][j] = (unsigned)two.x;
                    sums[i][j + 1] = (unsigned)two.y;
                }
            }
        }
        barrier_wait(&shared.full[buffer], turn);
        add_planes(sums, shared, buffer, min(plan.planes - step.slab * kSlabPlanes, kSlabPlanes),
                   row, column);
        if (step.slab == slabs - 1) {
            look_at<kLook>(plan, images, sums, shared, plan.tile_facts[tile], step.group(units),
                           row, kLook == Look::kMinima ? step.tile : tile,
                           step.half * kImageRows + column, log);
        }
        if (++buffer == kByteBuffers) {
            buffer = 0, turn ^= 1;
        }
        step.go(units, slabs);
    }
    if (kLook == Look::kLog) {
        close_log(plan, log);
    }
}

}  // namespace filter
}  // namespace gd
#endif
