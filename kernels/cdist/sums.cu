/* sums.cu: every metric that is a function of one, two or four sums over dimensions, with weights
 * or without.
 *
 * Idea: the register tile of tile.cu, made smaller so that terms have room: a block of 256 threads
 * computes 16 x 16 tiles of a thread, 4 x 8 results where a term is a few instructions, 4 x 4 where
 * it is a function, less where results have several sums. Slabs of GD_FOLD dimensions come to
 * shared memory, element by element, from any strides. What depends on one element only (a truth,
 * a logarithm) is worked out there, once for all results that it serves.
 *
 * Floor: arithmetic. In issue slots a pair-dimension, of which the H200 has 33.4e12 a second in
 * float32: 2 for unequal elements and Hellinger's squares, 3 for weighted squares and magnitudes
 * and for cubes, 4 for four counts and Bray and Curtis, 5 for Kullback and Leibler, 20 for powers.
 * The special-function unit, which takes 8 for each of its results, binds where those are
 * reciprocals (Canberra, 8), roots (8), or a reciprocal and two logarithms (Jensen and Shannon,
 * 24).
 *
 * Launch: a block a tile, in rows of tiles. */
#include "sums.cuh"

namespace {

namespace sums = gd::sums;

constexpr int kAcross = 16, kThreads = kAcross * kAcross, kDims = GD_FOLD;
static_assert(GD_GROUP % kDims == 0 && kThreads % kDims == 0, "groups are whole slabs");

constexpr const char *kId = "cdist/cuda_sums";

template <int kSum, typename T>
struct Shape {
    using R = sums::Real<kSum, T>;
    static constexpr int count = sums::kCount<kSum>;
    static constexpr bool single = sizeof(R) == 4;
    static constexpr bool cheap = kSum == GD_SUM_SQUARES || kSum == GD_SUM_MAGNITUDES ||
                                  kSum == GD_SUM_LARGEST || kSum == GD_SUM_CUBES ||
                                  kSum == GD_SUM_FOURTH_POWERS || kSum == GD_SUM_UNEQUAL;
    static constexpr int rows = count == 4 || (count == 2 && !single) ? 2 : 4;
    static constexpr int cols = count == 4 && !single ? 2 : single && cheap ? 8 : 4;
    static constexpr int block_rows = kAcross * rows, block_cols = kAcross * cols;
    static constexpr int word = gd::kPerWord<T>, runs = cols / word;
    /* Steps of the loop over dimensions that are laid out. */
    static constexpr int unrolled = cheap ? 4 : 1;
    using A = sums::Element<kSum, R, true>;
    using B = sums::Element<kSum, R, false>;
};

/* The padding keeps words aligned; writing a slab then meets in a bank two at a time. */
template <typename R, int kParts, int kPoints>
using Slab = R[kParts][kDims][kPoints + 16 / sizeof(R)];

/* Brings dimensions dim up to dim + depth of kPoints points, from `first` on. All loads are issued
 * before the first is waited for. Sixteen threads read the dimensions of a point, or a warp points
 * of a dimension, whichever lie closer together. */
template <typename T, int kPoints>
struct Loader {
    static constexpr int each = kPoints * kDims / kThreads;
    T x[each];

    static __device__ __forceinline__ int dim_of(bool along, int i)
    {
        const int at = threadIdx.x + i * kThreads;
        return along ? at % kDims : at / kPoints;
    }
    static __device__ __forceinline__ int point_of(bool along, int i)
    {
        const int at = threadIdx.x + i * kThreads;
        return along ? at / kDims : at % kPoints;
    }
    __device__ __forceinline__ void fetch(const gd::Points<T> &from, bool along, ptrdiff_t first,
                                          ptrdiff_t dim, int depth)
    {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int k = dim_of(along, i);
            x[i] = k < depth ? from.at(from.clamp(first + point_of(along, i)), dim + k) : T(0);
        }
    }
    template <typename E, typename R>
    __device__ __forceinline__ void put(Slab<R, E::parts, kPoints> &slab, bool along) const
    {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            R part[E::parts];
            E::split(x[i], part);
#pragma unroll
            for (int s = 0; s < E::parts; ++s) {
                slab[s][dim_of(along, i)][point_of(along, i)] = part[s];
            }
        }
    }
};

/* kCount neighbours, by the widest loads that they fill. */
template <int kCount, typename R>
__device__ __forceinline__ void load_points(const R *from, R *to)
{
    if constexpr (kCount % gd::kPerWord<R> == 0) {
#pragma unroll
        for (int i = 0; i < kCount; i += gd::kPerWord<R>) {
            gd::load_word(from + i, to + i);
        }
    }
    else {
        static_assert(kCount == 2 && sizeof(R) == sizeof(float), "half a word");
        const float2 both = *reinterpret_cast<const float2 *>(from);
        to[0] = both.x, to[1] = both.y;
    }
}

template <int kSum, bool kWeighted, typename T>
__global__ void __launch_bounds__(kThreads, 2)
    tile(const __grid_constant__ sums::Call<T> call, unsigned tiles_across)
{
    using S = Shape<kSum, T>;
    using R = typename S::R;
    using A = typename S::A;
    using B = typename S::B;
    constexpr int kRows = S::rows, kCols = S::cols, kWord = S::word, kCount = S::count;
    using Sums = R[kRows][kCols][kCount];
    __shared__ alignas(16) Slab<R, A::parts, S::block_rows> slab_a;
    __shared__ alignas(16) Slab<R, B::parts, S::block_cols> slab_b;
    __shared__ R weights[kDims];

    const int down = threadIdx.x / kAcross * kRows, right = threadIdx.x % kAcross * kWord;
    const ptrdiff_t row = (ptrdiff_t)(blockIdx.x / tiles_across) * S::block_rows;
    const ptrdiff_t col = (ptrdiff_t)(blockIdx.x % tiles_across) * S::block_cols;
    const bool along_a = llabs(call.a.col_stride) <= llabs(call.a.row_stride);
    const bool along_b = llabs(call.b.col_stride) <= llabs(call.b.row_stride);
    const auto &p = sums::exponent_for(call, R(0));

    /* Of all dimensions, and of a group of them. */
    Sums grand = {}, total = {};
    for (ptrdiff_t dim = 0; dim < call.d; dim += kDims) {
        const int depth = (int)min(call.d - dim, (ptrdiff_t)kDims);
        Loader<T, S::block_rows> a_loader;
        Loader<T, S::block_cols> b_loader;
        a_loader.fetch(call.a, along_a, row, dim, depth);
        b_loader.fetch(call.b, along_b, col, dim, depth);
        __syncthreads(); /* nobody reads the last slab any more */
        a_loader.template put<A, R>(slab_a, along_a);
        b_loader.template put<B, R>(slab_b, along_b);
        if (kWeighted && threadIdx.x < depth) {
            weights[threadIdx.x] = sums::weight_of<kSum, R>(call.weights[dim + threadIdx.x]);
        }
        __syncthreads(); /* the slab is there */

        Sums fresh = {};
#pragma unroll S::unrolled
        for (int k = 0; k < depth; ++k) {
            R a[A::parts][kRows], b[B::parts][kCols];
#pragma unroll
            for (int s = 0; s < A::parts; ++s) {
                load_points<kRows>(&slab_a[s][k][down], a[s]);
            }
#pragma unroll
            for (int s = 0; s < B::parts; ++s) {
#pragma unroll
                for (int r = 0; r < S::runs; ++r) {
                    load_points<kWord>(&slab_b[s][k][right + r * kAcross * kWord],
                                       &b[s][r * kWord]);
                }
            }
            const R weight = kWeighted ? weights[k] : R(1);
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    sums::add<kSum, kWeighted, R>(fresh[i][j], A::join(&a[0][i], kRows),
                                                  B::join(&b[0][j], kCols), weight, p);
                }
            }
        }
        const bool group_ends = (dim + kDims) % GD_GROUP == 0 || dim + kDims >= call.d;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
#pragma unroll
                for (int s = 0; s < kCount; ++s) {
                    R &sum = total[i][j][s];
                    sum = sums::join<kSum>(sum, fresh[i][j][s]);
                    if (group_ends) {
                        grand[i][j][s] = sums::join<kSum>(grand[i][j][s], sum);
                        sum = 0;
                    }
                }
            }
        }
    }

    /* A result that is not good is stored as NaN, and mended after all stores, when no register
     * holds a sum any more. */
    const ptrdiff_t top = row + down, end = min(top + kRows, call.a.count);
    bool good = true;
#pragma unroll
    for (int r = 0; r < S::runs; ++r) {
        const gd::Run<T> run(call, col + right + r * kAcross * kWord, 1);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (top + i < end) {
                T results[kWord];
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    const R *const s = grand[i][r * kWord + j];
                    const ptrdiff_t at = call.b.clamp(run.first + j);
                    const bool fine = sums::good<kSum, kWeighted, R>(call, s);
                    results[j] = fine ? (T)sums::finish<kSum, R>(call, s, top + i, at) : T(NAN);
                    good &= fine;
                }
                run.store(call.out + (top + i) * call.out_stride + run.first, results);
            }
        }
    }
    if constexpr (sums::kDoubtful<kSum, kWeighted, R>) {
        if (!good) {
            for (int r = 0; r < S::runs; ++r) {
                const gd::Run<T> run(call, col + right + r * kAcross * kWord, 1);
                sums::repair<kSum, kWeighted>(call, top, end, run);
            }
        }
    }
}

template <int kSum, bool kWeighted, typename T>
gd_status launch(const gd_cdist &call, gd_error *err)
{
    using S = Shape<kSum, T>;
    sums::Call<T> parameters = {};
    (gd::Cdist<T> &)parameters = gd::parameters_of<T>(call);
    parameters.metric = call.metric;
    parameters.weights = call.weights;
    parameters.a_terms = call.a_terms, parameters.b_terms = call.b_terms;
    parameters.p = call.p;
    parameters.weight_sum = call.weight_sum;
    parameters.scale = call.scale;
    parameters.power = sums::Exponent(call.p), parameters.root = sums::Exponent(1 / call.p);
    parameters.least =
        kSum == GD_SUM_POWERS ? sums::smallest_good_power_sum(call.p) : GD_F32_SQUARES_SAFE_MIN;
    const ptrdiff_t down = gd::ceil_div(call.out.rows, S::block_rows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, S::block_cols);
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, tile<kSum, kWeighted, T>, down * across, dim3(kThreads), 0,
                            parameters, (unsigned)across));
    return GD_OK;
}

template <int kSum, typename T>
gd_status launch_weighted(const gd_cdist &call, gd_error *err)
{
    if constexpr (sums::kTakesWeights<kSum>) {
        if (call.weights) {
            return launch<kSum, true, T>(call, err);
        }
    }
    return launch<kSum, false, T>(call, err);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_sums(gd_cdist *call, gd_error *err)
{
    call->launch.workspace_bytes = 0;
    if (call->launch.sizing) {
        return GD_OK;
    }
    return gd::with_float_type(call->out.dtype, [&](auto type) {
        using T = decltype(type);
        switch (GD_SUMS_OF(call->metric, call->weights != nullptr, call->p)) {
#define GD_LAUNCH_SUMS(name, count) \
    case GD_SUM_##name:             \
        return launch_weighted<GD_SUM_##name, T>(*call, err);
            GD_SUMS(GD_LAUNCH_SUMS)
#undef GD_LAUNCH_SUMS
        }
        return GD_FAIL(err, GD_BAD_VALUE, "%s: no sums belong to this metric", kId);
    });
}
