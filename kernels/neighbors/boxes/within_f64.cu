/* within_f64.cu: the kernels of within.cuh for double. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_FOR_COLUMNS(double, 3)
GD_FOR_COLUMNS(double, 5)
GD_FOR_COLUMNS(double, kMostDims)

}  // namespace boxes
}  // namespace gd
