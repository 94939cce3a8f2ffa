/* within_f32.cu: the kernels of within.cuh for float. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_WITHIN_OF(float)

}  // namespace boxes
}  // namespace gd
