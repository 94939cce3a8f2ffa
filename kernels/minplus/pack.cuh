/* pack.cuh: the operands of a product, laid out as its inner loop reads them.
 *
 * Idea: a panel holds pairs of neighbouring k for every line, which is a row of A or a column of B,
 * padded with neutral elements to whole tiles (semiring/tile.cuh says why pairs). A tile's lines
 * lie together, pair after pair, so that what a block reads is one piece of memory. So the product
 * itself needs no bounds, strides or alignment, and elements are tidied once instead of every time
 * that they are read.
 *
 * Cost: each operand is read and written once, 16 bytes an element of both in float32: 0.26 ms for
 * two matrices of 8192 x 8192, which takes 0.31 ms on an H200.
 *
 * Launch: 256 threads a block for 64 lines and a slab of k, turned over in shared memory, so that
 * both reading, along whichever of the two is dense, and writing are in runs. */
#ifndef GPUDIST_MINPLUS_PACK_CUH
#define GPUDIST_MINPLUS_PACK_CUH

#include "semiring/rings.cuh"

namespace gd {

/* Slabs of a product are long: half as long cost 2 %. A block packs one of half a tile. */
template <typename Word>
constexpr int kProductSlabPairs = sizeof(Word) == 4 ? 16 : 8;
template <typename Word>
constexpr int kPackWords = 2 * kProductSlabPairs<Word>;
constexpr int kPackThreads = 256, kPackLines = 64;
constexpr int kWideLines = 128; /* of a wide tile; a narrow one has kPackLines */

/* One operand: `lines` rows of A or columns of B, `depth` elements each. */
template <typename T>
struct Lines {
    const T *data;
    ptrdiff_t lines, depth;
    ptrdiff_t line_stride, depth_stride; /* in elements */
};

/* The word that begins at `from`, of which `left` elements are there. */
template <typename Ring>
__device__ __forceinline__ typename Ring::Word word_at(const typename Ring::Element *from,
                                                       ptrdiff_t stride, int left, bool flip,
                                                       bool &flag)
{
    auto y = Ring::enter(*from, flip);
    flag |= Ring::flags(*from, y, flip);
    if constexpr (Ring::kElements > 1) {
        constexpr int kBits = 32 / Ring::kElements;
        const int count = left < Ring::kElements ? left : Ring::kElements;
        if (count < Ring::kElements) { /* behind the last one all is neutral */
            y |= (unsigned)Ring::neutral() << kBits;
        }
        for (int e = 1; e < count; ++e) {
            const auto z = Ring::enter(from[e * stride], flip);
            flag |= Ring::flags(from[e * stride], z, flip);
            y |= (unsigned)z << e * kBits;
        }
    }
    return y;
}

/* Where a panel comes from and goes to. */
template <typename Ring>
struct Packing {
    Lines<typename Ring::Element> x;
    Pair<typename Ring::Word> *to;
    ptrdiff_t padded, wide; /* lines in all; so many of them in wide tiles, the others in narrow */
    ptrdiff_t pairs;        /* of words of each line */
};

/* Whether a kernel has anything to do, where the device decides between two forms. */
struct Gate {
    const int32_t *flag; /* NULL if there is one form only */
    bool when;           /* the flag is set */
    __device__ __forceinline__ bool open() const { return flag == NULL || (*flag != 0) == when; }
};

/* Packs both panels, of `words` words a line: the first `left_blocks` blocks A, the others B, where
 * pairs are {k + 1, k}. *flagged becomes 1 if an element raises the flag. */
template <typename Ring>
__global__ void __launch_bounds__(kPackThreads)
    pack_pairs(const __grid_constant__ Packing<Ring> left,
               const __grid_constant__ Packing<Ring> right, unsigned left_blocks, bool flip,
               int32_t *flagged, Gate gate)
{
    using Word = typename Ring::Word;
    constexpr int kWords = kPackWords<Word>;
    __shared__ Word tile[kPackLines][kWords + 1]; /* spreads columns out */
    if (!gate.open()) {
        return;
    }
    const bool is_right = blockIdx.x >= left_blocks;
    const Packing<Ring> panel = is_right ? right : left;
    const unsigned block = is_right ? blockIdx.x - left_blocks : blockIdx.x;
    const unsigned blocks_along = (unsigned)(panel.padded / kPackLines);
    const ptrdiff_t line0 = (ptrdiff_t)(block % blocks_along) * kPackLines;
    const int width = line0 < panel.wide ? kWideLines : kPackLines;
    const ptrdiff_t tile0 = line0 & -(ptrdiff_t)width;
    const ptrdiff_t word0 = (ptrdiff_t)(block / blocks_along) * kWords;
    /* Neighbouring threads read along whichever is dense. */
    const bool along_depth = panel.x.depth_stride == 1;
    const int thread = threadIdx.x;
    const int line = along_depth ? thread / kWords : thread % kPackLines;
    const int word = along_depth ? thread % kWords : thread / kPackLines;
    const int line_step = along_depth ? kPackThreads / kWords : 0;
    const int word_step = along_depth ? 0 : kPackThreads / kPackLines;
    const auto &x = panel.x;
    const ptrdiff_t first = word0 * Ring::kElements;
    const auto *from =
        x.data + (line0 + line) * x.line_stride + (first + word * Ring::kElements) * x.depth_stride;
    const ptrdiff_t step = line_step * x.line_stride + word_step * Ring::kElements * x.depth_stride;
    /* How many of this block's lines and elements there are. */
    const int lines = (int)min(x.lines - line0, (ptrdiff_t)kPackLines);
    const int depth = (int)min(x.depth - first, (ptrdiff_t)kWords * Ring::kElements);
    bool flag = false;
#pragma unroll
    for (int i = 0; i < kPackLines * kWords / kPackThreads; ++i) {
        const int at_line = line + i * line_step, at_word = word + i * word_step;
        const int left = depth - at_word * Ring::kElements;
        tile[at_line][at_word] =
            at_line < lines && left > 0
                ? word_at<Ring>(from + i * step, x.depth_stride, left, flip, flag)
                : Ring::neutral();
    }
    if (__syncthreads_or(flag) && threadIdx.x == 0) {
        *flagged = 1;
    }
    const int out_line = thread % kPackLines, out_word = thread / kPackLines * 2;
    constexpr int kOutStep = kPackThreads / kPackLines * 2;
    Pair<Word> *const to = panel.to + tile0 * panel.pairs + (line0 - tile0) +
                           (word0 + out_word) / 2 * width + out_line;
#pragma unroll
    for (int w = 0; w < kWords; w += kOutStep) {
        const auto *pair = &tile[out_line][out_word + w];
        to[w / 2 * width] = {pair[is_right], pair[!is_right]};
    }
}

}  // namespace gd
#endif
