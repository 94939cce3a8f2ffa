/* py_library.h: what small calls have to know of a library other than NumPy. */
#ifndef GPUDIST_PY_LIBRARY_H
#define GPUDIST_PY_LIBRARY_H

#include "boundary.h"

/* The most bytes of a result on a device: larger ones are allocated with a look at how much memory
 * there is. */
#define GD_MOST_BYTES_ON_DEVICE ((ptrdiff_t)1 << 28)

/* The most dimensions of an array that is read so. */
enum { GD_MOST_OF_SHAPE = 8 };

/* Square matrices in one array on a CUDA device. */
typedef struct gd_graphs {
    gd_matrix weights; /* the matrix, or one dense row of all if there are many */
    ptrdiff_t n, count;
    int ndim; /* of the array: there are many with more than two */
    ptrdiff_t shape[GD_MOST_OF_SHAPE];
} gd_graphs;

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
    /* Whether it is one or more square matrices on a CUDA device, of one of gd_dtype. */
    bool (*read_graphs)(const gd_module_state *state, PyObject *array, gd_graphs *graphs);
    /* A new array of the shape of such an array, `like`, of its dtype or of int32, with its memory.
     */
    PyObject *(*make_graphs)(gd_module_state *state, PyObject *like, const gd_graphs *graphs,
                             bool whole, void **made);
    /* Whether it is no more than its memory, and records nothing of what is done with it. */
    bool (*plain)(const gd_module_state *state, PyObject *array);
    /* The stream of the caller's work on that CUDA device; 0, or -1 with an exception. */
    int (*stream)(const gd_module_state *state, int device, void **stream);
} gd_library;

extern const gd_library gd_library_torch, gd_library_cupy;

/* The library that an array may be of: owns() tells. */
const gd_library *gd_library_of(gd_module_state *state, PyObject *array);
/* Describes matrices of such a shape and dtype, with strides in elements (NULL: they follow each
 * other); false if they are empty, not square or of too many dimensions, or many that do not follow
 * each other. */
bool gd_describe_graphs(const int64_t *shape, const int64_t *strides, int ndim, int dtype,
                        void *data, int device, gd_graphs *graphs);

/* Whether it is a tensor of PyTorch, of no subclass, that the state's exchange table can read. */
bool gd_is_tensor(gd_module_state *state, PyObject *value);
/* The dtype of what DLPack describes, or -1. */
struct dl_tensor;
int gd_dtype_of_tensor(const struct dl_tensor *tensor);

#endif
