/* product_sm90a.cu: gradients of euclidean and squared distances of float32 points on the tensor
 * cores of Hopper GPUs.
 *
 * Idea: what pairs add to the gradient of row i of a is W_ij (a_i - b_j), with W what is asked of
 * the pair, divided by the distance or times 2. The sum over j is a_i times the sum of W_ij, less
 * the product of W with b. Factors W are made in registers of what is asked and of the distances,
 * which pass once; they and the points are split in halves, x = hi + lo, and multiplied in three
 * terms. The other side does the same with both turned.
 *
 * What keeps the digits:
 * - Points move so that the middle of `b` is at 0. A pair that is nearer than the root of an eighth
 *   of both squared lengths, or whose factor is near the ends of float32, has the factor 0 there
 * and is added by its difference (near.cuh).
 * - Points are scaled each by a power of two, which goes to its factors, and the factors of a row
 * by one for each 64 rows of b (multiply.cuh): so what is asked may be of any size, and each error
 * is some 2^-22 of what the pair adds, or 2^-38 of the largest of these.
 * - Sums of tensor cores are those of 64 rows of b, then float32's, in parts whose number depends
 * on that of b's rows alone, as all bits do: neither on the other rows of a nor on how pairs lie.
 * - Where b's rows are in few places, a sample of them tells, and all is done by tile.cu.
 *
 * Floor of one side of 16384 x 16384 x 128 on an H200: what is asked and distances are read, 0.48
 * ms at 4.5 TB/s; three products of halves, 0.26 ms.
 *
 * Reached there: 0.78 ms a side, 0.69 of them multiply.cuh; d = 32 0.68, 64 0.72, 256 1.6; asked
 * the same of all pairs 0.69. Both sides of 8192 x 8192 x 128 0.515 ms, 4096 x 4096 0.213, 3072 x
 * 3072 0.185 (tile.cu 1.84, 0.49, 0.32); at 2048 x 2048 tile.cu is as quick, and
 * of few rows of a quicker: both sides of 512 x 16384 0.38 ms, tile.cu 0.28. Rows that start
 * anywhere, n = 16383, 1.2 a side. Near-duplicates 0.81; points in few places as tile.cu, and 0.2
 * ms.
 *
 * Errors of an element, of the sum of what is asked times the largest slope: up to 1e-7, as of
 * differences (tests/test_gradient_products.py has the kinds of data).
 *
 * Steps, a file each: prepare.cuh, multiply.cuh, near.cuh. */
#include "gradient/direct.cuh"
#include "gradient/product_sm90/multiply.cuh"
#include "gradient/product_sm90/near.cuh"
#include "gradient/product_sm90/prepare.cuh"

namespace {

using namespace gd::gradient_product;
using gd::ceil_div;
using gd::Gradient;
using gd::Layout;
using gd::OfPairs;
using gd::Steps;

/* How many slabs make a part of the sum: their number decides, and nothing else. */
constexpr ptrdiff_t kParts = 4, kMostSlabs = 4096 / kSlab;

Lie lie_of(const OfPairs<float> &pairs, int axes)
{
    const bool along_rows = pairs.along == 1 || pairs.down != 1;
    const ptrdiff_t near = along_rows ? pairs.along : pairs.down;
    const ptrdiff_t far = along_rows ? pairs.down : pairs.along;
    bool words = near == 1 && gd::rows_of_words(pairs.data, far);
    for (int axis = 0; axis < axes; ++axis) {
        words &= pairs.apart.along[axis] % kWord == 0;
    }
    return {along_rows, words, near == 0 && far == 0};
}

/* Lays out one side of a call. direct: what differences would have as their workspace. */
Plan plan_of(const gd_gradient &whole, bool turned, Layout &take, unsigned char *&direct)
{
    const Gradient<float> call = gd::gradient_of<float>(whole, turned);
    const ptrdiff_t matrices = whole.count;
    Plan plan = {};
    plan.slabs = ceil_div(call.b.count, kSlab);
    plan.part_slabs = min(ceil_div(plan.slabs, kParts), kMostSlabs);
    plan.parts = ceil_div(plan.slabs, plan.part_slabs);
    plan.tiles = ceil_div(call.a.count, kRows);
    plan.blocks = ceil_div(call.d, kDims);
    plan.items = matrices * plan.tiles * plan.blocks * plan.parts;
    plan.asked = lie_of(call.asked, call.batch.axes);
    plan.away = lie_of(call.away, call.batch.axes);
    const ptrdiff_t rows = matrices * plan.tiles * kRows;
    const ptrdiff_t sums = matrices * plan.parts * call.a.count * call.d;
    take(plan.near_pairs, matrices);
    take(plan.direct, matrices);
    take(plan.centre, matrices * plan.blocks * kDims);
    take(plan.norms, rows);
    take(plan.images, matrices * plan.blocks * plan.slabs);
    take(plan.near, rows / kUnit * plan.slabs);
    take(plan.found, rows / kGroup * plan.parts);
    take(plan.sums, sums);
    take(plan.near_sums, sums);
    take(direct, (ptrdiff_t)gd::bytes_of_direct(whole, turned));
    return plan;
}

template <gd_metric kMetric>
cudaError_t launch(const gd_gradient &call, bool turned)
{
    const Gradient<float> one = gd::gradient_of<float>(call, turned);
    Layout take = {(unsigned char *)call.launch.workspace};
    gd_gradient direct = call;
    unsigned char *workspace;
    const Plan plan = plan_of(call, turned, take, workspace);
    direct.launch.workspace = workspace;
    Steps steps(call.launch);
    const ptrdiff_t across = plan.blocks * (kDims / 32);
    steps.enqueue(find_centre, call.count * across, dim3(kCentreWarps * 32), 0, one, plan);
    steps.enqueue(prepare, call.count * (plan.slabs + plan.tiles * kRows / kMeasured + kSample),
                  dim3(kPrepareThreads), 0, one, plan);
    steps.enqueue(multiply_factors<kMetric>, min(plan.items, (ptrdiff_t)steps.processors),
                  dim3(kThreads), sizeof(Shared), one, plan);
    steps.enqueue(add_near<kMetric>,
                  call.count * plan.parts * plan.blocks * plan.tiles * (kRows / kNearRows),
                  dim3(kNearThreads), 0, one, plan);
    const ptrdiff_t all = call.count * one.a.count;
    steps.enqueue(join_with_near, ceil_div(all, kJoinThreads / 32), dim3(kJoinThreads), 0, one,
                  plan, all);
    return steps.code == cudaSuccess ? gd::sum_directly(direct, turned, plan.direct) : steps.code;
}

}  // namespace

extern "C" gd_status gd_cuda_gradient_product(gd_gradient *call, gd_error *err)
{
    const bool both = call->out_b.first.data != nullptr;
    call->launch.workspace_bytes = 0;
    for (int side = 0; side < (both ? 2 : 1); ++side) {
        Layout take = {nullptr};
        unsigned char *direct;
        (void)plan_of(*call, side == 1, take, direct);
        call->launch.workspace_bytes =
            take.bytes > call->launch.workspace_bytes ? take.bytes : call->launch.workspace_bytes;
    }
    for (int side = 0; !call->launch.sizing && side < (both ? 2 : 1); ++side) {
        GD_CUDA_TRY(err, "gradient/cuda_product",
                    (call->metric == GD_SQEUCLIDEAN ? launch<GD_SQEUCLIDEAN>(*call, side == 1)
                                                    : launch<GD_EUCLIDEAN>(*call, side == 1)));
    }
    return GD_OK;
}
