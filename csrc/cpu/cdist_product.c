/* cdist_product.c: euclidean distances in float64, and those between rows of unit length that
 * cosine distances are, from products, d^2 = |a|^2 + |b|^2 - 2ab: one instruction a dimension and
 * vector of pairs, where a difference and its square take two.
 *
 * Rows are packed less a centre, so that norms are small: the median in each dimension of nine rows
 * of B, which outliers do not move, and which leaves whole numbers whole. A register tile of MR x
 * NV vectors takes NV loads and MR broadcasts a dimension for MR * NV multiply-adds. Slabs of a
 * panel of columns stay in L1 while a block of rows passes in L2, and the next panel's are asked
 * for meanwhile. Squares of distances wait in a stage, and their roots are found between later
 * chains of additions. A few rows of A have a form without packed columns; bits are the same.
 *
 * The difference cancels where points are close. An element is a suspect where d^2 is not above
 * `share` of |a|^2 + |b|^2 (share_of has the bound), or where norms are too small or too large for
 * products to be right, or no numbers. Suspects are computed again from the rows as given, in the
 * order of metric_terms.h: they have the bits of cdist_tile.c, and equal rows are 0 apart. Whether
 * one is goes by its two rows and the centre. One by one a suspect takes three times as long as a
 * tile's element, so those of a panel that has many are computed by a tile of their own. Where
 * among sixteen rows of B more than 3 % of the pairs are suspects, or would be if their squares
 * were half as large, cdist_tile.c does it all, and where some rows are no numbers; B alone decides
 * that.
 *
 * The floor is a multiply-add for each vector of pairs and dimension, two a cycle. One core of
 * Emerald Rapids (512-bit, its twin at work for others; 5.4e9 multiply-adds of vectors a second),
 * ms, this and cdist_tile.c: 2000 x 2000 x 1024 euclidean 117 (81 % of the floor) and 227; 3000 x
 * 3000 x 128 euclidean 45 (59 %) and 68, sqeuclidean 37 (72 %) and 63; 1000 x 1000 x 64 3.2 and
 * 4.3. A call of one row of 20000 x 128: 0.8 and 1.0. Clusters, at 2000 x 2000 x 128, cost what
 * cdist_tile.c takes, or up to 1.4 of it where the sixteen rows miss them; 1.6 where every row of A
 * is no number. Columns' slabs that were not asked for ahead made 117 to 140. Chains of 16 or 64
 * and slabs of 64 or 256 dimensions, blocks of 64 to 256 rows, and chunks of 2 or 8 panels were no
 * quicker.
 *
 * Not for float32: with chains of 32, products in float32 lanes err by 30 u of the norms, which is
 * beyond 5e-7 wherever d^2 is not larger than these; in float64, where they would be exact, they
 * take as many instructions as differences in float32. Not where additions have pipes of their own
 * (gd_host_shares_pipes): there cdist_tile.c is as quick. */
#include "kernels.h"
#include "one_sum.h"
#include "pack.h"
#include "sizes.h"
#include "store_run.h"
#include "team.h"

#define T double
#define V gd_vf64
#define N(name) name##_f64

#define FOR_TILE(r, mr, v)                             \
    GD_UNROLL for (int r = 0; r < (mr); ++r) GD_UNROLL \
        for (int v = 0; v < NV; ++v)

/* The register tile, with room left for the columns' vectors and a row's value. A tile's rows are
 * packed in squares, so they are a multiple of a vector's lanes. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MR = 8 };
#else
enum { MR = 4 };
#endif
enum {
    NV = 3,
    LANES = sizeof(V) / sizeof(T),
    LOG_LANES = LANES == 8 ? 3
    : LANES == 4           ? 2
                           : 1,
    WIDTH = NV * LANES,      /* columns of a panel */
    FOLD = 32,               /* dimensions of a chain of additions */
    SLAB = 128,              /* dimensions at a time: a panel of them stays in L1 */
    SQUARES = 16,            /* that a norm adds to one chain */
    ROWS = 128,              /* of a task: a slab of them stays in L2 */
    CHUNK = 4,               /* panels that a block of rows passes over at a time */
    ALONE_BYTES = 256 << 10, /* of packed columns that a task has for itself */
    FEW = 4,                 /* rows of A that are worth no packed columns */
    TOGETHER = 4,            /* rows that are computed again with a panel */
    DENSE_ROWS = 32,         /* so few are none that a panel is packed for */
    DENSE_SHARE = 4,         /* from this part of suspects on it is */
    LINE = 64,
    LINE_DOUBLES = 8,
};
enum { lanes_f64 = LANES };
#include "put_body.h"

/* Cosine distances are held to 1e-12 as they stand. Rows are of length sqrt(1/2), so both norms are
 * at most 4 wherever the centre is, and errors of d / 16 + 60 times 4 u are less than that up to so
 * many dimensions. What is left for the guard is that equal rows are 0 apart. */
#define COSINE_SHARE 0x1p-12
#define COSINE_COLS (1 << 15)

/* With larger norms products might leave the range. Where norms are less than 2^-900, so that what
 * products lost to underflow counts, no square of a distance is above the least. */
#define NORM_MOST 0x1p1000
#define SQUARE_LEAST 0x1p-898

/* How a call is cut up. Every part but `threads` is the same when sizing and when launched. */
typedef struct product_plan {
    ptrdiff_t depth;         /* dimensions, filled up with zeros to whole vectors */
    ptrdiff_t panels;        /* of NV vectors of columns */
    ptrdiff_t rows;          /* in a task */
    ptrdiff_t chunk;         /* panels that a task passes over at a time */
    ptrdiff_t blocks, spans; /* tasks are blocks of rows by spans of panels */
    int threads;
    bool packs;       /* columns: there are more than a few rows */
    bool stream;      /* store past the caches */
    double share;     /* see share_of */
    size_t own_bytes; /* of a thread */
    size_t shared_bytes;
} product_plan;

/* A call that all members work on. */
typedef struct product_job {
    const gd_cdist *call;
    const product_plan *plan;
    double *centre, *norms, *packed; /* of B; the last two unless there is one block of rows */
} product_job;

/* A thread's memory. */
typedef struct product_own {
    double *rows, *norms;                /* packed rows of A */
    double *stage[2];                    /* squares of distances */
    double *columns, *column_norms;      /* packed columns, if there is one block of rows */
    double *zeros, *panel, *panel_norms; /* a panel of columns as they are */
    uint32_t *marks;                     /* of each row and panel: a bit for each suspect */
} product_own;

/* An element is trusted from this share of both norms, N = |a|^2 + |b|^2, on. With u = 2^-53, no
 * sum of some dimensions' products is larger than N / 2, so a chain of FOLD of them errs by at most
 * FOLD u N / 2, and joining them by u N / 2 each: -2ab by FOLD + d / FOLD times u N. A norm goes
 * through the SQUARES of a chain, a lane's chains and the lanes: it errs by at most so many u N.
 * Three more are for products that are rounded before they are added, and for N. The last addition
 * costs u d^2, and the rounded differences from the centre 2 u d sqrt(2 N): 12 u d^2 where d^2 is N
 * / 17, which is about the least share. Of 1e-13 d^2 880 u d^2 are left. */
static double share_of(gd_metric metric, ptrdiff_t d)
{
    const double products = FOLD + (double)gd_ceil_div(d, FOLD);
    const double norms = SQUARES + (double)gd_ceil_div(d, SQUARES * LANES) + LOG_LANES;
    return metric == GD_COSINE ? COSINE_SHARE : (products + norms + 3) / 880;
}

/* ---------------------------------------------------------------- packing */

static const double *row_of(const gd_matrix *x, ptrdiff_t row)
{
    return (const double *)x->data + gd_least(row, x->rows - 1) * x->row_stride;
}

/* Dimensions k to k + LANES of a row, zeros beyond the last. */
GD_INLINE V load_some(const double *row, ptrdiff_t k, ptrdiff_t d)
{
    return k + LANES <= d ? gd_load(row + k) : gd_load_first(row + k, d - k);
}

/* LANES rows of an operand, on their way into vectors. */
typedef struct square_source {
    const double *rows[LANES];
    const double *centre;
    ptrdiff_t d, ahead; /* dimensions; bytes to the rows after these */
} square_source;

static square_source source_of(const gd_matrix *x, ptrdiff_t from, const double *centre)
{
    square_source source = {
        .centre = centre, .d = x->cols, .ahead = LANES * x->row_stride * (ptrdiff_t)sizeof(double)};
    for (int i = 0; i < LANES; ++i)
        source.rows[i] = row_of(x, from + i);
    return source;
}

/* Dimensions k to k + LANES less the centre, a vector each, and to `norms` their squares. */
GD_INLINE void take_square(const square_source *source, ptrdiff_t k, V *square, V *norms)
{
    const V middle = gd_load(source->centre + k);
    GD_UNROLL for (int i = 0; i < LANES; ++i) {
        square[i] = load_some(source->rows[i], k, source->d) - middle;
        gd_fetch(source->rows[i] + k, source->ahead);
        norms[i] = gd_fma(square[i], square[i], norms[i]);
    }
    gd_transpose_f64(square);
}

/* A vector of norms: NaN where one is so large that products might leave the range. */
GD_INLINE V norms_of(V *sums)
{
    gd_transpose_f64(sums);
    GD_UNROLL for (int step = 1; step < LANES; step *= 2) GD_UNROLL
        for (int i = 0; i < LANES; i += 2 * step)
            sums[i] += sums[i + step];
    const gd_vi64 usual = sums[0] <= gd_splat(NORM_MOST);
    return (V)((gd_vi64)sums[0] | ~usual);
}

/* Copies LANES rows from `from` on to to[k * width + r], and their norms to *norms. */
static void pack_square(const gd_matrix *x, ptrdiff_t from, const double *centre, ptrdiff_t width,
                        double *to, double *norms)
{
    const square_source source = source_of(x, from, centre);
    V total[LANES], acc[LANES];
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        total[i] = (V){0};
    for (ptrdiff_t k = 0; k < source.d;) {
        const ptrdiff_t end = gd_least(k + SQUARES * LANES, source.d);
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            acc[i] = (V){0};
        for (; k < end; k += LANES) {
            V square[LANES];
            take_square(&source, k, square, acc);
            GD_UNROLL for (int i = 0; i < LANES; ++i)
                gd_store(to + (k + i) * width, square[i]);
        }
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            total[i] += acc[i];
    }
    gd_store(norms, norms_of(total));
}

/* `width` rows, a multiple of LANES. */
static void pack(const gd_matrix *x, ptrdiff_t from, const double *centre, ptrdiff_t width,
                 double *to, double *norms)
{
    for (ptrdiff_t r = 0; r < width; r += LANES)
        pack_square(x, from + r, centre, width, to + r, norms + r);
}

/* ---------------------------------------------------------------- the tile */

/* Stores squares of distances made of products and norms; returns a bit for each suspect. */
GD_INLINE uint32_t finish(const product_plan *plan, V products, double row_norm, V column_norms,
                          double *out)
{
    const V both = row_norm + column_norms, square = gd_fma(gd_splat(-2.0), products, both);
    gd_store(out, square);
    return ~gd_lanes_above(square, gd_fma(gd_splat(plan->share), both, gd_splat(SQUARE_LEAST))) &
           (((uint32_t)1 << LANES) - 1);
}

/* Adds a slab of `depth` dimensions of mr rows and a panel to their totals in `out`, which begin
 * with it if `first`. If `last`, squares of distances come there, and marks of the suspects. */
GD_INLINE void multiply(const int mr, const product_plan *plan, const double *a, const double *b,
                        ptrdiff_t depth, bool first, bool last, const double *a_norms,
                        const double *b_norms, double *out, ptrdiff_t stride, uint32_t *marks,
                        ptrdiff_t marks_stride, const double *next, queue_f64 *queue)
{
    V acc[MR][NV];
    for (ptrdiff_t k = 0;;) {
        const ptrdiff_t end = gd_least(k + FOLD, depth);
        if (queue->rows > 0)
            put_f64(queue, queue->quota);
        FOR_TILE (r, mr, v)
            acc[r][v] = (V){0};
        for (; k < end; ++k) {
            V column[NV];
            GD_UNROLL for (int v = 0; v < NV; ++v)
                column[v] = gd_load(b + (k * NV + v) * LANES);
            gd_fetch(next, k * LINE);
            GD_UNROLL for (int r = 0; r < mr; ++r) {
                const V row = gd_splat(a[k * MR + r]);
                GD_UNROLL for (int v = 0; v < NV; ++v)
                    acc[r][v] = gd_fma(row, column[v], acc[r][v]);
            }
        }
        if (!first)
            FOR_TILE (r, mr, v)
                acc[r][v] += gd_load(out + r * stride + v * LANES);
        first = false;
        if (last && k == depth)
            break;
        FOR_TILE (r, mr, v)
            gd_store(out + r * stride + v * LANES, acc[r][v]);
        if (k == depth)
            return;
    }
    V columns[NV];
    GD_UNROLL for (int v = 0; v < NV; ++v)
        columns[v] = gd_load(b_norms + v * LANES);
    GD_UNROLL for (int r = 0; r < mr; ++r) {
        uint32_t suspects = 0;
        GD_UNROLL for (int v = 0; v < NV; ++v)
            suspects |=
                finish(plan, acc[r][v], a_norms[r], columns[v], out + r * stride + v * LANES)
                << v * LANES;
        marks[r * marks_stride] = suspects;
    }
}

#define DEFINE_MULTIPLY(mr)                                                                      \
    static void multiply_##mr(                                                                   \
        const product_plan *plan, const double *a, const double *b, ptrdiff_t depth, bool first, \
        bool last, const double *a_norms, const double *b_norms, double *out, ptrdiff_t stride,  \
        uint32_t *marks, ptrdiff_t marks_stride, const double *next, queue_f64 *queue)           \
    {                                                                                            \
        multiply(mr, plan, a, b, depth, first, last, a_norms, b_norms, out, stride, marks,       \
                 marks_stride, next, queue);                                                     \
    }
DEFINE_MULTIPLY(MR)
DEFINE_MULTIPLY(1)
#undef DEFINE_MULTIPLY

/* ---------------------------------------------------------------- few rows */

/* Multiplies `few` packed rows and a vector of columns that nobody has packed: they are used once.
 * Sums have the order of the tiles. */
GD_INLINE void multiply_strip(const int few, const product_plan *plan, const gd_matrix *b,
                              ptrdiff_t column, const double *centre, const double *a,
                              const double *a_norms, double *out, ptrdiff_t stride,
                              uint32_t *suspects)
{
    const square_source source = source_of(b, column, centre);
    V total[LANES], sums[LANES], products[FEW], acc[FEW], square[LANES];
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        total[i] = (V){0};
    GD_UNROLL for (int r = 0; r < few; ++r)
        products[r] = (V){0};
    for (ptrdiff_t k = 0; k < source.d;) {
        const ptrdiff_t chain = gd_least(k + SQUARES * LANES, source.d);
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            sums[i] = (V){0};
        while (k < chain) {
            const ptrdiff_t end = gd_least(k + FOLD, chain);
            GD_UNROLL for (int r = 0; r < few; ++r)
                acc[r] = (V){0};
            for (; k < end; k += LANES) {
                take_square(&source, k, square, sums);
                GD_UNROLL for (int i = 0; i < LANES; ++i) GD_UNROLL
                    for (int r = 0; r < few; ++r)
                        acc[r] = gd_fma(gd_splat(a[(k + i) * MR + r]), square[i], acc[r]);
            }
            GD_UNROLL for (int r = 0; r < few; ++r)
                products[r] += acc[r];
        }
        GD_UNROLL for (int i = 0; i < LANES; ++i)
            total[i] += sums[i];
    }
    const V norms = norms_of(total);
    GD_UNROLL for (int r = 0; r < few; ++r)
        suspects[r] = finish(plan, products[r], a_norms[r], norms, out + r * stride);
}

/* ---------------------------------------------------------------- suspects */

#include "product_direct.h"

/* Puts the distances of a row's suspects, of these columns, in their places. */
static void recompute_row(const gd_cdist *call, ptrdiff_t row, ptrdiff_t column, ptrdiff_t cols,
                          const uint32_t *marks, double *squares)
{
    const double *const a = row_of(&call->a, row), *b[LANES];
    ptrdiff_t at[LANES];
    int count = 0;
    for (ptrdiff_t first = 0; first < cols; first += WIDTH)
        for (uint32_t left = marks[first / WIDTH]; left != 0; left &= left - 1) {
            const ptrdiff_t c = first + __builtin_ctz(left);
            if (c < cols) {
                b[count] = row_of(&call->b, column + c);
                at[count++] = c;
            }
            if (count == LANES) {
                const V sums = direct(a, b, call->a.cols);
                for (int i = 0; i < LANES; ++i)
                    squares[at[i]] = sums[i];
                count = 0;
            }
        }
    if (count > 0) {
        for (int i = count; i < LANES; ++i)
            b[i] = b[0];
        const V sums = direct(a, b, call->a.cols);
        for (int i = 0; i < count; ++i)
            squares[at[i]] = sums[i];
    }
}

/* Where many of a panel's distances are suspects, all of its rows with any are computed again: a
 * suspect by itself takes three times as long as one among others. Clears their marks. */
static void recompute_panel(const product_job *job, const product_own *own, ptrdiff_t row,
                            ptrdiff_t rows, ptrdiff_t column, uint32_t *marks, double *squares)
{
    const product_plan *const plan = job->plan;
    const gd_cdist *const call = job->call;
    const ptrdiff_t stride = plan->chunk * WIDTH;
    ptrdiff_t count = 0, found = 0;
    for (ptrdiff_t r = 0; r < rows; ++r)
        count += __builtin_popcount(marks[r * plan->chunk]);
    if (rows < DENSE_ROWS || count * DENSE_SHARE < rows * WIDTH)
        return;
    memset(own->zeros, 0, (size_t)plan->depth * sizeof(double));
    pack(&call->b, column, own->zeros, WIDTH, own->panel, own->panel_norms);
    for (ptrdiff_t r = 0; r < rows; r = found) {
        const double *a[TOGETHER];
        ptrdiff_t at[TOGETHER];
        double sums[TOGETHER * WIDTH];
        int taken = 0;
        for (found = r; found < rows && taken < TOGETHER; ++found)
            if (marks[found * plan->chunk] != 0)
                at[taken++] = found;
        for (int i = 0; i < TOGETHER; ++i)
            a[i] = row_of(&call->a, row + at[i < taken ? i : 0]);
        if (taken > 0)
            direct_panel(a, own->panel, call->a.cols, sums);
        for (int i = 0; i < taken; ++i) {
            uint32_t *const left = marks + at[i] * plan->chunk;
            for (; *left != 0; *left &= *left - 1) {
                const int c = __builtin_ctz(*left);
                squares[at[i] * stride + c] = sums[i * WIDTH + c];
            }
        }
    }
}

/* Computes the suspects among `rows` rows and `cols` columns again. */
static void recompute(const product_job *job, const product_own *own, ptrdiff_t row, ptrdiff_t rows,
                      ptrdiff_t column, ptrdiff_t cols, double *squares)
{
    const product_plan *const plan = job->plan;
    for (ptrdiff_t c = 0; c < cols; c += WIDTH)
        recompute_panel(job, own, row, rows, column + c, own->marks + c / WIDTH, squares + c);
    for (ptrdiff_t r = 0; r < rows; ++r)
        recompute_row(job->call, row + r, column, cols, own->marks + r * plan->chunk,
                      squares + r * plan->chunk * WIDTH);
}

#include "product_centre.h"

/* ---------------------------------------------------------------- the call */

static size_t round_up_256(ptrdiff_t bytes) { return ((size_t)bytes + 255) / 256 * 256; }

/* Memory for so many doubles, of which `used` bytes are taken; without any, how much there has to
 * be is counted all the same. */
static double *carve(char *memory, size_t *used, ptrdiff_t doubles)
{
    char *const here = memory == NULL ? NULL : memory + *used;
    *used += round_up_256(doubles * (ptrdiff_t)sizeof(double));
    return (double *)here;
}

/* A thread's share of the memory; returns its bytes. */
static size_t carve_own(const product_plan *plan, char *memory, product_own *own)
{
    const ptrdiff_t cols = plan->chunk * WIDTH, alone = plan->packs && plan->blocks == 1;
    size_t used = 0;
    own->rows = carve(memory, &used, plan->rows * plan->depth);
    own->norms = carve(memory, &used, plan->rows);
    own->stage[0] = carve(memory, &used, plan->rows * cols);
    own->stage[1] = carve(memory, &used, plan->rows * cols);
    own->columns = carve(memory, &used, alone * cols * plan->depth);
    own->column_norms = carve(memory, &used, alone * cols);
    own->zeros = carve(memory, &used, plan->depth);
    own->panel = carve(memory, &used, plan->depth * WIDTH);
    own->panel_norms = carve(memory, &used, WIDTH);
    own->marks = (uint32_t *)carve(memory, &used, (plan->rows * plan->chunk + 1) / 2);
    return used;
}

static size_t carve_shared(const product_plan *plan, char *memory, product_job *job)
{
    const ptrdiff_t cols = plan->blocks == 1 ? 0 : plan->panels * WIDTH;
    size_t used = 0;
    job->centre = carve(memory, &used, plan->depth);
    job->norms = carve(memory, &used, cols);
    job->packed = carve(memory, &used, cols * plan->depth);
    return used;
}

static product_plan plan_of(const gd_cdist *call)
{
    const ptrdiff_t m = call->out.rows, n = call->out.cols, d = call->a.cols;
    const double pairs = (double)m * (double)n;
    product_plan plan = {
        .depth = gd_ceil_div(d, LANES) * LANES,
        .panels = gd_ceil_div(n, WIDTH),
        .packs = m > FEW,
        .share = share_of(call->metric, d),
    };
    /* All of a block's rows are packed at once: beyond 8 MB fewer of them are. */
    const ptrdiff_t row_bytes = plan.depth * (ptrdiff_t)sizeof(double);
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
    plan.stream =
        gd_worth_streaming(m, n, sizeof(double)) && (uintptr_t)call->out.data % sizeof(double) == 0;
    product_own own;
    product_job job;
    plan.own_bytes = carve_own(&plan, NULL, &own);
    plan.shared_bytes = carve_shared(&plan, NULL, &job);
    return plan;
}

static void pack_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const product_job *const job = context;
    (void)member;
    for (ptrdiff_t p = first; p < last; ++p)
        pack(&job->call->b, p * WIDTH, job->centre, WIDTH,
             job->packed + p * WIDTH * job->plan->depth, job->norms + p * WIDTH);
}

/* Squares of distances of the packed rows, from `row` on, and `count` panels. */
static void multiply_all(const product_job *job, const product_own *own, ptrdiff_t rows,
                         const double *columns, const double *column_norms, ptrdiff_t count,
                         double *stage, queue_f64 *queue)
{
    const product_plan *const plan = job->plan;
    const ptrdiff_t d = job->call->a.cols, stride = plan->chunk * WIDTH;
    for (ptrdiff_t k = 0; k < d; k += SLAB) {
        const ptrdiff_t depth = gd_least(SLAB, d - k);
        for (ptrdiff_t p = 0; p < count; ++p) {
            const double *const panel = columns + p * WIDTH * plan->depth + k * WIDTH;
            const double *next =
                p + 1 < count ? panel + WIDTH * plan->depth : columns + (k + depth) * WIDTH;
            for (ptrdiff_t r = 0; r < rows; r += MR, next += depth * LINE_DOUBLES)
                (rows - r == 1 ? multiply_1 : multiply_MR)(
                    plan, own->rows + r * plan->depth + k * MR, panel, depth, k == 0,
                    k + depth == d, own->norms + r, column_norms + p * WIDTH,
                    stage + r * stride + p * WIDTH, stride, own->marks + r * plan->chunk + p,
                    plan->chunk, r < NV * MR ? next : panel, queue);
        }
    }
}

/* Multiplies few rows and the columns from `column` on, which are not packed. */
static void multiply_few(const product_job *job, const product_own *own, ptrdiff_t column,
                         ptrdiff_t cols, double *stage)
{
    const product_plan *const plan = job->plan;
    const gd_matrix *const b = &job->call->b;
    const ptrdiff_t few = job->call->a.rows, stride = plan->chunk * WIDTH;
    memset(own->marks, 0, (size_t)(FEW * plan->chunk) * sizeof *own->marks);
    for (ptrdiff_t c = 0; c < cols; c += LANES) {
        uint32_t suspects[FEW];
        if (few == 1)
            multiply_strip(1, plan, b, column + c, job->centre, own->rows, own->norms, stage + c,
                           stride, suspects);
        else if (few == 2)
            multiply_strip(2, plan, b, column + c, job->centre, own->rows, own->norms, stage + c,
                           stride, suspects);
        else
            multiply_strip(FEW, plan, b, column + c, job->centre, own->rows, own->norms, stage + c,
                           stride, suspects);
        for (ptrdiff_t r = 0; r < few; ++r)
            own->marks[r * plan->chunk + c / WIDTH] |= suspects[r] << c % WIDTH;
    }
}

/* Fills out[row : row + plan->rows, the columns of panels [panel, panels_end)]. */
static void do_block(const product_job *job, const product_own *own, ptrdiff_t row, ptrdiff_t panel,
                     ptrdiff_t panels_end)
{
    const gd_cdist *const call = job->call;
    const product_plan *const plan = job->plan;
    const ptrdiff_t stride = plan->chunk * WIDTH, n = call->out.cols;
    const ptrdiff_t rows = gd_least(plan->rows, call->a.rows - row);
    queue_f64 queue = {.rows = 0};
    for (ptrdiff_t r = 0; r < rows; r += MR)
        pack(&call->a, row + r, job->centre, MR, own->rows + r * plan->depth, own->norms + r);
    for (int turn = 0; panel < panels_end; panel += plan->chunk, turn = !turn) {
        const ptrdiff_t count = gd_least(plan->chunk, panels_end - panel), column = panel * WIDTH;
        const ptrdiff_t cols = gd_least(count * WIDTH, n - column);
        const double *columns = job->packed + column * plan->depth;
        const double *column_norms = job->norms + column;
        double *const stage = own->stage[turn];
        if (plan->packs && plan->blocks == 1) {
            for (ptrdiff_t p = 0; p < count; ++p)
                pack(&call->b, column + p * WIDTH, job->centre, WIDTH,
                     own->columns + p * WIDTH * plan->depth, own->column_norms + p * WIDTH);
            columns = own->columns;
            column_norms = own->column_norms;
        }
        if (plan->packs)
            multiply_all(job, own, rows, columns, column_norms, count, stage, &queue);
        else
            multiply_few(job, own, column, cols, stage);
        put_f64(&queue, PTRDIFF_MAX);
        recompute(job, own, row, rows, column, cols, stage);
        const ptrdiff_t lines = gd_ceil_div(rows * cols, LINE / (ptrdiff_t)sizeof(double));
        const ptrdiff_t folds = count * gd_ceil_div(rows, MR) * gd_ceil_div(call->a.cols, FOLD);
        queue = (queue_f64){
            .from = stage,
            .to = (double *)call->out.data + row * call->out.row_stride + column,
            .left = cols,
            .rows = rows,
            .cols = cols,
            .from_stride = stride,
            .to_stride = call->out.row_stride,
            .quota = gd_ceil_div(lines, folds),
            .metric = call->metric,
            .stream = plan->stream,
        };
    }
    put_f64(&queue, PTRDIFF_MAX);
    if (plan->stream)
        gd_stream_end();
}

static void do_tasks(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const product_job *const job = context;
    const product_plan *const plan = job->plan;
    char *const memory = job->call->launch.workspace;
    product_own own;
    carve_own(plan, memory + plan->shared_bytes + (size_t)member * plan->own_bytes, &own);
    for (ptrdiff_t t = first; t < last; ++t) {
        const ptrdiff_t span = t % plan->spans;
        do_block(job, &own, t / plan->spans * plan->rows, plan->panels * span / plan->spans,
                 plan->panels * (span + 1) / plan->spans);
    }
}

gd_status GD_ISA_NAME(gd_cpu_cdist_product)(gd_cdist *call, gd_error *err)
{
    product_plan plan = plan_of(call);
    gd_launch *const launch = &call->launch;
    if (launch->sizing) {
        const gd_status status = GD_ISA_NAME(gd_cpu_cdist_tile)(call, err);
        const size_t bytes = plan.shared_bytes + (size_t)plan.threads * plan.own_bytes;
        launch->workspace_bytes = launch->workspace_bytes > bytes ? launch->workspace_bytes : bytes;
        return status;
    }
    product_job job = {call, &plan, NULL, NULL, NULL};
    carve_shared(&plan, launch->workspace, &job);
    find_centre(&call->whole_b, plan.depth, job.centre);
    if ((call->metric == GD_COSINE && call->a.cols > COSINE_COLS) ||
        is_clustered(&call->whole_b, job.centre, plan.share))
        return GD_ISA_NAME(gd_cpu_cdist_tile)(call, err);
    /* The team's size may have changed since; the workspace has not. */
    const size_t left = launch->workspace_bytes - plan.shared_bytes;
    plan.threads = (int)gd_least(plan.threads, (ptrdiff_t)(left / plan.own_bytes));
    if (plan.blocks > 1)
        gd_team_run(plan.threads, plan.panels, 0, pack_some, &job);
    gd_team_run(plan.threads, plan.blocks * plan.spans, 1, do_tasks, &job);
    return GD_OK;
}
