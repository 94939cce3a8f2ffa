/* direct_launch.cuh: what a launch of direct.cuh needs: where in the workspace things are, the
 * images first, then the results. */
#ifndef GPUDIST_DIRECT_LAUNCH_CUH
#define GPUDIST_DIRECT_LAUNCH_CUH

#include "direct.cuh"

namespace gd {
namespace direct {

/* Whole words: the last of a row must not reach beyond it. */
inline bool reads_words(const gd_matrix &x)
{
    return x.cols % kWord == 0 && x.col_stride == 1 &&
           rows_of_words((const T *)x.data, x.row_stride);
}

/* What a call needs, and where in its workspace. `before` bytes at its beginning are for others. */
struct Plan {
    ptrdiff_t down, across, stages;
    Grid grid;
    size_t images_a, images_b, weights, marks, bytes;

    explicit Plan(const gd_cdist &call, size_t before = 0)
        : down(ceil_div(call.out.rows, kBlockRows)),
          across(ceil_div(call.out.cols, kBlockCols)),
          stages(ceil_div(call.a.cols, kImageDims)),
          grid(call.pairs, down, across, kBand, kBlockRows, kBlockCols)
    {
        images_a = (before + sizeof(float4) - 1) / sizeof(float4) * sizeof(float4);
        images_b = images_a + (size_t)(down * stages) * sizeof(ImageA);
        weights = images_b + (size_t)(across * stages) * sizeof(ImageB);
        marks = weights + (size_t)(stages * kImageDims) * sizeof(float);
        bytes = marks + (size_t)grid.blocks();
    }
};

/* Makes the images, then the results; `parameters` lacks only what the plan knows. kOwn: rows that
 * start anywhere have a kernel of their own, where there is one group: with more, storing takes a
 * small part of the time. */
template <typename K, bool kOwn>
gd_status launch(const gd_cdist &call, const Plan &plan, Call<K> &parameters, const char *id,
                 gd_error *err)
{
    char *const workspace = (char *)call.launch.workspace;
    auto *const images_a = (ImageA *)(workspace + plan.images_a);
    auto *const images_b = (ImageB *)(workspace + plan.images_b);
    parameters.images_a = images_a, parameters.images_b = images_b;
    const Weights weights = {call.weights, (float *)(workspace + plan.weights)};
    parameters.image_weights = weights.to;
    parameters.marks = (unsigned char *)workspace + plan.marks;
    parameters.stages = (int)plan.stages;
    const int last_dims = (int)(call.a.cols - (plan.stages - 1) * kImageDims);
    parameters.last_rows = (int)ceil_div(last_dims, kWord) * 2;
    const bool words = reads_words(call.a) && reads_words(call.b);
    GD_CUDA_TRY(err, id,
                enqueue(call.launch, words ? make_images<K, true> : make_images<K, false>,
                        (plan.down + plan.across) * plan.stages + K::weighted, dim3(kThreads), 0,
                        parameters.a, parameters.b, parameters.d, parameters.stages,
                        (unsigned)(plan.down * plan.stages), images_a, images_b, weights));

    auto *kernel = direct<K, false>;
    if constexpr (kOwn) {
        kernel = parameters.words ? kernel : direct<K, false, true>;
    }
    if constexpr (kFolds<K>) {
        kernel = plan.stages > kStagesOfGroup<K> ? direct<K, true> : kernel;
    }
    constexpr int kBytes = sizeof(Memory<kFolds<K>>);
    /* Beyond 48 KB has to be asked for. */
    GD_CUDA_TRY(err, id,
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    GD_CUDA_TRY(err, id,
                enqueue(call.launch, kernel, plan.grid.blocks(), dim3(kThreads), kBytes, parameters,
                        plan.grid));
    return GD_OK;
}

}  // namespace direct
}  // namespace gd
#endif
