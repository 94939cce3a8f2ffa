/* once_sm90a.cu: cdist of float32 points on the tensor cores of Hopper GPUs in one launch: for
 * matrices that the steps of tensor_sm90a.cu are too many for, one or a batch of them.
 *
 * Idea: what tensor_sm90a.cu does in seven launches, by blocks that need nothing of each other. A
 * block takes 128 rows of A and some of the columns, 64 at a time: it finds a centre, splits its
 * rows into images in shared memory, once for those of A, and for each tile those of B; two groups
 * of 128 threads multiply, 64 rows each; and every warp computes its suspects again. So any number
 * of matrices is one launch, and a result depends on its two rows and the centre alone: a matrix
 * has the bits that it has alone.
 *
 * The centre, which may be anything, is one that bad rows do not pull away: in each dimension the
 * median of four medians of eight rows of B. It is a number that some rows have, or between two
 * such, so differences to it are exact for rows that are nearly the same. What is trusted and what
 * is suspect is the rule of product_f32/operands.cuh. Nobody asks beforehand whether all is better
 * computed directly: where many of a warp's results are suspect, it computes the differences of all
 * of them in registers, else one by one; all add in the order of GD_FOLD, so that this changes no
 * bit.
 *
 * Floor of (64, 1024, 1024, 64): writing 268 MB, 0.063 ms at 4.27 TB/s; products 0.033 ms.
 * Splitting takes some 15 instructions an element, of which a tile has half as many as results, as
 * storing takes a result.
 *
 * Launch: 256 threads, two blocks a multiprocessor, which multiply and store in turn. A block has
 * so many columns that waves of blocks are full. A few bytes spill before and after the loop over
 * tiles, none in it where rows are aligned.
 *
 * Reached on an H200, the kernel alone, euclidean: (64, 1024, 1024, 64) 0.139 ms (cuda_tile 0.416),
 * (128, 512, 512, 64) 0.081 (0.219), (256, 256, 256, 64) 0.047 (0.121), (16, 2048, 2048, 64) 0.242
 * (0.457), (64, 1024, 1024, 96) 0.192 (0.586), rows that start anywhere, (64, 1023, 1023, 64),
 * 0.350 (0.456); one matrix, 1024 x 1024 x 64 7.7 us (cuda_direct 10.6), 4096 x 4096 x 32 37 us
 * (52), one row of A 6 us (cuda_few 3). Where one in 16 pairs or more is suspect, in clusters,
 * (64, 1024, 1024, 64) takes 0.64 ms, with heavy tails 0.19. Worst errors of 1100 x 1037
 * pairs of twelve kinds, d = 21 to 96: 3.8e-7, of sqeuclidean 7.1e-7. */
#include "cdist/matrices.cuh"
#include "cdist/product_f32/prepare.cuh"
#include "cdist/product_f32/store.cuh"
#include "cdist/product_f32_sm90/products.cuh"
#include "cdist/product_f32_sm90/recompute_here.cuh"

namespace {

using namespace gd::tensor;
using gd::Cdist;
using gd::Points;

constexpr int kThreads = 256, kGroup = 128, kGroupRows = 64, kWarps = kThreads / kLanes;
constexpr int kCols = kPartCols; /* of a tile */
constexpr int kBlocks = 2;       /* of a multiprocessor */
/* Rows of so few dimensions are fine (operands.cuh); of more a half makes hardly any suspects. */
constexpr int kFineBelow = 48;
constexpr int kMostSlabs = 3;
/* Rows that the centre is found from: medians of so many, and of so many medians. */
constexpr int kEight = 8, kFour = 4;

static_assert(kThreads == kCols * kQuad, "a pass prepares the rows of a tile");

struct Job {
    Cdist<float> first; /* of the matrices, as whole_b is */
    Points<float> whole_b;
    gd::Matrices all;
    double keep; /* see Rules, as for this: */
    float ratio;
    bool words_a, words_b;
    /* Blocks of a matrix, and side by side in it; tiles of a block, and side by side. */
    unsigned blocks, stretches, length, across;
};

/* Tiles of a block, at most: with more slabs there is less room for what is suspect of them. */
template <int kSlabs>
constexpr int kMostTiles = kSlabs < kMostSlabs ? 16 : 8;

template <int kSlabs>
struct Shared {
    uint4 a[kSlabs][Shape<kCols>::image_a], b[2][kSlabs][Shape<kCols>::image_b];
    Facts<kTileRows> facts_a;
    Facts<kCols> facts_b[2];
    alignas(16) float shift[kSlabs * kDims];
    float medians[kFour][kSlabs * kDims];
    /* Each tile's suspects, a word a lane (recompute/suspects.cuh), and some that wait. */
    uint32_t suspects[kMostTiles<kSlabs>][kThreads];
    int2 lists[kWarps][2 * kLanes];
};

/* ---------------------------------------------------------------- the centre */

__device__ __forceinline__ void order(float &x, float &y)
{
    const float less = fminf(x, y);
    y = fmaxf(x, y);
    x = less;
}

/* The middle of two numbers, of which neither is too large for it. */
__device__ __forceinline__ float between(float x, float y) { return 0.5f * x + 0.5f * y; }

__device__ __forceinline__ float median(float (&x)[kFour])
{
    order(x[0], x[1]);
    order(x[2], x[3]);
    return between(fmaxf(x[0], x[2]), fminf(x[1], x[3]));
}

/* Of two sorted halves the fourth and the fifth number are the middle ones of all. */
__device__ __forceinline__ float median(float (&x)[kEight])
{
#pragma unroll
    for (int half = 0; half < kEight; half += 4) {
        order(x[half], x[half + 1]);
        order(x[half + 2], x[half + 3]);
        order(x[half], x[half + 2]);
        order(x[half + 1], x[half + 3]);
        order(x[half + 1], x[half + 2]);
    }
    /* The four least: of each pair from opposite ends the lesser one. */
    float fourth = -HUGE_VALF, fifth = HUGE_VALF;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        order(x[i], x[kEight - 1 - i]);
        fourth = fmaxf(fourth, x[i]);
        fifth = fminf(fifth, x[kEight - 1 - i]);
    }
    return between(fourth, fifth);
}

template <int kSlabs>
__device__ __forceinline__ void find_centre(const Points<float> &whole_b, ptrdiff_t d,
                                            Shared<kSlabs> &shared)
{
    constexpr int kAll = kSlabs * kDims;
    for (int i = threadIdx.x; i < kFour * kAll; i += kThreads) {
        const ptrdiff_t k = min((ptrdiff_t)(i % kAll), d - 1);
        float x[kEight];
#pragma unroll
        for (int j = 0; j < kEight; ++j) {
            x[j] = whole_b.at(gd_sample_row(whole_b.count, i / kAll * kEight + j), k);
        }
        shared.medians[i / kAll][i % kAll] = median(x);
    }
    __syncthreads();
    if (threadIdx.x < kAll) {
        float x[kFour];
#pragma unroll
        for (int i = 0; i < kFour; ++i) {
            x[i] = shared.medians[i][threadIdx.x];
        }
        const float middle = median(x);
        shared.shift[threadIdx.x] = isfinite(middle) ? middle : 0.0f;
    }
    __syncthreads();
}

/* ---------------------------------------------------------------- images */

/* A normal number's size in float64, by its bits: conversions have a sixteenth of the rate of
 * additions. What is below normal numbers, or 0, is next to nothing still, what is infinite or NaN
 * is beyond 2^127. */
__device__ __forceinline__ double widened(float x)
{
    const unsigned bits = __float_as_uint(x) & 0x7fffffff;
    return __hiloint2double((int)((bits >> 3) + (896u << 20)), (int)(bits << 29));
}

/* The sum of squares of a lane's chunks, in four sums side by side. */
template <int kSlabs>
__device__ __forceinline__ double sum_squares(const Held<kSlabs> &x)
{
    double sums[4] = {};
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
            sums[i % 4] = gd_add_square(sums[i % 4], widened(x[slab][i]));
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* A lane's chunk of each slab of a row. kWhole: slabs are full, and read by words. */
template <int kSlabs, bool kWhole>
struct Chunks {
    Held<kSlabs> x;

    static __device__ __forceinline__ int in_slab() { return (int)threadIdx.x % kQuad * kChunk; }
    static __device__ __forceinline__ int left(ptrdiff_t d, int slab)
    {
        return kWhole ? kChunk : (int)d - slab * kDims - in_slab();
    }
    __device__ __forceinline__ void bring(const Points<float> &points, bool words, ptrdiff_t d,
                                          ptrdiff_t row)
    {
        const float *const from = points.data + points.clamp(row) * points.row_stride;
        const ptrdiff_t stride = kWhole ? 1 : points.col_stride;
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab) {
            fetch(from + (slab * kDims + in_slab()) * stride, stride, kWhole || words,
                  left(d, slab), x[slab]);
        }
    }
    /* Moves the row, and puts it into the images of its operand, at its place there, and what it is
     * besides into the facts. */
    template <gd_metric kMetric, bool kFine, bool kOfA, int kRows>
    __device__ __forceinline__ void put(const Job &job, const float *shift, bool there, int in_tile,
                                        Facts<kRows> &facts, uint4 *images)
    {
        constexpr int kPlane = kOfA ? Shape<kCols>::plane_a : Shape<kCols>::plane_b;
        Size size;
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab) {
            const int some = left(job.first.d, slab);
            float middle[kChunk];
#pragma unroll
            for (int i = 0; i < kChunk; i += gd::kPerWord<float>) {
                gd::load_word(shift + slab * kDims + in_slab() + i, middle + i);
            }
#pragma unroll
            for (int i = 0; i < kChunk; ++i) {
                x[slab][i] = i < some ? x[slab][i] - middle[i] : 0.0f;
                size.largest = fmaxf(size.largest, fabsf(x[slab][i]));
            }
        }
        size.squares = sum_squares(x);
#pragma unroll
        for (int step = kQuad / 2; step > 0; step /= 2) {
            size.squares += __shfl_xor_sync(~0u, size.squares, step);
            size.largest = fmaxf(size.largest, __shfl_xor_sync(~0u, size.largest, step));
        }
        /* Zeros have been widened to next to nothing, and a maximum drops NaN. */
        size.squares = size.largest == 0 && size.squares < 1 ? 0 : size.squares;
        float norm, unscale;
        find_facts<kMetric, kFine>(size, job.first.d, job.keep, norm, unscale);
        if (!there) {
            norm = unscale = 0;
        }
        if (threadIdx.x % kQuad == 0) {
            facts.norm[in_tile] = norm;
            facts.unscale[in_tile] = unscale;
        }
        /* The inverse of a power of two, whose exponent has the other sign. */
        const float inverse = kFine ? gd::reciprocal(unscale)
                                    : __int_as_float((127 * 2 << 23) - __float_as_int(unscale));
        uint4 *to =
            images + threadIdx.x % kQuad * 2 * kPlane + (kOfA ? in_tile : place_of_column(in_tile));
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab, to += kPlanes * kPlane) {
            put_chunk<kCols, kFine>(x[slab], unscale, inverse, kOfA, !kOfA, to, to);
        }
    }
};

/* ---------------------------------------------------------------- the kernel */

/* Adds up the products of a group's rows and a tile's columns, slab by slab. */
template <int kSlabs>
__device__ __forceinline__ void sum_products(const Shared<kSlabs> &shared, int buffer,
                                             Sums<kCols> &sums)
{
    constexpr int kSums = sizeof sums / sizeof *sums;
    const int first = (int)gd::this_thread() / kGroup * kGroupRows;
    Sums<kCols> acc = {};
    multiply_slab<kTileRows, kCols>(sums, shared.a[0] + first, shared.b[buffer][0]);
#pragma unroll
    for (int slab = 1; slab < kSlabs; ++slab) {
        multiply_slab<kTileRows, kCols>(acc, shared.a[slab] + first, shared.b[buffer][slab]);
        gd::await_products();
        gd::pin(sums);
        gd::pin(acc);
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            sums[i] += acc[i];
        }
    }
    if constexpr (kSlabs == 1) {
        gd::await_products();
        gd::pin(sums);
    }
}

template <gd_metric kMetric, int kSlabs, bool kFine, bool kWhole>
__global__ void __launch_bounds__(kThreads, kBlocks) once(const __grid_constant__ Job job)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared<kSlabs> &shared = *reinterpret_cast<Shared<kSlabs> *>(memory);
    const unsigned number = blockIdx.x / job.blocks, block = blockIdx.x % job.blocks;
    const ptrdiff_t top = (ptrdiff_t)(block / job.stretches) * kTileRows;
    const unsigned begin = block % job.stretches * job.length;
    const unsigned end = min(begin + job.length, job.across);
    const Cdist<float> call = job.all.one(job.first, number);
    /* Pairs need no tile left of the diagonal. */
    const unsigned first = call.packed() ? max(begin, (unsigned)(top / kCols)) : begin;
    unsigned tile = first;
    if (tile >= end) {
        return;
    }
    /* Of the rows that a pass prepares: of B's those whose places in images are side by side. */
    const int row = (int)threadIdx.x / kQuad, col = place_of_column(row);
    const int warp = (int)gd::this_thread() / kLanes;
    const ptrdiff_t unit = top + warp * kUnitRows;
    Chunks<kSlabs, kWhole> chunks;
    {
        Points<float> whole_b = job.whole_b;
        whole_b.data += call.b.data - job.first.b.data;
        find_centre(whole_b, call.d, shared);
    }
#pragma unroll 1
    for (int part = 0; part < kTileRows; part += kCols) {
        const ptrdiff_t own = top + part + row;
        chunks.bring(call.a, job.words_a, call.d, own);
        chunks.template put<kMetric, kFine, true>(job, shared.shift, own < call.a.count, part + row,
                                                  shared.facts_a, shared.a[0]);
    }
    chunks.bring(call.b, job.words_b, call.d, (ptrdiff_t)tile * kCols + col);
#pragma unroll 1
    for (int buffer = 0; tile < end; ++tile, buffer ^= 1) {
        const ptrdiff_t left = (ptrdiff_t)tile * kCols;
        chunks.template put<kMetric, kFine, false>(job, shared.shift, left + col < call.b.count,
                                                   col, shared.facts_b[buffer],
                                                   shared.b[buffer][0]);
        gd::fence_other_way_to_shared();
        /* Who comes here has done with the tile before, whose images are replaced next. */
        __syncthreads();
        if (tile + 1 < end) {
            chunks.bring(call.b, job.words_b, call.d, left + kCols + col);
        }
        Sums<kCols> sums;
        sum_products(shared, buffer, sums);
        uint32_t suspects[1];
        const bool whole = top + kTileRows <= call.a.count && left + kCols <= call.b.count;
        const auto store = [&](auto way) {
            NotStaged nothing;
            store_unit<kMetric, decltype(way)::value, kCols>(
                call, job.ratio, FactsFrom<false>(shared.facts_a, warp * kUnitRows),
                FactsFrom<false>(shared.facts_b[buffer], 0), unit, left, nothing, sums, suspects);
        };
        if (whole && call.words) {
            store(std::integral_constant<Way, Way::kLines>{});
        }
        else if (whole && (!call.packed() || top + kTileRows <= left)) {
            store(std::integral_constant<Way, Way::kSliding>{});
        }
        else {
            store(std::integral_constant<Way, Way::kSingly>{});
        }
        shared.suspects[tile - first][threadIdx.x] = suspects[0];
    }
    /* Last, so that it takes no registers from the loop. */
    const bool words = job.words_a && job.words_b;
    bool brought = false;
#pragma unroll 1
    for (tile = first; tile < end; ++tile) {
        const ptrdiff_t left = (ptrdiff_t)tile * kCols;
        uint32_t word = shared.suspects[tile - first][threadIdx.x];
        if (unit + kUnitRows > call.a.count || left + kCols > call.b.count) {
            word = those_there(call, word, unit, left);
        }
        const unsigned count = gd::sum_of_warp((unsigned)__popc(word));
        const bool many = count >= kManySuspects;
        /* Nobody needs the images any more, or the points of the tile before. */
        if (__syncthreads_or(many)) {
            if (!brought) {
                bring_points<kSlabs, kTileRows, false>(shared.a[0], call.a, words, call.d, top);
                brought = true;
            }
            bring_points<kSlabs, kCols, true>(shared.b[0][0], call.b, words, call.d, left);
            __syncthreads();
        }
        if (many) {
            recompute_densely<gd::Metric<kMetric>, kSlabs>(
                call, shared.a[0] + warp * kUnitRows * kRowWords<kSlabs>, shared.b[0][0], word,
                unit, left);
        }
        else if (count > 0) {
            recompute_singly<gd::Metric<kMetric>>(call, words, word, unit, left,
                                                  shared.lists[warp]);
        }
    }
}

/* ---------------------------------------------------------------- launches */

/* Shares a matrix out among blocks, up to so many tiles each: as many as is quickest, where so many
 * blocks run at a time, and to begin takes the time of kBegin tiles. */
void share_out(Job &job, const gd_cdist &call, ptrdiff_t at_once, ptrdiff_t most)
{
    constexpr ptrdiff_t kBegin = 3;
    const ptrdiff_t down = gd::ceil_div(call.out.rows, kTileRows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, kCols);
    ptrdiff_t best = 1, least = PTRDIFF_MAX;
    for (ptrdiff_t length = min(across, most); length > 0; --length) {
        const ptrdiff_t blocks = job.all.count * down * gd::ceil_div(across, length);
        const ptrdiff_t time = gd::ceil_div(blocks, at_once) * (kBegin + length);
        if (time < least) {
            best = length, least = time;
        }
    }
    job.length = (unsigned)best, job.across = (unsigned)across;
    job.stretches = (unsigned)gd::ceil_div(across, best);
    job.blocks = (unsigned)down * job.stretches;
}

template <gd_metric kMetric, int kSlabs, bool kFine, bool kWhole = false>
cudaError_t launch_as(const gd_cdist &call, Job &job)
{
    int processors = 0;
    const cudaError_t code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                                    call.launch.device.index);
    if (code != cudaSuccess) {
        return code;
    }
    share_out(job, call, (ptrdiff_t)processors * kBlocks, kMostTiles<kSlabs>);
    return gd::enqueue(call.launch, once<kMetric, kSlabs, kFine, kWhole>,
                       job.all.count * job.blocks, dim3(kThreads), sizeof(Shared<kSlabs>), job);
}

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call)
{
    const bool fine = call.a.cols < kFineBelow;
    const double ratio = fine ? ratio_of(call.a.cols, false) : 1;
    Job job = {};
    job.all = gd::matrices_of<float>(call);
    job.first = gd::first_of<float>(call, job.all);
    job.whole_b = gd::points_of<float>(call.whole_b);
    job.ratio = (float)ratio;
    job.keep = (1 - ratio / (1 + ratio)) * (fine ? 1 - 0x1p-24 : 1.0);
    job.words_a = gd::reads_words<float>(call.a) && gd::all_of_words<float>(job.all, job.all.a);
    job.words_b = gd::reads_words<float>(call.b) && gd::all_of_words<float>(job.all, job.all.b);
    /* As embeddings often are: d = 64. */
    const bool whole = call.a.cols == 2 * kDims && job.words_a && job.words_b;
    return call.a.cols <= kDims       ? launch_as<kMetric, 1, true>(call, job)
           : fine                     ? launch_as<kMetric, 2, true>(call, job)
           : whole                    ? launch_as<kMetric, 2, false, true>(call, job)
           : call.a.cols <= 2 * kDims ? launch_as<kMetric, 2, false>(call, job)
                                      : launch_as<kMetric, kMostSlabs, false>(call, job);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor_once(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    GD_CUDA_TRY(err, "cdist/cuda_tensor_once",
                call->metric == GD_SQEUCLIDEAN ? launch<GD_SQEUCLIDEAN>(*call)
                                               : launch<GD_EUCLIDEAN>(*call));
    return GD_OK;
}
