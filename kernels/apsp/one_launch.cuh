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
 * Progress: a block waits for tasks that come before its own alone, and draws its task when it
 * starts. So those run already, and a launch ends however few blocks a device holds at once.
 *
 * Cost: phase3.cuh and pivot_phases.cuh. A block takes 3000 clocks of its 63 000 to learn what to
 * do and that it may; the other one of the multiprocessor computes meanwhile.
 *
 * Launch: a block of 128 threads a task, as phase 3 has them: two a multiprocessor for tiles of 128
 * x 128, and with predecessors three, for tiles of 64 x 64.
 *
 * Reached on an H200: n = 4096 4.52 ms in float32 and 4.23 in int32, where blocked.cu's streams
 * take 5.06 and 4.84; n = 4600 6.30 where they take 6.82. From 5000 nodes on, where the streams'
 * halves fill the device, they are 2 % quicker. A closing block gets a quarter of the clocks beside
 * one that relaxes: the pivot tile takes 60 us, a strip 32. With predecessors, on an H100, n = 1536
 * 1.07 ms, 2048 1.50 and 3072 4.37, where a launch for each phase takes 1.22, 1.88 and 4.85. */
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
    unsigned *relaxed; /* of each round: tiles that are done with its panels */
    unsigned *done;    /* of each tile: what its tasks have added, a tile's strips a round */

    static constexpr size_t count(size_t tiles) { return 1 + tiles + tiles * tiles; }
    OneLaunchFlags() = default;
    OneLaunchFlags(unsigned *all, size_t tiles)
        : drawn(all), relaxed(drawn + 1), done(relaxed + tiles)
    {
    }
};

template <typename Ring>
struct OneLaunch {
    Paths<Ring> paths[2]; /* with the panels of even and of odd rounds */
    OneLaunchFlags flags;
    unsigned tiles;                     /* along a side of the matrix */
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
    static __host__ __device__ constexpr unsigned strips(unsigned tiles)
    {
        return 2 * kStrips * (tiles - 1);
    }
    static __host__ __device__ constexpr unsigned tasks_a_round(unsigned tiles)
    {
        return (tiles - 1) * (tiles - 1) + strips(tiles);
    }
    static constexpr ptrdiff_t tasks(unsigned tiles, unsigned rounds)
    {
        return 1 + (ptrdiff_t)rounds * tasks_a_round(tiles);
    }

    /* The chain's links stand as far apart as they take on a device that holds so many blocks. */
    static void plan(OneLaunch<Ring> &launch, unsigned *flags, unsigned tiles, unsigned blocks)
    {
        const unsigned others = (tiles - 2) * (tiles - 2);
        launch.flags = OneLaunchFlags(flags, tiles);
        launch.tiles = tiles;
        launch.lines_after = min(blocks / 2, others);
        launch.strips_after = min(blocks * 5 / 2, others);
        launch.round = Divider(tasks_a_round(tiles));
        launch.group[0] = Divider(kTileGroup * (tiles - 2));
        launch.group[1] = Divider(kTileGroup * (tiles - 1));
    }

    __device__ __forceinline__ OneLaunchTask(const OneLaunch<Ring> &f, unsigned number,
                                             void *shared)
        : launch(f), task(number), memory(shared), lines(static_cast<Lines *>(shared))
    {
    }

    __device__ __forceinline__ void run() const
    {
        const unsigned across = strips(launch.tiles);
        unsigned i = launch.first, j = launch.first, before = 0, adds = kStrips;
        bool closes = true;
        /* Task 0 closes the first pivot tile, which has no round before it. */
        if (task > 0 && task <= across) {
            close_strip(launch.first, task - 1);
            return;
        }
        if (task > across) {
            unsigned place;
            before = launch.round.divide(task - 1 - across, place);
            const unsigned round = launch.first + before, next = round + 1;
            const unsigned others = 2 * (launch.tiles - 2);
            const unsigned line = place - 1 - launch.lines_after;
            const unsigned strip = place - 1 - launch.strips_after - others;
            closes = next != launch.end && place == 0;
            i = j = next;
            if (next == launch.end) {
                other_tile(place, launch.tiles - 1, launch.group[1], next, i, j);
            }
            else if (!closes && line < others) {
                (line % 2 == 0 ? j : i) = wrapped(next + 1 + line / 2);
            }
            else if (!closes && strip < across) {
                close_strip(next, strip);
                return;
            }
            else if (!closes) {
                place -= 1 + (place > launch.lines_after ? others : 0) +
                         (place > launch.strips_after + others ? across : 0);
                other_tile(place, launch.tiles - 2, launch.group[0], next + 1, i, j);
            }
            await({done(i, j), before * kStrips}, {done(i, round), (before + 1) * kStrips},
                  {done(round, j), (before + 1) * kStrips});
            Work::relax(launch.paths[round % 2], (ptrdiff_t)i * kPivots, (ptrdiff_t)j * kPivots,
                        memory, closes);
            if (closes) {
                adds += kStrips;
                if (threadIdx.x == 0) {
                    __threadfence();
                    add_relaxed(launch.flags.relaxed + before, 1);
                    if (before > 0) { /* whose panels are overwritten now */
                        await_count(launch.flags.relaxed + before - 1, tiles_a_round());
                    }
                }
                __syncthreads();
            }
        }
        if (closes) {
            const ptrdiff_t pivot = (ptrdiff_t)i * kPivots;
            Tile::close(launch.paths[i % 2], pivot, pivot, pivot, lines->of_tile);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            add_relaxed(done(i, j), adds);
            if (!closes) {
                add_relaxed(launch.flags.relaxed + before, 1);
            }
        }
    }

private:
    struct Wanted {
        const unsigned *at;
        unsigned least;
    };

    __device__ __forceinline__ unsigned *done(unsigned i, unsigned j) const
    {
        return launch.flags.done + i * launch.tiles + j;
    }
    __device__ __forceinline__ unsigned tiles_a_round() const
    {
        return (launch.tiles - 1) * (launch.tiles - 1);
    }
    __device__ __forceinline__ unsigned wrapped(unsigned line) const
    {
        return line < launch.tiles ? line : line - launch.tiles;
    }
    /* The tile of that number among those in `side` rows and columns from `start` on, round the
     * end of the matrix: the next round's lines come first. */
    __device__ __forceinline__ void other_tile(unsigned number, unsigned side, const Divider &by,
                                               unsigned start, unsigned &i, unsigned &j) const
    {
        unsigned place;
        const unsigned group = by.divide(number, place) * kTileGroup;
        const unsigned rows = side - group;
        const bool full = rows >= kTileGroup;
        i = wrapped(start + group + (full ? place % kTileGroup : place % rows));
        j = wrapped(start + (full ? place / kTileGroup : place / rows));
    }

    /* Until all of these counts are there, and what they say is. */
    __device__ __forceinline__ void await(Wanted x, Wanted y, Wanted z) const
    {
        if (threadIdx.x < 3) {
            const Wanted mine = threadIdx.x == 0 ? x : threadIdx.x == 1 ? y : z;
            await_count(mine.at, mine.least);
        }
        __syncthreads();
#ifdef GD_BULK_COPIES
        if (threadIdx.x == 0) { /* who asks for bulk copies, which go round the caches */
            fence_other_way();
        }
#endif
    }

    /* Rows and columns in turn, from the next round's on. */
    __device__ __forceinline__ void close_strip(unsigned round, unsigned number) const
    {
        const unsigned before = round - launch.first;
        const bool of_rows = number % 2 == 0;
        const unsigned other = wrapped(round + 1 + number / (2 * kStrips));
        const unsigned i = of_rows ? round : other, j = of_rows ? other : round;
        const ptrdiff_t pivot = (ptrdiff_t)round * kPivots;
        const ptrdiff_t start = (ptrdiff_t)other * kPivots + number / 2 % kStrips * kWide;
        const bool fresh = before < 2; /* panels */
        await({done(i, j), before * kStrips}, {done(round, round), (before + 1) * kStrips},
              {launch.flags.relaxed + (fresh ? 0 : before - 2), fresh ? 0 : tiles_a_round()});
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
