/* sums.cu: every metric that is a function of one, two or four sums over dimensions, with weights
 * or without.
 *
 * Idea: the register tile of tile.cu with its slabs, in shapes that leave terms room: a block of
 * 128 threads, 8 x 8 results a thread where a term is a few instructions, 4 x 8 where it is a
 * function, fewer where results have several sums or are float64. What depends on one element only
 * (a logarithm) is worked out in the slab, once for all results that it serves (tile.cuh).
 *
 * Some kinds have a swift form as well (swift.cuh), good for most data, but not for all. It is
 * computed first; if it did not answer for some results of a tile, the block goes over the tile
 * again in the careful form, for those. What is still doubtful is computed again in float64. Which
 * form answers depends on the two rows and on B as a whole.
 *
 * Floor: arithmetic. In issue slots a pair-dimension, of which the H200 has 33.4e12 a second in
 * float32: 2 for unequal elements, Hellinger's squares, weighted magnitudes, and Bray and Curtis of
 * counts; 3 for weighted squares and for cubes; 4 for four counts; 4.5 for Canberra; 5 for Kullback
 * and Leibler; 20 for powers. The special-function unit, which takes 8 for each of its results,
 * binds where those are roots or a logarithm (Jensen and Shannon). Those of up to 3 go to
 * cuda_direct_sums where B is large enough and the device is one for it.
 *
 * Launch: a block a tile, in bands of 16 tiles' rows (grid.cuh); of a batch all matrices' tiles are
 * one grid (matrices.cuh). With three blocks a multiprocessor there are 168 registers, so some
 * totals wait in local memory from slab to slab: 32 loads and 24 stores beside the 6000
 * instructions of a slab, up to twice as many for two sums, and none in the loops over its
 * dimensions.
 *
 * Reached on an H200, 16384 x 16384 x 128 float32, ms, with the bound of the arithmetic in
 * brackets: hamming 2.8 (2.1), weighted cityblock 3.4 (2.1), hellinger 3.6 (2.1), braycurtis of
 * counts 3.6 (2.1), minkowski p = 4 4.2 and p = 3 4.6 (3.1), weighted euclidean 4.7 (3.1),
 * canberra 6.8 (4.7), jensenshannon 9.4 (8.2), p = 2.5 17.1 (16.5). Products of three different
 * registers take two cycles of the register file's: canberra has 1.1 of them a pair-dimension, with
 * which its bound is 5.9. A pass of the careful form adds its own time: with it braycurtis takes
 * 6.6 if signs are mixed, jensenshannon of very similar rows 50; a fourth block made that 44 and
 * the rest slower, so latency binds it. At d = 2 loading and finishing bind: 0.3 to 0.9 ms, 1.3 to
 * 3 for four counts and careful forms. */
#include "common/grid.cuh"
#include "common/segments.cuh"
#include "cdist/sums/careful.cuh"

namespace {

namespace sums = gd::sums;

constexpr unsigned kBand = 16;

constexpr const char *kId = "cdist/cuda_sums";

/* Stores a thread's results, NaN where the form does not answer, and says whether it answered for
 * all. `memory` begins with a slab. */
template <int kForm, bool kWeighted, typename T, typename R>
__device__ __forceinline__ bool store_tile(const sums::Call<T> &call, const sums::Place &place,
                                           const R *total, void *memory)
{
    using S = sums::Shape<kForm, T>;
    using Segments = gd::Segments<T, 4 * S::rows>;
    constexpr int kWord = S::word;
    Segments &segments = ((Segments *)memory)[threadIdx.x / 32];
    static_assert(4 * sizeof segments <= sizeof(typename S::SlabA), "room for every warp's");
    const int lane = threadIdx.x % 32, own = lane / 8 * S::rows;
    const ptrdiff_t row = place.row + threadIdx.x / 8 * S::rows;
    const ptrdiff_t col = place.col + threadIdx.x % 8 * kWord;
    const ptrdiff_t left = call.a.count - row;
    /* A copy: for all that the compiler knows a store may change what is shared, and terms of rows
     * would be loaded anew for each result. */
    const gd::Begin begin = place.begin;
    const gd::Target<T> out = call.from(begin.out);
    bool good = true;
    if (!call.words) {
        __syncthreads(); /* nobody reads the last slab any more */
    }
#pragma unroll
    for (int r = 0; r < S::runs; ++r) {
        const gd::Run<T> run(call, col + r * 8 * kWord, 1);
        const int start = run.start(out, row);
        T *to = out.out + row * call.out_stride + run.first;
#pragma unroll
        for (int i = 0; i < S::rows; ++i, to += call.out_stride) {
            if (i < left) {
                T results[kWord];
#pragma unroll
                for (int j = 0; j < kWord; ++j) {
                    const R *const s = total + (i * S::cols + r * kWord + j) * S::count;
                    good &=
                        sums::result<kForm, kWeighted, R>(
                            call, begin, s, row + i, call.b.clamp(run.first + j), &results[j]) ||
                        j < start + i;
                }
                if (call.words) {
                    run.store(to, results);
                }
                else {
                    gd::store_word(&segments[own + i][lane % 8 * kWord], results);
                }
            }
        }
        if (!call.words) {
            __syncwarp();
            gd::store_segments<4 * S::rows>(out, segments, call.a.count, row - own, 0,
                                            run.first - lane % 8 * kWord);
            __syncwarp();
        }
    }
    return good;
}

/* A tile, in one form or in two; each matrix has `each` blocks. In a kernel for one matrix nothing
 * is added to find it: where there are two forms, that took up to 14 % of the time at d = 2, and in
 * float64 up to 5. kTries: the swift form first, if there is one. */
template <int kSum, bool kWeighted, bool kMany, bool kTries, typename T>
__global__ void __launch_bounds__(gd::kTileThreads, sums::Shape<kSum, T>::blocks)
    tile(const __grid_constant__ sums::Call<T> call, const __grid_constant__ gd::Grid grid,
         unsigned each, bool words)
{
    using S = sums::Shape<kSum, T>;
    using R = typename S::R;
    constexpr int kSwift = kTries ? sums::kSwiftOf<kSum, kWeighted, T> : kSum;
    using F = sums::Shape<kSwift, T>; /* the first shape that the block computes in */
    static_assert(F::block_rows == S::block_rows && F::block_cols % S::block_cols == 0,
                  "the careful form can go over the tile again");
    extern __shared__ double2 groups[];
    constexpr size_t kBytes = sizeof(typename S::Memory) > sizeof(typename F::Memory)
                                  ? sizeof(typename S::Memory)
                                  : sizeof(typename F::Memory);
    __shared__ alignas(16) char memory[kBytes];
    __shared__ gd::Begin found;
    const gd::Begin first = {};

    unsigned tile_row, tile_col;
    if (!grid.find(&tile_row, &tile_col, kMany ? blockIdx.x % each : blockIdx.x)) {
        return;
    }
    sums::Place place = {kMany ? found : first, (ptrdiff_t)tile_row * F::block_rows,
                         (ptrdiff_t)tile_col * F::block_cols, words};
    if (!call.has(place.row, place.col + F::block_cols)) {
        return;
    }
    if constexpr (kMany) {
        call.all.find(found, blockIdx.x / each, call.a.count, call.b.count);
    }

    [[maybe_unused]] bool swift = false;
    if constexpr (kSwift != kSum) {
        swift = sums::answers<kSwift>(call, place.begin, place.row, F::block_rows, place.col,
                                      F::block_cols);
        if (swift) {
            R total[F::held];
            sums::add_up<kSwift, kWeighted, T>(call, place, total, *(typename F::Memory *)memory,
                                               groups);
            const bool good = store_tile<kSwift, kWeighted>(call, place, total, memory);
            if (!__syncthreads_or(!good)) {
                return;
            }
        }
    }
    if constexpr (kSwift != kSum) {
        sums::recompute_careful<kSum, kWeighted>(call, place, F::block_cols, swift,
                                                 *(typename S::Memory *)memory, groups);
    }
    else {
        R total[S::held];
        sums::add_up<kSum, kWeighted, T>(call, place, total, *(typename S::Memory *)memory, groups);
        const bool good = store_tile<kSum, kWeighted>(call, place, total, memory);
        if constexpr (sums::kDoubtful<kSum, kWeighted, R>) {
            if (!good) {
                sums::recompute_tile_f64<kSum, kWeighted>(call, place);
            }
        }
    }
}

template <int kSum, bool kWeighted, typename T>
gd_status launch(gd_cdist &call, gd_error *err)
{
    constexpr int kSwift = sums::kSwiftOf<kSum, kWeighted, T>;
    using S = sums::Shape<kSwift, T>;
    call.launch.workspace_bytes = sums::workspace_for<kSwift>(call);
    if (call.launch.sizing) {
        return GD_OK;
    }
    auto parameters = sums::call_of<kSum, T>(call);
    /* A form that would not answer is not tried: that took 16 to 46 % of the time of such calls
     * (after 0b10b94, on an H100). */
    constexpr bool kNeedsDims = sums::kNeedsDims<kSwift>;
    const bool alone = parameters.all.count == 1;
    const bool tries = !kNeedsDims || !alone || call.a.cols >= sums::kFewestDims;
    if (tries) {
        GD_CUDA_TRY(err, kId, sums::prepare_swift<kSwift>(call, parameters));
    }
    const ptrdiff_t down = gd::ceil_div(call.out.rows, S::block_rows);
    const ptrdiff_t across = gd::ceil_div(call.out.cols, S::block_cols);
    const gd::Grid grid(call.pairs, down, across, kBand, S::block_rows, S::block_cols);
    const gd::Matrices &all = parameters.all;
    const bool words = gd::reads_words<T>(call.a) && gd::reads_words<T>(call.b) &&
                       gd::all_of_words<T>(all, all.a) && gd::all_of_words<T>(all, all.b);
    auto kernel = tile<kSum, kWeighted, true, true, T>;
    if constexpr (kSwift != kSum || sizeof(T) == sizeof(double)) {
        kernel = alone ? tile<kSum, kWeighted, false, true, T> : kernel;
    }
    if constexpr (kNeedsDims) {
        using Careful = sums::Shape<kSum, T>;
        static_assert(Careful::block_cols == S::block_cols && Careful::held == S::held,
                      "the same tiles, and groups");
        kernel = tries ? kernel : tile<kSum, kWeighted, false, false, T>;
    }
    const size_t groups = sums::bytes_of_groups<kSwift, T>(call.a.cols);
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, kernel, grid.blocks() * all.count, dim3(gd::kTileThreads),
                            groups, parameters, grid, (unsigned)grid.blocks(), words));
    return GD_OK;
}

template <int kSum, typename T>
gd_status launch_weighted(gd_cdist &call, gd_error *err)
{
    /* Four counts take weights of 0 beyond the last dimension, where all is equally false. Without
     * weights of the caller's, others are 1: beside a power of float64 that costs nothing, and
     * cityblock and chebyshev distances without weights are other kernels', unless a caller names
     * this one. */
    constexpr bool kAlways = kSum == GD_SUM_TRUTHS ||
                             (kSum == GD_SUM_POWERS && sizeof(T) == sizeof(double)) ||
                             kSum == GD_SUM_MAGNITUDES || kSum == GD_SUM_LARGEST;
    static_assert(!kAlways || kSum != GD_SUM_POWERS || sizeof(T) == sizeof(double),
                  "unit_of reads the caller's weights");
    if constexpr (kAlways) {
        return launch<kSum, true, T>(call, err);
    }
    else if constexpr (sums::kTakesWeights<kSum>) {
        if (call.weights) {
            return launch<kSum, true, T>(call, err);
        }
    }
    if constexpr (!kAlways) {
        return launch<kSum, false, T>(call, err);
    }
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_sums(gd_cdist *call, gd_error *err)
{
    return gd::with_float_type(call->out.dtype, [&](auto type) {
        using T = decltype(type);
        switch (GD_SUMS_OF(call->metric, call->weights != nullptr, call->p)) {
#define GD_LAUNCH_SUMS(name, count, ...) \
    case GD_SUM_##name:                  \
        return launch_weighted<GD_SUM_##name, T>(*call, err);
            GD_SUMS(GD_LAUNCH_SUMS)
#undef GD_LAUNCH_SUMS
            case GD_NO_SUMS:
                break;
        }
        return GD_FAIL(err, GD_BAD_VALUE, "%s: no sums belong to this metric", kId);
    });
}
