/* SPDX-License-Identifier: MIT */
/* What the commands of the parity program share. */
#ifndef PARITY_H
#define PARITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/compat/replicated.h"
#include "copse/copse.h"
#include "tests/rig/data/batch_rig.h"

#define MAX_RANKS  8u
#define MAX_ARRAYS 8u

/* One array of a request. */
struct array {
    copse_type type;
    copse_shape shape;
    size_t count; /* elements */
    void *values;
};

/* What stands between requests. */
struct parity {
    copse_context *ctx;
    copse_strategy *st;
    copse_tower_optimizer *tower;
    copse_trainer *trainer;
    copse_variable *weights[6]; /* of the network */
    bool is_normalised;
};

/* A request: its words behind the first one, and the arrays behind those. */
struct request {
    char *words[16];
    size_t word_count;
    struct array arrays[MAX_ARRAYS];
    size_t array_count;
};

typedef copse_status command_fn(struct parity *p, const struct request *r);

/* Each puts its answer together with say_array and say_value. */
command_fn reduce_command, run_command, merge_command, all_reduce_command;
command_fn variable_command, replica_command, cross_command, update_command, read_command;
command_fn components_command, scatter_command;
command_fn optimizer_command, apply_command, network_command, step_command, save_command,
    restore_command;
command_fn split_command, clip_command;

/* An error of the request itself; never the status of a documented refusal. */
copse_status malformed(const char *what);
/* Place of a word in a list that ends with NULL; `count` of them when it is not there. */
size_t place_of(const char *word, const char *const *list);
copse_variable *find_variable(const struct parity *p, const char *name);
/* A value of an array: in a replica on its device, else on the host. */
copse_status value_of(const struct parity *p, const struct array *a, copse_value **out);
/* One component per replica, each on its device. */
copse_status per_replica_of(const struct parity *p, const struct array *list, size_t count,
                            copse_value **out);

copse_status say_array(copse_type type, copse_shape shape, const void *values);
copse_status say_number(double x);
/* An array, or the components of a distributed value. */
copse_status say_value(copse_value *v);

#endif
