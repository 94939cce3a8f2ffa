/* neighborhoods.c: neighbours of all rows within a radius, as a search leaves them: on the host in
 * arrays that grow, on a device in chunks. */
#include "neighbors.h"

#include <stdlib.h>

#include "bus.h"
#include "device.h"
#include "registry.h"
#include "sizes.h"

gd_status gd_grow_neighborhoods(gd_neighborhoods *found, size_t size, ptrdiff_t more, gd_error *err)
{
    const ptrdiff_t needed = found->count + more;
    if (needed <= found->allocated) {
        return GD_OK;
    }
    const ptrdiff_t room = gd_most(needed, found->allocated + found->allocated / 2);
    int64_t *const indices = realloc(found->indices, (size_t)room * sizeof *indices);
    if (indices != NULL) {
        found->indices = indices;
    }
    void *const distances = realloc(found->distances, (size_t)room * size);
    if (distances != NULL) {
        found->distances = distances;
    }
    if (indices == NULL || distances == NULL) {
        return GD_FAIL(
            err, GD_NO_MEMORY,
            "there are more than %td neighbours, and no memory for their %zu bytes: give "
            "a smaller radius, or max_neighbors",
            needed, (size_t)needed * (size + sizeof *indices));
    }
    found->allocated = room;
    return GD_OK;
}

/* Chunks one after the other. */
static gd_status gather_chunks(const gd_neighborhoods *found, const gd_matrix *distances,
                               int64_t *indices, void *stream, gd_error *err)
{
    const size_t size = gd_dtype_size(distances->dtype);
    gd_status status = GD_OK;
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; status == GD_OK && i < found->chunk_count; ++i) {
        const gd_chunk *const chunk = &found->chunks[i];
        const size_t bytes = (size_t)chunk->count * size;
        const size_t index_bytes = (size_t)chunk->count * sizeof *indices;
        if (chunk->count > 0) {
            status =
                gd_copy_rows(distances->device, stream, (char *)distances->data + (size_t)at * size,
                             bytes, chunk->distances, bytes, bytes, 1, err);
            status = status == GD_OK
                         ? gd_copy_rows(distances->device, stream, indices + at, index_bytes,
                                        chunk->indices, index_bytes, index_bytes, 1, err)
                         : status;
        }
        at += chunk->count;
    }
    return status;
}

gd_status gd_gather_neighborhoods(const gd_neighborhoods *found, const gd_matrix *distances,
                                  int64_t *indices, int64_t *places, void *stream, gd_error *err)
{
    const size_t bytes = ((size_t)found->rows + 1) * sizeof *places;
    int previous;
    gd_status status = gd_enter(distances->device, &previous, err);
    if (status != GD_OK) {
        return status;
    }
    status = found->places != NULL ? gd_copy_rows(distances->device, stream, places, bytes,
                                                  found->places, bytes, bytes, 1, err)
                                   : gd_send_rows(distances->device, stream, places, bytes,
                                                  found->indptr, bytes, bytes, 1, err);
    status = status == GD_OK ? gather_chunks(found, distances, indices, stream, err) : status;
    gd_leave(distances->device, previous);
    return status;
}

void gd_free_neighborhoods(gd_neighborhoods *found)
{
    int previous;
    gd_error err;
    if ((found->chunk_count > 0 || found->places != NULL) &&
        gd_enter(found->device, &previous, &err) == GD_OK) {
        for (ptrdiff_t i = 0; i < found->chunk_count; ++i) {
            gd_free(found->device, found->stream, found->chunks[i].distances);
            gd_free(found->device, found->stream, found->chunks[i].indices);
        }
        gd_free(found->device, found->stream, found->places);
        gd_leave(found->device, previous);
    }
    free(found->chunks);
    free(found->distances);
    free(found->indices);
    free(found->indptr);
    *found = (gd_neighborhoods){0};
}
