/* bands.cuh: blocked Floyd-Warshall on a band of the matrix's rows, for matrices larger than the
 * device's memory (csrc/run_apsp_far.c says how bands come and go), and for first and last stages
 * beside the bus (csrc/run_apsp_ends.c).
 *
 * Idea: stage k of the triple loop takes row i to min(row i, d[i][k] + row k), and so needs row k
 * as it is at stage k, and nothing else of other rows. A band that holds the pivots of some stages
 * goes through phases 1 to 3 of blocked.cu by itself and leaves the panel of rows, these snapshots,
 * behind for each round. Any other band goes through the same rounds later: it closes its part of
 * the pivots' columns with the snapshots, and relaxes the rest. The sums are the triple loop's, and
 * so are the bits.
 *
 * Cost: as blocked.cu: n^3 updates, two or three launches a round, in one stream. The matrix passes
 * through the SMs once a round, 8 / pivots bytes an update in float32. A band's part of the pivots'
 * columns is few blocks' work, some 20 us a round beside 1 to 2 ms for the rest of a band of 1 GB;
 * halves of a band in two streams, taking turns at it, were no quicker.
 *
 * Launch: kernels of pivot_phases.cuh and phase3.cuh with grids that cover a band. Their
 * coordinates are the matrix's: pointers to a band are moved back by what lies above it.
 *
 * Reached on an H200, all bands on the device, 1e12 updates/s, and in core in the same run: float32
 * n = 16384 by bands of 2048 rows 14.9 (16.2), of 512 rows 11.3; with negative weights 11.1 (13.3),
 * int32 12.8 (15.4), all by bands of 1024; float64 n = 8192 by 512 rows 3.8 (4.9), predecessors 4.5
 * (6.9). */
#ifndef GPUDIST_APSP_BANDS_CUH
#define GPUDIST_APSP_BANDS_CUH

#include "apsp/phase3.cuh"

namespace gd {

/* Rows of tiles in a band, where in the matrix they begin, which tile has the pivots, and which
 * rows of tiles are left alone. */
struct BandRegion {
    ptrdiff_t first, down, across, pivot, spared, spared_end;
};

/* Phase 3. Some rows of tiles go along the columns together, so that their part of the panels is
 * read once from device memory. */
template <typename Ring, int kPivots, bool kPred>
__global__ void __launch_bounds__(Phase3<Ring, kPivots, kPred>::Tile::kThreads,
                                  Phase3<Ring, kPivots, kPred>::kBlocksPerSm)
    relax_band(const __grid_constant__ Paths<Ring> paths, const __grid_constant__ BandRegion band)
{
    using Work = Relaxing<Ring, kPivots, kPred, Whole<Ring, kPivots>>;
    extern __shared__ int4 shared[];
    const ptrdiff_t block = blockIdx.x / Work::kParts, part = blockIdx.x % Work::kParts;
    const ptrdiff_t group = block / (kTileGroup * band.across) * kTileGroup;
    const ptrdiff_t rows = min((ptrdiff_t)kTileGroup, band.down - group);
    const ptrdiff_t place = block % (kTileGroup * band.across);
    const ptrdiff_t i = band.first + group + place % rows, j = place / rows;
    follow<true>();
    if (i != band.pivot && j != band.pivot && !(i >= band.spared && i < band.spared_end)) {
        Work::relax(paths, i * kPivots, j * kPivots + part * (kPivots / Work::kParts), shared);
    }
}

/* A band comes without the padding on its right, and the last one without that below. Nodes from n
 * on have no edges, whatever other bands have left there. */
constexpr int kFillThreads = 256;
template <typename Ring>
__global__ void __launch_bounds__(kFillThreads)
    fill_padding(typename Ring::Word *dist, int32_t *pred, ptrdiff_t first, ptrdiff_t n,
                 ptrdiff_t padded, typename Ring::Word loop)
{
    const ptrdiff_t row = first + blockIdx.x, at = blockIdx.x * padded;
    for (ptrdiff_t j = (row < n ? n : 0) + threadIdx.x; j < padded; j += kFillThreads) {
        dist[at + j] = j == row ? loop : Ring::neutral();
        if (pred != NULL) {
            pred[at + j] = GD_NO_PREDECESSOR;
        }
    }
}

/* A call. Its matrix is `padded` wide, a multiple of kPivots. */
template <typename Ring, int kPivots, bool kPred>
class BandRounds {
    using T = typename Ring::Word;
    using Panels = Whole<Ring, kPivots>;
    using Work = Relaxing<Ring, kPivots, kPred, Panels>;

public:
    static gd_status size(gd_apsp_band &call)
    {
        call.step = kPivots;
        call.padded = ceil_div(call.n, kPivots) * kPivots;
        call.snapshot_bytes =
            (size_t)call.pivots * (size_t)call.padded * (sizeof(T) + (kPred ? sizeof(int32_t) : 0));
        call.launch.workspace_bytes = (size_t)kPivots * (size_t)call.rows * sizeof(T);
        return GD_OK;
    }

    BandRounds(const gd_apsp_band &call, const char *id)
        : call_(call), id_(id), rounds_(call.pivots / kPivots)
    {
        /* Where a panel begins is linear in a block's number. */
        const ptrdiff_t above = call.first * call.padded;
        paths_ = {};
        paths_.dist = static_cast<T *>(call.dist) - above;
        paths_.pred = kPred ? call.pred - above : NULL;
        paths_.padded = paths_.stride = call.padded;
        paths_.pivots = kPivots;
        paths_.cols = static_cast<Pair<T> *>(call.launch.workspace) -
                      panel_at<Panels::kColsWidth>(kPivots, 0, call.first);
    }

    gd_status enqueue_all(T loop, gd_error *err)
    {
        const bool has_pivots =
            call_.pivot >= call_.first && call_.pivot < call_.first + call_.rows &&
            !(call_.pivot >= call_.spared && call_.pivot < call_.spared + call_.spared_rows);
        const ptrdiff_t pairs = kPivots / 2 * call_.padded;
        Pair<T> *const rows = static_cast<Pair<T> *>(call_.snapshots);
        Pair<int32_t> *const preds = reinterpret_cast<Pair<int32_t> *>(rows + rounds_ * pairs);
        gd_status status = GD_OK;
        if (!call_.filled) {
            GD_CUDA_TRY(err, id_,
                        enqueue(call_.launch, fill_padding<Ring>, call_.rows, kFillThreads, 0,
                                static_cast<T *>(call_.dist), call_.pred, call_.first, call_.n,
                                call_.padded, loop));
        }
        for (ptrdiff_t round = 0; round < rounds_ && status == GD_OK; ++round) {
            paths_.rows = rows + round * pairs;
            paths_.preds = kPred ? preds + round * pairs : NULL;
            const ptrdiff_t pivot = call_.pivot / kPivots + round;
            /* What comes before may be another stream's event, which is to be waited for. */
            GD_CUDA_TRY(err, id_,
                        round == 0 && call_.filled
                            ? enqueue_round<Start::kInTurn>(pivot, has_pivots)
                            : enqueue_round<Start::kEarly>(pivot, has_pivots));
            const double part = (double)(round + 1) / (double)rounds_;
            status = gd_pass(&call_.launch, call_.done + call_.share * part, err);
        }
        return status;
    }

private:
    using Kernels = ClosingKernels<Ring, kPivots, kPred>;
    static constexpr auto phase3_kernel = relax_band<Ring, kPivots, kPred>;

    /* kStart: of its first kernel. */
    template <Start kStart>
    cudaError_t enqueue_round(ptrdiff_t pivot, bool has_pivots) const
    {
        const BandRegion band = {
            call_.first / kPivots,  call_.rows / kPivots,
            call_.padded / kPivots, pivot,
            call_.spared / kPivots, (call_.spared + call_.spared_rows) / kPivots};
        cudaError_t code = cudaSuccess;
        if (has_pivots) {
            code = enqueue<kStart>(call_.launch, Kernels::tile(), 1, kStripThreads<kPivots>,
                                   Kernels::kTileShared, paths_, pivot * kPivots);
            code = code == cudaSuccess ? enqueue_strips<Start::kEarly>(band, band.across) : code;
        }
        else {
            code = enqueue_strips<kStart>(band, 0);
        }
        const bool rest = !(has_pivots && band.down == 1);
        return code != cudaSuccess || !rest
                   ? code
                   : enqueue<Start::kEarly>(call_.launch, phase3_kernel,
                                            band.down * band.across * Work::kParts,
                                            Work::Tile::kThreads, Work::kSharedBytes, paths_, band);
    }

    /* Closes the band's part of the pivots' columns, and so many tiles of their rows. */
    template <Start kStart>
    cudaError_t enqueue_strips(const BandRegion &band, ptrdiff_t tiles_of_rows) const
    {
        constexpr int kEach = kPivots / kStripWidth<kPivots>; /* of a tile */
        const Strips strips = {band.pivot * kPivots,  (unsigned)(kEach * band.down),
                               band.first * kPivots,  0,
                               band.spared * kPivots, band.spared_end * kPivots};
        return enqueue<kStart>(call_.launch, Kernels::strips(), kEach * (band.down + tiles_of_rows),
                               kStripThreads<kPivots>, Kernels::kStripShared, paths_, strips);
    }

    const gd_apsp_band &call_;
    const char *id_;
    ptrdiff_t rounds_;
    Paths<Ring> paths_;
};

/* `loop` is the length of a path of no edge. */
template <typename Ring, int kPivots, bool kPred>
gd_status run_band(gd_apsp_band &call, const char *id, typename Ring::Word loop, gd_error *err)
{
    using Rounds = BandRounds<Ring, kPivots, kPred>;
    return call.launch.sizing ? Rounds::size(call) : Rounds(call, id).enqueue_all(loop, err);
}

}  // namespace gd
#endif
