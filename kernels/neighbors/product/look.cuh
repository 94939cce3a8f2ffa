/* look.cuh: what becomes of accumulators, products of 64 rows of A with a tile of B.
 *
 * To look costs half an instruction a pair: what decides is the largest of eight products and the
 * least square of 32 columns, which are neighbours by their squares. Of the few groups of eight
 * that this lets through those with a v below the limit go to a log, which needs no atomics, and
 * are looked at one by one later.
 *
 * Two other kernels do something else with the accumulators: keep the least upper bounds of 32
 * columns each, for the guess (lists.cuh); or hold all of them against float64, for tests. */
#ifndef GPUDIST_NEIGHBORS_PRODUCT_LOOK_CUH
#define GPUDIST_NEIGHBORS_PRODUCT_LOOK_CUH

#include "arch/registers.cuh"
#include "neighbors/product/operands.cuh"

namespace gd {
namespace filter {

enum class Look { kMinima, kLog, kCheck };
constexpr int kRun = 32, kRuns = kTileCols / kRun; /* columns that share a least square */
constexpr int kMinima = 8;                         /* of a row and sampled tile */
constexpr int kFineRun = 4, kFineMinima = kTileCols / kFineRun; /* see samples_finely() */

/* Tiles from `begin` to before `end`, or, with `apart`, of these times that. Where there are
 * several centres, which tiles of a part of all are looked at is listed on the device instead. */
enum class Part { kSample, kFirst, kOthers, kAll };
struct Tiles {
    int begin, end, apart;
    Part part = Part::kAll;
};
/* Which list of units has them. */
__host__ __device__ constexpr int list_of(Part part)
{
    return part == Part::kSample ? 0 : part == Part::kFirst ? 1 : 2;
}

constexpr int kMostEach = 34; /* tiles of a unit of work */

/* Tiles of a unit of work: many, for the image of its rows comes once and takes half as long as a
 * tile, but so few that all blocks have about as much to do, in as many rounds. */
inline int tiles_of_unit(ptrdiff_t strips, ptrdiff_t tiles, ptrdiff_t blocks)
{
    const ptrdiff_t most =
        max(min(strips * tiles / (blocks * 32), (ptrdiff_t)kMostEach), (ptrdiff_t)2);
    ptrdiff_t best = most, least = PTRDIFF_MAX;
    for (ptrdiff_t each = most; each >= max(most * 2 / 3, (ptrdiff_t)2); --each) {
        const ptrdiff_t rounds = ceil_div(strips * ceil_div(tiles, each), blocks);
        if (rounds * (2 * each + 1) < least) {
            least = rounds * (2 * each + 1);
            best = each;
        }
    }
    return (int)best;
}

/* A thread of a group of four has rows g and g + 8 of its warp's sixteen, and of every eight
 * columns two: for row r of these, column 8 i + c is accumulator 4 i + 2 r + c. */
using Accumulator = float[kTileCols / 2];

/* What v may be at most, in a tile, for its lower bound to be within a row's limit. */
__device__ __forceinline__ float limit_of(const RowFacts &row, const TileFacts &tile)
{
    return row.limit + bound(row, tile);
}

/* Writes the least upper bounds of a thread's two rows, 4 columns each from all over the tile: runs
 * of neighbours by their squares would differ by how many near ones they have. */
__device__ __forceinline__ void keep_fine_minima(const Plan &plan, const Accumulator &acc,
                                                 const ColumnFacts &columns, const float (&e)[2],
                                                 ptrdiff_t row, int tile)
{
    constexpr int kOfThread = kFineMinima / 4, kAtOnce = 4;
    const int quarter = (int)this_thread() % 4;
    float *const to =
        plan.minima + row * plan.minima_pitch + tile * kFineMinima + quarter * kOfThread;
#pragma unroll
    for (int first = 0; first < kOfThread; first += kAtOnce) {
        float least[2][kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
            least[0][n] = least[1][n] = kFar;
#pragma unroll
            for (int i = first + n; i < kTileCols / 8; i += kOfThread) {
                const float2 half_square =
                    *reinterpret_cast<const float2 *>(&columns.half_squares[i * 8 + quarter * 2]);
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    least[r][n] = fminf(least[r][n], fminf(half_square.x - acc[4 * i + 2 * r],
                                                           half_square.y - acc[4 * i + 2 * r + 1]));
                }
            }
            least[0][n] += e[0];
            least[1][n] += e[1];
        }
        store_word(to + first, least[0]);
        store_word(to + 8 * (ptrdiff_t)plan.minima_pitch + first, least[1]);
    }
}

/* Writes the least upper bounds of a thread's two rows, 32 columns each. Rows' limits say by then
 * what is to be added for the centre. */
__device__ __forceinline__ void keep_minima(const Plan &plan, const Accumulator &acc,
                                            const ColumnFacts &columns, const RowFacts *facts,
                                            ptrdiff_t row, int tile)
{
    const int quarter = (int)this_thread() % 4;
    const ptrdiff_t pitch = plan.minima_pitch;
    float *const to = plan.minima + row * pitch + tile * kMinima + quarter * 2;
    const float e[2] = {limit_of(facts[0], columns.tile), limit_of(facts[8], columns.tile)};
    if (plan.samples_finely()) {
        keep_fine_minima(plan, acc, columns, e, row, tile);
        return;
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        float least[2] = {kFar, kFar};
#pragma unroll
        for (int i = part * 16; i < part * 16 + 16; ++i) {
            const float2 half_square =
                *reinterpret_cast<const float2 *>(&columns.half_squares[i * 8 + quarter * 2]);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                least[r] = fminf(least[r], fminf(half_square.x - acc[4 * i + 2 * r],
                                                 half_square.y - acc[4 * i + 2 * r + 1]));
            }
        }
        to[part] = least[0] + e[0];
        to[8 * pitch + part] = least[1] + e[1];
    }
}

/* Where a warp's log goes on, and the chunks that there are. */
struct Log {
    unsigned room, chunk = ~0u, used = kChunk;

    explicit __device__ __forceinline__ Log(unsigned chunks) : room(chunks) {}
};

/* Takes the next chunk, and says how much of the last one is used. */
template <typename P>
__device__ __forceinline__ void take_chunk(const P &plan, Log &log)
{
    unsigned next = 0;
    if (this_thread() % kLanes == 0) {
        if (log.chunk < log.room) {
            plan.log[log.chunk].count = log.used;
        }
        next = atomicAdd(&plan.found->chunks, 1);
    }
    log.chunk = __shfl_sync(~0u, next, 0);
    log.used = 0;
}

/* Logs the groups of eight that have a v below a limit. row: the first of a lane's two. found: a
 * bit for each run that may. Beyond the log's end rows are lost. */
__device__ __forceinline__ void log_groups(const Plan &plan, const Accumulator &acc,
                                           const ColumnFacts &columns, const float (&limit)[2],
                                           unsigned found, int row, int place, Log &log)
{
    const int lane = (int)this_thread() % kLanes;
    unsigned left = __reduce_or_sync(~0u, found);
#pragma unroll 1
    while (true) {
#pragma unroll
        for (int run = 0; run < kRuns; ++run) {
            if (!(left & 1u << run)) {
                continue;
            }
            float v[2][8], least[2] = {kFar, kFar};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 half_square = *reinterpret_cast<const float2 *>(
                    &columns.half_squares[run * kRun + i * 8 + lane % 4 * 2]);
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    v[r][2 * i] = half_square.x - acc[run * 16 + i * 4 + 2 * r];
                    v[r][2 * i + 1] = half_square.y - acc[run * 16 + i * 4 + 2 * r + 1];
                    least[r] = fminf(least[r], fminf(v[r][2 * i], v[r][2 * i + 1]));
                }
            }
            const bool near[2] = {least[0] <= limit[0], least[1] <= limit[1]};
            const unsigned some[2] = {__ballot_sync(~0u, near[0]), __ballot_sync(~0u, near[1])};
            const unsigned total = __popc(some[0]) + __popc(some[1]);
            if (log.used + total > kChunk) {
                continue; /* until there is a chunk with room */
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if (near[r]) {
                    const unsigned at = log.used + __popc(some[r] & ((1u << lane) - 1));
                    if (log.chunk < log.room) {
                        Chunk &chunk = plan.log[log.chunk];
                        store_word(chunk.eights[at].v, v[r]);
                        store_word(chunk.eights[at].v + 4, v[r] + 4);
                        chunk.places[at] = {row + 8 * r, place + run * kRun + lane % 4 * 2};
                    }
                    else {
                        atomicOr(&plan.counts[row + 8 * r], kLost);
                    }
                }
                log.used += __popc(some[r]);
            }
            left &= ~(1u << run);
        }
        if (left == 0) {
            return;
        }
        take_chunk(plan, log);
    }
}

/* Finds runs with a product that may be near, for two rows. */
__device__ __forceinline__ unsigned find_runs(const Accumulator &acc, const ColumnFacts &columns,
                                              const float (&limit)[2])
{
    unsigned found = 0;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
        /* Bits of floats order as they do where one is positive; 0 stands for all others, which is
         * a bound for them. */
        int most[2] = {0, 0};
#pragma unroll
        for (int i = run * 4; i < run * 4 + 4; ++i) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                most[r] = __vimax3_s32(most[r], __float_as_int(acc[4 * i + 2 * r]),
                                       __float_as_int(acc[4 * i + 2 * r + 1]));
            }
        }
        const float least = columns.half_squares[run * kRun];
        if (least - __int_as_float(most[0]) <= limit[0] ||
            least - __int_as_float(most[1]) <= limit[1]) {
            found |= 1u << run;
        }
    }
    return found;
}

/* Holds the products of a thread's two rows against float64: the largest share of its bound that an
 * error takes goes to found->worst. */
template <typename T>
__device__ __noinline__ void check_pair(const PlanOf<T> &plan, const ColumnFacts &columns,
                                        const RowFacts &facts, int place, int tile, int column,
                                        float product)
{
    const int from = plan.column_of[tile * kTileCols + column];
    if (from < 0 || place >= plan.rows || facts.limit == -INFINITY) {
        return;
    }
    const int row = plan.row_at(place);
    const T *const centre = plan.centres + (ptrdiff_t)columns.tile.centre * plan.centre_pitch();
    const double scale = plan.found->scale;
    double apart = 0, square = 0;
    for (ptrdiff_t dim = 0; dim < plan.d; ++dim) {
        const double a = plan.a.at(row, dim), moved = a - centre[dim];
        apart = gd_add_square(apart, (a - plan.b.at(from, dim)) * scale);
        square = gd_add_square(square, moved * scale);
    }
    const double exact = 0.5 * (apart - square);
    const double error = fabs(columns.half_squares[column] - product - exact);
    const float share = (float)(error / bound(facts, columns.tile));
    atomicMax(&plan.found->worst, __float_as_uint(share));
}
template <typename T>
__device__ __forceinline__ void check(const PlanOf<T> &plan, const Accumulator &acc,
                                      const ColumnFacts &columns, const RowFacts *facts, int row,
                                      int tile)
{
    const int quarter = (int)this_thread() % 4;
#pragma unroll
    for (int i = 0; i < kTileCols / 2; ++i) {
        const int r = i / 2 % 2 * 8, column = i / 4 * 8 + quarter * 2 + i % 2;
        check_pair(plan, columns, facts[r], row + r, tile, column, acc[i]);
    }
}

/* row: the first of a lane's two, of which facts are. */
template <Look kLook, typename P>
__device__ __forceinline__ void look(const P &plan, const Accumulator &acc,
                                     const ColumnFacts &columns, const RowFacts *facts, int row,
                                     int tile, Log &log)
{
    if constexpr (kLook == Look::kMinima) {
        keep_minima(plan, acc, columns, facts, row, tile);
    }
    else if constexpr (kLook == Look::kCheck) {
        check(plan, acc, columns, facts, row, tile);
    }
    else {
        const float limit[2] = {limit_of(facts[0], columns.tile), limit_of(facts[8], columns.tile)};
        const unsigned found = find_runs(acc, columns, limit);
        if (__any_sync(~0u, found != 0)) {
            log_groups(plan, acc, columns, limit, found, row, tile * kTileCols, log);
        }
    }
}

/* Says how much of a warp's last chunk is used. */
template <typename P>
__device__ __forceinline__ void close_log(const P &plan, const Log &log)
{
    if (this_thread() % kLanes == 0 && log.chunk < log.room) {
        plan.log[log.chunk].count = log.used;
    }
}

}  // namespace filter
}  // namespace gd
#endif
