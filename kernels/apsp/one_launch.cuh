/* one_launch.cuh: many rounds of blocked Floyd-Warshall in one launch, where no phase waits for the
 * end of another.
 *
 * Idea: a task is the work of one block: a tile to relax, a strip to close, the next pivot tile to
 * relax and close. The blocks take the launch's tasks in a fixed order, and each waits for the few
 * tiles that its own task reads. A round's tiles fill the device for longer than its chain takes,
 * that of the next lines, the pivot tile and the strips; so the next round's chain stands among
 * them, each link so far behind the one before that it hardly waits. No wave of blocks ends but the
 * last one of the launch.
 *
 * A symmetric matrix has half of the tasks: the tiles on and above its diagonal, and for each line
 * one strip, which makes both panels.
 *
 * Few tiles: with 64 pivots a round and some hundred tiles the chain binds. The next pivot tile is
 * relaxed and closed by one block without leaving its registers, and the blocks beside it on the
 * multiprocessor put off tiles of that round until it is closed: those compete with it for issue
 * slots, and nobody waits for them.
 *
 * Progress: a block waits for tasks that come before its own alone, and draws its task when it
 * starts. So those run already, and a launch ends however few blocks a device holds at once.
 *
 * Cost: phase3.cuh and pivot_phases.cuh. A block takes 3000 clocks of its 63 000 to learn what to
 * do and that it may; the other one of the multiprocessor computes meanwhile.
 *
 * Launch: a block of 128 threads a task, as phase 3 has them. A multiprocessor has two for tiles of
 * 128 x 128. For tiles of 64 x 64 it has four, and three in float64 or with predecessors. float64
 * spills 56 bytes, outside of what is done for each pivot's tiles: in a strip, once a turn.
 *
 * Reached on an H200, directed: n = 4096 4.52 ms in float32 and 4.23 in int32, where blocked.cu's
 * streams take 5.06 and 4.84; n = 4600 6.30 where they take 6.82. From 5000 nodes on, where the
 * streams' halves fill the device, they are 2 % quicker. Whole calls of undirected graphs in
 * float32, with 64 pivots: n = 2048 0.70 ms, 3000 1.38, 4096 2.8, where streams take 4.13. A
 * closing block gets a quarter of the clocks beside one that relaxes: the pivot tile takes 60 us, a
 * strip 32. With predecessors, on an H100, n = 1536 1.07 ms, 2048 1.50 and 3072 4.37, where a
 * launch for each phase takes 1.22, 1.88 and 4.85. */
#ifndef GPUDIST_APSP_ONE_LAUNCH_CUH
#define GPUDIST_APSP_ONE_LAUNCH_CUH

#include "arch/signals.cuh"
#include "apsp/phase3.cuh"

namespace gd {

/* Divides by a number that is known before the launch, in a few instructions: a block's start waits
 * for each of them. */
struct Divider {
    unsigned by, inverse;

    Divider() = default;
    explicit Divider(unsigned x) : by(x), inverse((unsigned)(((uint64_t)1 << 32) / x)) {}
    __device__ __forceinline__ unsigned divide(unsigned n, unsigned &rest) const
    {
        unsigned quotient = __umulhi(n, inverse); /* or one less */
        rest = n - quotient * by;
        if (rest >= by) {
            ++quotient;
            rest -= by;
        }
        return quotient;
    }
};

/* Counts by which blocks tell each other how far they are, all zero at first. */
struct OneLaunchFlags {
    unsigned *drawn;   /* tasks */
    unsigned *closers; /* of each round: where its next pivot tile is being closed, see spares */
    unsigned *relaxed; /* of each round: tiles that are done with its panels */
    unsigned *done;    /* of each tile: what its tasks have added, a tile's strips a round */

    static constexpr size_t count(size_t tiles) { return 1 + 2 * tiles + tiles * tiles; }
    OneLaunchFlags() = default;
    OneLaunchFlags(unsigned *all, size_t tiles)
        : drawn(all), closers(drawn + 1), relaxed(closers + tiles), done(relaxed + tiles)
    {
    }
};

template <typename Ring>
struct OneLaunch {
    Paths<Ring> paths[2]; /* with the panels of even and of odd rounds */
    OneLaunchFlags flags;
    unsigned tiles;   /* along a side of the matrix */
    unsigned relaxes; /* tiles a round */
    bool symmetric;   /* only the tiles on and above the diagonal */
    bool spares;      /* tiles wait while the next pivot tile is closed on their multiprocessor */
    unsigned first, end;                /* rounds */
    unsigned lines_after, strips_after; /* of a round's other tiles, so many go before these */
    Divider round;                      /* by its tasks */
    Divider group[2]; /* by its tiles that go together, and by those of the last round */
};

__device__ __forceinline__ void await_count(const unsigned *at, unsigned least)
{
    while (load_acquire(at) < least) {
        __nanosleep(100);
    }
}

template <typename Ring, int kPivots, bool kPred>
class OneLaunchTask {
    using Panels = Whole<Ring, kPivots>;
    using Work = Relaxing<Ring, kPivots, kPred, Panels>;
    static constexpr unsigned kStrips = 2; /* of a tile */
    static constexpr int kWide = kPivots / (int)kStrips;

public:
    static constexpr int kThreads = Work::Tile::kThreads;

private:
    using Tile = PivotTile<Ring, kPivots, kThreads, kPred, Panels>;
    using OfRows = Strip<Ring, kPivots, kPivots, kWide, kThreads, true, false, kPred, Panels>;
    using OfCols = Strip<Ring, kPivots, kWide, kPivots, kThreads, false, true, kPred, Panels>;
    static_assert(Work::kParts == 1, "a block relaxes a whole tile");
    /* Threads hold the same of a tile while it is relaxed and while it is closed. Predecessors are
     * in memory alone while it is relaxed. */
    static constexpr bool kKeeps = !kPred && (int)Tile::Tile::kRun == (int)Work::Tile::kRun &&
                                   (int)Tile::kM == (int)Work::Tile::kRows &&
                                   (int)Tile::kN == (int)Work::Tile::kCols;
    union Lines {
        typename Tile::Lines of_tile;
        typename OfRows::Lines of_rows;
        typename OfCols::Lines of_cols;
    };

public:
    static constexpr size_t kSharedBytes =
        sizeof(Lines) > Work::kSharedBytes ? sizeof(Lines) : Work::kSharedBytes;

    /* A launch begins with its first round's pivot tile and strips. Then each round relaxes its
     * tiles and closes the strips of the next, but for the last one. */
    static ptrdiff_t tasks(const OneLaunch<Ring> &launch)
    {
        return 1 + (ptrdiff_t)(launch.end - launch.first) * launch.round.by;
    }

    /* Of a matrix of so many tiles. The chain's links stand as far apart as they take on a device
     * that holds so many blocks. Where a round's tiles are hardly more, they wait for the chain. */
    static void plan(OneLaunch<Ring> &launch, unsigned *flags, unsigned tiles, unsigned blocks)
    {
        launch.flags = OneLaunchFlags(flags, tiles);
        launch.tiles = tiles;
        launch.symmetric = launch.paths[0].symmetric;
        const unsigned others = tiles_in(tiles - 2, launch.symmetric);
        launch.lines_after = min(blocks / 2, others);
        launch.strips_after = min(blocks * 5 / 2, others);
        launch.relaxes = tiles_in(tiles - 1, launch.symmetric);
        launch.spares = launch.relaxes < 2 * blocks;
        launch.round = Divider(launch.relaxes + strips(tiles, launch.symmetric));
        launch.group[0] = Divider(tiles_together(tiles - 2, launch.symmetric));
        launch.group[1] = Divider(tiles_together(tiles - 1, launch.symmetric));
    }

    __device__ __forceinline__ OneLaunchTask(const OneLaunch<Ring> &f, unsigned number,
                                             void *shared)
        : launch(f), task(number), memory(shared), lines(static_cast<Lines *>(shared))
    {
    }

    __device__ __forceinline__ void run() const
    {
        const unsigned across = strips(launch.tiles, launch.symmetric);
        unsigned i = launch.first, j = launch.first, before = 0, strip = across;
        bool closes = true;
        /* Task 0 closes the first pivot tile, which has no round before it. */
        if (task > 0 && task <= across) {
            strip = task - 1;
        }
        else if (task > across) {
            unsigned place;
            before = launch.round.divide(task - 1 - across, place);
            strip = find(launch.first + before + 1, place, across, closes, i, j);
        }
        if (strip < across) {
            close_strip(i, strip);
            return;
        }
        typename Work::T c[Work::Tile::kRows][Work::Tile::kCols];
        if (task > 0) {
            relax(i, j, before, closes, c);
        }
        if (closes) {
            close_tile(i, before, c);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            add_relaxed(done(i, j), closes && task > 0 ? 2 * kStrips : kStrips);
            if (task > 0) {
                add_relaxed(launch.flags.relaxed + before, 1);
            }
        }
    }

private:
    struct Wanted {
        const unsigned *at;
        unsigned least;
    };

    static __host__ __device__ constexpr unsigned strips(unsigned tiles, bool symmetric)
    {
        return (symmetric ? 1 : 2) * kStrips * (tiles - 1);
    }
    /* Tiles in so many rows and columns. */
    static constexpr unsigned tiles_in(unsigned side, bool symmetric)
    {
        return symmetric ? side * (side + 1) / 2 : side * side;
    }
    static constexpr unsigned tiles_together(unsigned side, bool symmetric)
    {
        return symmetric ? (side + 1) / 2 : kTileGroup * side;
    }

    __device__ __forceinline__ unsigned *done(unsigned i, unsigned j) const
    {
        keep_above(i, j);
        return launch.flags.done + i * launch.tiles + j;
    }
    /* The tile that stands for tile (i, j). */
    __device__ __forceinline__ void keep_above(unsigned &i, unsigned &j) const
    {
        const bool below = launch.symmetric && i > j;
        const unsigned row = i;
        i = below ? j : i;
        j = below ? row : j;
    }
    __device__ __forceinline__ unsigned wrapped(unsigned line) const
    {
        return line < launch.tiles ? line : line - launch.tiles;
    }
    /* What stands at this place of the round before `next`: a strip of that, whose number is
     * returned, or a tile. */
    __device__ __forceinline__ unsigned find(unsigned next, unsigned place, unsigned across,
                                             bool &closes, unsigned &i, unsigned &j) const
    {
        const unsigned lines_of_next = (launch.symmetric ? 1 : 2) * (launch.tiles - 2);
        const unsigned line = place - 1 - launch.lines_after;
        const unsigned strip = place - 1 - launch.strips_after - lines_of_next;
        closes = next != launch.end && place == 0;
        i = j = next;
        if (next == launch.end) {
            other_tile(place, launch.tiles - 1, launch.group[1], next, i, j);
        }
        else if (!closes && line < lines_of_next) {
            const unsigned other = wrapped(next + 1 + (launch.symmetric ? line : line / 2));
            (launch.symmetric || line % 2 == 0 ? j : i) = other;
        }
        else if (!closes && strip < across) {
            return strip;
        }
        else if (!closes) {
            place -= 1 + (place > launch.lines_after ? lines_of_next : 0) +
                     (place > launch.strips_after + lines_of_next ? across : 0);
            other_tile(place, launch.tiles - 2, launch.group[0], next + 1, i, j);
        }
        keep_above(i, j);
        return across;
    }
    /* The tile of that number among those in `side` rows and columns from `start` on, round the
     * end of the matrix: the next round's lines come first. Of a symmetric matrix a row has the
     * tiles up to half way round. */
    __device__ __forceinline__ void other_tile(unsigned number, unsigned side, const Divider &by,
                                               unsigned start, unsigned &i, unsigned &j) const
    {
        unsigned place;
        if (launch.symmetric) {
            unsigned row = by.divide(number, place);
            if (row >= side) { /* just half way round, which half of the rows have */
                row = number - side * by.by;
                place = by.by;
            }
            const unsigned col = row + place;
            i = wrapped(start + row);
            j = wrapped(start + (col < side ? col : col - side));
            return;
        }
        const unsigned group = by.divide(number, place) * kTileGroup;
        const unsigned rows = side - group;
        const bool full = rows >= kTileGroup;
        i = wrapped(start + group + (full ? place % kTileGroup : place % rows));
        j = wrapped(start + (full ? place / kTileGroup : place / rows));
    }

    /* Until all of these counts are there, and what they say is. */
    __device__ __forceinline__ void await(Wanted x, Wanted y, Wanted z, Wanted w) const
    {
        if (threadIdx.x < 4) {
            const Wanted one = threadIdx.x == 0 ? x : y, other = threadIdx.x == 2 ? z : w;
            const Wanted mine = threadIdx.x < 2 ? one : other;
            await_count(mine.at, mine.least);
        }
        __syncthreads();
#ifdef GD_BULK_COPIES
        if (threadIdx.x == 0) { /* who asks for bulk copies, which go round the caches */
            fence_other_way();
        }
#endif
    }

    /* All tiles have been relaxed in the round before the one with this many before it, so that its
     * panels may be overwritten. */
    __device__ __forceinline__ Wanted all_relaxed(unsigned before) const
    {
        const bool fresh = before == 0;
        return {launch.flags.relaxed + (fresh ? 0 : before - 1), fresh ? 0 : launch.relaxes};
    }

    /* Tile (i, j). What is closed next stays in c where it can. */
    template <typename Sums>
    __device__ __forceinline__ void relax(unsigned i, unsigned j, unsigned before, bool closes,
                                          Sums &c) const
    {
        const unsigned round = launch.first + before, next = round + 1;
        unsigned *const closer = launch.flags.closers + before;
        if (closes && launch.spares && threadIdx.x == 0) {
            store_release(closer, multiprocessor() + 1);
        }
        await({done(i, j), before * kStrips}, {done(i, round), (before + 1) * kStrips},
              {done(round, j), (before + 1) * kStrips}, all_relaxed(closes ? before : 0));
        if (launch.spares && i != next && j != next) { /* for what comes before it */
            if (threadIdx.x == 0) {
                while (load_acquire(closer) == multiprocessor() + 1) {
                    __nanosleep(200);
                }
            }
            __syncthreads();
        }
        Work::relax(launch.paths[round % 2], (ptrdiff_t)i * kPivots, (ptrdiff_t)j * kPivots, memory,
                    closes, c, closes && kKeeps);
    }

    /* The pivot tile of round i, the first of a launch or one that has been relaxed. */
    template <typename Sums>
    __device__ __forceinline__ void close_tile(unsigned i, unsigned before, const Sums &c) const
    {
        const ptrdiff_t pivot = (ptrdiff_t)i * kPivots;
        const Paths<Ring> &paths = launch.paths[i % 2];
        typename Tile::Held held;
        __syncthreads(); /* what is in memory is for all threads */
        if (task == 0 || !kKeeps) {
            Tile::load(paths, pivot, pivot, held);
        }
        else if constexpr (kKeeps) {
#pragma unroll
            for (int row = 0; row < Tile::kM; ++row) {
#pragma unroll
                for (int col = 0; col < Tile::kN; ++col) {
                    held.d[row][col] = c[row][col];
                }
            }
        }
        Tile::close(paths, pivot, pivot, pivot, lines->of_tile, held);
        if (task > 0 && launch.spares && threadIdx.x == 0) {
            store_release(launch.flags.closers + before, 0);
        }
    }

    /* Rows and columns in turn, from the next round's on; of a symmetric matrix what is above its
     * diagonal. */
    __device__ __forceinline__ void close_strip(unsigned round, unsigned number) const
    {
        const unsigned before = round - launch.first;
        const unsigned strip = launch.symmetric ? number : number / 2;
        const unsigned other = wrapped(round + 1 + strip / kStrips);
        const bool of_rows = launch.symmetric ? other > round : number % 2 == 0;
        const unsigned i = of_rows ? round : other, j = of_rows ? other : round;
        const ptrdiff_t pivot = (ptrdiff_t)round * kPivots;
        const ptrdiff_t start = (ptrdiff_t)other * kPivots + strip % kStrips * kWide;
        await({done(i, j), before * kStrips}, {done(round, round), (before + 1) * kStrips},
              all_relaxed(before == 0 ? 0 : before - 1), all_relaxed(0));
        if (of_rows) {
            OfRows::close(launch.paths[round % 2], pivot, start, pivot, lines->of_rows);
        }
        else {
            OfCols::close(launch.paths[round % 2], start, pivot, pivot, lines->of_cols);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            add_relaxed(done(i, j), 1);
        }
    }

    const OneLaunch<Ring> &launch;
    const unsigned task;
    void *const memory;
    Lines *const lines;
};

template <typename Ring, int kPivots, bool kPred>
__global__ void __launch_bounds__(Phase3<Ring, kPivots, kPred>::Tile::kThreads,
                                  Phase3<Ring, kPivots, kPred>::kBlocksPerSm)
    close_all_rounds(const __grid_constant__ OneLaunch<Ring> launch)
{
    extern __shared__ int4 shared[];
    __shared__ unsigned task;
    if (threadIdx.x == 0) {
        task = atomicAdd(launch.flags.drawn, 1);
    }
    __syncthreads();
    OneLaunchTask<Ring, kPivots, kPred>(launch, task, shared).run();
}

}  // namespace gd
#endif
