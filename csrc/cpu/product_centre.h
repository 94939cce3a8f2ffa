/* product_centre.h: what cdist_product.c takes from some rows of B: a centre, and whether products
 * are any good. Included there alone, after its constants, row_of and load_some. */

/* Rows that a centre is taken of, and by which a call is judged: differences are quicker where more
 * than one of so many pairs, or of so many rows, are suspects. */
enum { CENTRE_ROWS = 9, JUDGED_ROWS = 16, NEAR_SHARE = 32, UNUSUAL_SHARE = 8 };

/* The median of a few rows of B in each dimension, 0 where that is not finite. */
static void find_centre(const gd_matrix *b, ptrdiff_t depth, double *centre)
{
    const ptrdiff_t d = b->cols;
    const int count = (int)gd_least(CENTRE_ROWS, b->rows - (b->rows + 1) % 2);
    const double *rows[CENTRE_ROWS];
    for (int i = 0; i < count; ++i)
        rows[i] = row_of(b, gd_sample_row(b->rows, i));
    for (ptrdiff_t k = 0; k < depth; k += LANES) {
        V x[CENTRE_ROWS];
        for (int i = 0; i < count; ++i) {
            x[i] = load_some(rows[i], k, d);
            for (int j = i; j > 0; --j) {
                const V low = gd_min(x[j - 1], x[j]);
                x[j] = gd_max(x[j - 1], x[j]);
                x[j - 1] = low;
            }
        }
        const V middle = x[count / 2];
        const gd_vi64 finite = (middle - middle) == (V){0};
        gd_store(centre + k, (V)((gd_vi64)middle & finite));
    }
}

/* The sum of squared differences of two rows, to a few digits. */
static double square_between(const double *x, const double *y, ptrdiff_t d)
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
        const V t = load_some(x, k, d) - load_some(y, k, d);
        acc[0] = gd_fma(t, t, acc[0]);
    }
    acc[0] += acc[1] + (acc[2] + acc[3]);
    for (int i = 0; i < LANES; ++i)
        sum += acc[0][i];
    return sum;
}

/* Whether so many of B's pairs are suspects, or would be if they were a little nearer to each
 * other, or so many rows are of nothing but suspects, that differences are quicker. */
static bool is_clustered(const gd_matrix *b, const double *centre, double share)
{
    const int count = (int)gd_least(JUDGED_ROWS, b->rows);
    const ptrdiff_t d = b->cols;
    double norms[JUDGED_ROWS];
    int near = 0, unusual = 0;
    for (int i = 0; i < count; ++i) {
        const double *const x = row_of(b, gd_sample_row(b->rows, i));
        norms[i] = square_between(x, centre, d);
        if (!(norms[i] <= NORM_MOST)) {
            ++unusual;
            continue;
        }
        for (int j = 0; j < i; ++j) {
            const double *const y = row_of(b, gd_sample_row(b->rows, j));
            near += norms[j] <= NORM_MOST &&
                    !(square_between(x, y, d) > 2 * share * (norms[i] + norms[j]));
        }
    }
    return near * NEAR_SHARE > count * (count - 1) / 2 || unusual * UNUSUAL_SHARE > count;
}
