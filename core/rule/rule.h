/* SPDX-License-Identifier: MIT */
/* Update rules as commands over a range: which kernel, which parameters, how many slots. */
#ifndef COPSE_RULE_H
#define COPSE_RULE_H

#include "copse/optimizer.h"
#include "core/graph/op.h"

struct copse_rule {
    struct copse_optimizer_params params; /* defaults filled in */
    uint32_t slots;                       /* words per element */
    const char *slot_names[2];            /* in a checkpoint: "<variable>/<name>" */
};

/* Check the settings and fill in the defaults. COPSE_ERR_ARGUMENT names the setting. */
copse_status copse__rule_init(const struct copse_optimizer_params *params, struct copse_rule *out);

/* "adam", ... Static. */
const char *copse__rule_name(const struct copse_rule *rule);

/* The dispatch that updates `count` elements. `slots` may be empty when rule->slots is 0. */
copse_status copse__rule_command(const struct copse_rule *rule, copse_device *dev,
                                 const struct copse_binding *values,
                                 const struct copse_binding *gradients,
                                 const struct copse_binding *slots,
                                 const struct copse_binding *step, uint64_t count,
                                 struct copse_command *out);

/* Fill the step words that depend on the rule: rate and bias corrections of a step (from 1). */
void copse__rule_step(const struct copse_rule *rule, uint64_t step, uint32_t words[]);

#endif
