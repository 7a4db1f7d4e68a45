/* SPDX-License-Identifier: MIT */
/* The tables of a device card. */
#include "prover/report/card_sections.h"

#include <inttypes.h>
#include <string.h>

/* ---- cells ---- */

typedef const struct card_writer writer;

static void card_sections_begin(writer *w, size_t column)
{
    w->format->cell_begin(w->f, &w->section->columns[column]);
}

static void card_sections_end(writer *w, size_t column)
{
    w->format->cell_end(w->f, &w->section->columns[column]);
}

static void card_sections_text(writer *w, size_t column, const char *value)
{
    card_sections_begin(w, column);
    w->format->text(w->f, value);
    card_sections_end(w, column);
}

static void card_sections_code(writer *w, size_t column, const char *value)
{
    card_sections_begin(w, column);
    w->format->code(w->f, value);
    card_sections_end(w, column);
}

static void card_sections_verdict(writer *w, size_t column, copse_verdict v)
{
    card_sections_begin(w, column);
    w->format->verdict(w->f, v);
    card_sections_end(w, column);
}

static void card_sections_number(writer *w, size_t column, size_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%zu", value);
    card_sections_text(w, column, digits);
}

/* ---- names and values ---- */

static const cJSON *card_sections_member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const char *string_of(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void card_sections_pair(writer *w, const char *name, const char *value)
{
    if (!*value)
        return;
    w->format->row_begin(w->f);
    card_sections_text(w, 0, name);
    card_sections_text(w, 1, value);
    w->format->row_end(w->f);
}

static void number_pair(writer *w, const char *name, const cJSON *item)
{
    char value[64];
    card_sections_pair(w, name, copse__card_number(value, sizeof value, item));
}

static void card_sections_list(writer *w, const char *name, const cJSON *texts, const char *between)
{
    const cJSON *item;
    int n = 0;
    if (cJSON_GetArraySize(texts) == 0)
        return;
    w->format->row_begin(w->f);
    card_sections_text(w, 0, name);
    card_sections_begin(w, 1);
    cJSON_ArrayForEach(item, texts)
    {
        fputs(n++ ? between : "", w->f);
        w->format->text(w->f, string_of(item));
    }
    card_sections_end(w, 1);
    w->format->row_end(w->f);
}

static void card_sections_identity(writer *w, const struct card *c)
{
    static const char *const texts[][2] = {
        { "Kind", "kind" },           { "UUID", "uuid" },
        { "PCI address", "pci" },     { "PCI vendor", "vendor_id" },
        { "Also met as", "same_as" },
    };
    const cJSON *o = c->device->event;
    card_sections_pair(w, "Device", c->device->info.name);
    card_sections_pair(w, "Driver", c->device->info.driver);
    card_sections_pair(w, "API", copse__json_text(o, "backend"));
    card_sections_pair(w, "API version", c->device->info.api_version);
    for (size_t i = 0; i < COPSE_COUNT(texts); i++)
        card_sections_pair(w, texts[i][0], copse__json_text(o, texts[i][1]));
    if (copse__json_number(o, "memory_bytes") > 0)
        number_pair(w, "Memory", card_sections_member(o, "memory_bytes"));
    card_sections_pair(w, "Library", c->results->library);
}

static void card_sections_limits(writer *w, const struct card *c)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, card_sections_member(c->device->event, "limits"))
    {
        char name[64];
        snprintf(name, sizeof name, "%s", item->string);
        for (char *p = name; (p = strchr(p, '_')) != NULL;)
            *p = ' ';
        number_pair(w, name, item);
    }
}

static bool has_environment(const struct card *c)
{
    return c->results->environment != NULL;
}

static void card_sections_environment(writer *w, const struct card *c)
{
    const cJSON *o = c->results->environment, *item;
    card_sections_pair(w, "System", copse__json_text(o, "system"));
    card_sections_pair(w, "Kernel", copse__json_text(o, "kernel"));
    card_sections_pair(w, "Processor", copse__json_text(o, "processor"));
    number_pair(w, "Processors", card_sections_member(o, "processors"));
    number_pair(w, "Memory", card_sections_member(o, "memory_bytes"));
    cJSON_ArrayForEach(item, card_sections_member(o, "variables"))
    {
        w->format->row_begin(w->f);
        card_sections_code(w, 0, item->string);
        card_sections_text(w, 1, string_of(item));
        w->format->row_end(w->f);
    }
}

static bool has_reported(const struct card *c)
{
    return card_sections_member(c->device->event, "reported") != NULL;
}

static void card_sections_reported(writer *w, const struct card *c)
{
    const cJSON *o = card_sections_member(c->device->event, "reported"), *item;
    card_sections_list(w, "Loaded layers", card_sections_member(o, "layers"),
                       w->format->between_lines);
    card_sections_list(w, "Loaded libraries", card_sections_member(o, "libraries"),
                       w->format->between_lines);
    card_sections_pair(w, "Device UUID", copse__json_text(o, "device_uuid"));
    card_sections_pair(w, "Driver UUID", copse__json_text(o, "driver_uuid"));
    cJSON_ArrayForEach(item, card_sections_member(o, "limits"))
        card_sections_pair(w, item->string, string_of(item));
    card_sections_list(w, "Extensions", card_sections_member(o, "extensions"),
                       w->format->between_words);
}

/* ---- what came out ---- */

static bool has_blocked(const struct card *c)
{
    return cJSON_GetArraySize(card_sections_member(c->device->event, "blocked")) > 0;
}

static void card_sections_blocked(writer *w, const struct card *c)
{
    const cJSON *b;
    cJSON_ArrayForEach(b, card_sections_member(c->device->event, "blocked"))
    {
        w->format->row_begin(w->f);
        card_sections_code(w, 0, copse__json_text(b, "kernel"));
        card_sections_text(w, 1, copse__json_text(b, "reason"));
        w->format->row_end(w->f);
    }
}

static void card_sections_modes(writer *w, const struct card *c)
{
    char value[64];
    for (size_t i = 0; i < c->mode_count; i++) {
        const struct card_mode *m = &c->modes[i];
        const struct copse_conform_name *name =
            copse__conform_name_find(copse_conform_mode_names, m->mode);
        w->format->row_begin(w->f);
        card_sections_code(w, 0, m->mode);
        card_sections_begin(w, 1);
        fputs(name ? name->help : "", w->f); /* of the library: nothing to escape */
        card_sections_end(w, 1);
        card_sections_number(w, 2, m->cases);
        card_sections_begin(w, 3);
        for (int v = 0, n = 0; v < COPSE_VERDICT_COUNT; v++)
            if (m->counts[v] > 0) {
                fprintf(w->f, "%s%" PRIu64 " ", n++ ? ", " : "", m->counts[v]);
                w->format->verdict(w->f, (copse_verdict)v);
            }
        card_sections_end(w, 3);
        snprintf(value, sizeof value, "%.1f s", m->seconds);
        card_sections_text(w, 4, value);
        w->format->row_end(w->f);
    }
}

static void card_sections_speed(writer *w, size_t column, const struct copse_case_result *k)
{
    char value[64];
    if (!k) {
        w->format->error(w->f, NULL);
        return;
    }
    snprintf(value, sizeof value, "%.3g %s", k->gflops > 0.0 ? k->gflops : k->gbytes,
             k->gflops > 0.0 ? "GFLOP/s" : "GB/s");
    card_sections_text(w, column, value);
}

static void card_sections_rows(writer *w, const struct card *c)
{
    char value[64];
    for (size_t i = 0; i < c->row_count; i++) {
        const struct card_row *r = &c->rows[i];
        w->format->row_begin(w->f);
        card_sections_text(w, 0, *r->op ? r->op : "none");
        if (*r->variant)
            card_sections_code(w, 1, r->variant);
        else
            w->format->soft(w->f, "default");
        card_sections_verdict(w, 2, r->verdict);
        snprintf(value, sizeof value, "%zu of %zu", r->passed, r->cases);
        card_sections_text(w, 3, value);
        w->format->error(w->f, r->forward);
        w->format->error(w->f, r->gradient);
        if (!w->format->has_plots)
            card_sections_speed(w, 6, r->speed);
        w->format->row_end(w->f);
    }
}

static bool has_reasons(const struct card *c)
{
    return c->reason_count > 0;
}

static void card_sections_reasons(writer *w, const struct card *c)
{
    for (size_t i = 0; i < c->reason_count; i++) {
        const struct card_reason *r = &c->reasons[i];
        w->format->row_begin(w->f);
        card_sections_verdict(w, 0, r->verdict);
        card_sections_number(w, 1, r->cases);
        card_sections_text(w, 2, *r->text ? r->text : "no reason given");
        card_sections_begin(w, 3);
        fprintf(w->f, "%s ", r->example->mode);
        w->format->text(w->f, r->example->op);
        fprintf(w->f, ": ");
        w->format->text(w->f, r->example->name);
        card_sections_end(w, 3);
        w->format->row_end(w->f);
    }
}

static bool has_hashes(const struct card *c)
{
    return c->hashes > 0;
}

static size_t count_hashes(const struct card *c)
{
    return c->hashes;
}

static void card_sections_hashes(writer *w, const struct card *c)
{
    for (size_t i = 0; i < c->results->case_count; i++) {
        const struct copse_case_result *k = &c->results->cases[i];
        if (!*k->hash || !copse__card_is_of(c, k))
            continue;
        w->format->row_begin(w->f);
        card_sections_text(w, 0, k->mode);
        card_sections_text(w, 1, k->op);
        card_sections_text(w, 2, k->name);
        card_sections_code(w, 3, k->variant);
        card_sections_code(w, 4, k->hash);
        w->format->row_end(w->f);
    }
}

/* ---- the list ---- */

static bool card_sections_always(const struct card *c)
{
    (void)c;
    return true;
}

#define TEXT(label_)             \
    {                            \
        label_, CARD_COLUMN_TEXT \
    }
#define NUMBER(label_)             \
    {                              \
        label_, CARD_COLUMN_NUMBER \
    }
#define PAIRS .columns = { { "", CARD_COLUMN_NAME }, TEXT("") }, .column_count = 2

const struct card_section copse_card_sections[CARD_SECTIONS] = {
    [CARD_BLOCKED] = { .heading = "Blocked kernels",
                       .intro = "The library does not use these on this device and driver version. "
                                "It uses another variant, or refuses the op if there is none.",
                       .is_warning = true,
                       .after = "To unblock them: ",
                       .command = "copse devices --unblock",
                       .columns = { TEXT("Kernel"), TEXT("Reason") },
                       .column_count = 2,
                       .is_there = has_blocked,
                       .rows = card_sections_blocked },
    [CARD_MODES] = { .heading = "Modes",
                     .columns = { TEXT("Mode"), TEXT("Content"), NUMBER("Cases"), TEXT("Outcome"),
                                  NUMBER("Time") },
                     .column_count = 5,
                     .is_there = card_sections_always,
                     .rows = card_sections_modes },
    [CARD_ROWS] = { .heading = "Verdict by op",
                    .intro = "The largest error of all cases, and the limit of that case. Default "
                             "is the library's own choice; other rows force the named kernel.",
                    .columns = { TEXT("Op"), TEXT("Kernel"), TEXT("Verdict"), NUMBER("Cases"),
                                 TEXT("Largest error, result"), TEXT("Largest error, gradient"),
                                 NUMBER("Speed") },
                    .column_count = 7,
                    .is_there = card_sections_always,
                    .rows = card_sections_rows },
    [CARD_REASONS] = { .heading = "Cases that do not apply or were not run",
                       .columns = { TEXT("Verdict"), NUMBER("Cases"), TEXT("Reason"),
                                    TEXT("Example") },
                       .column_count = 4,
                       .is_there = has_reasons,
                       .rows = card_sections_reasons },
    [CARD_IDENTITY] = { .heading = "Identity",
                        PAIRS,
                        .is_there = card_sections_always,
                        .rows = card_sections_identity },
    [CARD_LIMITS] = { .heading = "Limits",
                      PAIRS,
                      .is_there = card_sections_always,
                      .rows = card_sections_limits },
    [CARD_ENVIRONMENT] = { .heading = "Environment",
                           PAIRS,
                           .is_there = has_environment,
                           .rows = card_sections_environment },
    [CARD_REPORTED] = { .heading = "Reported by the driver",
                        .summary = "Layers, libraries, identifiers, limits, extensions",
                        PAIRS,
                        .is_there = has_reported,
                        .rows = card_sections_reported },
    [CARD_HASHES] = { .heading = "Determinism",
                      .intro = "Digests of the bits of results. Two runs on the same device and "
                               "driver must agree; where two devices agree, their results are the "
                               "same bit for bit.",
                      .summary = "digests",
                      .count = count_hashes,
                      .folds_in_text = true,
                      .columns = { TEXT("Mode"), TEXT("Op"), TEXT("Case"), TEXT("Kernel"),
                                   TEXT("Digest") },
                      .column_count = 5,
                      .is_there = has_hashes,
                      .rows = card_sections_hashes },
};

size_t copse__card_columns(const struct card_section *s, const struct card_format *format)
{
    const bool has_speed = s == &copse_card_sections[CARD_ROWS];
    return s->column_count - (has_speed && format->has_plots);
}

void copse__card_section(FILE *f, const struct card_format *format, enum card_section_id id,
                         const struct card *c)
{
    const struct card_section *s = &copse_card_sections[id];
    if (!s->is_there(c))
        return;
    format->begin(f, s, c);
    s->rows(&(struct card_writer){ f, format, s }, c);
    format->end(f, s, c);
}
