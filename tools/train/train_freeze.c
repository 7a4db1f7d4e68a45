/* SPDX-License-Identifier: MIT */
/* Fine-tuning in `copse train`: --freeze and --body-lr as parameter groups of the optimizer. */
#include <stdio.h>
#include <string.h>

#include "copse/optim/groups.h"
#include "copse/train/fine_tune.h"

#include "tools/train/train_run.h"

#define BODY "body" /* of --freeze: all variables but the head */

/* The next pattern of a list, without spaces around it. `at` moves to its end. */
static size_t next_pattern(const char **at, const char **pattern)
{
    *pattern = *at + strspn(*at, " ");
    size_t length = strcspn(*pattern, ",");
    *at = *pattern + length + ((*pattern)[length] == ',');
    while (length > 0 && (*pattern)[length - 1] == ' ')
        length--;
    return length;
}

static bool is_body(const char *pattern, size_t length)
{
    return length == strlen(BODY) && strncmp(pattern, BODY, length) == 0;
}

static bool freezes_body(const char *list)
{
    const char *pattern;
    while (list && *list) {
        const size_t length = next_pattern(&list, &pattern);
        if (is_body(pattern, length))
            return true;
    }
    return false;
}

const char *freeze_check(const struct train_settings *s)
{
    if (s->freeze && (!*s->freeze || strpbrk(s->freeze, ":;")))
        return "--freeze: give names or patterns of variables, as \"conv*,dense1.*\", or body, all "
               "but the last layer";
    if (s->body_lr != UNSET_BODY && !(s->body_lr > 0.0f))
        return "--body-lr: must be greater than 0; --freeze body keeps the layers as they are";
    if (s->body_lr != UNSET_BODY && freezes_body(s->freeze))
        return "--body-lr and --freeze body: a frozen body has no rate; leave one of the two out";
    if (s->groups && (s->body_lr != UNSET_BODY || freezes_body(s->freeze)))
        return "--body-lr and --freeze body make groups of all variables: leave --group out, or "
               "write them as --group \"PATTERN: rate=FACTOR\" and --freeze PATTERN";
    return NULL;
}

/* ---- groups ---- */

struct groups {
    char *text;
    size_t room, used;
};

static void groups_add(struct groups *g, const char *text, size_t length)
{
    if (g->used + length < g->room) {
        memcpy(g->text + g->used, text, length);
        g->text[g->used + length] = '\0';
    }
    g->used += length;
}

static void add_frozen(struct groups *g, const char *list)
{
    const char *pattern;
    while (list && *list) {
        const size_t length = next_pattern(&list, &pattern);
        if (is_body(pattern, length))
            continue;
        groups_add(g, pattern, length);
        groups_add(g, ": frozen; ", strlen(": frozen; "));
    }
}

/* The head has the rate itself; `*` matches all others. */
static void add_head(const struct run *r, struct groups *g)
{
    size_t count;
    copse_variable *const *head = copse_model_head(r->model.model, &count);
    for (size_t i = 0; i < count; i++) {
        const char *name = copse_variable_name(head[i]);
        if (!copse_variable_is_trained(head[i]))
            continue;
        groups_add(g, name, strlen(name));
        groups_add(g, ": rate=1; ", strlen(": rate=1; "));
    }
}

/* Whether a variable of the body trains. */
static bool body_trains(const struct run *r, const char *groups)
{
    size_t all, head;
    copse_variable *const *list = copse_model_variables(r->model.model, &all);
    copse_model_head(r->model.model, &head);
    for (size_t i = 0; i < all - head; i++)
        if (copse_variable_is_trained(list[i]) &&
            !copse_parameter_groups_freezes(groups, copse_variable_name(list[i])))
            return true;
    return false;
}

copse_status freeze_groups(const struct run *r, char *text, size_t room)
{
    const struct train_settings *s = &r->settings;
    struct groups g = { text, room, 0 };
    char rate[48];
    text[0] = '\0';
    add_frozen(&g, s->freeze);
    if (s->body_lr != UNSET_BODY && g.used < room && !body_trains(r, text))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--body-lr: no layer but the last one trains: leave it out");
    if (freezes_body(s->freeze) && g.used < room && !body_trains(r, text))
        return session_set_error(COPSE_ERR_ARGUMENT, "--freeze body: no layer but the last one "
                                                     "trains: leave body out");
    if (s->groups)
        groups_add(&g, s->groups, strlen(s->groups));
    if (s->body_lr != UNSET_BODY || freezes_body(s->freeze))
        add_head(r, &g);
    snprintf(rate, sizeof rate, "*: rate=%.9g", (double)s->body_lr / (double)s->lr);
    if (s->body_lr != UNSET_BODY)
        groups_add(&g, rate, strlen(rate));
    if (freezes_body(s->freeze))
        groups_add(&g, "*: frozen", strlen("*: frozen"));
    return g.used < room
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT,
                                   "--freeze and --group: these are more than %zu bytes", room);
}

copse_status freeze_explain(const struct run *r, copse_status status)
{
    static const char library[] = "optimizer: groups: ";
    char text[1000];
    const char *at = strstr(session_plain(text, sizeof text, copse_last_error()), library);
    return !r->settings.freeze || !at
               ? status
               : session_set_error(status, "%s: %s",
                                   r->settings.groups ? "--freeze or --group" : "--freeze",
                                   at + strlen(library));
}

void freeze_show(const struct run *r, const char *groups)
{
    size_t count, frozen = 0, trained = 0;
    uint64_t all = 0, kept = 0;
    copse_variable *const *list = copse_model_variables(r->model.model, &count);
    if (!r->settings.freeze)
        return;
    for (size_t i = 0; i < count; i++) {
        const copse_shape shape = copse_variable_shape(list[i]);
        uint64_t elements = 1;
        for (uint32_t k = 0; k < shape.rank; k++)
            elements *= shape.dims[k];
        if (!copse_variable_is_trained(list[i]))
            continue;
        trained++;
        all += elements;
        if (!copse_parameter_groups_freezes(groups, copse_variable_name(list[i])))
            continue;
        frozen++;
        kept += elements;
    }
    printf("frozen   %zu of %zu variables, %llu of %llu parameters\n", frozen, trained,
           (unsigned long long)kept, (unsigned long long)all);
}

/* Whether --init gave it values. */
static bool is_taken(const struct run *r, const char *name)
{
    for (size_t i = 0; i < r->taken_count; i++)
        if (strcmp(r->taken[i], name) == 0)
            return true;
    return false;
}

copse_status freeze_warn(const struct run *r)
{
    const struct train_settings *s = &r->settings;
    const char *first = NULL, *option = s->freeze ? "--freeze" : "--group";
    char groups[4096], name[300];
    size_t count, layers = 0;
    copse_variable *const *list = copse_model_variables(r->model.model, &count);
    if ((!s->freeze && !s->groups) || r->progress.resumed_step > 0 || is_silent(r) || r->fold > 1)
        return COPSE_OK;
    COPSE_TRY(freeze_groups(r, groups, sizeof groups));
    for (size_t i = 0; i < count; i++) {
        const char *is = copse_variable_name(list[i]);
        if (copse_variable_shape(list[i]).rank < 2 || !copse_variable_is_trained(list[i]) ||
            !copse_parameter_groups_freezes(groups, is) || is_taken(r, is))
            continue; /* a bias or a scale has no random values */
        layers++;
        first = first ? first : is;
    }
    if (!first)
        return COPSE_OK;
    const char *dot = strrchr(first, '.');
    snprintf(name, sizeof name, "%.*s", (int)(dot ? (size_t)(dot - first) : strlen(first)), first);
    fprintf(stderr, "copse: warning: %s: %s", option, session_shown(name));
    if (layers > 1)
        fprintf(stderr, " and %zu more are frozen with their initial random values; ", layers - 1);
    else
        fprintf(stderr, " is frozen with its initial random values; ");
    if (s->init)
        fprintf(stderr, "'%s' has none for %s: do not freeze %s\n", s->init,
                layers > 1 ? "them" : "it", layers > 1 ? "them" : "it");
    else
        fprintf(stderr, "start from trained ones with --init FILE, or do not freeze %s\n",
                layers > 1 ? "them" : "it");
    return COPSE_OK;
}
