/* rows.cuh: one round of x <- A x as one launch.
 *
 * A warp has four rows: its lanes load words of 16 bytes side by side and keep four sums each, so a
 * value of x serves four rows from a register. The last block to finish joins what all blocks found
 * and judges the round; launches behind a verdict return at once, so the host can enqueue many. */
#ifndef GPUDIST_PERRON_ROWS_CUH
#define GPUDIST_PERRON_ROWS_CUH

#include "perron/pack.cuh"
#include "perron_judge.h"

namespace gd {

constexpr int kRoundThreads = 256, kRoundWarps = kRoundThreads / 32, kRowsPerWarp = 4;
constexpr int kRowsPerBlock = kRoundWarps * kRowsPerWarp;

template <typename T>
struct Round {
    const T *a;
    ptrdiff_t n, stride, words; /* 16-byte words in a row */
    double *vectors;
    ptrdiff_t padded;
    gd_perron_state *state;
    gd_perron_found *reports; /* one a block */
    unsigned *finished;       /* blocks that are; 0 between launches */
    double tol, shift;
    int64_t until;
    ptrdiff_t roundings;
};

__device__ __forceinline__ double warp_sum(double x)
{
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        x += __shfl_xor_sync(~0u, x, lanes);
    }
    return x;
}

/* Joins in the order of threads, whatever they hold. One block; the result is thread 0's. */
__device__ inline gd_perron_found join_block(const gd_perron_found &mine)
{
    __shared__ gd_perron_found all[kRoundThreads];
    all[threadIdx.x] = mine;
    for (int half = kRoundThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            gd_perron_join(&all[threadIdx.x], &all[threadIdx.x + half]);
        }
    }
    __syncthreads();
    return all[0];
}

template <typename T, bool kScan>
__global__ void __launch_bounds__(kRoundThreads) do_round(const __grid_constant__ Round<T> job)
{
    constexpr int kEach = kPerWord<T>;
    __shared__ bool last;
    gd_perron_state *const state = job.state;
    const int64_t round = state->round;
    if (state->stop != GD_PERRON_GOING || round >= job.until) {
        return; /* the same in every block: only the last one of a launch changes it */
    }
    const double *x = job.vectors + round % GD_PERRON_KEPT * job.padded;
    double *next = job.vectors + (round + 1) % GD_PERRON_KEPT * job.padded;
    const int lane = threadIdx.x % 32;
    const ptrdiff_t first = (ptrdiff_t)blockIdx.x * kRowsPerBlock + threadIdx.x / 32 * kRowsPerWarp;
    double sums[kRowsPerWarp] = {};
    unsigned doubts = 0;
    for (ptrdiff_t word = lane; word < job.words; word += 32) {
        double factors[kEach];
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            /* Padding is zeros, whatever stands behind x. */
            factors[j] = word * kEach + j < job.n ? x[word * kEach + j] * kUnwidened<T> : 0;
        }
#pragma unroll
        for (int r = 0; r < kRowsPerWarp; ++r) {
            T elements[kEach];
            const ptrdiff_t row = min(first + r, job.n - 1);
            load_word_const(job.a + row * job.stride + word * kEach, elements);
#pragma unroll
            for (int j = 0; j < kEach; ++j) {
                sums[r] = fma(widened(elements[j]), factors[j], sums[r]);
                if (kScan && word * kEach + j < job.n) {
                    doubts = max(doubts, doubt(elements[j]));
                }
            }
        }
    }
    gd_perron_found found = gd_perron_found_none();
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
        const double y = warp_sum(sums[r]);
        if (lane == r && first + r < job.n) {
            const double mine = x[first + r];
            const double new_one = gd_perron_next(y, mine, job.shift, state->scale);
            next[first + r] = new_one;
            gd_perron_note(&found, y, mine, new_one, gd_perron_lost(job.n));
        }
    }
    if (kScan && doubts >= kDoubtful<T>) {
        atomicOr(&state->doubts, 1);
    }
    found = join_block(found);
    if (threadIdx.x == 0) {
        job.reports[blockIdx.x] = found;
        __threadfence();
        last = atomicAdd(job.finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) {
        return;
    }
    __threadfence();
    found = gd_perron_found_none();
    for (unsigned block = threadIdx.x; block < gridDim.x; block += kRoundThreads) {
        gd_perron_join(&found, &job.reports[block]);
    }
    found = join_block(found);
    if (threadIdx.x == 0) {
        *job.finished = 0;
        gd_perron_judge(state, &found, job.tol, job.shift, job.roundings, kScan);
    }
}

/* The memory that rounds need beside A: for reports, and for A's rows where they are no words. */
template <typename T>
size_t round_bytes(gd_perron *call)
{
    const ptrdiff_t n = call->a.rows, words = ceil_div(n, kPerWord<T>);
    call->roundings = ceil_div(words, 32) * kPerWord<T> + 6;
    return (size_t)(ceil_div(n, kRowsPerBlock) + 1) * sizeof(gd_perron_found) +
           (bulk_rows<T>(call->a) ? 0 : (size_t)(n * words) * sizeof(Word<T>) + 256);
}

/* The job of such rounds. The scan's call prepares the room. */
template <typename T>
cudaError_t prepare_rounds(const gd_perron &call, Round<T> *job)
{
    const ptrdiff_t n = call.a.rows, words = ceil_div(n, kPerWord<T>);
    const ptrdiff_t blocks = ceil_div(n, kRowsPerBlock);
    const bool direct = bulk_rows<T>(call.a);
    auto *reports = static_cast<gd_perron_found *>(call.launch.workspace);
    const uintptr_t behind = (uintptr_t)(reports + blocks + 1);
    T *const packed = reinterpret_cast<T *>((behind + 255) / 256 * 256);
    *job = {
        direct ? static_cast<const T *>(call.a.data) : packed,
        n,
        direct ? call.a.row_stride : words * kPerWord<T>,
        words,
        call.vectors,
        call.padded,
        call.state,
        reports,
        reinterpret_cast<unsigned *>(reports + blocks),
        call.tol,
        call.shift,
        call.until,
        call.roundings,
    };
    if (!call.scan) {
        return cudaSuccess;
    }
    const cudaError_t code =
        cudaMemsetAsync(job->finished, 0, sizeof(unsigned), (cudaStream_t)call.launch.stream);
    return code == cudaSuccess && !direct
               ? pack_rows(call.launch, call.a, packed, words * kPerWord<T>)
               : code;
}

template <typename T>
cudaError_t enqueue_round(const gd_launch &launch, const Round<T> &job, bool scan)
{
    return enqueue(launch, scan ? do_round<T, true> : do_round<T, false>,
                   ceil_div(job.n, kRowsPerBlock), kRoundThreads, 0, job);
}

}  // namespace gd
#endif
