/* batch_f32.cu: the kernels of batch.cu for float. */
#include "apsp/batch_run.cuh"

namespace gd {

size_t batch_workspace(const Graphs<float> &job) { return workspace_of(job); }

gd_status close_batch(const gd_launch &launch, const Graphs<float> &job, gd_error *err)
{
    return close_batch_of<Plus<float>>(launch, job, err);
}

}  // namespace gd
