/* run.cuh: what a call of boxes.cu does, for one type of elements. */
#ifndef GPUDIST_NEIGHBORS_BOXES_RUN_CUH
#define GPUDIST_NEIGHBORS_BOXES_RUN_CUH

#include <algorithm>

#include "common/steps.cuh"
#include "neighbors/boxes/arrange.cuh"
#include "neighbors/boxes/images.cuh"
#include "neighbors/boxes/workspace.cuh"

namespace gd {
namespace boxes {

/* The whole call, for elements of one type. */
gd_status find(gd_neighbors *call, float, gd_error *err);
gd_status find(gd_neighbors *call, double, gd_error *err);

/* From so many rows of A on these are looked for in an order of their own. */
constexpr unsigned kManyRows = 4096;
/* Lays out what B is arranged as, and what a launch needs beside it, of no more rows than when
 * sizing. */
template <typename T, int kDims>
cudaError_t lay_out(const gd_neighbors &call, Plan<T, kDims> &plan, Scratch &scratch, Layout &keep,
                    Layout &take)
{
    plan = {};
    plan.a = points_of<T>(call.a);
    plan.b = points_of<T>(call.b);
    plan.d = (int)call.b.cols;
    plan.bits = bits_of(plan.d);
    plan.count = (unsigned)call.b.rows;
    if (call.box != NULL) {
        set_lengths(plan, call.box);
    }
    plan.drops_nan = call.metric == GD_CHEBYSHEV;
    plan.rooted = call.metric == GD_EUCLIDEAN;
    plan.wanted = (int)call.ranked.most;
    plan.nodes[0] = (unsigned)ceil_div(call.b.rows, (ptrdiff_t)kWarp);
    plan.levels = 1;
    while (plan.nodes[plan.levels - 1] > kWarp) {
        plan.nodes[plan.levels] =
            (unsigned)ceil_div((ptrdiff_t)plan.nodes[plan.levels - 1], (ptrdiff_t)kWarp);
        ++plan.levels;
    }
    keep(plan.knots, kDims * (kKnots + 1));
    keep(plan.spreads, kDims);
    keep(plan.index, (ptrdiff_t)plan.leaves() * kWarp);
    keep(plan.points, (ptrdiff_t)plan.leaves() * kWarp * kDims);
    if constexpr (std::is_same_v<T, double>) {
        plan.images = plan.points;
    }
    else if (plan.periodic) {
        keep(plan.images, (ptrdiff_t)plan.leaves() * kWarp * kDims);
    }
    for (int level = 0; level < plan.levels; ++level) {
        const ptrdiff_t groups = ceil_div((ptrdiff_t)plan.nodes[level], (ptrdiff_t)kWarp);
        keep(plan.ends[level], groups * kWarp * 2 * kDims);
        keep(plan.least[level], groups * kWarp);
    }
    const ptrdiff_t most = call.arranged ? call.a.rows : std::max(call.a.rows, call.b.rows);
    take(scratch.order, call.a.rows);
    take(scratch.left_count, 1);
    take(plan.places, most);
    take(plan.sorted_places, most);
    take(plan.numbers, most);
    const cudaError_t code = sort_places(NULL, &scratch.sorting_bytes, NULL, NULL, NULL, NULL,
                                         (unsigned)most, plan.d * plan.bits, call.launch.stream);
    take(scratch.sorting, (ptrdiff_t)scratch.sorting_bytes);
    if (code != cudaSuccess || call.within.starts == NULL) {
        return code;
    }
    take(scratch.counts, call.a.rows + 1);
    const cudaError_t scanned = scan_counts(NULL, &scratch.scan_bytes, NULL, NULL,
                                            (unsigned)call.a.rows, 0, call.launch.stream);
    take(scratch.scan, (ptrdiff_t)scratch.scan_bytes);
    return scanned;
}

/* Numbers of the rows of B, or of some of A, in the order of the curve. */
template <typename T, int kDims>
void order_rows(Steps &steps, const Plan<T, kDims> &plan, const Scratch &scratch,
                const Points<T> &rows, unsigned *order)
{
    steps.enqueue(find_places<T, kDims>, ceil_div(rows.count, (ptrdiff_t)kThreads), dim3(kThreads),
                  0, plan, rows);
    if (steps.code == cudaSuccess) {
        size_t bytes = scratch.sorting_bytes;
        steps.code =
            sort_places(scratch.sorting, &bytes, plan.places, plan.sorted_places, plan.numbers,
                        order, (unsigned)rows.count, plan.d * plan.bits, steps.launch.stream);
    }
}

template <typename T, int kDims>
void arrange(Steps &steps, const Plan<T, kDims> &plan, const Scratch &scratch)
{
    steps.enqueue(find_knots<T, kDims>, plan.d, dim3(kPairs), 0, plan);
    order_rows(steps, plan, scratch, plan.b, plan.index);
    steps.enqueue(fill_leaves<T, kDims>, ceil_div((ptrdiff_t)plan.leaves(), (ptrdiff_t)kWarps),
                  dim3(kThreads), 0, plan);
    for (int level = 1; level < plan.levels; ++level) {
        steps.enqueue(fill_level<T, kDims>,
                      ceil_div((ptrdiff_t)plan.nodes[level], (ptrdiff_t)kWarps), dim3(kThreads), 0,
                      plan, level);
    }
}

/* What is wanted of the rows of A, which are held as such. */
template <typename Row, typename T, int kDims>
gd_status find_for(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                   const Scratch &scratch, gd_error *err)
{
    const bool lists = call.within.starts != NULL;
    if (plan.wanted == 0) {
        return lists ? list_within<Row>(steps, call, plan, scratch, err)
                     : count_within<Row>(steps, call, plan, err);
    }
    const gd_status status = search_nearest<Row>(steps, call, plan, scratch, err);
    return status == GD_OK && lists ? gather_lists(steps, call, plan, scratch, err) : status;
}

template <typename T, int kDims>
gd_status run(gd_neighbors *call, gd_error *err)
{
    Plan<T, kDims> plan;
    Scratch scratch = {};
    Layout keep = {(unsigned char *)call->arrangement};
    Layout take = {(unsigned char *)call->launch.workspace};
    Steps steps(call->launch);
    GD_CUDA_TRY(err, kId, steps.code);
    GD_CUDA_TRY(err, kId, lay_out(*call, plan, scratch, keep, take));
    if (call->launch.sizing) {
        call->arrangement_bytes = keep.bytes;
        call->launch.workspace_bytes = take.bytes;
        return GD_OK;
    }
    if (!call->arranged) {
        arrange(steps, plan, scratch);
        GD_CUDA_TRY(err, kId, steps.code);
        call->arranged = true;
        return GD_OK;
    }
    plan.self = call->self < 0 ? kNone : (unsigned)call->self;
    plan.distances = static_cast<T *>(call->ranked.distances);
    plan.indices = call->ranked.indices;
    plan.limits = call->limits;
    plan.one_limit = call->one_limit;
    const bool lists = call->within.starts != NULL, writes = call->within.indices != NULL;
    if (lists && writes && plan.wanted > 0) {
        return gather_lists(steps, *call, plan, scratch, err);
    }
    if (call->self == 0 && call->a.rows == call->b.rows) {
        plan.order = plan.index; /* they are the rows of B */
    }
    else if (call->a.rows >= kManyRows) {
        order_rows(steps, plan, scratch, plan.a, scratch.order);
        GD_CUDA_TRY(err, kId, steps.code);
        plan.order = scratch.order;
    }
    if constexpr (kHasImages<kDims>) {
        if (plan.periodic) {
            return find_for<Image<T, kDims>>(steps, *call, plan, scratch, err);
        }
    }
    return find_for<AsGiven<T, kDims>>(steps, *call, plan, scratch, err);
}

template <typename T>
gd_status run_dims(gd_neighbors *call, gd_error *err)
{
    const ptrdiff_t cols = call->b.cols;
    return cols <= 3                        ? run<T, 3>(call, err)
           : cols <= 5 && call->box == NULL ? run<T, 5>(call, err)
                                            : run<T, kMostDims>(call, err);
}

}  // namespace boxes
}  // namespace gd
#endif
