/* direct_sums_sm90a.cu: metrics of sums.cu that are one sum of a few instructions, by the loop of
 * direct.cu.
 *
 * Idea: terms, results and what is recomputed are those of sums.cu (terms.cuh, swift.cuh); what
 * adds them up is direct/loop.cuh. So images, copies ahead, four blocks a multiprocessor and folds
 * without additions are there for them as well, and results have the bits that sums.cu gives them,
 * but for braycurtis, whose terms are added in fours, and p = 3 and 4, whose folds are twice as
 * long.
 *
 * Bray and Curtis have the swift form alone here: a tile says whether it answered for all results,
 * and a second launch goes over those that did not, in the careful form (careful.cuh). If
 * there are none, it takes some 20 us.
 *
 * Floor: issue slots, as in sums.cu, and the register file, which gives out one register with an
 * even and one with an odd number a cycle: a product of three different registers takes two, unless
 * its neighbours leave one of these reads free. Measured in registers, at 2 warps a scheduler: the
 * same such product over and over takes 2.0 cycles, the two parities of it in turn 1.5, p = 3's
 * three instructions 3.0 if the difference has the other parity than its square and its sum and
 * they take turns, 3.6 in groups of four. With reads that may wait for one cycle, p = 3 as compiled
 * takes 3.41 cycles a pair-dimension, 10 % more than p = 4, and so much slower it is; 3.09 ms at
 * 16384 x 16384 x 128 would be three. The compiler chooses parities: 25 other orders of the same
 * arithmetic came to 3.39 to 3.57.
 *
 * Reached on an H200 there, ms, with sums.cu in brackets: hamming 2.48 (2.77), braycurtis of counts
 * 2.66 (3.63), weighted cityblock 2.80 (3.40), hellinger 2.96 (3.61), weighted braycurtis 3.01
 * (3.91), weighted hamming 3.32 (3.74), minkowski p = 4 3.59 (4.24) and p = 3 4.02 (4.67), weighted
 * euclidean 3.97 (4.69). p = 3 with folds of 16 dimensions took 4.20, with folds of 64, 3.98; three
 * or two blocks with more registers change nothing. With weights p = 3 gains 7 % where there are
 * many rows and loses 40 % where there are few; it stays with sums.cu. Pairs take 53 % of the time.
 */
#include "cdist/direct/launch.cuh"
#include "cdist/sums/careful.cuh"

namespace {

namespace direct = gd::direct;
namespace sums = gd::sums;

constexpr const char *kId = "cdist/cuda_direct_sums";

template <int kForm, bool kWeighted>
struct Kind {
    using Parameters = sums::Call<float>;
    static constexpr bool weighted = kWeighted;
    /* With weights four of them would take an instruction more. */
    static constexpr bool fours = kForm == sums::kSwiftMagnitudes && !kWeighted;
    /* A cube root leaves a third of a sum's error: 4096 equal terms in folds of 32 have 2.5e-7. */
    static constexpr bool root = kForm == GD_SUM_CUBES || kForm == GD_SUM_FOURTH_POWERS;
    static constexpr int fold = !sums::kFolds<kForm, kWeighted> ? 0
                                : fours                         ? 4 * GD_FOLD
                                : root                          ? 2 * GD_FOLD
                                                                : GD_FOLD;
    static constexpr bool outcomes = kForm == sums::kSwiftMagnitudes;
    static constexpr bool recomputes = !outcomes && sums::kDoubtful<kForm, kWeighted, float>;

    /* Added to -0 anything is itself, and needs no addition. */
    static __device__ __forceinline__ float first(float a, float b, float weight)
    {
        return term(-0.0f, a, b, weight);
    }
    static __device__ __forceinline__ float term(float sum, float a, float b, float weight)
    {
        sums::add<kForm, kWeighted, float>(&sum, a, b, weight, 0.0f);
        return sum;
    }
    static __device__ __forceinline__ float weigh(double weight)
    {
        return sums::weight_of<kForm, float>(weight);
    }
    static __device__ __forceinline__ float join(float total, float sum)
    {
        return sums::join<kForm>(total, sum);
    }
    static __device__ __forceinline__ bool finish(const Parameters &call, float &x, ptrdiff_t row,
                                                  ptrdiff_t col)
    {
        return sums::result<kForm, kWeighted, float>(call, gd::Begin{}, &x, call.a.clamp(row),
                                                     call.b.clamp(col), &x);
    }
    static __device__ __forceinline__ void recompute(const Parameters &call, ptrdiff_t row,
                                                     ptrdiff_t end, const gd::Run<float> &run)
    {
        sums::recompute_f64<kForm, kWeighted>(call, row, end, run);
    }
    static __device__ __forceinline__ bool answers(const Parameters &call, ptrdiff_t row,
                                                   ptrdiff_t col)
    {
        return sums::answers<kForm>(call, gd::Begin{}, row, direct::kBlockRows, col,
                                    direct::kBlockCols);
    }
};

/* The tiles of which a swift form left results to the careful one. */
template <int kSum, bool kWeighted>
__global__ void __launch_bounds__(gd::kTileThreads, sums::Shape<kSum, float>::blocks)
    recompute_undone(const __grid_constant__ sums::Call<float> call,
                     const __grid_constant__ gd::Grid grid, const unsigned char *outcomes,
                     bool words)
{
    using S = sums::Shape<kSum, float>;
    static_assert(S::block_rows == direct::kBlockRows && direct::kBlockCols % S::block_cols == 0,
                  "the careful form can go over a tile");
    extern __shared__ double2 groups[];
    __shared__ typename S::Memory memory;
    __shared__ gd::Begin begin;
    unsigned tile_row, tile_col;
    if (!grid.find(&tile_row, &tile_col)) {
        return;
    }
    const sums::Place place = {begin, (ptrdiff_t)tile_row * direct::kBlockRows,
                               (ptrdiff_t)tile_col * direct::kBlockCols, words};
    if (!call.has(place.row, place.col + direct::kBlockCols)) {
        return;
    }
    call.all.find(begin, 0, 0, 0);
    const unsigned char outcome = outcomes[blockIdx.x];
    if (outcome != direct::kDone) {
        sums::recompute_careful<kSum, kWeighted>(call, place, direct::kBlockCols,
                                                 outcome == direct::kPartly, memory, groups);
    }
}

template <int kSum, bool kWeighted>
gd_status launch(gd_cdist &call, gd_error *err)
{
    constexpr int kForm = sums::kSwiftOf<kSum, kWeighted, float>;
    using K = Kind<kForm, kWeighted>;
    const direct::Plan plan(call, sums::workspace_for<kForm>(call));
    call.launch.workspace_bytes = plan.bytes;
    if (call.launch.sizing) {
        return GD_OK;
    }
    direct::Call<K> parameters = {};
    (sums::Call<float> &)parameters = sums::call_of<kSum, float>(call);
    GD_CUDA_TRY(err, kId, sums::prepare_swift<kForm>(call, parameters));
    const gd_status status = direct::launch<K, false>(call, plan, parameters, kId, err);
    if constexpr (K::outcomes) {
        if (status == GD_OK) {
            const auto kernel = recompute_undone<kSum, kWeighted>;
            const size_t groups = sums::bytes_of_groups<kSum, float>(call.a.cols);
            const bool words = gd::reads_words<float>(call.a) && gd::reads_words<float>(call.b);
            GD_CUDA_TRY(err, kId,
                        gd::enqueue(call.launch, kernel, plan.grid.blocks(), dim3(gd::kTileThreads),
                                    groups, parameters, plan.grid, parameters.outcomes, words));
        }
    }
    return status;
}

template <int kSum>
gd_status launch_weighted(gd_cdist &call, gd_error *err)
{
    return call.weights ? launch<kSum, true>(call, err) : launch<kSum, false>(call, err);
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_direct_sums(gd_cdist *call, gd_error *err)
{
    switch (GD_SUMS_OF(call->metric, call->weights != nullptr, call->p)) {
        case GD_SUM_SQUARES:
            return launch_weighted<GD_SUM_SQUARES>(*call, err);
        case GD_SUM_MAGNITUDES: /* without weights direct.cu has it, but for who asks by name */
            return launch<GD_SUM_MAGNITUDES, true>(*call, err);
        case GD_SUM_CUBES:
            return launch<GD_SUM_CUBES, false>(*call, err);
        case GD_SUM_FOURTH_POWERS:
            return launch_weighted<GD_SUM_FOURTH_POWERS>(*call, err);
        case GD_SUM_UNEQUAL:
            return launch_weighted<GD_SUM_UNEQUAL>(*call, err);
        case GD_SUM_DIFFERENCE_AND_SUM:
            return launch_weighted<GD_SUM_DIFFERENCE_AND_SUM>(*call, err);
        default:
            return GD_FAIL(err, GD_BAD_VALUE, "%s: no sum of this kind", kId);
    }
}
