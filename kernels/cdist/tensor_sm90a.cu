/* tensor_sm90a.cu: cdist of float32 points on the tensor cores of Hopper GPUs.
 *
 * Idea: d^2 = |a|^2 + |b|^2 - 2ab, with the products in three terms of halves: x = hi + lo, and
 * ab = hi hi + (hi lo + lo hi), which leaves out 2^-22 of it. That is exact enough as long as d^2
 * does not cancel; elements where it does are marked and computed again directly.
 *
 * What keeps the error at a few 1e-7:
 * - Rows move so that the middle of `b` is at 0 (tensor_prepare.cuh), and their norms are exact.
 * - Tensor cores truncate as they add. Every 32 dimensions their sums are drained into float32
 *   registers and start afresh.
 * - hi lo and lo hi of the same eight dimensions are one product of 16. Its terms are the same
 *   when a and b change places, so cdist(X, X) is symmetric to the last bit.
 *
 * Floor of 16384 x 16384 on an H200: writing, 0.23 ms; three products of halves at 790e12
 * operations a second, d = 128 0.26 ms, d = 1024 2.1 ms.
 *
 * Reached there, euclidean, normal data: d = 32 0.46 ms, 64 0.39, 128 0.53, 256 0.82, 1024 2.6 to
 * 2.7 (the clock falls under load). Sixteen clusters, 6.25 % computed again: d = 128 1.23 ms, 1024
 * 5.1. Rows of odd strides: d = 128 0.81. Largest relative error 3.1e-7, squared 6.2e-7 (heavy
 * tails; a larger share would help, but by calculation mark 2 % of normal data at d = 64).
 *
 * Steps, a file each: tensor_prepare.cuh, tensor_multiply.cuh, and for the marked elements
 * tensor_order.cuh, tensor_redo.cuh and tensor_dense.cuh. */
#include "tensor_dense.cuh"
#include "tensor_multiply.cuh"
#include "tensor_order.cuh"
#include "tensor_prepare.cuh"
#include "tensor_redo.cuh"

namespace {

using namespace gd::tensor;
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
    plan.tiles_across = gd::ceil_div(call.out.cols, kTileCols);
    take(plan.shift, call.a.cols);
    take(plan.facts_a, plan.tiles_down);
    take(plan.facts_b, plan.tiles_across);
    take(plan.image_a, plan.tiles_down * plan.slabs * kImageA);
    take(plan.image_b, plan.tiles_across * plan.slabs * kImageB);
    take(plan.counts, plan.parts() * kUnits);
    take(plan.marks, plan.parts() * kUnits * kLanes);
    take(plan.strips, plan.tiles_down * kUnits);
    take(plan.keys, plan.tiles_down * kTileRows);
    take(plan.order, plan.tiles_down * kTileRows);
    take(plan.ordered, gd::ceil_div(plan.tiles_down, kWindowTiles));
    take(plan.cols, plan.parts() * kPartCols);
    take(plan.masks, plan.parts() * kPartCols);
    take(plan.listed, plan.tiles_down);
    take(plan.queue, plan.parts());
    take(plan.queued, 1);
    return bytes;
}

/* Whether rows can be read by aligned words, the last of which is whole. */
bool reads_words(const gd_matrix &x)
{
    return x.cols % 4 == 0 && x.col_stride == 1 &&
           gd::rows_of_words((const float *)x.data, x.row_stride);
}

template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, const Plan &plan)
{
    const Cdist<float> parameters = gd::parameters_of<float>(call);
    const bool words_a = reads_words(call.a), words_b = reads_words(call.b);
    const ptrdiff_t rows = plan.tiles_down * kTileRows, cols = plan.tiles_across * kTileCols;
    const ptrdiff_t enough = enough_marks(call.out.cols, call.a.cols);
    int processors = 0;
    cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                              call.launch.device.index);
    const auto then = [&](auto step) { code = code == cudaSuccess ? step() : code; };
    then([&] { return allow_shared(multiply_rows<kMetric>, sizeof(Shared)); });
    then([&] { return allow_shared(sort_rows, kKeys * sizeof(int)); });
    then([&] { return allow_shared(redo<kMetric>, kRedoWarps * sizeof(Few)); });
    then([&] { return allow_shared(dense<kMetric>, sizeof(Tile)); });
    if (Rules<kMetric>::shifts) {
        then([&] {
            return gd::enqueue(call.launch, find_shift, gd::ceil_div(call.a.cols, kShiftDims),
                               dim3(kShiftDims, kShiftMeans), 0, gd::points_of<float>(call.whole_b),
                               call.a.cols, plan.shift);
        });
    }
    then([&] {
        return gd::enqueue(call.launch, prepare<kMetric>, (rows + cols) / kPrepareRows,
                           dim3(kPrepareThreads), 0, parameters, plan, words_a, words_b);
    });
    then([&] {
        return gd::enqueue(call.launch, multiply_rows<kMetric>,
                           min((ptrdiff_t)plan.tiles(), (ptrdiff_t)processors), dim3(kThreads),
                           sizeof(Shared), parameters, plan);
    });
    then([&] {
        return gd::enqueue(call.launch, find_keys, rows / kUnitRows / (kKeyThreads / 32),
                           dim3(kKeyThreads), 0, plan, enough);
    });
    then([&] {
        return gd::enqueue(call.launch, sort_rows, gd::ceil_div(rows, kWindow), dim3(kSortThreads),
                           kKeys * sizeof(int), plan, enough);
    });
    then([&] {
        return gd::enqueue(call.launch, redo<kMetric>, min(plan.parts(), (ptrdiff_t)processors * 2),
                           dim3(kRedoThreads), kRedoWarps * sizeof(Few), parameters, plan,
                           words_a && words_b);
    });
    then([&] {
        return gd::enqueue(call.launch, dense<kMetric>,
                           min(plan.parts(), (ptrdiff_t)processors * 3), dim3(gd::kTileThreads),
                           sizeof(Tile), parameters, plan, words_a && words_b);
    });
    return code;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor(gd_cdist *call, gd_error *err)
{
    Plan plan;
    const size_t bytes = lay_out(*call, (unsigned char *)call->launch.workspace, plan);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = bytes;
        return GD_OK;
    }
    GD_CUDA_TRY(err, "cdist/cuda_tensor",
                call->metric == GD_SQEUCLIDEAN     ? launch<GD_SQEUCLIDEAN>(*call, plan)
                : call->metric == GD_COSINE        ? launch<GD_COSINE>(*call, plan)
                : call->metric == GD_INNER_PRODUCT ? launch<GD_INNER_PRODUCT>(*call, plan)
                                                   : launch<GD_EUCLIDEAN>(*call, plan));
    return GD_OK;
}
