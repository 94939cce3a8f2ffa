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
 * Cost: n^3 updates; instructions are the floor (minplus.cuh). In 1e12 updates/s on an H200,
 * float32 is bound by 16.7, and by 13.5 in a tile fed from shared memory; int32 by 16; float64
 * by 4.8. With predecessors, a pair of pivots is 2 FADD and, at half rate, 2 FMNMX, FSETP and SEL:
 * 8.3. Phase 3 moves 8 / pivots bytes an update in float32, so 64 pivots' worth of memory traffic
 * allows 34 and 128 pivots' worth 68; the panels stay in L2.
 *
 * Launch: three kernels a round. A block of phase 3 has 128 threads and a tile of 128 x 64, 8 x 8 a
 * thread, or 64 x 64, 8 x 4 a thread, where doubles or winners take the registers. It reads the
 * panels in slabs of 16 pivots, three of which are in shared memory or under way.
 *
 * Source: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths
 * algorithm" (2003); G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the
 * GPU" (2008).
 *
 * Reached on an H200, 1e12 updates/s: float32 n = 1024 2.2, 2048 5.6, 4096 9.1, 8192 11.4, 16384
 * 12.3; at n = 8192 int32 13.2, float64 4.7, with predecessors float32 5.6, int32 5.8, float64 3.1.
 * Small n wait for the pivot tile (11 us a round of 64) and for launches, large n for phase 3. */
#include "apsp/closure.cuh"
#include "apsp/rest.cuh"

namespace {

using gd::Pair;
using gd::Paths;

constexpr const char *kId = "apsp/cuda_blocked";
constexpr int kPadding = 128; /* every tile, strip and round fits a multiple of this */

/* ---------------------------------------------------------------- the rounds */

template <typename T, int kPivots, bool kPred>
gd_status enqueue_rounds(const gd_apsp &call, gd_error *err)
{
    using Tile = typename gd::Rest<T, kPred>::Tile;
    Paths<T> paths = {static_cast<T *>(call.dist), call.pred, call.padded, {}};
    paths.panels.cols = static_cast<Pair<T> *>(call.launch.workspace);
    paths.panels.rows = paths.panels.cols + kPivots / 2 * call.padded;
    paths.panels.preds = reinterpret_cast<int32_t *>(paths.panels.rows + kPivots / 2 * call.padded);

    constexpr size_t kShared = gd::strip_shared_bytes(kPivots, sizeof(T), kPred);
    const auto tile_kernel = gd::close_pivot_tile<T, kPivots, kPred>;
    const auto strip_kernel = gd::close_strips<T, kPivots, kPred>;
    const auto rest_kernel = gd::relax_rest<T, kPred>;
    GD_CUDA_TRY(err, kId,
                cudaFuncSetAttribute(strip_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)kShared));
    const ptrdiff_t strips = 2 * (call.padded / gd::kStripWidth);
    const ptrdiff_t across = call.padded / Tile::kBlockCols, down = call.padded / Tile::kBlockRows;
    for (ptrdiff_t pivot = 0; pivot < call.n; pivot += kPivots) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, tile_kernel, 1, gd::kStripThreads, 0, paths, pivot));
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, strip_kernel, strips, gd::kStripThreads, kShared,
                                paths, pivot));
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, rest_kernel, across * down, Tile::kThreads, 0, paths,
                                pivot, kPivots, (unsigned)across));
        const gd_status status =
            gd_pass(&call.launch, (double)(pivot + kPivots) / (double)call.padded, err);
        if (status != GD_OK) {
            return status;
        }
    }
    return GD_OK;
}

/* Many pivots a round save memory traffic, few save time in the pivot tile, which one SM closes
 * while the others wait. The answer is the same. */
gd_status choose_pivots(const gd_apsp &call, int *pivots, gd_error *err)
{
    int shared_bytes = 0;
    GD_CUDA_TRY(err, kId,
                cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                       call.launch.device.index));
    const bool roomy = call.pred == NULL && call.dtype != GD_F64; /* registers for 8 x 8 */
    const bool large = call.n >= 4096;
    const bool fits = (size_t)shared_bytes >= gd::strip_shared_bytes(128, 4, false); /* not sm_75 */
    *pivots = roomy && large && fits ? 128 : 64;
    return GD_OK;
}

template <typename T, bool kPred>
gd_status run(gd_apsp &call, gd_error *err)
{
    int pivots = 0;
    const gd_status status = choose_pivots(call, &pivots, err);
    if (status != GD_OK) {
        return status;
    }
    if (call.launch.sizing) {
        call.padded = gd::ceil_div(call.n, kPadding) * kPadding;
        call.launch.workspace_bytes =
            (size_t)call.padded * (size_t)pivots * (2 * sizeof(T) + (kPred ? sizeof(int32_t) : 0));
        return GD_OK;
    }
    if constexpr (sizeof(T) == 4 && !kPred) {
        if (pivots == 128) {
            return enqueue_rounds<T, 128, kPred>(call, err);
        }
    }
    return enqueue_rounds<T, 64, kPred>(call, err);
}

template <typename T>
gd_status run(gd_apsp &call, gd_error *err)
{
    return call.pred != NULL ? run<T, true>(call, err) : run<T, false>(call, err);
}

}  // namespace

extern "C" gd_status gd_cuda_apsp_blocked(gd_apsp *call, gd_error *err)
{
    switch (call->dtype) {
        case GD_F32:
            return run<float>(*call, err);
        case GD_F64:
            return run<double>(*call, err);
        default:
            return run<int32_t>(*call, err);
    }
}
