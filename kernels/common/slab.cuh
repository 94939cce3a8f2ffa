/* slab.cuh: how operands reach the shared memory of tile.cu.
 *
 * A slab holds kSlabDims dimensions of a tile's points, transposed: what the threads of a warp need
 * for one step lies side by side. It is made of cells of 8 bytes, two dimensions of a point in
 * float32 and one in float64, so that a thread's 16-byte word is a pair of points in both. */
#ifndef GPUDIST_COMMON_SLAB_CUH
#define GPUDIST_COMMON_SLAB_CUH

#include "common/metrics.cuh"

namespace gd {

/* Threads of a block, and dimensions or points in its parts. */
constexpr int kTileThreads = 128;
constexpr int kSlabDims = 32;
static_assert(kSlabDims % GD_FOLD == 0 && GD_GROUP % kSlabDims == 0,
              "folds fill slabs, slabs groups");
template <typename T>
constexpr int kPerCell = (int)(8 / sizeof(T));

/* A warp writes its cells to eight neighbouring places of four rows of the slab, and reads words
 * within one row. With two cells of padding neither of the two ever meets in a bank: a row then
 * starts 4 banks further than a multiple of 32. */
template <typename T, int kPoints>
using Slab = T[kSlabDims / kPerCell<T>][(kPoints + 2) * kPerCell<T>];

/* The order of points in a slab's rows. Of kAcross threads side by side each owns kPairs pairs of
 * points that touch in the matrix: thread t has pair t * kPairs + i. All threads read their pair i
 * at the same time, so in the slab it is these that touch: it stands at place i * kAcross + t.
 * Both are powers of two, which makes either way a permutation of the index's bits. */
template <int kPairs, int kAcross>
struct Order {
    template <int kInner, int kOuter>
    static __device__ __forceinline__ int transpose(int i)
    {
        const int pair = i / 2 % (kInner * kOuter);
        return i - pair * 2 + (pair % kInner * kOuter + pair / kInner) * 2;
    }
    static __device__ __forceinline__ int point_at(int i) { return transpose<kAcross, kPairs>(i); }
    static __device__ __forceinline__ int place_of(int i) { return transpose<kPairs, kAcross>(i); }
};

/* Writes a cell, its two dimensions exchanged if kSwap. */
template <bool kSwap>
__device__ __forceinline__ void put_cell(float *cell, const float *from)
{
    *reinterpret_cast<float2 *>(cell) = make_float2(from[kSwap], from[!kSwap]);
}
template <bool kSwap>
__device__ __forceinline__ void put_cell(double *cell, const double *from)
{
    *cell = *from;
}

/* Brings dimensions dim up to dim + depth of kPoints points, from `first` on. */
template <typename T, int kPoints, bool kSwap, typename Order>
struct Loader {
    static constexpr int word = kPerWord<T>, cell = kPerCell<T>;
    static constexpr int down = kPoints * 4 / kTileThreads, along = kSlabDims / (4 * word);

    /* A member array is in registers too, as long as every index is a constant. */
    const Points<T> &x;
    const T *corner; /* dimension dim of the first point */
    int last, depth;
    unsigned thread;
    T words[down][along][word];

    __device__ __forceinline__ Loader(const Points<T> &x_, ptrdiff_t first, ptrdiff_t dim,
                                      int depth_, unsigned thread_)
        : x(x_),
          corner(x.data + first * x.row_stride + dim * x.col_stride),
          last((int)min(x.count - first, (ptrdiff_t)kPoints) - 1),
          depth(depth_),
          thread(thread_)
    {
    }

    /* First way: by 16-byte words, where those are aligned and full. The loads of both operands are
     * issued before the first is waited for: fetch a, fetch b, put a, put b. Four threads read 64
     * bytes of a point, then the next 64; a warp reads eight points. */
    __device__ __forceinline__ int dim_at(int h) const { return (h * 4 + thread % 4) * word; }

    __device__ __forceinline__ void fetch()
    {
        int point = Order::point_at(thread / 4);
        const T *from = corner + min(point, last) * x.row_stride;
#pragma unroll
        for (int i = 0; i < down; ++i) {
#pragma unroll
            for (int h = 0; h < along; ++h) {
                /* Beyond the last dimension, the last again: nobody reads the cell. */
                load_word_const(from + min(dim_at(h), depth - word), words[i][h]);
            }
            /* Beyond the last point, one before it: nobody stores the result. */
            point += kTileThreads / 4;
            from += point <= last ? kTileThreads / 4 * x.row_stride : 0;
        }
    }

    /* Transposes: a word's dimensions go to the cells of one place in neighbouring rows. */
    __device__ __forceinline__ void put(Slab<T, kPoints> &slab) const
    {
#pragma unroll
        for (int i = 0; i < down; ++i) {
            const int place = thread / 4 + i * (kTileThreads / 4);
#pragma unroll
            for (int h = 0; h < along; ++h) {
#pragma unroll
                for (int s = 0; s < word; s += cell) {
                    put_cell<kSwap>(&slab[(dim_at(h) + s) / cell][place * cell], &words[i][h][s]);
                }
            }
        }
    }

    /* Second way: any strides, element by element, straight from global to shared memory. Zeros
     * fill up the last step over dimensions: on both sides they add nothing to any metric. */
    __device__ __forceinline__ void put_element(Slab<T, kPoints> &slab, int k, int place,
                                                const T *from) const
    {
        const int s = kSwap ? k % cell ^ (cell - 1) : k % cell;
        slab[k / cell][place * cell + s] = k < depth ? __ldg(from) : T(0);
    }

    __device__ __forceinline__ void copy(Slab<T, kPoints> &slab) const
    {
        constexpr int kEach = kSlabDims * kPoints / kTileThreads;
        if (llabs(x.col_stride) <= llabs(x.row_stride)) {
            /* A warp reads the dimensions of one point, then of the fourth after it. */
            /* place_of permutes bits, so the place of a sum without carries is a sum of places,
             * of which the second is a constant. */
            int point = thread / 32;
            const int k = thread % 32, place = Order::place_of(point);
            const T *from = corner + min(point, last) * x.row_stride + k * x.col_stride;
#pragma unroll 16
            for (int i = 0; i < kEach; ++i) {
                put_element(slab, k, place + Order::place_of(i * 4), from);
                point += 4;
                from += point <= last ? 4 * x.row_stride : 0;
            }
        }
        else {
            /* A warp reads one dimension of points, where those are what lies close together. */
            const int k = thread / kPoints, place = thread % kPoints;
            const int point = min(Order::point_at(place), last);
            const T *from = corner + point * x.row_stride + k * x.col_stride;
#pragma unroll 16
            for (int i = 0; i < kEach; ++i) {
                put_element(slab, k + i * (kTileThreads / kPoints), place, from);
                from += kTileThreads / kPoints * x.col_stride;
            }
        }
    }
};

}  // namespace gd
#endif
