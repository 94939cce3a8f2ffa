/* prepare.c: what is done on the host before a kernel of cdist runs, and after it for pdist.
 *
 * A row is prepared by itself, in float64, and its sums are added in one order whatever its
 * length, its neighbours or the number of threads: so a row's bits depend on that row alone.
 * All of it is one pass over the operands (a few, over a row that the cache holds) and no more
 * than memory bandwidth asks for, but for GD_FACTORED, which is two products a row with half of a
 * d x d matrix: 2 d * d operations, as much as d pairs of rows cost the kernel. */
#include "device.h"
#include "gpudist.h"
#include "team.h"

#include <math.h>
#include <string.h>

#include "cpu/simd.h"
#include "sizes.h"

/* Rows worth the waking of threads: about a microsecond's work for each of them. */
static const double parallel_from = 0x1p15;

/* Columns of a row in float64, zeros after the last one up to a whole fold. */
static ptrdiff_t padded(ptrdiff_t cols) { return (cols / GD_FOLD + 1) * GD_FOLD; }

/* Such columns and two cache lines more: in rows whose distance is a power of two, elements of one
 * column would compete for the same places of the cache. */
static ptrdiff_t spaced(ptrdiff_t cols) { return padded(cols) + 16; }

/* ---------------------------------------------------------------- rows in and out */

static void load(const gd_matrix *x, ptrdiff_t row, double *to)
{
    if (x->dtype == GD_F32) {
        const float *from = (const float *)x->data + row * x->row_stride;
        for (ptrdiff_t k = 0; k < x->cols; ++k)
            to[k] = from[k];
    }
    else if (x->cols > 0) {
        const double *from = (const double *)x->data + row * x->row_stride;
        memcpy(to, from, (size_t)x->cols * sizeof(double));
    }
    memset(to + x->cols, 0, (size_t)(padded(x->cols) - x->cols) * sizeof(double));
}

/* Stores a row times `factor`, rounded once. */
static void store(const gd_matrix *to, ptrdiff_t row, const double *from, double factor)
{
    if (to->dtype == GD_F32) {
        float *at = (float *)to->data + row * to->row_stride;
        for (ptrdiff_t k = 0; k < to->cols; ++k)
            at[k] = (float)(from[k] * factor);
    }
    else {
        double *at = (double *)to->data + row * to->row_stride;
        for (ptrdiff_t k = 0; k < to->cols; ++k)
            at[k] = from[k] * factor;
    }
}

/* The sum of x * y, or of x if y is NULL, over a padded row. GD_FOLD sums run side by side through
 * a group, then are added up: a term passes through as few roundings as in the kernels, and the
 * compiler can use vectors. */
GD_INLINE double sum(const double *x, const double *y, ptrdiff_t cols)
{
    double total = 0;
    for (ptrdiff_t group = 0; group < cols; group += GD_GROUP) {
        double side[GD_FOLD] = {0}, joined = 0;
        for (ptrdiff_t k = group; k < gd_least(group + GD_GROUP, cols); k += GD_FOLD)
            for (ptrdiff_t s = 0; s < GD_FOLD; ++s)
                side[s] += y ? x[k + s] * y[k + s] : x[k + s];
        for (ptrdiff_t s = 0; s < GD_FOLD; ++s)
            joined += side[s];
        total += joined;
    }
    return total;
}

/* ---------------------------------------------------------------- directions
 *
 * Weights w multiply the rows by sqrt(w), which turns weighted sums of products into plain ones. */

/* What the rows of one operand share; arrays are padded. */
typedef struct columns {
    double *weights, *roots; /* NULL without weights */
    double weight_sum;
} columns;

/* The power of two that brings x >= 0 near 1, so that no square leaves the range; beyond 2**1000 it
 * would leave the range itself, and squares need no more. In bits: short rows would feel the calls
 * of frexp and ldexp. */
static double to_near_one(double x)
{
    uint64_t bits;
    double scale;
    memcpy(&bits, &x, sizeof bits);
    const int64_t exponent = (int64_t)(bits >> 52) - 1022;
    bits = (uint64_t)(1023 - (exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent)) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Brings the largest magnitude of a padded row near 1; NaN is passed over. */
static void scale_to_near_one(double *x, ptrdiff_t cols)
{
    double side[GD_FOLD] = {0}, largest = 0;
    for (ptrdiff_t k = 0; k < cols; k += GD_FOLD)
        for (ptrdiff_t s = 0; s < GD_FOLD; ++s)
            side[s] = fabs(x[k + s]) > side[s] ? fabs(x[k + s]) : side[s];
    for (ptrdiff_t s = 0; s < GD_FOLD; ++s)
        largest = side[s] > largest ? side[s] : largest;
    const double scale = to_near_one(largest);
    for (ptrdiff_t k = 0; k < cols; ++k)
        x[k] *= scale;
    /* Subnormal rows need a larger power than there is. */
    if (largest < 0x1p-1000 && largest > 0)
        scale_to_near_one(x, cols);
}

/* Whether all elements are the same, but for those of columns without weight. */
static bool is_constant(const double *x, const double *weights, ptrdiff_t cols)
{
    ptrdiff_t first = 0, k;
    while (weights && first < cols && weights[first] == 0)
        ++first;
    for (k = first; k < cols && (x[k] == x[first] || (weights && weights[k] == 0)); ++k)
        ;
    return k == cols;
}

/* Subtracts a row's mean, and then the mean of what that left: the first one's rounding, which is
 * all there is to see in a row whose elements are far from 0 and close together. The sum of both
 * would be rounded in its turn. A constant row becomes zeros, rather than a direction made of
 * rounding. */
static void centre(double *x, const columns *shared, ptrdiff_t cols)
{
    const bool constant = is_constant(x, shared->weights, cols);
    for (int round = 0; round < 2; ++round) {
        const double mean = sum(x, shared->weights, cols) / shared->weight_sum;
        for (ptrdiff_t k = 0; k < cols; ++k)
            x[k] = constant ? 0 : x[k] - mean;
    }
}

/* Rows are scaled before anything else, so that neither means nor products with weights meet
 * numbers at the ends of the range, and again when weights have taken them there. */
static void unit(const gd_prepare *job, ptrdiff_t row, const columns *shared, double *own)
{
    const ptrdiff_t d = job->x.cols;
    load(&job->x, row, own);
    /* What has no weight has no say in the scale, unless it is NaN or infinite. */
    for (ptrdiff_t k = 0; shared->weights && k < d; ++k)
        own[k] = shared->weights[k] == 0 ? own[k] * 0 : own[k];
    scale_to_near_one(own, d);
    if (job->what == GD_CENTRED_UNIT)
        centre(own, shared, d);
    if (shared->roots) {
        for (ptrdiff_t k = 0; k < d; ++k)
            own[k] *= shared->roots[k];
        scale_to_near_one(own, d);
    }

    /* No direction: zeros, NaN, infinity. One NaN would do, but then zeros stand beside it. */
    const double length = sqrt(2 * sum(own, own, d));
    store(&job->to, row, own, length > 0 && length < INFINITY ? 1 / length : (double)NAN);
}

/* ---------------------------------------------------------------- probabilities */

/* 1 - sum(x), rounded once: the sum carries along what its additions lose (Knuth's two-sum). It is
 * nearly nothing for a distribution, and a distance of two like ones is its root. */
static double rest_of_one(const double *x, ptrdiff_t d)
{
    double rest = 1, lost = 0;
    for (ptrdiff_t k = 0; k < d; ++k) {
        const double before = rest;
        rest = before - x[k];
        const double taken = before - rest;
        lost += (before - (rest + taken)) + (taken - x[k]);
    }
    return isfinite(rest) ? rest + lost : rest;
}

static void roots(const gd_prepare *job, ptrdiff_t row, double *own)
{
    load(&job->x, row, own);
    job->terms[row] = rest_of_one(own, job->x.cols) / 2;
    for (ptrdiff_t k = 0; k < job->x.cols; ++k)
        own[k] = sqrt(own[k]);
    store(&job->to, row, own, 1);
}

static void distribution(const gd_prepare *job, ptrdiff_t row, double *own)
{
    const ptrdiff_t d = job->x.cols;
    load(&job->x, row, own);
    const double total = sum(own, NULL, d);
    bool none = total == 0;
    for (ptrdiff_t k = 0; k < d; ++k)
        none |= own[k] < 0;
    /* Divided one by one: the reciprocal of a tiny sum would overflow. */
    for (ptrdiff_t k = 0; k < d; ++k)
        own[k] = none ? 0 : own[k] / total;
    job->terms[row] = none ? (double)INFINITY : 0;
    store(&job->to, row, own, 1);
}

/* ---------------------------------------------------------------- bits */

/* Writes 1 for each of `count` elements that is not 0, and 0 for the others. */
static void truths(const gd_matrix *x, ptrdiff_t row, ptrdiff_t from, ptrdiff_t count, uint8_t *to)
{
    const ptrdiff_t at = row * x->row_stride + from;
    switch (x->dtype) {
        case GD_F32:
            for (ptrdiff_t k = 0; k < count; ++k)
                to[k] = ((const float *)x->data)[at + k] != 0;
            break;
        case GD_F64:
            for (ptrdiff_t k = 0; k < count; ++k)
                to[k] = ((const double *)x->data)[at + k] != 0;
            break;
        default:
            for (ptrdiff_t k = 0; k < count; ++k)
                to[k] = ((const uint8_t *)x->data)[at + k] != 0;
    }
}

static void bits(const gd_prepare *job, ptrdiff_t row)
{
    int32_t *to = (int32_t *)job->to.data + row * job->to.row_stride;
    ptrdiff_t set = 0;
    for (ptrdiff_t k = 0; k < 32 * job->to.cols; k += 32 * GD_BITS_ALIGNMENT) {
        uint8_t truth[32 * GD_BITS_ALIGNMENT] = {0};
        const ptrdiff_t left = job->x.cols - k;
        if (left > 0)
            truths(&job->x, row, k, gd_least(left, sizeof truth), truth);
        for (int word = 0; word < GD_BITS_ALIGNMENT; ++word) {
            uint32_t packed = 0;
            for (int eight = 0; eight < 4; ++eight) {
                const uint8_t *t = truth + 32 * word + 8 * eight;
                uint64_t x = 0;
                for (int e = 0; e < 8; ++e)
                    x |= (uint64_t)t[e] << 8 * e;
                /* The product's top byte gathers the eight bits, the first one lowest; with ones
                 * as the factor it is their number. */
                packed |= (uint32_t)(x * UINT64_C(0x0102040810204080) >> 56) << 8 * eight;
                set += (ptrdiff_t)(x * UINT64_C(0x0101010101010101) >> 56);
            }
            memcpy(to + k / 32 + word, &packed, sizeof packed);
        }
    }
    job->terms[row] = (double)set;
}

/* ---------------------------------------------------------------- rows times a factor */

enum {
    BLOCK = 16, /* rows at a time: GD_FOLD rows of the factor stay in cache for all of them */
    PAIR = 2,   /* rows in registers, by RUN vectors of columns */
    RUN = 2,
    LANES = sizeof(gd_vf64) / sizeof(double),
};

/* Adds GD_FOLD dimensions' share to RUN vectors of y and g of PAIR rows. `f` and `t` (a padded
 * row's elements from the first of these dimensions on) are read up to `depth`. */
static void fold(const double *f, ptrdiff_t stride, const double *t, ptrdiff_t t_stride,
                 ptrdiff_t depth, double *y, double *g)
{
    gd_vf64 value[PAIR][RUN] = {0}, size[PAIR][RUN] = {0};
    for (ptrdiff_t k = 0; k < depth; ++k) GD_UNROLL
        for (int v = 0; v < RUN; ++v) {
            const gd_vf64 factor = gd_load(f + k * stride + v * LANES);
            GD_UNROLL for (int r = 0; r < PAIR; ++r) {
                const gd_vf64 product = gd_splat(t[r * t_stride + k]) * factor;
                value[r][v] += product;
                size[r][v] += gd_abs(product);
            }
        }
    GD_UNROLL for (int r = 0; r < PAIR; ++r) GD_UNROLL
        for (int v = 0; v < RUN; ++v) {
            double *const to = y + r * t_stride + v * LANES, *const sized =
                                                                 g + r * t_stride + v * LANES;
            gd_store(to, gd_load(to) + value[r][v]);
            gd_store(sized, gd_load(sized) + size[r][v]);
        }
}

/* Prepares rows [first, first + BLOCK), as far as they exist. `own` holds three padded blocks. */
static void factored(const gd_prepare *job, ptrdiff_t first, const double *shift,
                     const double *factor, double *own)
{
    const ptrdiff_t d = job->x.cols, stride = spaced(d);
    const ptrdiff_t rows = gd_least(BLOCK, job->x.rows - first);
    double *const t = own, *const y = t + BLOCK * stride, *const g = y + BLOCK * stride;
    memset(own, 0, (size_t)(3 * BLOCK * stride) * sizeof(double));
    for (ptrdiff_t r = 0; r < rows; ++r) {
        load(&job->x, first + r, t + r * stride);
        for (ptrdiff_t k = 0; k < d; ++k)
            t[r * stride + k] -= shift[k];
    }
    for (ptrdiff_t k = 0; k < d; k += GD_FOLD)
        for (ptrdiff_t r = 0; r < rows; r += PAIR)
            for (ptrdiff_t j = 0; j < gd_least(d, k + GD_FOLD); j += RUN * LANES) {
                const ptrdiff_t at = r * stride + j; /* right of these the factor is 0 */
                fold(factor + k * stride + j, stride, t + r * stride + k, stride,
                     gd_least(GD_FOLD, d - k), y + at, g + at);
            }
    for (ptrdiff_t r = 0; r < rows; ++r) {
        const double *const row = y + r * stride, *const size = g + r * stride;
        const double sums = sum(size, size, d);
        job->terms[first + r] = job->to.dtype == GD_F32
                                    ? GD_F32_FACTORED_SUMS * sums +
                                          GD_F32_FACTORED_ROWS * sum(row, row, d) +
                                          GD_F32_FACTORED_FLOOR
                                    : GD_F64_FACTORED_SUMS * sums + GD_F64_FACTORED_FLOOR;
        store(&job->to, first + r, row, 1);
    }
}

/* ---------------------------------------------------------------- all rows */

/* Fills what the rows share from `memory`, which has room for all of it. */
static columns share_weights(const gd_prepare *job, double *memory)
{
    const ptrdiff_t d = job->x.cols, length = padded(d);
    columns shared = {.weight_sum = (double)d};
    if (job->weights) {
        shared.weights = memory;
        shared.roots = memory + length;
        memset(memory, 0, (size_t)(2 * length) * sizeof(double));
        for (ptrdiff_t k = 0; k < d; ++k) {
            shared.weights[k] = job->weights[k];
            shared.roots[k] = sqrt(job->weights[k]);
        }
        shared.weight_sum = sum(shared.weights, NULL, d);
    }
    return shared;
}

/* The factor with padded rows, so that whole vectors of it can be read. */
static void pad_factor(const gd_prepare *job, double *to)
{
    const ptrdiff_t d = job->x.cols, length = spaced(d);
    memset(to, 0, (size_t)(d * length) * sizeof(double));
    for (ptrdiff_t k = 0; k < d; ++k)
        memcpy(to + k * length, job->factor + k * d, (size_t)d * sizeof(double));
}

/* What all members need. */
typedef struct preparation {
    const gd_prepare *job;
    columns shared;
    double *memory; /* rows that are shared, then each member's */
    ptrdiff_t length, shared_rows, own_rows;
} preparation;

static void prepare_some(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const preparation *const p = context;
    const gd_prepare *const job = p->job;
    double *const own = p->memory + (p->shared_rows + member * p->own_rows) * p->length;
    for (ptrdiff_t i = first; i < last; ++i) {
        switch (job->what) {
            case GD_UNIT:
            case GD_CENTRED_UNIT:
                unit(job, i, &p->shared, own);
                break;
            case GD_ROOTS:
                roots(job, i, own);
                break;
            case GD_DISTRIBUTION:
                distribution(job, i, own);
                break;
            case GD_BITS:
                bits(job, i);
                break;
            case GD_FACTORED:
                factored(job, i * BLOCK, p->memory, p->memory + p->length, own);
                break;
            case GD_AS_GIVEN:
                break;
        }
    }
}

gd_status gd_cpu_prepare(const gd_prepare *job, gd_error *err)
{
    const ptrdiff_t m = job->x.rows, d = job->x.cols, length = spaced(d);
    const bool blocks = job->what == GD_FACTORED;
    const double work = (double)m * (double)(d + 1) * (blocks ? (double)d : 1);
    const int threads = work < parallel_from ? 1 : gd_team_size();
    const ptrdiff_t shared_rows = blocks ? d + 1 : 2, own_rows = blocks ? 3 * BLOCK : 1;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)length * sizeof(double),
                               (size_t)(shared_rows + threads * own_rows), &bytes)) {
        return GD_FAIL(err, GD_NO_MEMORY, "a row is larger than any memory");
    }
    void *room;
    if (gd_alloc((gd_device){GD_CPU, 0}, NULL, bytes, "room to prepare rows in", &room, err) !=
        GD_OK) {
        return err->status;
    }
    preparation all = {
        .job = job,
        .memory = room,
        .length = length,
        .shared_rows = shared_rows,
        .own_rows = own_rows,
    };
    if (blocks) {
        load(&job->origin, 0, all.memory);
        pad_factor(job, all.memory + length);
    }
    else {
        all.shared = share_weights(job, all.memory);
    }
    gd_team_run(threads, blocks ? (m + BLOCK - 1) / BLOCK : m, 0, prepare_some, &all);
    gd_free((gd_device){GD_CPU, 0}, NULL, room);
    return GD_OK;
}

/* ---------------------------------------------------------------- pdist */

/* A block of rows of all distances, and where the rows after their diagonals go. */
typedef struct condensing {
    const gd_matrix *block;
    ptrdiff_t first, n;
    char *out;
} condensing;

static void condense_some(void *context, ptrdiff_t begin, ptrdiff_t end, int member)
{
    const condensing *const c = context;
    const ptrdiff_t size = c->block->dtype == GD_F32 ? sizeof(float) : sizeof(double);
    (void)member;
    for (ptrdiff_t r = begin; r < end; ++r) {
        const ptrdiff_t i = c->first + r;
        /* Rows 0 to i - 1 leave n - 1, n - 2, ..., n - i elements before this one's. */
        const ptrdiff_t before = i * (2 * c->n - i - 1) / 2;
        memcpy(c->out + before * size,
               (const char *)c->block->data + (r * c->block->row_stride + r + 1) * size,
               (size_t)((c->n - i - 1) * size));
    }
}

gd_status gd_cpu_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n, void *out,
                          void *stream, gd_error *err)
{
    condensing all = {block, first, n, out};
    const double elements = (double)block->rows * (double)(n - first);
    (void)stream, (void)err;
    gd_team_run(elements > parallel_from ? gd_team_size() : 1, block->rows, 16, condense_some,
                &all);
    return GD_OK;
}
