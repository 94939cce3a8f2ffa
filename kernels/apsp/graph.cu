/* graph.cu: graphs in, path lengths out, on the device: the two passes around every apsp kernel.
 *
 * Idea: one pass reads the weights once and writes the padded matrix that the kernels close, and
 * the predecessors; the other writes lengths in the caller's form. What has to be known about the
 * values (facts) is gathered on the way, so that nothing is read twice. Lengths that the kernel
 * left in the caller's memory and form are not written again: only the diagonal is looked at.
 *
 * The usual graph, with rows that start aligned and in the dtype of the computation, has two passes
 * of its own, one where it is directed and one where it is not. Another pass takes any strides and
 * dtypes by tiles through shared memory, and passes the matrix in doubles.
 *
 * What is found lies in memory that the caller brings: memory of our own would go back to the
 * driver at every wait, which took longer than a small graph does. It comes to the host by a kernel
 * that writes there; a copy engine starts some 7 us later.
 *
 * Cost: memory only. Reading float32 moves 8 bytes an element (12 with predecessors, and 12 where
 * an undirected graph is not the usual one, so that [j, i] is read as well): 0.5 ms for n = 16384
 * at the H200's 4.27 TB/s, against 350 ms for closing it.
 *
 * Launch: 256 threads. The usual graph: as many blocks as an H200 holds, which take 4 KB of four
 * rows at a time, 64 bytes a thread; undirected, blocks that take two tiles of 32 x 32, on both
 * sides of the diagonal. Any graph: blocks take 32 x 32 tiles, so that neighbouring threads read
 * neighbouring bytes whichever stride of the weights is the small one, and of [j, i] too.
 *
 * Reached on an H200, n = 16384, float32: reading the usual graph 0.64 ms (3.4 TB/s), with
 * predecessors 1.04 ms, any other 3.1 ms and 3.3 ms, one of these that is undirected, with
 * predecessors, 5.2 ms; writing 0.75 ms. For n = 4096 the usual graph takes 44 us, any other 204;
 * for n = 2048 the usual one takes 13, undirected 17, for n = 1024 6. */
#include <math.h>
#include <string.h>

#include <limits>
#include <type_traits>

#include "common/edges.cuh"
#include "common/words.cuh"
#include "apsp/found.cuh"

namespace {

using gd::Found;
using gd::found_of;

constexpr int kSide = gd::kTileSide, kThreadRows = gd::kTileRows;
constexpr ptrdiff_t kEnoughBlocks = 512; /* for the largest GPU */
constexpr int kThreads = gd::kTileThreads;
/* The usual graph's rows that a block reads at once, and blocks a multiprocessor, as an H200 holds
 * them. */
constexpr int kRows = 4, kHeld = 3;
constexpr ptrdiff_t kUsualBlocks = kHeld * 132;
constexpr ptrdiff_t kPairBlocks = 6 * 132; /* of a graph without directions, likewise */
constexpr double kInfinity = HUGE_VAL;
constexpr const char *kReadId = "reading a graph on the device";
constexpr const char *kWriteId = "writing path lengths on the device";

__global__ void send_home(const Found *found, Found *page) { *page = *found; }

cudaError_t bring(const gd_apsp &call, Found *here)
{
    Found *const page = &gd::page_of(call)->found;
    cudaError_t code = gd::enqueue(call.launch, send_home, 1, 1, 0, found_of(call), page);
    code = code == cudaSuccess ? cudaStreamSynchronize((cudaStream_t)call.launch.stream) : code;
    *here = *page;
    return code;
}

/* ---------------------------------------------------------------- graphs in */

/* Where the larger is the better, the lesser of the negated is. */
__device__ double turned(double weight, bool flip)
{
    return flip && weight < kInfinity ? -weight : weight;
}

/* Adding 0 turns -0.0 into 0.0. */
__device__ void convert(double weight, float *out) { *out = (float)weight + 0.0f; }
__device__ void convert(double weight, double *out) { *out = weight + 0.0; }
/* A weight out of range is clamped; the caller refuses it by max_abs. */
__device__ void convert(double weight, int32_t *out)
{
    *out = (int32_t)fmin(fmax(weight, -(double)GD_I32_FAR), (double)GD_I32_FAR);
}

/* A block's facts join the graph's. All its threads call it, once; a thread a fact goes on, and
 * most only look: a thousand blocks' atomics at one place would take as long as reading. */
__device__ void gather(double max_abs, unsigned long long not_negative_at,
                       unsigned long long not_fractional_at, Found *found)
{
    constexpr int kWarps = kThreads / 32, kFacts = 3;
    __shared__ unsigned long long facts[kFacts][kWarps];
    unsigned long long mine[kFacts] = {(unsigned long long)__double_as_longlong(max_abs),
                                       not_negative_at, not_fractional_at};
    for (int fact = 0; fact < kFacts; ++fact) {
        for (int offset = 16; offset > 0; offset /= 2) {
            mine[fact] = max(mine[fact], __shfl_xor_sync(~0u, mine[fact], offset));
        }
        if (threadIdx.x % 32 == 0) {
            facts[fact][threadIdx.x / 32] = mine[fact];
        }
    }
    __syncthreads();
    if (threadIdx.x < kFacts) {
        unsigned long long most = 0, *const at = threadIdx.x == 0   ? &found->max_abs
                                                 : threadIdx.x == 1 ? &found->not_negative_at
                                                                    : &found->not_fractional_at;
        for (int warp = 0; warp < kWarps; ++warp) {
            most = max(most, facts[threadIdx.x][warp]);
        }
        if (most > *static_cast<volatile unsigned long long *>(at)) {
            atomicMax(at, most);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    read_graph(const __grid_constant__ gd_graph graph, T *dist, int32_t *pred, ptrdiff_t padded,
               double loop, ptrdiff_t first_row, unsigned blocks_across, int tiles, Found *found)
{
    __shared__ double tile[kSide][kSide + 1], mirror[kSide][kSide + 1];
    const ptrdiff_t n = graph.weights.rows;
    const ptrdiff_t i0 = first_row + (ptrdiff_t)(blockIdx.x / blocks_across) * kSide;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x % blocks_across) * tiles * kSide;
    const ptrdiff_t last = min(first + tiles * kSide, padded);
    double max_abs = 0;
    unsigned long long not_negative_at = 0, not_fractional_at = 0;
    for (ptrdiff_t j0 = first; j0 < last; j0 += kSide) {
        gd::load_tile(graph, i0, j0, false, tile);
        if (!graph.directed) {
            gd::load_tile(graph, i0, j0, true, mirror);
        }
        /* Whole tiles are read before they are written: weights and dist may be one matrix. */
        __syncthreads();
        for (int a = threadIdx.x / kSide; a < kSide; a += kThreadRows) {
            const int b = threadIdx.x % kSide;
            const ptrdiff_t i = i0 + a, j = j0 + b;
            double weight = tile[a][b];
            if (weight < kInfinity) {
                const unsigned long long not_at = ~(unsigned long long)(i * n + j);
                max_abs = fmax(max_abs, fabs(weight));
                not_negative_at = weight < 0 ? max(not_negative_at, not_at) : not_negative_at;
                not_fractional_at =
                    weight != trunc(weight) ? max(not_fractional_at, not_at) : not_fractional_at;
            }
            weight = turned(weight, graph.flip);
            if (!graph.directed) {
                weight = fmin(weight, turned(mirror[a][b], graph.flip));
            }
            if (i == j) {
                weight = fmin(weight, loop);
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
    gather(max_abs, not_negative_at, not_fractional_at, found);
}

/* The usual graph, directed and with rows that start aligned, in the dtype of the computation: no
 * tile, no doubles, 16 bytes at a time. */
template <typename T>
struct Usual {
    const T *weights;
    ptrdiff_t row_stride, n;
    T absent; /* no edge */
    bool has_absent;
};

__device__ float magnitude(float x) { return fabsf(x); }
__device__ double magnitude(double x) { return fabs(x); }
__device__ uint32_t magnitude(int32_t x) { return x < 0 ? 0u - (uint32_t)x : (uint32_t)x; }
__device__ bool is_number(float x) { return fabsf(x) < HUGE_VALF; }
__device__ bool is_number(double x) { return fabs(x) < kInfinity; }
__device__ bool is_number(int32_t) { return true; }
__device__ bool is_fractional(float x) { return x != truncf(x); }
__device__ bool is_fractional(double x) { return x != trunc(x); }
__device__ bool is_fractional(int32_t) { return false; }
/* A word that is not read again: the matrix is to stay in the cache. */
template <typename T>
__device__ void stream_in(const T *from, T *to)
{
    gd::unpack<T>(__ldcs(reinterpret_cast<const gd::Word<T> *>(from)), to);
}
/* As above, from the same dtype. */
__device__ float tidied(float weight) { return weight + 0.0f; }
__device__ double tidied(double weight) { return weight + 0.0; }
__device__ int32_t tidied(int32_t weight) { return min(max(weight, -GD_I32_FAR), GD_I32_FAR); }

/* What a thread learns of the weights that it takes. */
template <typename T>
struct Learnt {
    decltype(magnitude(T())) max_abs = 0;
    unsigned long long not_negative_at = 0, not_fractional_at = 0;

    /* Weight `at` of the usual graph as the computation takes it. */
    __device__ __forceinline__ bool take(const Usual<T> &graph, T weight, ptrdiff_t at)
    {
        if (!is_number(weight) || (graph.has_absent && weight == graph.absent)) {
            return false;
        }
        const unsigned long long not_at = ~(unsigned long long)at;
        max_abs = max(max_abs, magnitude(weight));
        not_negative_at = weight < 0 ? max(not_negative_at, not_at) : not_negative_at;
        not_fractional_at =
            is_fractional(weight) ? max(not_fractional_at, not_at) : not_fractional_at;
        return true;
    }
    __device__ __forceinline__ void gather_in(Found *found) const
    {
        gather((double)max_abs, not_negative_at, not_fractional_at, found);
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads, kHeld)
    read_usual(const __grid_constant__ Usual<T> graph, T *dist, int32_t *pred, ptrdiff_t padded,
               T far, T loop, ptrdiff_t first, ptrdiff_t end, unsigned pieces, unsigned across,
               Found *found)
{
    constexpr int kEach = 16 / sizeof(T);
    Learnt<T> learnt;
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        const ptrdiff_t top = first + (ptrdiff_t)(piece / across) * kRows;
        const ptrdiff_t j = (ptrdiff_t)(piece % across * kThreads + threadIdx.x) * kEach;
        if (j >= padded) {
            continue;
        }
        const ptrdiff_t whole = j + kEach <= graph.n ? min(end, graph.n) : 0;
        T words[kRows][kEach];
#pragma unroll
        for (int r = 0; r < kRows; ++r) { /* all are on their way at once */
            if (top + r < whole) {
                stream_in(graph.weights + (top + r) * graph.row_stride + j, words[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const ptrdiff_t i = top + r;
            const ptrdiff_t there = i < graph.n ? graph.n - j : 0;
            if (i >= end) {
                break;
            }
            T *const word = words[r];
            int32_t before[kEach];
#pragma unroll
            for (int e = 0; e < kEach; ++e) {
                const T weight = i < whole   ? word[e]
                                 : e < there ? graph.weights[i * graph.row_stride + j + e]
                                             : far;
                const bool is_edge = e < there && learnt.take(graph, weight, i * graph.n + j + e);
                word[e] = is_edge ? tidied(weight) : far;
                word[e] = i == j + e ? min(word[e], loop) : word[e];
                before[e] = is_edge && i != j + e ? (int32_t)i : GD_NO_PREDECESSOR;
            }
            gd::store_word(dist + i * padded + j, word);
            if (pred != NULL) {
#pragma unroll
                for (int e = 0; e < kEach; e += 2) {
                    *reinterpret_cast<int2 *>(pred + i * padded + j + e) =
                        make_int2(before[e], before[e + 1]);
                }
            }
        }
    }
    learnt.gather_in(found);
}

/* Such a graph without directions: tile (i, j) and tile (j, i) go through shared memory together,
 * so that each weight is read once. Lanes are four rows of a tile, or two in float64, by words. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    read_undirected(const __grid_constant__ Usual<T> graph, T *dist, int32_t *pred,
                    ptrdiff_t padded, T far, T loop, unsigned side, unsigned pairs, Found *found)
{
    constexpr int kEach = 16 / sizeof(T), kWords = kSide / kEach;
    constexpr int kTurns = kSide * kWords / kThreads; /* words of a thread */
    __shared__ T tiles[2][kSide][kSide + 1];
    Learnt<T> learnt;
    const int y0 = (int)threadIdx.x / kWords, x = (int)threadIdx.x % kWords * kEach;
    for (unsigned pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
        /* Row r of tiles on and above the diagonal, and after it row -1 - r. */
        const unsigned row = pair / (side + 1), place = pair % (side + 1);
        const bool is_first = place < side - row;
        const unsigned down = is_first ? row : side - 1 - row;
        const unsigned across = is_first ? row + place : place - 1;
        if (!is_first && 2 * row + 1 == side) {
            continue; /* there is no such row */
        }
        const auto top_of = [&](int which) {
            return (ptrdiff_t)(which == 0 ? down : across) * kSide;
        };
        const auto col_of = [&](int which) { return top_of(1 - which) + x; };
        T words[2][kTurns][kEach];
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const ptrdiff_t top = top_of(which), j = col_of(which);
#pragma unroll
            for (int turn = 0; turn < kTurns; ++turn) {
                const ptrdiff_t i = top + y0 + turn * (kSide / kTurns);
                T *const word = words[which][turn];
                const T *const from = graph.weights + i * graph.row_stride + j;
                const bool whole = i < graph.n && j + kEach <= graph.n;
                if (whole) {
                    stream_in(from, word);
                }
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    const bool there = i < graph.n && j + e < graph.n;
                    const T weight = whole ? word[e] : there ? from[e] : far;
                    const bool is_edge = there && learnt.take(graph, weight, i * graph.n + j + e);
                    word[e] = is_edge ? tidied(weight) : far;
                    tiles[which][i - top][x + e] = word[e];
                }
            }
        }
        __syncthreads();
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const ptrdiff_t top = top_of(which), j = col_of(which);
#pragma unroll
            for (int turn = 0; turn < kTurns; ++turn) {
                const int y = y0 + turn * (kSide / kTurns);
                const ptrdiff_t i = top + y;
                T *const word = words[which][turn];
                int32_t before[kEach];
#pragma unroll
                for (int e = 0; e < kEach; ++e) {
                    word[e] = min(word[e], tiles[1 - which][x + e][y]);
                    before[e] = word[e] != far && i != j + e ? (int32_t)i : GD_NO_PREDECESSOR;
                    word[e] = i == j + e ? min(word[e], loop) : word[e];
                }
                gd::store_word(dist + i * padded + j, word);
                if (pred != NULL) {
#pragma unroll
                    for (int e = 0; e < kEach; e += 2) {
                        *reinterpret_cast<int2 *>(pred + i * padded + j + e) =
                            make_int2(before[e], before[e + 1]);
                    }
                }
            }
        }
        __syncthreads();
    }
    learnt.gather_in(found);
}

template <typename T>
bool is_usual(const gd_graph &graph)
{
    const gd_dtype own = std::is_same<T, float>::value    ? GD_F32
                         : std::is_same<T, double>::value ? GD_F64
                                                          : GD_I32;
    const gd_matrix &w = graph.weights;
    return w.dtype == own && w.col_stride == 1 && (uintptr_t)w.data % 16 == 0 &&
           w.row_stride * (ptrdiff_t)sizeof(T) % 16 == 0 && !graph.unweighted && !graph.flip;
}

template <typename T>
cudaError_t launch_usual(const gd_graph &graph, const gd_apsp &call, ptrdiff_t first,
                         ptrdiff_t rows)
{
    const double sentinel = graph.no_edge == GD_NO_EDGE_ZERO ? 0 : graph.sentinel;
    /* No weight equals a sentinel that the dtype does not hold. */
    const bool is_int = std::is_same<T, int32_t>::value;
    const bool held = !is_int || (sentinel >= INT_MIN && sentinel <= INT_MAX);
    const T absent = held ? (T)sentinel : 0;
    const Usual<T> plain = {
        static_cast<const T *>(graph.weights.data), graph.weights.row_stride, graph.weights.rows,
        absent, graph.no_edge != GD_NO_EDGE_INFINITE && held && (double)absent == sentinel};
    const T far = is_int ? (T)GD_I32_FAR : std::numeric_limits<T>::infinity();
    const T loop = call.semiring == GD_MIN_MAX ? -far : 0; /* a path of no edge */
    if (!graph.directed) {
        const ptrdiff_t side = call.padded / kSide, pairs = (side + 1) / 2 * (side + 1);
        return gd::enqueue(call.launch, read_undirected<T>, min(pairs, kPairBlocks), kThreads, 0,
                           plain, static_cast<T *>(call.dist), call.pred, call.padded, far, loop,
                           (unsigned)side, (unsigned)pairs, found_of(call));
    }
    const ptrdiff_t across = gd::ceil_div(call.padded, (ptrdiff_t)(kThreads * 16 / sizeof(T)));
    const ptrdiff_t pieces = gd::ceil_div(rows, (ptrdiff_t)kRows) * across;
    return gd::enqueue(call.launch, read_usual<T>, min(pieces, kUsualBlocks), kThreads, 0, plain,
                       static_cast<T *>(call.dist), call.pred, call.padded, far, loop, first,
                       first + rows, (unsigned)pieces, (unsigned)across, found_of(call));
}

/* Facts leave a block once, so blocks have several tiles, but in a small graph fewer, so that all
 * multiprocessors read. */
template <typename T>
cudaError_t launch_read(const gd_graph &graph, const gd_apsp &call, ptrdiff_t first, ptrdiff_t rows)
{
    const bool whole = first == 0 && rows == call.padded && call.padded % kSide == 0;
    if (is_usual<T>(graph) && (graph.directed || whole)) {
        return launch_usual<T>(graph, call, first, rows);
    }
    const ptrdiff_t side = gd::ceil_div(call.padded, kSide), down = gd::ceil_div(rows, kSide);
    const ptrdiff_t share = gd::ceil_div(down * side, kEnoughBlocks);
    const ptrdiff_t tiles = share < gd::kTilesPerBlock ? share : gd::kTilesPerBlock;
    const ptrdiff_t across = gd::ceil_div(side, tiles);
    const double loop = call.semiring == GD_MIN_MAX ? -kInfinity : 0; /* a path of no edge */
    return gd::enqueue(call.launch, read_graph<T>, down * across, kThreads, 0, graph,
                       static_cast<T *>(call.dist), call.pred, call.padded, loop, first,
                       (unsigned)across, (int)tiles, found_of(call));
}

/* ---------------------------------------------------------------- path lengths out */

/* How lengths become the caller's. */
struct Outward {
    double unreachable;
    bool flip;
    Found *found;
};

/* In int32, sums with an absent edge stay above 2**29 even where negative weights pull them down,
 * and no real length gets there. A path of no edge over min_max is the least number there is. */
__device__ float length_out(float d, const Outward &way, const float *)
{
    return d < HUGE_VALF ? (way.flip ? 0.0f - d : d) : (float)way.unreachable;
}
__device__ double length_out(double d, const Outward &way, const double *)
{
    return d < kInfinity ? (way.flip ? 0.0 - d : d) : way.unreachable;
}
__device__ int32_t length_out(int32_t d, const Outward &way, const int32_t *)
{
    if (d <= -GD_I32_FAR) {
        return way.flip ? INT_MAX : INT_MIN;
    }
    return d < GD_I32_NO_PATH ? (way.flip ? -d : d) : (int32_t)way.unreachable;
}
__device__ int32_t length_out(double d, const Outward &way, const int32_t *)
{
    if (fabs(d) < 0x1p30) {
        return (int32_t)(way.flip ? -d : d);
    }
    if (d < kInfinity) {
        atomicAdd(&way.found->too_long, 1ull);
    }
    return (int32_t)way.unreachable;
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

/* The length from a node to itself tells whether a negative cycle leads through it. */
template <typename T>
__device__ void look_at_loop(const gd_apsp &call, T d, ptrdiff_t i, Found *found)
{
    const bool negative = call.semiring == GD_MIN_PLUS && d < 0;
    reinterpret_cast<uint8_t *>(found + 1)[i] = negative;
    if (negative) {
        atomicAdd(&found->on_negative_cycle, 1ull);
    }
}

template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    write_paths(const __grid_constant__ gd_apsp call, const __grid_constant__ gd_matrix out,
                const __grid_constant__ gd_matrix pred, const __grid_constant__ Outward way,
                ptrdiff_t first_row, unsigned blocks_across)
{
    const ptrdiff_t i = first_row + blockIdx.x / blocks_across;
    const ptrdiff_t first = (ptrdiff_t)(blockIdx.x % blocks_across) * kThreads * gd::kTilesPerBlock;
    for (int step = 0; step < gd::kTilesPerBlock; ++step) {
        const ptrdiff_t j = first + step * kThreads + threadIdx.x, from = i * call.padded + j;
        if (j >= call.n) {
            return;
        }
        /* An element is read and written by one thread: out may be dist itself. */
        const T d = static_cast<const T *>(call.dist)[from];
        const Out *const tag = NULL;
        if (i == j && !call.tells) {
            look_at_loop(call, d, i, way.found);
        }
        static_cast<Out *>(out.data)[i * out.row_stride + j * out.col_stride] =
            length_out(d, way, tag);
        if (pred.data != NULL) {
            static_cast<int32_t *>(pred.data)[i * pred.row_stride + j * pred.col_stride] =
                predecessor_out(d, call.pred[from]);
        }
    }
}

/* Lengths that are the caller's already: only the diagonal is looked at. */
template <typename T>
__global__ void __launch_bounds__(kThreads)
    look_at_diagonal(const __grid_constant__ gd_apsp call, Found *found, ptrdiff_t first,
                     ptrdiff_t end)
{
    const ptrdiff_t i = first + (ptrdiff_t)blockIdx.x * kThreads + threadIdx.x;
    if (i < end) {
        look_at_loop(call, static_cast<const T *>(call.dist)[i * call.padded + i], i, found);
    }
}

/* Whether the caller's form is the kernel's, and its memory too. */
bool is_written(const gd_apsp &call, const gd_matrix &out, const gd_matrix &pred,
                const Outward &way)
{
    return out.data == call.dist && out.dtype == call.dtype && out.row_stride == call.padded &&
           out.col_stride == 1 && call.dtype != GD_I32 && !way.flip &&
           way.unreachable == kInfinity && pred.data == NULL;
}

template <typename T, typename Out>
cudaError_t launch_write(const gd_apsp &call, const gd_matrix &out, const gd_matrix &pred,
                         const Outward &way, ptrdiff_t first, ptrdiff_t rows)
{
    if (is_written(call, out, pred, way)) {
        if (call.tells) {
            return cudaSuccess;
        }
        const ptrdiff_t end = min(first + rows, call.n);
        return gd::enqueue(call.launch, look_at_diagonal<T>, gd::ceil_div(rows, kThreads), kThreads,
                           0, call, way.found, first, end);
    }
    const ptrdiff_t across = gd::ceil_div(call.n, (ptrdiff_t)kThreads * gd::kTilesPerBlock);
    return gd::enqueue(call.launch, write_paths<T, Out>, rows * across, kThreads, 0, call, out,
                       pred, way, first, (unsigned)across);
}

}  // namespace

extern "C" gd_status gd_cuda_graph_read(const gd_graph *graph, const gd_apsp *call, ptrdiff_t first,
                                        ptrdiff_t rows, gd_error *err)
{
    if (first == 0) {
        GD_CUDA_TRY(err, kReadId,
                    cudaMemsetAsync(call->found, 0, GD_FOUND_BYTES(call->n) + call->zeros,
                                    (cudaStream_t)call->launch.stream));
    }
    if (rows > 0) {
        GD_CUDA_TRY(err, kReadId,
                    call->dtype == GD_F32   ? launch_read<float>(*graph, *call, first, rows)
                    : call->dtype == GD_F64 ? launch_read<double>(*graph, *call, first, rows)
                                            : launch_read<int32_t>(*graph, *call, first, rows));
    }
    return GD_OK;
}

extern "C" gd_status gd_cuda_graph_facts(const gd_apsp *call, gd_graph_facts *facts, gd_error *err)
{
    Found found;
    GD_CUDA_TRY(err, kReadId, bring(*call, &found));
    memcpy(&facts->max_abs, &found.max_abs, sizeof facts->max_abs);
    facts->negative_at = (ptrdiff_t)~found.not_negative_at;
    facts->fractional_at = (ptrdiff_t)~found.not_fractional_at;
    return GD_OK;
}

/* Counts go on from the zeros that reading left. */
extern "C" gd_status gd_cuda_paths_write(const gd_apsp *call, const gd_matrix *out,
                                         const gd_matrix *pred, double unreachable, bool flip,
                                         ptrdiff_t first, ptrdiff_t rows, gd_error *err)
{
    gd_matrix pred_out = *pred;
    const bool in_place = pred_out.data == call->pred && call->dtype != GD_I32;
    if (call->pred == NULL || in_place) {
        pred_out.data = NULL; /* none to write, or written already */
    }
    const auto write = call->dtype == GD_F32   ? launch_write<float, float>
                       : call->dtype == GD_I32 ? launch_write<int32_t, int32_t>
                       : out->dtype == GD_I32  ? launch_write<double, int32_t>
                                               : launch_write<double, double>;
    GD_CUDA_TRY(err, kWriteId,
                write(*call, *out, pred_out, {unreachable, flip, found_of(*call)}, first, rows));
    return GD_OK;
}

extern "C" gd_status gd_cuda_paths_facts(const gd_apsp *call, uint8_t *negative_nodes,
                                         gd_paths_facts *facts, gd_error *err)
{
    Found found;
    if (call->tells) {
        GD_CUDA_TRY(err, kWriteId, cudaStreamSynchronize((cudaStream_t)call->launch.stream));
        *facts = {};
        for (ptrdiff_t i = 0; i < call->n; ++i) {
            negative_nodes[i] = gd::page_of(*call)->negative[i / 32] >> i % 32 & 1;
            facts->on_negative_cycle += negative_nodes[i];
        }
        return GD_OK;
    }
    GD_CUDA_TRY(err, kWriteId, bring(*call, &found));
    if (found.on_negative_cycle > 0) {
        const cudaStream_t stream = (cudaStream_t)call->launch.stream;
        GD_CUDA_TRY(err, kWriteId,
                    cudaMemcpyAsync(negative_nodes, found_of(*call) + 1, (size_t)call->n,
                                    cudaMemcpyDeviceToHost, stream));
        GD_CUDA_TRY(err, kWriteId, cudaStreamSynchronize(stream));
    }
    facts->on_negative_cycle = (ptrdiff_t)found.on_negative_cycle;
    facts->too_long = (ptrdiff_t)found.too_long;
    return GD_OK;
}
