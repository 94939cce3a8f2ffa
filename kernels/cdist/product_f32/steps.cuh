/* steps.cuh: the steps that products of float32 points share but for preparation, compiled once for
 * all of them (steps.cu): the centre before, and what is computed again after. */
#ifndef GPUDIST_CDIST_PRODUCT_F32_STEPS_CUH
#define GPUDIST_CDIST_PRODUCT_F32_STEPS_CUH

#include "cdist/product/steps.cuh"

namespace gd {
namespace product_form {

/* As find_centre_of of product/launch.cuh. */
void find_centre_f32(Steps &steps, const gd_cdist &call, Sample *sample,
                     const Weights<float> &weights, Shift<float> *shift, unsigned *all_direct,
                     const Bounds &bounds);
/* All that follows the products, see recompute_suspects and finish_forms there. */
void recompute_f32(Steps &steps, const gd_cdist &call, const Weights<float> &weights,
                   const RowTerms &terms, const Suspects &suspects, bool sorts);

}  // namespace product_form
}  // namespace gd
#endif
