/* edges.cuh: the edges of a graph as they are read on the device, tile by tile.
 *
 * Idea: whatever strides and dtype the weights have, a block of 256 threads reads a tile of 32 x 32
 * so that neighbouring threads read neighbouring bytes, along whichever stride is the small one,
 * and turns it over in shared memory. So all that comes after is written once. */
#ifndef GPUDIST_COMMON_EDGES_CUH
#define GPUDIST_COMMON_EDGES_CUH

#include <math.h>

#include "common/launch.cuh"

namespace gd {

constexpr int kTileSide = 32, kTileRows = 8; /* of a tile; of a block's threads */
constexpr int kTileThreads = kTileSide * kTileRows;
constexpr int kTilesPerBlock = 16;

/* Whether what stands in the matrix is an edge's weight. */
__device__ __forceinline__ bool is_edge(const gd_graph &graph, double value)
{
    return isfinite(value) && !(graph.no_edge == GD_NO_EDGE_ZERO && value == 0) &&
           !(graph.no_edge == GD_NO_EDGE_SENTINEL && value == graph.sentinel);
}
/* A bool is an edge where it is true. */
__device__ __forceinline__ bool is_edge(const gd_graph &, uint8_t value) { return value != 0; }

/* The weight of edge [i, j] as a double, which holds every dtype exactly; infinity is no edge. A
 * bool is an edge where it is true. */
__device__ __forceinline__ double edge_weight(const gd_graph &graph, ptrdiff_t i, ptrdiff_t j)
{
    const gd_matrix &w = graph.weights;
    const ptrdiff_t at = i * w.row_stride + j * w.col_stride;
    double value;
    if (w.dtype == GD_BOOL) {
        return static_cast<const uint8_t *>(w.data)[at] ? 1.0 : HUGE_VAL;
    }
    if (w.dtype == GD_F32) {
        value = static_cast<const float *>(w.data)[at];
    }
    else if (w.dtype == GD_F64) {
        value = static_cast<const double *>(w.data)[at];
    }
    else {
        value = static_cast<const int32_t *>(w.data)[at];
    }
    return !is_edge(graph, value) ? HUGE_VAL : graph.unweighted ? 1.0 : value;
}

/* tile[a][b] = weight of edge [i0 + a, j0 + b], or with `mirrored` of edge [j0 + b, i0 + a].
 * Neighbouring threads go along the smaller stride; the tile is one wider than 32, so that a column
 * of it lies in 32 different banks. */
__device__ __forceinline__ void load_tile(const gd_graph &graph, ptrdiff_t i0, ptrdiff_t j0,
                                          bool mirrored, double (*tile)[kTileSide + 1])
{
    const gd_matrix &w = graph.weights;
    const bool along_rows = llabs(w.col_stride) <= llabs(w.row_stride);
    for (int y = threadIdx.x / kTileSide; y < kTileSide; y += kTileRows) {
        const int x = threadIdx.x % kTileSide;
        const int a = along_rows != mirrored ? y : x, b = along_rows != mirrored ? x : y;
        const ptrdiff_t i = mirrored ? j0 + b : i0 + a, j = mirrored ? i0 + a : j0 + b;
        tile[a][b] = i < w.rows && j < w.cols ? edge_weight(graph, i, j) : HUGE_VAL;
    }
}

}  // namespace gd
#endif
