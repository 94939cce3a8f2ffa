/* loop.cuh: the loop of direct.cu and direct_sums_sm90a.cu: a register tile fed from images.
 *
 * K, a kind of sums, says what is added up:
 *   Parameters            of its calls, made of Cdist<float>
 *   fold                  dimensions after which sums have to start afresh; 0: never
 *   fours                 whether four dimensions are added to each other first, which takes no
 *                         more additions: a sum of 64 dimensions then has the error of one of 18
 *   weighted, weigh(w)    whether terms take weights, and what becomes of the caller's
 *   outcomes              whether tiles say in call.outcomes what became of them, for a launch
 *                         that computes again what is not good
 *   recomputes            whether results that are not good are computed again at once
 *   first(a, b, w)        what one dimension makes of nothing
 *   term(sum, a, b, w)    a sum with one dimension more
 *   join(sum, sum)        of two sums one
 *   finish(call, x, row, col)  makes of a sum a result, and says whether it is good
 *   recompute(call, row, end, run)  computes those of a run that are not good again
 *   answers(call, row, col)    whether a tile is worth computing; asked by all of a block */
#ifndef GPUDIST_CDIST_DIRECT_LOOP_CUH
#define GPUDIST_CDIST_DIRECT_LOOP_CUH

#include <cuda_pipeline_primitives.h>

#include <type_traits>

#include "common/grid.cuh"
#include "cdist/direct/images.cuh"
#include "common/segments.cuh"
#include "common/tile.cuh"

namespace gd {
namespace direct {

using T = float;
constexpr int kThreads = kImageThreads, kWord = kPerWord<T>;
constexpr unsigned kBand = 16;

/* A warp is 4 rows by 8 columns of threads, a block 4 warps below each other. A thread's rows touch
 * in the matrix; its columns are runs of one 16-byte store, 8 runs apart. */
constexpr int kRows = 8, kCols = 8, kRuns = kCols / kWord; /* of a thread */
constexpr int kBlockRows = 16 * kRows, kBlockCols = 8 * kCols;
static_assert(kBlockRows == kImagePointsA && kBlockCols == kImagePointsB, "images are of a tile");
template <typename K>
constexpr bool kFolds = K::fold > 0;
template <typename K>
constexpr int kSlabsOfFold = kFolds<K> ? K::fold / GD_FOLD : 1;
/* A group's totals go a long way, so it has as many folds as any, however long they are. */
template <typename K>
constexpr int kSlabsOfGroup = GD_GROUP / GD_FOLD * kSlabsOfFold<K>;

using ImageA = Image<kBlockRows>;
using ImageB = Image<kBlockCols>;

/* What became of a tile: its results stand, or NaN instead of some, or nothing was done. */
enum : unsigned char { kDone, kPartly, kUndone };

template <typename K>
struct Call : K::Parameters {
    const ImageA *images_a;
    const ImageB *images_b;
    const float *image_weights; /* of all slabs' dimensions, 0 beyond the last one */
    unsigned char *outcomes;    /* a block's */
    int slabs, last_rows; /* of a tile's images; of the last one, those that are not all zero */
};

struct Totals {
    T at[kRows * kRuns][kThreads][kWord];
};
struct NoTotals {};

template <bool kTotals>
struct Memory {
    ImageA a[2];
    ImageB b[2];
    std::conditional_t<kTotals, Totals, NoTotals> totals;
};

/* Starts to copy one of a tile's images. A warp's share is in one piece, so that a thread's words
 * are close enough to each other for one address. Images are counted in 32 bits, as are the blocks
 * that make them. */
template <typename I>
__device__ __forceinline__ void copy_image(I &to, const I *images, unsigned tile, unsigned slabs,
                                           unsigned slab, unsigned thread)
{
    constexpr unsigned kEach = sizeof(I) / sizeof(float4) / kThreads;
    const unsigned place = thread / 32 * 32 * kEach + thread % 32;
    const float4 *const from = (const float4 *)images[tile * slabs + slab] + place;
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
            load_word(from_a + i * 4 * 2, a + i * 2);
        }
#pragma unroll
        for (int j = 0; j < kCols; j += 2) {
            load_word(from_b + j * 8 * 2, b + j * 2);
        }
    }
};

/* Adds two dimensions; kFresh: to nothing. */
template <typename K, bool kFresh>
__device__ __forceinline__ void add_dims(Sums &sum, const T *from_a, const T *from_b,
                                         const T *weights)
{
    const float2 w = K::weighted ? __ldg((const float2 *)weights) : float2{};
    const Operands x(from_a, from_b);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                /* The cells of b are swapped: a dimension stands at the other end. */
                const T a = x.a[i * 2 + s], b = x.b[j * 2 + 1 - s], weight = s ? w.y : w.x;
                sum[i][j] =
                    kFresh && s == 0 ? K::first(a, b, weight) : K::term(sum[i][j], a, b, weight);
            }
        }
    }
}

/* Adds two rows of a slab, four dimensions; kFresh: to nothing. */
template <typename K, bool kFresh>
__device__ __forceinline__ void add_rows(Sums &sum, const T *from_a, const T *from_b,
                                         const T *weights)
{
    constexpr int kPitchA = 2 * kBlockRows, kPitchB = 2 * kBlockCols;
    if constexpr (!K::fours) {
        add_dims<K, kFresh>(sum, from_a, from_b, weights);
        add_dims<K, false>(sum, from_a + kPitchA, from_b + kPitchB, weights + 2);
    }
    else {
        gd::add_fours<K, kFresh, kPitchA, kPitchB>(sum, from_a, from_b);
    }
}

/* Adds so many rows of a slab, an even number; fresh: to nothing, which costs one addition less.
 * Loops longer than this one leave the cache of instructions. */
template <typename K>
__device__ __forceinline__ void add_slab(Sums &sum, const ImageA &a, const ImageB &b, int rows,
                                         unsigned thread, const T *weights, bool fresh)
{
    constexpr int kPitchA = 2 * kBlockRows, kPitchB = 2 * kBlockCols;
    const T *from_a = a[0] + (thread / 32 * 4 * kRows + thread % 32 / 8 * 2) * 2;
    const T *from_b = b[0] + thread % 8 * 2 * 2;
    const T *const end = from_a + rows * kPitchA;
    if (kFolds<K> && (kSlabsOfFold<K> == 1 || fresh)) {
        add_rows<K, true>(sum, from_a, from_b, weights);
        from_a += 2 * kPitchA, from_b += 2 * kPitchB, weights += 4;
    }
#pragma unroll 1
    while (from_a != end) {
        add_rows<K, false>(sum, from_a, from_b, weights);
        from_a += 2 * kPitchA, from_b += 2 * kPitchB, weights += 4;
    }
}

/* The word of row i and run r of a thread's totals, if there are `any`, with the sums since. */
template <typename K>
__device__ __forceinline__ void join_word(T *word, const Memory<kFolds<K>> &memory, const Sums &sum,
                                          int i, int r, unsigned thread, bool any)
{
    T before[kWord] = {};
    if constexpr (kFolds<K>) {
        if (any) {
            load_word(memory.totals.at[i * kRuns + r][thread], before);
        }
    }
#pragma unroll
    for (int j = 0; j < kWord; ++j) {
        word[j] = K::join(before[j], sum[i][r * kWord + j]);
    }
}

/* ---------------------------------------------------------------- results */

/* How results are stored. Words of a thread's own, where the tile is inside the matrix and its rows
 * are aligned; else by way of shared memory, in segments of 128 bytes or whole rows of the tile. */
enum class Way { kWords, kSegments, kRows };

/* Joins a group's totals with those of the groups before, if there are any, which stand where the
 * results will, and puts them there; or the results, if it is the last. Says whether all results
 * are good. */
template <typename K, bool kGroups, Way kWay>
__device__ __forceinline__ bool deliver(const Call<K> &call, Memory<kFolds<K>> &memory,
                                        const Sums &sum, ptrdiff_t row, ptrdiff_t col, bool totals,
                                        bool first, bool last)
{
    constexpr bool kWhole = kWay == Way::kWords, kInRows = kWay == Way::kRows;
    constexpr int kAtOnce = kInRows ? kRows / 2 : kRows;  /* rows that there is room for */
    constexpr int kGroup = kInRows ? kAtOnce : 4 * kRows; /* of these, that touch */
    constexpr int kWidth = kInRows ? kBlockCols : kSegment<T>;
    using Piece = T[4 * kAtOnce][kWidth];
    static_assert(4 * sizeof(Piece) <= sizeof memory.a, "room for every warp's");
    Piece &piece = ((Piece *)memory.a)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, own = lane / 8;
    const ptrdiff_t left = call.a.count - row;
    bool good = true;
#pragma unroll
    for (int top = 0; top < kRows; top += kAtOnce) {
        const auto store_piece = [&](ptrdiff_t from) {
            __syncwarp();
            store_segments<kGroup, kWidth>(call, piece, call.a.count, row - own * kRows + top,
                                           kRows, from - lane % 8 * kWord);
            __syncwarp();
        };
#pragma unroll
        for (int r = 0; r < kRuns; ++r) {
            const Run<T> run(call, col + r * 8 * kWord, 1);
            T *at = run.first + (kWhole ? call.out + row * call.out_stride : call.row(row + top));
            const int start = run.start(call, row);
#pragma unroll
            for (int i = top; i < top + kAtOnce;
                 at += kWhole ? call.out_stride : call.step(row + i, 1), ++i) {
                const bool there = kWhole || i < left;
                T word[kWord];
                join_word<K>(word, memory, sum, i, r, threadIdx.x, totals);
                if (kGroups && !first && there) {
                    T before[kWord];
                    if constexpr (kWhole) {
                        load_word(at, before);
                    }
                    else {
                        run.load(at, before, start + i);
                    }
#pragma unroll
                    for (int j = 0; j < kWord; ++j) {
                        word[j] = K::join(before[j], word[j]);
                    }
                }
                if (!kGroups || last) {
#pragma unroll
                    for (int j = 0; j < kWord; ++j) {
                        good &= K::finish(call, word[j], row + i, run.first + j);
                    }
                    if constexpr (kWhole) {
                        stream_word(at, word);
                    }
                    else {
                        const int place = (kInRows ? r * 8 : 0) + lane % 8;
                        store_word(&piece[own * kAtOnce + i - top][place * kWord], word);
                    }
                }
                else if (there) {
                    if constexpr (kWhole) {
                        store_word(at, word);
                    }
                    else {
                        run.template store<true>(at, word, start + i);
                    }
                }
            }
            if (kWay == Way::kSegments && (!kGroups || last)) {
                store_piece(run.first);
            }
        }
        if (kInRows && (!kGroups || last)) {
            store_piece(col);
        }
    }
    /* After all stores, when no sum is needed any more. */
    if constexpr (K::recomputes) {
        for (int r = 0; !good && r < kRuns; ++r) {
            const Run<T> run(call, col + r * 8 * kWord, 1);
            K::recompute(call, row, row + (left < kRows ? left : kRows), run);
        }
    }
    return good;
}

/* ---------------------------------------------------------------- the kernel */

/* kGroups: there are several. kAnywhere: rows of results start anywhere, and all tiles go the same
 * way; in one kernel with the others it costs those a percent. */
template <typename K, bool kGroups, bool kAnywhere = false>
__global__ void __launch_bounds__(kThreads, 4)
    direct(const __grid_constant__ Call<K> call, const __grid_constant__ Grid grid)
{
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<kFolds<K>> *>(dynamic);
    unsigned tile_row, tile_col, thread = threadIdx.x;
    if (!grid.find(&tile_row, &tile_col) ||
        !call.has((ptrdiff_t)tile_row * kBlockRows, (ptrdiff_t)(tile_col + 1) * kBlockCols)) {
        return;
    }
    if constexpr (K::outcomes) {
        if (!K::answers(call, (ptrdiff_t)tile_row * kBlockRows, (ptrdiff_t)tile_col * kBlockCols)) {
            if (thread == 0) {
                call.outcomes[blockIdx.x] = kUndone;
            }
            return;
        }
    }
    const auto copy = [&](unsigned slab) {
        copy_image(memory.a[slab & 1], call.images_a, tile_row, call.slabs, slab, thread);
        copy_image(memory.b[slab & 1], call.images_b, tile_col, call.slabs, slab, thread);
        __pipeline_commit();
    };
    copy(0);

    Sums sum = {};
#pragma unroll 1
    for (int slab = 0; slab < call.slabs; ++slab) {
        __pipeline_wait_prior(0);
        __syncthreads(); /* the slab is there, and nobody reads the one before it any more */
        hide_origin(tile_row), hide_origin(tile_col), hide_origin(thread);
        const bool last = slab + 1 == call.slabs;
        if (!last) {
            copy(slab + 1);
        }
        add_slab<K>(sum, memory.a[slab & 1], memory.b[slab & 1], last ? call.last_rows : kImageRows,
                    thread, call.image_weights + slab * kImageDims, slab % kSlabsOfFold<K> == 0);
        const bool ends_group = kGroups && (slab + 1) % kSlabsOfGroup<K> == 0;
        const bool totals = (kGroups ? slab % kSlabsOfGroup<K> : slab) >= kSlabsOfFold<K>;
        if (!last && !ends_group) {
            if constexpr (kFolds<K>) {
                if ((slab + 1) % kSlabsOfFold<K> == 0) {
#pragma unroll
                    for (int w = 0; w < kRows * kRuns; ++w) {
                        T word[kWord];
                        join_word<K>(word, memory, sum, w / kRuns, w % kRuns, thread, totals);
                        store_word(memory.totals.at[w][thread], word);
                    }
                }
            }
            continue;
        }
        hide_origin(tile_row), hide_origin(tile_col), hide_origin(thread);
        const ptrdiff_t row = (ptrdiff_t)tile_row * kBlockRows + thread / 8 * kRows;
        const ptrdiff_t col = (ptrdiff_t)tile_col * kBlockCols + thread % 8 * kWord;
        const bool first = slab < kSlabsOfGroup<K>;
        bool good;
        if (!kAnywhere && call.words && (ptrdiff_t)(tile_row + 1) * kBlockRows <= call.a.count &&
            (ptrdiff_t)(tile_col + 1) * kBlockCols <= call.b.count) {
            good =
                deliver<K, kGroups, Way::kWords>(call, memory, sum, row, col, totals, first, last);
        }
        else {
            if (last) {
                __syncthreads(); /* nobody reads the last slab any more */
            }
            good = deliver<K, kGroups, kAnywhere ? Way::kRows : Way::kSegments>(
                call, memory, sum, row, col, totals, first, last);
        }
        if (K::outcomes && last) {
            good = !__syncthreads_or(!good);
            if (thread == 0) {
                call.outcomes[blockIdx.x] = good ? kDone : kPartly;
            }
        }
    }
}

}  // namespace direct
}  // namespace gd
#endif
