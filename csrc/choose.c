/* choose.c: kernel="auto". A request goes down the table; the first row that nothing speaks against
 * is taken. What speaks against a row is a list of named facts, each with its words, so that
 * gpudist.explain() can show the same thoughts. */
#include "choose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "card.h"
#include "cublas.h"
#include "device.h"
#include "registry.h"

/* Host arrays have to cross the bus, so small problems stay on the CPU. How many rows A has may not
 * be asked (see gd_request), so both sides are estimated for as many as B has. The figures are of
 * eight cores: inner steps a second (a metric of several sums or with a root in each term takes
 * that many times as long), bytes a second, and what a call over the bus takes however small it is.
 * They are not this machine's, so that its load and its number of threads do not change which
 * kernel runs, and so the last digits. Those of the bus and of the card are of its generation and
 * its number of multiprocessors, at a clock that all generations about reach. */
static const double host_steps = 64e9, slower = 8, bus_call = 150e-6, card_clock = 1.5e9;
/* An inner step takes a lane two instructions. */
enum { CARD_INSTRUCTIONS = 2 };
/* What an element costs on the CPU beside its inner steps: a root, a store into fresh memory. */
enum { STEPS_OF_ELEMENT = 16 };
/* perron reads a matrix so many times, more or less, at the bandwidth of the host's memory. */
enum { PERRON_ROUNDS = 20 };
static const double host_bytes = 60e9;
/* Panels of distances pass a device's memory at so many bytes a second, or rather more. */
static const double panel_bytes = 1e12;
/* Packed truths pass in the time of one number, at least. */
enum { BITS_OF_STEP = 64 };
/* The bounds that follow were measured on an H200. Where they count work that has to fill a device,
 * or to outweigh a launch, they go with the number of multiprocessors. */
enum { MEASURED_MULTIPROCESSORS = 132 };
/* A kernel of several launches pays where B is many bytes, or not quite as many in longer rows, of
 * which a block of the others takes long. How many rows A has matters as well, but may not be
 * asked: with as few as B has, calls at the bounds take up to twice as long as by one launch, the
 * host's 9 us included, with 65536 less than half as long. That is where the bounds are. */
enum { LARGE_BYTES = 640000, LONGER_COLS = 96, LONGER_BYTES = 256 << 10 };
/* From so many bytes of B on it pays to arrange the operands first, where blocks that take so much
 * of a multiprocessor's shared memory together, as it counts them, have room. */
enum { ARRANGED_BYTES = 256 << 10, ARRANGED_SHARED = 4 * (57 << 10) };
/* The same of products in one launch, whose blocks each split what they read. */
enum { MIDDLING_BYTES = 128 << 10 };
/* To arrange points for so few rows of A takes longer than to look at all pairs, whatever the
 * number of points: one takes as long as some hundred pairs. */
enum { FEW_OF_POINTS = 256 };
/* Rows of A that are as few on a device, whose steps take some 0.4 ms for 1,000,000 x 128 points of
 * B, however many rows A has; of few points 0.2 to 0.35, which so many pairs take in panels. */
enum { FEW_OF_PRODUCT = 64, PAIRS_OF_PRODUCT = 1 << 23 };
/* The same of truths, whose first columns take so long for each row that few points are not worth
 * it, however many rows there are, and whose passes are a dozen launches. On an H100, ms, in panels
 * in brackets, k = 10: 8192 rows of 16384 points with 128 columns take 0.91 (0.74) in float32 and
 * 1.28 (1.05) in float64, 1024 of 65536 0.40 (0.52) and 0.42 (0.60), 256 of those 0.53 (0.46) and
 * 0.32 (0.26), 64 of 1,000,000 0.57 (0.62) and 0.64 (0.86). Of many neighbours, k = 1000: 8192 of
 * 65536 8.3 (8.6) and 17 (11), 1024 of 262144 2.4 (2.5) and 3.5 (3.3), 256 of 1,000,000 2.1 (2.8)
 * and 2.5 (3.6). With 16 and 1024 columns the bounds are where they are with 128. */
enum { PAIRS_OF_TRUTHS = 1 << 26 };
enum { PAIRS_OF_MANY_TRUTHS = 1 << 28, POINTS_OF_MANY_TRUTHS = 1 << 17 };
/* Bounds from bytes: on an H100 10,000 x 1,000,000 take 28 ms with 128 columns, and 109 in panels;
 * where bytes tell too little, distances take 108, and relative to panels the longer the more
 * columns there are. A step is a column of a pair, of which 26 more stand for all else that a pair
 * takes in panels. So many steps of a row are worth the 40 ns of its lists, and so many of a call
 * the launches, some 0.25 ms: of 16384 points with 128 columns 1000 rows take 0.36 ms and in panels
 * 0.34, 2000 0.45 and 0.53; 16384 with 16 columns among themselves 1.3 and 1.0; 64 rows of
 * 1,000,000 with 128 columns 0.9 and 1.9. */
enum { BYTES_COLS = 160, BYTES_BESIDE = 26, BYTES_STEPS_OF_ROW = 1 << 21 };
/* Many neighbours of a row were measured where there are so many points for each. */
enum { BYTES_OF_NEIGHBOR = 1000 };
static const double BYTES_STEPS = 0x1p32;
/* More neighbours than these are ranked by whole blocks of threads, for which so many rows are few
 * if a neighbour has so few elements of B. On an H200 1000 rows take for 1000 neighbours among
 * 20,000 points 1.1 ms there and 0.83 in panels with 9 columns, 0.97 and 0.81 with 16, 0.78 and
 * 0.82 with 64; 10,000 rows among 50,000 points 7.2 and 8.0 with 9 columns, 5.7 and 8.1 with 16. */
enum { FEW_OF_BLOCKS = 128, ELEMENTS_OF_BLOCKS = 1 << 10, ROWS_OF_BLOCKS = 1 << 12 };
/* The same of boxes on a device: to arrange points takes a dozen launches and a sort, which so many
 * points, rows of A, and pairs are worth: on an H200 8192 points among themselves take 0.19 ms of
 * boxes and 0.33 of panels with d = 3, 0.37 and 0.32 with d = 8; 128 rows among 1,000,000 0.44 and
 * 0.64. The data need not be asked: where no box is passed over, a pair takes about as long as in a
 * panel. */
enum { FEW_OF_BOXES = 128, PAIRS_OF_BOXES = 1 << 26 };
/* The same of products on the CPU, for which a point is packed alone. */
enum { FEW_OF_BOUNDS = 128 };
/* Where kernels of equal bits take each other's place (gd_stand_in): a tile is mostly empty with so
 * few rows or columns; so few results are too few blocks of cuda_tile, of cuda_direct, and of
 * cuda_short where points have more than so many dimensions and are not whole words. cuda_short's
 * blocks are wide: from a fold of dimensions on it gives way where columns, or rows and columns,
 * are few. With few dimensions cuda_few has no folds to compute side by side. */
enum { THIN = 16, FOLDED_COLS = 48, TOO_FEW = 1 << 18, DIRECT_TOO_FEW = 6 << 20 };
/* A matrix of a batch with fewer rows or columns, or as few dimensions, is small (gd_for_many). */
enum { SMALL_OF_MANY = 48, FEW_OF_COLS = 4 };
enum { SHORT_COLS = 8, SHORT_ROWS = 64, SHORT_TOO_FEW = 3 << 20 };

/* Products on the CPU: norms, a centre and the judgement of B have to be worth their while,
 * whatever the rows of A. On a core of Emerald Rapids 256 x 256 x 48 take 0.19 ms, and 0.25 by
 * differences; of one row of A 21 us and 18. With 32 dimensions sqeuclidean gains nothing. In
 * float32 256 x 256 x 64 take 0.12 ms and 0.13, of one row of A 23 us and 17; what is gained with
 * 48 dimensions goes by what else the core does (cdist_product.c). */
enum { PRODUCT_COLS = 48, PRODUCT_COLS_F32 = 64 };
/* The same of products that bound the distances of neighbours. */
enum { BOUND_COLS = 9 };

__attribute__((format(printf, 3, 4))) static bool say(char *why, size_t size, const char *format,
                                                      ...)
{
    /* Words take longer than all the thoughts about a small call, so they are not always asked for.
     */
    if (size > 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(why, size, format, args);
        va_end(args);
    }
    return true;
}

bool gd_cannot_run(const gd_kernel *kernel, char *why, size_t size)
{
    const bool on_cuda = kernel->backend == GD_CUDA;
    const bool left_out = kernel->launch.any == NULL && !(on_cuda && gd_pretends());
    if (on_cuda && gd_card_why_not() != NULL) {
        return say(why, size, "%s", gd_card_why_not());
    }
    if (left_out) {
        return say(why, size, "this build leaves it out");
    }
    if ((kernel->flags & GD_NEEDS_CUBLAS) && gd_cublas_why_not() != NULL) {
        return say(why, size, "%s", gd_cublas_why_not());
    }
    if (!on_cuda && kernel->needs > (uint64_t)gd_host_isa()) {
        return say(why, size, "this processor has no %s", gd_isa_name((gd_isa)kernel->needs));
    }
    return false;
}

static bool unfit_for_form(const gd_kernel *kernel, const gd_form *form, char *why, size_t size)
{
    const bool takes_bits = kernel->flags & GD_PACKED, has_bits = form->preparation == GD_BITS;
    if (!(kernel->metrics & GD_BIT(form->metric))) {
        return say(why, size, "it does not know the metric %s", gd_metric_name(form->metric));
    }
    if (takes_bits != has_bits) {
        return say(why, size,
                   takes_bits ? "it takes truths without weights alone"
                              : "it does not take packed truths");
    }
    if (form->metric == GD_MINKOWSKI && (kernel->flags & GD_WHOLE_POWERS) && !form->whole_power) {
        return say(why, size, "it takes no exponents but 4, and 3 without weights");
    }
    if (form->metric == GD_MAHALANOBIS && (kernel->flags & GD_BY_FACTOR) &&
        form->preparation != GD_FACTORED) {
        return say(why, size, "it takes mahalanobis with a positive definite VI alone");
    }
    if (form->weighted && !(kernel->flags & GD_WEIGHTED)) {
        return say(why, size, "it takes no weights");
    }
    if (form->periodic && !(kernel->flags & GD_PERIODIC)) {
        return say(why, size, "it takes no periodic columns (box)");
    }
    return false;
}

/* The device that a row of CUDA would run on. */
static int device_of(const gd_request *request)
{
    return request->orders.where == GD_WHERE_CUDA ? request->orders.cuda_index : 0;
}

/* NULL where nothing is known of it, which the rows have refused before. */
static const gd_card *card_of(const gd_request *request)
{
    const gd_card *card;
    gd_error err;
    return gd_card_at(device_of(request), &card, &err) == GD_OK ? card : NULL;
}

/* Why a device can never run the row. */
static bool unfit_for_card(const gd_kernel *kernel, int index, char *why, size_t size)
{
    const gd_card *card;
    gd_error err;
    char needs[64];
    if (gd_card_at(index, &card, &err) != GD_OK) {
        return say(why, size, "%s", err.msg);
    }
    int written_for;
    const gd_code code = gd_code_for(card->targets, card->capability, &written_for);
    const int generation = gd_generation_of(card->capability);
    if (generation < 0 || !(kernel->needs & GD_BIT(generation))) {
        gd_generations_text(kernel->needs, needs, sizeof needs);
        return say(why, size, "it needs compute capability %s, cuda:%d has %d.%d", needs, index,
                   card->capability / 10, card->capability % 10);
    }
    if (code == GD_NO_CODE) {
        return say(why, size,
                   "this build has code for compute capability %s, cuda:%d has %d.%d; build it "
                   "with GPUDIST_CUDA_ARCHS=%d",
                   card->targets, index, card->capability / 10, card->capability % 10,
                   card->capability);
    }
    if (!(kernel->needs & GD_BIT(written_for))) {
        gd_generations_text(kernel->needs, needs, sizeof needs);
        return say(why, size,
                   "it needs compute capability %s, and this build's code for cuda:%d is PTX of "
                   "%s; build it with GPUDIST_CUDA_ARCHS=%d",
                   needs, index, gd_generation_info((gd_generation)written_for)->name,
                   card->capability);
    }
    return false;
}

bool gd_no_card_runs(const gd_kernel *kernel, char *why, size_t size)
{
    if (gd_cannot_run(kernel, why, size)) {
        return true;
    }
    for (int i = 0; kernel->backend == GD_CUDA && i < gd_card_count(); ++i) {
        if (!unfit_for_card(kernel, i, why, size)) {
            return false;
        }
    }
    return kernel->backend == GD_CUDA;
}

/* Whether a row of apsp closes over the other pair of semirings alone. */
static bool closes_over_others(const gd_kernel *kernel, const gd_request *request)
{
    const bool bottleneck = kernel->flags & GD_BOTTLENECKS;
    return request->op == GD_OP_APSP && bottleneck != request->bottleneck &&
           !(kernel->flags & GD_ANY_RING);
}

/* What a row can never do for this request, even when asked for by name. */
static bool unfit(const gd_kernel *kernel, const gd_request *request, char *why, size_t size)
{
    const bool on_cuda = kernel->backend == GD_CUDA;
    if (kernel->op != request->op) {
        return say(why, size, "it computes %s, not %s", gd_op_name(kernel->op),
                   gd_op_name(request->op));
    }
    if (on_cuda && request->orders.where == GD_WHERE_CPU) {
        return say(why, size, "it runs on CUDA, and the work is to be done on the CPU");
    }
    if (!on_cuda && request->orders.where == GD_WHERE_CUDA) {
        return say(why, size, "it runs on the CPU, and the work is to be done on CUDA");
    }
    if (gd_cannot_run(kernel, why, size)) {
        return true;
    }
    if (on_cuda && unfit_for_card(kernel, device_of(request), why, size)) {
        return true;
    }
    if (!(kernel->dtypes & GD_BIT(request->dtype))) {
        return say(why, size, "it does not compute in %s", gd_dtype_name(request->dtype));
    }
    if (request->op == GD_OP_GRADIENT && !(kernel->metrics & GD_BIT(request->form.metric))) {
        return say(why, size, "it knows no gradient of %s", gd_metric_name(request->form.metric));
    }
    if (request->condensed && (kernel->flags & GD_TWO_OPERANDS)) {
        return say(why, size, "it does not take the pairs of one operand");
    }
    const bool points = kernel->flags & GD_POINTS;
    if ((request->op == GD_OP_CDIST || points) &&
        unfit_for_form(kernel, &request->form, why, size)) {
        return true;
    }
    if (points && request->form.periodic && request->form.metric == GD_MINKOWSKI) {
        return say(why, size,
                   "with periodic columns (box) it takes the exponents 1, 2 and infinity");
    }
    if (points && !(kernel->flags & GD_PRODUCT) && request->form.preparation != GD_AS_GIVEN) {
        return say(why, size, "the metric is one of prepared points");
    }
    if (points && request->in_panels) {
        return say(why, size, "it computes distances by itself");
    }
    if (points && on_cuda && request->sums) {
        return say(why, size, "weights are added up in the order of XB");
    }
    const ptrdiff_t most = gd_is_by_boxes(kernel) ? GD_BOXES_NEIGHBORS : GD_PRODUCT_NEIGHBORS;
    if (points && on_cuda && request->neighbors > most) {
        return say(why, size, "it finds up to %td neighbours, not %td", most, request->neighbors);
    }
    const ptrdiff_t fewest = gd_is_by_boxes(kernel) ? 1 : GD_PRODUCT_FEWEST;
    if (points && on_cuda && (request->n < fewest || request->n > GD_POINTS_MOST)) {
        return say(why, size, "it looks among %td to %d points, not %td", fewest, GD_POINTS_MOST,
                   request->n);
    }
    if (closes_over_others(kernel, request)) {
        return say(why, size, "it does not close over %s",
                   request->bottleneck ? "min_max and max_min" : "min_plus and max_plus");
    }
    if (on_cuda && kernel->op == GD_OP_APSP && request->predecessors && request->dtype == GD_F64 &&
        !(kernel->flags & (GD_BOTTLENECKS | GD_TEACHING)) &&
        card_of(request)->shared_block < GD_PATHS64_SHARED) {
        return say(why, size,
                   "predecessors of float64 paths take a block %d KB of shared memory, cuda:%d has "
                   "%zu KB",
                   GD_PATHS64_SHARED >> 10, device_of(request),
                   card_of(request)->shared_block >> 10);
    }
    if (request->cols < kernel->min_cols || request->cols > kernel->max_cols) {
        if (kernel->max_cols == PTRDIFF_MAX) {
            return say(why, size, "it takes at least %td dimensions, not %td", kernel->min_cols,
                       request->cols);
        }
        return say(why, size, "it takes %td to %td dimensions, not %td", kernel->min_cols,
                   kernel->max_cols, request->cols);
    }
    return false;
}

/* How a device compares with the one that the bounds were measured on. */
static double share_of(const gd_card *card)
{
    return card->multiprocessors / (double)MEASURED_MULTIPROCESSORS;
}

/* The work if A has as many rows as B, in seconds on the CPU and on the device: over the bus, or at
 * what it has to compute, whichever takes longer. */
static void estimate(const gd_request *request, const gd_card *card, double *host, double *there)
{
    const gd_generation_row *generation =
        gd_generation_info((gd_generation)gd_generation_of(card->capability));
    const double bus_bytes = 1e9 * generation->bus;
    const bool search = request->op == GD_OP_NEIGHBORS, bits = request->op == GD_OP_CLOSURE;
    const bool cdist = request->op == GD_OP_CDIST || search;
    const bool graph = request->op == GD_OP_APSP || bits;
    const bool slow = cdist && (request->form.weighted ||
                                gd_metric_info(request->form.metric)->cost == GD_COSTLY);
    const double n = (double)request->n, size = (double)gd_dtype_size(request->dtype);
    const double depth = bits ? n / BITS_OF_STEP : graph ? n : (double)request->cols;
    if (request->op == GD_OP_PERRON) {
        *host = PERRON_ROUNDS * n * n * size / host_bytes;
        *there = n * n * size / bus_bytes + bus_call;
        return;
    }
    const double card_steps = card_clock * card->multiprocessors * generation->lanes /
                              CARD_INSTRUCTIONS /
                              (request->dtype == GD_F64 ? card->double_ratio : 1);
    /* A search has few results; its distances pass the device's own memory twice. */
    const double over_bus =
        n * ((search ? 0 : n) + (graph ? n : depth)) * size / bus_bytes + bus_call;
    const double passing = search ? 2 * n * n * size / panel_bytes : 0;
    const double computing = n * n * depth * (slow ? slower : 1) / card_steps + passing;
    *host = n * n * (depth + STEPS_OF_ELEMENT) * (slow ? slower : 1) / host_steps;
    *there = computing > over_bus ? computing : over_bus;
}

/* Whether host arrays, whose place is open, are not worth the way to the device, whatever runs
 * there. */
static bool stays_on_host(const gd_request *request, const gd_card *card, double *host,
                          double *there)
{
    if (request->orders.where != GD_WHERE_AUTO || card == NULL) {
        return false;
    }
    estimate(request, card, host, there);
    return *host < *there;
}

/* Whether it is bytes that bound distances. */
static bool is_by_bytes(const gd_kernel *kernel)
{
    return kernel->backend == GD_CUDA && gd_is_by_products(kernel) && !(kernel->flags & GD_PRODUCT);
}

/* Whether it is truths in common that tell who is near. */
static bool is_by_truths(const gd_kernel *kernel)
{
    return kernel->backend == GD_CUDA && gd_is_by_products(kernel) && kernel->flags & GD_PACKED;
}

/* Whether a row has so many neighbours that blocks of threads rank them. */
static bool wants_many(const gd_request *request) { return request->neighbors > FEW_OF_BLOCKS; }

/* Steps of a row among bytes. */
static double steps_of_row(const gd_request *request)
{
    return (double)request->n * (double)(request->cols + BYTES_BESIDE);
}

/* What keeps auto from a row of CUDA that could do the work. */
static bool unwanted(const gd_kernel *kernel, const gd_request *request, char *why, size_t size)
{
    const gd_card *card = card_of(request);
    const gd_generation_row *generation =
        gd_generation_info((gd_generation)gd_generation_of(card->capability));
    const double share = share_of(card);
    const double bytes =
        (double)request->n * (double)request->cols * (double)gd_dtype_size(request->dtype);
    const bool large = bytes >= share * (request->cols >= LONGER_COLS ? LONGER_BYTES : LARGE_BYTES);
    const bool too_small = (kernel->flags & GD_FOR_LARGE) && !large;
    const bool arranges = kernel->flags & GD_ARRANGES;
    const bool too_few = arranges && bytes < share * ARRANGED_BYTES;
    if (kernel->flags & GD_STANDS_IN) {
        return say(why, size, "it takes cuda_tile's and cuda_direct's place where results are few");
    }
    if ((kernel->flags & GD_FP64_PRODUCTS) && !generation->fp64_tensor) {
        return say(why, size,
                   "the tensor cores of compute capability %d.%d do not multiply float64: "
                   "differences take less time there",
                   card->capability / 10, card->capability % 10);
    }
    const bool by_sums = request->form.weighted || request->form.metric == GD_HELLINGER;
    if ((kernel->flags & GD_BY_WARPS) && !by_sums && request->cols < generation->products) {
        return say(why, size,
                   "with less than %d dimensions compute capability %d.%d has written no result "
                   "before differences are done",
                   generation->products, card->capability / 10, card->capability % 10);
    }
    if (arranges && card->shared_multiprocessor < ARRANGED_SHARED) {
        return say(
            why, size,
            "it takes %d KB of shared memory a multiprocessor for its speed, cuda:%d has %zu",
            ARRANGED_SHARED >> 10, device_of(request), card->shared_multiprocessor >> 10);
    }
    if ((kernel->flags & GD_FOR_MIDDLING) && bytes < share * MIDDLING_BYTES) {
        return say(why, size, "with n = %td, d = %td differences take as little time", request->n,
                   request->cols);
    }
    if (too_small || too_few) {
        return say(why, size, "n = %td, d = %td is not worth its several launches", request->n,
                   request->cols);
    }
    if (is_by_bytes(kernel) && request->cols > BYTES_COLS) {
        return say(why, size,
                   "with more than %d dimensions it takes longer than panels where bytes tell too "
                   "little",
                   BYTES_COLS);
    }
    const bool many_of_few =
        wants_many(request) && request->n < (ptrdiff_t)BYTES_OF_NEIGHBOR * request->neighbors;
    const bool among_few = wants_many(request) && request->n < POINTS_OF_MANY_TRUTHS;
    if ((is_by_bytes(kernel) && (steps_of_row(request) < BYTES_STEPS_OF_ROW || many_of_few)) ||
        (is_by_truths(kernel) && among_few)) {
        return say(why, size, "n = %td, d = %td is not worth lists of what may be near", request->n,
                   request->cols);
    }
    double host, there;
    if (stays_on_host(request, card, &host, &there)) {
        return say(why, size,
                   "host arrays with n = %td are not worth the way to the device: as many rows on "
                   "both sides would take about %.3g ms here and %.3g ms there",
                   request->n, 1e3 * host, 1e3 * there);
    }
    return false;
}

/* What keeps auto from a row of the CPU that could do the work: products where they take as long.
 */
static bool unwanted_product(const gd_kernel *kernel, const gd_request *request, char *why,
                             size_t size)
{
    if (!(kernel->flags & GD_PRODUCT)) {
        return false;
    }
    const bool bounds = kernel->op == GD_OP_NEIGHBORS;
    if (!bounds && !gd_host_shares_pipes()) {
        return say(why, size,
                   "it is for Intel's processors, on others differences may take as little time");
    }
    const ptrdiff_t cols = bounds                     ? BOUND_COLS
                           : request->dtype == GD_F32 ? PRODUCT_COLS_F32
                                                      : PRODUCT_COLS;
    if (request->cols < cols) {
        return say(why, size, "with n = %td, d = %td differences take as little time", request->n,
                   request->cols);
    }
    return false;
}

bool gd_rejects(const gd_kernel *kernel, const gd_request *request, char *why, size_t size)
{
    if (kernel->flags & GD_TEACHING) { /* before cuBLAS is opened to see whether it is there */
        return say(why, size, "it is a ladder's step and runs only by name");
    }
    if (unfit(kernel, request, why, size)) {
        return true;
    }
    if (request->n < kernel->worth) {
        return say(why, size, "it pays for %td rows of XB and more, not for %td", kernel->worth,
                   request->n);
    }
    if (request->direct && (kernel->flags & GD_PRODUCT) && kernel->op == GD_OP_CDIST) {
        return say(why, size, "neighbours are ordered by distances of the direct form");
    }
    return kernel->backend == GD_CUDA ? unwanted(kernel, request, why, size)
                                      : unwanted_product(kernel, request, why, size);
}

static gd_status take(const gd_kernel *kernel, const gd_request *request, const char *because,
                      gd_choice *choice, gd_error *err)
{
    const bool on_cuda = kernel->backend == GD_CUDA;
    choice->kernel = kernel;
    choice->device = (gd_device){kernel->backend, on_cuda && request->orders.where == GD_WHERE_CUDA
                                                      ? request->orders.cuda_index
                                                      : 0};
    choice->because = because;
    return gd_apply_settings(kernel, &request->orders.settings, &choice->options, err);
}

static gd_status choose_by_name(const gd_request *request, gd_choice *choice, gd_error *err)
{
    char why[256];
    const gd_kernel *kernel = gd_kernel_find(request->orders.kernel);
    if (kernel == NULL) {
        return GD_FAIL(err, GD_BAD_VALUE, "unknown kernel '%.100s'", request->orders.kernel);
    }
    if (unfit(kernel, request, why, sizeof why)) {
        const bool device_fault =
            kernel->op == request->op && gd_cannot_run(kernel, why, sizeof why);
        return GD_FAIL(err, device_fault ? GD_DEVICE_ERROR : GD_BAD_VALUE,
                       "kernel '%s' cannot do this: %s", kernel->id, why);
    }
    return take(kernel, request, "asked for by name", choice, err);
}

bool gd_same_device(const gd_matrix *x, const gd_matrix *y)
{
    return x->device.backend == y->device.backend && x->device.index == y->device.index;
}

void *gd_stream_near(gd_device device, gd_device chosen, const gd_orders *orders)
{
    const bool brought = device.backend == GD_CPU && chosen.backend == GD_CUDA;
    return brought ? GD_THREAD_STREAM : orders->stream;
}

gd_orders gd_orders_near(gd_device device, const gd_orders *orders)
{
    gd_orders near = *orders;
    if (device.backend == GD_CUDA) {
        near.where = GD_WHERE_CUDA;
        near.cuda_index = device.index;
    }
    return near;
}

/* Whether a row is one of equal bits (GD_EQUAL_BITS): all of them form differences and add them up
 * in one order, in folds and groups alike, and have the same root for so many dimensions; so the
 * bits of a result do not tell which of them it is from. Cityblock of one that arranges its
 * operands is none of them: there two dimensions are added to each other before they join the sum.
 */
static bool has_equal_bits(const gd_kernel *kernel, const gd_request *request)
{
    return (kernel->flags & GD_EQUAL_BITS) &&
           !((kernel->flags & GD_ARRANGES) && request->form.metric == GD_CITYBLOCK);
}

/* The row of equal bits that does what `way` says: GD_STANDS_IN, or, with 0, none of the ways that
 * others have. */
static const gd_kernel *equal_row(const gd_request *request, uint64_t way)
{
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    for (size_t i = 0; i < count; ++i) {
        if (has_equal_bits(&table[i], request) && table[i].backend == GD_CUDA &&
            (table[i].flags & (GD_STANDS_IN | GD_ARRANGES | GD_WIDE_BLOCKS)) == way &&
            !unfit(&table[i], request, NULL, 0)) {
            return &table[i];
        }
    }
    return NULL;
}

/* The row that is better than `kernel` at so many rows of A, or NULL. */
static const gd_kernel *better_for(const gd_kernel *kernel, const gd_request *request,
                                   ptrdiff_t rows)
{
    if (kernel->backend == GD_CPU || !has_equal_bits(kernel, request)) {
        return NULL;
    }
    const double results = (double)rows * (double)request->n, share = share_of(card_of(request));
    const bool thin = rows <= THIN || request->n <= THIN, words = request->cols % 4 == 0;
    if (kernel->flags & GD_WIDE_BLOCKS) {
        const bool wide = rows > SHORT_ROWS && request->n > THIN;
        const bool few =
            wide && results <= share * SHORT_TOO_FEW && request->cols > SHORT_COLS && !words;
        const bool tiny = results <= SHORT_ROWS * SHORT_ROWS;
        const bool tall = wide && request->n <= SHORT_ROWS;
        return few || ((tiny || tall) && request->cols >= GD_FOLD) ? equal_row(request, 0) : NULL;
    }
    if (request->cols >= FOLDED_COLS && ((thin && words) || results <= share * TOO_FEW)) {
        return equal_row(request, GD_STANDS_IN);
    }
    const bool arranged = kernel->flags & GD_ARRANGES;
    return arranged && (results <= share * DIRECT_TOO_FEW || thin) ? equal_row(request, 0) : NULL;
}

const gd_kernel *gd_for_many(const gd_request *request, ptrdiff_t rows, const gd_choice *choice,
                             bool *sure_root)
{
    const gd_kernel *const chosen = choice->kernel;
    const bool asked = request->orders.kernel != NULL;
    /* Matrices are small if several make a block of the row that takes no other's place. */
    const bool small =
        rows < SMALL_OF_MANY || request->n < SMALL_OF_MANY || request->cols <= FEW_OF_COLS;
    const uint64_t way = GD_MANY | GD_EQUAL_BITS | (small ? GD_STANDS_IN : 0);
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    *sure_root = chosen->flags & GD_SURE_ROOT;
    if (chosen->backend == GD_CPU) {
        return NULL;
    }
    const bool equal = has_equal_bits(chosen, request) || *sure_root;
    if (asked || !equal) {
        return chosen->flags & GD_MANY ? chosen : NULL;
    }
    for (size_t i = 0; i < count; ++i) {
        if ((table[i].flags & (GD_MANY | GD_EQUAL_BITS | GD_STANDS_IN)) == way &&
            !unfit(&table[i], request, NULL, 0)) {
            return &table[i];
        }
    }
    return NULL;
}

/* The row of neighbors that looks through panels where `points` does not. */
static const gd_kernel *row_of_panels(const gd_request *request, const gd_kernel *points)
{
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    for (size_t i = 0; i < count; ++i) {
        if (!(table[i].flags & GD_POINTS) && table[i].backend == points->backend &&
            !unfit(&table[i], request, NULL, 0)) {
            return &table[i];
        }
    }
    return NULL;
}

/* Rows of A that are not worth products on a device. */
static int few_of_product(const gd_request *request, const gd_kernel *kernel)
{
    const double elements = (double)request->n * (double)request->cols;
    const bool many = wants_many(request), truths = is_by_truths(kernel);
    const bool blocks =
        many && !truths && elements < (double)ELEMENTS_OF_BLOCKS * (double)request->neighbors;
    const double pairs = !truths ? PAIRS_OF_PRODUCT : many ? PAIRS_OF_MANY_TRUTHS : PAIRS_OF_TRUTHS;
    const double worth =
        is_by_bytes(kernel) ? BYTES_STEPS / steps_of_row(request) : pairs / (double)request->n;
    const double few = fmax(FEW_OF_PRODUCT, worth);
    return (int)(blocks ? fmax(ROWS_OF_BLOCKS, few) : few);
}

void gd_stand_in(const gd_request *request, ptrdiff_t rows, gd_choice *choice)
{
    const bool asked = request->orders.kernel != NULL || request->op != GD_OP_CDIST;
    const bool there = choice->kernel->backend == GD_CUDA;
    const int few = there && gd_is_by_boxes(choice->kernel)
                        ? (int)fmax(FEW_OF_BOXES, PAIRS_OF_BOXES / (double)request->n)
                    : there                              ? few_of_product(request, choice->kernel)
                    : choice->kernel->flags & GD_PRODUCT ? FEW_OF_BOUNDS
                                                         : FEW_OF_POINTS;
    if (request->orders.kernel == NULL && (choice->kernel->flags & GD_POINTS) && rows < few) {
        choice->kernel = row_of_panels(request, choice->kernel);
        choice->because = "so few rows are not worth arranging XB for them";
        return;
    }
    const gd_kernel *better = asked ? NULL : better_for(choice->kernel, request, rows);
    if (better != NULL) {
        choice->kernel = better;
        choice->because = "with so few rows of A it takes the place of one with equal bits";
    }
}

gd_status gd_choose(const gd_request *request, gd_choice *choice, gd_error *err)
{
    size_t count;
    const gd_kernel *table = gd_kernels(&count);
    if (request->orders.where == GD_WHERE_CUDA) {
        if (gd_card_why_not() != NULL) {
            return GD_FAIL(err, GD_DEVICE_ERROR, "CUDA cannot be used: %s", gd_card_why_not());
        }
        if (request->orders.cuda_index < 0 || request->orders.cuda_index >= gd_card_count()) {
            return GD_FAIL(err, GD_DEVICE_ERROR,
                           "there is no cuda:%d; this machine has cuda:0%s%.0d",
                           request->orders.cuda_index, gd_card_count() > 1 ? " to cuda:" : "",
                           gd_card_count() - 1);
        }
    }
    if (request->orders.kernel != NULL) {
        return choose_by_name(request, choice, err);
    }
    /* Small calls feel how long it takes to hear the same no from every row of the GPU's. */
    double host, there;
    const bool cpu_alone = request->orders.where == GD_WHERE_CPU || gd_card_why_not() != NULL ||
                           stays_on_host(request, card_of(request), &host, &there);
    for (size_t i = 0; i < count; ++i) {
        if (table[i].op == request->op && !(cpu_alone && table[i].backend == GD_CUDA) &&
            !gd_rejects(&table[i], request, NULL, 0)) {
            return take(&table[i], request, "first in the table that fits", choice, err);
        }
    }
    char why[256] = "no kernel computes this";
    bool production = false;             /* whether the reason is one of theirs */
    for (size_t i = 0; i < count; ++i) { /* the reason of a row that is for such work */
        const bool elsewhere = request->orders.where == GD_WHERE_CUDA ? table[i].backend == GD_CPU
                                                                      : table[i].backend == GD_CUDA;
        const bool teaching = table[i].flags & GD_TEACHING;
        if (table[i].op == request->op && !elsewhere && !(teaching && production) &&
            !closes_over_others(&table[i], request)) {
            (void)gd_rejects(&table[i], request, why, sizeof why);
            production = !teaching;
        }
    }
    return GD_FAIL(
        err, GD_BAD_VALUE, "no kernel for %s in %s with d = %td: %s",
        request->op == GD_OP_CDIST ? gd_metric_name(request->form.metric) : gd_op_name(request->op),
        gd_dtype_name(request->dtype), request->cols, why);
}
