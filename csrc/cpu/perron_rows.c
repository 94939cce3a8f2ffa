/* perron_rows.c: rounds of x <- A x, one read of A each.
 *
 * Four rows at a time meet two vectors of x: eight independent sums hide the latency of the
 * multiply-add, and the hardware prefetches four rows as well as one. Elements of float32 become
 * float64 on the way (one more instruction a vector), since bounds to 1e-6 need ratios to 1e-7.
 * Blocks of rows report apart and are joined in order, so results do not depend on the threads.
 *
 * Floor: bytes of A / the bandwidth of reading, from memory or from the cache that holds A. */
#include <float.h>

#include "kernels.h"
#include "perron_judge.h"
#include "simd.h"
#include "team.h"

enum {
    LANES = sizeof(gd_vf64) / sizeof(double),
    STEP = 2 * LANES, /* columns */
    ROWS = 4,         /* side by side */
    BLOCK = 16,       /* rows that report together */
    WORTH_THREADS = 1 << 15,
};

GD_INLINE double sum_of(gd_vf64 x)
{
    double sum = 0;
    for (int i = 0; i < LANES; ++i)
        sum += x[i];
    return sum;
}

/* The products of rows row .. row + ROWS - 1 with x; when scanning, answers whether an element is
 * not positive and finite. Rows that A does not have are its last once more. */
#define DEFINE_MULTIPLY(T, largest)                                                               \
    GD_INLINE int multiply_##T(const gd_matrix *a, ptrdiff_t row, const double *x, double *y,     \
                               const int scan)                                                    \
    {                                                                                             \
        const T *rows[ROWS];                                                                      \
        gd_vf64 even[ROWS] = {{0}}, odd[ROWS] = {{0}};                                            \
        gd_vi64 fine = ~(gd_vi64){0};                                                             \
        int doubts = 0;                                                                           \
        ptrdiff_t j = 0;                                                                          \
        for (int r = 0; r < ROWS; ++r)                                                            \
            rows[r] =                                                                             \
                (const T *)a->data + (row + r < a->rows ? row + r : a->rows - 1) * a->row_stride; \
        for (; j + STEP <= a->cols; j += STEP) {                                                  \
            const gd_vf64 x0 = gd_load(x + j), x1 = gd_load(x + j + LANES);                       \
            GD_UNROLL for (int r = 0; r < ROWS; ++r) {                                            \
                const gd_vf64 a0 = gd_load_wide(rows[r] + j),                                     \
                              a1 = gd_load_wide(rows[r] + j + LANES);                             \
                even[r] = gd_fma(a0, x0, even[r]);                                                \
                odd[r] = gd_fma(a1, x1, odd[r]);                                                  \
                if (scan) /* comparisons that NaN fails */                                        \
                    fine &= (a0 > 0) & (a0 <= largest) & (a1 > 0) & (a1 <= largest);              \
            }                                                                                     \
        }                                                                                         \
        for (int r = 0; r < ROWS; ++r) {                                                          \
            double sum = sum_of(even[r] + odd[r]);                                                \
            for (ptrdiff_t k = j; k < a->cols; ++k) {                                             \
                const double e = rows[r][k];                                                      \
                sum += e * x[k];                                                                  \
                doubts |= scan && !(e > 0 && e <= largest);                                       \
            }                                                                                     \
            y[r] = sum;                                                                           \
        }                                                                                         \
        return doubts || gd_any((gd_vi32)~fine);                                                  \
    }
DEFINE_MULTIPLY(float, FLT_MAX)
DEFINE_MULTIPLY(double, DBL_MAX)
#undef DEFINE_MULTIPLY

/* Instances of their own, so that rounds without a scan test nothing. */
static int products(const gd_matrix *a, ptrdiff_t row, const double *x, double *y, bool scan)
{
    if (a->dtype == GD_F32)
        return scan ? multiply_float(a, row, x, y, 1) : multiply_float(a, row, x, y, 0);
    return scan ? multiply_double(a, row, x, y, 1) : multiply_double(a, row, x, y, 0);
}

/* What one block of rows found. */
typedef struct report {
    gd_perron_found found;
    int doubts;
} report;

static report do_block(const gd_perron *call, ptrdiff_t first, const double *x, double *next,
                       bool scan)
{
    const double scale = call->state->scale, lost = gd_perron_lost(call->a.rows);
    report block = {gd_perron_found_none(), 0};
    const ptrdiff_t end = first + BLOCK < call->a.rows ? first + BLOCK : call->a.rows;
    for (ptrdiff_t row = first; row < end; row += ROWS) {
        double y[ROWS];
        block.doubts |= products(&call->a, row, x, y, scan);
        for (ptrdiff_t i = row; i < row + ROWS && i < end; ++i) {
            next[i] = gd_perron_next(y[i - row], x[i], call->shift, scale);
            gd_perron_note(&block.found, y[i - row], x[i], next[i], lost);
        }
    }
    return block;
}

/* A round that all members are in. */
typedef struct perron_round {
    const gd_perron *call;
    const double *x;
    double *next;
    report *reports;
    bool scan;
} perron_round;

static void do_blocks(void *context, ptrdiff_t first, ptrdiff_t last, int member)
{
    const perron_round *const r = context;
    (void)member;
    for (ptrdiff_t b = first; b < last; ++b)
        r->reports[b] = do_block(r->call, b * BLOCK, r->x, r->next, r->scan);
}

static void do_round(const gd_perron *call, bool scan)
{
    gd_perron_state *state = call->state;
    const ptrdiff_t n = call->a.rows, blocks = (n + BLOCK - 1) / BLOCK;
    perron_round round = {
        .call = call,
        .x = call->vectors + state->round % GD_PERRON_KEPT * call->padded,
        .next = call->vectors + (state->round + 1) % GD_PERRON_KEPT * call->padded,
        .reports = call->launch.workspace,
        .scan = scan,
    };
    gd_perron_found found = gd_perron_found_none();
    gd_team_run(n >= WORTH_THREADS / n ? gd_team_size() : 1, blocks, 1, do_blocks, &round);
    for (ptrdiff_t b = 0; b < blocks; ++b) {
        gd_perron_join(&found, &round.reports[b].found);
        state->doubts |= round.reports[b].doubts;
    }
    gd_perron_judge(state, &found, call->tol, call->shift, call->roundings, scan);
}

gd_status GD_ISA_NAME(gd_cpu_perron_rows)(gd_perron *call, gd_error *err)
{
    const ptrdiff_t n = call->a.rows;
    gd_perron_state *state = call->state;
    if (call->launch.sizing) {
        call->launch.workspace_bytes = (size_t)((n + BLOCK - 1) / BLOCK) * sizeof(report);
        /* A lane's sum, both vectors and all lanes joined, what is left of the columns; and the
         * product itself, which is rounded where there is no fused multiply-add. */
        call->roundings = n / STEP + 1 + LANES + STEP + 1;
        return GD_OK;
    }
    for (bool scan = call->scan; state->stop == GD_PERRON_GOING && state->round < call->until;
         scan = false) {
        do_round(call, scan);
        const gd_status status = gd_pass(&call->launch, 0, err); /* of how many nobody knows */
        if (status != GD_OK)
            return status;
    }
    return GD_OK;
}
