/* direct.cu: cdist of many float32 points with more than a few dimensions, in direct form.
 *
 * Idea: the register tile of tile.cu, for matrices that are large enough to bring the operands into
 * a better order first (images.cuh). A block of 128 threads computes 128 x 64 results, each thread
 * 8 x 8, from stages of 16 dimensions, which asynchronous copies bring while the one before is
 * added up. A pair-dimension is two instructions: of 16384 x 16384 x 128 the H200 issues them in
 * 2.06 ms at best.
 *
 * - Four blocks share a multiprocessor, so that a scheduler has four warps to take instructions
 *   from: that leaves a thread 128 registers, 64 for sums and 32 for operands. The totals wait in
 *   shared memory.
 * - Sums start afresh every GD_FOLD dimensions and are added to totals. That costs no additions:
 *   what the first dimension of a stage makes is the sum, and needs none.
 * - Sums are never stored themselves, only what totals make of them: a store of a word wants its
 *   numbers in neighbouring registers, and then half of them stood in the wrong bank of the
 *   register file for the terms that are added to them.
 * - Totals are added every GD_GROUP dimensions to those of the groups before, which wait where the
 *   results will stand.
 * Launch: a block a tile, in bands of 16 tiles' rows (grid.cuh).
 *
 * Reached on an H200, 16384 x 16384: cityblock d = 32 0.68 ms, d = 128 2.54 (13.5e12
 * pair-dimensions a second, 81 % of the issue bound; tile.cu 2.81), d = 1024 20.3 (23.1); chebyshev
 * d = 128 2.69 (2.97); euclidean d = 17 0.53 (0.68), d = 128 2.67. Of cityblock's 2.54 barriers and
 * copies take 0.11 and folds 0.06; the loop alone, which has 4 % of other instructions, takes 2.36.
 * Three blocks with more registers and operands fetched ahead are 3 to 5 % slower. Images take some
 * 10 us to make, for which a call with few rows has no use. Pairs take 53 % of the time at d = 128,
 * 78 % at d = 17. */
#include <cuda_pipeline_primitives.h>

#include <cuda/std/type_traits>

#include "grid.cuh"
#include "images.cuh"
#include "segments.cuh"

namespace {

using T = float;
constexpr int kThreads = gd::kImageThreads, kWord = gd::kPerWord<T>;
constexpr unsigned kBand = 16;

/* A warp is 4 rows by 8 columns of threads, a block 4 warps below each other. A thread's rows touch
 * in the matrix; its columns are runs of one 16-byte store, 8 runs apart. */
constexpr int kRows = 8, kCols = 8, kRuns = kCols / kWord; /* of a thread */
constexpr int kBlockRows = 16 * kRows, kBlockCols = 8 * kCols;
static_assert(kBlockRows == gd::kImagePointsA && kBlockCols == gd::kImagePointsB,
              "images are of a tile");
constexpr int kStagesOfGroup = GD_GROUP / GD_FOLD;

using ImageA = gd::Image<kBlockRows>;
using ImageB = gd::Image<kBlockCols>;

struct Call : gd::Cdist<T> {
    const ImageA *images_a;
    const ImageB *images_b;
    int stages, last_rows; /* of a tile's images; of the last one, those that are not all zero */
};

struct Totals {
    T at[kRows * kRuns][kThreads][kWord];
};
struct NoTotals {};

template <bool kFolds>
struct Memory {
    ImageA a[2];
    ImageB b[2];
    cuda::std::conditional_t<kFolds, Totals, NoTotals> totals;
};

/* Starts to copy one of a tile's images. A warp's share is in one piece, so that a thread's words
 * are close enough to each other for one address. Images are counted in 32 bits, as are the blocks
 * that make them. */
template <typename I>
__device__ __forceinline__ void copy_image(I &to, const I *images, unsigned tile, unsigned stages,
                                           unsigned stage, unsigned thread)
{
    constexpr unsigned kEach = sizeof(I) / sizeof(float4) / kThreads;
    const unsigned place = thread / 32 * 32 * kEach + thread % 32;
    const float4 *const from = (const float4 *)images[tile * stages + stage] + place;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
        __pipeline_memcpy_async((float4 *)to + place + 32 * i, from + 32 * i, sizeof(float4));
    }
}

/* ---------------------------------------------------------------- sums */

using Sums = T[kRows][kCols];

struct Operands {
    T a[kRows * 2], b[kCols * 2];

    /* A word is two points' cells. Of a warp's 32 words of b eight differ, side by side, and four
     * of a: the others are broadcasts. */
    __device__ __forceinline__ Operands(const T *from_a, const T *from_b)
    {
#pragma unroll
        for (int i = 0; i < kRows; i += 2) {
            gd::load_word(from_a + i * 4 * 2, a + i * 2);
        }
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            gd::load_word(from_b + j * 8 * 2, b + j * 2);
        }
    }
};

/* Adds two dimensions; kFresh: to nothing. */
template <typename M, bool kFresh>
__device__ __forceinline__ void add_dims(Sums &sum, const T *from_a, const T *from_b)
{
    const Operands x(from_a, from_b);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                /* The cells of b are swapped: dimension s stands at the other end. */
                const T a = x.a[i * 2 + s], b = x.b[j * 2 + 1 - s];
                sum[i][j] = kFresh && s == 0 ? gd::first_term<M>(a, b) : M::term(sum[i][j], a, b);
            }
        }
    }
}

/* Adds so many rows of a stage, an even number: to nothing, if sums fold. Loops longer than this
 * one leave the cache of instructions. */
template <typename M>
__device__ __forceinline__ void add_stage(Sums &sum, const ImageA &a, const ImageB &b, int rows,
                                          unsigned thread)
{
    constexpr int kPitchA = 2 * kBlockRows, kPitchB = 2 * kBlockCols;
    const T *from_a = a[0] + (thread / 32 * 4 * kRows + thread % 32 / 8 * 2) * 2;
    const T *from_b = b[0] + thread % 8 * 2 * 2;
    const T *const end = from_a + rows * kPitchA;
    if constexpr (M::folds) {
        add_dims<M, true>(sum, from_a, from_b);
        add_dims<M, false>(sum, from_a + kPitchA, from_b + kPitchB);
        from_a += 2 * kPitchA, from_b += 2 * kPitchB;
    }
#pragma unroll 1
    while (from_a != end) {
        add_dims<M, false>(sum, from_a, from_b);
        add_dims<M, false>(sum, from_a + kPitchA, from_b + kPitchB);
        from_a += 2 * kPitchA, from_b += 2 * kPitchB;
    }
}

/* Of a thread's totals the word of row i and run r, with the sums since. */
template <typename M>
__device__ __forceinline__ void join_word(T *word, const Memory<M::folds> &memory, const Sums &sum,
                                          int i, int r, unsigned thread)
{
    T before[kWord] = {};
    if constexpr (M::folds) {
        gd::load_word(memory.totals.at[i * kRuns + r][thread], before);
    }
#pragma unroll
    for (int j = 0; j < kWord; ++j) {
        word[j] = M::join(before[j], sum[i][r * kWord + j]);
    }
}

template <typename M>
__device__ __forceinline__ void clear_totals(Memory<M::folds> &memory, unsigned thread)
{
    if constexpr (M::folds) {
#pragma unroll
        for (int w = 0; w < kRows * kRuns; ++w) {
            const T zeros[kWord] = {};
            gd::store_word(memory.totals.at[w][thread], zeros);
        }
    }
}

/* ---------------------------------------------------------------- results */

/* Joins a group's totals with those of the groups before, if there are any, which stand where the
 * results will, and puts them there; or the results, if it is the last. kWhole: the tile is inside
 * the matrix, whose rows are aligned. */
template <typename M, bool kGroups, bool kWhole>
__device__ __forceinline__ void deliver(const Call &call, Memory<M::folds> &memory, const Sums &sum,
                                        ptrdiff_t row, ptrdiff_t col, bool first, bool last)
{
    using Segments = gd::Segments<T, 4 * kRows>;
    static_assert(4 * sizeof(Segments) <= sizeof memory.a, "room for every warp's");
    Segments &segments = ((Segments *)memory.a)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, own = lane / 8 * kRows;
    const ptrdiff_t left = call.a.count - row;
    bool safe = true;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
        const gd::Run<T> run(call, col + r * 8 * kWord, 1);
        T *at = kWhole ? call.out + row * call.out_stride + run.first : call.row(row) + run.first;
        const int start = run.start(call, row);
#pragma unroll
        for (int i = 0; i < kRows; at += kWhole ? call.out_stride : call.step(row + i, 1), ++i) {
            const bool there = kWhole || i < left;
            T word[kWord];
            join_word<M>(word, memory, sum, i, r, threadIdx.x);
            if (kGroups && !first && there) {
                T before[kWord];
                if constexpr (kWhole) {
                    gd::load_word(at, before);
                }
                else {
                    run.load(at, before, start + i);
                }
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    word[j] = M::join(before[j], word[j]);
                }
            }
            if (!kGroups || last) {
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    word[j] = M::finish(word[j]);
                    safe &= M::safe(word[j]);
                }
                if constexpr (kWhole) {
                    gd::stream_word(at, word);
                }
                else {
                    gd::store_word(&segments[own + i][lane % 8 * kWord], word);
                }
            }
            else if (there) {
                if constexpr (kWhole) {
                    gd::store_word(at, word);
                }
                else {
                    run.template store<true>(at, word, start + i);
                }
            }
        }
        if (!kWhole && (!kGroups || last)) {
            __syncwarp();
            gd::store_segments<4 * kRows>(call, segments, call.a.count, row - own, 0,
                                          run.first - lane % 8 * kWord);
            __syncwarp();
        }
    }
    if constexpr (M::template guarded<T>) {
        /* After all stores, when no sum is needed any more. */
        if (!safe) {
            for (int r = 0; r < kRuns; ++r) {
                const gd::Run<T> run(call, col + r * 8 * kWord, 1);
                gd::repair<M>(call, row, row + (left < kRows ? left : kRows), 1, run);
            }
        }
    }
}

/* ---------------------------------------------------------------- the kernel */

/* kGroups: there are several. */
template <typename M, bool kGroups>
__global__ void __launch_bounds__(kThreads, 4)
    direct(const __grid_constant__ Call call, const __grid_constant__ gd::Grid grid)
{
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<M::folds> *>(dynamic);
    unsigned tile_row, tile_col, thread = threadIdx.x;
    if (!grid.find(&tile_row, &tile_col) ||
        !call.has((ptrdiff_t)tile_row * kBlockRows, (ptrdiff_t)(tile_col + 1) * kBlockCols)) {
        return;
    }
    const auto copy = [&](unsigned stage) {
        copy_image(memory.a[stage & 1], call.images_a, tile_row, call.stages, stage, thread);
        copy_image(memory.b[stage & 1], call.images_b, tile_col, call.stages, stage, thread);
        __pipeline_commit();
    };
    copy(0);
    clear_totals<M>(memory, thread);

    Sums sum = {};
#pragma unroll 1
    for (int stage = 0; stage < call.stages; ++stage) {
        __pipeline_wait_prior(0);
        __syncthreads(); /* the stage is there, and nobody reads the one before it any more */
        gd::forget(tile_row), gd::forget(tile_col), gd::forget(thread);
        const bool last = stage + 1 == call.stages;
        if (!last) {
            copy(stage + 1);
        }
        add_stage<M>(sum, memory.a[stage & 1], memory.b[stage & 1],
                     last ? call.last_rows : gd::kImageRows, thread);
        const bool ends_group = kGroups && (stage + 1) % kStagesOfGroup == 0;
        if (!last && !ends_group) {
            if constexpr (M::folds) {
#pragma unroll
                for (int w = 0; w < kRows * kRuns; ++w) {
                    T word[kWord];
                    join_word<M>(word, memory, sum, w / kRuns, w % kRuns, thread);
                    gd::store_word(memory.totals.at[w][thread], word);
                }
            }
            continue;
        }
        gd::forget(tile_row), gd::forget(tile_col), gd::forget(thread);
        const ptrdiff_t row = (ptrdiff_t)tile_row * kBlockRows + thread / 8 * kRows;
        const ptrdiff_t col = (ptrdiff_t)tile_col * kBlockCols + thread % 8 * kWord;
        const bool first = stage < kStagesOfGroup;
        if (call.words && (ptrdiff_t)(tile_row + 1) * kBlockRows <= call.a.count &&
            (ptrdiff_t)(tile_col + 1) * kBlockCols <= call.b.count) {
            deliver<M, kGroups, true>(call, memory, sum, row, col, first, last);
        }
        else {
            if (last) {
                __syncthreads(); /* nobody reads the last stage any more */
            }
            deliver<M, kGroups, false>(call, memory, sum, row, col, first, last);
        }
        if (kGroups && !last) {
            clear_totals<M>(memory, thread);
        }
    }
}

/* ---------------------------------------------------------------- launch */

/* Whole words: the last of a row must not reach beyond it. */
bool reads_words(const gd_matrix &x)
{
    return x.cols % kWord == 0 && x.col_stride == 1 &&
           gd::rows_of_words((const T *)x.data, x.row_stride);
}

template <typename M>
gd_status launch(gd_cdist &call, const char *id, gd_error *err)
{
    const ptrdiff_t down = gd::ceil_div(call.out.rows, kBlockRows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, kBlockCols);
    const ptrdiff_t stages = gd::ceil_div(call.a.cols, gd::kImageDims);
    const size_t bytes_of_a = (size_t)(down * stages) * sizeof(ImageA);
    call.launch.workspace_bytes = bytes_of_a + (size_t)(across * stages) * sizeof(ImageB);
    if (call.launch.sizing) {
        return GD_OK;
    }
    auto *const images_a = (ImageA *)call.launch.workspace;
    auto *const images_b = (ImageB *)((char *)call.launch.workspace + bytes_of_a);
    Call parameters = {};
    (gd::Cdist<T> &)parameters = gd::parameters_of<T>(call);
    parameters.images_a = images_a, parameters.images_b = images_b;
    parameters.stages = (int)stages;
    const int last_dims = (int)(call.a.cols - (stages - 1) * gd::kImageDims);
    parameters.last_rows = (int)gd::ceil_div(last_dims, 4) * 2;
    const bool words = reads_words(call.a) && reads_words(call.b);
    GD_CUDA_TRY(err, id,
                gd::enqueue(call.launch, words ? gd::make_images<true> : gd::make_images<false>,
                            (down + across) * stages, dim3(kThreads), 0, parameters.a, parameters.b,
                            parameters.d, parameters.stages, (unsigned)(down * stages), images_a,
                            images_b));

    const gd::Grid grid(call.pairs, down, across, kBand, kBlockRows, kBlockCols);
    auto *kernel = direct<M, false>;
    if constexpr (M::folds) {
        kernel = stages > kStagesOfGroup ? direct<M, true> : kernel;
    }
    constexpr int kBytes = sizeof(Memory<M::folds>);
    /* Beyond 48 KB has to be asked for. */
    GD_CUDA_TRY(err, id,
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    GD_CUDA_TRY(
        err, id,
        gd::enqueue(call.launch, kernel, grid.blocks(), dim3(kThreads), kBytes, parameters, grid));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_direct(gd_cdist *call, gd_error *err)
{
    return gd::with_lp_metric(call->metric, [&](auto metric) {
        return launch<decltype(metric)>(*call, "cdist/cuda_direct", err);
    });
}
