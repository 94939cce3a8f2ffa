/* product_sm90a.cu: the nearest neighbours of float32 points on Hopper GPUs, exactly.
 *
 * Idea: neighbours are few. One product of halves tells of each pair that it is no nearer than this
 * and no further than that (operands.cuh); only pairs that may be among the nearest are computed,
 * in direct form, with the bits of all kernels that say GD_EQUAL_BITS. What is near enough to be
 * looked at is a guess, from products with a sample of B's tiles. The products with the first tiles
 * make it a bound. Where a guess fails, or rows are beyond halves or their lists are full, or so
 * many distances are infinite that they are equal, a row is compared with all of B. So the answer
 * is exact whatever the data; the guess decides what it takes.
 *
 * Floor of 10,000 x 1,000,000 on an H200: one product at 775e12 operations a second, d = 128 3.3
 * ms, 768 19.8; d = 16 looking at the accumulators, half an instruction a pair, and reading and
 * writing B once, 0.2 ms at d = 128.
 *
 * Reached there, normal data, from float32 rows to distances and indices, ms at k = 1 / 10 / 100: d
 * = 16 1.8 / 2.3 / 3.2, 128 4.2 / 4.5 / 5.3; k = 10: d = 32 2.5, 64 3.1, 256 9.3, 768 28. Of 4.5,
 * images of B take 0.33, the sample 0.27, products with all tiles 3.7, all else 0.2. 64 tight
 * clusters, d = 128, k = 1 / 10 7.5 / 9.3. Tensor cores set the pace at d = 128, and power their
 * clock; a hit costs what some hundred pairs do, as others wait for the warp that has it.
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

namespace {

using namespace gd::filter;
using gd::Layout, gd::Steps;
constexpr const char *kId = "neighbors/cuda_product";

/* Rows that are searched for at once: their lists take memory. */
constexpr ptrdiff_t kMostRows = 48 * kTileRows;
constexpr ptrdiff_t kMostDims = 1024;
constexpr int kLong = 0; /* instead of the steps of a product: rows of more than 128 dimensions */
constexpr int kSampleEvery = 17; /* tiles */
constexpr int kMostEach = 34;    /* tiles of a unit of work */
/* Hits of a row that there is room for, on average: many, and of those that are expected. */
constexpr int kHits = 1024, kMoreHits = 4, kListRoom = 4096;

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
int guess_of(int wanted, int stride)
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

template <int kSteps>
void lay_out(const gd_neighbors &call, int processors, Plan &plan, Layout &take)
{
    plan = {};
    plan.a = gd::points_of<float>(call.a);
    plan.b = gd::points_of<float>(call.b);
    plan.d = call.b.cols;
    plan.words_a = gd::reads_words<float>(call.a);
    plan.words_b = gd::reads_words<float>(call.b);
    plan.wanted = (int)call.ranked.most;
    plan.tiles = (int)gd::ceil_div(call.b.rows, (ptrdiff_t)kTileCols);
    plan.stride = sample_stride(plan.tiles);
    plan.sampled = (int)gd::ceil_div(plan.tiles, plan.stride);
    plan.nth = guess_of(plan.wanted, plan.stride);
    plan.list_room = kListRoom;

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

    const ptrdiff_t most = min(call.a.rows, kMostRows);
    plan.strips = (int)gd::ceil_div(most, (ptrdiff_t)kTileRows);
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    const ptrdiff_t hits = kHits + kMoreHits * plan.nth * plan.stride;
    plan.chunks = (unsigned)(rows * hits / kChunk + 2 * processors * kWarps);
    take(plan.images, rows * image);
    take(plan.row_facts, rows);
    take(plan.counts, rows);
    take(plan.failed_rows, rows);
    take(plan.left_rows, rows);
    take(plan.log, plan.chunks);
    take(plan.lists, rows * plan.list_room);
    plan.minima = reinterpret_cast<float *>(plan.lists); /* until there are lists */
    static_assert(kMostMinima * sizeof(float) <= kListRoom * sizeof(Candidate), "they fit");
    static_assert(kListRoom <= 16 * kManyThreads, "a block of rank_many holds a list");
}

template <int kSteps>
void arrange(Steps &steps, const Plan &plan, bool squared)
{
    const ptrdiff_t blocks = gd::ceil_div(plan.tiles, sorted_tiles<kSteps>());
    steps.enqueue(find_centre, gd::ceil_div(plan.planes * 8, gd::filter::kLanes), dim3(1024), 0,
                  plan);
    steps.enqueue(find_scale, 1, dim3(1024), 0, plan, squared);
    if constexpr (kSteps == kLong) {
        constexpr int kColumns = kColumnWarps * kRowsOfWarp;
        const ptrdiff_t parts = blocks * kSortedCols / kColumns;
        const dim3 threads(kColumnWarps * gd::filter::kLanes);
        steps.enqueue(measure_columns, parts, threads, 0, plan);
        steps.enqueue(sort_columns, blocks, dim3(kSortedCols), 0, plan);
        steps.enqueue(write_columns, parts, threads, 0, plan);
    }
    else {
        steps.enqueue(prepare_columns<kSteps>, blocks, dim3(1024), sizeof(Sorting<kSteps>), plan);
    }
}

/* Tiles of a unit of work: many, for the image of its rows comes once, but so few that all blocks
 * have about as much to do. */
int tiles_of_unit(int strips, int tiles, int blocks)
{
    const ptrdiff_t most = (ptrdiff_t)strips * tiles / ((ptrdiff_t)blocks * 32);
    return (int)max(min(most, (ptrdiff_t)kMostEach), (ptrdiff_t)2);
}

/* Multiplies rows with some tiles. */
template <int kSteps, Look kLook>
void multiply_with(Steps &steps, const Plan &plan, const Tiles &tiles)
{
    constexpr bool kIsLong = kSteps == kLong;
    const int strips = plan.strips * (kIsLong ? kTileRows / kGroupRows : 1);
    const Units units = {tiles, strips,
                         tiles_of_unit(strips, tiles.end - tiles.begin, steps.processors)};
    if constexpr (kIsLong) {
        steps.enqueue(multiply_long<kLook>, steps.processors, dim3(kThreads), sizeof(LongShared),
                      plan, units);
    }
    else {
        steps.enqueue(multiply_rows<kSteps, kLook>, steps.processors, dim3(kThreads),
                      sizeof(Shared<kSteps>), plan, units);
    }
}

/* Tiles that are multiplied before limits are lowered. Of a share s of them as many as s times the
 * guess's hits pass, of the others wanted / s in as many as all: so the best s is the root of
 * wanted by the guess's. With few tiles the steps between would count. */
int first_tiles(const Plan &plan)
{
    constexpr int kManyTiles = 512;
    const double share = sqrt(plan.wanted / (double)(plan.nth * plan.stride));
    return plan.tiles < kManyTiles ? 0 : (int)(plan.tiles * share);
}

template <int kSteps, typename M>
void search(Steps &steps, const Plan &plan, bool check)
{
    const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
    const int slices = min(kMostSlices, plan.list_room / plan.wanted);
    steps.enqueue(prepare_rows, rows / (kRowWarps * kRowsOfWarp),
                  dim3(kRowWarps * gd::filter::kLanes), 0, plan);
    multiply_with<kSteps, Look::kMinima>(steps, plan, {0, plan.sampled, plan.stride});
    steps.enqueue(guess, rows / kGuessWarps, dim3(kGuessWarps * gd::filter::kLanes), 0, plan);
    if (check) {
        multiply_with<kSteps, Look::kCheck>(steps, plan, {0, plan.tiles, 1});
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
    steps.enqueue(rank_few<M>, gd::ceil_div(plan.rows, kFewWarps),
                  dim3(kFewWarps * gd::filter::kLanes), 0, plan);
    steps.enqueue(rank_many<M>, 4 * steps.processors, dim3(kManyThreads),
                  many_bytes(plan.list_room), plan);
    steps.enqueue(recompute_direct<M>, kRecomputeBlocks * steps.processors, dim3(kRecomputeThreads),
                  recompute_bytes(plan.d), plan, slices);
    steps.enqueue(merge, steps.processors, dim3(kMergeThreads),
                  (size_t)plan.list_room * sizeof(Key), plan, slices);
}

template <int kSteps, typename M>
gd_status run(gd_neighbors *call, gd_error *err)
{
    Plan plan;
    Layout take = {(unsigned char *)call->launch.workspace};
    Steps steps(call->launch);
    GD_CUDA_TRY(err, kId, steps.code);
    lay_out<kSteps>(*call, steps.processors, plan, take);
    if (call->launch.sizing) {
        call->launch.workspace_bytes = take.bytes;
        return GD_OK;
    }
    if (!call->arranged) {
        arrange<kSteps>(steps, plan, !M::root);
        GD_CUDA_TRY(err, kId, steps.code);
        call->arranged = true;
        return GD_OK;
    }
    const ptrdiff_t rows = call->a.rows, pieces = gd::ceil_div(rows, kMostRows);
    const ptrdiff_t each =
        gd::ceil_div(gd::ceil_div(rows, pieces), (ptrdiff_t)kTileRows) * kTileRows;
    for (ptrdiff_t first = 0; first < rows && steps.code == cudaSuccess; first += each) {
        plan.rows = (int)min(rows - first, each);
        plan.strips = (int)gd::ceil_div(plan.rows, kTileRows);
        plan.a.data = (const float *)call->a.data + first * call->a.row_stride;
        plan.a.count = plan.rows;
        plan.self = call->self < 0 ? -1 : call->self + first;
        plan.distances = (float *)call->ranked.distances + first * plan.wanted;
        plan.indices = call->ranked.indices + first * plan.wanted;
        search<kSteps, M>(steps, plan, call->launch.options.value[0] != 0);
    }
    GD_CUDA_TRY(err, kId, steps.code);
    return GD_OK;
}

template <int kSteps>
gd_status run_metric(gd_neighbors *call, gd_error *err)
{
    return call->metric == GD_SQEUCLIDEAN ? run<kSteps, gd::Metric<GD_SQEUCLIDEAN>>(call, err)
                                          : run<kSteps, gd::Metric<GD_EUCLIDEAN>>(call, err);
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
