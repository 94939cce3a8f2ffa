/* tensor_mma.cu: cdist of float32 points on tensor cores that each warp feeds from registers, as
 * every device from 7.5 on has them.
 *
 * Idea: that of product_f32_sm90/tensor_sm90a.cu, three products of split halves of rows around a
 * centre, with its preparation, rules, guard and what is recomputed (product_f32), by the
 * instruction that all generations share (mma.sync) in place of Hopper's. Its bits are not quite
 * the same: products are added up in another order.
 *
 * Floor of 16384 x 16384 on an H200: writing, 0.23 ms; products of 16 dimensions, 6.0 cycles each
 * of a quarter of a multiprocessor where they add to a sum and 4.6 where they start one, as timed
 * in registers: 5.5 in the mix that a slab takes, d = 128 0.29 ms at 1.8 GHz, d = 1024 2.3 ms.
 *
 * Launch: two blocks of four warps a multiprocessor where 128 KB of shared memory are there, else
 * one; each walks over tiles of 128 x 128. 64 KB are all that a block takes, as 7.5 has no more.
 *
 * Reached there, euclidean, normal data: d = 32 0.43 ms, 64 0.52, 128 0.80, 256 1.35, 1024 5.0;
 * 4096 x 4096 0.057, 0.066, 0.077, 0.113 and 0.35. Rows that start anywhere, n = 16383: d = 32
 * 0.69, 128 1.04; pairs alone 0.39 and 0.56. A slab of a tile takes 2100 cycles of a
 * multiprocessor, of which products need 1060: instructions come at one in three cycles, see
 * NOTES.md.
 *
 * No other device has been timed. Where tensor cores take 16 cycles or 32 for such a product (8.6,
 * 8.9, 12.0) they bind, and not the instructions around it.
 *
 * Steps, a file each: product/centre.cuh, product_f32/prepare.cuh, multiply.cuh with
 * product_f32/store.cuh and product/lines.cuh, and for the suspect elements
 * product_f32/recompute_own.cuh, or product/recompute/order.cuh, share_out.cuh and dense.cuh. */
#include "cdist/product_f32/launch.cuh"
#include "cdist/product_f32_mma/multiply.cuh"

namespace {

using namespace gd::tensor_mma;
using gd::Layout;
using gd::Steps;

/* What the runtime keeps of a block's shared memory for itself from 8.0 on. */
constexpr size_t kReserved = 1024;

template <gd_metric kMetric>
cudaError_t launch(const gd_cdist &call, Plan &plan)
{
    Steps steps(call.launch);
    prepare_rows<kMetric>(steps, call, plan, kWarpRows * kPartCols, kWarpRows);
    int shared = 0;
    if (steps.code == cudaSuccess) {
        steps.code = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                            call.launch.device.index);
    }
    const bool both = (size_t)shared >= kBlocks * (kSharedBytes + kReserved);
    const ptrdiff_t blocks = (ptrdiff_t)steps.processors * (both ? kBlocks : 1);
    steps.enqueue(multiply_tiles<kMetric>, min(min((ptrdiff_t)plan.tiles(), blocks), kMostBlocks),
                  dim3(kThreads), kSharedBytes, gd::parameters_of<float>(call), plan);
    /* A single group of rows is the same in any order. */
    recompute_f32(steps, call, plan.weights, plan.terms, plan.suspects, plan.tiles_down > 1);
    return steps.code;
}

}  // namespace

extern "C" gd_status gd_cuda_cdist_tensor_mma(gd_cdist *call, gd_error *err)
{
    return launch_products<Plan>(
        call, "cdist/cuda_tensor_mma", err,
        [&](Plan &plan, Layout &take) {
            lay_out(*call, plan, kMostBlocks * kWarps, take);
            const bool longer = plan.slabs > kGroupSlabs;
            take(plan.totals, longer ? min((ptrdiff_t)plan.tiles(), kMostBlocks) : 0);
        },
        [&](auto metric, Plan &plan) { return launch<decltype(metric)::value>(*call, plan); });
}
