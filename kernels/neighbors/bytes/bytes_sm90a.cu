/* bytes_sm90a.cu: the nearest neighbours of points at cityblock distances on Hopper GPUs, exactly.
 *
 * Idea: as product/product_sm90a.cu, whose steps these are, but that bounds come from bytes: one
 * instruction adds how far the bytes of two words are apart, four dimensions of a pair, where
 * float32 takes two instructions for one. images.cuh says what rows are in bytes, and the bound.
 *
 * Bytes tell little where one scale is too coarse for the near and too fine for the far: of heavy
 * tails, of columns with much larger numbers than others, of clusters that are a hundredth of what
 * is between them. The sample shows it (judge.cuh), and then distances themselves are held against
 * limits where they are computed (direct.cuh), as guessed from a sample again. The host waits for
 * neither: kernels of the way that is not taken return at once, which costs some 30 us.
 *
 * Floor of 10,000 x 1,000,000 x 128 on an H100: 64 instructions a cycle and multiprocessor at 1.98
 * GHz, 32 a pair, 19.2 ms; of distances, two instructions a dimension of a pair, 77 ms.
 *
 * Reached there (2026-11-27), from float32 rows to distances and indices, ms, with panels in
 * brackets: normal data, d = 128, k = 1 / 10 / 100 27.3 / 28.5 / 32.9 (109 / 109 / 124), k = 1000,
 * which goes by distances, 122 (149); k = 10: d = 16 7.6 (30), 32 10.6 (42), 64 16.2 (65), 256 54.6
 * (200); Laplace's 35 (139 in that run), uniform 28, of four whole numbers 29. Of 28.5, sums with
 * all tiles take 25.6, those with the sample 1.5, ranks 0.4, images of B 0.25. By distances, as of
 * 64 tight clusters and of heavy tails, d = 16 19 (30), 32 32 (42), 128 108 (109), 768 701 (564),
 * the last with a sample three times as large as now. Equal distances cost nothing: 20 different
 * rows, d = 20, 24 (32).
 *
 * Steps, a file each: images.cuh, compare.cuh, judge.cuh, direct.cuh; and of product/, from
 * search.cuh on, all others. README.md beside this folder has a drawing of them. */
#include "neighbors/bytes/compare.cuh"
#include "neighbors/bytes/direct.cuh"
#include "neighbors/bytes/judge.cuh"
#include "neighbors/product/search.cuh"

namespace {

using namespace gd::filter;
using gd::Layout, gd::Steps;

constexpr const char *kId = "neighbors/cuda_bytes";

/* Distances themselves. */
template <typename M>
struct Direct {
    using Number = float;
    using Metric = M;
    static constexpr bool kIsExact = true;

    TileFacts *nothing; /* of tiles: all bounds are 0 */

    void take_over(PlanOf<float> &plan) const
    {
        /* Distances are exact, so that a smaller sample lets few more through; but enough of it. */
        constexpr int kThinner = 3, kManyTiles = 1024;
        if (plan.wanted <= kFewWanted && plan.tiles >= kManyTiles) {
            plan.stride *= kThinner;
            plan.sampled = (int)gd::ceil_div(plan.tiles, plan.stride);
            plan.nth = guess_of_few(plan.wanted, plan.stride);
        }
        plan.way = 1;
        plan.apart = kDirectApart;
        plan.most = kFar / 2;
        plan.tile_facts = nothing;
    }
    void prepare_rows(Steps &steps, const PlanOf<float> &plan) const
    {
        const int threads = max(plan.strips * kTileRows, plan.tiles);
        steps.enqueue(begin_direct, gd::ceil_div(threads, gd::kTileThreads), dim3(gd::kTileThreads),
                      0, plan);
    }
    template <Look kLook, bool kGroups, bool kWords>
    static void compare(Steps &steps, const PlanOf<float> &plan, const Tiles &tiles)
    {
        steps.enqueue(compare_points<M, kLook, kGroups, kWords>,
                      kDirectBlocks<kGroups> * steps.processors, dim3(gd::kTileThreads),
                      sizeof(DirectShared<kGroups>), plan, tiles);
    }
    template <Look kLook>
    void look_at(Steps &steps, const PlanOf<float> &plan, const Tiles &tiles) const
    {
        const bool words = plan.words_a && plan.words_b;
        if constexpr (kByFours<M>) {
            if (plan.d > kGroupOf<M>) {
                words ? compare<kLook, true, true>(steps, plan, tiles)
                      : compare<kLook, true, false>(steps, plan, tiles);
                return;
            }
        }
        words ? compare<kLook, false, true>(steps, plan, tiles)
              : compare<kLook, false, false>(steps, plan, tiles);
    }
};

/* Sums of bytes. */
template <typename M>
struct Bytes {
    using Number = float;
    using Metric = M;
    static constexpr const char *kId = ::kId;
    static constexpr int kLogs = kByteBlocks * kByteThreads / gd::filter::kLanes;
    static constexpr float kMostLimit = kMostShifted;
    static constexpr bool kIsExact = false;

    ByteImages images;
    TileFacts *nothing;

    void lay_out(PlanOf<float> &plan, Layout &take)
    {
        plan.planes = (int)gd::ceil_div(plan.d, (ptrdiff_t)kPlaneDims);
        take(plan.centre, plan.planes * kPlaneDims + gd::filter::kLanes);
        plan.centres = plan.centre; /* the only one */
        take(images.columns, (ptrdiff_t)plan.tiles * (kTileCols / kImageRows) * plan.planes);
        take(images.shifts, (ptrdiff_t)plan.tiles * kTileCols);
        take(plan.tile_facts, plan.tiles);
        take(nothing, plan.tiles);
        take(images.verdict, 1);
        take(plan.column_of, (ptrdiff_t)plan.tiles * kTileCols);
    }
    void lay_out_rows(PlanOf<float> &plan, Layout &take, ptrdiff_t rows)
    {
        take(images.rows, rows / kImageRows * plan.planes);
    }
    void arrange(Steps &steps, const PlanOf<float> &plan) const
    {
        measure<true>(steps, plan, plan.planes * kPlaneDims, 0.0);
        steps.enqueue(write_images<true, float>, plan.tiles, dim3(kImageWarps * gd::filter::kLanes),
                      0, plan, images);
    }
    void prepare_rows(Steps &steps, const PlanOf<float> &plan) const
    {
        steps.enqueue(write_images<false, float>, plan.strips,
                      dim3(kImageWarps * gd::filter::kLanes), 0, plan, images);
    }
    void judge(Steps &steps, const Plan &plan) const
    {
        const float share = (float)first_tiles(plan) / (float)plan.tiles;
        steps.enqueue(weigh, gd::ceil_div(plan.rows, kGuessWarps),
                      dim3(kGuessWarps * gd::filter::kLanes), 0, plan, images.verdict,
                      share > 0 ? share : 1.0f);
        steps.enqueue(decide, 1, dim3(1), 0, plan, images.verdict);
    }
    Direct<M> other() const { return {nothing}; }
    template <Look kLook>
    void look_at(Steps &steps, const PlanOf<float> &typed, const Tiles &tiles) const
    {
        using P = std::conditional_t<kLook == Look::kCheck, PlanOf<float>, Plan>;
        const P &plan = typed;
        const int groups = (int)gd::ceil_div(plan.rows, kImageRows);
        const int blocks = kByteBlocks * steps.processors;
        const ByteUnits units = {tiles, groups,
                                 tiles_of_unit(groups, tiles.end - tiles.begin, blocks)};
        steps.enqueue(compare_images<kLook, P>, blocks, dim3(kByteThreads), sizeof(ByteShared),
                      plan, images, units);
    }
};

}  // namespace

extern "C" gd_status gd_cuda_neighbors_bytes(gd_neighbors *call, gd_error *err)
{
    const gd_status status = refuse_others(*call, kId, err);
    if (status != GD_OK) {
        return status;
    }
    return call->b.cols > gd::kShortDims ? run<Bytes<MagnitudesByFours>>(call, err)
                                         : run<Bytes<gd::Metric<GD_CITYBLOCK>>>(call, err);
}
