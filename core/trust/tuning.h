/* SPDX-License-Identifier: MIT */
/* Tuning records: how fast kernel variants were measured to be, per device, driver and library
   version. Functions that take the records of a context lock. */
#ifndef COPSE_TRUST_TUNING_H
#define COPSE_TRUST_TUNING_H

#include "copse/device/tuning.h"
#include "core/trust/trust.h"

struct copse_tunings;

/* A copy of the records, as they were when a device was opened. */
struct copse_tuning {
    struct copse_tuning_entry *at;
    size_t count;
};

/* The records of a device; read from the kernel cache when they are first asked for. They live as
   long as `t`. */
copse_status copse__tunings_open(struct copse_trust *t, const struct copse_device_info *info,
                                 struct copse_tunings **out);
void copse__tunings_free(struct copse_trust *t);

/* A copy of what is known now; `at` is freed with copse__free. */
copse_status copse__tuning_copy(struct copse_trust *t, const struct copse_device_info *info,
                                struct copse_tuning *out);
/* "rate FAMILY CLASS VARIANT N" up to the end of the line; returns what follows, or NULL when it is
   not one. */
const char *copse__tuning_line(const char *line, struct copse_tuning_entry *e);
/* Million operations per second; 0 = not measured. */
uint64_t copse__tuning_find(const struct copse_tuning *list, const char *family,
                            const char *size_class, const char *variant);

/* The array is valid until the records change. */
void copse__tunings_get(struct copse_trust *t, const struct copse_tunings *of,
                        const struct copse_tuning_entry **list, size_t *count);
/* COPSE_ERR_ARGUMENT when a name or a rate is not valid. */
copse_status copse__tunings_check(const struct copse_tuning_entry *list, size_t count);
/* Add or replace checked records, all or none; a rate of 0 removes one. */
copse_status copse__tunings_set(struct copse_trust *t, struct copse_tunings *of,
                                const struct copse_tuning_entry *list, size_t count);
copse_status copse__tunings_clear(struct copse_trust *t, struct copse_tunings *of);
/* All records as a text with an end; the caller frees it. */
copse_status copse__tunings_text(struct copse_trust *t, const struct copse_tunings *of, char **text,
                                 size_t *size);
/* Add the records of such a text. COPSE_ERR_FORMAT: it is damaged or another device's; texts name
   the device by `device`. */
copse_status copse__tunings_load(struct copse_trust *t, struct copse_tunings *of,
                                 const char *device, const char *text, size_t size);

#endif
