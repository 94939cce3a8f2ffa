/* resident.cu: shortest paths of some 2000 nodes at most, in one launch, the matrix in shared
 * memory.
 *
 * Idea: with few nodes blocked Floyd-Warshall (blocked.cu) waits for its chain: close the pivot
 * tile, then the pivots' rows and columns through it, then update the next pivot tile. Each link is
 * a launch there. Here blocks stay, one a multiprocessor, and keep their part of the matrix in
 * shared memory for all rounds; a round's panels are all that they tell each other, through L2.
 * - Tiles are dealt out in turn, so that each round has other blocks in the chain.
 * - Whoever holds a part of the next pivots' rows or columns closes the next pivot tile by itself
 *   (all of them do, with the same bits), with half of its warps, while the others bring that part
 *   up to date and close its lines behind them, and hand the panels on before they update the rest.
 *   So there is one hand-over a round. The tile comes from its owner one round old, and is brought
 *   up to date where it is closed.
 * - Lines of a panel are closed by a thread each, from registers, without a barrier.
 * - Panels come sealed, word by word, and are there when they are written: no flag follows them,
 * and nobody waits until what a block sends is written.
 * - A graph that is on the device, in the dtype of the computation, directed and with results
 * there, takes this one launch: its weights are read here, and the lengths leave as they are
 * wanted. Blocks meet once to tell each other which ring the weights allow; what has to be zero
 * before they work together is made so before they meet. One of up to 128 nodes, in four bytes and
 * without predecessors, is sooner closed by the kernels for many graphs (batch_parts.cuh,
 * batch.cuh). A graph about whose answer there is a doubt, as on a negative cycle, is marked and
 * goes the other way:
 * - All other graphs are read and written by the passes of graph.cu. Which ring the weights allow
 * is looked up here, where reading found it, and the nodes on negative cycles are written to the
 *   host's memory: the host enqueues all and waits once. With predecessors and in float64 it waits
 *   for what is known of the weights first, as rounding may hide negative cycles.
 * - Predecessors lie beside the matrix, and their tags go with the pivots' rows. They take as much
 *   room again, so that they end at 1280 nodes; float64 ends at 1024, and has none. Up to 768 nodes
 *   the tags of lines are closed by warps of their own, as the next chain waits for lengths alone.
 * What a block does is in resident_block.cuh and resident_chain.cuh.
 *
 * Snapshots, the order of pairs and the bits of the result are blocked.cu's.
 *
 * Cost: n^3 updates are the floor for large n only, 0.05 ms for n = 1024 and 0.39 for 2048 at the
 * bound of the instructions (semiring/rings.cuh). Below some 1000 nodes it is the chain, 4 us a
 * round (resident_chain.cuh).
 *
 * Launch: a cooperative grid of up to 16 x 8 blocks of 256 threads, or 384, as many as there are
 * multiprocessors or fewer.
 *
 * Reached on an H100, this kernel alone, before the chain went by runs and all panels came sealed,
 * and after: float32 n = 256 0.059 ms and 0.040, 512 0.104 and 0.075, 1024 0.199 and 0.183; with
 * predecessors 0.087 and 0.053, 0.166 and 0.106, 0.337 and 0.280; float64 0.130 and 0.075, 0.252
 * and 0.152, 0.512 and 0.456. From some 1200 nodes on it took 3 to 10 % more than before, of which
 * what the compiler spilled is a part. What is here joins the two forms that were measured. On an
 * H200, whole calls before that: n = 256 0.080 ms, 512 0.130, 1024 0.225, 1536 0.508, 2048 0.818
 * (10.5e12 updates/s); with predecessors 0.162, 0.247, 0.425 and for n = 1280 0.666, where
 * blocked.cu took 0.233, 0.419 and 0.885 for the first three; float64 n = 1024 0.561, where that
 * took 1.03. With tags apart a launch with predecessors takes on an H100, for 256 nodes 0.059 ms
 * (before 0.065), 512 0.115 (0.144), 768 0.217 (0.250); whole calls without predecessors 0.053,
 * 0.088 and 0.145, 1024 0.205. Where marks tell of predecessors (relax_marked) whole calls take for
 * 512 nodes 0.132 ms (with tags taken along 0.139), 700 0.199 (0.219), 768 0.243 (0.247). On an
 * H200 a launch from weights to lengths, of which the compiler orders the chain as it should
 * (NOTES.md), takes for 256, 512 and 1024 nodes 0.035, 0.065 and 0.171 ms, in float64 0.066, 0.135
 * and 0.373, and with predecessors for 1024 0.299 and for 1280 0.590. */
#include <cooperative_groups.h>
#include <string.h>

#include <type_traits>

#include "apsp/found.cuh"
#include "apsp/resident.cuh"
#include "apsp/resident_graph.cuh"

namespace {

using namespace gd::resident;
using gd::Plus;
using gd::PlusUnsigned;

constexpr const char *kId = "apsp/cuda_blocked";
constexpr int kThreads = 256;
constexpr ptrdiff_t kPadding = 64; /* of rows in device memory, which start on 64 bytes */
static_assert(kMostTiles * kSide <= gd::kMostTold, "a page has room for all nodes");

template <typename Ring, bool kPred, bool kApart>
__device__ __forceinline__ void close_all(const Job<typename Ring::Word> &job, void *memory)
{
    Resident<Ring, kPred, kThreads, true> block(
        Part<typename Ring::Word, kPred>(job, {(int)blockIdx.x, 0}, memory));
    block.template move<false>();
    __syncthreads();
    if constexpr (kApart) {
        gd::close_apart<Ring, kPred, kThreads>(job, {(int)blockIdx.x, 0});
    }
    else {
        block.close();
    }
    block.template move<true>();
    block.tell();
}

/* Over the quicker ring, unless the graph turned out to have weights that it does not take. */
template <typename Ring, typename AnyRing, bool kPred>
__global__ void __launch_bounds__(kThreads, 1)
    close_resident(const __grid_constant__ Job<typename Ring::Word> job, const gd::Found *found)
{
    extern __shared__ int4 memory[];
    if (!std::is_same<Ring, AnyRing>::value && found->not_negative_at != 0) {
        close_all<AnyRing, kPred, true>(job, memory);
    }
    else {
        close_all<Ring, kPred, false>(job, memory);
    }
}

/* The blocks of the grid tell each other what they know of the weights. */
template <typename T>
struct GridMeeting {
    gd::Facts<T> *const each; /* of a block */

    __device__ __forceinline__ bool has_negative(const gd::Facts<T> &own) const
    {
        static_assert(kThreads >= kDown * kAcross, "a thread looks at one block's");
        if (threadIdx.x == 0) {
            each[blockIdx.x] = own;
        }
        cooperative_groups::this_grid().sync();
        return __syncthreads_or(threadIdx.x < gridDim.x && each[threadIdx.x].negative != 0) != 0;
    }
    __device__ __forceinline__ gd::Facts<T> facts() const
    {
        gd::Facts<T> all = {};
        for (unsigned block = 0; block < gridDim.x; ++block) {
            all.max_abs = max(all.max_abs, each[block].max_abs);
            all.fractional |= each[block].fractional;
        }
        return all;
    }
};

/* Where tags have warps of their own there are four more, which have fewer registers. */
template <bool kTagsApart>
constexpr int kWholeThreads = kTagsApart ? 384 : kThreads;

/* From weights as given to lengths as they are wanted. What has to be zero before the blocks work
 * together is, once they have met. */
template <typename Ring, bool kPred, bool kTagsApart>
__global__ void __launch_bounds__(kWholeThreads<kTagsApart>, 1)
    close_whole(const __grid_constant__ gd::Graphs<typename Ring::Word> graph,
                const __grid_constant__ Job<typename Ring::Word> job,
                gd::Facts<typename Ring::Word> *each)
{
    using T = typename Ring::Word;
    constexpr int kAll = kWholeThreads<kTagsApart>;
    extern __shared__ int4 memory[];
    if (blockIdx.x == 0 && threadIdx.x < sizeof(Flags) / sizeof(unsigned)) {
        reinterpret_cast<unsigned *>(job.flags)[threadIdx.x] = 0;
    }
    clear(job, kPred, blockIdx.x * kAll + threadIdx.x, gridDim.x * kAll);
    gd::close_graph<Ring, kPred, kAll, kTagsApart>(graph, 0, job, {(int)blockIdx.x, 0}, memory,
                                                   GridMeeting<T>{each});
}

template <typename T>
Job<T> plan(ptrdiff_t n, bool tagged, void *workspace, size_t *bytes)
{
    Job<T> job = {};
    job.tiles = (int)gd::ceil_div(n, kSide);
    while (2 << job.log_down <= min(job.tiles, kDown)) {
        ++job.log_down;
    }
    while (2 << job.log_across <= min(job.tiles, kAcross)) {
        ++job.log_across;
    }
    job.most_rows = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_down);
    job.most_cols = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_across);
    *bytes = lay_out(job, workspace, tagged);
    return job;
}

template <typename T>
ptrdiff_t blocks_of(const Job<T> &job)
{
    return (ptrdiff_t)1 << (job.log_down + job.log_across);
}

template <typename Ring, typename AnyRing, bool kPred>
gd_status run(const gd_apsp &call, gd_error *err)
{
    using T = typename Ring::Word;
    constexpr auto kernel = close_resident<Ring, AnyRing, kPred>;
    size_t bytes;
    Job<T> job = plan<T>(call.n, kPred, call.launch.workspace, &bytes);
    const size_t shared = shared_bytes<T>(job.most_rows, job.most_cols, kPred);
    job.dist = static_cast<T *>(call.dist);
    job.pred = call.pred;
    job.padded = call.padded;
    job.negative = gd::page_of(call)->negative;
    memset(job.negative, 0, sizeof gd::Page::negative);
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kTogether>(call.launch, kernel, blocks_of(job), kThreads,
                                                  shared, job, gd::found_of(call)));
    return GD_OK;
}

template <bool kPred>
gd_status run_any(const gd_apsp &call, gd_error *err)
{
    if (call.dtype == GD_I32) {
        return run<Plus<int32_t>, Plus<int32_t>, kPred>(call, err);
    }
    return call.nonnegative ? run<PlusUnsigned, Plus<float>, kPred>(call, err)
                            : run<Plus<float>, Plus<float>, kPred>(call, err);
}

/* Nodes of a graph that is taken whole, without predecessors. Of more, updates bind: they go by 2 x
 * 2 tiles, for which there are no registers beside a graph's way in and out. */
constexpr ptrdiff_t kMostWhole = 1024;
/* What each block knows of a whole graph's weights lies before the rest of the workspace. */
constexpr size_t kFactsBytes = kDown * kAcross * sizeof(gd::Facts<double>);

/* Nodes up to which the kernels for many graphs close one of them sooner: up to 64 in one block
 * (batch.cuh), up to 128 in four (batch_parts.cuh), where these may be had. */
constexpr ptrdiff_t kMostApart = gd::kMayNotFollow ? 64 : 128;

bool is_for_a_batch(const gd_apsp_batch &call)
{
    return call.pitch <= kMostApart && call.dtype != GD_F64 && call.pred == NULL &&
           gd::is_roomy(call.launch.device.index);
}

/* Rows of the graph need not follow each other. */
template <typename T>
gd::Graphs<T> describe_whole(const gd_apsp_batch &call)
{
    gd::Graphs<T> graph = gd::describe<T>(call);
    graph.row_stride = call.graph.weights.row_stride;
    gd::look_for_words(&graph);
    return graph;
}

template <typename Ring, bool kPred, bool kTagsApart = false>
gd_status run_whole(const gd_apsp_batch &call, gd_error *err)
{
    using T = typename Ring::Word;
    char *const workspace = static_cast<char *>(call.launch.workspace);
    size_t bytes;
    const Job<T> job = plan<T>(call.pitch, kPred, workspace + kFactsBytes, &bytes);
    const gd::Graphs<T> graph = describe_whole<T>(call);
    constexpr auto kernel = close_whole<Ring, kPred, kTagsApart>;
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kTogether>(
                    call.launch, kernel, blocks_of(job), kWholeThreads<kTagsApart>,
                    shared_bytes<T>(job.most_rows, job.most_cols, kPred), graph, job,
                    reinterpret_cast<gd::Facts<T> *>(workspace)));
    return GD_OK;
}

/* Nodes up to which tags have warps of their own. Of more, a block has more lines than such warps
 * (NOTES.md). */
constexpr ptrdiff_t kMostTagsApart = 768;

template <typename Ring>
gd_status run_whole_tagged(const gd_apsp_batch &call, gd_error *err)
{
    return call.pitch <= kMostTagsApart ? run_whole<Ring, true, true>(call, err)
                                        : run_whole<Ring, true>(call, err);
}

/* What a block has beside its static memory. */
size_t most_shared(int device)
{
    int bytes = 0;
    return cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                   cudaSuccess
               ? (size_t)bytes
               : 0;
}

bool fits(ptrdiff_t n, gd_dtype dtype, bool tagged, int device)
{
    size_t bytes;
    if (n > kMostTiles * kSide || (dtype == GD_F64 && tagged) ||
        gd::resident_blocks(device) < kDown * kAcross) {
        return false;
    }
    const Job<float> job = plan<float>(n, tagged, NULL, &bytes);
    const size_t needed = dtype == GD_F64
                              ? shared_bytes<double>(job.most_rows, job.most_cols, false)
                              : shared_bytes<float>(job.most_rows, job.most_cols, tagged);
    return needed <= most_shared(device);
}

}  // namespace

namespace gd {

int resident_blocks(int device)
{
    int multiprocessors = 0, together = 0;
    const bool known =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device) == cudaSuccess;
    const bool has_room = most_shared(device) >= shared_bytes<float>(kMostRows, kMostCols, false);
    return known && together && has_room ? multiprocessors : 0;
}

bool fits_resident(const gd_apsp &call)
{
    return fits(call.n, call.dtype, call.pred != NULL, call.launch.device.index);
}

gd_status close_in_one_launch(gd_apsp &call, gd_error *err)
{
    const bool tagged = call.pred != NULL;
    if (call.launch.sizing) {
        call.padded = ceil_div(call.n, kPadding) * kPadding;
        const bool twice = call.dtype == GD_F64;
        /* What rounding may hide in float64 and with predecessors the host judges by the weights.
         */
        call.looks = call.dtype == GD_F32 && !tagged;
        call.tells = !twice; /* whole numbers may have been closed as doubles, and be too long */
        (void)(twice ? plan<double>(call.n, tagged, NULL, &call.zeros).tiles
                     : plan<float>(call.n, tagged, NULL, &call.zeros).tiles);
        call.launch.workspace_bytes = call.zeros;
        return GD_OK;
    }
    if (call.dtype == GD_F64) {
        return run<Plus<double>, Plus<double>, false>(call, err);
    }
    return tagged ? run_any<true>(call, err) : run_any<false>(call, err);
}

}  // namespace gd

extern "C" gd_status gd_cuda_apsp_whole(gd_apsp_batch *call, bool *takes, gd_error *err)
{
    const bool tagged = call->pred != NULL, twice = call->dtype == GD_F64;
    const bool for_a_batch = is_for_a_batch(*call);
    if (call->launch.sizing) {
        size_t *const bytes = &call->launch.workspace_bytes;
        *bytes = 0;
        *takes = gd::is_plain(*call) && (tagged || call->pitch <= kMostWhole) &&
                 fits(call->pitch, call->dtype, tagged, call->launch.device.index);
        if (*takes && !for_a_batch) {
            (void)(twice ? plan<double>(call->pitch, tagged, NULL, bytes).tiles
                         : plan<float>(call->pitch, tagged, NULL, bytes).tiles);
            *bytes += kFactsBytes;
        }
        return GD_OK;
    }
    switch (call->dtype) {
        case GD_F32:
            return for_a_batch ? gd::close_batch(call->launch, describe_whole<float>(*call), err)
                   : tagged    ? run_whole_tagged<Plus<float>>(*call, err)
                               : run_whole<Plus<float>, false>(*call, err);
        case GD_F64:
            return run_whole<Plus<double>, false>(*call, err);
        default:
            return for_a_batch ? gd::close_batch(call->launch, describe_whole<int32_t>(*call), err)
                   : tagged    ? run_whole_tagged<Plus<int32_t>>(*call, err)
                               : run_whole<Plus<int32_t>, false>(*call, err);
    }
}
