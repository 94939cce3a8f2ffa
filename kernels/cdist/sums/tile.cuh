/* tile.cuh: a thread's share of a tile of sums.cu: its sums over all dimensions, from slabs in
 * shared memory.
 *
 * The order of additions is that of tile.cu: sums start afresh every GD_FOLD dimensions and are
 * added to totals, and the totals every GD_GROUP dimensions to those of the groups before, which
 * wait in shared memory. As there, slabs hold pairs of dimensions, (k, k + 1) of a and (k + 1, k)
 * of b, so that a difference takes one operand from each bank of the register file. Zeros fill up
 * the last step over dimensions: they add nothing to any sum but the count of columns that are
 * false in both rows, which therefore always takes weights, 0 there. */
#ifndef GPUDIST_CDIST_SUMS_TILE_CUH
#define GPUDIST_CDIST_SUMS_TILE_CUH

#include "arch/registers.cuh"
#include "common/slab.cuh"
#include "cdist/sums/swift.cuh"

namespace gd {
namespace sums {

/* Totals of a thread's 64 sums. Turing's 64 KB have to hold slabs, these, and the groups before. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kParked = 12;
#else
constexpr int kParked = 16;
#endif

/* A warp is 4 rows by 8 columns of threads, a block 4 warps below each other. A thread's rows touch
 * in the matrix; its columns are runs of one 16-byte store, 8 runs apart. */
template <int kForm, typename T>
struct Shape {
    using R = Real<kForm, T>;
    using A = Element<kForm, R, true>;
    using B = Element<kForm, R, false>;
    static constexpr int count = kCount<kForm>;
    static constexpr bool single = sizeof(R) == 4;
    static constexpr bool cheap = kForm == GD_SUM_SQUARES || kForm == GD_SUM_MAGNITUDES ||
                                  kForm == GD_SUM_LARGEST || kForm == GD_SUM_CUBES ||
                                  kForm == GD_SUM_FOURTH_POWERS || kForm == GD_SUM_UNEQUAL ||
                                  kForm == GD_SUM_DIFFERENCE_AND_SUM || kForm == kSwiftMagnitudes;
    static constexpr int rows = single && cheap ? 8 : count == 4 && !single ? 2 : 4;
    static constexpr int cols = single && count == 1 ? 8 : 4; /* of a thread */
    static constexpr int word = kPerWord<T>, cell = kPerCell<T>, runs = cols / word;
    /* Rows of a slab in a turn of the loop over dimensions: long loops leave the cache. */
    static constexpr bool is_long =
        kForm == GD_SUM_POWERS || kForm == GD_SUM_ENTROPY ||
        (kForm == GD_SUM_RELATIVE_ENTROPY && sizeof(T) == sizeof(double));
    static constexpr int step = is_long ? 1 : word / cell;
    static constexpr int block_rows = 16 * rows, block_cols = 8 * cols;
    static constexpr int held = rows * cols * count;
    /* Blocks that share a multiprocessor, which bounds a thread's registers. Two where it is the
     * registers' ports that bind; four where elements are long in the making. */
    static constexpr int blocks = sizeof(T) == 4 && kForm == GD_SUM_CUBES              ? 2
                                  : sizeof(T) == 4 && kForm == GD_SUM_RELATIVE_ENTROPY ? 4
                                                                                       : 3;
    /* Totals that wait in shared memory: with all of them the loop over dimensions would need more
     * than the 168 registers that three blocks leave. */
    static constexpr int parked = single && held == 64 && blocks > 2 ? kParked : 0;
    using SlabA = Slab<T, block_rows>;
    using SlabB = Slab<T, block_cols>;
    using LoaderA = Loader<T, block_rows, false, Order<rows / 2, 4>>;
    using LoaderB = Loader<T, block_cols, true, Order<word / 2, 8>>;

    struct alignas(16) Memory {
        SlabA a[A::parts];
        SlabB b[B::parts];
        R weights[kSlabDims];
        R waiting[parked / 4 + !parked][kTileThreads][4];
    };
};

/* A block's place, and what the operands allow. */
struct Place {
    const Begin &begin; /* of its matrix */
    ptrdiff_t row, col;
    bool words; /* both can be read by aligned 16-byte words along dimensions */
};

/* Puts or fetches a thread's last kMany numbers. */
template <int kMany, typename R, typename M>
__device__ __forceinline__ void park(M &parked, const R *last)
{
#pragma unroll
    for (int w = 0; w < kMany / kPerWord<R>; ++w) {
        store_word(parked[w][threadIdx.x], last + w * kPerWord<R>);
    }
}
template <int kMany, typename R, typename M>
__device__ __forceinline__ void unpark(const M &parked, R *last)
{
#pragma unroll
    for (int w = 0; w < kMany / kPerWord<R>; ++w) {
        load_word(parked[w][threadIdx.x], last + w * kPerWord<R>);
    }
}

/* Makes of a slab's elements what the terms want, in all words of `dims` dimensions. */
template <typename E, int kPoints, typename T>
__device__ __forceinline__ void split_slab(Slab<T, kPoints> *slab, int dims, float unit)
{
    if constexpr (E::changes) {
        constexpr int kWord = kPerWord<T>, kInRow = kPoints / 2;
        for (int w = threadIdx.x; w < dims / kPerCell<T> * kInRow; w += kTileThreads) {
            const int row = w / kInRow, at = w % kInRow * kWord;
            T x[kWord], part[E::parts][kWord];
            load_word(&slab[0][row][at], x);
#pragma unroll
            for (int i = 0; i < kWord; ++i) {
                T to[E::parts];
                E::split(x[i], unit, to);
#pragma unroll
                for (int s = 0; s < E::parts; ++s) {
                    part[s][i] = to[s];
                }
            }
#pragma unroll
            for (int s = 0; s < E::parts; ++s) {
                store_word(&slab[s][row][at], part[s]);
            }
        }
    }
}

/* Adds `depth` dimensions of a slab, from `first` on, to a thread's sums, in ascending order. */
template <int kForm, bool kWeighted, typename T, typename R, typename P>
__device__ __forceinline__ void add_slab(R *sum, const typename Shape<kForm, T>::Memory &memory,
                                         int first, int depth, const P &p)
{
    using S = Shape<kForm, T>;
    constexpr int kRows = S::rows, kCols = S::cols, kCell = S::cell;
    const int row_of_a = (threadIdx.x / 32 * 4 * kRows + threadIdx.x % 32 / 8 * 2) * kCell;
    const int row_of_b = threadIdx.x % 8 * 2 * kCell;
    const int end = (first + (int)ceil_div(depth, S::word) * S::word) / kCell;
#pragma unroll 1
    for (int k = first / kCell; k < end; k += S::step) {
#pragma unroll
        for (int step = 0; step < S::step; ++step) {
            T a[S::A::parts][kRows * kCell], b[S::B::parts][kCols * kCell];
#pragma unroll
            for (int s = 0; s < S::A::parts; ++s) {
#pragma unroll
                for (int i = 0; i < kRows; i += 2) {
                    load_word(&memory.a[s][k + step][row_of_a + i * 4 * kCell], &a[s][i * kCell]);
                }
            }
#pragma unroll
            for (int s = 0; s < S::B::parts; ++s) {
#pragma unroll
                for (int j = 0; j < kCols; j += 2) {
                    load_word(&memory.b[s][k + step][row_of_b + j * 8 * kCell], &b[s][j * kCell]);
                }
            }
            if constexpr (kForm == kSwiftRatios) {
                const R *const w = &memory.weights[(k + step) * kCell];
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
#pragma unroll
                    for (int j = 0; j < kCols; ++j) {
                        add_two_ratios<kWeighted>(sum[i * kCols + j], &a[0][i * kCell],
                                                  &b[0][j * kCell], w);
                    }
                }
            }
            else {
#pragma unroll
                for (int s = 0; s < kCell; ++s) {
                    const R weight = kWeighted ? memory.weights[(k + step) * kCell + s] : R(1);
#pragma unroll
                    for (int i = 0; i < kRows; ++i) {
#pragma unroll
                        for (int j = 0; j < kCols; ++j) {
                            /* The cells of b are swapped: dimension s stands at the other end. */
                            add<kForm, kWeighted, R>(
                                sum + (i * kCols + j) * S::count,
                                S::A::join(&a[0][i * kCell + s], kRows * kCell),
                                S::B::join(&b[0][j * kCell + kCell - 1 - s], kCols * kCell), weight,
                                p);
                        }
                    }
                }
            }
        }
    }
}

/* How much shared memory the sums of the groups before need. */
template <int kForm, typename T>
size_t bytes_of_groups(ptrdiff_t d)
{
    using S = Shape<kForm, T>;
    return d > GD_GROUP ? (size_t)kTileThreads * sizeof(typename S::R) * S::held : 0;
}

/* Joins a thread's sums with those of the groups before. */
template <int kForm, int kSums, typename R>
__device__ __forceinline__ void join_groups(
    R *total, const R (&before)[kSums / kPerWord<R>][kTileThreads][kPerWord<R>])
{
#pragma unroll
    for (int n = 0; n < kSums; n += kPerWord<R>) {
        R sum[kPerWord<R>];
        load_word(before[n / kPerWord<R>][threadIdx.x], sum);
#pragma unroll
        for (int s = 0; s < kPerWord<R>; ++s) {
            total[n + s] = join<kForm>(sum[s], total[n + s]);
        }
    }
}

/* A thread's sums over all dimensions. `groups` has room for those of the groups before. */
template <int kForm, bool kWeighted, typename T, typename R>
__device__ __forceinline__ void add_up(const Call<T> &call, const Place &place, R *total,
                                       typename Shape<kForm, T>::Memory &memory, void *groups)
{
    using S = Shape<kForm, T>;
    constexpr int kSums = S::held, kStays = kSums - S::parked;
    auto &before = *(R(*)[kSums / kPerWord<R>][kTileThreads][kPerWord<R>]) groups;
    const auto &p = exponent_for(call, R(0));
    /* Warps below the last row have nothing to add up: matrices of a batch may be small. A vote, so
     * that the compiler knows that a warp's threads go on together: else it counts what is the same
     * for all of them once a thread, and float64 takes up to a tenth longer. */
    const bool busy = __any_sync(~0u, place.row + threadIdx.x / 32 * 4 * S::rows < call.a.count);
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
        total[n] = 0;
    }
    if constexpr (kFolds<kForm, kWeighted>) {
        park<S::parked>(memory.waiting, total + kStays);
    }
    for (ptrdiff_t dim = 0; dim < call.d; dim += kSlabDims) {
        const ptrdiff_t ahead = call.d - dim;
        const int depth = ahead < kSlabDims ? (int)ahead : kSlabDims;
        ptrdiff_t row = place.row, col = place.col;
        hide_origin(row), hide_origin(col);
        const Points<T> points_a = call.a.from(place.begin.a);
        const Points<T> points_b = call.b.from(place.begin.b);
        typename S::LoaderA a(points_a, row, dim, depth, threadIdx.x);
        typename S::LoaderB b(points_b, col, dim, depth, threadIdx.x);
        /* Loads start before the barrier, so that slower warps hide part of the wait. */
        if (place.words) {
            a.fetch();
            b.fetch();
        }
        __syncthreads(); /* nobody reads the last slab any more */
        if (place.words) {
            a.put(memory.a[0]);
            b.put(memory.b[0]);
        }
        else {
            a.copy(memory.a[0]);
            b.copy(memory.b[0]);
        }
        if (kWeighted && threadIdx.x < kSlabDims) {
            const int k = (int)threadIdx.x;
            memory.weights[k] = k >= depth     ? R(0)
                                : call.weights ? weight_of<kForm, R>(call.weights[dim + k])
                                               : R(1);
        }
        __syncthreads(); /* the slab is there */
        if constexpr (S::A::changes) {
            const int dims = (int)ceil_div(depth, S::word) * S::word;
            const float unit =
                kForm == kSwiftPowers ? call.unit_at[place.begin.matrices_b] : call.unit;
            split_slab<typename S::A, S::block_rows, T>(memory.a, dims, unit);
            split_slab<typename S::B, S::block_cols, T>(memory.b, dims, unit);
            __syncthreads();
        }

        if (!busy) {
            continue;
        }
        if constexpr (!kFolds<kForm, kWeighted>) {
            add_slab<kForm, kWeighted, T>(total, memory, 0, depth, p);
        }
        else {
#pragma unroll 1
            for (int fold = 0; fold < depth; fold += GD_FOLD) {
                R fresh[kSums] = {};
                add_slab<kForm, kWeighted, T>(fresh, memory, fold, min(depth - fold, GD_FOLD), p);
                unpark<S::parked>(memory.waiting, total + kStays);
#pragma unroll
                for (int n = 0; n < kSums; ++n) {
                    total[n] = join<kForm>(total[n], fresh[n]);
                }
                park<S::parked>(memory.waiting, total + kStays);
            }
        }
        if ((dim + kSlabDims) % GD_GROUP == 0 && ahead > kSlabDims) {
            if (dim >= GD_GROUP) {
                join_groups<kForm, kSums>(total, before);
            }
            park<kSums>(before, total);
#pragma unroll
            for (int n = 0; n < kSums; ++n) {
                total[n] = 0;
            }
            if constexpr (kFolds<kForm, kWeighted>) {
                park<S::parked>(memory.waiting, total + kStays);
            }
        }
    }
    if (call.d > GD_GROUP) {
        join_groups<kForm, kSums>(total, before);
    }
}

}  // namespace sums
}  // namespace gd
#endif
