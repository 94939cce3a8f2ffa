/* direct.cu: cdist of many float32 points with more than a few dimensions, in direct form.
 *
 * Idea: the register tile of tile.cu, for matrices that are large enough to bring the operands into
 * a better order first (images.cuh). A block of 128 threads computes 128 x 64 results, each thread
 * 8 x 8, from slabs of 16 dimensions, which asynchronous copies bring while the one before is
 * added up. A pair-dimension is two instructions: of 16384 x 16384 x 128 the H200 issues them in
 * 2.06 ms at best.
 *
 * - Four blocks share a multiprocessor, so that a scheduler has four warps to take instructions
 *   from: that leaves a thread 128 registers, 64 for sums and 32 for operands. The totals wait in
 *   shared memory.
 * - Sums start afresh every GD_FOLD dimensions and are added to totals. That costs no additions:
 *   what the first dimension of a slab makes is the sum, and needs none. Of magnitudes, four
 *   dimensions are added to each other first, which costs no additions either: a sum of 64
 *   dimensions then has 18 roundings, and a quarter of the folds is left.
 * - Sums are never stored themselves, only what totals make of them: a store of a word wants its
 *   numbers in neighbouring registers, and then half of them stood in the wrong bank of the
 *   register file for the terms that are added to them.
 * - Totals are added every eight folds to those of the groups before, which wait where the results
 *   will stand. With longer folds there are fewer groups: the worst error of cityblock, that of
 *   4096 equal differences, is 4.7e-7, and with groups of 128 dimensions 5.1e-7.
 * - Where rows start anywhere and there is one group, a kernel of its own stores by whole rows of a
 *   tile, 256 bytes: by segments of 128 bytes 8191 x 8191 x 17 takes cityblock 0.196 ms, so 0.162
 *   (d = 32 0.219 and 0.210; euclidean 0.213 and 0.175). With words in the same kernel, all of its
 *   registers are others, and 16384 x 16384 x 128 takes 1 % longer.
 *
 * Launch: a block a tile, in bands of 16 tiles' rows (grid.cuh).
 *
 * Reached on an H200, 16384 x 16384: cityblock d = 32 0.64 ms, d = 128 2.41 (14.2e12 pair-
 * dimensions a second, 85 % of the issue bound; tile.cu 2.81), d = 1024 19.0 (23.1); chebyshev d =
 * 128 2.67 (2.97); euclidean d = 17 0.53 (0.68), d = 128 2.65. Of cityblock's 2.41 the loop alone,
 * which has 4 % of other instructions, takes 2.36; copies take 0.03, barriers 0.01. With pairs and
 * folds of 32 dimensions it took 2.46 and 19.7. Images take some 10 us to make, for which a call
 * with few rows has no use; where the two launches overlap it takes 0.08 % less at 16384 x 16384 x
 * 128, and 4 % more at 2048 x 2048 x 64. A tile more or less takes its share: the last round costs
 * nothing, though it is nearly empty (15872 to 16640 rows). Pairs take 53 % of the time at d = 128,
 * 78 % at d = 17. */
#include "cdist/direct/launch.cuh"

namespace {

namespace direct = gd::direct;

/* A metric of the Lp family as a kind of sums. */
template <typename M>
struct Lp {
    using Parameters = gd::Cdist<float>;
    static constexpr bool fours = M::folds && !M::squares;
    static constexpr int fold = !M::folds ? 0 : fours ? 4 * GD_FOLD : GD_FOLD;
    static constexpr bool weighted = false, outcomes = false;
    static constexpr bool recomputes = M::template guarded<float>;

    static __device__ __forceinline__ float first(float a, float b, float)
    {
        return gd::first_term<M>(a, b);
    }
    static __device__ __forceinline__ float term(float sum, float a, float b, float)
    {
        return M::term(sum, a, b);
    }
    static __device__ __forceinline__ float join(float total, float sum)
    {
        return M::join(total, sum);
    }
    static __device__ __forceinline__ bool finish(const Parameters &, float &x, ptrdiff_t,
                                                  ptrdiff_t)
    {
        x = M::finish(x);
        return M::safe(x);
    }
    static __device__ __forceinline__ void recompute(const Parameters &call, ptrdiff_t row,
                                                     ptrdiff_t end, const gd::Run<float> &run)
    {
        gd::recompute_f64<M>(call, row, end, 1, run);
    }
};

}  // namespace

extern "C" gd_status gd_cuda_cdist_direct(gd_cdist *call, gd_error *err)
{
    const direct::Plan plan(*call);
    call->launch.workspace_bytes = plan.bytes;
    if (call->launch.sizing) {
        return GD_OK;
    }
    return gd::with_lp_metric(call->metric, [&](auto metric) {
        direct::Call<Lp<decltype(metric)>> parameters = {};
        (gd::Cdist<float> &)parameters = gd::parameters_of<float>(*call);
        return direct::launch<Lp<decltype(metric)>, true>(*call, plan, parameters,
                                                          "cdist/cuda_direct", err);
    });
}
