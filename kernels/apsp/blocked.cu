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
 * Cost: n^3 updates; instructions are the floor (rings.cuh). In 1e12 updates/s on an H200, float32
 * without negative weights is bound by 22.3, and by 19.3 in registers; with them by 16.7; int32 by
 * 16.7; float64 by 4.8 in a tile. Phase 3 moves 8 / pivots bytes an update in float32, so 64
 * pivots' worth of memory traffic allows 34 and 128 pivots' worth 68; the panels stay in L2.
 *
 * Launch: with 64 pivots a round, two kernels: the first block of phase 3 also closes the next
 * pivot tile, and each kernel starts while its predecessor ends. With 128, where phase 3 takes more
 * than 100 us, two streams: rows, columns and tile of the next pivots run beside the rest of this
 * round.
 *
 * Source: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths
 * algorithm" (2003); G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the
 * GPU" (2008).
 *
 * Reached on an H200, 1e12 updates/s: float32 n = 1024 3.1, 2048 8.5, 4096 13.2, 8192 15.6, 16384
 * 16.2, of 17.2 that the inner loop reaches by itself; with negative weights 13.3, int32 15.4,
 * 16 bits 29.2, undirected float32 31.8 (all n = 16384); float64 4.9 and with predecessors float32
 * 6.8 on a complete graph, where a third of all elements changes in a round, and 11 on a sparse one
 * (n = 8192). Small n would wait for the chain of pivot tile and strips, 20 us a round of 64
 * pivots: without predecessors and in 32 bits, up to 2048 nodes go the way of resident.cu. */
#include "apsp/resident.cuh"
#include "apsp/rest.cuh"

namespace {

using gd::Pair;
using gd::Paths;
using gd::Region;

constexpr const char *kId = "apsp/cuda_blocked";

/* Many pivots a round save memory traffic, few save time in the pivot tile, which one SM closes
 * while the others wait. The answer is the same. */
constexpr ptrdiff_t kFromManyPivots = 4096;

/* ---------------------------------------------------------------- one call */

template <typename Ring, int kPivots, bool kPred>
class Rounds {
    using Hold = gd::Storage<Ring>;
    using Word = typename Hold::Word;
    using Work = gd::Relaxing<Ring, kPivots, kPred>;

public:
    /* `stride` counts what the ring stores from a row of the matrix to the next. */
    Rounds(const gd_apsp &call, ptrdiff_t stride)
        : launch_(call.launch),
          symmetric_(call.symmetric && !kPred),
          tiles_(call.padded / kPivots),
          rounds_(gd::ceil_div(call.n, kPivots))
    {
        const ptrdiff_t pairs = panel_pairs(call.padded);
        Pair<Word> *panel = static_cast<Pair<Word> *>(call.launch.workspace);
        for (auto &paths : paths_) {
            paths.dist = static_cast<typename Hold::Stored *>(call.dist);
            paths.pred = call.pred;
            paths.padded = call.padded;
            paths.stride = stride;
            paths.symmetric = symmetric_;
            paths.cols = panel;
            paths.rows = panel + pairs;
            panel = paths.rows + pairs / Hold::kPerWord;
        }
        Pair<int32_t> *preds = reinterpret_cast<Pair<int32_t> *>(panel);
        for (auto &paths : paths_) {
            paths.preds = preds;
            preds += pairs;
        }
    }

    gd_status prepare(gd_error *err) const
    {
        GD_CUDA_TRY(err, kId, allow_shared(tile_kernel, kTileShared));
        GD_CUDA_TRY(err, kId, allow_shared(strip_kernel, kStripShared));
        GD_CUDA_TRY(err, kId, allow_shared(rest_kernel, Work::kSharedBytes));
        return GD_OK;
    }

    /* All in one stream. */
    gd_status enqueue_in_line(gd_error *err) const
    {
        GD_CUDA_TRY(err, kId, close_tile<true>(launch_, 0));
        for (ptrdiff_t round = 0; round < rounds_ && tiles_ > 1; ++round) {
            GD_CUDA_TRY(err, kId, close_strips<true>(launch_, round));
            GD_CUDA_TRY(err, kId, relax<true>(launch_, gd::kAllTiles, round));
            const gd_status status = pass(round, err);
            if (status != GD_OK) {
                return status;
            }
        }
        return GD_OK;
    }

    /* With the next round's pivots ahead, in a stream of their own. */
    gd_status enqueue_ahead(gd_error *err) const;

private:
    static constexpr size_t kStripShared = gd::kStripSharedBytes<Ring, kPivots, kPred>;
    static constexpr size_t kTileShared =
        sizeof(typename gd::PivotTile<Ring, kPivots, gd::kStripThreads<kPivots>, kPred>::Lines);
    static constexpr auto tile_kernel = gd::close_pivot_tile<Ring, kPivots, kPred>;
    static constexpr auto strip_kernel = gd::close_strips<Ring, kPivots, kPred>;
    static constexpr auto rest_kernel = gd::relax_rest<Ring, kPivots, kPred>;

    static size_t panel_pairs(ptrdiff_t padded) { return kPivots / 2 * (size_t)padded; }

    gd_status pass(ptrdiff_t round, gd_error *err) const
    {
        return gd_pass(&launch_, (double)(round + 1) / (double)rounds_, err);
    }

    template <typename Kernel>
    static cudaError_t allow_shared(Kernel kernel, size_t bytes)
    {
        return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes);
    }

    template <bool kEarly>
    cudaError_t close_tile(const gd_launch &launch, ptrdiff_t round) const
    {
        return gd::enqueue<kEarly>(launch, tile_kernel, 1, gd::kStripThreads<kPivots>, kTileShared,
                                   paths_[round % 2], round * kPivots);
    }
    template <bool kEarly>
    cudaError_t close_strips(const gd_launch &launch, ptrdiff_t round) const
    {
        const ptrdiff_t strips =
            (symmetric_ ? 1 : 2) * tiles_ * (kPivots / gd::kStripWidth<kPivots>);
        return gd::enqueue<kEarly>(launch, strip_kernel, strips, gd::kStripThreads<kPivots>,
                                   kStripShared, paths_[round % 2], round * kPivots);
    }
    template <bool kEarly>
    cudaError_t relax(const gd_launch &launch, gd::Part part, ptrdiff_t round) const
    {
        const ptrdiff_t next = round + 1 < rounds_ ? round + 1 : -1;
        const Region region = {part, symmetric_, tiles_, round, next};
        return gd::enqueue<kEarly>(launch, rest_kernel, count_tiles(region) * Work::kParts,
                                   Work::Tile::kThreads, Work::kSharedBytes, paths_[round % 2],
                                   paths_[(round + 1) % 2], region);
    }
    gd_launch launch_;
    bool symmetric_;
    ptrdiff_t tiles_, rounds_;
    Paths<Ring> paths_[2]; /* panels of even and of odd rounds */
};

/* A stream of the highest priority, and what it and the launch's own tell each other. */
struct Ahead {
    cudaStream_t stream = NULL;
    cudaEvent_t closed[2] = {}, relaxed[2] = {}; /* pivots of a round, tiles; by even and odd */

    cudaError_t create()
    {
        int least, greatest;
        cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
        if (code == cudaSuccess) {
            code = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
        }
        for (cudaEvent_t *event : {&closed[0], &closed[1], &relaxed[0], &relaxed[1]}) {
            if (code == cudaSuccess) {
                code = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
            }
        }
        return code;
    }
    /* What is enqueued runs to its end; the runtime lets go of the rest then. */
    ~Ahead()
    {
        for (cudaEvent_t event : {closed[0], closed[1], relaxed[0], relaxed[1]}) {
            if (event != NULL) {
                (void)cudaEventDestroy(event);
            }
        }
        if (stream != NULL) {
            (void)cudaStreamDestroy(stream);
        }
    }
    Ahead() = default;
    Ahead(const Ahead &) = delete;
    Ahead &operator=(const Ahead &) = delete;
};

template <typename Ring, int kPivots, bool kPred>
gd_status Rounds<Ring, kPivots, kPred>::enqueue_ahead(gd_error *err) const
{
    Ahead ahead;
    GD_CUDA_TRY(err, kId, ahead.create());
    const cudaStream_t main = (cudaStream_t)launch_.stream;
    gd_launch side = launch_;
    side.stream = ahead.stream;
    gd_status status = GD_OK;
    auto enqueue = [&]() -> cudaError_t {
        cudaError_t code;
#define TRY(call)                         \
    if ((code = (call)) != cudaSuccess) { \
        return code;                      \
    }
        TRY(cudaEventRecord(ahead.relaxed[1], main)); /* what came before this call */
        TRY(cudaStreamWaitEvent(ahead.stream, ahead.relaxed[1], 0));
        TRY(close_tile<false>(side, 0));
        TRY(close_strips<false>(side, 0));
        TRY(cudaEventRecord(ahead.closed[0], ahead.stream));
        for (ptrdiff_t round = 0; round < rounds_ && status == GD_OK; ++round) {
            const bool last = round + 1 == rounds_;
            TRY(cudaStreamWaitEvent(main, ahead.closed[round % 2], 0));
            if (!last) {
                /* The round before has relaxed the next lines, and is done with the panels that
                 * the next round takes. */
                TRY(cudaStreamWaitEvent(ahead.stream, ahead.relaxed[(round + 1) % 2], 0));
                TRY(relax<false>(side, gd::kNextLines, round));
                TRY(close_tile<false>(side, round + 1));
                TRY(close_strips<false>(side, round + 1));
                TRY(cudaEventRecord(ahead.closed[(round + 1) % 2], ahead.stream));
            }
            TRY(relax<false>(launch_, last ? gd::kAllTiles : gd::kOtherTiles, round));
            TRY(cudaEventRecord(ahead.relaxed[round % 2], main));
            status = pass(round, err);
        }
        return cudaSuccess;
#undef TRY
    };
    const cudaError_t code = enqueue();
    if (code != cudaSuccess || status != GD_OK) {
        (void)cudaStreamSynchronize(ahead.stream); /* the caller takes its memory back */
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
    const gd_status status = rounds.prepare(err);
    if (status != GD_OK) {
        return status;
    }
    return kPivots == 128 ? rounds.enqueue_ahead(err) : rounds.enqueue_in_line(err);
}

/* In place, with 16 bits an element. */
template <typename T>
gd_status run_narrow(gd_apsp &call, gd_error *err)
{
    T *const dist = static_cast<T *>(call.dist);
    const T far = std::is_same<T, int32_t>::value ? (T)GD_I32_FAR : (T)INFINITY;
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, gd::make_narrow<T>, call.padded, gd::kNarrowThreads, 0,
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

/* What a call asks for, in the form that is quickest. */
template <typename Ring>
gd_status run(gd_apsp &call, gd_error *err)
{
    using T = typename Ring::Word;
    int shared_bytes = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                       call.launch.device.index));
    const bool fits =
        (size_t)shared_bytes >= gd::Relaxing<gd::PlusUnsigned, 128, false>::kSharedBytes;
    const bool many = call.n >= kFromManyPivots && fits;
    const bool narrow = many && call.longest > 0 && call.longest < gd::kNarrowFar;
    if (call.pred != NULL) { /* predecessors have no registers for many pivots */
        return run<Ring, 64, true>(call, call.padded, err);
    }
    gd_status status;
    if (narrow) {
        status = run_narrow<T>(call, err);
    }
    else if constexpr (sizeof(T) == 4) { /* nor have doubles */
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

extern "C" gd_status gd_cuda_apsp_blocked(gd_apsp *call, gd_error *err)
{
    if (gd::fits_resident(*call)) {
        return gd::close_in_one_launch(*call, err);
    }
    if (call->launch.sizing) { /* before anything is known of the weights: room for any form */
        const size_t element = call->dtype == GD_F64 ? sizeof(double) : sizeof(float);
        const size_t pivots = call->dtype == GD_F64 || call->pred != NULL ? 64 : padding(*call);
        call->padded = gd::ceil_div(call->n, padding(*call)) * padding(*call);
        call->launch.workspace_bytes =
            2 * pivots * (size_t)call->padded * (2 * element + (call->pred != NULL ? 4 : 0));
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
