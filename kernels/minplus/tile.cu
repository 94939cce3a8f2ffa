/* tile.cu: matrix products over semirings, of any shape.
 *
 * Idea: the operands are packed once into panels of pairs (pack.cuh), and the panels multiplied
 * tile by tile (product.cuh). Nothing rounds but the sums themselves, and a minimum does not depend
 * on the order: so a result depends on its row of A and on B alone, whatever the tiles. And as all
 * is packed before anything is written, the result may take the place of an operand.
 *
 * Packing also finds out whether a number is negative. If none is, float32 sums are compared as
 * integers, two at a time with the result so far; which loop runs is decided on the device, without
 * the host, and does not change a bit of the result.
 *
 * Reached on an H200 with packing, 1e12 updates/s, for 8192 x 8192 x 8192 (2048 x 2048 x 2048):
 * min_plus float32 16.6 (14.1), with negative numbers 12.8 (10.3), int32 15.4 (13.5), float64 5.1
 * (4.8); min_max float32 10.5 (9.6); or_and 418 (178). Packing takes 0.46 of the 33 ms of the
 * first. Of few k, as many as a turn of the inner loop takes cost as much: 8, or 256 truths. */
#include "minplus/product.cuh"

namespace {

using gd::Pair;

constexpr const char *kId = "minplus/cuda_tile";
constexpr size_t kMarksBytes = 256;   /* one int32_t, before the panels */
constexpr double kBandSteps = 0x1p40; /* 70 ms of an H200 in float32, so no tail is felt */

template <typename Ring>
gd_status enqueue_pack(const gd_minplus &call, const gd::Product<Ring> &p, ptrdiff_t padded_rows,
                       ptrdiff_t padded_cols, ptrdiff_t width, int32_t *marked, gd_error *err)
{
    using Element = typename Ring::Element;
    using Word = typename Ring::Word;
    using Panel = Pair<Word> *;
    const gd_matrix &a = call.a, &b = call.b;
    const ptrdiff_t pairs = (ptrdiff_t)p.slabs * gd::kProductSlabPairs<Word>;
    const gd::Packing<Ring> left = {
        {static_cast<const Element *>(a.data), a.rows, a.cols, a.row_stride, a.col_stride},
        const_cast<Panel>(p.left),
        padded_rows,
        width,
        pairs};
    const gd::Packing<Ring> right = {
        {static_cast<const Element *>(b.data), b.cols, b.rows, b.col_stride, b.row_stride},
        const_cast<Panel>(p.right),
        padded_cols,
        width,
        pairs};
    const ptrdiff_t deep = gd::ceil_div(2 * p.pairs, gd::kPackWords);
    const ptrdiff_t left_blocks = padded_rows / gd::kPackLines * deep;
    const ptrdiff_t right_blocks = padded_cols / gd::kPackLines * deep;
    if (deep > 0) {
        GD_CUDA_TRY(
            err, kId,
            gd::enqueue(call.launch, gd::pack_pairs<Ring>, left_blocks + right_blocks,
                        gd::kPackThreads, 0, left, right, (unsigned)left_blocks, p.flip, marked));
    }
    return GD_OK;
}

/* In bands of rows of the result, so that somebody may look in between. */
template <typename Ring, bool kWide>
gd_status enqueue_product(const gd_minplus &call, const gd::Product<Ring> &whole, gd_error *err)
{
    using Tile = typename gd::ProductShape<Ring, kWide>::Tile;
    constexpr size_t kShared = gd::ProductStream<Ring, kWide>::kSharedBytes;
    const auto kernel = gd::multiply<Ring, kWide>;
    const ptrdiff_t across = gd::ceil_div(whole.cols, Tile::kBlockCols);
    const double steps = (double)whole.cols * (double)(call.a.cols / Ring::kElements + 1);
    const ptrdiff_t fair = (ptrdiff_t)(kBandSteps / steps) / Tile::kBlockRows + 1;
    const ptrdiff_t band = call.launch.watch != NULL && fair * Tile::kBlockRows < whole.rows
                               ? fair * Tile::kBlockRows
                               : whole.rows;
    gd_status status = GD_OK;
    GD_CUDA_TRY(
        err, kId,
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kShared));
    for (ptrdiff_t first = 0; first < whole.rows && status == GD_OK; first += band) {
        gd::Product<Ring> p = whole;
        p.rows = whole.rows - first < band ? whole.rows - first : band;
        p.left += first * whole.slabs * gd::kProductSlabPairs<typename Ring::Word>;
        p.out += first * p.out_stride;
        p.c += p.c != NULL ? first * p.c_row_stride : 0;
        const ptrdiff_t down = gd::ceil_div(p.rows, Tile::kBlockRows);
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, kernel, down * across, Tile::kThreads, kShared, p,
                                (unsigned)across));
        status = gd_pass(&call.launch, (double)(first + p.rows) / (double)whole.rows, err);
    }
    return status;
}

/* Whether the result has enough tiles of 128 x 128 for all SMs, of which each takes two at a time,
 * and the device the shared memory for them. */
template <typename Ring>
gd_status choose_width(const gd_minplus &call, bool *wide, gd_error *err)
{
    int sms = 0, shared_bytes = 0;
    const int device = call.launch.device.index;
    GD_CUDA_TRY(err, kId, cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    *wide = sizeof(typename Ring::Word) == 4 &&
            gd::ceil_div(call.out.rows, 128) * gd::ceil_div(call.out.cols, 128) >= sms * 3 / 2 &&
            (size_t)shared_bytes >= gd::ProductStream<gd::PlusUnsigned, true>::kSharedBytes;
    return GD_OK;
}

template <typename Ring>
gd_status run(gd_minplus &call, bool flip, gd_error *err)
{
    using Word = typename Ring::Word;
    using Element = typename Ring::Element;
    constexpr int kSlabPairs = gd::kProductSlabPairs<Word>, kPairsATime = 4;
    const ptrdiff_t padded_rows = gd::ceil_div(call.out.rows, gd::kPaddedLines) * gd::kPaddedLines;
    const ptrdiff_t padded_cols = gd::ceil_div(call.out.cols, gd::kPaddedLines) * gd::kPaddedLines;
    gd::Product<Ring> p = {};
    p.pairs = gd::ceil_div(call.a.cols, 2 * kPairsATime * (ptrdiff_t)Ring::kElements) * kPairsATime;
    p.slabs = (int)gd::ceil_div(p.pairs, kSlabPairs);
    const ptrdiff_t panel_pairs = (ptrdiff_t)p.slabs * kSlabPairs;
    if (call.launch.sizing) {
        call.launch.workspace_bytes = kMarksBytes + (size_t)(padded_rows + padded_cols) *
                                                        (size_t)panel_pairs * sizeof(Pair<Word>);
        return GD_OK;
    }

    bool wide = false;
    gd_status status = choose_width<Ring>(call, &wide, err);
    if (status != GD_OK) {
        return status;
    }
    char *const workspace = static_cast<char *>(call.launch.workspace);
    int32_t *const marked =
        call.out_of_range != NULL ? call.out_of_range : reinterpret_cast<int32_t *>(workspace);
    p.left = reinterpret_cast<Pair<Word> *>(workspace + kMarksBytes);
    p.right = p.left + padded_rows * panel_pairs;
    p.rows = call.out.rows;
    p.cols = call.out.cols;
    p.c = static_cast<const Element *>(call.c.data);
    p.c_row_stride = call.c.row_stride;
    p.c_col_stride = call.c.col_stride;
    p.out = static_cast<Element *>(call.out.data);
    p.out_stride = call.out.row_stride;
    p.flip = flip;
    p.marked = marked;
    GD_CUDA_TRY(err, kId,
                cudaMemsetAsync(marked, 0, sizeof *marked, (cudaStream_t)call.launch.stream));
    status = enqueue_pack(call, p, padded_rows, padded_cols, wide ? 128 : 64, marked, err);
    if (status != GD_OK) {
        return status;
    }
    if constexpr (sizeof(Word) == 4) {
        if (wide) {
            return enqueue_product<Ring, true>(call, p, err);
        }
    }
    return enqueue_product<Ring, false>(call, p, err);
}

template <template <typename> class Ring>
gd_status run_numbers(gd_minplus &call, bool flip, gd_error *err)
{
    switch (call.out.dtype) {
        case GD_F32:
            return run<Ring<float>>(call, flip, err);
        case GD_F64:
            return run<Ring<double>>(call, flip, err);
        default:
            return run<Ring<int32_t>>(call, flip, err);
    }
}

}  // namespace

extern "C" gd_status gd_cuda_minplus_tile(gd_minplus *call, gd_error *err)
{
    switch (call->semiring) {
        case GD_OR_AND:
            return run<gd::OrAnd>(*call, false, err);
        case GD_MIN_PLUS:
        case GD_MAX_PLUS:
            return run_numbers<gd::Plus>(*call, call->semiring == GD_MAX_PLUS, err);
        default:
            return run_numbers<gd::Larger>(*call, call->semiring == GD_MAX_MIN, err);
    }
}
