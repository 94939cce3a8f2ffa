/* blocked.cu: all-pairs shortest paths by blocked Floyd-Warshall in three phases.
 *
 * Idea: the triple loop takes the pivots k in order and relaxes d[i][j] to d[i][k] + d[k][j]. Take
 * 64 or 128 pivots a round instead: close the pivot tile over them (phase 1), then the rows and
 * columns of tiles through it (phase 2), then relax all the rest at once (phase 3), which is the
 * min-plus product of two panels and runs at the speed of a matrix product.
 *
 * Snapshots: elsewhere the panels are the closed rows and columns. Here they are row k and column k
 * as they were at stage k. So every sum is one that the triple loop forms, and as a minimum does
 * not round, the distances are the triple loop's bit for bit, whatever the number of pivots a
 * round. So are the predecessors: taken at the first pivot of least sum, from row k at stage k.
 * With closed panels a sum may lead over pivots above k, and along edges of weight zero
 * predecessors could then point at each other in a circle, which the triple loop never lets happen.
 *
 * Cost: n^3 updates; instructions are the floor (semiring/rings.cuh). In 1e12 updates/s on an H200,
 * float32 without negative weights is bound by 22.3, and by 19.3 in registers; with them by 16.7;
 * int32 by 22.3; float64 by some 6 in a tile. Phase 3 moves 8 / pivots bytes an update in float32,
 * so 64 pivots' worth of memory traffic allows 34 and 128 pivots' worth 68; the panels stay in L2.
 *
 * Launch: where a round's tiles are few waves of blocks, all rounds are one launch, in which no
 * wave ends but the last (one_launch.cuh); so they are with predecessors of lengths of four bytes
 * and 64 pivots a round. Elsewhere, with 64 pivots, two kernels: the first block of phase 3 also
 * closes the next pivot tile, and each kernel starts while its predecessor ends. With 128, where
 * phase 3 takes more than 100 us, three streams: rows, columns and tile of the next pivots run
 * beside the rest of this round, and the rest is two halves, of which each fills the SMs while the
 * other ends: 4 % at n = 8192.
 *
 * Source: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths
 * algorithm" (2003); G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the
 * GPU" (2008).
 *
 * Reached on an H200, 1e12 updates/s: float32 n = 4096 15.2, 8192 16.7, 16384 17.0, 32768 17.2, of
 * 17.6 that the inner loop reaches by itself; with negative weights 13.3, int32 17.4, 16 bits 29.3,
 * undirected float32 32.3 (all n = 16384); float64 6.2 (n = 8192). With predecessors, on a complete
 * graph, float32 n = 8192 10.6, 16384 11.9, int32 12.1: 1.55, 1.43 and 1.44 times the time
 * without; 13.2 where few elements change (n = 8192). By streams, n = 4096 waits for the chain of a
 * round, 157 us, of which 63 for the next lines, half of it waiting for room, 56 for the tile
 * beside other blocks and 33 for the strips, while the rest is done after 150: float32 13.5. Small
 * n would wait for the chain of pivot tile and strips, 20 us a round of 64 pivots: what fits in
 * shared memory, up to 2048 nodes, goes the way of resident.cu. Undirected graphs of more than 1472
 * nodes, in four bytes and without predecessors, are one launch here. */
#include "card.h"
#include "apsp/one_launch.cuh"
#include "apsp/resident.cuh"

namespace {

using gd::Pair;
using gd::Paths;
using gd::Region;

constexpr const char *kId = "apsp/cuda_blocked";

/* Many pivots a round save memory traffic, few save time in the pivot tile, which one SM closes
 * while the others wait. The answer is the same. */
constexpr ptrdiff_t kFromManyPivots = 4096, kFromManyForHalf = 5376; /* of a symmetric matrix */

/* Rounds of 64 pivots are one launch where they have so many tiles, of 64 x 64. With fewer they
 * wait for their chain anyway, and of more the last ones matter less. */
constexpr ptrdiff_t kFewest = 300, kMost = 4096;
ptrdiff_t tiles_of(ptrdiff_t side, bool symmetric)
{
    return symmetric ? side * (side + 1) / 2 : side * side;
}

/* From so many blocks an SM on, half of phase 3 goes to a stream of its own, and fewer are better
 * off as tasks of one launch. */
constexpr ptrdiff_t kHalvesFrom = 10;

/* ---------------------------------------------------------------- one call */

template <typename Ring, int kPivots, bool kPred>
class Rounds {
    using Hold = gd::Storage<Ring>;
    using Word = typename Hold::Word;
    /* Pivots that are closed at a time. With predecessors, which leave a thread no registers to
     * close more, the halves of a long round take turns. */
    static constexpr int kClosed = kPred ? 64 : kPivots, kTurns = kPivots / kClosed;
    using Panels = std::conditional_t<kTurns == 1, gd::Whole<Ring, kPivots>, gd::Halves>;
    using Work = gd::Relaxing<Ring, kPivots, kPred, Panels>;
    using Lines = gd::Relaxing<Ring, kClosed, kPred, Panels>;
    using Kernels = gd::ClosingKernels<Ring, kClosed, kPred>;

public:
    /* `stride` counts what the ring stores from a row of the matrix to the next. */
    Rounds(const gd_apsp &call, ptrdiff_t stride)
        : launch_(call.launch),
          symmetric_(call.symmetric && !kPred),
          tiles_(call.padded / kPivots),
          all_(gd::ceil_div(call.n, kPivots)),
          first_(call.begin / kPivots),
          rounds_(call.end > 0 ? call.end / kPivots : all_)
    {
        const ptrdiff_t pairs = panel_pairs(call.padded);
        Pair<Word> *panel = static_cast<Pair<Word> *>(call.launch.workspace);
        for (auto &paths : paths_) {
            paths.dist = static_cast<typename Hold::Stored *>(call.dist);
            paths.pred = call.pred;
            paths.padded = call.padded;
            paths.stride = stride;
            paths.symmetric = symmetric_;
            paths.pivots = kPivots;
            paths.cols = panel;
            paths.rows = panel + pairs;
            panel = paths.rows + pairs / Hold::kPerWord;
        }
        Pair<int32_t> *preds = reinterpret_cast<Pair<int32_t> *>(panel);
        for (auto &paths : paths_) {
            paths.preds = preds;
            preds += pairs;
        }
        flags_ = kPred ? reinterpret_cast<unsigned *>(preds) : reinterpret_cast<unsigned *>(panel);
    }

    /* All in one stream. */
    gd_status enqueue_in_line(gd_error *err) const
    {
        GD_CUDA_TRY(err, kId, close_tile<gd::Start::kEarly>(launch_, first_, 0));
        for (ptrdiff_t round = first_; round < rounds_ && tiles_ > 1; ++round) {
            GD_CUDA_TRY(err, kId, close_strips<gd::Start::kEarly>(launch_, round, 0));
            GD_CUDA_TRY(err, kId, relax<gd::Start::kEarly>(launch_, gd::kAllTiles, round));
            const gd_status status = pass(round, err);
            if (status != GD_OK) {
                return status;
            }
        }
        return GD_OK;
    }

    /* Enqueues rounds with the next one's pivots ahead, in a stream of their own. */
    gd_status enqueue_ahead(int sms, gd_error *err) const;

    /* All in one launch, where that is quicker: with predecessors up to where rounds get longer.
     * Its plan divides by the number of tiles beside two rounds' pivots, which must not be 0. */
    bool fits_one_launch(int sms) const
    {
        const ptrdiff_t tiles = tiles_of(tiles_, symmetric_);
        return kOneLaunch && (kPred           ? tiles_ > 2 && tiles_ * kPivots <= kFromManyPivots
                              : kPivots == 64 ? tiles >= kFewest && tiles <= kMost
                                              : !symmetric_ && tiles < kHalvesFrom * sms);
    }
    gd_status enqueue_all_rounds(int sms, gd_error *err) const;

private:
    /* Whether threads have the registers to close what they relax, and gain by it. */
    static constexpr bool kOneLaunch =
        kPred ? kPivots == 64 && sizeof(Word) == 4 && Work::Shape::kBlocksPerSm == 3
              : kPivots == 64 || Work::Shape::kBlocksPerSm == 2;
    static_assert(std::is_same<Word, double>::value && kPred
                      ? Work::kSharedBytes == GD_PATHS64_SHARED
                      : true,
                  "csrc/choose.c knows how much it takes");
    static constexpr auto phase3_kernel = gd::relax_phase3<Ring, kPivots, kPred, Panels>;

    static size_t panel_pairs(ptrdiff_t padded) { return kPivots / 2 * (size_t)padded; }

    gd_status pass(ptrdiff_t round, gd_error *err) const
    {
        return gd_pass(&launch_, (double)(round + 1) / (double)all_, err);
    }

    /* The panels of a round, from the pairs of this turn's pivots on. */
    Paths<Ring> paths_of(ptrdiff_t round, int turn) const
    {
        Paths<Ring> paths = paths_[round % 2];
        paths.cols += turn * kClosed / 2 * Panels::kColsWidth;
        paths.rows += turn * kClosed / 2 * Panels::kRowsWidth / Hold::kPerWord;
        paths.preds += turn * kClosed / 2 * Panels::kRowsWidth;
        return paths;
    }
    template <gd::Start kStart>
    cudaError_t close_tile(const gd_launch &launch, ptrdiff_t round, int turn) const
    {
        return gd::enqueue<kStart>(launch, Kernels::tile(), 1, gd::kStripThreads<kClosed>,
                                   Kernels::kTileShared, paths_of(round, turn),
                                   round * kPivots + turn * kClosed);
    }
    template <gd::Start kStart>
    cudaError_t close_strips(const gd_launch &launch, ptrdiff_t round, int turn) const
    {
        const ptrdiff_t all = tiles_ * (kPivots / gd::kStripWidth<kClosed>);
        const ptrdiff_t pivot = round * kPivots + turn * kClosed;
        const ptrdiff_t above = symmetric_ ? pivot / gd::kStripWidth<kClosed> : 0;
        const gd::Strips strips = {
            pivot, (unsigned)(symmetric_ ? above : all), 0, symmetric_ ? pivot : 0, 0, 0};
        return gd::enqueue<kStart>(launch, Kernels::strips(), symmetric_ ? all : 2 * all,
                                   gd::kStripThreads<kClosed>, Kernels::kStripShared,
                                   paths_of(round, turn), strips);
    }
    /* Relaxes the lines of a round's other pivots with those of this turn. */
    cudaError_t relax_others(const gd_launch &launch, ptrdiff_t round, int turn) const
    {
        const Region region = {gd::kNextLines,
                               symmetric_,
                               tiles_ * kTurns,
                               round * kTurns + turn,
                               round * kTurns + 1 - turn,
                               0};
        const Paths<Ring> paths = paths_of(round, turn);
        return gd::enqueue(launch, gd::relax_phase3<Ring, kClosed, kPred, Panels>,
                           count_tiles(region), Lines::Tile::kThreads, Lines::kSharedBytes, paths,
                           paths, region);
    }
    /* All that phases 1 and 2 of a round do. The tile's block is there before it can start: the
     * others of the GPU leave it no room otherwise. */
    cudaError_t close(const gd_launch &launch, ptrdiff_t round) const
    {
        cudaError_t code = cudaSuccess;
        for (int turn = 0; turn < kTurns && code == cudaSuccess; ++turn) {
            code = close_tile<gd::Start::kEarly>(launch, round, turn);
            code =
                code == cudaSuccess ? close_strips<gd::Start::kInTurn>(launch, round, turn) : code;
            if constexpr (kTurns > 1) {
                code = code == cudaSuccess ? relax_others(launch, round, turn) : code;
            }
        }
        return code;
    }
    /* Phase 3, or of its tiles share number `share` of so many. */
    template <gd::Start kStart>
    cudaError_t relax(const gd_launch &launch, gd::Part part, ptrdiff_t round, int share = 0,
                      int shares = 1) const
    {
        const ptrdiff_t next = round + 1 < rounds_ ? round + 1 : -1;
        Region region = {part, symmetric_, tiles_, round, next, 0};
        const ptrdiff_t tiles = count_tiles(region);
        region.first = tiles * share / shares;
        const ptrdiff_t end = tiles * (share + 1) / shares;
        if (region.first == end) {
            return cudaSuccess;
        }
        return gd::enqueue<kStart>(launch, phase3_kernel, (end - region.first) * Work::kParts,
                                   Work::Tile::kThreads, Work::kSharedBytes, paths_[round % 2],
                                   paths_[(round + 1) % 2], region);
    }
    gd_launch launch_;
    bool symmetric_;
    ptrdiff_t tiles_, all_;
    ptrdiff_t first_, rounds_; /* of all rounds, the first one that is ours, and the end */
    Paths<Ring> paths_[2];     /* panels of even and of odd rounds */
    unsigned *flags_;          /* of enqueue_all_rounds() */
};

template <typename Ring, int kPivots, bool kPred>
gd_status Rounds<Ring, kPivots, kPred>::enqueue_all_rounds(int sms, gd_error *err) const
{
    if constexpr (kOneLaunch) {
        using Task = gd::OneLaunchTask<Ring, kPivots, kPred>;
        constexpr auto kernel = gd::close_all_rounds<Ring, kPivots, kPred>;
        gd::OneLaunch<Ring> one_launch = {};
        one_launch.paths[0] = paths_[0];
        one_launch.paths[1] = paths_[1];
        one_launch.first = (unsigned)first_;
        one_launch.end = (unsigned)rounds_;
        Task::plan(one_launch, flags_, (unsigned)tiles_,
                   (unsigned)(sms * Work::Shape::kBlocksPerSm));
        GD_CUDA_TRY(
            err, kId,
            cudaMemsetAsync(flags_, 0, gd::OneLaunchFlags::count((size_t)tiles_) * sizeof *flags_,
                            (cudaStream_t)launch_.stream));
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(launch_, kernel, Task::tasks(one_launch), Task::kThreads,
                                Task::kSharedBytes, one_launch));
    }
    return pass(rounds_ - 1, err);
}

/* Streams beside the launch's own: `first`, of the highest priority, for what the next round needs
 * first, and `other` for half of the tiles, which fill the SMs while the last ones of the other
 * half end. And what the three tell each other, by even and odd rounds. */
struct Ahead {
    cudaStream_t first = NULL, other = NULL;
    cudaEvent_t closed[2] = {};                /* the pivots of a round */
    cudaEvent_t relaxed[2] = {}, rest[2] = {}; /* its tiles, in the launch's stream and the other */

    cudaError_t create()
    {
        int least, greatest;
        cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
        if (code == cudaSuccess) {
            code = cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest);
        }
        if (code == cudaSuccess) {
            code = cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, least);
        }
        for (cudaEvent_t *event :
             {&closed[0], &closed[1], &relaxed[0], &relaxed[1], &rest[0], &rest[1]}) {
            if (code == cudaSuccess) {
                code = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
            }
        }
        return code;
    }
    /* What is enqueued runs to its end; the runtime lets go of the rest then. */
    ~Ahead()
    {
        for (cudaEvent_t event : {closed[0], closed[1], relaxed[0], relaxed[1], rest[0], rest[1]}) {
            if (event != NULL) {
                (void)cudaEventDestroy(event);
            }
        }
        for (cudaStream_t stream : {first, other}) {
            if (stream != NULL) {
                (void)cudaStreamDestroy(stream);
            }
        }
    }
    Ahead() = default;
    Ahead(const Ahead &) = delete;
    Ahead &operator=(const Ahead &) = delete;
};

template <typename Ring, int kPivots, bool kPred>
gd_status Rounds<Ring, kPivots, kPred>::enqueue_ahead(int sms, gd_error *err) const
{
    Ahead ahead;
    GD_CUDA_TRY(err, kId, close(launch_, first_)); /* the device works while streams are made */
    GD_CUDA_TRY(err, kId, ahead.create());
    /* Halves of few blocks end as unevenly as the whole. */
    const int shares =
        gd::count_tiles({gd::kAllTiles, symmetric_, tiles_, 0, -1, 0}) * Work::kParts >=
                kHalvesFrom * sms
            ? 2
            : 1;
    const cudaStream_t main = (cudaStream_t)launch_.stream;
    gd_launch first = launch_, other = launch_;
    first.stream = ahead.first;
    other.stream = ahead.other;
    gd_status status = GD_OK;
    auto enqueue = [&]() -> cudaError_t {
        cudaError_t code;
#define TRY(call)                         \
    if ((code = (call)) != cudaSuccess) { \
        return code;                      \
    }
        const int even_odd = (int)(first_ % 2);
        TRY(cudaEventRecord(ahead.relaxed[1 - even_odd], main)); /* what came before */
        TRY(cudaEventRecord(ahead.rest[1 - even_odd], main));
        TRY(cudaEventRecord(ahead.closed[even_odd], main));
        for (ptrdiff_t round = first_; round < rounds_ && status == GD_OK; ++round) {
            const bool last = round + 1 == rounds_;
            const int now = round % 2, then = 1 - now; /* the round before, and the next */
            TRY(cudaStreamWaitEvent(main, ahead.closed[now], 0));
            TRY(cudaStreamWaitEvent(ahead.other, ahead.closed[now], 0));
            if (!last) {
                /* The round before has relaxed the next lines, and is done with the panels that
                 * the next round takes. */
                TRY(cudaStreamWaitEvent(ahead.first, ahead.relaxed[then], 0));
                TRY(cudaStreamWaitEvent(ahead.first, ahead.rest[then], 0));
                TRY(relax<gd::Start::kInTurn>(first, gd::kNextLines, round));
                TRY(close(first, round + 1));
                TRY(cudaEventRecord(ahead.closed[then], ahead.first));
            }
            const gd::Part part = last ? gd::kAllTiles : gd::kOtherTiles;
            TRY(relax<gd::Start::kInTurn>(launch_, part, round, 0, shares));
            TRY(cudaEventRecord(ahead.relaxed[now], main));
            if (shares > 1) {
                TRY(relax<gd::Start::kInTurn>(other, part, round, 1, shares));
            }
            TRY(cudaEventRecord(ahead.rest[now], ahead.other));
            if (last) {
                TRY(cudaStreamWaitEvent(main, ahead.rest[now], 0));
            }
            status = pass(round, err);
        }
        return cudaSuccess;
#undef TRY
    };
    const cudaError_t code = enqueue();
    if (code != cudaSuccess || status != GD_OK) { /* the caller takes its memory back */
        (void)cudaStreamSynchronize(ahead.first);
        (void)cudaStreamSynchronize(ahead.other);
    }
    GD_CUDA_TRY(err, kId, code);
    return status;
}

/* ---------------------------------------------------------------- which form */

ptrdiff_t padding(const gd_apsp &call) { return call.n >= kFromManyPivots ? 128 : 64; }

template <typename Ring, int kPivots, bool kPred>
gd_status run(gd_apsp &call, ptrdiff_t stride, gd_error *err)
{
    const Rounds<Ring, kPivots, kPred> rounds(call, stride);
    int sms = 0;
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call.launch.device.index));
    if (rounds.fits_one_launch(sms)) {
        return rounds.enqueue_all_rounds(sms, err);
    }
    return kPivots == 128 ? rounds.enqueue_ahead(sms, err) : rounds.enqueue_in_line(err);
}

/* Closes the matrix in place, with 16 bits an element. */
template <typename T>
gd_status run_paths16(gd_apsp &call, gd_error *err)
{
    T *const dist = static_cast<T *>(call.dist);
    const T far = std::is_same<T, int32_t>::value ? (T)GD_I32_FAR : (T)INFINITY;
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, gd::make_16_bits<T>, call.padded, gd::kNarrowThreads, 0,
                            dist, call.padded));
    const gd_status status =
        run<gd::Narrow, 128, false>(call, call.padded * (ptrdiff_t)(sizeof(T) / 2), err);
    if (status != GD_OK) {
        return status;
    }
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, gd::make_wide<T>, call.padded, gd::kNarrowThreads, 0, dist,
                            call.padded, far));
    return GD_OK;
}

/* Runs a call in the form that is quickest. */
template <typename Ring>
gd_status run(gd_apsp &call, gd_error *err)
{
    using T = typename Ring::Word;
    int shared_bytes = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                       call.launch.device.index));
    const size_t needed = call.pred != NULL
                              ? gd::Relaxing<gd::PlusUnsigned, 128, true, gd::Halves>::kSharedBytes
                              : gd::Relaxing<gd::PlusUnsigned, 128, false,
                                             gd::Whole<gd::PlusUnsigned, 128>>::kSharedBytes;
    const bool half = call.symmetric && call.pred == NULL && sizeof(T) == 4;
    const bool many =
        call.n >= (half ? kFromManyForHalf : kFromManyPivots) && (size_t)shared_bytes >= needed;
    const bool narrow = many && call.longest > 0 && call.longest < gd::kNarrowFar &&
                        gd_has_halfwords(call.launch.device);
    if constexpr (sizeof(T) == 4) { /* doubles have no registers for many pivots */
        if (call.pred != NULL && many) {
            return run<Ring, 128, true>(call, call.padded, err);
        }
    }
    if (call.pred != NULL) {
        return run<Ring, 64, true>(call, call.padded, err);
    }
    gd_status status;
    if (narrow) {
        status = run_paths16<T>(call, err);
    }
    else if constexpr (sizeof(T) == 4) {
        status = many ? run<Ring, 128, false>(call, call.padded, err)
                      : run<Ring, 64, false>(call, call.padded, err);
    }
    else {
        status = run<Ring, 64, false>(call, call.padded, err);
    }
    if (status == GD_OK && call.symmetric) {
        const ptrdiff_t across = call.padded / gd::kMirrorSide;
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, gd::mirror<T>, across * across, gd::kMirrorThreads, 0,
                                static_cast<T *>(call.dist), call.padded));
    }
    return status;
}

}  // namespace

#define GD_HAVE(...) template struct gd::ClosingKernels<__VA_ARGS__>;
GD_CLOSED_FOR_BANDS(GD_HAVE)
#undef GD_HAVE

extern "C" gd_status gd_cuda_apsp_blocked(gd_apsp *call, gd_error *err)
{
    /* Half of the tiles in one launch are sooner closed than all of them in shared memory. */
    const bool half = call->symmetric && call->pred == NULL && call->dtype != GD_F64 &&
                      tiles_of(gd::ceil_div(call->n, (ptrdiff_t)64), true) >= kFewest;
    if (gd::fits_resident(*call) && !half) {
        return gd::close_in_one_launch(*call, err);
    }
    if (call->launch.sizing) { /* before anything is known of the weights: room for any form */
        const size_t element = call->dtype == GD_F64 ? sizeof(double) : sizeof(float);
        const size_t pivots = call->dtype == GD_F64 ? 64 : padding(*call), fewest = 64;
        call->padded = gd::ceil_div(call->n, padding(*call)) * padding(*call);
        call->step = padding(*call);
        /* Nobody looks: a negative weight shows in the answer, and all is done again. */
        call->looks = half && call->dtype == GD_F32 && call->n < kFromManyForHalf;
        call->launch.workspace_bytes =
            2 * pivots * (size_t)call->padded * (2 * element + (call->pred != NULL ? 4 : 0)) +
            gd::OneLaunchFlags::count((size_t)call->padded / fewest) * sizeof(unsigned);
        return GD_OK;
    }
    switch (call->dtype) {
        case GD_F32:
            return call->nonnegative ? run<gd::PlusUnsigned>(*call, err)
                                     : run<gd::Plus<float>>(*call, err);
        case GD_F64:
            return run<gd::Plus<double>>(*call, err);
        default:
            return run<gd::Plus<int32_t>>(*call, err);
    }
}
