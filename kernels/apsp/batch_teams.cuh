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
 * Launch: as many teams of 1, 2, 4, ... blocks of 256 threads as the device starts together, with
 * predecessors of 384, a block a multiprocessor.
 *
 * Reached on an H100, with what is set to zero before, float32: 16 x 256 nodes 0.071 ms, 16 x 512
 * 0.266, 4 x 1024 0.448; with predecessors 16 x 256 0.141, 66 x 192 0.251. From how many graphs on
 * pairs of blocks or a queue are quicker: NOTES.md. */
#ifndef GPUDIST_APSP_BATCH_TEAMS_CUH
#define GPUDIST_APSP_BATCH_TEAMS_CUH

#include "apsp/resident_graph.cuh"

namespace gd {

/* Of a block. All blocks of a team are in the chain of pivots in most rounds, so that more warps
 * would keep a multiprocessor busier; but they have fewer registers each (NOTES.md). */
template <bool kPred>
constexpr int kTeamThreads = kPred ? 384 : 256;

/* Teams are alike; `first` is the job of the first one, which has the memory before the second. */
template <typename T>
struct Teams {
    resident::Job<T> first;
    size_t apart; /* bytes from team to team */
    int log_blocks;
    unsigned count;
    Facts<T> *facts; /* of each graph, zero at first; with predecessors alone */
};

/* Blocks of a team tell each other what they know of a graph's weights. */
template <typename T, bool kLooks>
struct TeamMeeting {
    const resident::Job<T> &team;
    const int turn;
    unsigned &negatives; /* blocks that have found a negative weight in a graph before */
    Facts<T> *const all; /* of this graph */

    __device__ __forceinline__ bool has_negative(const Facts<T> &own) const
    {
        __shared__ unsigned found;
        if (threadIdx.x == 0) {
            const unsigned blocks = 1u << (team.log_down + team.log_across);
            if constexpr (kLooks) {
                atomicMax(&all->max_abs, own.max_abs);
                if (own.fractional != 0) {
                    *static_cast<volatile unsigned *>(&all->fractional) = 1;
                }
            }
            if (own.negative != 0) {
                add_relaxed(&team.flags->negative, 1);
            }
            add_release(&team.flags->met);
            resident::await(&team.flags->met, blocks * ((unsigned)turn + 1));
            found = load_acquire(&team.flags->negative);
        }
        __syncthreads();
        const bool some = found != negatives;
        negatives = found;
        return some;
    }
    __device__ __forceinline__ Facts<T> facts() const { return *all; }
};

template <typename Ring, bool kPred>
__global__ void __launch_bounds__(kTeamThreads<kPred>, 1)
    close_by_teams(const __grid_constant__ Graphs<typename Ring::Word> job,
                   const __grid_constant__ Teams<typename Ring::Word> teams)
{
    using T = typename Ring::Word;
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
    constexpr int kThreads = kTeamThreads<kPred>;
    resident::clear(team, kPred, (unsigned)block * kThreads + threadIdx.x,
                    kThreads << teams.log_blocks);
    unsigned negatives = 0;
    int turn = 0;
    for (ptrdiff_t graph = number; graph < job.count; graph += teams.count, ++turn) {
        close_graph<Ring, kPred, kThreads, false>(
            job, graph, team, {block, turn}, memory,
            TeamMeeting<T, kLooksForHidden<T, kPred>>{team, turn, negatives, teams.facts + graph});
        __syncthreads(); /* the part has left */
    }
}

}  // namespace gd
#endif
