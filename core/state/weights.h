/* SPDX-License-Identifier: MIT */
/* Weights: the variables of a strategy and a file of arrays, matched by name. Everything is checked
   and converted in host memory before a variable changes. */
#ifndef COPSE_WEIGHTS_H
#define COPSE_WEIGHTS_H

#include "copse/train/weights.h"
#include "core/state/state.h"

struct copse_weights {
    /* set before: names of variables begin with "<scope>/", and names in the file with
       "<scope_in_file>/"; "": with nothing. NULL: names are equal */
    const char *scope, *scope_in_file;
    struct copse_state state;        /* entries with data are those that match */
    struct copse_load_report report; /* names live as long as `state` */
};

/* Whether a variable takes this array: a copse_wants_fn. */
bool copse__weights_want(const copse_strategy *st, const struct copse_named_array *array);
/* `w` is zero before, but for the scopes. `list`: the variables; NULL: all of the strategy. The file and its path
   outlive `w`. */
copse_status copse__weights_match(struct copse_weights *w, copse_strategy *st,
                                  copse_variable *const *list, size_t count, const char *path,
                                  const copse_checkpoint *file,
                                  const struct copse_load_params *params);
/* Set the variables that match. */
copse_status copse__weights_write(struct copse_weights *w);
/* Allowed on a zeroed struct. */
void copse__weights_end(struct copse_weights *w);

#endif
