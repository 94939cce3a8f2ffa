/* gradient_strips_body.h: a strip of rows of A in one type. Included once for each, with T and V
 * for a number and a vector of them, I for a vector of their bits, N(name) for names, S(name) for
 * simd.h's, LEAST for the least quotient whose digits are safe, and SIGN for the bit of the sign.
 */

enum { N(LANES) = GD_VEC_BYTES / sizeof(T) };

/* What a member has for a strip: for each dimension a vector of the points, and two of the sums;
 * for each row of a block of B a vector of what is asked of its pairs, and one of distances. */
typedef struct N(strip) {
    const gd_gradient *call;
    gd_matrix a, b, asked, distances;
    ptrdiff_t first, rows; /* of A */
    T *points, *sums, *lost, *gives, *away;
} N(strip);

/* The element of a pair in the matrix, or in the condensed form of one without its diagonal. */
static T N(element)(const gd_matrix *x, bool pairs, ptrdiff_t n, ptrdiff_t i, ptrdiff_t j)
{
    const T *const data = x->data;
    if (!pairs) {
        return data[i * x->row_stride + j * x->col_stride];
    }
    const ptrdiff_t low = i < j ? i : j, high = i < j ? j : i;
    const ptrdiff_t place = low * (2 * n - low - 1) / 2 + high - low - 1;
    return low == high ? 0 : data[place * x->col_stride];
}

/* Fetches what belongs to the pairs of the strip with rows [from, from + count) of B; 0 where there
 * is none. */
static void N(fetch)(const N(strip) * s, const gd_matrix *x, ptrdiff_t from, ptrdiff_t count, T *to)
{
    const ptrdiff_t down = x->row_stride, along = x->col_stride;
    const T *const first = (const T *)x->data + s->first * down + from * along;
    if (!s->call->pairs && down == 1 && s->rows == N(LANES)) {
        for (ptrdiff_t j = 0; j < count; ++j) {
            S(gd_store)(to + j * N(LANES), S(gd_load)(first + j * along));
        }
        return;
    }
    for (ptrdiff_t i = 0; i < N(LANES); ++i) {
        for (ptrdiff_t j = 0; j < count; ++j) {
            T *const place = to + j * N(LANES) + i;
            if (i >= s->rows) {
                *place = 0;
            }
            else if (s->call->pairs) {
                *place = N(element)(x, true, s->b.rows, s->first + i, from + j);
            }
            else {
                *place = first[i * down + j * along];
            }
        }
    }
}

/* Makes factors of what is asked. Returns whether there are pairs for `add_rare`: their factor is 0
 * here. */
static bool N(make_factors)(const N(strip) * s, ptrdiff_t count)
{
    const gd_metric metric = s->call->metric;
    I rare = {0};
    for (ptrdiff_t j = 0; j < count; ++j) {
        T *const place = s->gives + j * N(LANES);
        const V asked = S(gd_load)(place), away = S(gd_load)(s->away + j * N(LANES));
        if (metric == GD_SQEUCLIDEAN) {
            S(gd_store)(place, asked + asked);
        }
        else if (metric == GD_EUCLIDEAN) {
            const V factor = asked / away, size = S(gd_abs)(factor);
            const I none = (I)((asked == 0) | (away == 0));
            const I safe = (I)((size >= LEAST) & (size <= 1 / LEAST));
            rare |= ~(none | safe);
            S(gd_store)(place, (V)((I)factor & safe & ~none));
        }
        else if (metric != GD_INNER_PRODUCT) { /* NaN as a distance is NaN as a factor */
            const I known = (I)((away == away) | (asked == 0));
            const I none = metric == GD_MINKOWSKI ? (I)(away == 0) : (I){0}; /* has no shares */
            S(gd_store)(place, (V)((((I)asked & known) | ((I)away & ~known)) & ~none));
        }
    }
    T any = 0;
    for (int i = 0; i < N(LANES); ++i) {
        any += rare[i] != 0;
    }
    return any > 0;
}

/* The slope of minkowski's distance: the power p - 1 of a difference's share of the distance. */
GD_INLINE V N(slope)(V share, double p)
{
    if (p >= 2 && p <= MOST_FACTORS && p == (int)p) {
        V product = share;
        for (int i = 2; i < (int)p; ++i) {
            product *= share;
        }
        return product;
    }
    return p < 1 ? 1 / N(power)(share, 1 - p) : N(power)(share, p - 1);
}

/* One term of a dimension. */
GD_INLINE V N(term)(gd_metric metric, double p, V factor, V away, V point, V other, V sum)
{
    const V e = point - other;
    const V signed_factor = (V)((I)factor ^ ((I)e & SIGN));
    switch (metric) {
        case GD_CITYBLOCK:
            return sum + (V)((I)signed_factor & (I)(e != 0));
        case GD_CHEBYSHEV:
            return sum + (V)((I)signed_factor & (I)((e == away) | (e == -away)) & (I)(e != 0));
        case GD_MINKOWSKI: {
            const V slope = N(slope)(S(gd_abs)(e) / away, p);
            return sum + (V)((I)(signed_factor * slope) & (I)(e != 0) & (I)(factor != 0));
        }
        case GD_INNER_PRODUCT:
            return S(gd_fma)(factor, other, sum);
        default:
            return S(gd_fma)(factor, e, sum);
    }
}

/* Adds a block's terms of `tile` dimensions from k on. */
GD_INLINE void N(add_tile)(const N(strip) * s, gd_metric metric, ptrdiff_t from, ptrdiff_t count,
                           ptrdiff_t k, const int tile)
{
    V sum[TILE];
    const T *row = (const T *)s->b.data + from * s->b.row_stride + k;
    for (int q = 0; q < tile; ++q) {
        sum[q] = S(gd_splat)(0);
    }
    for (ptrdiff_t j = 0; j < count; ++j, row += s->b.row_stride) {
        const V factor = S(gd_load)(s->gives + j * N(LANES));
        const V away = S(gd_load)(s->away + j * N(LANES));
        for (int q = 0; q < tile; ++q) {
            const V point = S(gd_load)(s->points + (k + q) * N(LANES));
            sum[q] = N(term)(metric, s->call->p, factor, away, point, S(gd_splat)(row[q]), sum[q]);
        }
    }
    for (int q = 0; q < tile; ++q) {
        T *const high = s->sums + (k + q) * N(LANES), *const low = s->lost + (k + q) * N(LANES);
        const V x = S(gd_load)(high), y = sum[q], all = x + y;
        const V part = all - x, rest = (x - (all - part)) + (y - part);
        S(gd_store)(high, all);
        S(gd_store)(low, S(gd_load)(low) + rest);
    }
}

GD_INLINE void N(add_block)(const N(strip) * s, gd_metric metric, ptrdiff_t from, ptrdiff_t count)
{
    const ptrdiff_t d = s->a.cols;
    ptrdiff_t k = 0;
    for (; k + TILE <= d; k += TILE) {
        N(add_tile)(s, metric, from, count, k, TILE);
    }
    if (d - k >= 4) {
        N(add_tile)(s, metric, from, count, k, 4);
        k += 4;
    }
    if (d - k >= 2) {
        N(add_tile)(s, metric, from, count, k, 2);
        k += 2;
    }
    if (d - k == 1) {
        N(add_tile)(s, metric, from, count, k, 1);
    }
}

/* Adds the pairs whose factor is not safe. */
static void N(add_rare)(const N(strip) * s, ptrdiff_t from, ptrdiff_t count)
{
    for (ptrdiff_t j = 0; j < count; ++j) {
        for (ptrdiff_t i = 0; i < s->rows; ++i) {
            const bool pairs = s->call->pairs;
            const T away = s->away[j * N(LANES) + i];
            const T asked = N(element)(&s->asked, pairs, s->b.rows, s->first + i, from + j);
            if (s->gives[j * N(LANES) + i] != 0 || asked == 0 || away == 0) {
                continue;
            }
            const T *const other = (const T *)s->b.data + (from + j) * s->b.row_stride;
            for (ptrdiff_t k = 0; k < s->a.cols; ++k) {
                const T e = s->points[k * N(LANES) + i] - other[k];
                s->lost[k * N(LANES) + i] += asked * (e / away);
            }
        }
    }
}

static void N(do_strip)(const gd_gradient *call, ptrdiff_t number, ptrdiff_t index, void *room)
{
    const ptrdiff_t first = index * N(LANES), d = call->a.first.cols;
    T *const memory = room;
    N(strip)
    s = {
        .call = call,
        .a = gd_stack_at(&call->a, call->axes, call->shape, number),
        .b = gd_stack_at(&call->b, call->axes, call->shape, number),
        .asked = gd_stack_at(&call->asked, call->axes, call->shape, number),
        .distances = gd_stack_at(&call->distances, call->axes, call->shape, number),
        .first = first,
        .rows = gd_least(N(LANES), call->a.first.rows - first),
        .points = memory,
        .sums = memory + d * N(LANES),
        .lost = memory + 2 * d * N(LANES),
        .gives = memory + 3 * d * N(LANES),
        .away = memory + (3 * d + BLOCK) * N(LANES),
    };
    const gd_matrix out = gd_stack_at(&call->out, call->axes, call->shape, number);
    const T *const points = (const T *)s.a.data + first * s.a.row_stride;
    for (ptrdiff_t k = 0; k < d; ++k) {
        for (ptrdiff_t i = 0; i < N(LANES); ++i) {
            s.points[k * N(LANES) + i] = i < s.rows ? points[i * s.a.row_stride + k] : 0;
            s.sums[k * N(LANES) + i] = s.lost[k * N(LANES) + i] = 0;
        }
    }
    for (ptrdiff_t from = 0; from < s.b.rows; from += BLOCK) {
        const ptrdiff_t count = gd_least(BLOCK, s.b.rows - from);
        N(fetch)(&s, &s.asked, from, count, s.gives);
        N(fetch)(&s, &s.distances, from, count, s.away);
        const bool rare = N(make_factors)(&s, count);
        switch (call->metric) {
            case GD_CITYBLOCK:
                N(add_block)(&s, GD_CITYBLOCK, from, count);
                break;
            case GD_CHEBYSHEV:
                N(add_block)(&s, GD_CHEBYSHEV, from, count);
                break;
            case GD_MINKOWSKI:
                N(add_block)(&s, GD_MINKOWSKI, from, count);
                break;
            case GD_INNER_PRODUCT:
                N(add_block)(&s, GD_INNER_PRODUCT, from, count);
                break;
            default:
                N(add_block)(&s, GD_EUCLIDEAN, from, count);
        }
        if (rare) {
            N(add_rare)(&s, from, count);
        }
    }
    for (ptrdiff_t i = 0; i < s.rows; ++i) {
        T *const row = (T *)out.data + (first + i) * out.row_stride;
        for (ptrdiff_t k = 0; k < d; ++k) {
            const T sum = s.sums[k * N(LANES) + i], all = sum + s.lost[k * N(LANES) + i];
            row[k] = sum - sum == 0 ? all : sum; /* what was lost of an infinite sum is NaN */
        }
    }
}

#undef T
#undef V
#undef I
#undef N
#undef S
#undef LEAST
#undef SIGN
