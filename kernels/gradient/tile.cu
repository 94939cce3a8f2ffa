/* tile.cu: gradients of distances between points with any number of dimensions.
 *
 * Idea: the register tile of a product of the factors with b, but for differences in b's place. A
 * thread has 8 rows of a in 4 dimensions (float64: 4 in 4) and their sums in registers, and walks
 * over b's rows, of which 32 at a time are in shared memory with the factors of their pairs. A pair
 * costs one division, and a dimension of it two instructions (a difference and a fused
 * multiply-add): 16384 x 16384 x 128 float32 issue for 2.06 ms on an H200, for the rows of a.
 *
 * - The sign of a difference (cityblock) is a third instruction: c = e * 2^127 + 1/2, cut off to
 *   [0, 1], is 1, 1/2 or 0. The factors times c, twice, less the factors' sum, is what is wanted. A
 *   slab with elements so small that this is not so compares instead, for the same c.
 * - Sums start afresh with each slab of 32, and slabs are added up until a part of the whole sum is
 *   done. How many rows of b a part has depends on their number alone, so that small matrices are
 *   shared out too; join.cuh adds up the parts.
 * - Asynchronous copies bring the next slab meanwhile, whatever way its elements lie. A thread
 *   makes factors of those that it has copied, so that a slab takes one barrier.
 *
 * Launch: 128 threads; a block has 32 rows of a in 128 dimensions, 64 in 64, or 128 in 32.
 *
 * Reached on an H200: 16384 x 16384 x 128 float32, for the rows of a: euclidean 3.54 ms (58 % of
 * the issue bound; a slab's 2048 multiply-adds and as many differences are 2680 instructions of a
 * warp, the rest is waiting at its barrier), cityblock 5.02; both sides of (64, 512, 512, 64)
 * cityblock 0.43 ms, of 4096 x 4096 x 128 cityblock 0.69, chebyshev 0.98, float64 euclidean 1.08.
 * Four blocks a multiprocessor, in 128 registers, spill. With places of pairs computed anew for
 * each copy euclidean took 4.73 ms. The compiler itself keeps the operands of differences in
 * registers of both kinds. */
#include "arch/copies.cuh"
#include "common/steps.cuh"
#include "gradient/direct.cuh"
#include "gradient/join.cuh"
#include "gradient/terms.cuh"

namespace {

constexpr int kThreads = 128, kDims = 4 /* of a thread */, kSlab = 32;
constexpr int kBlocks = 3; /* on a multiprocessor */
template <typename T>
constexpr int kRows = sizeof(T) == sizeof(float) ? 8 : 4; /* of a thread */

/* kAcross threads have the same rows, and dimensions side by side. */
template <typename Term_, int kAcross, typename T_>
struct Shape {
    using Term = Term_;
    using T = T_;
    static constexpr int rows = kRows<T>, across = kAcross, dims = kAcross * kDims;
    static constexpr int block_rows = kThreads / kAcross * rows;
    static constexpr int pitch = block_rows + gd::kPerWord<T>;
    static constexpr bool may_be_wanted =
        sizeof(T) == sizeof(float) &&
        (Term::metric == GD_EUCLIDEAN || Term::metric == GD_SQEUCLIDEAN);
    static constexpr bool signs = Term::metric == GD_CITYBLOCK && sizeof(T) == sizeof(float);
    using Results = T[rows][kDims];
};

template <typename S>
struct Memory {
    using T = typename S::T;
    alignas(16) T b[2][kSlab][S::dims];
    alignas(16) T factors[2][kSlab][S::pitch];
    alignas(16) T away[2][S::Term::has_away ? kSlab : 1][S::pitch];
};

/* What a block does: rows of a from `top` on, dimensions from `dim`, and rows [first, last) of b.
 */
template <typename T>
struct Share {
    ptrdiff_t top, dim, first, last;
    const T *a, *b; /* the matrices' */
    gd::PairsOfOne<T> asked, away;
};

/* Which numbers of a slab a thread copies, one slab after the other. Its words, or numbers, of b
 * are `points_down` rows apart, its pairs `step` places; both are where they are in every slab. */
template <typename S>
struct Copies {
    using T = typename S::T;
    static constexpr int word = gd::kPerWord<T>, words = S::dims / word;
    static constexpr int points_down = kThreads / words; /* rows of b from one word to the next */
    static constexpr int pairs = kSlab * S::block_rows / kThreads;
    const T *b, *asked, *away;
    ptrdiff_t step_asked, step_away;
    /* The first pair of the thread in the block's tile, and so many rows further the next are. */
    int row, col, down, along;

    __device__ __forceinline__ Copies(const gd::Gradient<T> &call, const Share<T> &share)
    {
        const int lane = threadIdx.x;
        const bool by_rows = S::Term::has_away ? share.away.lies_along(share.top, share.first)
                                               : share.asked.lies_along(share.top, share.first);
        row = by_rows ? lane / kSlab : lane % S::block_rows;
        col = by_rows ? lane % kSlab : lane / S::block_rows;
        down = by_rows ? kThreads / kSlab : 0;
        along = by_rows ? 0 : kThreads / S::block_rows;
        b = share.b + (share.first + lane / words) * call.b.stride + share.dim +
            lane % words * word;
        asked = share.asked.data + (share.top + row) * share.asked.down +
                (share.first + col) * share.asked.along;
        away = share.away.data + (share.top + row) * share.away.down +
               (share.first + col) * share.away.along;
        step_asked = down * share.asked.down + along * share.asked.along;
        step_away = down * share.away.down + along * share.away.along;
    }
};

/* Starts to copy a slab of b, of which `left` rows are there. Of what is not, nothing is read. */
template <typename S, typename T>
__device__ __forceinline__ void copy_points(Memory<S> &memory, int at, const gd::Gradient<T> &call,
                                            const Share<T> &share, Copies<S> &own, int left)
{
    using C = Copies<S>;
    const int k = threadIdx.x % C::words * C::word, first = threadIdx.x / C::words;
    T *to = &memory.b[at][first][k];
    const T *from = own.b;
    if (call.b.words) {
        const bool here = share.dim + k < call.d;
#pragma unroll
        for (int row = 0; row < kSlab; row += C::points_down) {
            const bool there = here && first + row < left;
            gd::copy_async<16>(to + row * S::dims, from, there);
            from += C::points_down * call.b.stride;
        }
    }
    else {
#pragma unroll 1
        for (int row = 0; row < kSlab; row += C::points_down) {
#pragma unroll
            for (int i = 0; i < C::word; ++i) {
                const bool there = share.dim + k + i < call.d && first + row < left;
                gd::copy_async<sizeof(T)>(to + row * S::dims + i, from + i, there);
            }
            from += C::points_down * call.b.stride;
        }
    }
    own.b += kSlab * call.b.stride;
}

/* Starts to copy what belongs to the pairs of a slab that begins at row j of b. */
template <typename S, typename T>
__device__ __forceinline__ void copy_pairs(Memory<S> &memory, int at, const gd::Gradient<T> &call,
                                           const Share<T> &share, Copies<S> &own, ptrdiff_t j,
                                           int cols)
{
    using C = Copies<S>;
    const int rows = (int)min(call.a.count - share.top, (ptrdiff_t)S::block_rows);
    if (call.pairs) {
#pragma unroll 1
        for (int q = 0; q < C::pairs; ++q) {
            const int row = own.row + q * own.down, col = own.col + q * own.along;
            const bool there = row < rows && col < cols && share.top + row != j + col;
            gd::copy_async<sizeof(T)>(&memory.factors[at][col][row],
                                      share.asked.at(share.top + row, j + col), there);
            if constexpr (S::Term::has_away) {
                gd::copy_async<sizeof(T)>(&memory.away[at][col][row],
                                          share.away.at(share.top + row, j + col), there);
            }
        }
        return;
    }
    const T *asked = own.asked, *away = own.away;
    const int to = own.col * S::pitch + own.row, step = own.along * S::pitch + own.down;
#pragma unroll
    for (int q = 0; q < C::pairs; ++q) {
        const bool there = own.row + q * own.down < rows && own.col + q * own.along < cols;
        gd::copy_async<sizeof(T)>(&memory.factors[at][0][0] + to + q * step, asked, there);
        asked += own.step_asked;
        if constexpr (S::Term::has_away) {
            gd::copy_async<sizeof(T)>(&memory.away[at][0][0] + to + q * step, away, there);
            away += own.step_away;
        }
    }
    own.asked += kSlab * share.asked.along;
    own.away += kSlab * share.away.along;
}

/* Makes factors of what is asked of the pairs that the thread has copied; whether some are to be
 * added alone. */
template <typename S>
__device__ __forceinline__ bool make_factors(Memory<S> &memory, int at, const Copies<S> &own)
{
    using T = typename S::T;
    const int first = own.col * S::pitch + own.row, step = own.along * S::pitch + own.down;
    T *const factors = &memory.factors[at][0][0] + first, *const away =
                                                              &memory.away[at][0][0] + first;
    bool apart = false;
#pragma unroll
    for (int q = 0; q < Copies<S>::pairs; ++q) {
        T &factor = factors[q * step];
        factor = S::Term::factor(factor, S::Term::has_away ? away[q * step] : factor, &apart);
    }
    return apart;
}

/* Whether a number is not 0, and so small that a difference from it may not be told from 0. */
__device__ __forceinline__ bool is_tiny(float x) { return fabsf(x) < 0x1p-103f && x != 0; }

/* Whether there are such numbers among those of a slab of b that the thread has copied. */
template <typename S>
__device__ __forceinline__ bool has_tiny(const Memory<S> &memory, int at)
{
    using C = Copies<S>;
    const float *from = &memory.b[at][threadIdx.x / C::words][threadIdx.x % C::words * C::word];
    bool tiny = false;
#pragma unroll
    for (int row = 0; row < kSlab; row += C::points_down) {
        float x[4];
        gd::load_word(from + row * S::dims, x);
        tiny |= is_tiny(x[0]) || is_tiny(x[1]) || is_tiny(x[2]) || is_tiny(x[3]);
    }
    return tiny;
}

/* 1, 1/2 or 0 for e above, at or below 0. */
template <bool kTiny>
__device__ __forceinline__ float half_sign(float e)
{
    return kTiny ? (e > 0    ? 1.0f
                    : e == 0 ? 0.5f
                             : 0.0f)
                 : __saturatef(__fmaf_rn(e, 0x1p127f, 0.5f));
}

/* Adds a slab's terms to sums that begin with it. */
template <typename S, bool kTiny, typename T>
__device__ __forceinline__ void add_slab(typename S::Results &sum, const typename S::Results &a,
                                         const Memory<S> &memory, int at, int own_rows,
                                         int own_dims, T p)
{
    constexpr int kWord = gd::kPerWord<T>;
#pragma unroll(S::Term::is_long && sizeof(T) == sizeof(float) ? 1 : 2)
    for (int j = 0; j < kSlab; ++j) {
        T b[kDims], factor[S::rows], away[S::rows];
#pragma unroll
        for (int k = 0; k < kDims; k += kWord) {
            gd::load_word(&memory.b[at][j][own_dims + k], b + k);
        }
#pragma unroll
        for (int i = 0; i < S::rows; i += kWord) {
            gd::load_word(&memory.factors[at][j][own_rows + i], factor + i);
            if constexpr (S::Term::needs_away) {
                gd::load_word(&memory.away[at][j][own_rows + i], away + i);
            }
        }
#pragma unroll
        for (int i = 0; i < S::rows; ++i) {
#pragma unroll
            for (int k = 0; k < kDims; ++k) {
                if constexpr (S::signs) {
                    sum[i][k] = __fmaf_rn(factor[i], half_sign<kTiny>(a[i][k] - b[k]), sum[i][k]);
                }
                else {
                    sum[i][k] =
                        S::Term::add(sum[i][k], factor[i], S::Term::needs_away ? away[i] : T(0),
                                     a[i][k], b[k], p);
                }
            }
        }
    }
}

/* The sums of a slab's factors for a thread's rows, which its neighbours have as well: they take a
 * share of them each, and of the slab, and tell each other. */
template <typename S, typename T>
__device__ __forceinline__ void sum_factors(T (&sums)[S::rows], const Memory<S> &memory, int at,
                                            int own_rows)
{
    constexpr int kShare = S::across / S::rows; /* threads that share a row */
    const int lane = threadIdx.x % S::across, row = lane % S::rows, share = lane / S::rows;
    T sum = 0;
#pragma unroll
    for (int j = 0; j < kSlab / kShare; ++j) {
        sum += memory.factors[at][share * (kSlab / kShare) + j][own_rows + row];
    }
#pragma unroll
    for (int apart = S::rows; apart < S::across; apart *= 2) {
        sum += __shfl_xor_sync(~0u, sum, apart, S::across);
    }
#pragma unroll
    for (int i = 0; i < S::rows; ++i) {
        sums[i] = __shfl_sync(~0u, sum, i, S::across);
    }
}

/* Adds terms that are to be added alone to sums that the thread has stored. */
template <typename S, typename T>
__device__ __noinline__ void add_alone(const gd::Gradient<T> &call, const Share<T> &share, T *to,
                                       ptrdiff_t stride, ptrdiff_t row, ptrdiff_t dim)
{
    for (ptrdiff_t i = row; i < row + S::rows && i < call.a.count; ++i, to += stride) {
        for (ptrdiff_t j = share.first; j < share.last; ++j) {
            if (!share.asked.has(i, j)) {
                continue;
            }
            const T g = *share.asked.at(i, j), x = *share.away.at(i, j);
            bool apart = false;
            (void)S::Term::factor(g, x, &apart);
            for (int k = 0; apart && k < kDims && dim + k < call.d; ++k) {
                const T e =
                    share.a[i * call.a.stride + dim + k] - share.b[j * call.b.stride + dim + k];
                to[k] += S::Term::alone(g, x, e);
            }
        }
    }
}

/* Stores a thread's sums, of which so many rows and dimensions are there. */
template <typename S, typename T>
__device__ __forceinline__ void store_sums(T *to, ptrdiff_t stride,
                                           const typename S::Results &total, ptrdiff_t rows,
                                           ptrdiff_t dims)
{
    constexpr int kWord = gd::kPerWord<T>;
    const bool words = (uintptr_t)to % 16 == 0 && stride % kWord == 0 && dims >= kDims;
#pragma unroll
    for (int i = 0; i < S::rows; ++i) {
        if (i < rows) {
#pragma unroll
            for (int k = 0; k < kDims; k += kWord) {
                if (words) {
                    gd::store_word(to + i * stride + k, &total[i][k]);
                }
            }
#pragma unroll
            for (int k = 0; k < kDims; ++k) {
                if (!words && k < dims) {
                    to[i * stride + k] = total[i][k];
                }
            }
        }
    }
}

/* What a block does, whose number tells its rows, columns, part and matrix. Sums go to the
 * workspace, as join_parts wants them, where there are several parts. */
template <typename S>
__device__ __forceinline__ void sum_block(const gd::Gradient<typename S::T> &call, unsigned block,
                                          unsigned down, unsigned across, unsigned parts,
                                          ptrdiff_t part_rows, typename S::T *workspace)
{
    using T = typename S::T;
    extern __shared__ float4 dynamic[];
    auto &memory = *reinterpret_cast<Memory<S> *>(dynamic);
    const unsigned part = block / down / across % parts;
    const ptrdiff_t number = block / down / across / parts;
    const Share<T> share = {
        (ptrdiff_t)(block % down) * S::block_rows,
        (ptrdiff_t)(block / down % across) * S::dims,
        part * part_rows,
        min((part + 1) * part_rows, call.b.count),
        call.a.data + call.batch.offset(call.a.apart, number),
        call.b.data + call.batch.offset(call.b.apart, number),
        gd::PairsOfOne<T>(call.asked, call.batch, number, call.pairs, call.b.count),
        gd::PairsOfOne<T>(call.away, call.batch, number, call.pairs, call.b.count)};
    const int own_rows = threadIdx.x / S::across * S::rows;
    const int own_dims = threadIdx.x % S::across * kDims;

    Copies<S> copies(call, share);
    const auto copy = [&](int to, ptrdiff_t j) {
        const int left = (int)min(share.last - j, (ptrdiff_t)kSlab);
        copy_points<S>(memory, to, call, share, copies, left);
        copy_pairs<S>(memory, to, call, share, copies, j, left);
        gd::end_copies();
    };
    copy(0, share.first);
    T a[S::rows][kDims];
    bool tiny = false, apart = false;
#pragma unroll
    for (int i = 0; i < S::rows; ++i) {
#pragma unroll
        for (int k = 0; k < kDims; ++k) {
            const ptrdiff_t row = share.top + own_rows + i, dim = share.dim + own_dims + k;
            a[i][k] = row < call.a.count && dim < call.d
                          ? __ldg(share.a + row * call.a.stride + dim)
                          : T(0);
            tiny |= S::signs && is_tiny((float)a[i][k]);
        }
    }
    T total[S::rows][kDims] = {};
    int at = 0;
#pragma unroll 1
    for (ptrdiff_t j = share.first; j < share.last; j += kSlab, at ^= 1) {
        gd::await_copies<0>();
        bool own = make_factors<S>(memory, at, copies);
        if constexpr (S::signs) {
            own |= tiny || has_tiny<S>(memory, at);
        }
        /* The slab is there, and nobody reads the one before it any more. */
        const bool unusual = __syncthreads_or(own);
        apart |= unusual;
        if (j + kSlab < share.last) {
            copy(at ^ 1, j + kSlab);
        }
        T sum[S::rows][kDims] = {};
        if constexpr (S::signs) {
            if (unusual) {
                add_slab<S, true, T>(sum, a, memory, at, own_rows, own_dims, call.p);
            }
            else {
                add_slab<S, false, T>(sum, a, memory, at, own_rows, own_dims, call.p);
            }
            T factors[S::rows];
            sum_factors<S, T>(factors, memory, at, own_rows);
#pragma unroll
            for (int i = 0; i < S::rows; ++i) {
#pragma unroll
                for (int k = 0; k < kDims; ++k) {
                    total[i][k] += __fmaf_rn(2, sum[i][k], -factors[i]);
                }
            }
        }
        else {
            add_slab<S, false, T>(sum, a, memory, at, own_rows, own_dims, call.p);
#pragma unroll
            for (int i = 0; i < S::rows; ++i) {
#pragma unroll
                for (int k = 0; k < kDims; ++k) {
                    total[i][k] += sum[i][k];
                }
            }
        }
    }

    const ptrdiff_t row = share.top + own_rows, dim = share.dim + own_dims;
    const ptrdiff_t stride = workspace != nullptr ? call.d : call.out.stride;
    T *const to =
        (workspace != nullptr ? workspace + (number * parts + part) * call.a.count * call.d
                              : call.out.data + call.batch.offset(call.out.apart, number)) +
        row * stride + dim;
    store_sums<S>(to, stride, total, call.a.count - row, call.d - dim);
    if (apart) {
        add_alone<S, T>(call, share, to, stride, row, dim);
    }
}

template <typename S>
__global__ void __launch_bounds__(kThreads, kBlocks)
    tile(const __grid_constant__ gd::Gradient<typename S::T> call, unsigned down, unsigned across,
         unsigned parts, ptrdiff_t part_rows, typename S::T *workspace)
{
    sum_block<S>(call, blockIdx.x, down, across, parts, part_rows, workspace);
}

/* Of the matrices that are wanted (direct.cuh). A block goes through several numbers, as one that
 * finds nothing to do takes a microsecond all the same. */
template <typename S>
__global__ void __launch_bounds__(kThreads, kBlocks)
    tile_wanted(const __grid_constant__ gd::Gradient<typename S::T> call, unsigned blocks,
                unsigned down, unsigned across, unsigned parts, ptrdiff_t part_rows,
                typename S::T *workspace, const unsigned *wanted)
{
    for (unsigned block = blockIdx.x; block < blocks; block += gridDim.x) {
        if (wanted[block / down / across / parts] != 0) {
            sum_block<S>(call, block, down, across, parts, part_rows, workspace);
            __syncthreads();
        }
    }
}

/* How many rows of b make a part of the sum: whole slabs, and so many that parts are few. */
ptrdiff_t rows_of_part(ptrdiff_t n) { return n <= 1024 ? 256 : n <= 8192 ? 512 : 1024; }
/* One of no rows writes zeros. */
ptrdiff_t parts_of(ptrdiff_t n) { return n > 0 ? gd::ceil_div(n, rows_of_part(n)) : 1; }

template <typename S>
cudaError_t launch(const gd_gradient &call, bool turned, const unsigned *wanted)
{
    using T = typename S::T;
    const gd::Gradient<T> one = gd::gradient_of<T>(call, turned);
    const ptrdiff_t down = gd::ceil_div(one.a.count, S::block_rows);
    const ptrdiff_t across = gd::ceil_div(one.d, S::dims);
    const ptrdiff_t part_rows = rows_of_part(one.b.count);
    const ptrdiff_t parts = parts_of(one.b.count), blocks = down * across * parts * call.count;
    T *const workspace = parts > 1 ? (T *)call.launch.workspace : nullptr;
    cudaError_t code = cudaErrorInvalidConfiguration;
    if constexpr (S::may_be_wanted) {
        if (wanted != nullptr && blocks <= INT_MAX) {
            const gd::Steps steps(call.launch);
            const ptrdiff_t most = (ptrdiff_t)steps.processors * kBlocks;
            code = gd::enqueue(call.launch, tile_wanted<S>, min(blocks, most), dim3(kThreads),
                               sizeof(Memory<S>), one, (unsigned)blocks, (unsigned)down,
                               (unsigned)across, (unsigned)parts, part_rows, workspace, wanted);
        }
    }
    if (wanted == nullptr) {
        code = gd::enqueue(call.launch, tile<S>, blocks, dim3(kThreads), sizeof(Memory<S>), one,
                           (unsigned)down, (unsigned)across, (unsigned)parts, part_rows, workspace);
    }
    return code == cudaSuccess && parts > 1
               ? gd::join(call.launch, workspace, parts, call.count, one.a.count, one.d, one.out,
                          one.batch, wanted)
               : code;
}

template <typename Term, typename T>
cudaError_t launch_shape(const gd_gradient &call, bool turned, const unsigned *wanted = nullptr)
{
    const ptrdiff_t d = call.a.first.cols;
    return d <= 32   ? launch<Shape<Term, 8, T>>(call, turned, wanted)
           : d <= 64 ? launch<Shape<Term, 16, T>>(call, turned, wanted)
                     : launch<Shape<Term, 32, T>>(call, turned, wanted);
}

/* The bytes of the parts of one side's sums. */
size_t bytes_of_parts(const gd_gradient &call, bool turned)
{
    const ptrdiff_t rows = turned ? call.b.first.rows : call.a.first.rows;
    const ptrdiff_t others = turned ? call.a.first.rows : call.b.first.rows;
    const size_t size = call.out.first.dtype == GD_F32 ? sizeof(float) : sizeof(double);
    const ptrdiff_t parts = parts_of(others);
    return parts > 1 ? (size_t)(call.count * parts * rows * call.a.first.cols) * size : 0;
}

}  // namespace

namespace gd {

cudaError_t sum_directly(const gd_gradient &call, bool turned, const unsigned *wanted)
{
    return call.metric == GD_SQEUCLIDEAN
               ? launch_shape<Term<GD_SQEUCLIDEAN>, float>(call, turned, wanted)
               : launch_shape<Term<GD_EUCLIDEAN>, float>(call, turned, wanted);
}
size_t bytes_of_direct(const gd_gradient &call, bool turned)
{
    return bytes_of_parts(call, turned);
}

}  // namespace gd

extern "C" gd_status gd_cuda_gradient_tile(gd_gradient *call, gd_error *err)
{
    const bool both = call->out_b.first.data != nullptr;
    const size_t bytes = bytes_of_parts(*call, false), bytes_b = bytes_of_parts(*call, true);
    call->launch.workspace_bytes = both && bytes_b > bytes ? bytes_b : bytes;
    if (call->launch.sizing) {
        return GD_OK;
    }
    return gd::with_float_type(call->out.first.dtype, [&](auto type) {
        using T = decltype(type);
        return gd::with_term(call->metric, [&](auto term) {
            using Term = decltype(term);
            GD_CUDA_TRY(err, "gradient/cuda_tile", (launch_shape<Term, T>(*call, false)));
            if (both) {
                GD_CUDA_TRY(err, "gradient/cuda_tile", (launch_shape<Term, T>(*call, true)));
            }
            return GD_OK;
        });
    });
}
