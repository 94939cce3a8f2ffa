/* within_f32.cu: the kernels of within.cuh for float. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

#define GD_FOR_COLUMNS(dims)                                                                  \
    GD_WITHIN_FOR(AsGiven, float, dims)                                                       \
    template gd_status gather_lists(Steps &, const gd_neighbors &, const Plan<float, dims> &, \
                                    const Scratch &, gd_error *);
GD_FOR_COLUMNS(3)
GD_FOR_COLUMNS(5)
GD_FOR_COLUMNS(kMostDims)

}  // namespace boxes
}  // namespace gd
