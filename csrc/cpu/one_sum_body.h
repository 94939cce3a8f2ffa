/* one_sum_body.h: what becomes of sums (one_sum.h) that may have lost range, for the forms that
 * have both rows at hand. Included once per type, with T, V, N and GUARDED as in cdist_thin_body.h.
 */

/* The distance of two rows from its sum, which may have lost range: then from float64. */
static __attribute__((noinline)) T N(recompute)(gd_metric metric, T sum, const T *x, const T *y,
                                                ptrdiff_t d)
{
    const bool root = metric == GD_EUCLIDEAN;
#if GUARDED
    if (gd_lost_range(metric, sum)) {
        double exact = 0;
        for (ptrdiff_t k = 0; k < d; ++k)
            exact += gd_wide_term(metric, x[k], y[k]);
        return (T)(root ? __builtin_sqrt(exact) : exact);
    }
#else
    (void)x, (void)y, (void)d;
#endif
    return root ? (T)__builtin_sqrt((double)sum) : sum;
}

/* Whether any of these sums lost range. */
GD_INLINE bool N(any_lost)(gd_metric metric, const V *sums, const int count)
{
#if GUARDED
    if (GD_CAN_LOSE_RANGE(metric)) {
        gd_range seen = gd_no_range();
        GD_UNROLL for (int r = 0; r < count; ++r)
            gd_see(metric, &seen, sums[r]);
        return gd_saw_loss(metric, &seen);
    }
#else
    (void)metric, (void)sums, (void)count;
#endif
    return false;
}
