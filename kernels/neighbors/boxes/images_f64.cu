/* images_f64.cu: all searches in a periodic box, for double. */
#include "neighbors/boxes/images.cuh"
#include "neighbors/boxes/nearest.cuh"
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

#define GD_FOR_COLUMNS(dims)            \
    GD_NEAREST_FOR(Image, double, dims) \
    GD_WITHIN_FOR(Image, double, dims)
GD_FOR_COLUMNS(3)
GD_FOR_COLUMNS(kMostDims)

}  // namespace boxes
}  // namespace gd
