/* nearest_f64.cu: the kernels of nearest.cuh for double. */
#include "neighbors/boxes/nearest.cuh"

namespace gd {
namespace boxes {

GD_NEAREST_OF(double)

}  // namespace boxes
}  // namespace gd
