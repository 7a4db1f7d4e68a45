/* SPDX-License-Identifier: MIT */
/* Update rules as commands over a range: the kernel, its parameters, the number of slots. */
#ifndef COPSE_RULE_H
#define COPSE_RULE_H

#include "core/rule/groups.h"
#include "core/rule/rows.h"

/* elements of an invocation: a group of 64 then takes about 10 us on a CPU */
#define COPSE_RULE_PER   32
#define COPSE_RULE_BLOCK 128u /* elements that share a sum of squares and a factor */

/* What a slot has of a range of elements, which begins with a block. */
enum copse_slot_kind {
    COPSE_SLOT_FLOATS, /* a float for each element */
    COPSE_SLOT_CODES,  /* a byte for each element; the next slot has their scales */
    COPSE_SLOT_SCALES, /* a float for each block */
};

struct copse_rule {
    struct copse_optimizer_params params; /* with defaults */
    const struct copse_rule_row *row;
    uint32_t slots;        /* those of the update, then the average */
    uint32_t update_slots; /* only the slots of the update */
    /* the gradients are measured before the update: they are clipped or scaled */
    bool clips;
    /* each variable's update depends on its norms: LARS, LAMB */
    bool trusts;
    bool measures;                            /* one of both: the host waits before the update */
    const char *slot_names[COPSE_RULE_SLOTS]; /* in a checkpoint: "<variable>/<name>" */
    float slot_starts[COPSE_RULE_SLOTS];      /* first values; 0 unless the slot has floats */
    uint8_t slot_kinds[COPSE_RULE_SLOTS];     /* enum copse_slot_kind */
    struct copse_rule_groups groups;
    uint32_t group; /* what the kernel adds to the index of the step word of the rate */
};

/* Check the settings and set the defaults. COPSE_ERR_ARGUMENT names the setting. */
COPSE_PRIVATE copse_status copse__rule_init(const struct copse_optimizer_params *params,
                                            struct copse_rule *out);

/* The rule of the variables of a group. */
void copse__rule_of_group(const struct copse_rule *rule, uint32_t group, struct copse_rule *out);

/* COPSE_ERR_UNSUPPORTED for a rule, or settings of it, without a sparse form; `name` is of the
   variable whose gradients are rows. */
copse_status copse__rule_takes_rows(const struct copse_rule *rule, const char *name);

/* "adam", ... Static. */
const char *copse__rule_name(const struct copse_rule *rule);

/* Words of a slot for `count` elements; of all slots before it. The slots of a range are one behind
   another. */
COPSE_PRIVATE uint64_t copse__rule_slot_words(const struct copse_rule *rule, uint32_t slot,
                                              uint64_t count);
COPSE_PRIVATE uint64_t copse__rule_slot_at(const struct copse_rule *rule, uint32_t slot,
                                           uint64_t count);
/* Of all slots. */
static inline uint64_t copse__rule_words_of(const struct copse_rule *rule, uint64_t count)
{
    return copse__rule_slot_at(rule, rule->slots, count);
}

/* The dispatch that updates `count` elements. `slots` may be empty if rule->slots is 0; `factors`:
   of a rule that trusts, a float for each block, else NULL. */
COPSE_PRIVATE copse_status copse__rule_command(const struct copse_rule *rule, copse_device *dev,
                                               const struct copse_binding *values,
                                               const struct copse_binding *gradients,
                                               const struct copse_binding *slots,
                                               const struct copse_binding *step,
                                               const struct copse_binding *factors, uint64_t count,
                                               struct copse_command *out);

/* The dispatch after it that updates the moving averages, which are the last slot; of a rule with
   `average`. */
copse_status copse__rule_average(const struct copse_rule *rule, copse_device *dev,
                                 const struct copse_binding *values,
                                 const struct copse_binding *slots,
                                 const struct copse_binding *step, uint64_t count,
                                 struct copse_command *out);
/* The dispatch before it that clips each element; of a rule with `clip_value`. */
copse_status copse__rule_clip(const struct copse_rule *rule, copse_device *dev,
                              const struct copse_binding *gradients,
                              const struct copse_binding *step, uint64_t count,
                              struct copse_command *out);

/* The dispatch that measures `count` elements: for each block of COPSE_RULE_BLOCK, `parts` receives
   s and a power of two u. The sum of the squares is s u^2; s is not finite if an element is not. */
copse_status copse__rule_measure(copse_device *dev, const struct copse_binding *gradients,
                                 const struct copse_binding *parts, uint64_t count,
                                 struct copse_command *out);
/* The same on the host, with the same bits. */
void copse__rule_measure_host(const float *gradients, uint64_t count, float *parts);
/* A rule that trusts: `out` gets two dispatches that measure what the factor depends on. parts[0]:
   the gradient (LARS) or the update (LAMB); parts[1]: the values. */
COPSE_PRIVATE copse_status copse__rule_measure_trust(
    const struct copse_rule *rule, copse_device *dev, const struct copse_binding *values,
    const struct copse_binding *gradients, const struct copse_binding *slots,
    const struct copse_binding *step, const struct copse_binding parts[2], uint64_t count,
    struct copse_command out[2]);
/* The factor of a variable: `first` and `values` are the norms that those parts give, `scale` is
   that of the gradients. */
COPSE_PRIVATE float copse__rule_trust(const struct copse_rule *rule, double first, double values,
                                      float scale);
/* The dispatch that multiplies each block by its factor, a float. */
copse_status copse__rule_scale(copse_device *dev, const struct copse_binding *factors,
                               const struct copse_binding *gradients, uint64_t count,
                               struct copse_command *out);

/* All settings of an optimizer as lines of text, for comparison between workers. Returns `text`. */
#define COPSE_RULE_TEXT 512
char *copse__rule_text(const struct copse_optimizer_params *params, char text[COPSE_RULE_TEXT]);

/* Set the step words that depend on the rule: rate, bias corrections and other factors of a step
   (from 1). */
COPSE_PRIVATE void copse__rule_step(const struct copse_rule *rule, uint64_t step, uint32_t words[]);
/* The same with a rate that is given. */
void copse__rule_words(const struct copse_rule *rule, uint64_t step, float rate, uint32_t words[]);
/* The same for a rule that may have a schedule: `owner` is the object of the call in progress; the
   schedule must not call functions on it (core/base/callback.h). */
copse_status copse__rule_step_of(const struct copse_rule *rule, const void *owner, uint64_t step,
                                 uint32_t words[]);

#endif
