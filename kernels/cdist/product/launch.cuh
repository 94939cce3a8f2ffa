/* launch.cuh: what the launchers of tensor_sm90a.cu and tensor_f64.cu share: laying out the
 * workspace, enqueuing, the steps before and after the product, and the choice of the metric. */
#ifndef GPUDIST_CDIST_PRODUCT_LAUNCH_CUH
#define GPUDIST_CDIST_PRODUCT_LAUNCH_CUH

#include <type_traits>

#include "cdist/product/centre.cuh"
#include "cdist/product/recompute/dense.cuh"
#include "cdist/product/recompute/order.cuh"
#include "cdist/product/recompute/share_out.cuh"

namespace gd {
namespace product_form {

/* Lays arrays out from `at` on, or counts their bytes if that is NULL. */
struct Layout {
    unsigned char *at;
    size_t bytes = 0;

    template <typename T>
    void operator()(T *&array, ptrdiff_t count)
    {
        array = reinterpret_cast<T *>(at + bytes);
        bytes += ((size_t)count * sizeof(T) + 255) & ~(size_t)255;
    }
};

/* Whether both are the same rows, which then are prepared once. */
inline bool same_rows(const gd_matrix &x, const gd_matrix &y)
{
    return x.data == y.data && x.rows == y.rows && x.row_stride == y.row_stride &&
           x.col_stride == y.col_stride;
}

/* The steps of a call, kernels that begin with follow(), as long as all goes well. */
struct Steps {
    const gd_launch &launch;
    int processors = 0;
    cudaError_t code;

    explicit Steps(const gd_launch &launch_)
        : launch(launch_),
          code(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                      launch.device.index))
    {
    }

    template <typename... Parameters, typename... Arguments>
    void enqueue(void (*kernel)(Parameters...), ptrdiff_t blocks, dim3 threads, size_t shared_bytes,
                 const Arguments &...arguments)
    {
        if (code == cudaSuccess) {
            code = gd::enqueue<Start::kEarly>(launch, kernel, blocks, threads, shared_bytes,
                                              arguments...);
        }
    }
};

/* The steps before all others. */
template <typename T>
void find_centre_of(Steps &steps, const gd_cdist &call, Sample *sample, Shift<T> *shift,
                    unsigned *all_direct, const Bounds &bounds)
{
    const Points<T> whole_b = points_of<T>(call.whole_b);
    const ptrdiff_t d = call.a.cols;
    /* A multiprocessor's memory is divided as find_centre needs it, else that has to wait until
     * measure has left: 1 to 2 us from d = 128 on. */
    if (steps.code == cudaSuccess) {
        steps.code =
            cudaFuncSetAttribute(measure<T>, cudaFuncAttributePreferredSharedMemoryCarveout, 40);
    }
    steps.enqueue(measure<T>, kMiddle * kParties, dim3(kMeasureThreads), 0, whole_b, d, sample);
    steps.enqueue(find_centre<T>, ceil_div(d, kCentreDims) + 1, dim3(kCentreWarps * 32), 0, whole_b,
                  d, sample, bounds, direct_from<T>(d), shift, all_direct);
}

/* Computes what is listed for it; or all, if that is what the sample told. */
template <gd_metric kMetric, typename T>
void compute_dense(Steps &steps, const gd_cdist &call, const Suspects &suspects)
{
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t blocks = min(suspects.parts(), (ptrdiff_t)steps.processors * kDenseBlocks);
    with_form(call, [&](auto form) {
        constexpr Form kForm = decltype(form)::value;
        steps.enqueue(dense<kMetric, T, kForm>, blocks, dim3(kTileThreads), sizeof(Tile<T>),
                      parameters_of<T, kForm>(call), suspects, words);
        return steps.code;
    });
}

/* Computes suspect elements again; or all, if that is what the sample told. sorts: looks for a
 * better order of the rows first. */
template <gd_metric kMetric, typename T>
void recompute_suspects(Steps &steps, const gd_cdist &call, const Suspects &suspects,
                        bool sorts = true)
{
    const Cdist<T> parameters = parameters_of<T>(call);
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t rows = suspects.tiles_down * kTileRows;
    const ptrdiff_t enough = enough_suspects(call.out.cols, call.a.cols);
    const auto blocks = [&](ptrdiff_t each) {
        return min(suspects.parts(), steps.processors * each);
    };
    if (sorts) {
        steps.enqueue(find_keys<T>, rows / kUnitRows / (kKeyThreads / 32), dim3(kKeyThreads), 0,
                      suspects, enough);
        steps.enqueue(sort_rows<T>, ceil_div(rows, (ptrdiff_t)kWindow), dim3(kSortThreads),
                      kKeys * sizeof(int), suspects, enough);
    }
    steps.enqueue(recompute_direct<kMetric, T>, blocks(kRecomputeBlocks),
                  dim3(kRecomputeWarps<T> * 32), kRecomputeWarps<T> * sizeof(Singles<T>),
                  parameters, suspects, words);
    compute_dense<kMetric, T>(steps, call, suspects);
}

/* Does what both launchers do: lay_out(plan, take) takes the plan's arrays, and launch(metric,
 * plan) enqueues the steps for one of the metrics that products give. */
template <typename Plan, typename LayOut, typename Launch>
gd_status launch_products(gd_cdist *call, const char *id, gd_error *err, LayOut &&lay_out,
                          Launch &&launch)
{
    Plan plan;
    Layout take = {(unsigned char *)call->launch.workspace};
    lay_out(plan, take);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = take.bytes;
        return GD_OK;
    }
    const auto launch_it = [&](auto metric) {
        GD_CUDA_TRY(err, id, launch(metric, plan));
        return GD_OK;
    };
    switch (call->metric) {
        case GD_SQEUCLIDEAN:
            return launch_it(std::integral_constant<gd_metric, GD_SQEUCLIDEAN>{});
        case GD_COSINE:
            return launch_it(std::integral_constant<gd_metric, GD_COSINE>{});
        case GD_INNER_PRODUCT:
            return launch_it(std::integral_constant<gd_metric, GD_INNER_PRODUCT>{});
        default:
            return launch_it(std::integral_constant<gd_metric, GD_EUCLIDEAN>{});
    }
}

}  // namespace product_form
}  // namespace gd
#endif
