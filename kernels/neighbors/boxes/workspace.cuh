/* workspace.cuh: what a call of boxes.cu has beside its plan, and its steps that lie in files of
 * their own. */
#ifndef GPUDIST_NEIGHBORS_BOXES_WORKSPACE_CUH
#define GPUDIST_NEIGHBORS_BOXES_WORKSPACE_CUH

#include <algorithm>

#include "common/steps.cuh"
#include "neighbors/boxes/plan.cuh"

namespace gd {
namespace boxes {

constexpr const char *kId = "neighbors/cuda_boxes";

/* Rows of A between two looks at the watcher: of few points many, lest launches be short. */
constexpr unsigned kMostRows = 1 << 17, kFewestRows = 1 << 14;
constexpr double kPairsOfRows = 0x1p37;
/* Where it is not known how many are left of them, as many times that: mostly few. */
constexpr unsigned kLeft = 4;

/* A call's workspace beside what the plan has. */
struct Scratch {
    unsigned *order, *left_count;
    unsigned char *sorting, *scan;
    size_t sorting_bytes, scan_bytes;
    int *counts; /* neighbours of each row within its limit, and a 0 */
};

/* Puts numbers in the order of their places' last `bits` bits, equal ones as they stand; or sets
 * the bytes that this takes for up to `count` and as many bits, if `memory` is NULL. */
cudaError_t sort_places(void *memory, size_t *bytes, const uint64_t *places,
                        uint64_t *sorted_places, const unsigned *numbers, unsigned *sorted,
                        unsigned count, int bits, void *stream);
/* starts[i] becomes `base` and the sum of counts before the i-th, for i up to `rows`; or sets the
 * bytes that this takes. */
cudaError_t scan_counts(void *memory, size_t *bytes, const int *counts, int64_t *starts,
                        unsigned rows, int64_t base, void *stream);

/* Calls enqueue() for some rows of A after the other, as plan.first and plan.rows say. */
template <typename T, int kDims, typename Enqueue>
gd_status in_pieces(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan, gd_error *err,
                    Enqueue &&enqueue)
{
    const unsigned all = (unsigned)call.a.rows;
    const auto at_pace = (unsigned)std::max(std::min(kPairsOfRows / plan.count, (double)kMostRows),
                                            (double)kFewestRows);
    gd_status status = GD_OK;
    for (plan.first = 0; status == GD_OK && plan.first < all; plan.first += plan.rows) {
        plan.rows = std::min(all - plan.first, plan.left_count != NULL ? kLeft * at_pace : at_pace);
        enqueue();
        GD_CUDA_TRY(err, kId, steps.code);
        const double part = (double)(plan.first + plan.rows) / all;
        status = gd_pass(&call.launch, call.done + call.share * part, err);
    }
    return status;
}

/* A row of A as kernels hold it: its columns, or in a periodic box images of them (images.cuh),
 * which not all numbers of columns have. */
template <typename T, int kDims>
using AsGiven = T[kDims];
template <typename T, int kDims>
struct Image;
template <int kDims>
constexpr bool kHasImages = kDims <= 3 || kDims == kMostDims;

/* nearest.cuh: the nearest of each row. */
template <typename Row, typename T, int kDims>
gd_status search_nearest(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                         const Scratch &scratch, gd_error *err);

/* within.cuh: all neighbours within limits, counted or written; of lists of the nearest as many as
 * these have; and how many pairs are in each bin. */
template <typename Row, typename T, int kDims>
gd_status list_within(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan,
                      const Scratch &scratch, gd_error *err);
template <typename T, int kDims>
gd_status gather_lists(Steps &steps, const gd_neighbors &call, const Plan<T, kDims> &plan,
                       const Scratch &scratch, gd_error *err);
template <typename Row, typename T, int kDims>
gd_status count_within(Steps &steps, const gd_neighbors &call, Plan<T, kDims> &plan, gd_error *err);

}  // namespace boxes
}  // namespace gd
#endif
