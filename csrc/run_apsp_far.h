/* run_apsp_far.h: all-pairs shortest paths of a matrix that the devices' memory does not hold. */
#ifndef GPUDIST_RUN_APSP_FAR_H
#define GPUDIST_RUN_APSP_FAR_H

#include "device.h"
#include "gpudist.h"
#include "stage.h"

/* The matrix stays on the host, as gd_apsp describes it but without padding: dense rows of n. */
typedef struct gd_far {
    gd_apsp_band_kernel *launch;
    gd_apsp_band call; /* its launch's watch, n, dtype, semiring, nonnegative */
    gd_devices devices;
    void *dist;
    int32_t *pred; /* or NULL */
    /* The plan: how many rows a block and a band have, how many pivots a round, how many blocks
     * there are, and places for bands on each device, what that holds, and what goes over all buses
     * each way. */
    ptrdiff_t block, band, pivots, blocks, places;
    size_t bytes, each_way;
    size_t sent, brought; /* counted as it goes */
} gd_far;

/* Plans for so many bytes of each device's memory: the fewest blocks, or if even the smallest do
 * not fit, these. */
gd_status gd_far_plan(gd_far *far, size_t allowed, gd_error *err);
/* Closes the matrix as planned, within the budget on each device. The first device is current;
 * finished on return, on all of them and whatever the status. */
gd_status gd_far_run(gd_far *far, const gd_budget *budget, gd_error *err);

/* The semiring that kernels close over, where a call's maxima are minima of numbers turned over. */
static inline gd_semiring gd_ring_within(gd_semiring semiring)
{
    return semiring == GD_MIN_MAX || semiring == GD_MAX_MIN ? GD_MIN_MAX : GD_MIN_PLUS;
}

/* What apsp would do with n nodes on these devices (NULL: the one that the orders name), or on
 * devices of the orders' max_memory. If they name a kernel, *near is what it holds if it gets the
 * whole matrix. */
gd_status gd_plan_far(ptrdiff_t n, gd_dtype dtype, gd_semiring semiring, bool predecessors,
                      const gd_orders *orders, const gd_devices *devices, gd_far *far, size_t *near,
                      gd_error *err);
/* For tests: closes a matrix on the host as gd_apsp describes it. The CPU can play the devices. */
gd_status gd_run_far(const gd_matrix *dist, const gd_matrix *pred, gd_semiring semiring,
                     const gd_orders *orders, const gd_devices *devices, gd_far *far,
                     gd_error *err);

#endif
