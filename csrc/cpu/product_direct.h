/* product_direct.h: sums of squared differences for cdist_product_body.h, with the bits of
 * cdist_tile.c: in the order of metric_terms.h, of rows as they are given. Included there alone. */
#include "direct_pairs.h"

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
