/* bus_slots.c: a device's pinned slots, made when first needed, and the turns that calls take. */
#include "bus_slots.h"

#include <stdatomic.h>

#include "device.h"

/* Slots that together fit the last cache: what the bus wrote there need not come from memory. */
static const size_t MOST_SLOT = (size_t)16 << 20, LEAST_SLOT = (size_t)1 << 20;

static gd_bus buses[GD_MOST_DEVICES];
static pthread_once_t started = PTHREAD_ONCE_INIT;
static _Atomic size_t pinned_limit = GD_PINNED_AT_FIRST, pinned;
static _Atomic int at_work; /* buses that somebody has entered */

static void start(void)
{
    for (int i = 0; i < GD_MOST_DEVICES; ++i) {
        pthread_mutex_init(&buses[i].lock, NULL);
    }
}

static gd_status make_slot(gd_bus *bus, int i, gd_error *err)
{
    gd_status status = GD_OK;
    if (bus->slot[i] == NULL &&
        (status = gd_cuda_pinned_alloc(bus->slot_bytes, &bus->slot[i], err)) == GD_OK) {
        atomic_fetch_add(&pinned, bus->slot_bytes);
    }
    return status == GD_OK && bus->landed[i] == NULL ? gd_cuda_mark_create(&bus->landed[i], err)
                                                     : status;
}

static void drop_slots(gd_bus *bus)
{
    gd_error ignored;
    if (bus->stream != NULL) { /* it may still read operands there */
        (void)gd_cuda_wait(bus->stream, &ignored);
    }
    for (int i = 0; i < GD_SLOTS + GD_RESERVE; ++i) {
        if (bus->slot[i] != NULL) {
            gd_cuda_pinned_free(bus->slot[i]);
            bus->slot[i] = NULL;
            atomic_fetch_sub(&pinned, bus->slot_bytes);
        }
    }
    bus->ready = false;
}

/* A set that could not be completed is completed by the next call. */
static gd_status complete(gd_bus *bus, gd_error *err)
{
    const size_t share =
        atomic_load(&pinned_limit) / (GD_SLOTS + GD_RESERVE) / LEAST_SLOT * LEAST_SLOT;
    const size_t slot_bytes = share < MOST_SLOT ? share : MOST_SLOT;
    gd_status status = GD_OK;
    if (slot_bytes != bus->slot_bytes) {
        drop_slots(bus);
        bus->slot_bytes = slot_bytes;
    }
    if (bus->stream == NULL) {
        status = gd_cuda_stream_create(&bus->stream, err);
    }
    for (int i = 0; i < GD_SLOTS && slot_bytes > 0 && status == GD_OK; ++i) {
        status = make_slot(bus, i, err);
    }
    for (int i = 0; i < GD_PANELS && status == GD_OK; ++i) {
        if (bus->computed[i] == NULL) {
            status = gd_cuda_mark_create(&bus->computed[i], err);
        }
        if (status == GD_OK && bus->departed[i] == NULL) {
            status = gd_cuda_mark_create(&bus->departed[i], err);
        }
    }
    bus->ready = status == GD_OK;
    return status;
}

void gd_limit_pinned(size_t bytes)
{
    pthread_once(&started, start);
    atomic_store(&pinned_limit, bytes);
    for (int i = 0; i < GD_MOST_DEVICES; ++i) {
        pthread_mutex_lock(&buses[i].lock);
        drop_slots(&buses[i]);
        pthread_mutex_unlock(&buses[i].lock);
    }
}

size_t gd_pinned_bytes(void) { return atomic_load(&pinned); }

gd_bus *gd_bus_enter(gd_device device, gd_error *err)
{
    gd_bus *bus =
        &buses[device.index]; /* below GD_MOST_DEVICES, or the device could not be entered */
    pthread_once(&started, start);
    pthread_mutex_lock(&bus->lock);
    if (!bus->ready && complete(bus, err) != GD_OK) {
        pthread_mutex_unlock(&bus->lock);
        return NULL;
    }
    atomic_fetch_add(&at_work, 1);
    return bus;
}

void gd_bus_leave(gd_bus *bus)
{
    atomic_fetch_sub(&at_work, 1);
    pthread_mutex_unlock(&bus->lock);
}

int gd_buses_at_work(void) { return atomic_load(&at_work); }

gd_status gd_bus_reserve(gd_bus *bus, gd_error *err)
{
    gd_status status = GD_OK;
    for (int i = GD_SLOTS; i < GD_SLOTS + GD_RESERVE && status == GD_OK; ++i) {
        status = make_slot(bus, i, err);
    }
    return status;
}

gd_status gd_bus_order(const gd_bus *bus, void *first, void *second, gd_error *err)
{
    const gd_status status = gd_cuda_mark_set(bus->computed[0], first, err);
    return status == GD_OK ? gd_cuda_mark_order(second, bus->computed[0], err) : status;
}
