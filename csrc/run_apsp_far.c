/* run_apsp_far.c: all-pairs shortest paths of a matrix that the memory of a device, or of several
 * together, does not hold.
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
 * Several devices. Each has as many of the block's rows as the others, all of the snapshots, and as
 * many of the rows that pass. The block is closed in rounds, as run_apsp_several.c closes a matrix:
 * who holds a round's pivots closes them and sends the snapshots to all, device to device; before
 * the other rows of a round are begun, the next one's pivots are taken through it and closed.
 * After that devices have nothing to tell each other until the turn ends.
 *
 * Memory. A turn takes the block's rows, their snapshots, and places for bands: one arrives, one is
 * computed, one leaves. Once the block has gone home, its own place holds these. So a block of b
 * rows takes about (1 + 1 / P) b n elements of each of P devices, and the fewest blocks that fit
 * are the best.
 *
 * Traffic. A turn must read and write all rows but the block's, which are there already: the last
 * bands of a turn are the next block's, and stay. With T blocks, b rows in the first, each way
 *
 *     ((T - 1) n + b) n elements
 *
 * cross the buses, which `each_way` states and `sent` and `brought` count. That is one matrix less
 * than T, and T = 1 is the matrix itself. With room for M elements on one device, T is about 2 n^2
 * / M, and some 4 n^2 / M matrices cross in all. Square tiles in place of bands, with room for
 * five, would make that 7 n / sqrt(M), which is less from n^2 > 3 M on. But bands are rows as they
 * lie on the host, and their way is hidden as it is, behind another band's arithmetic, if a block
 * has more than some 2500 pivots in float32 (16e12 updates/s; 8 bytes an element at 50 GB/s). So
 * many rows of six million nodes fit an H200.
 *
 * Reached on an H200 with 16 cores, float32, NumPy to NumPy in ms, by four bands of a block, and in
 * core: n = 16384 in 4 blocks 455, in 8 blocks of 2048 pivots 626 (326); n = 32768 in 3 blocks 2704
 * (2373). On H100s with 0.9 GB of each, n = 32768: one in 10 blocks 2700 (2125), two in 8 blocks
 * 1500 (1161). NOTES.md has where the time of two went.
 *
 * Launch: a thread for each device enqueues the arithmetic and waits for each band; another one,
 * the carrier, moves bands meanwhile. The caller is the thread of the first device, whose work
 * alone is watched, and enqueues the rounds of a block on all. The CPU's form moves rows about in
 * memory, and is there for tests. */
#include "run_apsp_far.h"

#include <pthread.h>
#include <stdatomic.h>

#include "bus.h"
#include "errands.h"
#include "registry.h"
#include "sizes.h"
#include "watch.h"

/* Of what a device has of a block, at least, where that has so many steps. More bands are shorter,
 * and their part of the pivots' columns, which is few blocks' work, takes as long. More rounds make
 * others wait less for who closes the next pivots. */
enum { BANDS = 2, ROUNDS = 8 };
/* Nor is a band larger than this: what a stopped call waits for takes 50 ms. */
static const size_t MOST_BAND = (size_t)1 << 30;

/* Rows of the matrix, and where on the device they are: from which row of its places on. */
typedef struct gd_band {
    ptrdiff_t first, rows, at;
    bool stays; /* for its block's turn */
} gd_band;

/* What the carrier does in one go: home first, which makes room. */
typedef struct gd_copy_request {
    bool others; /* of the block's bands all but the one at `taken` go home */
    ptrdiff_t taken;
    gd_band home, fetch; /* without rows: none */
} gd_copy_request;

/* A device, what it has of the matrix, and its carrier. */
typedef struct gd_station {
    struct gd_closing *closing;
    int number;
    gd_budget budget;
    gd_stage stage;
    gd_apsp_band call; /* and the stream in which rows are computed */
    char *places, *snapshots;
    int32_t *pred_places;
    gd_band *order;
    /* The stream in which snapshots go to others, and marks: a round's pivots are closed; their
     * snapshots are with all. */
    void *sending, *closed, *told[2];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool carries, busy, leaving;
    _Atomic bool hurry; /* the call has failed: what is to be moved no longer matters */
    gd_copy_request request;
    gd_status status;
    gd_error err;
    size_t sent, brought;
} gd_station;

typedef struct gd_closing {
    gd_far *far;
    gd_station *stations;
    ptrdiff_t turn;     /* the block's that has it */
    _Atomic int failed; /* who was the first to fail, counted from 1 */
} gd_closing;

/* Some of a block's pivots, which one device holds. */
typedef struct gd_round {
    gd_station *owner; /* NULL: there are none left */
    gd_band pivots;
    ptrdiff_t number;
} gd_round;

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
    const ptrdiff_t count = far->devices.count;
    const ptrdiff_t steps = gd_ceil_div(call->padded / call->step, blocks);
    const ptrdiff_t share = gd_ceil_div(steps, count);
    const size_t row = (size_t)call->padded * element_bytes(far);
    const ptrdiff_t most = (ptrdiff_t)(MOST_BAND / ((size_t)call->step * row));
    const ptrdiff_t fair = gd_least(gd_ceil_div(share, BANDS), gd_most(most, 1));
    far->block = steps * call->step;
    far->band = fair * call->step;
    far->pivots = count > 1 ? gd_ceil_div(share, ROUNDS) * call->step : far->block;
    far->blocks = gd_ceil_div(call->padded, far->block);
    far->places = gd_most(gd_ceil_div(share, fair), 2);
    call->rows = share * call->step;
    call->pivots = far->block;
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

/* The rows of a block that a device holds in its turn. They may be none. */
static gd_band share_of_block(const gd_far *far, int number, ptrdiff_t block)
{
    const ptrdiff_t step = far->call.step, steps = rows_of_block(far, block) / step;
    const ptrdiff_t first = steps * number / far->devices.count;
    const ptrdiff_t end = steps * (number + 1) / far->devices.count;
    return (gd_band){.first = block * far->block + first * step, .rows = (end - first) * step};
}

/* The band of such a share that has place i, where it stays for the turn; without rows: none. */
static gd_band band_of_share(const gd_far *far, gd_band share, ptrdiff_t i)
{
    const ptrdiff_t at = i * far->band;
    return (gd_band){.first = share.first + at,
                     .rows = gd_most(gd_least(far->band, share.rows - at), 0),
                     .at = at,
                     .stays = true};
}

/* The order in which bands pass a device in a block's turn. Rows that only pass are those after the
 * next block's, around to those before this one's, shared out among devices. The next block's come
 * last, each into the place where it stays. No band comes into the place of the one before it: the
 * others take places 0 and 1 in turn, so that the last of them has 1. Returns how many there are.
 */
static ptrdiff_t list_bands(const gd_station *s)
{
    const gd_far *far = s->closing->far;
    const ptrdiff_t step = far->call.step, padded = far->call.padded, turn = s->closing->turn;
    const bool more = turn + 1 < far->blocks;
    const ptrdiff_t here = rows_of_block(far, turn) + (more ? rows_of_block(far, turn + 1) : 0);
    const ptrdiff_t steps = (padded - here) / step, begin = turn * far->block + here;
    const ptrdiff_t end = steps * (s->number + 1) / far->devices.count * step;
    ptrdiff_t count = 0;
    for (ptrdiff_t i = steps * s->number / far->devices.count * step; i < end;) {
        const ptrdiff_t first = (begin + i) % padded;
        const ptrdiff_t fair = gd_ceil_div((end - i) / step, gd_ceil_div(end - i, far->band));
        const ptrdiff_t rows = gd_least(fair * step, padded - first);
        s->order[count++] = (gd_band){.first = first, .rows = rows};
        i += rows;
    }
    for (ptrdiff_t i = 0; i < count; ++i) {
        s->order[i].at = (count - i) % 2 * far->band;
    }
    if (more) {
        const gd_band share = share_of_block(far, s->number, turn + 1);
        for (ptrdiff_t i = 0; i * far->band < share.rows; ++i) {
            s->order[count++] = band_of_share(far, share, i);
        }
    }
    return count;
}

/* As many as there may be in that order, on any device: of one the rows that pass may be cut where
 * the matrix ends, and where the next block begins. */
static size_t most_bands(const gd_far *far)
{
    return (size_t)gd_ceil_div(far->call.padded, far->band) + 2;
}

/* ---------------------------------------------------------------- moving bands */

/* Rows of one matrix between the host, where they are dense, and a place, where they are padded. */
static gd_status move(gd_station *s, bool home, char *host, char *place, size_t size,
                      ptrdiff_t rows, gd_error *err)
{
    const gd_device device = s->stage.device;
    const size_t row = (size_t)s->call.n * size, pitch = (size_t)s->call.padded * size;
    *(home ? &s->brought : &s->sent) += (size_t)rows * row;
    if (device.backend == GD_CPU) {
        return home ? gd_copy_rows(device, NULL, host, row, place, pitch, row, (size_t)rows, err)
                    : gd_copy_rows(device, NULL, place, pitch, host, row, row, (size_t)rows, err);
    }
    return home ? gd_bring_rows(device, GD_THREAD_STREAM, host, row, place, pitch, row, rows, err)
                : gd_send_rows(device, GD_THREAD_STREAM, place, pitch, host, row, row, rows, err);
}

static gd_status move_band(gd_station *s, bool home, gd_band band, gd_error *err)
{
    const gd_far *far = s->closing->far;
    const size_t size = gd_dtype_size(far->call.dtype);
    const ptrdiff_t rows = gd_least(band.rows, far->call.n - band.first); /* without padding */
    const ptrdiff_t from = band.first * far->call.n, to = band.at * far->call.padded;
    gd_status status = GD_OK;
    if (rows > 0) {
        status = move(s, home, (char *)far->dist + from * (ptrdiff_t)size,
                      s->places + to * (ptrdiff_t)size, size, rows, err);
    }
    if (status == GD_OK && rows > 0 && far->pred != NULL) {
        status = move(s, home, (char *)(far->pred + from), (char *)(s->pred_places + to),
                      sizeof(int32_t), rows, err);
    }
    return status;
}

static bool hurries(const gd_station *s) { return s->hurry || s->closing->failed != 0; }

/* Finished on return: who computes with the bands uses another stream. */
static gd_status run_request(gd_station *s, const gd_copy_request *request, gd_error *err)
{
    const gd_far *far = s->closing->far;
    const gd_band share = share_of_block(far, s->number, s->closing->turn);
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; request->others && i * far->band < share.rows; ++i) {
        if (i * far->band != request->taken && status == GD_OK && !hurries(s)) {
            status = move_band(s, true, band_of_share(far, share, i), err);
        }
    }
    if (status == GD_OK) {
        status = move_band(s, true, request->home, err);
    }
    if (status == GD_OK) {
        status = move_band(s, false, request->fetch, err);
    }
    return gd_settle(s->stage.device, GD_THREAD_STREAM, status, err);
}

static void *carry(void *context)
{
    gd_station *s = context;
    int previous;
    gd_status status = gd_enter(s->stage.device, &previous, &s->err);
    const bool entered = status == GD_OK;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->busy && !s->leaving) {
            pthread_cond_wait(&s->turn, &s->lock);
        }
        if (!s->busy) {
            break;
        }
        pthread_mutex_unlock(&s->lock);
        status = entered ? run_request(s, &s->request, &s->err) : status;
        pthread_mutex_lock(&s->lock);
        s->status = status;
        s->busy = false;
        pthread_cond_broadcast(&s->turn);
    }
    pthread_mutex_unlock(&s->lock);
    if (entered) {
        gd_leave(s->stage.device, previous);
    }
    return NULL;
}

static void send_off(gd_station *s, gd_copy_request request)
{
    pthread_mutex_lock(&s->lock);
    s->request = request;
    s->busy = true;
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

/* Waits for the carrier, whatever `status` says; a failure of ours goes before one of his. */
static gd_status await_carrier(gd_station *s, gd_status status, gd_error *err)
{
    s->hurry = status != GD_OK;
    pthread_mutex_lock(&s->lock);
    while (s->busy) {
        pthread_cond_wait(&s->turn, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    if (status == GD_OK && s->status != GD_OK) {
        *err = s->err;
        status = s->status;
    }
    return status;
}

/* ---------------------------------------------------------------- rows through a round */

static bool on_cuda(const gd_station *s) { return s->stage.device.backend == GD_CUDA; }

static gd_status enter(const gd_station *s, gd_error *err)
{
    int previous;
    return gd_enter(s->stage.device, &previous, err);
}

/* The first round of a block's turn, or the one that begins at a pivot after that. */
static gd_round round_at(gd_closing *c, ptrdiff_t pivot, ptrdiff_t number)
{
    const gd_far *far = c->far;
    for (int i = 0; i < far->devices.count; ++i) {
        const gd_band share = share_of_block(far, i, c->turn);
        const ptrdiff_t at = pivot - share.first;
        if (at < share.rows) {
            const ptrdiff_t pivots = gd_least(far->pivots, share.rows - at);
            return (gd_round){&c->stations[i], {.first = pivot, .rows = pivots, .at = at}, number};
        }
    }
    return (gd_round){.owner = NULL};
}

static gd_round first_round(gd_closing *c) { return round_at(c, c->turn * c->far->block, 0); }

static gd_round next_round(gd_closing *c, gd_round round)
{
    return round_at(c, round.pivots.first + round.pivots.rows, round.number + 1);
}

static size_t snapshots_at(const gd_closing *c, gd_round round)
{
    const gd_far *far = c->far;
    return (size_t)(round.pivots.first - c->turn * far->block) * (size_t)far->call.padded *
           element_bytes(far);
}

/* Rows on a device through the stages of a round, but for those that are spared. */
static gd_status pass(gd_station *s, gd_round round, gd_band rows, gd_band spared, gd_error *err)
{
    const gd_far *far = s->closing->far;
    gd_apsp_band *call = &s->call;
    const double side = (double)call->padded, pivots = (double)round.pivots.rows;
    const ptrdiff_t at = rows.at * call->padded;
    call->dist = s->places + at * (ptrdiff_t)gd_dtype_size(call->dtype);
    call->pred = far->pred != NULL ? s->pred_places + at : NULL;
    call->first = rows.first;
    call->rows = rows.rows;
    call->pivot = round.pivots.first;
    call->pivots = round.pivots.rows;
    call->spared = spared.first;
    call->spared_rows = spared.rows;
    call->filled = round.number > 0;
    call->snapshots = s->snapshots + snapshots_at(s->closing, round);
    /* As if all devices were as far. */
    call->share =
        (double)far->devices.count * (double)(rows.rows - spared.rows) / side * (pivots / side);
    const gd_status status = far->launch(call, err);
    call->done += call->share;
    return status;
}

/* ---------------------------------------------------------------- a block */

/* The device goes on when the snapshots of a round that others have closed are there. */
static gd_status await_snapshots(gd_station *s, gd_round round, gd_error *err)
{
    return on_cuda(s) && s != round.owner
               ? gd_cuda_mark_order(s->call.launch.stream, round.owner->told[round.number % 2], err)
               : GD_OK;
}

static gd_status send_snapshots(gd_closing *c, gd_round round, gd_error *err)
{
    gd_station *from = round.owner;
    const size_t at = snapshots_at(c, round);
    const size_t bytes =
        (size_t)round.pivots.rows * (size_t)c->far->call.padded * element_bytes(c->far);
    gd_status status = GD_OK;
    if (on_cuda(from)) {
        status = gd_cuda_mark_set(from->closed, from->call.launch.stream, err);
        status = status == GD_OK ? gd_cuda_mark_order(from->sending, from->closed, err) : status;
    }
    for (int i = 0; i < c->far->devices.count && status == GD_OK; ++i) {
        const gd_station *to = &c->stations[i];
        if (to == from) {
            continue;
        }
        status = on_cuda(from)
                     ? gd_cuda_send(from->sending, to->stage.device.index, to->snapshots + at,
                                    from->stage.device.index, from->snapshots + at, bytes, err)
                     : gd_copy_rows(from->stage.device, NULL, to->snapshots + at, bytes,
                                    from->snapshots + at, bytes, bytes, 1, err);
    }
    return on_cuda(from) && status == GD_OK
               ? gd_cuda_mark_set(from->told[round.number % 2], from->sending, err)
               : status;
}

/* Takes a round's pivots through the round before, if there is one, closes them, and tells all. */
static gd_status close_pivots(gd_closing *c, gd_round round, gd_round before, gd_error *err)
{
    gd_station *s = round.owner;
    const gd_band none = {0};
    gd_status status = enter(s, err);
    if (status == GD_OK && before.owner != NULL) {
        status = await_snapshots(s, before, err);
        status = status == GD_OK ? pass(s, before, round.pivots, none, err) : status;
    }
    status = status == GD_OK ? pass(s, round, round.pivots, none, err) : status;
    return status == GD_OK ? send_snapshots(c, round, err) : status;
}

/* Takes the block's rows through a round but its pivots, which are closed, and the next one's. The
 * first device is told last, as its watch may wait for it. */
static gd_status take_round(gd_closing *c, gd_round round, gd_round next, gd_error *err)
{
    gd_status status = GD_OK;
    for (int i = c->far->devices.count - 1; i >= 0 && status == GD_OK; --i) {
        gd_station *s = &c->stations[i];
        const gd_band share = share_of_block(c->far, i, c->turn);
        gd_band spared = {s == round.owner ? round.pivots.first : next.pivots.first, 0, 0, false};
        spared.rows =
            (s == round.owner ? round.pivots.rows : 0) + (s == next.owner ? next.pivots.rows : 0);
        status = enter(s, err);
        status = status == GD_OK ? await_snapshots(s, round, err) : status;
        status = status == GD_OK && spared.rows < share.rows ? pass(s, round, share, spared, err)
                                                             : status;
    }
    return status;
}

/* Enqueues the closing of the block, whose rows are there. */
static gd_status close_block(gd_closing *c, gd_error *err)
{
    gd_round round = first_round(c);
    gd_status status = close_pivots(c, round, (gd_round){.owner = NULL}, err);
    while (round.owner != NULL && status == GD_OK) {
        const gd_round next = next_round(c, round);
        status = next.owner != NULL ? close_pivots(c, next, round, err) : status;
        status = status == GD_OK ? take_round(c, round, next, err) : status;
        round = next;
    }
    return status == GD_OK ? enter(c->stations, err) : status;
}

/* ---------------------------------------------------------------- turns */

/* All of a block's stages on the rows of a band. */
static gd_status compute(gd_station *s, gd_band band, gd_error *err)
{
    gd_closing *c = s->closing;
    const gd_band none = {0};
    gd_status status = GD_OK;
    for (gd_round round = first_round(c); round.owner != NULL && status == GD_OK;
         round = next_round(c, round)) {
        status = pass(s, round, band, none, err);
    }
    return gd_settle(s->stage.device, s->call.launch.stream, status, err);
}

/* What a device does in a turn once its part of the block is closed. */
static gd_status take_bands(void *context, int number, gd_error *err)
{
    gd_closing *c = context;
    gd_station *s = &c->stations[number];
    const gd_band none = {0};
    const gd_band *const order = s->order;
    const ptrdiff_t count = list_bands(s), taken = count > 0 ? order[0].at : -1;
    gd_status status = enter(s, err);
    if (status != GD_OK ||
        (status = gd_settle(s->stage.device, s->call.launch.stream, status, err)) != GD_OK) {
        return status;
    }
    if (count == 0) {
        return run_request(s, &(gd_copy_request){true, taken, none, none}, err);
    }
    /* Room for the first band; the rest of the block goes home beside its arithmetic. */
    const gd_band share = share_of_block(c->far, number, c->turn);
    const gd_band held = band_of_share(c->far, share, taken / c->far->band);
    status = run_request(s, &(gd_copy_request){false, taken, held, order[0]}, err);
    for (ptrdiff_t i = 0; i < count && status == GD_OK && c->failed == 0; ++i) {
        send_off(
            s, (gd_copy_request){i == 0, taken, i > 0 && !order[i - 1].stays ? order[i - 1] : none,
                                 i + 1 < count ? order[i + 1] : none});
        status = await_carrier(s, compute(s, order[i], err), err);
    }
    return status == GD_OK && c->failed == 0 && !order[count - 1].stays
               ? run_request(s, &(gd_copy_request){false, taken, order[count - 1], none}, err)
               : status;
}

static gd_status fetch_block(void *context, int number, gd_error *err)
{
    gd_closing *c = context;
    gd_station *s = &c->stations[number];
    const gd_band none = {0}, share = share_of_block(c->far, number, 0);
    gd_status status = enter(s, err);
    for (ptrdiff_t i = 0; i * c->far->band < share.rows && status == GD_OK && !hurries(s); ++i) {
        const gd_copy_request fetch = {false, 0, none, band_of_share(c->far, share, i)};
        status = run_request(s, &fetch, err);
        status = status == GD_OK ? gd_pass(&s->call.launch, 0, err) : status;
    }
    return status;
}

static gd_status take_turns(gd_closing *c, gd_error *err)
{
    const gd_far *far = c->far;
    gd_status status = gd_run_errands(far->devices.count, fetch_block, c, &c->failed, err);
    for (; c->turn < far->blocks && status == GD_OK; ++c->turn) {
        status = close_block(c, err);
        status = status == GD_OK
                     ? gd_run_errands(far->devices.count, take_bands, c, &c->failed, err)
                     : status;
    }
    return status;
}

/* ---------------------------------------------------------------- one call */

static gd_status take_memory(gd_station *s, gd_error *err)
{
    const gd_far *far = s->closing->far;
    const size_t row = (size_t)far->call.padded, rows = (size_t)(far->places * far->band);
    void *places = NULL, *preds = NULL, *snapshots = NULL, *order = NULL;
    gd_status status = gd_stage_memory(&s->stage, rows, row * gd_dtype_size(far->call.dtype),
                                       "bands", &places, err);
    if (status == GD_OK && far->pred != NULL) {
        status = gd_stage_memory(&s->stage, rows, row * sizeof(int32_t), "bands of predecessors",
                                 &preds, err);
    }
    if (status == GD_OK) {
        status =
            gd_stage_memory(&s->stage, 1, far->call.snapshot_bytes, "snapshots", &snapshots, err);
    }
    if (status == GD_OK) {
        status = gd_stage_memory(&s->stage, 1, far->call.launch.workspace_bytes,
                                 "the workspace of apsp", &s->call.launch.workspace, err);
    }
    if (status == GD_OK) {
        status = gd_alloc((gd_device){GD_CPU, 0}, NULL, most_bands(far) * sizeof(gd_band),
                          "the order of bands", &order, err);
    }
    s->places = places;
    s->pred_places = preds;
    s->snapshots = snapshots;
    s->order = order;
    return status;
}

static gd_status begin(gd_closing *c, int number, const gd_budget *budget, gd_error *err)
{
    const gd_far *far = c->far;
    gd_station *s = &c->stations[number];
    *s = (gd_station){.closing = c, .number = number, .budget = *budget, .call = far->call};
    s->call.launch.device = s->stage.device = far->devices.each[number];
    s->call.launch.watch = number == 0 ? far->call.launch.watch : NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->turn, NULL);
    gd_status status = enter(s, err);
    if (status == GD_OK && on_cuda(s)) {
        status = gd_cuda_stream_take(false, &s->call.launch.stream, err);
        status = status == GD_OK ? gd_cuda_stream_take(true, &s->sending, err) : status;
        status = status == GD_OK ? gd_cuda_mark_create(&s->closed, err) : status;
        for (int i = 0; i < 2 && status == GD_OK; ++i) {
            status = gd_cuda_mark_create(&s->told[i], err);
        }
    }
    s->stage.stream = s->call.launch.stream;
    s->stage.budget = &s->budget;
    status = status == GD_OK ? take_memory(s, err) : status;
    for (int i = 0; i < number && status == GD_OK && on_cuda(s); ++i) {
        status = gd_cuda_befriend(far->devices.each[i].index, s->stage.device.index, NULL, err);
    }
    /* Other streams may touch the memory once it is there. */
    status = gd_settle(s->stage.device, s->stage.stream, status, err);
    if (status == GD_OK && pthread_create(&s->thread, NULL, carry, s) != 0) {
        status = GD_FAIL(err, GD_NO_MEMORY, "apsp out of core needs a second thread");
    }
    s->carries = status == GD_OK;
    return status;
}

/* Waits for all that is enqueued on the device, whatever the status. */
static gd_status drain(const gd_station *s, gd_status status, gd_error *err)
{
    gd_error late;
    if (on_cuda(s) && s->sending != NULL && enter(s, &late) == GD_OK) {
        status = gd_settle(s->stage.device, s->call.launch.stream, status, err);
        status = gd_settle(s->stage.device, s->sending, status, err);
    }
    return status;
}

static void end(gd_station *s)
{
    gd_error ignored;
    if (s->carries) {
        pthread_mutex_lock(&s->lock);
        s->leaving = true;
        pthread_cond_broadcast(&s->turn);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->turn);
    pthread_mutex_destroy(&s->lock);
    (void)enter(s, &ignored);
    gd_free((gd_device){GD_CPU, 0}, NULL, s->order);
    gd_stage_release(&s->stage);
    gd_cuda_mark_free(s->closed);
    gd_cuda_mark_free(s->told[0]);
    gd_cuda_mark_free(s->told[1]);
    gd_cuda_stream_give(s->sending);
    gd_cuda_stream_give(s->call.launch.stream);
}

gd_status gd_far_run(gd_far *far, const gd_budget *budget, gd_error *err)
{
    const gd_device host = {GD_CPU, 0};
    const size_t bytes = (size_t)far->devices.count * sizeof(gd_station);
    void *stations;
    gd_status status = gd_alloc(host, NULL, bytes, "a record of each device", &stations, err);
    gd_closing c = {.far = far, .stations = stations};
    int begun = 0;
    far->call.done = 0;
    far->sent = far->brought = 0;
    while (begun < far->devices.count && status == GD_OK) {
        status = begin(&c, begun++, budget, err);
    }
    status = status == GD_OK ? take_turns(&c, err) : status;
    for (int i = 0; i < begun; ++i) {
        status = drain(&c.stations[i], status, err);
    }
    while (begun > 0) { /* the first device is the current one again */
        gd_station *s = &c.stations[--begun];
        far->sent += s->sent;
        far->brought += s->brought;
        end(s);
    }
    gd_free(host, NULL, stations);
    return status;
}

/* ---------------------------------------------------------------- from outside */

static void prepare(gd_far *far, ptrdiff_t n, gd_dtype dtype, gd_semiring semiring,
                    const gd_orders *orders, const gd_devices *devices)
{
    const gd_backend backend = orders->where == GD_WHERE_CUDA ? GD_CUDA : GD_CPU;
    const gd_devices one = {1, {{backend, orders->cuda_index}}};
    *far = (gd_far){.devices = devices != NULL ? *devices : one};
    far->launch = far->devices.each[0].backend == GD_CUDA ? gd_cuda_apsp_band : gd_cpu_apsp_band;
    far->call.n = n;
    far->call.dtype = dtype;
    far->call.semiring = gd_ring_within(semiring);
    far->call.launch.device = far->devices.each[0];
    far->call.launch.watch = orders->watch;
}

gd_status gd_plan_far(ptrdiff_t n, gd_dtype dtype, gd_semiring semiring, bool predecessors,
                      const gd_orders *orders, const gd_devices *devices, gd_far *far, size_t *near,
                      gd_error *err)
{
    static int32_t some; /* only whether there are any is asked */
    const gd_kernel *kernel = orders->kernel != NULL ? gd_kernel_find(orders->kernel) : NULL;
    gd_status status = GD_OK;
    prepare(far, n, dtype, semiring, orders, devices);
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
                     const gd_orders *orders, const gd_devices *devices, gd_far *far, gd_error *err)
{
    const double n = (double)dist->rows;
    gd_budget budget = gd_budget_of(orders);
    int previous;
    gd_status status;
    prepare(far, dist->rows, dist->dtype, semiring, orders, devices);
    far->dist = dist->data;
    far->pred = pred->data;
    const gd_device device = far->devices.each[0];
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
