/* run_apsp_several.c: all-pairs shortest paths of a host matrix whose rows several devices hold.
 *
 * The scheme. Row i needs of other rows only row k as it is at stage k (run_apsp_far.c), and a turn
 * is the stages of some consecutive pivots. Every device holds consecutive rows, as many as others.
 * In a turn the device that holds the pivots closes them and sends their snapshots to all, which is
 * all that devices have to tell each other; then each takes its other rows through the turn. Every
 * sum is one of the triple loop's, and each element takes them in the order of k, so that the bits
 * are those of one device, however rows are shared out.
 *
 * Looking ahead. Nobody shall wait for a turn's pivots. So before the rows of a turn are begun, the
 * next turn's pivots go through it by themselves, are closed, and sent, in an urgent stream beside
 * that of the rows, which leaves them alone. In each of the two streams of a device snapshots are
 * kept of two turns, and marks say when they are there, and when they are read no more.
 *
 * How many pivots a turn has. More of them cost the first device longer before others can begin;
 * fewer cost a chain of small launches and a copy more often, some 0.2 ms that a turn has to hide.
 * By the rates of one H200, a turn of one step, 128 pivots in float32, takes two of them 1 ms at
 * n = 16384. Smaller matrices have more steps a turn, but some turns for each device.
 *
 * The first turn and the last. Bands of rows go through the first turn's stages as they arrive, and
 * through the last one's before they leave (run_apsp_ends.c, which says how many stages hide behind
 * the bus). That is done by a thread for each device; all other turns are enqueued by the caller.
 * The pivots of both turns are closed, and sent, in parts: rows that have arrived go through the
 * first part while the pivots of the next are on their way, and who has to wait for the last pivots
 * takes the first band that will leave through what is closed of them. The last pivots are so many
 * that closing them takes as long as some turns, as many as there are devices, say: the turn before
 * has so many steps.
 *
 * Traffic: each row is copied to its device once and home once, and n^2 elements in all are sent
 * from device to device, of which each receives those of the others.
 *
 * Reached on two H100s, others at work beside them, NumPy to NumPy, float32, ms, beside one of
 * them: n = 16384 153 and 280, n = 32768 1095 and 2125: 1.8 and 1.9 times as fast. NOTES.md has
 * where the time went.
 *
 * Launch: the caller's watch sees the first device alone. Others are two turns from it at most,
 * as snapshots are not overwritten before everybody has read them. The CPU's form is there for
 * tests: it does all in the order in which devices are told. */
#include "run_apsp_several.h"

#include "bus.h"
#include "errands.h"
#include "registry.h"
#include "sizes.h"
#include "watch.h"

enum {
    MANY = 8192,            /* nodes, from which on the bus is worth hiding */
    ROWS = 1024,            /* of a band that comes or goes */
    EARLY_BANDS = 1,        /* that go through parts of the last turn as these are closed */
    STEP = 128,             /* every kernel takes multiples of it */
    HEAD_BYTES = 32 * STEP, /* of a row's elements at the stages of the first turn, and the last */
    TAIL_BYTES = 48 * STEP,
    PART_BYTES = 8 * STEP, /* of those at the stages of a part */
    TURNS = 8,             /* of a device, at least, where it has so many steps */
};
/* Updates on each device that make a turn long enough: 0.5 ms of an H200. Where one step makes as
 * many as PLENTY, 4 ms, two to a turn take 1 % less. */
static const double ENOUGH = 0x1p33, PLENTY = 0x1p36;

typedef struct gd_span {
    ptrdiff_t first, rows;
} gd_span;

/* ---------------------------------------------------------------- the plan */

static bool on_cuda(const gd_holder *h) { return h->device.backend == GD_CUDA; }

static ptrdiff_t end_of(gd_turn turn) { return turn.pivot + turn.pivots; }

static size_t element_bytes(const gd_several *s)
{
    return gd_dtype_size(s->call.dtype) + (s->pred != NULL ? sizeof(int32_t) : 0);
}

/* What so many rows and pivots take of a workspace; the snapshots' bytes are in s->call. */
static gd_status size(gd_several *s, ptrdiff_t rows, ptrdiff_t pivots, size_t *workspace,
                      gd_error *err)
{
    gd_apsp_band *call = &s->call;
    call->rows = rows;
    call->pivots = pivots;
    call->launch.sizing = true;
    const gd_status status = s->launch(call, err);
    call->launch.sizing = false;
    *workspace = call->launch.workspace_bytes;
    return status;
}

static ptrdiff_t most_pivots(const gd_several *s)
{
    return gd_most(gd_most(s->head, s->late), s->call.padded - s->end);
}

static void plan_turns(gd_several *s, bool ends)
{
    const gd_apsp_band *call = &s->call;
    const gd_holder *last = &s->holders[s->count - 1];
    const ptrdiff_t element = (ptrdiff_t)gd_dtype_size(call->dtype);
    const double one = (double)call->step * (double)call->padded * (double)s->holders[0].rows;
    const ptrdiff_t steps = s->holders[0].rows / call->step / TURNS;
    const ptrdiff_t enough = one < ENOUGH ? (ptrdiff_t)(ENOUGH / one) : one < PLENTY ? 1 : 2;
    s->pivots = gd_most(1, gd_least(steps, enough)) * call->step;
    s->band = on_cuda(last) ? ROWS : 4 * call->step;
    /* Predecessors of a turn's parts would not lie side by side. */
    const ptrdiff_t few = s->pred == NULL ? 2 * s->pivots : s->pivots;
    s->head = gd_least(ends ? HEAD_BYTES / element : few, s->holders[0].rows);
    s->part = ends ? PART_BYTES / element : s->pivots;
    const ptrdiff_t tail = ends ? TAIL_BYTES / element : few;
    const ptrdiff_t least = s->count > 1 ? last->first : s->head;
    s->end = gd_most(call->padded - tail, least);
    s->late = ends ? gd_least(s->count * s->pivots, call->padded - s->end) : s->pivots;
}

gd_status gd_several_plan(gd_several *s, const gd_devices *devices, size_t max_memory,
                          gd_error *err)
{
    gd_apsp_band *call = &s->call;
    size_t row, work;
    call->pred = s->pred; /* so that sizing knows whether there is one */
    gd_status status = size(s, 0, 0, &work, err);
    if (status != GD_OK) {
        return status;
    }
    const ptrdiff_t steps = call->padded / call->step;
    s->count = (int)gd_least(devices->count, steps);
    for (int i = 0; i < s->count; ++i) {
        const ptrdiff_t first = steps * i / s->count, end = steps * (i + 1) / s->count;
        s->holders[i] = (gd_holder){.device = devices->each[i],
                                    .first = first * call->step,
                                    .rows = (end - first) * call->step,
                                    .budget = {.allowed = max_memory, .unasked = max_memory == 0}};
    }
    plan_turns(s, on_cuda(&s->holders[0]) && max_memory == 0 && s->pred == NULL && call->n >= MANY);
    row = (size_t)call->padded * element_bytes(s);
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        gd_holder *h = &s->holders[i];
        h->bytes = (size_t)h->rows * row + (s->graph != NULL ? GD_FOUND_BYTES(call->n) : 0);
        status = size(s, most_pivots(s), most_pivots(s), &work, err);
        h->bytes += work + 2 * call->snapshot_bytes;
        status = status == GD_OK ? size(s, h->rows, most_pivots(s), &work, err) : status;
        h->bytes += work;
    }
    return status;
}

/* Makes its device current. */
static gd_status enter(const gd_holder *h, gd_error *err)
{
    int previous;
    return gd_enter(h->device, &previous, err);
}

gd_status gd_several_grant(gd_several *s, gd_error *err)
{
    gd_status status = GD_OK;
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        gd_holder *h = &s->holders[i];
        h->budget.most = h->bytes;
        status = enter(h, err);
        status =
            status == GD_OK ? gd_budget_grant(&h->budget, h->device, "apsp", NULL, err) : status;
    }
    gd_error late; /* the first device is the current one again */
    const gd_status back = enter(s->holders, &late);
    if (status == GD_OK && back != GD_OK) {
        *err = late;
    }
    return status == GD_OK ? back : status;
}

static gd_turn turn_at(gd_several *s, ptrdiff_t pivot, ptrdiff_t number)
{
    gd_holder *owner = s->holders;
    while (pivot >= owner->first + owner->rows) {
        ++owner;
    }
    const bool late = s->end - pivot <= s->late;
    const ptrdiff_t most = pivot == 0 ? s->head : late ? s->late : s->pivots;
    const ptrdiff_t end = pivot < s->end
                              ? gd_least(pivot + most, gd_least(owner->first + owner->rows, s->end))
                              : s->call.padded;
    return (gd_turn){.owner = owner, .pivot = pivot, .pivots = end - pivot, .number = number};
}

static ptrdiff_t parts_in(const gd_several *s, gd_turn turn)
{
    return s->pred == NULL ? gd_ceil_div(turn.pivots, s->part) : 1;
}

/* Some parts of a turn. */
static gd_turn parts_of(const gd_several *s, gd_turn turn, ptrdiff_t first, ptrdiff_t end)
{
    const ptrdiff_t before = first * s->part, last = gd_least(end * s->part, turn.pivots);
    return (gd_turn){.owner = turn.owner,
                     .pivot = turn.pivot + before,
                     .pivots = last - before,
                     .number = turn.number,
                     .before = before,
                     .after = turn.pivots - last};
}

/* Which of its owner's marks tells of a turn, or of the last of some parts of one. */
static ptrdiff_t mark_of(const gd_several *s, gd_turn turn)
{
    return turn.after == 0 ? turn.number % 2 : 1 + (turn.before + turn.pivots) / s->part;
}

/* ---------------------------------------------------------------- the gate */

static void move_gate(gd_gate *gate, ptrdiff_t open, bool shut)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = open;
    gate->shut = shut;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

/* How many parts it lets through. */
static ptrdiff_t look_at_gate(gd_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    const ptrdiff_t open = gate->open;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

/* Waits until it lets so many through; false if it never will. */
static bool wait_at_gate(gd_gate *gate, ptrdiff_t parts)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->open < parts && !gate->shut) {
        pthread_cond_wait(&gate->moved, &gate->lock);
    }
    const bool open = gate->open >= parts;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

/* ---------------------------------------------------------------- streams */

static gd_status set(const gd_holder *h, void *mark, void *stream, gd_error *err)
{
    return on_cuda(h) ? gd_cuda_mark_set(mark, stream, err) : GD_OK;
}

static gd_status follow(const gd_holder *h, void *stream, void *mark, gd_error *err)
{
    return on_cuda(h) ? gd_cuda_mark_order(stream, mark, err) : GD_OK;
}

static gd_status send(const gd_holder *from, const gd_holder *to, ptrdiff_t slot, size_t offset,
                      size_t bytes, gd_error *err)
{
    void *const there = (char *)to->snapshots[slot] + offset;
    const void *const here = (const char *)from->snapshots[slot] + offset;
    return on_cuda(from)
               ? gd_cuda_send(from->ahead, to->device.index, there, from->device.index, here, bytes,
                              err)
               : gd_copy_rows(from->device, NULL, there, bytes, here, bytes, bytes, 1, err);
}

/* ---------------------------------------------------------------- rows through a turn */

/* Bytes of so many pivots' snapshots. */
static size_t size_of_pivots(const gd_several *s, ptrdiff_t pivots)
{
    return (size_t)pivots * (size_t)s->call.padded * element_bytes(s);
}

/* Rows of a device, without those that are spared; the pivots' own if no others are given. */
static gd_status pass(gd_several *s, gd_holder *h, gd_turn turn, gd_span span, gd_span spared,
                      bool ahead, gd_error *err)
{
    gd_apsp_band call = s->call;
    const ptrdiff_t at = (span.first - h->first) * call.padded;
    const double side = (double)call.padded, rows = (double)h->rows;
    const double share = (double)turn.pivots / side;
    call.launch.device = h->device;
    call.launch.stream = ahead ? h->ahead : h->stream;
    call.launch.workspace = ahead ? h->work_ahead : h->work;
    call.launch.watch = !ahead && h == s->holders ? s->call.launch.watch : NULL;
    call.dist = h->dist + at * (ptrdiff_t)gd_dtype_size(call.dtype);
    call.pred = h->pred != NULL ? h->pred + at : NULL;
    call.first = span.first;
    call.rows = span.rows;
    call.pivot = turn.pivot;
    call.pivots = turn.pivots;
    call.spared = spared.first;
    call.spared_rows = spared.rows;
    call.filled = turn.number > 0 || turn.before > 0;
    call.snapshots = (char *)h->snapshots[turn.number % 2] + size_of_pivots(s, turn.before);
    call.done = h->done;
    call.share = share * (double)span.rows / rows;
    h->done += ahead ? 0 : call.share;
    return s->launch(&call, err);
}

/* Sends the snapshots of a turn, or of some parts of one, once their pivots are closed. */
static gd_status tell(gd_several *s, gd_turn turn, gd_error *err)
{
    const gd_holder *h = turn.owner;
    const ptrdiff_t slot = turn.number % 2, mark = mark_of(s, turn);
    gd_status status = set(h, h->closed[mark], h->ahead, err);
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        const gd_holder *to = &s->holders[i];
        if (to != h) {
            status = follow(h, h->ahead, to->passed[slot], err);
            status = status == GD_OK ? send(h, to, slot, size_of_pivots(s, turn.before),
                                            size_of_pivots(s, turn.pivots), err)
                                     : status;
        }
    }
    return status == GD_OK ? set(h, h->told[mark], h->ahead, err) : status;
}

/* Takes a turn's pivots through the turn before, unless that is the first, through which all rows
 * have been; closes them, and sends their snapshots. */
static gd_status prepare(gd_several *s, gd_turn turn, gd_turn before, gd_error *err)
{
    gd_holder *h = turn.owner;
    const gd_span pivots = {turn.pivot, turn.pivots}, none = {0};
    const ptrdiff_t slot = turn.number % 2, other = 1 - slot;
    gd_status status = enter(h, err);
    /* The rows' stream has done with this place, and with these rows. */
    status = status == GD_OK ? follow(h, h->ahead, h->passed[slot], err) : status;
    status = status == GD_OK ? follow(h, h->ahead, before.owner->told[other], err) : status;
    if (status == GD_OK) {
        status = before.number == 0 ? follow(h, h->ahead, h->passed[other], err)
                                    : pass(s, h, before, pivots, none, true, err);
    }
    for (ptrdiff_t i = 0; i < parts_in(s, turn) && status == GD_OK; ++i) {
        const gd_turn part = parts_of(s, turn, i, i + 1);
        status = pass(s, h, part, pivots, none, true, err);
        status = status == GD_OK ? tell(s, part, err) : status;
    }
    return status;
}

/* The rows' stream goes on when the turn's snapshots are there. */
static gd_status await_snapshots(const gd_several *s, gd_holder *h, gd_turn turn, gd_error *err)
{
    const ptrdiff_t mark = mark_of(s, turn);
    return follow(h, h->stream, h == turn.owner ? h->closed[mark] : turn.owner->told[mark], err);
}

/* Takes all rows through a turn but its pivots, which are closed, and the next one's. The first
 * device is told last, as its watch may wait for it. */
static gd_status take_turn(gd_several *s, gd_turn turn, gd_turn next, gd_error *err)
{
    gd_status status = GD_OK;
    for (int i = s->count - 1; i >= 0 && status == GD_OK; --i) {
        gd_holder *h = &s->holders[i];
        const gd_span rows = {h->first, h->rows};
        gd_span spared = {h == turn.owner ? turn.pivot : next.pivot, 0};
        spared.rows = (h == turn.owner ? turn.pivots : 0) + (h == next.owner ? next.pivots : 0);
        status = enter(h, err);
        status = status == GD_OK ? await_snapshots(s, h, turn, err) : status;
        status = status == GD_OK && spared.rows < h->rows
                     ? pass(s, h, turn, rows, spared, false, err)
                     : status;
        status = status == GD_OK ? set(h, h->passed[turn.number % 2], h->stream, err) : status;
    }
    return status;
}

/* ---------------------------------------------------------------- to the devices and home */

/* Rows on their way to a device, and through the first turn. */
typedef struct arriving {
    gd_several *several;
    gd_holder *holder;
    gd_turn turn;
    ptrdiff_t closed;                 /* parts of the turn whose pivots are closed here */
    ptrdiff_t through[GD_TURN_PARTS]; /* which row is the next to go through each part */
} arriving;

/* Makes lengths of what has arrived, in a stream, and for what follows there. */
static gd_status read_rows(arriving *a, gd_span span, void *stream, gd_error *err)
{
    gd_holder *h = a->holder;
    const gd_status status = follow(h, stream, h->arrived, err);
    h->paths.launch.stream = stream;
    return status == GD_OK && a->several->graph != NULL
               ? gd_cuda_graph_read(&h->graph, &h->paths, span.first, span.rows, err)
               : status;
}

/* Closes the next part of the first pivots, which have arrived; after that those of earlier parts
 * go through its stages. */
static gd_status close_part(arriving *a, gd_error *err)
{
    gd_several *s = a->several;
    gd_holder *h = a->holder;
    const ptrdiff_t number = a->closed++;
    const gd_turn part = parts_of(s, a->turn, number, number + 1);
    const gd_span pivots = {part.pivot, part.pivots}, none = {0};
    gd_status status = read_rows(a, pivots, h->ahead, err);
    if (status == GD_OK && number > 0) {
        status = pass(s, h, parts_of(s, a->turn, 0, number), pivots, none, true, err);
    }
    status = status == GD_OK ? pass(s, h, part, pivots, none, true, err) : status;
    status = status == GD_OK ? tell(s, part, err) : status;
    if (status != GD_OK) {
        return status;
    }
    move_gate(&s->begun, a->closed, false);
    status = await_snapshots(s, h, part, err);
    return status == GD_OK && number > 0
               ? pass(s, h, part, (gd_span){0, part.pivot}, none, false, err)
               : status;
}

/* Takes rows up to `end`, which are there, through so many parts, and each part's in one go with
 * others' that are to go through the same. */
static gd_status go_through(arriving *a, ptrdiff_t end, ptrdiff_t parts, gd_error *err)
{
    gd_several *s = a->several;
    const gd_span none = {0}, fresh = {a->through[0], end - a->through[0]};
    gd_status status = fresh.rows > 0 ? read_rows(a, fresh, a->holder->stream, err) : GD_OK;
    for (ptrdiff_t i = 0; i < parts && status == GD_OK;) {
        const ptrdiff_t first = a->through[i], from = i;
        while (i < parts && a->through[i] == first) {
            a->through[i++] = end;
        }
        const gd_turn some = parts_of(s, a->turn, from, i);
        if (first < end && (status = await_snapshots(s, a->holder, some, err)) == GD_OK) {
            status = pass(s, a->holder, some, (gd_span){first, end - first}, none, false, err);
        }
    }
    return status;
}

/* Some rows have arrived: they go through what is closed, a band at least at a time. */
static gd_status take_in(void *context, void *stream, ptrdiff_t first, ptrdiff_t count,
                         gd_error *err)
{
    arriving *a = context;
    gd_several *s = a->several;
    gd_holder *h = a->holder;
    const ptrdiff_t step = s->call.step, parts = parts_in(s, a->turn);
    const bool all = first + count == gd_least(h->rows, s->call.n - h->first);
    const ptrdiff_t end = h->first + (all ? h->rows : (first + count) / step * step);
    gd_status status = set(h, h->arrived, stream, err);
    while (h == a->turn.owner && a->closed < parts && status == GD_OK &&
           end >= gd_least((a->closed + 1) * s->part, a->turn.pivots)) {
        status = close_part(a, err);
    }
    const ptrdiff_t open = look_at_gate(&s->begun);
    const bool some =
        open > 0 && end > a->through[0] &&
        (all || end - a->through[0] >= s->band || a->through[open - 1] < a->through[0]);
    return status == GD_OK && some ? go_through(a, end, open, err) : status;
}

static gd_status bring_in_by_cpu(arriving *a, const gd_arrival *rows, gd_error *err)
{
    const gd_several *s = a->several;
    gd_holder *h = a->holder;
    const ptrdiff_t n = s->call.n;
    const size_t size = sizeof(int32_t), pitch = (size_t)s->call.padded * size;
    gd_status status = GD_OK;
    if (s->pred != NULL) {
        status = gd_copy_rows(h->device, NULL, h->pred, pitch, s->pred + h->first * n,
                              (size_t)n * size, (size_t)n * size, (size_t)rows->rows, err);
    }
    for (ptrdiff_t first = 0, count; first < rows->rows && status == GD_OK; first += count) {
        count = gd_least(s->band, rows->rows - first);
        status = gd_copy_rows(h->device, NULL, (char *)rows->to + (size_t)first * rows->to_pitch,
                              rows->to_pitch,
                              (const char *)rows->from + (size_t)first * rows->from_pitch,
                              rows->from_pitch, rows->row_bytes, (size_t)count, err);
        status = status == GD_OK ? take_in(a, NULL, first, count, err) : status;
    }
    return status;
}

static gd_status bring_in(arriving *a, gd_error *err)
{
    const gd_several *s = a->several;
    gd_holder *h = a->holder;
    const gd_matrix *weights = s->graph != NULL ? &s->graph->weights : NULL;
    const ptrdiff_t n = s->call.n;
    const size_t one = gd_dtype_size(s->call.dtype), row = (size_t)n * one;
    const size_t stride = weights != NULL ? (size_t)weights->row_stride * one : row;
    const char *from = weights != NULL ? weights->data : s->dist;
    const gd_arrival rows = {.device = h->device,
                             .stream = h->stream,
                             .to = h->dist,
                             .to_pitch = (size_t)s->call.padded * one,
                             .from = from + (size_t)h->first * stride,
                             .from_pitch = stride,
                             .row_bytes = row,
                             .rows = gd_least(h->rows, n - h->first),
                             .arrived = take_in,
                             .context = a};
    gd_status status = GD_OK;
    if (!on_cuda(h)) {
        return bring_in_by_cpu(a, &rows, err);
    }
    if (s->pred != NULL && weights == NULL) {
        const size_t pred_row = (size_t)n * sizeof(int32_t);
        status = gd_send_rows_ahead(h->device, h->stream, h->pred,
                                    (size_t)s->call.padded * sizeof(int32_t),
                                    s->pred + h->first * n, pred_row, pred_row, rows.rows, err);
        /* Pivots are closed in the other stream. */
        status = status == GD_OK ? set(h, h->arrived, h->stream, err) : status;
        status = status == GD_OK ? follow(h, h->ahead, h->arrived, err) : status;
    }
    return status == GD_OK ? gd_send_arrival(&rows, err) : status;
}

/* All rows, and through the first turn. */
static gd_status arrive(void *context, int number, gd_error *err)
{
    gd_several *s = context;
    gd_holder *h = &s->holders[number];
    arriving way = {.several = s, .holder = h, .turn = turn_at(s, 0, 0)};
    const ptrdiff_t parts = parts_in(s, way.turn);
    const bool owns = h == way.turn.owner;
    for (ptrdiff_t i = 0; i < parts; ++i) {
        way.through[i] = owns ? way.turn.pivots : h->first;
    }
    gd_status status = enter(h, err);
    status = status == GD_OK ? bring_in(&way, err) : status;
    if (owns && status != GD_OK) {
        move_gate(&s->begun, way.closed, true);
    }
    if (status != GD_OK || !wait_at_gate(&s->begun, parts)) {
        return status; /* or somebody else's failure */
    }
    status = go_through(&way, h->first + h->rows, parts, err);
    h->paths.launch.stream = h->stream;
    return status == GD_OK ? set(h, h->passed[0], h->stream, err) : status;
}

/* What a device does with rows before they leave. */
typedef struct leaving {
    gd_several *several;
    gd_holder *holder;
    ptrdiff_t left;  /* rows of it that have the last turn before them, and, of these, */
    ptrdiff_t early; /* those that are through all but its last part */
} leaving;

/* The first rows to leave go through each part of the last turn as soon as it is closed. */
static gd_status begin_leaving(leaving *way, gd_error *err)
{
    gd_several *s = way->several;
    gd_holder *h = way->holder;
    const gd_span early = {h->first, way->early}, none = {0};
    gd_status status = GD_OK;
    for (ptrdiff_t i = 0; i < parts_in(s, s->last) && status == GD_OK; ++i) {
        const gd_turn part = parts_of(s, s->last, i, i + 1);
        status = await_snapshots(s, h, part, err);
        if (status == GD_OK && part.after > 0 && early.rows > 0) {
            status = pass(s, h, part, early, none, false, err);
        }
    }
    return status;
}

static gd_status leave(void *context, ptrdiff_t first, ptrdiff_t rows, void *panel, gd_error *err)
{
    const leaving *way = context;
    gd_several *s = way->several;
    gd_holder *h = way->holder;
    const gd_span none = {0}, span = {h->first + first, gd_least(rows, way->left - first)};
    const ptrdiff_t parts = parts_in(s, s->last);
    const gd_turn rest = first < way->early ? parts_of(s, s->last, parts - 1, parts) : s->last;
    gd_status status = span.rows > 0 ? pass(s, h, rest, span, none, false, err) : GD_OK;
    (void)panel;
    if (status == GD_OK && s->graph != NULL) {
        const gd_matrix out = {.data = h->paths.dist,
                               .rows = s->call.n,
                               .cols = s->call.n,
                               .row_stride = s->call.padded,
                               .col_stride = 1,
                               .dtype = s->call.dtype,
                               .device = h->device};
        gd_matrix pred = out;
        pred.data = h->paths.pred;
        pred.dtype = GD_I32;
        status = gd_cuda_paths_write(&h->paths, &out, &pred, s->unreachable, s->graph->flip,
                                     h->first + first, rows, err);
    }
    return status;
}

static gd_status bring_home(void *context, int number, gd_error *err)
{
    gd_several *s = context;
    gd_holder *h = &s->holders[number];
    const ptrdiff_t n = s->call.n, rows = gd_least(h->rows, n - h->first);
    const size_t one = gd_dtype_size(s->call.dtype), row = (size_t)n * one;
    const size_t pitch = (size_t)s->call.padded * one, pred_row = (size_t)n * sizeof(int32_t);
    const size_t pred_pitch = (size_t)s->call.padded * sizeof(int32_t);
    char *to = (char *)s->dist + (size_t)h->first * row;
    int32_t *pred_to = s->pred != NULL ? s->pred + h->first * n : NULL;
    /* The last pivots are through already; of a turn that is the first as well, all rows are. */
    const ptrdiff_t end = s->last.number > 0 ? gd_least(h->first + h->rows, s->end) : h->first;
    const ptrdiff_t left = gd_most(end - h->first, 0);
    /* Who closes the last pivots has no time before they are. */
    const ptrdiff_t some = on_cuda(h) ? gd_least(EARLY_BANDS * s->band, left) : left;
    const ptrdiff_t early = h == s->last.owner ? 0 : some;
    leaving way = {s, h, left, early};
    gd_status status = enter(h, err);
    status = status == GD_OK ? begin_leaving(&way, err) : status;
    if (status != GD_OK) {
        return status;
    }
    if (!on_cuda(h)) {
        if ((status = leave(&way, 0, h->rows, NULL, err)) == GD_OK) {
            status = gd_copy_rows(h->device, NULL, to, row, h->dist, pitch, row, (size_t)rows, err);
        }
        return status == GD_OK && pred_to != NULL
                   ? gd_copy_rows(h->device, NULL, pred_to, pred_row, h->pred, pred_pitch, pred_row,
                                  (size_t)rows, err)
                   : status;
    }
    const gd_result result = {.stage = &h->stage,
                              .to = to,
                              .row_bytes = row,
                              .rows = rows,
                              .whole = h->dist,
                              .pitch = pitch,
                              .fill = leave,
                              .context = &way,
                              .panel_rows = s->band};
    status = gd_bring_result(&result, err);
    return status == GD_OK && pred_to != NULL
               ? gd_bring_rows(h->device, h->stream, pred_to, pred_row, h->pred, pred_pitch,
                               pred_row, rows, err)
               : status;
}

/* ---------------------------------------------------------------- what devices found */

static void note(ptrdiff_t at, ptrdiff_t *first)
{
    *first = (size_t)at < (size_t)*first ? at : *first; /* -1 is larger than any */
}

/* Waits for what devices have read. */
static gd_status look_at_weights(gd_several *s, gd_error *err)
{
    gd_graph_facts all = {0, -1, -1};
    gd_status status = GD_OK;
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        gd_graph_facts facts;
        if ((status = enter(&s->holders[i], err)) == GD_OK &&
            (status = gd_cuda_graph_facts(&s->holders[i].paths, &facts, err)) == GD_OK) {
            all.max_abs = facts.max_abs > all.max_abs ? facts.max_abs : all.max_abs;
            note(facts.negative_at, &all.negative_at);
            note(facts.fractional_at, &all.fractional_at);
        }
    }
    return status == GD_OK ? s->judge(s->context, &all, &s->call.nonnegative, err) : status;
}

/* Gathers what devices have written. Marks of nodes are of all n, and a device has those of its
 * rows. */
static gd_status look_at_paths(gd_several *s, gd_error *err)
{
    const gd_device host = {GD_CPU, 0};
    void *memory;
    gd_status status =
        gd_alloc(host, NULL, (size_t)s->call.n, "marks of negative cycles", &memory, err);
    uint8_t *marks = memory;
    s->found = (gd_paths_facts){0, 0};
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        const gd_holder *h = &s->holders[i];
        gd_paths_facts found = {0, 0};
        if ((status = enter(h, err)) == GD_OK &&
            (status = gd_cuda_paths_facts(&h->paths, marks, &found, err)) == GD_OK) {
            s->found.on_negative_cycle += found.on_negative_cycle;
            s->found.too_long += found.too_long;
        }
        const ptrdiff_t end = gd_least(h->first + h->rows, s->call.n);
        for (ptrdiff_t row = h->first; row < end && found.on_negative_cycle > 0; ++row) {
            s->negative_nodes[row] = marks[row];
        }
    }
    gd_free(host, NULL, memory);
    return status;
}

/* ---------------------------------------------------------------- one call */

static gd_status take_memory(gd_several *s, gd_holder *h, gd_error *err)
{
    gd_apsp_band *call = &s->call;
    const size_t row = (size_t)call->padded, rows = (size_t)h->rows;
    void *dist = NULL, *pred = NULL, *found = NULL;
    size_t work;
    gd_status status = gd_stage_memory(&h->stage, rows, row * gd_dtype_size(call->dtype),
                                       "rows of path lengths", &dist, err);
    if (status == GD_OK && s->pred != NULL) {
        status = gd_stage_memory(&h->stage, rows, row * sizeof(int32_t), "rows of predecessors",
                                 &pred, err);
    }
    status = status == GD_OK ? size(s, most_pivots(s), most_pivots(s), &work, err) : status;
    for (int i = 0; i < 2 && status == GD_OK; ++i) {
        status =
            gd_stage_memory(&h->stage, 1, call->snapshot_bytes, "snapshots", &h->snapshots[i], err);
    }
    if (status == GD_OK) {
        status =
            gd_stage_memory(&h->stage, 1, work, "the workspace of pivots", &h->work_ahead, err);
    }
    status = status == GD_OK ? size(s, h->rows, most_pivots(s), &work, err) : status;
    if (status == GD_OK) {
        status = gd_stage_memory(&h->stage, 1, work, "the workspace of apsp", &h->work, err);
    }
    if (status == GD_OK && s->graph != NULL) {
        status = gd_stage_memory(&h->stage, 1, GD_FOUND_BYTES(call->n), "facts", &found, err);
    }
    h->dist = dist;
    h->pred = pred;
    h->paths.found = found;
    return status;
}

/* What kernels that read a graph and write paths are told: where row 0 would be. */
static gd_status begin_reading(gd_several *s, gd_holder *h, gd_error *err)
{
    const gd_apsp_band *call = &s->call;
    const ptrdiff_t above = h->first * call->padded;
    h->paths.launch = (gd_launch){.device = h->device, .stream = h->stream};
    h->paths.n = call->n;
    h->paths.padded = call->padded;
    h->paths.dtype = call->dtype;
    h->paths.semiring = call->semiring;
    h->paths.dist = h->dist - above * (ptrdiff_t)gd_dtype_size(call->dtype);
    h->paths.pred = h->pred != NULL ? h->pred - above : NULL;
    h->graph = *s->graph;
    h->graph.weights.data = h->paths.dist;
    h->graph.weights.row_stride = call->padded;
    h->graph.weights.device = h->device;
    const gd_status status = gd_cuda_page_take(&h->paths.page, err);
    /* No rows: the facts alone begin. */
    return status == GD_OK ? gd_cuda_graph_read(&h->graph, &h->paths, 0, 0, err) : status;
}

static gd_status begin(gd_several *s, gd_holder *h, gd_error *err)
{
    gd_status status = enter(h, err);
    if (status == GD_OK && on_cuda(h)) {
        status = gd_cuda_stream_take(false, &h->stream, err);
        status = status == GD_OK ? gd_cuda_stream_take(true, &h->ahead, err) : status;
        status = status == GD_OK ? gd_cuda_mark_create(&h->arrived, err) : status;
        for (int i = 0; i < 2 && status == GD_OK; ++i) {
            status = gd_cuda_mark_create(&h->passed[i], err);
        }
        for (int i = 0; i < GD_TURN_MARKS && status == GD_OK; ++i) {
            if ((status = gd_cuda_mark_create(&h->closed[i], err)) == GD_OK) {
                status = gd_cuda_mark_create(&h->told[i], err);
            }
        }
    }
    h->stage = (gd_stage){.device = h->device, .stream = h->stream, .budget = &h->budget};
    status = status == GD_OK ? take_memory(s, h, err) : status;
    for (const gd_holder *other = s->holders;
         other < h && status == GD_OK && on_cuda(h) && on_cuda(other); ++other) {
        status = gd_cuda_befriend(other->device.index, h->device.index, NULL, err);
    }
    status = status == GD_OK && s->graph != NULL ? begin_reading(s, h, err) : status;
    /* Other streams may touch the memory once it is there. */
    return gd_settle(h->device, h->stream, status, err);
}

static void end(gd_holder *h)
{
    gd_error ignored;
    (void)enter(h, &ignored);
    gd_stage_release(&h->stage);
    gd_cuda_page_give(h->paths.page);
    gd_cuda_mark_free(h->arrived);
    for (int i = 0; i < 2; ++i) {
        gd_cuda_mark_free(h->passed[i]);
    }
    for (int i = 0; i < GD_TURN_MARKS; ++i) {
        gd_cuda_mark_free(h->closed[i]);
        gd_cuda_mark_free(h->told[i]);
    }
    gd_cuda_stream_give(h->stream);
    gd_cuda_stream_give(h->ahead);
}

/* Waits for all that is enqueued anywhere, whatever the status. */
static gd_status drain(gd_several *s, gd_status status, gd_error *err)
{
    for (int i = 0; i < s->count; ++i) {
        const gd_holder *h = &s->holders[i];
        gd_error late;
        if (h->stream != NULL && h->ahead != NULL && enter(h, &late) == GD_OK) {
            status = gd_settle(h->device, h->ahead, status, err);
            status = gd_settle(h->device, h->stream, status, err);
        }
    }
    return status;
}

static gd_status close_all(gd_several *s, gd_error *err)
{
    gd_turn turn = turn_at(s, 0, 0);
    gd_status status = gd_run_errands(s->count, arrive, s, &s->failed, err);
    status = status == GD_OK && s->graph != NULL ? look_at_weights(s, err) : status;
    while (status == GD_OK && end_of(turn) < s->call.padded) {
        const gd_turn next = turn_at(s, end_of(turn), turn.number + 1);
        status = prepare(s, next, turn, err);
        status = status == GD_OK && turn.number > 0 ? take_turn(s, turn, next, err) : status;
        turn = next;
    }
    s->last = turn;
    status = status == GD_OK ? gd_run_errands(s->count, bring_home, s, &s->failed, err) : status;
    return status == GD_OK && s->graph != NULL ? look_at_paths(s, err) : status;
}

gd_status gd_several_run(gd_several *s, gd_error *err)
{
    gd_status status = GD_OK;
    s->failed = 0;
    s->begun.open = 0;
    s->begun.shut = false;
    pthread_mutex_init(&s->begun.lock, NULL);
    pthread_cond_init(&s->begun.moved, NULL);
    for (int i = 0; i < s->count && status == GD_OK; ++i) {
        status = begin(s, &s->holders[i], err);
    }
    status = status == GD_OK ? close_all(s, err) : status;
    status = drain(s, status, err);
    for (int i = s->count - 1; i >= 0; --i) { /* the first device is the current one again */
        end(&s->holders[i]);
    }
    pthread_cond_destroy(&s->begun.moved);
    pthread_mutex_destroy(&s->begun.lock);
    return status;
}
