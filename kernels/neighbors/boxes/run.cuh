/* run.cuh: what a call of boxes.cu does, for one type of elements. */
#ifndef GPUDIST_NEIGHBORS_BOXES_RUN_CUH
#define GPUDIST_NEIGHBORS_BOXES_RUN_CUH

#include <algorithm>

#include "common/steps.cuh"
#include "neighbors/boxes/arrange.cuh"
#include "neighbors/boxes/search.cuh"

namespace gd {
namespace boxes {

constexpr const char *kId = "neighbors/cuda_boxes";

/* Puts numbers in the order of their places' last `bits` bits, equal ones as they stand; or sets
 * the bytes that this takes for up to `count` and as many bits, if `memory` is NULL. */
cudaError_t sort_places(void *memory, size_t *bytes, const uint64_t *places,
                        uint64_t *sorted_places, const unsigned *numbers, unsigned *sorted,
                        unsigned count, int bits, void *stream);

/* The whole call, for elements of one type. */
gd_status find(gd_neighbors *call, float, gd_error *err);
gd_status find(gd_neighbors *call, double, gd_error *err);

/* From so many rows of A on these are looked for in an order of their own. */
constexpr unsigned kManyRows = 4096;
/* Rows of A between two looks at the watcher: of few points many, lest launches be short. */
constexpr unsigned kMostRows = 1 << 17, kFewestRows = 1 << 14;
constexpr double kPairsOfRows = 0x1p37;

/* A call's workspace beside what the plan has. */
struct Scratch {
    unsigned *order;
    unsigned char *sorting;
    size_t sorting_bytes;
};

/* Places what is kept between launches first: the rest may be of fewer rows than when sizing. */
template <typename T, int kDims>
cudaError_t lay_out(const gd_neighbors &call, Plan<T, kDims> &plan, Scratch &scratch, Layout &take)
{
    plan = {};
    plan.a = points_of<T>(call.a);
    plan.b = points_of<T>(call.b);
    plan.d = (int)call.b.cols;
    plan.bits = bits_of(plan.d);
    plan.count = (unsigned)call.b.rows;
    plan.drops_nan = call.metric == GD_CHEBYSHEV;
    plan.wanted = (int)call.ranked.most;
    plan.nodes[0] = (unsigned)ceil_div(call.b.rows, (ptrdiff_t)kWarp);
    plan.levels = 1;
    while (plan.nodes[plan.levels - 1] > kWarp) {
        plan.nodes[plan.levels] =
            (unsigned)ceil_div((ptrdiff_t)plan.nodes[plan.levels - 1], (ptrdiff_t)kWarp);
        ++plan.levels;
    }
    take(plan.knots, kDims * (kKnots + 1));
    take(plan.spreads, kDims);
    take(plan.index, (ptrdiff_t)plan.leaves() * kWarp);
    take(plan.points, (ptrdiff_t)plan.leaves() * kWarp * kDims);
    for (int level = 0; level < plan.levels; ++level) {
        const ptrdiff_t groups = ceil_div((ptrdiff_t)plan.nodes[level], (ptrdiff_t)kWarp);
        take(plan.ends[level], groups * kWarp * 2 * kDims);
        take(plan.least[level], groups * kWarp);
    }
    const ptrdiff_t most = std::max(call.a.rows, call.b.rows);
    take(scratch.order, call.a.rows);
    take(plan.places, most);
    take(plan.sorted_places, most);
    take(plan.numbers, most);
    const cudaError_t code = sort_places(NULL, &scratch.sorting_bytes, NULL, NULL, NULL, NULL,
                                         (unsigned)most, plan.d * plan.bits, call.launch.stream);
    take(scratch.sorting, (ptrdiff_t)scratch.sorting_bytes);
    return code;
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

template <typename M, int kSlots, typename T, int kDims>
gd_status search_all(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan, gd_error *err)
{
    const unsigned all = (unsigned)call.a.rows;
    const auto at_pace = (unsigned)std::max(std::min(kPairsOfRows / plan.count, (double)kMostRows),
                                            (double)kFewestRows);
    gd_status status = GD_OK;
    for (plan.first = 0; status == GD_OK && plan.first < all; plan.first += plan.rows) {
        plan.rows = std::min(all - plan.first, at_pace);
        steps.enqueue(find_nearest<M, kSlots, T, kDims>,
                      ceil_div((ptrdiff_t)plan.rows, (ptrdiff_t)kWarps), dim3(kThreads), 0, plan);
        GD_CUDA_TRY(err, kId, steps.code);
        const double part = (double)(plan.first + plan.rows) / all;
        status = gd_pass(&call.launch, call.done + call.share * part, err);
    }
    return status;
}

template <typename T, int kDims>
gd_status run(gd_neighbors *call, gd_error *err)
{
    Plan<T, kDims> plan;
    Scratch scratch = {};
    Layout take = {(unsigned char *)call->launch.workspace};
    Steps steps(call->launch);
    GD_CUDA_TRY(err, kId, steps.code);
    GD_CUDA_TRY(err, kId, lay_out(*call, plan, scratch, take));
    if (call->launch.sizing) {
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
    if (call->self == 0 && call->a.rows == call->b.rows) {
        plan.order = plan.index; /* they are the rows of B */
    }
    else if (call->a.rows >= kManyRows) {
        order_rows(steps, plan, scratch, plan.a, scratch.order);
        GD_CUDA_TRY(err, kId, steps.code);
        plan.order = scratch.order;
    }
    return with_lp_metric(call->metric, [&](auto metric) {
        using M = decltype(metric);
        return plan.wanted <= kWarp ? search_all<M, 1>(steps, *call, plan, err)
                                    : search_all<M, kMostSlots>(steps, *call, plan, err);
    });
}

template <typename T>
gd_status run_dims(gd_neighbors *call, gd_error *err)
{
    return call->b.cols <= 3   ? run<T, 3>(call, err)
           : call->b.cols <= 5 ? run<T, 5>(call, err)
                               : run<T, kMostDims>(call, err);
}

}  // namespace boxes
}  // namespace gd
#endif
