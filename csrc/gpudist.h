/* gpudist.h: the vocabulary shared by the C host code and the CUDA kernels.
 *
 * Everything that can compute is one row of the kernel table (kernels.def). A row's launcher takes
 * one parameter struct of its operation, defined here. Sizes are ptrdiff_t, strides count elements,
 * functions return gd_status and fill the caller's gd_error. Nothing here knows Python. */
#ifndef GPUDIST_H
#define GPUDIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status and errors */

typedef enum gd_status {
    GD_OK = 0,
    GD_BAD_VALUE,    /* becomes ValueError */
    GD_BAD_TYPE,     /* becomes TypeError */
    GD_NO_MEMORY,    /* becomes MemoryError */
    GD_OVERFLOW,     /* becomes OverflowError */
    GD_DEVICE_ERROR, /* becomes gpudist.DeviceError */
    GD_STOPPED,      /* a watcher stopped the work; the exception is set already */
} gd_status;

typedef struct gd_error {
    gd_status status;
    int cuda_code;    /* the CUDA runtime's code, 0 where none is involved */
    const char *file; /* where it was raised */
    int line;
    char msg[400];
} gd_error;

/* Fills *err and returns status, so that a failure is one line: return GD_FAIL(err, ...). */
#define GD_FAIL(err, status, ...) gd_error_set(err, status, 0, __FILE__, __LINE__, __VA_ARGS__)
gd_status gd_error_set(gd_error *err, gd_status status, int cuda_code, const char *file, int line,
                       const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 6, 7)))
#endif
    ;

/* ---------------------------------------------------------------- types, metrics, devices */

/* Lists are macros that apply X to each item, so that an enumeration, its names and its length
 * come from one place. */
#define GD_ENUMERATOR(e, ...) e,
#define GD_ONE_MORE(...) +1

/* X(enumerator, NumPy's name, C type) */
#define GD_DTYPES(X)            \
    X(GD_F32, "float32", float) \
    X(GD_F64, "float64", double) X(GD_I32, "int32", int32_t) X(GD_BOOL, "bool", uint8_t)

typedef enum gd_dtype { GD_DTYPES(GD_ENUMERATOR) } gd_dtype;

/* Every metric (metrics.def). Kernels meet only those that others reduce to. */
typedef enum gd_metric {
#define GD_METRIC(e, ...) e,
#include "metrics.def"
#undef GD_METRIC
} gd_metric;

/* Arguments of metrics, as a set. */
enum {
    GD_TAKES_W = 1,     /* weights of the columns */
    GD_TAKES_P = 2,     /* the exponent */
    GD_TAKES_V = 4,     /* variances of the columns */
    GD_TAKES_VI = 8,    /* an inverse covariance matrix */
    GD_TAKES_BASE = 16, /* of the logarithm */
    GD_TAKES_BOX = 32,  /* lengths of a periodic box */
};

/* The semirings of products, as (which of two ways counts, how a way is made of two parts).
 * X(enumerator, name) */
#define GD_SEMIRINGS(X)      \
    X(GD_MIN_PLUS, min_plus) \
    X(GD_MAX_PLUS, max_plus) X(GD_MIN_MAX, min_max) X(GD_MAX_MIN, max_min) X(GD_OR_AND, or_and)

typedef enum gd_semiring { GD_SEMIRINGS(GD_ENUMERATOR) } gd_semiring;

typedef enum gd_domain { GD_NUMBERS, GD_TRUTHS, GD_EITHER } gd_domain;

/* What a dimension of a pair costs. */
typedef enum gd_cost { GD_CHEAP, GD_MODERATE, GD_COSTLY } gd_cost;

/* Which of two rows is nearer: that at the smaller distance, or with the larger similarity. */
typedef enum gd_order { GD_SMALLER_IS_NEARER, GD_LARGER_IS_NEARER } gd_order;

typedef enum gd_backend { GD_CPU, GD_CUDA } gd_backend;

typedef struct gd_device {
    gd_backend backend;
    int index; /* CUDA ordinal; 0 for the CPU */
} gd_device;

/* Instruction sets that CPU kernels are compiled for. A row needs one, the machine has one. */
typedef enum gd_isa { GD_ISA_BASELINE, GD_ISA_AVX2, GD_ISA_AVX512 } gd_isa;

/* A view of a two-dimensional array; it owns nothing. Host views have col_stride 1 and
 * row_stride >= cols (the intake sees to it); device inputs may have any strides. */
typedef struct gd_matrix {
    void *data;
    ptrdiff_t rows, cols;
    ptrdiff_t row_stride, col_stride; /* in elements */
    gd_dtype dtype;
    gd_device device;
} gd_matrix;

/* A matrix whose elements follow each other. */
static inline gd_matrix gd_dense(void *data, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                                 gd_device device)
{
    const gd_matrix matrix = {data, rows, cols, cols, 1, dtype, device};
    return matrix;
}

/* Sums over dimensions start a fresh accumulator every GD_FOLD dimensions; the accumulators of
 * GD_GROUP dimensions are added up in order, and so are those sums. A float32 sum of 4096 terms
 * then passes through 16 + 8 + 32 roundings instead of 4096, which keeps its error inside the
 * accuracy contract. Every kernel that auto may choose adds in this order, so that tiles and
 * backends agree. */
#define GD_FOLD 16
#define GD_GROUP 128

/* A float32 sum of squares (or of other powers) below or above these bounds may have lost digits to
 * underflow or overflow of its terms: such an element is computed again in float64. 2**-100 leaves
 * 24 bits above the rounding of 2**12 subnormal terms. */
#define GD_F32_SQUARES_SAFE_MIN 0x1p-100f
#define GD_F32_SQUARES_SAFE_MAX 0x1.fffffep+127f

/* Absent edges and unreachable pairs inside int32 path kernels: the sum of two stays in range. */
#define GD_I32_FAR ((int32_t)0x3fffffff)
/* int32 lengths from here on are no path: a sum with GD_I32_FAR, which negative weights make
 * smaller, but not as small as this (gd_apsp says how large real lengths can be). */
#define GD_I32_NO_PATH (GD_I32_FAR / 2 + 1)
/* Numbers that minplus adds are smaller than this in magnitude: so are sums smaller than
 * GD_I32_NO_PATH, and sums with GD_I32_FAR are not. */
#define GD_I32_ADDEND_LIMIT ((int32_t)0x10000000)
/* What marks a pair without a predecessor, as in SciPy. */
#define GD_NO_PREDECESSOR ((int32_t)-9999)

/* The most axes of a batch that a launcher takes on a CUDA device; what lies together is made one.
 */
#define GD_MOST_AXES 4

/* Of an operand of a batch, the matrices that are not one another: `count` of them, along the axes
 * along which it moves, of these lengths, so many bytes apart; and along each axis of the batch how
 * many of them are passed, 0 where one stands for all. */
typedef struct gd_own {
    int axes;
    ptrdiff_t count, shape[GD_MOST_AXES], strides[GD_MOST_AXES], passed[GD_MOST_AXES];
} gd_own;

/* ---------------------------------------------------------------- launching */

/* A launch parameter that a row lets its callers choose: one of the whole numbers least,
 * least + step, ..., most. */
typedef struct gd_option {
    const char *name;
    int least, most, standard, step;
} gd_option;

enum { GD_MOST_OPTIONS = 8 };

/* The values of a row's options, in the order in which the row lists them. */
typedef struct gd_options {
    int value[GD_MOST_OPTIONS];
} gd_options;

struct gd_launch;

/* Somebody who watches long work, to report how far it is and to stop it. `pass` is told which
 * share of a launch's work is done, from 0 to 1; any other answer than GD_OK is to be returned at
 * once, and leaves the result unspecified. On a CUDA device `done` is what has been enqueued: there
 * `pass` also waits, so that the device never has much more than 100 ms of work before it. It looks
 * at the clock and mostly does no more, so it may be called every few microseconds. */
typedef struct gd_watch {
    gd_status (*pass)(struct gd_watch *watch, const struct gd_launch *launch, double done,
                      gd_error *err);
} gd_watch;

/* What every launch needs. A launcher is called twice: with `sizing` set it launches nothing and
 * writes the sizes it needs (workspace_bytes, and fields its operation names); then with the
 * workspace allocated, 256-byte aligned and uninitialised. CUDA launchers find their device
 * current, and enqueue on `stream` without waiting. Options lie within what the row allows; what
 * the device does not allow is a GD_BAD_VALUE of the sizing call. */
typedef struct gd_launch {
    bool sizing;
    gd_device device;
    void *stream; /* a cudaStream_t; NULL is the legacy default stream */
    void *workspace;
    size_t workspace_bytes;
    gd_options options;
    gd_watch *watch; /* NULL: nobody watches */
} gd_launch;

/* For launchers, between rounds or pieces of work, in the thread that the launcher was called in.
 * Work of less than some 10 ms need not call it at all. */
static inline gd_status gd_pass(const gd_launch *launch, double done, gd_error *err)
{
    return launch->watch == NULL ? GD_OK : launch->watch->pass(launch->watch, launch, done, err);
}

/* cdist: out[i, j] = metric(a[i, :], b[j, :]).
 * a is m x d, b is n x d, out is m x n with col_stride 1; all three of one dtype and on the
 * launch's device; m, n >= 1, d >= 0. Inputs are only read. With `pairs`, which rows of the table
 * without GD_PAIRS never see, a and b are the same, and out.data holds the results with j > i
 * alone, one row after the other: out[i, j] is element i (2 n - i - 1) / 2 + j - i - 1. out.cols
 * and out.row_stride are n all the same. The operands are what preparation made of the caller's
 * (gd_prepare), and the metric is one that others reduce to. Arrays beside the matrices are
 * float64, dense and on the launch's device; they are NULL where the metric has no use for them. */
typedef struct gd_cdist {
    gd_launch launch;
    gd_matrix a, b, out;
    bool pairs;
    gd_metric metric;
    const double *weights; /* one a column, >= 0; NULL counts every column once */
    double weight_sum;     /* of the weights, or the caller's number of columns */
    double p;              /* GD_MINKOWSKI: the exponent, none of 1, 2 and infinity */
    /* Rows with GD_PERIODIC: the length of each column, infinity where it is not periodic, or NULL.
     * A difference is then that of the nearest images (cpu/box.h). */
    const double *box;
    double scale; /* GD_JENSENSHANNON: what the sum is multiplied by before the root */
    const double *a_terms, *b_terms; /* what preparation found out about each row */
    /* The matrix of which b holds some rows, the same for every part of a result, or the
     * GD_SAMPLE rows of it that gd_sample_row names. What a kernel derives from all of B (a shift,
     * say) it derives from those rows of this, lest parts differ. */
    gd_matrix whole_b;
    /* GD_MAHALANOBIS: the symmetric d x d matrix, and the operands as given. a and b are the
     * operands as given as well if the matrix is not positive definite; a_terms is NULL then. */
    const double *vi;
    gd_matrix a_given, b_given;
    /* Rows of the table with GD_MANY: a, b and out are the first of `count` matrices, along so many
     * axes of these lengths (GD_MOST_AXES at most), so many bytes apart; without a count, there is
     * one. Terms are those of own_a's and own_b's matrices, one after the other. Operands as given
     * are given_a and given_b bytes apart. sure_root: roots are those of cdist/cuda_narrow. */
    struct {
        ptrdiff_t count;
        int axes;
        const ptrdiff_t *shape, *a, *b, *out;
        const gd_own *own_a, *own_b;
        bool sure_root;
        const ptrdiff_t *given_a, *given_b;
    } many;
} gd_cdist;
typedef gd_status gd_cdist_kernel(gd_cdist *call, gd_error *err);

/* Rows that all rows are known by, and which row is number i of them: one of every stretch of equal
 * length, in no regular place, as data may come in periods; consecutive ones are far apart. The
 * middle is one of the first GD_SAMPLE_MIDDLE, which are just as far apart. Of fewer rows, and so
 * of a sample itself, it is row i. */
enum { GD_SAMPLE = 128, GD_SAMPLE_MIDDLE = 32 };
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        ptrdiff_t gd_sample_row(ptrdiff_t rows, int i)
{
    const int middle = GD_SAMPLE_MIDDLE;
    const ptrdiff_t length = rows / GD_SAMPLE;
    const uint32_t step = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
    const int stretch = i % middle * (GD_SAMPLE / middle) + i / middle;
    return rows > GD_SAMPLE
               ? stretch * length + (ptrdiff_t)((uint64_t)((uint32_t)i * 2654435761u) * step >> 32)
           : i < rows ? i
                      : rows - 1;
}

/* ---------------------------------------------------------------- preparation of rows */

/* What is done to the rows of an operand, each by itself, before a kernel of cdist sees them. */
typedef enum gd_preparation {
    GD_AS_GIVEN, /* nothing */
    /* Rows x sqrt(w) are divided by their length times sqrt(2), so that half the square of a
     * difference, the cosine distance, is the sum of squares. A row of zeros, or of no columns
     * (which gets one), becomes NaN. */
    GD_UNIT,
    GD_CENTRED_UNIT, /* the same after subtracting the row's (weighted) mean */
    GD_ROOTS,        /* square roots; terms: (1 - the row's sum) / 2 */
    /* Rows are divided by their sum; terms: 0. A row with a negative element or the sum 0 becomes
     * zeros with the term infinity, a row whose sum is NaN becomes NaN. */
    GD_DISTRIBUTION,
    /* Bit k % 32 of word k / 32 says whether element k != 0, which holds for NaN; words are GD_I32,
     * as many as `to` has columns, zeros beyond the last; terms: the number of bits set. */
    GD_BITS,
    /* Rows become (x - shift) @ factor, where shift is the first row of `origin`; terms: the square
     * of a distance below which the difference of two such rows may have lost digits is the sum of
     * both rows' terms. */
    GD_FACTORED,
} gd_preparation;

/* Words of a packed row come in groups of 16 bytes. */
#define GD_BITS_ALIGNMENT 4

/* The terms of GD_FACTORED. y = (x - s) F, and the distance D of two such rows is sqrt(z V z) with
 * z the rows' difference and V = F F^T. Subtraction and sums change a row by about 4 u |g|, where u
 * is 2**-53 and g = |x - s| |F| has the size of everything added up; so they change D by
 * 4 u (|g| + |g'|). From D^2 >= 2**-20 (g^2 + g'^2) on that is 7e-13 of D at most, and from 2**-44
 * on, 3e-9, which does for float32. There a row is rounded as well, by 2**-24 |y|: from
 * D^2 >= 2**-5 (y^2 + y'^2) on that changes D by 5e-7 at most. Squares near the end of the range
 * lost digits too (elements of the rows, in float32), which is what the floors are for.
 * That F F^T is not quite the matrix that was meant needs no term: it changes D^2 by a few
 * u (|z| |F|)^2, no more than rounding changes it when it is computed from z and V. */
#define GD_F64_FACTORED_SUMS 0x1p-20
#define GD_F64_FACTORED_FLOOR 0x1p-900
#define GD_F32_FACTORED_SUMS 0x1p-44
#define GD_F32_FACTORED_ROWS 0x1p-5
#define GD_F32_FACTORED_FLOOR 0x1p-200

/* One operand: x as given becomes `to`, a dense matrix of x's dtype (but for GD_BITS) and as many
 * rows, on the same device. Sums are float64, whatever the dtype. Enqueued on the stream. On a CUDA
 * device x may be the first of many matrices, whose rows `to` holds one after the other. */
typedef struct gd_prepare {
    gd_preparation what;
    void *stream;
    gd_matrix x, to;
    const gd_own *many;    /* NULL: x is all */
    double *terms;         /* one a row; NULL where `what` has none */
    const double *weights; /* GD_UNIT, GD_CENTRED_UNIT: one a column, or NULL */
    const double *factor;  /* GD_FACTORED: d x d, dense, row-major */
    gd_matrix origin;      /* GD_FACTORED: its first row is the shift; of x's dtype, beside x */
    const gd_own *origins; /* those of x's matrices, where it is the first of many */
} gd_prepare;
gd_status gd_cpu_prepare(const gd_prepare *job, gd_error *err);
gd_status gd_cuda_prepare(const gd_prepare *job, gd_error *err);

/* Copies what lies right of the diagonal from rows [first, first + block->rows) of an n x n matrix
 * to their places in `out`, the condensed vector of n * (n - 1) / 2 elements. The block holds its
 * rows from column `first` on. */
gd_status gd_cpu_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n, void *out,
                          void *stream, gd_error *err);
gd_status gd_cuda_condense(const gd_matrix *block, ptrdiff_t first, ptrdiff_t n, void *out,
                           void *stream, gd_error *err);

/* Copies a matrix of float32 or float64 to another layout: `to` has its shape and dtype, and any
 * strides. Enqueued on the stream. */
gd_status gd_cpu_relay(const gd_matrix *x, const gd_matrix *to, gd_error *err);
gd_status gd_cuda_relay(const gd_matrix *x, const gd_matrix *to, void *stream, gd_error *err);

/* ---------------------------------------------------------------- paths and ceilings */

/* apsp: closes a matrix of edge weights over shortest paths, in place.
 * Sizing sets `padded` >= n. dist (and pred, unless NULL) then have padded rows of `padded`
 * elements, 64-byte aligned. On entry dist holds weights, "no edge" as +inf (GD_I32_FAR in
 * int32), 0 or less on the diagonal; rows and columns >= n hold no edge and a 0 diagonal; no NaN,
 * no -inf, no -0.0. pred[i, j] is i for an edge, else GD_NO_PREDECESSOR.
 * A kernel gives what the textbook triple loop gives, k outermost, strict improvement only, so
 * predecessors form trees even along zero-weight edges. A negative diagonal on exit means
 * that the node lies on a negative cycle; other entries are then unspecified. int32 weights are
 * small enough that no path of distinct nodes leaves (-2**29, 2**29).
 * With GD_MIN_MAX a path is as long as its largest weight: the loop takes the larger of two lengths
 * where it adds them otherwise. The diagonal is then -inf (-GD_I32_FAR) and stays so. The semirings
 * that take a maximum are these with weights negated (gd_graph). */
typedef struct gd_apsp {
    gd_launch launch;
    ptrdiff_t n, padded;
    gd_dtype dtype;
    gd_semiring semiring; /* GD_MIN_PLUS or GD_MIN_MAX */
    void *dist;
    int32_t *pred;
    /* What is known of the weights. A kernel may then take a quicker way to the same bits; zeros
     * are always right. */
    bool nonnegative;
    bool symmetric; /* dist is its own transpose */
    double longest; /* if positive, weights are whole and not negative, and no path is longer */
    /* Sizing sets `step` if the kernel can do some of the stages, [begin, end), multiples of it; an
     * end of 0 is n. Others than those are gd_apsp_band's, before and after. */
    ptrdiff_t step, begin, end;
    /* For the passes around kernels on a device: memory there in which they gather what they find
     * (kernels/apsp/found.cuh), right before the workspace; reading starts it, writing goes on. And
     * a page of pinned memory, by which it comes to the host. NULL on the CPU. */
    void *found, *page;
    /* Sizing sets how many bytes of the workspace are to be zero, which reading sees to; */
    size_t zeros;
    /* `looks` if the kernel need not wait until the host knows of the weights, and `nonnegative`
     * says whether all of them may be: it looks into `found` itself whether one is negative, or,
     * if it does not tell, that shows as a negative cycle in the answer (run_apsp.c). `tells` if it
     * leaves in `page` itself which nodes are on negative cycles. */
    bool looks, tells;
    /* On the CPU: not the whole, but stages on a band, which is described there (gd_cpu_apsp_band).
     * Of the members here only launch, dtype and semiring count then. */
    struct gd_apsp_band *band;
} gd_apsp;
/* The bytes of `found` for n nodes. */
#define GD_FOUND_BYTES(n) ((64 + (size_t)(n) + 255) / 256 * 256)
typedef gd_status gd_apsp_kernel(gd_apsp *call, gd_error *err);

/* A part of apsp's triple loop: stages [pivot, pivot + pivots) on a band of the matrix's rows,
 * [first, first + rows), while others are on their way to the device or home. dist and pred hold
 * the band alone, in rows of `padded` elements, as gd_apsp says; columns and rows from n on are
 * filled in here. A band that holds one of the stages' rows holds them all: it goes first, and
 * leaves in `snapshots` each of these rows as it is at its own stage. The other bands read them.
 * Rows that are spared have been through these stages already, and are left alone; if the pivots'
 * rows are, the snapshots are there.
 * Sizing sets `padded`, `step`, of which first, rows, pivot and pivots are multiples, the bytes of
 * snapshots for so many pivots, and the workspace for so many rows. */
typedef struct gd_apsp_band {
    gd_launch launch;
    ptrdiff_t n, padded, step;
    gd_dtype dtype;
    gd_semiring semiring; /* GD_MIN_PLUS or GD_MIN_MAX */
    bool nonnegative;     /* as in gd_apsp */
    void *dist;
    int32_t *pred;
    ptrdiff_t first, rows, pivot, pivots;
    ptrdiff_t spared, spared_rows; /* multiples of step, within the band */
    bool filled;                   /* columns and rows from n on are filled in already */
    void *snapshots;
    size_t snapshot_bytes;
    double done, share; /* of the whole call's work: before this part, and in it */
} gd_apsp_band;
typedef gd_status gd_apsp_band_kernel(gd_apsp_band *call, gd_error *err);
gd_apsp_band_kernel gd_cpu_apsp_band, gd_cuda_apsp_band, gd_cuda_bottleneck_band;

/* Which entries of a weight matrix are no edge. +inf, -inf and NaN never are one. */
typedef enum gd_no_edge {
    GD_NO_EDGE_ZERO,     /* nor is 0 (SciPy's dense graphs) */
    GD_NO_EDGE_INFINITE, /* nothing else: zeros are edges (SciPy's explicit zeros) */
    GD_NO_EDGE_SENTINEL, /* nor is the value `sentinel`; zeros are edges */
} gd_no_edge;

typedef struct gd_graph {
    gd_matrix weights; /* n x n, of any gd_dtype, any strides */
    gd_no_edge no_edge;
    double sentinel;
    bool directed;   /* false: the weight of {i, j} is the better of [i, j] and [j, i] */
    bool unweighted; /* true: every edge weighs 1 */
    bool flip;       /* the larger is the better: kernels see weights negated */
} gd_graph;

/* apsp_batch: apsp of many graphs, from weights as given to lengths as they are wanted. Each has
 * the bits that apsp gives it. On the host a graph's matrices begin at element `at` of weights, out
 * and pred alike, in rows of call->pitch elements, or of n if that is 0; in rows of `pitch` what
 * lies beyond n is filled as if it could not be reached. With `tails`, edges take the place of
 * weights: number e goes from tails[e] to heads[e] and weighs element e of weights, or 1 where
 * these have no data. */
typedef struct gd_batch_graph {
    ptrdiff_t index, n, at;
    ptrdiff_t first_edge, last_edge; /* the one after it */
} gd_batch_graph;

/* What there is to know of one. A graph that is to be looked at alone has no results: a weight was
 * not what the dtype takes, or the kernel is not for such graphs. */
typedef struct gd_batch_facts {
    double max_abs; /* as in gd_graph_facts */
    bool negative, fractional, on_cycle, alone;
} gd_batch_facts;

/* Graphs of more nodes are better done one by one: on the CPU, and on a device. */
#define GD_LANES_MOST 128
#define GD_TILES_MOST 1024

/* Graphs come in ascending order of n; facts[index] is each one's. Sizing sets `members`, for whom
 * the workspace is made. The semiring is GD_MIN_PLUS or GD_MIN_MAX; graph.flip says which of the
 * caller's it is. */
typedef struct gd_apsp_batch {
    gd_launch launch;
    const gd_batch_graph *graphs;
    ptrdiff_t count, pitch;
    gd_graph graph; /* weights: where they begin, and their dtype */
    const int32_t *tails, *heads;
    gd_dtype dtype;
    gd_semiring semiring;
    void *out;
    int32_t *pred;
    double unreachable;
    int members;
    gd_batch_facts *facts;
    /* On a CUDA device graphs, tails, heads and facts are NULL: `count` matrices of pitch x pitch
     * lie one after the other, dense and in device memory like all that this points to. `sizes`
     * says how many nodes each has, NULL that it is `pitch`. A byte of `doubts` that is not zero
     * says that a graph is to be looked at alone, and so has no results; then the first word of
     * `page`, which is pinned memory, is not zero either. Sizing sets the workspace; the semiring
     * is GD_MIN_PLUS. */
    const int32_t *sizes;
    uint8_t *doubts;
    unsigned *page;
} gd_apsp_batch;
typedef gd_status gd_apsp_batch_kernel(gd_apsp_batch *call, gd_error *err);

/* minplus: out[i, j] = the best of c[i, j] and, over all k, of a[i, k] and b[k, j] put together, as
 * the semiring says: the minimum of c[i, j] and of all a[i, k] + b[k, j], say.
 * a is m x depth, b is depth x n, c and out are m x n; all of one dtype (GD_BOOL with GD_OR_AND,
 * numbers with the others) and on the launch's device; m, n >= 1, depth >= 0. out has col_stride 1;
 * c.data is NULL where there is no c, and may be out.data with out's strides.
 * A semiring has a neutral element, which never wins and wins through nothing: +inf where a minimum
 * is taken, -inf where a maximum is; in int32 the largest and the least number; false. NaN counts
 * as that element, in a, b and c, and so does +inf - inf. A zero of the result is +0.0.
 * In int32, sums take numbers below GD_I32_ADDEND_LIMIT in magnitude, or the neutral element: the
 * kernel sets *out_of_range, on the launch's device, to whether a or b holds another; out is then
 * unspecified. It is NULL where nothing is added or the dtype is another.
 * A product that is `alone` is computed on the CPU by one thread: the others have their own. */
typedef struct gd_minplus {
    gd_launch launch;
    gd_matrix a, b, c, out;
    gd_semiring semiring;
    bool alone;
    int32_t *out_of_range;
} gd_minplus;
typedef gd_status gd_minplus_kernel(gd_minplus *call, gd_error *err);

/* A candidate for a row's neighbours: how far it is, or minus that where larger is nearer, and its
 * row of B. The nearer of two has the smaller key, or the smaller index where keys are equal. */
typedef struct gd_candidate {
    double key;
    int64_t index;
} gd_candidate;

/* The candidates of one row of A, in ascending order of their indices until the list was cut to its
 * nearest `most`. An element belongs to the list if its key is at most `limit`, or below it after
 * the list was cut: then `limit` is the key of its last. NaN never belongs to it. */
typedef struct gd_candidates {
    gd_candidate *list;
    ptrdiff_t count, room;
    ptrdiff_t most; /* neighbours that are wanted; PTRDIFF_MAX for all */
    double limit;
    bool cut, owned; /* owned: `list` is from malloc and grows */
} gd_candidates;

/* On a CUDA device: the nearest of each row so far, in the form of the result: the nearest first,
 * NaN and -1 behind the last. A row's neighbours are `most` elements, one row after the other; or
 * with `starts` those from starts[i] to before starts[i + 1], which are no more. */
typedef struct gd_ranked {
    void *distances; /* of the panel's dtype */
    int64_t *indices;
    ptrdiff_t most; /* 0: nobody wants them */
    const int64_t *starts;
} gd_ranked;

/* On a CUDA device: all elements of a panel that are within their row's limit, in the panel's
 * order. Each row is cut into `segments`, which sizing sets, of which several warps take one each.
 * How many there are in a segment goes to tallies[row * segments + segment]; or, where that is
 * NULL, they themselves go to elements from starts[row * segments + segment] on. */
typedef struct gd_listed {
    ptrdiff_t segments;
    int32_t *tallies;
    const int64_t *starts;
    void *distances; /* of the panel's dtype */
    int64_t *indices;
} gd_listed;

/* On a CUDA device, of rows of the table with GD_POINTS: all neighbours of each row that are within
 * its limit, or the nearest of these, for whose lists `ranked` has room. A launch without `indices`
 * counts them, and tells where each row's are to begin, after `base` before the first; the next one
 * writes them, those of row i to elements from starts[i] - starts[0] on. Products list less than
 * GD_PRODUCT_NEIGHBORS of a row, and a row that has many has more; so they count, and an element
 * behind the counts says whether a row has many. */
typedef struct gd_within {
    int64_t *starts; /* of rows + 2: of each row, the end, and whether a row has many; or NULL */
    int64_t base;
    bool by_distance; /* the nearest first, else in the order of B */
    bool any_long;    /* what starts[rows + 1] was, for the launch that writes */
    void *distances;  /* of the points' dtype */
    int64_t *indices;
} gd_within;

/* neighbors: looks through a panel of distances, whose columns are rows `first` and following of B,
 * and adds what belongs to each of its rows' lists, or counts it. The panel has col_stride 1.
 * Rows of the table with GD_POINTS have no panel: they compute the distances that they need, with
 * the bits of cdist, among all of B. Their first launch arranges B in the workspace, which later
 * ones search for rows of A, with lists or counts beside these, at most as many as when sizing.
 * On a CUDA device everything is there; lists are `ranked` or `listed`, and what belongs to them is
 * not further away than `limits` says. */
typedef struct gd_neighbors {
    gd_launch launch;
    gd_matrix panel;
    ptrdiff_t first;
    /* GD_POINTS: of one dtype; on the CPU with col_stride 1. With GD_PACKED they are words, b.cols
     * says how many truths a row has, and panel.dtype what distances are. */
    gd_matrix a, b;
    gd_metric metric; /* GD_POINTS, and p, minkowski's exponent */
    double p;
    const double *box; /* GD_POINTS: as in gd_cdist, but on the host */
    /* GD_POINTS: where B is arranged, and how large that is, which sizing tells; 0, as it was, of
     * rows of the table that arrange it in the workspace. */
    void *arrangement;
    size_t arrangement_bytes;
    ptrdiff_t self;       /* GD_POINTS and CUDA: the row of B that is the first of A's, none its */
    bool arranged;        /* own neighbour, or -1; whether B is arranged; how many pairs a search */
    double pairs;         /* has looked at, which it sets, and how many were in products (these */
    double swept;         /* pass by the watcher by themselves) */
    bool larger;          /* the larger a distance, the nearer: a similarity */
    gd_candidates *lists; /* one a row, or NULL: to count */
    const double *bounds; /* ascending keys: an element counts where it is at most bounds[i] */
    ptrdiff_t bound_count; /* and above bounds[i - 1] */
    int64_t *counts;       /* rows x bound_count, added to (CUDA: of all rows); or NULL: */
    double *sums;          /* the same of weights */
    const double *weights; /* one a row of B */
    /* CUDA. No key of a row is larger than its limit; NULL: none has one. Where `last` is not NULL,
     * of those at just the limit it is the ones with indices up to that. */
    const double *limits;
    const int64_t *last;
    bool one_limit; /* GD_POINTS: all rows have the first */
    gd_ranked ranked;
    gd_listed listed;
    gd_within within;
    double done, share; /* GD_POINTS: of the call before this launch, and its own part of it */
    bool may_leave;     /* CUDA, GD_POINTS: rows that seem to have many need not be searched for */
} gd_neighbors;
typedef gd_status gd_neighbors_kernel(gd_neighbors *call, gd_error *err);

/* Matrices of one shape: the first, and how many bytes apart they are along each of the batch's
 * axes, 0 where one stands for all. */
typedef struct gd_stack {
    gd_matrix first;
    const ptrdiff_t *strides;
} gd_stack;

/* gradient: for each matrix of a batch, along axes of these lengths,
 *     out[i, :] = sum over j of asked[i, j] * (how distances[i, j] changes with a[i, :]),
 * which is times the sign of the difference for cityblock, and of its largest elements for
 * chebyshev; the difference over the distance for euclidean, the power p - 1 of that with its sign
 * for minkowski, and twice the difference for sqeuclidean, 0 where it is 0; and b[j, :] for
 * inner_product. With out_b, also
 *     out_b[j, :] = sum over i of asked[i, j] * (how distances[i, j] changes with b[j, :]),
 * as a call with a and b exchanged gives it. All are of one dtype; a, b and what is written have
 * col_stride 1, asked and distances are strided anyhow. With `pairs`, a and b are the same, and
 * asked and distances are rows of n * (n - 1) / 2, one for each j > i. What is written is written
 * as a whole. The order of sums depends on the number of rows that are added up, and on d alone. */
typedef struct gd_gradient {
    gd_launch launch;
    gd_metric metric;
    double p; /* above 0, for minkowski */
    gd_stack asked, a, b, distances, out;
    gd_stack out_b; /* without data: not asked for */
    bool pairs;
    int axes;
    const ptrdiff_t *shape;
    ptrdiff_t count; /* of matrices */
} gd_gradient;
typedef gd_status gd_gradient_kernel(gd_gradient *call, gd_error *err);

/* closure: which nodes can be reached from which, over one edge or more, in place.
 * Sizing sets `rows` >= n, a multiple of 64, and `words` of a row, 32 for 32 columns each. Bit j %
 * 32 of word j / 32 of row i says on entry whether there is an edge from i to j, on exit whether
 * there is a path; rows and columns from n on are zeros. Rows start on 64-byte boundaries. */
typedef struct gd_closure {
    gd_launch launch;
    ptrdiff_t n, rows, words;
    uint32_t *bits;
} gd_closure;
typedef gd_status gd_closure_kernel(gd_closure *call, gd_error *err);
/* Whether the CPU finds components by their edges, which takes one thread half the time at the
 * bound (n = 4000 and 8000), rather than close the matrix. */
static inline bool gd_closure_has_few_edges(ptrdiff_t n, ptrdiff_t edges)
{
    return edges <= n * n / 16;
}

/* hops: the least numbers of edges between all nodes, into `out`, which may have held the graph.
 * Bits are as for closure, of n rows of `words` words, `edges` of them set, and only read.
 * `unreachable` stands where there is no path, or none of most_hops edges or fewer. A kernel that
 * would take more than most_steps steps over edges sets gave_up, and out is unspecified. Sizing
 * sets `members`, for whom the workspace is made.
 * On a device `words` is a multiple of GD_HOPS_WORDS, bits of no nodes are zero, n is GD_HOPS_MOST
 * at most, and a step is one over GD_HOPS_WORDS words of a set. */
enum { GD_HOPS_WORDS = 128, GD_HOPS_MOST = 32 * 32 * GD_HOPS_WORDS };
typedef struct gd_hops {
    gd_launch launch;
    ptrdiff_t n, words, edges;
    const uint32_t *bits;
    gd_matrix out;
    double unreachable;
    ptrdiff_t most_hops;
    double most_steps;
    int members;
    bool gave_up;
} gd_hops;
typedef gd_status gd_hops_kernel(gd_hops *call, gd_error *err);

/* ---------------------------------------------------------------- the Perron root */

/* Vectors of which the latest are kept, for a better one to be made of them. */
#define GD_PERRON_KEPT 12
/* No component of a vector is smaller than this, where the largest is about 1: products with it do
 * not vanish. Bounds hold for any positive vector, so lifting a component spoils none. */
#define GD_PERRON_LEAST 0x1p-600

/* Why rounds ended before the last one that was asked for. */
typedef enum gd_perron_stop {
    GD_PERRON_GOING,
    GD_PERRON_CONVERGED,
    GD_PERRON_DOUBTED, /* the scan is not sure that all elements are positive and finite */
    GD_PERRON_RESCALE, /* the vector has left the middle of float64's range */
} gd_perron_stop;

/* Where an iteration stands; `round` counts the products A x that were done, and is the number of
 * the vector that the next one takes. */
typedef struct gd_perron_state {
    double lower, upper; /* the root lies between them: the best of all rounds */
    double average;      /* sum x (A x) / sum x x of the last round: one of its ratios' averages */
    double top;          /* the vector's largest component */
    double scale;        /* a power of 2 by which the next product is multiplied */
    double widths[GD_PERRON_KEPT]; /* of the latest rounds' intervals, relative; by round % KEPT */
    int64_t round;
    int32_t stop;   /* a gd_perron_stop */
    int32_t doubts; /* not 0 if the scan is not sure that all elements are positive and finite */
} gd_perron_state;

/* perron: rounds of x <- A x + shift x. Each round finds the ratios (A x)_i / x_i, whose least and
 * largest bound the root of A, whatever the shift (Collatz and Wielandt).
 * a is n x n, GD_F32 or GD_F64, n >= 1, on the launch's device, and only read. Vectors are float64,
 * GD_PERRON_KEPT of `padded` elements each, n rounded up to 64, 256-byte aligned; number k is at
 * k % GD_PERRON_KEPT. On entry the one of state->round is there, positive, with zeros from n on. A
 * call does rounds until state->round is `until`, or state->stop says why not; it may be called
 * again then, with the same workspace. The first call has `scan` set: its first round looks at
 * every element too, and goes on alone if all are positive. The state is on the launch's device;
 * work is enqueued. Sizing sets `roundings`: no term of a product A x goes through more. */
typedef struct gd_perron {
    gd_launch launch;
    gd_matrix a;
    double *vectors;
    ptrdiff_t padded;
    gd_perron_state *state;
    double tol, shift;
    int64_t from, until; /* state->round on entry, and at the latest on exit */
    bool scan;
    ptrdiff_t roundings;
} gd_perron;
typedef gd_status gd_perron_kernel(gd_perron *call, gd_error *err);

/* perron_part: one part of the loop of the perron study by itself, on what that loop keeps between
 * its parts (kernels/ladders/perron/study.cuh): n >= 1 row sums of a matrix, the largest of them,
 * an eigenvector in the making, and a mark, 1 where neighbouring sums differ by more than epsilon,
 * relative to the former, and else 0. All dense, and on the launch's device; a part uses what it
 * needs. `matrix` is n x n, or NULL for parts that take no columns. What a part gathers (sums, the
 * largest, the mark) is made afresh; what it scales (the matrix, the vector) is scaled in place.
 * No workspace, no sizing. */
typedef struct gd_perron_part {
    gd_launch launch;
    ptrdiff_t n;
    gd_dtype dtype; /* GD_F32 or GD_F64, of all but the mark */
    void *matrix, *sums, *vector, *top;
    int32_t *apart;
    double epsilon;
} gd_perron_part;
typedef gd_status gd_perron_part_kernel(gd_perron_part *call, gd_error *err);

/* How `count` consecutive vectors of perron went. A step leads from one to the next, both of them
 * divided by their sums; it is measured relative to the components of the last vector, likewise. */
typedef struct gd_perron_steps {
    double sums[GD_PERRON_KEPT];                             /* of the vectors */
    double products[GD_PERRON_KEPT - 1][GD_PERRON_KEPT - 1]; /* inner ones of steps j >= k */
} gd_perron_steps;

/* What the host has to know after a call. */
typedef struct gd_perron_news {
    gd_perron_state state;
    gd_perron_steps steps;
} gd_perron_news;

/* The steps of the `count` vectors up to the one that the next round takes. On a device, enqueued
 * behind rounds that the host has not heard of: the state comes as well. Unless count is 0, steps
 * do where it says to go on, after all rounds up to call->until, and where it says that they have
 * converged the vector is written as gd_cuda_perron_write does, to *out if that is not NULL. *news
 * is pinned memory, and scratch has room for GD_PERRON_WALK_BYTES. */
#define GD_PERRON_WALK_BYTES ((size_t)80 << 10)
void gd_cpu_perron_walk(const gd_perron *call, int count, gd_perron_steps *steps);
gd_status gd_cuda_perron_walk(const gd_perron *call, int count, void *scratch, const gd_matrix *out,
                              gd_perron_news *news, gd_error *err);

/* The state becomes *state. The sum of the `count` vectors up to the one that the next round takes,
 * times weights[0] .. weights[count - 1], takes that one's place, but no component becomes less
 * than `share` of what it was. Enqueued. */
void gd_cpu_perron_combine(const gd_perron *call, const gd_perron_state *state, int count,
                           const double *weights, double share);
gd_status gd_cuda_perron_combine(const gd_perron *call, const gd_perron_state *state, int count,
                                 const double *weights, double share, gd_error *err);

/* What a matrix's elements look like. Positions are -1 where there is none. */
typedef struct gd_perron_facts {
    ptrdiff_t flaw_at; /* row * n + column of the first element not in [0, inf) */
    double flaw;       /* that element */
    ptrdiff_t empty_row;
} gd_perron_facts;

/* Looks at all elements of n x n floats. Bit j % 64 of pattern[i * ceil(n / 64) + j / 64], on the
 * host, becomes whether element (i, j) is not 0. On a device, scratch has room for
 * GD_PERRON_LOOK_BYTES and the pattern. Waits for the stream. */
enum { GD_PERRON_LOOK_BYTES = 256 };
gd_status gd_cpu_perron_look(const gd_matrix *a, void *stream, void *scratch, uint64_t *pattern,
                             gd_perron_facts *facts, gd_error *err);
gd_status gd_cuda_perron_look(const gd_matrix *a, void *stream, void *scratch, uint64_t *pattern,
                              gd_perron_facts *facts, gd_error *err);

/* The state becomes *first and vector number 0 ones, without a copy that the host would have to
 * wait for. Enqueued. */
gd_status gd_cuda_perron_begin(const gd_perron *call, const gd_perron_state *first, gd_error *err);

/* out[0, i] = x[i] / top, but no less than the least positive number of out's dtype. Enqueued. */
gd_status gd_cpu_perron_write(const double *x, double top, const gd_matrix *out, void *stream,
                              gd_error *err);
gd_status gd_cuda_perron_write(const double *x, double top, const gd_matrix *out, void *stream,
                               gd_error *err);

/* ceiling: does a known amount of work of one kind, so that timing it measures the machine.
 * When sizing, the launcher reports in `work` the bytes moved or the operations done by one call
 * (a fused multiply-add and a min-plus update count as one). `bytes` is the size of the buffer that
 * a ceiling of memory moves; `pinned` is a pinned host buffer of that size where sizing set
 * `wants_pinned`, since it takes long to make, else NULL. */
typedef struct gd_ceiling {
    gd_launch launch;
    size_t bytes;
    bool wants_pinned;
    void *pinned;
    double work;
} gd_ceiling;
typedef gd_status gd_ceiling_kernel(gd_ceiling *call, gd_error *err);

/* ---------------------------------------------------------------- graphs in, path lengths out */

/* What reading a graph found. Flat indices are row * n + column; -1 is none. */
typedef struct gd_graph_facts {
    double max_abs;          /* the largest |weight| of an edge, 0 without edges */
    ptrdiff_t negative_at;   /* the first negative weight */
    ptrdiff_t fractional_at; /* the first weight that is not a whole number */
} gd_graph_facts;

/* What writing the answer found. */
typedef struct gd_paths_facts {
    ptrdiff_t on_negative_cycle; /* nodes with a negative diagonal */
    ptrdiff_t too_long; /* finite lengths that an int32 result cannot hold: |length| >= 2**30 */
} gd_paths_facts;

/* Fills call->dist and call->pred (unless NULL), padding included, from the graph; all on the same
 * device. Any NaN is no edge, -0.0 becomes 0.0, the diagonal becomes min(0, weight as the kernel
 * sees it), or 0 when unweighted; with GD_MIN_MAX the least number. The facts are of the weights as
 * given. On CUDA, rows are read as they come, from row 0 on, in multiples of 32 and to the end of
 * the padding; the facts wait for the stream. */
gd_status gd_cpu_graph_read(const gd_graph *graph, gd_apsp *call, gd_graph_facts *facts,
                            gd_error *err);
gd_status gd_cuda_graph_read(const gd_graph *graph, const gd_apsp *call, ptrdiff_t first,
                             ptrdiff_t rows, gd_error *err);
gd_status gd_cuda_graph_facts(const gd_apsp *call, gd_graph_facts *facts, gd_error *err);

/* Copies the closed n x n part of call->dist to `out` (float32 to float32, float64 to float64 or
 * int32, int32 to int32; out.data may be call->dist itself when call->padded is n), negated if
 * `flip`, writing `unreachable` where there is no path, and call->pred to `pred` unless pred->data
 * is NULL or call->pred. GD_MIN_MAX's diagonal becomes -inf (the least int32), or if `flip` +inf
 * (the largest). negative_nodes (n host bytes) is set to 1 at nodes with a negative diagonal that
 * is a length, else 0; if there are none at all it may be left alone. On CUDA, rows are written as
 * they are closed; the facts, when all are written, wait for the stream. */
gd_status gd_cpu_paths_write(const gd_apsp *call, const gd_matrix *out, const gd_matrix *pred,
                             double unreachable, bool flip, uint8_t *negative_nodes,
                             gd_paths_facts *facts, gd_error *err);
gd_status gd_cuda_paths_write(const gd_apsp *call, const gd_matrix *out, const gd_matrix *pred,
                              double unreachable, bool flip, ptrdiff_t first, ptrdiff_t rows,
                              gd_error *err);
gd_status gd_cuda_paths_facts(const gd_apsp *call, uint8_t *negative_nodes, gd_paths_facts *facts,
                              gd_error *err);

/* Reachability, in these two steps. Reading fills all rows of call->bits from the graph's edges,
 * whose matrix may also be GD_BOOL (an edge where it is true, whatever no_edge says); `reflexive`
 * adds an edge from every node to itself. Writing makes truths of them, n x n of GD_BOOL. Both
 * enqueue. */
gd_status gd_cpu_edges_read(const gd_graph *graph, const gd_closure *call, bool reflexive,
                            gd_error *err);
gd_status gd_cuda_edges_read(const gd_graph *graph, const gd_closure *call, bool reflexive,
                             gd_error *err);
gd_status gd_cpu_reached_write(const gd_closure *call, const gd_matrix *out, gd_error *err);
gd_status gd_cuda_reached_write(const gd_closure *call, const gd_matrix *out, gd_error *err);

/* ---------------------------------------------------------------- the kernel table */

/* X(enumerator, name used in the table and as struct prefix) */
#define GD_OPS(X)                   \
    X(GD_OP_CDIST, cdist)           \
    X(GD_OP_APSP, apsp)             \
    X(GD_OP_APSP_BATCH, apsp_batch) \
    X(GD_OP_HOPS, hops)             \
    X(GD_OP_CLOSURE, closure)       \
    X(GD_OP_MINPLUS, minplus)       \
    X(GD_OP_NEIGHBORS, neighbors)   \
    X(GD_OP_GRADIENT, gradient)     \
    X(GD_OP_PERRON, perron)         \
    X(GD_OP_PERRON_PART, perron_part) X(GD_OP_CEILING, ceiling)

typedef enum gd_op { GD_OPS(GD_ENUMERATOR) } gd_op;

enum {
    GD_DTYPE_COUNT = 0 GD_DTYPES(GD_ONE_MORE),
#define GD_METRIC(e, ...) +1
    GD_METRIC_COUNT = 0
#include "metrics.def"
    ,
#undef GD_METRIC
    GD_OP_COUNT = 0 GD_OPS(GD_ONE_MORE),
    GD_SEMIRING_COUNT = 0 GD_SEMIRINGS(GD_ONE_MORE),
};

#define GD_BIT(x) (UINT64_C(1) << (x))

/* Flags of a row. */
#define GD_TEACHING GD_BIT(0)      /* a ladder's step: runs when named, never by kernel="auto" */
#define GD_WEIGHTED GD_BIT(1)      /* cdist: takes weights */
#define GD_PACKED GD_BIT(2)        /* takes rows of bits (GD_BITS), and nothing else */
#define GD_FP64_PRODUCTS GD_BIT(3) /* auto takes it where tensor cores multiply float64 */
#define GD_FOR_LARGE GD_BIT(4)     /* cdist: several launches, which a small B is not worth */
#define GD_BOTTLENECKS GD_BIT(5)   /* apsp: closes over GD_MIN_MAX, not over GD_MIN_PLUS */
#define GD_ANY_RING GD_BIT(6)      /* apsp: closes over either */
#define GD_PAIRS GD_BIT(7)         /* cdist: can compute the pairs of one operand by itself */
/* The layouts that studies assume; cdist copies operands that come in another. */
#define GD_DENSE_ROWS                                                                           \
    GD_BIT(8)                  /* cdist: row after row without gaps, from a 16-byte boundary on \
                                */
#define GD_DIM_MAJOR GD_BIT(9) /* cdist: row_stride 1, col_stride >= rows */
#define GD_NEEDS_CUBLAS GD_BIT(10) /* runs where gd_cublas_why_not() is NULL */
#define GD_ARRANGES GD_BIT(11)     /* cdist: arranges its operands first, a launch of its own */
#define GD_WHOLE_POWERS GD_BIT(12) /* cdist: of minkowski's, whole_power alone */
#define GD_STANDS_IN GD_BIT(13)    /* cdist: auto takes it in another's place alone (choose.h) */
#define GD_EQUAL_BITS GD_BIT(14)   /* cdist: adds in one order with the others that say so */
#define GD_WIDE_BLOCKS GD_BIT(15)  /* cdist: a block has many columns, which few leave empty */
#define GD_POINTS GD_BIT(16)       /* neighbors: takes points, not panels of their distances */
#define GD_PRODUCT GD_BIT(17)      /* cdist: distances from products, not of the direct form; */
                                   /* neighbors: products bound those of the direct form; */
                                   /* gradient: sums are products */
#define GD_BY_FACTOR GD_BIT(18)    /* cdist: takes mahalanobis of rows times a factor alone */
#define GD_MANY GD_BIT(19)         /* cdist: takes batches */
#define GD_SURE_ROOT GD_BIT(20)    /* cdist: rows with GD_MANY have its bits, with sure_root */
#define GD_BY_WARPS GD_BIT(21)     /* cdist: warps multiply halves (see `products`) */
#define GD_PERIODIC GD_BIT(22)     /* takes periodic columns */
#define GD_FOR_MIDDLING GD_BIT(23) /* cdist: one launch, which a very small B is not worth */
#define GD_TWO_OPERANDS GD_BIT(24) /* gradient: takes no pairs of one operand */

/* What rows of neighbors with GD_POINTS take on a CUDA device: how many points neighbours are
 * among; cuda_boxes how many columns and neighbours of a row, cuda_product and cuda_truths how many
 * of these, and of points the fewest. */
enum { GD_POINTS_MOST = 1 << 30 };
enum { GD_BOXES_COLS = 8, GD_BOXES_NEIGHBORS = 128 };
enum { GD_PRODUCT_NEIGHBORS = 1024, GD_PRODUCT_FEWEST = 1 << 14 };

/* Bytes of shared memory that a block of apsp/cuda_blocked takes for float64 with predecessors. */
enum { GD_PATHS64_SHARED = 74048 };

/* The generations of GPUs, as generations.def has them, and sets of them. */
typedef enum gd_generation {
#define GD_GENERATION(e, ...) e,
#include "generations.def"
#undef GD_GENERATION
    GD_GENERATION_COUNT
} gd_generation;
#define GD_GENERATIONS_FROM(e) ((GD_BIT(GD_GENERATION_COUNT) - 1) & ~(GD_BIT(e) - 1))

/* One row. `needs` is the least gd_isa of a CPU row, the set of GD_BIT(gd_generation) of a CUDA
 * row. `launch` is NULL where this build left the row out. */
typedef struct gd_kernel {
    const char *id;
    gd_op op;
    const char *ladder;
    int step;
    gd_backend backend;
    uint64_t dtypes, metrics;     /* sets of GD_BIT(gd_dtype), GD_BIT(gd_metric) */
    ptrdiff_t min_cols, max_cols; /* dimensions d that it takes */
    ptrdiff_t worth;              /* rows of B that auto takes it for, at least */
    uint64_t needs;
    uint64_t flags;
    const gd_option *options; /* the last is followed by one without a name; NULL without any */
    union {
        gd_cdist_kernel *cdist;
        gd_apsp_kernel *apsp;
        gd_apsp_batch_kernel *apsp_batch;
        gd_hops_kernel *hops;
        gd_closure_kernel *closure;
        gd_minplus_kernel *minplus;
        gd_neighbors_kernel *neighbors;
        gd_gradient_kernel *gradient;
        gd_perron_kernel *perron;
        gd_perron_part_kernel *perron_part;
        gd_ceiling_kernel *ceiling;
        void (*any)(void);
    } launch;
    const char *idea, *source;
} gd_kernel;

#ifdef __cplusplus
}
#endif
#endif
