/* order.cuh: puts rows that are suspect in the same columns next to each other.
 *
 * Suspects come in blocks on data with clusters, but rows of a cluster need not be neighbours. What
 * they share is the last column that is suspect in them: sorted by it, 128 neighbours mostly are of
 * one cluster, and their suspects, taken together, few columns of many suspects each. (The first
 * column would do as well, but not for pairs, where each row's suspects begin behind the row.) The
 * order is a guess that changes how fast elements are computed again, never a result. Where few
 * elements are suspect at all it stays what it was. A result of 128 rows is one group in any order:
 * float32 leaves these two steps out, which takes 1 to 3 us off a call. Without them up to 1024
 * rows, calls that suspect nothing are as quick, and sixteen clusters of 1024 x 8192, d = 64 take
 * 0.141 ms instead of 0.094.
 *
 * On an H200, 16384 rows: 8 us where nothing is suspect, 36 us for sixteen clusters, of which the
 * one block that sorts takes 27. */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_ORDER_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_ORDER_CUH

#include "cdist/product/recompute/suspects.cuh"

namespace gd {
namespace product_form {

/* How many suspects a unit's rows must have for sorting to pay: one in 2 d elements. Computing
 * single elements takes time in proportion to d, sorting does not. */
inline ptrdiff_t enough_suspects(ptrdiff_t cols, ptrdiff_t d)
{
    const ptrdiff_t suspects = kUnitRows * cols / (2 * d);
    return suspects > 0 ? suspects : 1;
}

/* Rows of a window are sorted if one in so many of its units has enough suspects. */
constexpr int kSortFrom = 8;

constexpr int kKeyThreads = 256, kSortThreads = 1024, kSortEach = kWindow / kSortThreads;
constexpr int kKeys = 16384, kNoKey = kKeys - 1; /* 31 * 512 and less, for 2^31 columns */

/* A column, counted from the last one, as a key: exact at first, to 9 bits further on, in ascending
 * order. Few columns come after the last of most clusters. */
__device__ __forceinline__ unsigned key_of(unsigned col)
{
    return ((unsigned)__float_as_int((float)(col + 1)) >> 14) - (127 << 9);
}

/* Units of a window, and whether all suspects there are would be too few to sort it. */
__device__ __forceinline__ int units_of_window(const Suspects &suspects, ptrdiff_t window)
{
    constexpr ptrdiff_t kAll = kWindow / kUnitRows;
    return (int)min(suspects.tiles_down * kUnits - window * kAll, kAll);
}
__device__ __forceinline__ bool too_few(const Suspects &suspects, int units, ptrdiff_t enough)
{
    return suspects.fewer(enough * ceil_div(units, kSortFrom));
}

/* A warp finds the keys of the 16 rows of a unit, and how many suspects they have. */
template <typename T>
__global__ void __launch_bounds__(kKeyThreads)
    find_keys(const __grid_constant__ Suspects suspects, ptrdiff_t enough)
{
    follow<true>();
    if (suspects.none()) {
        return;
    }
    const ptrdiff_t strip = blockIdx.x * (ptrdiff_t)(kKeyThreads / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const ptrdiff_t parts = suspects.parts_across;
    /* Nothing is listed for dense.cuh yet. */
    if (lane == 0 && strip % kUnits == 0) {
        suspects.listed[strip / kUnits] = 0;
        if (strip == 0) {
            *suspects.queued = 0;
        }
    }
    const int units = units_of_window(suspects, strip * kUnitRows / kWindow);
    if (suspects.direct() || too_few(suspects, units, enough)) {
        return;
    }
    const ptrdiff_t first_unit = strip / kUnits * parts * kUnits + strip % kUnits;
    unsigned count = 0;
#pragma unroll 8
    for (ptrdiff_t part = lane; part < parts; part += 32) {
        count += suspects.counts[first_unit + part * kUnits];
    }
    count = sum_of_warp(count);
    if (lane == 0) {
        suspects.strips[strip] = count;
    }
    unsigned least[kUnitRows];
#pragma unroll
    for (int r = 0; r < kUnitRows; ++r) {
        least[r] = ~0u;
    }
    /* Few suspects: a unit without keys stays out of the way. Otherwise each lane looks at one
     * part, until all rows have been found. Where suspects come in clusters that is soon. */
    bool missing = (ptrdiff_t)count >= enough;
    for (ptrdiff_t base = 0; missing && base < parts; base += 32) {
        const ptrdiff_t back = base + lane, unit = first_unit + (parts - 1 - back) * kUnits;
        const int here = back < parts ? suspects.counts[unit] : 0;
        missing = false;
        unsigned last[kUnitRows]; /* column that is suspect, counted from the part's last one */
#pragma unroll
        for (int r = 0; r < kUnitRows; ++r) {
            last[r] = ~0u;
        }
        if (here > kPlaces) {
            uint4 lanes[kUnitRows / 2];
#pragma unroll
            for (int r = 0; r < kUnitRows / 2; ++r) {
                lanes[r] = load_words(suspects, unit, r);
            }
#pragma unroll
            for (int r = 0; r < kUnitRows; ++r) {
                uint32_t lo, hi;
                suspects_in_words<T>(lanes[r % 8], r, lo, hi);
                last[r] = hi ? __clz((int)hi) : lo ? __clz((int)lo) + 32 : ~0u;
            }
        }
        else {
            for (int i = 0; i < here; ++i) {
                const unsigned place = load_place(suspects, unit, i);
                const unsigned col = kPartCols - 1 - place / kUnitRows;
#pragma unroll
                for (int r = 0; r < kUnitRows; ++r) {
                    last[r] = place % kUnitRows == r ? min(last[r], col) : last[r];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < kUnitRows; ++r) {
            const unsigned col = last[r] == ~0u ? ~0u : (unsigned)(back * kPartCols) + last[r];
            least[r] = min(least[r], least_of_warp(col));
            missing |= least[r] == ~0u;
        }
    }
    if (lane == 0) {
#pragma unroll
        for (int r = 0; r < kUnitRows; ++r) {
            suspects.keys[strip * kUnitRows + r] =
                (uint16_t)(least[r] == ~0u ? kNoKey : key_of(least[r]));
        }
    }
}

/* A thread's sum becomes that of all threads before it. */
__device__ __forceinline__ int sum_before(int own, int *of_warps)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = sum_to_lane(own);
    if (lane == 31) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    for (int i = 0; i < warp; ++i) {
        sum += of_warps[i];
    }
    return sum - own;
}

/* A block sorts a window, if it has suspects enough and `room` in shared memory: keys are counted,
 * then dealt out. Threads of a warp with the same key count as one, so neighbours stay neighbours.
 */
constexpr int kBinsEach = kKeys / kSortThreads;
template <typename T> /* for a kernel of its own in each file */
__global__ void __launch_bounds__(kSortThreads)
    sort_rows(const __grid_constant__ Suspects suspects, ptrdiff_t enough, bool room)
{
    extern __shared__ __align__(128) int bins[];
    __shared__ int of_warps[kSortThreads / 32];
    follow();
    if (suspects.none()) {
        return;
    }
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * kWindow;
    const int strips = units_of_window(suspects, blockIdx.x), rows = strips * kUnitRows;
    const int lane = threadIdx.x % 32;
    static_assert(kWindow / kUnitRows <= kSortThreads, "a thread a strip");
    const bool many = room && (int)threadIdx.x < strips && !suspects.direct() &&
                      !too_few(suspects, strips, enough) &&
                      (ptrdiff_t)suspects.strips[first / kUnitRows + threadIdx.x] >= enough;
    /* Units that have few sort to the end, as they were. */
    const bool sorts = __syncthreads_count(many) * kSortFrom >= strips;
    if (threadIdx.x == 0) {
        suspects.ordered[blockIdx.x] = sorts;
    }
    if (!sorts) {
        return;
    }
    for (int i = threadIdx.x; i < kKeys; i += kSortThreads) {
        bins[i] = 0;
    }
    int keys[kSortEach];
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
        const int row = i * kSortThreads + (int)threadIdx.x;
        keys[i] = row < rows ? suspects.keys[first + row] : -1;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
        const unsigned same = __match_any_sync(~0u, keys[i]);
        if (keys[i] >= 0 && __ffs((int)same) - 1 == lane) {
            atomicAdd(bins + keys[i], __popc(same));
        }
    }
    __syncthreads();
    int own[kBinsEach], sum = 0;
#pragma unroll
    for (int i = 0; i < kBinsEach; ++i) {
        if (i % 4 == 0) {
            load_word(bins + threadIdx.x * kBinsEach + i, own + i);
        }
        sum += own[i];
    }
    /* From counts to places: how many rows come before the first of each key. */
    int before = sum_before(sum, of_warps);
#pragma unroll
    for (int i = 0; i < kBinsEach; ++i) {
        const int count = own[i];
        own[i] = before;
        before += count;
        if (i % 4 == 3) {
            store_word(bins + threadIdx.x * kBinsEach + i - 3, own + i - 3);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
        const unsigned same = __match_any_sync(~0u, keys[i]);
        const int leader = __ffs((int)same) - 1;
        int at = 0;
        if (keys[i] >= 0 && leader == lane) {
            at = atomicAdd(bins + keys[i], __popc(same));
        }
        at = __shfl_sync(~0u, at, leader) + __popc(same & ((1u << lane) - 1));
        if (keys[i] >= 0) {
            suspects.order[first + at] = (uint16_t)(i * kSortThreads + threadIdx.x);
        }
    }
}

}  // namespace product_form
}  // namespace gd
#endif
