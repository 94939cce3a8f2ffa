/* share_out.cuh: decides how each suspect element is computed again that no warp has listed for
 * itself (product_f32/recompute_own.cuh).
 *
 * A warp takes 128 rows, in the order of order.cuh, by 64 columns. Columns of many suspects
 * are listed for dense.cuh, which computes them for all 128 rows; other elements it
 * computes by itself (singles.cuh). Which it is changes no bit: all add in the order of
 * GD_FOLD and GD_GROUP. No warp waits for another.
 *
 * On an H200, 16384 x 16384 normal data: 0.06 ms at d = 32 (0.15 % suspect), 0.005 ms for none. In
 * clusters, of which it computes little itself, less than 0.1 ms. What binds is latency: suspects,
 * rows and results are loads that depend on each other. */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_SHARE_OUT_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_SHARE_OUT_CUH

#include "cdist/product/recompute/singles.cuh"

namespace gd {
namespace product_form {

/* Two blocks share a multiprocessor: for three, or half as large ones, there are too few registers
 * (d = 24 0.52 ms instead of 0.49). In float64 a block has to fit into the 99 KB that devices of
 * compute capability 8.6 and 8.9 give it; where it does not fit, on 7.5, it has fewer warps. */
constexpr int kRecomputeBlocks = 2;
template <typename T>
constexpr int kRecomputeWarps = sizeof(T) == 4 ? 8 : 3;
static_assert(kRecomputeWarps<double> * sizeof(Singles<double>) <= 99 * 1024,
              "shared memory of a block");

/* Suspects of a column, of 128, from which on it is listed. The register tile is twice that much
 * faster; but where rows of two clusters meet, the few of one of them keep some warps busy long
 * after the others: with 10 clusters take 0.03 ms longer at d = 128 and 0.2 at d = 1024. Heavy
 * tails, d = 32, take 2 to 4 % longer with 4 and 3. */
constexpr int kDense = 5;

/* Suspects of a part from which on it is worth looking for such columns, where rows are not sorted.
 */
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

/* Lists columns of many suspects and takes their suspects away. */
__device__ __forceinline__ void list_columns(const Suspects &suspects, ptrdiff_t group,
                                             ptrdiff_t part, uint32_t (&bits)[kWords])
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t rows[2][kBlocks];
    unsigned listed[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int count = 0;
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            rows[half][i] = transpose(bits[i * 2 + half]);
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
        at = atomicAdd(suspects.listed + group, count);
        /* Whoever lists the first column of a tile puts the tile in the queue. */
        for (unsigned i = (at + kPartCols - 1) / kPartCols; i * kPartCols < at + count; ++i) {
            suspects.queue[atomicAdd(suspects.queued, 1)] = make_int2((int)group, (int)i);
        }
    }
    at = __shfl_sync(~0u, at, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (listed[half] >> lane & 1) {
            const ptrdiff_t i = group * suspects.parts_across * kPartCols + at +
                                __popc(listed[half] & ((1u << lane) - 1));
            suspects.cols[i] = (int)(part * kPartCols) + half * 32 + (int)lane;
            suspects.masks[i] =
                make_uint4(rows[half][0], rows[half][1], rows[half][2], rows[half][3]);
        }
        at += __popc(listed[half]);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
            bits[i * 2 + half] &= ~listed[half];
        }
    }
}

/* Computes elements as long as there are enough that wait. Returns how many are left. */
template <typename M, typename T>
__device__ __forceinline__ int recompute_waiting(const Cdist<T> &call, bool words,
                                                 Singles<T> &singles, int waiting)
{
    __syncwarp();
    while (waiting >= kLanes) {
        waiting -= kLanes;
        recompute_singles<M>(call, words, singles, waiting, kLanes);
    }
    return waiting;
}

/* Puts elements of one word, suspect in a lane's row, on the list, and computes them when there are
 * enough. Returns how many wait afterwards; `waiting` did before. */
template <typename M, typename T>
__device__ __forceinline__ int recompute_word(const Cdist<T> &call, bool words, uint32_t bits,
                                              int row, int first_col, Singles<T> &singles,
                                              int waiting)
{
    const unsigned lane = threadIdx.x % 32;
    while (const unsigned have = __ballot_sync(~0u, bits != 0)) {
        if (bits != 0) {
            singles.elements[waiting + __popc(have & ((1u << lane) - 1))] =
                make_int2(row, first_col + __ffs((int)bits) - 1);
            bits &= bits - 1;
        }
        waiting = recompute_waiting<M>(call, words, singles, waiting + __popc(have));
    }
    return waiting;
}

template <typename M, typename T>
__device__ __forceinline__ int recompute_part(const Cdist<T> &call, const Suspects &suspects,
                                              bool words, unsigned group, unsigned part,
                                              bool sorted, Singles<T> &singles, int waiting)
{
    const int lane = (int)(threadIdx.x % 32), first_col = (int)(part * kPartCols);
    const int cols = (int)min(call.b.count - first_col, (ptrdiff_t)kPartCols);
    int rows[kBlocks];
    uint4 lanes[kBlocks];
    int counts[kBlocks];
    uint32_t bits[kWords];
    /* All loads of a kind first, so that their waits overlap. */
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        rows[i] = suspects.row(group, sorted, i * 32 + lane);
    }
    const auto unit_of = [&](int row) {
        return ((ptrdiff_t)(row / kTileRows) * suspects.parts_across + part) * kUnits +
               row / kUnitRows % kUnits;
    };
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        lanes[i] = load_words(suspects, unit_of(rows[i]), rows[i]);
        counts[i] = __ldg(suspects.counts + unit_of(rows[i]));
    }
    int count = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
        uint32_t lo, hi;
        suspects_in_words<T>(lanes[i], rows[i], lo, hi);
        if (rows[i] >= call.a.count) {
            lo = hi = 0;
        }
        else if (counts[i] <= kPlaces) { /* nobody wrote the words */
            suspects_in_places(suspects, unit_of(rows[i]), rows[i], counts[i], lo, hi);
        }
        bits[i * 2] = cols >= 32 ? lo : cols > 0 ? lo & ((1u << cols) - 1) : 0;
        bits[i * 2 + 1] = cols >= 64 ? hi : cols > 32 ? hi & ((1u << (cols - 32)) - 1) : 0;
        count += __popc(bits[i * 2]) + __popc(bits[i * 2 + 1]);
    }
    if (sum_of_warp((unsigned)count) >= (sorted ? kDense : kSome)) {
        list_columns(suspects, group, part, bits);
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        waiting = recompute_word<M>(call, words, bits[i], rows[i / 2], first_col + i % 2 * 32,
                                    singles, waiting);
    }
    return waiting;
}

/* A lane's share of what is noted of a part, a quarter of a unit's few places. */
struct Share {
    static constexpr int each = kPlaces / 4;
    static_assert(each == 4, "places of a load");
    uint2 places;
    uint16_t count; /* of the unit */

    __device__ __forceinline__ void load(const Suspects &suspects, unsigned part)
    {
        const unsigned lane = threadIdx.x % 32;
        places = __ldg(reinterpret_cast<const uint2 *>(suspects.few_places) +
                       (part * (ptrdiff_t)kLanes + lane));
        count = __ldg(suspects.counts + (part * (ptrdiff_t)kUnits + lane / 4));
    }
};

/* Lists the suspect elements of a part whose units have few, none of them beyond the result.
 * Returns how many. */
__device__ __forceinline__ int list_elements(const Share &share, unsigned group, unsigned part,
                                             int2 *elements)
{
    const int lane = (int)(threadIdx.x % 32);
    const int row = (int)group * kTileRows + lane / 4 * kUnitRows, col = (int)part * kPartCols;
    int listed = 0;
#pragma unroll
    for (int i = 0; i < Share::each; ++i) {
        const unsigned both = i < 2 ? share.places.x : share.places.y;
        const int place = (int)(both >> (i % 2 * 16) & 0xffff);
        const bool there = lane % 4 * Share::each + i < share.count;
        const unsigned have = __ballot_sync(~0u, there);
        if (there) {
            elements[listed + __popc(have & ((1u << lane) - 1))] =
                make_int2(row + place % kUnitRows, col + place / kUnitRows);
        }
        listed += __popc(have);
    }
    return listed;
}

template <typename M, typename T>
__global__ void __launch_bounds__(kRecomputeWarps<T> * 32, kRecomputeBlocks)
    recompute_direct(const __grid_constant__ CallFor<M, T> call,
                     const __grid_constant__ Suspects suspects, bool words)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Singles<T> &singles = reinterpret_cast<Singles<T> *>(memory)[threadIdx.x / 32];
    follow();
    if (suspects.direct() || suspects.none()) {
        return;
    }
    /* 2^32 parts would be a result of 140 TB. */
    const unsigned across = (unsigned)suspects.parts_across, parts = (unsigned)suspects.parts();
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32,
                   warps = gridDim.x * blockDim.x / 32;
    int waiting = 0;
    /* Neighbouring parts go to different warps, as they may be the only ones with much to do. A
     * lane looks at one part ahead, then the warp goes to those that need it. */
    for (unsigned base = warp; base < parts; base += warps * 32) {
        const unsigned mine = base + threadIdx.x % 32 * warps;
        /* Rows in another order have suspects in any part. */
        const bool sorted = mine < parts && suspects.ordered[mine / across / kWindowTiles] != 0;
        const uint4 counts = mine < parts ? load_counts(suspects, mine) : uint4{};
        const int count = sum_of_counts(counts);
        const bool whole = (ptrdiff_t)(mine / across + 1) * kTileRows <= call.a.count &&
                           (ptrdiff_t)(mine % across + 1) * kPartCols <= call.b.count;
        const bool easy = !sorted && whole && all_in_places(counts);
        const unsigned in_order = __ballot_sync(~0u, sorted);
        for (unsigned todo = __ballot_sync(~0u, !easy && (sorted || count != 0)); todo != 0;
             todo &= todo - 1) {
            const int i = __ffs((int)todo) - 1;
            const unsigned part = base + i * warps;
            waiting = recompute_part<M>(call, suspects, words, part / across, part % across,
                                        in_order >> i & 1, singles, waiting);
        }
        /* The next part's suspects come while one is at work. */
        unsigned todo = __ballot_sync(~0u, easy && count != 0);
        Share share, next;
        if (todo != 0) {
            next.load(suspects, base + (__ffs((int)todo) - 1) * warps);
        }
        while (todo != 0) {
            const unsigned part = base + (__ffs((int)todo) - 1) * warps;
            share = next;
            todo &= todo - 1;
            if (todo != 0) {
                next.load(suspects, base + (__ffs((int)todo) - 1) * warps);
            }
            const int listed =
                list_elements(share, part / across, part % across, singles.elements + waiting);
            waiting = recompute_waiting<M>(call, words, singles, waiting + listed);
        }
    }
    if (waiting != 0) {
        recompute_singles<M>(call, words, singles, 0, waiting);
    }
}

}  // namespace product_form
}  // namespace gd
#endif
