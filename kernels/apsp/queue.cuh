/* queue.cuh: graphs of more nodes than a block holds, by tiles that all blocks take from one queue.
 *
 * Idea: a graph is cut into tiles that a block holds in its registers (held.cuh), and as many
 * pivots make a round: the pivot tile first, then the tiles beside and above it, then all others.
 * The lines of a round's pivots, each as it is at its own stage, lie in memory, where the other
 * tiles fetch them. The tiles of all graphs are tasks in the order of round, phase and graph.
 * Blocks draw them one after the other, and a counter for each graph says how many of its tasks are
 * done. A block waits for tasks alone that others drew before, so that all end. */
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

/* Lines on their way from one tile to another: fetched, slab by slab and one ahead, where they are
 * not the tile's own, and kept where they are. */
template <typename T, typename Shape, bool kPred, bool kOwnRows, bool kOwnCols>
struct PanelLines {
    static constexpr bool kRows = kOwnRows, kCols = kOwnCols;
    static constexpr int kLine = 2 * Shape::kNodes, kPairs = 8, kSlab = kPairs * kLine;
    static constexpr size_t kTagBytes = kPred ? kSlab * sizeof(int32_t) : 0;
    static constexpr size_t kSlabBytes = 2 * kSlab * sizeof(T) + kTagBytes;
    static constexpr size_t kSharedBytes = 2 * kSlabBytes;

    char *shared;
    const T *rows_from, *cols_from;
    const int32_t *tags_from;
    T *rows_to, *cols_to;
    int32_t *tags_to;
    int pairs;

    __device__ __forceinline__ char *place(int pair) const
    {
        return shared + pair / kPairs % 2 * kSlabBytes;
    }
    __device__ __forceinline__ const T *rows(int pair) const
    {
        return reinterpret_cast<const T *>(place(pair)) + pair % kPairs * kLine;
    }
    __device__ __forceinline__ const T *cols(int pair) const { return rows(pair) + kSlab; }
    __device__ __forceinline__ const int32_t *tags(int pair) const
    {
        return reinterpret_cast<const int32_t *>(place(pair) + 2 * kSlab * sizeof(T)) +
               pair % kPairs * kLine;
    }

    template <typename U>
    static __device__ __forceinline__ void fetch_part(char *to, const U *from, int lines)
    {
        const char *const bytes = reinterpret_cast<const char *>(from);
        for (int at = (int)threadIdx.x * 16; at < lines * kLine * (int)sizeof(U);
             at += (int)blockDim.x * 16) {
            __pipeline_memcpy_async(to + at, bytes + at, 16);
        }
    }
    __device__ __forceinline__ void fetch(int pair)
    {
        const int lines = min(kPairs, pairs - pair);
        char *const to = place(pair);
        if (!kRows) {
            fetch_part(to, rows_from + (ptrdiff_t)pair * kLine, lines);
            if (kPred) {
                fetch_part(to + 2 * kSlab * sizeof(T), tags_from + (ptrdiff_t)pair * kLine, lines);
            }
        }
        if (!kCols) {
            fetch_part(to + kSlab * sizeof(T), cols_from + (ptrdiff_t)pair * kLine, lines);
        }
        __pipeline_commit();
    }
    __device__ __forceinline__ void turn(int pair)
    {
        if ((!kRows || !kCols) && pair % kPairs == 0) {
            __pipeline_wait_prior(0);
            __syncthreads();
            fetch(pair + kPairs);
        }
    }

    template <int kN, int kFrom>
    __device__ __forceinline__ void keep_rows(int pair, const Pair<T> (&b)[kN],
                                              const Pair<int32_t> (&from)[kFrom]) const
    {
#pragma unroll
        for (int j = 0; j < kN; j += 2) {
            const ptrdiff_t at = pair * kLine + Shape::across() * 4 + j / 2 * 4 * Shape::kAcross;
            store_four(rows_to + at, b[j].first, b[j].second, b[j + 1].first, b[j + 1].second);
            if constexpr (kPred) {
                store_four(tags_to + at, from[j].first, from[j].second, from[j + 1].first,
                           from[j + 1].second);
            }
        }
    }
    template <int kM>
    __device__ __forceinline__ void keep_cols(int pair, const Pair<T> (&a)[kM]) const
    {
#pragma unroll
        for (int i = 0; i < kM; i += 2) {
            store_four(cols_to + pair * kLine + 2 * Shape::row(i), a[i].first, a[i].second,
                       a[i + 1].first, a[i + 1].second);
        }
    }
};

/* Which tile of which graph, and at which pivots. */
struct Task {
    ptrdiff_t graph; /* among those of the queue */
    int n, round, down, across;
};

/* A tile of a round. With own rows (columns) it holds those of the pivots. */
template <typename Ring, int kSide, int kM, int kN, bool kPred, bool kOwnRows, bool kOwnCols>
struct TileOf {
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    using Shape = HeldShape<T, kSide, kM, kN>;
    using Lines = HeldLines<T, kSide, 1, kPred, false>;
    using Feed = PanelLines<T, Shape, kPred, kOwnRows, kOwnCols>;

    static __device__ __forceinline__ Feed feed_of(const Queue<T> &queue, const Task &task,
                                                   char *shared, int pivots)
    {
        const ptrdiff_t panel = kPanelOf<T, kSide>, graph = task.graph * queue.tiles;
        const ptrdiff_t across = (graph + task.across) * panel;
        const ptrdiff_t down = (graph + task.down) * panel;
        T *const rows = queue.lines, *const cols = rows + queue.count * queue.tiles * panel;
        Feed feed;
        feed.shared = shared;
        feed.rows_from = feed.rows_to = rows + across;
        feed.cols_from = feed.cols_to = cols + down;
        feed.tags_from = feed.tags_to = kPred ? queue.tags + across : NULL;
        feed.pairs = (pivots + 3) / 4 * 2;
        return feed;
    }

    template <typename Loop, typename Before>
    static __device__ __forceinline__ void close(T (&c)[kM][kN], Before &before, Lines &lines,
                                                 const Feed &feed, int pivots)
    {
        Held<Loop, kSide, kM, kN, kPred, Feed> held(c, before, lines, feed);
        if constexpr (!kOwnRows || !kOwnCols) {
            held.feed.fetch(0);
        }
        if constexpr (kOwnRows || kOwnCols) {
            held.close(pivots);
        }
        else {
            held.relax(pivots);
        }
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

    /* Own lines come first in the block's dynamic memory, then those that are fetched. */
    static constexpr size_t kOwnBytes = (sizeof(Lines) + 15) / 16 * 16;
    static constexpr size_t kSharedBytes = kOwnBytes + Feed::kSharedBytes;

    static __device__ __forceinline__ void run(const Graphs<T> &job, const Queue<T> &queue,
                                               const Task task)
    {
        extern __shared__ int4 memory[];
        Lines &lines = *reinterpret_cast<Lines *>(memory);
        char *const shared = reinterpret_cast<char *>(memory) + kOwnBytes;
        const ptrdiff_t graph = queue.first + task.graph;
        const Member<Shape, T, kM, kN> mine = {job, graph, task.n, task.down * kSide,
                                               task.across * kSide};
        Facts<T> *const facts = queue.facts + task.graph;
        unsigned *const signs = queue.signs + task.graph * 2 * queue.tiles;
        T c[kM][kN];
        int32_t before[kPred ? kM : 1][kPred ? kN : 1];
        bool alone = false;
        if (task.round == 0) {
            mine.load(c);
            alone = mine.enter_all(c);
            mine.drop_signs(c);
            if constexpr (kPred) {
                mine.start_paths(c, before);
            }
            if (job.directed && kLooksForHidden<T, kPred>) {
                note_facts(mine, c, facts);
            }
        }
        else {
            mine.load_again(job.out, c, far_of<T>());
            if constexpr (kPred) {
                mine.load_again(job.pred, before, GD_NO_PREDECESSOR);
            }
        }
        const bool negative = __syncthreads_or((int)mine.negative(c)) != 0;
        const bool careful = negative || job.flip || (!kOwnRows && signs[task.across] != 0) ||
                             (!kOwnCols && signs[queue.tiles + task.down] != 0);
        const int more = task.n - task.round * kSide, pivots = min(more, kSide);
        const Feed feed = feed_of(queue, task, shared, pivots);
        if (!careful) {
            close<Quick>(c, before, lines, feed, pivots);
        }
        else {
            close<Ring>(c, before, lines, feed, pivots);
        }
        if (threadIdx.x == 0) {
            if (negative) {
                *static_cast<volatile unsigned *>(&facts->negative) = 1;
            }
            if (kOwnRows) {
                signs[task.across] = careful;
            }
            if (kOwnCols) {
                signs[queue.tiles + task.down] = careful;
            }
        }
        if (more <= kSide) { /* the last round */
            const bool rounds =
                job.directed && kLooksForHidden<T, kPred> && (job.flip || facts->negative != 0);
            alone |= task.down == task.across && mine.doubts(c, rounds, *facts);
            if constexpr (kPred) {
                mine.leave_all(c, &before);
            }
            else {
                mine.leave_all(c, (void *)NULL);
            }
        }
        if (alone) {
            job.doubts[graph] = 1;
            *job.doubted = 1;
        }
        mine.store(job.out, c);
        if constexpr (kPred) {
            mine.store(job.pred, before);
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

template <typename Ring, int kSide, int kM, int kN, int kBlocks, bool kPred>
__global__ void __launch_bounds__(HeldShape<int, kSide, kM, kN>::kThreads, kBlocks)
    close_by_tiles(const __grid_constant__ Graphs<typename Ring::Word> job,
                   const __grid_constant__ Queue<typename Ring::Word> queue)
{
    using T = typename Ring::Word;
    __shared__ unsigned drawn;
    const unsigned nb = (unsigned)queue.tiles, strips = 2 * (nb - 1), all = nb * nb;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            drawn = atomicAdd(queue.next, 1);
        }
        __syncthreads();
        const unsigned round = drawn / (all * queue.count);
        unsigned rest = drawn % (all * queue.count), need = round * all;
        Task task;
        task.round = (int)round;
        task.down = task.across = (int)round;
        if (round >= nb) {
            return;
        }
        if (rest < queue.count) {
            task.graph = rest;
        }
        else if ((rest -= queue.count) < strips * queue.count) {
            const int other = (int)(rest % strips / 2);
            task.graph = rest / strips;
            (rest % 2 == 0 ? task.across : task.down) = other + (other >= (int)round);
            need += 1;
        }
        else {
            rest -= strips * queue.count;
            const unsigned tile = rest % ((nb - 1) * (nb - 1));
            const int down = (int)(tile / (nb - 1)), across = (int)(tile % (nb - 1));
            task.graph = rest / ((nb - 1) * (nb - 1));
            task.down = down + (down >= (int)round);
            task.across = across + (across >= (int)round);
            need += 1 + strips;
        }
        task.n = job.sizes != NULL ? job.sizes[queue.first + task.graph] : job.n;
        if (threadIdx.x == 0) {
            while (load_acquire(queue.done + task.graph) < need) {
                __nanosleep(100);
            }
        }
        __syncthreads();
        const int reach = max(max(task.down, task.across), task.round) * kSide;
        if (reach < task.n) {
            if (task.down != task.round && task.across != task.round) {
                TileOf<Ring, kSide, kM, kN, kPred, false, false>::run(job, queue, task);
            }
            else if (task.down != task.round) {
                TileOf<Ring, kSide, kM, kN, kPred, false, true>::run(job, queue, task);
            }
            else if (task.across != task.round) {
                TileOf<Ring, kSide, kM, kN, kPred, true, false>::run(job, queue, task);
            }
            else {
                TileOf<Ring, kSide, kM, kN, kPred, true, true>::run(job, queue, task);
            }
        }
        else if (task.round == 0) {
            fill_outside<T, kSide, HeldShape<int, kSide, kM, kN>::kThreads, kPred>(
                job, queue.first + task.graph, task.down * kSide, task.across * kSide);
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
