/* images_f64.cu: all searches in a periodic box, for double. */
#include "neighbors/boxes/images.cuh"
#include "neighbors/boxes/nearest.cuh"
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

GD_IMAGES_OF(double)

}  // namespace boxes
}  // namespace gd
