/* nearest_f32.cu: the kernels of nearest.cuh for float. */
#include "neighbors/boxes/nearest.cuh"

namespace gd {
namespace boxes {

GD_NEAREST_FOR(AsGiven, float, 3)
GD_NEAREST_FOR(AsGiven, float, 5)
GD_NEAREST_FOR(AsGiven, float, kMostDims)

}  // namespace boxes
}  // namespace gd
