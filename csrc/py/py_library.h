/* py_library.h: what small calls have to know of a library other than NumPy. */
#ifndef GPUDIST_PY_LIBRARY_H
#define GPUDIST_PY_LIBRARY_H

#include "py_stacks.h"

/* The most bytes of a result on a device: larger ones are allocated with a look at how much memory
 * there is. */
#define GD_MOST_BYTES_ON_DEVICE ((ptrdiff_t)1 << 28)

/* The dtype of a new array: that of another one, or of whole numbers. */
typedef enum gd_made_of { GD_AS_LIKE, GD_OF_INT32, GD_OF_INT64 } gd_made_of;

/* All of these leave no exception behind but `stream`; what fails is left to the usual way. */
typedef struct gd_library {
    /* Whether it is one of the library's own arrays, of no subclass: those may be anything. */
    bool (*owns)(gd_module_state *state, PyObject *value);
    /* Whether it is an array of float32 or float64 whose memory can be read as it is, which *array
     * then describes. */
    bool (*read)(const gd_module_state *state, PyObject *value, gd_array *array);
    /* A new array of such lengths, on the device of `like`, which *array describes, by the
     * library's own method, lest it is a foreigner there (its streams, its storage), with its
     * memory. NULL where there is no room. */
    PyObject *(*make)(gd_module_state *state, PyObject *like, const gd_array *array,
                      gd_made_of kind, int ndim, const ptrdiff_t *shape, void **memory);
    /* Whether it is no more than its memory, and records nothing of what is done with it. */
    bool (*plain)(const gd_module_state *state, PyObject *array);
    /* The stream of the caller's work on that CUDA device; 0, or -1 with an exception. */
    int (*stream)(const gd_module_state *state, int device, void **stream);
} gd_library;

extern const gd_library gd_library_torch, gd_library_cupy;

/* The library that an array may be of: owns() tells. */
const gd_library *gd_library_of(gd_module_state *state, PyObject *array);

/* Whether it is a tensor of PyTorch, of no subclass, that the state's exchange table can read. */
bool gd_is_tensor(gd_module_state *state, PyObject *value);
/* The dtype of what DLPack describes, or -1. */
struct dl_tensor;
int gd_dtype_of_tensor(const struct dl_tensor *tensor);

#endif
