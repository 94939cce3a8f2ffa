/* direct_pairs.h: sums of pairs of rows that have nothing in common, with the bits of cdist_tile.c.
 * Included once for each type, with T the type, V its vector, N(x) the name x with the type's
 * suffix, and N(lanes) elements in a vector. */

/* Adds a vector of dimensions, of which `count` exist, to sums of as many pairs of rows. What does
 * not exist adds 0, and to a sum of products -0, which changes no sum: not even one of -0. */
GD_INLINE V N(add_terms)(const gd_metric metric, V acc, const T *const *a, const T *const *b,
                         ptrdiff_t k, const ptrdiff_t count)
{
    V x[N(lanes)], y[N(lanes)];
    GD_UNROLL for (int i = 0; i < N(lanes); ++i) {
        x[i] = gd_load_first(a[i] + k, count);
        y[i] = gd_load_first(b[i] + k, count);
        if (metric != GD_INNER_PRODUCT)
            x[i] -= y[i];
    }
    N(gd_transpose)(x);
    if (metric == GD_INNER_PRODUCT)
        N(gd_transpose)(y);
    GD_UNROLL for (int i = 0; i < N(lanes); ++i) {
        if (metric == GD_INNER_PRODUCT && i >= count)
            y[i] = -y[i];
        acc = metric == GD_INNER_PRODUCT ? GD_TERM_INNER_PRODUCT(acc, x[i], y[i])
                                         : GD_TERM_SQEUCLIDEAN(acc, x[i], (V){0});
    }
    return acc;
}

/* Sums of as many pairs of rows as a vector has lanes, in the order of metric_terms.h: of squared
 * differences, or for inner_product of products. Only a fold begins with 0: totals begin with -0,
 * so that they have the sign of the folds that are added to them, whose products may be too small
 * for T. */
GD_INLINE V N(add_pairs)(const gd_metric metric, const T *const *a, const T *const *b, ptrdiff_t d)
{
    V sum = gd_splat((T)-0.0);
    for (ptrdiff_t group = 0; group < d; group += GD_GROUP) {
        const ptrdiff_t end = gd_least(group + GD_GROUP, d);
        V total = gd_splat((T)-0.0);
        for (ptrdiff_t fold = group; fold < end; fold += GD_FOLD) {
            V acc = {0};
            if (fold + GD_FOLD <= d) GD_UNROLL
                for (int k = 0; k < GD_FOLD; k += N(lanes))
                    acc = N(add_terms)(metric, acc, a, b, fold + k, N(lanes));
            else
                for (ptrdiff_t k = fold; k < d; k += N(lanes))
                    acc = N(add_terms)(metric, acc, a, b, k, gd_least(N(lanes), d - k));
            total += acc;
        }
        sum += total;
    }
    return sum;
}

static V N(direct)(const T *const *a, const T *const *b, ptrdiff_t d)
{
    return N(add_pairs)(GD_SQEUCLIDEAN, a, b, d);
}
