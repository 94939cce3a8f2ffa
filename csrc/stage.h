/* stage.h: memory that one call owns on its device. */
#ifndef GPUDIST_STAGE_H
#define GPUDIST_STAGE_H

#include "choose.h"
#include "gpudist.h"

/* ---------------------------------------------------------------- how much there may be */

/* What a call holds of its device's memory at once: operands, results and workspaces of its own,
 * not the caller's arrays, and not the pinned slots, which all calls share. Every stage of a call
 * counts in one budget. A call is first played through with `counting` set: stages then hand out
 * an address that nobody may use and copy nothing, so that what does not fit is refused before
 * there is any. */
typedef struct gd_budget {
    size_t allowed; /* 0: whatever there is */
    bool unasked;   /* nobody set that bound */
    size_t held, most;
    bool counting;
} gd_budget;

/* Begins counting, under the orders' max_memory. */
gd_budget gd_budget_of(const gd_orders *orders);
/* Says whether budget->most is no more than is allowed. Where nobody set a bound, and it is so much
 * that it might not be there, what is free on the current device becomes the bound. */
gd_status gd_budget_fits(gd_budget *budget, gd_device device, bool *fits, gd_error *err);
/* Ends counting: nothing is held again. Fails if the most that was held is more than is allowed;
 * `what` needs it, `instead` says what else can be done, NULL that there is the CPU. */
gd_status gd_budget_grant(gd_budget *budget, gd_device device, const char *what,
                          const char *instead, gd_error *err);

/* ---------------------------------------------------------------- memory and matrices */

enum { GD_STAGE_MOST = 16 };

/* Starts with a device, a stream, a budget or NULL, and nothing owned. */
typedef struct gd_stage {
    gd_device device;
    void *stream;
    gd_budget *budget;
    struct gd_owned {
        void *memory; /* to be given back, in the stream's order */
        size_t bytes;
    } owned[GD_STAGE_MOST];
    int owned_count;
    struct gd_bus *bus; /* whose slots a result of this call is using (bus.h), or NULL */
} gd_stage;

/* rows * row_bytes of memory, NULL for 0 bytes; a failure names `what`. */
gd_status gd_stage_memory(gd_stage *stage, size_t rows, size_t row_bytes, const char *what,
                          void **out, gd_error *err);
/* A dense matrix. */
gd_status gd_stage_matrix(gd_stage *stage, ptrdiff_t rows, ptrdiff_t cols, gd_dtype dtype,
                          const char *what, gd_matrix *out, gd_error *err);
/* Leaves a block to somebody else, who gives it back with gd_free. */
void gd_stage_leave(gd_stage *stage, const void *memory);
/* Gives back what came after the first `kept` blocks. */
void gd_stage_release_to(gd_stage *stage, int kept);
/* Gives everything back; may be called again. */
void gd_stage_release(gd_stage *stage);

#endif
