/* resident_sm90a.cu: all rounds of x <- A x in one launch, one block a multiprocessor.
 *
 * A round must read A once and do nothing else that costs time. So the blocks stay, and the warps
 * of a block have parts of their own, which run ahead of each other:
 * - one warp fetches tiles of A, into the next round while the blocks exchange x
 *   (resident_fetch.cuh);
 * - sixteen warps multiply, and write the rows' part of the next x (resident_round.cuh);
 * - one warp judges the round while the others are at the next one (resident_judge.cuh).
 * How the blocks share out A is in resident_share.cuh, how they exchange numbers in
 * resident_tell.cuh.
 *
 * float32 becomes float64, exactly (pack.cuh), and is multiplied there: float32 sums would not do,
 * since bounds to 1e-6 need ratios to 1e-7.
 *
 * Floor: bytes of A / 4.5 TB/s, or some 3 us for what goes from a block to all others and back as
 * a verdict. Launch: a cooperative grid of one block of 576 threads a multiprocessor.
 * Reached on an H200, a round, of the time that plainly reading A takes in the same run: 63 us for
 * 8192 float32 (1.01) and 120 us for float64 (0.99); 16384: 252 (1.05) and 490 us (1.03); 32768:
 * 1015 (1.07) and 1969 us (1.04). Shares that stay: 5.1 us for 2048 float32, of which 4.3 are what
 * any round takes.
 *
 * What is left is not the arithmetic: with one multiply-add of four float32 takes 1.06 for 32768.
 * It is the clock of the multiprocessors, which the figures above had at 1.92 GHz: where the card
 * fell to 1.69 in the same run, this took 1.12. Nor is it that blocks are not served alike. They
 * are not: of a round of 1020 us the average block is done 86 before the last one. */
#include "perron/resident_fetch.cuh"
#include "perron/resident_judge.cuh"
#include "perron/resident_round.cuh"

namespace {

using namespace gd::resident;

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) iterate(const __grid_constant__ Job<T> job)
{
    extern __shared__ __align__(128) char memory[];
    Shared<T> &shared = *reinterpret_cast<Shared<T> *>(memory + kBuffers * kTileBytes);
    if (threadIdx.x == 0) {
        for (int i = 0; i < kBuffers; ++i) {
            gd::barrier_init(&shared.full[i], 1);
            gd::barrier_init(&shared.empty[i], kConsumers);
        }
        for (int i = 0; i < 2; ++i) {
            gd::barrier_init(&shared.judged[i], 1);
            gd::barrier_init(&shared.heard[i], kConsumers);
        }
        gd::barrier_init(&shared.stopped, 1);
        gd::show_barriers();
        shared.state = *job.state;
        shared.doubts = 0;
    }
    __syncthreads();
    if (shared.state.stop != GD_PERRON_GOING || shared.state.round >= job.until) {
        return;
    }
    if (threadIdx.x >= kConsumers + 32) {
        judge(job, shared, shared.state);
        return;
    }
    const Share<T> share(job.n, job.words);
    if (threadIdx.x >= kConsumers) {
        fetch(job, share, memory, shared, shared.state.round);
    }
    else {
        consume(job, share, memory, shared, shared.state.round);
    }
}

constexpr char kId[] = "perron/cuda_resident";

template <typename T>
gd_status run(gd_perron *call, gd_error *err)
{
    constexpr int kEach = gd::kPerWord<T>;
    constexpr size_t kSlotBytes = 2 * kMostBlocks * sizeof(Slot);
    const ptrdiff_t n = call->a.rows, row_words = gd::ceil_div(n, kEach);
    const bool direct = gd::bulk_rows<T>(call->a);
    const size_t told = kSlotBytes + (size_t)(2 * call->padded) * sizeof(double);
    /* A thread's words of a row, the lanes' sums, the parts'. A stamp may cost as much as two. */
    call->roundings = gd::ceil_div(row_words, kTileWords<T>) * kEach + 5 + kParts<T> + 2;
    call->launch.workspace_bytes = told + (direct ? 0 : (size_t)(n * row_words) * 16);
    if (call->launch.sizing) {
        return GD_OK;
    }
    char *const workspace = static_cast<char *>(call->launch.workspace);
    T *const packed = reinterpret_cast<T *>(workspace + told);
    const cudaStream_t stream = (cudaStream_t)call->launch.stream;
    if (call->scan) {
        GD_CUDA_TRY(err, kId, cudaMemsetAsync(workspace, 0xff, told, stream));
        if (!direct) {
            GD_CUDA_TRY(err, kId, gd::pack_rows(call->launch, call->a, packed, row_words * kEach));
        }
    }
    int sms = 0;
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call->launch.device.index));
    const Job<T> job = {
        direct ? static_cast<const T *>(call->a.data) : packed,
        n,
        direct ? call->a.row_stride : row_words * kEach,
        (int)row_words,
        call->vectors,
        call->padded,
        call->state,
        reinterpret_cast<double *>(workspace + kSlotBytes),
        reinterpret_cast<Slot *>(workspace),
        call->tol,
        call->shift,
        call->until,
        call->roundings,
        call->scan,
    };
    constexpr int kShared = kBuffers * kTileBytes + sizeof(Shared<T>);
    static_assert(kShared <= 227 * 1024, "the ring and x exceed what a block may have");
    GD_CUDA_TRY(err, kId,
                gd::enqueue<gd::Start::kTogether>(call->launch, iterate<T>,
                                                  min(n, (ptrdiff_t)min(sms, kMostBlocks)),
                                                  kThreads, kShared, job));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_resident(gd_perron *call, gd_error *err)
{
    return gd::with_float_type(call->a.dtype,
                               [&](auto type) { return run<decltype(type)>(call, err); });
}
