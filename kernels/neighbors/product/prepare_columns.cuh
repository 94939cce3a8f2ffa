/* prepare_columns.cuh: the images of columns, sorted by their squares, so that one number bounds
 * those of 32 neighbours closely.
 *
 * Short rows: a block brings those of some tiles to shared memory, sorts, and writes images. Floor:
 * reading B and writing it in halves, 0.18 ms for 1,000,000 x 128. Long rows do not fit there: they
 * are measured, sorted by what was measured, and read again. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_PREPARE_COLUMNS_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_PREPARE_COLUMNS_CUH

#include "neighbors/product/prepare.cuh"

namespace gd {
namespace filter {

/* Whether there are columns from a place on. */
__device__ __forceinline__ bool has_columns(const Plan &plan, ptrdiff_t columns, ptrdiff_t first)
{
    if (first >= plan.first_sampled) {
        return plan.has_copies() && !plan.has_several();
    }
    return first < (plan.has_several() ? plan.of_columns.starts[plan.found->centres] : columns);
}

/* The column at a place before columns are sorted by their squares, or -1. */
__device__ __forceinline__ int unsorted_column(const Plan &plan, ptrdiff_t columns, ptrdiff_t place)
{
    if (place >= plan.first_sampled) {
        const ptrdiff_t at = place - plan.first_sampled, tile = at / kTileCols;
        const ptrdiff_t column = tile * plan.stride * kTileCols + at % kTileCols;
        return tile < plan.sampled && column < columns ? (int)column : -1;
    }
    return plan.has_several() ? plan.column_of[place] : place < columns ? (int)place : -1;
}

/* Whether the column at a place has an image there: copies have none but of the sample. */
__device__ __forceinline__ bool has_image(const Plan &plan, ptrdiff_t place, int column)
{
    return column >= 0 && (place >= plan.first_sampled || !plan.is_copy(column));
}

/* Half of the square of the first of some columns, in ascending order, up to which there are more
 * rows of B than are wanted; infinity if there are not so many. All lanes of a warp. */
template <typename Square, typename Column>
__device__ __forceinline__ float square_of_wanted(const Plan &plan, int columns,
                                                  Square &&half_square, Column &&column)
{
    const int lane = (int)threadIdx.x % kLanes;
    if (!plan.has_copies()) {
        return plan.wanted < columns ? half_square(plan.wanted) : INFINITY;
    }
    for (int first = 0, before = 0; first < columns && before <= plan.wanted; first += kLanes) {
        const float own = first + lane < columns ? half_square(first + lane) : INFINITY;
        int rows = own < INFINITY ? plan.copies[column(first + lane)] : 0;
#pragma unroll
        for (int step = 1; step < kLanes; step *= 2) {
            const int other = __shfl_up_sync(~0u, rows, step);
            rows += lane >= step ? other : 0;
        }
        const unsigned enough = __ballot_sync(~0u, before + rows > plan.wanted);
        if (enough != 0) {
            return __shfl_sync(~0u, own, __ffs(enough) - 1);
        }
        before += __shfl_sync(~0u, rows, kLanes - 1);
    }
    return INFINITY;
}

/* Notes, of columns that are sorted together, how far from the centre those are that as many rows
 * as are wanted are up to, beside the row itself. All lanes of a warp. */
template <typename Square, typename Column>
__device__ __forceinline__ void note_reach(const Plan &plan, int centre, int columns,
                                           Square &&half_square, Column &&column)
{
    if (!plan.has_several()) {
        return;
    }
    const float most = square_of_wanted(plan, columns, half_square, column);
    if ((int)threadIdx.x % kLanes == 0 && most < INFINITY) {
        atomicMin(reinterpret_cast<int *>(&plan.reaches[centre]),
                  __float_as_int(sqrtf(2 * most) * kUp));
    }
}

/* Notes how far from their centre columns of a tile are at most. */
__device__ __forceinline__ void note_span(const Plan &plan, const TileFacts &tile)
{
    if (plan.has_several()) {
        atomicMax(reinterpret_cast<int *>(&plan.spans[tile.centre]), __float_as_int(tile.norm));
    }
}

/* ---------------------------------------------------------------- short rows */

/* Lanes that read a row together, four dimensions each. */
template <int kSteps>
constexpr int kLanesOfRow = kSteps > 4   ? 32
                            : kSteps > 2 ? 16
                                         : 4 * kSteps;

/* What a block of prepare_columns sorts. */
template <int kSteps>
struct Sorting {
    static constexpr int kTiles = kSteps <= 2 ? 8 : kSteps <= 4 ? 5 : kSteps <= 6 ? 4 : 3;
    static constexpr int kCols = kTiles * kTileCols, kKeys = kCols <= 1024 ? 1024 : 2048;
    /* A column more, so that lanes of a warp that store planes of a row use different banks. */
    uint4 planes[2 * kSteps][kCols + 1];
    Key keys[kKeys];
    float half_squares[kCols], low_squares[kCols];
    int columns[kCols], centre;
};
static_assert(sizeof(Sorting<8>) <= 227 << 10 && sizeof(Sorting<6>) <= 227 << 10 &&
                  sizeof(Sorting<4>) <= 227 << 10 && sizeof(Sorting<2>) <= 227 << 10,
              "shared memory of a block");

/* Finds which columns a block has, from a place on, and their centre. Returns whether there are
 * any.
 */
template <int kSteps>
__device__ __forceinline__ bool find_columns(const Plan &plan, ptrdiff_t columns, ptrdiff_t first,
                                             Sorting<kSteps> &shared)
{
    constexpr int kCols = Sorting<kSteps>::kCols;
    const bool several = plan.has_several();
    const int centres = (int)plan.found->centres, thread = (int)threadIdx.x;
    if (!has_columns(plan, columns, first)) {
        return false;
    }
    if (thread == 0 && !several) {
        shared.centre = 0;
    }
    if (several && thread < centres && plan.of_columns.starts[thread] <= first &&
        first < plan.of_columns.starts[thread + 1]) {
        shared.centre = thread;
    }
    for (int i = thread; i < kCols; i += 1024) {
        const int column = unsorted_column(plan, columns, first + i);
        shared.columns[i] = has_image(plan, first + i, column) ? column : -1;
    }
    __syncthreads();
    return true;
}

/* Brings a block's columns to shared memory. */
template <int kSteps, typename T>
__device__ __forceinline__ void bring_columns(const PlanOf<T> &plan, Sorting<kSteps> &shared)
{
    using S = Sorting<kSteps>;
    constexpr int kWidth = kLanesOfRow<kSteps>, kRowsOfWarp = kLanes / kWidth;
    constexpr int kAtOnce = 16 / sizeof(T); /* words of them are in registers */
    constexpr int kApart = 1024 / kLanes * kRowsOfWarp;
    const int lane = threadIdx.x % kLanes, part = lane % kWidth;
    const bool active = part < 4 * kSteps;
    const bool is_sample = (ptrdiff_t)blockIdx.x * S::kCols >= plan.first_sampled;
    const T scale = (T)plan.found->scale;
    Four<T> centre = {};
#pragma unroll
    for (int i = 0; active && i < 4; i += kPerWord<T>) {
        load_word(plan.centres + shared.centre * plan.centre_pitch() + 4 * part + i, centre.x + i);
    }
    for (int start = (int)threadIdx.x / kLanes * kRowsOfWarp; start < S::kCols;
         start += kApart * kAtOnce) {
        Four<T> x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int col = start + lane / kWidth + i * kApart;
            const int column = active && col < S::kCols ? shared.columns[col] : -1;
            x[i] = column >= 0 ? load_dims(plan.b, plan.words_b, column, 4 * part, plan.d) : centre;
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int col = start + lane / kWidth + i * kApart;
            if (start + i * kApart >= S::kCols) {
                break;
            }
            Moved moved(x[i], centre, scale);
            const unsigned of_row = (kWidth == 32 ? ~0u : (1u << kWidth % 32) - 1)
                                    << lane / kWidth * kWidth;
            const bool whole = (__ballot_sync(~0u, !moved.whole) & of_row) == 0;
            const bool number = (__ballot_sync(~0u, !moved.number) & of_row) == 0;
            const float square = sum_lanes<kWidth>(moved.square);
            const float low = sum_lanes<kWidth>(moved.low_square);
            if (active) {
                reinterpret_cast<uint2 *>(shared.planes[part / 2])[col * 2 + part % 2] =
                    whole ? moved.halves : uint2{};
            }
            if (part == 0) {
                const bool there = shared.columns[col] >= 0;
                shared.half_squares[col] = there && whole ? 0.5f * square : INFINITY;
                shared.low_squares[col] = low;
                if (there && !whole && number && !is_sample) {
                    list_odd(plan, shared.columns[col]);
                }
            }
        }
    }
}

/* The images of columns, sorted within a block. */
template <int kSteps, typename T>
__global__ void __launch_bounds__(1024, 1) prepare_columns(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    using S = Sorting<kSteps>;
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<S *>(memory);
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * S::kCols;
    if (!find_columns(plan, plan.b.count, first, shared)) {
        return;
    }
    bring_columns(plan, shared);
    __syncthreads();
    for (int i = threadIdx.x; i < S::kKeys; i += 1024) {
        shared.keys[i] =
            i < S::kCols ? (Key)__float_as_uint(shared.half_squares[i]) << 32 | (unsigned)i : ~0ull;
    }
    sort<Block>(shared.keys, S::kKeys);
    auto *const columns =
        reinterpret_cast<Columns<kSteps> *>(plan.columns) + (ptrdiff_t)blockIdx.x * S::kTiles;
    const auto sorted_square = [&](int i) { return __uint_as_float(shared.keys[i] >> 32); };
    for (int i = threadIdx.x; i < S::kCols; i += 1024) {
        columns[i / kTileCols].facts.half_squares[i % kTileCols] = sorted_square(i);
        plan.column_of[first + i] =
            sorted_square(i) == INFINITY ? -1 : shared.columns[(unsigned)shared.keys[i]];
    }
    for (int i = threadIdx.x; i < 2 * kSteps * S::kCols; i += 1024) {
        const int place = i % S::kCols, plane = i / S::kCols;
        columns[place / kTileCols].planes[plane][place % kTileCols] =
            shared.planes[plane][(unsigned)shared.keys[place]];
    }
    const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    if (warp < S::kTiles) {
        float half_square = 0, low_square = 0;
        for (int i = warp * kTileCols + lane; i < (warp + 1) * kTileCols; i += kLanes) {
            if (sorted_square(i) < INFINITY) {
                half_square = fmaxf(half_square, sorted_square(i));
                low_square = fmaxf(low_square, shared.low_squares[(unsigned)shared.keys[i]]);
            }
        }
        half_square = max_lanes(half_square);
        low_square = max_lanes(low_square);
        if (lane == 0) {
            const TileFacts facts = facts_of_tile(plan, half_square, low_square, shared.centre);
            columns[warp].facts.tile = facts;
            plan.tile_facts[(ptrdiff_t)blockIdx.x * S::kTiles + warp] = facts;
            note_span(plan, facts);
        }
    }
    if (warp == S::kTiles) {
        note_reach(plan, shared.centre, S::kCols, sorted_square,
                   [&](int i) { return shared.columns[(unsigned)shared.keys[i]]; });
    }
}

/* ---------------------------------------------------------------- long rows */

constexpr int kColumnWarps = 8, kSortedTiles = 4, kSortedCols = kSortedTiles * kTileCols;

/* The place of this lane's column in a grid of warps. */
__device__ __forceinline__ ptrdiff_t place_of_lane()
{
    return ((ptrdiff_t)blockIdx.x * kColumnWarps + threadIdx.x / kLanes) * kRowsOfWarp +
           row_of_lane();
}

/* The centre of columns that are sorted together, the first of which is there. */
__device__ __forceinline__ int centre_of_sorted(const Plan &plan, int first)
{
    return plan.has_several() ? plan.of_columns.nearest[first] : 0;
}

template <typename T>
__global__ void __launch_bounds__(kColumnWarps *kLanes)
    measure_columns(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    const ptrdiff_t place = place_of_lane(), begin = place / kSortedCols * kSortedCols;
    if (!has_columns(plan, plan.b.count, begin)) {
        return;
    }
    const int column = unsorted_column(plan, plan.b.count, place);
    const int centre = centre_of_sorted(plan, unsorted_column(plan, plan.b.count, begin));
    const bool there = has_image(plan, place, column);
    Measured of_row;
    walk_planes(plan, plan.b, plan.words_b, max(column, 0), there, centre,
                [&](int, const Moved &first, const Moved &second) {
                    of_row.add(first);
                    of_row.add(second);
                });
    of_row.join();
    if ((int)threadIdx.x % kLanes < kRowsOfWarp) {
        plan.squares[place] =
            make_float2(there && of_row.whole ? 0.5f * of_row.square : INFINITY, of_row.low_square);
        if (there && !of_row.whole && of_row.number && place < plan.first_sampled) {
            list_odd(plan, column);
        }
    }
}

/* A block sorts kSortedCols columns. */
static __global__ void __launch_bounds__(kSortedCols)
    sort_columns(const __grid_constant__ Plan plan, ptrdiff_t columns)
{
    follow();
    __shared__ Key keys[kSortedCols];
    __shared__ int unsorted[kSortedCols];
    const int i = threadIdx.x, lane = i % kLanes;
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * kSortedCols;
    if (!has_columns(plan, columns, first)) {
        return;
    }
    keys[i] = (Key)__float_as_uint(plan.squares[first + i].x) << 32 | (unsigned)i;
    unsorted[i] = unsorted_column(plan, columns, first + i);
    sort<Block>(keys, kSortedCols);
    const float half_square = __uint_as_float(keys[i] >> 32);
    const int from = (int)(unsigned)keys[i], centre = centre_of_sorted(plan, unsorted[0]);
    ColumnFacts *const facts = plan.column_facts + blockIdx.x * kSortedTiles;
    facts[i / kTileCols].half_squares[i % kTileCols] = half_square;
    plan.column_of[first + i] = half_square < INFINITY ? unsorted[from] : -1;
    if (i < kLanes) {
        note_reach(
            plan, centre, kSortedCols, [&](int at) { return __uint_as_float(keys[at] >> 32); },
            [&](int at) { return unsorted[(unsigned)keys[at]]; });
    }
    /* The largest of a tile: its last column's that is there, and any one's. */
    __shared__ float most[kSortedCols / kLanes][2];
    const float square = max_lanes(half_square < INFINITY ? half_square : 0.0f);
    const float low = max_lanes(half_square < INFINITY ? plan.squares[first + from].y : 0.0f);
    if (lane == 0) {
        most[i / kLanes][0] = square;
        most[i / kLanes][1] = low;
    }
    __syncthreads();
    if (i < kSortedTiles) {
        constexpr int kParts = kTileCols / kLanes;
        float of_tile[2] = {};
        for (int part = 0; part < kParts; ++part) {
            of_tile[0] = fmaxf(of_tile[0], most[i * kParts + part][0]);
            of_tile[1] = fmaxf(of_tile[1], most[i * kParts + part][1]);
        }
        const TileFacts tile = facts_of_tile(plan, of_tile[0], of_tile[1], centre);
        facts[i].tile = plan.tile_facts[blockIdx.x * kSortedTiles + i] = tile;
        note_span(plan, tile);
    }
}

template <typename T>
__global__ void __launch_bounds__(kColumnWarps *kLanes)
    write_columns(const __grid_constant__ PlanOf<T> plan)
{
    follow();
    const ptrdiff_t place = place_of_lane();
    if (!has_columns(plan, plan.b.count, place / kSortedCols * kSortedCols)) {
        return;
    }
    const int column = plan.column_of[place], centre = plan.tile_facts[place / kTileCols].centre;
    uint4 *const image = reinterpret_cast<uint4 *>(plan.columns) +
                         place / kTileCols * plan.planes * kTileCols + place % kTileCols;
    walk_planes(plan, plan.b, plan.words_b, max(column, 0), column >= 0, centre,
                [&](int plane, const Moved &first, const Moved &second) {
                    image[(ptrdiff_t)plane * kTileCols] = word_of(first, second);
                });
}

}  // namespace filter
}  // namespace gd
#endif
