/* batch_f64.cu: the kernels of batch.cu for double. */
#include "apsp/batch_run.cuh"

namespace gd {

size_t batch_workspace(const Graphs<double> &job) { return workspace_of(job); }

gd_status close_batch(const gd_launch &launch, const Graphs<double> &job, gd_error *err)
{
    return close_batch_of<Plus<double>>(launch, job, err);
}

}  // namespace gd
