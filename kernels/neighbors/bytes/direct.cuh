/* direct.cuh: the other way, where bytes tell too little: distances themselves, in direct form,
 * each held against its row's limit where it is computed, so that none is stored.
 *
 * The tile is that of cdist/cuda_tile or cuda_direct, of which a thread has pairs of columns
 * kDirectApart apart; three blocks share a multiprocessor, and walk through tiles of 128 rows by 64
 * columns, those of one step below each other. Totals of folds wait in shared memory, and those of
 * groups, where there are several.
 *
 * v is the distance as it is reported, and all bounds are 0.
 *
 * The 168 registers that let three blocks share a multiprocessor leave 8 to 32 bytes of a thread in
 * memory where what is near goes to the log; without the log nothing spills. */
#ifndef GPUDIST_NEIGHBORS_BYTES_DIRECT_CUH
#define GPUDIST_NEIGHBORS_BYTES_DIRECT_CUH

#include "common/tile.cuh"
#include "neighbors/bytes/log_rows.cuh"

namespace gd {
namespace filter {

constexpr int kDirectApart = 16;
using DirectTile = Tile<float, kPairs, Order<1, kDirectApart / 2>>;
/* Blocks of a multiprocessor: with totals of groups, shared memory has room for two. */
template <bool kGroups>
constexpr int kDirectBlocks = kGroups ? 2 : 3;
constexpr int kDirectWarps = kTileThreads / kLanes;
static_assert(DirectTile::block_cols == 2 * kRun && kTileCols % DirectTile::block_cols == 0,
              "tiles of columns are whole tiles here");

/* Where a call is done by this way: nothing is found of its rows yet. A thread a row, or a tile. */
static __global__ void __launch_bounds__(kTileThreads)
    begin_direct(const __grid_constant__ PlanOf<float> plan)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    const int i = (int)(blockIdx.x * kTileThreads + threadIdx.x);
    if (i < plan.tiles) {
        plan.tile_facts[i] = {};
    }
    if (i < plan.strips * kTileRows) {
        float limit = i < plan.rows ? 0.0f : -INFINITY;
        if (i < plan.rows && plan.radii != NULL) {
            const float radius = plan.radius(i);
            limit = plan.bounds[i] = radius >= 0 ? radius : -kFar;
        }
        plan.row_facts[i] = {0, 0, 0, limit};
        plan.counts[i] = 0;
    }
}

/* A number of each of a thread's pairs, word by word. */
struct Waiting {
    float at[kPairs * kPairs / 4][kTileThreads][4];
};
struct NoneWaiting {};
template <bool kGroups>
struct alignas(16) DirectShared {
    DirectTile::SlabA slab_a;
    DirectTile::SlabB slab_b;
    Waiting totals;
    std::conditional_t<kGroups, Waiting, NoneWaiting> groups;
    Log logs[kDirectWarps];
};

/* Joins sums with those that wait from before, if there are any. `put`: they wait again, and sums
 * start afresh. */
template <typename M>
__device__ __forceinline__ void join_waiting(Waiting &waiting, DirectTile::Results &sums,
                                             unsigned thread, bool any, bool put)
{
#pragma unroll
    for (int w = 0; w < kPairs * kPairs / 4; ++w) {
        float word[4] = {};
        if (any) {
            load_word(waiting.at[w][thread], word);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float &sum = sums[w / 2][w % 2 * 4 + j];
            word[j] = M::join(word[j], sum);
            sum = put ? 0 : word[j];
        }
        if (put) {
            store_word(waiting.at[w][thread], word);
        }
    }
}

/* Adds GD_FOLD dimensions of a slab, from `first` on, or as many as there are. */
template <typename M>
__device__ __forceinline__ void add_some(DirectTile::Results &sums, const DirectTile::SlabA &slab_a,
                                         const DirectTile::SlabB &slab_b, int first, int depth,
                                         unsigned thread)
{
    if constexpr (!kByFours<M>) {
        add_slab<M, DirectTile>(sums, slab_a, slab_b, first, depth, thread);
    }
    else {
        constexpr int kPitchA = sizeof slab_a[0] / sizeof(float);
        constexpr int kPitchB = sizeof slab_b[0] / sizeof(float);
        const float *from_a =
            &slab_a[first / 2][(thread / 32 * 4 * kPairs + thread % 32 / 8 * 2) * 2];
        const float *from_b = &slab_b[first / 2][thread % 8 * 2 * 2];
        const float *const end = from_a + ceil_div(depth, 4) * 2 * kPitchA;
#pragma unroll 1
        while (from_a != end) {
            add_fours<M, false, kPitchA, kPitchB>(sums, from_a, from_b);
            from_a += 2 * kPitchA, from_b += 2 * kPitchB;
        }
    }
}

/* Sums of a thread's pairs, of the tile that has this place down and across. */
template <typename M, bool kGroups, bool kWords>
__device__ __forceinline__ void sum_pairs(const PlanOf<float> &plan, DirectShared<kGroups> &shared,
                                          unsigned tile_row, unsigned tile_col, unsigned thread,
                                          DirectTile::Results &sums)
{
    constexpr int kSlab = gd::kSlabDims, kEach = kByFours<M> ? kSlab : GD_FOLD;
#pragma unroll
    for (int i = 0; i < kPairs * kPairs; ++i) {
        sums[i / kPairs][i % kPairs] = 0;
    }
    for (ptrdiff_t dim = 0; dim < plan.d; dim += kSlab) {
        const int depth = (int)min(plan.d - dim, (ptrdiff_t)kSlab);
        hide_origin(tile_row), hide_origin(tile_col), hide_origin(thread);
        DirectTile::LoaderA a(plan.a, (ptrdiff_t)tile_row * DirectTile::block_rows, dim, depth,
                              thread);
        DirectTile::LoaderB b(plan.b, (ptrdiff_t)tile_col * DirectTile::block_cols, dim, depth,
                              thread);
        if constexpr (kWords) {
            a.fetch();
            b.fetch();
        }
        __syncthreads(); /* nobody reads the last slab any more */
        if constexpr (kWords) {
            a.put(shared.slab_a);
            b.put(shared.slab_b);
        }
        else {
            a.copy(shared.slab_a);
            b.copy(shared.slab_b);
        }
        __syncthreads(); /* the slab is there */
#pragma unroll 1
        for (int first = 0; first < depth; first += kEach) {
            add_some<M>(sums, shared.slab_a, shared.slab_b, first, min(depth - first, kEach),
                        thread);
            const ptrdiff_t next = dim + first + kEach, begun = next - kEach;
            const bool last = next >= plan.d, ends_group = kGroups && next % kGroupOf<M> == 0;
            if (last || next % kFoldOf<M> == 0) {
                const bool any = (kGroups ? begun % kGroupOf<M> : begun) >= kFoldOf<M>;
                join_waiting<M>(shared.totals, sums, thread, any, !last && !ends_group);
            }
            if constexpr (kGroups) {
                if (last || ends_group) {
                    join_waiting<M>(shared.groups, sums, thread, begun >= kGroupOf<M>, !last);
                }
            }
        }
    }
}

template <typename M, Look kLook, bool kGroups, bool kWords>
__global__ void __launch_bounds__(kTileThreads, kDirectBlocks<kGroups>)
    compare_points(const __grid_constant__ PlanOf<float> plan, const __grid_constant__ Tiles tiles)
{
    follow();
    if (!plan.is_taken()) {
        return;
    }
    extern __shared__ __align__(128) unsigned char memory[];
    auto &shared = *reinterpret_cast<DirectShared<kGroups> *>(memory);
    constexpr int kAcross = kTileCols / DirectTile::block_cols;
    const unsigned down = ceil_div(plan.rows, DirectTile::block_rows);
    const unsigned count = down * (unsigned)(tiles.end - tiles.begin) * kAcross;
    if (threadIdx.x % kLanes == 0) {
        shared.logs[threadIdx.x / kLanes] = Log(plan.chunks);
    }
    __syncwarp();
#pragma unroll 1
    for (unsigned at = blockIdx.x; at < count; at += gridDim.x) {
        const unsigned across = at / down, tile_row = at % down;
        const int sampled = tiles.begin + (int)(across / kAcross), tile = sampled * tiles.apart;
        const unsigned tile_col = (unsigned)tile * kAcross + across % kAcross;
        DirectTile::Results sums;
        if ((ptrdiff_t)tile_col * DirectTile::block_cols < plan.b.count) {
            sum_pairs<M, kGroups, kWords>(plan, shared, tile_row, tile_col, this_thread(), sums);
        }
        const int thread = (int)this_thread();
        const int row = (int)tile_row * DirectTile::block_rows + thread / 8 * kPairs;
        const ptrdiff_t first = (ptrdiff_t)tile_col * DirectTile::block_cols;
        const ptrdiff_t place = first + thread % 8 * 2;
        if (first + DirectTile::block_cols > plan.b.count) { /* places without a column */
#pragma unroll
            for (int i = 0; i < kPairs * kPairs; ++i) {
                const int j = i % kPairs;
                float &sum = sums[i / kPairs][j];
                sum = place + j / 2 * kDirectApart + j % 2 < plan.b.count ? sum : kFar;
            }
        }
        bool near[kPairs], any = false;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            float least = kFar; /* NaN is nobody's distance */
#pragma unroll
            for (int j = 0; j < kPairs; ++j) {
                least = fminf(least, sums[i][j]);
            }
            if constexpr (kLook == Look::kMinima) {
                least = fminf(least, __shfl_xor_sync(~0u, least, 1));
                least = fminf(least, __shfl_xor_sync(~0u, least, 2));
                if (thread % 4 == 0 && row + i < plan.strips * kTileRows) {
                    const int part = (int)(across % kAcross) * 2 + thread / 4 % 2;
                    *minima_of(plan, row + i, sampled, part) = least;
                }
            }
            else {
                near[i] = least <= plan.row_facts[row + i].limit;
                any = any || near[i];
            }
        }
        if constexpr (kLook == Look::kLog) {
            if (__any_sync(~0u, any)) {
                Log log = shared.logs[thread / kLanes];
                __syncwarp(); /* all have read it before one writes it */
                log_rows<1>(plan, sums, near, row, (int)place, log);
                if (thread % kLanes == 0) {
                    shared.logs[thread / kLanes] = log;
                }
                __syncwarp();
            }
        }
    }
    if constexpr (kLook == Look::kLog) {
        close_log(plan, shared.logs[threadIdx.x / kLanes]);
    }
}

}  // namespace filter
}  // namespace gd
#endif
