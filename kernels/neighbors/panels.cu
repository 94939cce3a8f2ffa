/* panels.cu: looks through panels of distances for neighbours of their rows.
 *
 * Idea: nearly no element is a neighbour. A row's list has a bound after its first few hundred
 * columns that one element in thousands is within, so a warp reads 256 columns of its row, holds
 * each against the bound, and asks whether any was within by one vote; only then are they looked at
 * 32 by 32. Up to 32 neighbours lie in the lanes of the warp (warp_list.cuh); of more, candidates
 * gather in a block's shared memory and are merged into the list where it lies, sorted
 * (block_list.cuh). Lists have the form of the result, so that it is complete after the last panel.
 * All elements within a radius are counted, then written (within.cuh); pairs are counted by
 * distance (census.cuh).
 *
 * Few rows would leave most of the device idle: a row is then cut into segments, each with a list
 * of its own, and what those lists have is merged into the row's by the same kernels, for which it
 * is a panel of distances with their indices beside them.
 *
 * Bound: a panel is read once. 1e10 float32 are 40 GB, which take 8.5 ms at 4.7 TB/s; the kernels
 * of cdist write as much before.
 *
 * Launch: blocks of 256 threads, a warp or a block a segment. */
#include <algorithm>
#include <cmath>

#include "neighbors/block_list.cuh"
#include "neighbors/census.cuh"
#include "neighbors/warp_list.cuh"
#include "neighbors/within.cuh"

namespace {

using gd::kAll;
using gd::kWarp;
using gd::Panel;
using gd::Segment;

constexpr const char *kId = "neighbors/cuda_panels";
constexpr int kWarpThreads = 256, kWarps = kWarpThreads / kWarp, kWarpDeep = 8;
constexpr ptrdiff_t kStep = 1024;       /* columns of segments are so many times a whole number */
constexpr ptrdiff_t kLongest = 1 << 24; /* columns of a segment, which shared counts can hold */

/* Lists that a kernel fills, one a segment of the panel. They are `fresh`, or go on. `whole` are
 * those of rows so far, where the panel is cut, or has no distances. */
template <typename T>
struct Lists {
    T *distances;
    int64_t *indices;
    ptrdiff_t most;
    const int64_t *starts;
    bool fresh;
    const T *whole;
    const int64_t *whole_indices;

    /* The largest key that a list in the making may have. */
    template <bool kLarger>
    __device__ __forceinline__ T limit(const gd::Limits<T> &limits, ptrdiff_t row) const
    {
        const T limit = limits.key(row);
        const ptrdiff_t last = row * most + most - 1;
        return whole != NULL && whole_indices[last] >= 0
                   ? gd::below(gd::key_of<kLarger>(whole[last]))
                   : limit;
    }
};

template <typename T, bool kLarger>
__global__ void __launch_bounds__(kWarpThreads)
    rank_by_warps(const __grid_constant__ Panel<T> panel, gd::Limits<T> limits,
                  const __grid_constant__ Lists<T> to)
{
    constexpr int kWidth = kWarpDeep * kWarp;
    const int lane = (int)(threadIdx.x % kWarp);
    const ptrdiff_t number = blockIdx.x * (ptrdiff_t)kWarps + threadIdx.x / kWarp;
    const ptrdiff_t row = number / panel.segments;
    if (row >= panel.rows) {
        return;
    }
    const Segment<T> segment(panel, row, number % panel.segments);
    T *const distances = to.distances + number * to.most;
    int64_t *const indices = to.indices + number * to.most;
    gd::WarpList<T> list((int)to.most, to.template limit<kLarger>(limits, row));
    if (!to.fresh) {
        list.template load<kLarger>(distances, indices);
    }
    for (ptrdiff_t column = 0; column < segment.cols; column += kWidth) {
        if (column + kWidth <= segment.cols &&
            !__any_sync(kAll, gd::any_within<kLarger, kWarpDeep, kWarp>(segment.at + column + lane,
                                                                        list.bound))) {
            continue;
        }
#pragma unroll 1
        for (ptrdiff_t at = column; at < column + kWidth; at += kWarp) {
            const T key = segment.template key<kLarger>(at + lane);
            list.take(key, key <= list.bound ? segment.index(at + lane) : gd::kNobody);
        }
    }
    list.template store<kLarger>(distances, indices);
}

template <typename T, bool kLarger>
__global__ void __launch_bounds__(gd::kListThreads)
    rank_by_blocks(const __grid_constant__ Panel<T> panel, gd::Limits<T> limits,
                   const __grid_constant__ Lists<T> to)
{
    using List = gd::BlockList<T, kLarger>;
    __shared__ typename List::Shared shared;
    const ptrdiff_t number = blockIdx.x, row = number / panel.segments;
    const Segment<T> segment(panel, row, number % panel.segments);
    const int64_t start = to.starts != NULL ? to.starts[row] : number * to.most;
    const int64_t most = to.starts != NULL ? to.starts[row + 1] - start : to.most;
    List list(shared, to.distances + start, to.indices + start, most,
              to.template limit<kLarger>(limits, row), to.fresh);
    for (ptrdiff_t column = 0; column < segment.cols; column += List::kStep) {
        const ptrdiff_t mine = column + threadIdx.x;
        const bool any =
            column + List::kStep > segment.cols ||
            gd::any_within<kLarger, List::kDeep, gd::kListThreads>(segment.at + mine, list.bound);
        if (!__syncthreads_or(any)) {
            continue;
        }
#pragma unroll 1
        for (ptrdiff_t at = mine; at < column + List::kStep; at += gd::kListThreads) {
            const T key = segment.template key<kLarger>(at);
            if (key <= list.bound) {
                list.add(key, (int)at);
            }
            if (list.open()) { /* all belong to it, until there is a bound */
                list.merge(segment, false);
            }
        }
        list.merge(segment, false);
    }
    list.merge(segment, true);
    if (to.fresh) {
        list.fill();
    }
}

/* Into how many segments rows are cut, so that there is work for all SMs: `each` are as many as an
 * SM takes at a time. No segment has fewer than so many columns, nor more than are allowed. */
gd_status cut(const gd_neighbors &call, int each, ptrdiff_t fewest, ptrdiff_t *segments,
              gd_error *err)
{
    int sms = 0;
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, call.launch.device.index));
    const ptrdiff_t rows = std::max(call.panel.rows, (ptrdiff_t)1), cols = call.panel.cols;
    const ptrdiff_t wanted = (ptrdiff_t)sms * each / rows;
    const ptrdiff_t length = std::max(cols / std::max(wanted, (ptrdiff_t)1), fewest);
    const ptrdiff_t whole = gd::ceil_div(std::max(length, (ptrdiff_t)1), kStep) * kStep;
    *segments = gd::ceil_div(cols, std::min(whole, kLongest));
    return GD_OK;
}

template <typename T>
Panel<T> panel_of(const gd_neighbors &call, ptrdiff_t segments)
{
    Panel<T> panel = {};
    panel.data = static_cast<const T *>(call.panel.data);
    panel.rows = call.panel.rows;
    panel.cols = call.panel.cols;
    panel.stride = call.panel.row_stride;
    panel.segments = segments;
    panel.length = gd::ceil_div(gd::ceil_div(panel.cols, segments), kStep) * kStep;
    panel.first = call.first;
    panel.own = call.self < 0 ? PTRDIFF_MIN / 2 : call.self - call.first;
    return panel;
}

/* ---------------------------------------------------------------- the nearest */

template <typename T, bool kLarger>
gd_status rank(const gd_neighbors &call, const Panel<T> &panel, const Lists<T> &to, gd_error *err)
{
    const gd::Limits<T> limits = {call.limits, NULL};
    const ptrdiff_t lists = panel.rows * panel.segments;
    if (to.most <= kWarp && to.starts == NULL) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, rank_by_warps<T, kLarger>, gd::ceil_div(lists, kWarps),
                                kWarpThreads, 0, panel, limits, to));
        return GD_OK;
    }
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, rank_by_blocks<T, kLarger>, lists, gd::kListThreads, 0,
                            panel, limits, to));
    return GD_OK;
}

/* Bytes of the lists of segments. */
template <typename T>
size_t bytes_of_lists(const gd_neighbors &call, ptrdiff_t segments)
{
    return segments > 1 ? (size_t)(call.panel.rows * segments * call.ranked.most) *
                              (sizeof(T) + sizeof(int64_t))
                        : 0;
}

template <typename T, bool kLarger>
gd_status rank_panel(gd_neighbors &call, gd_error *err)
{
    const gd_ranked &ranked = call.ranked;
    const bool by_warps = ranked.most <= kWarp;
    /* Segments' lists are together no longer than a segment. */
    const auto fewest = (ptrdiff_t)std::sqrt((double)call.panel.cols * (double)ranked.most);
    ptrdiff_t segments = 1;
    const gd_status status =
        ranked.starts != NULL ? GD_OK : cut(call, by_warps ? 64 : 8, fewest, &segments, err);
    if (status != GD_OK || call.launch.sizing) {
        call.launch.workspace_bytes = bytes_of_lists<T>(call, segments);
        return status;
    }
    if (bytes_of_lists<T>(call, segments) > call.launch.workspace_bytes) {
        segments = 1;
    }
    Panel<T> panel = panel_of<T>(call, segments);
    Lists<T> to = {};
    to.distances = static_cast<T *>(ranked.distances);
    to.indices = ranked.indices;
    to.most = ranked.most;
    to.starts = ranked.starts;
    to.fresh = call.first == 0;
    if (segments == 1) {
        return rank<T, kLarger>(call, panel, to, err);
    }
    const ptrdiff_t width = segments * ranked.most;
    Lists<T> parts = to;
    parts.indices = static_cast<int64_t *>(call.launch.workspace);
    parts.distances = reinterpret_cast<T *>(parts.indices + panel.rows * width);
    parts.fresh = true;
    parts.whole = to.fresh ? NULL : to.distances;
    parts.whole_indices = to.indices;
    const gd_status found = rank<T, kLarger>(call, panel, parts, err);
    panel.data = parts.distances;
    panel.indices = parts.indices;
    panel.cols = panel.stride = width;
    panel.segments = 1;
    panel.length = width;
    panel.own = PTRDIFF_MIN / 2;
    return found == GD_OK ? rank<T, kLarger>(call, panel, to, err) : found;
}

/* ---------------------------------------------------------------- within a radius; counts */

template <typename T, bool kLarger>
gd_status list_panel(gd_neighbors &call, gd_error *err)
{
    gd_listed &listed = call.listed;
    if (call.launch.sizing) {
        call.launch.workspace_bytes = 0;
        return cut(call, 64, kStep, &listed.segments, err);
    }
    const Panel<T> panel = panel_of<T>(call, listed.segments);
    const gd::Limits<T> limits = {call.limits, call.last};
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, gd::list_within<T, kLarger>,
                            gd::ceil_div(panel.rows * panel.segments, gd::kWithinThreads / kWarp),
                            gd::kWithinThreads, 0, panel, limits, listed));
    return GD_OK;
}

template <typename T, bool kLarger>
gd_status census_panel(gd_neighbors &call, gd_error *err)
{
    const gd::Bins bins = {call.bounds, call.bound_count};
    ptrdiff_t segments = 1;
    if (call.launch.sizing) {
        call.launch.workspace_bytes = 0;
        return GD_OK;
    }
    if (call.sums != NULL) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, gd::sum_bins<T, kLarger>,
                                gd::ceil_div(call.panel.rows, kWarp), kWarp, 0,
                                panel_of<T>(call, 1), bins, call.weights + call.first, call.sums));
        return GD_OK;
    }
    const gd_status status = cut(call, 64, kStep, &segments, err);
    const Panel<T> panel = panel_of<T>(call, segments);
    const ptrdiff_t copies =
        std::min(gd::kCensusRoom / std::max(bins.count, (ptrdiff_t)1), (ptrdiff_t)kWarp);
    if (status != GD_OK) {
        return status;
    }
    GD_CUDA_TRY(err, kId,
                gd::enqueue(call.launch, gd::count_bins<T, kLarger>,
                            gd::ceil_div(panel.rows * segments, gd::kCensusThreads / kWarp),
                            gd::kCensusThreads, 0, panel, bins, (int)copies, call.counts));
    return GD_OK;
}

template <typename T, bool kLarger>
gd_status look_through(gd_neighbors &call, gd_error *err)
{
    return call.ranked.most > 0   ? rank_panel<T, kLarger>(call, err)
           : call.bound_count > 0 ? census_panel<T, kLarger>(call, err)
                                  : list_panel<T, kLarger>(call, err);
}

}  // namespace

extern "C" gd_status gd_cuda_neighbors_panels(gd_neighbors *call, gd_error *err)
{
    return gd::with_float_type(call->panel.dtype, [&](auto type) {
        using T = decltype(type);
        return call->larger ? look_through<T, true>(*call, err)
                            : look_through<T, false>(*call, err);
    });
}
