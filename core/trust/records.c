/* SPDX-License-Identifier: MIT */
/* See records.h. */
#include "core/trust/records.h"

#include "core/trust/stored.h"

enum { HEAD_LINES = 6 }; /* digest, device, driver, api, library, units */

/* The same driver, whatever its version: all up to the first digit. */
static bool is_same_driver(const char *line, const char *other)
{
    const char *digits = "0123456789";
    const size_t n = strcspn(line, digits);
    return n == strcspn(other, digits) && strncmp(line, other, n) == 0;
}

/* Whether the lines after the digest are of this device. */
static bool is_record_of(const char *const *lines, const char *identity)
{
    const size_t device = strcspn(identity, "\n") + 1;
    return lines[0] && lines[1] && lines[2] && strlen(lines[1]) == device &&
           strncmp(lines[1], identity, device) == 0 && is_same_driver(lines[2], identity + device);
}

/* The lines of the entries, NULL = none. */
static const char *const *record_find(const struct copse_trust *t,
                                      const struct copse_device_info *info)
{
    struct copse_stored_id id;
    copse__stored_id("tuning", info, NULL, &id);
    for (size_t i = 0; t->records[i]; i++) {
        const char *const *lines = t->records[i];
        size_t count = 0;
        while (lines[count])
            count++;
        if (count > HEAD_LINES && is_record_of(lines, id.lines))
            return lines + HEAD_LINES;
    }
    return NULL;
}

/* Shares are of jobs of the machine where the record was made. */
static bool is_measurement(const char *line, struct copse_tuning_entry *e)
{
    return copse__tuning_line(line, e) && strcmp(e->family, COPSE_TUNED_SHARES) != 0;
}

size_t copse__records_count(const struct copse_trust *t, const struct copse_device_info *info)
{
    const char *const *lines = record_find(t, info);
    size_t count = 0;
    struct copse_tuning_entry e;
    for (size_t i = 0; lines && lines[i]; i++)
        count += is_measurement(lines[i], &e);
    return count;
}

/* Whether the first `count` entries have a measurement of the size class. */
static bool has_class(const struct copse_tuning *list, size_t count,
                      const struct copse_tuning_entry *e)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list->at[i].family, e->family) == 0 &&
            strcmp(list->at[i].size_class, e->size_class) == 0)
            return true;
    return false;
}

copse_status copse__records_add(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_tuning *list)
{
    const char *const *lines = record_find(t, info);
    const size_t count = copse__records_count(t, info), own = list->count;
    if (count == 0)
        return COPSE_OK;
    void *more = copse__resize(&t->base->mem, list->at, own + count, sizeof *list->at);
    if (!more)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tuning: no memory for the record of a device");
    list->at = more;
    for (size_t i = 0; lines[i]; i++) {
        struct copse_tuning_entry e;
        if (is_measurement(lines[i], &e) && !has_class(list, own, &e))
            list->at[list->count++] = e;
    }
    if (list->count > own)
        copse__log(
            &t->base->log, COPSE_LOG_INFO,
            "tuning: kernels of %s are chosen by %zu measurement%s that ship%s with the library; "
            "`copse tune` measures this machine",
            info->id, list->count - own, copse__plural(list->count - own),
            list->count - own == 1 ? "s" : "");
    return COPSE_OK;
}
