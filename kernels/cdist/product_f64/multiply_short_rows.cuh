/* multiply_short_rows.cuh: products of rows that are so short that lanes can hold them.
 *
 * Nothing is prepared ahead. A block takes 64 columns, each of its four warps 16, whose values are
 * loaded straight into the registers that the tensor cores read them from, and stay there; rows of
 * `a` come by way of shared memory, up to 128 of them, and then 16 at a time to the products. Both
 * are moved on the way, and their norms found. Additions are in the order of
 * prepare.cuh and multiply.cuh: a result has the same bits there.
 *
 * Up to 16 dimensions this is the quickest way for any number of rows that results are aligned in
 * (16384 x 16384 x 16 0.66 ms, from panels 0.70), up to 64 for few: many need panels, as a block's
 * registers then leave room for two on a multiprocessor (d = 32 0.94 ms, from panels 0.76). */
#ifndef GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_SHORT_ROWS_CUH
#define GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_SHORT_ROWS_CUH

#include <stddef.h>

#include "common/grid.cuh"
#include "cdist/product_f64/without_panels.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kShortSlabs = 4, kShortTiles = 2;
constexpr unsigned kEager = 1024; /* blocks that come onto the device early */
constexpr int kShortCols = kUnpreparedWarps * kShortTiles * 8;
static_assert(kShortCols == kPartCols, "a part is as wide");

/* A block's shared memory, for up to `units` units of rows. */
template <int kSlabs>
struct ShortRows {
    static constexpr int units = kTileRows / kUnitRows;
    /* A lane's word of suspects has a byte of each warp's columns. */
    alignas(16) unsigned char suspects[units][kLanes][kUnpreparedWarps];
    double norms[units][kUnitRows];
    double2 words[units][kSlabs][kUnitWords];
};

/* How much of that a block needs. */
template <int kSlabs>
size_t short_rows_bytes(int units)
{
    return offsetof(ShortRows<kSlabs>, words) + sizeof(double2) * kSlabs * kUnitWords * units;
}

/* Moves a lane's columns, and finds the norms of those that it has results in. */
template <gd_metric kMetric, int kSlabs>
__device__ __forceinline__ void move_columns(Share (&b)[kSlabs][kShortTiles], const Plan &plan,
                                             const Place &place, double (&across)[kShortTiles][2])
{
    Sum sums[kShortTiles];
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
        if constexpr (Rules<kMetric>::shifts) {
            move_shares(b[s], plan.shift, place, s);
        }
#pragma unroll
        for (int j = 0; j < kShortTiles; ++j) {
            sums[j].add(squares_of(b[s][j]));
        }
    }
#pragma unroll
    for (int j = 0; j < kShortTiles; ++j) {
        spread_norm<kMetric>(sums[j], across[j]);
    }
}

/* Moves a block's rows to shared memory, a unit a warp, and finds their norms. load_a(unit, slab)
 * brings slabs of a unit to `a`; those of the warp's first are there. */
template <gd_metric kMetric, int kSlabs, int kHeld, typename F>
__device__ __forceinline__ void move_rows(ShortRows<kSlabs> &shared, const Plan &plan,
                                          const Place &place, int units, Share (&a)[kHeld][2],
                                          F &&load_a)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int unit = threadIdx.x / 32; unit < units; unit += kUnpreparedWarps) {
        Sum sums[2];
#pragma unroll
        for (int first = 0; first < kSlabs; first += kHeld) {
#pragma unroll
            for (int s = 0; s < kHeld; ++s) {
                if constexpr (Rules<kMetric>::shifts) {
                    move_shares(a[s], plan.shift, place, first + s);
                }
                put_a(shared.words[unit][first + s], a[s][0], a[s][1]);
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    sums[h].add(squares_of(a[s][h]));
                }
            }
            if (first + kHeld < kSlabs) {
                load_a(unit, first + kHeld);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const double norm = norm_of<kMetric>(sums[h]);
            if (lane % 4 == 0) {
                shared.norms[unit][h * 8 + lane / 4] = norm;
            }
        }
        if (unit + kUnpreparedWarps < units) {
            load_a(unit + kUnpreparedWarps, 0);
        }
    }
}

/* Multiplies a unit of rows, and makes results of the products; a lane's suspects. row, col: the
 * lane's first result. */
template <gd_metric kMetric, int kSlabs>
__device__ __forceinline__ uint32_t multiply_unit(const Cdist<double> &call, const Plan &plan,
                                                  const ShortRows<kSlabs> &shared, int unit,
                                                  const Share (&b)[kSlabs][kShortTiles],
                                                  ptrdiff_t row, ptrdiff_t col,
                                                  const double (&across)[kShortTiles][2])
{
    const int lane = threadIdx.x % 32;
    double sums[kShortTiles][2][2] = {};
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
        if (s > 0 && s >= plan.slabs) {
            break;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const double2 *const from = shared.words[unit][s] + half * 64 + lane;
            const double2 rows[2] = {from[0], from[32]};
#pragma unroll
            for (int j = 0; j < kShortTiles; ++j) {
                multiply_add(sums[j], rows, b[s][j][half]);
            }
        }
    }
    return store_products<kMetric>(call, plan, sums, row, col, shared.norms[unit] + lane / 4,
                                   across);
}

/* Notes which elements are suspect, if `any` of the block are. first: the tile's first unit. */
template <int kSlabs>
__device__ __forceinline__ void note_suspects(const Plan &plan, const ShortRows<kSlabs> &shared,
                                              int units, bool any, ptrdiff_t first)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    /* A lane's word of a unit: the bytes from the top on. */
    const auto word_of = [&](int unit) {
        const unsigned *const bytes =
            reinterpret_cast<const unsigned *>(shared.suspects[unit][lane]);
        return any ? __byte_perm(*bytes, 0, 0x0123) : 0;
    };
    if (any && threadIdx.x == 0) {
        note_some(plan.suspects);
    }
    for (int unit = warp; unit < kUnits; unit += kUnpreparedWarps) {
        plan.suspects.note<double>(first + unit, unit < units ? word_of(unit) : 0);
    }
}

/* units: of rows, that a block takes; of a tile those that there are. */
template <gd_metric kMetric, int kSlabs, bool kWords>
__global__ void __launch_bounds__(kUnpreparedThreads, kSlabs == 1 ? 4 : 2)
    multiply_short_rows(const __grid_constant__ Cdist<double> call,
                        const __grid_constant__ Plan plan, const __grid_constant__ Grid grid,
                        int units)
{
    using R = Rules<kMetric>;
    constexpr int kTiles = kShortTiles;
    extern __shared__ __align__(128) unsigned char memory[];
    ShortRows<kSlabs> &shared = *reinterpret_cast<ShortRows<kSlabs> *>(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned found_row, found_col;
    const bool found = grid.find(&found_row, &found_col);
    const ptrdiff_t top = (ptrdiff_t)found_row * units * kUnitRows;
    const ptrdiff_t left = (ptrdiff_t)found_col * kShortCols;
    const ptrdiff_t col = left + warp * (kTiles * 8);
    const Place place(0, found ? call.d : 0);

    constexpr int kHeld = kSlabs < 2 ? kSlabs : 2; /* slabs of a unit that are under way */
    Share b[kSlabs][kTiles], a[kHeld][2];
    const auto load_a = [&](int unit, int slab) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const ptrdiff_t row = call.a.clamp(top + unit * kUnitRows + h * 8 + lane / 4);
#pragma unroll
            for (int s = 0; s < kHeld; ++s) {
                load_share<kWords>(a[s][h], call.a.data + row * call.a.row_stride,
                                   call.a.col_stride, place, slab + s);
            }
        }
    };
    const auto load_first = [&] {
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
            const ptrdiff_t at = call.b.clamp(col + j * 8 + lane / 4);
#pragma unroll
            for (int s = 0; s < kSlabs; ++s) {
                load_share<kWords>(b[s][j], call.b.data + at * call.b.row_stride, call.b.col_stride,
                                   place, s);
            }
        }
        load_a(min(warp, units - 1), 0);
    };
    /* The steps before do not write what this reads. Blocks that come later should first ask
     * whether there is anything to do. */
    const bool eager = R::shifts && blockIdx.x < kEager;
    if (eager) {
        load_first();
    }
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        begin_suspects(plan);
    }
    if (plan.suspects.direct() || !found || !call.has(top, left + kShortCols)) {
        return;
    }
    if (!eager) {
        load_first();
    }
    double across[kTiles][2];
    move_columns<kMetric>(b, plan, place, across);
    move_rows<kMetric>(shared, plan, place, units, a, load_a);
    __syncthreads(); /* the rows are there */

    unsigned some = 0;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
        const uint32_t suspects =
            multiply_unit<kMetric>(call, plan, shared, unit, b, top + unit * kUnitRows + lane / 4,
                                   col + lane % 4 * 2, across);
        shared.suspects[unit][lane][warp] = (unsigned char)suspects;
        some |= suspects;
    }
    const bool any = __syncthreads_or(some != 0);
    note_suspects(plan, shared, units, any,
                  ((ptrdiff_t)found_row * plan.suspects.parts_across + found_col) * kUnits);
}

}  // namespace tensor_f64
}  // namespace gd
#endif
