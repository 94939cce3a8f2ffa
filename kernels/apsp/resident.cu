/* resident.cu: shortest paths of some 2000 nodes at most, in one launch, the matrix in shared
 * memory.
 *
 * Idea: with few nodes blocked Floyd-Warshall (blocked.cu) waits for its chain: close the pivot
 * tile, then the pivots' rows and columns through it, then update the next pivot tile. Each link is
 * a launch there. Here blocks stay, one a multiprocessor, and keep their part of the matrix in
 * shared memory for all rounds; a round's panels are all that they tell each other, through L2.
 * - Tiles are dealt out in turn, so that each round has other blocks in the chain.
 * - Whoever holds a part of the next pivots' rows or columns updates that part first, closes the
 *   next pivot tile by itself (all of them do, with the same bits), closes its part, and hands the
 *   panels on before it updates the rest. So there is one hand-over a round. The tile comes from
 *   its owner one round old, and is brought up to date where it is closed.
 * - Lines of a panel are closed by a thread each, from registers, without a barrier.
 * - The panels at the next pivots, which the chain waits for, come sealed, word by word, and are
 *   there when they are written. The others follow a flag: first the block that sends them waits
 *   until all that it has written is written, then who takes them looks at the flag, then at them.
 * - Which ring the weights allow is looked up here, where reading found it, and the nodes on
 *   negative cycles are written to the host's memory: the host enqueues all and waits once.
 * - Predecessors lie beside the matrix, and their tags go with the pivots' rows. They take as much
 *   room again, so that they end at 1280 nodes; float64 ends at 1024, and has none. For both
 *   the host waits for what is known of the weights first, as rounding may hide negative cycles.
 * What a block does is in resident_block.cuh and resident_chain.cuh.
 *
 * Snapshots, the order of pairs and the bits of the result are blocked.cu's.
 *
 * Cost: n^3 updates are the floor for large n only, 0.05 ms for n = 1024 and 0.39 for 2048 at the
 * bound of the instructions (semiring/rings.cuh). Below some 1500 nodes it is the chain, 6 us a
 * round (resident_chain.cuh).
 *
 * Launch: a cooperative grid of up to 16 x 8 blocks of 256 threads, as many as there are
 * multiprocessors or fewer.
 *
 * Reached on an H200, whole calls on arrays there, float32: n = 256 0.080 ms, 512 0.130, 1024
 * 0.225 (4.8e12 updates/s; 0.200 in this kernel), 1536 0.508, 2048 0.818 (10.5e12), where lines
 * that were closed to their ends, flags alone, and a host that waited three times took 0.101,
 * 0.157, 0.284, 0.555 and 0.865; n = 1024 and 2048 with negative weights 0.244 and 0.957, int32
 * 0.210 and 0.834. On another day n = 256 0.095, 512 0.140, 1024 0.239; with predecessors
 * 0.162, 0.247, 0.425 and for n = 1280 0.666, where blocked.cu took 0.233, 0.419 and 0.885 for the
 * first three; float64 n = 1024 0.561, where that took 1.03. */
#include <string.h>

#include <type_traits>

#include "apsp/found.cuh"
#include "apsp/resident.cuh"
#include "apsp/resident_block.cuh"

namespace {

using namespace gd::resident;
using gd::Plus;
using gd::PlusUnsigned;

constexpr const char *kId = "apsp/cuda_blocked";
constexpr int kThreads = 256;
constexpr ptrdiff_t kPadding = 64; /* of rows in device memory, which start on 64 bytes */
static_assert(kMostTiles * kSide <= gd::kMostTold, "a page has room for all nodes");

template <typename Ring, bool kPred>
__device__ __forceinline__ void close_all(const Job<typename Ring::Word> &job, void *memory)
{
    Resident<Ring, kPred, kThreads> block(
        Part<typename Ring::Word, kPred>(job, {(int)blockIdx.x, 0}, memory));
    block.template move<false>();
    __syncthreads();
    block.close();
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
        close_all<AnyRing, kPred>(job, memory);
    }
    else {
        close_all<Ring, kPred>(job, memory);
    }
}

template <typename T>
Job<T> plan(const gd_apsp &call, void *workspace, size_t *bytes)
{
    Job<T> job = {};
    job.dist = static_cast<T *>(call.dist);
    job.pred = call.pred;
    job.padded = call.padded;
    job.tiles = (int)gd::ceil_div(call.n, kSide);
    while (2 << job.log_down <= min(job.tiles, kDown)) {
        ++job.log_down;
    }
    while (2 << job.log_across <= min(job.tiles, kAcross)) {
        ++job.log_across;
    }
    job.most_rows = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_down);
    job.most_cols = (int)gd::ceil_div(job.tiles, (ptrdiff_t)1 << job.log_across);
    *bytes = lay_out(job, workspace, call.pred != NULL);
    return job;
}

template <typename Ring, typename AnyRing, bool kPred>
gd_status run(const gd_apsp &call, gd_error *err)
{
    using T = typename Ring::Word;
    constexpr auto kernel = close_resident<Ring, AnyRing, kPred>;
    size_t bytes;
    Job<T> job = plan<T>(call, call.launch.workspace, &bytes);
    const size_t shared = shared_bytes<T>(job.most_rows, job.most_cols, kPred);
    job.negative = gd::page_of(call)->negative;
    memset(job.negative, 0, sizeof gd::Page::negative);
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kTogether>(call.launch, kernel,
                                                  (ptrdiff_t)1 << (job.log_down + job.log_across),
                                                  kThreads, shared, job, gd::found_of(call)));
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

/* What a block has beside its static memory. */
size_t most_shared(int device)
{
    int bytes = 0;
    return cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
                   cudaSuccess
               ? (size_t)bytes
               : 0;
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
    const int device = call.launch.device.index;
    const bool tagged = call.pred != NULL;
    size_t bytes;
    if (call.n > kMostTiles * kSide || (call.dtype == GD_F64 && tagged) ||
        resident_blocks(device) < kDown * kAcross) {
        return false;
    }
    const Job<float> job = plan<float>(call, NULL, &bytes);
    const size_t needed = call.dtype == GD_F64
                              ? shared_bytes<double>(job.most_rows, job.most_cols, false)
                              : shared_bytes<float>(job.most_rows, job.most_cols, tagged);
    return needed <= most_shared(device);
}

gd_status close_in_one_launch(gd_apsp &call, gd_error *err)
{
    const bool tagged = call.pred != NULL;
    if (call.launch.sizing) {
        call.padded = ceil_div(call.n, kPadding) * kPadding;
        const bool twice = call.dtype == GD_F64;
        call.zeros = twice ? zeroed_bytes<double>(tagged) : zeroed_bytes<float>(tagged);
        /* What rounding may hide in float64 and with predecessors the host judges by the weights.
         */
        call.looks = call.dtype == GD_F32 && !tagged;
        call.tells = !twice; /* whole numbers may have been closed as doubles, and be too long */
        size_t *const bytes = &call.launch.workspace_bytes;
        (void)(twice ? plan<double>(call, NULL, bytes).tiles
                     : plan<float>(call, NULL, bytes).tiles);
        return GD_OK;
    }
    if (call.dtype == GD_F64) {
        return run<Plus<double>, Plus<double>, false>(call, err);
    }
    return tagged ? run_any<true>(call, err) : run_any<false>(call, err);
}

}  // namespace gd
