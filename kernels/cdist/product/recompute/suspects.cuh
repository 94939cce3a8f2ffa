/* suspects.cuh: what the tensor kernels of float32 and float64 leave to be computed again, and
 * where that is noted. Both take tiles of 128 rows and note suspects in words of the same meaning,
 * so all that follows the product is shared: order.cuh, share_out.cuh and dense.cuh. */
#ifndef GPUDIST_CDIST_PRODUCT_RECOMPUTE_SUSPECTS_CUH
#define GPUDIST_CDIST_PRODUCT_RECOMPUTE_SUSPECTS_CUH

#include "arch/copies.cuh"
#include "arch/dependent.cuh"
#include "arch/registers.cuh"
#include "arch/warp.cuh"
#include "arch/barrier.cuh"
#include "cdist/product/recompute/scaled.cuh"

namespace gd {
namespace product_form {

/* A part is 128 rows of results by 64 columns. A unit is 16 of these rows, a warp's share. */
constexpr int kTileRows = 128, kPartCols = 64;
constexpr int kUnitRows = 16, kUnits = kTileRows / kUnitRows, kLanes = 32, kPlaces = 16;

/* Rows are put in order within windows. */
constexpr int kWindow = 16384, kWindowTiles = kWindow / kTileRows;

struct Suspects {
    ptrdiff_t tiles_down, parts_across;
    /* Whether everything is computed in direct form (product/centre.cuh); NULL: certainly not. */
    const unsigned *all_direct;
    /* How many elements are suspect in all; NULL: nobody counts. */
    unsigned long long *total;
    /* A unit's elements to be computed again, how many they are and which: up to kPlaces of
     * them by their places, column * 16 + row within the unit; more by a word a lane, whose first
     * bit, from the top, is the first element that the lane had. Few are common, and words
     * would take memory's time from the results. */
    uint16_t *counts;
    uint16_t (*few_places)[kPlaces];
    uint32_t *words;
    /* How rows with suspects in the same columns become neighbours (order.cuh): suspects of
     * each unit's rows, the rows' keys, the order of the rows in each window, and whether it is
     * one. */
    uint32_t *strips;
    uint16_t *keys, *order;
    uint32_t *ordered;
    /* What is computed in tiles (dense.cuh): of each group of 128 rows, in their order,
     * the columns, and of each of these which rows are suspect, from bit 0 on; how many columns;
     * and the tiles: a group, and which 64 of its columns. */
    int *cols;
    uint4 *masks;
    unsigned *listed;
    int2 *queue;
    unsigned *queued;

    /* Calls take(array, count) for every array. */
    template <typename Take>
    void lay_out(Take &take)
    {
        take(counts, parts() * kUnits);
        take(few_places, parts() * kUnits);
        take(words, parts() * kUnits * kLanes);
        take(strips, tiles_down * kUnits);
        take(keys, tiles_down * kTileRows);
        take(order, tiles_down * kTileRows);
        take(ordered, ceil_div(tiles_down, (ptrdiff_t)kWindowTiles));
        take(cols, parts() * kPartCols);
        take(masks, parts() * kPartCols);
        take(listed, tiles_down);
        take(queue, parts());
        take(queued, (ptrdiff_t)1);
    }
    __host__ __device__ ptrdiff_t parts() const { return tiles_down * parts_across; }
    /* Says that there are no suspects, as is true of parts left of the diagonal, which pairs do
     * not compute. The blocks of a kernel before the products share in it. */
    __device__ __forceinline__ void clear() const
    {
        for (ptrdiff_t i = blockIdx.x * (ptrdiff_t)blockDim.x + threadIdx.x; i < parts();
             i += (ptrdiff_t)gridDim.x * blockDim.x) {
            reinterpret_cast<uint4 *>(counts)[i] = uint4{};
        }
    }
    /* With a single group of rows any order is as good, and nothing is listed for dense.cuh
     * yet: what order.cuh would say. One thread says it. */
    __device__ __forceinline__ void keep_order() const { ordered[0] = listed[0] = *queued = 0; }
    __device__ __forceinline__ bool direct() const { return all_direct && *all_direct != 0; }
    __device__ __forceinline__ bool fewer(ptrdiff_t count) const
    {
        return total && *total < (unsigned long long)count;
    }
    __device__ __forceinline__ bool none() const { return fewer(1); }
    /* The i-th row of a group, of 32 bits: each row has an image, so there are less than 2^31. */
    __device__ __forceinline__ int row(ptrdiff_t group, bool sorted, int i) const
    {
        const ptrdiff_t at = group * kTileRows + i;
        return (int)(sorted ? group / kWindowTiles * kWindow + order[at] : at);
    }

    /* A warp notes which elements of a unit are suspect: a lane those of its word. Returns how
     * many.
     */
    template <typename T>
    __device__ __forceinline__ unsigned note(ptrdiff_t unit, uint32_t word) const;
};

/* A lane's elements of a unit: rows g and g + 8, g = lane / 4, and a quarter of each few columns:
 * columns that touch, two words of 16 bytes in float32, one in float64. First those of the first
 * columns, and of these the upper row's. Where is the i-th? */
template <typename T>
constexpr int kQuarter = sizeof(T) == sizeof(float) ? 8 : 2;
template <typename T>
__device__ __forceinline__ int place_of_element(int lane, int i)
{
    constexpr int kEach = kQuarter<T>;
    const int row = lane / 4 + i / kEach % 2 * 8;
    const int col = i / (2 * kEach) * (4 * kEach) + lane % 4 * kEach + i % kEach;
    return col * kUnitRows + row;
}

/* The suspects in a lane's word that are right of the diagonal, if the unit begins at (row, col).
 */
template <typename T>
__device__ __forceinline__ uint32_t right_of_diagonal(uint32_t word, ptrdiff_t row, ptrdiff_t col)
{
    const int lane = (int)(this_thread() % 32);
    for (uint32_t left = word; left != 0;) {
        const int i = __clz((int)left), place = place_of_element<T>(lane, i);
        const uint32_t suspect = 0x80000000u >> i;
        left &= ~suspect;
        word &= col + place / kUnitRows > row + place % kUnitRows ? ~0u : ~suspect;
    }
    return word;
}

template <typename T>
__device__ __forceinline__ unsigned Suspects::note(ptrdiff_t unit, uint32_t word) const
{
    const int lane = (int)(this_thread() % 32);
    const unsigned count = sum_of_warp((unsigned)__popc(word));
    if (lane == 0) {
        counts[unit] = (uint16_t)count;
    }
    if (count > kPlaces) {
        words[unit * kLanes + lane] = word;
        return count;
    }
    for (unsigned at = 0; at < count;) { /* mostly no turn, or a single one */
        const unsigned have = __ballot_sync(~0u, word != 0);
        if (word != 0) {
            const int i = __clz((int)word);
            word &= ~(0x80000000u >> i);
            few_places[unit][at + __popc(have & ((1u << lane) - 1))] =
                (uint16_t)place_of_element<T>(lane, i);
        }
        at += __popc(have);
    }
    return count;
}

/* The counts of a part's units, two a word: no sum of eight passes 8192, so halves do not meet. */
__device__ __forceinline__ uint4 load_counts(const Suspects &suspects, ptrdiff_t part)
{
    return __ldg(reinterpret_cast<const uint4 *>(suspects.counts) + part);
}
__device__ __forceinline__ int sum_of_counts(uint4 counts)
{
    const unsigned both = counts.x + counts.y + counts.z + counts.w;
    return (int)((both & 0xffff) + (both >> 16));
}
__device__ __forceinline__ bool all_in_places(uint4 counts)
{
    constexpr unsigned kToSign = (0x8000 - kPlaces - 1) * 0x10001u; /* more set a half's sign */
    return (((counts.x + kToSign) | (counts.y + kToSign) | (counts.z + kToSign) |
             (counts.w + kToSign)) &
            0x80008000) == 0;
}

/* Loads the words of the four lanes that had a row, which are there if its unit has more than few
 * suspects. Not by __ldg: the compiler would put that off until it knows whether there are
 * suspects, and wait for one load after the other. */
__device__ __forceinline__ uint4 load_words(const Suspects &suspects, ptrdiff_t unit, int row)
{
    return load_const_now(reinterpret_cast<const uint4 *>(suspects.words) + unit * 8 + row % 8);
}

/* The i-th of a unit's few places. */
__device__ __forceinline__ int load_place(const Suspects &suspects, ptrdiff_t unit, int i)
{
    return (int)__ldg(&suspects.few_places[unit][i]);
}

/* The suspects of a row in a part, one bit a column from bit 0 of `lo` on, from its words. A lane
 * has in float32 eight columns of every 32, a byte, and in float64 two of every eight, a quarter of
 * one; what comes first from the top comes last after __brev. */
template <typename T>
__device__ __forceinline__ void suspects_in_words(uint4 lanes, int row, uint32_t &lo, uint32_t &hi)
{
    constexpr int kEach = kQuarter<T>;
    const uint32_t words[4] = {lanes.x, lanes.y, lanes.z, lanes.w};
    lo = hi = 0;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const uint32_t own = __brev(words[q]) >> (row / 8 % 2 * kEach);
        uint32_t low, high; /* of every 4 * kEach bits the first kEach */
        if constexpr (kEach == 8) {
            low = own & 0xff;
            high = own >> 16 & 0xff;
        }
        else {
            const uint32_t even = own & 0x03030303, odd = own >> 4 & 0x03030303;
            low = __byte_perm(even, odd, 0x5140);
            high = __byte_perm(even, odd, 0x7362);
        }
        lo |= low << (q * kEach);
        hi |= high << (q * kEach);
    }
}

/* The suspects of a row in a part, likewise, from places. */
__device__ __forceinline__ void suspects_in_places(const Suspects &suspects, ptrdiff_t unit,
                                                   int row, int count, uint32_t &lo, uint32_t &hi)
{
    lo = hi = 0;
    for (int i = 0; i < count; ++i) {
        const int place = load_place(suspects, unit, i), col = place / kUnitRows;
        const uint32_t suspect = place % kUnitRows == row % kUnitRows;
        lo |= col < 32 ? suspect << col : 0;
        hi |= col < 32 ? 0 : suspect << (col - 32);
    }
}

/* Stores a result, or what float64 makes of it if float32 lost digits. */
template <typename M, typename T>
__device__ __noinline__ void finish_element(const Cdist<T> &call, ptrdiff_t row, ptrdiff_t col,
                                            T total)
{
    if constexpr (M::template guarded<T>) {
        if (total == 0 && is_itself(call, row, col) && !adds_terms<M>(call)) {
            call.row(row)[col] = 0; /* of which M::finish would make NaN */
            return;
        }
    }
    const T result = result_of<M>(call, row, col, total);
    call.row(row)[col] = result;
    if constexpr (M::template guarded<T>) {
        if (!is_safe<M>(call, result)) {
            Run<T> run(call, col, 1);
            run.count = 1; /* the neighbours may be other threads' */
            recompute_run<M>(call, row, row + 1, run);
        }
    }
}

}  // namespace product_form
}  // namespace gd
#endif
