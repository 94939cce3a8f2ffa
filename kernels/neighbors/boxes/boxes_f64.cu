/* boxes_f64.cu: the call of boxes.cu, and the kernels that arrange points, for double. */
#include "neighbors/boxes/run.cuh"

namespace gd {
namespace boxes {

gd_status find(gd_neighbors *call, double, gd_error *err) { return run_dims<double>(call, err); }

}  // namespace boxes
}  // namespace gd
