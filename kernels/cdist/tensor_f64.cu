/* tensor_f64.cu: cdist of float64 points on FP64 tensor cores.
 *
 * Idea: d^2 = |a|^2 + |b|^2 - 2ab of rows moved so that the middle of `b` is at 0, the norms exact,
 * the products by tensor cores, which round like any other instruction. That is good as long as d^2
 * does not cancel; elements where it may are marked, and computed again directly.
 *
 * Floor of 16384 x 16384 on an H200: tensor cores add 33.4e12 products a second at best, so d = 128
 * 1.03 ms, d = 1024 8.2 ms; cuBLAS reaches 28e12. Writing takes 0.46 ms, beside it.
 *
 * Reached, euclidean: d = 5 0.83 ms, d = 8 0.73, d = 12 0.71 (tile.cu 0.95, 0.93, 1.01: from d = 5
 * on many rows are worth the slab that is mostly zeros), d = 16 0.71, d = 32 0.77, d = 64 0.99, d =
 * 128 1.62, d = 1024 9.7 (28.2e12 a second), against 1.1, 1.6, 3.2, 6.0 and 46 for tile.cu. Above
 * d = 256 the card's power sets the pace: repeated at d = 1024, a call takes up to 12.8 ms. Up to d
 * = 128 storing adds to the products' time instead of hiding behind it; storing by whole lines, as
 * float32 does, gained nothing where rows are aligned. Rows of odd strides: d = 127 1.87 ms. Pairs
 * alone: d = 32 0.58, d = 64 0.72, d = 128 1.02, d = 1024 5.3.
 *
 * Sixteen clusters, 6.25 % computed again: d = 32 1.7 ms, 128 2.8, 1024 15 (tile.cu 1.8, 5.8, 46 to
 * 48). Two places, a quarter computed again: d = 32 1.95, 128 3.6, 1024 24. Near-duplicates in one
 * place, outliers or not: as normal data. Where d is small the sample finds clusters too dense for
 * marks, and all is direct: d = 5 to 9 0 to 3 % over tile.cu, d = 12 9 %, d = 16 14 %.
 *
 * Steps: tensor_centre.cuh, tensor_f64_prepare.cuh, tensor_f64_multiply.cuh, and for the marked
 * elements tensor_order.cuh, tensor_redo.cuh and tensor_dense.cuh. */
#include <math.h>

#include "tensor_f64_multiply.cuh"
#include "tensor_f64_prepare.cuh"
#include "tensor_launch.cuh"

namespace {

using namespace gd::tensor_f64;
using gd::Cdist;
using gd::Grid;

void lay_out(const gd_cdist &call, Plan &plan, Layout &take)
{
    plan.slabs = gd::ceil_div(call.a.cols, (ptrdiff_t)kDims);
    plan.marks.tiles_down = gd::ceil_div(call.out.rows, (ptrdiff_t)kTileRows);
    plan.marks.parts_across = gd::ceil_div(call.out.cols, (ptrdiff_t)kPartCols);
    take(plan.sample, 1);
    take(plan.all_direct, 1);
    take(plan.shift, call.a.cols);
    take(plan.norms_a, plan.marks.tiles_down * kTileRows);
    take(plan.norms_b, plan.marks.parts_across * kPartCols);
    take(plan.panels_a, plan.marks.tiles_down * 2 * plan.slabs * kPanelWords);
    take(plan.panels_b, plan.marks.parts_across * plan.slabs * kPanelWords);
    plan.marks.lay_out(take);
}

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, Plan &plan)
{
    using R = Rules<kMetric>;
    const Cdist<double> parameters = gd::parameters_of<double>(call);
    const int log_inverse_share = R::log_inverse_share(call.a.cols);
    const ptrdiff_t rows = plan.marks.tiles_down * kTileRows;
    const ptrdiff_t cols = plan.marks.parts_across * kPartCols;
    const bool same = same_rows(call.a, call.b);
    const Grid grid(call.pairs, plan.marks.tiles_down, plan.marks.parts_across, kBand, kTileRows,
                    kPartCols);
    Steps steps(call.launch);
    plan.marks.total = NULL;
    plan.below = log_inverse_share << 20;
    plan.marks.all_direct = R::shifts ? plan.all_direct : NULL;
    if (R::shifts) {
        find_centre_of(steps, call, plan.sample, plan.shift, plan.all_direct,
                       ldexp(1, -log_inverse_share), R::least, R::most);
    }
    steps.enqueue(prepare<kMetric>, (same ? max(rows, cols) : rows + cols) / kUnitRows,
                  dim3(kPrepareThreads), 0, parameters, plan, same);
    gd::with_form(call, [&](auto form) {
        constexpr gd::Form kForm = decltype(form)::value;
        steps.enqueue(multiply<kMetric, kForm>, grid.blocks(), dim3(kThreads), kShared,
                      gd::parameters_of<double, kForm>(call), plan, grid);
        return steps.code;
    });
    compute_marked<kMetric, double>(steps, call, plan.marks);
    return steps.code;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor_f64(gd_cdist *call, gd_error *err)
{
    return launch_products<Plan>(
        call, "cdist/cuda_tensor_f64", err,
        [&](Plan &plan, Layout &take) { lay_out(*call, plan, take); },
        [&](auto metric, Plan &plan) { return launch<decltype(metric)::value>(*call, plan); });
}
