/* many.cu: cdist of many matrices in one launch, with the bits that tile.cu gives each.
 *
 * Idea: a launch costs more than a small matrix. So a block takes a tile of one of the matrices of
 * a batch, or several small ones whole; 16 threads of it a tile of 16 x 16 results, say. The points
 * of a fold of dimensions come to shared memory, dimension after dimension, where a thread finds
 * four rows and four columns (a word each in float32) for its 4 x 4 results.
 *
 * Sums start afresh every GD_FOLD dimensions and groups of folds are joined as in tile.cu. Operands
 * and results are where the batch's strides say: one that stands for all has strides of 0.
 *
 * Points of up to four dimensions need no shared memory: as in narrow.cu a thread keeps four
 * columns in registers and walks down eight rows; where rows come by fours, without tests.
 *
 * Floor: (4096, 64, 64, 3) float32 writes 67 MB, 14 us at 4.7 TB/s. Launch: at most 256 threads;
 * blocks of 64 x 64 results, or as it suits the matrices. Reached on an H200, the kernel alone:
 * euclidean (4096, 64, 64, 3) 29 us, cityblock (8, 3900, 176, 4) 10; with some 8 us that timing a
 * launch adds, euclidean (100000, 8, 8, 3) 27, (20000, 16, 16, 8) 98, (10000, 32, 32, 16) 114. On
 * an H100 cityblock (8, 3900, 176, 4) 9.4 us, with tests 10.3. From 48 rows and columns on tile.cu
 * is quicker: (64, 1024, 1024, 64) 0.43 ms, here 1.04. */
#include <type_traits>

#include "cdist/matrices.cuh"
#include "common/ends.cuh"
#include "common/points.cuh"

namespace {

constexpr int kThreads = 256, kEdge = 4 /* results of a thread, either way */;
/* Rows of shared memory begin so many elements further than they would. */
constexpr int kPad = 4;

/* What a kernel adds up for a metric. Those with the same terms have a kernel in common. */
template <typename M>
using TermsOf = std::conditional_t<M::squares || M::metric == GD_COSINE, gd::Ended, M>;

template <typename T>
struct Many {
    gd::Cdist<T> first;
    gd::Matrices all;
    gd_metric metric;
    bool sure_root; /* roots are those of narrow.cu */
    /* Binary logarithms of the threads for a tile, below each other and side by side, and of the
     * matrices of a block; tiles of a matrix. */
    unsigned log_down, log_across, log_each, down, across;
};

/* Brings dimensions dim up to dim + depth of a tile's points of each of the block's matrices:
 * to[(matrix * GD_FOLD + dimension) * pitch + point]. */
template <typename T>
__device__ __forceinline__ void take_points(T *to, const gd::Points<T> &points,
                                            const gd::Apart &apart, const gd::Batch &batch,
                                            ptrdiff_t number, int each, ptrdiff_t first, int tile,
                                            ptrdiff_t dim, int depth)
{
    const int pitch = tile + kPad, of_matrix = tile * depth;
    for (int at = 0; at < each; ++at) {
        const T *const from = points.data + batch.offset(apart, number + at);
#pragma unroll 4
        for (int i = threadIdx.x; i < of_matrix; i += blockDim.x) {
            const int point = i / depth, k = i - point * depth;
            to[(at * GD_FOLD + k) * pitch + point] =
                __ldg(from + points.clamp(first + point) * points.row_stride +
                      (dim + k) * points.col_stride);
        }
    }
}

/* Computes what is not good again of results in a word of columns and some rows of a matrix. It
 * finds the matrix anew: threads that never come here would store its description for it, 104 bytes
 * each. */
template <typename M, typename Call>
__device__ __noinline__ void recompute_share(const Call &call, ptrdiff_t number, ptrdiff_t row,
                                             ptrdiff_t rows, ptrdiff_t col)
{
    const gd::Cdist<float> one = call.all.one(call.first, number);
    gd::with_end_of<M>(call.metric, [&](auto end) {
        using End = decltype(end);
        if constexpr (End::template guarded<float>) {
            gd::recompute_f64<End>(one, row, min(row + rows, one.a.count), 1,
                                   gd::Run<float>(one, col, 1));
        }
    });
}

/* Makes results of a thread's totals in a row, and tells whether all are good. */
template <typename M, typename T>
__device__ __forceinline__ bool finish_row(gd_metric metric, bool sure_root, T (&x)[kEdge])
{
    bool good = true;
    gd::with_end_of<M>(metric, [&](auto end) {
        using End = decltype(end);
        const auto finish = [&](ptrdiff_t d) {
#pragma unroll
            for (int j = 0; j < kEdge; ++j) {
                x[j] = gd::finish<End>(x[j], d);
                good &= gd::is_good<End>(x[j]);
            }
        };
        /* No other result is a root that could be another. */
        if (End::root && sizeof(T) == sizeof(float) && !sure_root) {
            finish(gd::kShortDims);
        }
        else {
            finish(gd::kShortDims + 1);
        }
    });
    return good;
}

template <typename M, typename T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 3 : 2)
    many(const __grid_constant__ Many<T> call)
{
    constexpr int kWord = gd::kPerWord<T>;
    extern __shared__ float4 dynamic[];
    const unsigned tile = blockIdx.x % (call.down * call.across);
    const ptrdiff_t begin = (ptrdiff_t)(blockIdx.x / (call.down * call.across)) << call.log_each;
    const int each = (int)min(call.all.count - begin, (ptrdiff_t)1 << call.log_each);
    const int high = kEdge << call.log_down, wide = kEdge << call.log_across;
    const ptrdiff_t top = (ptrdiff_t)(tile / call.across) * high;
    const ptrdiff_t left = (ptrdiff_t)(tile % call.across) * wide;
    if (!call.first.has(top, left + wide)) {
        return;
    }
    T *const points_a = (T *)dynamic;
    T *const points_b = points_a + ((high + kPad) * GD_FOLD << call.log_each);
    const int own = threadIdx.x >> (call.log_down + call.log_across);
    const int own_row = (threadIdx.x >> call.log_across & ((1 << call.log_down) - 1)) * kEdge;
    const int own_col = (threadIdx.x & ((1 << call.log_across) - 1)) * kEdge;

    T total[kEdge][kEdge] = {}, groups[kEdge][kEdge] = {};
    const ptrdiff_t d = call.first.d;
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < d; dim += GD_FOLD) {
        const int depth = (int)min(d - dim, (ptrdiff_t)GD_FOLD);
        __syncthreads(); /* nobody reads the fold before any more */
        take_points(points_a, call.first.a, call.all.a, call.all.batch, begin, each, top, high, dim,
                    depth);
        take_points(points_b, call.first.b, call.all.b, call.all.batch, begin, each, left, wide,
                    dim, depth);
        __syncthreads();
        const T *from_a = points_a + own * GD_FOLD * (high + kPad) + own_row;
        const T *from_b = points_b + own * GD_FOLD * (wide + kPad) + own_col;
        T sum[kEdge][kEdge] = {};
#pragma unroll 4
        for (int k = 0; k < depth; ++k, from_a += high + kPad, from_b += wide + kPad) {
            T a[kEdge], b[kEdge];
#pragma unroll
            for (int i = 0; i < kEdge; i += kWord) {
                gd::load_word(from_a + i, a + i);
                gd::load_word(from_b + i, b + i);
            }
#pragma unroll
            for (int i = 0; i < kEdge; ++i) {
#pragma unroll
                for (int j = 0; j < kEdge; ++j) {
                    sum[i][j] = M::term(sum[i][j], a[i], b[j]);
                }
            }
        }
        const bool ends_group = M::folds && (dim + GD_FOLD) % GD_GROUP == 0 && dim + GD_FOLD < d;
#pragma unroll
        for (int i = 0; i < kEdge; ++i) {
#pragma unroll
            for (int j = 0; j < kEdge; ++j) {
                total[i][j] = M::join(total[i][j], sum[i][j]);
                if (ends_group) {
                    groups[i][j] =
                        dim < GD_GROUP ? total[i][j] : M::join(groups[i][j], total[i][j]);
                    total[i][j] = 0;
                }
            }
        }
    }
    if (own >= each) {
        return;
    }

    const gd::Cdist<T> one = call.all.one(call.first, begin + own);
    const ptrdiff_t row = top + own_row, col = left + own_col;
    bool good = true;
#pragma unroll
    for (int i = 0; i < kEdge; ++i) {
        T results[kEdge];
#pragma unroll
        for (int j = 0; j < kEdge; ++j) {
            results[j] =
                M::folds && d > GD_GROUP ? M::join(groups[i][j], total[i][j]) : total[i][j];
        }
        good &= finish_row<M>(call.metric, call.sure_root, results);
        if (row + i < one.a.count) {
#pragma unroll
            for (int j = 0; j < kEdge; j += kWord) {
                const gd::Run<T> run(one, col + j, 1);
                run.store(one.row(row + i) + col + j, results + j, run.start(one, row + i));
            }
        }
    }
    if constexpr (M::template guarded<T>) {
        if (!good) {
            recompute_share<M>(call, begin + own, row, kEdge, col);
        }
    }
}

/* A thread's share of matrices of few dimensions: kHigh rows in four columns, whose points stay in
 * registers; as in narrow.cu, nothing but the results matters. */
constexpr int kHigh = 8, kAhead = 4;

template <typename T>
struct Low {
    gd::Cdist<T> first;
    gd::Matrices all;
    gd_metric metric;
    bool sure_root; /* roots are those of narrow.cu */
    /* Shares of a matrix, and side by side in it; matrices of a block, or blocks of a matrix. */
    unsigned shares, across, each, blocks;
    /* What divides numbers below kThreads by the first two: that many 65536ths are their inverses.
     */
    unsigned by_shares, by_across;
};

constexpr unsigned kInverse = 65536;
static_assert(kThreads * kThreads <= kInverse, "quotients of numbers of threads are right");

/* Brings four points that follow each other. */
template <int D, typename T>
__device__ __forceinline__ void take_four(T (&to)[kAhead][D], const gd::Points<T> &points,
                                          ptrdiff_t first)
{
    if (points.row_stride == D && (D == 1 || points.col_stride == 1) &&
        first + kAhead <= points.count && (uintptr_t)points.data % 16 == 0) {
        gd::load_four_points<D>(points.data + first * D, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int k = 0; k < D; ++k) {
            to[i][k] = points.at(points.clamp(first + i), k);
        }
    }
}

/* Finds a thread's share: its matrix, and the first of its rows and columns there. */
template <typename T>
__device__ __forceinline__ bool find_share(const Low<T> &call, ptrdiff_t &number, ptrdiff_t &top,
                                           ptrdiff_t &left)
{
    const unsigned local = call.each > 0 ? threadIdx.x * call.by_shares / kInverse : 0;
    const unsigned share = call.each > 0 ? threadIdx.x - local * call.shares
                                         : blockIdx.x % call.blocks * kThreads + threadIdx.x;
    const unsigned above = call.each > 0 ? share * call.by_across / kInverse : share / call.across;
    number = call.each > 0 ? (ptrdiff_t)blockIdx.x * call.each + local : blockIdx.x / call.blocks;
    top = (ptrdiff_t)above * kHigh;
    left = (ptrdiff_t)(share - above * call.across) * kEdge;
    return (local == 0 || local < call.each) && share < call.shares && number < call.all.count;
}

/* Whether matrices have rows by fours, dense points and results by words, so that nothing has to be
 * asked but whether a share has a second four of rows. */
template <int D>
bool is_regular(const Low<float> &low)
{
    const auto are_dense = [&](const gd::Points<float> &points, const gd::Apart &apart) {
        return points.count % kAhead == 0 && points.row_stride == D &&
               (D == 1 || points.col_stride == 1) && (uintptr_t)points.data % sizeof(float4) == 0 &&
               gd::all_of_words<float>(low.all, apart);
    };
    return low.first.words && low.first.cols % kEdge == 0 && are_dense(low.first.a, low.all.a) &&
           are_dense(low.first.b, low.all.b);
}

/* Shares of regular matrices, with roots of narrow.cu. */
template <typename M, int D>
__global__ void __launch_bounds__(kThreads, 4) low_regular(const __grid_constant__ Low<float> call)
{
    ptrdiff_t number, top, left;
    if (!find_share(call, number, top, left)) {
        return;
    }
    const gd::Cdist<float> one = call.all.one(call.first, number);
    const float *const points = one.a.data + top * D;
    /* A second four of rows that is not there is the first, and is not stored: without a branch all
     * points are on their way at once. */
    const int fours = top + kAhead < one.a.count ? 2 : 1;
    float b[kEdge][D], a[kHigh / kAhead][kAhead][D];
    gd::load_four_points<D>(one.b.data + left * D, b);
    gd::load_four_points<D>(points, a[0]);
    gd::load_four_points<D>(points + (fours - 1) * kAhead * D, a[1]);
    float *to = one.out + top * one.out_stride + left;
    bool good = true;
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
        float results[kEdge];
#pragma unroll
        for (int j = 0; j < kEdge; ++j) {
            float total = 0;
#pragma unroll
            for (int k = 0; k < D; ++k) {
                total = M::term(total, a[i / kAhead][i % kAhead][k], b[j][k]);
            }
            results[j] = M::finish(total);
            good &= gd::is_good<M>(results[j]);
        }
        if (i < kAhead || fours > 1) {
            gd::stream_word(to, results);
        }
        to += one.out_stride;
    }
    if constexpr (M::template guarded<float>) {
        if (!good) {
            recompute_share<M>(call, number, top, kHigh, left);
        }
    }
}

template <typename M, int D, typename T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == sizeof(float) ? 4 : 2)
    low(const __grid_constant__ Low<T> call)
{
    constexpr int kWord = gd::kPerWord<T>;
    ptrdiff_t number, top, left;
    if (!find_share(call, number, top, left) || !call.first.has(top, left + kEdge)) {
        return;
    }
    const gd::Cdist<T> one = call.all.one(call.first, number);
    /* As many as there are registers for are asked for before the first is used. */
    constexpr int kHeld = D <= 3 ? kHigh : kAhead;
    T b[kEdge][D], a[kHeld / kAhead][kAhead][D];
    take_four<D>(b, one.b, left);
    const bool whole =
        one.words && top + kHigh <= one.a.count && left + kEdge <= one.cols && !one.packed();
    T *to = one.row(top) + left;
    bool good = true;
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
        T results[kEdge];
        if (i % kHeld == 0) {
#pragma unroll
            for (int part = 0; part < kHeld / kAhead; ++part) {
                take_four<D>(a[part], one.a, top + i + part * kAhead);
            }
        }
#pragma unroll
        for (int j = 0; j < kEdge; ++j) {
            T total = 0;
#pragma unroll
            for (int k = 0; k < D; ++k) {
                total = M::term(total, a[i % kHeld / kAhead][i % kAhead][k], b[j][k]);
            }
            results[j] = total;
        }
        good &= finish_row<M>(call.metric, call.sure_root, results);
        const ptrdiff_t row = top + i;
#pragma unroll
        for (int j = 0; j < kEdge; j += kWord) {
            if (whole) {
                gd::stream_word(to + j, results + j);
            }
            else if (row < one.a.count) {
                const gd::Run<T> run(one, left + j, 1);
                run.store(one.row(row) + left + j, results + j, run.start(one, row));
            }
        }
        to += one.out_stride;
    }
    if constexpr (M::template guarded<T>) {
        if (!good) {
            recompute_share<M>(call, number, top, kHigh, left);
        }
    }
}

template <int D, typename M, typename T>
cudaError_t launch_low(const gd_cdist &call)
{
    Low<T> low = {};
    low.all = gd::matrices_of<T>(call);
    low.first = gd::first_of<T>(call, low.all);
    low.metric = M::metric;
    low.sure_root = call.many.sure_root;
    low.across = (unsigned)gd::ceil_div(call.out.cols, kEdge);
    const ptrdiff_t shares = gd::ceil_div(call.out.rows, kHigh) * low.across;
    if (shares > UINT_MAX / 2) {
        return cudaErrorInvalidConfiguration;
    }
    low.shares = (unsigned)shares;
    low.each = kThreads / low.shares;
    low.blocks = (unsigned)gd::ceil_div(shares, kThreads);
    low.by_shares = (unsigned)gd::ceil_div(kInverse, low.shares);
    low.by_across = (unsigned)gd::ceil_div(kInverse, low.across);
    const ptrdiff_t blocks =
        low.each > 0 ? gd::ceil_div(low.all.count, low.each) : low.all.count * low.blocks;
    auto *kernel = ::low<TermsOf<M>, D, T>;
    if constexpr (sizeof(T) == sizeof(float)) {
        kernel = (!M::root || low.sure_root) && is_regular<D>(low) ? low_regular<M, D> : kernel;
    }
    return gd::enqueue(call.launch, kernel, blocks, dim3(kThreads), 0, low);
}

unsigned log_of(ptrdiff_t x, unsigned most)
{
    unsigned log = 0;
    while (log < most && (ptrdiff_t)1 << log < x) {
        ++log;
    }
    return log;
}

template <typename M, typename T>
cudaError_t launch(const gd_cdist &call)
{
    constexpr unsigned kLogThreads = 8, kLogWide = 4 /* threads side by side */;
    Many<T> many = {};
    many.all = gd::matrices_of<T>(call);
    many.first = gd::first_of<T>(call, many.all);
    many.metric = M::metric;
    many.sure_root = call.many.sure_root || call.a.cols > gd::kShortDims;
    many.log_across = log_of(gd::ceil_div(call.out.cols, kEdge), kLogWide);
    many.log_down = log_of(gd::ceil_div(call.out.rows, kEdge), kLogThreads - many.log_across);
    const unsigned most = kLogThreads - many.log_across - many.log_down;
    many.log_each = log_of(many.all.count, most);
    const auto bytes = [&] {
        const int high = (kEdge << many.log_down) + kPad, wide = (kEdge << many.log_across) + kPad;
        return ((size_t)(high + wide) * GD_FOLD << many.log_each) * sizeof(T);
    };
    while (many.log_each > 0 && bytes() > gd::kSharedForAll) {
        --many.log_each;
    }
    const int threads = 1 << (many.log_each + many.log_across + many.log_down);
    many.down = (unsigned)gd::ceil_div(call.out.rows, kEdge << many.log_down);
    many.across = (unsigned)gd::ceil_div(call.out.cols, kEdge << many.log_across);
    const ptrdiff_t blocks = gd::ceil_div(many.all.count, (ptrdiff_t)1 << many.log_each);
    return gd::enqueue(call.launch, ::many<TermsOf<M>, T>, blocks * many.down * many.across,
                       dim3(threads), bytes(), many);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_many(gd_cdist *call, gd_error *err)
{
    return gd::launch_one_sum<false>(call, "cdist/cuda_many", err, [&](auto metric, auto type) {
        using M = decltype(metric);
        using T = decltype(type);
        if constexpr (M::lp) {
            switch (call->a.cols) {
                case 1:
                    return launch_low<1, M, T>(*call);
                case 2:
                    return launch_low<2, M, T>(*call);
                case 3:
                    return launch_low<3, M, T>(*call);
                case 4:
                    return launch_low<4, M, T>(*call);
                default:
                    break;
            }
        }
        return launch<M, T>(*call);
    });
}
