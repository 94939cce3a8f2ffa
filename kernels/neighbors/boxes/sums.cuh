/* sums.cuh: what sums of differences say of distances, for searches that know a limit beforehand.
 *
 * A sum takes a third of the instructions that its distance does, with its root and what guards its
 * range. So boxes are held against the limit by sums alone, and of leaves those points whose sums
 * pass have their distances computed. Where a distance is its sum, limits are the same. Else a sum
 * is within reach up to a little more than the limit's (by 2^-18 in float32, as distances are
 * within 10 * 2^-24 of what they were without rounding, and an approximate root), or as long as it
 * may have lost what there was of squares. That is no less for a box, as plan.cuh says under 1. */
#ifndef GPUDIST_NEIGHBORS_BOXES_SUMS_CUH
#define GPUDIST_NEIGHBORS_BOXES_SUMS_CUH

#include <type_traits>

#include "common/ends.cuh"
#include "neighbors/boxes/plan.cuh"

namespace gd {
namespace boxes {

/* Whether a distance is its sum, as it is. */
template <typename M, typename T>
constexpr bool kIsSum = !M::root && !M::template guarded<T>;

/* Whether sums pass over NaN: what completes the last leaf is told by its index then. */
template <typename M>
constexpr bool kDropsNan = std::is_same_v<M, Metric<GD_CHEBYSHEV>>;

/* Calls f(Metric<...>{}) for the metric by which rows of a type are searched for. kEndsByPlan: the
 * plan says what becomes of its sums, so that metrics with equal sums are one. */
template <typename Row>
constexpr bool kEndsByPlan = false;
template <typename Row, typename F>
gd_status with_metric_for(gd_metric metric, F &&f)
{
    if constexpr (kEndsByPlan<Row>) {
        return with_terms<true>(metric, f);
    }
    else {
        return with_lp_metric(metric, f);
    }
}

/* Sums of less may have lost digits, of more may be infinite. */
template <typename T>
constexpr T kLeastSum = 0x1p-98f;
template <>
constexpr double kLeastSum<double> = 0x1p-1000;
template <typename T>
constexpr T kMostSum = 0x1p100f;
template <>
constexpr double kMostSum<double> = 0x1p1000;
template <typename T>
constexpr T kSumMargin = 0x1p-18f;
template <>
constexpr double kSumMargin<double> = 0x1p-40;
static_assert(kLeastSum<float> > 2 * GD_F32_SQUARES_SAFE_MIN, "their roots are good");

/* Sums beyond `most` are of distances beyond a limit; those up to `sure` are not. */
template <typename T>
struct Reach {
    T sure, most;
};

/* That of a limit whose sum is between these. */
template <typename T>
__device__ __forceinline__ Reach<T> reach_between(T inner, T outer)
{
    const T sure = inner * (1 - kSumMargin<T>), most = outer * (1 + kSumMargin<T>);
    const T least = 2 * kLeastSum<T>, at_least = most < least ? least : most;
    /* What a sum may have lost counts where the limit itself is so little. */
    return {sure < 2 * least     ? T(-1)
            : sure < kMostSum<T> ? sure
                                 : kMostSum<T>,
            at_least > kMostSum<T> ? infinity<T>() : at_least};
}
/* That of the limit whose sum this is. */
template <typename M, typename T>
__device__ __forceinline__ Reach<T> reach_of_sum(T sum)
{
    if constexpr (kIsSum<M, T>) {
        return {sum, sum};
    }
    else {
        return reach_between(sum, sum);
    }
}
/* What sums of points are up to that are as near as others with this sum. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T reach_from(const Plan<T, kDims> &, const T (&)[kDims], T sum)
{
    return reach_of_sum<M>(sum).most;
}
/* That of a limit. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ Reach<T> reach_for(const Plan<T, kDims> &, const T (&)[kDims], T limit)
{
    return reach_of_sum<M>(M::root ? limit * limit : limit);
}

template <typename M, typename T, int kDims>
__device__ __forceinline__ T sum_to(const Plan<T, kDims> &, const T (&a)[kDims],
                                    const T (&b)[kDims])
{
    return sum_of<M, T, kDims>(a, b);
}
/* Whether a leaf's point, that of the lane, is within a limit, and whether the row itself is. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ bool is_within(const Plan<T, kDims> &, unsigned, const T (&a)[kDims],
                                          const T (&b)[kDims], T limit)
{
    return reported<M, T, kDims>(a, b) <= limit;
}
template <typename M, typename T, int kDims>
__device__ __forceinline__ bool is_own_within(const Plan<T, kDims> &, const T (&a)[kDims], T limit)
{
    return reported<M, T, kDims>(a, a) <= limit;
}

/* What stands for the distance of a point whose sum is within reach: the sum, since its root can
 * wait until all are there; or where a sum of the warp's does not tell, minus the distance, and
 * then it is one of those that are wanted if it is within the limit. Zero has a sign, too. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T stand_in(const Plan<T, kDims> &, unsigned, const T (&a)[kDims],
                                      const T (&b)[kDims], T sum, T limit, T sure, bool &is_one)
{
    if constexpr (!kIsSum<M, T>) {
        if (__any_sync(kAll, is_one && !(sum >= kLeastSum<T> && sum <= sure))) {
            const T distance = reported<M, T, kDims>(a, b);
            is_one = is_one && distance <= limit;
            return -distance;
        }
    }
    return sum;
}
__device__ __forceinline__ bool has_sign(float x) { return __float_as_int(x) < 0; }
__device__ __forceinline__ bool has_sign(double x) { return __double2hiint(x) < 0; }
/* Whether it need not be the distance itself. */
template <typename M, typename T, typename Row>
constexpr bool kStandsIn = !kIsSum<M, T>;
/* What distances are made with, of a row that is as it is: nothing. */
struct Nothing {};
template <typename T, int kDims>
__device__ __forceinline__ Nothing for_distances(const Plan<T, kDims> &, const T (&)[kDims])
{
    return {};
}
/* The distance that it stands for. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_behind(const Plan<T, kDims> &, Nothing, T x)
{
    if constexpr (kIsSum<M, T>) {
        return x;
    }
    else {
        return has_sign(x) ? -x : distance_of<M, T, kDims>(x);
    }
}

/* How far a is beyond the nearer end, in the bits of the difference to that; 0 if it is between, or
 * an end or a is unknown (NaN). */
__device__ __forceinline__ float beyond(float a, float low, float high)
{
    return fmaxf(fmaxf(low - a, a - high), 0.0f);
}
__device__ __forceinline__ double beyond(double a, double low, double high)
{
    const double under = low - a, over = a - high;
    const double larger = under > over ? under : over;
    return larger > 0 ? larger : 0;
}

/* No point of a box has a smaller sum. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T least_sum(const Plan<T, kDims> &, const T (&a)[kDims],
                                       const T (&low)[kDims], const T (&high)[kDims])
{
    T total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        total = M::term(total, beyond(a[k], low[k], high[k]), T(0));
    }
    return total;
}

}  // namespace boxes
}  // namespace gd
#endif
