/* tensor_f64.cu: cdist of float64 points on FP64 tensor cores.
 *
 * Idea: d^2 = |a|^2 + |b|^2 - 2ab of rows moved so that the middle of `b` is at 0, the norms exact,
 * the products by tensor cores, which round like any other instruction. That is good as long as d^2
 * does not cancel; elements where it may are suspect, and computed again directly.
 *
 * Floor of 16384 x 16384 on an H200: tensor cores add 33.4e12 products a second at best, so d = 128
 * 1.03 ms, d = 1024 8.2 ms; cuBLAS reaches 28e12. Writing takes 0.46 ms, beside it.
 *
 * Reached, euclidean: d = 5 0.70 ms, d = 8 0.63, d = 12 0.66 (tile.cu 0.95, 0.93, 1.01: from d = 5
 * on many rows are worth the slab that is mostly zeros), d = 16 0.65, d = 32 0.78, d = 64 1.00, d =
 * 128 1.60, d = 1024 9.7 (28.2e12 a second), against 1.1, 1.6, 3.2, 6.0 and 46 for tile.cu. Above
 * d = 256 the card's power sets the pace: repeated at d = 1024, a call takes up to 12.8 ms. Up to d
 * = 128 storing adds to the products' time instead of hiding behind it; storing by whole lines, as
 * float32 does, gained nothing where rows are aligned. Rows of odd strides: d = 127 1.87 ms. Pairs
 * alone: d = 32 0.58, d = 64 0.72, d = 128 1.02, d = 1024 5.3.
 *
 * Of these the centre takes 14 us, and what comes after the products 6. So where there is little to
 * compute, nothing is prepared ahead. In us, with panels in brackets, then tile.cu or few.cu: 1 x
 * 65536 x 16 23 (46) 25, 64 x 65536 x 16 29 (50) 27, 1 x 65536 x 64 31 (77) 40, 64 x 65536 x 64 56
 * (81) 58, 1 x 65536 x 512 101 (327) 164, 64 x 65536 x 512 238 (330) 409, 128 x 128 x 512 25 (50)
 * 15, 512 x 512 x 512 42 (53) 52. With panels 2048 x 2048 x 128 takes 50, x 1024 208.
 *
 * The instruction adds as a chain of fma does that goes up the dimensions it is given, bit for bit.
 *
 * Sixteen clusters, 6.25 % computed again: d = 32 1.7 ms, 128 2.8, 1024 15 (tile.cu 1.8, 5.8, 46 to
 * 48). Two places, a quarter computed again: d = 32 1.95, 128 3.6, 1024 24. Near-duplicates in one
 * place, outliers or not: as normal data. Where d is small the sample finds clusters too dense for
 * suspects, and all is direct: d = 5 to 9 0 to 3 % over tile.cu, d = 12 9 %, d = 16 14 %.
 *
 * Scaled rows (recompute/scaled.cuh), d = 128: weighted euclidean 1.70 ms, hellinger 1.66,
 * mahalanobis 1.73 with its rows times the factor; d = 32 0.76, 0.78, 0.83. They are always
 * prepared ahead, however few there are.
 *
 * Steps: product/centre.cuh; prepare.cuh and multiply.cuh, or else
 * multiply_short_rows.cuh, or multiply_few.cuh, all of which move rows by
 * rows.cuh; and for the suspect elements recompute/order.cuh, recompute/share_out.cuh
 * and recompute/dense.cuh. */
#include <math.h>

#include "cdist/product_f64/multiply.cuh"
#include "cdist/product_f64/prepare.cuh"
#include "cdist/product_f64/multiply_short_rows.cuh"
#include "cdist/product_f64/multiply_few.cuh"
#include "cdist/product/launch.cuh"

namespace {

using namespace gd::tensor_f64;
using gd::Cdist;
using gd::Grid;
using gd::Layout;
using gd::Steps;

/* The ways to the products. With so few rows, or results, or dimensions preparing takes longer than
 * it spares, and with still fewer so does looking for suspects afterwards. All ways give equal
 * bits.
 */
constexpr ptrdiff_t kFewRows = 64, kFewParts = 64, kFewestParts = 16;

void lay_out(const gd_cdist &call, Plan &plan, Layout &take)
{
    Suspects &suspects = plan.suspects;
    plan.slabs = gd::ceil_div(call.a.cols, (ptrdiff_t)kDims);
    suspects.tiles_down = gd::ceil_div(call.out.rows, (ptrdiff_t)kTileRows);
    suspects.parts_across = gd::ceil_div(call.out.cols, (ptrdiff_t)kPartCols);
    /* What is done to rows beyond moving them is done ahead of the products alone. */
    const bool as_given = !is_scaled(call);
    plan.by_itself = as_given && plan.slabs > 1 &&
                     (call.out.rows <= kUnitRows || suspects.parts() <= kFewestParts);
    plan.prepared = !as_given ||
                    (!plan.by_itself &&
                     (call.pairs || !(call.out.rows <= kFewRows || suspects.parts() <= kFewParts)));
    take(plan.sample, 1);
    take(plan.all_direct, 1);
    take(suspects.total, 1);
    take(plan.shift, call.a.cols);
    lay_out_scaling(call, call.a.cols, 0x1p-6, plan.weights, plan.terms, take);
    if (plan.prepared) {
        take(plan.norms_a, suspects.tiles_down * kTileRows);
        take(plan.norms_b, suspects.parts_across * kPartCols);
        take(plan.panels_a, suspects.tiles_down * 2 * plan.slabs * kPanelWords);
        take(plan.panels_b, suspects.parts_across * plan.slabs * kPanelWords);
    }
    if (!plan.by_itself) {
        suspects.lay_out(take);
    }
}

template <gd_metric kMetric, int kSlabs>
void enqueue_short_rows(Steps &steps, const gd_cdist &call, const Plan &plan, bool words)
{
    const ptrdiff_t units = gd::ceil_div(call.out.rows, (ptrdiff_t)kUnitRows);
    const int each = (int)min(units, (ptrdiff_t)kUnits);
    const Grid grid(call.pairs, plan.suspects.tiles_down, plan.suspects.parts_across, kBand,
                    kTileRows, kPartCols);
    steps.enqueue(words ? multiply_short_rows<kMetric, kSlabs, true>
                        : multiply_short_rows<kMetric, kSlabs, false>,
                  grid.blocks(), dim3(kUnpreparedThreads), short_rows_bytes<kSlabs>(each),
                  gd::parameters_of<double>(call), plan, grid, each);
}

template <gd_metric kRows, int kDown, int kTiles>
void enqueue_few(Steps &steps, const gd_cdist &call, const Plan &plan, bool words)
{
    using Shared = FewTile<kDown, kTiles>;
    const ptrdiff_t down = gd::ceil_div(call.out.rows, (ptrdiff_t)Shared::rows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, (ptrdiff_t)Shared::cols);
    steps.enqueue(words ? multiply_few<kRows, kDown, kTiles, true>
                        : multiply_few<kRows, kDown, kTiles, false>,
                  down * across, dim3(kUnpreparedThreads),
                  few_bytes<kDown, kTiles>(plan.slabs > kGroupSlabs),
                  call_for<EndOf<kRows>>(call, plan.weights, plan.terms), plan, (unsigned)down);
}

template <gd_metric kMetric>
void multiply_unprepared(Steps &steps, const gd_cdist &call, const Plan &plan, bool words)
{
    /* Of what ends otherwise, rows are the same. */
    constexpr gd_metric kRows = kMetric == GD_INNER_PRODUCT ? kMetric : GD_SQEUCLIDEAN;
    if (plan.by_itself) { /* the fewer columns a block has the more blocks there are */
        plan.suspects.parts() <= kFewestParts ? enqueue_few<kRows, 1, 1>(steps, call, plan, words)
                                              : enqueue_few<kRows, 1, 2>(steps, call, plan, words);
    }
    else if (plan.slabs == 1) {
        enqueue_short_rows<kMetric, 1>(steps, call, plan, words);
    }
    else if (plan.slabs <= kShortSlabs) {
        enqueue_short_rows<kMetric, kShortSlabs>(steps, call, plan, words);
    }
    else {
        enqueue_few<kRows, 2, 2>(steps, call, plan, words);
    }
}

template <gd_metric kMetric>
void multiply_prepared(Steps &steps, const gd_cdist &call, const Plan &plan, bool words)
{
    const ptrdiff_t rows = plan.suspects.tiles_down * kTileRows;
    const ptrdiff_t cols = plan.suspects.parts_across * kPartCols;
    const bool same = same_rows(call.a, call.b);
    const Grid grid(call.pairs, plan.suspects.tiles_down, plan.suspects.parts_across, kBand,
                    kTileRows, kPartCols);
    const int log = log_sharing(plan.slabs);
    const ptrdiff_t units = (same ? max(rows, cols) : rows + cols) / kUnitRows;
    /* Of what ends otherwise, rows are the same. */
    constexpr gd_metric kRows = kMetric == GD_EUCLIDEAN ? GD_SQEUCLIDEAN : kMetric;
    steps.enqueue(words ? prepare<kRows, true> : prepare<kRows, false>,
                  gd::ceil_div(units << log, (ptrdiff_t)kPrepareWarps), dim3(kPrepareThreads), 0,
                  gd::parameters_of<double>(call), plan, same, log);
    gd::with_form(call, [&](auto form) {
        constexpr gd::Form kForm = decltype(form)::value;
        steps.enqueue(multiply<kMetric, kForm>, grid.blocks(), dim3(kThreads), kShared,
                      gd::parameters_of<double, kForm>(call), plan, grid);
        return steps.code;
    });
}

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, Plan &plan)
{
    using R = Rules<kMetric>;
    const int log_inverse_share = R::log_inverse_share(call.a.cols);
    const bool words = gd::reads_words<double>(call.a) && gd::reads_words<double>(call.b);
    Steps steps(call.launch);
    plan.below = log_inverse_share << 20;
    plan.suspects.all_direct = R::shifts ? plan.all_direct : NULL;
    if (R::shifts) {
        find_centre_of(steps, call, plan.sample, plan.weights, plan.shift, plan.all_direct,
                       {ldexp(1, -log_inverse_share), R::least, R::most});
    }
    /* Rows of a single slab pay for no panels, if results are aligned: else they would be stored
     * one by one. Where results stand is not known yet when the workspace is laid out. */
    const bool single =
        plan.slabs == 1 && !call.pairs && gd::target_of<double>(call).words && !plan.weights.roots;
    if (plan.prepared && !single) {
        multiply_prepared<kMetric>(steps, call, plan, words);
    }
    else {
        multiply_unprepared<kMetric>(steps, call, plan, words);
    }
    if (!plan.by_itself) {
        recompute_suspects(steps, call, plan.weights, plan.terms, plan.suspects, !plan.one_group());
        finish_forms(steps, call, plan.terms);
    }
    else if (R::shifts) { /* the sample may tell that all is direct */
        compute_dense<gd::Ended>(steps, call, plan.weights, plan.terms, plan.suspects);
    }
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
