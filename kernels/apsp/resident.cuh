/* resident.cuh: the form of apsp/cuda_blocked for few nodes, which has a file of its own. */
#ifndef GPUDIST_APSP_RESIDENT_CUH
#define GPUDIST_APSP_RESIDENT_CUH

#include "gpudist.h"

namespace gd {

/* How many blocks that hold as much as a block can hold of a matrix the device starts together,
 * 0 if none. */
int resident_blocks(int device);
/* Whether it is one for this call, of which the size, the dtype, the device and whether there are
 * predecessors are known. */
bool fits_resident(const gd_apsp &call);
gd_status close_in_one_launch(gd_apsp &call, gd_error *err);

}  // namespace gd

#endif
