/* neighbors_filter_body.h: rows of a panel of one type. Included once for each, with N(name) for
 * names, T an element and V a vector of them. */

enum { N(lanes) = sizeof(V) / sizeof(T) };

/* Whether one of the elements of four vectors is at most the bound, or if `larger` at least. */
GD_INLINE bool N(any_of_four)(const T *x, V bound, const bool larger)
{
    gd_vi32 any = {0};
    GD_UNROLL for (int v = 0; v < 4; ++v) {
        const V element = gd_load(x + v * N(lanes));
        any |= larger ? (gd_vi32)(element >= bound) : (gd_vi32)(element <= bound);
    }
    return gd_any(any);
}

/* Adds what belongs to a row's list. */
static gd_status N(filter)(const gd_neighbors *call, ptrdiff_t row, gd_error *err)
{
    enum { STEP = 4 * N(lanes) };
    const T *const x = (const T *)call->panel.data + row * call->panel.row_stride;
    const ptrdiff_t n = call->panel.cols;
    gd_candidates *const to = &call->lists[row];
    const double sign = call->larger ? -1 : 1;
    gd_status status = GD_OK;
    for (ptrdiff_t j = 0; j < n && status == GD_OK;) {
        /* The largest key that belongs to the list, which is one that an element can have. */
        const T most = to->cut ? N(below)((T)to->limit) : (T)to->limit;
        if (call->larger) {
            const V bound = gd_splat(-most);
            while (j + STEP <= n && !N(any_of_four)(x + j, bound, true))
                j += STEP;
        }
        else {
            const V bound = gd_splat(most);
            while (j + STEP <= n && !N(any_of_four)(x + j, bound, false))
                j += STEP;
        }
        const ptrdiff_t end = n - j < STEP ? n : j + STEP;
        for (; j < end && status == GD_OK; ++j)
            status = add(to, sign * (double)x[j], call->first + j, err);
    }
    return status;
}

/* Counts a row's elements by bins. */
static void N(count)(const gd_neighbors *call, ptrdiff_t row)
{
    const T *const x = (const T *)call->panel.data + row * call->panel.row_stride;
    const double sign = call->larger ? -1 : 1;
    for (ptrdiff_t j = 0; j < call->panel.cols; ++j)
        gd_count_key(call, row, sign * (double)x[j], call->first + j);
}

#undef N
#undef T
#undef V
