/* tile.cuh: the register tile of differences: sums over dimensions for 8 x 8 pairs a thread, in the
 * direct form's order of additions, from slabs in shared memory. cdist/direct/tile.cu tells how it
 * came to be as it is. */
#ifndef GPUDIST_COMMON_TILE_CUH
#define GPUDIST_COMMON_TILE_CUH

#include "arch/registers.cuh"
#include "common/slab.cuh"

namespace gd {

/* A warp is 4 rows by 8 columns of threads, a block 4 warps below each other. A thread's rows touch
 * in the matrix; its columns are runs of one 16-byte store, 8 runs apart. */
template <typename T_, int kRows, typename OrderB = Order<kPerWord<T_> / 2, 8>>
struct Tile {
    using T = T_;
    static constexpr int word = kPerWord<T>, cell = kPerCell<T>;
    static constexpr int rows = kRows, cols = 8; /* of a thread */
    static constexpr int block_rows = 16 * rows, block_cols = 8 * cols;
    static constexpr int blocks = sizeof(T) == sizeof(float) && rows == 4 ? 4 : 3; /* at once */
    using Results = T[rows][cols];
    using SlabA = Slab<T, block_rows>;
    using SlabB = Slab<T, block_cols>;
    using LoaderA = Loader<T, block_rows, false, Order<rows / 2, 4>>;
    using LoaderB = Loader<T, block_cols, true, OrderB>;
};

/* Adds a cell of each of a thread's points, the dimensions that stand together in a slab, to its
 * sums. term(sum, a, b, s) adds the s-th of them. A word is two points (of both dimensions of the
 * cell). Of a warp's 32 words of b eight differ, side by side, and four of a: the others are
 * broadcasts. */
template <typename T, int kRows, int kCols, typename F>
__device__ __forceinline__ void add_cells(T (&sum)[kRows][kCols], const T *from_a, const T *from_b,
                                          F &&term)
{
    constexpr int kCell = kPerCell<T>;
    T a[kRows * kCell], b[kCols * kCell];
#pragma unroll
    for (int i = 0; i < kRows; i += 2) {
        load_word(from_a + i * 4 * kCell, a + i * kCell);
    }
#pragma unroll
    for (int j = 0; j < kCols; j += 2) {
        load_word(from_b + j * 8 * kCell, b + j * kCell);
    }
#pragma unroll
    for (int s = 0; s < kCell; ++s) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                /* The cells of b are swapped: dimension s stands at the other end. */
                sum[i][j] = term(sum[i][j], a[i * kCell + s], b[j * kCell + kCell - 1 - s], s);
            }
        }
    }
}

/* Adds `depth` dimensions of a slab, from `first` on, to a thread's sums, in ascending order. */
template <typename M, typename Shape>
__device__ __forceinline__ void add_slab(typename Shape::Results &sum,
                                         const typename Shape::SlabA &slab_a,
                                         const typename Shape::SlabB &slab_b, int first, int depth,
                                         unsigned thread)
{
    using T = typename Shape::T;
    constexpr int kRows = Shape::rows, kCell = Shape::cell;
    constexpr int kStep = Shape::word / kCell; /* rows of the slab in a turn of the loop */
    constexpr int kPitchA = sizeof slab_a[0] / sizeof(T), kPitchB = sizeof slab_b[0] / sizeof(T);
    const T *from_a =
        &slab_a[first / kCell][(thread / 32 * 4 * kRows + thread % 32 / 8 * 2) * kCell];
    const T *from_b = &slab_b[first / kCell][thread % 8 * 2 * kCell];
    /* The end of the loop as an address saves the register of a counter. */
    const T *const end = from_a + ceil_div(depth, Shape::word) * kStep * kPitchA;
#pragma unroll 1
    while (from_a != end) {
#pragma unroll
        for (int step = 0; step < kStep; ++step) {
            add_cells(sum, from_a, from_b, [](T x, T a, T b, int) { return M::term(x, a, b); });
            from_a += kPitchA;
            from_b += kPitchB;
        }
    }
}

/* Adds two rows of a slab, four dimensions, to the sums of 8 x 8 pairs, or to nothing: these are
 * added to each other first, which costs no more additions. K has first(a, b, weight), what a
 * dimension makes of nothing, and join. */
template <typename K, bool kFresh, int kPitchA, int kPitchB>
__device__ __forceinline__ void add_fours(float (&sum)[8][8], const float *from_a,
                                          const float *from_b)
{
    constexpr int kRows = 8, kCols = 8;
    float a[2][kRows * 2];
#pragma unroll
    for (int i = 0; i < kRows; i += 2) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            load_word(from_a + row * kPitchA + i * 4 * 2, a[row] + i * 2);
        }
    }
    /* All of b beside all of a would need more registers than there are. */
#pragma unroll
    for (int j = 0; j < kCols; j += 2) {
        float b[2][4];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            load_word(from_b + row * kPitchB + j * 8 * 2, b[row]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float four = K::first(a[0][i * 2], b[0][e * 2 + 1], 0.0f);
                four = K::join(four, K::first(a[0][i * 2 + 1], b[0][e * 2], 0.0f));
                four = K::join(four, K::first(a[1][i * 2], b[1][e * 2 + 1], 0.0f));
                four = K::join(four, K::first(a[1][i * 2 + 1], b[1][e * 2], 0.0f));
                sum[i][j + e] = kFresh ? four : K::join(sum[i][j + e], four);
            }
        }
    }
}

}  // namespace gd
#endif
