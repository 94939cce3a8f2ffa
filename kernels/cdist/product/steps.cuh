/* steps.cuh: what the launchers of products share beside their steps: what rows are scaled by, and
 * the choice of the metric. */
#ifndef GPUDIST_CDIST_PRODUCT_STEPS_CUH
#define GPUDIST_CDIST_PRODUCT_STEPS_CUH

#include <type_traits>

#include "cdist/product/centre.cuh"
#include "common/steps.cuh"

namespace gd {
namespace product_form {

/* Whether both are the same rows, which then are prepared once. */
inline bool same_rows(const gd_matrix &x, const gd_matrix &y)
{
    return x.data == y.data && x.rows == y.rows && x.row_stride == y.row_stride &&
           x.col_stride == y.col_stride;
}

/* Whether rows are scaled before products are taken of them. */
inline bool is_scaled(const gd_cdist &call)
{
    return call.weights != NULL || call.metric == GD_HELLINGER || call.metric == GD_MAHALANOBIS;
}

/* Lays out what rows of up to `dims` dimensions are scaled by, if they are: mahalanobis, whose rows
 * have been multiplied before, by 1. most: see RowTerms. */
template <typename T>
void lay_out_scaling(const gd_cdist &call, ptrdiff_t dims, double most, Weights<T> &weights,
                     RowTerms &terms, Layout &take)
{
    if (is_scaled(call)) {
        const bool halves = call.metric == GD_HELLINGER;
        weights.given = call.weights;
        weights.every = halves ? 0.5 : 1;
        terms = {call.a_terms, call.b_terms, halves, most};
        take(weights.roots, dims);
        take(weights.rounded, dims);
        take(terms.lost, (ptrdiff_t)1);
    }
}

/* Calls f(metric), a constant, for the one of the metrics that products give. */
template <typename F>
auto with_product_metric(const gd_cdist &call, F &&f)
{
    switch (call.metric) {
        case GD_SQEUCLIDEAN:
            return f(std::integral_constant<gd_metric, GD_SQEUCLIDEAN>{});
        case GD_COSINE:
            return f(std::integral_constant<gd_metric, GD_COSINE>{});
        case GD_INNER_PRODUCT:
            return f(std::integral_constant<gd_metric, GD_INNER_PRODUCT>{});
        default:
            return f(std::integral_constant<gd_metric, GD_EUCLIDEAN>{});
    }
}

/* The metric among these. */
inline gd_metric product_metric(const gd_cdist &call)
{
    return with_product_metric(call, [](auto metric) { return (gd_metric)metric; });
}

/* Does what all launchers do: lay_out(plan, take) takes the plan's arrays, and launch(metric,
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
    return with_product_metric(*call, launch_it);
}

}  // namespace product_form
}  // namespace gd
#endif
