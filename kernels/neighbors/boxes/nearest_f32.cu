/* nearest_f32.cu: the kernels of nearest.cuh for float. */
#include "neighbors/boxes/nearest.cuh"

namespace gd {
namespace boxes {

GD_NEAREST_OF(float)

}  // namespace boxes
}  // namespace gd
