/* bus_slots.h: a device's pinned slots and the turns that calls take; for the files of the bus. */
#ifndef GPUDIST_BUS_SLOTS_H
#define GPUDIST_BUS_SLOTS_H

#include <pthread.h>

#include "bus.h"

enum {
    GD_SLOTS = 4,
    GD_RESERVE = 2, /* slots for operands while the others are full of results */
    GD_FEW_BUSES = 2,
    GD_PANELS = 2, /* of a result on the device: one is computed while the other travels */
};

/* What a device's copies go through. */
struct gd_bus {
    pthread_mutex_t lock; /* held by the call that uses it */
    size_t slot_bytes;    /* 0: there are no slots, and copies are plain */
    void *slot[GD_SLOTS + GD_RESERVE], *landed[GD_SLOTS + GD_RESERVE];
    void *computed[GD_PANELS], *departed[GD_PANELS];
    void *stream;
    bool ready;           /* but for the reserve, which few calls need */
    unsigned reserved;    /* pieces that went by the reserve, whose slots take turns */
    struct gd_crew *crew; /* who copies for a result that is using it, or NULL */
};

/* The device's bus, ours until gd_bus_leave; NULL with *err set. */
gd_bus *gd_bus_enter(gd_device device, gd_error *err);
void gd_bus_leave(gd_bus *bus);
/* How many devices' slots are in use. More than GD_FEW_BUSES' are too much for the last cache. */
int gd_buses_at_work(void);
/* Makes the slots of the reserve, which few calls need. */
gd_status gd_bus_reserve(gd_bus *bus, gd_error *err);
/* What `first` is at now comes before all that `second` will be. */
gd_status gd_bus_order(const gd_bus *bus, void *first, void *second, gd_error *err);

#endif
