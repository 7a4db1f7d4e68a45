/* SPDX-License-Identifier: MIT */
/* Parameter groups of a rule: patterns of names of variables, and the settings of those that
   match. */
#ifndef COPSE_RULE_GROUPS_H
#define COPSE_RULE_GROUPS_H

#include "copse/optim/groups.h"
#include "core/graph/op.h"

#define COPSE_RULE_GROUPS  32u  /* patterns */
#define COPSE_RULE_PATTERN 64   /* bytes, with the zero */
#define COPSE_GROUPS_TEXT  4096 /* bytes of all of them as text, with the zero */

/* The learning rate of factor k is step word RATE + COPSE_STEP_GROUP + k; SHRINK + COPSE_STEP_GROUP
   + k is made from it. */
#define COPSE_RULE_RATES 8u
_Static_assert(COPSE_STEP_RATE + COPSE_RULE_RATES <= COPSE_STEP_SHRINK &&
                   COPSE_STEP_GROUP + COPSE_STEP_RATE > COPSE_STEP_SHRINK &&
                   COPSE_STEP_GROUP + COPSE_STEP_SHRINK + COPSE_RULE_RATES <= COPSE_STEP_WORDS,
               "words do not overlap");

struct copse_rule_group {
    char pattern[COPSE_RULE_PATTERN];
    float factor; /* on the learning rate; 0: the group has none */
    float decay;
    bool has_decay, is_frozen;
};

struct copse_rule_groups {
    struct copse_rule_group at[COPSE_RULE_GROUPS];
    uint32_t count;
    float factors[COPSE_RULE_RATES]; /* that differ */
    uint32_t factor_count;
};

/* Read a description; NULL: none. COPSE_ERR_ARGUMENT quotes what is wrong. */
copse_status copse__groups_parse(const char *text, struct copse_rule_groups *out);
/* All of them in one line, with a canonical spelling. Returns `text`. */
char *copse__groups_text(const struct copse_rule_groups *g, char text[COPSE_GROUPS_TEXT]);
/* The number of the first group that matches, or `count`. */
uint32_t copse__groups_find(const struct copse_rule_groups *g, const char *name);
/* What a kernel adds to the index of a step word: the place of the group's rate. 0: it has no
   factor. */
uint32_t copse__groups_offset(const struct copse_rule_groups *g, uint32_t group);
/* COPSE_ERR_ARGUMENT for a pattern that matches none of the names; the text lists close ones. */
copse_status copse__groups_check(const struct copse_rule_groups *g, const char *const *names,
                                 size_t count);

#endif
