/* batch_run.cuh: which kernel closes graphs of so many nodes, how many blocks take part, and what
 * memory they share. A file for each dtype includes this: they compile side by side. */
#ifndef GPUDIST_APSP_BATCH_RUN_CUH
#define GPUDIST_APSP_BATCH_RUN_CUH

#include "apsp/batch_parts.cuh"
#include "apsp/batch_teams.cuh"
#include "apsp/queue.cuh"

namespace gd {

constexpr const char *kBatchId = "apsp_batch/cuda_tiles";

/* The most that the lines of the graphs in a queue may take. Those after them wait their turn. */
constexpr size_t kMostLineBytes = (size_t)256 << 20;

/* Elements of a thread, and how many blocks a multiprocessor holds by its registers. A thread has
 * 128 of them where blocks are as many as here, with predecessors or doubles 168 or 255. */
template <typename T, bool kPred>
struct Tiling {
    static constexpr int kN = sizeof(T) == 8 || kPred ? 4 : 8;
    static constexpr int kSmallTeams = 4; /* of up to 32 nodes, a block */
    static constexpr int kWarpsDeep = sizeof(T) == 8 && kPred ? 3 : 4; /* of 128 threads */
    static constexpr int kSmallBlocks = kN == 4 ? kWarpsDeep : 8;
    static constexpr bool kHolds128 = sizeof(T) == 4;
    static constexpr int kSide = sizeof(T) == 4 ? 128 : 64; /* of a queue's tile */
    static constexpr int kSideN = sizeof(T) == 4 ? 8 : 4;
    static constexpr int k64Blocks = sizeof(T) == 8 ? kWarpsDeep : kPred ? 4 : 8;
    static constexpr int kSideBlocks = sizeof(T) == 8 ? kWarpsDeep : kPred ? 1 : 2;
};

template <typename T>
struct QueuePlan {
    Queue<T> queue;
    ptrdiff_t count;     /* graphs at a time */
    size_t bytes, zeros; /* of all, and of what has to be zero first */
};

template <typename T>
QueuePlan<T> plan_queue(const Graphs<T> &job, int side, void *workspace)
{
    QueuePlan<T> plan = {};
    Queue<T> &queue = plan.queue;
    const ptrdiff_t tiles = ceil_div(job.n, (ptrdiff_t)side);
    const size_t panel = (size_t)side * (size_t)side;
    const size_t words = 2 * sizeof(T) + (job.pred != NULL ? sizeof(int32_t) : 0);
    const size_t each = (size_t)tiles * panel * words;
    const ptrdiff_t most =
        (ptrdiff_t)(kMostLineBytes / each) > 1 ? (ptrdiff_t)(kMostLineBytes / each) : 1;
    plan.count = job.count < most ? job.count : most;
    const size_t count = (size_t)plan.count;
    queue.tiles = (int)tiles;
    queue.facts = reinterpret_cast<Facts<T> *>(static_cast<char *>(workspace) + 256);
    queue.next = static_cast<unsigned *>(workspace);
    queue.done = reinterpret_cast<unsigned *>(queue.facts + count);
    queue.signs = queue.done + count;
    plan.zeros = 256 + count * (sizeof(Facts<T>) + (1 + 2 * (size_t)tiles) * sizeof(unsigned));
    plan.zeros = (plan.zeros + 255) / 256 * 256;
    queue.lines = reinterpret_cast<T *>(static_cast<char *>(workspace) + plan.zeros);
    queue.tags = reinterpret_cast<int32_t *>(queue.lines + 2 * count * (size_t)tiles * panel);
    plan.bytes = plan.zeros + count * each;
    return plan;
}

template <typename Ring, bool kPred>
gd_status close_queued(const gd_launch &launch, const Graphs<typename Ring::Word> &job,
                       gd_error *err)
{
    using T = typename Ring::Word;
    using How = Tiling<T, kPred>;
    constexpr int kSide = How::kSide;
    constexpr auto kernel = close_by_tiles<Ring, kSide, 8, How::kN, How::kSideBlocks, kPred>;
    using All = Tiles<Ring, kSide, 8, How::kN, kPred>;
    static_assert(sizeof(typename All::template SharedOf<false>) <= 64 << 10, "7.5 has no more");
    const size_t shared = job.roomy ? sizeof(typename All::template SharedOf<true>)
                                    : sizeof(typename All::template SharedOf<false>);
    QueuePlan<T> plan = plan_queue(job, kSide, launch.workspace);
    int multiprocessors;
    GD_CUDA_TRY(err, kBatchId,
                cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
                                       launch.device.index));
    for (ptrdiff_t first = 0; first < job.count; first += plan.count) {
        Queue<T> queue = plan.queue;
        queue.first = first;
        queue.count = (unsigned)min(plan.count, job.count - first);
        const ptrdiff_t tasks = (ptrdiff_t)queue.tiles * queue.tiles * (ptrdiff_t)queue.count;
        GD_CUDA_TRY(err, kBatchId,
                    cudaMemsetAsync(launch.workspace, 0, plan.zeros, (cudaStream_t)launch.stream));
        GD_CUDA_TRY(
            err, kBatchId,
            enqueue(launch, kernel, min(tasks, (ptrdiff_t)multiprocessors * How::kSideBlocks),
                    All::Shape::kThreads, shared, job, queue));
        const gd_status status =
            gd_pass(&launch, (double)(first + queue.count) / (double)job.count, err);
        if (status != GD_OK) {
            return status;
        }
    }
    return GD_OK;
}

/* Teams of as few blocks as hold a graph, or of more where there are blocks for all graphs. */
template <typename T>
struct TeamPlan {
    Teams<T> teams;
    size_t bytes, facts, shared; /* of all, of what is known of graphs, and of a block */
};

/* Doubles the blocks of a team along the side where that is shorter; false if neither can be. */
template <typename T>
bool grow_team(resident::Job<T> *team)
{
    const auto grows = [&](int log, int most) {
        return 1 << log < most && 2 << log <= team->tiles;
    };
    const bool across = grows(team->log_across, resident::kAcross);
    const bool down =
        grows(team->log_down, resident::kDown) && (team->log_down <= team->log_across || !across);
    if (down || across) {
        ++(down ? team->log_down : team->log_across);
    }
    return down || across;
}

template <typename T>
TeamPlan<T> plan_teams(const Graphs<T> &job, void *workspace)
{
    TeamPlan<T> plan = {};
    resident::Job<T> &team = plan.teams.first;
    const bool tagged = job.pred != NULL;
    const auto measure = [&] {
        team.most_rows = (int)ceil_div(team.tiles, (ptrdiff_t)1 << team.log_down);
        team.most_cols = (int)ceil_div(team.tiles, (ptrdiff_t)1 << team.log_across);
        plan.shared = resident::shared_bytes<T>(team.most_rows, team.most_cols, tagged);
        return team.most_rows <= resident::kMostRows && team.most_cols <= resident::kMostCols &&
               plan.shared <=
                   resident::shared_bytes<float>(resident::kMostRows, resident::kMostCols, false);
    };
    team.tiles = (int)ceil_div(job.n, (ptrdiff_t)resident::kSide);
    while (!measure() && grow_team(&team)) {
    }
    const auto log_blocks = [&] { return team.log_down + team.log_across; };
    while (measure() && job.count << (log_blocks() + 1) <= job.together && grow_team(&team)) {
    }
    plan.teams.log_blocks = log_blocks();
    plan.teams.count =
        measure() ? (unsigned)min(job.count, (ptrdiff_t)job.together >> log_blocks()) : 0;
    plan.facts = tagged ? ((size_t)job.count * sizeof(Facts<T>) + 255) / 256 * 256 : 0;
    plan.teams.facts = static_cast<Facts<T> *>(workspace);
    const size_t each =
        resident::lay_out(team, static_cast<char *>(workspace) + plan.facts, tagged);
    plan.teams.apart = (each + 255) / 256 * 256;
    plan.bytes = plan.facts + plan.teams.count * plan.teams.apart;
    return plan;
}

/* Whether teams close these graphs sooner than a queue. */
template <typename T>
bool teams_pay(const Graphs<T> &job)
{
    return sizeof(T) == 4 &&
           job.count <= (ptrdiff_t)plan_teams(job, NULL).teams.count * job.most_turns;
}

template <typename Ring, bool kPred>
gd_status close_teamed(const gd_launch &launch, const Graphs<typename Ring::Word> &job,
                       gd_error *err)
{
    using T = typename Ring::Word;
    const TeamPlan<T> plan = plan_teams(job, launch.workspace);
    const cudaStream_t stream = (cudaStream_t)launch.stream;
    GD_CUDA_TRY(err, kBatchId, cudaMemsetAsync(launch.workspace, 0, plan.facts, stream));
    GD_CUDA_TRY(err, kBatchId,
                cudaMemset2DAsync(plan.teams.first.flags, plan.teams.apart, 0,
                                  sizeof(resident::Flags), plan.teams.count, stream));
    GD_CUDA_TRY(err, kBatchId,
                enqueue<Start::kTogether>(launch, close_by_teams<Ring, kPred>,
                                          (ptrdiff_t)plan.teams.count << plan.teams.log_blocks,
                                          kTeamThreads<kPred>, plan.shared, job, plan.teams));
    return GD_OK;
}

/* Whether these graphs may be closed by clusters of blocks. */
template <typename T>
bool may_be_split(const Graphs<T> &job)
{
    return !kMayNotFollow && job.roomy && sizeof(T) == 4 && job.pred == NULL;
}

/* Whether pairs of blocks close these graphs sooner than teams or a queue (NOTES.md). With fewer
 * graphs teams have four blocks each; of up to 160 nodes one block holds a graph by itself. */
template <typename T>
bool halves_pay(const Graphs<T> &job)
{
    const ptrdiff_t a_turn = job.together / Halves::kParts;
    return may_be_split(job) && job.n > Halves::kRows && job.n <= Halves::kNodes &&
           job.count > a_turn / 2 && job.count <= a_turn * (job.n > 160 ? 3 : 1);
}

/* Whether four blocks close each of these graphs sooner than one: where all of them are there. */
template <typename T>
bool quarters_pay(const Graphs<T> &job)
{
    return may_be_split(job) && job.n > Quarters::kNodes / 2 && job.n <= Quarters::kNodes &&
           job.count <= job.together / Quarters::kParts;
}

template <typename Ring, typename How>
gd_status close_split(const gd_launch &launch, const Graphs<typename Ring::Word> &job,
                      gd_error *err)
{
    GD_CUDA_TRY(err, kBatchId,
                enqueue(launch, close_by_parts<Ring, How>, How::kParts * job.count, How::kThreads,
                        sizeof(PartShared<typename Ring::Word, How>), job));
    return GD_OK;
}

template <typename Ring, int kSide, int kN, int kTeams, int kBlocks, bool kPred>
gd_status close_held(const gd_launch &launch, const Graphs<typename Ring::Word> &job, gd_error *err)
{
    using Shape = HeldShape<typename Ring::Word, kSide, 8, kN>;
    GD_CUDA_TRY(err, kBatchId,
                enqueue(launch, close_graphs<Ring, kSide, 8, kN, kTeams, kBlocks, kPred>,
                        ceil_div(job.count, (ptrdiff_t)kTeams), Shape::kThreads * kTeams, 0, job));
    return GD_OK;
}

template <typename Ring, bool kPred>
gd_status close_all(const gd_launch &launch, const Graphs<typename Ring::Word> &job, gd_error *err)
{
    using T = typename Ring::Word;
    using How = Tiling<T, kPred>;
    if (job.n <= 32) {
        return close_held<Ring, 32, How::kN, How::kSmallTeams, How::kSmallBlocks, kPred>(launch,
                                                                                         job, err);
    }
    if (job.n <= 64) {
        return close_held<Ring, 64, How::kSideN, 1, How::k64Blocks, kPred>(launch, job, err);
    }
    if constexpr (sizeof(T) == 4 && !kPred) {
        if (quarters_pay(job)) {
            return close_split<Ring, Quarters>(launch, job, err);
        }
    }
    if constexpr (How::kHolds128) {
        if (job.n <= 128) {
            return close_held<Ring, 128, 8, 1, kPred ? 1 : 2, kPred>(launch, job, err);
        }
    }
    if constexpr (sizeof(T) == 4 && !kPred) {
        if (halves_pay(job)) {
            return close_split<Ring, Halves>(launch, job, err);
        }
    }
    if constexpr (sizeof(T) == 4) {
        if (teams_pay(job)) {
            return close_teamed<Ring, kPred>(launch, job, err);
        }
    }
    return close_queued<Ring, kPred>(launch, job, err);
}

/* The bytes that graphs of so many nodes need beside their results. */
template <typename T>
size_t workspace_of(const Graphs<T> &job)
{
    const int side = Tiling<T, false>::kSide;
    const bool held =
        job.n <= 64 || (Tiling<T, false>::kHolds128 && job.n <= 128) || halves_pay(job);
    return held             ? 0
           : teams_pay(job) ? plan_teams(job, NULL).bytes
                            : plan_queue(job, side, NULL).bytes;
}

template <typename Ring>
gd_status close_batch_of(const gd_launch &launch, const Graphs<typename Ring::Word> &job,
                         gd_error *err)
{
    return job.pred != NULL ? close_all<Ring, true>(launch, job, err)
                            : close_all<Ring, false>(launch, job, err);
}

}  // namespace gd
#endif
