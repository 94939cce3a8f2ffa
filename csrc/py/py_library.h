/* py_library.h: what small calls have to know of a library other than NumPy. */
#ifndef GPUDIST_PY_LIBRARY_H
#define GPUDIST_PY_LIBRARY_H

#include "boundary.h"

/* All of these leave no exception behind but `stream`; what fails is left to the usual way. */
typedef struct gd_library {
    /* Whether it is one of the library's own arrays, of no subclass: those may be anything. */
    bool (*owns)(gd_module_state *state, PyObject *value);
    /* Whether it is a matrix of floats on a CUDA device, or on the host in a form that kernels can
     * walk, which *matrix then describes. */
    bool (*read)(const gd_module_state *state, PyObject *array, gd_matrix *matrix);
    /* A new array of the dtype of `like`, which *matrix describes, on its device, by the library's
     * own method, lest it is a foreigner there (its streams, its storage); *made then describes
     * it. NULL where there is no room. */
    PyObject *(*make)(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                      ptrdiff_t rows, ptrdiff_t cols, gd_matrix *made);
    /* The same for an array of int64, whose memory *made then is. */
    PyObject *(*make_indices)(gd_module_state *state, PyObject *like, const gd_matrix *matrix,
                              ptrdiff_t rows, ptrdiff_t cols, int64_t **made);
    /* Whether it is no more than its memory, and records nothing of what is done with it. */
    bool (*plain)(const gd_module_state *state, PyObject *array);
    /* The stream of the caller's work on that CUDA device; 0, or -1 with an exception. */
    int (*stream)(const gd_module_state *state, int device, void **stream);
} gd_library;

extern const gd_library gd_library_cupy;

/* Whether it is a tensor of PyTorch, of no subclass, that the state's exchange table can read. */
bool gd_is_tensor(gd_module_state *state, PyObject *value);
/* The dtype of what DLPack describes, or -1. */
struct dl_tensor;
int gd_dtype_of_tensor(const struct dl_tensor *tensor);

#endif
