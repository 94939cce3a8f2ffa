/* nearest.cuh: the launches that find the nearest of rows of A. */
#ifndef GPUDIST_NEIGHBORS_BOXES_NEAREST_CUH
#define GPUDIST_NEIGHBORS_BOXES_NEAREST_CUH

#include "neighbors/boxes/mates.cuh"
#include "neighbors/boxes/search.cuh"
#include "neighbors/boxes/workspace.cuh"

namespace gd {
namespace boxes {

template <typename M, typename Row, int kSlots, typename T, int kDims>
gd_status search_all(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan, gd_error *err)
{
    const ptrdiff_t few = steps.processors * kBlocks<T, kDims>;
    return in_pieces(steps, call, plan, err, [&] {
        const ptrdiff_t blocks = ceil_div((ptrdiff_t)plan.rows, (ptrdiff_t)kWarps);
        steps.enqueue(find_nearest<M, Row, kSlots, T, kDims>,
                      plan.left_count != NULL ? std::min(few, blocks) : blocks, dim3(kThreads), 0,
                      plan);
    });
}

/* Rows of A that are the points of B: those whose mates tell where their neighbours are at once,
 * and then, which are few, the others. */
template <typename M, typename Row, typename T, int kDims>
gd_status search_near(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                      const Scratch &scratch, gd_error *err)
{
    plan.left = scratch.order;
    plan.left_count = scratch.left_count;
    GD_CUDA_TRY(err, kId,
                cudaMemsetAsync(plan.left_count, 0, sizeof *plan.left_count,
                                (cudaStream_t)steps.launch.stream));
    plan.first = 0;
    plan.rows = (unsigned)call.a.rows;
    steps.enqueue(find_near<M, Row, T, kDims>, ceil_div((ptrdiff_t)plan.rows, (ptrdiff_t)kWarps),
                  dim3(kThreads), 0, plan);
    plan.order = plan.left;
    return search_all<M, Row, 1>(steps, call, plan, err);
}

template <typename Row, typename T, int kDims>
gd_status search_nearest(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                         [[maybe_unused]] const Scratch &scratch, gd_error *err)
{
    return with_metric_for<Row>(call.metric, [&](auto metric) {
        using M = decltype(metric);
        if constexpr (kDims <= kMatesDims) {
            if (plan.order == plan.index && plan.leaves() >= kMates && plan.limits == NULL &&
                plan.wanted <= kMatesWanted && plan.d <= kMatesCols) {
                return search_near<M, Row>(steps, call, plan, scratch, err);
            }
        }
        return plan.wanted <= kWarp ? search_all<M, Row, 1>(steps, call, plan, err)
                                    : search_all<M, Row, kMostSlots>(steps, call, plan, err);
    });
}

}  // namespace boxes
}  // namespace gd

/* For rows as they are, or as images: Row is a type with two parameters. */
#define GD_NEAREST_FOR(Row, T, dims)                                               \
    template gd_status search_nearest<Row<T, dims>>(Steps &, const gd_neighbors &, \
                                                    Plan<T, dims> &, const Scratch &, gd_error *);
#define GD_NEAREST_OF(T)          \
    GD_NEAREST_FOR(AsGiven, T, 3) \
    GD_NEAREST_FOR(AsGiven, T, 5) \
    GD_NEAREST_FOR(AsGiven, T, kMostDims)
#endif
