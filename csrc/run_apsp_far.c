/* run_apsp_far.c: all-pairs shortest paths of a matrix that the device's memory does not hold.
 *
 * The scheme. Stage k of the triple loop is, for every row i,
 *
 *     row i <- min(row i, d[i,k] + row k)
 *
 * so row i needs of other rows only row k, as it was at stage k (where it holds still, as d[k,k] is
 * 0). The stages are cut into blocks of consecutive pivots. In a block's turn its own rows go
 * through its stages first and leave behind a snapshot of each row k at stage k. Then the others
 * pass over the device in bands, each once: a band goes through all stages of the block by itself.
 * That is the triple loop with i taken before k inside a block. Every sum is one that the loop
 * forms, each element takes them in the order of k, and so lengths and predecessors have the loop's
 * bits, and those of the kernels in core, whatever blocks and bands are.
 *
 * Memory. A turn takes the block's rows, their snapshots, and places for bands: one arrives, one is
 * computed, one leaves. Once the block has gone home, its own place holds these. So a block of b
 * rows takes about 2 b n elements, and the fewest blocks that fit are the best.
 *
 * Traffic. A turn must read and write all rows but the block's, which are there already: the last
 * bands of a turn are the next block's, and stay. With T blocks, b rows in the first, each way
 *
 *     ((T - 1) n + b) n elements
 *
 * cross the bus, which `each_way` states and `sent` and `brought` count. That is one matrix less
 * than T, and T = 1 is the matrix itself. With room for M elements, T is about 2 n^2 / M, and some
 * 4 n^2 / M matrices cross in all. Square tiles in place of bands, with room for five, would make
 * that 7 n / sqrt(M), which is less from n^2 > 3 M on. But bands are rows as they lie on the host,
 * and their way is hidden as it is, behind another band's arithmetic, if a block has more than some
 * 2500 pivots in float32 (16e12 updates/s; 8 bytes an element at 50 GB/s). So many rows of six
 * million nodes fit an H200.
 *
 * Reached on an H200 with 16 cores, float32, NumPy to NumPy in ms, and in core: n = 16384 in 4
 * blocks 455, in 8 blocks of 2048 pivots 626 (326); n = 32768 in 3 blocks 2704 (2373).
 *
 * Launch: this thread enqueues the arithmetic and waits for each band; another one, the carrier,
 * moves bands meanwhile. The CPU's form moves rows about in memory, and is there for tests. */
#include "run_apsp_far.h"

#include <pthread.h>

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"
#include "watch.h"

enum { BANDS = 4 }; /* of a block, at least, where it has so many steps */
/* Nor is a band larger than this: what a stopped call waits for takes 50 ms. */
static const size_t MOST_BAND = (size_t)1 << 30;

/* Rows of the matrix, and in which place of the device they are. */
typedef struct gd_band {
    ptrdiff_t first, rows, place, block;
} gd_band;

/* What the carrier does in one go: home first, which makes room. */
typedef struct gd_copy_request {
    ptrdiff_t block, but; /* of this block all bands but one go home; -1: none */
    gd_band home, fetch;  /* without rows: none */
} gd_copy_request;

typedef struct gd_carrier {
    gd_far *far;
    char *places; /* on the device */
    int32_t *pred_places;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool busy, leaving;
    _Atomic bool hurry; /* the call has failed: what is to be moved no longer matters */
    gd_copy_request request;
    gd_status status;
    gd_error err;
} gd_carrier;

static ptrdiff_t parts(ptrdiff_t whole, ptrdiff_t part) { return (whole + part - 1) / part; }

/* ---------------------------------------------------------------- the plan */

/* Bytes of an element, its predecessor's included. */
static size_t element_bytes(const gd_far *far)
{
    return gd_dtype_size(far->call.dtype) + (far->pred != NULL ? sizeof(int32_t) : 0);
}

/* The host holds n x n elements, so no product of sizes overflows. */
static gd_status plan_blocks(gd_far *far, ptrdiff_t blocks, gd_error *err)
{
    gd_apsp_band *call = &far->call;
    const ptrdiff_t steps = parts(call->padded / call->step, blocks);
    const size_t row = (size_t)call->padded * element_bytes(far);
    const ptrdiff_t most = (ptrdiff_t)(MOST_BAND / ((size_t)call->step * row));
    const ptrdiff_t fair = gd_least(parts(steps, BANDS), most > 1 ? most : 1);
    const ptrdiff_t places = parts(steps, fair);
    far->block = steps * call->step;
    far->band = fair * call->step;
    far->blocks = parts(call->padded, far->block);
    far->places = places > 2 ? places : 2;
    call->rows = call->pivots = far->block;
    call->launch.sizing = true;
    const gd_status status = far->launch(call, err);
    call->launch.sizing = false;
    far->bytes = (size_t)(far->places * far->band) * row + call->snapshot_bytes +
                 call->launch.workspace_bytes;
    far->each_way = (size_t)((far->blocks - 1) * call->n + gd_least(far->block, call->n)) *
                    (size_t)call->n * element_bytes(far);
    return status;
}

gd_status gd_far_plan(gd_far *far, size_t allowed, gd_error *err)
{
    gd_apsp_band *call = &far->call;
    gd_status status;
    call->pred = far->pred; /* so that sizing knows whether there is one */
    call->rows = call->pivots = 0;
    call->launch.sizing = true;
    if ((status = far->launch(call, err)) != GD_OK) {
        return status;
    }
    const ptrdiff_t steps = call->padded / call->step;
    for (ptrdiff_t blocks = 1; blocks <= steps; ++blocks) {
        status = plan_blocks(far, blocks, err);
        if (status != GD_OK || far->bytes <= allowed) {
            return status;
        }
    }
    return GD_OK;
}

static ptrdiff_t rows_of_block(const gd_far *far, ptrdiff_t block)
{
    return gd_least(far->block, far->call.padded - block * far->block);
}

static ptrdiff_t bands_of_block(const gd_far *far, ptrdiff_t block)
{
    return parts(rows_of_block(far, block), far->band);
}

/* Where a band is while its block has its turn. */
static gd_band band_of_block(const gd_far *far, ptrdiff_t block, ptrdiff_t i)
{
    const ptrdiff_t at = i * far->band;
    return (gd_band){block * far->block + at, gd_least(far->band, rows_of_block(far, block) - at),
                     i, block};
}

/* The order in which bands pass in a block's turn: the next block's come last, each into the place
 * where it stays. No band comes into the place of the one before it: the others take places 0 and 1
 * in turn, so that the last of them has 1. Returns how many there are. */
static ptrdiff_t list_bands(const gd_far *far, ptrdiff_t turn, gd_band *order)
{
    const ptrdiff_t next = turn + 1;
    ptrdiff_t count = 0;
    for (ptrdiff_t block = 0; block < far->blocks; ++block) {
        for (ptrdiff_t i = 0; i < bands_of_block(far, block); ++i) {
            if (block != turn && block != next) {
                order[count++] = band_of_block(far, block, i);
            }
        }
    }
    for (ptrdiff_t i = 0; i < count; ++i) {
        order[i].place = (count - i) % 2;
    }
    for (ptrdiff_t i = 0; next < far->blocks && i < bands_of_block(far, next); ++i) {
        order[count++] = band_of_block(far, next, i);
    }
    return count;
}

/* ---------------------------------------------------------------- moving bands */

/* Rows of one matrix between the host, where they are dense, and a place, where they are padded. */
static gd_status move(gd_far *far, bool home, char *host, char *place, size_t size, ptrdiff_t rows,
                      gd_error *err)
{
    const gd_device device = far->call.launch.device;
    const size_t row = (size_t)far->call.n * size, pitch = (size_t)far->call.padded * size;
    *(home ? &far->brought : &far->sent) += (size_t)rows * row;
    if (device.backend == GD_CPU) {
        return home ? gd_copy_rows(device, NULL, host, row, place, pitch, row, (size_t)rows, err)
                    : gd_copy_rows(device, NULL, place, pitch, host, row, row, (size_t)rows, err);
    }
    return home ? gd_bring_rows(device, GD_THREAD_STREAM, host, row, place, pitch, row, rows, err)
                : gd_send_rows(device, GD_THREAD_STREAM, place, pitch, host, row, row, rows, err);
}

static gd_status move_band(gd_carrier *c, bool home, gd_band band, gd_error *err)
{
    gd_far *far = c->far;
    const size_t size = gd_dtype_size(far->call.dtype);
    const ptrdiff_t rows = gd_least(band.rows, far->call.n - band.first); /* without padding */
    const ptrdiff_t from = band.first * far->call.n;
    const ptrdiff_t to = band.place * far->band * far->call.padded;
    gd_status status = GD_OK;
    if (rows > 0) {
        status = move(far, home, (char *)far->dist + from * (ptrdiff_t)size,
                      c->places + to * (ptrdiff_t)size, size, rows, err);
    }
    if (status == GD_OK && rows > 0 && far->pred != NULL) {
        status = move(far, home, (char *)(far->pred + from), (char *)(c->pred_places + to),
                      sizeof(int32_t), rows, err);
    }
    return status;
}

/* Finished on return: who computes with the bands uses another stream. */
static gd_status run_request(gd_carrier *c, const gd_copy_request *request, gd_error *err)
{
    gd_far *far = c->far;
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; request->block >= 0 && i < bands_of_block(far, request->block); ++i) {
        if (i != request->but && status == GD_OK && !c->hurry) {
            status = move_band(c, true, band_of_block(far, request->block, i), err);
        }
    }
    if (status == GD_OK) {
        status = move_band(c, true, request->home, err);
    }
    if (status == GD_OK) {
        status = move_band(c, false, request->fetch, err);
    }
    return gd_settle(far->call.launch.device, GD_THREAD_STREAM, status, err);
}

static void *carry(void *context)
{
    gd_carrier *c = context;
    const gd_device device = c->far->call.launch.device;
    int previous;
    gd_status status = gd_enter(device, &previous, &c->err);
    const bool entered = status == GD_OK;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->busy && !c->leaving) {
            pthread_cond_wait(&c->turn, &c->lock);
        }
        if (!c->busy) {
            break;
        }
        pthread_mutex_unlock(&c->lock);
        status = entered ? run_request(c, &c->request, &c->err) : status;
        pthread_mutex_lock(&c->lock);
        c->status = status;
        c->busy = false;
        pthread_cond_broadcast(&c->turn);
    }
    pthread_mutex_unlock(&c->lock);
    if (entered) {
        gd_leave(device, previous);
    }
    return NULL;
}

static void send_off(gd_carrier *c, gd_copy_request request)
{
    pthread_mutex_lock(&c->lock);
    c->request = request;
    c->busy = true;
    pthread_cond_broadcast(&c->turn);
    pthread_mutex_unlock(&c->lock);
}

/* Waits for the carrier, whatever `status` says; a failure of ours goes before one of his. */
static gd_status await_carrier(gd_carrier *c, gd_status status, gd_error *err)
{
    c->hurry = status != GD_OK;
    pthread_mutex_lock(&c->lock);
    while (c->busy) {
        pthread_cond_wait(&c->turn, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    if (status == GD_OK && c->status != GD_OK) {
        *err = c->err;
        status = c->status;
    }
    return status;
}

/* ---------------------------------------------------------------- turns */

/* A block's stages on rows in a place, and those after it. */
static gd_status compute(gd_carrier *c, ptrdiff_t turn, gd_band band, gd_error *err)
{
    gd_far *far = c->far;
    gd_apsp_band *call = &far->call;
    const double side = (double)call->padded;
    const ptrdiff_t at = band.place * far->band * call->padded;
    call->dist = c->places + at * (ptrdiff_t)gd_dtype_size(call->dtype);
    call->pred = far->pred != NULL ? c->pred_places + at : NULL;
    call->first = band.first;
    call->rows = band.rows;
    call->pivot = turn * far->block;
    call->pivots = rows_of_block(far, turn);
    call->share = (double)band.rows / side * ((double)call->pivots / side);
    const gd_status status = far->launch(call, err);
    call->done += call->share;
    return gd_settle(call->launch.device, call->launch.stream, status, err);
}

static gd_status take_turn(gd_carrier *c, ptrdiff_t turn, gd_band *order, gd_error *err)
{
    const gd_far *far = c->far;
    const gd_band none = {0}, block = {turn * far->block, rows_of_block(far, turn), 0, turn};
    const ptrdiff_t count = list_bands(far, turn, order);
    const ptrdiff_t last = count > 0 && order[count - 1].block != turn + 1 ? count - 1 : -1;
    gd_status status = compute(c, turn, block, err);
    if (status != GD_OK) {
        return status;
    }
    if (count == 0) {
        return run_request(c, &(gd_copy_request){turn, -1, none, none}, err);
    }
    /* Room for the first band; the rest of the block goes home beside its arithmetic. */
    const ptrdiff_t taken = order[0].place;
    const bool held = taken < bands_of_block(far, turn);
    const gd_copy_request first = {-1, 0, held ? band_of_block(far, turn, taken) : none, order[0]};
    status = run_request(c, &first, err);
    for (ptrdiff_t i = 0; i < count && status == GD_OK; ++i) {
        const bool passed = i > 0 && order[i - 1].block != turn + 1;
        send_off(c, (gd_copy_request){i == 0 ? turn : -1, taken, passed ? order[i - 1] : none,
                                      i + 1 < count ? order[i + 1] : none});
        status = await_carrier(c, compute(c, turn, order[i], err), err);
    }
    return status == GD_OK && last >= 0
               ? run_request(c, &(gd_copy_request){-1, 0, order[last], none}, err)
               : status;
}

static gd_status take_turns(gd_carrier *c, gd_band *order, gd_error *err)
{
    gd_far *far = c->far;
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; i < bands_of_block(far, 0) && status == GD_OK; ++i) {
        const gd_copy_request fetch = {-1, 0, {0}, band_of_block(far, 0, i)};
        status = run_request(c, &fetch, err);
        status = status == GD_OK ? gd_pass(&far->call.launch, 0, err) : status;
    }
    for (ptrdiff_t turn = 0; turn < far->blocks && status == GD_OK; ++turn) {
        status = take_turn(c, turn, order, err);
    }
    return status;
}

static gd_status with_carrier(gd_carrier *c, gd_band *order, gd_error *err)
{
    gd_status status;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->turn, NULL);
    if (pthread_create(&c->thread, NULL, carry, c) == 0) {
        status = take_turns(c, order, err);
        pthread_mutex_lock(&c->lock);
        c->leaving = true;
        pthread_cond_broadcast(&c->turn);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    else {
        status = GD_FAIL(err, GD_NO_MEMORY, "apsp out of core needs a second thread");
    }
    pthread_cond_destroy(&c->turn);
    pthread_mutex_destroy(&c->lock);
    return status;
}

gd_status gd_far_run(gd_far *far, gd_budget *budget, gd_error *err)
{
    gd_apsp_band *call = &far->call;
    gd_stage stage = {
        .device = call->launch.device, .stream = call->launch.stream, .budget = budget};
    gd_carrier carrier = {.far = far};
    const size_t row = (size_t)call->padded, rows = (size_t)(far->places * far->band);
    const size_t bands = (size_t)(far->blocks * parts(far->block, far->band));
    void *places = NULL, *preds = NULL, *order = NULL;
    gd_status status =
        gd_stage_memory(&stage, rows, row * gd_dtype_size(call->dtype), "bands", &places, err);
    if (status == GD_OK && far->pred != NULL) {
        status = gd_stage_memory(&stage, rows, row * sizeof(int32_t), "bands of predecessors",
                                 &preds, err);
    }
    if (status == GD_OK) {
        status =
            gd_stage_memory(&stage, 1, call->snapshot_bytes, "snapshots", &call->snapshots, err);
    }
    if (status == GD_OK) {
        status = gd_stage_memory(&stage, 1, call->launch.workspace_bytes, "the workspace of apsp",
                                 &call->launch.workspace, err);
    }
    if (status == GD_OK) {
        status = gd_alloc((gd_device){GD_CPU, 0}, NULL, bands * sizeof(gd_band),
                          "the order of bands", &order, err);
    }
    carrier.places = places;
    carrier.pred_places = preds;
    call->done = 0;
    far->sent = far->brought = 0;
    /* The carrier's streams may touch the memory once it is there. */
    status = gd_settle(stage.device, stage.stream, status, err);
    status = status == GD_OK ? with_carrier(&carrier, order, err) : status;
    gd_free((gd_device){GD_CPU, 0}, NULL, order);
    gd_stage_release(&stage);
    return status;
}

/* ---------------------------------------------------------------- from outside */

static void prepare(gd_far *far, ptrdiff_t n, gd_dtype dtype, gd_semiring semiring,
                    const gd_orders *orders)
{
    const bool on_cuda = orders->where == GD_WHERE_CUDA;
    *far = (gd_far){.launch = on_cuda ? gd_cuda_apsp_band : gd_cpu_apsp_band};
    far->call.n = n;
    far->call.dtype = dtype;
    far->call.semiring = gd_ring_within(semiring);
    far->call.launch = (gd_launch){.device = {on_cuda ? GD_CUDA : GD_CPU, orders->cuda_index},
                                   .stream = GD_THREAD_STREAM,
                                   .watch = orders->watch};
}

gd_status gd_plan_far(ptrdiff_t n, gd_dtype dtype, gd_semiring semiring, bool predecessors,
                      const gd_orders *orders, gd_far *far, size_t *near, gd_error *err)
{
    static int32_t some; /* only whether there are any is asked */
    const gd_kernel *kernel = orders->kernel != NULL ? gd_kernel_find(orders->kernel) : NULL;
    gd_status status = GD_OK;
    prepare(far, n, dtype, semiring, orders);
    far->pred = predecessors ? &some : NULL;
    *near = 0;
    if (kernel != NULL && kernel->op == GD_OP_APSP && kernel->launch.apsp != NULL) {
        gd_apsp call = {.launch = far->call.launch,
                        .n = n,
                        .dtype = dtype,
                        .semiring = far->call.semiring,
                        .pred = far->pred};
        call.launch.sizing = true;
        status = kernel->launch.apsp(&call, err);
        *near = (size_t)call.padded * (size_t)call.padded * element_bytes(far) +
                call.launch.workspace_bytes;
    }
    return status == GD_OK ? gd_far_plan(far, orders->max_memory, err) : status;
}

gd_status gd_run_far(const gd_matrix *dist, const gd_matrix *pred, gd_semiring semiring,
                     const gd_orders *orders, gd_far *far, gd_error *err)
{
    const double n = (double)dist->rows;
    gd_budget budget = gd_budget_of(orders);
    int previous;
    gd_status status;
    prepare(far, dist->rows, dist->dtype, semiring, orders);
    far->dist = dist->data;
    far->pred = pred->data;
    const gd_device device = far->call.launch.device;
    gd_watch_work(orders->watch, n * n * n);
    if ((status = gd_enter(device, &previous, err)) != GD_OK) {
        return status;
    }
    if ((status = gd_far_plan(far, orders->max_memory, err)) == GD_OK) {
        budget.most = far->bytes;
        status = gd_budget_grant(&budget, device, "apsp", NULL, err);
    }
    status = status == GD_OK ? gd_far_run(far, &budget, err) : status;
    gd_leave(device, previous);
    return status;
}
