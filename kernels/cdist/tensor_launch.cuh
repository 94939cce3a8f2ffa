/* tensor_launch.cuh: what the launchers of tensor_sm90a.cu and tensor_f64.cu share: laying out the
 * workspace, enqueuing, the steps before and after the product, and the choice of the metric. */
#ifndef GPUDIST_TENSOR_LAUNCH_CUH
#define GPUDIST_TENSOR_LAUNCH_CUH

#include <type_traits>

#include "tensor_centre.cuh"
#include "tensor_dense.cuh"
#include "tensor_order.cuh"
#include "tensor_redo.cuh"

namespace gd {
namespace marked {

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

/* Whether rows can be read by aligned words, the last of which is whole. */
template <typename T>
bool reads_words(const gd_matrix &x)
{
    return x.cols % kPerWord<T> == 0 && x.col_stride == 1 &&
           rows_of_words((const T *)x.data, x.row_stride);
}

/* Whether both are the same rows, which then are prepared once. */
inline bool same_rows(const gd_matrix &x, const gd_matrix &y)
{
    return x.data == y.data && x.rows == y.rows && x.row_stride == y.row_stride &&
           x.col_stride == y.col_stride;
}

/* The steps of a call, kernels that begin with follow(), as long as all goes well. */
struct Steps {
    const gd_launch &launch;
    cudaError_t code;
    int processors = 0, generation = 0;

    explicit Steps(const gd_launch &launch_) : launch(launch_)
    {
        const int device = launch.device.index;
        code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        if (code == cudaSuccess) {
            code = cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device);
        }
    }

    template <typename... Parameters, typename... Arguments>
    void enqueue(void (*kernel)(Parameters...), ptrdiff_t blocks, dim3 threads, size_t shared_bytes,
                 const Arguments &...arguments)
    {
        if (code == cudaSuccess && blocks > INT_MAX) {
            code = cudaErrorInvalidConfiguration;
        }
        if (code == cudaSuccess && shared_bytes > 48 * 1024) { /* more has to be asked for */
            code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)shared_bytes);
        }
        if (code != cudaSuccess) {
            return;
        }
        cudaLaunchAttribute closely = {};
        closely.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        closely.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3((unsigned)blocks);
        config.blockDim = threads;
        config.dynamicSmemBytes = shared_bytes;
        config.stream = (cudaStream_t)launch.stream;
        config.attrs = &closely;
        config.numAttrs = generation >= 9; /* older devices do not know it */
        code = cudaLaunchKernelEx(&config, kernel, arguments...);
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
void compute_dense(Steps &steps, const gd_cdist &call, const Marks &marks)
{
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t blocks = min(marks.parts(), (ptrdiff_t)steps.processors * kDenseBlocks);
    with_form(call, [&](auto form) {
        constexpr Form kForm = decltype(form)::value;
        steps.enqueue(dense<kMetric, T, kForm>, blocks, dim3(kTileThreads), sizeof(Tile<T>),
                      parameters_of<T, kForm>(call), marks, words);
        return steps.code;
    });
}

/* Computes marked elements again; or all, if that is what the sample told. sorts: looks for a
 * better order of the rows first. */
template <gd_metric kMetric, typename T>
void compute_marked(Steps &steps, const gd_cdist &call, const Marks &marks, bool sorts = true)
{
    const Cdist<T> parameters = parameters_of<T>(call);
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    const ptrdiff_t rows = marks.tiles_down * kTileRows;
    const ptrdiff_t enough = enough_marks(call.out.cols, call.a.cols);
    const auto blocks = [&](ptrdiff_t each) { return min(marks.parts(), steps.processors * each); };
    if (sorts) {
        steps.enqueue(find_keys<T>, rows / kUnitRows / (kKeyThreads / 32), dim3(kKeyThreads), 0,
                      marks, enough);
        steps.enqueue(sort_rows<T>, ceil_div(rows, (ptrdiff_t)kWindow), dim3(kSortThreads),
                      kKeys * sizeof(int), marks, enough);
    }
    steps.enqueue(redo<kMetric, T>, blocks(kRedoBlocks), dim3(kRedoWarps<T> * 32),
                  kRedoWarps<T> * sizeof(Few<T>), parameters, marks, words);
    compute_dense<kMetric, T>(steps, call, marks);
}

/* What a launcher does: lay_out(plan, take) takes the plan's arrays, and launch(metric, plan)
 * enqueues the steps for one of the metrics that products give. */
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

}  // namespace marked
}  // namespace gd
#endif
