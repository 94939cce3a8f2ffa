/* cdist_product_body.h: the part of cdist_product.c that depends on the element type. Included once
 * per type, with T the type, V its vector, MASK a vector of integers of that size, N(x) the name x
 * with the type's suffix, TRANSPOSE(x) for a square of vectors, and GUARDED 1 for the type whose
 * sums of squares are checked for lost range (float32). FOLD is the dimensions of a chain of
 * additions, GROUP those of the chains that are joined before anything wider. NORM_MOST,
 * SQUARE_LEAST and N(share_of) bound what is trusted; of CENTRE_ROWS rows a centre is taken;
 * NEAR_TIMES and NEAR_SHARE judge B; COSINE_COLS are the most dimensions of a cosine. */

#define LANES ((int)(sizeof(V) / sizeof(T)))
#define HALVES ((int)(sizeof(double) / sizeof(T))) /* vectors of doubles for one of T */
#define DOUBLES ((int)(sizeof(gd_vf64) / sizeof(double)))
#define WIDTH (NV * LANES)             /* columns of a panel */
#define STEP (LANES < MR ? MR : LANES) /* rows that are packed at a time */
#define PER_RUN (GD_LINE / (int)sizeof(T))

enum { N(lanes) = LANES };
#include "put_body.h"

/* A call that all members work on. */
typedef struct N(job) {
    const gd_cdist *call;
    const product_plan *plan;
    T *centre, *packed; /* of B; the second and the norms unless there is one block of rows */
    double *norms;
} N(job);

/* A thread's memory. */
typedef struct N(own) {
    T *rows, *columns; /* packed rows of A; packed columns, if there is one block of rows */
    T *stage[2];       /* squares of distances */
    T *zeros, *panel;  /* a panel of columns as they are */
    T *kept;           /* see put_body.h */
    double *row_norms, *column_norms, *panel_norms;
    double *totals;  /* products of the groups so far, if there are several */
    uint64_t *marks; /* of each row and panel: a bit for each suspect */
} N(own);

/* ---------------------------------------------------------------- vectors of doubles */

GD_INLINE void N(widen)(V x, gd_vf64 *wide)
{
    T part[LANES];
    gd_store(part, x);
    __asm__("" : "+m"(part)); /* loads convert by themselves, halves of registers do not */
    GD_UNROLL for (int h = 0; h < HALVES; ++h)
        wide[h] = gd_load_wide(part + h * DOUBLES);
}

/* Adds squares of a vector, or of one half of it. */
GD_INLINE gd_vf64 N(add_squares)(gd_vf64 sum, V x, const int half)
{
    gd_vf64 wide[HALVES];
    N(widen)(x, wide);
    return gd_fma(wide[half], wide[half], sum);
}

/* ---------------------------------------------------------------- packing */

static const T *N(row_of)(const gd_matrix *x, ptrdiff_t row)
{
    return (const T *)x->data + gd_least(row, x->rows - 1) * x->row_stride;
}

/* Dimensions k to k + LANES of a row, zeros beyond the last. */
GD_INLINE V N(load_some)(const T *row, ptrdiff_t k, ptrdiff_t d)
{
    return k + LANES <= d ? gd_load(row + k) : gd_load_first(row + k, d - k);
}

/* LANES rows of an operand, on their way into vectors. */
typedef struct N(source) {
    const T *rows[LANES];
    const T *centre;
    ptrdiff_t d, ahead; /* dimensions; bytes to the rows after these */
} N(source);

static N(source) N(source_of)(const gd_matrix *x, ptrdiff_t from, const T *centre)
{
    N(source)
    source = {
        .centre = centre, .d = x->cols, .ahead = LANES * x->row_stride * (ptrdiff_t)sizeof(T)};
    for (int i = 0; i < LANES; ++i)
        source.rows[i] = N(row_of)(x, from + i);
    return source;
}

/* Dimensions k to k + LANES less the centre, a vector each, and to `norms` their squares. These are
 * sums of a row's vector, or where they are wider than that of every second dimension's vectors. */
GD_INLINE void N(take_square)(const N(source) * source, ptrdiff_t k, V *square, gd_vf64 *norms)
{
    GD_FORGET(k); /* lest each row has a pointer that moves */
    const V middle = gd_load(source->centre + k);
    GD_UNROLL for (int i = 0; i < LANES; ++i) {
        square[i] = N(load_some)(source->rows[i], k, source->d) - middle;
        gd_fetch(source->rows[i] + k, source->ahead);
        if (HALVES == 1)
            norms[i] = N(add_squares)(norms[i], square[i], 0);
    }
    TRANSPOSE(square);
    if (HALVES > 1) GD_UNROLL
        for (int i = 0; i < LANES; ++i) GD_UNROLL
            for (int h = 0; h < HALVES; ++h) {
                gd_vf64 *const sum = norms + i % 2 * HALVES + h;
                *sum = N(add_squares)(*sum, square[i], h);
            }
}

/* Norms of LANES rows: NaN where one is so large that products might leave the range. */
GD_INLINE void N(norms_of)(gd_vf64 *sums, gd_vf64 *norms)
{
    if (HALVES == 1) {
        gd_transpose_f64(sums);
        GD_UNROLL for (int step = 1; step < DOUBLES; step *= 2) GD_UNROLL
            for (int i = 0; i < DOUBLES; i += 2 * step)
                sums[i] += sums[i + step];
    }
    GD_UNROLL for (int h = 0; h < HALVES; ++h) {
        const gd_vf64 sum = HALVES == 1 ? sums[0] : sums[h] + sums[HALVES + h];
        const gd_vi64 usual = sum <= gd_splat(NORM_MOST);
        norms[h] = (gd_vf64)((gd_vi64)sum | ~usual);
    }
}

/* Puts a dimension of LANES rows among those of tiles of `width` rows, `tile` elements apart. */
GD_INLINE void N(put_dimension)(const int width, ptrdiff_t tile, T *to, V x)
{
    if (width >= LANES)
        gd_store(to, x);
    else GD_UNROLL
        for (int r = 0; r < LANES; r += width)
            memcpy(to + r / width * tile, (const char *)&x + r * (int)sizeof(T),
                   (size_t)width * sizeof(T));
}

/* Copies LANES rows from `from` on to to[k * width + r], and their norms to *norms. */
GD_INLINE void N(pack_square)(const int width, const gd_matrix *x, ptrdiff_t from, const T *centre,
                              ptrdiff_t depth, T *to, double *norms)
{
    const N(source) source = N(source_of)(x, from, centre);
    gd_vf64 total[LANES], acc[LANES];
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        total[i] = (gd_vf64){0};
    for (ptrdiff_t k = 0; k < source.d;) {
        const ptrdiff_t end = gd_least(k + SQUARES * LANES, source.d);
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            acc[i] = (gd_vf64){0};
        for (; k < end; k += LANES) {
            V square[LANES];
            N(take_square)(&source, k, square, acc);
            GD_UNROLL for (int i = 0; i < LANES; ++i)
                N(put_dimension)(width, width * depth, to + (k + i) * width, square[i]);
        }
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            total[i] += acc[i];
    }
    gd_vf64 sums[HALVES];
    N(norms_of)(total, sums);
    memcpy(norms, sums, sizeof sums);
}

/* STEP rows of A, in tiles of MR. */
static void N(pack_rows)(const gd_matrix *x, ptrdiff_t from, const T *centre, ptrdiff_t depth,
                         T *to, double *norms)
{
    for (int r = 0; r < STEP; r += LANES)
        N(pack_square)(MR, x, from + r, centre, depth, to + r, norms + r);
}

/* A panel of columns. */
static void N(pack_columns)(const gd_matrix *x, ptrdiff_t from, const T *centre, T *to,
                            double *norms)
{
    for (int r = 0; r < WIDTH; r += LANES)
        N(pack_square)(WIDTH, x, from + r, centre, 0, to + r, norms + r);
}

/* ---------------------------------------------------------------- the tile */

/* Squares of distances made of products and the sums of both norms. */
GD_INLINE gd_vf64 N(square_of)(gd_vf64 products, gd_vf64 both)
{
    return gd_fma(gd_splat(-2.0), products, both);
}

/* What a square has to be above, lest it is a suspect. */
GD_INLINE gd_vf64 N(least_of)(const product_plan *plan, gd_vf64 both)
{
    return gd_fma(gd_splat(plan->share), both, gd_splat(SQUARE_LEAST));
}

/* A bit for each suspect. */
GD_INLINE unsigned N(suspects_of)(const product_plan *plan, gd_vf64 square, gd_vf64 both)
{
    return GD_ALL_DOUBLES & ~gd_lanes_above(square, N(least_of)(plan, both));
}

/* Where a tile's products and results are. */
typedef struct N(place) {
    T *out;         /* squares of distances */
    double *totals; /* products of the groups before */
    ptrdiff_t stride;
    uint64_t *marks;
    ptrdiff_t marks_stride;
    const double *row_norms, *column_norms;
} N(place);

/* The products of DOUBLES columns of a row so far: sums of a group, and totals of those before. */
GD_INLINE gd_vf64 N(products_of)(const T *sums, const double *totals, const bool first)
{
    const gd_vf64 sum = gd_load_wide(sums);
    return first ? sum : sum + gd_load(totals);
}

/* Suspects of a row and a panel that has any: by squares of distances in float64, which are stored
 * or made again of what is left. */
static __attribute__((noinline)) uint64_t N(find_suspects)(const product_plan *plan, const T *sums,
                                                           const double *totals, bool first,
                                                           const T *squares, double row_norm,
                                                           const double *column_norms)
{
    uint64_t suspects = 0;
    for (int c = 0; c < WIDTH; c += DOUBLES) {
        const gd_vf64 both = row_norm + gd_load(column_norms + c);
        const gd_vf64 square =
            HALVES == 1 ? gd_load_wide(squares + c)
                        : N(square_of)(N(products_of)(sums + c, totals + c, first), both);
        suspects |= (uint64_t)N(suspects_of)(plan, square, both) << c;
    }
    return suspects;
}

/* What becomes of a tile's sums of a group: they join the totals, if there are any, and either take
 * their place or, if `last`, become squares of distances. Most rows have no suspect. */
GD_INLINE void N(end_group)(const int mr, const product_plan *plan, const N(place) * place,
                            const V (*sums)[NV], const bool first, const bool last)
{
    const T *from = (const T *)sums;
    const double *const column_norms = place->column_norms;
    double *totals = place->totals;
    T *out = place->out;
    for (int r = 0; r < mr; ++r, from += WIDTH, totals += place->stride, out += place->stride) {
        const gd_vf64 row_norm = gd_splat(place->row_norms[r]);
        unsigned above = GD_ALL_DOUBLES;
        GD_UNROLL for (int c = 0; c < WIDTH; c += DOUBLES) {
            const gd_vf64 products = N(products_of)(from + c, totals + c, first);
            if (last) {
                const gd_vf64 both = row_norm + gd_load(column_norms + c);
                const gd_vf64 square = N(square_of)(products, both);
                gd_store_narrow(out + c, square);
                above = gd_also_above(above, square, N(least_of)(plan, both));
            }
            else
                gd_store(totals + c, products);
        }
        if (last)
            place->marks[r * place->marks_stride] =
                above == GD_ALL_DOUBLES ? 0
                                        : N(find_suspects)(plan, from, totals, first, out,
                                                           place->row_norms[r], column_norms);
    }
}

/* Adds a dimension of mr rows and a panel to their sums. */
GD_INLINE void N(add_dimension)(const int mr, const T *a, const T *b, ptrdiff_t k, const T *next,
                                V (*acc)[NV])
{
    V column[NV];
    GD_UNROLL for (int v = 0; v < NV; ++v)
        column[v] = gd_load(b + (k * NV + v) * LANES);
    gd_fetch(next, k * GD_LINE);
    GD_UNROLL for (int r = 0; r < mr; ++r) {
        const V row = gd_splat(a[k * MR + r]);
        GD_UNROLL for (int v = 0; v < NV; ++v)
            acc[r][v] = gd_fma(row, column[v], acc[r][v]);
    }
}

/* Adds a slab of `depth` dimensions of mr rows and a panel to their totals, which begin with it if
 * `first`. If `last`, squares of distances come to `out`, and marks of the suspects. */
GD_INLINE void N(multiply)(const int mr, const product_plan *plan, const T *a, const T *b,
                           ptrdiff_t depth, bool first, bool last, const N(place) * place,
                           const T *next, N(queue) * queue)
{
    V acc[MR][NV], waiting[WAITING][MR][NV];
    for (ptrdiff_t k = 0; k < depth;) {
        const ptrdiff_t group = gd_least(k + GROUP, depth);
        for (unsigned chain = 0;; ++chain) {
            const ptrdiff_t end = gd_least(k + plan->fold, group);
            N(share) share = N(take_share)(queue, (end - k) / plan->apart);
            const ptrdiff_t busy = k + share.lines * plan->apart;
            FOR_TILE (r, mr, v)
                acc[r][v] = (V){0};
            if (plan->apart == 2)
                for (; k < busy; k += 2) {
                    N(put_line)(queue->metric, queue, &share);
                    N(add_dimension)(mr, a, b, k, next, acc);
                    N(add_dimension)(mr, a, b, k + 1, next, acc);
                }
            else
                for (; k < busy; ++k) {
                    N(put_line)(queue->metric, queue, &share);
                    N(add_dimension)(mr, a, b, k, next, acc);
                }
            for (; k + 1 < end; k += 2) {
                N(add_dimension)(mr, a, b, k, next, acc);
                N(add_dimension)(mr, a, b, k + 1, next, acc);
            }
            for (; k < end; ++k)
                N(add_dimension)(mr, a, b, k, next, acc);
            unsigned left = chain;
            int level = 0;
            for (; k == group ? left : left & 1; left >>= 1, ++level)
                if (left & 1)
                    FOR_TILE (r, mr, v)
                        acc[r][v] += waiting[level][r][v];
            if (k == group)
                break;
            FOR_TILE (r, mr, v)
                waiting[level][r][v] = acc[r][v];
        }
        FOR_TILE (r, mr, v)
            waiting[0][r][v] = acc[r][v];
        GD_FORGET(place);
        if (!last || k < depth)
            first ? N(end_group)(mr, plan, place, waiting[0], true, false)
                  : N(end_group)(mr, plan, place, waiting[0], false, false);
        else
            first ? N(end_group)(mr, plan, place, waiting[0], true, true)
                  : N(end_group)(mr, plan, place, waiting[0], false, true);
        first = false;
    }
}

#define DEFINE_MULTIPLY(mr)                                                                      \
    static void N(multiply_##mr)(const product_plan *plan, const T *a, const T *b,               \
                                 ptrdiff_t depth, bool first, bool last, const N(place) * place, \
                                 const T *next, N(queue) * queue)                                \
    {                                                                                            \
        N(multiply)(mr, plan, a, b, depth, first, last, place, next, queue);                     \
    }
DEFINE_MULTIPLY(MR)
DEFINE_MULTIPLY(1)
#undef DEFINE_MULTIPLY

/* ---------------------------------------------------------------- few rows */

/* The same of `few` packed rows and a vector of columns that nobody has packed: they are used once.
 * Sums have the order of the tiles. */
GD_INLINE void N(multiply_strip)(const int few, const product_plan *plan, const gd_matrix *b,
                                 ptrdiff_t column, const T *centre, const T *a,
                                 const double *a_norms, T *out, ptrdiff_t stride,
                                 uint64_t *suspects)
{
    const N(source) source = N(source_of)(b, column, centre);
    gd_vf64 norms[LANES], sums[LANES], products[FEW][HALVES], wide[HALVES];
    V waiting[WAITING][FEW], acc[FEW], square[LANES];
    unsigned chain = 0;
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        norms[i] = sums[i] = (gd_vf64){0};
    GD_UNROLL for (int r = 0; r < few; ++r) {
        acc[r] = (V){0};
        GD_UNROLL for (int h = 0; h < HALVES; ++h)
            products[r][h] = (gd_vf64){0};
    }
    for (ptrdiff_t k = 0; k < source.d; k += LANES) {
        const ptrdiff_t next = k + LANES;
        N(take_square)(&source, k, square, sums);
        GD_UNROLL for (int i = 0; i < LANES; ++i) {
            GD_UNROLL for (int r = 0; r < few; ++r)
                acc[r] = gd_fma(gd_splat(a[(k + i) * MR + r]), square[i], acc[r]);
            const ptrdiff_t done = k + i + 1;
            if ((i + 1) % (FOLD < LANES ? FOLD : LANES) != 0 ||
                (done % plan->fold != 0 && done < source.d))
                continue;
            const bool ends = done % GROUP == 0 || done >= source.d;
            unsigned left = chain;
            int level = 0;
            for (; ends ? left : left & 1; left >>= 1, ++level)
                if (left & 1) GD_UNROLL
                    for (int r = 0; r < few; ++r)
                        acc[r] += waiting[level][r];
            GD_UNROLL for (int r = 0; r < few; ++r) {
                if (ends) {
                    N(widen)(acc[r], wide);
                    GD_UNROLL for (int h = 0; h < HALVES; ++h)
                        products[r][h] += wide[h];
                }
                else
                    waiting[level][r] = acc[r];
                acc[r] = (V){0};
            }
            chain = ends ? 0 : chain + 1;
            if (done >= source.d)
                break;
        }
        if (next % (SQUARES * LANES) == 0 || next >= source.d) GD_UNROLL
            for (int i = 0; i < LANES; ++i) {
                norms[i] += sums[i];
                sums[i] = (gd_vf64){0};
            }
    }
    N(norms_of)(norms, sums);
    GD_UNROLL for (int r = 0; r < few; ++r) {
        suspects[r] = 0;
        GD_UNROLL for (int h = 0; h < HALVES; ++h) {
            const gd_vf64 both = a_norms[r] + sums[h];
            const gd_vf64 apart = N(square_of)(products[r][h], both);
            gd_store_narrow(out + r * stride + h * DOUBLES, apart);
            suspects[r] |= (uint64_t)N(suspects_of)(plan, apart, both) << h * DOUBLES;
        }
    }
}

/* ---------------------------------------------------------------- suspects */

#include "product_direct.h"

/* Whether the sum of squared differences of two rows lost range, and is not 0 because they are
 * equal. */
GD_INLINE bool N(is_lost)(const gd_cdist *call, T sum, const T *a, const T *b)
{
    return GUARDED && GD_CAN_LOSE_RANGE(call->metric) && gd_lost_range(call->metric, (float)sum) &&
           !(sum == 0 && memcmp(a, b, (size_t)call->a.cols * sizeof(T)) == 0);
}

/* Suspects that wait for being LANES, and where their squares go. */
typedef struct N(waiting) {
    const T *a[LANES], *b[LANES];
    T *to[LANES];
    int count;
    bool lost; /* range, of any so far */
} N(waiting);

/* Computes those that wait. */
static void N(recompute_some)(const gd_cdist *call, N(waiting) * some)
{
    if (some->count == 0)
        return;
    for (int i = some->count; i < LANES; ++i) {
        some->a[i] = some->a[0];
        some->b[i] = some->b[0];
    }
    const V sums = N(direct)(some->a, some->b, call->a.cols);
    for (int i = 0; i < some->count; ++i) {
        *some->to[i] = sums[i];
        some->lost |= N(is_lost)(call, sums[i], some->a[i], some->b[i]);
    }
    some->count = 0;
}

/* Computes a row's suspects among the columns of these panels, but for some that wait. */
static void N(recompute_row)(const gd_cdist *call, ptrdiff_t row, ptrdiff_t column,
                             ptrdiff_t panels, const uint64_t *marks, T *squares, N(waiting) * some)
{
    for (ptrdiff_t p = 0; p < panels; ++p, column += WIDTH, squares += WIDTH)
        for (uint64_t left = marks[p]; left != 0; left &= left - 1) {
            const int c = __builtin_ctzll(left);
            if (column + c >= call->b.rows)
                break;
            some->a[some->count] = N(row_of)(&call->a, row);
            some->b[some->count] = N(row_of)(&call->b, column + c);
            some->to[some->count++] = squares + c;
            if (some->count == LANES)
                N(recompute_some)(call, some);
        }
}

/* Where many of a panel's distances are suspects, all of its rows with any are computed again: a
 * suspect by itself takes three times as long as one among others. Clears their marks. */
static bool N(recompute_panel)(const N(job) * job, const N(own) * own, ptrdiff_t row,
                               ptrdiff_t rows, ptrdiff_t column, uint64_t *marks, T *squares)
{
    const product_plan *const plan = job->plan;
    const gd_cdist *const call = job->call;
    const ptrdiff_t stride = plan->chunk * WIDTH, d = call->a.cols;
    ptrdiff_t count = 0, found = 0;
    bool lost = false;
    for (ptrdiff_t r = 0; r < rows; ++r)
        count += __builtin_popcountll(marks[r * plan->chunk]);
    if (rows < DENSE_ROWS || count * DENSE_SHARE < rows * WIDTH)
        return false;
    memset(own->zeros, 0, (size_t)plan->depth * sizeof(T));
    N(pack_columns)(&call->b, column, own->zeros, own->panel, own->panel_norms);
    for (ptrdiff_t r = 0; r < rows; r = found) {
        const T *a[TOGETHER];
        ptrdiff_t at[TOGETHER];
        T sums[TOGETHER * WIDTH];
        int taken = 0;
        for (found = r; found < rows && taken < TOGETHER; ++found)
            if (marks[found * plan->chunk] != 0)
                at[taken++] = found;
        for (int i = 0; i < TOGETHER; ++i)
            a[i] = N(row_of)(&call->a, row + at[i < taken ? i : 0]);
        if (taken > 0)
            N(direct_panel)(a, own->panel, d, sums);
        for (int i = 0; i < taken; ++i) {
            uint64_t *const left = marks + at[i] * plan->chunk;
            for (; *left != 0; *left &= *left - 1) {
                const int c = __builtin_ctzll(*left);
                squares[at[i] * stride + c] = sums[i * WIDTH + c];
                lost |=
                    N(is_lost)(call, sums[i * WIDTH + c], a[i], N(row_of)(&call->b, column + c));
            }
        }
    }
    return lost;
}

/* Computes the suspects among `rows` rows and `cols` columns again. Returns whether any lost range.
 */
static bool N(recompute)(const N(job) * job, const N(own) * own, ptrdiff_t row, ptrdiff_t rows,
                         ptrdiff_t column, ptrdiff_t cols, T *squares)
{
    const product_plan *const plan = job->plan;
    const ptrdiff_t panels = gd_ceil_div(cols, WIDTH);
    ptrdiff_t count = 0;
    for (ptrdiff_t r = 0; r < rows; ++r)
        for (ptrdiff_t p = 0; p < panels; ++p)
            if (own->marks[r * plan->chunk + p] != 0)
                count += __builtin_popcountll(own->marks[r * plan->chunk + p]);
    if (count == 0)
        return false;
    N(waiting) some = {.count = 0, .lost = false};
    for (ptrdiff_t c = 0; c < cols && count * DENSE_SHARE >= rows * WIDTH; c += WIDTH)
        some.lost |= N(recompute_panel)(job, own, row, rows, column + c, own->marks + c / WIDTH,
                                        squares + c);
    for (ptrdiff_t r = 0; r < rows; ++r)
        N(recompute_row)(job->call, row + r, column, panels, own->marks + r * plan->chunk,
                         squares + r * plan->chunk * WIDTH, &some);
    N(recompute_some)(job->call, &some);
    return some.lost;
}

#if GUARDED
/* Makes distances of a row's squares, those that lost range of differences in float64. */
static void N(recompute_lost)(const gd_cdist *call, ptrdiff_t row, ptrdiff_t column, ptrdiff_t cols,
                              T *squares)
{
    enum { MOST = 8 };
    const bool root = call->metric == GD_EUCLIDEAN;
    const T *const a = N(row_of)(&call->a, row), *b[MOST];
    ptrdiff_t at[MOST];
    for (ptrdiff_t c = 0; c < cols;) {
        double exact[MOST] = {0};
        int count = 0;
        for (; c < cols && count < MOST; ++c)
            if (gd_lost_range(call->metric, squares[c])) {
                b[count] = N(row_of)(&call->b, column + c);
                at[count++] = c;
            }
            else if (root)
                squares[c] = __builtin_sqrtf(squares[c]);
        if (count == 0)
            break;
        for (int i = count; i < MOST; ++i)
            b[i] = b[0];
        for (ptrdiff_t k = 0; k < call->a.cols; ++k)
            for (int i = 0; i < MOST; ++i)
                exact[i] += gd_wide_term(call->metric, a[k], b[i][k]);
        for (int i = 0; i < count; ++i)
            squares[at[i]] = (T)(root ? __builtin_sqrt(exact[i]) : exact[i]);
    }
}
#endif

#include "product_centre.h"

/* ---------------------------------------------------------------- the call */

/* A thread's share of the memory; returns its bytes. */
static size_t N(carve_own)(const product_plan *plan, char *memory, N(own) * own)
{
    const ptrdiff_t cols = plan->chunk * WIDTH, alone = plan->packs && plan->blocks == 1;
    const ptrdiff_t rows = gd_ceil_div(plan->rows, STEP) * STEP;
    size_t used = 0;
    own->rows = gd_next_array(memory, &used, rows * plan->depth, sizeof(T));
    own->stage[0] = gd_next_array(memory, &used, plan->rows * cols, sizeof(T));
    own->stage[1] = gd_next_array(memory, &used, plan->rows * cols, sizeof(T));
    own->columns = gd_next_array(memory, &used, alone * cols * plan->depth, sizeof(T));
    own->zeros = gd_next_array(memory, &used, plan->depth, sizeof(T));
    own->panel = gd_next_array(memory, &used, plan->depth * WIDTH, sizeof(T));
    own->row_norms = gd_next_array(memory, &used, rows, sizeof(double));
    own->column_norms = gd_next_array(memory, &used, alone * cols, sizeof(double));
    own->panel_norms = gd_next_array(memory, &used, WIDTH, sizeof(double));
    own->totals = gd_next_array(memory, &used, GUARDED * plan->rows * cols, sizeof(double));
    own->marks = gd_next_array(memory, &used, plan->rows * plan->chunk, sizeof *own->marks);
    own->kept = gd_next_array(memory, &used, plan->rows * N(per_line), sizeof(T));
    return used;
}

static size_t N(carve_shared)(const product_plan *plan, char *memory, N(job) * job)
{
    const ptrdiff_t cols = plan->blocks == 1 ? 0 : plan->panels * WIDTH;
    size_t used = 0;
    job->centre = gd_next_array(memory, &used, plan->depth, sizeof(T));
    job->norms = gd_next_array(memory, &used, cols, sizeof(double));
    job->packed = gd_next_array(memory, &used, cols * plan->depth, sizeof(T));
    return used;
}

static product_plan N(plan_of)(const gd_cdist *call)
{
    const ptrdiff_t m = call->out.rows, n = call->out.cols, d = call->a.cols;
    const double pairs = (double)m * (double)n;
    product_plan plan = {
        .depth = gd_ceil_div(d, LANES) * LANES,
        .panels = gd_ceil_div(n, WIDTH),
        .packs = m > FEW,
        .fold = FOLD_OF(d),
        .apart = d < APART_FROM ? 1 : 2,
        .share = N(share_of)(call->metric, d),
    };
    /* All of a block's rows are packed at once: beyond 8 MB fewer of them are. */
    const ptrdiff_t row_bytes = plan.depth * (ptrdiff_t)sizeof(T);
    const ptrdiff_t tiles = gd_most(1, gd_least(ROWS, (8 << 20) / row_bytes) / MR);
    plan.rows = MR * gd_least(gd_ceil_div(m, MR), tiles);
    plan.blocks = gd_ceil_div(m, plan.rows);
    plan.chunk = plan.blocks > 1 ? CHUNK : ALONE_BYTES / (WIDTH * row_bytes);
    plan.chunk = gd_most(1, gd_least(plan.chunk, gd_least(CHUNK, plan.panels)));
    /* Waking threads costs about as much as 2**18 pair-dimensions on one. */
    plan.threads = pairs * (double)(d + 8) < 0x1p18 ? 1 : gd_team_size();
    plan.spans = plan.threads == 1
                     ? 1
                     : gd_least(plan.panels, gd_ceil_div(4 * (ptrdiff_t)plan.threads, plan.blocks));
    plan.stream = gd_worth_streaming(m, n, sizeof(T)) && (uintptr_t)call->out.data % sizeof(T) == 0;
    N(own) own;
    N(job) job;
    plan.own_bytes = N(carve_own)(&plan, NULL, &own);
    plan.shared_bytes = N(carve_shared)(&plan, NULL, &job);
    return plan;
}

static void N(pack_some)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const N(job) *const job = context;
    (void)member;
    for (ptrdiff_t p = first; p < last; ++p)
        N(pack_columns)(&job->call->b, p * WIDTH, job->centre,
                        job->packed + p * WIDTH * job->plan->depth, job->norms + p * WIDTH);
}

/* Squares of distances of the packed rows, from `row` on, and `count` panels. */
static void N(multiply_all)(const N(job) * job, const N(own) * own, ptrdiff_t rows,
                            const T *columns, const double *column_norms, ptrdiff_t count, T *stage,
                            N(queue) * queue)
{
    const product_plan *const plan = job->plan;
    const ptrdiff_t d = job->call->a.cols, stride = plan->chunk * WIDTH;
    double *const totals = GUARDED ? own->totals : (double *)stage;
    for (ptrdiff_t k = 0; k < d; k += SLAB) {
        const ptrdiff_t depth = gd_least(SLAB, d - k);
        for (ptrdiff_t p = 0; p < count; ++p) {
            const T *const panel = columns + p * WIDTH * plan->depth + k * WIDTH;
            const T *next =
                p + 1 < count ? panel + WIDTH * plan->depth : columns + (k + depth) * WIDTH;
            for (ptrdiff_t r = 0; r < rows; r += MR, next += depth * PER_RUN) {
                const ptrdiff_t at = r * stride + p * WIDTH;
                const N(place) place = {
                    .out = stage + at,
                    .totals = totals + at,
                    .stride = stride,
                    .marks = own->marks + r * plan->chunk + p,
                    .marks_stride = plan->chunk,
                    .row_norms = own->row_norms + r,
                    .column_norms = column_norms + p * WIDTH,
                };
                (rows - r == 1 ? N(multiply_1) : N(multiply_MR))(
                    plan, own->rows + r * plan->depth + k * MR, panel, depth, k == 0,
                    k + depth == d, &place, r < NV * MR ? next : panel, queue);
            }
        }
    }
}

/* The same of few rows and the columns from `column` on, which are not packed. */
static void N(multiply_few)(const N(job) * job, const N(own) * own, ptrdiff_t column,
                            ptrdiff_t cols, T *stage)
{
    const product_plan *const plan = job->plan;
    const gd_matrix *const b = &job->call->b;
    const ptrdiff_t few = job->call->a.rows, stride = plan->chunk * WIDTH;
    memset(own->marks, 0, (size_t)(FEW * plan->chunk) * sizeof *own->marks);
    for (ptrdiff_t c = 0; c < cols; c += LANES) {
        uint64_t suspects[FEW];
        if (few == 1)
            N(multiply_strip)(1, plan, b, column + c, job->centre, own->rows, own->row_norms,
                              stage + c, stride, suspects);
        else if (few == 2)
            N(multiply_strip)(2, plan, b, column + c, job->centre, own->rows, own->row_norms,
                              stage + c, stride, suspects);
        else
            N(multiply_strip)(FEW, plan, b, column + c, job->centre, own->rows, own->row_norms,
                              stage + c, stride, suspects);
        for (ptrdiff_t r = 0; r < few; ++r)
            own->marks[r * plan->chunk + c / WIDTH] |= suspects[r] << c % WIDTH;
    }
}

/* Fills out[row : row + plan->rows, the columns of panels [panel, panels_end)]. */
static void N(do_block)(const N(job) * job, const N(own) * own, ptrdiff_t row, ptrdiff_t panel,
                        ptrdiff_t panels_end)
{
    const gd_cdist *const call = job->call;
    const product_plan *const plan = job->plan;
    const ptrdiff_t stride = plan->chunk * WIDTH, n = call->out.cols, first_panel = panel;
    const ptrdiff_t rows = gd_least(plan->rows, call->a.rows - row);
    N(queue) queue = {.rows = 0};
    for (ptrdiff_t r = 0; r < rows; r += STEP)
        N(pack_rows)(&call->a, row + r, job->centre, plan->depth, own->rows + r * plan->depth,
                     own->row_norms + r);
    for (int turn = 0; panel < panels_end; panel += plan->chunk, turn = !turn) {
        const ptrdiff_t count = gd_least(plan->chunk, panels_end - panel), column = panel * WIDTH;
        const ptrdiff_t cols = gd_least(count * WIDTH, n - column);
        const T *columns = job->packed + column * plan->depth;
        const double *column_norms = job->norms + column;
        T *const stage = own->stage[turn];
        gd_metric metric = call->metric;
        if (plan->packs && plan->blocks == 1) {
            for (ptrdiff_t p = 0; p < count; ++p)
                N(pack_columns)(&call->b, column + p * WIDTH, job->centre,
                                own->columns + p * WIDTH * plan->depth,
                                own->column_norms + p * WIDTH);
            columns = own->columns;
            column_norms = own->column_norms;
        }
        if (plan->packs)
            N(multiply_all)(job, own, rows, columns, column_norms, count, stage, &queue);
        else
            N(multiply_few)(job, own, column, cols, stage);
        N(put_all)(&queue);
        if (N(recompute)(job, own, row, rows, column, cols, stage)) {
#if GUARDED
            for (ptrdiff_t r = 0; r < rows; ++r)
                N(recompute_lost)(call, row + r, column, cols, stage + r * stride);
            metric = GD_SQEUCLIDEAN; /* they are distances now */
#endif
        }
        queue = (N(queue)){
            .row = stage,
            .row_to = (T *)call->out.data + row * call->out.row_stride + column,
            .rows = rows,
            .cols = cols,
            .from_stride = stride,
            .to_stride = call->out.row_stride,
            .metric = metric,
            .stream = plan->stream,
            .kept = plan->stream && stride >= N(per_line) ? own->kept : NULL,
            .continues = panel > first_panel,
            .goes_on = panel + count < panels_end,
            .hidden = HALVES > 1 || plan->apart > 1,
        };
    }
    N(put_all)(&queue);
    if (plan->stream)
        gd_stream_end();
}

static void N(do_tasks)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const N(job) *const job = context;
    const product_plan *const plan = job->plan;
    char *const memory = job->call->launch.workspace;
    N(own) own;
    N(carve_own)(plan, memory + plan->shared_bytes + (size_t)member * plan->own_bytes, &own);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t span = t % plan->spans;
        N(do_block)(job, &own, t / plan->spans * plan->rows, plan->panels * span / plan->spans,
                    plan->panels * (span + 1) / plan->spans);
    }
}

/* Does the call, unless B is one for differences: then nothing, and it returns false. */
static bool N(run)(const gd_cdist *call, product_plan *plan)
{
    N(job) job = {.call = call, .plan = plan};
    N(carve_shared)(plan, call->launch.workspace, &job);
    N(find_centre)(&call->whole_b, plan->depth, job.centre);
    if ((call->metric == GD_COSINE && call->a.cols > COSINE_COLS) ||
        N(is_clustered)(&call->whole_b, job.centre, plan->share))
        return false;
    plan->threads = gd_team_that_fits(call->launch.workspace_bytes, plan->shared_bytes,
                                      plan->own_bytes, plan->threads);
    if (plan->blocks > 1)
        gd_team_run(plan->threads, plan->panels, 0, N(pack_some), &job);
    gd_team_run(plan->threads, plan->blocks * plan->spans, 1, N(do_tasks), &job);
    return true;
}

#undef LANES
#undef HALVES
#undef DOUBLES
#undef WIDTH
#undef STEP
#undef PER_RUN
#undef T
#undef V
#undef N
#undef MASK
#undef TRANSPOSE
#undef GUARDED
#undef FOLD
#undef FOLD_OF
#undef GROUP
#undef WAITING
#undef NORM_MOST
#undef SQUARE_LEAST
#undef CENTRE_ROWS
#undef COSINE_COLS
#undef NEAR_TIMES
#undef NEAR_SHARE
