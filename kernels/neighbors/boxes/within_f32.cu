/* within_f32.cu: the kernels of within.cuh for float. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_FOR_COLUMNS(float, 3)
GD_FOR_COLUMNS(float, 5)
GD_FOR_COLUMNS(float, kMostDims)

}  // namespace boxes
}  // namespace gd
