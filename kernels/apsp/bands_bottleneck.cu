/* bands_bottleneck.cu: least bottlenecks over a band of rows (bands.cuh): the triple loop with "the
 * larger of" for "+". It is monotone too, and the diagonal, the least number, never changes; so the
 * snapshots give the loop's lengths and predecessors here as well.
 *
 * Floor: two minima or maxima an update and, with predecessors, a comparison: semiring/rings.cuh.
 */
#include "apsp/bands.cuh"

namespace {

constexpr const char *kId = "apsp/cuda_bottleneck, out of core";

/* The numbers as they are: none is NaN or -0.0 here. */
template <typename T>
struct Highest {
    using Word = T;

    static __host__ __device__ constexpr T neutral()
    {
        return std::is_same<T, int32_t>::value ? (T)GD_I32_FAR : (T)INFINITY;
    }
    static __device__ __forceinline__ T term(T a, T b) { return a > b ? a : b; }
    static __device__ __forceinline__ void join(T &c, T a, T b)
    {
        const T way = term(a, b);
        c = way < c ? way : c;
    }
    static __device__ __forceinline__ void fold(T &c, gd::Pair<T> a, gd::Pair<T> b)
    {
        join(c, a.first, b.second);
        join(c, a.second, b.first);
    }
    /* The lesser of two results is what it is anywhere. */
    static __device__ __forceinline__ bool take(T &c, T other)
    {
        return gd::Plus<T>::take(c, other);
    }
};

template <typename T>
gd_status run(gd_apsp_band &call, gd_error *err)
{
    using Ring = Highest<T>;
    constexpr T loop = -Ring::neutral(); /* the largest weight of none */
    return call.pred != NULL ? gd::run_band<Ring, 64, true>(call, kId, loop, err)
                             : gd::run_band<Ring, 64, false>(call, kId, loop, err);
}

}  // namespace

extern "C" gd_status gd_cuda_bottleneck_band(gd_apsp_band *call, gd_error *err)
{
    return gd::with_weight_type(call->dtype,
                                [&](auto type) { return run<decltype(type)>(*call, err); });
}
