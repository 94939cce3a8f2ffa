/* tensor_f64.cu: cdist of float64 points on FP64 tensor cores.
 *
 * Idea: d^2 = |a|^2 + |b|^2 - 2ab of rows moved so that the middle of `b` is at 0, the norms exact,
 * the products by tensor cores, which round like any other instruction. That is good as long as d^2
 * does not cancel; elements where it may are marked, and computed again directly.
 *
 * Floor of 16384 x 16384 on an H200: tensor cores add 33.4e12 products a second at best, so d = 128
 * 1.03 ms, d = 1024 8.2 ms; cuBLAS reaches 28e12. Writing takes 0.46 ms, beside it.
 *
 * Reached, euclidean: d = 32 0.80 ms, d = 64 1.16, d = 128 1.74 to 1.82, d = 1024 10.7 (25.6e12 a
 * second), against 1.6, 3.2, 6.0 and 46 for tile.cu. Above d = 256 the card's power sets the pace:
 * repeated at d = 1024, a call takes up to 12.8 ms. Up to d = 128 storing adds to the products'
 * time instead of hiding behind it.
 *
 * Where it is not good: 6 % marked elements in clusters cost 4.1 ms more at d = 128, and where
 * nearly all are marked the whole takes 1.5 to 2.7 times as long as tile.cu.
 *
 * Three steps: tensor_f64_prepare.cuh, tensor_f64_multiply.cuh, and for the marked elements
 * tensor_f64_redo.cuh and tensor_f64_tile.cuh. */
#include <type_traits>

#include "tensor_f64_multiply.cuh"
#include "tensor_f64_prepare.cuh"
#include "tensor_f64_tile.cuh"

namespace {

using namespace gd::tensor_f64;
using gd::Cdist;

/* Lays the plan out from `at` on, or counts its bytes if that is NULL. */
size_t lay_out(const gd_cdist &call, unsigned char *at, Plan &plan)
{
    size_t bytes = 0;
    const auto take = [&](auto *&array, ptrdiff_t count) {
        array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at + bytes);
        bytes += ((size_t)count * sizeof *array + 255) & ~(size_t)255;
    };
    plan.slabs = gd::ceil_div(call.a.cols, kDims);
    plan.tiles_down = gd::ceil_div(call.out.rows, kTileRows);
    plan.parts_across = gd::ceil_div(call.out.cols, kTileCols);
    take(plan.shift, call.a.cols);
    take(plan.norms_a, plan.tiles_down * kTileRows);
    take(plan.norms_b, plan.parts_across * kTileCols);
    take(plan.panels_a, plan.tiles_down * 2 * plan.slabs * kPanelWords);
    take(plan.panels_b, plan.parts_across * plan.slabs * kPanelWords);
    take(plan.counts, plan.parts());
    return bytes;
}

/* Whether rows can be read by aligned words, the last of which is whole. */
bool reads_words(const gd_matrix &x)
{
    return x.cols % 2 == 0 && x.col_stride == 1 &&
           gd::rows_of_words((const double *)x.data, x.row_stride);
}

/* Marked elements, where they are few and where they are many. */
template <gd_metric kMetric, bool kWords>
cudaError_t launch_redo(const gd_cdist &call, const Plan &plan, int processors)
{
    const Cdist<double> parameters = gd::parameters_of<double>(call);
    const auto blocks = [&](int each) { return min(plan.parts(), (ptrdiff_t)processors * each); };
    const auto many = redo_many<kMetric, kWords>;
    cudaError_t code =
        cudaFuncSetAttribute(many, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Many));
    if constexpr (!Rules<kMetric>::product) {
        if (code == cudaSuccess) {
            code = gd::enqueue(call.launch, redo_few<kMetric, kWords>, blocks(8),
                               dim3(kRedoThreads), 0, parameters, plan);
        }
    }
    if (code == cudaSuccess) {
        code = gd::enqueue(call.launch, many, blocks(3), dim3(kRedoThreads), sizeof(Many),
                           parameters, plan);
    }
    return code;
}

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, Plan &plan)
{
    const double share = Rules<kMetric>::share(call.a.cols);
    plan.keep = 1 - share;
    plan.ratio = share / plan.keep;
    const Cdist<double> parameters = gd::parameters_of<double>(call);
    const bool words = reads_words(call.a) && reads_words(call.b);
    int processors = 0;
    cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                              call.launch.device.index);
    if (code == cudaSuccess) {
        code = cudaFuncSetAttribute(multiply<kMetric>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)kShared);
    }
    if (code == cudaSuccess && Rules<kMetric>::shifts) {
        code = gd::enqueue(call.launch, find_shift, gd::ceil_div(call.a.cols, kShiftDims),
                           dim3(kShiftDims, kShiftThreads), 0, gd::points_of<double>(call.whole_b),
                           call.a.cols, plan.shift);
    }
    if (code == cudaSuccess) {
        const ptrdiff_t rows = plan.tiles_down * kTileRows + plan.parts_across * kTileCols;
        code = gd::enqueue(call.launch, prepare<kMetric>, rows / kUnit, dim3(kPrepareThreads), 0,
                           parameters, plan);
    }
    if (code == cudaSuccess) {
        const ptrdiff_t tiles = plan.tiles_down * plan.parts_across;
        const unsigned band = (unsigned)min(plan.tiles_down, (ptrdiff_t)kBand);
        /* Where there is too little to do, a delay is a loss. */
        const unsigned apart = tiles < (ptrdiff_t)processors * 16 ? UINT_MAX : (unsigned)processors;
        code = gd::enqueue(call.launch, multiply<kMetric>, tiles, dim3(kThreads), kShared,
                           parameters, plan, band, apart);
    }
    if (code == cudaSuccess) {
        code = words ? launch_redo<kMetric, true>(call, plan, processors)
                     : launch_redo<kMetric, false>(call, plan, processors);
    }
    return code;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor_f64(gd_cdist *call, gd_error *err)
{
    Plan plan;
    const size_t bytes = lay_out(*call, (unsigned char *)call->launch.workspace, plan);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = bytes;
        return GD_OK;
    }
    GD_CUDA_TRY(err, "cdist/cuda_tensor_f64",
                call->metric == GD_SQEUCLIDEAN     ? launch<GD_SQEUCLIDEAN>(*call, plan)
                : call->metric == GD_COSINE        ? launch<GD_COSINE>(*call, plan)
                : call->metric == GD_INNER_PRODUCT ? launch<GD_INNER_PRODUCT>(*call, plan)
                                                   : launch<GD_EUCLIDEAN>(*call, plan));
    return GD_OK;
}
