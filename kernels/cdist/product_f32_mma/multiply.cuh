/* multiply.cuh: the kernel that multiplies: images in, results and suspects out.
 *
 * A block of four warps walks over tiles of 128 x 128, a warp 64 x 64 of it. The next slab of 32
 * dimensions is copied while one is multiplied, across the ends of tiles, so that results are
 * stored while the next tile's operands arrive. A warp keeps its rows of a slab in registers and
 * brings eight columns at a time.
 *
 * Registers bind: 128 sums, 64 of rows, 16 of columns and 20 of products on their way are nearly
 * all that a thread can have. What a warp counts from tile to tile waits in local memory, which
 * ptxas reports as spills: no loop over slabs touches it. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_MMA_MULTIPLY_CUH
#define GPUDIST_CDIST_PRODUCT_F32_MMA_MULTIPLY_CUH

#include "arch/copies.cuh"
#include "arch/mma.cuh"
#include "cdist/product_f32/store.cuh"

namespace gd {
namespace tensor_mma {

using namespace tensor;

constexpr int kTileCols = 128;
using S = Shape<kTileCols>;

/* A block's warps have a part's columns each, and half of the rows. */
constexpr int kWarpRows = kTileRows / 2, kWarpUnits = kWarpRows / kUnitRows;
constexpr int kWarps = 4, kThreads = kWarps * kLanes;
static_assert(kTileCols == 2 * kPartCols, "two warps beside each other, two below");

/* Two blocks share a multiprocessor that has room for them; 7.5 has for one, to the last byte. */
constexpr int kBlocks = 2, kBuffers = 2;
constexpr int kBufferWords = S::image_a + S::image_b;
constexpr size_t kSharedBytes = kBuffers * kBufferWords * sizeof(uint4);
static_assert(kSharedBytes <= 64 << 10, "shared memory of a block on 7.5");

/* Blocks, at most. */
constexpr ptrdiff_t kMostBlocks = 512;

/* Slabs whose sums are added up before they join the total, as in product_f32_sm90. */
constexpr int kGroupSlabs = 16;

/* Sums of a thread. */
constexpr int kSums = kWarpUnits * kPartCols / 2;

struct Plan : PlanOf<kTileCols> {
    /* Sums of the groups of slabs before this one: of each block a word a sum and thread. */
    float (*totals)[kSums * kThreads];

    __host__ __device__ unsigned tiles() const { return (unsigned)(tiles_down * tiles_across); }
};

/* A warp's sums: of each unit of rows and eight columns, two neighbours in two rows. */
using WarpSums = float[kWarpUnits][kPartCols / 8][4];

/* Which tile a number means: row by row within bands of plan.band columns of tiles, so that those
 * at work at the same time share operands in L2. */
struct Place {
    unsigned row, col;

    __device__ __forceinline__ Place(const Plan &plan, unsigned tile)
    {
        const unsigned down = (unsigned)plan.tiles_down, across = (unsigned)plan.tiles_across;
        const unsigned band = tile / (plan.band * down) * plan.band;
        const unsigned width = min(plan.band, across - band), in_band = tile - band * down;
        row = in_band / width;
        col = band + in_band % width;
    }
};

/* The next of a block's tiles from this one on that has results: those left of the diagonal have
 * none where only pairs are asked for. */
__device__ __forceinline__ unsigned tile_from(const Plan &plan, bool pairs, unsigned tile)
{
    const unsigned tiles = plan.tiles();
    while (pairs && tile < tiles) {
        const Place place(plan, tile);
        if (place.col >= place.row) {
            break;
        }
        tile += gridDim.x;
    }
    return tile;
}

/* Eights of a warp's columns: what one product covers. */
constexpr int kEights = kPartCols / 8;

/* A thread's way through the images: words of a slab that many threads apart, slab by slab, tile by
 * tile, one slab ahead of what is multiplied. */
struct Fetch {
    static constexpr int kEachA = S::image_a / kThreads / kEights,
                         kEachB = S::image_b / kThreads / kEights;
    const uint4 *a, *b;
    bool more;
    WordsCopy<kEachA, kThreads> copy_a;
    WordsCopy<kEachB, kThreads> copy_b;

    __device__ __forceinline__ void aim(const Plan &plan, unsigned tile)
    {
        const Place place(plan, tile);
        a = plan.image_a + place.row * plan.slabs * S::image_a + this_thread();
        b = plan.image_b + place.col * plan.slabs * S::image_b + this_thread();
    }
    /* One of as many shares as there are eights. */
    __device__ __forceinline__ void begin(uint4 *buffer, int share)
    {
        if (more) {
            const int at = share * kEachA * kThreads;
            copy_a.begin(buffer + at + this_thread(), a + at);
            copy_b.begin(buffer + S::image_a + at + this_thread(), b + at);
        }
    }
    __device__ __forceinline__ void end(uint4 *buffer, int share) const
    {
        if (more) {
            const int at = share * kEachA * kThreads;
            copy_a.end(buffer + at + this_thread());
            copy_b.end(buffer + S::image_a + at + this_thread());
        }
    }
    /* All shares are on their way. */
    __device__ __forceinline__ void step()
    {
        end_copies();
        a += S::image_a;
        b += S::image_b;
    }
};
static_assert(Fetch::kEachA == Fetch::kEachB && Fetch::kEachA > 0, "shares are equal");

/* Adds a slab's products to a warp's sums, and has the next one fetched to `buffer`. from_a,
 * from_b: where the lane's rows of the first matrices are.
 *
 * What 16 x 8 results get are three sums of two products: hi lo, lo hi, which is added to it, and
 * hi hi on top of both. As the first two are sums of their own they change places when a and b do,
 * in whatever order an instruction adds up, so cdist(X, X) is symmetric to the last bit. Sums start
 * at 0, as tensor cores truncate (product_f32/operands.cuh).
 *
 * Each step below waits for the one three products before it: hi hi of some results stands between
 * the others of the next ones, and is added to the sums after one more turn. */
__device__ __forceinline__ void multiply_slab(WarpSums &sums, unsigned from_a, unsigned from_b,
                                              Fetch &fetch, uint4 *buffer)
{
    constexpr unsigned kWord = sizeof(uint4);
    constexpr int kTwos = kChunks / 2; /* of chunks: 16 dimensions, those of a product */
    constexpr int kTurns = kEights * kWarpUnits;
    static_assert(kTwos == 2, "a sum of two products");
    unsigned hi[kWarpUnits][kTwos][4], lo[kWarpUnits][kTwos][4];
    unsigned b[2][kTwos][4]; /* of two eights in turn: lo of both chunks, hi of both */
    const auto fetch_b = [&](int eight) {
#pragma unroll
        for (int two = 0; two < kTwos; ++two) {
            load_matrices(b[eight % 2][two], from_b + (two * 4 * S::plane_b + eight * 8) * kWord);
        }
    };
    fetch_b(0);
#pragma unroll
    for (int two = 0; two < kTwos; ++two) {
#pragma unroll
        for (int unit = 0; unit < kWarpUnits; ++unit) {
            const unsigned from = from_a + (two * 4 * S::plane_a + unit * kUnitRows) * kWord;
            load_matrices(hi[unit][two], from);
            load_matrices(lo[unit][two], from + S::plane_a * kWord);
        }
    }
    float hi_lo[4], lo_hi[4], crossed[4], all[4], finished[4];
#pragma unroll
    for (int turn = 0; turn < kTurns + 2; ++turn) {
        const int eight = turn / kWarpUnits, unit = turn % kWarpUnits;
        const int before = turn - 1, last = turn - 2;
        const auto &now = b[eight % 2];
        if (turn < kTurns) {
            if (unit == 0) {
                fetch.begin(buffer, eight);
            }
            if (unit == 1 && eight + 1 < kEights) {
                fetch_b(eight + 1);
            }
            multiply_halves<false>(hi_lo, hi[unit][0], now[0][0], now[0][1]);
            multiply_halves<false>(lo_hi, lo[unit][0], now[0][2], now[0][3]);
        }
        if (before >= 0 && before < kTurns) {
            const auto &then = b[before / kWarpUnits % 2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                all[i] = crossed[i];
            }
            multiply_halves<true>(all, hi[before % kWarpUnits][0], then[0][2], then[0][3]);
        }
        if (turn < kTurns) {
            multiply_halves<true>(hi_lo, hi[unit][1], now[1][0], now[1][1]);
            multiply_halves<true>(lo_hi, lo[unit][1], now[1][2], now[1][3]);
        }
        if (before >= 0 && before < kTurns) {
            const auto &then = b[before / kWarpUnits % 2];
            multiply_halves<true>(all, hi[before % kWarpUnits][1], then[1][2], then[1][3]);
        }
        if (last >= 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums[last % kWarpUnits][last / kWarpUnits][i] += finished[i];
            }
        }
        if (turn < kTurns && unit == kWarpUnits - 1) {
            fetch.end(buffer, eight);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            crossed[i] = hi_lo[i] + lo_hi[i];
            finished[i] = all[i];
        }
    }
    fetch.step();
}

/* Stores a tile's results by one of the ways. Where all are there its code is made for each unit,
 * else sums move down. */
template <gd_metric kMetric, Way kWay>
__device__ __forceinline__ void store_warp(const Cdist<float> &call, const Plan &plan,
                                           const Place &place, ptrdiff_t row, ptrdiff_t col,
                                           WarpSums &sums, uint32_t (&suspects)[kWarpUnits])
{
    const int in_row = (int)(row % kTileRows), in_col = (int)(col % kTileCols);
    const FactsFrom<true> facts_b(plan.facts_b[place.col], in_col);
    const auto store = [&](int unit, const float *of_unit, uint32_t &suspected) {
        NotStaged none;
        uint32_t own[1];
        store_unit<kMetric, kWay, kPartCols>(
            call, plan.ratio, FactsFrom<true>(plan.facts_a[place.row], in_row + unit * kUnitRows),
            facts_b, row + unit * kUnitRows, col, none, of_unit, own);
        suspected = own[0];
    };
    if constexpr (kWay == Way::kLines) {
#pragma unroll
        for (int unit = 0; unit < kWarpUnits; ++unit) {
            store(unit, &sums[unit][0][0], suspects[unit]);
        }
        return;
    }
    constexpr int kOfUnit = kPartCols / 2;
    float *const all = &sums[0][0][0];
#pragma unroll 1
    for (int unit = 0; unit < kWarpUnits; ++unit) {
#pragma unroll
        for (int i = 0; i + 1 < kWarpUnits; ++i) {
            suspects[i] = suspects[i + 1];
        }
        store(unit, all, suspects[kWarpUnits - 1]);
#pragma unroll
        for (int i = 0; i < (kWarpUnits - 1) * kOfUnit; ++i) {
            all[i] = all[i + kOfUnit];
        }
    }
}

/* Adds sums to those of the groups before, which wait in global memory, and starts afresh; or, at a
 * tile's end, the other way round. */
__device__ __forceinline__ void leave_sums(const Plan &plan, bool first, WarpSums &sums)
{
    constexpr int kAtOnce = 32; /* loads on their way */
    float *const total = plan.totals[blockIdx.x] + this_thread(), *const own = &sums[0][0][0];
#pragma unroll
    for (int at = 0; at < kSums; at += kAtOnce) {
        float before[kAtOnce] = {};
        if (!first) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                before[i] = total[(at + i) * kThreads];
            }
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            total[(at + i) * kThreads] = own[at + i] + before[i];
            own[at + i] = 0;
        }
    }
}
__device__ __forceinline__ void take_sums(const Plan &plan, WarpSums &sums)
{
    const float *const total = plan.totals[blockIdx.x] + this_thread();
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        (&sums[0][0][0])[i] += total[i * kThreads];
    }
}

/* The first of a warp's results in a tile. */
__device__ __forceinline__ unsigned warp_row() { return this_thread() / kLanes % 2 * kWarpRows; }
__device__ __forceinline__ unsigned warp_col() { return this_thread() / kLanes / 2 * kPartCols; }

template <gd_metric kMetric>
__global__ void __launch_bounds__(kThreads, kBlocks)
    multiply_tiles(const __grid_constant__ Cdist<float> call, const __grid_constant__ Plan plan)
{
    extern __shared__ __align__(128) uint4 memory[];
    constexpr unsigned kWord = sizeof(uint4), kBufferBytes = kBufferWords * kWord;
    /* Where the lane's rows of matrices begin: of a the two halves of a unit, then the same of the
     * next chunk; of b lo of both chunks, then hi. */
    const unsigned lane = this_thread() % kLanes, shared = shared_address(memory);
    const unsigned from_a = shared + (lane / 16 * 2 * S::plane_a + warp_row() + lane % 16) * kWord;
    const unsigned from_b =
        shared +
        (S::image_a + (lane / 8 % 2 * 2 + lane / 16) * S::plane_b + warp_col() + lane % 8) * kWord;
    unsigned tile = tile_from(plan, call.packed(), blockIdx.x), buffer = 0, suspected = 0;
    int listed = 0;
    follow<true>();
    if (plan.suspects.direct()) {
        return; /* all is computed by compute_dense */
    }
    const unsigned tiles = plan.tiles();
    Fetch fetch;
    fetch.more = tile < tiles;
    if (fetch.more) {
        fetch.aim(plan, tile);
    }
#pragma unroll 1
    for (int share = 0; share < kEights; ++share) {
        fetch.begin(memory, share);
        fetch.end(memory, share);
    }
    fetch.step();
    while (tile < tiles) {
        const unsigned next = tile_from(plan, call.packed(), tile + gridDim.x);
        WarpSums sums = {};
        const int slabs = (int)plan.slabs;
#pragma unroll 1
        for (int slab = 0; slab < slabs; ++slab) {
            await_copies<0>();
            __syncthreads(); /* the slab is there, and nobody reads the one before */
            if (slab + 1 == slabs) {
                fetch.more = next < tiles;
                if (fetch.more) {
                    fetch.aim(plan, next);
                }
            }
            multiply_slab(sums, from_a + buffer, from_b + buffer, fetch,
                          memory + (buffer ? 0 : kBufferWords));
            buffer ^= kBufferBytes;
            if (slab % kGroupSlabs == kGroupSlabs - 1 && slab + 1 < slabs) {
                leave_sums(plan, slab < kGroupSlabs, sums);
            }
        }
        if (slabs > kGroupSlabs) {
            take_sums(plan, sums);
        }
        /* Cosine's results leave no registers for rows that slide. */
        constexpr bool kSlides = kMetric != GD_COSINE;
        const Place place(plan, tile);
        const ptrdiff_t row = (ptrdiff_t)place.row * kTileRows + warp_row();
        const ptrdiff_t col = (ptrdiff_t)place.col * kTileCols + warp_col();
        uint32_t suspects[kWarpUnits] = {};
        /* Votes, so that the compiler knows that the warp stays together. */
        const bool some = __all_sync(~0u, row < call.a.count && col < call.b.count);
        const bool whole =
            __all_sync(~0u, row + kWarpRows <= call.a.count && col + kPartCols <= call.b.count &&
                                (!call.packed() || row + kWarpRows <= col));
        if (whole && call.words) {
            store_warp<kMetric, Way::kLines>(call, plan, place, row, col, sums, suspects);
        }
        else if (kSlides && whole) {
            store_warp<kMetric, Way::kSliding>(call, plan, place, row, col, sums, suspects);
        }
        else if (some) {
            store_warp<kMetric, Way::kSingly>(call, plan, place, row, col, sums, suspects);
        }
        keep_suspects<true>(call, plan, row, col, suspects, suspected,
                            plan.lists[blockIdx.x * kWarps + this_thread() / kLanes], listed);
        listed = __shfl_sync(~0u, listed, 0);
        tile = next;
    }
    work_off<Metric<kMetric>>(call, plan.words,
                              plan.lists[blockIdx.x * kWarps + this_thread() / kLanes], listed);
    if (this_thread() % kLanes == 0 && suspected != 0) {
        atomicAdd(plan.suspects.total, suspected);
    }
}

}  // namespace tensor_mma
}  // namespace gd
#endif
