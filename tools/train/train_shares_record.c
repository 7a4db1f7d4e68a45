/* SPDX-License-Identifier: MIT */
/* Measured shares are kept with the tuning records of their devices, by a digest of the job and of
   the list of devices: a later run has the same shares, and so the same bits. */
#include <stdio.h>
#include <string.h>

#include "copse/device/tuning.h"

#include "tools/train/train_run.h"

static uint64_t digest_add(uint64_t sum, const char *text)
{
    do
        sum = (sum ^ (unsigned char)*text) * UINT64_C(1099511628211); /* FNV-1a, with the NUL */
    while (*text++);
    return sum;
}

static uint64_t digest_number(uint64_t sum, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return digest_add(sum, text);
}

static const struct copse_device_info *device_of(const struct run *r, const char *id)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(r->ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0)
            return &list[i];
    return NULL;
}

/* All that decides how long a step takes. */
static uint64_t digest_job(const struct run *r, const struct mixture *m)
{
    const struct train_settings *s = &r->settings;
    const char *const texts[] = {
        s->model,
        s->loss,
        s->rule,
        s->groups,
        s->freeze,
        s->kernels,
        s->augment,
        s->optimizer.at->name,
        s->schedule,
        s->reduction.at->name,
        s->transfer.at->name,
        s->precision.at->name,
        s->tokens.at->name,
    };
    struct copse_dataset_info info;
    uint64_t sum = UINT64_C(14695981039346656037);
    copse_dataset_describe(r->all, &info);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        sum = digest_add(sum, texts[i] ? texts[i] : "");
    sum = digest_number(sum, s->batch);
    sum = digest_number(sum, s->bucket_bytes);
    sum = digest_number(sum, s->prefetch);
    sum = digest_number(sum, s->memory);
    sum = digest_number(sum, s->dropout > 0.0f);
    sum = digest_number(sum, s->average > 0.0f);
    sum = digest_number(sum, info.row_size);
    sum = digest_number(sum, r->model.outputs);
    for (size_t i = 0; i < m->count; i++) {
        const struct copse_device_info *d = device_of(r, m->ids[i]);
        sum = digest_add(sum, d ? d->backend : m->ids[i]);
        sum = digest_add(sum, d ? d->name : "");
        sum = digest_add(sum, d ? d->driver : "");
        for (size_t k = 0; k <= i; k++) /* which replicas are on one device */
            sum = digest_number(sum, strcmp(m->ids[i], m->ids[k]) == 0);
    }
    return sum;
}

static struct copse_tuning_entry entry_of(const struct run *r, const struct mixture *m,
                                          size_t replica)
{
    struct copse_tuning_entry e = { .family = COPSE_TUNED_SHARES,
                                    .rate = 1 + (uint64_t)m->weights[replica] };
    snprintf(e.size_class, sizeof e.size_class, "%016llx", (unsigned long long)digest_job(r, m));
    snprintf(e.variant, sizeof e.variant, "replica-%u", (unsigned)replica);
    return e;
}

/* A lent device has no record: it is not in the list. */
copse_status shares_recall(struct run *r, struct mixture *m, bool *is_found)
{
    struct mixture found = *m;
    bool has_any = false;
    *is_found = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct copse_tuning_entry want = entry_of(r, m, i), *list;
        size_t count, k = 0;
        COPSE_TRY(copse_device_tuning(r->ctx, m->ids[i], &list, &count));
        while (k < count && (strcmp(list[k].family, want.family) != 0 ||
                             strcmp(list[k].size_class, want.size_class) != 0 ||
                             strcmp(list[k].variant, want.variant) != 0))
            k++;
        if (k == count || list[k].rate > 1 + SHARE_STEPS)
            return COPSE_OK;
        found.weights[i] = (float)(list[k].rate - 1);
        has_any |= found.weights[i] > 0.0f;
    }
    if (!has_any)
        return COPSE_OK;
    *m = found;
    m->source = SHARES_RECORDED;
    *is_found = true;
    return COPSE_OK;
}

void shares_keep(struct run *r, const struct mixture *m)
{
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < m->count && s == COPSE_OK; i++) {
        const struct copse_tuning_entry e = entry_of(r, m, i);
        s = copse_device_tuning_set(r->ctx, m->ids[i], &e, 1);
    }
    if (s != COPSE_OK)
        fprintf(stderr,
                "copse train: warning: the shares are not kept, the next run measures again: %s\n",
                session_error());
}
