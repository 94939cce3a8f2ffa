/* resident_sm90a.cu: all rounds of x <- A x in one launch, one block a multiprocessor.
 *
 * A round must read A once and do nothing else that costs time. So the blocks stay: each owns rows
 * of A, adds up their products with x in float64, and tells the others what it found; between two
 * rounds nothing is launched and the host is not asked. Fetching A goes on meanwhile
 * (resident.cuh). A share of A that fits shared memory, 25 MB in all, is fetched once.
 *
 * A tile is 32 rows of 1 KB. A thread has one 16-byte word of four of its rows, so a value of x
 * serves four rows from a register and 32 from shared memory: reading x adds 6 % to the traffic
 * from the L2 cache in float32, nothing to that from memory. 2048 columns of x are in shared memory
 * at a time, the next 2048 on their way.
 *
 * float32 is converted to float64 (exactly) and multiplied there: about 2.5 instructions an
 * element, of 26 that the H200 could issue while memory delivers it. float32 sums would not do:
 * a bound to 1e-6 needs ratios to 1e-7.
 *
 * Floor: bytes of A / 4.7 TB/s. Launch: a cooperative grid of one block of 544 threads a
 * multiprocessor, the last warp of which fetches. */
#include "perron/pack.cuh"
#include "perron/resident.cuh"

namespace {

using gd::Share;
using gd::Step;

constexpr int kConsumers = 512, kThreads = kConsumers + 32, kWarps = kConsumers / 32;
constexpr int kRowLanes = kConsumers / gd::kTileWords;         /* rows at work side by side */
constexpr int kRowsEach = gd::kTileRows / kRowLanes;           /* one below the other */
constexpr int kRowBytes = gd::kTileWords * 16;

template <typename T>
struct Job {
    const T *a;
    ptrdiff_t n, stride;
    int words; /* 16-byte words in a row */
    int tile_rows, stages;
    double *vectors;
    ptrdiff_t padded;
    gd_perron_state *state;
    gd::Slot *slots; /* two for each block */
    double tol, shift;
    int64_t until;
    ptrdiff_t roundings;
    bool scan;

    __device__ double *vector(int64_t number) const
    {
        return vectors + number % GD_PERRON_KEPT * padded;
    }
};

struct Shared {
    double x[2][gd::kSpanCols];
    double sums[2][2][gd::kTileRows]; /* [of which group][half of the words][row] */
    uint64_t full[gd::kMostStages], empty[gd::kMostStages];
    gd_perron_state state;
    int flags;
    volatile int stop;
};

/* Waits for the other consumers; the fetching warp takes no part. */
__device__ __forceinline__ void sync_consumers()
{
    asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

/* ---------------------------------------------------------------- fetching */

template <typename T>
__device__ void fetch(const Job<T> &job, const Share<T> &share, char *ring, Shared &shared,
                      bool stays)
{
    const int lane = threadIdx.x % 32;
    unsigned tile = 0;
    const int64_t first = shared.state.round, last = stays ? first + 1 : job.until;
    for (int64_t round = first; round < last && !shared.stop; ++round) {
        const bool backwards = round & 1;
        for (int s = 0; s < share.steps && !shared.stop; ++s) {
            const Step<T> step(share, s, backwards);
            for (int c = 0; c < step.chunks; ++c, ++tile) {
                const int chunk = step.chunk + (backwards ? step.chunks - 1 - c : c);
                const int words = min(gd::kTileWords, share.words - chunk * gd::kTileWords);
                const unsigned stage = tile % job.stages, turn = tile / job.stages;
                /* The consumers stop without a word about stages that they no longer need. */
                while (turn > 0 && !gd::barrier_passed(&shared.empty[stage], (turn - 1) & 1)) {
                    if (shared.stop) {
                        break;
                    }
                }
                if (__any_sync(~0u, shared.stop)) {
                    break;
                }
                if (lane == 0) {
                    gd::barrier_expect(&shared.full[stage], (unsigned)(step.rows * words * 16));
                }
                __syncwarp();
                const ptrdiff_t row = share.first_row + step.row + lane;
                if (lane < step.rows) {
                    gd::bulk_copy(ring + (stage * job.tile_rows + lane) * kRowBytes,
                                  job.a + row * job.stride + (ptrdiff_t)chunk * share.kChunkCols,
                                  (unsigned)(words * 16), &shared.full[stage]);
                }
            }
        }
    }
    /* Shared memory must outlive what is still on its way to it. */
    for (unsigned t = tile > (unsigned)job.stages ? tile - job.stages : 0; t < tile; ++t) {
        while (!gd::barrier_passed(&shared.full[t % job.stages], t / job.stages & 1)) {
        }
    }
}

/* ---------------------------------------------------------------- multiplying */

/* What a thread adds up of its rows of a group. */
struct Sums {
    double of[kRowsEach];
};

/* One tile's share of the products. `x` are the tile's columns. Rows that the group does not have
 * hold what was there before: their sums are never read, and no branch keeps loads apart. Scanning
 * also looks at the elements of the `rows` rows and `cols` columns that there are. */
template <typename T, bool kScan, int kRows>
__device__ __forceinline__ void multiply(Sums &sums, const char *tile, const double *x, int words,
                                         int rows, int cols, int &flags)
{
    constexpr int kEach = gd::kPerWord<T>;
    const int word = threadIdx.x % gd::kTileWords, lane = threadIdx.x / gd::kTileWords;
    if (word >= words) {
        return;
    }
    double factors[kEach];
#pragma unroll
    for (int j = 0; j < kEach; j += 2) {
        gd::load_word(x + word * kEach + j, factors + j);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int row = lane + i * kRowLanes;
        T elements[kEach];
        gd::load_word(reinterpret_cast<const T *>(tile + row * kRowBytes + word * 16), elements);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
            sums.of[i] = fma((double)elements[j], factors[j], sums.of[i]);
            if (kScan && row < rows && word * kEach + j < cols) {
                /* Comparisons that NaN fails. */
                const bool fine = elements[j] >= 0 && elements[j] <= gd::largest<T>();
                flags |= fine ? 0 : GD_PERRON_HAS_FLAWS;
                flags |= elements[j] == 0 ? GD_PERRON_HAS_ZEROS : 0;
            }
        }
    }
}

/* Joins the lanes' sums; 32 words of a row are in one warp, the other 32 in the next. */
__device__ __forceinline__ void hand_over(Sums &sums, double (*halves)[gd::kTileRows])
{
    const int half = threadIdx.x / 32 % 2, lane = threadIdx.x / gd::kTileWords;
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            sums.of[i] += gd::shuffled(sums.of[i], lanes);
        }
        if (threadIdx.x % 32 == 0) {
            halves[half][lane + i * kRowLanes] = sums.of[i];
        }
        sums.of[i] = 0;
    }
}

/* Four consecutive values of x for each thread, from where other blocks wrote them: past the L1
 * cache, which does not know of that. */
struct Four {
    double2 low, high;
};

template <typename T>
__device__ __forceinline__ Four load_x(const Job<T> &job, const double *x, int chunk)
{
    const ptrdiff_t at = (ptrdiff_t)chunk * Share<T>::kChunkCols + threadIdx.x * 4;
    if (at >= job.padded) {
        return {};
    }
    const double2 *from = reinterpret_cast<const double2 *>(x + at);
    return {__ldcg(from), __ldcg(from + 1)};
}

__device__ __forceinline__ void store_x(double *to, const Four &four)
{
    double2 *at = reinterpret_cast<double2 *>(to + threadIdx.x * 4);
    at[0] = four.low;
    at[1] = four.high;
}

/* The consumers' part of one round; returns what warp 0 found. */
template <typename T, bool kScan>
__device__ gd_perron_found do_round(const Job<T> &job, const Share<T> &share, const char *ring,
                                    Shared &shared, bool stays, unsigned &tile)
{
    const int64_t round = shared.state.round;
    const double scale = shared.state.scale, lost = gd_perron_lost(job.n);
    const double *x = job.vector(round);
    double *next = job.vector(round + 1);
    const bool backwards = round & 1;
    gd_perron_found found = gd_perron_found_none();
    Sums sums = {};
    int flags = 0;
    store_x(shared.x[0], load_x(job, x, Step<T>(share, 0, backwards).chunk));
    sync_consumers();
    for (int s = 0; s < share.steps; ++s) {
        const Step<T> step(share, s, backwards);
        Four ahead = {};
        if (s + 1 < share.steps) {
            ahead = load_x(job, x, Step<T>(share, s + 1, backwards).chunk);
        }
        for (int c = 0; c < step.chunks; ++c, ++tile) {
            const int in_span = backwards ? step.chunks - 1 - c : c, chunk = step.chunk + in_span;
            const int words = min(gd::kTileWords, share.words - chunk * gd::kTileWords);
            const unsigned stage = tile % job.stages;
            while (!gd::barrier_passed(&shared.full[stage], stays ? 0 : tile / job.stages & 1)) {
            }
            const char *place = ring + stage * job.tile_rows * kRowBytes;
            const double *columns = shared.x[s % 2] + in_span * share.kChunkCols;
            const int cols = (int)min(job.n - (ptrdiff_t)chunk * share.kChunkCols,
                                      (ptrdiff_t)share.kChunkCols);
            if (job.tile_rows == gd::kTileRows) {
                multiply<T, kScan, kRowsEach>(sums, place, columns, words, step.rows, cols, flags);
            }
            else {
                multiply<T, kScan, kRowsEach / 2>(sums, place, columns, words, step.rows, cols,
                                                  flags);
            }
            __syncwarp();
            if (!stays && threadIdx.x % 32 == 0) {
                gd::barrier_arrive(&shared.empty[stage]);
            }
        }
        store_x(shared.x[(s + 1) % 2], ahead);
        const int group = step.row / job.tile_rows % 2;
        if (step.ends) {
            hand_over(sums, shared.sums[group]);
            if (kScan && flags != 0) {
                atomicOr(&shared.flags, flags);
            }
        }
        sync_consumers();
        /* The other warps go on; they come back to these sums after two more such barriers. */
        if (step.ends && threadIdx.x < step.rows) {
            const ptrdiff_t row = share.first_row + step.row + threadIdx.x;
            const double y = shared.sums[group][0][threadIdx.x] + shared.sums[group][1][threadIdx.x];
            next[row] = gd_perron_row(&found, y, __ldcg(x + row), job.shift, scale, lost);
            if (kScan && y == 0) {
                atomicOr(&shared.flags, GD_PERRON_HAS_EMPTY_ROWS);
            }
        }
    }
    return found;
}

template <typename T>
__device__ void consume(const Job<T> &job, const Share<T> &share, const char *ring, Shared &shared,
                        bool stays)
{
    unsigned tile = 0;
    bool scan = job.scan;
    do {
        const int64_t round = shared.state.round;
        gd_perron_found found =
            scan ? do_round<T, true>(job, share, ring, shared, stays, tile)
                 : do_round<T, false>(job, share, ring, shared, stays, tile);
        tile = stays ? 0 : tile;
        if (threadIdx.x < 32) {
            gd::Slot *slots = job.slots + round % 2 * gridDim.x;
            int flags;
            gd::join_lanes(found);
            __syncwarp(); /* the lanes' parts of the next vector are published with lane 0's word */
            if (threadIdx.x == 0) {
                gd::publish(slots + blockIdx.x, found, shared.flags, round);
            }
            found = gd::gather(slots, gridDim.x, round, flags);
            if (threadIdx.x == 0) {
                shared.state.flags |= flags;
                gd_perron_judge(&shared.state, &found, job.tol, job.shift, job.roundings, scan);
                shared.stop = shared.state.stop != GD_PERRON_GOING;
            }
        }
        scan = false;
        sync_consumers();
    } while (!shared.stop && shared.state.round < job.until);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *job.state = shared.state;
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) iterate(const __grid_constant__ Job<T> job)
{
    extern __shared__ __align__(128) char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory + gd::kRingBytes);
    const Share<T> share(job.n, job.words, job.tile_rows);
    const int groups = share.steps / share.spans;
    const bool stays = groups * share.chunks <= job.stages;
    if (threadIdx.x == 0) {
        for (int i = 0; i < job.stages; ++i) {
            gd::barrier_init(&shared.full[i], 1);
            gd::barrier_init(&shared.empty[i], kWarps);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        shared.state = *job.state;
        shared.flags = 0;
        shared.stop = 0;
    }
    __syncthreads();
    if (shared.state.stop != GD_PERRON_GOING || shared.state.round >= job.until) {
        return;
    }
    if (threadIdx.x >= kConsumers) {
        fetch(job, share, memory, shared, stays);
    }
    else {
        consume(job, share, memory, shared, stays);
    }
}

/* ---------------------------------------------------------------- launching */

constexpr char kId[] = "perron/cuda_resident";
constexpr size_t kSlotBytes = 2 * gd::kMostBlocks * sizeof(gd::Slot);

template <typename T>
gd_status run(gd_perron *call, gd_error *err)
{
    constexpr int kEach = gd::kPerWord<T>;
    const ptrdiff_t n = call->a.rows, row_words = gd::ceil_div(n, kEach);
    const bool direct = gd::bulk_rows<T>(call->a);
    /* A thread has two or four elements of a chunk of 64 words; then lanes and halves are joined. */
    call->roundings = gd::ceil_div(row_words, gd::kTileWords) * kEach + 8;
    if (call->launch.sizing) {
        call->launch.workspace_bytes =
            kSlotBytes + (direct ? 0 : (size_t)(n * row_words) * sizeof(gd::Word<T>));
        return GD_OK;
    }
    char *const workspace = static_cast<char *>(call->launch.workspace);
    T *const packed = reinterpret_cast<T *>(workspace + kSlotBytes);
    const cudaStream_t stream = (cudaStream_t)call->launch.stream;
    if (call->scan) {
        GD_CUDA_TRY(err, kId, cudaMemsetAsync(workspace, 0, kSlotBytes, stream));
        /* Spans of x are read in fours; no round writes behind its end. */
        if (call->padded > n) {
            GD_CUDA_TRY(err, kId,
                        cudaMemset2DAsync(call->vectors + n, (size_t)call->padded * sizeof(double),
                                          0, (size_t)(call->padded - n) * sizeof(double),
                                          GD_PERRON_KEPT, stream));
        }
        if (!direct) {
            GD_CUDA_TRY(err, kId, gd::pack_rows(call->launch, call->a, packed, row_words * kEach));
        }
    }
    int sms = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount,
                                       call->launch.device.index));
    const int blocks = (int)min(n, (ptrdiff_t)min(sms, gd::kMostBlocks));
    /* Half tiles where few rows would fill half of each, so that more of them fit. */
    const int tile_rows = gd::ceil_div(n, blocks) <= gd::kTileRows / 2 ? gd::kTileRows / 2
                                                                       : gd::kTileRows;
    const Job<T> job = {
        direct ? static_cast<const T *>(call->a.data) : packed,
        n,
        direct ? call->a.row_stride : row_words * kEach,
        (int)row_words,
        tile_rows,
        gd::kRingBytes / (tile_rows * kRowBytes),
        call->vectors,
        call->padded,
        call->state,
        reinterpret_cast<gd::Slot *>(workspace),
        call->tol,
        call->shift,
        call->until,
        call->roundings,
        call->scan,
    };
    constexpr int kShared = gd::kRingBytes + sizeof(Shared);
    static_assert(kShared <= 227 * 1024, "the ring and x exceed what a block may have");
    GD_CUDA_TRY(err, kId,
                cudaFuncSetAttribute(iterate<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     kShared));
    /* Blocks wait for each other, so all must run at once: a cooperative launch sees to that. */
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
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
