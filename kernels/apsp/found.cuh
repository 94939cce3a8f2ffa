/* found.cuh: what the passes around a kernel of apsp find out about the weights and the lengths, as
 * it lies on the device. */
#ifndef GPUDIST_APSP_FOUND_CUH
#define GPUDIST_APSP_FOUND_CUH

#include "gpudist.h"

namespace gd {

/* As atomics can gather it, all zeros where nothing was found: doubles that are not negative are
 * ordered like their bits, and the first of some indices has the largest complement. Behind it lies
 * a byte for each node, whether it is on a negative cycle. */
struct Found {
    unsigned long long max_abs, not_negative_at, not_fractional_at; /* graphs in */
    unsigned long long on_negative_cycle, too_long;                 /* path lengths out */
};
static_assert(sizeof(Found) <= GD_FOUND_BYTES(0), "gd_apsp has room for it");

/* What comes to the host: all that, or from a kernel that tells it a bit for each node, whether it
 * is on a negative cycle. */
constexpr int kMostTold = 2048; /* nodes */
union Page {
    Found found;
    uint32_t negative[kMostTold / 32];
};

inline Found *found_of(const gd_apsp &call) { return static_cast<Found *>(call.found); }
inline Page *page_of(const gd_apsp &call) { return static_cast<Page *>(call.page); }

}  // namespace gd

#endif
