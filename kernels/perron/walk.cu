/* walk.cu: what a better vector is made of (perron_ahead.c), on the device.
 *
 * There are at most 66 inner products of 11 steps, of n components each; the host solves for the
 * weights. A step is the difference of two vectors that sum to 1, so the sums come first: a block a
 * vector. Then a block has 64 components at a time, puts their steps into shared memory, and each
 * thread adds up one product. The last block adds up what the others left, in their order, and
 * writes it where the host reads it.
 *
 * All of this is enqueued right behind the rounds and writes the host's page itself, so a burst of
 * rounds costs the host one wait. Where the rounds have converged, the vector is written instead.
 *
 * Floor: 12 vectors of 8192 twice are 1.5 MB from the L2 cache, less than a microsecond; what
 * counts is how many things come one after another: two launches, two joins, one chain of 64 sums.
 * Reached on an H200: 13 us for 12 vectors of 8192, where one block for all took 43; with the
 * host's part 35 us from a burst's last round to the next one's first, where it took 118. */
#include "arch/dependent.cuh"
#include "perron/vectors.cuh"
#include "perron/write.cuh"

namespace {

constexpr int kVectors = GD_PERRON_KEPT, kSteps = kVectors - 1;
constexpr int kProducts = kSteps * (kSteps + 1) / 2;
constexpr int kAdders = 1024, kWalkers = 96, kAtOnce = 64, kMostBlocks = 64;
static_assert(kProducts <= kWalkers && kAtOnce <= kWalkers, "a thread for each");
constexpr char kId[] = "the steps of perron's vectors on the device";

/* Sums and products that walking keeps on the device. */
struct Scratch {
    double sums[kVectors];
    double products[kMostBlocks][kProducts];
    unsigned finished; /* blocks that are */
};
static_assert(sizeof(Scratch) <= GD_PERRON_WALK_BYTES, "there is room for it");

/* A block a vector; the first also tells the state, and is there if there are no vectors. */
__global__ void __launch_bounds__(kAdders)
    add_up(const __grid_constant__ gd::Vectors x, const gd_perron_state *state, Scratch *scratch,
           gd_perron_news *news)
{
    __shared__ double of_warps[kAdders / 32];
    gd::follow<true>();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        news->state = *state;
        scratch->finished = 0;
    }
    if (state->stop != GD_PERRON_GOING || x.count == 0) {
        return;
    }
    double sum = 0;
    for (ptrdiff_t i = threadIdx.x; i < x.n; i += kAdders) {
        sum += x.of[blockIdx.x][i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) { /* the lanes of each warp, then the warps */
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(~0u, sum, lanes);
        }
        if (half == 0) {
            if (threadIdx.x % 32 == 0) {
                of_warps[threadIdx.x / 32] = sum;
            }
            __syncthreads();
            sum = of_warps[threadIdx.x % 32];
        }
    }
    if (threadIdx.x == 0) {
        scratch->sums[blockIdx.x] = sum;
        news->steps.sums[blockIdx.x] = sum;
    }
}

__global__ void __launch_bounds__(kWalkers)
    walk(const __grid_constant__ gd::Vectors x, const gd_perron_state *state, Scratch *scratch,
         gd_perron_news *news, const double *vectors, ptrdiff_t padded, gd::Written written)
{
    __shared__ double steps[kSteps][kAtOnce + 1]; /* one more, so that rows begin in other banks */
    __shared__ bool last;
    gd::follow<true>();
    if (state->stop != GD_PERRON_GOING) {
        const double *const latest = vectors + state->round % GD_PERRON_KEPT * padded;
        const bool wanted = state->stop == GD_PERRON_CONVERGED && written.to != nullptr;
        for (ptrdiff_t i = (ptrdiff_t)blockIdx.x * kWalkers + threadIdx.x; wanted && i < x.n;
             i += (ptrdiff_t)gridDim.x * kWalkers) {
            written(latest, state->top, i);
        }
        return;
    }
    int j = 0; /* products j >= k in the order of a triangle's rows */
    while ((j + 1) * (j + 2) / 2 <= (int)threadIdx.x && j + 1 < kSteps) {
        ++j;
    }
    const int product = min((int)threadIdx.x, kProducts - 1), k = product - j * (j + 1) / 2;
    const double own = scratch->sums[x.count - 1];
    double sum = 0;
    for (ptrdiff_t first = (ptrdiff_t)blockIdx.x * kAtOnce; first < x.n;
         first += (ptrdiff_t)gridDim.x * kAtOnce) {
        const ptrdiff_t i = first + threadIdx.x;
        if (threadIdx.x < kAtOnce) {
            const double unit = i < x.n ? 1 / x.of[x.count - 1][i] : 0;
            double before = 0;
#pragma unroll
            for (int v = 0; v < kVectors; ++v) {
                const double now =
                    v < x.count && i < x.n ? x.of[v][i] * (own / scratch->sums[v]) : before;
                if (v > 0) {
                    steps[v - 1][threadIdx.x] = (now - before) * unit;
                }
                before = now;
            }
        }
        __syncthreads();
#pragma unroll 16
        for (int c = 0; c < kAtOnce; ++c) {
            sum = fma(steps[j][c], steps[k][c], sum);
        }
        __syncthreads();
    }
    if (threadIdx.x < kProducts) {
        scratch->products[blockIdx.x][threadIdx.x] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&scratch->finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < kProducts) {
        __threadfence();
        sum = 0;
#pragma unroll 32
        for (unsigned block = 0; block < gridDim.x; ++block) {
            sum += __ldcg(&scratch->products[block][threadIdx.x]);
        }
        news->steps.products[j][k] = sum;
    }
}

}  // namespace

extern "C" gd_status gd_cuda_perron_walk(const gd_perron *call, int count, void *scratch,
                                         const gd_matrix *out, gd_perron_news *news, gd_error *err)
{
    auto *const kept = static_cast<Scratch *>(scratch);
    const gd::Vectors x = gd::vectors_of(*call, call->until, count);
    const ptrdiff_t blocks = min(gd::ceil_div(x.n, kAtOnce), (ptrdiff_t)kMostBlocks);
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kEarly>(call->launch, add_up, max(count, 1), kAdders, 0, x,
                                               call->state, kept, news));
    if (count > 0) {
        const gd::Written written = out != NULL ? gd::written_to(*out) : gd::Written{};
        GD_CUDA_TRY(
            err, kId,
            gd::enqueue<gd::Start::kEarly>(call->launch, walk, blocks, kWalkers, 0, x, call->state,
                                           kept, news, call->vectors, call->padded, written));
    }
    return GD_OK;
}
