/* resident.cu: shortest paths of some 2000 nodes at most, in one launch, the matrix in shared
 * memory.
 *
 * Idea: with few nodes blocked Floyd-Warshall (blocked.cu) waits for its chain: close the pivot
 * tile, then the pivots' rows and columns through it, then update the next pivot tile. Each link is
 * a launch there. Here blocks stay, one a multiprocessor, and keep their part of the matrix in
 * shared memory for all rounds; a round's panels are all that they tell each other, through L2.
 * - Tiles are dealt out in turn, so that each round has other blocks in the chain.
 * - Whoever holds a part of the next pivots' rows or columns updates that part first, closes the
 *   next pivot tile by itself (all of them do, with the same bits), closes its part, and hands the
 *   panels on before it updates the rest. So there is one hand-over a round. The tile comes from
 *   its owner one round old, and is brought up to date where it is closed.
 * - Lines of a panel are closed by a thread each, from registers, without a barrier.
 * - The panels at the next pivots, which the chain waits for, come sealed, word by word, and are
 *   there when they are written. The others follow a flag: first the block that sends them waits
 *   until all that it has written is written, then who takes them looks at the flag, then at them.
 * - Which ring the weights allow is looked up here, where reading found it, and the nodes on
 *   negative cycles are written to the host's memory: the host enqueues all and waits once.
 *
 * Snapshots, the order of pairs and the bits of the result are blocked.cu's.
 *
 * Cost: n^3 updates are the floor for large n only, 0.05 ms for n = 1024 and 0.39 for 2048 at the
 * bound of the instructions (semiring/rings.cuh). Below some 1500 nodes it is the chain, 6 us a
 * round (resident_chain.cuh).
 *
 * Launch: a cooperative grid of up to 16 x 8 blocks of 256 threads, as many as there are
 * multiprocessors or fewer.
 *
 * Reached on an H200, whole calls on arrays there, float32: n = 256 0.080 ms, 512 0.130, 1024
 * 0.225 (4.8e12 updates/s; 0.200 in this kernel), 1536 0.508, 2048 0.818 (10.5e12), where lines
 * that were closed to their ends, flags alone, and a host that waited three times took 0.101,
 * 0.157, 0.284, 0.555 and 0.865; n = 1024 and 2048 with negative weights 0.244 and 0.957, int32
 * 0.210 and 0.834. */
#include <cuda_pipeline_primitives.h>

#include <string.h>

#include <type_traits>

#include "arch/signals.cuh"
#include "apsp/found.cuh"
#include "apsp/resident.cuh"
#include "apsp/resident_chain.cuh"

namespace {

using gd::add_release;
using gd::load_acquire;
using gd::Pair;
using gd::store_release;
using namespace gd::resident;

constexpr const char *kId = "apsp/cuda_blocked";

constexpr int kDown = 16, kAcross = 8;      /* blocks at most */
constexpr int kMostRows = 4, kMostCols = 8; /* tiles of a block */
constexpr int kMostTiles = kDown * kMostRows;
static_assert(kMostTiles * kSide <= gd::kMostTold, "a page has room for all nodes");
constexpr int kSlots = 4;          /* rounds whose panels are in device memory */
constexpr int kApart = 32;         /* words between flags that different blocks wait for */
constexpr int kPad = 8;            /* rows two apart must not meet in a bank */
constexpr ptrdiff_t kPadding = 64; /* of rows in device memory, which start on 64 bytes */

/* Counts by which blocks tell each other how far they are, all zero at first. */
struct Flags {
    unsigned cols[kDown * kApart], rows[kAcross * kApart]; /* rounds whose panels are there */
    unsigned tile[kMostTiles];  /* whether a round's pivot tile is there */
    unsigned taken[kMostTiles]; /* blocks that have taken a round's panels */
};

/* Pairs that come sealed, right behind the flags, and all zero at first as well. */
constexpr size_t kSealed = (size_t)kSlots * 2 * kPanel;
constexpr size_t kZeroed = sizeof(Flags) + kSealed * sizeof(Sealed);

template <typename T>
struct Job {
    T *dist;
    ptrdiff_t padded;
    int tiles;                /* along the matrix's side */
    int log_down, log_across; /* of the grid's blocks: nobody waits for divisions */
    int most_rows, most_cols; /* tiles of a block */
    Pair<T> *cols, *rows;     /* panels: [slot][tile][pair][line] */
    T *pivots;                /* pivot tiles, one a round */
    Sealed *sealed;           /* panels at the next pivots: [slot][columns, rows][pair][line] */
    Flags *flags;
    uint32_t *negative; /* for the host: a bit for each node, zeros at first */
};

__device__ __forceinline__ void await(const unsigned *at, unsigned least)
{
    while (load_acquire(at) < least) {
    }
}

/* ---------------------------------------------------------------- a block */

template <typename Ring>
class Resident {
    using T = typename Ring::Word;

public:
    __device__ __forceinline__ Resident(const Job<T> &j, void *memory)
        : job(j),
          row((int)(blockIdx.x >> j.log_across)),
          col((int)(blockIdx.x & ((1u << j.log_across) - 1))),
          rows(tiles_of(j.tiles, row, j.log_down)),
          cols(tiles_of(j.tiles, col, j.log_across)),
          stride(j.most_cols * kSide + kPad),
          shared(*static_cast<Shared<T> *>(memory)),
          left(reinterpret_cast<Pair<T> *>(&shared + 1)),
          right(left + j.most_rows * kPanel),
          matrix(reinterpret_cast<T *>(right + j.most_cols * kPanel))
    {
    }

    __device__ __forceinline__ void run()
    {
        move<false>();
        __syncthreads();
        for (int first = 0; first < 2 && first < job.tiles; ++first) {
            if (owns(first) && threadIdx.x < 32) {
                publish(first);
            }
        }
#pragma unroll 1
        for (int round = -1; round < job.tiles; ++round) {
            const int next = round + 1;
            const bool has_rows = next < job.tiles && in_grid(next, job.log_down) == row;
            const bool has_cols = next < job.tiles && in_grid(next, job.log_across) == col;
            if (has_rows || has_cols) {
                take_ahead(round, has_rows, has_cols);
                hand_on(round, has_rows, has_cols);
            }
            else if (round >= 0) {
                take(round);
            }
            if (round >= 0) {
                rest(round, has_rows ? (next >> job.log_down) : -1,
                     has_cols ? (next >> job.log_across) : -1);
            }
            __syncthreads();
        }
        /* The barrier above orders all, and there is no way round it; but a checker of races
         * reports the reads below unless there are two. */
        __syncthreads();
        move<true>();
        tell();
    }

private:
    static __device__ __forceinline__ int tiles_of(int tiles, int first, int log_step)
    {
        return ((tiles - first - 1) >> log_step) + 1;
    }

    static __device__ __forceinline__ int in_grid(int tile, int log_step)
    {
        return tile & ((1 << log_step) - 1);
    }

    /* Elements enter or leave. */
    template <bool kOut>
    __device__ __forceinline__ void move()
    {
        constexpr int kEach = 16 / sizeof(T), kWords = kSide / kEach;
        for (int i = (int)threadIdx.x / 32; i < rows * kSide; i += kWarps) {
            const ptrdiff_t y = (ptrdiff_t)((i / kSide << job.log_down) + row) * kSide + i % kSide;
            for (int at = threadIdx.x % 32; at < cols * kWords; at += 32) {
                const int tile = (at / kWords << job.log_across) + col;
                T *const outside = job.dist + y * job.padded + tile * kSide + at % kWords * kEach;
                T *const inside = matrix + i * stride + at * kEach;
                T word[kEach];
                gd::load_word(kOut ? inside : outside, word);
                gd::store_word(kOut ? outside : inside, word);
            }
        }
    }

    /* Two threads wait until the block's share of a round's panels is there. */
    __device__ __forceinline__ void await_share(int round, int thread)
    {
        if (thread == 0) {
            await(&job.flags->cols[row * kApart], (unsigned)round + 1);
        }
        if (thread == 32) {
            await(&job.flags->rows[col * kApart], (unsigned)round + 1);
        }
    }

    /* Fetches the next pivot tile, by the threads that do not close it. */
    __device__ __forceinline__ void fetch_tile(int next)
    {
        constexpr int kEach = 16 / sizeof(T);
        await(&job.flags->tile[next], 1);
        for (int at = (threadIdx.x - kClosers) * kEach; at < kTile;
             at += (kThreads - kClosers) * kEach) {
            __pipeline_memcpy_async(shared.tile + at, job.pivots + (ptrdiff_t)next * kTile + at,
                                    16);
        }
        __pipeline_commit();
    }

    /* A tile of a panel, by this one of so many threads. */
    static __device__ __forceinline__ void fetch(Pair<T> *to, const Pair<T> *from, int thread,
                                                 int threads)
    {
        constexpr int kEach = 16 / sizeof(Pair<T>);
#pragma unroll 2
        for (int at = thread * kEach; at < kPanel; at += threads * kEach) {
            __pipeline_memcpy_async(to + at, from + at, 16);
        }
    }
    __device__ __forceinline__ Pair<T> *panel(Pair<T> *panels, int round, int tile) const
    {
        return panels + ((ptrdiff_t)(round & (kSlots - 1)) * job.tiles + tile) * kPanel;
    }

    /* This block's share of a round's panels, but for tiles that are there already. */
    __device__ __forceinline__ void fetch_share(int round, int thread, int threads, int row_there,
                                                int col_there)
    {
        for (int i = 0; i < rows; ++i) {
            if (i != row_there) {
                fetch(left + i * kPanel, panel(job.cols, round, (i << job.log_down) + row), thread,
                      threads);
            }
        }
        for (int j = 0; j < cols; ++j) {
            if (j != col_there) {
                fetch(right + j * kPanel, panel(job.rows, round, (j << job.log_across) + col),
                      thread, threads);
            }
        }
        __pipeline_commit();
    }

    /* A block that does not close the next pivots takes its share, */
    __device__ __forceinline__ void take(int round)
    {
        const int thread = threadIdx.x;
        await_share(round, thread);
        __syncthreads();
        fetch_share(round, thread, kThreads, -1, -1);
        __pipeline_wait_prior(0);
        __syncthreads();
        if (thread == 0) {
            add_release(&job.flags->taken[round]);
        }
    }

    /* and who does takes what the pivot tile needs, by the threads that close it, while the others
     * take the rest. */
    __device__ __forceinline__ void take_ahead(int round, bool has_rows, bool has_cols)
    {
        const int next = round + 1, thread = (int)threadIdx.x - kClosers;
        const int my_row = next >> job.log_down, my_col = next >> job.log_across;
        if (thread < 0) {
            if (round >= 0) {
                receive(round, has_rows ? left + my_row * kPanel : shared.ahead[0],
                        has_cols ? right + my_col * kPanel : shared.ahead[1]);
            }
            gd::arrive_part<kPanelsThere, kThreads>();
            gd::sync_part<kTileThere, kThreads>();
        }
        else {
            fetch_tile(next);
            __pipeline_wait_prior(0);
            gd::arrive_part<kTileThere, kThreads>();
            if (round >= 0) {
                await_share(round, thread);
            }
            if (thread == 64 && next >= kSlots) { /* the panels' slot is free again */
                await(&job.flags->taken[next - kSlots], gridDim.x);
            }
            __syncwarp();
            gd::sync_part<kOthersMeet, kThreads - kClosers>();
            if (round >= 0) {
                fetch_share(round, thread, kThreads - kClosers, has_rows ? my_row : -1,
                            has_cols ? my_col : -1);
                __pipeline_wait_prior(0);
            }
            gd::sync_part<kPanelsThere, kThreads>();
            if (thread == 0 && round >= 0) {
                add_release(&job.flags->taken[round]);
            }
        }
    }

    /* The panels at the next pivots, by the threads that close their tile. */
    __device__ __forceinline__ void receive(int round, Pair<T> *cols_to, Pair<T> *rows_to)
    {
        constexpr int kEach = kPanel / kClosers;
        const Sealed *const from = sealed_panel(round, 0) + threadIdx.x;
        const unsigned seal = (unsigned)round + 1;
        Sealed x[2 * kEach];
#pragma unroll
        for (int i = 0; i < 2 * kEach; ++i) {
            x[i] = look_at(from + i * kClosers);
        }
#pragma unroll
        for (int i = 0; i < 2 * kEach; ++i) {
            while (x[i].first >> 32 != seal || x[i].second >> 32 != seal) {
                x[i] = look_at(from + i * kClosers);
            }
            Pair<T> pair;
            open_word(x[i].first, &pair.first);
            open_word(x[i].second, &pair.second);
            (i < kEach ? cols_to : rows_to)[i % kEach * kClosers + threadIdx.x] = pair;
        }
        __syncwarp(); /* whole warps go on to the barriers */
    }
    __device__ __forceinline__ Sealed *sealed_panel(int round, int of_rows) const
    {
        return job.sealed + ((round & (kSlots - 1)) * 2 + of_rows) * kPanel;
    }

    /* Which nodes are on negative cycles: their lengths to themselves tell, by a warp a tile. */
    __device__ __forceinline__ void tell()
    {
        const int i = (int)threadIdx.x / 32, line = threadIdx.x % 32;
        const int tile = (i << job.log_down) + row;
        if (i < rows && owns(tile)) {
            const T loop = tile_at(i, tile >> job.log_across)[line * stride + line];
            const unsigned negative = __ballot_sync(~0u, loop < 0);
            if (negative != 0 && line == 0) {
                job.negative[tile] = negative;
            }
        }
    }

    __device__ __forceinline__ bool owns(int pivots) const
    {
        return in_grid(pivots, job.log_down) == row && in_grid(pivots, job.log_across) == col;
    }
    __device__ __forceinline__ T *tile_at(int i, int j) const
    {
        return matrix + i * kSide * stride + j * kSide;
    }

    /* Closes the next pivots' tile and this block's part of their rows and columns. Half of the
     * warps close the tile, while the others bring the rest of the part up to date. */
    __device__ __forceinline__ void hand_on(int round, bool has_rows, bool has_cols)
    {
        const int next = round + 1, warp = threadIdx.x / 32;
        const int my_row = next >> job.log_down, my_col = next >> job.log_across;
        const bool has_both = has_rows && has_cols;
        const Pair<T> *const legs_of_rows = has_rows ? left + my_row * kPanel : shared.ahead[0];
        const Pair<T> *const legs_of_cols = has_cols ? right + my_col * kPanel : shared.ahead[1];
        /* The pivot tile is none of these tiles. */
        const int row_tiles = has_rows ? cols - has_both : 0;
        const int tiles = row_tiles + (has_cols ? rows - has_both : 0);
        const auto find = [&](int at, bool *of_rows) {
            *of_rows = at < row_tiles;
            const int place = *of_rows ? at : at - row_tiles;
            return place + (has_both && place >= (*of_rows ? my_col : my_row));
        };
        bool of_rows;
        if (threadIdx.x < kClosers) {
            close_tile<Ring>(round >= 0, legs_of_rows, legs_of_cols, shared);
        }
        /* Where the others have more than a tile each, those who closed it take a part, as soon as
         * the others have what that takes. */
        if (tiles > kWarps / 2) {
            if (threadIdx.x < kClosers) {
                gd::sync_part<kShareThere, kThreads>();
            }
            else {
                gd::arrive_part<kShareThere, kThreads>();
            }
        }
        const int mine = (warp + kWarps / 2) % kWarps;
#pragma unroll 1
        for (int at = mine; round >= 0 && at < tiles; at += kWarps) {
            const int tile = find(at, &of_rows);
            const int i = of_rows ? my_row : tile, j = of_rows ? tile : my_col;
            relax<Ring, 8, 4>(tile_at(i, j), stride, left + i * kPanel, right + j * kPanel);
        }
        __syncthreads();
        if (has_both && threadIdx.x < kClosers) {
            hand_on_tile(next, my_row, my_col);
        }
        /* Warps that have no pivot tile to hand on begin. */
#pragma unroll 1
        for (int at = mine; at < tiles; at += kWarps) {
            const int tile = find(at, &of_rows), line = threadIdx.x % 32;
            const int place =
                of_rows ? (tile << job.log_across) + col : (tile << job.log_down) + row;
            close_line<Ring>(
                of_rows ? tile_at(my_row, tile) + line : tile_at(tile, my_col) + line * stride,
                stride, of_rows, shared.closed[of_rows ? 0 : 1],
                panel(of_rows ? job.rows : job.cols, next, place) + line,
                place == next + 1 ? sealed_panel(next, of_rows) + line : NULL, (unsigned)next + 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) { /* one release: each waits for all that the block has written */
            if (has_rows) {
                store_release(&job.flags->rows[col * kApart], (unsigned)next + 1);
            }
            if (has_cols) {
                store_release(&job.flags->cols[row * kApart], (unsigned)next + 1);
            }
        }
    }

    /* The pivot tile itself, by those who closed it. */
    __device__ __forceinline__ void hand_on_tile(int next, int my_row, int my_col)
    {
        constexpr int kEach = 16 / sizeof(T);
        T *const tile = tile_at(my_row, my_col);
        Pair<T> *const to_cols = panel(job.cols, next, next);
        Pair<T> *const to_rows = panel(job.rows, next, next);
        for (int at = threadIdx.x * kEach; at < kTile; at += kClosers * kEach) {
            T word[kEach];
            gd::load_word(shared.tile + at, word);
            gd::store_word(tile + at / kSide * stride + at % kSide, word);
        }
        for (int at = threadIdx.x; at < kPanel; at += kClosers) {
            to_cols[at] = shared.closed[0][at];
            to_rows[at] = {shared.closed[1][at].second, shared.closed[1][at].first};
        }
    }

    /* All tiles but those of the next pivots. The one after next goes first, and to all. */
    __device__ __forceinline__ void rest(int round, int skip_row, int skip_col)
    {
        const int after = round + 2;
        const bool owns_after = after < job.tiles && owns(after);
        const bool skips = skip_row >= 0 || skip_col >= 0;
        /* Two minima apiece leave no registers for that. */
        constexpr bool kMayBeHigh = !std::is_same<Ring, gd::Plus<float>>::value;
        const bool high = kMayBeHigh && rows == kMostRows && cols == kMostCols && !skips;
        const bool wide = high || (rows * cols >= 2 * kWarps && cols % 2 == 0);
        const int height = 1 << high, width = 1 << wide;
        const int across = cols >> wide, count = (rows >> high) * across;
        const int urgent = owns_after ? ((after >> job.log_down) >> high) * across +
                                            ((after >> job.log_across) >> wide)
                                      : 0;
#pragma unroll 1
        for (int at = threadIdx.x / 32; at < count; at += kWarps) {
            const int turned = at + urgent < count ? at + urgent : at + urgent - count;
            int i = 0, j = turned;
            for (; j >= across; j -= across) {
                i += height;
            }
            j *= width;
            const Pair<T> *const from_left = left + i * kPanel;
            const Pair<T> *const from_right = right + j * kPanel;
            if (high) {
                if constexpr (kMayBeHigh) {
                    relax<Ring, 16, 8>(tile_at(i, j), stride, from_left, from_right);
                }
            }
            else if (i != skip_row && wide && (skip_col < j || skip_col >= j + 2)) {
                relax<Ring, 8, 8>(tile_at(i, j), stride, from_left, from_right);
            }
            else if (i != skip_row) {
                for (int e = 0; e < width; ++e) {
                    if (j + e != skip_col) {
                        relax<Ring, 8, 4>(tile_at(i, j + e), stride, from_left,
                                          from_right + e * kPanel);
                    }
                }
            }
            if (owns_after && at == 0) {
                publish(after);
            }
        }
    }

    /* A warp's work. */
    __device__ __forceinline__ void publish(int round)
    {
        constexpr int kEach = 16 / sizeof(T);
        const T *const tile = tile_at(round >> job.log_down, round >> job.log_across);
        T *const to = job.pivots + (ptrdiff_t)round * kTile;
        __syncwarp();
#pragma unroll
        for (int at = threadIdx.x % 32 * kEach; at < kTile; at += 32 * kEach) {
            T word[kEach];
            gd::load_word(tile + at / kSide * stride + at % kSide, word);
            gd::store_word(to + at, word);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            store_release(&job.flags->tile[round], 1);
        }
    }

    const Job<T> &job;
    const int row, col;   /* of the grid: tiles row, row + down, ... */
    const int rows, cols; /* tiles */
    const int stride;
    Shared<T> &shared;
    Pair<T> *const left, *const right;
    T *const matrix;
};

/* Over the quicker ring, unless the graph turned out to have weights that it does not take. */
template <typename Ring, typename AnyRing>
__global__ void __launch_bounds__(kThreads, 1)
    close_resident(const __grid_constant__ Job<typename Ring::Word> job, const gd::Found *found)
{
    extern __shared__ int4 memory[];
    if (!std::is_same<Ring, AnyRing>::value && found->not_negative_at != 0) {
        Resident<AnyRing>(job, memory).run();
    }
    else {
        Resident<Ring>(job, memory).run();
    }
}

/* float and int32_t alike. */
size_t shared_bytes(int rows, int cols)
{
    const size_t words =
        2 * kPanel * (size_t)(rows + cols) + (size_t)(rows * kSide) * (size_t)(cols * kSide + kPad);
    return sizeof(Shared<float>) + words * sizeof(float);
}

/* Where things are in the workspace; returns how large it is. */
template <typename T>
size_t lay_out(Job<T> &job, void *workspace)
{
    const size_t pairs = (size_t)kSlots * (size_t)job.tiles * kPanel;
    job.flags = static_cast<Flags *>(workspace);
    job.sealed = reinterpret_cast<Sealed *>(job.flags + 1);
    job.cols = reinterpret_cast<Pair<T> *>(job.sealed + kSealed);
    job.rows = job.cols + pairs;
    job.pivots = reinterpret_cast<T *>(job.rows + pairs);
    return kZeroed + (4 * pairs + (size_t)job.tiles * kTile) * sizeof(T);
}

template <typename T>
Job<T> plan(const gd_apsp &call, void *workspace, size_t *bytes)
{
    Job<T> job = {};
    job.dist = static_cast<T *>(call.dist);
    job.padded = call.padded;
    job.tiles = (int)gd::ceil_div(call.n, kSide);
    while (2 << job.log_down <= min(job.tiles, kDown)) {
        ++job.log_down;
    }
    while (2 << job.log_across <= min(job.tiles, kAcross)) {
        ++job.log_across;
    }
    job.most_rows = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_down);
    job.most_cols = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_across);
    *bytes = lay_out(job, workspace);
    return job;
}

template <typename Ring, typename AnyRing>
gd_status run(const gd_apsp &call, gd_error *err)
{
    using T = typename Ring::Word;
    constexpr auto kernel = close_resident<Ring, AnyRing>;
    size_t bytes;
    Job<T> job = plan<T>(call, call.launch.workspace, &bytes);
    const size_t shared = shared_bytes(job.most_rows, job.most_cols);
    job.negative = gd::page_of(call)->negative;
    memset(job.negative, 0, sizeof gd::Page::negative);
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kTogether>(call.launch, kernel,
                                                  (ptrdiff_t)1 << (job.log_down + job.log_across),
                                                  kThreads, shared, job, gd::found_of(call)));
    return GD_OK;
}

}  // namespace

namespace gd {

bool fits_resident(const gd_apsp &call)
{
    const int device = call.launch.device.index;
    int multiprocessors = 0, shared = 0, together = 0;
    const bool known =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device) == cudaSuccess;
    return call.n <= kMostTiles * kSide && call.dtype != GD_F64 && call.pred == NULL && known &&
           together && multiprocessors >= kDown * kAcross &&
           (size_t)shared >= shared_bytes(kMostRows, kMostCols);
}

gd_status close_in_one_launch(gd_apsp &call, gd_error *err)
{
    if (call.launch.sizing) {
        call.padded = ceil_div(call.n, kPadding) * kPadding;
        call.zeros = kZeroed;
        call.looks = call.dtype == GD_F32;
        call.tells = true;
        (void)plan<float>(call, NULL, &call.launch.workspace_bytes);
        return GD_OK;
    }
    if (call.dtype == GD_I32) {
        return run<Plus<int32_t>, Plus<int32_t>>(call, err);
    }
    return call.nonnegative ? run<PlusUnsigned, Plus<float>>(call, err)
                            : run<Plus<float>, Plus<float>>(call, err);
}

}  // namespace gd
