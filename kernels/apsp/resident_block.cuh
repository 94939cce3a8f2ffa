/* resident_block.cuh: a block of resident.cu, and of batch_resident.cuh, which closes its part of a
 * matrix together with the other blocks of its team. */
#ifndef GPUDIST_APSP_RESIDENT_BLOCK_CUH
#define GPUDIST_APSP_RESIDENT_BLOCK_CUH

#include <cuda_pipeline_primitives.h>

#include "apsp/resident_chain.cuh"
#include "arch/signals.cuh"

namespace gd {
namespace resident {

constexpr int kDown = 16, kAcross = 8;      /* blocks at most */
constexpr int kMostRows = 4, kMostCols = 8; /* tiles of a block */
constexpr int kMostTiles = kDown * kMostRows;
constexpr int kSlots = 4;  /* rounds whose panels are in device memory */
constexpr int kApart = 32; /* words between flags that different blocks wait for */
constexpr int kPad = 8;    /* rows two apart must not meet in a bank */

/* Counts by which blocks tell each other how far they are, all zero at first. */
struct alignas(16) Flags {
    unsigned cols[kDown * kApart], rows[kAcross * kApart]; /* rounds whose panels are there */
    unsigned tile[kMostTiles];  /* graphs for which a round's pivot tile is there */
    unsigned taken[kMostTiles]; /* blocks that have taken a round's panels */
    unsigned met, negative;     /* blocks that have read their part, and found a negative weight */
};

/* Pairs that come sealed, right behind the flags, and all zero at first as well: of columns, of
 * rows and, with predecessors, of rows' tags. */
template <typename T>
__host__ __device__ constexpr int sealed_panels(bool tagged)
{
    return 2 * kSealedPanels<T> + tagged;
}
template <typename T>
__host__ __device__ constexpr size_t sealed_pairs(bool tagged)
{
    return (size_t)(kSlots * sealed_panels<T>(tagged)) * kPanel;
}
template <typename T>
__host__ __device__ constexpr size_t zeroed_bytes(bool tagged)
{
    return sizeof(Flags) + sealed_pairs<T>(tagged) * sizeof(Sealed);
}

template <typename T>
struct Job {
    T *dist;
    int32_t *pred; /* with predecessors alone, like tags and pivots_before */
    ptrdiff_t padded;
    int tiles;                /* along the matrix's side */
    int log_down, log_across; /* of the grid's blocks: nobody waits for divisions */
    int most_rows, most_cols; /* tiles of a block */
    Pair<T> *cols, *rows;     /* panels: [slot][tile][pair][line] */
    Pair<int32_t> *tags;      /* of rows */
    T *pivots;                /* pivot tiles, one a round */
    int32_t *pivots_before;
    Sealed *sealed; /* panels at the next pivots: [slot][columns, rows, tags][pair][line] */
    Flags *flags;
    uint32_t *negative; /* for the host: a bit for each node, zeros at first */
};

__device__ __forceinline__ void await(const unsigned *at, unsigned least)
{
    while (load_acquire(at) < least) {
    }
}

/* ---------------------------------------------------------------- a block */

/* Which block of its team this is, and how many matrices of so many rounds the team has closed
 * before: flags are not set back. */
struct Place {
    int block, turn;
};

/* What a block holds of the matrix. */
template <typename T, bool kPred>
struct Part {
    __device__ __forceinline__ Part(const Job<T> &j, const Place &at, void *memory)
        : job(j),
          turn(at.turn),
          past(at.turn * j.tiles),
          row(at.block >> j.log_across),
          col(at.block & ((1 << j.log_across) - 1)),
          rows(tiles_of(j.tiles, row, j.log_down)),
          cols(tiles_of(j.tiles, col, j.log_across)),
          stride(j.most_cols * kSide + kPad),
          shared(*static_cast<Shared<T, kPred> *>(memory)),
          left(reinterpret_cast<Pair<T> *>(&shared + 1)),
          right(left + j.most_rows * kPanel),
          right_tags(reinterpret_cast<Pair<int32_t> *>(right + j.most_cols * kPanel)),
          matrix(reinterpret_cast<T *>(right_tags + (kPred ? j.most_cols * kPanel : 0))),
          before(reinterpret_cast<int32_t *>(matrix + j.most_rows * kSide * stride))
    {
    }

    static __device__ __forceinline__ int tiles_of(int tiles, int first, int log_step)
    {
        return ((tiles - first - 1) >> log_step) + 1;
    }

    const Job<T> &job;
    const int turn, past; /* matrices and rounds before this one */
    const int row, col;   /* of the grid: tiles row, row + down, ... */
    const int rows, cols; /* tiles */
    const int stride;
    Shared<T, kPred> &shared;
    Pair<T> *const left, *const right;
    Pair<int32_t> *const right_tags;
    T *const matrix;
    int32_t *const before; /* where paths come from; room for it is there with predecessors alone */
};

template <typename Ring, bool kPred, int kThreads>
class Resident : Part<typename Ring::Word, kPred> {
    using T = typename Ring::Word;
    using Base = Part<T, kPred>;
    static constexpr int kWarps = kThreads / 32, kOthers = kWarps - kClosers / 32;
    using Base::before;
    using Base::col;
    using Base::cols;
    using Base::job;
    using Base::left;
    using Base::matrix;
    using Base::past;
    using Base::right;
    using Base::right_tags;
    using Base::row;
    using Base::rows;
    using Base::shared;
    using Base::stride;
    using Base::turn;

public:
    explicit __device__ __forceinline__ Resident(const Base &part) : Base(part) {}

    /* Closes the part that is in shared memory, once all threads have seen it there. */
    __device__ __forceinline__ void close()
    {
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
    }

    /* Elements enter or leave. */
    template <bool kOut>
    __device__ __forceinline__ void move()
    {
        move_one<kOut>(job.dist, matrix);
        if constexpr (kPred) {
            move_one<kOut>(job.pred, before);
        }
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

private:
    template <bool kOut, typename U>
    __device__ __forceinline__ void move_one(U *all, U *part) const
    {
        constexpr int kEach = 16 / sizeof(U), kWords = kSide / kEach;
        for (int i = (int)threadIdx.x / 32; i < rows * kSide; i += kWarps) {
            const ptrdiff_t y = (ptrdiff_t)((i / kSide << job.log_down) + row) * kSide + i % kSide;
            for (int at = threadIdx.x % 32; at < cols * kWords; at += 32) {
                const int tile = (at / kWords << job.log_across) + col;
                U *const outside = all + y * job.padded + tile * kSide + at % kWords * kEach;
                U *const inside = part + i * stride + at * kEach;
                U word[kEach];
                gd::load_word(kOut ? inside : outside, word);
                gd::store_word(kOut ? outside : inside, word);
            }
        }
    }

    static __device__ __forceinline__ int in_grid(int tile, int log_step)
    {
        return tile & ((1 << log_step) - 1);
    }

    /* Two threads wait until the block's share of a round's panels is there. */
    __device__ __forceinline__ void await_share(int round, int thread)
    {
        if (thread == 0) {
            await(&job.flags->cols[row * kApart], seal_of(round));
        }
        if (thread == 32) {
            await(&job.flags->rows[col * kApart], seal_of(round));
        }
    }

    /* Fetches the next pivot tile, by the threads that do not close it. */
    __device__ __forceinline__ void fetch_tile(int next)
    {
        constexpr int kEach = 16 / sizeof(T);
        await(&job.flags->tile[next], (unsigned)turn + 1);
        for (int at = (threadIdx.x - kClosers) * kEach; at < kTile;
             at += (kThreads - kClosers) * kEach) {
            __pipeline_memcpy_async(shared.tile + at, job.pivots + (ptrdiff_t)next * kTile + at,
                                    16);
            if constexpr (kPred) {
                __pipeline_memcpy_async(shared.tile_before + at,
                                        job.pivots_before + (ptrdiff_t)next * kTile + at, 16);
            }
        }
        __pipeline_commit();
    }

    /* A tile of a panel, by this one of so many threads. */
    template <typename U>
    static __device__ __forceinline__ void fetch(Pair<U> *to, const Pair<U> *from, int thread,
                                                 int threads)
    {
        constexpr int kEach = 16 / sizeof(Pair<U>);
#pragma unroll 2
        for (int at = thread * kEach; at < kPanel; at += threads * kEach) {
            __pipeline_memcpy_async(to + at, from + at, 16);
        }
    }
    template <typename U>
    __device__ __forceinline__ Pair<U> *panel(Pair<U> *panels, int round, int tile) const
    {
        return panels + ((ptrdiff_t)((past + round) & (kSlots - 1)) * job.tiles + tile) * kPanel;
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
                const int tile = (j << job.log_across) + col;
                fetch(right + j * kPanel, panel(job.rows, round, tile), thread, threads);
                if constexpr (kPred) {
                    fetch(right_tags + j * kPanel, panel(job.tags, round, tile), thread, threads);
                }
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
            add_release(&job.flags->taken[(past + round) % kMostTiles]);
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
                        has_cols ? right + my_col * kPanel : shared.ahead[1],
                        tags_of_cols(has_cols, my_col));
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
            if (thread == 64 && past + next >= kSlots) { /* the panels' slot is free again */
                const unsigned before = (unsigned)(past + next - kSlots);
                await(&job.flags->taken[before % kMostTiles],
                      (before / kMostTiles + 1) << (job.log_down + job.log_across));
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
                add_release(&job.flags->taken[(past + round) % kMostTiles]);
            }
        }
    }

    /* The panels at the next pivots, by the threads that close their tile. */
    __device__ __forceinline__ void receive(int round, Pair<T> *cols_to, Pair<T> *rows_to,
                                            Pair<int32_t> *tags_to)
    {
        constexpr int kEach = kPanel / kClosers, kKind = kSealedPanels<T> * kEach;
        constexpr int kAll = sealed_panels<T>(kPred) * kEach;
        const Sealed *const from = sealed_panel(round, 0) + threadIdx.x;
        const unsigned seal = seal_of(round);
        Sealed x[kAll];
#pragma unroll
        for (int i = 0; i < kAll; ++i) {
            x[i] = look_at(from + i * kClosers);
        }
#pragma unroll
        for (int i = 0; i < kAll; ++i) {
            while (x[i].first >> 32 != seal || x[i].second >> 32 != seal) {
                x[i] = look_at(from + i * kClosers);
            }
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int at = i * kClosers + (int)threadIdx.x;
            open_pair(&x[i], kEach, cols_to + at);
            open_pair(&x[kKind + i], kEach, rows_to + at);
            if constexpr (kPred) {
                open_pair(&x[2 * kKind + i], kEach, tags_to + at);
            }
        }
        __syncwarp(); /* whole warps go on to the barriers */
    }
    /* Where the tags of rows at the next pivots' columns are. */
    __device__ __forceinline__ Pair<int32_t> *tags_of_cols(bool has_cols, int my_col)
    {
        if constexpr (kPred) {
            return has_cols ? right_tags + my_col * kPanel : shared.ahead_tags;
        }
        return NULL;
    }
    __device__ __forceinline__ Sealed *sealed_panel(int round, int of_rows) const
    {
        return job.sealed + (((past + round) & (kSlots - 1)) * sealed_panels<T>(kPred) +
                             of_rows * kSealedPanels<T>)*kPanel;
    }

    __device__ __forceinline__ bool owns(int pivots) const
    {
        return in_grid(pivots, job.log_down) == row && in_grid(pivots, job.log_across) == col;
    }
    __device__ __forceinline__ int offset_of(int i, int j) const
    {
        return i * kSide * stride + j * kSide;
    }
    __device__ __forceinline__ T *tile_at(int i, int j) const { return matrix + offset_of(i, j); }

    /* Brings a tile up to date. */
    __device__ __forceinline__ void relax_one(int i, int j)
    {
        if constexpr (kPred) {
            relax_tagged<Ring>(tile_at(i, j), before + offset_of(i, j), stride, left + i * kPanel,
                               right + j * kPanel, right_tags + j * kPanel);
        }
        else {
            relax<Ring, 8, 4>(tile_at(i, j), stride, left + i * kPanel, right + j * kPanel);
        }
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
            close_tile<Ring, kPred>(round >= 0, legs_of_rows, legs_of_cols,
                                    tags_of_cols(has_cols, my_col), shared);
        }
        /* Where the others have more than a tile each, those who closed it take a part, as soon as
         * the others have what that takes. */
        if (tiles > kOthers) {
            if (threadIdx.x < kClosers) {
                gd::sync_part<kShareThere, kThreads>();
            }
            else {
                gd::arrive_part<kShareThere, kThreads>();
            }
        }
        const int mine = (warp + kOthers) % kWarps;
#pragma unroll 1
        for (int at = mine; round >= 0 && at < tiles; at += kWarps) {
            const int tile = find(at, &of_rows);
            const int i = of_rows ? my_row : tile, j = of_rows ? tile : my_col;
            relax_one(i, j);
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
            Sealed *const sealed = place == next + 1 ? sealed_panel(next, of_rows) + line : NULL;
            if constexpr (kPred) {
                if (of_rows) {
                    const ptrdiff_t at = offset_of(my_row, tile) + line;
                    close_tagged_line<Ring>(matrix + at, before + at, stride, shared.closed[0],
                                            panel(job.rows, next, place) + line,
                                            panel(job.tags, next, place) + line, sealed,
                                            seal_of(next));
                    continue;
                }
            }
            close_line<Ring>(
                of_rows ? tile_at(my_row, tile) + line : tile_at(tile, my_col) + line * stride,
                stride, of_rows, shared.closed[of_rows ? 0 : 1],
                panel(of_rows ? job.rows : job.cols, next, place) + line, sealed, seal_of(next));
        }
        __syncthreads();
        if (threadIdx.x == 0) { /* one release: each waits for all that the block has written */
            if (has_rows) {
                store_release(&job.flags->rows[col * kApart], seal_of(next));
            }
            if (has_cols) {
                store_release(&job.flags->cols[row * kApart], seal_of(next));
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
            if constexpr (kPred) {
                int32_t from[kEach];
                gd::load_word(shared.tile_before + at, from);
                gd::store_word(
                    before + offset_of(my_row, my_col) + at / kSide * stride + at % kSide, from);
            }
        }
        for (int at = threadIdx.x; at < kPanel; at += kClosers) {
            to_cols[at] = shared.closed[0][at];
            to_rows[at] = {shared.closed[1][at].second, shared.closed[1][at].first};
            if constexpr (kPred) {
                panel(job.tags, next, next)[at] = shared.closed_tags[at];
            }
        }
    }

    /* All tiles but those of the next pivots. The one after next goes first, and to all. */
    __device__ __forceinline__ void rest(int round, int skip_row, int skip_col)
    {
        const int after = round + 2;
        const bool owns_after = after < job.tiles && owns(after);
        const bool skips = skip_row >= 0 || skip_col >= 0;
        /* Two minima apiece leave no registers for that. */
        constexpr bool kMayBeWide = !kPred && sizeof(T) == 4;
        constexpr bool kMayBeHigh =
            kMayBeWide && kThreads <= 256 && !std::is_same<Ring, gd::Plus<float>>::value;
        const bool high = kMayBeHigh && rows == kMostRows && cols == kMostCols && !skips;
        const bool wide = high || (kMayBeWide && rows * cols >= 2 * kWarps && cols % 2 == 0);
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
                if constexpr (kMayBeWide) {
                    relax<Ring, 8, 8>(tile_at(i, j), stride, from_left, from_right);
                }
            }
            else if (i != skip_row) {
                for (int e = 0; e < width; ++e) {
                    if (j + e != skip_col) {
                        relax_one(i, j + e);
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
            if constexpr (kPred) {
                int32_t from[kEach];
                gd::load_word(before + (tile - matrix) + at / kSide * stride + at % kSide, from);
                gd::store_word(job.pivots_before + (ptrdiff_t)round * kTile + at, from);
            }
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            store_release(&job.flags->tile[round], (unsigned)turn + 1);
        }
    }

    /* How many rounds there are with this one. */
    __device__ __forceinline__ unsigned seal_of(int round) const
    {
        return (unsigned)(past + round) + 1;
    }
};

/* A block's shared memory. */
template <typename T>
size_t shared_bytes(int rows, int cols, bool tagged)
{
    const size_t matrix = (size_t)(rows * kSide) * (size_t)(cols * kSide + kPad);
    const size_t own = (2 * kPanel * (size_t)(rows + cols) + matrix) * sizeof(T);
    const size_t tags = (2 * kPanel * (size_t)cols + matrix) * sizeof(int32_t);
    return own + (tagged ? sizeof(Shared<T, true>) + tags : sizeof(Shared<T, false>));
}

/* Where things of a team are in the workspace; returns how large that is. */
template <typename T>
__host__ __device__ size_t lay_out(Job<T> &job, void *workspace, bool tagged)
{
    const size_t pairs = (size_t)kSlots * (size_t)job.tiles * kPanel;
    const size_t tiles = (size_t)job.tiles * kTile;
    job.flags = static_cast<Flags *>(workspace);
    job.sealed = reinterpret_cast<Sealed *>(job.flags + 1);
    job.cols = reinterpret_cast<Pair<T> *>(job.sealed + sealed_pairs<T>(tagged));
    job.rows = job.cols + pairs;
    job.pivots = reinterpret_cast<T *>(job.rows + pairs);
    job.tags = reinterpret_cast<Pair<int32_t> *>(job.pivots + tiles);
    job.pivots_before = reinterpret_cast<int32_t *>(job.tags + pairs);
    return zeroed_bytes<T>(tagged) + (4 * pairs + tiles) * sizeof(T) +
           (tagged ? (2 * pairs + tiles) * sizeof(int32_t) : 0);
}

}  // namespace resident
}  // namespace gd
#endif
