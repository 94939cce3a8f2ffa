/* plan.cuh: a search by boxes as its kernels see it, and why it passes over nobody's neighbour.
 *
 * Points of B lie along a curve through space (arrange.cuh); 32 that follow each other are a leaf,
 * with a box around it, 32 leaves that follow each other a node, with a box around them, and so on,
 * until 32 nodes or fewer are left. Node i of a level holds nodes 32 i to 32 i + 31 of the level
 * below, or at level 0 leaf i's points; a group is what a node holds. Of each group a word lies
 * beside the next one's, so that a warp reads it at once: the points' columns, one after the other,
 * or for each column the boxes' lower ends, then their upper ones.
 *
 * A point's reported distance is that of the direct form (reported): its differences' sum,
 * operation by operation, and the root of that. A box is passed over by what nearest_in() says of
 * it, with these reasons.
 *
 * 1. c, the row of A with each column moved to the nearer end of the box where it is beyond, is as
 * near as a point of the box can be: in each column the size of the rounded difference to c is at
 * most that to any p in the box, because rounding keeps order. Sums are in order too: a rounded
 * sum of larger parts is no smaller. So sum(c) <= sum(p) in floating point, without a margin.
 *
 * 2. Where the sum is the distance, so it is for distances. float64's root is rounded correctly,
 * and keeps order as well.
 *
 * 3. float32 sums of squares that are out of range become float64 ones, which are rounded once: as
 * long as both c's and p's are, order is kept, so an infinite distance(c), whose sum is infinite,
 * needs no margin. Nor does one whose sum is in range and whose root is rounded correctly: either
 * sum(p) is in range as well, or it has overflown, and p is twice as far at least if c is no
 * further than half of the range. Roots from four columns on are of one instruction, which nobody
 * says keeps order. In these and all other cases reported distances are within 10 * 2^-24 of what
 * they were without rounding (eight additions of squares, and two for the differences; half of that
 * and 2^-23 with a root), which does not decrease from c to p: so distance(c) less 2^-19 of itself
 * is a bound.
 *
 * 4. Where all points of a box are equal, c is one of them: its distance is theirs.
 *
 * Rows with NaN are nobody's neighbours, but for chebyshev, whose maximum drops NaN: they are last
 * on the curve and in no box, or there in one without ends. A node also has the least index of its
 * points: if it is no nearer than the last of a full list, and all its indices are larger than that
 * one's, nothing in it belongs to the list. So equal points are no reason to look at all. */
#ifndef GPUDIST_NEIGHBORS_BOXES_PLAN_CUH
#define GPUDIST_NEIGHBORS_BOXES_PLAN_CUH

#include "arch/dependent.cuh"
#include "arch/warp.cuh"
#include "common/periodic.cuh"
#include "common/metrics.cuh"
#include "neighbors/keys.cuh"

namespace gd {
namespace boxes {

constexpr int kMostDims = GD_BOXES_COLS;
constexpr int kMostLevels = 5; /* of boxes, for 2^30 points */
constexpr int kMostSlots = GD_BOXES_NEIGHBORS / kWarp;
constexpr unsigned kNone = 0xffffffffu; /* the index of no point */
constexpr int kThreads = 256, kWarps = kThreads / kWarp;
/* Columns that have equally many values of a sample below, from one to the next. */
constexpr int kSample = 1024, kKnots = 64;

/* The largest number of a type that is no larger. */
template <typename T>
__device__ __forceinline__ T at_most(double x)
{
    const T near = (T)x;
    return (double)near <= x ? near : below(near);
}

/* kDims: columns that points are arranged in, those beyond d being 0. */
template <typename T, int kDims>
struct Plan {
    Points<T> a, b;
    int d, levels, bits; /* bits: of a column's place on the curve */
    unsigned count;      /* points of B */
    bool drops_nan;      /* rows with NaN are at some distance: chebyshev */
    bool rooted;         /* distances are roots of sums: euclidean */
    T *knots, *spreads;  /* kDims times kKnots + 1, and kDims */
    /* Places on the curve and indices of those who have them, of B or a block of A's rows, and the
     * same in order; `index` are B's in order, kNone for those that complete the last leaf. */
    uint64_t *places, *sorted_places;
    unsigned *numbers, *index;
    T *points;
    /* In a periodic box: its columns' lengths, infinity where one is not periodic, and rounded; how
     * far sums of places may be off (images.cuh); and exact images beside the points. */
    bool periodic;
    double lengths[kDims];
    T sizes[kDims], slack;
    double *images;
    T *ends[kMostLevels];
    unsigned *least[kMostLevels];
    unsigned nodes[kMostLevels];
    /* Of a search: the rows of A in the order they are looked for, or NULL; which of them; row 0 of
     * B that is A's first, or no row's; where neighbours go. */
    const unsigned *order;
    unsigned first, rows;
    unsigned *left, *left_count; /* rows that mates.cuh leaves to others; or NULL */
    unsigned self;
    int wanted;
    T *distances;
    int64_t *indices;
    /* What no neighbour of a row is beyond: of each row of A, or one for all; NULL: none has one.
     */
    const double *limits;
    bool one_limit;

    __host__ __device__ unsigned leaves() const { return nodes[0]; }
    /* Where a column of a row is: its image, rounded, in a periodic box. */
    __device__ __forceinline__ double place(const Points<T> &rows, ptrdiff_t row, int k) const
    {
        const T x = rows.at(row, k);
        return periodic ? image_in((double)x, lengths[k]) : (double)x;
    }
    __device__ __forceinline__ unsigned row_at(unsigned at) const
    {
        return order != NULL ? order[first + at] : first + at;
    }
    __device__ __forceinline__ T limit_of(unsigned row) const
    {
        const T limit =
            limits == NULL ? infinity<T>() : at_most<T>(limits[one_limit ? 0 : (ptrdiff_t)row]);
        return limit > 0 ? limit : T(0); /* the bits of -0 are no distance's */
    }
};

/* Where c is (see above), for low <= high. A column of a that is NaN stays so, as differences to it
 * do. */
template <typename T>
__device__ __forceinline__ T nearest_end(T a, T low, T high)
{
    return a < low ? low : a > high ? high : a;
}

/* Whether the root of a sum is rounded correctly, as that of narrow.cu, which has up to three
 * columns; those of short.cu and all that have its bits are of one instruction (finish). */
template <typename M, typename T, int kDims>
constexpr bool kSureRoot = !M::root || sizeof(T) == sizeof(double) || kDims <= 3;

template <typename M, int kDims>
__device__ __forceinline__ float in_f64(const float (&a)[kDims], const float (&b)[kDims])
{
    double total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        total = M::term(total, (double)a[k], (double)b[k]);
    }
    return (float)M::finish(total);
}

/* The distance of a sum that is within the safe range. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_of(T sum)
{
    if constexpr (kSureRoot<M, T, kDims>) {
        return M::finish(sum);
    }
    else {
        return finish<M>(sum, kMostDims);
    }
}

/* The sum behind a distance. Columns beyond d, which are 0 here and there, add 0. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T sum_of(const T (&a)[kDims], const T (&b)[kDims])
{
    T total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        total = M::term(total, a[k], b[k]);
    }
    return total;
}

/* The distance that cdist reports, with the bits of the kernels that auto takes for so many columns
 * and with those of cuda_tile. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T reported(const T (&a)[kDims], const T (&b)[kDims])
{
    const T total = sum_of<M, T, kDims>(a, b);
    if constexpr (!M::template guarded<T>) {
        return M::finish(total);
    }
    else {
        float result = distance_of<M, T, kDims>(total);
        if (!is_good<M>(result)) {
            bool equal = true;
#pragma unroll
            for (int k = 0; k < kDims; ++k) {
                equal &= a[k] == b[k];
            }
            /* Infinities are not at distance 0 from each other. */
            result = equal && total == 0 ? 0.0f : in_f64<M, kDims>(a, b);
        }
        return result;
    }
}

/* What no point of a box is nearer than. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T nearest_in(const Plan<T, kDims> &, const T (&a)[kDims],
                                        const T (&low)[kDims], const T (&high)[kDims])
{
    T c[kDims];
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        c[k] = nearest_end(a[k], low[k], high[k]);
    }
    T result = reported<M, T, kDims>(a, c);
    if constexpr (M::template guarded<T>) {
        constexpr float kHalf = M::root ? 0x1p63f : FLT_MAX / 2;
        const bool sure = kSureRoot<M, T, kDims> && is_good<M>(result) && result <= kHalf;
        if (!sure && result <= FLT_MAX) {
            bool equal = true;
#pragma unroll
            for (int k = 0; k < kDims; ++k) {
                equal &= low[k] == high[k];
            }
            result = equal ? result : result * (1 - 0x1p-19f);
        }
    }
    /* NaN: not known. To hold it against 0 would not do: a compiler knows sums of sizes to be no
     * less, and forgets NaN. */
    return result == result ? result : T(0);
}

}  // namespace boxes
}  // namespace gd
#endif
