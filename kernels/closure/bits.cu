/* bits.cu: the transitive closure of a graph, on packed bits.
 *
 * Idea: Warshall's loop, "whoever reaches k reaches what k reaches", for 64 pivots k a round, which
 * are one word of 64 bits. First every block closes the pivots' own tile, 64 words in one warp, and
 * makes its part of the pivots' closed rows. Then every row takes in the rows of those pivots that
 * it reaches. As nothing but "or" is done, the order does not matter.
 *
 * The second step is nearly all of the work, and goes by tables: of every four pivots' rows all 16
 * unions are made once in shared memory, and then a look-up and an "or" serve four pivots
 * (Arlazarov, Dinic, Kronrod, Faradzev: On economical construction of the transitive closure of a
 * directed graph, 1970). A warp takes a row, so all its lanes look up the same union and no bank is
 * asked twice.
 *
 * Cost: a look-up is 256 bytes of shared memory for 4 pivots x 2048 columns. n = 16384 makes
 * 0.54e9 of them, 137 GB at 30 TB/s on an H200: 4.6 ms. The matrix, 32 MB, stays in L2.
 *
 * Launch: two kernels a round. `close_pivots`: 256 threads for 1024 columns. `close_rows`: 256
 * threads for 2048 columns and as many rows as give every SM three blocks; 64 KB of tables.
 *
 * Reached on an H200 with bools in and out, in ms: n = 1024 0.26, 4096 0.95, 16384 9.5, 32768
 * 51; 13.6 and 121 for the last two on graphs where half of all edges are there, so that no row is
 * skipped. Small n wait for launches; the matrix of n = 32768, 128 MB, no longer fits L2. */
#include "common/launch.cuh"

namespace {

constexpr const char *kId = "closure/cuda_bits";
constexpr int kPivots = 64, kGroup = 4, kUnions = 1 << kGroup, kGroups = kPivots / kGroup;
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kPivotWords = 32; /* of 32 bits, that a block of close_pivots takes */
constexpr int kChunkWords = 64; /* likewise close_rows: two a lane */
constexpr int kBlocksPerSm = 3;
constexpr size_t kTableBytes = (size_t)kGroups * kUnions * kChunkWords * sizeof(uint32_t);

/* What rounds hand on. Sets of pivots are those that each row reaches, as they were when the round
 * began; the rest is written for the next round while this one's is read. */
struct Round {
    gd_closure call;
    ptrdiff_t pivot;
    const unsigned long long *reached;
    unsigned long long *reached_next;
    uint32_t *closed; /* the pivots' rows */
};

__global__ void __launch_bounds__(kThreads) first_pivots(const __grid_constant__ Round round)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < round.call.rows) {
        round.reached_next[i] =
            *reinterpret_cast<const unsigned long long *>(round.call.bits + i * round.call.words);
    }
}

/* One warp; lane l holds rows l and l + 32 of the tile. */
__device__ void close_tile(unsigned long long (&set)[kPivots])
{
    const int lane = threadIdx.x;
    unsigned long long low = set[lane], high = set[lane + 32];
#pragma unroll
    for (int k = 0; k < kPivots; ++k) {
        const unsigned long long row = __shfl_sync(~0u, k < 32 ? low : high, k % 32);
        low |= low >> k & 1 ? row : 0;
        high |= high >> k & 1 ? row : 0;
    }
    set[lane] = low;
    set[lane + 32] = high;
}

__global__ void __launch_bounds__(kThreads) close_pivots(const __grid_constant__ Round round)
{
    __shared__ unsigned long long set[kPivots];
    __shared__ uint32_t rows[kPivots][kPivotWords];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const ptrdiff_t words = round.call.words, word = (ptrdiff_t)blockIdx.x * kPivotWords + lane;
    for (int k = warp; k < kPivots; k += kWarps) {
        rows[k][lane] = round.call.bits[(round.pivot + k) * words + word];
    }
    if (threadIdx.x < kPivots) {
        set[threadIdx.x] = round.reached[round.pivot + threadIdx.x];
    }
    __syncthreads();
    if (warp == 0) {
        close_tile(set);
    }
    __syncthreads();
    constexpr int kOwn = kPivots / kWarps; /* rows of a warp */
    uint32_t bits[kOwn];
    unsigned long long reach[kOwn];
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
        bits[r] = rows[warp * kOwn + r][lane];
        reach[r] = set[warp * kOwn + r];
    }
#pragma unroll 4
    for (int k = 0; k < kPivots; ++k) {
        const uint32_t row = rows[k][lane];
#pragma unroll
        for (int r = 0; r < kOwn; ++r) {
            bits[r] |= reach[r] >> k & 1 ? row : 0;
        }
    }
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
        round.closed[(warp * kOwn + r) * words + word] = bits[r];
    }
}

/* The unions of each four of the pivots' rows: a thread makes those of one word. */
__device__ void make_unions(const Round &round, ptrdiff_t word0, uint32_t *table)
{
    const int word = threadIdx.x % kChunkWords;
    for (int g = threadIdx.x / kChunkWords; g < kGroups; g += kThreads / kChunkWords) {
        uint32_t row[kGroup];
#pragma unroll
        for (int r = 0; r < kGroup; ++r) {
            row[r] = round.closed[(g * kGroup + r) * round.call.words + word0 + word];
        }
#pragma unroll
        for (int s = 0; s < kUnions; ++s) {
            const uint32_t all = (s & 1 ? row[0] : 0) | (s & 2 ? row[1] : 0) |
                                 (s & 4 ? row[2] : 0) | (s & 8 ? row[3] : 0);
            table[(g * kUnions + s) * kChunkWords + word] = all;
        }
    }
}

/* The pivots' own rows take in their closed forms like all others. */
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    close_rows(const __grid_constant__ Round round, unsigned chunks, ptrdiff_t rows_per_block)
{
    extern __shared__ uint32_t table[];
    const ptrdiff_t words = round.call.words;
    const ptrdiff_t word0 = (ptrdiff_t)(blockIdx.x % chunks) * kChunkWords;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x / chunks) * rows_per_block;
    const ptrdiff_t last = min(first + rows_per_block, round.call.rows);
    make_unions(round, word0, table);
    __syncthreads();

    const int lane = threadIdx.x % 32;
    const ptrdiff_t next = (round.pivot + kPivots) / 32; /* the next pivots' first word */
    const bool has_next = next == word0 + 2 * lane;
    const char *const mine = reinterpret_cast<const char *>(table) + lane * sizeof(uint2);
    constexpr int kStep = kChunkWords * sizeof(uint32_t); /* bytes of a union */
    for (ptrdiff_t i = first + threadIdx.x / 32; i < last; i += kWarps) {
        const unsigned long long set = round.reached[i];
        uint2 *const at = reinterpret_cast<uint2 *>(round.call.bits + i * words + word0) + lane;
        if (set == 0 && !has_next) {
            continue;
        }
        const uint2 before = *at;
        uint2 bits = before;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const unsigned half = g < kGroups / 2 ? (unsigned)set : (unsigned)(set >> 32);
            const unsigned which = half >> g % (kGroups / 2) * kGroup & (kUnions - 1);
            const uint2 all =
                *reinterpret_cast<const uint2 *>(mine + g * kUnions * kStep + which * kStep);
            bits.x |= all.x;
            bits.y |= all.y;
        }
        if (bits.x != before.x || bits.y != before.y) {
            *at = bits;
        }
        if (has_next) {
            round.reached_next[i] = (unsigned long long)bits.y << 32 | bits.x;
        }
    }
}

}  // namespace

extern "C" gd_status gd_cuda_closure_bits(gd_closure *call, gd_error *err)
{
    const ptrdiff_t n = call->n, chunks = gd::ceil_div(n, 32 * kChunkWords);
    if (call->launch.sizing) {
        call->rows = gd::ceil_div(n, kPivots) * kPivots;
        call->words = chunks * kChunkWords;
        call->launch.workspace_bytes = (size_t)call->rows * 2 * sizeof(unsigned long long) +
                                       (size_t)kPivots * (size_t)call->words * sizeof(uint32_t);
        return GD_OK;
    }
    int processors = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                       call->launch.device.index));
    auto *const sets = static_cast<unsigned long long *>(call->launch.workspace);
    Round round = {*call, 0, sets, sets, reinterpret_cast<uint32_t *>(sets + 2 * call->rows)};
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call->launch, first_pivots, gd::ceil_div(call->rows, kThreads),
                            kThreads, 0, round));
    const ptrdiff_t spans =
        gd::ceil_div((ptrdiff_t)processors * kBlocksPerSm, chunks); /* a wave of blocks */
    const ptrdiff_t fair = gd::ceil_div(call->rows, spans);
    const ptrdiff_t rows_per_block = fair > 4 * kWarps ? fair : 4 * kWarps;
    for (int turn = 0; round.pivot < n; round.pivot += kPivots, turn = 1 - turn) {
        round.reached = sets + turn * call->rows;
        round.reached_next = sets + (1 - turn) * call->rows;
        GD_CUDA_TRY(
            err, kId,
            gd::enqueue(call->launch, close_pivots, call->words / kPivotWords, kThreads, 0, round));
        GD_CUDA_TRY(
            err, kId,
            gd::enqueue(call->launch, close_rows, chunks * gd::ceil_div(call->rows, rows_per_block),
                        kThreads, kTableBytes, round, (unsigned)chunks, rows_per_block));
        const gd_status status =
            gd_pass(&call->launch, (double)(round.pivot + kPivots) / (double)call->rows, err);
        if (status != GD_OK) {
            return status;
        }
    }
    return GD_OK;
}
