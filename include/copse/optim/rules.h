/* SPDX-License-Identifier: MIT */
/** @file
 * The update rules of the library by name, with their slots, defaults and sources.
 */
#ifndef COPSE_PUBLIC_OPTIM_RULES_H
#define COPSE_PUBLIC_OPTIM_RULES_H

#include <stddef.h>

#include "copse/optimizer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** An update rule. All texts are static. */
struct copse_optimizer_rule {
    copse_optimizer_kind kind;
    /** "adagrad"; the `--optimizer` of `copse train` and the `optimizer` of the Python package */
    const char *name;
    const char *title;  /**< "Adagrad" */
    const char *source; /**< where the formula comes from */
    /** names of the words per element that the rule keeps, separated by spaces; in brackets those
       that a setting adds: "v [mean] [momentum]". "" if it keeps none */
    const char *slots;
    float learning_rate, momentum, beta1, beta2, epsilon, initial, momentum_decay,
        trust;            /**< defaults; 0: not used, or off */
    uint64_t reserved[4]; /**< 0 */
};

/** The rule with this number, in the order of copse_optimizer_kind; NULL behind the last one.
    Static. Any thread. */
COPSE_API const struct copse_optimizer_rule *copse_optimizer_rule_at(size_t index);

/**
 * Find a rule by name.
 *
 * @param name  As "adam".
 * @param out   Static.
 * @return COPSE_ERR_ARGUMENT if there is no such rule; the text lists the names.
 */
COPSE_API COPSE_CHECKED copse_status
copse_optimizer_rule_find(const char *name, const struct copse_optimizer_rule **out);

#if defined(__cplusplus)
}
#endif
#endif
