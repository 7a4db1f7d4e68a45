/* SPDX-License-Identifier: MIT */
/* The table of update rules: a rule is a row here, its part of a kernel in kernels/rule, the host
   function of that kernel, and its definition in double precision
   (prover/conformance/modes/opt_rules.c). docs/optimizers.md says how to add one. */
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
    COPSE_HAS_IN_ROOT = 64,
};

/* When a rule has a slot. */
enum copse_slot_need { COPSE_SLOT_ALWAYS, COPSE_SLOT_CENTRED, COPSE_SLOT_MOMENTUM };

/* Gradients of rows: how the rule treats a row of a variable that no list of the step names. */
enum copse_row_form {
    COPSE_ROWS_NONE,  /* not: it has no sparse form */
    COPSE_ROWS_EXACT, /* as a gradient of 0, which changes nothing */
    COPSE_ROWS_LAZY,  /* not at all, where a gradient of 0 would change slots and values */
};

/* How a kernel applies weight decay: values of SPEC DECAY. */
enum copse_decay {
    COPSE_DECAY_NONE,
    COPSE_DECAY_GRADIENT, /* adds decay p to the gradient */
    COPSE_DECAY_APART,    /* subtracts rate decay p from p */
};

/* All numbers of the update of a range; each kernel takes its part. */
struct copse_update_numbers {
    uint32_t n, group;
    float decay, momentum, beta1, beta2, rest1, rest2, epsilon, l1, l2;
    int32_t number;         /* of the row */
    enum copse_decay apply; /* of `decay` */
    bool is_centred, has_momentum, is_in_root;
};

/* A kernel of update rules: one constant copse_rule_kernel_<kernel>, beside its host function. */
struct copse_rule_kernel {
    enum copse_kernel_id id;
    /* Set the parameters, and the constants of the kernel's own: of those behind PER and RUNS. */
    void (*take)(const struct copse_update_numbers *s, void *params, int32_t *spec);
    /* Set more words of a step (from 1). NULL = none. */
    void (*words)(const struct copse_optimizer_params *p, uint64_t step, uint32_t words[]);
    /* The slots are codes and scales in turn, and a group updates a block; no PER and RUNS. */
    bool is_coded;
    bool trusts; /* the update depends on norms: the first buffer is a factor for each block */
};

struct copse_rule_row {
    struct copse_optimizer_rule info;
    enum copse_row_form rows; /* the one place where a rule gets a sparse form */
    const struct copse_rule_kernel *kernel;
    /* kernels `adaptive` and `trust`: RULE; `sgd`: PROXIMAL; `momentum`: NESTEROV */
    int32_t number;
    bool decays_apart; /* weight decay is COPSE_DECAY_APART */
    unsigned has;      /* COPSE_HAS_* */
    struct {
        const char *name; /* in a checkpoint: "<variable>/<name>" */
        enum copse_slot_need need;
        bool is_initial; /* begins with the setting `initial`, not with 0 */
    } slots[COPSE_RULE_OWN_SLOTS];
};

/* NULL: there is no such kind. */
COPSE_PRIVATE const struct copse_rule_row *copse__rule_row(copse_optimizer_kind kind);

#endif
