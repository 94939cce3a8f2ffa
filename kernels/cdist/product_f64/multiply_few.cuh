/* multiply_few.cuh: products of a small matrix, or of few rows, that are too long for
 * multiply_short_rows.cuh.
 *
 * Nothing is prepared ahead: every block moves the rows that it needs, and finds their norms. It
 * computes 16 or 32 rows by 32 or 64 columns, each of its four warps a quarter of the columns. A
 * lane loads its columns' values straight into the registers that the tensor cores read them from,
 * some slabs ahead, and while it has them adds up their squares; rows of `a`, which all warps need,
 * are moved by turns and come through shared memory. Additions are in the order of
 * prepare.cuh and multiply.cuh: a result has the same bits there, so how
 * many rows A has may decide. Blocks of 16 rows compute what is suspect again by themselves.
 *
 * What binds is latency. So what moves dimensions comes to shared memory two turns before it is
 * needed (from global memory 512 x 512 x 512 took 48 us instead of 38), and nothing branches on
 * what a sum is (128 x 128 x 512: 31 us instead of 26). Of few rows, of which a block has 64
 * columns, memory gives 3e12 bytes a second; for small matrices 32 columns are better, as there
 * are more blocks. */
#ifndef GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_FEW_CUH
#define GPUDIST_CDIST_PRODUCT_F64_MULTIPLY_FEW_CUH

#include <stddef.h>

#include "cdist/product_f64/without_panels.cuh"

namespace gd {
namespace tensor_f64 {

constexpr int kTurn = 4; /* slabs of a turn of the loop */
static_assert(kTurn == kUnpreparedWarps, "each warp moves one slab of the rows");
static_assert(kGroupSlabs % kTurn == 0, "groups end with a turn");

/* A turn's values of kDown units of rows, and the sums of their squares. */
template <int kDown>
struct Turn {
    double2 words[kTurn][kDown][kUnitWords];
    double squares[kTurn][kDown][2][kLanes];
};

/* A block's shared memory. A block of a single unit of rows computes what is suspect again by
 * itself. */
template <int kDown, int kTiles>
struct FewTile {
    static constexpr bool by_itself = kDown == 1;
    static constexpr int rows = kDown * kUnitRows, warp_cols = kTiles * 8;
    static constexpr int cols = kUnpreparedWarps * warp_cols;
    static_assert(by_itself || cols == kPartCols, "a part is as wide");
    union {
        Turn<kDown> turns[2];
        Unprepared<rows * cols> own;
        /* A lane's word of suspects has a byte of each warp's columns. */
        unsigned char suspects[kDown][kLanes][kUnpreparedWarps];
    };
    double norms[rows];
    /* Shifts of this turn's dimensions and the next two's, zeros beyond the last. */
    Shift<double> shift[3][kTurn * kDims];
    /* Sums of the groups so far; only there if there are several. */
    double2 groups[kDown * kTiles * 2][kUnpreparedThreads];
};

template <int kDown, int kTiles>
constexpr size_t few_bytes(bool groups)
{
    using Shared = FewTile<kDown, kTiles>;
    return groups ? sizeof(Shared) : offsetof(Shared, groups);
}

/* Moves a share of each of a lane's rows by the shifts of a slab. */
template <int kShares>
__device__ __forceinline__ void move_by(Share (&x)[kShares], const Shift<double> *shifts)
{
    ShareShift by;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        by[i / 2][i % 2] = shifts[i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2];
    }
#pragma unroll
    for (Share &share : x) {
        move_share(share, by);
    }
}

/* Moves the warp's slab of a unit of rows, and puts it and its squares into a turn. third: which of
 * the turns' shifts are that turn's. */
template <gd_metric kRows, int kDown, int kTiles>
__device__ __forceinline__ void put_unit(Share (&x)[2], FewTile<kDown, kTiles> &shared, int turn,
                                         int unit, int third)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if constexpr (Rules<kRows>::shifts) {
        move_by(x, shared.shift[third] + warp * kDims);
    }
    put_a(shared.turns[turn].words[warp][unit], x[0], x[1]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        shared.turns[turn].squares[warp][unit][h][lane] = squares_of(x[h]);
    }
}

/* Adds a slab to the products: a lane's columns by rows from shared memory. */
template <int kDown, int kTiles>
__device__ __forceinline__ void add_slab(double (&sums)[kDown][kTiles][2][2],
                                         const double2 (&words)[kDown][kUnitWords],
                                         const Share (&columns)[kTiles])
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            const double2 *const from = words[i] + half * 64 + threadIdx.x % 32;
            const double2 rows[2] = {from[0], from[32]};
#pragma unroll
            for (int j = 0; j < kTiles; ++j) {
                multiply_add(sums[i][j], rows, columns[j][half]);
            }
        }
    }
}

/* Calls f(a pair of sums, its place among those of the groups so far) for each pair. */
template <int kDown, int kTiles, typename F>
__device__ __forceinline__ void for_groups(double (&sums)[kDown][kTiles][2][2],
                                           FewTile<kDown, kTiles> &shared, F f)
{
#pragma unroll
    for (int i = 0; i < kDown * kTiles * 2; ++i) {
        f(sums[i / 2 / kTiles][i / 2 % kTiles][i % 2], shared.groups[i][threadIdx.x]);
    }
}
/* Adds a group's sums to those before, unless it is the first, and starts them afresh. */
template <int kDown, int kTiles>
__device__ __forceinline__ void end_group(double (&sums)[kDown][kTiles][2][2],
                                          FewTile<kDown, kTiles> &shared, bool first)
{
    for_groups(sums, shared, [&](double (&sum)[2], double2 &group) {
        const double2 before = first ? double2{} : group;
        group = {sum[0] + before.x, sum[1] + before.y};
        sum[0] = sum[1] = 0;
    });
}

template <int kDown, int kTiles>
__device__ __forceinline__ void join_groups(double (&sums)[kDown][kTiles][2][2],
                                            FewTile<kDown, kTiles> &shared)
{
    for_groups(sums, shared, [&](double (&sum)[2], double2 &group) {
        sum[0] += group.x;
        sum[1] += group.y;
    });
}

/* Adds a turn's squares of the half unit that is the warp's role; `left`: slabs that there are. */
template <int kDown>
__device__ __forceinline__ void add_squares(Sum &of_rows, const Turn<kDown> &turn, int role,
                                            ptrdiff_t left)
{
#pragma unroll
    for (int s = 0; s < kTurn; ++s) {
        if (s < left) {
            of_rows.add(turn.squares[s][role / 2][role % 2][threadIdx.x % 32]);
        }
    }
}

/* Makes results of a block's products. `role`: which half of which unit's squares the warp has in
 * `of_rows`, if there are so many. Returns the suspects of each of a lane's units. */
template <gd_metric kRows, int kDown, int kTiles>
__device__ __forceinline__ void store_few(const Cdist<double> &call, const Plan &plan,
                                          FewTile<kDown, kTiles> &shared, int role,
                                          const Sum &of_rows, const Sum (&of_cols)[kTiles],
                                          const double (&sums)[kDown][kTiles][2][2], ptrdiff_t top,
                                          ptrdiff_t first_col, uint32_t (&suspects)[kDown])
{
    const int lane = threadIdx.x % 32;
    if (role < 2 * kDown) {
        const double norm = norm_of<kRows>(of_rows);
        if (lane % 4 == 0) {
            shared.norms[role * 8 + lane / 4] = norm;
        }
    }
    double across[kTiles][2];
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
        spread_norm<kRows>(of_cols[j], across[j]);
    }
    __syncthreads(); /* the norms are there */
    with_end_in<EndOf<kRows>>(call, [&](auto end) {
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            suspects[i] = store_products<decltype(end)::metric>(
                call, plan, sums[i], top + i * kUnitRows + lane / 4, first_col + lane % 4 * 2,
                shared.norms + i * kUnitRows + lane / 4, across);
        }
    });
}

/* Computes a block's suspects again; a warp does it. suspects: a lane's. */
template <gd_metric kRows, bool kWords, int kTiles>
__device__ __forceinline__ void recompute_few(const Cdist<double> &call, FewTile<1, kTiles> &shared,
                                              uint32_t suspects, ptrdiff_t top, ptrdiff_t left)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        shared.own.listed = 0;
    }
    __syncthreads();
    shared.own.append(suspects, [&](int bit) {
        const int i = kTiles * 4 - 1 - bit; /* the lane's i-th */
        const int row = i / 2 % 2 * 8 + lane / 4;
        const int col = warp * (kTiles * 8) + i / 4 * 8 + lane % 4 * 2 + i % 2;
        return row * kListCols + col;
    });
    __syncthreads(); /* the list is there */
    if (warp == 0) {
        shared.own.template compute<EndOf<kRows>, kWords>(call, top, left);
    }
}

/* Notes which elements of a block are suspect, if `any` are, for those who compute them again. */
template <int kDown, int kTiles>
__device__ __forceinline__ void note_suspects(const Cdist<double> &call, const Plan &plan,
                                              FewTile<kDown, kTiles> &shared, bool any,
                                              const uint32_t (&suspects)[kDown], ptrdiff_t top,
                                              ptrdiff_t left)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const ptrdiff_t part = left / kPartCols, tile = top / kTileRows;
    const int own = (int)(top / kUnitRows % kUnits);
    const int end = top + FewTile<kDown, kTiles>::rows < call.a.count ? own + kDown : kUnits;
    if (any) {
        if (threadIdx.x == 0) {
            note_some(plan.suspects);
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            shared.suspects[i][lane][warp] = (unsigned char)suspects[i];
        }
        __syncthreads();
    }
    for (int unit = own + warp; unit < end; unit += kUnpreparedWarps) {
        uint32_t word = 0;
        if (any && unit < own + kDown) { /* the bytes from the top on */
            word = __byte_perm(
                *reinterpret_cast<const unsigned *>(shared.suspects[unit - own][lane]), 0, 0x0123);
        }
        plan.suspects.note<double>((tile * plan.suspects.parts_across + part) * kUnits + unit,
                                   word);
    }
}

/* Makes results of a block's products, as store_few does, and sees to those that are suspect. */
template <gd_metric kRows, bool kWords, int kDown, int kTiles>
__device__ __forceinline__ void finish_few(const Cdist<double> &call, const Plan &plan,
                                           FewTile<kDown, kTiles> &shared, int role,
                                           const Sum &of_rows, const Sum (&of_cols)[kTiles],
                                           const double (&sums)[kDown][kTiles][2][2], ptrdiff_t top,
                                           ptrdiff_t left, ptrdiff_t first_col)
{
    uint32_t suspects[kDown], some = 0;
    store_few<kRows>(call, plan, shared, role, of_rows, of_cols, sums, top, first_col, suspects);
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
        some |= suspects[i];
    }
    const bool any = __syncthreads_or(some != 0);
    if constexpr (!FewTile<kDown, kTiles>::by_itself) {
        note_suspects(call, plan, shared, any, suspects, top, left);
    }
    else if (any) {
        recompute_few<kRows, kWords>(call, shared, suspects[0], top, left);
    }
}

/* Where a lane's values come from: those of its columns, and of a block's rows. */
template <int kTiles, bool kWords>
struct FewRows {
    const Cdist<double> &call;
    ptrdiff_t top; /* the block's first row */
    const double *columns[kTiles];

    __device__ __forceinline__ FewRows(const Cdist<double> &call_, ptrdiff_t top_,
                                       ptrdiff_t first_col)
        : call(call_), top(top_)
    {
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
            columns[j] = call.b.data +
                         call.b.clamp(first_col + j * 8 + threadIdx.x % 32 / 4) * call.b.row_stride;
        }
    }
    __device__ __forceinline__ void load_b(Share (&to)[kTiles], const Place &place, int slab) const
    {
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
            load_share<kWords>(to[j], columns[j], call.b.col_stride, place, slab);
        }
    }
    __device__ __forceinline__ void load_a(Share (&to)[2], int unit, const Place &place,
                                           int slab) const
    {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const ptrdiff_t row =
                call.a.clamp(top + unit * kUnitRows + h * 8 + threadIdx.x % 32 / 4);
            load_share<kWords>(to[h], call.a.data + row * call.a.row_stride, call.a.col_stride,
                               place, slab);
        }
    }
};

/* Slabs of columns that are under way. */
template <int kDown, int kTiles>
constexpr int kAhead = (kDown * kTiles) == 1 ? 4 : 2;

/* A turn of the loop over slabs from `first` on: adds their products and the columns' squares, and
 * brings columns ahead and, if there are more turns, the next one's rows. at, third: which of the
 * turns' rows and shifts are this one's. */
template <gd_metric kRows, int kDown, int kTiles, bool kWords>
__device__ __forceinline__ void multiply_turn(FewTile<kDown, kTiles> &shared,
                                              const FewRows<kTiles, kWords> &from, ptrdiff_t first,
                                              ptrdiff_t slabs, int at, int third,
                                              Share (&b)[kAhead<kDown, kTiles>][kTiles],
                                              Sum (&of_cols)[kTiles],
                                              double (&sums)[kDown][kTiles][2][2])
{
    constexpr int kPeriod = kTurn / kDown;
    const bool more = first + kTurn < slabs;
    const Place place(first, from.call.d);
    Share a[2];
#pragma unroll
    for (int s = 0; s < kTurn; ++s) {
        /* What is beyond the last slab is 0. By twos there is more to do at a time; with more
         * columns registers are too few for that. */
        if ((kTiles == 2 || s % 2 == 0) && first + s >= slabs) {
            break;
        }
        if (more && s % kPeriod == 0) {
            from.load_a(a, s / kPeriod, place, kTurn + threadIdx.x / 32);
        }
        Share(&columns)[kTiles] = b[s % kAhead<kDown, kTiles>];
        if constexpr (Rules<kRows>::shifts) {
            move_by(columns, shared.shift[third] + s * kDims);
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
            of_cols[j].add(squares_of(columns[j]));
        }
        add_slab(sums, shared.turns[at].words[s], columns);
        from.load_b(columns, place, s + kAhead<kDown, kTiles>);
        if (more && s % kPeriod == kPeriod - 1) {
            put_unit<kRows>(a, shared, at ^ 1, s / kPeriod, third == 2 ? 0 : third + 1);
        }
    }
}

/* down: blocks below each other, which follow each other closely, as they read the same columns. */
template <gd_metric kRows, int kDown, int kTiles, bool kWords>
__global__ void __launch_bounds__(kUnpreparedThreads, kDown == 1 ? 3 : 2)
    multiply_few(const __grid_constant__ CallFor<EndOf<kRows>, double> call,
                 const __grid_constant__ Plan plan, unsigned down)
{
    using R = Rules<kRows>;
    constexpr int kCols = FewTile<kDown, kTiles>::cols;
    extern __shared__ __align__(128) unsigned char memory[];
    FewTile<kDown, kTiles> &shared = *reinterpret_cast<FewTile<kDown, kTiles> *>(memory);
    const int warp = threadIdx.x / 32;
    /* Blocks differ in which warp adds up a unit's squares. */
    const int role = (int)((warp + blockIdx.x / down) % kUnpreparedWarps);
    const ptrdiff_t top = (ptrdiff_t)(blockIdx.x % down) * FewTile<kDown, kTiles>::rows;
    const ptrdiff_t left = (ptrdiff_t)(blockIdx.x / down) * kCols;
    const ptrdiff_t first_col = left + warp * FewTile<kDown, kTiles>::warp_cols;
    const ptrdiff_t slabs = plan.slabs;

    const FewRows<kTiles, kWords> from(call, top, first_col);
    Share b[kAhead<kDown, kTiles>][kTiles]; /* of this slab and the next ones */
    const auto shift_of = [&](ptrdiff_t k) { return k < call.d ? plan.shift[k] : Shift<double>{}; };
    Share first_a[kDown][2];
    const auto load_first = [&] {
#pragma unroll
        for (int i = 0; i < kAhead<kDown, kTiles>; ++i) {
            from.load_b(b[i], Place(0, call.d), i);
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
            from.load_a(first_a[i], i, Place(0, call.d), warp);
        }
    };
    if constexpr (R::shifts) {
        load_first(); /* the steps before do not write what this reads */
    }
    follow();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        begin_suspects(plan);
    }
    if (plan.suspects.direct() || !call.has(top, left + kCols)) {
        return;
    }
    if constexpr (!R::shifts) {
        load_first();
    }
    if constexpr (R::shifts) {
        static_assert(kUnpreparedThreads == 2 * kTurn * kDims, "a thread a dimension of two turns");
        shared.shift[0][threadIdx.x] = shift_of(threadIdx.x); /* and of [1] */
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
        put_unit<kRows>(first_a[i], shared, 0, i, 0);
    }
    __syncthreads();

    double sums[kDown][kTiles][2][2] = {};
    Sum of_cols[kTiles], of_rows; /* the latter of the half unit that is the warp's role */
    int at = 0, third = 0;        /* which of the turns' rows and shifts are this turn's */
#pragma unroll 1
    for (ptrdiff_t first = 0; first < slabs;
         first += kTurn, at ^= 1, third = third == 2 ? 0 : third + 1) {
        const bool more = first + kTurn < slabs;
        /* The shifts of the turn after the next, which take the place of the last one's. */
        const bool brings = first + 2 * kTurn < slabs && threadIdx.x < kTurn * kDims;
        Shift<double> brought;
        if (R::shifts && brings) {
            brought = shift_of((first + 2 * kTurn) * kDims + threadIdx.x);
        }
        multiply_turn<kRows>(shared, from, first, slabs, at, third, b, of_cols, sums);
        if (role < 2 * kDown) {
            add_squares(of_rows, shared.turns[at], role, slabs - first);
        }
        if (R::shifts && brings) {
            shared.shift[third == 0 ? 2 : third - 1][threadIdx.x] = brought;
        }
        if (more && (first + kTurn) % kGroupSlabs == 0) {
            end_group(sums, shared, first + kTurn == kGroupSlabs);
        }
        __syncthreads(); /* the next turn's rows are there, and nobody reads this one's any more */
    }
    if (slabs > kGroupSlabs) {
        join_groups(sums, shared);
    }
    finish_few<kRows, kWords>(call, plan, shared, role, of_rows, of_cols, sums, top, left,
                              first_col);
}

}  // namespace tensor_f64
}  // namespace gd
#endif
