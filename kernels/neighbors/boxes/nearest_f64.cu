/* nearest_f64.cu: the kernels of nearest.cuh for double. */
#include "neighbors/boxes/nearest.cuh"

namespace gd {
namespace boxes {

GD_NEAREST_FOR(AsGiven, double, 3)
GD_NEAREST_FOR(AsGiven, double, 5)
GD_NEAREST_FOR(AsGiven, double, kMostDims)

}  // namespace boxes
}  // namespace gd
