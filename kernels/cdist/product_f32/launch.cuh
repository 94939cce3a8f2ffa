/* launch.cuh: what the launchers of float32 products share: the workspace, and the steps that
 * prepare rows. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_LAUNCH_CUH
#define GPUDIST_CDIST_PRODUCT_F32_LAUNCH_CUH

#include "cdist/product_f32/prepare.cuh"
#include "cdist/product_f32/recompute_own.cuh"
#include "cdist/product_f32/steps.cuh"

namespace gd {
namespace tensor {

/* most_lists: warps that multiply, at most. */
template <int kCols>
void lay_out(const gd_cdist &call, PlanOf<kCols> &plan, ptrdiff_t most_lists, Layout &take)
{
    using S = Shape<kCols>;
    plan.slabs = ceil_div(call.a.cols, (ptrdiff_t)kDims);
    plan.tiles_down = plan.suspects.tiles_down = ceil_div(call.out.rows, (ptrdiff_t)kTileRows);
    plan.tiles_across = ceil_div(call.out.cols, (ptrdiff_t)S::cols);
    plan.suspects.parts_across = plan.tiles_across * S::parts;
    /* As wide as lets the images of a band's columns stay in L2: the longer the stretches of a row
     * that are written at the same time, the better for memory. */
    constexpr ptrdiff_t kBandBytes = 8 << 20;
    const ptrdiff_t fit = kBandBytes / (plan.slabs * (ptrdiff_t)(S::image_b * sizeof(uint4)));
    plan.band = (unsigned)min(max(fit, (ptrdiff_t)8), plan.tiles_across);
    take(plan.sample, 1);
    take(plan.all_direct, 1);
    take(plan.suspects.total, 1);
    take(plan.shift, plan.slabs * kDims); /* chunks are read whole */
    lay_out_scaling(call, plan.slabs * kDims, 0.375, plan.weights, plan.terms, take);
    take(plan.facts_a, plan.tiles_down);
    take(plan.facts_b, plan.tiles_across);
    take(plan.image_a, plan.tiles_down * plan.slabs * S::image_a);
    take(plan.image_b, plan.tiles_across * plan.slabs * S::image_b);
    /* A block has no more warps than units of rows in a part. */
    take(plan.lists, min(plan.suspects.parts() * kUnits, most_lists));
    plan.suspects.lay_out(take);
}

/* Finds the centre and prepares the rows. results, rows: of a warp's share of a tile. */
template <gd_metric kMetric, int kCols>
void prepare_rows(Steps &steps, const gd_cdist &call, PlanOf<kCols> &plan, ptrdiff_t results,
                  ptrdiff_t rows)
{
    using R = Rules<kMetric>;
    /* Of what ends otherwise, rows are the same. */
    constexpr gd_metric kRows = kMetric == GD_EUCLIDEAN ? GD_SQEUCLIDEAN : kMetric;
    const bool fine = R::may_be_fine && call.a.cols <= kFineDims;
    const bool words_a = reads_words<float>(call.a), words_b = reads_words<float>(call.b);
    plan.suspects.all_direct = R::shifts ? plan.all_direct : NULL;
    /* A warp computes nothing of scaled rows again by itself, which spares kernels. */
    const bool scaled = plan.weights.roots != NULL;
    plan.places = scaled ? 0 : places_of_list(call.a.cols);
    plan.most_listed = most_listed(results, rows, call.a.cols);
    plan.words = words_a && words_b;
    if (R::shifts) {
        const double ratio = ratio_of(call.a.cols, scaled);
        Bounds bounds = {ratio / (1 + ratio), R::least, R::most};
        plan.ratio = (float)ratio;
        plan.keep = (1 - bounds.share) * (fine ? 1 - 0x1p-24 : 1.0);
        if (R::absolute) {
            bounds = {(double)R::least_share, R::least, R::most, (double)R::most_product, 0.5};
            plan.keep = 1;
        }
        find_centre_f32(steps, call, plan.sample, plan.weights, plan.shift, plan.all_direct,
                        bounds);
    }
    const bool same = same_rows(call.a, call.b);
    const ptrdiff_t all_a = plan.tiles_down * kTileRows, all_b = plan.tiles_across * kCols;
    const ptrdiff_t warps = (same ? max(all_a, all_b) : all_a + all_b) / kQuads;
    const auto prepare_by = [&](auto kernel, auto split) {
        constexpr int kSplit = decltype(split)::value, kWarps = kPrepareWarps<kSplit>;
        steps.enqueue(kernel, warps * kSplit / kWarps, dim3(kWarps * 32), 0,
                      parameters_of<float>(call), plan, words_a, words_b, same);
    };
    using OneWarp = std::integral_constant<int, 1>;
    using EightWarps = std::integral_constant<int, 8>;
    if (plan.slabs <= 4) {
        prepare_by(
            fine ? prepare<kRows, 1, 4, R::may_be_fine, kCols> : prepare<kRows, 1, 4, false, kCols>,
            OneWarp{});
    }
    else {
        prepare_by(prepare<kRows, EightWarps::value, 2, false, kCols>, EightWarps{});
    }
}

}  // namespace tensor
}  // namespace gd
#endif
