/* images.cuh: a row of A in a periodic box, as searches by boxes see it.
 *
 * Points lie along the curve, and in boxes, as their images near 0 (common/periodic.cuh), rounded
 * to the type of the elements. What a search asks of a row (sums.cuh, plan.cuh) it is told of
 * these: from image to image it is as far as straight on, or as a length less that. Both are off by
 * no more than the images' and three more roundings, each of which takes at most half a last digit
 * of the length. So sums are those of places within `slack` of the true ones, and so are their
 * roots for every metric here: limits are that much wider where a point could be within them, and
 * that much narrower where it is sure to be.
 *
 * No point of a box of images has a smaller sum than the box: in each column the nearer way to it
 * is the one straight on to the nearer end, or the one over the periodic box's end to the other,
 * operation by operation no longer than a point's.
 *
 * Distances are of images in float64, with the bits of cdist/cuda_in_box, up to whose first fold
 * of columns there are here, and are computed where a sum does not tell, or for those that are to
 * be reported, all at once. The call for the former makes walks spill up to 40 bytes a thread,
 * which are read and written once a row or a node, and nowhere in the loop over leaves. */
#ifndef GPUDIST_NEIGHBORS_BOXES_IMAGES_CUH
#define GPUDIST_NEIGHBORS_BOXES_IMAGES_CUH

#include "neighbors/boxes/look.cuh"

namespace gd {
namespace boxes {

static_assert(kMostDims <= GD_FOLD, "distances are of one fold");

template <typename T, int kDims>
struct Image {
    T near[kDims]; /* rounded */
    unsigned row;  /* for those who need more */
};
/* Distances and limits are few beside sums; float's search in eight columns took 3 to 5 % longer.
 */
template <int kDims>
constexpr bool kEndsByPlan<Image<double, kDims>> = true;
/* Whether distances are roots of sums. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ bool is_rooted(const Plan<T, kDims> &plan)
{
    return kEndsByPlan<Image<T, kDims>> ? M::squares && plan.rooted : M::root;
}

/* How much a sum's distance may be off in a column of that length: half a last digit four times,
 * and as much for the margins that others take to be theirs. */
template <typename T>
double slack_of(double length)
{
    const bool single = sizeof(T) == sizeof(float);
    const bool fits = !single || length <= (double)(FLT_MAX / 4) || length > DBL_MAX;
    return length > DBL_MAX ? 0 : fits ? length * (single ? 0x1p-21 : 0x1p-50) : HUGE_VAL;
}

/* Tells a plan of the box that its columns are those of. */
template <typename T, int kDims>
void set_lengths(Plan<T, kDims> &plan, const double *lengths)
{
    double slack = 0;
    for (int k = 0; k < kDims; ++k) {
        plan.lengths[k] = k < plan.d ? lengths[k] : HUGE_VAL;
        plan.sizes[k] = (T)plan.lengths[k];
        slack += slack_of<T>(plan.lengths[k]);
    }
    plan.periodic = true;
    plan.slack = (T)(slack * (1 + 0x1p-20));
}

/* ---------------------------------------------------------------- what a row is asked */

template <typename T, int kDims>
__device__ __forceinline__ bool read_row(const Plan<T, kDims> &plan, unsigned row,
                                         Image<T, kDims> &a)
{
    bool is_nan = false;
    a.row = row;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const double x = k < plan.d ? (double)plan.a.at(row, k) : 0;
        a.near[k] = (T)image_in(x, plan.lengths[k]);
        is_nan |= a.near[k] != a.near[k];
    }
    return !is_nan || plan.drops_nan;
}

__device__ __forceinline__ float lesser(float x, float y) { return fminf(x, y); }
__device__ __forceinline__ float larger(float x, float y) { return fmaxf(x, y); }
__device__ __forceinline__ float size_of(float x) { return fabsf(x); }
__device__ __forceinline__ double size_of(double x) { return fabs(x); }
/* As in gd_max_abs: fmin is ten instructions. The first one where the other is NaN. */
__device__ __forceinline__ double lesser(double x, double y) { return y < x ? y : x; }
__device__ __forceinline__ double larger(double x, double y) { return y > x ? y : x; }

template <typename M, typename T, int kDims>
__device__ __forceinline__ T sum_to(const Plan<T, kDims> &plan, const Image<T, kDims> &a,
                                    const T (&b)[kDims])
{
    T total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const T straight = size_of(a.near[k] - b[k]);
        total = M::term(total, lesser(straight, plan.sizes[k] - straight), T(0));
    }
    return total;
}

template <typename M, typename T, int kDims>
__device__ __forceinline__ T least_sum(const Plan<T, kDims> &plan, const Image<T, kDims> &a,
                                       const T (&low)[kDims], const T (&high)[kDims])
{
    T total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const T under = low[k] - a.near[k], above = a.near[k] - high[k];
        const T over = plan.sizes[k] + lesser(under, above);
        const T nearer = lesser(larger(under, above), over);
        total = M::term(total, larger(T(0), nearer), T(0));
    }
    return total;
}

/* A row's exact images, for some distances. */
template <typename T, int kDims>
struct Exact {
    double x[kDims];

    __device__ __forceinline__ Exact(const Plan<T, kDims> &plan, unsigned row)
    {
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            x[k] = image_in(k < plan.d ? (double)plan.a.at(row, k) : 0, plan.lengths[k]);
        }
    }
};

/* The distance to a point that has this place along the curve. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_to(const Plan<T, kDims> &plan, const Exact<T, kDims> &a,
                                         unsigned place)
{
    const double *const from =
        plan.images + (ptrdiff_t)(place / kWarp) * (kDims * kWarp) + place % kWarp;
    double total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        const double half = plan.lengths[k] / 2, x = a.x[k], y = __ldg(from + k * kWarp);
        total = M::term(total, apart_of(x, half - fabs(x), y, half - fabs(y)), 0.0);
    }
    return (T)(is_rooted<M>(plan) ? gd_root(total) : total);
}
/* The same where that is rare, and should take no registers from a walk. */
template <typename M, typename T, int kDims>
__device__ __noinline__ T rare_distance_to(const Plan<T, kDims> &plan, unsigned row, unsigned place)
{
    return distance_to<M>(plan, Exact<T, kDims>(plan, row), place);
}

template <typename M, typename T, int kDims>
__device__ __forceinline__ bool is_within(const Plan<T, kDims> &plan, unsigned leaf,
                                          const Image<T, kDims> &a, const T (&)[kDims], T limit)
{
    return rare_distance_to<M>(plan, a.row, leaf * kWarp + threadIdx.x % kWarp) <= limit;
}
/* Nothing is nearer than the row itself, if that is at some distance. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ bool is_own_within(const Plan<T, kDims> &, const Image<T, kDims> &a,
                                              T limit)
{
    T total = 0;
#pragma unroll
    for (int k = 0; k < kDims; ++k) {
        total = M::term(total, a.near[k], a.near[k]);
    }
    return total <= limit;
}

/* ---------------------------------------------------------------- limits */

template <typename M, typename T, int kDims>
__device__ __forceinline__ Reach<T> reach_for(const Plan<T, kDims> &plan, const Image<T, kDims> &,
                                              T limit)
{
    const T length = M::squares && !is_rooted<M>(plan) ? sqrt(limit) : limit;
    const T inner = length > plan.slack ? length - plan.slack : T(0), outer = length + plan.slack;
    return reach_between(M::squares ? inner * inner : inner, M::squares ? outer * outer : outer);
}

/* That of the largest of some distances, whose sums are up to this. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T reach_from(const Plan<T, kDims> &plan, const Image<T, kDims> &, T sum)
{
    const T size = (M::squares ? sqrt(sum) : sum) + 2 * plan.slack;
    return reach_between(T(0), M::squares ? size * size : size).most;
}

/* What a distance with that sum, or any larger one, is no less than. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T bound_of(const Plan<T, kDims> &plan, T sum)
{
    if (!(sum >= kLeastSum<T>)) {
        return 0;
    }
    const T most = sum < kMostSum<T> ? sum : kMostSum<T>, size = M::squares ? sqrt(most) : most;
    const T least = size * (1 - kSumMargin<T>)-plan.slack;
    return !(least > 0) ? T(0) : M::squares && !is_rooted<M>(plan) ? least * least : least;
}
template <typename M, typename T, int kDims>
__device__ __forceinline__ T nearest_in(const Plan<T, kDims> &plan, const Image<T, kDims> &a,
                                        const T (&low)[kDims], const T (&high)[kDims])
{
    return bound_of<M>(plan, least_sum<M>(plan, a, low, high));
}

/* ---------------------------------------------------------------- what is found */

/* What stands for a distance is the place of the point, whose distance can wait; one that the sum
 * does not tell is asked for it. */
__device__ __forceinline__ float as_number(unsigned place, float) { return __uint_as_float(place); }
__device__ __forceinline__ double as_number(unsigned place, double)
{
    return __longlong_as_double((long long)place);
}
__device__ __forceinline__ unsigned as_place(float x) { return __float_as_uint(x); }
__device__ __forceinline__ unsigned as_place(double x) { return (unsigned)__double_as_longlong(x); }

template <typename M, typename T, int kDims>
__device__ __forceinline__ T stand_in(const Plan<T, kDims> &plan, unsigned leaf,
                                      const Image<T, kDims> &a, const T (&)[kDims], T sum, T limit,
                                      T sure, bool &is_one)
{
    const unsigned place = leaf * kWarp + threadIdx.x % kWarp;
    if (__any_sync(kAll, is_one && !(sum <= sure))) {
        is_one = is_one && rare_distance_to<M>(plan, a.row, place) <= limit;
    }
    return as_number(place, T{});
}
template <typename T, int kDims>
__device__ __forceinline__ Exact<T, kDims> for_distances(const Plan<T, kDims> &plan,
                                                         const Image<T, kDims> &a)
{
    return {plan, a.row};
}
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_behind(const Plan<T, kDims> &plan, const Exact<T, kDims> &a,
                                             T x)
{
    return distance_to<M>(plan, a, as_place(x));
}
template <typename M, typename T, int kDims>
constexpr bool kStandsIn<M, T, Image<T, kDims>> = true;

/* The distance to a leaf's point, a lane each, or one that is behind all where none of the warp's
 * is to be up to `last`. */
template <typename M, typename T, int kDims>
__device__ __forceinline__ T distance_in(const Plan<T, kDims> &plan, unsigned leaf,
                                         const Image<T, kDims> &a, const T (&b)[kDims],
                                         unsigned last)
{
    const T least = bound_of<M>(plan, sum_to<M>(plan, a, b));
    const unsigned place = leaf * kWarp + threadIdx.x % kWarp;
    return __any_sync(kAll, word_of(least) <= last)
               ? distance_to<M>(plan, for_distances(plan, a), place)
               : behind_all<T>();
}

}  // namespace boxes
}  // namespace gd

/* All searches in a periodic box, where nearest.cuh and within.cuh are included too. */
#define GD_IMAGES_FOR(T, dims)     \
    GD_NEAREST_FOR(Image, T, dims) \
    GD_WITHIN_FOR(Image, T, dims)
#define GD_IMAGES_OF(T) \
    GD_IMAGES_FOR(T, 3) \
    GD_IMAGES_FOR(T, kMostDims)
#endif
