/* graph.cu: graphs into packed bits, and reachability out of them, on the device.
 *
 * Idea: a warp asks its 32 lanes at once whether there is an edge, which is a word of bits. Out of
 * them, a thread spreads a word over the 32 bytes of as many truths.
 *
 * Cost: memory. Reading n = 16384 truths moves 0.3 GB, 0.07 ms of an H200, and writing them as
 * much; floats are 4 times as much. Where edges go one way and rows are dense, a warp reads 8
 * words' elements at a time. The tiles of edges.cuh, for all else, take some ms.
 *
 * Launch: 256 threads; reading 8 words a warp, or 32 x 32 elements at a time, writing a word a
 * thread. */
#include "common/edges.cuh"

namespace {

constexpr const char *kReadId = "reading a graph's edges on the device";
constexpr const char *kWriteId = "writing what is reached on the device";
constexpr int kRowThreads = 256, kSpan = 8;

/* `spans` warps a row, of kSpan words each. */
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    read_rows(const __grid_constant__ gd_graph graph, const __grid_constant__ gd_closure call,
              bool reflexive, unsigned spans)
{
    using Value = std::conditional_t<std::is_same<T, uint8_t>::value, uint8_t, double>;
    const gd_matrix &w = graph.weights;
    const ptrdiff_t warp = (ptrdiff_t)blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32;
    const ptrdiff_t i = warp / spans, word = warp % spans * kSpan;
    const int lane = threadIdx.x % 32;
    if (i >= call.rows) {
        return;
    }
    const T *const row = static_cast<const T *>(w.data) + i * w.row_stride;
    T values[kSpan];
#pragma unroll
    for (int s = 0; s < kSpan; ++s) {
        const ptrdiff_t j = (word + s) * 32 + lane;
        values[s] = i < call.n && j < call.n ? row[j] : T();
    }
    unsigned mine = 0;
#pragma unroll
    for (int s = 0; s < kSpan; ++s) {
        const ptrdiff_t j = (word + s) * 32 + lane;
        const bool edge =
            gd::is_edge(graph, static_cast<Value>(values[s])) || (reflexive && i == j);
        const unsigned bits = __ballot_sync(~0u, edge && i < call.n && j < call.n);
        mine = lane == s ? bits : mine;
    }
    if (lane < kSpan && word + lane < call.words) {
        call.bits[i * call.words + word + lane] = mine;
    }
}

template <typename T>
cudaError_t enqueue_rows(const gd_graph &graph, const gd_closure &call, bool reflexive)
{
    const ptrdiff_t spans = gd::ceil_div(call.words, (ptrdiff_t)kSpan);
    return gd::enqueue(call.launch, read_rows<T>,
                       gd::ceil_div(call.rows * spans, (ptrdiff_t)kRowThreads / 32), kRowThreads, 0,
                       graph, call, reflexive, (unsigned)spans);
}

/* The tile's rows are warps' work, its columns lanes: a ballot is a word. */
__global__ void __launch_bounds__(gd::kTileThreads, 2)
    read_edges(const __grid_constant__ gd_graph graph, const __grid_constant__ gd_closure call,
               bool reflexive, unsigned blocks_across)
{
    __shared__ double tile[gd::kTileSide][gd::kTileSide + 1],
        mirror[gd::kTileSide][gd::kTileSide + 1];
    const ptrdiff_t i0 = (ptrdiff_t)(blockIdx.x / blocks_across) * gd::kTileSide;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x % blocks_across) * gd::kTilesPerBlock;
    const ptrdiff_t last = min(first + gd::kTilesPerBlock, call.words);
    for (ptrdiff_t word = first; word < last; ++word) {
        gd::load_tile(graph, i0, word * 32, false, tile);
        if (!graph.directed) {
            gd::load_tile(graph, i0, word * 32, true, mirror);
        }
        __syncthreads();
        for (int a = threadIdx.x / 32; a < gd::kTileSide; a += gd::kTileRows) {
            const int b = threadIdx.x % 32;
            const ptrdiff_t i = i0 + a, j = word * 32 + b;
            const bool edge = tile[a][b] < HUGE_VAL ||
                              (!graph.directed && mirror[a][b] < HUGE_VAL) ||
                              (reflexive && i == j && i < call.n);
            const unsigned bits = __ballot_sync(~0u, edge);
            if (b == 0) {
                call.bits[i * call.words + word] = bits;
            }
        }
        __syncthreads();
    }
}

/* Four bits as four bytes: the products put a copy of them where each one's byte begins. */
__device__ __forceinline__ unsigned spread(unsigned nibble)
{
    return nibble * 0x00204081u & 0x01010101u;
}

__global__ void __launch_bounds__(256)
    write_reached(const __grid_constant__ gd_closure call, uint8_t *out, ptrdiff_t out_stride,
                  bool aligned, unsigned blocks_across)
{
    const ptrdiff_t i = blockIdx.x / blocks_across;
    const ptrdiff_t word = (ptrdiff_t)(blockIdx.x % blocks_across) * 256 + threadIdx.x;
    const ptrdiff_t j = word * 32;
    if (j >= call.n) {
        return;
    }
    const unsigned bits = call.bits[i * call.words + word];
    uint8_t *const to = out + i * out_stride + j;
    if (aligned && j + 32 <= call.n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned x = bits >> 16 * half;
            reinterpret_cast<uint4 *>(to)[half] = make_uint4(
                spread(x & 15), spread(x >> 4 & 15), spread(x >> 8 & 15), spread(x >> 12 & 15));
        }
        return;
    }
    for (int b = 0; b < 32 && j + b < call.n; ++b) {
        to[b] = bits >> b & 1;
    }
}

}  // namespace

extern "C" gd_status gd_cuda_edges_read(const gd_graph *graph, const gd_closure *call,
                                        bool reflexive, gd_error *err)
{
    const gd_dtype dtype = graph->weights.dtype;
    if (graph->directed && graph->weights.col_stride == 1) {
        const auto read = [&](auto zero) {
            GD_CUDA_TRY(err, kReadId, enqueue_rows<decltype(zero)>(*graph, *call, reflexive));
            return GD_OK;
        };
        return dtype == GD_BOOL ? read(uint8_t{}) : gd::with_weight_type(dtype, read);
    }
    const ptrdiff_t down = call->rows / gd::kTileSide;
    const ptrdiff_t across = gd::ceil_div(call->words, gd::kTilesPerBlock);
    GD_CUDA_TRY(err, kReadId,
                gd::enqueue(call->launch, read_edges, down * across, gd::kTileThreads, 0, *graph,
                            *call, reflexive, (unsigned)across));
    return GD_OK;
}

extern "C" gd_status gd_cuda_reached_write(const gd_closure *call, const gd_matrix *out,
                                           gd_error *err)
{
    uint8_t *const to = static_cast<uint8_t *>(out->data);
    const bool aligned = (uintptr_t)to % 16 == 0 && out->row_stride % 16 == 0;
    const ptrdiff_t across = gd::ceil_div(call->n, 32 * 256);
    GD_CUDA_TRY(err, kWriteId,
                gd::enqueue(call->launch, write_reached, call->n * across, 256, 0, *call, to,
                            out->row_stride, aligned, (unsigned)across));
    return GD_OK;
}
