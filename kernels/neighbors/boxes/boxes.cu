/* boxes.cu: the nearest points of points with few dimensions, without most of their distances.
 *
 * Idea: points that follow each other on a curve through space are near each other. 32 of them have
 * a box, 32 of these have one, and so on; a row of A goes to the nearest box first, and passes over
 * one that is further away than the last of its list (plan.cuh, which says why that is exact). As
 * on the CPU (cpu/neighbors_boxes.c), but for the curve: a sort takes the place of splits at
 * medians.
 *
 * Floor of 1,000,000 x 1,000,000, d = 3, k = 16, float32, on an H200: of uniform points a row looks
 * at 7 groups and 12 leaves, each some 50 instructions, and its list takes 800: 1.9 ms where one is
 * issued at once. All that comes before the search passes some 0.3 GB, most of them for the sort.
 *
 * Of 300,000 uniform points a row looks at 5 leaves at d = 2, 35 at d = 5 and 165 at d = 8, k = 10.
 * Where it looks at all of them a pair takes two instructions, and no memory but the cache: not
 * much longer than in a panel of distances.
 *
 * Reached on an H200 (3f9522e), float32, k = 16 unless said, ms: 1,000,000 uniform points among
 * themselves d = 2 2.5, d = 3 3.8 (k = 1 2.4, k = 64 12.6; float64 6.6), d = 4 7.6, d = 5 9.3, d =
 * 6 23, d = 8 61; d = 3 of 64 clusters 6.0, all equal 5.6, with heavy tails 33. 10,000 rows among
 * 1,000,000, d = 3, k = 10 0.36 to 0.47, where panels take 21. Of the 3.9 the search is 3.8, twice
 * the floor, and all before it 0.2. */
#include <cub/device/device_radix_sort.cuh>

#include "neighbors/boxes/run.cuh"

namespace gd {
namespace boxes {

cudaError_t sort_places(void *memory, size_t *bytes, const uint64_t *places,
                        uint64_t *sorted_places, const unsigned *numbers, unsigned *sorted,
                        unsigned count, int bits, void *stream)
{
    return cub::DeviceRadixSort::SortPairs(memory, *bytes, places, sorted_places, numbers, sorted,
                                           (int)count, std::max(bits - kSortedBits, 0), bits,
                                           (cudaStream_t)stream);
}

}  // namespace boxes
}  // namespace gd

extern "C" gd_status gd_cuda_neighbors_boxes(gd_neighbors *call, gd_error *err)
{
    using namespace gd::boxes;
    if (call->b.cols < 1 || call->b.cols > kMostDims || call->b.rows > GD_POINTS_MOST ||
        call->ranked.most > GD_POINTS_NEIGHBORS) {
        return GD_FAIL(
            err, GD_BAD_VALUE,
            "%s looks for up to %d neighbours among up to %d points of up to %d dimensions", kId,
            GD_POINTS_NEIGHBORS, GD_POINTS_MOST, kMostDims);
    }
    return gd::with_float_type(call->b.dtype, [&](auto type) { return find(call, type, err); });
}
