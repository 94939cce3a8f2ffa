/* search.cuh: a search for neighbours by bounds of distances, whatever the bounds come from: which
 * columns are a sample, what is laid out where, and the steps in their order.
 *
 * A way to bounds is a type that has
 *
 *      Number, Metric          the points' type and the distances' arithmetic
 *      kId, kLogs              the row of the table; warps of a multiprocessor that write a log
 *      kMostLimit              what a limit can be at most, in units of its bounds
 *      kIsExact                whether bounds are the distances, and columns in their order
 *      lay_out, lay_out_rows   what it keeps of B and of some rows of A; sets `planes`, and
 *                              `most_centres` where there may be several (centres.cuh)
 *      arrange, prepare_rows   make that
 *      look_at<Look>           lets a kernel look at the bounds of all rows with some tiles
 *
 * and may have another way, `other`, to take the call over: `judge` looks at the sample and tells
 * on the device, as the host waits for nothing. All kernels of a way that is not taken return at
 * once.
 */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_SEARCH_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_SEARCH_CUH

#include <numeric>
#include <type_traits>

#include "common/steps.cuh"
#include "neighbors/product/lists.cuh"
#include "neighbors/product/look.cuh"
#include "neighbors/product/prepare.cuh"
#include "neighbors/product/recompute.cuh"
#include "neighbors/product/within.cuh"

namespace gd {
namespace filter {

/* Rows that are searched for at once, of few neighbours and of many: their lists take memory. */
constexpr ptrdiff_t kMostRows = 48 * kTileRows, kMostRowsOfMany = 24 * kTileRows;
/* The threads of a block that ranks a row with many candidates. */
constexpr int kThreadsOfFew = 256, kThreadsOfLeft = 384, kThreadsOfMany = 512;
constexpr int kSampleEvery = 17; /* tiles */
/* Hits of a row that there is room for, on average: some, and of those that are expected. Of tight
 * clusters that share a centre, whose bounds are wide beside their distances, there are many more
 * than expected. */
constexpr int kHits = 1024, kMoreHits = 7, kMoreOfMany = 3;
/* The same, at least, where each cluster has a centre. */
constexpr int kHitsOfCentre = 256, kMoreOfCentre = 2;

/* Every so many tiles are sampled: few enough, and with no factor in common with how many are
 * sorted together, as those are sorted by their squares. */
inline int sample_stride(ptrdiff_t tiles)
{
    ptrdiff_t stride = kSampleEvery;
    while (std::gcd(stride, (ptrdiff_t)30) != 1 ||
           ceil_div(tiles, stride) * kMinima > kMostMinima) {
        ++stride;
    }
    return (int)stride;
}

/* Which of the sample's least is the guess. It fails if so many of the wanted - 1 nearest are in
 * the sample, of which every stride-th column is: a binomial law says how likely that is. Rows that
 * are near each other in B may be so in space; but a tile gives kMinima of the least at most. */
inline int guess_of_few(int wanted, int stride)
{
    if (stride == 1) {
        return wanted;
    }
    constexpr double kSeldom = 1e-6;
    const double share = 1.0 / stride;
    double exactly = pow(1 - share, wanted - 1), above = 1 - exactly; /* 0 of them; more */
    int nth = 1;
    for (; nth < wanted && above > kSeldom; ++nth) {
        exactly *= share / (1 - share) * (wanted - nth) / nth;
        above -= exactly;
    }
    return min(wanted, max(nth, kMinima + 1));
}

/* The same for many, of whom several may be in one run of columns, which gives the least alone: the
 * runs that have one are binomial, and as good as normal. */
inline int guess_of_many(int wanted, ptrdiff_t columns, int sampled)
{
    constexpr double kSigmas = 6;
    const double in_run = 1 - pow(1 - wanted / (double)columns, kRun);
    const double mean = in_run * sampled * kMinima, variance = mean * (1 - in_run);
    return min(wanted, max((int)(mean + kSigmas * sqrt(variance)) + 4, kMinima + 1));
}

/* Runs of the sample that so many columns are in, or more exactly one of them at least. */
inline int runs_with(const Plan &plan, double columns)
{
    const double runs = plan.sampled * (double)kMinima;
    return (int)ceil(runs * -expm1(-columns / ((double)plan.tiles * kRuns)));
}

/* Sets which tiles are sampled, and which of their least is the guess. */
inline void plan_sample(Plan &plan, ptrdiff_t columns)
{
    const auto sample = [&](int stride) {
        plan.stride = stride;
        plan.sampled = (int)ceil_div(plan.tiles, stride);
    };
    sample(sample_stride(plan.tiles));
    if (plan.wanted <= kFewWanted) {
        plan.nth = guess_of_few(plan.wanted, plan.stride);
        return;
    }
    /* Where most of a sample's runs would have a neighbour, it has to be larger. */
    for (const int stride : {plan.stride, 7, 1}) {
        if (stride > plan.stride || ceil_div(plan.tiles, stride) * kMinima > kMostMinima) {
            continue;
        }
        sample(stride);
        plan.nth = guess_of_many(plan.wanted, columns, plan.sampled);
        if (plan.nth <= plan.sampled * kMinima * 9 / 10) {
            break;
        }
    }
    plan.nth = min(plan.nth, plan.sampled * kMinima);
}

/* Hits of a row that the guess lets through, if its minima are what is to be expected. */
inline double expected_hits(const Plan &plan)
{
    const double runs = plan.sampled * (double)kMinima + 1;
    return plan.wanted <= kFewWanted ? plan.nth * (double)plan.stride
                                     : -log1p(-plan.nth / runs) / kRun * plan.tiles * kTileCols;
}

/* Hits of a row that the log has room for, on average. */
inline ptrdiff_t hits_of_row(const Plan &plan)
{
    const double more = plan.wanted <= kFewWanted ? kMoreHits : kMoreOfMany;
    return kHits + (ptrdiff_t)(more * expected_hits(plan));
}

/* Chunks that the log has for some rows, and for warps that have begun one each. Where there are
 * several centres, what rows are by these takes the place of a part of it (by_centre()). */
inline unsigned chunks_of(const Plan &plan, ptrdiff_t rows, ptrdiff_t warps)
{
    const double expected = expected_hits(plan);
    const ptrdiff_t hits = rows * hits_of_row(plan);
    const ptrdiff_t fewer = rows * (kHitsOfCentre + (ptrdiff_t)(kMoreOfCentre * expected));
    const ptrdiff_t beside =
        plan.most_centres > 1
            ? ceil_div(plan.most_centres * plan.bytes_of_centre(rows), (ptrdiff_t)sizeof(Chunk))
            : 0;
    return (unsigned)(max(hits / kChunk, fewer / kChunk + beside) + warps);
}

inline ptrdiff_t rows_at_once(int wanted)
{
    return wanted <= kFewWanted ? kMostRows : kMostRowsOfMany;
}

template <typename Way, typename T>
void lay_out(const gd_neighbors &call, int processors, Way &way, PlanOf<T> &plan, Layout &take)
{
    plan = {};
    plan.a = points_of<T>(call.a);
    plan.b = points_of<T>(call.b);
    plan.d = call.b.cols;
    plan.metric = call.metric;
    plan.words_a = reads_words<T>(call.a);
    plan.words_b = reads_words<T>(call.b);
    const bool counts = call.bound_count > 0;
    const bool lists = (call.within.starts != NULL || counts) && call.ranked.most == 0;
    plan.most = Way::kMostLimit;
    plan.apart = 8;
    plan.most_centres = 1;
    plan.wanted = lists ? kMostNeighbors : (int)call.ranked.most;
    plan.tightens = 2 * plan.wanted <= kTightened;
    plan.tiles = (int)ceil_div(call.b.rows, (ptrdiff_t)kTileCols);
    plan.list_room = kManyOfThread * (plan.wanted <= kFewWanted ? kThreadsOfFew : kThreadsOfMany);
    plan_sample(plan, call.b.rows);
    const double room = (double)min((ptrdiff_t)plan.list_room, hits_of_row(plan));
    plan.crowd = max(runs_with(plan, 0.75 * room), 2);
    plan.enough = runs_with(plan, 1.25 * plan.wanted);
    plan.minima_pitch = plan.sampled * kMinima;
    take(plan.found, 1);
    take(plan.largest, kSampleRows);
    take(plan.odd_columns, kMostOdd);
    way.lay_out(plan, take);

    const ptrdiff_t most = min(call.a.rows, rows_at_once(plan.wanted));
    plan.strips = (int)ceil_div(most, (ptrdiff_t)kTileRows);
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    plan.chunks = chunks_of(plan, rows, (ptrdiff_t)2 * processors * Way::kLogs);
    way.lay_out_rows(plan, take, rows);
    take(plan.row_facts, rows);
    take(plan.limits, rows);
    take(plan.counts, rows);
    take(plan.failed_rows, rows);
    take(plan.left_rows, rows);
    take(plan.bounds, rows);
    take(plan.tallies, call.within.starts != NULL ? call.a.rows : 0);
    take(plan.listed_distances, lists ? call.a.rows * plan.wanted : 0);
    take(plan.listed_indices, lists ? call.a.rows * plan.wanted : 0);
    take(plan.log, plan.chunks);
    take(plan.lists, rows * plan.list_room);
    plan.minima = plan.mates = reinterpret_cast<float *>(plan.lists); /* until there are lists */
    static_assert(kMostMinima * sizeof(float) <= kManyOfThread * kThreadsOfFew * sizeof(Candidate),
                  "they fit");
    static_assert(sizeof(float) * kMates * kMates <=
                      sizeof(Candidate) * kTileRows * kManyOfThread * kThreadsOfFew,
                  "they fit, too");
}

/* Finds the centre of `dims` dimensions and the scale; see find_scale. */
template <bool kInBytes, typename T>
void measure(Steps &steps, const PlanOf<T> &plan, ptrdiff_t dims, double least)
{
    steps.enqueue(find_centre<T>, ceil_div(dims, (ptrdiff_t)kLanes), dim3(kLanes * kSampleParts), 0,
                  plan);
    steps.enqueue(measure_sample<T>, kSampleRows / kSampleWarps, dim3(kSampleWarps * kLanes), 0,
                  plan);
    steps.enqueue(find_scale<T, kInBytes>, 1, dim3(kSampleRows), 0, plan, least);
}

/* Tiles that are multiplied before limits are lowered. Of a share s of them as many as s times the
 * guess's hits pass, of the others wanted / s in as many as all: so the best s is the root of
 * wanted by the guess's. With few tiles the steps between would count. */
inline int first_tiles(const Plan &plan)
{
    constexpr int kManyTiles = 512;
    const double share = sqrt(plan.wanted / expected_hits(plan));
    return plan.tiles < kManyTiles || !plan.tightens ? 0 : (int)(plan.tiles * share);
}

/* Where bounds are exact, columns at just the distance of a row's last neighbour so far are none of
 * its neighbours, if they come later: thousands of them fill no list, if the first ones are few
 * enough for half a list, and those after them so many times these. */
constexpr int kGrowth = 8;

/* From lists to neighbours, but for rows that fail. */
template <typename M, bool kOfMany, typename T>
void rank(Steps &steps, const PlanOf<T> &plan)
{
    constexpr int kThreads = kOfMany ? kThreadsOfLeft : kThreadsOfFew;
    constexpr int kEach = kOfMany ? kLongList / kThreads : kManyOfThread;
    const auto rank_left = [&](auto sizes) {
        using S = decltype(sizes);
        steps.enqueue(rank_many<M, S, T>, S::kBlocks * steps.processors, dim3(S::kThreads),
                      S::kBytes, plan);
    };
    steps.enqueue(rank_few<M, T>, ceil_div(plan.rows, kFewWarps), dim3(kFewWarps * kLanes), 0,
                  plan);
    rank_left(Many<T, kThreads, kEach, false>(NULL));
    if constexpr (kOfMany) {
        rank_left(Many<T, kThreadsOfMany, kManyOfThread, true>(NULL));
    }
}

/* The neighbours of rows that failed. */
template <typename M, bool kOfMany, typename T>
void recompute(Steps &steps, const PlanOf<T> &plan)
{
    using R = Recompute<T, kOfMany>;
    const int slices = slices_of<T>(plan);
    steps.enqueue(recompute_direct<M, R, T>, R::kBlocks * steps.processors, dim3(R::kThreads),
                  recompute_bytes<R>(plan.d), plan, slices);
    steps.enqueue(merge<T>, steps.processors, dim3(kMergeThreads), kMostMerged * sizeof(KeyOf<T>),
                  plan, slices);
}

template <typename Way>
using OtherOf = decltype(std::declval<Way>().other());
template <typename Way, typename = void>
constexpr bool kHasOther = false;
template <typename Way>
constexpr bool kHasOther<Way, std::void_t<OtherOf<Way>>> = true;

/* A guess for each row of what its neighbours are up to. */
template <typename Way, typename T>
void guess_limits(Steps &steps, const Way &way, const PlanOf<T> &plan)
{
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    way.prepare_rows(steps, plan);
    way.template look_at<Look::kMinima>(steps, plan, {0, plan.sampled, plan.stride, Part::kSample});
    steps.enqueue(guess, rows / kGuessWarps, dim3(kGuessWarps * kLanes), 0, (const Plan &)plan);
}

/* From limits to neighbours, but for rows that fail. */
template <typename Way, typename T>
void find(Steps &steps, const Way &way, const PlanOf<T> &typed)
{
    using M = typename Way::Metric;
    const Plan &plan = typed;
    const auto list_hits = [&](int begin, int end, Part part) {
        way.template look_at<Look::kLog>(steps, typed, {begin, end, 1, part});
        steps.enqueue(scatter, 8 * steps.processors, dim3(kChunk), 0, plan);
    };
    const auto list_first = [&](int begin, int end) {
        const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
        list_hits(begin, end, Part::kFirst);
        steps.enqueue(tighten<Way::kIsExact>, rows / kGuessWarps, dim3(kGuessWarps * kLanes), 0,
                      plan);
    };
    int first = 0;
    if constexpr (Way::kIsExact) {
        for (int end = plan.list_room / 2 / kTileCols; plan.tightens && end < plan.tiles;
             end *= kGrowth) {
            list_first(first, end);
            first = end;
        }
    }
    else {
        first = first_tiles(plan);
        if (first > 0 || (plan.tightens && plan.most_centres > 1)) {
            list_first(0, first);
        }
    }
    list_hits(first, plan.tiles, Part::kOthers);
    if (plan.wanted <= kFewWanted) {
        rank<M, false>(steps, typed);
    }
    else {
        rank<M, true>(steps, typed);
    }
}

/* may_leave: not to be done where has_few() says no; returns whether it is. */
template <typename Way, typename T>
bool search(Steps &steps, const Way &way, const PlanOf<T> &plan, bool check, bool may_leave)
{
    using M = typename Way::Metric;
    guess_limits(steps, way, plan);
    if (may_leave && !has_few(steps, &plan.found->many)) {
        return false;
    }
    if (check) {
        way.template look_at<Look::kCheck>(steps, plan, {0, plan.tiles, 1, Part::kAll});
    }
    if constexpr (kHasOther<Way>) {
        const auto other = way.other();
        PlanOf<T> again = plan;
        way.judge(steps, plan);
        find(steps, way, plan);
        other.take_over(again);
        guess_limits(steps, other, again);
        find(steps, other, again);
    }
    else {
        find(steps, way, plan);
    }
    if (plan.wanted <= kFewWanted) {
        recompute<M, false>(steps, plan);
    }
    else {
        recompute<M, true>(steps, plan);
    }
    return true;
}

/* What the launcher of a row does. */
template <typename Way>
gd_status run(gd_neighbors *call, gd_error *err)
{
    using T = typename Way::Number;
    Way way;
    return run_search<T, PlanOf<T>>(
        call, Way::kId, err,
        [&](PlanOf<T> &plan, int processors, Layout &take) {
            lay_out(*call, processors, way, plan, take);
            return rows_at_once(plan.wanted);
        },
        [&](Steps &steps, const PlanOf<T> &plan) { way.arrange(steps, plan); },
        [&](Steps &steps, const PlanOf<T> &plan) {
            return search(steps, way, plan, call->launch.options.value[0] != 0,
                          call->may_leave && call->ranked.most == 0);
        });
}

/* Fails where a call is not what the rows of the table take. */
inline gd_status refuse_others(const gd_neighbors &call, const char *id, gd_error *err)
{
    constexpr ptrdiff_t kMostDims = 1024;
    if (call.b.cols > kMostDims || call.b.rows < GD_PRODUCT_FEWEST ||
        call.b.rows > GD_POINTS_MOST || call.ranked.most > kMostNeighbors) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "%s looks for up to %d neighbours among %d to %d points of up to %td "
                       "dimensions",
                       id, kMostNeighbors, GD_PRODUCT_FEWEST, GD_POINTS_MOST, kMostDims);
    }
    return GD_OK;
}

}  // namespace filter
}  // namespace gd
#endif
