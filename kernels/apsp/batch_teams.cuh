/* batch_teams.cuh: graphs that a few blocks hold together in shared memory, as resident.cu holds
 * one.
 *
 * Idea: tiles of a queue (queue.cuh) wait for six others, one after the other, so that few graphs
 * leave most of a device idle. Here a team of blocks has a graph from its weights to its lengths:
 * the blocks of resident.cu, with 32 pivots a round and one hand-over of panels. A team takes one
 * graph after the other. Which loop the weights allow its blocks tell each other once they have
 * read them.
 *
 * Cost: with few blocks a team all of them close lines in every round, one after the other with the
 * rest of the tiles: for 256 nodes and two blocks, 32 pivots take some 35 000 clocks, where the
 * updates are 12 000.
 *
 * Launch: as many teams of 1, 2, 4, ... blocks of 512 threads as the device starts together, a
 * block a multiprocessor.
 *
 * Reached on an H200, the kernel alone, float32: 16 x 256 nodes 0.082 ms, 16 x 512 0.270, 4 x 1024
 * 0.452; with predecessors 16 x 256 0.160, 66 x 192 0.258. From how many graphs on pairs of blocks
 * or a queue are quicker: NOTES.md. */
#ifndef GPUDIST_APSP_BATCH_TEAMS_CUH
#define GPUDIST_APSP_BATCH_TEAMS_CUH

#include "apsp/batch.cuh"
#include "apsp/resident_block.cuh"

namespace gd {

/* Of a block. All blocks of a team are in the chain of pivots in most rounds, so that it takes more
 * warps than resident.cu to keep a multiprocessor busy. */
constexpr int kTeamThreads = 512;

/* Teams are alike; `first` is the job of the first one, which has the memory before the second. */
template <typename T>
struct Teams {
    resident::Job<T> first;
    size_t apart; /* bytes from team to team */
    int log_blocks;
    unsigned count;
    Facts<T> *facts; /* of each graph, zero at first; with predecessors alone */
};

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

/* A block's part of a graph on its way in and out. Lanes are four rows of a tile, eight words each.
 */
template <typename T, bool kPred>
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
    static constexpr int kRowStep = kTeamThreads / 32 * 4;
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
                unpack<T>(__ldcs(reinterpret_cast<const Word<T> *>(from)), word);
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
                    store_word(part.matrix + place(i, j), word[j]);
                    if constexpr (kPred) {
                        int32_t from[4];
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            from[e] = word[j][e] < far_of<T>() ? row_of(i) : GD_NO_PREDECESSOR;
                        }
                        store_word(part.before + place(i, j), from);
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
            stream_word(to, word);
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
                load_word(part.matrix + place(i, j), word);
                if constexpr (kPred) {
                    load_word(part.before + place(i, j), from);
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

/* What is known of all weights of a graph is the most of what its blocks know. */
template <typename T>
__device__ __forceinline__ void note_entered(const Entered<T> &found, Facts<T> *facts)
{
    T most = found.most;
    for (int offset = 16; offset > 0; offset /= 2) {
        most = max(most, __shfl_xor_sync(~0u, most, offset));
    }
    const bool fractional = __any_sync(~0u, found.fractional);
    if (threadIdx.x % 32 == 0) {
        atomicMax(&facts->max_abs, bits_of(most));
        if (fractional) {
            *static_cast<volatile unsigned *>(&facts->fractional) = 1;
        }
    }
}

/* Whether a block of the team has found a negative weight, of which there were *before so far. */
template <typename T>
__device__ __forceinline__ bool team_has(bool negative, const resident::Job<T> &team, int turn,
                                         unsigned *before)
{
    __shared__ unsigned found;
    negative = __syncthreads_or((int)negative) != 0;
    if (threadIdx.x == 0) {
        const unsigned blocks = 1u << (team.log_down + team.log_across);
        if (negative) {
            add_relaxed(&team.flags->negative, 1);
        }
        add_release(&team.flags->met);
        resident::await(&team.flags->met, blocks * ((unsigned)turn + 1));
        found = load_acquire(&team.flags->negative);
    }
    __syncthreads();
    const bool some = found != *before;
    *before = found;
    return some;
}

/* Closes a part with predecessors over any weights. In one function with the quicker loop, neither
 * would have the registers it needs. */
template <typename Ring>
__device__ __noinline__ void close_apart(const resident::Job<typename Ring::Word> &team,
                                         resident::Place at)
{
    extern __shared__ int4 memory[];
    const resident::Part<typename Ring::Word, true> part(team, at, memory);
    resident::Resident<Ring, true, kTeamThreads>(part).close();
}

template <typename Ring, bool kPred>
__global__ void __launch_bounds__(kTeamThreads, 1)
    close_by_teams(const __grid_constant__ Graphs<typename Ring::Word> job,
                   const __grid_constant__ Teams<typename Ring::Word> teams)
{
    using T = typename Ring::Word;
    using Quick = typename QuickOf<Ring>::Type;
    constexpr bool kLooks = kLooksForHidden<T, kPred>, kWhole = std::is_same<T, int32_t>::value;
    extern __shared__ int4 memory[];
    __shared__ resident::Job<T> team;
    const unsigned number = blockIdx.x >> teams.log_blocks;
    const int block = (int)(blockIdx.x & ((1u << teams.log_blocks) - 1));
    if (threadIdx.x == 0) {
        team = teams.first;
        resident::lay_out(team, reinterpret_cast<char *>(teams.first.flags) + number * teams.apart,
                          kPred);
    }
    __syncthreads();
    unsigned negatives = 0;
    int turn = 0;
    for (ptrdiff_t graph = number; graph < job.count; graph += teams.count, ++turn) {
        const resident::Part<T, kPred> part(team, {block, turn}, memory);
        const int n = job.sizes != NULL ? job.sizes[graph] : job.n;
        const TeamGraph<T, kPred> mine = {job, graph, n, part};
        const Entered<T> found = mine.enter();
        bool alone = kWhole && (double)found.most * max(n - 1, 1) >= GD_I32_WEIGHT_LIMIT;
        if (kLooks && job.directed) {
            note_entered(found, teams.facts + graph);
        }
        const bool careful = team_has(found.negative, team, turn, &negatives) || job.flip;
        if (std::is_same<Quick, Ring>::value || !careful) {
            resident::Resident<Quick, kPred, kTeamThreads>(part).close();
        }
        else if constexpr (kPred) {
            close_apart<Ring>(team, {block, turn});
        }
        else {
            resident::Resident<Ring, kPred, kTeamThreads>(part).close();
        }
        const T loop = mine.leave();
        alone |= loop < 0;
        if (kLooks && job.directed && careful) {
            alone |= rounding_may_hide(loop, n, teams.facts[graph]);
        }
        if (alone) {
            job.doubts[graph] = 1;
            *job.doubted = 1;
        }
        __syncthreads(); /* the part has left */
    }
}

}  // namespace gd
#endif
