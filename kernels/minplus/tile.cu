/* tile.cu: matrix products over semirings, of any shape.
 *
 * Idea: the operands are packed once into panels of pairs (pack.cuh), and the panels multiplied
 * tile by tile (product.cuh). Nothing rounds but the sums themselves, and a minimum does not depend
 * on the order: so a result depends on its row of A and on B alone, whatever the tiles. And as all
 * is packed before anything is written, the result may take the place of an operand.
 *
 * Packing also finds out whether a number is negative. If none is, float32 sums are compared as
 * integers, two at a time with the result so far. And int32 is packed in 16 bits first: if all
 * numbers are small, an instruction makes two updates, and the kernels of the other form find a
 * flag and end; if not, that of this form does. So the device decides which loop runs,
 * without the host, and that does not change a bit of the result.
 *
 * The last wave: where the tiles that are left for it would leave SMs idle, they are cut in two.
 *
 * Reached on an H200 with packing, 1e12 updates/s, for 8192 x 8192 x 8192 (2048 x 2048 x 2048):
 * min_plus float32 17.2 (15.1), with negative numbers 13.4 (12.1), int32 17.6, of numbers within
 * +-8191 31.3 (25.4), float64 5.1; min_max float32 10.5; or_and of 16384 470. Packing takes 0.31 of
 * the 31.9 ms of the first. Without halves in the last wave they were 17.0 (14.8), 13.3 (10.8),
 * 17.3 and 30.9. Of few k, as many as a turn of the inner loop takes cost as much: 8, or 256
 * truths. */
#include <algorithm>

#include "card.h"
#include "minplus/product.cuh"

namespace {

using gd::Pair;

constexpr const char *kId = "minplus/cuda_tile";
constexpr size_t kMarksBytes = 256;   /* two int32_t, before the panels */
constexpr double kHalvesUpTo = 0.75;  /* of a wave; of more, tiles in two take longer */
constexpr double kBandSteps = 0x1p40; /* 70 ms of an H200 in float32, so no tail is felt */

ptrdiff_t padded(ptrdiff_t lines) { return gd::ceil_div(lines, gd::kWideLines) * gd::kWideLines; }

/* Pairs of words of a line, in whole turns of the inner loop. */
template <typename Ring>
ptrdiff_t pairs_of(ptrdiff_t depth)
{
    constexpr int kPairsATime = 4;
    return gd::ceil_div(depth, 2 * kPairsATime * (ptrdiff_t)Ring::kElements) * kPairsATime;
}

template <bool kWide, typename Ring>
gd_status enqueue_pack(const gd_minplus &call, const gd::Product<Ring> &p, int32_t *flagged,
                       gd_error *err)
{
    const ptrdiff_t padded_rows = padded(call.out.rows), padded_cols = padded(call.out.cols);
    using Element = typename Ring::Element;
    using Word = typename Ring::Word;
    using Panel = Pair<Word> *;
    const gd_matrix &a = call.a, &b = call.b;
    const ptrdiff_t pairs = (ptrdiff_t)p.slabs * gd::kProductSlabPairs<Word>;
    const gd::Packing<Ring> left = {
        {static_cast<const Element *>(a.data), a.rows, a.cols, a.row_stride, a.col_stride},
        const_cast<Panel>(p.left),
        padded_rows,
        kWide ? p.halved : 0,
        pairs};
    const gd::Packing<Ring> right = {
        {static_cast<const Element *>(b.data), b.cols, b.rows, b.col_stride, b.row_stride},
        const_cast<Panel>(p.right),
        padded_cols,
        kWide ? padded_cols : 0,
        pairs};
    const ptrdiff_t deep = gd::ceil_div(2 * p.pairs, gd::kPackWords<Word>);
    const ptrdiff_t left_blocks = padded_rows / gd::kPackLines * deep;
    const ptrdiff_t right_blocks = padded_cols / gd::kPackLines * deep;
    if (deep > 0) {
        GD_CUDA_TRY(err, kId,
                    gd::enqueue(call.launch, gd::pack_pairs<Ring>, left_blocks + right_blocks,
                                gd::kPackThreads, 0, left, right, (unsigned)left_blocks, p.flip,
                                flagged, p.gate));
    }
    return GD_OK;
}

/* Enqueues `rows` rows of a result from `first` on. */
template <bool kWide, typename Ring>
cudaError_t enqueue_band(const gd_minplus &call, const gd::Product<Ring> &whole, ptrdiff_t first,
                         ptrdiff_t rows)
{
    using Tile = typename gd::ProductShape<Ring, kWide>::Tile;
    constexpr size_t kShared = gd::ProductStream<Ring, kWide>::kSharedBytes;
    const auto kernel = gd::multiply<Ring, kWide>;
    const ptrdiff_t across = gd::ceil_div(whole.cols, Tile::kBlockCols);
    gd::Product<Ring> p = whole;
    p.rows = rows;
    p.halved = std::max(whole.halved - first, (ptrdiff_t)0);
    p.left += first * whole.slabs * gd::kProductSlabPairs<typename Ring::Word>;
    p.out += first * p.out_stride;
    p.c += p.c != NULL ? first * p.c_row_stride : 0;
    ptrdiff_t halves = 0;
    if constexpr (kWide) {
        constexpr int kHalf = gd::ProductShape<Ring, kWide>::Half::kBlockRows;
        halves = gd::ceil_div(std::max(rows - p.halved, (ptrdiff_t)0), kHalf) * across;
    }
    const ptrdiff_t tiles = gd::ceil_div(halves > 0 ? p.halved : rows, Tile::kBlockRows) * across;
    return gd::enqueue(call.launch, kernel, tiles + halves, Tile::kThreads, kShared, p,
                       (unsigned)across, (unsigned)tiles);
}

/* Enqueues a product in bands of rows of the result, so that somebody may look in between. Each
 * band is computed by every form that has a gate, one of which is open. */
template <bool kWide, typename Ring, typename... More>
gd_status enqueue_product(const gd_minplus &call, gd_error *err, const gd::Product<Ring> &p,
                          const gd::Product<More> &...more)
{
    constexpr int kTileRows = gd::ProductShape<Ring, kWide>::Tile::kBlockRows;
    const double steps = (double)p.cols * (double)(call.a.cols / Ring::kElements + 1);
    const ptrdiff_t fair = ((ptrdiff_t)(kBandSteps / steps) / kTileRows + 1) * kTileRows;
    const ptrdiff_t band = call.launch.watch != NULL && fair < p.rows ? fair : p.rows;
    gd_status status = GD_OK;
    for (ptrdiff_t first = 0; first < p.rows && status == GD_OK; first += band) {
        const ptrdiff_t rows = p.rows - first < band ? p.rows - first : band;
        for (const cudaError_t code : {enqueue_band<kWide>(call, p, first, rows),
                                       enqueue_band<kWide>(call, more, first, rows)...}) {
            GD_CUDA_TRY(err, kId, code);
        }
        status = gd_pass(&call.launch, (double)(first + rows) / (double)p.rows, err);
    }
    return status;
}

/* How a result is cut into tiles. */
struct Form {
    bool wide;        /* in tiles of 128 x 128, of which an SM takes two at a time */
    bool words;       /* there are instructions for halves of a word */
    ptrdiff_t halved; /* the row from which on wide tiles are cut in two */
};

/* Wide tiles need enough of them for all SMs, and shared memory. What would be left for a last wave
 * that does not fill the SMs is cut in two: then they all have something to do until the end. */
template <typename Ring>
gd_status choose_form(const gd_minplus &call, Form *form, gd_error *err)
{
    int sms = 0, shared_bytes = 0;
    const int device = call.launch.device.index;
    const ptrdiff_t across = gd::ceil_div(call.out.cols, gd::kWideLines);
    const ptrdiff_t tiles = gd::ceil_div(call.out.rows, gd::kWideLines) * across;
    GD_CUDA_TRY(err, kId, cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    GD_CUDA_TRY(
        err, kId,
        cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    form->wide = sizeof(typename Ring::Word) == 4 && tiles >= sms * 3 / 2 &&
                 (size_t)shared_bytes >= gd::ProductStream<gd::PlusUnsigned, true>::kSharedBytes;
    form->words = gd_has_halfwords(call.launch.device);
    const ptrdiff_t wave = 2 * sms, left = tiles % wave;
    form->halved = tiles < wave || left <= wave * kHalvesUpTo
                       ? (tiles - left) / across * gd::kWideLines
                       : padded(call.out.rows);
    return GD_OK;
}

template <typename Ring>
gd::Product<Ring> describe(const gd_minplus &call, const Form &form, bool flip,
                           const int32_t *flagged, gd::Gate gate)
{
    using Word = typename Ring::Word;
    using Element = typename Ring::Element;
    gd::Product<Ring> p = {};
    p.pairs = pairs_of<Ring>(call.a.cols);
    p.slabs = (int)gd::ceil_div(p.pairs, gd::kProductSlabPairs<Word>);
    p.left =
        reinterpret_cast<Pair<Word> *>(static_cast<char *>(call.launch.workspace) + kMarksBytes);
    p.right = p.left + padded(call.out.rows) * p.slabs * gd::kProductSlabPairs<Word>;
    p.rows = call.out.rows;
    p.cols = call.out.cols;
    p.halved = form.halved;
    p.c = static_cast<const Element *>(call.c.data);
    p.c_row_stride = call.c.row_stride;
    p.c_col_stride = call.c.col_stride;
    p.out = static_cast<Element *>(call.out.data);
    p.out_stride = call.out.row_stride;
    p.flip = flip;
    p.flagged = flagged;
    p.gate = gate;
    return p;
}

template <typename Ring>
gd_status run(gd_minplus &call, bool flip, gd_error *err)
{
    using Word = typename Ring::Word;
    constexpr int kSlabPairs = gd::kProductSlabPairs<Word>;
    if (call.launch.sizing) {
        const ptrdiff_t slabs = gd::ceil_div(pairs_of<Ring>(call.a.cols), kSlabPairs);
        call.launch.workspace_bytes =
            kMarksBytes + (size_t)(padded(call.out.rows) + padded(call.out.cols)) *
                              (size_t)(slabs * kSlabPairs) * sizeof(Pair<Word>);
        return GD_OK;
    }
    Form form = {};
    gd_status status = choose_form<Ring>(call, &form, err);
    if (status != GD_OK) {
        return status;
    }
    int32_t *const flags = static_cast<int32_t *>(call.launch.workspace);
    int32_t *const flagged = call.out_of_range != NULL ? call.out_of_range : flags;
    GD_CUDA_TRY(err, kId,
                cudaMemsetAsync(flagged, 0, sizeof *flagged, (cudaStream_t)call.launch.stream));
    if constexpr (std::is_same<Ring, gd::Plus<int32_t>>::value) {
        if (form.wide && form.words) { /* enough work for the device to find out if all is small */
            int32_t *const large = flags + 1;
            GD_CUDA_TRY(err, kId,
                        cudaMemsetAsync(large, 0, sizeof *large, (cudaStream_t)call.launch.stream));
            const auto narrow = describe<gd::PlusNarrow>(call, form, flip, large, {large, false});
            const auto p = describe<Ring>(call, form, flip, flagged, {large, true});
            status = enqueue_pack<true>(call, narrow, large, err);
            status = status == GD_OK ? enqueue_pack<true>(call, p, flagged, err) : status;
            return status == GD_OK ? enqueue_product<true>(call, err, p, narrow) : status;
        }
    }
    const auto p = describe<Ring>(call, form, flip, flagged, {NULL, false});
    if constexpr (sizeof(Word) == 4) {
        if (form.wide) {
            status = enqueue_pack<true>(call, p, flagged, err);
            return status == GD_OK ? enqueue_product<true>(call, err, p) : status;
        }
    }
    status = enqueue_pack<false>(call, p, flagged, err);
    return status == GD_OK ? enqueue_product<false>(call, err, p) : status;
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
