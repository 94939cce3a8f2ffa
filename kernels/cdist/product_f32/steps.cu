/* steps.cu: the centre, and what is computed again, for all kernels that multiply float32 points.
 */
#include "cdist/product/launch.cuh"
#include "cdist/product_f32/steps.cuh"

namespace gd {
namespace product_form {

void find_centre_f32(Steps &steps, const gd_cdist &call, Sample *sample,
                     const Weights<float> &weights, Shift<float> *shift, unsigned *all_direct,
                     const Bounds &bounds)
{
    find_centre_of(steps, call, sample, weights, shift, all_direct, bounds);
}

void recompute_f32(Steps &steps, const gd_cdist &call, const Weights<float> &weights,
                   const RowTerms &terms, const Suspects &suspects, bool sorts)
{
    recompute_suspects(steps, call, weights, terms, suspects, sorts);
    finish_forms(steps, call, terms);
}

}  // namespace product_form
}  // namespace gd
