/* product_direct.h: sums of squared differences for cdist_product.c, with the bits of cdist_tile.c:
 * in the order of metric_terms.h, of rows as they are given. Included there alone, after its
 * constants and load_some. */

/* Adds LANES dimensions, of which `count` exist, to sums of squared differences of a row and as
 * many others. What does not exist adds 0. */
GD_INLINE V add_differences(V acc, const double *a, const double *const *b, ptrdiff_t k,
                            const ptrdiff_t count)
{
    V square[LANES];
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        square[i] = gd_load_first(b[i] + k, count);
    gd_transpose_f64(square);
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        acc = GD_TERM_SQEUCLIDEAN(acc, gd_splat(i < count ? a[k + i] : 0.0), square[i]);
    return acc;
}

/* Sums of squared differences of a row and LANES others, in the order of metric_terms.h. */
static V direct(const double *a, const double *const *b, ptrdiff_t d)
{
    V sum = {0};
    for (ptrdiff_t group = 0; group < d; group += GD_GROUP) {
        const ptrdiff_t end = gd_least(group + GD_GROUP, d);
        V total = {0};
        for (ptrdiff_t fold = group; fold < end; fold += GD_FOLD) {
            V acc = {0};
            if (fold + GD_FOLD <= d) GD_UNROLL
                for (int k = 0; k < GD_FOLD; k += LANES)
                    acc = add_differences(acc, a, b, fold + k, LANES);
            else
                for (ptrdiff_t k = fold; k < d; k += LANES)
                    acc = add_differences(acc, a, b, k, gd_least(LANES, d - k));
            total += acc;
        }
        sum += total;
    }
    return sum;
}

/* The sums of `direct` for TOGETHER rows and a panel, packed as it is. */
static void direct_panel(const double *const *a, const double *b, ptrdiff_t d, double *to)
{
    V acc[TOGETHER][NV], total[TOGETHER][NV], sum[TOGETHER][NV];
    FOR_TILE (r, TOGETHER, v)
        sum[r][v] = (V){0};
    for (ptrdiff_t group = 0; group < d; group += GD_GROUP) {
        const ptrdiff_t group_end = gd_least(group + GD_GROUP, d);
        FOR_TILE (r, TOGETHER, v)
            total[r][v] = (V){0};
        for (ptrdiff_t k = group; k < group_end;) {
            const ptrdiff_t end = gd_least(k + GD_FOLD, group_end);
            FOR_TILE (r, TOGETHER, v)
                acc[r][v] = (V){0};
            for (; k < end; ++k)
                FOR_TILE (r, TOGETHER, v)
                    acc[r][v] = GD_TERM_SQEUCLIDEAN(acc[r][v], gd_splat(a[r][k]),
                                                    gd_load(b + (k * NV + v) * LANES));
            FOR_TILE (r, TOGETHER, v)
                total[r][v] += acc[r][v];
        }
        FOR_TILE (r, TOGETHER, v)
            sum[r][v] += total[r][v];
    }
    FOR_TILE (r, TOGETHER, v)
        gd_store(to + r * WIDTH + v * LANES, sum[r][v]);
}
