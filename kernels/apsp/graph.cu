/* graph.cu: graphs in, path lengths out, on the device: the two passes around every apsp kernel.
 *
 * Idea: one pass reads the weights once and writes the padded matrix that the kernels close, and
 * the predecessors; the other writes lengths in the caller's form. What has to be known about the
 * values (facts) is gathered on the way, so that nothing is read twice.
 *
 * Cost: memory only. Reading float32 moves 8 bytes an element (12 with predecessors, 12 if
 * undirected, where [j, i] is read as well): 0.5 ms for n = 16384 at the H200's 4.27 TB/s, against
 * 350 ms for closing it.
 *
 * Launch: 256 threads; blocks take 32 x 32 tiles through shared memory, so that neighbouring
 * threads read neighbouring bytes whichever stride of the weights is the small one, and of [j, i]
 * too.
 *
 * Reached on an H200, n = 16384, float32: reading 3.0 ms, with predecessors of an undirected graph
 * 5.2 ms, writing 0.75 ms. The matrix passes in doubles; nobody waits for it beside the closure. */
#include <math.h>
#include <string.h>

#include "common.cuh"

namespace {

constexpr int kSide = 32, kThreadRows = 8; /* of a tile; of a block's threads */
constexpr int kTilesPerBlock = 16;         /* facts leave a block once */
constexpr int kThreads = kSide * kThreadRows;
constexpr double kInfinity = HUGE_VAL;
constexpr const char *kReadId = "reading a graph on the device";
constexpr const char *kWriteId = "writing path lengths on the device";

/* A little device memory, given back in stream order on every way out. */
struct Scratch {
    void *data = NULL;
    cudaStream_t stream;
    explicit Scratch(void *s) : stream((cudaStream_t)s) {}
    ~Scratch()
    {
        if (data != NULL) {
            (void)cudaFreeAsync(data, stream);
        }
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
};

/* ---------------------------------------------------------------- graphs in */

/* Facts as atomics can gather them: non-negative doubles are ordered like their bits, and an index
 * of all ones is both the largest one and -1. */
struct Facts {
    unsigned long long max_abs, negative_at, fractional_at;
};

/* The weight of edge [i, j] as a double, which holds every dtype exactly; infinity is no edge. */
__device__ double edge_weight(const gd_graph &graph, ptrdiff_t i, ptrdiff_t j)
{
    const gd_matrix &w = graph.weights;
    const ptrdiff_t at = i * w.row_stride + j * w.col_stride;
    double value;
    if (w.dtype == GD_F32) {
        value = static_cast<const float *>(w.data)[at];
    }
    else if (w.dtype == GD_F64) {
        value = static_cast<const double *>(w.data)[at];
    }
    else {
        value = static_cast<const int32_t *>(w.data)[at];
    }
    const bool edge = isfinite(value) && !(graph.no_edge == GD_NO_EDGE_ZERO && value == 0) &&
                      !(graph.no_edge == GD_NO_EDGE_SENTINEL && value == graph.sentinel);
    return !edge ? kInfinity : graph.unweighted ? 1.0 : value;
}

/* tile[a][b] = weight of edge [i0 + a, j0 + b], or with `mirrored` of edge [j0 + b, i0 + a].
 * Neighbouring threads go along the smaller stride; the tile is one wider than 32, so that a column
 * of it lies in 32 different banks. */
__device__ void load_tile(const gd_graph &graph, ptrdiff_t i0, ptrdiff_t j0, bool mirrored,
                          double (*tile)[kSide + 1])
{
    const gd_matrix &w = graph.weights;
    const bool along_rows = llabs(w.col_stride) <= llabs(w.row_stride);
    for (int y = threadIdx.x / kSide; y < kSide; y += kThreadRows) {
        const int x = threadIdx.x % kSide;
        const int a = along_rows != mirrored ? y : x, b = along_rows != mirrored ? x : y;
        const ptrdiff_t i = mirrored ? j0 + b : i0 + a, j = mirrored ? i0 + a : j0 + b;
        tile[a][b] = i < w.rows && j < w.cols ? edge_weight(graph, i, j) : kInfinity;
    }
}

/* Adding 0 turns -0.0 into 0.0. */
__device__ void convert(double weight, float *out) { *out = (float)weight + 0.0f; }
__device__ void convert(double weight, double *out) { *out = weight + 0.0; }
/* A weight out of range is clamped; the caller refuses it by max_abs. */
__device__ void convert(double weight, int32_t *out)
{
    *out = (int32_t)fmin(fmax(weight, -(double)GD_I32_FAR), (double)GD_I32_FAR);
}

/* One warp's facts join the graph's. */
__device__ void gather(double max_abs, unsigned long long negative_at,
                       unsigned long long fractional_at, Facts *facts)
{
    for (int offset = kSide / 2; offset > 0; offset /= 2) {
        max_abs = fmax(max_abs, __shfl_xor_sync(~0u, max_abs, offset));
        negative_at = min(negative_at, __shfl_xor_sync(~0u, negative_at, offset));
        fractional_at = min(fractional_at, __shfl_xor_sync(~0u, fractional_at, offset));
    }
    if (threadIdx.x % kSide == 0) {
        atomicMax(&facts->max_abs, (unsigned long long)__double_as_longlong(max_abs));
        if (negative_at != ~0ull) {
            atomicMin(&facts->negative_at, negative_at);
        }
        if (fractional_at != ~0ull) {
            atomicMin(&facts->fractional_at, fractional_at);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    read_graph(const __grid_constant__ gd_graph graph, T *dist, int32_t *pred, ptrdiff_t padded,
               unsigned blocks_across, Facts *facts)
{
    __shared__ double tile[kSide][kSide + 1], mirror[kSide][kSide + 1];
    const ptrdiff_t n = graph.weights.rows;
    const ptrdiff_t i0 = (ptrdiff_t)(blockIdx.x / blocks_across) * kSide;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x % blocks_across) * kTilesPerBlock * kSide;
    const ptrdiff_t last = min(first + kTilesPerBlock * kSide, padded);
    double max_abs = 0;
    unsigned long long negative_at = ~0ull, fractional_at = ~0ull;
    for (ptrdiff_t j0 = first; j0 < last; j0 += kSide) {
        load_tile(graph, i0, j0, false, tile);
        if (!graph.directed) {
            load_tile(graph, i0, j0, true, mirror);
        }
        /* Whole tiles are read before they are written: weights and dist may be one matrix. */
        __syncthreads();
        for (int a = threadIdx.x / kSide; a < kSide; a += kThreadRows) {
            const int b = threadIdx.x % kSide;
            const ptrdiff_t i = i0 + a, j = j0 + b;
            double weight = tile[a][b];
            if (weight < kInfinity) {
                const unsigned long long at = i * n + j;
                max_abs = fmax(max_abs, fabs(weight));
                negative_at = weight < 0 ? min(negative_at, at) : negative_at;
                fractional_at = weight != trunc(weight) ? min(fractional_at, at) : fractional_at;
            }
            if (!graph.directed) {
                weight = fmin(weight, mirror[a][b]);
            }
            if (i == j) {
                weight = fmin(weight, 0.0);
            }
            T length;
            convert(weight, &length);
            dist[i * padded + j] = length;
            if (pred != NULL) {
                pred[i * padded + j] =
                    weight < kInfinity && i != j ? (int32_t)i : GD_NO_PREDECESSOR;
            }
        }
        __syncthreads();
    }
    gather(max_abs, negative_at, fractional_at, facts);
}

template <typename T>
cudaError_t launch_read(const gd_graph &graph, const gd_apsp &call, Facts *facts)
{
    const ptrdiff_t down = gd::ceil_div(call.padded, kSide);
    const ptrdiff_t across = gd::ceil_div(call.padded, kSide * kTilesPerBlock);
    return gd::enqueue(call.launch, read_graph<T>, down * across, kThreads, 0, graph,
                       static_cast<T *>(call.dist), call.pred, call.padded, (unsigned)across,
                       facts);
}

/* ---------------------------------------------------------------- path lengths out */

struct Counts {
    unsigned long long on_negative_cycle, too_long;
};

/* Path lengths in the caller's dtype. In int32, sums with an absent edge stay above 2**29 even
 * where negative weights pull them down, and no real length gets there. */
__device__ float length_out(float d, double unreachable, const float *, Counts *)
{
    return isinf(d) ? (float)unreachable : d;
}
__device__ double length_out(double d, double unreachable, const double *, Counts *)
{
    return isinf(d) ? unreachable : d;
}
__device__ int32_t length_out(int32_t d, double unreachable, const int32_t *, Counts *)
{
    return d < GD_I32_NO_PATH ? d : (int32_t)unreachable;
}
__device__ int32_t length_out(double d, double unreachable, const int32_t *, Counts *counts)
{
    if (fabs(d) < 0x1p30) {
        return (int32_t)d;
    }
    if (d < kInfinity) {
        atomicAdd(&counts->too_long, 1ull);
    }
    return (int32_t)unreachable;
}

/* A sum that is no path may have been given a predecessor, which leads nowhere. */
template <typename T>
__device__ int32_t predecessor_out(T, int32_t before)
{
    return before;
}
__device__ int32_t predecessor_out(int32_t d, int32_t before)
{
    return d < GD_I32_NO_PATH ? before : GD_NO_PREDECESSOR;
}

template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    write_paths(const __grid_constant__ gd_apsp call, const __grid_constant__ gd_matrix out,
                const __grid_constant__ gd_matrix pred, double unreachable, unsigned blocks_across,
                Counts *counts)
{
    const ptrdiff_t i = blockIdx.x / blocks_across;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x % blocks_across) * kThreads * kTilesPerBlock;
    for (int step = 0; step < kTilesPerBlock; ++step) {
        const ptrdiff_t j = first + step * kThreads + threadIdx.x, from = i * call.padded + j;
        if (j >= call.n) {
            return;
        }
        /* An element is read and written by one thread: out may be dist itself. */
        const T d = static_cast<const T *>(call.dist)[from];
        const Out *const tag = NULL;
        static_cast<Out *>(out.data)[i * out.row_stride + j * out.col_stride] =
            length_out(d, unreachable, tag, counts);
        if (pred.data != NULL) {
            static_cast<int32_t *>(pred.data)[i * pred.row_stride + j * pred.col_stride] =
                predecessor_out(d, call.pred[from]);
        }
    }
}

/* Runs before the lengths are written, which may overwrite the diagonal. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    find_negative(const __grid_constant__ gd_apsp call, uint8_t *negative, Counts *counts)
{
    const ptrdiff_t i = (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < call.n) {
        negative[i] = static_cast<const T *>(call.dist)[i * call.padded + i] < 0;
        if (negative[i]) {
            atomicAdd(&counts->on_negative_cycle, 1ull);
        }
    }
}

template <typename T, typename Out>
cudaError_t launch_write(const gd_apsp &call, const gd_matrix &out, const gd_matrix &pred,
                         double unreachable, Counts *counts)
{
    const ptrdiff_t across = gd::ceil_div(call.n, (ptrdiff_t)kThreads * kTilesPerBlock);
    uint8_t *const negative = reinterpret_cast<uint8_t *>(counts + 1);
    const cudaError_t code =
        gd::enqueue(call.launch, find_negative<T>, gd::ceil_div(call.n, kThreads), kThreads, 0,
                    call, negative, counts);
    return code != cudaSuccess
               ? code
               : gd::enqueue(call.launch, write_paths<T, Out>, call.n * across, kThreads, 0, call,
                             out, pred, unreachable, (unsigned)across, counts);
}

}  // namespace

extern "C" gd_status gd_cuda_graph_read(const gd_graph *graph, gd_apsp *call, gd_graph_facts *facts,
                                        gd_error *err)
{
    Facts found = {0, ~0ull, ~0ull};
    const cudaStream_t stream = (cudaStream_t)call->launch.stream;
    if (call->padded > 0) {
        Scratch scratch(stream);
        GD_CUDA_TRY(err, kReadId, cudaMallocAsync(&scratch.data, sizeof found, stream));
        Facts *const gathered = static_cast<Facts *>(scratch.data);
        GD_CUDA_TRY(err, kReadId, cudaMemsetAsync(gathered, 0xff, sizeof found, stream));
        GD_CUDA_TRY(err, kReadId,
                    cudaMemsetAsync(&gathered->max_abs, 0, sizeof found.max_abs, stream));
        GD_CUDA_TRY(err, kReadId,
                    call->dtype == GD_F32   ? launch_read<float>(*graph, *call, gathered)
                    : call->dtype == GD_F64 ? launch_read<double>(*graph, *call, gathered)
                                            : launch_read<int32_t>(*graph, *call, gathered));
        GD_CUDA_TRY(
            err, kReadId,
            cudaMemcpyAsync(&found, gathered, sizeof found, cudaMemcpyDeviceToHost, stream));
        GD_CUDA_TRY(err, kReadId, cudaStreamSynchronize(stream));
    }
    memcpy(&facts->max_abs, &found.max_abs, sizeof facts->max_abs);
    facts->negative_at = (ptrdiff_t)found.negative_at;
    facts->fractional_at = (ptrdiff_t)found.fractional_at;
    return GD_OK;
}

extern "C" gd_status gd_cuda_paths_write(const gd_apsp *call, const gd_matrix *out,
                                         const gd_matrix *pred, double unreachable,
                                         uint8_t *negative_nodes, gd_paths_facts *facts,
                                         gd_error *err)
{
    Counts found = {0, 0};
    const cudaStream_t stream = (cudaStream_t)call->launch.stream;
    gd_matrix pred_out = *pred;
    const bool in_place = pred_out.data == call->pred && call->dtype != GD_I32;
    if (call->pred == NULL || in_place) {
        pred_out.data = NULL; /* none to write, or written already */
    }
    if (call->n > 0) {
        Scratch scratch(stream); /* the counts, and a byte for each node */
        GD_CUDA_TRY(err, kWriteId,
                    cudaMallocAsync(&scratch.data, sizeof found + (size_t)call->n, stream));
        Counts *const counts = static_cast<Counts *>(scratch.data);
        GD_CUDA_TRY(err, kWriteId, cudaMemsetAsync(counts, 0, sizeof found, stream));
        const auto write = call->dtype == GD_F32   ? launch_write<float, float>
                           : call->dtype == GD_I32 ? launch_write<int32_t, int32_t>
                           : out->dtype == GD_I32  ? launch_write<double, int32_t>
                                                   : launch_write<double, double>;
        GD_CUDA_TRY(err, kWriteId, write(*call, *out, pred_out, unreachable, counts));
        GD_CUDA_TRY(err, kWriteId,
                    cudaMemcpyAsync(&found, counts, sizeof found, cudaMemcpyDeviceToHost, stream));
        GD_CUDA_TRY(err, kWriteId,
                    cudaMemcpyAsync(negative_nodes, counts + 1, (size_t)call->n,
                                    cudaMemcpyDeviceToHost, stream));
        GD_CUDA_TRY(err, kWriteId, cudaStreamSynchronize(stream));
    }
    facts->on_negative_cycle = (ptrdiff_t)found.on_negative_cycle;
    facts->too_long = (ptrdiff_t)found.too_long;
    return GD_OK;
}
