/* boxes_f32.cu: the call of boxes.cu, and the kernels that arrange points, for float. */
#include "neighbors/boxes/run.cuh"

namespace gd {
namespace boxes {

gd_status find(gd_neighbors *call, float, gd_error *err) { return run_dims<float>(call, err); }

}  // namespace boxes
}  // namespace gd
