/* launch.cuh: the steps before and after the product, for one dtype each: float32 has them in
 * product_f32/steps.cu, float64 in product_f64/tensor_f64.cu. */
#ifndef GPUDIST_CDIST_PRODUCT_LAUNCH_CUH
#define GPUDIST_CDIST_PRODUCT_LAUNCH_CUH

#include "cdist/mahalanobis.cuh"
#include "cdist/product/recompute/dense.cuh"
#include "cdist/product/recompute/order.cuh"
#include "cdist/product/recompute/share_out.cuh"
#include "cdist/product/steps.cuh"

namespace gd {
namespace product_form {

/* The steps before all others. */
template <typename T>
void find_centre_of(Steps &steps, const gd_cdist &call, Sample *sample, const Weights<T> &weights,
                    Shift<T> *shift, unsigned *all_direct, const Bounds &bounds)
{
    const Points<T> whole_b = points_of<T>(call.whole_b);
    const ptrdiff_t d = call.a.cols;
    /* A multiprocessor's memory is divided as find_centre needs it, else that has to wait until
     * measure has left: 1 to 2 us from d = 128 on. */
    if (steps.code == cudaSuccess) {
        steps.code =
            cudaFuncSetAttribute(measure<T>, cudaFuncAttributePreferredSharedMemoryCarveout, 40);
    }
    steps.enqueue(measure<T>, kMiddle * kLaneRows, dim3(kMeasureThreads), 0, whole_b, d,
                  weights.given, sample);
    steps.enqueue(find_centre<T>, ceil_div(d, kCentreDims) + 1, dim3(kCentreWarps * 32), 0, whole_b,
                  d, sample, bounds, direct_from<T>(d), weights, shift, all_direct);
}

/* What a call is to kernels that compute suspects by the metric M. */
template <typename M, typename T, Form kForm = Form::kEither>
CallFor<M, T, kForm> call_for(const gd_cdist &call, [[maybe_unused]] const Weights<T> &weights,
                              [[maybe_unused]] const RowTerms &terms)
{
    if constexpr (kScales<M>) {
        return {parameters_of<T, kForm>(call), weights, terms, call.metric != GD_SQEUCLIDEAN};
    }
    else if constexpr (kIsEnded<M>) {
        return {parameters_of<T, kForm>(call), product_metric(call)};
    }
    else {
        return parameters_of<T, kForm>(call);
    }
}

/* Computes what is listed for it; or all, if that is what the sample told. */
template <typename M, typename T>
void compute_dense(Steps &steps, const gd_cdist &call, const Weights<T> &weights,
                   const RowTerms &terms, const Suspects &suspects)
{
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t blocks = min(suspects.parts(), (ptrdiff_t)steps.processors * kDenseBlocks);
    const auto enqueue_for = [&](auto form) {
        constexpr Form kForm = decltype(form)::value;
        steps.enqueue(dense<M, T, kForm>, blocks, dim3(kTileThreads),
                      sizeof(Tile<T>) <= steps.shared ? sizeof(Tile<T>) : sizeof(Tile<T, false>),
                      call_for<M, T, kForm>(call, weights, terms), suspects, words);
        return steps.code;
    };
    if constexpr (kScales<M>) { /* one for both forms */
        enqueue_for(FormOf<Form::kEither>{});
    }
    else {
        with_form(call, enqueue_for);
    }
}

/* Computes suspect elements by the metric M; or all, if that is what the sample told. sorts: looks
 * for a better order of the rows first. */
template <typename M, typename T>
void recompute_by(Steps &steps, const gd_cdist &call, const Weights<T> &weights,
                  const RowTerms &terms, const Suspects &suspects, bool sorts)
{
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t rows = suspects.tiles_down * kTileRows;
    const ptrdiff_t enough = enough_suspects(call.out.cols, call.a.cols);
    const auto blocks = [&](ptrdiff_t each) {
        return min(suspects.parts(), steps.processors * each);
    };
    if (sorts) {
        steps.enqueue(find_keys<T>, rows / kUnitRows / (kKeyThreads / 32), dim3(kKeyThreads), 0,
                      suspects, enough);
        /* 7.5 has 64 KB: there rows stay as they are. */
        constexpr size_t kSortBytes = kKeys * sizeof(int);
        const bool room = kSortBytes < steps.shared;
        steps.enqueue(sort_rows<T>, ceil_div(rows, (ptrdiff_t)kWindow), dim3(kSortThreads),
                      room ? kSortBytes : 0, suspects, enough, room);
    }
    const int fit = (int)(steps.shared / sizeof(Singles<T>)), warps = min(fit, kRecomputeWarps<T>);
    steps.enqueue(recompute_direct<M, T>, blocks(kRecomputeBlocks), dim3(warps * kLanes),
                  warps * sizeof(Singles<T>), call_for<M, T>(call, weights, terms), suspects,
                  words);
    compute_dense<M, T>(steps, call, weights, terms, suspects);
}

/* What computes suspects by a metric. In float64 there is one for all whose sums are the same; in
 * float32 that took 3 to 7 % longer where most elements are suspect (NOTES.md). */
template <gd_metric kMetric, typename T>
using SuspectsBy = std::conditional_t<sizeof(T) == sizeof(double) && kMetric != GD_INNER_PRODUCT,
                                      Ended, Metric<kMetric>>;

/* Recomputes suspects by what belongs to the call. */
template <typename T>
void recompute_suspects(Steps &steps, const gd_cdist &call, const Weights<T> &weights,
                        const RowTerms &terms, const Suspects &suspects, bool sorts)
{
    with_product_metric(call, [&](auto metric) {
        constexpr gd_metric kMetric = decltype(metric)::value;
        if ((kMetric == GD_EUCLIDEAN || kMetric == GD_SQEUCLIDEAN) && weights.roots) {
            recompute_by<Scaled>(steps, call, weights, terms, suspects, sorts);
        }
        else {
            recompute_by<SuspectsBy<kMetric, T>>(steps, call, weights, terms, suspects, sorts);
        }
    });
}

/* The last step of mahalanobis, which finds nothing to do where nothing was lost. */
inline void finish_forms(Steps &steps, const gd_cdist &call, const RowTerms &terms)
{
    if (call.metric == GD_MAHALANOBIS && steps.code == cudaSuccess) {
        steps.code = recompute_lost_forms(call, terms.lost);
    }
}

}  // namespace product_form
}  // namespace gd
#endif
