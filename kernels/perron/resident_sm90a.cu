/* resident_sm90a.cu: all rounds of x <- A x in one launch, one block a multiprocessor.
 *
 * A round must read A once and do nothing else that costs time. So the blocks stay, and the warps
 * of a block have parts of their own, which run ahead of each other:
 * - one warp fetches. It keeps a ring of tiles in shared memory full by bulk copies that announce
 *   their bytes at a barrier. A does not depend on x, so it goes on into the next round while the
 *   blocks exchange x: memory never pauses. A share that fits the ring, up to 192 KB, is fetched
 *   once.
 * - sixteen warps multiply. A thread has a 16-byte word of four rows of a tile, with the word's
 *   values of x in registers; 1024 columns of x are in shared memory at a time, the next 1024 on
 *   their way. At the end of a group of rows the sums meet, and the first warp writes the rows'
 * part of the next x and what the round found.
 * - one warp judges. It gathers what all blocks found while the others are at the next round
 *   already, which needs the verdict only where it writes.
 *
 * float32 is converted to float64 (exactly) and multiplied there: about 2.5 instructions an
 * element, of 26 that the H200 could issue while memory delivers it. float32 sums would not do:
 * bounds to 1e-6 need ratios to 1e-7.
 *
 * Floor: bytes of A / 4.5 TB/s, or some 3 us for what goes from a block to all others and back as
 * a verdict. Launch: a cooperative grid of one block of 576 threads a multiprocessor.
 * Reached on an H200, a round, of the time that plainly reading A takes in the same run: 63 us for
 * 8192 float32 (1.04) and 124 us for float64 (1.02); 16384: 253 (1.04) and 507 us (1.07); 32768:
 * 1032 (1.08) and 2038 us (1.07). Shares that stay: 5.1 us for 2048 float32, of which 4.3 are what
 * any round takes. */
#include "perron/pack.cuh"
#include "perron/resident.cuh"

namespace {

using gd::Share;
using gd::Step;

constexpr int kConsumers = 512, kWarps = kConsumers / 32, kThreads = kConsumers + 64;
constexpr int kRowLanes = kConsumers / gd::kTileWords; /* rows of a tile side by side */
constexpr int kRowsEach = gd::kTileRows / kRowLanes;   /* one below the other */
constexpr int kSums = gd::kGroupTiles * kRowsEach;     /* of a thread in a group */
constexpr int kLanesPerSum = 32 / kSums;               /* once lanes have shared sums out */
constexpr int kParts = gd::kTileWords / 32;            /* warps that a row's sum comes from */
static_assert(gd::kSpanCols == 2 * kConsumers, "two values of x for each thread");
static_assert(kRowsEach == 4 && (kSums & (kSums - 1)) == 0, "sums are halved lane by lane");

template <typename T>
struct Job {
    const T *a;
    ptrdiff_t n, stride;
    int words; /* 16-byte words in a row */
    double *vectors;
    ptrdiff_t padded;
    gd_perron_state *state;
    double *exchange; /* two vectors */
    gd::Slot *slots;  /* two for each block */
    double tol, shift;
    int64_t until;
    ptrdiff_t roundings;
    bool scan;
};

/* What the round after a verdict needs of it. */
struct Verdict {
    double scale;
    bool stop;
};

struct Shared {
    double x[2][gd::kSpanCols];
    double sums[2][kParts][gd::kGroupRows]; /* of a group and the one before */
    uint64_t full[gd::kStages], empty[gd::kStages];
    uint64_t judged[2]; /* odd and even rounds */
    Verdict verdicts[2];
    gd_perron_found found[32]; /* by the lanes of the first warp, whose registers are few */
    double own[32];            /* their rows' components of x */
    gd_perron_state state;
    int flags;
    bool leave[2];     /* for the consumers, in turns from step to step */
    volatile int stop; /* for the fetching warp, once no consumer waits for a tile */
};

__device__ __forceinline__ void wait_for(uint64_t *barrier, unsigned parity)
{
    while (!gd::barrier_passed(barrier, parity)) {
    }
}

/* Waits for the other consumers; the fetching and the judging warp take no part. */
__device__ __forceinline__ void sync_consumers()
{
    asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

/* ---------------------------------------------------------------- fetching */

template <typename T>
__device__ void fetch(const Job<T> &job, const Share<T> &share, char *ring, Shared &shared,
                      int64_t first)
{
    const int lane = threadIdx.x % 32;
    unsigned tile = 0;
    const int64_t last = share.stays ? first + 1 : job.until;
    for (int64_t round = first; round < last && !shared.stop; ++round) {
        for (int s = 0; s < share.steps && !shared.stop; ++s) {
            const Step<T> step(share, s, share.backwards(round));
            for (int t = 0; t < step.chunks * step.tiles; ++t, ++tile) {
                const int chunk = step.chunk(t / step.tiles);
                const int row = t % step.tiles * gd::kTileRows;
                const int rows = min(gd::kTileRows, step.rows - row);
                const int words = min(gd::kTileWords, share.words - chunk * gd::kTileWords);
                const unsigned stage = tile % gd::kStages, turn = tile / gd::kStages;
                /* Consumers that have stopped leave stages as they are. */
                while (turn > 0 && !gd::barrier_is_past(&shared.empty[stage], (turn - 1) & 1) &&
                       !shared.stop) {
                }
                if (__any_sync(~0u, shared.stop)) {
                    break;
                }
                if (lane == 0) {
                    gd::barrier_expect(&shared.full[stage], (unsigned)(rows * words * 16));
                }
                __syncwarp();
                if (lane < rows) {
                    gd::bulk_copy(ring + stage * gd::kTileBytes + lane * gd::kRowBytes,
                                  job.a + (share.first_row + step.row + row + lane) * job.stride +
                                      (ptrdiff_t)chunk * share.kChunkCols,
                                  (unsigned)(words * 16), &shared.full[stage]);
                }
            }
        }
    }
    /* Shared memory must outlive what is still on its way to it. */
    for (unsigned t = tile > gd::kStages ? tile - gd::kStages : 0; t < tile; ++t) {
        wait_for(&shared.full[t % gd::kStages], t / gd::kStages & 1);
    }
}

/* ---------------------------------------------------------------- multiplying */

/* A thread's word of one tile times its values of x. Rows that the group does not have hold what
 * was there before: their sums are never read, and no branch keeps loads apart. Scanning also looks
 * at the elements of the `rows` rows and `cols` columns that there are. */
template <typename T, bool kScan>
__device__ __forceinline__ void multiply(double *sums, const char *tile, const double *factors,
                                         int rows, int cols, int &flags)
{
    constexpr int kEach = gd::kPerWord<T>;
    const int word = threadIdx.x % gd::kTileWords, lane = threadIdx.x / gd::kTileWords;
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
        const int row = lane + i * kRowLanes;
        T elements[kEach];
        gd::load_word(reinterpret_cast<const T *>(tile + row * gd::kRowBytes + word * 16),
                      elements);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            sums[i] = fma((double)elements[j], factors[j], sums[i]);
            if (kScan && row < rows && word * kEach + j < cols) {
                /* Comparisons that NaN fails. */
                const bool fine = elements[j] >= 0 && elements[j] <= gd::largest<T>();
                flags |= fine ? 0 : GD_PERRON_HAS_FLAWS;
                flags |= elements[j] == 0 ? GD_PERRON_HAS_ZEROS : 0;
            }
        }
    }
}

/* Lanes hand each other half of the sums that they have left, so that in the end a lane has one: as
 * many shuffles as there are sums, not five times that. A template, so that indices are constants
 * and sums stay in registers. */
template <int kLeft, int kLanes>
__device__ __forceinline__ void share_out(double (&sums)[kSums])
{
    if constexpr (kLeft > 1) {
        const bool upper = threadIdx.x & kLanes;
#pragma unroll
        for (int j = 0; j < kLeft / 2; ++j) {
            const double other = gd::shuffled(upper ? sums[j] : sums[j + kLeft / 2], kLanes);
            sums[j] = (upper ? sums[j + kLeft / 2] : sums[j]) + other;
        }
        share_out<kLeft / 2, kLanes / 2>(sums);
    }
    else if constexpr (kLanes > 0) {
        sums[0] += gd::shuffled(sums[0], kLanes);
        share_out<1, kLanes / 2>(sums);
    }
}

/* Joins the lanes' sums of a group and puts them where the first warp finds them. */
__device__ __forceinline__ void hand_over(double (&sums)[kSums], double (*parts)[gd::kGroupRows])
{
    const int lane = threadIdx.x % 32, number = lane / kLanesPerSum;
    const int row = number / kRowsEach * gd::kTileRows + threadIdx.x / gd::kTileWords +
                    number % kRowsEach * kRowLanes;
    share_out<kSums, 16>(sums);
    if (lane % kLanesPerSum == 0) {
        parts[threadIdx.x % gd::kTileWords / 32][row] = sums[0];
    }
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
        sums[j] = 0;
    }
}

/* The vector that a round takes: as it was at the launch, or as the blocks tell it. */
struct Vector {
    const double *from;
    ptrdiff_t n, padded;
    bool told;
    uint64_t mark;

    __device__ double2 two(ptrdiff_t at) const
    {
        if (at >= padded) {
            return {};
        }
        double2 x = gd::hear(from + at);
        while (told && !((at >= n || gd::has_mark(x.x, mark)) &&
                         (at + 1 >= n || gd::has_mark(x.y, mark)))) {
            x = gd::hear(from + at);
        }
        return {at < n ? x.x : 0, at + 1 < n ? x.y : 0};
    }
};

/* A span's values, two for each thread. */
template <typename T>
__device__ __forceinline__ double2 span_of(const Vector &x, const Step<T> &step)
{
    return x.two((ptrdiff_t)step.first_chunk * Share<T>::kChunkCols + threadIdx.x * 2);
}

__device__ __forceinline__ void stage(double *to, double2 values)
{
    reinterpret_cast<double2 *>(to)[threadIdx.x] = values;
}

/* The consumers' part of one round; false if the verdict on the round before was to stop. */
template <typename T, bool kScan>
__device__ bool do_round(const Job<T> &job, const Share<T> &share, const char *ring, Shared &shared,
                         int64_t round, int64_t first, unsigned &tile)
{
    constexpr int kEach = gd::kPerWord<T>;
    const bool backwards = share.backwards(round);
    const int word = threadIdx.x % gd::kTileWords;
    const Vector x = {round == first ? job.vectors + round % GD_PERRON_KEPT * job.padded
                                     : job.exchange + (round - 1) % 2 * job.padded,
                      job.n, job.padded, round > first, gd::mark_of(round - 1)};
    double *told = job.exchange + round % 2 * job.padded;
    double *kept = job.vectors + (round + 1) % GD_PERRON_KEPT * job.padded;
    double sums[kSums] = {};
    Verdict verdict = {shared.state.scale, false}; /* of the launch's state, in its first round */
    int flags = 0;
    if (threadIdx.x < 32) {
        shared.found[threadIdx.x] = gd_perron_found_none();
    }
    stage(shared.x[0], span_of(x, Step<T>(share, 0, backwards)));
    sync_consumers();
    for (int s = 0; s < share.steps; ++s) {
        const Step<T> step(share, s, backwards);
        double2 ahead = {};
        if (s + 1 < share.steps) {
            ahead = span_of(x, Step<T>(share, s + 1, backwards));
        }
        const ptrdiff_t row = share.first_row + step.row + threadIdx.x;
        if (step.begins && threadIdx.x < step.rows) {
            /* This thread wrote it, if it was not there at the launch. */
            shared.own[threadIdx.x] = gd::hear_one(x.from + row);
        }
        for (int c = 0; c < step.chunks; ++c) {
            const int chunk = step.chunk(c);
            const int words = min(gd::kTileWords, share.words - chunk * gd::kTileWords);
            const int cols =
                (int)min(job.n - (ptrdiff_t)chunk * share.kChunkCols, (ptrdiff_t)share.kChunkCols);
            double factors[kEach];
#pragma unroll
            for (int j = 0; j < kEach; j += 2) {
                gd::load_word(shared.x[s % 2] + (chunk - step.first_chunk) * share.kChunkCols +
                                  word * kEach + j,
                              factors + j);
            }
#pragma unroll
            for (int t = 0; t < gd::kGroupTiles; ++t) {
                if (t < step.tiles) {
                    const unsigned stage = tile % gd::kStages;
                    wait_for(&shared.full[stage], share.stays ? 0 : tile / gd::kStages & 1);
                    if (word < words) {
                        multiply<T, kScan>(sums + t * kRowsEach, ring + stage * gd::kTileBytes,
                                           factors, step.rows - t * gd::kTileRows, cols, flags);
                    }
                    __syncwarp();
                    if (!share.stays && threadIdx.x % 32 == 0) {
                        gd::barrier_arrive(&shared.empty[stage]);
                    }
                    ++tile;
                }
            }
        }
        stage(shared.x[(s + 1) % 2], ahead);
        if (step.ends) {
            hand_over(sums, shared.sums[step.group % 2]);
            if (kScan && flags != 0) {
                atomicOr(&shared.flags, flags);
            }
        }
        /* Nobody waits for the verdict on the round before until something is to be written, but a
         * round that was not needed should end soon. */
        uint64_t *const judged = &shared.judged[(round + 1) % 2];
        const unsigned parity = (unsigned)((round - 1 - first) / 2 & 1);
        if (threadIdx.x == 0) {
            shared.leave[s % 2] = round > first && gd::barrier_is_past(judged, parity) &&
                                  shared.verdicts[(round + 1) % 2].stop;
        }
        sync_consumers();
        bool leave = shared.leave[s % 2];
        if (step.ends && round > first) {
            wait_for(judged, parity);
            verdict = shared.verdicts[(round + 1) % 2];
            leave = verdict.stop;
        }
        if (leave) {
            shared.stop = 1;
            return false;
        }
        if (!step.ends) {
            continue;
        }
        /* The other warps go on; they come back to these sums after two more such barriers. */
        if (threadIdx.x < step.rows) {
            const double own = shared.own[threadIdx.x];
            double y = 0;
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                y += shared.sums[step.group % 2][part][threadIdx.x];
            }
            const double next =
                gd::marked(gd_perron_next(y, own, job.shift, verdict.scale), gd::mark_of(round));
            gd::tell(told + row, next);
            kept[row] = next;
            gd_perron_note(&shared.found[threadIdx.x], y, own, next, gd_perron_lost(job.n));
            if (kScan && y == 0) {
                atomicOr(&shared.flags, GD_PERRON_HAS_EMPTY_ROWS);
            }
        }
    }
    if (threadIdx.x < 32) {
        gd_perron_found found = shared.found[threadIdx.x];
        __syncwarp(); /* also for the flags */
        gd::join_lanes(found);
        if (threadIdx.x == 0) {
            gd::tell(job.slots + round % 2 * gridDim.x + blockIdx.x, found, shared.flags,
                     gd::mark_of(round));
        }
    }
    return true;
}

template <typename T>
__device__ void consume(const Job<T> &job, const Share<T> &share, const char *ring, Shared &shared,
                        int64_t first)
{
    unsigned tile = 0;
    bool goes_on = true;
    for (int64_t round = first; round < job.until && goes_on; ++round) {
        goes_on = round == first && job.scan
                      ? do_round<T, true>(job, share, ring, shared, round, first, tile)
                      : do_round<T, false>(job, share, ring, shared, round, first, tile);
        tile = share.stays ? 0 : tile;
    }
}

/* ---------------------------------------------------------------- judging */

/* Every lane judges for itself, in registers, which takes no longer than one. */
template <typename T>
__device__ void judge(const Job<T> &job, Shared &shared, gd_perron_state state)
{
    bool scan = job.scan, stop = false;
    while (!stop) {
        const int64_t round = state.round;
        int flags;
        const gd_perron_found found =
            gd::gather(job.slots + round % 2 * gridDim.x, gridDim.x, gd::mark_of(round), flags);
        state.flags |= flags;
        gd_perron_judge(&state, &found, job.tol, job.shift, job.roundings, scan);
        stop = state.stop != GD_PERRON_GOING || state.round >= job.until;
        if (threadIdx.x % 32 == 0) {
            shared.verdicts[round % 2] = {state.scale, state.stop != GD_PERRON_GOING};
            gd::barrier_arrive(&shared.judged[round % 2]);
        }
        scan = false;
    }
    if (blockIdx.x == 0 && threadIdx.x % 32 == 0) {
        *job.state = state;
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) iterate(const __grid_constant__ Job<T> job)
{
    extern __shared__ __align__(128) char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory + gd::kStages * gd::kTileBytes);
    if (threadIdx.x == 0) {
        for (int i = 0; i < gd::kStages; ++i) {
            gd::barrier_init(&shared.full[i], 1);
            gd::barrier_init(&shared.empty[i], kWarps);
        }
        gd::barrier_init(&shared.judged[0], 1);
        gd::barrier_init(&shared.judged[1], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        shared.state = *job.state;
        shared.flags = 0;
        shared.stop = 0;
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

/* ---------------------------------------------------------------- launching */

constexpr char kId[] = "perron/cuda_resident";

template <typename T>
gd_status run(gd_perron *call, gd_error *err)
{
    constexpr int kEach = gd::kPerWord<T>;
    constexpr size_t kSlotBytes = 2 * gd::kMostBlocks * sizeof(gd::Slot);
    const ptrdiff_t n = call->a.rows, row_words = gd::ceil_div(n, kEach);
    const bool direct = gd::bulk_rows<T>(call->a);
    const size_t told = kSlotBytes + (size_t)(2 * call->padded) * sizeof(double);
    /* A thread's words of a row, the lanes' sums, the parts'. A mark may cost as much as two. */
    call->roundings = gd::ceil_div(row_words, gd::kTileWords) * kEach + 5 + kParts + 2;
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
        reinterpret_cast<gd::Slot *>(workspace),
        call->tol,
        call->shift,
        call->until,
        call->roundings,
        call->scan,
    };
    constexpr int kShared = gd::kStages * gd::kTileBytes + sizeof(Shared);
    static_assert(kShared <= 227 * 1024, "the ring and x exceed what a block may have");
    GD_CUDA_TRY(
        err, kId,
        cudaFuncSetAttribute(iterate<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    /* Blocks wait for each other, so all must run at once: a cooperative launch sees to that. */
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)min(n, (ptrdiff_t)min(sms, gd::kMostBlocks)));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kShared;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = 1;
    GD_CUDA_TRY(err, kId, cudaLaunchKernelEx(&config, iterate<T>, job));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_perron_resident(gd_perron *call, gd_error *err)
{
    return gd::with_float_type(call->a.dtype,
                               [&](auto type) { return run<decltype(type)>(call, err); });
}
