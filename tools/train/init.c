/* SPDX-License-Identifier: MIT */
/* `copse train --init`: the run starts from the weights of a file, matched by name. */
#include <stdio.h>
#include <string.h>

#include "copse/train/fine_tune.h"

#include "tools/common/json.h"
#include "tools/train/train_run.h"

#define SHOWN 8 /* names in a line */

static size_t layer_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool is_of_layer(const char *name, const char *of)
{
    const size_t n = layer_length(of);
    return layer_length(name) == n && strncmp(name, of, n) == 0;
}

/* Whether these are all variables of a layer. */
static bool is_whole(const struct run *r, const char *of, size_t variables)
{
    size_t all = 0, count;
    copse_variable *const *list = copse_model_variables(r->model.model, &count);
    for (size_t i = 0; i < count; i++)
        all += is_of_layer(copse_variable_name(list[i]), of);
    return all == variables;
}

/* Names of variables, or of layers in the place of all of their variables. */
static void print_layers(const struct run *r, const char *what, const char *const *names,
                         size_t count)
{
    char plain[1100];
    size_t shown = 0;
    for (size_t end, i = 0; i < count; i = end, shown++) {
        for (end = i + 1; end < count && is_of_layer(names[end], names[i]);)
            end++;
        const bool is_layer = is_whole(r, names[i], end - i);
        if (!is_layer)
            end = i + 1;
        session_plain(plain, sizeof plain, names[i]);
        if (shown < SHOWN)
            printf("%s%.*s", shown ? ", " : what,
                   (int)(is_layer ? layer_length(plain) : strlen(plain)), plain);
    }
    if (shown > SHOWN)
        printf(" and %zu more", shown - SHOWN);
}

static copse_status add_names(cJSON *o, const char *key, const char *const *names, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (size_t i = 0; list && i < count; i++)
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(names[i])))
            list = NULL;
    return list ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a line of JSON");
}

static copse_status print_event(const char *path, const struct copse_model_weights *w)
{
    const struct copse_load_report *l = &w->load;
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", "init");
    json_add_text(o, "path", path);
    copse_status s = add_names(o, "matched", l->matched, l->matched_count);
    if (s == COPSE_OK)
        s = add_names(o, "skipped", l->skipped, l->skipped_count);
    json_add_text(o, "why", w->input[0] ? w->input : w->head);
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

/* The variables that were left out: the first layer, then the head. */
static size_t count_input(const struct run *r, const struct copse_model_weights *w)
{
    size_t head, i = 0;
    copse_variable *const *list = copse_model_head(r->model.model, &head);
    const size_t count = w->load.skipped_count;
    if (!w->head[0])
        return count;
    while (i < count && strcmp(w->load.skipped[i], copse_variable_name(list[0])) != 0)
        i++;
    return i;
}

static void print_report(const struct run *r, const char *path, const struct copse_model_weights *w)
{
    const struct copse_load_report *l = &w->load;
    const size_t input = count_input(r, w);
    char plain[500];
    printf("init     %s: took ", path);
    print_layers(r, "", l->matched, l->matched_count);
    printf(" (%zu of %zu variables", l->matched_count,
           l->matched_count + l->missing_count + l->skipped_count);
    if (l->converted > 0)
        printf(", %zu converted to f32", l->converted);
    printf(")");
    if (input > 0) {
        print_layers(r, "; left ", l->skipped, input);
        printf(" new: %s", session_plain(plain, sizeof plain, w->input));
    }
    if (input < l->skipped_count) {
        print_layers(r, "; left the head ", l->skipped + input, l->skipped_count - input);
        printf(" new: %s", session_plain(plain, sizeof plain, w->head));
    }
    if (!w->has_schema)
        printf("; the file has no schema: only shapes were compared");
    printf("\n");
    print_layers(r, "         not in the file: ", l->missing, l->missing_count);
    printf("%s", l->missing_count > 0 ? "\n" : "");
    print_layers(r, "         not used: ", l->unused, l->unused_count);
    printf("%s\n", l->unused_count > 0 ? "\n" : "");
}

copse_status run_init(struct run *r)
{
    const struct train_settings *s = &r->settings;
    const struct copse_load_params params = { .layout =
                                                  (copse_weight_layout)s->init_layout.at->value };
    struct copse_model_weights report;
    if (!s->init)
        return COPSE_OK;
    if (s->is_resume && run_has_servers(r)) /* the other workers wait for one of the two only */
        return session_set_error(COPSE_ERR_UNSUPPORTED,
                                 "--init and --resume: with parameter servers give one of the two");
    const copse_status status =
        copse_model_load_weights(r->model.model, r->trainer, s->init, &params, &report);
    if (status != COPSE_OK) {
        char text[1000];
        session_plain(text, sizeof text, copse_last_error());
        return session_set_error(status, "--init: %s%s", text,
                                 strstr(text, "PyTorch") ? " (--init-layout copse or torch)" : "");
    }
    r->taken = report.load.matched;
    r->taken_count = report.load.matched_count;
    if (r->is_recovering || report.load.matched_count == 0) /* a worker beside the chief */
        return COPSE_OK;
    if (is_json(r))
        return print_event(s->init, &report);
    if (is_talking(r))
        print_report(r, s->init, &report);
    return COPSE_OK;
}
