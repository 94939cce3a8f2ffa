/* few.cu: cdist of few results, which would leave most of the device without work in tile.cu.
 *
 * Idea: tile.cu walks along the dimensions, and 512 of them take it 71 us even for 16 x 16 results,
 * nearly all of it waiting. But sums start afresh every GD_FOLD dimensions, so folds do not depend
 * on each other: here each warp of a block adds up a fold of its own, and then the block's threads
 * join the folds, in tile.cu's order. So a result has the same bits in both kernels, and how many
 * rows A has may decide between them (gd_stand_in).
 *
 * A block computes 16 x 16 results. A group's dimensions of its points come to shared memory by
 * asynchronous copies, and the next group's while this one is joined. Of thin matrices, one of
 * whose sides is no longer than 16, most of tile.cu's 128 x 64 results would be empty; for large
 * ones its registers, which use a number eight times, beat shared memory, which a thread here reads
 * 6 words of for 32 differences.
 *
 * Floors: a launch and two trips to memory, some 3 us; 65536 x 1 x 512 float32 reads 134 MB, in
 * 0.03 ms at 4.7 TB/s. Launch: a block for 16 x 16 results, a warp for a fold, at most those of a
 * group. Reached on an H200 (behind it tile.cu's time with high tiles): euclidean float32 16 x 16 x
 * 64 4.0 us (10.9), 128 x 128 x 512 8.2 (73), 512 x 512 x 512 33 (76), 65536 x 1 x 512 114 (253), 1
 * x 65536 x 64 21 (53); float64 16 x 16 x 512 11 (74), 65536 x 1 x 512 161 (382). 1000 x 1000 x 512
 * takes 118 (80; with low tiles 68, and 512 x 512 x 512 47). 65536 x 16 x 512 takes 122; read
 * straight from global memory, without the copies, 258. */
#include <cuda_pipeline_primitives.h>

#include "common/metrics.cuh"

namespace {

constexpr int kEdge = 16, kRows = 2, kCols = 4; /* results of a block, and of a thread */
constexpr int kMostWarps = GD_GROUP / GD_FOLD;

/* A group's dimensions of a block's points, a point a row. A warp reads words of 8 rows of `a`, or
 * of 4 of `b`, in one dimension: with a word of padding they are in different banks. */
template <typename T>
using Slab = T[kEdge][GD_GROUP + gd::kPerWord<T>];
/* A fold's sums; the padding is for the same reason. */
template <typename T>
using Fold = T[kEdge][kEdge + 4];

template <typename T>
struct Memory {
    Slab<T> a, b;
    Fold<T> folds[kMostWarps];
};

/* Starts to copy dimensions dim up to dim + depth of the points from `first` on, as far as there
 * are any: results of others are not stored, and their loads would all be of one line. What is
 * missing to a whole word becomes zero, as in tile.cu's slabs. kUnit: how many elements lie
 * together and aligned. */
template <int kUnit, typename T>
__device__ __forceinline__ void copy_slab(Slab<T> &to, const gd::Points<T> &from, ptrdiff_t first,
                                          ptrdiff_t dim, int depth)
{
    constexpr int kUnits = GD_GROUP / kUnit; /* of a row */
    const int whole = (int)gd::ceil_div(depth, gd::kPerWord<T>) * gd::kPerWord<T>;
    for (int i = threadIdx.x; i < kEdge * kUnits; i += blockDim.x) {
        const int row = i / kUnits, k = i % kUnits * kUnit;
        if (k >= whole || first + row >= from.count) {
            continue;
        }
        if (k < depth) {
            const T *at = from.data + (first + row) * from.row_stride +
                          (dim + k) * (kUnit > 1 ? 1 : from.col_stride);
            __pipeline_memcpy_async(&to[row][k], at, kUnit * sizeof(T));
        }
        else {
            to[row][k] = 0;
        }
    }
}

/* Adds dimensions first up to end of a slab to a thread's sums, in ascending order. */
template <typename M, typename T>
__device__ __forceinline__ void add_fold(T (&sum)[kRows][kCols], const Slab<T> &slab_a,
                                         const Slab<T> &slab_b, int first, int end)
{
    constexpr int kWord = gd::kPerWord<T>;
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int dim = first; dim < end; dim += kWord) {
        T a[kRows][kWord], b[kCols][kWord];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            gd::load_word(&slab_a[lane / 4 + 8 * i][dim], a[i]);
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
            gd::load_word(&slab_b[lane % 4 + 4 * j][dim], b[j]);
        }
#pragma unroll
        for (int k = 0; k < kWord; ++k) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    sum[i][j] = M::term(sum[i][j], a[i][k], b[j][k]);
                }
            }
        }
    }
}

/* kWords: both operands can be read by aligned 16-byte words along dimensions. */
template <typename M, bool kWords, typename T>
__global__ void __launch_bounds__(32 * kMostWarps, 3)
    few(const __grid_constant__ gd::Cdist<T> call, unsigned across)
{
    constexpr int kUnit = kWords ? gd::kPerWord<T> : 1;
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<T> *>(dynamic);
    const ptrdiff_t top = (ptrdiff_t)(blockIdx.x / across) * kEdge;
    const ptrdiff_t left = (ptrdiff_t)(blockIdx.x % across) * kEdge;
    if (!call.has(top, left + kEdge)) {
        return;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto copy = [&](ptrdiff_t start) {
        const int depth = (int)min(call.d - start, (ptrdiff_t)GD_GROUP);
        copy_slab<kUnit>(memory.a, call.a, top, start, depth);
        copy_slab<kUnit>(memory.b, call.b, left, start, depth);
        __pipeline_commit();
    };
    copy(0);

    T total = 0; /* of the groups so far; where there are several, a thread has one result */
    for (ptrdiff_t start = 0; start == 0 || start < call.d; start += GD_GROUP) {
        const bool last = start + GD_GROUP >= call.d;
        const int depth = (int)min(call.d - start, (ptrdiff_t)GD_GROUP);
        const int count = (int)gd::ceil_div(depth, GD_FOLD);
        __pipeline_wait_prior(0);
        __syncthreads(); /* the slab is there, and the last group is joined */
        if (warp < count) {
            T sum[kRows][kCols] = {};
            const int first = warp * GD_FOLD;
            add_fold<M>(sum, memory.a, memory.b, first, min(first + GD_FOLD, depth));
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    memory.folds[warp][lane / 4 + 8 * i][lane % 4 + 4 * j] = sum[i][j];
                }
            }
        }
        __syncthreads(); /* all folds are there, and nobody reads the slab any more */
        if (!last) {
            copy(start + GD_GROUP);
        }
        for (int i = threadIdx.x; i < kEdge * kEdge; i += blockDim.x) {
            T joined = 0;
            for (int fold = 0; fold < count; ++fold) {
                joined = M::join(joined, memory.folds[fold][i / kEdge][i % kEdge]);
            }
            total = start == 0 ? joined : M::join(total, joined);
            const ptrdiff_t row = top + i / kEdge, col = left + i % kEdge;
            if (!last || row >= call.a.count || col >= call.cols || (call.packed() && col <= row)) {
                continue;
            }
            const T result = gd::finish<M>(total, call.d);
            call.row(row)[col] = result;
            if constexpr (M::template guarded<T>) {
                if (!gd::is_good<M>(result)) {
                    gd::Run<T> run(call, col, 1);
                    run.count = 1;
                    gd::recompute_f64<M>(call, row, row + 1, 1, run);
                }
            }
        }
    }
}

template <typename M, typename T>
cudaError_t launch(const gd_cdist &call)
{
    const bool words = gd::reads_words<T>(call.a) && gd::reads_words<T>(call.b);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, kEdge);
    const ptrdiff_t blocks = gd::ceil_div(call.out.rows, kEdge) * across;
    const ptrdiff_t folds = gd::ceil_div(call.a.cols, GD_FOLD);
    const int warps = folds < 1 ? 1 : folds < kMostWarps ? (int)folds : kMostWarps;
    auto *const kernel = words ? few<M, true, T> : few<M, false, T>;
    constexpr int kBytes = sizeof(Memory<T>);
    return gd::enqueue(call.launch, kernel, blocks, dim3(32 * warps), kBytes,
                       gd::parameters_of<T>(call), (unsigned)across);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_few(gd_cdist *call, gd_error *err)
{
    return gd::launch_one_sum<false>(call, "cdist/cuda_few", err, [&](auto metric, auto type) {
        return launch<decltype(metric), decltype(type)>(*call);
    });
}
