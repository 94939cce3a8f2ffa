/* watching.c: what a call's watcher does in Python: hear Ctrl-C, and tell how far the work is. */
#include "boundary.h"

/* Takes Python's lock for a moment. Signals are heard in Python's main thread alone. */
static gd_status look(void *context, double done, gd_error *err)
{
    gd_attention *a = context;
    gd_status status = GD_OK;
    PyEval_RestoreThread(a->thread);
    if (PyErr_CheckSignals() != 0) {
        status = GD_FAIL(err, GD_STOPPED, "interrupted");
    }
    else if (a->progress != NULL && a->progress != Py_None) {
        PyObject *answer = PyObject_CallFunction(a->progress, "d", done);
        if (answer == NULL) {
            status = GD_FAIL(err, GD_STOPPED, "stopped by progress");
        }
        Py_XDECREF(answer);
    }
    a->thread = PyEval_SaveThread();
    return status;
}

gd_watch *gd_let_go(gd_attention *a)
{
    gd_watcher_start(&a->watcher, look, a);
    a->thread = PyEval_SaveThread();
    return &a->watcher.watch;
}

void gd_take_back(gd_attention *a)
{
    gd_watcher_end(&a->watcher);
    PyEval_RestoreThread(a->thread);
}
