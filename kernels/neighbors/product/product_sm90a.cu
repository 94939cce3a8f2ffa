/* product_sm90a.cu: the nearest neighbours of points on Hopper GPUs, exactly.
 *
 * Idea: neighbours are few. One product of halves tells of each pair that it is no nearer than this
 * and no further than that (operands.cuh); only pairs that may be among the nearest are computed,
 * in direct form, with the bits of all kernels that say GD_EQUAL_BITS. What is near enough to be
 * looked at is a guess, from products with a sample of B's tiles. The products with the first tiles
 * make it a bound. Where a guess fails, or rows are beyond halves or their lists are full, or so
 * many distances are infinite that they are equal, a row is compared with all of B. So the answer
 * is exact whatever the data; the guess decides what it takes. Where a radius is given, lists hold
 * what is within alone. Points in clusters have several centres, and most tiles are passed over
 * (centres.cuh).
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
 * where 0.32 make rows of unit length; 31 within a radius 5.0; 64 tight clusters with one centre
 * 7.7 / 9.6 / 20 / 95. On an H100, where k = 10 takes 6.5,
 * pairs within a radius with 1 neighbour are counted in 6.9, by five radii in 7.2 (in panels 118);
 * and where a radius has more neighbours than are listed, the sample says so after 3.
 *
 * On an H100, 2026-11-27, k = 1 / 10 / 100 at d = 128: points without clusters take 4.3 / 4.6 / 5.3
 * in a row, 4.8 / 5.0 / 5.8 alone. Alone 64 clusters whose radius is a tenth of what is between
 * their centres take 1.6 / 1.8 / 2.1 (with one centre 7.6 / 9.9 / 37), and 150 a hundred times
 * tighter 2.0 / 2.0 (294 / 314, in panels 118). Of 1.8, images of B take 0.40, products 0.23 with
 * the sample and 0.28 after that, which columns are near which centre 0.20, rows by every centre
 * 0.12. To see that there are no clusters takes 0.02 to 0.07. 64 clusters of longer rows
 * (2026-11-28): d = 256 3.1 / 3.1 / 3.7 (with one centre 27 at k = 10, 524 at k = 100), 512 7.6 at
 * k = 100. k = 1000: 64 clusters 5.7, d = 256 9.2 (109 and 1026); without clusters 10.7, d =
 * 16 7.2.
 *
 * Steps, a file each: prepare.cuh, copies.cuh, centres.cuh, prepare_columns.cuh, multiply.cuh or
 * multiply_long.cuh with look.cuh, lists.cuh, rank.cuh, recompute.cuh. README.md beside this folder
 * has a drawing of them.
 */
#include "neighbors/product/centres.cuh"
#include "neighbors/product/multiply_long.cuh"
#include "neighbors/product/prepare_columns.cuh"
#include "neighbors/product/search.cuh"

namespace {

using namespace gd::filter;
using gd::Layout, gd::Steps;
constexpr const char *kId = "neighbors/cuda_product";

constexpr int kLong = 0; /* instead of the steps of a product: rows of more than 128 dimensions */

/* Points in which clusters are looked for: with fewer, that takes as long as it saves. */
constexpr ptrdiff_t kFewestClustered = 1 << 15;
/* Points for each centre, whose last tiles are not full. */
constexpr ptrdiff_t kFewOfCentre = 1 << 10;
/* And so many times as many as are wanted: clusters that are smaller fill no list. */
constexpr int kTimesWanted = 2;

int steps_of(ptrdiff_t d)
{
    int steps = 1;
    while (steps * kStepDims < d) {
        steps *= 2;
    }
    return steps <= 8 ? steps : kLong;
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

/* Centres that there are at most. Of rows of more than 192 dimensions fewer: images of rows by each
 * of them would take more memory than the log, and images of centres more than a block has. */
int most_centres(const Plan &plan, ptrdiff_t columns)
{
    constexpr int kPlanesOfAll = kMostCentres * 24;
    if (columns < kFewestClustered) {
        return 1;
    }
    const int most = max(min(kPlanesOfAll / plan.planes, kMostCentres), kCentresAtOnce);
    const ptrdiff_t each = max(kFewOfCentre, (ptrdiff_t)kTimesWanted * plan.wanted);
    return (int)min(columns / each, (ptrdiff_t)most);
}

/* Tiles that are sorted together, as many as there may be: each centre has some that are not full.
 */
ptrdiff_t blocks_of(const Plan &plan)
{
    return gd::ceil_div(plan.tiles, plan.sorted_tiles) +
           (plan.most_centres > 1 ? plan.most_centres : 0);
}

/* The same, with those of the sample as it was, which take the place of others where there are
 * copies. */
ptrdiff_t prepared_blocks(const Plan &plan)
{
    return blocks_of(plan) +
           (plan.most_centres > 1 ? gd::ceil_div(plan.sampled, plan.sorted_tiles) : 0);
}

/* See find_scale. Where a sum of squares that is not known to be good is computed in float64, its
 * root loses nothing, and itself half of the last step; in all others each square may lose that. */
template <typename T>
double least_of(gd_metric metric)
{
    return sizeof(T) == sizeof(double) ? 0x1p-531
           : metric == GD_COSINE       ? 0x1p-69
           : metric == GD_EUCLIDEAN    ? 0
                                       : 0x1p-73;
}

template <int kSteps, typename T>
struct Products {
    using Number = T;
    using Metric = gd::Ended;
    static constexpr const char *kId = ::kId;
    static constexpr bool kIsLong = kSteps == kLong, kIsExact = false;
    static constexpr int kLogs = kWarps;
    static constexpr float kMostLimit = kFar / 2;

    void lay_out(PlanOf<T> &plan, Layout &take) const
    {
        plan.planes =
            kIsLong ? (int)gd::ceil_div(plan.d, (ptrdiff_t)kSlabDims) * kSlabPlanes : 2 * kSteps;
        plan.most_centres = most_centres(plan, plan.b.count);
        plan.sorted_tiles = sorted_tiles<kSteps>();
        const ptrdiff_t tiles = prepared_blocks(plan) * plan.sorted_tiles;
        plan.first_sampled = blocks_of(plan) * plan.sorted_tiles * kTileCols;
        take(plan.centre, plan.centre_pitch());
        take(plan.centres, plan.most_centres * plan.centre_pitch());
        if constexpr (kIsLong) {
            take(plan.columns, tiles * kTileCols * bytes_of_image(plan));
            take(plan.column_facts, tiles);
            take(plan.squares, tiles * kTileCols);
        }
        else {
            take(plan.columns, tiles * (ptrdiff_t)sizeof(Columns<kSteps>));
        }
        take(plan.tile_facts, tiles);
        take(plan.column_of, tiles * kTileCols);
        if (plan.most_centres > 1) {
            lay_out_centres(plan, take);
        }
    }
    void lay_out_rows(PlanOf<T> &plan, Layout &take, ptrdiff_t rows) const
    {
        take(plan.images, rows * bytes_of_image(plan));
        if (plan.most_centres > 1) {
            const int of_slot = plan.wanted > kFewWanted ? kFineMinima : kMinima;
            plan.minima_pitch = max(plan.sampled * kMinima, kMostSlots * of_slot);
            static_assert(kMostSlots * kFineMinima * sizeof(float) <=
                              kManyOfThread * kThreadsOfMany * sizeof(Candidate),
                          "they fit where lists will be");
            take(plan.of_rows.nearest, rows);
            take(plan.of_rows.order, rows);
            take(plan.units[0], (ptrdiff_t)plan.strips * kSampleUnits);
            take(plan.units[1], plan.strips * blocks_of(plan));
            take(plan.units[2], plan.strips * blocks_of(plan));
            take(plan.slots, plan.strips);
            take(plan.most_own, plan.strips);
            take(plan.first_slots, (ptrdiff_t)plan.strips * kMostCentres);
        }
    }
    static void lay_out_centres(PlanOf<T> &plan, Layout &take)
    {
        for (Members *const members : {&plan.of_columns, &plan.of_rows}) {
            take(members->starts, kMostCentres + 1);
            take(members->counts, kMostCentres);
            take(members->taken, kMostCentres);
        }
        plan.of_columns.order = plan.column_of;
        plan.of_columns.whole = plan.sorted_tiles * kTileCols;
        plan.of_rows.whole = 1;
        take(plan.of_columns.nearest, plan.b.count);
        take(plan.nearest_mates, kMates);
        take(plan.centre_of_mate, kMates);
        take(plan.first_mates, kMates);
        take(plan.copies, plan.b.count);
        take(plan.next_copy, plan.b.count);
        take(plan.hash_slots, kSlotsOfRow * plan.b.count);
        Layout images = {plan.columns};
        const ptrdiff_t parts = gd::ceil_div(plan.b.count, (ptrdiff_t)kGroupedRows);
        images(plan.groups, plan.b.count);
        images(plan.runs, parts * kGroupedRows);
        images(plan.run_counts, parts);
        take(plan.centre_images,
             (ptrdiff_t)whole_centres(plan.most_centres) * plan.centre_image_pitch());
        take(plan.centre_squares, kMostCentres);
        take(plan.reaches, kMostCentres);
        take(plan.spans, kMostCentres);
        for (int stride = 1; stride < kStrides; ++stride) {
            plan.nth_of[stride] = guess_of_few(plan.wanted, stride);
        }
    }
    static ptrdiff_t bytes_of_image(const Plan &plan)
    {
        return (ptrdiff_t)sizeof(uint4) * plan.planes;
    }

    void arrange(Steps &steps, const PlanOf<T> &plan) const
    {
        const ptrdiff_t blocks = prepared_blocks(plan);
        measure<false>(steps, plan, plan.planes * 8, least_of<T>(plan.metric));
        if (plan.most_centres > 1) {
            constexpr int kBlocks = kMates / kMatesAtOnce;
            steps.enqueue(measure_mates<T>, kBlocks * kBlocks, dim3(kMateThreads), 0, plan);
            steps.enqueue(find_centres, 1, dim3(kMates), 0, (const Plan &)plan);
            steps.enqueue(place_centres<T>, plan.most_centres + 8 * steps.processors,
                          dim3(kCentreThreads), 0, plan);
            steps.enqueue(group_rows<T>, gd::ceil_div(plan.b.count, (ptrdiff_t)kGroupedRows),
                          dim3(kGroupThreads), 0, plan);
            sort_by_centre<false>(steps, plan, plan.b.count);
        }
        if constexpr (kIsLong) {
            constexpr int kColumns = kColumnWarps * kRowsOfWarp;
            const ptrdiff_t parts = blocks * kSortedCols / kColumns;
            const dim3 threads(kColumnWarps * gd::filter::kLanes);
            steps.enqueue(measure_columns<T>, parts, threads, 0, plan);
            steps.enqueue(sort_columns, blocks, dim3(kSortedCols), 0, (const Plan &)plan,
                          plan.b.count);
            steps.enqueue(write_columns<T>, parts, threads, 0, plan);
        }
        else {
            steps.enqueue(prepare_columns<kSteps, T>, blocks, dim3(1024), sizeof(Sorting<kSteps>),
                          plan);
        }
    }
    void prepare_rows(Steps &steps, const PlanOf<T> &plan) const
    {
        const ptrdiff_t rows = (ptrdiff_t)plan.strips * kTileRows;
        const bool several = plan.most_centres > 1;
        if (several) {
            sort_by_centre<true>(steps, plan, plan.rows);
        }
        steps.enqueue(gd::filter::prepare_rows<T>,
                      rows / (kRowWarps * kRowsOfWarp) * (several ? kCentreParts : 1),
                      dim3(kRowWarps * gd::filter::kLanes), 0, plan);
        if (several) {
            steps.enqueue(list_samples, plan.strips, dim3(kTileRows), 0, (const Plan &)plan);
        }
    }
    /* Puts columns or rows in the order of their centres, if there are several. */
    template <bool kOfRows>
    static void sort_by_centre(Steps &steps, const PlanOf<T> &plan, ptrdiff_t count)
    {
        steps.enqueue(find_members<kSteps, kOfRows, T>, (kIsLong ? 1 : 2) * steps.processors,
                      dim3(kFindingThreads<kSteps>), finding_bytes(plan), plan);
        steps.enqueue(place_members, gd::ceil_div(count, (ptrdiff_t)kPlaced), dim3(kMemberThreads),
                      0, (const Plan &)plan, kOfRows ? plan.of_rows : plan.of_columns, (int)count);
    }
    /* Multiplies rows with some tiles; where there are several centres, with those of these that
     * may be near. */
    template <Look kLook>
    void look_at(Steps &steps, const PlanOf<T> &typed, const Tiles &tiles) const
    {
        using P = std::conditional_t<kLook == Look::kCheck, PlanOf<T>, Plan>;
        const P &plan = typed;
        const int strips = plan.strips * (kIsLong ? kTileRows / kGroupRows : 1);
        Units units = {tiles, strips,
                       tiles_of_unit(strips, tiles.end - tiles.begin, steps.processors)};
        if (plan.most_centres > 1) {
            units.listed = plan.units[list_of(tiles.part)];
            units.listed_count = plan.found->units + (int)tiles.part;
            units.of_sample = tiles.part == Part::kSample;
            if (tiles.part != Part::kSample) {
                steps.enqueue(list_units, 8 * steps.processors, dim3(kUnitThreads), 0,
                              (const Plan &)plan, tiles.part);
            }
        }
        if constexpr (kIsLong) {
            steps.enqueue(multiply_long<kLook, P>, steps.processors, dim3(kThreads),
                          sizeof(LongShared), plan, units);
        }
        else {
            using Kind = Halves<kSteps, kLook, P>;
            steps.enqueue(multiply_rows<Kind>, steps.processors, dim3(kThreads),
                          sizeof(Shared<Kind>), plan, units);
        }
    }
};

template <int kSteps>
gd_status run_type(gd_neighbors *call, gd_error *err)
{
    return gd::with_float_type(
        call->b.dtype, [&](auto type) { return run<Products<kSteps, decltype(type)>>(call, err); });
}

}  // namespace

extern "C" gd_status gd_cuda_neighbors_product(gd_neighbors *call, gd_error *err)
{
    const gd_status status = refuse_others(*call, kId, err);
    if (status != GD_OK) {
        return status;
    }
    switch (steps_of(call->b.cols)) {
        case 1:
            return run_type<1>(call, err);
        case 2:
            return run_type<2>(call, err);
        case 4:
            return run_type<4>(call, err);
        case 8:
            return run_type<8>(call, err);
        default:
            return run_type<kLong>(call, err);
    }
}
