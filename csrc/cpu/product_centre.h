/* product_centre.h: what cdist_product_body.h takes from some rows of B: a centre, and whether
 * products are any good. Included there alone. */

GD_INLINE V N(median)(V x, V y, V z) { return gd_max(gd_min(x, y), gd_min(gd_max(x, y), z)); }

/* In each dimension the median of three medians of three, and so on, of some rows of B; 0 where
 * that is not finite. */
static void N(find_centre)(const gd_matrix *b, ptrdiff_t depth, T *centre)
{
    enum { LEVELS = 4 }; /* of medians, at most */
    _Static_assert(CENTRE_ROWS <= 3 * 3 * 3 * 3, "more levels");
    const T *rows[CENTRE_ROWS];
    int count = 1;
    while (3 * count <= gd_least(CENTRE_ROWS, b->rows))
        count *= 3;
    for (int i = 0; i < count; ++i)
        rows[i] = N(row_of)(b, gd_sample_row(b->rows, i));
    for (ptrdiff_t k = 0; k < depth; k += LANES) {
        V waiting[LEVELS + 1][2], x = {0};
        for (int i = 0; i < count; ++i) {
            int level = 0, number = i;
            x = N(load_some)(rows[i], k, b->cols);
            for (; number % 3 == 2; number /= 3, ++level)
                x = N(median)(waiting[level][0], waiting[level][1], x);
            waiting[level][number % 3] = x;
        }
        const MASK finite = (x - x) == (V){0};
        gd_store(centre + k, (V)((MASK)x & finite));
    }
}

/* The sum of squared differences of two rows, to a few digits. */
static double N(square_between)(const T *x, const T *y, ptrdiff_t d)
{
    enum { CHAINS = 4 };
    V acc[CHAINS] = {{0}};
    double sum = 0;
    ptrdiff_t k = 0;
    for (; k + CHAINS * LANES <= d; k += CHAINS * LANES) GD_UNROLL
        for (int i = 0; i < CHAINS; ++i) {
            const V t = gd_load(x + k + i * LANES) - gd_load(y + k + i * LANES);
            acc[i] = gd_fma(t, t, acc[i]);
        }
    for (; k < d; k += LANES) {
        const V t = N(load_some)(x, k, d) - N(load_some)(y, k, d);
        acc[0] = gd_fma(t, t, acc[0]);
    }
    acc[0] += acc[1] + (acc[2] + acc[3]);
    for (int i = 0; i < LANES; ++i)
        sum += acc[0][i];
    return sum;
}

/* Whether so many of B's pairs are suspects, or would be if they were a little nearer to each
 * other, or so many rows are of nothing but suspects, that differences are quicker. */
static bool N(is_clustered)(const gd_matrix *b, const T *centre, double share)
{
    const int count = (int)gd_least(JUDGED_ROWS, b->rows);
    const ptrdiff_t d = b->cols;
    double norms[JUDGED_ROWS];
    int near = 0, unusual = 0;
    for (int i = 0; i < count; ++i) {
        const T *const x = N(row_of)(b, gd_sample_row(b->rows, i));
        norms[i] = N(square_between)(x, centre, d);
        if (!(norms[i] <= NORM_MOST)) {
            ++unusual;
            continue;
        }
        for (int j = 0; j < i; ++j) {
            const T *const y = N(row_of)(b, gd_sample_row(b->rows, j));
            near += norms[j] <= NORM_MOST &&
                    !(N(square_between)(x, y, d) > NEAR_TIMES * share * (norms[i] + norms[j]));
        }
    }
    return near * NEAR_SHARE > count * (count - 1) / 2 || unusual * UNUSUAL_SHARE > count;
}
