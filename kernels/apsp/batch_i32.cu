/* batch_i32.cu: the kernels of batch.cu for int32_t. */
#include "apsp/batch_run.cuh"

namespace gd {

size_t batch_workspace(const Graphs<int32_t> &job) { return workspace_of(job); }

gd_status close_batch(const gd_launch &launch, const Graphs<int32_t> &job, gd_error *err)
{
    return close_batch_of<Plus<int32_t>>(launch, job, err);
}

}  // namespace gd
