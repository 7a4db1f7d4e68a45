/* SPDX-License-Identifier: MIT */
/* See variant.h: selects the row of a family for a piece of work, and parses forced rows. */
#include <stdio.h>

#include "copse/device/tuning.h"
#include "core/graph/lowering.h"
#include "core/graph/variant.h"

/* ---- names ---- */

const struct copse_family *copse__family(const char *name)
{
    for (size_t i = 0; copse_families[i]; i++)
        if (strcmp(copse_families[i]->name, name) == 0)
            return copse_families[i];
    return NULL;
}

const char *copse__variant_kernel(const struct copse_variant *v)
{
    return v->kernel == COPSE_LIBRARY_KERNEL ? COPSE_LIBRARY_PRODUCT
                                             : copse_kernel_table[v->kernel].name;
}

const struct copse_variant *copse__variant(const struct copse_family *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->variants[i].name, name) == 0 ||
            strcmp(copse__variant_kernel(&f->variants[i]), name) == 0)
            return &f->variants[i];
    return NULL;
}

uint32_t copse__size_class(const uint32_t *sizes, size_t count, uint32_t n)
{
    size_t i = 0;
    while (i + 1 < count && n > 2 * sizes[i])
        i++;
    return sizes[i];
}

/* ---- size classes ---- */

static size_t kinds_of(const struct copse_family *f)
{
    size_t n = 0;
    while (n < COPSE_COUNT(f->kinds) && f->kinds[n])
        n++;
    return n;
}

/* The sizes of a list; 0 = the family has no such list. */
static size_t sizes_of(const struct copse_family *f, size_t list)
{
    size_t n = 0;
    while (n < COPSE_MAX_SIZES && f->sizes[list][n] > 0)
        n++;
    return n;
}

bool copse__size_class_of(const struct copse_family *f, const void *work,
                          char name[COPSE_SIZE_CLASS])
{
    struct copse_size size = { .job = 0 };
    int at = 0;
    if (f->size_class)
        return f->size_class(work, name);
    if (!f->size(work, &size))
        return false;
    if (kinds_of(f) > 0)
        at = snprintf(name, COPSE_SIZE_CLASS, "%s-", f->kinds[size.kind]);
    for (size_t i = 0; i < COPSE_SIZE_LISTS && sizes_of(f, i) > 0; i++)
        at += snprintf(name + at, COPSE_SIZE_CLASS - (size_t)at, "%s%u", i ? "-" : "",
                       (unsigned)copse__size_class(f->sizes[i], sizes_of(f, i), size.of[i]));
    return true;
}

size_t copse__tune_jobs(const struct copse_family *f)
{
    size_t n = COPSE_MAX(kinds_of(f), 1u);
    for (size_t i = 0; i < COPSE_SIZE_LISTS; i++)
        n *= COPSE_MAX(sizes_of(f, i), 1u);
    return f->job_count ? f->job_count : n;
}

/* What the job of a family leaves to its row. */
static void complete_job(const struct copse_family *f, uint32_t kind, struct copse_tune_job *j)
{
    const copse_shape s = j->in[0];
    while (j->in_count < COPSE_TUNE_INPUTS && j->in[j->in_count].rank > 0)
        j->in_count++;
    if (!(j->operations > 0))
        j->operations = f->operations[kind] * (double)copse__elements(s);
    if (j->name[0])
        return;
    size_t at = 0;
    for (uint32_t i = 0; i < s.rank && at < sizeof j->name; i++)
        at += (size_t)snprintf(j->name + at, sizeof j->name - at, "%s%u", i ? " x " : "",
                               (unsigned)s.dims[i]);
    if (kind > 0 && at < sizeof j->name)
        snprintf(j->name + at, sizeof j->name - at, ", %s", f->kinds[kind]);
}

void copse__tune_job(const struct copse_family *f, size_t index, struct copse_tune_job *out)
{
    const size_t kinds = COPSE_MAX(kinds_of(f), 1u);
    struct copse_size size = { .job = index, .kind = (uint32_t)(index % kinds) };
    index /= kinds;
    for (size_t i = COPSE_SIZE_LISTS; i-- > 0;) {
        const size_t sizes = COPSE_MAX(sizes_of(f, i), 1u);
        size.of[i] = f->sizes[i][index % sizes];
        index /= sizes;
    }
    memset(out->work, 0, COPSE_TUNE_WORK);
    f->job(&size, out);
    complete_job(f, size.kind, out);
}

/* ---- queries ---- */

bool copse_kernel_variant_at(size_t index, struct copse_kernel_variant *out)
{
    for (size_t i = 0; out && copse_families[i]; i++) {
        const struct copse_family *f = copse_families[i];
        if (index < f->count) {
            const struct copse_variant *v = &f->variants[index];
            *out = (struct copse_kernel_variant){ .family = f->name,
                                                  .name = v->name,
                                                  .kernel = copse__variant_kernel(v) };
            return true;
        }
        index -= f->count;
    }
    return false;
}

/* ---- forced rows ---- */

struct list {
    char text[512];
    size_t at;
};

static void variant_add(struct list *l, const char *separator, const char *name)
{
    const int n = snprintf(l->text + l->at, sizeof l->text - l->at, "%s%s", separator, name);
    if (n > 0)
        l->at = COPSE_MIN(l->at + (size_t)n, sizeof l->text - 1);
}

static const char *variants_of(const struct copse_family *f, struct list *l)
{
    for (size_t i = 0; i < f->count; i++)
        variant_add(l, i ? ", " : "", f->variants[i].name);
    return l->text;
}

/* "column_sum (reduce, wide), matmul (shared, wide)" */
static const char *variant_families(struct list *l)
{
    for (size_t i = 0; copse_families[i]; i++) {
        variant_add(l, i ? ", " : "", copse_families[i]->name);
        variant_add(l, " (", "");
        variants_of(copse_families[i], l);
        variant_add(l, ")", "");
    }
    return l->text;
}

/* One "family=variant" of `length` bytes. */
static copse_status parse_one(const char *text, size_t length, struct copse_choices *out)
{
    struct list names = { .at = 0 };
    char family[64], *variant;
    if (length < sizeof family) {
        memcpy(family, text, length);
        family[length] = '\0';
    }
    variant = length < sizeof family ? strchr(family, '=') : NULL;
    if (!variant)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "kernels: '%.*s' is not family=variant; the families are %s",
                          (int)COPSE_MIN(length, sizeof family), text, variant_families(&names));
    *variant++ = '\0';
    const struct copse_family *f = copse__family(family);
    if (!f)
        return copse_fail(COPSE_ERR_ARGUMENT, "kernels: no family '%s'; the families are %s",
                          family, variant_families(&names));
    const struct copse_variant *v = copse__variant(f, variant);
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "kernels: %s has no variant '%s'; it has %s", f->name,
                          variant, variants_of(f, &names));
    for (size_t i = 0; i < out->count; i++)
        if (out->at[i].family == f->name)
            return copse_fail(COPSE_ERR_ARGUMENT, "kernels: %s is named twice", f->name);
    out->at[out->count++] = (struct copse_choice){ f->name, v->name };
    return COPSE_OK;
}

copse_status copse__choices_parse(const char *kernels, struct copse_choices *out)
{
    *out = (struct copse_choices){ .count = 0 };
    for (const char *p = kernels; p;) {
        const size_t length = strcspn(p, ",");
        COPSE_TRY(parse_one(p, length, out));
        p = p[length] ? p + length + 1 : NULL;
    }
    return COPSE_OK;
}

static const char *forced_of(const struct copse_choice *at, size_t count, const char *family)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(at[i].family, family) == 0)
            return at[i].variant;
    return NULL;
}

char *copse__choices_text(const struct copse_choices *c, char text[COPSE_CHOICES_TEXT])
{
    size_t at = 0;
    snprintf(text, COPSE_CHOICES_TEXT, "auto");
    for (size_t i = 0; copse_families[i] && at < COPSE_CHOICES_TEXT; i++) {
        const char *variant = forced_of(c->at, c->count, copse_families[i]->name);
        if (variant)
            at += (size_t)snprintf(text + at, COPSE_CHOICES_TEXT - at, "%s%s=%s", at ? "," : "",
                                   copse_families[i]->name, variant);
    }
    return text;
}

/* ---- the choice ---- */

enum copse_device_class copse__device_class(const struct copse_limits *limits)
{
    return limits->is_gpu             ? COPSE_CLASS_GPU
           : limits->has_fast_texels  ? COPSE_CLASS_FAST_TEXELS
           : limits->has_wide_vectors ? COPSE_CLASS_WIDE_VECTORS
                                      : COPSE_CLASS_PLAIN;
}

/* A kernel of the variant that is blocked on the device, with the reason; NULL = none. */
static const char *blocked_of(const struct copse_lowering *l, const struct copse_variant *v,
                              char reason[192])
{
    const char *kernel = copse__variant_kernel(v);
    if (!l->dev || copse__kernel_is_blocked(l->dev, kernel, reason, 192))
        return l->dev ? kernel : NULL;
    for (size_t i = 0; i < v->need_count; i++)
        if (copse__kernel_is_blocked(l->dev, copse_kernel_table[v->needs[i]].name, reason, 192))
            return copse_kernel_table[v->needs[i]].name;
    return NULL;
}

/* Whether the device has the kernel and none of the variant's kernels is blocked. */
static bool can_run(const struct copse_lowering *l, const struct copse_variant *v)
{
    char reason[192];
    if (v->need_count > 0 && blocked_of(l, v, reason))
        return false;
    return v->kernel == COPSE_LIBRARY_KERNEL ? l->dev && copse__library_product_fits(l->dev)
                                             : copse__can_launch(l, v->kernel);
}

static bool variant_fits(const struct copse_lowering *l, const struct copse_variant *v,
                         const void *work)
{
    return can_run(l, v) && (!v->fits || v->fits(l->limits, work));
}

static uint64_t rate_of(const struct copse_lowering *l, const struct copse_family *f,
                        const char *size_class, const struct copse_variant *v)
{
    return l->dev ? copse__tuning_rate(l->dev, f->name, size_class, copse__variant_kernel(v)) : 0;
}

static const struct copse_variant *by_prior(const struct copse_lowering *l,
                                            const struct copse_family *f, const void *work)
{
    const enum copse_device_class class = copse__device_class(l->limits);
    const struct copse_variant *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct copse_variant *v = &f->variants[i];
        if (v->prior[class] < (best ? best->prior[class] : COPSE_NO_PRIOR) &&
            (!v->leads || (l->dev && v->leads(l->dev, work))) && variant_fits(l, v, work))
            best = v;
    }
    return best ? best : f->variants; /* cannot be launched; its error gives the reason */
}

/* The row whose kernel a user replaced; NULL = none. */
static const struct copse_variant *variant_replaced(const struct copse_lowering *l,
                                                    const struct copse_family *f, const void *work)
{
    for (size_t i = 0; l->dev && l->dev->overrides && i < f->count; i++) {
        const struct copse_variant *v = &f->variants[i];
        if (v->kernel != COPSE_LIBRARY_KERNEL && l->dev->overrides[v->kernel] &&
            variant_fits(l, v, work))
            return v;
    }
    return NULL;
}

/* The class itself or the one that it is a part of: that in which the row was measured. Returns its
   rate, 0 = none. */
static uint64_t measured_in(const struct copse_lowering *l, const struct copse_family *f,
                            const struct copse_variant *v, char size_class[COPSE_SIZE_CLASS])
{
    char *part = strchr(size_class, '_');
    const uint64_t rate = rate_of(l, f, size_class, v);
    if (rate > 0 || !part)
        return rate;
    *part = '\0';
    return rate_of(l, f, size_class, v);
}

/* A measured row replaces the row chosen by prior if that one was measured too and is more than 3 %
   slower. */
static const struct copse_variant *by_rate(const struct copse_lowering *l,
                                           const struct copse_family *f, const void *work,
                                           const struct copse_variant *prior)
{
    const struct copse_variant *best = prior;
    char size_class[COPSE_SIZE_CLASS];
    if (!copse__size_class_of(f, work, size_class))
        return prior;
    uint64_t most = measured_in(l, f, prior, size_class);
    if (most == 0)
        return prior;
    most += most / 32;
    for (size_t i = 0; i < f->count; i++) {
        const uint64_t rate = rate_of(l, f, size_class, &f->variants[i]);
        if (rate > most && variant_fits(l, &f->variants[i], work)) {
            most = rate;
            best = &f->variants[i];
        }
    }
    return best;
}

static copse_status variant_refuse(const struct copse_lowering *l, const struct copse_family *f,
                                   const struct copse_variant *v)
{
    char reason[192], why[COPSE_ERROR_BYTES];
    const char *kernel = blocked_of(l, v, reason);
    if (kernel)
        return copse_note(copse__kernel_refuse(l->dev, kernel, reason), "forced for %s", f->name);
    const bool has_reason = l->dev && v->kernel != COPSE_LIBRARY_KERNEL &&
                            copse__kernel_check(l->dev, v->kernel) != COPSE_OK;
    snprintf(why, sizeof why, "%s%s", has_reason || v->kernel == COPSE_LIBRARY_KERNEL ? ": " : "",
             has_reason                          ? copse_last_error()
             : v->kernel == COPSE_LIBRARY_KERNEL ? "it has no CLBlast (Debian package libclblast1)"
                                                 : "");
    return copse_fail(COPSE_ERR_UNSUPPORTED, "%s: this device cannot run the variant %s%s", f->name,
                      copse__variant_kernel(v), why);
}

copse_status copse__choose(const struct copse_lowering *l, const struct copse_family *f,
                           const void *work, const struct copse_variant **out)
{
    const char *forced = forced_of(l->choices, l->choice_count, f->name);
    if (!forced) {
        *out = variant_replaced(l, f, work);
        if (!*out)
            *out = by_rate(l, f, work, by_prior(l, f, work));
        return COPSE_OK;
    }
    const struct copse_variant *v = copse__variant(f, forced);
    struct list names = { .at = 0 };
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: no variant '%s'; there are %s", f->name, forced,
                          variants_of(f, &names));
    if (!can_run(l, v))
        return variant_refuse(l, f, v);
    *out = variant_fits(l, v, work) ? v : f->variants;
    return COPSE_OK;
}

copse_status copse__lower_variant(struct copse_lowering *l, const struct copse_family *f,
                                  const void *work)
{
    const struct copse_variant *v;
    COPSE_TRY(copse__choose(l, f, work, &v));
    return v->lower(l, work);
}

/* ---- questions about the choice ---- */

/* The job of this size class. */
static bool find_job(const struct copse_family *f, const char *size_class, struct copse_tune_job *j)
{
    char name[COPSE_SIZE_CLASS];
    for (size_t i = 0; i < copse__tune_jobs(f); i++) {
        *j = (struct copse_tune_job){ .work = j->work };
        copse__tune_job(f, i, j);
        if (copse__size_class_of(f, j->work, name) && strcmp(size_class, name) == 0)
            return true;
    }
    return false;
}

copse_status copse_kernel_choice(const copse_device *dev, const char *kernels, const char *family,
                                 const char *size_class, struct copse_kernel_variant *out)
{
    struct copse_choices forced;
    struct list names = { .at = 0 };
    const struct copse_variant *v;
    COPSE_TRY(copse_need("kernels", dev, family, size_class, out));
    COPSE_TRY(copse__choices_parse(kernels, &forced));
    const struct copse_family *f = copse__family(family);
    if (!f)
        return copse_fail(COPSE_ERR_ARGUMENT, "kernels: no family '%s'; the families are %s",
                          family, variant_families(&names));
    struct copse_tune_job j = { .work = copse__alloc(&dev->base->mem, 1, COPSE_TUNE_WORK) };
    if (!j.work)
        return copse_no_memory("kernels");
    const struct copse_lowering l = {
        .limits = dev->limits, .choices = forced.at, .choice_count = forced.count, .dev = dev
    };
    copse_status s = find_job(f, size_class, &j)
                         ? copse__choose(&l, f, j.work, &v)
                         : copse_fail(COPSE_ERR_ARGUMENT, "kernels: %s has no size class '%s'",
                                      family, size_class);
    if (s == COPSE_OK)
        *out = (struct copse_kernel_variant){ .family = f->name,
                                              .name = v->name,
                                              .kernel = copse__variant_kernel(v) };
    copse__free(&dev->base->mem, j.work);
    return s;
}
