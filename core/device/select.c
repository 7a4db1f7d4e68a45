/* SPDX-License-Identifier: MIT */
/* copse_select_devices: finds the listed devices that a selector matches. Opens nothing. */
#include <stdio.h>

#include "copse/device/conformance.h"
#include "core/device/choice.h"

struct selection {
    struct copse_context *ctx;
    struct copse_choices *choices; /* NULL: each driver of a physical device counts */
    char (*ids)[32];
    size_t room, count;
    size_t matched; /* usable devices that the words mean, also where another driver is taken */
};

/* The index of a listed device; SIZE_MAX: an application lent it. */
static size_t index_of(const struct copse_context *ctx, const char *id)
{
    for (size_t i = 0; i < ctx->device_count; i++)
        if (strcmp(ctx->devices[i].id, id) == 0)
            return i;
    return SIZE_MAX;
}

static void select_take(struct selection *sel, const struct copse_device_info *d)
{
    const size_t index = index_of(sel->ctx, d->id);
    if (sel->count < sel->room)
        memcpy(sel->ids[sel->count], d->id, sizeof d->id);
    sel->count++;
    if (sel->choices && index != SIZE_MAX)
        sel->choices->at[index].is_selected = true;
}

/* The device that is taken already and is the same physical one, best itself; NULL: none. */
static const char *taken_as(const struct selection *sel, const struct copse_device_info *d)
{
    const struct copse_context *ctx = sel->ctx;
    const size_t index = index_of(ctx, d->id);
    if (index == SIZE_MAX)
        return NULL;
    const struct copse_candidate *at = sel->choices->at;
    if (at[index].is_selected)
        return d->id;
    for (size_t i = 0; i < ctx->device_count; i++)
        if (at[i].is_selected && at[i].physical == at[index].physical)
            return ctx->devices[i].id;
    return NULL;
}

/* copse/device/choice.h has the rules. */
static void take_auto(struct selection *sel, const struct copse_choices *choices)
{
    const struct copse_context *ctx = sel->ctx;
    for (size_t i = 0; i < ctx->device_count; i++) {
        struct copse_device_choice choice;
        copse__choices_judge(choices, i, &choice);
        sel->matched += choice.is_taken;
        if (choice.is_taken && !(sel->choices && taken_as(sel, &ctx->devices[i])))
            select_take(sel, &ctx->devices[i]);
        else if (copse__choices_misses(choices, i))
            copse__log(&ctx->base.log, COPSE_LOG_WARN, "devices: %s is not chosen, it is %s",
                       ctx->devices[i].id, choice.reason);
    }
}

/* Every usable device of a backend; if `backend` is NULL, of all backends but the reference. A
   physical device is taken once, through its best driver. */
static void take_backend(struct selection *sel, const char *backend)
{
    for (size_t i = 0; i < sel->ctx->device_count; i++) {
        const struct copse_device_info *d = &sel->ctx->devices[i];
        char why[96];
        if (!d->is_usable ||
            (backend ? strcmp(d->backend, backend) != 0 : d->kind == COPSE_DEVICE_REFERENCE))
            continue;
        sel->matched++;
        if (!sel->choices ||
            (copse__choices_best(sel->choices, sel->choices->at[i].physical, backend, why) == i &&
             !taken_as(sel, d)))
            select_take(sel, d);
    }
}

/* A device that is named is asked for. Two drivers of a GPU are easily taken for two GPUs. */
static void take_named(struct selection *sel, const struct copse_device_info *d)
{
    const char *as = sel->choices && d->kind != COPSE_DEVICE_CPU ? taken_as(sel, d) : NULL;
    if (as && strcmp(as, d->id) != 0)
        copse__log(&sel->ctx->base.log, COPSE_LOG_WARN,
                   "devices: %s and %s are one physical device through two drivers: its replicas "
                   "share it",
                   as, d->id);
    sel->matched++;
    select_take(sel, d);
}

static bool is_backend(const struct copse_context *ctx, const char *word)
{
    for (const char *const *name = copse_backend_names; *name; name++)
        if (strcmp(word, *name) == 0)
            return true;
    for (size_t i = 0; i < ctx->backend_count; i++)
        if (strcmp(word, ctx->backends[i].name) == 0)
            return true;
    return false;
}

static bool has_usable(const struct copse_context *ctx, const char *backend)
{
    for (size_t i = 0; i < ctx->device_count; i++)
        if (ctx->devices[i].is_usable && strcmp(ctx->devices[i].backend, backend) == 0)
            return true;
    return false;
}

/* A line that lists the devices, for an error text. */
static void select_describe(const struct copse_context *ctx, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ctx->device_count && used < room; i++) {
        const struct copse_device_info *d = &ctx->devices[i];
        used += (size_t)snprintf(text + used, room - used, "%s%s%s%s", i ? ", " : "", d->id,
                                 d->is_usable ? "" : " not usable: ", d->reason);
    }
    for (size_t i = 0; i < ctx->backend_count && used < room; i++)
        if (!has_usable(ctx, ctx->backends[i].name))
            used += (size_t)snprintf(text + used, room - used, "; %s: %s", ctx->backends[i].name,
                                     ctx->backends[i].detail);
}

static copse_status none_found(const struct copse_context *ctx, const char *word)
{
    char text[768];
    select_describe(ctx, text, sizeof text);
    return copse_fail(COPSE_ERR_NO_DEVICE, "devices: nothing matches '%s'; found %s", word, text);
}

static copse_status take_word(struct selection *sel, const struct copse_choices *choices,
                              const char *word)
{
    struct copse_context *ctx = sel->ctx;
    struct copse_device_info info;
    const size_t before = sel->matched;

    if (strcmp(word, "auto") == 0) {
        take_auto(sel, choices);
    } else if (strcmp(word, "all") == 0) {
        take_backend(sel, NULL);
    } else if (is_backend(ctx, word)) {
        take_backend(sel, word);
    } else {
        const char *colon = strchr(word, ':');
        if (!colon || colon == word || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "devices: '%s' is neither auto, all, a backend, nor an id such as "
                              "host:0",
                              word);
        if (copse__device_find(ctx, word, &info) == COPSE_OK)
            take_named(sel, &info);
    }
    return sel->matched > before ? COPSE_OK : none_found(ctx, word);
}

static copse_status take_all(struct selection *sel, const struct copse_choices *choices,
                             const char *selector)
{
    const char *rest = selector;
    while (*rest) {
        char word[64];
        const char *start = rest + strspn(rest, " \t");
        size_t length = strcspn(start, ",");
        rest = start + length + (start[length] == ',');
        while (length && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            length--;
        if (length == 0 || length >= sizeof word || (!*rest && rest[-1] == ','))
            return copse_fail(COPSE_ERR_ARGUMENT, "devices: cannot read the selector '%s'",
                              selector);
        memcpy(word, start, length);
        word[length] = '\0';
        COPSE_TRY(take_word(sel, choices, word));
    }
    return sel->count <= sel->room
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "devices: '%.64s' means %zu devices, there is room for %zu", selector,
                            sel->count, sel->room);
}

static copse_status select_by(copse_context *ctx, const char *selector, bool takes_drivers,
                              char (*ids)[32], size_t room, size_t *count)
{
    struct copse_choices choices;
    COPSE_TRY(copse_need("devices", ctx, count));
    if (room > 0)
        COPSE_TRY(copse_need("devices", ids));
    *count = 0;
    COPSE_TRY(copse__choices_open(ctx, &choices));
    struct selection sel = { ctx, takes_drivers ? NULL : &choices, ids, room, 0, 0 };
    const copse_status s = take_all(&sel, &choices, selector && *selector ? selector : "auto");
    copse__choices_close(&choices);
    if (s == COPSE_OK)
        *count = sel.count;
    return s;
}

copse_status copse_select_devices(copse_context *ctx, const char *selector, char (*ids)[32],
                                  size_t room, size_t *count)
{
    return select_by(ctx, selector, false, ids, room, count);
}

copse_status copse_select_drivers(copse_context *ctx, const char *selector, char (*ids)[32],
                                  size_t room, size_t *count)
{
    return select_by(ctx, selector, true, ids, room, count);
}
