/* resident_block.cuh: a block of resident.cu, and of batch_teams.cuh, which closes its part of a
 * matrix together with the other blocks of its team. */
#ifndef GPUDIST_APSP_RESIDENT_BLOCK_CUH
#define GPUDIST_APSP_RESIDENT_BLOCK_CUH

#include <type_traits>

#include "apsp/resident_chain.cuh"
#include "arch/signals.cuh"

namespace gd {
namespace resident {

constexpr int kDown = 16, kAcross = 8;      /* blocks at most */
constexpr int kMostRows = 4, kMostCols = 8; /* tiles of a block */
constexpr int kMostTiles = kDown * kMostRows;
constexpr int kSlots = 4; /* rounds whose panels are in device memory */
constexpr int kPad = 8;   /* rows two apart must not meet in a bank */

/* Counts by which blocks tell each other how far they are, all zero at first. */
struct alignas(16) Flags {
    unsigned taken[kMostTiles]; /* blocks that have taken a round's panels */
    unsigned met, negative;     /* blocks that have read their part, and found a negative weight */
};

/* What lies behind the flags comes sealed, and is all zero at first as well. */
template <typename T>
struct Job {
    T *dist;
    int32_t *pred; /* with predecessors alone, like tags */
    ptrdiff_t padded;
    int tiles;                /* along the matrix's side */
    int log_down, log_across; /* of the grid's blocks: nobody waits for divisions */
    int most_rows, most_cols; /* tiles of a block */
    Sealed *cols, *rows;      /* panels: [slot][tile][pair][line] */
    Sealed *tags;             /* of rows */
    Sealed *pivots;           /* pivot tiles, one a round, in pairs of neighbours */
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
          shared(*static_cast<Shared<T> *>(memory)),
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
    Shared<T> &shared;
    Pair<T> *const left, *const right;
    Pair<int32_t> *const right_tags;
    T *const matrix;
    int32_t *const before; /* where paths come from; room for it is there with predecessors alone */
};

/* kHigh: may join 2 x 2 tiles at once, which takes all registers that a thread has. kTagsApart: the
 * tags of lines are closed by other warps than their lengths where there are enough. */
template <typename Ring, bool kPred, int kThreads, bool kHigh = false, bool kTagsApart = false>
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
                hand_on(round, has_rows, has_cols);
            }
            else if (round >= 0) {
                take(round);
            }
            if (round >= 0) {
                rest(round, has_rows ? (next >> job.log_down) : -1,
                     has_cols ? (next >> job.log_across) : -1);
            }
            if (threadIdx.x == kThreads - 1 && next + 1 < job.tiles) {
                await_slot(next + 1);
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

    /* Where a panel is on its way. */
    template <typename U>
    __device__ __forceinline__ Sealed *panel(Sealed *panels, int round, int tile) const
    {
        return panels + ((ptrdiff_t)((past + round) & (kSlots - 1)) * job.tiles + tile) *
                            (kSealedPanels<U> * kPanel);
    }

    /* How many of these threads take panels: as many as divide one. */
    static __device__ constexpr int takers(int threads) { return threads < 256 ? 128 : 256; }

    /* Takes panels of one kind, as they come, by whole warps of which this is one thread of kMany
     * or more: those of tiles first, first + 1 << log_step, ..., but for one that is there already.
     */
    template <int kMany, typename U>
    __device__ __forceinline__ void take_panels(Pair<U> *to, Sealed *panels, int round, int count,
                                                int there, int first, int log_step,
                                                int thread) const
    {
        constexpr int kMost = kThreads > 256 ? 4 : 8; /* words, for which there are registers */
        constexpr int kParts = kSealedPanels<U>, kEach = kPanel / kMany,
                      kAtOnce = kMost / kEach / kParts;
        constexpr int kAll = kAtOnce * kParts * kEach;
        static_assert(kEach * kMany == kPanel && kAtOnce > 0, "all threads take as many pairs");
        const Sealed *const from = panel<U>(panels, round, first) + thread;
        const int all = count - (there >= 0);
        const unsigned seal = seal_of(round);
        if (thread >= kMany) {
            return;
        }
#pragma unroll 1
        for (int begin = 0; begin < all; begin += kAtOnce) {
            const auto tile = [&](int i) {
                const int at = begin + i / (kParts * kEach);
                return at + (there >= 0 && at >= there);
            };
            const auto is_one = [&](int i) { return begin + i / (kParts * kEach) < all; };
            Sealed x[kAll];
            bool come;
            do {
                come = true;
#pragma unroll
                for (int i = 0; i < kAll; ++i) {
                    if (is_one(i)) {
                        x[i] = look_at(from + (tile(i) << log_step) * (kParts * kPanel) +
                                       i % (kParts * kEach) * kMany);
                    }
                }
#pragma unroll
                for (int i = 0; i < kAll; ++i) {
                    come &= !is_one(i) || is_sealed(x[i], seal);
                }
            } while (!come);
#pragma unroll
            for (int i = 0; i < kAll; i += kParts * kEach) {
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    if (is_one(i)) {
                        open_pair(&x[i + e], kEach, to + tile(i) * kPanel + e * kMany + thread);
                    }
                }
            }
        }
        __syncwarp();
    }
    /* This block's share of a round's panels, but for tiles that are there already. */
    template <int kMany>
    __device__ __forceinline__ void take_share(int round, int thread, int row_there,
                                               int col_there) const
    {
        take_panels<kMany, T>(left, job.cols, round, rows, row_there, row, job.log_down, thread);
        take_panels<kMany, T>(right, job.rows, round, cols, col_there, col, job.log_across, thread);
        if constexpr (kPred) {
            take_panels<kMany, int32_t>(right_tags, job.tags, round, cols, -1, col, job.log_across,
                                        thread);
        }
    }
    /* The panels have been taken by all threads of the block. */
    __device__ __forceinline__ void tell_taken(int round) const
    {
        if (threadIdx.x == kThreads - 1) {
            add_release(&job.flags->taken[(past + round) % kMostTiles]);
        }
    }
    /* Waits until the slot of a round's panels is free. */
    __device__ __forceinline__ void await_slot(int round) const
    {
        if (past + round >= kSlots) {
            const unsigned before = (unsigned)(past + round - kSlots);
            await(&job.flags->taken[before % kMostTiles], (before / kMostTiles + 1)
                                                              << (job.log_down + job.log_across));
        }
    }

    /* A block that does not close the next pivots takes its share, */
    __device__ __forceinline__ void take(int round)
    {
        take_share<takers(kThreads)>(round, threadIdx.x, -1, -1);
        __syncthreads();
        __syncthreads(); /* not needed, but a checker of races reports panels without (NOTES.md) */
        tell_taken(round);
    }

    /* and who does closes the next pivot tile with what that needs, by half of the warps or less,
     * as soon as it is there. */
    __device__ __forceinline__ void close_next(int round, Pair<T> *cols_to, Pair<T> *rows_to)
    {
        constexpr int kParts = kSealedPanels<T>;
        static_assert(kRuns * kClosers == kPanel, "a pair of each run for a thread");
        const int next = round + 1, thread = threadIdx.x;
        const Sealed *const from_cols = panel<T>(job.cols, round, next) + thread;
        const Sealed *const from_rows = panel<T>(job.rows, round, next) + thread;
        const unsigned seal = seal_of(round);
        Sealed x[2 * kParts];
        const auto look = [&](int run) {
#pragma unroll
            for (int i = 0; i < 2 * kParts; ++i) {
                x[i] = look_at((i < kParts ? from_cols : from_rows) + i % kParts * kPanel +
                               run * kClosers);
            }
        };
        const auto are_there = [&] {
            bool there = true;
#pragma unroll
            for (int i = 0; i < 2 * kParts; ++i) {
                there &= is_sealed(x[i], seal);
            }
            return there;
        };
        if (round >= 0) {
            look(0);
        }
        close_tile<Ring, kThreads>(round >= 0, cols_to, rows_to, shared, [&](int run) {
            if (run == 0) {
                take_tile(next);
            }
            if (round >= 0) {
                while (!are_there()) {
                    look(run);
                }
                __syncwarp(); /* whole warps go on to the barriers */
                open_pair(&x[0], 1, cols_to + run * kClosers + thread);
                open_pair(&x[kParts], 1, rows_to + run * kClosers + thread);
                if (run + 1 < kRuns) {
                    look(run + 1); /* which comes while this run's are joined */
                }
            }
            gd::sync_part<kClosersMeet, kClosers>();
            if (round >= 0 && run + 1 == kRuns) { /* the others wait for them at their own tiles */
                gd::arrive_part<kPanelsThere, kThreads>();
            }
        });
    }
    /* The next pivot tile as its owner left it, a round old. */
    __device__ __forceinline__ void take_tile(int next)
    {
        constexpr int kParts = kSealedPanels<T>, kTwos = kSide / 2;
        const Sealed *const from = job.pivots + (ptrdiff_t)next * (kParts * kPanel) + threadIdx.x;
        const unsigned seal = seal_of(next);
        Sealed x[kParts * kRuns];
#pragma unroll
        for (int i = 0; i < kParts * kRuns; ++i) {
            x[i] = look_at(from + i * kClosers);
        }
#pragma unroll
        for (int i = 0; i < kParts * kRuns; ++i) {
            while (!is_sealed(x[i], seal)) {
                x[i] = look_at(from + i * kClosers);
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kRuns; ++i) {
            const int at = i * kClosers + (int)threadIdx.x;
            Pair<T> two;
            open_pair(&x[i], kRuns, &two);
            const T both[2] = {two.first, two.second};
            gd::store_two(shared.tile + at / kTwos * Shared<T>::kPitch + at % kTwos * 2, both);
        }
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

    /* Brings a tile up to date, or a half or a quarter of its rows, from row `first` on. */
    template <int kRows = 8>
    __device__ __forceinline__ void relax_one(int i, int j, int first = 0)
    {
        const ptrdiff_t at = offset_of(i, j) + first * stride;
        const Pair<T> *const from_left = left + i * kPanel + first;
        if constexpr (kPred && kTagsApart) { /* graphs of which a warp has a part of a tile */
            relax_marked<Ring, kRows>(matrix + at, before + at, stride, from_left,
                                      right + j * kPanel, right_tags + j * kPanel);
        }
        else if constexpr (kPred) {
            relax_tagged<Ring, kRows>(matrix + at, before + at, stride, from_left,
                                      right + j * kPanel, right_tags + j * kPanel);
        }
        else {
            relax<Ring, kRows, 4>(matrix + at, stride, from_left, right + j * kPanel);
        }
    }

    /* Closes the next pivots' tile and this block's part of their rows and columns, the tile itself
     * among them if it is this block's: it is a part of either. Some warps close the tile, while
     * the others bring that part up to date, and then follow with its lines. */
    __device__ __forceinline__ void hand_on(int round, bool has_rows, bool has_cols)
    {
        const int next = round + 1, warp = threadIdx.x / 32;
        const int my_row = next >> job.log_down, my_col = next >> job.log_across;
        const bool has_both = has_rows && has_cols;
        /* Who brings the pivot tile up to date, as one of the rows, closes its columns too. */
        const int row_tiles = has_rows ? cols : 0;
        const int tiles = row_tiles + (has_cols ? rows - has_both : 0);
        const auto row_of_col = [&](int at) {
            return at - row_tiles + (has_both && at - row_tiles >= my_row);
        };
        const auto bring_up_to_date = [&](auto rows_of_it, int at, int part) {
            constexpr int kRows = decltype(rows_of_it)::value;
            const bool of_rows = at < row_tiles;
            relax_one<kRows>(of_rows ? my_row : row_of_col(at), of_rows ? at : my_col,
                             part * kRows * 4);
        };
        const auto close_lines = [&](bool of_rows, int tile, bool follows, bool lengths,
                                     bool tags) {
            const int line = threadIdx.x % 32;
            const int place =
                of_rows ? (tile << job.log_across) + col : (tile << job.log_down) + row;
            if constexpr (kPred) {
                if (of_rows && tags) {
                    const ptrdiff_t from = offset_of(my_row, tile) + line;
                    close_tagged_line<Ring, kThreads>(
                        matrix + from, before + from, stride, shared.closed[0],
                        lengths ? panel<T>(job.rows, next, place) + line : NULL,
                        panel<int32_t>(job.tags, next, place) + line, seal_of(next), follows);
                    return;
                }
            }
            close_line<Ring, kThreads>(
                of_rows ? tile_at(my_row, tile) + line : tile_at(tile, my_col) + line * stride,
                stride, of_rows, shared.closed[of_rows ? 0 : 1],
                panel<T>(of_rows ? job.rows : job.cols, next, place) + line, seal_of(next),
                follows);
        };
        const int other = warp - kClosers / 32;
        /* Few tiles the others share; of many, those who closed the pivot tile take a part. */
        const bool shares = tiles <= kOthers / 2;
        if (other < 0) {
            close_next(round, has_rows ? left + my_row * kPanel : shared.ahead[0],
                       has_cols ? right + my_col * kPanel : shared.ahead[1]);
        }
        else if (round >= 0) {
            take_share<takers(kThreads - kClosers)>(round, (int)threadIdx.x - kClosers,
                                                    has_rows ? my_row : -1, has_cols ? my_col : -1);
            gd::sync_part<kPanelsThere, kThreads>();
        }
        if (shares && other >= 0) {
            if (round >= 0) {
                share_out(tiles, other, bring_up_to_date);
            }
            gd::sync_part<kOthersMeet, kThreads - kClosers>();
        }
        if (tiles > kOthers) {
            if (other < 0) {
                gd::sync_part<kShareThere, kThreads>();
            }
            else {
                gd::arrive_part<kShareThere, kThreads>();
            }
        }
        bool follows = other >= 0;
        /* The next chain waits for lengths, which take half the time of tags. So who has no line
         * closes the tags of another one's. */
        const bool apart = kTagsApart && shares;
#pragma unroll 1
        for (int at = (warp + kOthers) % kWarps; at < tiles || follows; at += kWarps) {
            if (apart && at >= tiles && at - tiles < row_tiles) {
                close_lines(true, at - tiles, true, false, true);
            }
            else if (at < tiles) {
                if (round >= 0 && !shares) {
                    bring_up_to_date(std::integral_constant<int, 8>(), at, 0);
                    __syncwarp();
                }
                bool of_rows = at < row_tiles;
                int tile = of_rows ? at : row_of_col(at), turns = has_both && at == my_col ? 2 : 1;
#pragma unroll 1
                for (; turns > 0; --turns) {
                    close_lines(of_rows, tile, follows, true, !apart);
                    of_rows = false;
                    tile = my_row;
                    follows = false;
                }
            }
            else {
                for (int run = 0; run < kRuns; ++run) {
                    gd::sync_part<kRunClosed, kThreads>(run);
                }
            }
            follows = false;
        }
        __syncthreads();
        if (round >= 0) {
            tell_taken(round);
        }
    }
    /* Few tiles are shared out among those who do not close the pivot tile. */
    template <typename Bring>
    static __device__ __forceinline__ void share_out(int tiles, int other, Bring &&bring)
    {
        if (tiles <= kOthers / 4) {
            if (other < 4 * tiles) {
                bring(std::integral_constant<int, 2>(), other / 4, other % 4);
            }
        }
        else if (other < 2 * tiles) {
            bring(std::integral_constant<int, 4>(), other / 2, other % 2);
        }
    }

    /* All tiles but those of the next pivots. The one after next goes first, and to all. */
    __device__ __forceinline__ void rest(int round, int skip_row, int skip_col)
    {
        const int after = round + 2;
        const bool owns_after = after < job.tiles && owns(after);
        const bool skips = skip_row >= 0 || skip_col >= 0;
        if (splits()) {
            rest_of_few(skip_row, skip_col);
            __syncthreads();
            if (owns_after && threadIdx.x >= kThreads - 32) {
                publish(after);
            }
            return;
        }
        /* Two minima apiece leave no registers for that. */
        constexpr bool kMayBeWide = !kPred && sizeof(T) == 4;
        constexpr bool kMayBeHigh =
            kHigh && kMayBeWide && !std::is_same<Ring, gd::Plus<float>>::value;
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

    /* Whether the tiles are so few that a warp has a half or a quarter of one. */
    __device__ __forceinline__ bool splits() const { return rows * cols * 2 <= kWarps; }
    __device__ __forceinline__ void rest_of_few(int skip_row, int skip_col)
    {
        const int warp = threadIdx.x / 32;
        const bool quarters = rows * cols * 4 <= kWarps;
        const int tile = warp >> (quarters ? 2 : 1), i = tile / cols, j = tile % cols;
        if (i >= rows || i == skip_row || j == skip_col) {
            return;
        }
        if (quarters) {
            relax_one<2>(i, j, warp % 4 * 8);
        }
        else {
            relax_one<4>(i, j, warp % 2 * 16);
        }
    }

    /* A warp's work. */
    __device__ __forceinline__ void publish(int round)
    {
        const T *const tile = tile_at(round >> job.log_down, round >> job.log_across);
        Sealed *const to = job.pivots + (ptrdiff_t)round * (kSealedPanels<T> * kPanel);
        __syncwarp();
#pragma unroll 4
        for (int at = threadIdx.x % 32; at < kPanel; at += 32) {
            T two[2];
            gd::load_two(tile + at / (kSide / 2) * stride + at % (kSide / 2) * 2, two);
            send(to + at, Pair<T>{two[0], two[1]}, seal_of(round));
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
    return sizeof(Shared<T>) + own + (tagged ? tags : 0);
}

/* Where things of a team are in the workspace, which is all zero at first; returns how large that
 * is. */
template <typename T>
__host__ __device__ size_t lay_out(Job<T> &job, void *workspace, bool tagged)
{
    const size_t tile = (size_t)kPanel * sizeof(Sealed), all = (size_t)job.tiles * tile;
    char *at = static_cast<char *>(workspace);
    const auto next = [&](size_t bytes) {
        char *const here = at;
        at += bytes;
        return here;
    };
    job.flags = reinterpret_cast<Flags *>(next(sizeof(Flags)));
    job.cols = reinterpret_cast<Sealed *>(next(kSlots * kSealedPanels<T> * all));
    job.rows = reinterpret_cast<Sealed *>(next(kSlots * kSealedPanels<T> * all));
    job.pivots = reinterpret_cast<Sealed *>(next(kSealedPanels<T> * all));
    job.tags = reinterpret_cast<Sealed *>(next(tagged ? kSlots * all : 0));
    return (size_t)(at - static_cast<char *>(workspace));
}

/* The bytes behind the flags become zero, by so many threads of the team. */
template <typename T>
__device__ __forceinline__ void clear(const Job<T> &job, bool tagged, unsigned thread,
                                      unsigned threads)
{
    Job<T> same = job;
    const size_t words = (lay_out(same, job.flags, tagged) - sizeof(Flags)) / sizeof(Sealed);
    for (size_t at = thread; at < words; at += threads) {
        job.cols[at] = {};
    }
}

}  // namespace resident
}  // namespace gd
#endif
