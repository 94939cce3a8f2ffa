/* lists.cuh: the guess before the product, and from the logs after it to a list for each row. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_LISTS_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_LISTS_CUH

#include "neighbors/product/look.cuh"

namespace gd {
namespace filter {

/* Minima of a row that a lane has. */
constexpr int kMinimaOfLane = 64;
constexpr int kMostMinima = kMinimaOfLane * kLanes;
constexpr int kGuessWarps = 8;
constexpr unsigned kNearEnough = 4096; /* steps of a float: the guess need not be exact */

/* Some minima of a row, in registers of a warp. */
struct Minima {
    unsigned values[kMinimaOfLane], low = ~0u, high = 0;

    __device__ __forceinline__ Minima(const Plan &plan, int row, int first, int count)
    {
        const float *const from = plan.minima + (ptrdiff_t)row * plan.minima_pitch + first;
#pragma unroll
        for (int i = 0; i < kMinimaOfLane; ++i) {
            const int at = i * kLanes + (int)threadIdx.x % kLanes;
            values[i] = at < count ? ordered(from[at]) : ~0u;
            low = min(low, values[i]);
            high = at < count ? max(high, values[i]) : high;
        }
        low = __reduce_min_sync(~0u, low);
        high = __reduce_max_sync(~0u, high);
    }
    __device__ __forceinline__ float nth(int nth) const
    {
        return unordered(nth_least(values, nth, low, high, kNearEnough));
    }
    __device__ __forceinline__ int count_to(float x) const
    {
        unsigned count = 0;
#pragma unroll
        for (int i = 0; i < kMinimaOfLane; ++i) {
            count += values[i] <= ordered(x);
        }
        return (int)__reduce_add_sync(~0u, count);
    }
    /* The largest that is below some number, or infinity. */
    __device__ __forceinline__ float before(float x) const
    {
        unsigned most = 0;
#pragma unroll
        for (int i = 0; i < kMinimaOfLane; ++i) {
            most = values[i] < ordered(x) ? max(most, values[i]) : most;
        }
        most = __reduce_max_sync(~0u, most);
        return most == 0 ? INFINITY : unordered(most);
    }
};

/* Sets a row's limit, by each centre. All lanes of a warp. */
__device__ __forceinline__ void set_limit(const Plan &plan, int place, float limit)
{
    const int lane = threadIdx.x % kLanes;
    if (lane == 0) {
        plan.limits[place] = limit;
    }
    if (!plan.has_several()) {
        if (lane == 0) {
            plan.row_facts[place].limit = limit;
        }
        return;
    }
    for (int centre = lane; centre < (int)plan.found->centres; centre += kLanes) {
        const Plan::ByCentre rows = plan.by_centre(centre);
        rows.facts[place].limit = limit - rows.shifts[place];
    }
}

/* Tiles of a centre, and of all. */
__device__ __forceinline__ int tiles_of_centre(const Plan &plan, int centre)
{
    return ((int)plan.of_columns.counts[centre] + kTileCols - 1) / kTileCols;
}
__device__ __forceinline__ int every_nth(int tiles, int most) { return (tiles + most - 1) / most; }

/* Sampled tiles of a strip: of centres that its rows are near, so many each and together at most,
 * but one of each; and of all others. */
constexpr int kMostOwn = 32, kOwnSlots = 160, kOtherSlots = 64, kMostSlots = 256;
constexpr int kSampledAtOnce = 8, kSampleUnits = kMostSlots / kSampledAtOnce + kMostCentres;

/* Every so many tiles are sampled, or one more: what is sorted together, 3, 4, 5 or 8 tiles, is so
 * by squares, so that these numbers have no factor in common. */
__device__ __forceinline__ int stride_of(const Plan &plan, int tiles, int most)
{
    const int stride = max(every_nth(tiles, most), 1);
    const int factor = plan.sorted_tiles % 2 == 0 ? 2 : plan.sorted_tiles;
    return stride % factor == 0 ? stride + 1 : stride;
}
__device__ __forceinline__ int stride_of_others(const Plan &plan)
{
    return stride_of(plan, plan.of_columns.starts[plan.found->centres] / kTileCols, kOtherSlots);
}

/* How many tiles of a centre are sampled for a strip whose rows have so many centres. */
__device__ __forceinline__ int most_of_own(const Plan &plan, int centres)
{
    return plan.wanted > kFewWanted ? min(kMostMinima / kFineMinima, kMostSlots / max(centres, 1))
                                    : min(kMostOwn, kOwnSlots / max(centres, 1));
}

/* A limit, as a distance, that as many columns as are wanted are within, and one more, as the row
 * may be one of them: those of whole clusters. All lanes of a warp. */
__device__ __forceinline__ float reach_of_clusters(const Plan &plan, int place)
{
    constexpr int kOfLane = kMostCentres / kLanes;
    unsigned away[kOfLane], low = ~0u, high = 0;
    int columns[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
        const int centre = i * kLanes + (int)threadIdx.x % kLanes;
        away[i] = ~0u;
        columns[i] = 0;
        if (centre < (int)plan.found->centres) {
            away[i] =
                __float_as_uint(plan.by_centre(centre).facts[place].high + plan.spans[centre]);
            columns[i] = (int)plan.of_columns.counts[centre];
            low = min(low, away[i]);
            high = max(high, away[i]);
        }
    }
    low = __reduce_min_sync(~0u, low) - 1;
    high = __reduce_max_sync(~0u, high);
    while (high - low > kNearEnough) {
        const unsigned middle = low + (high - low) / 2;
        int within = 0;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) {
            within += away[i] <= middle ? columns[i] : 0;
        }
        if (__reduce_add_sync(~0u, within) > plan.wanted) {
            high = middle;
        }
        else {
            low = middle;
        }
    }
    return __uint_as_float(high);
}

/* What a sample says of a row. */
struct OwnSample {
    int first, count; /* minima that are looked at */
    int nth;          /* which of the least is the guess, or 0 */
    float reach;      /* a limit that as many as are wanted are within */

    __device__ __forceinline__ OwnSample(const Plan &plan, int place)
    {
        const int own = plan.of_rows.nearest[plan.row_at(place)], strip = place / kTileRows;
        const int columns = (int)plan.of_columns.counts[own];
        const int tiles = tiles_of_centre(plan, own);
        const int stride = stride_of(plan, tiles, plan.most_own[strip]);
        float within = plan.by_centre(own).facts[place].high + plan.reaches[own];
        if (plan.samples_finely()) {
            first = plan.first_slots[strip * kMostCentres + own] * kFineMinima;
            count = every_nth(tiles, stride) * kFineMinima;
            nth = columns > plan.wanted ? guess_of_fine(plan.wanted, columns, count) : 0;
            within = fminf(within, reach_of_clusters(plan, place));
        }
        else {
            first = 0;
            count = plan.slots[strip] * kMinima;
            nth = columns > plan.wanted
                      ? plan.nth_of[min(stride, kStrides - 1)]
                      : (columns + kRun - 1) / kRun + /* of the own all minima, and of others' */
                            plan.nth_of[min(stride_of_others(plan), kStrides - 1)];
            nth = min(nth, count);
        }
        reach = limit_by(plan, place, own, within);
        if (plan.has_copies()) { /* one's own may have none that are there often */
            const int lane = (int)threadIdx.x % kLanes;
            for (int centre = lane; centre < (int)plan.found->centres; centre += kLanes) {
                const float apart = plan.by_centre(centre).facts[place].high;
                reach = fminf(reach, limit_by(plan, place, centre, apart + plan.reaches[centre]));
            }
            reach = -max_lanes(-reach);
        }
    }
    /* A limit that columns of a centre are within that are no further away than `within`. More than
     * errors and their bounds are, what halves lose that are no normal numbers among them: where
     * columns are equal they are all that there is. And the bound of a tile as that which has these
     * columns, where there may be others that are longer; one image that stands for many is in any.
     */
    static __device__ __forceinline__ float limit_by(const Plan &plan, int place, int centre,
                                                     float within)
    {
        constexpr float kAbove = 1 + 0x1p-7f, kSubnormal = 0x1p-27f;
        const int tiles = tiles_of_centre(plan, centre);
        const int first = plan.of_columns.starts[centre] / kTileCols;
        const TileFacts tile =
            plan.has_copies()
                ? longest_of_centre(plan, centre)
                : plan.tile_facts[first + min(plan.wanted / kTileCols, max(tiles - 1, 0))];
        const float error = bound(plan.by_centre(centre).facts[place], tile);
        return 0.5f * within * within * kAbove + kSubnormal + 4 * (kLeast + plan.found->quantum) +
               (tiles > 0 ? error : 0);
    }
    /* What no tile of a centre is beyond: halves lose no more than these parts of a length. */
    static __device__ __forceinline__ TileFacts longest_of_centre(const Plan &plan, int centre)
    {
        constexpr float kLost = 0x1p-11f, kLostOfSubnormal = 0x1p-19f;
        const float norm = plan.spans[centre];
        return {kLost * norm + kLostOfSubnormal, norm, rest_error(plan.d) * norm * norm * kUp,
                centre};
    }
    /* As guess_of_many: of many neighbours several may be in one run. */
    static __device__ __forceinline__ int guess_of_fine(int wanted, int columns, int count)
    {
        static_assert((kFineRun & (kFineRun - 1)) == 0, "squared again and again");
        constexpr float kSigmas = 6;
        float outside = 1 - (float)wanted / (float)columns;
#pragma unroll
        for (int i = 1; i < kFineRun; i *= 2) {
            outside *= outside;
        }
        const float mean = (1 - outside) * (float)count;
        return min(count, (int)(mean + kSigmas * sqrtf(mean * outside)) + 4);
    }
};

/* What v of a row are off by at most, in some tiles of all. All lanes of a warp. */
__device__ __forceinline__ float error_of_tiles(const Plan &plan, int row)
{
    const int lane = (int)threadIdx.x % kLanes;
    return max_lanes(bound(plan.row_facts[row], plan.tile_facts[plan.tiles * lane / kLanes]));
}

/* Runs of the sample that more columns are in than lists have room for. Its images are of all rows,
 * and lists have one for each group of equal ones: that is taken for so many times fewer. */
__device__ __forceinline__ int runs_of_crowd(const Plan &plan)
{
    if (!plan.has_copies()) {
        return plan.crowd;
    }
    const float runs = (float)(plan.sampled * kMinima);
    const float rows_of_group = (float)plan.tiles * kTileCols / (float)plan.found->groups;
    return (int)ceilf(runs * (1 - powf(1 - (float)plan.crowd / runs, rows_of_group)));
}

/* The guess, or where far more columns are up to that than lists have room for, as many are at just
 * the same distance (of whole numbers, or of categories), one below that distance, if enough seem
 * to be nearer. crowd: runs_of_crowd(). All lanes of a warp. */
__device__ __forceinline__ float before_crowd(const Plan &plan, const Minima &minima, int row,
                                              float guess, int crowd)
{
    if (minima.count_to(guess) < crowd) {
        return guess;
    }
    constexpr float kNear = 0x1p-10f; /* twice what kNearEnough steps are */
    const float nearer =
        minima.before(guess - 3 * error_of_tiles(plan, row) - kNear * fabsf(guess));
    const int count = minima.count_to(nearer);
    return count < crowd && count >= plan.enough ? nearer : guess;
}

/* The guess is the nth least of a row's sampled minima, upper bounds of as many columns: so if nth
 * is at least the number of neighbours that are wanted, it cannot fail. Where there are several
 * centres, it is not beyond as many columns as are wanted of the row's own. A warp a row. */
static __global__ void __launch_bounds__(kGuessWarps *kLanes, 3)
    guess(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const int lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kGuessWarps + (int)threadIdx.x / kLanes;
    if (row >= plan.rows) {
        return;
    }
    if (plan.counts[row] != 0) {
        set_limit(plan, row, -INFINITY);
        return;
    }
    const auto most = [&] {
        return plan.radii != NULL ? fminf(plan.bounds[row], plan.most) : plan.most;
    };
    float limit = most();
    int first = 0, count = plan.sampled * kMinima, nth = plan.nth;
    if (plan.has_several()) {
        const OwnSample own(plan, row);
        first = own.first, count = own.count, nth = own.nth;
        limit = fminf(limit, own.reach);
    }
    const int crowd = plan.radii == NULL && !plan.has_several() ? runs_of_crowd(plan) : 0;
    if (nth > 0) {
        const Minima minima(plan, row, first, count);
        float guess = minima.nth(nth);
        if (crowd > 0) {
            guess = before_crowd(plan, minima, row, guess, crowd);
        }
        if (plan.has_copies() && !plan.has_several()) {
            guess += error_of_tiles(plan, row); /* the sample's images are in other tiles */
        }
        limit = fminf(limit, guess);
    }
    set_limit(plan, row, limit);
    if (lane == 0 && plan.radii != NULL && limit < most()) {
        atomicAdd(&plan.found->many, 1);
    }
}

/* Log to lists, a block a chunk. */
static __global__ void __launch_bounds__(kChunk) scatter(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const unsigned chunks = min(plan.found->chunks, plan.log_room());
    for (unsigned i = blockIdx.x; i < chunks; i += gridDim.x) {
        const Chunk &chunk = plan.log[i];
        Place first = {-1, 0};
        Eight eight = {};
        float limit = -INFINITY, shift = 0;
        if (threadIdx.x < chunk.count) {
            first = chunk.places[threadIdx.x];
            eight = chunk.eights[threadIdx.x];
            const TileFacts tile = plan.tile_facts[first.place / kTileCols];
            const Plan::ByCentre rows = plan.by_centre(tile.centre);
            const RowFacts facts = rows.facts[first.row];
            limit = facts.limit + bound(facts, tile);
            shift = rows.shifts != NULL ? rows.shifts[first.row] : 0;
        }
        unsigned hits = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            hits += eight.v[k] <= limit;
        }
        unsigned at = claim_places(plan.counts, first.row, hits);
        Candidate *const list = plan.lists + (ptrdiff_t)first.row * plan.list_room;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (eight.v[k] <= limit && at++ < (unsigned)plan.list_room) {
                list[at - 1] = {first.place + k / 2 * plan.apart + k % 2, eight.v[k] + shift};
            }
        }
    }
}

constexpr int kTightened = 1024; /* candidates of a row that are looked at */

/* Lowers limits to the k-th least of the upper bounds that there are by now, which is no guess any
 * more: a row has fewer hits in the tiles that are left. kIsExact: bounds are distances, and
 * columns that are left come later, so that those at just that distance are too late. A warp a row.
 */
template <bool kIsExact>
__global__ void __launch_bounds__(kGuessWarps *kLanes) tighten(const __grid_constant__ Plan plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const int lane = threadIdx.x % kLanes;
    const int row = (int)blockIdx.x * kGuessWarps + (int)threadIdx.x / kLanes;
    if (row == 0 && lane == 0) {
        plan.found->chunks = 0; /* all are listed: the next hits go where the first ones were */
    }
    if (row >= plan.rows || plan.counts[row] > (unsigned)plan.list_room) {
        return;
    }
    const RowFacts facts = plan.by_centre(0).facts[row];
    const ptrdiff_t self = plan.self < 0 ? -1 : plan.self + plan.row_at(row);
    const int count = min((int)plan.counts[row], kTightened);
    const Candidate *const list = plan.lists + (ptrdiff_t)row * plan.list_room;
    unsigned upper[kTightened / kLanes], low = ~0u, below = 0;
    const unsigned limit = ordered(plan.limits[row]);
#pragma unroll
    for (int i = 0; i < kTightened / kLanes; ++i) {
        const int at = i * kLanes + lane;
        upper[i] = ~0u;
        if (at < count) {
            const Candidate one = list[at];
            if (self < 0 || plan.other_than(self, plan.column_of[one.place]) >= 0) {
                upper[i] = ordered(one.v + error_of(plan, row, facts, one));
            }
        }
        low = min(low, upper[i]);
        below += upper[i] <= limit;
    }
    low = __reduce_min_sync(~0u, low);
    if ((int)__reduce_add_sync(~0u, below) < plan.wanted) {
        return;
    }
    if constexpr (!kIsExact) {
        set_limit(plan, row, unordered(nth_least(upper, plan.wanted, low, limit, kNearEnough)));
        return;
    }
    /* Not below that of the last neighbour, and no number of the list is between them. */
    const unsigned most = nth_least(upper, plan.wanted, low - 1, limit, 1);
    unsigned last = 0;
#pragma unroll
    for (int i = 0; i < kTightened / kLanes; ++i) {
        last = max(last, upper[i] <= most ? upper[i] : 0);
    }
    last = __reduce_max_sync(~0u, last);
    if (lane == 0) {
        plan.limits[row] = unordered(last);
        plan.row_facts[row].limit = gd::below(unordered(last));
    }
}

}  // namespace filter
}  // namespace gd
#endif
