/* boundary.h: what the files of the Python boundary share. Only files in csrc/py include it, and
 * before any other header, as Python.h asks. */
#ifndef GPUDIST_PY_BOUNDARY_H
#define GPUDIST_PY_BOUNDARY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h> /* NumPy 2.4's headers name FILE and the Limited API does not bring it */

#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#ifndef NPY_TARGET_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#endif
#define PY_ARRAY_UNIQUE_SYMBOL gpudist_numpy_api
#ifndef GD_OWNS_NUMPY_API
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../gpudist.h"
#include "../run.h"
#include "../watch.h"

/* ---------------------------------------------------------------- errors (raise.c) */

/* The objects that the module holds: gpudist.DeviceError; PyTorch's type, once it was met,
 * and its names of int64 and int32 (py_tensors.c); CuPy's, and what tells its streams and devices
 * (py_cupy.c). */
#define GD_HELD(each)                                                                          \
    each(device_error) each(tensor_type) each(tensor_int64) each(tensor_int32) each(cupy_type) \
        each(cupy_stream) each(cupy_runtime)
/* And names of these libraries' attributes, as strings from the beginning: field and text. */
#define GD_NAMES(each)                                                                        \
    each(is_neg, "is_neg") each(new_empty, "new_empty") each(requires_grad, "requires_grad")  \
        each(data, "data") each(ptr, "ptr") each(device_id, "device_id") each(shape, "shape") \
            each(strides, "strides") each(dtype, "dtype") each(get_device, "getDevice")

typedef struct gd_module_state {
#define GD_FIELD(field, ...) PyObject *field;
    GD_HELD(GD_FIELD)
    GD_NAMES(GD_FIELD)
#undef GD_FIELD
    const struct dl_exchange *exchange; /* PyTorch's, with its type */
} gd_module_state;

/* Sets the Python exception that *err describes and returns NULL. */
PyObject *gd_raise(PyObject *module, const gd_error *err);

/* ---------------------------------------------------------------- arguments (args.c) */

/* One parameter of a function. A converter returns 1, or 0 with an exception set. */
typedef struct gd_arg {
    const char *name;
    int (*convert)(PyObject *value, const char *name, void *into);
    void *into;
    bool required;
} gd_arg;

/* Parses a FASTCALL call: all parameters may be given by position or by keyword. Returns 1, or 0
 * with a TypeError set. Parameters not given leave their target as it was. */
int gd_parse(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
             const gd_arg *spec, int count);

/* The parameters by which every operation is told where and how to work, for a gd_orders. */
#define GD_ORDERS(orders)                                                                   \
    {"kernel", gd_to_kernel, &(orders), false}, {"device", gd_to_device, &(orders), false}, \
        {"stream", gd_to_stream, &(orders), false},                                         \
    {                                                                                       \
        "ordered", gd_to_bool, &(orders).ordered, false                                     \
    }
/* The parameters that say what an edge is in a matrix, for a gd_graph. */
#define GD_EDGES(graph)                                      \
    {"no_edge", gd_to_no_edge, &(graph).no_edge, true},      \
        {"sentinel", gd_to_double, &(graph).sentinel, true}, \
    {                                                        \
        "directed", gd_to_bool, &(graph).directed, true      \
    }
/* How much memory an operation may hold: the last parameter of most. */
#define GD_MAX_MEMORY(orders) {"max_memory", gd_to_max_memory, &(orders).max_memory, false}

/* The bytes of a string, which live as long as it does, or NULL with an exception that names
 * `name`. A string in which C would find an earlier end than Python is refused. */
const char *gd_text(PyObject *value, const char *name);

int gd_to_object(PyObject *value, const char *name, void *into); /* PyObject **, borrowed */
int gd_to_bool(PyObject *value, const char *name, void *into);   /* bool * */
int gd_to_double(PyObject *value, const char *name, void *into); /* double * */
int gd_to_size(PyObject *value, const char *name, void *into);   /* ptrdiff_t *, >= 0 */
int gd_to_pointer(PyObject *value, const char *name,
                  void *into);                                   /* void **: an address or handle */
int gd_to_op(PyObject *value, const char *name, void *into);     /* gd_op * */
int gd_to_metric(PyObject *value, const char *name, void *into); /* gd_metric * */
int gd_to_semiring(PyObject *value, const char *name, void *into);   /* gd_semiring * */
int gd_to_no_edge(PyObject *value, const char *name, void *into);    /* gd_no_edge * */
int gd_to_dtype(PyObject *value, const char *name, void *into);      /* gd_dtype * */
int gd_to_kernel(PyObject *value, const char *name, void *into);     /* gd_orders *: its kernel */
int gd_to_options(PyObject *value, const char *name, void *into);    /* gd_orders *: settings */
int gd_to_device(PyObject *value, const char *name, void *into);     /* gd_orders *: its place */
int gd_to_stream(PyObject *value, const char *name, void *into);     /* gd_orders *: its stream */
int gd_to_max_memory(PyObject *value, const char *name, void *into); /* size_t *, 0 for None */

/* A float64 array on the host, C-contiguous, borrowed from the arguments; data is NULL for None. */
typedef struct gd_doubles {
    const double *data;
    ptrdiff_t count; /* of its elements, whatever the shape */
} gd_doubles;

int gd_to_doubles(PyObject *value, const char *name, void *into); /* gd_doubles * */

/* ---------------------------------------------------------------- watching (watching.c) */

/* What a call needs to be interrupted and to report. Start it with zeros, but for `progress`: NULL,
 * None, or a callable that takes the share done, from 0 to 1. */
typedef struct gd_attention {
    PyObject *progress; /* borrowed from the arguments */
    PyThreadState *thread;
    gd_watcher watcher;
} gd_attention;

/* In between, Python's lock is not held and the watch, which goes into the orders, is alive. A call
 * that ends with GD_STOPPED has its exception set already; gd_raise knows that. */
gd_watch *gd_let_go(gd_attention *attention);
void gd_take_back(gd_attention *attention);

/* ---------------------------------------------------------------- arrays (intake.c) */

/* Whether it is an array of bool, on the host or a device. */
bool gd_is_bool(PyObject *value);

/* An array that a call borrows, and what has to be given back afterwards. Start it with zeros;
 * gd_release may be called on it at any time, once or more. */
typedef struct gd_operand {
    gd_matrix matrix;
    PyObject *owner; /* a NumPy array (perhaps a copy), or NULL */
    void *managed;   /* a DLPack tensor that is ours to give back, or NULL */
    bool versioned;  /* of which of DLPack's two kinds */
} gd_operand;

/* Takes a two-dimensional array to read: NumPy in any layout (converted to `dtype`), or an array on
 * a CUDA device, which must have that dtype already; pass dtype < 0 to take any of gd_dtype. The
 * array's work is ordered before orders->stream. Returns 1, or 0 with an exception that names
 * `name`. */
int gd_take_input(PyObject *value, const char *name, int dtype, const gd_orders *orders,
                  gd_operand *operand);
/* An array of NumPy's, of that dtype unless it is negative: the value itself or a copy, whose
 * matrices, the last two axes if there are as many, kernels on the host can walk; NULL with an
 * exception. */
PyObject *gd_to_walkable(PyObject *value, int dtype);
/* Takes a C-contiguous array of one of gd_dtype, with one dimension (it becomes a matrix of one
 * row) or two, to be written in place. */
int gd_take_output(PyObject *value, const char *name, int ndim, const gd_orders *orders,
                   gd_operand *operand);
void gd_release(gd_operand *operand);

/* A tuple of whole numbers, or NULL with an exception. */
PyObject *gd_numbers(const int64_t *number, int count);

/* ---------------------------------------------------------------- functions of the module */

#define GD_FUNCTION(name) \
    PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)

GD_FUNCTION(gd_py_cdist);
GD_FUNCTION(gd_py_cdist_arrays);
GD_FUNCTION(gd_py_cdist_tensors);
GD_FUNCTION(gd_py_pdist_tensors);
GD_FUNCTION(gd_py_nearest_tensors);
GD_FUNCTION(gd_py_pdist_arrays);
GD_FUNCTION(gd_py_nearest_arrays);
GD_FUNCTION(gd_py_minplus_arrays);
GD_FUNCTION(gd_py_minplus_tensors);
GD_FUNCTION(gd_py_weights_fit);
GD_FUNCTION(gd_py_pdist);
GD_FUNCTION(gd_py_cdist_batch);
GD_FUNCTION(gd_py_gradient);
GD_FUNCTION(gd_py_plan_cdist);
GD_FUNCTION(gd_py_apsp);
GD_FUNCTION(gd_py_apsp_batch);
GD_FUNCTION(gd_py_apsp_tensors);
GD_FUNCTION(gd_py_hops);
GD_FUNCTION(gd_py_few_edges);
GD_FUNCTION(gd_py_closure);
GD_FUNCTION(gd_py_closure_batch);
GD_FUNCTION(gd_py_apsp_band);
GD_FUNCTION(gd_py_far);
GD_FUNCTION(gd_py_far_plan);
GD_FUNCTION(gd_py_several_plan);
GD_FUNCTION(gd_py_minplus);
GD_FUNCTION(gd_py_minplus_batch);
GD_FUNCTION(gd_py_nearest);
GD_FUNCTION(gd_py_within);
GD_FUNCTION(gd_py_gather);
GD_FUNCTION(gd_py_common);
GD_FUNCTION(gd_py_count);
GD_FUNCTION(gd_py_perron);
GD_FUNCTION(gd_py_perron_part);
GD_FUNCTION(gd_py_ceiling);
GD_FUNCTION(gd_py_choose);
GD_FUNCTION(gd_py_describe);
GD_FUNCTION(gd_py_fail_allocation);
GD_FUNCTION(gd_py_refuse_peers);
GD_FUNCTION(gd_py_code_for);
GD_FUNCTION(gd_py_generation);
GD_FUNCTION(gd_py_pretend);
GD_FUNCTION(gd_py_limit_pinned);
GD_FUNCTION(gd_py_most_held);
GD_FUNCTION(gd_py_event_record);
GD_FUNCTION(gd_py_event_elapsed);
PyObject *gd_py_metrics(PyObject *module, PyObject *ignored);
PyObject *gd_py_kernels(PyObject *module, PyObject *ignored);
PyObject *gd_py_keep(PyObject *module, PyObject *ignored);
PyObject *gd_py_allocations(PyObject *module, PyObject *ignored);
PyObject *gd_py_pinned(PyObject *module, PyObject *ignored);
PyObject *gd_py_host(PyObject *module, PyObject *ignored);
PyObject *gd_py_cuda(PyObject *module, PyObject *ignored);

#endif
