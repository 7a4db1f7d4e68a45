/* SPDX-License-Identifier: MIT */
/* Update rules as commands over a range: the kernel, its parameters, the number of slots. */
#ifndef COPSE_RULE_H
#define COPSE_RULE_H

#include "copse/optimizer.h"
#include "core/graph/op.h"

struct copse_rule {
    struct copse_optimizer_params params; /* with defaults */
    uint32_t slots;                       /* words per element: the slots of the update, then the average */
    uint32_t update_slots;                /* only the slots of the update */
    const char *slot_names[3];            /* in a checkpoint: "<variable>/<name>" */
};

/* Check the settings and set the defaults. COPSE_ERR_ARGUMENT names the setting. */
copse_status copse__rule_init(const struct copse_optimizer_params *params, struct copse_rule *out);

/* "adam", ... Static. */
const char *copse__rule_name(const struct copse_rule *rule);

/* The dispatch that updates `count` elements. `slots` may be empty if rule->slots is 0. */
copse_status copse__rule_command(const struct copse_rule *rule, copse_device *dev,
                                 const struct copse_binding *values,
                                 const struct copse_binding *gradients,
                                 const struct copse_binding *slots,
                                 const struct copse_binding *step, uint64_t count,
                                 struct copse_command *out);

/* The dispatch after it that updates the moving averages, which are the last slot; of a rule with `average`. */
copse_status copse__rule_average(const struct copse_rule *rule, copse_device *dev, const struct copse_binding *values,
                                 const struct copse_binding *slots, const struct copse_binding *step,
                                 uint64_t count, struct copse_command *out);
/* The dispatch before it that clips each element; of a rule with `clip_value`. */
copse_status copse__rule_clip(const struct copse_rule *rule, copse_device *dev,
                              const struct copse_binding *gradients, const struct copse_binding *step,
                              uint64_t count, struct copse_command *out);

/* Set the step words that depend on the rule: rate and bias corrections of a step (from 1). */
void copse__rule_step(const struct copse_rule *rule, uint64_t step, uint32_t words[]);
/* The same for a rule that may have a schedule: `owner` is the object of the call in progress; the schedule must not
   call functions on it (core/base/callback.h). */
copse_status copse__rule_step_of(const struct copse_rule *rule, const void *owner, uint64_t step, uint32_t words[]);

#endif
