/* errands.c: something that is done for each of several devices at once. */
#include "errands.h"

#include <pthread.h>
#include <stdatomic.h>

#include "device.h"

typedef struct gd_runner {
    gd_errand *errand;
    void *context;
    int number;
    _Atomic int *failed;
    pthread_t thread;
    bool begun;
    gd_status status;
    gd_error err;
} gd_runner;

static void *run(void *context)
{
    gd_runner *r = context;
    int none = 0;
    r->status = r->errand(r->context, r->number, &r->err);
    if (r->status != GD_OK) {
        atomic_compare_exchange_strong(r->failed, &none, r->number + 1);
    }
    return NULL;
}

gd_status gd_run_errands(int count, gd_errand *errand, void *context, _Atomic int *failed,
                         gd_error *err)
{
    gd_runner runners[GD_MOST_DEVICES];
    for (int i = 0; i < count; ++i) {
        runners[i] =
            (gd_runner){.errand = errand, .context = context, .number = i, .failed = failed};
        runners[i].begun = i > 0 && pthread_create(&runners[i].thread, NULL, run, &runners[i]) == 0;
    }
    for (int i = 0; i < count; ++i) {
        if (!runners[i].begun) {
            run(&runners[i]);
        }
    }
    for (int i = 0; i < count; ++i) {
        if (runners[i].begun) {
            pthread_join(runners[i].thread, NULL);
        }
    }
    const int first = atomic_load(failed);
    if (first == 0) {
        return GD_OK;
    }
    *err = runners[first - 1].err;
    return runners[first - 1].status;
}
