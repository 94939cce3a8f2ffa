/* bands.cu: shortest paths over a band of rows (bands.cuh): the forms of blocked.cu for
 * matrices that do not fit the device.
 *
 * Floor: the updates, as in blocked.cu; what the bus carries is hidden behind them once a band goes
 * through some 2500 stages at a time (csrc/run_apsp_far.c). */
#include "apsp/bands.cuh"

#define GD_ELSEWHERE(...) extern template struct gd::ClosingKernels<__VA_ARGS__>;
GD_CLOSED_FOR_BANDS(GD_ELSEWHERE)
#undef GD_ELSEWHERE

namespace {

constexpr const char *kId = "apsp/cuda_blocked, out of core";

/* Doubles and predecessors have no registers for many pivots (phase3.cuh), small devices no shared
 * memory. What is known of the weights does not matter here: sizes must not depend on it. */
template <typename Ring>
gd_status run(gd_apsp_band &call, gd_error *err)
{
    using Many = gd::Relaxing<gd::PlusUnsigned, 128, false, gd::Whole<gd::PlusUnsigned, 128>>;
    int shared_bytes = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                       call.launch.device.index));
    if (call.pred != NULL) {
        return gd::run_band<Ring, 64, true>(call, kId, 0, err);
    }
    if constexpr (sizeof(typename Ring::Word) == 4) {
        using Quick =
            std::conditional_t<std::is_same<Ring, gd::Plus<float>>::value, gd::PlusUnsigned, Ring>;
        if ((size_t)shared_bytes >= Many::kSharedBytes) {
            return call.nonnegative ? gd::run_band<Quick, 128, false>(call, kId, 0, err)
                                    : gd::run_band<Ring, 128, false>(call, kId, 0, err);
        }
    }
    return gd::run_band<Ring, 64, false>(call, kId, 0, err);
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_band(gd_apsp_band *call, gd_error *err)
{
    if (call->semiring == GD_MIN_MAX) {
        return gd_cuda_bottleneck_band(call, err);
    }
    switch (call->dtype) {
        case GD_F32:
            return run<gd::Plus<float>>(*call, err);
        case GD_F64:
            return run<gd::Plus<double>>(*call, err);
        default:
            return run<gd::Plus<int32_t>>(*call, err);
    }
}
