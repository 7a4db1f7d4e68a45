/* SPDX-License-Identifier: MIT */
/* Contexts of input pipelines; names of rules and policies. */
#include "core/data/input/input_plan.h"

static const char *const rules[] = {
    [COPSE_SHARD_BALANCED] = "balanced", [COPSE_SHARD_CEIL] = "ceil",
    [COPSE_SHARD_FIXED] = "fixed",       [COPSE_SHARD_WEIGHTED] = "weighted",
    [COPSE_SHARD_MEASURED] = "measured",
};

static const char *const policies[] = {
    [COPSE_INPUT_AUTO] = "auto",
    [COPSE_INPUT_FILE] = "file",
    [COPSE_INPUT_DATA] = "data",
    [COPSE_INPUT_OFF] = "off",
};

/* Index of `text` in `names`, ignoring case; `count` if absent. */
static size_t input_names_find(const char *const *names, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        const char *a = text, *b = names[i];
        while (*a != 0 && (*a | 32) == *b) { /* only letters: every b is a letter */
            a++;
            b++;
        }
        if (*a == 0 && *b == 0)
            return i;
    }
    return count;
}

const char *copse_shard_rule_name(copse_shard_rule rule)
{
    return (size_t)rule < COPSE_COUNT(rules) ? rules[rule] : "?";
}

const char *copse_input_policy_name(copse_input_policy policy)
{
    return (size_t)policy < COPSE_COUNT(policies) ? policies[policy] : "?";
}

copse_status copse_shard_rule_parse(const char *text, copse_shard_rule *out)
{
    COPSE_TRY(copse_need("input", text, out));
    size_t i = input_names_find(rules, COPSE_COUNT(rules), text);
    if (i == COPSE_COUNT(rules))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "input: no rule '%.32s', there are balanced, ceil, fixed, weighted and measured", text);
    *out = (copse_shard_rule)i;
    return COPSE_OK;
}

copse_status copse_input_policy_parse(const char *text, copse_input_policy *out)
{
    COPSE_TRY(copse_need("input", text, out));
    size_t i = input_names_find(policies, COPSE_COUNT(policies), text);
    if (i == COPSE_COUNT(policies))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: no policy '%.32s', there are auto, file, data and off", text);
    *out = (copse_input_policy)i;
    return COPSE_OK;
}

copse_status copse__input_context(const struct copse_input_context *in,
                                  struct copse_input_context *out)
{
    static const struct copse_input_context defaults = { 0 };

    *out = in != NULL ? *in : defaults;
    if (out->pipelines == 0)
        out->pipelines = 1;
    if (out->replicas == 0)
        out->replicas = out->pipelines;
    if (out->pipeline >= out->pipelines)
        return copse_fail(COPSE_ERR_ARGUMENT, "input: no pipeline %u, there are %u from 0",
                          out->pipeline, out->pipelines);
    if (out->replicas % out->pipelines != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: %u replicas are not the same number for each of %u pipelines",
                          out->replicas, out->pipelines);
    return COPSE_OK;
}

copse_status copse_input_per_replica_batch(const struct copse_input_context *in, size_t global,
                                           size_t *out)
{
    COPSE_TRY(copse_need("input", out));
    COPSE_TRY(copse_no_reserved(copse_input_context, in));
    struct copse_input_context full;

    *out = 0;
    COPSE_TRY(copse__input_context(in, &full));
    if (global == 0 || global % full.replicas != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "input: a batch of %zu is not the same number for each of %u replicas",
                          global, full.replicas);
    *out = global / full.replicas;
    return COPSE_OK;
}
