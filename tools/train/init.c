/* SPDX-License-Identifier: MIT */
/* `copse train --init`: the run starts from the weights of a file, matched by name. */
#include <stdio.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/train/weights.h"

#include "tools/common/json.h"
#include "tools/train/init_choice.h"

#define SHOWN 8 /* names in a line */

static void print_names(const char *what, const char *const *names, size_t count)
{
    char plain[1100];
    for (size_t i = 0; i < count && i < SHOWN; i++)
        printf("%s%s", i ? ", " : what, session_plain(plain, sizeof plain, names[i]));
    if (count > SHOWN)
        printf(" and %zu more", count - SHOWN);
    if (count > 0)
        printf("\n");
}

static copse_status add_names(cJSON *o, const char *key, const char *const *names, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (size_t i = 0; list && i < count; i++)
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(names[i])))
            list = NULL;
    return list ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a line of JSON");
}

/* The reason for the first of the variables that are not taken; "": all are. */
static const char *init_why(const struct init_choice *c, const struct copse_load_report *l)
{
    return l->skipped_count > 0 ? init_choice_why(c, l->skipped[0]) : "";
}

static copse_status print_event(const char *path, const struct copse_load_report *l,
                                const struct init_choice *c)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "init");
    json_add_text(o, "path", path);
    copse_status s = add_names(o, "matched", l->matched, l->matched_count);
    if (s == COPSE_OK)
        s = add_names(o, "skipped", l->skipped, l->skipped_count);
    json_add_text(o, "why", init_why(c, l));
    if (s == COPSE_OK)
        s = add_names(o, "missing", l->missing, l->missing_count);
    if (s == COPSE_OK)
        s = add_names(o, "unused", l->unused, l->unused_count);
    json_add_count(o, "converted", l->converted);
    if (s == COPSE_OK)
        return json_print(o);
    cJSON_Delete(o);
    return s;
}

/* A line for each reason. */
static void print_skipped(const struct init_choice *c, const char *const *names, size_t count)
{
    char what[480];
    for (size_t end = 0, i = 0; i < count; i = end) {
        const char *reason = init_choice_why(c, names[i]);
        while (end < count && init_choice_why(c, names[end]) == reason)
            end++;
        snprintf(what, sizeof what, "         not taken, because %s: ", reason);
        print_names(what, names + i, end - i);
    }
}

static void print_report(const char *path, const struct copse_load_report *l,
                         const struct init_choice *c)
{
    printf("init     %s: %zu of %zu variables", path, l->matched_count,
           l->matched_count + l->missing_count + l->skipped_count);
    if (l->converted > 0)
        printf(", %zu converted to f32", l->converted);
    printf("\n");
    print_names("         set: ", l->matched, l->matched_count);
    print_skipped(c, l->skipped, l->skipped_count);
    if (!c->has_schema)
        printf("         the file has no schema: only shapes were compared\n");
    print_names("         not in the file: ", l->missing, l->missing_count);
    print_names("         not used: ", l->unused, l->unused_count);
    printf("\n");
}

copse_status run_init(struct run *r)
{
    const struct train_settings *s = &r->settings;
    struct init_choice choice;
    const struct copse_load_params params = { .layout =
                                                  (copse_weight_layout)s->init_layout.at->value,
                                              .choose = init_choice,
                                              .user = &choice };
    struct copse_load_report report;
    if (!s->init)
        return COPSE_OK;
    if (s->is_resume && run_has_servers(r)) /* the other workers wait for one of the two only */
        return session_set_error(COPSE_ERR_UNSUPPORTED,
                                 "--init and --resume: with parameter servers give one of the two");
    init_choice_begin(&choice, r->ctx, r->strategy, copse_dataset_schema(r->all));
    const copse_status status = copse_trainer_load(r->trainer, s->init, &params, &report);
    if (status == COPSE_ERR_ARGUMENT && choice.skips_head &&
        choice.head_count == choice.variable_count)
        return session_set_error(status, "--init: nothing of '%s' fits: %s", s->init,
                                 choice.why_head);
    if (status != COPSE_OK) {
        char text[1000];
        session_plain(text, sizeof text, copse_last_error());
        return session_set_error(status, "--init: %s%s", text,
                                 strstr(text, "PyTorch") ? " (--init-layout copse or torch)" : "");
    }
    if (r->is_recovering || report.matched_count == 0) /* a worker beside the chief */
        return COPSE_OK;
    if (is_json(r))
        return print_event(s->init, &report, &choice);
    if (is_talking(r))
        print_report(s->init, &report, &choice);
    return COPSE_OK;
}
