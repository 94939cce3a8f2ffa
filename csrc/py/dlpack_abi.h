/* dlpack_abi.h: the part of the DLPack ABI (versions 0.x and 1.x; 1.3 for the exchange table) that
 * a consumer needs. Source: the DLPack specification, dmlc.github.io/dlpack. */
#ifndef GPUDIST_PY_DLPACK_ABI_H
#define GPUDIST_PY_DLPACK_ABI_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_FLOAT = 2, DL_BOOL = 6 };
enum { DL_FLAG_READ_ONLY = 1 };

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements; NULL is C-contiguous */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;

/* What a type tells by its attribute __dlpack_c_exchange_api__, a capsule of that name below. Its
 * functions take objects of exactly that type, order no work, and return 0, or -1 with a Python
 * exception. A tensor read so owns nothing: it is valid while its object is alive. */
#define DL_EXCHANGE_CAPSULE "dlpack_exchange_api"
typedef struct dl_exchange {
    struct {
        uint32_t major, minor;
    } version;
    struct dl_exchange *older;
    void (*not_used_here[3])(void);                   /* allocation, ownership either way */
    int (*read_tensor)(void *object, dl_tensor *out); /* may be NULL */
    int (*current_stream)(int32_t type, int32_t id, void **stream);
} dl_exchange;

#endif
