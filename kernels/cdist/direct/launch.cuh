/* launch.cuh: what a launch of loop.cuh needs: where in the workspace things are, the
 * images first, then the results. */
#ifndef GPUDIST_CDIST_DIRECT_LAUNCH_CUH
#define GPUDIST_CDIST_DIRECT_LAUNCH_CUH

#include "cdist/direct/loop.cuh"

namespace gd {
namespace direct {

/* Where things are in a call's workspace; `before` bytes at its beginning are for others. */
struct Plan {
    ptrdiff_t down, across, slabs;
    Grid grid;
    size_t images_a, images_b, weights, outcomes, bytes;

    explicit Plan(const gd_cdist &call, size_t before = 0)
        : down(ceil_div(call.out.rows, kBlockRows)),
          across(ceil_div(call.out.cols, kBlockCols)),
          slabs(ceil_div(call.a.cols, kImageDims)),
          grid(call.pairs, down, across, kBand, kBlockRows, kBlockCols)
    {
        images_a = (before + sizeof(float4) - 1) / sizeof(float4) * sizeof(float4);
        images_b = images_a + (size_t)(down * slabs) * sizeof(ImageA);
        weights = images_b + (size_t)(across * slabs) * sizeof(ImageB);
        outcomes = weights + (size_t)(slabs * kImageDims) * sizeof(float);
        bytes = outcomes + (size_t)grid.blocks();
    }
};

/* Makes the images, then the results; `parameters` lacks only what the plan knows. kAnyStart: rows
 * that start anywhere have a kernel of their own, where there is one group: with more, storing
 * takes a small part of the time. */
template <typename K, bool kAnyStart>
gd_status launch(const gd_cdist &call, const Plan &plan, Call<K> &parameters, const char *id,
                 gd_error *err)
{
    char *const workspace = (char *)call.launch.workspace;
    auto *const images_a = (ImageA *)(workspace + plan.images_a);
    auto *const images_b = (ImageB *)(workspace + plan.images_b);
    parameters.images_a = images_a, parameters.images_b = images_b;
    const Weights weights = {call.weights, (float *)(workspace + plan.weights)};
    parameters.image_weights = weights.to;
    parameters.outcomes = (unsigned char *)workspace + plan.outcomes;
    parameters.slabs = (int)plan.slabs;
    const int last_dims = (int)(call.a.cols - (plan.slabs - 1) * kImageDims);
    parameters.last_rows = (int)ceil_div(last_dims, kWord) * 2;
    const bool words = reads_words<T>(call.a) && reads_words<T>(call.b);
    GD_CUDA_TRY(err, id,
                enqueue(call.launch, words ? make_images<K, true> : make_images<K, false>,
                        (plan.down + plan.across) * plan.slabs + K::weighted, dim3(kThreads), 0,
                        parameters.a, parameters.b, parameters.d, parameters.slabs,
                        (unsigned)(plan.down * plan.slabs), images_a, images_b, weights));

    auto *kernel = direct<K, false>;
    if constexpr (kAnyStart) {
        kernel = parameters.words ? kernel : direct<K, false, true>;
    }
    if constexpr (kFolds<K>) {
        kernel = plan.slabs > kSlabsOfGroup<K> ? direct<K, true> : kernel;
    }
    constexpr int kBytes = sizeof(Memory<kFolds<K>>);
    GD_CUDA_TRY(err, id,
                enqueue(call.launch, kernel, plan.grid.blocks(), dim3(kThreads), kBytes, parameters,
                        plan.grid));
    return GD_OK;
}

}  // namespace direct
}  // namespace gd
#endif
