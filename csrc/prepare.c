/* prepare.c: what is done on the host before a kernel of cdist runs, and after it for pdist.
 *
 * A row is prepared by itself, in float64, and its sums are added in one order whatever its
 * length, its neighbours or the number of threads: so a row's bits depend on that row alone.
 * All of it is one pass over the operands (a few, over a row that the cache holds) and no more
 * than memory bandwidth asks for, but for GD_FACTORED, which is two d x d products a row: 4 d * d
 * operations, as much as 2 d pairs of rows cost the kernel. */
#include "device.h"
#include "gpudist.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "cpu/simd.h"

/* Rows worth the waking of threads: about a microsecond's work for each of them. */
static const double parallel_from = 0x1p15;

static ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }

/* Columns of a row in float64, zeros after the last one up to a whole fold. */
static ptrdiff_t padded(ptrdiff_t cols) { return (cols / GD_FOLD + 1) * GD_FOLD; }

/* The same with two cache lines more: in rows whose distance is a power of two, elements of one
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
        for (ptrdiff_t k = group; k < least(group + GD_GROUP, cols); k += GD_FOLD)
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

/* Loads a row and subtracts its mean. The mean is corrected by the mean of what it left, which
 * makes it exact for a constant row: that becomes zeros, rather than a direction made of rounding.
 */
static void load_centred(const gd_matrix *x, ptrdiff_t row, const columns *shared, double *own)
{
    load(x, row, own);
    double mean = sum(own, shared->weights, x->cols) / shared->weight_sum;
    for (ptrdiff_t k = 0; k < x->cols; ++k)
        own[k] -= mean;
    mean += sum(own, shared->weights, x->cols) / shared->weight_sum;
    load(x, row, own);
    for (ptrdiff_t k = 0; k < x->cols; ++k)
        own[k] -= mean;
}

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

static void unit(const gd_prepare *job, ptrdiff_t row, const columns *shared, double *own)
{
    const ptrdiff_t d = job->x.cols;
    if (job->what == GD_CENTRED_UNIT)
        load_centred(&job->x, row, shared, own);
    else
        load(&job->x, row, own);
    for (ptrdiff_t k = 0; shared->roots && k < d; ++k)
        own[k] *= shared->roots[k];

    double largest = 0;
    for (ptrdiff_t k = 0; k < d; ++k)
        largest = fabs(own[k]) > largest ? fabs(own[k]) : largest;
    const double scale = to_near_one(largest);
    for (ptrdiff_t k = 0; k < d; ++k)
        own[k] *= scale;

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
            truths(&job->x, row, k, least(left, sizeof truth), truth);
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
    const ptrdiff_t rows = least(BLOCK, job->x.rows - first);
    double *const t = own, *const y = t + BLOCK * stride, *const g = y + BLOCK * stride;
    memset(own, 0, (size_t)(3 * BLOCK * stride) * sizeof(double));
    for (ptrdiff_t r = 0; r < rows; ++r) {
        load(&job->x, first + r, t + r * stride);
        for (ptrdiff_t k = 0; k < d; ++k)
            t[r * stride + k] -= shift[k];
    }
    for (ptrdiff_t k = 0; k < d; k += GD_FOLD)
        for (ptrdiff_t r = 0; r < rows; r += PAIR)
            for (ptrdiff_t j = 0; j < d; j += RUN * LANES) {
                const ptrdiff_t at = r * stride + j;
                fold(factor + k * stride + j, stride, t + r * stride + k, stride,
                     least(GD_FOLD, d - k), y + at, g + at);
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

gd_status gd_cpu_prepare(const gd_prepare *job, gd_error *err)
{
    const ptrdiff_t m = job->x.rows, d = job->x.cols, length = spaced(d);
    const bool blocks = job->what == GD_FACTORED;
    const double work = (double)m * (double)(d + 1) * (blocks ? (double)d : 1);
    const int threads = work < parallel_from ? 1 : omp_get_max_threads();
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
    double *const memory = room;
    columns shared = {0};
    if (blocks) {
        load(&job->origin, 0, memory);
        pad_factor(job, memory + length);
    }
    else {
        shared = share_weights(job, memory);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        double *const own = memory + (shared_rows + omp_get_thread_num() * own_rows) * length;
#pragma omp for schedule(static)
        for (ptrdiff_t i = 0; i < (blocks ? (m + BLOCK - 1) / BLOCK : m); ++i) {
            switch (job->what) {
                case GD_UNIT:
                case GD_CENTRED_UNIT:
                    unit(job, i, &shared, own);
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
                    factored(job, i * BLOCK, memory, memory + length, own);
                    break;
                case GD_AS_GIVEN:
                    break;
            }
        }
    }
    gd_free((gd_device){GD_CPU, 0}, NULL, room);
    return GD_OK;
}

/* ---------------------------------------------------------------- pdist */

gd_status gd_cpu_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n, void *out,
                          void *stream, gd_error *err)
{
    (void)stream, (void)err;
    const ptrdiff_t size = block->dtype == GD_F32 ? sizeof(float) : sizeof(double);
    const double elements = (double)block->rows * (double)(n - first);
#pragma omp parallel for schedule(static, 16) if (elements > parallel_from)
    for (ptrdiff_t r = 0; r < block->rows; ++r) {
        const ptrdiff_t i = first + r;
        /* Rows 0 to i - 1 leave n - 1, n - 2, ..., n - i elements before this one's. */
        const ptrdiff_t before = i * (2 * n - i - 1) / 2;
        memcpy((char *)out + before * size,
               (const char *)block->data + (r * block->row_stride + r + 1) * size,
               (size_t)((n - i - 1) * size));
    }
    return GD_OK;
}
