/* truths_sm90a.cu: the nearest neighbours of truths on Hopper GPUs, exactly.
 *
 * Idea: distances of truths are functions of four counts, of which one alone takes both rows: how
 * many columns are true in both. Tensor cores count those from packed bits, 256 of them where a
 * product of halves has 16 dimensions; and what is near enough is a count that is large enough,
 * which says the function of the metric itself for each row of A and number of ones of B's row. So
 * nothing is bounded, and what passes is near.
 *
 * Columns are looked at in their order, in a few passes of ever more: the first ones directly, by
 * counting each pair's bits, and those after them where they are nearer than the last of a row's
 * list so far. Ties go to the smaller index, so that one that is just as near is none of its
 * neighbours, however many there are. A row that more columns of a pass are near enough for than
 * lists have room for has failed, and is compared with all of B directly.
 *
 * Floor of 10,000 x 1,000,000 x 1024 on an H100: tensor cores take 6.4e15 truths of pairs a second,
 * 1.6 ms; to read B, a byte a truth, takes 0.3. Few truths are bound by looking at counts, as
 * product/product_sm90a.cu says.
 *
 * Reached there (2026-11-27), from arrays of truths on the device to distances and indices, ms: k =
 * 10 5.7 in float64 and 4.9 in float32, in panels 93 and 60; k = 1 / 100 / 1000 in float64 4.7
 * / 9.7 / 38; d = 64 / 256 / 2048 4.4 / 4.3 / 7.8, k = 10. Of 5.7, products take 2.7, the first
 * columns 1.5, merging 0.6, bits of B 0.4, lists 0.35, its images 0.3, limits 0.2. Clusters of 500
 * take 6.0 mixed, and 24 in order, where lists have no room for the late ones of some rows.
 *
 * Launch: a block a multiprocessor multiplies, as product/multiply.cuh says; it needs 73 to 192 KB
 * of shared memory. All else are small blocks.
 *
 * Steps, a file each: arrange.cuh, direct.cuh, refine.cuh, look.cuh with product/multiply.cuh.
 */
#include "common/steps.cuh"
#include "neighbors/product/within.cuh"
#include "neighbors/truths/direct.cuh"
#include "neighbors/truths/look.cuh"
#include "neighbors/truths/refine.cuh"

namespace {

using namespace gd::truths;
using gd::Layout, gd::Steps;
constexpr const char *kId = "neighbors/cuda_truths";

constexpr ptrdiff_t kMostRows = 48 * kTileRows; /* that are searched for at once */
/* A list's room for hits, and with neighbours; hits of a row that the log has room for. */
constexpr int kListRoom = 3 << 10, kMergeRoom = 4 << 10, kLogRoom = 1 << 10;
static_assert(GD_PRODUCT_NEIGHBORS + kListRoom <= kMergeRoom, "a row's hits and its neighbours");
/* Up to so many neighbours direct lists are short. */
constexpr int kFewWanted = 128, kRoomOfFew = 1 << 10, kRoomOfMany = 2 << 10;
/* Columns that are looked at directly. */
constexpr int kFirst = kSpan;
/* The columns of a pass are at most so many times those before it; fewer where rows would have more
 * hits than these: as many times their neighbours. */
constexpr int kMostGrowth = 8, kHitsOfPass = 1 << 10;

int steps_of(ptrdiff_t d)
{
    int steps = 1;
    while (steps * kStepTruths < d) {
        steps *= 2;
    }
    return steps;
}

bool lists_all(const gd_neighbors &call)
{
    return (call.within.starts != NULL || call.bound_count > 0) && call.ranked.most == 0;
}

template <int kSteps, typename T>
void lay_out(const gd_neighbors &call, int processors, PlanOf<T> &plan, Layout &take)
{
    plan = {};
    plan.a = gd::points_of<int32_t>(call.a);
    plan.b = gd::points_of<int32_t>(call.b);
    plan.d = call.b.cols;
    plan.groups = (int)gd::ceil_div(plan.d, (ptrdiff_t)kPlaneTruths);
    plan.planes = 2 * kSteps;
    plan.metric = call.metric;
    plan.larger = call.larger;
    const bool lists = lists_all(call);
    plan.wanted = lists ? GD_PRODUCT_NEIGHBORS : (int)call.ranked.most;
    plan.tiles = (int)gd::ceil_div(call.b.rows, (ptrdiff_t)kTileCols);
    plan.list_room = kListRoom;

    const ptrdiff_t places = gd::ceil_div(call.b.rows, (ptrdiff_t)kSpan) * kSpan;
    take(plan.found, 1);
    take(plan.columns, places / kTileCols * (ptrdiff_t)sizeof(Columns<kSteps>));
    take(plan.ones_of_b, call.b.rows);
    take(plan.ones_of_place, places);
    take(plan.column_of, places);

    const ptrdiff_t most = min(call.a.rows, kMostRows);
    plan.strips = (int)gd::ceil_div(most, (ptrdiff_t)kTileRows);
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    plan.pitch = rows;
    plan.chunks = (unsigned)(rows * kLogRoom / kChunk + 2 * processors * gd::filter::kWarps);
    take(plan.images, rows / kGroupRows * (ptrdiff_t)sizeof(gd::filter::Rows<kSteps>));
    take(plan.ones_of_a, rows);
    take(plan.limits, (plan.d + 1) * plan.pitch);
    take(plan.counts, rows);
    take(plan.failed_rows, rows);
    take(plan.tallies, call.within.starts != NULL ? call.a.rows : 0);
    take(plan.listed_distances, lists ? call.a.rows * plan.wanted : 0);
    take(plan.listed_indices, lists ? call.a.rows * plan.wanted : 0);
    take(plan.log, plan.chunks);
    take(plan.lists, rows * plan.list_room);
}

template <int kSteps>
void arrange(Steps &steps, const Plan &plan)
{
    const ptrdiff_t spans = gd::ceil_div(plan.b.count, (ptrdiff_t)kSpan);
    steps.enqueue(begin_columns, 1, dim3(1), 0, plan);
    steps.enqueue(sort_columns<kSteps>, spans, dim3(kSortThreads), 0, plan);
    steps.enqueue(write_columns<kSteps>, spans * kSpan / kRowsOfBlock,
                  dim3(kWriteWarps * gd::filter::kLanes), 0, plan);
}

/* may_leave: not to be done where rows seem to have many within their radius; returns whether it
 * is. */
template <int kSteps, typename T>
bool search(Steps &steps, const PlanOf<T> &typed, bool lists, bool may_leave)
{
    using Kind = Truths<kSteps>;
    const Plan &plan = typed;
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    const int room = plan.wanted <= kFewWanted ? kRoomOfFew : kRoomOfMany;
    const auto search_directly_to = [&](int end, bool failed) {
        const ptrdiff_t blocks =
            failed ? 2 * steps.processors : gd::ceil_div(plan.rows, kDirectRows);
        steps.enqueue(search_directly<T>, blocks, dim3(kDirectThreads), bytes_of_direct<T>(room),
                      typed, Direct{end, room, failed});
    };
    steps.enqueue(write_rows<kSteps>, rows / kRowsOfBlock, dim3(kWriteWarps * gd::filter::kLanes),
                  0, plan);
    const int first = (int)min((ptrdiff_t)kFirst, plan.b.count);
    search_directly_to(first, false);
    if (may_leave) {
        steps.enqueue(look_for_many, gd::ceil_div(plan.rows, kMergeThreads), dim3(kMergeThreads), 0,
                      plan, first);
        if (!gd::filter::has_few(steps, &plan.found->many)) {
            return false;
        }
    }
    /* All that are within a radius, and listed, are as many whatever came before. */
    const int growth = lists ? INT_MAX / (first / kTileCols)
                             : 1 + max(1, min(kMostGrowth - 1, kHitsOfPass / plan.wanted));
    for (int begin = first / kTileCols, end; begin < plan.tiles; begin = end) {
        end = begin > plan.tiles / growth ? plan.tiles : begin * growth;
        const gd::filter::Units units = {
            {begin, end, 1},
            plan.strips,
            gd::filter::tiles_of_unit(plan.strips, end - begin, steps.processors)};
        steps.enqueue(find_limits<T>, blocks_of_limits(plan), dim3(kLimitThreads), 0, typed);
        steps.enqueue(gd::filter::multiply_rows<Kind>, steps.processors, dim3(gd::filter::kThreads),
                      sizeof(gd::filter::Shared<Kind>), plan, units);
        steps.enqueue(list_hits, 8 * steps.processors, dim3(kChunk), 0, plan);
        steps.enqueue(merge_hits<T>, plan.rows, dim3(kMergeThreads), kMergeRoom * sizeof(KeyOf<T>),
                      typed);
    }
    search_directly_to((int)plan.b.count, true);
    return true;
}

template <int kSteps, typename T>
gd_status run(gd_neighbors *call, gd_error *err)
{
    const bool lists = lists_all(*call);
    return gd::filter::run_search<T, PlanOf<T>>(
        call, kId, err,
        [&](PlanOf<T> &plan, int processors, Layout &take) {
            lay_out<kSteps>(*call, processors, plan, take);
            return kMostRows;
        },
        [](Steps &steps, const PlanOf<T> &plan) { arrange<kSteps>(steps, plan); },
        [&](Steps &steps, const PlanOf<T> &plan) {
            return search<kSteps>(steps, plan, lists, call->may_leave && lists);
        });
}

template <int kSteps>
gd_status run_type(gd_neighbors *call, gd_error *err)
{
    return gd::with_float_type(call->panel.dtype,
                               [&](auto type) { return run<kSteps, decltype(type)>(call, err); });
}

}  // namespace

extern "C" gd_status gd_cuda_neighbors_truths(gd_neighbors *call, gd_error *err)
{
    if (call->b.cols > kMostTruths || call->b.rows < GD_PRODUCT_FEWEST ||
        call->b.rows > GD_POINTS_MOST || call->ranked.most > GD_PRODUCT_NEIGHBORS) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "%s looks for up to %d neighbours among %d to %d rows of up to %d truths",
                       kId, GD_PRODUCT_NEIGHBORS, GD_PRODUCT_FEWEST, GD_POINTS_MOST, kMostTruths);
    }
    switch (steps_of(call->b.cols)) {
        case 1:
            return run_type<1>(call, err);
        case 2:
            return run_type<2>(call, err);
        case 4:
            return run_type<4>(call, err);
        default:
            return run_type<8>(call, err);
    }
}
