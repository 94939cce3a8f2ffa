/* in_box.cu: the sums of differences of sums.cu in a periodic box, with weights or without.
 *
 * Idea: as on the CPU (cpu/cdist_sums.c), whose bits these are but for powers: coordinates become
 * their images on the way to shared memory, in float64 whatever they are given in, and what a term
 * is of is how far two images are apart (periodic.cuh). Sums have the order of all kernels, and the
 * result is rounded once. Without lengths no column is periodic. A block of 128 threads has 32 x 64
 * results of one of a batch's matrices, 4 x 4 of them a thread's; a column without a weight has
 * weight 1, which changes no bit.
 *
 * Floor: float64's issue slots, of which the H200 has half as many as of float32: a pair-dimension
 * takes two differences, a comparison and a product there, and two selections. That is 0.24 ms for
 * 10,000 x 10,000 x 3, and writing the results 0.1.
 *
 * Reached on an H100, 10,000 x 10,000, ms: d = 3 euclidean 0.8 in either type, cityblock 0.65,
 * chebyshev 0.7; d = 128 euclidean 10.7, of which the floor is a third: with 160 registers there
 * are too few threads to hide the way through float64's pipe. Pairs take half of that. */
#include "cdist/sums/call.cuh"
#include "common/periodic.cuh"
#include "common/grid.cuh"

namespace {

namespace sums = gd::sums;

constexpr const char *kId = "cdist/cuda_in_box";
constexpr int kThreads = 128, kAcross = 16; /* threads of a block, and those side by side */
constexpr int kRows = 4, kCols = 4;         /* results of a thread */
constexpr int kDown = kThreads / kAcross;   /* threads below each other */
constexpr int kBlockRows = kDown * kRows, kBlockCols = kAcross * kCols;
constexpr unsigned kBand = 16;

template <typename T>
struct Call : sums::Call<T> { /* of the first matrix, where there are many */
    const double *lengths;    /* one a column, or NULL */

    __device__ __forceinline__ double length(ptrdiff_t k) const
    {
        return lengths != NULL ? __ldg(lengths + k) : HUGE_VAL;
    }
};

/* Images of a fold of a tile's points, dimension by dimension. With one place more than there are
 * points neither those who write nor those who read meet in a bank. */
struct Slab {
    double a[GD_FOLD][kBlockRows + 1], b[GD_FOLD][kBlockCols + 1];
    double half[GD_FOLD], weights[GD_FOLD];
};

/* Writes the images of dimensions [dim, dim + depth) of some points from `first` on. */
template <int kPoints, typename T>
__device__ __forceinline__ void fill(double (&to)[GD_FOLD][kPoints + 1], const Call<T> &call,
                                     const gd::Points<T> &x, ptrdiff_t first, ptrdiff_t dim,
                                     int depth)
{
    for (int i = (int)threadIdx.x; i < kPoints * depth; i += kThreads) {
        const int point = i / depth, k = i % depth;
        const double given = (double)x.at(x.clamp(first + point), dim + k);
        to[k][point] = gd::image_in(given, call.length(dim + k));
    }
}

/* Not inlined, as they would be for each of a thread's results. */
static __device__ __noinline__ double finish_power(double sum, double p)
{
    return GD_FINISH_MINKOWSKI(sum, p, sqrt, cbrt, pow);
}

/* Adds a column's term to a sum. */
template <int kSum>
__device__ __forceinline__ void add(double &sum, double apart, double weight, double p)
{
    if constexpr (kSum == GD_SUM_POWERS) {
        sum += weight * sums::wide_power(apart, p);
    }
    else {
        sums::add<kSum, true, double>(&sum, apart, 0.0, weight, p);
    }
}

/* The distance of a sum. */
template <int kSum, typename T>
__device__ __forceinline__ double distance_of(const Call<T> &call, double sum)
{
    if constexpr (kSum == GD_SUM_SQUARES) {
        return call.metric == GD_EUCLIDEAN ? sqrt(sum) : sum;
    }
    else if constexpr (kSum == GD_SUM_MAGNITUDES || kSum == GD_SUM_LARGEST) {
        return sum;
    }
    else {
        return finish_power(sum, call.p);
    }
}

/* A distance of float32 whose sum of powers left the range even of float64: differences are divided
 * by the largest that has weight (cpu/minkowski_pair.h). */
static __device__ __noinline__ double scaled_distance(const Call<float> &call,
                                                      const gd::Begin &begin, ptrdiff_t row,
                                                      ptrdiff_t col)
{
    const gd::Points<float> a = call.a.from(begin.a), b = call.b.from(begin.b);
    double unit = 0, sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (ptrdiff_t k = 0; k < call.d; ++k) {
            const double length = call.length(k), half = length / 2;
            const double weight = call.weights ? call.weights[k] : 1;
            const double x = gd::image_in((double)a.at(row, k), length);
            const double y = gd::image_in((double)b.at(col, k), length);
            const double t = gd::apart_of(x, half - fabs(x), y, half - fabs(y));
            if (pass == 0) {
                unit = t > unit && weight > 0 ? t : unit;
            }
            else {
                sum += weight > 0 ? weight * sums::wide_power(t / unit, call.p) : t / unit * 0;
            }
        }
        unit = unit > 0 && unit <= DBL_MAX ? unit : 1;
    }
    return unit * sums::wide_power(sum, 1 / call.p);
}

/* The sums of a thread's pairs over all dimensions. */
template <int kSum, typename T>
__device__ __forceinline__ void add_up(const Call<T> &call, const gd::Begin &begin,
                                       ptrdiff_t first_row, ptrdiff_t first_col, Slab &slab,
                                       double *total)
{
    constexpr int kMany = kRows * kCols, kWord = gd::kPerWord<T>;
    const int across = (int)threadIdx.x % kAcross, down = (int)threadIdx.x / kAcross;
    double group[kMany];
#pragma unroll
    for (int n = 0; n < kMany; ++n) {
        group[n] = total[n] = 0;
    }
#pragma unroll 1
    for (ptrdiff_t dim = 0; dim < call.d; dim += GD_FOLD) {
        const int depth = (int)min(call.d - dim, (ptrdiff_t)GD_FOLD);
        __syncthreads(); /* nobody reads the last slab any more */
        fill<kBlockRows>(slab.a, call, call.a.from(begin.a), first_row, dim, depth);
        fill<kBlockCols>(slab.b, call, call.b.from(begin.b), first_col, dim, depth);
        if ((int)threadIdx.x < depth) {
            const ptrdiff_t k = dim + threadIdx.x;
            slab.half[threadIdx.x] = call.length(k) / 2;
            slab.weights[threadIdx.x] =
                call.weights ? sums::weight_of<kSum, double>(call.weights[k]) : 1;
        }
        __syncthreads();
        double sum[kMany] = {};
#pragma unroll 1
        for (int k = 0; k < depth; ++k) {
            const double half = slab.half[k], weight = slab.weights[k];
            double a[kRows], b[kCols];
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                a[i] = slab.a[k][down * kRows + i];
            }
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                b[j] = slab.b[k][(j / kWord * kAcross + across) * kWord + j % kWord];
            }
#pragma unroll
            for (int n = 0; n < kMany; ++n) {
                const double x = a[n / kCols], y = b[n % kCols];
                add<kSum>(sum[n], gd::apart_of(x, half - fabs(x), y, half - fabs(y)), weight,
                          call.p);
            }
        }
        const bool ends = (dim + GD_FOLD) % GD_GROUP == 0 || dim + GD_FOLD >= call.d;
#pragma unroll
        for (int n = 0; n < kMany; ++n) {
            group[n] = sums::join<kSum>(group[n], sum[n]);
            if (ends) {
                total[n] = sums::join<kSum>(total[n], group[n]);
                group[n] = 0;
            }
        }
    }
}

/* Each matrix has `each` blocks. */
template <int kSum, typename T>
__global__ void __launch_bounds__(kThreads)
    tile(const __grid_constant__ Call<T> call, const __grid_constant__ gd::Grid grid, unsigned each)
{
    constexpr int kWord = gd::kPerWord<T>;
    __shared__ Slab slab;
    __shared__ gd::Begin begin;
    unsigned tile_row, tile_col;
    if (!grid.find(&tile_row, &tile_col, blockIdx.x % each)) {
        return;
    }
    const ptrdiff_t first_row = (ptrdiff_t)tile_row * kBlockRows;
    const ptrdiff_t first_col = (ptrdiff_t)tile_col * kBlockCols;
    if (!call.has(first_row, first_col + kBlockCols)) {
        return;
    }
    double total[kRows * kCols];
    call.all.find(begin, blockIdx.x / each, call.a.count, call.b.count);
    add_up<kSum>(call, begin, first_row, first_col, slab, total);

    const gd::Target<T> out = call.from(begin.out);
    const ptrdiff_t top = first_row + threadIdx.x / kAcross * kRows;
#pragma unroll
    for (int r = 0; r < kCols / kWord; ++r) {
        const ptrdiff_t col = first_col + (r * kAcross + threadIdx.x % kAcross) * kWord;
        const gd::Run<T> run(call, col, 1);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const ptrdiff_t row = top + i;
            if (row >= call.a.count) {
                break;
            }
            T results[kWord];
#pragma unroll
            for (int j = 0; j < kWord; ++j) {
                const double sum = total[i * kCols + r * kWord + j];
                double distance = distance_of<kSum>(call, sum);
                if constexpr (kSum == GD_SUM_POWERS && sizeof(T) == sizeof(float)) {
                    if (!(sum >= 0x1p-900 && sum <= DBL_MAX)) {
                        distance = scaled_distance(call, begin, row, call.b.clamp(col + j));
                    }
                }
                results[j] = (T)distance;
            }
            run.store(out.row(row) + col, results, run.start(out, row));
        }
    }
}

template <int kSum, typename T>
gd_status launch(const gd_cdist &given, gd_error *err)
{
    Call<T> call = {};
    (sums::Call<T> &)call = sums::call_of<kSum, T>(given);
    call.lengths = given.box;
    const gd::Grid grid(given.pairs, gd::ceil_div(given.out.rows, kBlockRows),
                        gd::ceil_div(given.out.cols, kBlockCols), kBand, kBlockRows, kBlockCols);
    GD_CUDA_TRY(err, kId,
                gd::enqueue(given.launch, tile<kSum, T>, grid.blocks() * call.all.count,
                            dim3(kThreads), 0, call, grid, (unsigned)grid.blocks()));
    return GD_OK;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_in_box(gd_cdist *call, gd_error *err)
{
    if (gd::sizes_nothing(call->launch)) {
        return GD_OK;
    }
    return gd::with_float_type(call->out.dtype, [&](auto type) {
        using T = decltype(type);
        switch (GD_SUMS_OF(call->metric, call->weights != nullptr, call->p)) {
#define GD_LAUNCH_SUMS(name, count, ...) \
    case GD_SUM_##name:                  \
        return launch<GD_SUM_##name, T>(*call, err);
            GD_SUMS_OF_DIFFERENCES(GD_LAUNCH_SUMS)
#undef GD_LAUNCH_SUMS
            default:
                return GD_FAIL(err, GD_BAD_VALUE, "%s: no sums of differences", kId);
        }
    });
}
