/* resident_graph.cuh: a graph's way into the shared memory of the blocks that close it together
 * (resident_block.cuh), from weights as given, and out of it, to lengths as they are wanted. */
#ifndef GPUDIST_APSP_RESIDENT_GRAPH_CUH
#define GPUDIST_APSP_RESIDENT_GRAPH_CUH

#include "apsp/batch.cuh"
#include "apsp/resident_block.cuh"

namespace gd {

/* What a thread learns of weights on their way in. */
template <typename T>
struct Entered {
    T most; /* size of the largest */
    bool negative, fractional;
};

/* Four neighbours of a row enter: weights become lengths of paths of one edge, and diagonals begin
 * without a path (batch.cuh's Member). */
template <bool kLooks, typename T>
__device__ __forceinline__ void enter_four(const Graphs<T> &job, int n, int row, int col,
                                           T (&word)[4], Entered<T> *found)
{
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        T x = within_far(word[e]);
        const bool edge = row < n && col + e < n && (!job.has_absent || word[e] != job.absent);
        if constexpr (!std::is_same<T, int32_t>::value) {
            x = x > -far_of<T>() ? x + (T)0 : far_of<T>();
        }
        x = edge ? x : far_of<T>();
        if constexpr (kLooks || std::is_same<T, int32_t>::value) {
            found->most = max(found->most, x < far_of<T>() ? size_of(x) : 0);
            found->fractional |= x < far_of<T>() && has_fraction(x);
        }
        word[e] = row == col + e && x >= 0 ? far_of<T>() : x;
        found->negative |= word[e] < 0;
    }
}

template <typename T>
__device__ __forceinline__ T left_as(const Graphs<T> &job, T x)
{
    if (std::is_same<T, int32_t>::value || job.flip || job.unreachable != far_of<T>()) {
        return x < no_path_of<T>() ? turned(x, job.flip) : job.unreachable;
    }
    return x;
}

/* A block's part of a graph on its way in and out. Lanes are four rows of a tile, eight runs of
 * four elements each. */
template <typename T, bool kPred, int kThreads>
struct TeamGraph {
    static constexpr int kSide = resident::kSide, kWords = kSide / 4;
    static constexpr int kMost = resident::kMostCols;

    const Graphs<T> &job;
    const ptrdiff_t graph;
    const int n; /* nodes */
    const resident::Part<T, kPred> &part;

    __device__ __forceinline__ int first_row() const
    {
        return (int)threadIdx.x / 32 * 4 + (int)threadIdx.x % 32 / kWords;
    }
    static constexpr int kRowStep = kThreads / 32 * 4;
    /* Where row i of the part, and tile j of this thread's column, are in the graph. */
    __device__ __forceinline__ int row_of(int i) const
    {
        return ((i / kSide << part.job.log_down) + part.row) * kSide + i % kSide;
    }
    __device__ __forceinline__ int col_of(int j) const
    {
        return ((j << part.job.log_across) + part.col) * kSide + (int)threadIdx.x % kWords * 4;
    }
    __device__ __forceinline__ int place(int i, int j) const
    {
        return i * part.stride + j * kSide + (int)threadIdx.x % kWords * 4;
    }

    __device__ __forceinline__ void fetch(int y, int x, T (&word)[4]) const
    {
        const T *const from = job.weights + graph * job.stride + y * job.row_stride + x;
        if (job.in_words) {
            if (y < n && x < job.n) {
#pragma unroll
                for (int e = 0; e < 4; e += kPerWord<T>) {
                    unpack<T>(__ldcs(reinterpret_cast<const Word<T> *>(from + e)), word + e);
                }
            }
            return;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (y < n && x + e < n) {
                word[e] = from[e];
            }
        }
    }

    __device__ __forceinline__ Entered<T> enter() const
    {
        Entered<T> found = {0, false, job.rounded};
#pragma unroll 1
        for (int i = first_row(); i < part.rows * kSide; i += kRowStep) {
            T word[kMost][4] = {};
#pragma unroll
            for (int j = 0; j < kMost; ++j) {
                if (j < part.cols) {
                    fetch(row_of(i), col_of(j), word[j]);
                }
            }
#pragma unroll
            for (int j = 0; j < kMost; ++j) {
                if (j < part.cols) {
                    enter_four<kLooksForHidden<T, kPred>>(job, n, row_of(i), col_of(j), word[j],
                                                          &found);
                    store_four(part.matrix + place(i, j), word[j][0], word[j][1], word[j][2],
                               word[j][3]);
                    if constexpr (kPred) {
                        int32_t from[4];
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            from[e] = word[j][e] < far_of<T>() ? row_of(i) : GD_NO_PREDECESSOR;
                        }
                        store_four(part.before + place(i, j), from[0], from[1], from[2], from[3]);
                    }
                }
            }
        }
        return found;
    }

    template <typename U>
    __device__ __forceinline__ void put(U *all, int y, int x, const U (&word)[4]) const
    {
        U *const to = all + (graph * job.n + y) * job.n + x;
        if (job.out_words && y < job.n && x < job.n) {
#pragma unroll
            for (int e = 0; e < 4; e += kPerWord<U>) {
                stream_word(to + e, word + e);
            }
        }
        else if (!job.out_words) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (y < job.n && x + e < job.n) {
                    to[e] = word[e];
                }
            }
        }
    }

    /* Returns the shortest way from a node back to itself. */
    __device__ __forceinline__ T leave() const
    {
        T least = far_of<T>();
#pragma unroll 1
        for (int i = first_row(); i < part.rows * kSide; i += kRowStep) {
            const int y = row_of(i);
            for (int j = 0; j < part.cols; ++j) {
                const int x = col_of(j);
                T word[4];
                int32_t from[4];
                load_four(part.matrix + place(i, j), word);
                if constexpr (kPred) {
                    load_four(part.before + place(i, j), from);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const bool loop = y == x + e && y < n;
                    least = loop ? min(least, word[e]) : least;
                    if constexpr (kPred) {
                        const bool path = word[e] < no_path_of<T>() && !loop;
                        from[e] = path ? from[e] : GD_NO_PREDECESSOR;
                    }
                    word[e] = loop ? (T)0 : left_as(job, word[e]);
                }
                put(job.out, y, x, word);
                if constexpr (kPred) {
                    put(job.pred, y, x, from);
                }
            }
        }
        return least;
    }
};

/* What a block knows of its part's weights, at its first thread; all threads call it. kLooks: how
 * large they are, too. */
template <bool kLooks, int kThreads, typename T>
__device__ __forceinline__ Facts<T> facts_of(const Entered<T> &found)
{
    __shared__ T largest[kThreads / 32];
    Facts<T> facts = {};
    if constexpr (kLooks) {
        T most = found.most;
        for (int offset = 16; offset > 0; offset /= 2) {
            most = max(most, __shfl_xor_sync(~0u, most, offset));
        }
        if (threadIdx.x % 32 == 0) {
            largest[threadIdx.x / 32] = most;
        }
        facts.fractional = __syncthreads_or((int)found.fractional) != 0;
        for (int warp = 0; warp < kThreads / 32; ++warp) {
            facts.max_abs = max(facts.max_abs, bits_of(largest[warp]));
        }
    }
    facts.negative = __syncthreads_or((int)found.negative) != 0;
    return facts;
}

/* Closes a part that is in shared memory. In one function with the loop for other weights it would
 * not have the registers it needs. What a job says is asked for in every round: of the kernel's
 * parameters it would come through the first cache, which is emptied while blocks wait for others.
 */
template <typename Ring, bool kPred, int kThreads, bool kTagsApart = false>
__device__ __noinline__ void close_apart(const resident::Job<typename Ring::Word> &team,
                                         resident::Place at)
{
    extern __shared__ int4 memory[];
    __shared__ resident::Job<typename Ring::Word> near;
    if (threadIdx.x == 0) {
        near = team;
    }
    __syncthreads();
    const resident::Part<typename Ring::Word, kPred> part(near, at, memory);
    resident::Resident<Ring, kPred, kThreads, false, kTagsApart>(part).close();
}

/* A block's part of a graph, from its weights to its lengths. Which loop the weights allow the
 * blocks tell each other once they have read them: meeting.has_negative(), and what all know of the
 * weights is meeting.facts(). */
template <typename Ring, bool kPred, int kThreads, bool kTagsApart, typename Meeting>
__device__ __forceinline__ void close_graph(const Graphs<typename Ring::Word> &job, ptrdiff_t graph,
                                            const resident::Job<typename Ring::Word> &team,
                                            const resident::Place &at, void *memory,
                                            Meeting &&meeting)
{
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    constexpr bool kLooks = kLooksForHidden<T, kPred>, kWhole = std::is_same<T, int32_t>::value;
    const resident::Part<T, kPred> part(team, at, memory);
    const int n = job.sizes != NULL ? job.sizes[graph] : job.n;
    const TeamGraph<T, kPred, kThreads> mine = {job, graph, n, part};
    const Entered<T> found = mine.enter();
    bool alone = kWhole && (double)found.most * max(n - 1, 1) >= GD_I32_WEIGHT_LIMIT;
    const Facts<T> own = facts_of<kLooks, kThreads>(found);
    const bool careful = meeting.has_negative(own) || job.flip;
    if (std::is_same<Quick, Ring>::value || !careful) { /* not apart: see NOTES.md */
        resident::Resident<Quick, kPred, kThreads, false, kTagsApart>(part).close();
    }
    else if constexpr (!std::is_same<Quick, Ring>::value) {
        close_apart<Ring, kPred, kThreads, kTagsApart>(team, at);
    }
    const T loop = mine.leave();
    alone |= loop < 0;
    if (kLooks && job.directed && careful && loop < far_of<T>()) {
        alone |= rounding_may_hide(loop, n, meeting.facts());
    }
    if (alone) {
        job.doubts[graph] = 1;
        *job.doubted = 1;
    }
}

}  // namespace gd
#endif
