/* SPDX-License-Identifier: MIT */
/* The table of update rules: a rule is a row here, its part of a kernel in kernels/optim, the host
   function of that kernel, and its definition in double precision
   (prover/conformance/opt_rules.c). */
#ifndef COPSE_RULE_ROWS_H
#define COPSE_RULE_ROWS_H

#include "copse/optim/rules.h"
#include "core/graph/op.h"

#define COPSE_RULE_OWN_SLOTS 4                           /* of the update */
#define COPSE_RULE_SLOTS     (COPSE_RULE_OWN_SLOTS + 1u) /* and the average */

/* Values of SPEC RULE of kernel `adaptive`. */
enum copse_adaptive {
    COPSE_ADAPTIVE_ADAGRAD,
    COPSE_ADAPTIVE_ADADELTA,
    COPSE_ADAPTIVE_RMSPROP,
    COPSE_ADAPTIVE_AMSGRAD,
    COPSE_ADAPTIVE_ADAMAX,
    COPSE_ADAPTIVE_NADAM,
    COPSE_ADAPTIVE_LION,
    COPSE_ADAPTIVE_FTRL,
    COPSE_ADAPTIVE_PROXIMAL,
};

/* Values of SPEC RULE of kernel `trust`. */
enum copse_trust_rule { COPSE_TRUST_LARS, COPSE_TRUST_LAMB };

/* Settings that only some rules have. */
enum {
    COPSE_HAS_INITIAL = 1,
    COPSE_HAS_L1 = 2,
    COPSE_HAS_L2 = 4,
    COPSE_HAS_MOMENTUM_DECAY = 8,
    COPSE_HAS_CENTRED = 16,
    COPSE_HAS_TRUST = 32,
};

/* When a rule has a slot. */
enum copse_slot_need { COPSE_SLOT_ALWAYS, COPSE_SLOT_CENTRED, COPSE_SLOT_MOMENTUM };

/* Gradients of rows: how the rule treats a row of a variable that no list of the step names. */
enum copse_row_form {
    COPSE_ROWS_NONE,  /* not: it has no sparse form */
    COPSE_ROWS_EXACT, /* as a gradient of 0, which changes nothing */
    COPSE_ROWS_LAZY,  /* not at all, where a gradient of 0 would change slots and values */
};

struct copse_rule_row {
    struct copse_optimizer_rule info;
    enum copse_row_form rows; /* the one place where a rule gets a sparse form */
    enum copse_kernel_id kernel;
    /* kernels `adaptive` and `trust`: RULE; `sgd`: PROXIMAL; `momentum`: NESTEROV */
    int32_t number;
    int32_t decay; /* DECAY of a rule with weight decay */
    unsigned has;  /* COPSE_HAS_* */
    struct {
        const char *name; /* in a checkpoint: "<variable>/<name>" */
        enum copse_slot_need need;
        bool is_initial; /* begins with the setting `initial`, not with 0 */
    } slots[COPSE_RULE_OWN_SLOTS];
};

/* NULL: there is no such kind. */
COPSE_PRIVATE const struct copse_rule_row *copse__rule_row(copse_optimizer_kind kind);

#endif
