/* options.h: the launch parameters that a caller sets, held against those of a row. */
#ifndef GPUDIST_OPTIONS_H
#define GPUDIST_OPTIONS_H

#include "gpudist.h"

/* What a caller wants of one option. Longer names are cut, and so are no option's. */
typedef struct gd_setting {
    char name[32];
    long long value;
} gd_setting;

typedef struct gd_settings {
    gd_setting setting[GD_MOST_OPTIONS];
    int count;
} gd_settings;

/* How many options the row has. */
int gd_option_count(const gd_kernel *kernel);

/* Fills *options: the row's standard values but for those of `settings`. A name that the row does
 * not have, or a value outside of what it takes, is a GD_BAD_VALUE. */
gd_status gd_apply_settings(const gd_kernel *kernel, const gd_settings *settings,
                            gd_options *options, gd_error *err);

#endif
