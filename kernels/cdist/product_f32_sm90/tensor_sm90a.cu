/* tensor_sm90a.cu: cdist of float32 points on the tensor cores of Hopper GPUs.
 *
 * Idea: d^2 = |a|^2 + |b|^2 - 2ab, with the products in three terms of halves: x = hi + lo, and
 * ab = hi hi + (hi lo + lo hi), which leaves out 2^-22 of it. That is exact enough as long as d^2
 * does not cancel; elements where it does are suspect and computed again directly.
 *
 * What keeps the error at a few 1e-7:
 * - Rows move so that the middle of `b` is at 0 (product/centre.cuh), and their norms are exact.
 * - Tensor cores truncate as they add. Every 32 dimensions their sums are drained into float32
 *   registers and start afresh.
 * - hi lo and lo hi of the same eight dimensions are one product of 16. Its terms are the same
 *   when a and b change places, so cdist(X, X) is symmetric to the last bit.
 *
 * Floor of 16384 x 16384 on an H200: writing, 0.23 ms; three products of halves at 790e12
 * operations a second, d = 128 0.26 ms, d = 1024 2.1 ms.
 *
 * Reached there, euclidean, normal data: d = 20 0.392 ms, 24 0.348, 32 0.324, 33 0.377, 64 0.335,
 * 128 0.465, 256 0.74, 1024 2.46 to 2.9; 8192 x 8192, d = 24 0.109, 32 0.095, 33 0.115, 64 0.105,
 * 100 0.137, 128 0.139, and of rows with themselves d = 64 0.107, 128 0.141; cosine d = 32 0.32,
 * 128 0.48, correlation 0.49. Of d = 64 the centre is known after 9 us and rows are prepared after
 * 16, products are stored after 324, and the steps that find nothing end 5 to 10 later. Few
 * rows of `a`, 1 x 65536: d = 64 40 us (it was 76), 128 54 (86), 512 141 (191), of which images
 * take half. The least a call takes is 19 us, steps that follow each other. Power sets the pace of
 * all that lasts: within a second at 690 W the clock falls from 1.98 GHz to 1.45, and all takes 10
 * to 18 % longer; 0.5 s of rest bring it back. Even a single call runs at 1.72 GHz while it
 * multiplies, at d = 128. Without its stores d = 128 takes 4 to 7 % less: products bind there, not
 * memory. Rows of results that start anywhere, n = 16383: d = 128 0.57. Pairs alone, half of the
 * work: d = 32 0.24, 64 0.25, 128 0.31, 1024 1.36; the steps around the products, 0.035 ms, are not
 * halved, and rows start anywhere, which takes another 0.03 to 0.045 (product/lines.cuh).
 *
 * Sixteen clusters, 6.25 % computed again: d = 32 0.88 ms (tile.cu 0.83), 128 1.08, 1024 4.4. Two
 * places, a quarter computed again: d = 32 0.90, 128 1.6, 1024 8.7 (tile.cu 0.83, 2.8, 23).
 * Near-duplicates in one place, outliers or not: as normal data. Heavy tails: d = 32 0.66, 1.5 %
 * computed one by one, 64 0.52, 128 0.67. Errors stand in product_f32/operands.cuh; that of
 * sqeuclidean is twice as large, up to 9e-7.
 *
 * Scaled rows (recompute/scaled.cuh), d = 128: weighted euclidean and sqeuclidean 0.50, hellinger
 * 0.51 with its roots, mahalanobis 0.58 with its rows times the factor; direct sums took 3.9 and
 * 3.0, and mahalanobis 4.0. d = 64 0.35, 256 0.75; d = 32 0.40, where the suspects of ordinary data
 * go the way of recompute/share_out.cuh. Sixteen clusters 1.36, heavy tails 0.75.
 *
 * Steps, a file each: product/centre.cuh, product_f32/prepare.cuh, multiply.cuh with walk.cuh,
 * product_f32/store.cuh and product/lines.cuh, or multiply_few.cuh for few results, and for the
 * suspect elements product_f32/recompute_own.cuh, or product/recompute/order.cuh, share_out.cuh and
 * dense.cuh. The first and the last are compiled once for all float32 products, in
 * product_f32/steps.cu. */
#include "cdist/product_f32/launch.cuh"
#include "cdist/product_f32_sm90/multiply_few.cuh"

namespace {

using namespace gd::tensor;
using gd::Cdist;
using gd::Layout;
using gd::Steps;

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, Plan &plan)
{
    const Cdist<float> parameters = gd::parameters_of<float>(call);
    Steps steps(call.launch);
    prepare_rows<kMetric>(steps, call, plan, kUnitRows * kTileCols, kUnitRows);
    const ptrdiff_t blocks = min(steps.processors, kMostBlocks);
    const ptrdiff_t halves = plan.tiles_down * (kTileRows / kGroupRows);
    const bool one_group = call.out.rows <= kGroupRows;
    if (!one_group && 2 * halves * plan.suspects.parts_across <= blocks) {
        steps.enqueue(multiply_few<kMetric>, halves * plan.suspects.parts_across, dim3(kFewThreads),
                      sizeof(FewShared), parameters, plan);
    }
    else {
        steps.enqueue(one_group ? multiply_rows<kMetric, true> : multiply_rows<kMetric, false>,
                      min(plan.tiles_down * plan.tiles_across, blocks), dim3(kThreads),
                      sizeof(Shared), parameters, plan);
    }
    /* A single group of rows is the same in any order. */
    recompute_f32(steps, call, plan.weights, plan.terms, plan.suspects, plan.tiles_down > 1);
    return steps.code;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor(gd_cdist *call, gd_error *err)
{
    return launch_products<Plan>(
        call, "cdist/cuda_tensor", err,
        [&](Plan &plan, Layout &take) { lay_out(*call, plan, kMostBlocks * kWarps, take); },
        [&](auto metric, Plan &plan) { return launch<decltype(metric)::value>(*call, plan); });
}
