/* SPDX-License-Identifier: MIT */
/* Input plans as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "core/data/input/input_plan.h"

/* Output of text: its full length is counted, and it is stored up to the size of the buffer. */
struct writer {
    char *text;
    size_t room, length;
};

COPSE_PRINTF(2, 3) static void input_write_put(struct writer *w, const char *fmt, ...)
{
    bool has_room = w->length < w->room;
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(has_room ? w->text + w->length : NULL, has_room ? w->room - w->length : 0,
                      fmt, args);
    va_end(args);
    w->length += n > 0 ? (size_t)n : 0;
}

static void put_string(struct writer *w, const char *s)
{
    input_write_put(w, "\"");
    for (; *s != 0; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            input_write_put(w, "\\%c", c);
        else if (c < 0x20)
            input_write_put(w, "\\u%04x", c);
        else
            input_write_put(w, "%c", c);
    }
    input_write_put(w, "\"");
}

static void put_known(struct writer *w, bool is_known, uint64_t n)
{
    if (is_known)
        input_write_put(w, "%" PRIu64, n);
    else
        input_write_put(w, "null");
}

static void text_of_pipeline(const copse_input_plan *plan, uint32_t w, uint64_t steps,
                             struct writer *to)
{
    struct copse_schedule s = copse__input_plan_schedule(plan, w);
    uint64_t all = s.rows > 0 ? copse__schedule_steps(&s) : 0;
    const char *path;
    size_t index;

    input_write_put(to, "pipeline %u: ", w);
    if (s.rows > 0)
        input_write_put(to, "%" PRIu64 " row%s, %" PRIu64 " step%s of %u minibatch%s\n", s.rows,
                        copse__plural(s.rows), all, copse__plural(all), s.replicas,
                        s.replicas == 1 ? "" : "es");
    else
        input_write_put(to, "rows not known, steps of %u minibatch%s\n", s.replicas,
                        s.replicas == 1 ? "" : "es");
    for (size_t i = 0; (path = copse_input_plan_file(plan, w, i, &index)) != NULL; i++)
        input_write_put(to, "  file %zu: %s\n", index, path);
    if (s.every > 1)
        input_write_put(to, "  minibatches %u, %u, %u, ...\n", s.first, s.first + s.every,
                        s.first + 2 * s.every);
    for (uint64_t i = 0; i < all && i < steps; i++) {
        input_write_put(to, "  step %" PRIu64 ":", i);
        for (uint32_t r = 0; r < s.replicas; r++) {
            struct copse_minibatch m = copse__schedule_at(&s, i, r);
            uint64_t first = m.batch * s.batch + m.rows.first;
            if (m.rows.count == 0)
                input_write_put(to, " none");
            else if (m.rows.count == 1)
                input_write_put(to, " %" PRIu64, first);
            else
                input_write_put(to, " %" PRIu64 "-%" PRIu64, first, first + m.rows.count - 1);
        }
        input_write_put(to, "\n");
    }
    if (all > steps)
        input_write_put(to, "  ...\n");
}

static void json_of_pipeline(const copse_input_plan *plan, uint32_t w, uint64_t steps,
                             struct writer *to)
{
    struct copse_schedule s = copse__input_plan_schedule(plan, w);
    uint64_t all = s.rows > 0 ? copse__schedule_steps(&s) : 0;
    const char *path;
    size_t index;

    input_write_put(to, "{\"pipeline\":%u,\"files\":[", w);
    for (size_t i = 0; (path = copse_input_plan_file(plan, w, i, &index)) != NULL; i++) {
        input_write_put(to, "%s{\"index\":%zu,\"path\":", i > 0 ? "," : "", index);
        put_string(to, path);
        input_write_put(to, "}");
    }
    input_write_put(to, "],\"rows\":");
    put_known(to, s.rows > 0, s.rows);
    input_write_put(to, ",\"minibatches\":{\"first\":%u,\"every\":%u},\"steps\":", s.first,
                    s.every);
    put_known(to, s.rows > 0, all);
    /* One list per step, of [first, count] per replica. */
    input_write_put(to, ",\"shards\":[");
    for (uint64_t i = 0; i < all && i < steps; i++) {
        input_write_put(to, "%s[", i > 0 ? "," : "");
        for (uint32_t r = 0; r < s.replicas; r++) {
            struct copse_minibatch m = copse__schedule_at(&s, i, r);
            input_write_put(to, "%s[%" PRIu64 ",%zu]", r > 0 ? "," : "",
                            m.batch * s.batch + m.rows.first, m.rows.count);
        }
        input_write_put(to, "]");
    }
    input_write_put(to, "]}");
}

size_t copse_input_plan_write(const copse_input_plan *plan, copse_input_plan_form form,
                              uint64_t steps, char *text, size_t room)
{
    if (plan == NULL)
        return 0;
    const struct copse_input_plan_params *p = &plan->params;
    struct writer w = { text, room, 0 };
    bool is_json = form == COPSE_INPUT_PLAN_JSON;

    input_write_put(
        &w,
        is_json ? "{\"pipelines\":%u,\"replicas\":%u,\"policy\":\"%s\",\"rule\":\"%s\","
                  "\"batch\":%zu,\"drop_last\":%s,\"reads\":["
                : "%u pipelines, %u replicas, policy %s, rule %s, batch %zu, drop last %s\n",
        p->pipelines, p->replicas, copse_input_policy_name(p->policy),
        copse_shard_rule_name(p->rule), p->batch, p->drop_last ? "true" : "false");
    for (uint32_t i = 0; i < p->pipelines; i++) {
        if (!is_json) {
            text_of_pipeline(plan, i, steps, &w);
            continue;
        }
        input_write_put(&w, "%s", i > 0 ? "," : "");
        json_of_pipeline(plan, i, steps, &w);
    }
    if (is_json)
        input_write_put(&w, "]}");
    return w.length;
}
