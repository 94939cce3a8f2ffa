/* boxes.cu: the nearest points of points with few dimensions, without most of their distances.
 *
 * Idea: points that follow each other on a curve through space are near each other. 32 of them have
 * a box, 32 of these have one, and so on; a row of A goes to the nearest box first, and passes over
 * one that is further away than the last of its list (plan.cuh, which says why that is exact). As
 * on the CPU (cpu/neighbors_boxes.c), but for the curve: a sort takes the place of splits at
 * medians.
 *
 * Floor of 1,000,000 x 1,000,000, d = 3, k = 16, float32, on an H200: of uniform points a row looks
 * at 6 groups and 8 leaves, each some 40 instructions, and to know a limit and put what is within
 * it in order takes 500: 1.2 ms where one is issued at once. All that comes before the search
 * passes some 0.3 GB, most of them for the sort.
 *
 * Of 300,000 uniform points a row looks at 5 leaves at d = 2, 35 at d = 5 and 165 at d = 8, k = 10.
 * Where it looks at all of them a pair takes two instructions, and no memory but the cache: not
 * much longer than in a panel of distances.
 *
 * Reached on an H200 (d76ccf4), float32, k = 16 unless said, ms: 1,000,000 uniform points among
 * themselves d = 2 1.5, d = 3 2.4 (k = 1 1.4, k = 20 3.0, k = 64 11.7; float64 3.8), d = 4 5.8, d =
 * 5 9.5, d = 8 54; d = 3 of 64 clusters 3.4, all equal 8.3, with heavy tails 55. 10,000 rows among
 * 1,000,000, d = 3, k = 16 0.5, and among those that a set keeps 0.3. Of the 2.4 the search is 2.1,
 * and all before it 0.2. 524,288 uniform points, d = 3, within a radius with 39 neighbours
 * each: 2.2, of which 0.7 count, 0.9 list and 0.2 arrange them; the number of pairs 1.1, by 20
 * radii 2.0. Later, on an H100, where these took 2.5 and 1.3: 2.35 and 1.04, as a row itself and
 * points that equal it are counted without their distance; and all of it in a periodic box
 * (images.cuh) 2.9 and 1.3, the 16 nearest 1.8 where it is 1.35 without. */
#if defined(__GNUC__) && !defined(__clang__)
/* By -O1, of code for several generations, gcc takes an object of CUB's for one without values. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

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

cudaError_t scan_counts(void *memory, size_t *bytes, const int *counts, int64_t *starts,
                        unsigned rows, int64_t base, void *stream)
{
    return cub::DeviceScan::ExclusiveScan(memory, *bytes, counts, starts, cuda::std::plus<>{}, base,
                                          (int64_t)rows + 1, (cudaStream_t)stream);
}

}  // namespace boxes
}  // namespace gd

extern "C" gd_status gd_cuda_neighbors_boxes(gd_neighbors *call, gd_error *err)
{
    using namespace gd::boxes;
    if (call->b.cols < 1 || call->b.cols > kMostDims || call->b.rows > GD_POINTS_MOST ||
        call->ranked.most > GD_BOXES_NEIGHBORS) {
        return GD_FAIL(
            err, GD_BAD_VALUE,
            "%s looks for up to %d neighbours among up to %d points of up to %d dimensions", kId,
            GD_BOXES_NEIGHBORS, GD_POINTS_MOST, kMostDims);
    }
    return gd::with_float_type(call->b.dtype, [&](auto type) { return find(call, type, err); });
}
