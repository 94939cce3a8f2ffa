/* within_f64.cu: the kernels of within.cuh for double. */
#include "neighbors/boxes/within.cuh"

namespace gd {
namespace boxes {

#define GD_FOR_COLUMNS(dims)                                                                   \
    GD_WITHIN_FOR(AsGiven, double, dims)                                                       \
    template gd_status gather_lists(Steps &, const gd_neighbors &, const Plan<double, dims> &, \
                                    const Scratch &, gd_error *);
GD_FOR_COLUMNS(3)
GD_FOR_COLUMNS(5)
GD_FOR_COLUMNS(kMostDims)

}  // namespace boxes
}  // namespace gd
