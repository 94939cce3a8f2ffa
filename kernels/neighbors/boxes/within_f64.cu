/* within_f64.cu: the kernels of within.cuh for double. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_WITHIN_OF(double)

}  // namespace boxes
}  // namespace gd
