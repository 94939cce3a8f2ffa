/* images_f32.cu: all searches in a periodic box, for float. */
#include "neighbors/boxes/images.cuh"
#include "neighbors/boxes/nearest.cuh"
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_IMAGES_OF(float)

}  // namespace boxes
}  // namespace gd
