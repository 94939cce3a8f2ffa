/* neighbors_product_body.h: the part of neighbors_product.c that depends on the type of the rows as
 * they are given. Included once for each, with T the type, V its vector, N(x) the name x with the
 * type's suffix, and GUARDED 1 for the type whose sums of squares may have lost range (float32). */

enum { N(lanes) = sizeof(V) / sizeof(T) };

static const T *N(row_of)(const gd_matrix *x, ptrdiff_t row)
{
    return (const T *)x->data + row * x->row_stride;
}

/* ---------------------------------------------------------------- packing */

/* Puts a number among `count` sorted ones, NaN first. */
static void N(insert)(T *sorted, int count, T one)
{
    for (; count > 0 && !(sorted[count - 1] <= one); --count)
        sorted[count] = sorted[count - 1];
    sorted[count] = one;
}

/* The median of a few rows of B in each dimension, 0 where that is not finite or products are asked
 * for, and a power of two that brings the median of their largest distance from it, in any
 * dimension, to about 1. */
static void N(find_frame)(const gd_neighbors *call, const product_plan *plan)
{
    enum {
        MOST = sizeof(T) == sizeof(float) ? 126 : 1000
    }; /* a power that T has, as its inverse */
    const gd_matrix *const b = &call->b;
    const ptrdiff_t d = b->cols;
    const int count = (int)gd_least(CENTRE_ROWS, b->rows - (b->rows + 1) % 2);
    const bool moves = call->metric != GD_INNER_PRODUCT;
    T *const centre = plan->centre;
    T x[CENTRE_ROWS], largest[CENTRE_ROWS];
    for (ptrdiff_t k = 0; k < d; ++k) {
        for (int i = 0; i < count; ++i)
            N(insert)(x, i, N(row_of)(b, gd_sample_row(b->rows, i))[k]);
        centre[k] = moves && isfinite(x[count / 2]) ? x[count / 2] : 0;
    }
    for (int i = 0; i < count; ++i) {
        const T *const row = N(row_of)(b, gd_sample_row(b->rows, i));
        T most = 0;
        for (ptrdiff_t k = 0; k < d; ++k)
            most = row[k] - centre[k] > most   ? row[k] - centre[k]
                   : centre[k] - row[k] > most ? centre[k] - row[k]
                                               : most;
        N(insert)(largest, i, most);
    }
    const double usual = (double)largest[count / 2];
    const bool fits = usual > 0 && isfinite(usual);
    *plan->scale = fits ? ldexp(1, (int)gd_most(gd_least(-ilogb(usual), MOST), -MOST)) : 1;
}

/* LANES rows on their way into a panel, from dimension k on: as they are packed, in to[i] dimension
 * k + i of them all. What does not exist is 0. */
GD_INLINE void N(take_square)(const product_job *job, const T *const *rows, ptrdiff_t k,
                              ptrdiff_t d, ptrdiff_t ahead, V *to)
{
    const bool whole = k + N(lanes) <= d;
    const T *const centre = (const T *)job->plan->centre + k;
    const V middle = whole ? gd_load(centre) : gd_load_first(centre, d - k);
    const V scale = gd_splat((T)*job->plan->scale);
    GD_UNROLL for (int i = 0; i < N(lanes); ++i) {
        to[i] =
            ((whole ? gd_load(rows[i] + k) : gd_load_first(rows[i] + k, d - k)) - middle) * scale;
        gd_fetch(rows[i] + k, ahead);
    }
    N(gd_transpose)(to);
}

/* Packs `count` rows from `from` on to to[k * width + r], and the last again for what is missing to
 * `width`, and gives what each brings to a bound: infinity for rows that are none or have a NaN,
 * and -inf for those too long for products. These are packed as zeros. */
static void N(pack)(const product_job *job, const gd_matrix *x, ptrdiff_t from, ptrdiff_t count,
                    ptrdiff_t width, float *to, double *norms)
{
    const ptrdiff_t d = x->cols, ahead = N(lanes) * x->row_stride * (ptrdiff_t)sizeof(T);
    for (ptrdiff_t r = 0; r < width; r += N(lanes)) {
        const T *rows[N(lanes)];
        V total = {0}, acc = {0};
        for (int i = 0; i < N(lanes); ++i)
            rows[i] = N(row_of)(x, from + gd_least(r + i, count - 1));
        for (ptrdiff_t k = 0; k < d; k += N(lanes)) {
            V square[N(lanes)];
            N(take_square)(job, rows, k, d, ahead, square);
            GD_UNROLL for (int i = 0; i < N(lanes); ++i) {
                acc = gd_fma(square[i], square[i], acc);
                if (k + i < d)
                    N(store_floats)(to + (k + i) * width + r, square[i]);
            }
            if ((k + N(lanes)) % FOLD == 0) {
                total += acc;
                acc = (V){0};
            }
        }
        total += acc;
        for (int i = 0; i < N(lanes); ++i) {
            const double norm = (double)total[i];
            norms[r + i] = r + i >= count || norm != norm ? (double)INFINITY
                           : norm <= job->most_norm       ? norm * job->part_of_norm
                                                          : -(double)INFINITY;
            for (ptrdiff_t k = 0; isinf(norms[r + i]) && k < d; ++k)
                to[k * width + r + i] = 0;
        }
    }
}

static void N(pack_some)(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    product_job *const job = context;
    const product_plan *const plan = job->plan;
    for (ptrdiff_t panel = first; panel < last; ++panel) {
        const ptrdiff_t column = panel * WIDTH;
        double norms[WIDTH];
        if (!gd_goes_on(&job->call->launch, 0, member, &job->passed, job->heard))
            break;
        N(pack)(job, &job->call->b, column, gd_least(plan->n - column, WIDTH), WIDTH,
                plan->columns + column * plan->d, norms);
        for (int i = 0; i < WIDTH; ++i)
            plan->norms[column + i] = rounded_down(norms[i]);
    }
}

/* ---------------------------------------------------------------- distances */

#include "direct_pairs.h"

static V N(direct_products)(const T *const *a, const T *const *b, ptrdiff_t d)
{
    return N(add_pairs)(GD_INNER_PRODUCT, a, b, d);
}

/* The key of two rows from their sum. The distance of a cosine is the sum: rows are of length
 * sqrt(1/2). */
static double N(key_of)(const gd_neighbors *call, T sum, const T *a, const T *b)
{
    const bool root = call->metric == GD_EUCLIDEAN;
    const double sign = call->metric == GD_INNER_PRODUCT ? -1 : 1;
    if (call->metric == GD_COSINE)
        return sum > 2 ? 2 : (double)sum;
#if GUARDED
    if (gd_lost_range(call->metric, sum)) {
        double exact = 0;
        for (ptrdiff_t k = 0; k < call->b.cols; ++k)
            exact += gd_wide_term(call->metric, a[k], b[k]);
        return sign * (double)(T)(root ? __builtin_sqrt(exact) : exact);
    }
    return sign * (double)(root ? __builtin_sqrtf(sum) : sum);
#else
    (void)a, (void)b;
    return sign * (root ? __builtin_sqrt(sum) : sum);
#endif
}

/* What `within` has to be for a row's neighbours at this key or nearer. Distances of the direct
 * form may be smaller than those of the rows by slack_of, and by what is lost to underflow: of
 * their squares, or where these are computed again (see key_of) of the result alone. Products that
 * are 0 are not computed again. */
static float N(reach)(const product_job *job, double norm, double key)
{
    const double scale = *job->plan->scale, d = (double)job->plan->d;
    const double least = GUARDED ? 0x1p-149 : DBL_TRUE_MIN;
    if (isinf(norm))
        return norm > 0 ? -INFINITY : INFINITY;
    if (job->call->metric == GD_INNER_PRODUCT) {
        /* Infinite products are of any size beyond the largest number. */
        const double from = fmax(key, GUARDED ? -(double)FLT_MAX : -DBL_MAX);
        const double twice = 2 * (from + (d + 1) * least) * scale * scale;
        /* What is computed with everybody is within any reach. */
        return fmaxf(rounded_up(twice + LEAST - norm), -FLT_MAX);
    }
    const bool root = job->call->metric == GD_EUCLIDEAN, cosine = job->call->metric == GD_COSINE;
    const double most = key + least;
    const double square = root ? most * scale * (most * scale) : most * scale * scale;
    const double lost = GUARDED && !cosine ? 0 : (d + 1) * least * scale * scale;
    return rounded_up((square + lost) * (1 + slack_of(job->plan->d)) + LEAST - norm);
}

/* What `within` has to be for what is still to come to belong to a row's list: nothing does that is
 * full of rows at no distance, as all that come later have larger indices. */
static float N(reach_of_list)(const product_job *job, double norm, const gd_candidates *to)
{
    const bool is_done = job->call->metric != GD_INNER_PRODUCT && to->cut && to->list[0].key <= 0;
    return is_done ? -INFINITY : N(reach)(job, norm, limit_of(to));
}

/* Puts what a row has pending where it belongs. */
static gd_status N(settle)(const product_job *job, product_own *own, ptrdiff_t row, ptrdiff_t r,
                           gd_error *err)
{
    const gd_neighbors *const call = job->call;
    const ptrdiff_t first = job->panel * WIDTH;
    const int32_t *const pending = own->pending + r * LANES;
    const T *const a = N(row_of)(&call->a, row + r);
    const int count = own->counts[r];
    gd_status status = GD_OK;
    for (int done = 0; done < count && status == GD_OK; done += N(lanes)) {
        const T *same[N(lanes)], *b[N(lanes)];
        for (int i = 0; i < N(lanes); ++i) {
            same[i] = a;
            b[i] = N(row_of)(&call->b, first + pending[gd_least(done + i, count - 1)]);
        }
        const V sums = (call->metric == GD_INNER_PRODUCT ? N(direct_products) : N(direct))(
            same, b, call->b.cols);
        for (int i = 0; i < N(lanes) && done + i < count && status == GD_OK; ++i) {
            const double key = N(key_of)(call, sums[i], a, b[i]);
            const ptrdiff_t at = first + pending[done + i];
            if (call->lists != NULL) {
                gd_candidates *const to = &call->lists[row + r];
                if (key <= to->limit)
                    status = gd_put_candidate(to, (gd_candidate){key, at}, err);
                continue;
            }
            gd_count_key(call, row + r, key, at);
        }
    }
    own->counts[r] = 0;
    if (call->lists != NULL)
        own->within[r] = N(reach_of_list)(job, own->norms[r], &call->lists[row + r]);
    return status;
}

/* ---------------------------------------------------------------- searching */

/* Packs rows of A, and finds what is within each one's reach. */
static void N(begin)(const product_job *job, product_own *own, ptrdiff_t row, ptrdiff_t rows)
{
    const gd_neighbors *const call = job->call;
    for (ptrdiff_t r = 0; r < rows; r += HIGH)
        N(pack)(job, &call->a, row + r, gd_least(rows - r, HIGH), HIGH,
                own->rows + r * call->a.cols, own->norms + r);
    for (ptrdiff_t r = 0; r < gd_ceil_div(rows, HIGH) * HIGH; ++r) {
        const gd_candidates *const to =
            r < rows && call->lists != NULL ? call->lists + row + r : NULL;
        own->counts[r] = 0;
        own->within[r] = r >= rows || (to != NULL && to->most == 0) ? -INFINITY
                         : to != NULL
                             ? N(reach_of_list)(job, own->norms[r], to)
                             : N(reach)(job, own->norms[r], call->bounds[call->bound_count - 1]);
    }
}

/* All pairs of a block of A's rows, and this round's panels. */
static gd_status N(search_block)(const product_job *job, product_own *own, ptrdiff_t row,
                                 int64_t *pairs, gd_error *err)
{
    const gd_neighbors *const call = job->call;
    const product_plan *const plan = job->plan;
    const ptrdiff_t d = plan->d, rows = gd_least(job->rows, call->a.rows - row);
    gd_status status = GD_OK;
    N(begin)(job, own, row, rows);
    for (ptrdiff_t panel = job->panel; panel < job->until && status == GD_OK; ++panel) {
        const ptrdiff_t column = panel * WIDTH, from = column - job->panel * WIDTH;
        const float *const b = plan->columns + column * d;
        const float *next = panel + 1 < plan->panels ? b + WIDTH * d : b;
        for (ptrdiff_t r = 0; r < rows; r += MR, next += d * LINE_FLOATS) {
            uint64_t marks[MR];
            mark(own->rows + r / HIGH * HIGH * d + r % HIGH, b, d, plan->norms + column,
                 own->within + r, r < NV * MR ? next : b, marks);
            for (ptrdiff_t i = 0; i < MR; ++i)
                for (uint64_t left = marks[i]; left != 0 && status == GD_OK; left &= left - 1) {
                    const int c = __builtin_ctzll(left);
                    if (call->self >= 0 && column + c == call->self + row + r + i)
                        continue;
                    own->pending[(r + i) * LANES + own->counts[r + i]++] = (int32_t)(from + c);
                    ++*pairs;
                    if (own->counts[r + i] == LANES)
                        status = N(settle)(job, own, row, r + i, err);
                }
        }
    }
    for (ptrdiff_t r = 0; r < rows && status == GD_OK; ++r)
        if (own->counts[r] > 0)
            status = N(settle)(job, own, row, r, err);
    return status;
}

#undef N
#undef T
#undef V
#undef GUARDED
