/* queue.cuh: graphs of more nodes than a block holds, by tiles that all blocks take from one queue.
 *
 * Idea: a graph is cut into tiles that a block holds in its registers (held.cuh), and as many
 * pivots make a round: the pivot tile first, then the tiles beside and above it, then all others.
 * The lines of a round's pivots, each as it is at its own stage, lie in memory, where the other
 * tiles fetch them. The tiles of all graphs are tasks in the order of round, phase and graph.
 * Blocks draw them one after the other, and a counter for each graph says how many of its tasks are
 * done. A block waits for tasks alone that others drew before, so that all end.
 *
 * Cost: a tile without lines of its own takes 408 instructions for four pivots and 64 elements,
 * 384 of them updates; others take some 560, of which 416 are. Around them a tile comes and goes,
 * and the next task is drawn and waited for, while the block beside it computes.
 *
 * Launch: as many blocks as the device holds, two of 256 threads a multiprocessor, with
 * predecessors one of 512. */
#ifndef GPUDIST_APSP_QUEUE_CUH
#define GPUDIST_APSP_QUEUE_CUH

#include <cuda_pipeline_primitives.h>

#include "apsp/batch.cuh"
#include "arch/signals.cuh"

namespace gd {

/* What blocks share, for each graph: how many tasks are done, what its weights are, and of each
 * tile's lines whether a length is negative; zero at first. And the lines themselves. */
template <typename T>
struct Queue {
    unsigned *next, *done, *signs;
    Facts<T> *facts;
    T *lines;
    int32_t *tags;
    int tiles;       /* of a graph, across */
    ptrdiff_t first; /* graph, and how many there are */
    unsigned count;
};

/* Lines of kSide columns or rows, pair by pair: those of a tile's rows, and those of its columns.
 */
template <typename T, int kSide>
constexpr ptrdiff_t kPanelOf = (ptrdiff_t)kSide * kSide;

/* Whether code is compiled for a device that has 227 KB of shared memory a multiprocessor. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr bool kRoomyHere = true;
#else
constexpr bool kRoomyHere = false;
#endif

/* Lines of other tiles on their way through shared memory, slab by slab, one slab ahead. Where
 * there are bulk copies, one thread asks for a slab, and a barrier says when it is there. Slabs are
 * half as long where there is not much shared memory. */
template <typename T, typename Shape, bool kPred, bool kRoomy>
struct Slabs {
    static constexpr int kLine = 2 * Shape::kNodes, kPairs = Shape::kNodes / (kRoomy ? 8 : 16);
    static constexpr int kSlab = kPairs * kLine, kPlaces = 2;
    alignas(16) T rows[kPlaces][kSlab], cols[kPlaces][kSlab];
    alignas(16) int32_t tags[kPred ? kPlaces : 1][kPred ? kSlab : 4];
    uint64_t there[kPlaces];

    /* One thread, before a tile. */
    __device__ __forceinline__ void ready()
    {
#ifdef GD_SPLIT_BARRIERS
        for (int i = 0; i < kPlaces; ++i) {
            barrier_init(&there[i], 1);
        }
        show_barriers();
#endif
    }
    __device__ __forceinline__ void ready_again()
    {
#ifdef GD_SPLIT_BARRIERS
        for (int i = 0; i < kPlaces; ++i) {
            barrier_drop(&there[i]);
        }
#endif
        ready();
    }
};

/* The lines of a tile at a round's pivots: its own are kept in memory, and the others fetched. */
template <typename T, typename Shape, bool kPred, bool kOwnRows, bool kOwnCols>
struct PanelLines {
    using Place = Slabs<T, Shape, kPred, kRoomyHere>;
    static constexpr bool kRows = kOwnRows, kCols = kOwnCols, kFetches = !kRows || !kCols;
    static constexpr bool kSplit = true;
    static constexpr bool kRaw = kRows; /* lines that come are as at their own stages */
    static constexpr int kBefore = 0;
    static constexpr int kLine = Place::kLine, kPairs = Place::kPairs, kSlab = Place::kSlab;

    Place &place;
    const T *const rows_from, *const cols_from;
    const int32_t *const tags_from;
    T *rows_to, *cols_to; /* this thread's piece of two pivots' lines */
    int32_t *tags_to;
    const int pairs;

    /* Where pair `at` of a run of pivots is. Mostly there is room for a run. */
    static __device__ __forceinline__ int begin_of(int at)
    {
        constexpr int kRoom = Place::kPlaces * kPairs;
        return (kRoom < 2 * Shape::kDown ? at % kRoom : at) * kLine;
    }
    template <int>
    __device__ __forceinline__ const T *rows(int at) const
    {
        return place.rows[0] + begin_of(at);
    }
    __device__ __forceinline__ const T *cols(int at) const { return place.cols[0] + begin_of(at); }
    __device__ __forceinline__ const int32_t *tags(int at) const
    {
        return place.tags[0] + (kPred ? begin_of(at) : 0);
    }

    template <typename U>
    __device__ __forceinline__ void fetch_part(U *to, const U *from, int pair, uint64_t *there)
    {
        from += (ptrdiff_t)pair * kLine;
#ifdef GD_SPLIT_BARRIERS
        bulk_copy(to, from, kSlab * sizeof(U), there);
#else
        for (int at = (int)threadIdx.x * 16 / (int)sizeof(U); at < kSlab;
             at += (int)blockDim.x * 16 / (int)sizeof(U)) {
            __pipeline_memcpy_async(to + at, from + at, 16);
        }
#endif
    }
    /* The slab that begins with this pair, whole. */
    __device__ __forceinline__ void fetch(int pair)
    {
        const int at = pair / kPairs % Place::kPlaces;
        uint64_t *const there = &place.there[at];
        if (!kFetches) {
            return;
        }
#ifdef GD_SPLIT_BARRIERS
        if (threadIdx.x != 0 || pair >= pairs) {
            return;
        }
        constexpr size_t kBytes =
            (!kRows + !kCols) * kSlab * sizeof(T) + (!kRows && kPred ? kSlab * sizeof(int32_t) : 0);
        barrier_expect(there, kBytes);
#endif
        if (pair < pairs) {
            if (!kRows) {
                fetch_part(place.rows[at], rows_from, pair, there);
                if constexpr (kPred) {
                    fetch_part(place.tags[at], tags_from, pair, there);
                }
            }
            if (!kCols) {
                fetch_part(place.cols[at], cols_from, pair, there);
            }
        }
#ifndef GD_SPLIT_BARRIERS
        __pipeline_commit();
#endif
    }
    /* Before a pair is read; all threads have read those before, or have to meet. */
    __device__ __forceinline__ void turn(int pair, bool meet)
    {
        if (kFetches && pair % kPairs == 0) {
            if (pair > 0) {
                if (meet) {
                    __syncthreads();
                }
                fetch(pair + kPairs);
            }
#ifdef GD_SPLIT_BARRIERS
            barrier_wait(&place.there[pair / kPairs % Place::kPlaces],
                         pair / kPairs / Place::kPlaces % 2);
#else
            __pipeline_wait_prior(1);
            __syncthreads();
#endif
        }
    }

    static __device__ __forceinline__ void send(int, int, T, T, T, T) {}
    template <int kN, int kFrom>
    __device__ __forceinline__ void keep_rows(int first, const Pair<T> (&b)[kN],
                                              const Pair<int32_t> (&from)[kFrom]) const
    {
#pragma unroll
        for (int j = 0; j < kN; j += 2) {
            const int at = first + j / 2 * 4 * Shape::kAcross;
            store_four(rows_to + at, b[j].first, b[j].second, b[j + 1].first, b[j + 1].second);
            if constexpr (kPred) {
                store_four(tags_to + at, from[j].first, from[j].second, from[j + 1].first,
                           from[j + 1].second);
            }
        }
    }
    template <int kM>
    __device__ __forceinline__ void keep_cols(int first, const Pair<T> (&a)[kM]) const
    {
#pragma unroll
        for (int i = 0; i < kM; i += 2) {
            store_four(cols_to + first + 2 * Shape::row_step(i), a[i].first, a[i].second,
                       a[i + 1].first, a[i + 1].second);
        }
    }
    __device__ __forceinline__ void advance()
    {
        rows_to += 2 * kLine;
        cols_to += 2 * kLine;
        if constexpr (kPred) {
            tags_to += 2 * kLine;
        }
    }
};

/* Which tile of which graph, and at which pivots. */
struct Task {
    ptrdiff_t graph; /* among those of the queue */
    int n, round, down, across;
};

/* Tiles of a queue. */
template <typename Ring, int kSide, int kM, int kN, bool kPred>
struct Tiles {
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    using Shape = HeldShape<T, kSide, kM, kN>;
    using Lines = HeldLines<T, Shape, 1, kPred, false>;

    /* A block's memory. */
    template <bool kRoomy>
    struct SharedOf {
        Lines lines;
        Slabs<T, Shape, kPred, kRoomy> slabs;
        Task task;
    };
    using Shared = SharedOf<kRoomyHere>;

    const Graphs<T> &job;
    const Queue<T> &queue;
    Shared &shared;

    __device__ __forceinline__ Member<Shape, T, kM, kN, true> member(const Task &task) const
    {
        return {job, queue.first + task.graph, task.n, task.down * kSide, task.across * kSide};
    }

    static __device__ __forceinline__ int pivots_of(const Task &task)
    {
        return min(task.n - task.round * kSide, kSide);
    }

    template <bool kOwnRows, bool kOwnCols>
    __device__ __forceinline__ PanelLines<T, Shape, kPred, kOwnRows, kOwnCols> feed_of(
        const Task &task) const
    {
        const ptrdiff_t panel = kPanelOf<T, kSide>, graph = task.graph * queue.tiles;
        const ptrdiff_t across = (graph + task.across) * panel;
        const ptrdiff_t down = (graph + task.down) * panel;
        T *const rows = queue.lines, *const cols = rows + queue.count * queue.tiles * panel;
        int32_t *const tags = kPred ? queue.tags + across : NULL;
        return {shared.slabs,
                rows + across,
                cols + down,
                tags,
                rows + across + Shape::across() * 4,
                cols + down + 2 * Shape::row(0),
                kPred ? tags + Shape::across() * 4 : NULL,
                (pivots_of(task) + 3) / 4 * 2};
    }

    /* Calls f with whether the tile has the rows of the round's pivots, and their columns. */
    template <typename F>
    static __device__ __forceinline__ void as_kind(const Task &task, F &&f)
    {
        if (task.down != task.round && task.across != task.round) {
            f(std::false_type(), std::false_type());
        }
        else if (task.down != task.round) {
            f(std::false_type(), std::true_type());
        }
        else if (task.across != task.round) {
            f(std::true_type(), std::false_type());
        }
        else {
            f(std::true_type(), std::true_type());
        }
    }

    /* Asks for the first lines of other tiles. */
    __device__ __forceinline__ void begin(const Task &task) const
    {
#ifdef GD_SPLIT_BARRIERS
        if (threadIdx.x != 0) {
            return;
        }
        fence_other_way(); /* bulk copies go round the caches */
#endif
        as_kind(task, [&](auto rows, auto cols) {
            auto feed = feed_of<decltype(rows)::value, decltype(cols)::value>(task);
            feed.fetch(0);
            feed.fetch(decltype(feed)::kPairs);
        });
    }

    template <typename Loop>
    __device__ __forceinline__ void close(T (&c)[kM][kN],
                                          int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1],
                                          const Task &task) const
    {
        as_kind(task, [&](auto rows, auto cols) {
            constexpr bool kOwnRows = decltype(rows)::value, kOwnCols = decltype(cols)::value;
            using Feed = PanelLines<T, Shape, kPred, kOwnRows, kOwnCols>;
            Held<Loop, Shape, kPred, Feed> held(c, before, shared.lines,
                                                feed_of<kOwnRows, kOwnCols>(task));
            if constexpr (kOwnRows || kOwnCols) {
                held.close(pivots_of(task));
            }
            else {
                held.relax(pivots_of(task));
            }
        });
    }

    /* What is known of all weights of a graph is the most of what its tiles know. */
    template <typename Its>
    static __device__ __forceinline__ void note_facts(const Its &mine, const T (&c)[kM][kN],
                                                      Facts<T> *facts)
    {
        bool fractional;
        T most = mine.largest(c, &fractional);
        for (int offset = 16; offset > 0; offset /= 2) {
            most = max(most, __shfl_xor_sync(~0u, most, offset));
        }
        fractional = __any_sync(~0u, fractional);
        if (threadIdx.x % 32 == 0) {
            atomicMax(&facts->max_abs, bits_of(most));
            if (fractional) {
                *static_cast<volatile unsigned *>(&facts->fractional) = 1;
            }
        }
    }

    __device__ __forceinline__ void doubt(const Task &task) const
    {
        job.doubts[queue.first + task.graph] = 1;
        *job.doubted = 1;
    }

    /* A tile's lengths so far. Returns whether its weights are not for this loop. */
    __device__ __forceinline__ bool load(const Task &task, T (&c)[kM][kN],
                                         int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1]) const
    {
        const Member<Shape, T, kM, kN, true> mine = member(task);
        if (task.round == 0) {
            mine.load(c);
            const bool refused = mine.enter_all(c);
            mine.drop_signs(c);
            if constexpr (kPred) {
                mine.start_paths(c, before);
            }
            return refused;
        }
        mine.load_again(job.out, c, far_of<T>());
        if constexpr (kPred) {
            mine.load_again(job.pred, before, GD_NO_PREDECESSOR);
        }
        return false;
    }

    /* Whether the loop for any weights is the one for a tile, as far as these blocks know. */
    __device__ __forceinline__ bool judge(const Task &task, const T (&c)[kM][kN],
                                          unsigned signs) const
    {
        const Member<Shape, T, kM, kN, true> mine = member(task);
        Facts<T> *const facts = queue.facts + task.graph;
        if (task.round == 0 && job.directed && kLooksForHidden<T, kPred>) {
            note_facts(mine, c, facts);
        }
        const bool negative = __syncthreads_or((int)mine.negative(c)) != 0;
        const bool careful = negative || job.flip || signs != 0;
        if (threadIdx.x == 0) {
            if (negative) {
                *static_cast<volatile unsigned *>(&facts->negative) = 1;
            }
            if (task.down == task.round) {
                *signs_of_rows(task) = careful;
            }
            if (task.across == task.round) {
                *signs_of_cols(task) = careful;
            }
        }
        return careful;
    }
    /* Whether lines have come from a tile with a negative length. */
    __device__ __forceinline__ unsigned *signs_of_rows(const Task &task) const
    {
        return queue.signs + task.graph * 2 * queue.tiles + task.across;
    }
    __device__ __forceinline__ unsigned *signs_of_cols(const Task &task) const
    {
        return queue.signs + (task.graph * 2 + 1) * queue.tiles + task.down;
    }

    __device__ __forceinline__ void leave(const Task &task, T (&c)[kM][kN],
                                          int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1]) const
    {
        const Member<Shape, T, kM, kN, true> mine = member(task);
        if (task.n - task.round * kSide <= kSide) { /* the last round */
            const Facts<T> *const facts = queue.facts + task.graph;
            const bool rounds =
                job.directed && kLooksForHidden<T, kPred> && (job.flip || facts->negative != 0);
            if (task.down == task.across && mine.doubts(c, rounds, *facts)) {
                doubt(task);
            }
            if constexpr (kPred) {
                mine.leave_all(c, &before);
            }
            else {
                mine.leave_all(c, (void *)NULL);
            }
        }
        mine.store(job.out, c);
        if constexpr (kPred) {
            mine.store(job.pred, before);
        }
    }

    /* Returns the number of the next task, which one thread draws while results are on their way.
     */
    template <typename Loop>
    __device__ __forceinline__ unsigned finish(
        T (&c)[kM][kN], int32_t (&before)[kPred ? kM : 1][kPred ? kN : 1]) const
    {
        unsigned drawn = 0;
        close<Loop>(c, before, shared.task);
        __syncthreads();
        if (threadIdx.x == 0) {
            drawn = atomicAdd(queue.next, 1);
            shared.lines.ready_again();
            shared.slabs.ready_again();
        }
        leave(shared.task, c, before);
        return drawn;
    }

    /* A tile with negative lengths begins anew: in one function with the quicker loop, neither
     * would have the registers it needs. */
    static __device__ __noinline__ unsigned run_carefully(const Graphs<T> &job,
                                                          const Queue<T> &queue)
    {
        extern __shared__ int4 memory[];
        const Tiles tiles = {job, queue, *reinterpret_cast<Shared *>(memory)};
        T c[kM][kN];
        int32_t before[kPred ? kM : 1][kPred ? kN : 1];
        tiles.load(tiles.shared.task, c, before);
        return tiles.template finish<Ring>(c, before);
    }

    __device__ __forceinline__ unsigned run() const
    {
        const Task &task = shared.task;
        T c[kM][kN];
        int32_t before[kPred ? kM : 1][kPred ? kN : 1];
        begin(task);
        const unsigned signs = (task.down == task.round ? 0 : *signs_of_rows(task)) |
                               (task.across == task.round ? 0 : *signs_of_cols(task));
        if (load(task, c, before)) {
            doubt(task);
        }
        const bool careful = judge(task, c, signs);
        if constexpr (std::is_same<Quick, Ring>::value) {
            return finish<Ring>(c, before);
        }
        else {
            return careful ? run_carefully(job, queue) : finish<Quick>(c, before);
        }
    }
};

/* What is not of a graph's nodes. */
template <typename T, int kSide, int kThreads, bool kPred>
__device__ void fill_outside(const Graphs<T> &job, ptrdiff_t graph, int row0, int col0)
{
    const ptrdiff_t base = graph * job.n * job.n;
    for (int at = threadIdx.x; at < kSide * kSide; at += kThreads) {
        const int row = row0 + at / kSide, col = col0 + at % kSide;
        if (row < job.n && col < job.n) {
            job.out[base + (ptrdiff_t)row * job.n + col] = job.unreachable;
            if (kPred) {
                job.pred[base + (ptrdiff_t)row * job.n + col] = GD_NO_PREDECESSOR;
            }
        }
    }
}

/* Task number `drawn` of a queue, and how many tasks of its graph are done before it. */
template <typename T>
__device__ __forceinline__ Task task_of(const Graphs<T> &job, const Queue<T> &queue, unsigned drawn,
                                        unsigned *need)
{
    const unsigned nb = (unsigned)queue.tiles, strips = 2 * (nb - 1), all = nb * nb;
    const unsigned round = drawn / (all * queue.count);
    unsigned rest = drawn % (all * queue.count);
    Task task;
    *need = round * all;
    task.round = (int)round;
    task.down = task.across = (int)round;
    if (rest < queue.count) {
        task.graph = rest;
    }
    else if ((rest -= queue.count) < strips * queue.count) {
        const int other = (int)(rest % strips / 2);
        task.graph = rest / strips;
        (rest % 2 == 0 ? task.across : task.down) = other + (other >= (int)round);
        *need += 1;
    }
    else {
        rest -= strips * queue.count;
        const unsigned tile = rest % ((nb - 1) * (nb - 1));
        const int down = (int)(tile / (nb - 1)), across = (int)(tile % (nb - 1));
        task.graph = rest / ((nb - 1) * (nb - 1));
        task.down = down + (down >= (int)round);
        task.across = across + (across >= (int)round);
        *need += 1 + strips;
    }
    task.n = round >= nb ? 0 : job.sizes != NULL ? job.sizes[queue.first + task.graph] : job.n;
    return task;
}

template <typename Ring, int kSide, int kM, int kN, int kBlocks, bool kPred>
__global__ void __launch_bounds__(HeldShape<int, kSide, kM, kN>::kThreads, kBlocks)
    close_by_tiles(const __grid_constant__ Graphs<typename Ring::Word> job,
                   const __grid_constant__ Queue<typename Ring::Word> queue)
{
    using T = typename Ring::Word;
    using All = Tiles<Ring, kSide, kM, kN, kPred>;
    constexpr int kThreads = All::Shape::kThreads;
    extern __shared__ int4 memory[];
    typename All::Shared &shared = *reinterpret_cast<typename All::Shared *>(memory);
    const All tiles = {job, queue, shared};
    if (threadIdx.x == 0) {
        shared.lines.ready();
        shared.slabs.ready();
    }
    unsigned drawn = threadIdx.x == 0 ? atomicAdd(queue.next, 1) : 0;
    for (;;) {
        if (threadIdx.x == 0) {
            unsigned need;
            shared.task = task_of(job, queue, drawn, &need);
            while (shared.task.round < queue.tiles &&
                   load_acquire(queue.done + shared.task.graph) < need) {
                __nanosleep(100);
            }
        }
        __syncthreads();
        const Task &task = shared.task;
        if (task.round >= queue.tiles) {
            return;
        }
        if (max(max(task.down, task.across), task.round) * kSide < task.n) {
            drawn = tiles.run();
        }
        else {
            if (task.round == 0) {
                fill_outside<T, kSide, kThreads, kPred>(job, queue.first + task.graph,
                                                        task.down * kSide, task.across * kSide);
            }
            if (threadIdx.x == 0) {
                drawn = atomicAdd(queue.next, 1);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            add_release(queue.done + task.graph);
        }
    }
}

}  // namespace gd
#endif
