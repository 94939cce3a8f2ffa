/* product_direct.h: sums of squared differences for cdist_product_body.h, with the bits of
 * cdist_tile.c: in the order of metric_terms.h, of rows as they are given. Included there alone. */

/* Adds LANES dimensions, of which `count` exist, to sums of squared differences of LANES pairs of
 * rows. What does not exist adds 0. */
GD_INLINE V N(add_differences)(V acc, const T *const *a, const T *const *b, ptrdiff_t k,
                               const ptrdiff_t count)
{
    V less[LANES];
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        less[i] = gd_load_first(a[i] + k, count) - gd_load_first(b[i] + k, count);
    TRANSPOSE(less);
    GD_UNROLL for (int i = 0; i < LANES; ++i)
        acc = GD_TERM_SQEUCLIDEAN(acc, less[i], (V){0});
    return acc;
}

/* Sums of squared differences of LANES pairs of rows, in the order of metric_terms.h. */
static V N(direct)(const T *const *a, const T *const *b, ptrdiff_t d)
{
    V sum = {0};
    for (ptrdiff_t group = 0; group < d; group += GD_GROUP) {
        const ptrdiff_t end = gd_least(group + GD_GROUP, d);
        V total = {0};
        for (ptrdiff_t fold = group; fold < end; fold += GD_FOLD) {
            V acc = {0};
            if (fold + GD_FOLD <= d) GD_UNROLL
                for (int k = 0; k < GD_FOLD; k += LANES)
                    acc = N(add_differences)(acc, a, b, fold + k, LANES);
            else
                for (ptrdiff_t k = fold; k < d; k += LANES)
                    acc = N(add_differences)(acc, a, b, k, gd_least(LANES, d - k));
            total += acc;
        }
        sum += total;
    }
    return sum;
}

/* The sums of `direct` for TOGETHER rows and a panel, packed as it is. */
static void N(direct_panel)(const T *const *a, const T *b, ptrdiff_t d, T *to)
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
