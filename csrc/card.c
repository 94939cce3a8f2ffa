/* card.c: generations of GPUs, and the card that the chooser believes in. */
#include "card.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* ---------------------------------------------------------------- generations */

static const gd_generation_row table[] = {
#define GD_GENERATION(e, name, capability, target, ...) [e] = {name, capability, __VA_ARGS__},
#include "generations.def"
#undef GD_GENERATION
};

const gd_generation_row *gd_generation_info(gd_generation generation) { return &table[generation]; }

int gd_generation_of(int capability)
{
    int last = GD_GENERATION_COUNT - 1;
    while (last >= 0 && table[last].capability > capability) {
        --last;
    }
    return last;
}

void gd_generations_text(uint64_t set, char *text, size_t size)
{
    int count = 0, first = 0, seen = 0;
    size_t used = 0;
    for (int i = GD_GENERATION_COUNT - 1; i >= 0; --i) {
        if (set & GD_BIT(i)) {
            ++count, first = i;
        }
    }
    if (set == GD_GENERATIONS_FROM(first) || count == 1) {
        const bool newest = set & GD_BIT(GD_GENERATION_COUNT - 1);
        snprintf(text, size, "%s%s", table[first].name, newest ? " or newer" : " and no other");
        return;
    }
    for (int i = 0; i < GD_GENERATION_COUNT && used < size; ++i) {
        if (set & GD_BIT(i)) {
            const char *const between = seen == 0 ? "" : seen == count - 1 ? " or " : ", ";
            used += (size_t)snprintf(text + used, size - used, "%s%s", between, table[i].name);
            ++seen;
        }
    }
}

/* ---------------------------------------------------------------- the build's code */

gd_code gd_code_for(const char *targets, int capability, int *generation)
{
    gd_code code = GD_NO_CODE;
    long target = 0;
    for (const char *at = targets; *at >= '0' && *at <= '9'; at += *at == ';') {
        char *end;
        target = strtol(at, &end, 10);
        const bool same = *end == 'a' ? capability == target
                                      : capability >= target && capability / 10 == target / 10;
        code = same ? GD_MACHINE_CODE : code;
        at = *end == 'a' || *end == 'f' ? end + 1 : end;
    }
    const bool ptx = strchr(targets, '+') != NULL && capability >= target; /* of the last target */
    code = code == GD_NO_CODE && ptx ? GD_FROM_PTX : code;
    *generation = gd_generation_of(code == GD_FROM_PTX ? (int)target : capability);
    return *generation < 0 ? GD_NO_CODE : code;
}

/* ---------------------------------------------------------------- the card */

static gd_card pretended;
static char pretended_targets[64];
static _Atomic bool pretending;

void gd_pretend(const gd_card *card)
{
    if (card != NULL) {
        pretended = *card;
        snprintf(pretended_targets, sizeof pretended_targets, "%s", card->targets);
        pretended.targets = pretended_targets;
    }
    atomic_store(&pretending, card != NULL);
}

bool gd_pretends(void) { return atomic_load_explicit(&pretending, memory_order_acquire); }

const char *gd_card_why_not(void) { return gd_pretends() ? NULL : gd_cuda_why_not(); }

int gd_card_count(void) { return gd_pretends() ? 1 : gd_cuda_count(); }

gd_status gd_card_at(int index, const gd_card **card, gd_error *err)
{
    if (gd_pretends()) {
        *card = &pretended;
        return GD_OK;
    }
    return gd_cuda_describe(index, card, err);
}

bool gd_has_halfwords(gd_device device)
{
    const gd_card *card;
    gd_error err;
    if (gd_card_at(device.index, &card, &err) != GD_OK) {
        return false;
    }
    int generation;
    return gd_code_for(card->targets, card->capability, &generation) != GD_NO_CODE &&
           table[generation].halfwords;
}
