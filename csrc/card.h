/* card.h: what the chooser knows of a GPU: the device's properties, its generation, and what code
 * this build has for it. Tests can put another card in its place. */
#ifndef GPUDIST_CARD_H
#define GPUDIST_CARD_H

#include "gpudist.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_card {
    char name[256];
    int capability; /* 10 * major + minor */
    int multiprocessors;
    size_t memory, l2;
    size_t shared_block;          /* bytes of shared memory that a block can ask for */
    size_t shared_multiprocessor; /* and that all blocks of a multiprocessor have together */
    int double_ratio;             /* float32 operations in the time of one in float64 */
    /* What the build has for GPUs, as GPUDIST_CUDA_ARCHS says it: "80;90+PTX". */
    const char *targets;
} gd_card;

/* One row of generations.def. */
typedef struct gd_generation_row {
    const char *name; /* "9.0" */
    int capability;
    int lanes, bus;
    bool fp64_tensor, halfwords;
    int products;
} gd_generation_row;

const gd_generation_row *gd_generation_info(gd_generation generation);
/* The generation of a device; -1 if it is older than all. */
int gd_generation_of(int capability);
/* In words: "7.5 or newer", "9.0 and no other", "8.0, 9.0 or 10.0". */
void gd_generations_text(uint64_t set, char *text, size_t size);

/* How code for `targets` gets to run on a device. *generation, where there is code: the one that it
 * is written for, the device's or that of the PTX, whose instructions are all that the driver's
 * machine code has. */
typedef enum gd_code { GD_NO_CODE, GD_FROM_PTX, GD_MACHINE_CODE } gd_code;
gd_code gd_code_for(const char *targets, int capability, int *generation);

/* What the chooser asks in place of the functions of device.h. What is returned stays. */
const char *gd_card_why_not(void);
int gd_card_count(void);
gd_status gd_card_at(int index, const gd_card **card, gd_error *err);
/* Whether code for the device has instructions for halves of a word; false where nobody knows. */
bool gd_has_halfwords(gd_device device);

/* For tests: the chooser believes that this card is cuda:0, alone, with all that the table has;
 * NULL ends it. What is chosen runs on the real device, if there is one. No other call may go on.
 */
void gd_pretend(const gd_card *card);
bool gd_pretends(void);

#ifdef __cplusplus
}
#endif
#endif
