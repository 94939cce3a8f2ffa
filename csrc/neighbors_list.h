/* neighbors_list.h: what is done to a row's list of candidates, whoever fills it. Candidates are
 * ordered totally, by key and then by index, so neither when a list is cut nor in what order it is
 * filled changes what is left of it. */
#ifndef GPUDIST_NEIGHBORS_LIST_H
#define GPUDIST_NEIGHBORS_LIST_H

#include <stdlib.h>

#include "gpudist.h"

static inline bool gd_nearer(gd_candidate x, gd_candidate y)
{
    return x.key < y.key || (x.key == y.key && x.index < y.index);
}

/* Moves list[root] down to where it belongs in the heap list[0 .. count), the farthest on top. */
static inline void gd_sift(gd_candidate *list, ptrdiff_t root, ptrdiff_t count)
{
    const gd_candidate moved = list[root];
    for (ptrdiff_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && gd_nearer(list[child], list[child + 1]);
        if (!gd_nearer(moved, list[child])) {
            break;
        }
        list[root] = list[child];
    }
    list[root] = moved;
}

/* Makes a heap of list[0 .. count), the farthest on top. */
static inline void gd_make_heap(gd_candidate *list, ptrdiff_t count)
{
    for (ptrdiff_t root = count / 2; root-- > 0;) {
        gd_sift(list, root, count);
    }
}

/* Moves the nearest `most` of list[0 .. count) to its front, the farthest of them to its first
 * place. They are a heap, which one of the others enters where it is nearer than its top. */
static inline void gd_keep_nearest(gd_candidate *list, ptrdiff_t count, ptrdiff_t most)
{
    gd_make_heap(list, most);
    for (ptrdiff_t i = most; i < count; ++i) {
        if (gd_nearer(list[i], list[0])) {
            const gd_candidate kept = list[0];
            list[0] = list[i];
            list[i] = kept;
            gd_sift(list, 0, most);
        }
    }
}

/* Sorts candidates, the nearest first, or by index alone. No two are equal, and a pivot,
 * which is never the last, is taken from a place that no order of theirs foresees. */
static inline void gd_sort_candidates(gd_candidate *list, ptrdiff_t count, bool by_distance)
{
    enum { FEW = 24 };
    while (count > FEW) {
        const uint64_t anywhere = (uint32_t)count * UINT64_C(2654435761) & UINT32_MAX;
        const gd_candidate pivot = list[(uint64_t)(count - 1) * anywhere >> 32];
        ptrdiff_t i = -1, j = count;
        for (;;) {
            do {
                ++i;
            } while (by_distance ? gd_nearer(list[i], pivot) : list[i].index < pivot.index);
            do {
                --j;
            } while (by_distance ? gd_nearer(pivot, list[j]) : pivot.index < list[j].index);
            if (i >= j) {
                break;
            }
            const gd_candidate kept = list[i];
            list[i] = list[j];
            list[j] = kept;
        }
        /* list[0 .. j] are at most the pivot, the others at least. */
        const ptrdiff_t first = j + 1;
        if (first < count - first) {
            gd_sort_candidates(list, first, by_distance);
            list += first;
            count -= first;
        }
        else {
            gd_sort_candidates(list + first, count - first, by_distance);
            count = first;
        }
    }
    for (ptrdiff_t i = 1; i < count; ++i) {
        const gd_candidate one = list[i];
        ptrdiff_t at = i;
        for (; at > 0 &&
               (by_distance ? gd_nearer(one, list[at - 1]) : one.index < list[at - 1].index);
             --at) {
            list[at] = list[at - 1];
        }
        list[at] = one;
    }
}

/* Gives a list that is from malloc more room. */
static inline gd_status gd_grow_list(gd_candidates *to, gd_error *err)
{
    const ptrdiff_t room = to->room < 64 ? 64 : to->room + to->room / 2;
    gd_candidate *const list = realloc(to->list, (size_t)room * sizeof *list);
    if (list == NULL) {
        return GD_FAIL(err, GD_NO_MEMORY, "a row has %td neighbours, and no memory for more",
                       to->count);
    }
    to->list = list;
    to->room = room;
    return GD_OK;
}

/* Adds a candidate that is nearer than the list's last, if it has all that it wants. */
static inline gd_status gd_put_candidate(gd_candidates *to, gd_candidate found, gd_error *err)
{
    if (to->cut) {
        if (gd_nearer(found, to->list[0])) {
            to->list[0] = found;
            gd_sift(to->list, 0, to->most);
        }
        return GD_OK;
    }
    if (to->count == to->room) {
        const gd_status status = gd_grow_list(to, err);
        if (status != GD_OK) {
            return status;
        }
    }
    to->list[to->count++] = found;
    if (to->count == to->most) {
        gd_make_heap(to->list, to->count);
        to->cut = true;
    }
    return GD_OK;
}

/* The bin of a key: of the first bound that it is at most, `count` beyond all of them and for NaN.
 */
static inline ptrdiff_t gd_bin_of(double key, const double *bounds, ptrdiff_t count)
{
    ptrdiff_t first = 0, left = count;
    while (left > 0) {
        const ptrdiff_t half = left / 2;
        if (key <= bounds[first + half]) {
            left = half;
        }
        else {
            first += half + 1;
            left -= half + 1;
        }
    }
    return first;
}

/* Counts a distance of row `row` of A in the bin of its key, or adds the weight of row `column` of
 * B there. */
static inline void gd_count_key(const gd_neighbors *call, ptrdiff_t row, double key,
                                ptrdiff_t column)
{
    const ptrdiff_t bins = call->bound_count, bin = gd_bin_of(key, call->bounds, bins);
    if (bin < bins && call->sums != NULL) {
        call->sums[row * bins + bin] += call->weights[column];
    }
    else if (bin < bins) {
        ++call->counts[row * bins + bin];
    }
}

#endif
