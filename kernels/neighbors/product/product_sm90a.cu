/* product_sm90a.cu: the nearest neighbours of points on Hopper GPUs, exactly.
 *
 * Idea: neighbours are few. One product of halves tells of each pair that it is no nearer than this
 * and no further than that (operands.cuh); only pairs that may be among the nearest are computed,
 * in direct form, with the bits of all kernels that say GD_EQUAL_BITS. What is near enough to be
 * looked at is a guess, from products with a sample of B's tiles. The products with the first tiles
 * make it a bound. Where a guess fails, or rows are beyond halves or their lists are full, or so
 * many distances are infinite that they are equal, a row is compared with all of B. So the answer
 * is exact whatever the data; the guess decides what it takes. Where a radius is given, lists hold
 * what is within alone.
 *
 * Floor of 10,000 x 1,000,000 on an H200: one product at 775e12 operations a second, d = 128 3.3
 * ms, 768 19.8; d = 16 looking at the accumulators, half an instruction a pair, and reading and
 * writing B once, 0.2 ms at d = 128.
 *
 * Reached there, normal data, from float32 rows to distances and indices, ms at k = 1 / 10 / 100: d
 * = 16 1.8 / 2.3 / 3.2, 128 4.2 / 4.5 / 5.3; k = 10: d = 32 2.5, 64 3.1, 256 9.3, 768 28. Of 4.5,
 * images of B take 0.33, the sample 0.27, products with all tiles 3.7, all else 0.2. Tensor cores
 * set the pace at d = 128, and power their clock; a hit costs what some hundred pairs do, as others
 * wait for the warp that has it. In a later run, slower by some 5 %, d = 128, k = 1 / 10 / 100 /
 * 1000: float32 4.4 / 4.8 / 5.7 / 11, of which 3.4 go for the distances of 10,000,000 neighbours
 * and 1.1 for their lists (in panels 156); float64 4.5 / 4.8 / 6.2 / 16; cosine 4.7 / 5.3 / 6.3,
 * where 0.32 make rows of unit length; 31 within a radius 5.0; 64 tight clusters 7.7 / 9.6 / 20
 * / 95. On an H100, where k = 10 takes 6.5, pairs within a radius with 1 neighbour are counted
 * in 6.9, by five radii in 7.2 (in panels 118); and where a radius has more neighbours than are
 * listed, the sample says so after 3.
 *
 * Steps, a file each: prepare.cuh, prepare_columns.cuh, multiply.cuh or multiply_long.cuh with
 * look.cuh, lists.cuh, rank.cuh, recompute.cuh. README.md beside this folder has a drawing of them.
 */
#include <numeric>

#include "common/steps.cuh"
#include "neighbors/product/lists.cuh"
#include "neighbors/product/multiply_long.cuh"
#include "neighbors/product/prepare_columns.cuh"
#include "neighbors/product/recompute.cuh"
#include "neighbors/product/within.cuh"

namespace {

using namespace gd::filter;
using gd::Layout, gd::Steps;
constexpr const char *kId = "neighbors/cuda_product";

/* Neighbours of a row that are few, and rows that are searched for at once, of few neighbours and
 * of many: their lists take memory. */
constexpr int kFewWanted = 128;
constexpr ptrdiff_t kMostRows = 48 * kTileRows, kMostRowsOfMany = 24 * kTileRows;
/* The threads of a block that ranks a row with many candidates. */
constexpr int kThreadsOfFew = 256, kThreadsOfMany = 512;
constexpr ptrdiff_t kMostDims = 1024;
constexpr int kLong = 0; /* instead of the steps of a product: rows of more than 128 dimensions */
constexpr int kSampleEvery = 17; /* tiles */
constexpr int kMostEach = 34;    /* tiles of a unit of work */
/* Hits of a row that there is room for, on average: some, and of those that are expected. Of tight
 * clusters, whose bounds are wide beside their distances, there are many more than expected. */
constexpr int kHits = 1024, kMoreHits = 7, kMoreOfMany = 3;

int steps_of(ptrdiff_t d)
{
    int steps = 1;
    while (steps * kStepDims < d) {
        steps *= 2;
    }
    return steps <= 8 ? steps : kLong;
}

/* Every so many tiles are sampled: few enough, and with no factor in common with how many are
 * sorted together, as those are sorted by their squares. */
int sample_stride(ptrdiff_t tiles)
{
    ptrdiff_t stride = kSampleEvery;
    while (std::gcd(stride, (ptrdiff_t)30) != 1 ||
           gd::ceil_div(tiles, stride) * kMinima > kMostMinima) {
        ++stride;
    }
    return (int)stride;
}

/* Which of the sample's least is the guess. It fails if so many of the wanted - 1 nearest are in
 * the sample, of which every stride-th column is: a binomial law says how likely that is. Rows that
 * are near each other in B may be so in space; but a tile gives kMinima of the least at most. */
int guess_of_few(int wanted, int stride)
{
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
int guess_of_many(int wanted, ptrdiff_t columns, int sampled)
{
    constexpr double kSigmas = 6;
    const double in_run = 1 - pow(1 - wanted / (double)columns, kRun);
    const double mean = in_run * sampled * kMinima, variance = mean * (1 - in_run);
    return min(wanted, max((int)(mean + kSigmas * sqrt(variance)) + 4, kMinima + 1));
}

/* Sets which tiles are sampled, and which of their least is the guess. */
void plan_sample(Plan &plan, ptrdiff_t columns)
{
    const auto sample = [&](int stride) {
        plan.stride = stride;
        plan.sampled = (int)gd::ceil_div(plan.tiles, stride);
    };
    sample(sample_stride(plan.tiles));
    if (plan.wanted <= kFewWanted) {
        plan.nth = guess_of_few(plan.wanted, plan.stride);
        return;
    }
    /* Where most of a sample's runs would have a neighbour, it has to be larger. */
    for (const int stride : {plan.stride, 7, 1}) {
        if (stride > plan.stride || gd::ceil_div(plan.tiles, stride) * kMinima > kMostMinima) {
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
double expected_hits(const Plan &plan)
{
    const double runs = plan.sampled * (double)kMinima + 1;
    return plan.wanted <= kFewWanted ? plan.nth * (double)plan.stride
                                     : -log1p(-plan.nth / runs) / kRun * plan.tiles * kTileCols;
}

/* Tiles that are sorted together. */
template <int kSteps>
constexpr int sorted_tiles()
{
    if constexpr (kSteps == kLong) {
        return kSortedTiles;
    }
    else {
        return Sorting<kSteps>::kTiles;
    }
}

ptrdiff_t rows_at_once(int wanted) { return wanted <= kFewWanted ? kMostRows : kMostRowsOfMany; }

template <int kSteps, typename T>
void lay_out(const gd_neighbors &call, int processors, PlanOf<T> &plan, Layout &take)
{
    plan = {};
    plan.a = gd::points_of<T>(call.a);
    plan.b = gd::points_of<T>(call.b);
    plan.d = call.b.cols;
    plan.words_a = gd::reads_words<T>(call.a);
    plan.words_b = gd::reads_words<T>(call.b);
    const bool counts = call.bound_count > 0;
    const bool lists = (call.within.starts != NULL || counts) && call.ranked.most == 0;
    plan.wanted = lists ? kMostNeighbors : (int)call.ranked.most;
    plan.tiles = (int)gd::ceil_div(call.b.rows, (ptrdiff_t)kTileCols);
    plan.list_room = kManyOfThread * (plan.wanted <= kFewWanted ? kThreadsOfFew : kThreadsOfMany);
    plan_sample(plan, call.b.rows);

    plan.planes = kSteps == kLong ? (int)gd::ceil_div(plan.d, (ptrdiff_t)kSlabDims) * kSlabPlanes
                                  : 2 * kSteps;
    const ptrdiff_t tiles =
        gd::ceil_div(plan.tiles, sorted_tiles<kSteps>()) * sorted_tiles<kSteps>();
    const ptrdiff_t image = sizeof(uint4) * plan.planes;
    take(plan.centre, plan.planes * 8 + gd::filter::kLanes);
    take(plan.found, 1);
    take(plan.odd_columns, kMostOdd);
    if constexpr (kSteps == kLong) {
        take(plan.columns, tiles * kTileCols * image);
        take(plan.column_facts, tiles);
        take(plan.squares, tiles * kTileCols);
    }
    else {
        take(plan.columns, tiles * (ptrdiff_t)sizeof(Columns<kSteps>));
    }
    take(plan.tile_facts, tiles);
    take(plan.column_of, tiles * kTileCols);

    const ptrdiff_t most = min(call.a.rows, rows_at_once(plan.wanted));
    plan.strips = (int)gd::ceil_div(most, (ptrdiff_t)kTileRows);
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    const double more = plan.wanted <= kFewWanted ? kMoreHits : kMoreOfMany;
    const ptrdiff_t hits = kHits + (ptrdiff_t)(more * expected_hits(plan));
    plan.chunks = (unsigned)(rows * hits / kChunk + 2 * processors * kWarps);
    take(plan.images, rows * image);
    take(plan.row_facts, rows);
    take(plan.counts, rows);
    take(plan.failed_rows, rows);
    take(plan.left_rows, rows);
    take(plan.bounds, rows);
    take(plan.tallies, call.within.starts != NULL ? call.a.rows : 0);
    take(plan.listed_distances, lists ? call.a.rows * plan.wanted : 0);
    take(plan.listed_indices, lists ? call.a.rows * plan.wanted : 0);
    take(plan.log, plan.chunks);
    take(plan.lists, rows * plan.list_room);
    plan.minima = reinterpret_cast<float *>(plan.lists); /* until there are lists */
    static_assert(kMostMinima * sizeof(float) <= kManyOfThread * kThreadsOfFew * sizeof(Candidate),
                  "they fit");
}

/* See find_scale. Where a sum of squares that is not known to be good is computed in float64, its
 * root loses nothing, and itself half of the last step; in all others each square may lose that. */
template <typename M, typename T>
constexpr double least_of()
{
    return sizeof(T) == sizeof(double) ? 0x1p-531
           : !M::template guarded<T>   ? 0x1p-69
           : M::root                   ? 0
                                       : 0x1p-73;
}

template <int kSteps, typename M, typename T>
void arrange(Steps &steps, const PlanOf<T> &plan)
{
    const ptrdiff_t blocks = gd::ceil_div(plan.tiles, sorted_tiles<kSteps>());
    steps.enqueue(find_centre<T>, gd::ceil_div(plan.planes * 8, gd::filter::kLanes), dim3(1024), 0,
                  plan);
    steps.enqueue(find_scale<T>, 1, dim3(1024), 0, plan, least_of<M, T>());
    if constexpr (kSteps == kLong) {
        constexpr int kColumns = kColumnWarps * kRowsOfWarp;
        const ptrdiff_t parts = blocks * kSortedCols / kColumns;
        const dim3 threads(kColumnWarps * gd::filter::kLanes);
        steps.enqueue(measure_columns<T>, parts, threads, 0, plan);
        steps.enqueue(sort_columns, blocks, dim3(kSortedCols), 0, plan);
        steps.enqueue(write_columns<T>, parts, threads, 0, plan);
    }
    else {
        steps.enqueue(prepare_columns<kSteps, T>, blocks, dim3(1024), sizeof(Sorting<kSteps>),
                      plan);
    }
}

/* Tiles of a unit of work: many, for the image of its rows comes once and takes half as long as a
 * tile, but so few that all blocks have about as much to do, in as many rounds. */
int tiles_of_unit(ptrdiff_t strips, ptrdiff_t tiles, ptrdiff_t blocks)
{
    const ptrdiff_t most =
        max(min(strips * tiles / (blocks * 32), (ptrdiff_t)kMostEach), (ptrdiff_t)2);
    ptrdiff_t best = most, least = PTRDIFF_MAX;
    for (ptrdiff_t each = most; each >= max(most * 2 / 3, (ptrdiff_t)2); --each) {
        const ptrdiff_t rounds = gd::ceil_div(strips * gd::ceil_div(tiles, each), blocks);
        if (rounds * (2 * each + 1) < least) {
            least = rounds * (2 * each + 1);
            best = each;
        }
    }
    return (int)best;
}

/* Multiplies rows with some tiles. */
template <int kSteps, Look kLook, typename P>
void multiply_with(Steps &steps, const P &plan, const Tiles &tiles)
{
    constexpr bool kIsLong = kSteps == kLong;
    const int strips = plan.strips * (kIsLong ? kTileRows / kGroupRows : 1);
    const Units units = {tiles, strips,
                         tiles_of_unit(strips, tiles.end - tiles.begin, steps.processors)};
    if constexpr (kIsLong) {
        steps.enqueue(multiply_long<kLook, P>, steps.processors, dim3(kThreads), sizeof(LongShared),
                      plan, units);
    }
    else {
        steps.enqueue(multiply_rows<kSteps, kLook, P>, steps.processors, dim3(kThreads),
                      sizeof(Shared<kSteps>), plan, units);
    }
}

/* Tiles that are multiplied before limits are lowered. Of a share s of them as many as s times the
 * guess's hits pass, of the others wanted / s in as many as all: so the best s is the root of
 * wanted by the guess's. With few tiles the steps between would count. */
int first_tiles(const Plan &plan)
{
    constexpr int kManyTiles = 512;
    const double share = sqrt(plan.wanted / expected_hits(plan));
    return plan.tiles < kManyTiles || 2 * plan.wanted > kTightened ? 0 : (int)(plan.tiles * share);
}

/* From lists to neighbours. */
template <typename M, bool kOfMany, typename T>
void rank(Steps &steps, const PlanOf<T> &plan)
{
    using S = Many<T, kOfMany ? kThreadsOfMany : kThreadsOfFew>;
    using R = Recompute<T, kOfMany>;
    const int slices = slices_of<T>(plan);
    steps.enqueue(rank_few<M, T>, gd::ceil_div(plan.rows, kFewWarps),
                  dim3(kFewWarps * gd::filter::kLanes), 0, plan);
    steps.enqueue(rank_many<M, S, T>, S::kBlocks * steps.processors, dim3(S::kThreads), S::kBytes,
                  plan);
    steps.enqueue(recompute_direct<M, R, T>, R::kBlocks * steps.processors, dim3(R::kThreads),
                  recompute_bytes<R>(plan.d), plan, slices);
    steps.enqueue(merge<T>, steps.processors, dim3(kMergeThreads), kMostMerged * sizeof(KeyOf<T>),
                  plan, slices);
}

/* Whether no row seems to have more within its radius than are wanted; waits for the guess. */
bool has_few(Steps &steps, const Plan &plan)
{
    const auto stream = (cudaStream_t)steps.launch.stream;
    unsigned many = 0;
    if (steps.code == cudaSuccess) {
        steps.code =
            cudaMemcpyAsync(&many, &plan.found->many, sizeof many, cudaMemcpyDeviceToHost, stream);
    }
    if (steps.code == cudaSuccess) {
        steps.code = cudaStreamSynchronize(stream);
    }
    return many == 0;
}

/* may_leave: not to be done where has_few() says no; returns whether it is. */
template <int kSteps, typename M, typename T>
bool search(Steps &steps, const PlanOf<T> &typed, bool check, bool may_leave)
{
    const Plan &plan = typed;
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    steps.enqueue(prepare_rows<T>, rows / (kRowWarps * kRowsOfWarp),
                  dim3(kRowWarps * gd::filter::kLanes), 0, typed);
    multiply_with<kSteps, Look::kMinima>(steps, plan, {0, plan.sampled, plan.stride});
    steps.enqueue(guess, rows / kGuessWarps, dim3(kGuessWarps * gd::filter::kLanes), 0, plan);
    if (may_leave && !has_few(steps, plan)) {
        return false;
    }
    if (check) {
        multiply_with<kSteps, Look::kCheck>(steps, typed, {0, plan.tiles, 1});
    }
    const auto list_hits = [&](int begin, int end) {
        multiply_with<kSteps, Look::kLog>(steps, plan, {begin, end, 1});
        steps.enqueue(scatter, 8 * steps.processors, dim3(kChunk), 0, plan);
    };
    const int first = first_tiles(plan);
    if (first > 0) {
        list_hits(0, first);
        steps.enqueue(tighten, rows / kGuessWarps, dim3(kGuessWarps * gd::filter::kLanes), 0, plan);
    }
    list_hits(first, plan.tiles);
    if (plan.wanted <= kFewWanted) {
        rank<M, false>(steps, typed);
    }
    else {
        rank<M, true>(steps, typed);
    }
    return true;
}

template <int kSteps, typename M, typename T>
gd_status run(gd_neighbors *call, gd_error *err)
{
    PlanOf<T> plan;
    Layout take = {(unsigned char *)call->launch.workspace};
    Steps steps(call->launch);
    GD_CUDA_TRY(err, kId, steps.code);
    lay_out<kSteps>(*call, steps.processors, plan, take);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = take.bytes;
        return GD_OK;
    }
    if (!call->arranged) {
        arrange<kSteps, M>(steps, plan);
        GD_CUDA_TRY(err, kId, steps.code);
        call->arranged = true;
        return GD_OK;
    }
    gd_ranked ranked = call->ranked;
    if (ranked.most == 0) {
        ranked = {plan.listed_distances, plan.listed_indices, plan.wanted, NULL};
    }
    if (call->within.indices != NULL) {
        steps.enqueue(write_listed<T>, call->a.rows, dim3(kWithinThreads),
                      kMostNeighbors * sizeof(Key), ranked, call->within);
        GD_CUDA_TRY(err, kId, steps.code);
        return GD_OK;
    }
    const ptrdiff_t rows = call->a.rows;
    const bool may_leave = call->may_leave && call->ranked.most == 0;
    const ptrdiff_t pieces = gd::ceil_div(rows, rows_at_once(plan.wanted));
    const ptrdiff_t each =
        gd::ceil_div(gd::ceil_div(rows, pieces), (ptrdiff_t)kTileRows) * kTileRows;
    for (ptrdiff_t first = 0; first < rows && steps.code == cudaSuccess; first += each) {
        plan.rows = (int)min(rows - first, each);
        plan.strips = (int)gd::ceil_div(plan.rows, kTileRows);
        plan.a.data = (const T *)call->a.data + first * call->a.row_stride;
        plan.a.count = plan.rows;
        plan.self = call->self < 0 ? -1 : call->self + first;
        plan.distances = (T *)ranked.distances + first * plan.wanted;
        plan.indices = ranked.indices + first * plan.wanted;
        plan.one_radius = call->one_limit;
        plan.radii = call->limits == NULL || call->one_limit ? call->limits : call->limits + first;
        plan.root = M::root;
        if (!search<kSteps, M>(steps, plan, call->launch.options.value[0] != 0, may_leave)) {
            steps.enqueue(tell_many, 1, dim3(1), 0,
                          call->bound_count > 0 ? call->counts + call->bound_count
                                                : call->within.starts + rows + 1);
            GD_CUDA_TRY(err, kId, steps.code);
            return GD_OK;
        }
    }
    if (call->bound_count > 0) {
        const gd::Bins bins = {call->bounds, call->bound_count};
        const int copies = (int)min(gd::kCensusRoom / bins.count, (ptrdiff_t)gd::filter::kLanes);
        steps.enqueue(tally_listed<T>, 8 * steps.processors, dim3(kWithinThreads), 0, ranked,
                      (int)rows, bins, copies, call->counts);
    }
    if (call->within.starts != NULL) {
        steps.enqueue(count_listed, gd::ceil_div(rows, (ptrdiff_t)kWithinThreads),
                      dim3(kWithinThreads), 0, ranked, (int)rows, plan.tallies);
        steps.enqueue(place_listed, 1, dim3(kPlaceThreads), 0, plan.tallies, (int)rows,
                      call->ranked.most == 0 ? plan.wanted : INT_MAX, call->within);
    }
    GD_CUDA_TRY(err, kId, steps.code);
    return GD_OK;
}

template <int kSteps>
gd_status run_metric(gd_neighbors *call, gd_error *err)
{
    return gd::with_float_type(call->b.dtype, [&](auto type) {
        using T = decltype(type);
        switch (call->metric) {
            case GD_COSINE:
                return run<kSteps, gd::Metric<GD_COSINE>, T>(call, err);
            case GD_SQEUCLIDEAN:
                return run<kSteps, gd::Metric<GD_SQEUCLIDEAN>, T>(call, err);
            default:
                return run<kSteps, gd::Metric<GD_EUCLIDEAN>, T>(call, err);
        }
    });
}

}  // namespace

extern "C" gd_status gd_cuda_neighbors_product(gd_neighbors *call, gd_error *err)
{
    if (call->b.cols > kMostDims || call->b.rows < GD_PRODUCT_FEWEST ||
        call->b.rows > GD_POINTS_MOST || call->ranked.most > kMostNeighbors) {
        return GD_FAIL(err, GD_BAD_VALUE,
                       "%s looks for up to %d neighbours among %d to %d points of up to %td "
                       "dimensions",
                       kId, kMostNeighbors, GD_PRODUCT_FEWEST, GD_POINTS_MOST, kMostDims);
    }
    switch (steps_of(call->b.cols)) {
        case 1:
            return run_metric<1>(call, err);
        case 2:
            return run_metric<2>(call, err);
        case 4:
            return run_metric<4>(call, err);
        case 8:
            return run_metric<8>(call, err);
        default:
            return run_metric<kLong>(call, err);
    }
}
