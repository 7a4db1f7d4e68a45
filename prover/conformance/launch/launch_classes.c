/* SPDX-License-Identifier: MIT */
/* What the cases of a kernel must have besides the launch sizes and the classes of values: lengths
   of lines, combinations of flags, values of settings, numbers of steps, signs of zeros. All is
   read from the planned launches of the cases. */
#include <stdio.h>

#include "core/device/kernel/kernel_words.h"
#include "prover/conformance/launch/launch.h"

const char *const copse_class_names[COPSE_LAUNCH_CLASS_COUNT] = {
    "long line", "one past", "flags", "settings", "first step", "few steps", "late step", "-0",
};

#define TILE      64u /* elements of a chain of additions, and of a tile of keys */
#define LONG      2048u
#define FAR       4097u
#define FEW_STEPS 10u
#define LATE      1000u

/* ---- the length of a line ---- */

/* A kernel without a row has an empty one: nothing tells that it has no line. */
static struct copse_launch_line line_of(const struct copse_launch_list *const *lists,
                                        enum copse_kernel_id kernel)
{
    for (size_t i = 0; lists[i]; i++)
        for (size_t k = 0; k < lists[i]->line_count; k++)
            if (lists[i]->lines[k].kernel == kernel)
                return lists[i]->lines[k];
    return (struct copse_launch_line){ .kernel = kernel };
}

/* ---- what the cases have ---- */

enum { STATES = 3, COMBINATIONS = 729 }; /* of a constant; of COPSE_MAX_SPECS constants */

struct survey {
    struct copse_launch_line line; /* of the kernel */
    struct copse_class_cell *cells;
    struct copse_launch planned;
    uint32_t first[COPSE_MAX_PARAM_WORDS]; /* the parameters of the first case */
    bool has_first, differs[COPSE_MAX_PARAM_WORDS];
    unsigned states[COPSE_MAX_SPECS]; /* bit v: value v, the last one: a larger one */
    bool combinations[COMBINATIONS];
    bool has_steps, needs_signs, is_stream;
};

static void launch_classes_add(struct survey *s, enum copse_launch_class class,
                               const struct copse_launch_case *c)
{
    struct copse_class_cell *cell = &s->cells[class];
    const size_t at = strlen(cell->names);
    if (at + strlen(c->name) + 3 < sizeof cell->names)
        snprintf(cell->names + at, sizeof cell->names - at, "%s%s", at ? "; " : "", c->name);
    cell->tier = cell->case_count++ ? COPSE_MIN(cell->tier, c->tier) : c->tier;
}

/* The whole length where the kernel has no line. */
static uint32_t length_of(const struct survey *s)
{
    const uint32_t word = s->line.word;
    return word ? s->planned.params[word - 1] : UINT32_MAX;
}

static void take_line(struct survey *s, const struct copse_launch_case *c)
{
    const uint32_t length = s->line.word ? length_of(s) : 0;
    if (length > LONG)
        launch_classes_add(s, COPSE_CLASS_LONG, c);
    if (length > FAR && length % TILE == 1)
        launch_classes_add(s, COPSE_CLASS_PAST, c);
}

static void take_flags(struct survey *s, const struct copse_launch_case *c)
{
    s->is_stream |= c->form->is_stream;
    size_t at = 0;
    for (unsigned i = 0; i < COPSE_MAX_SPECS; i++) {
        const bool is_run = c->form->is_stream && i < 2; /* PER and RUNS */
        const uint32_t value = is_run ? 0 : (uint32_t)c->form->spec[i];
        s->states[i] |= COPSE_BIT(COPSE_MIN(value, STATES));
        at = at * STATES + COPSE_MIN(value, STATES - 1);
    }
    if (length_of(s) > TILE) {
        s->combinations[at] = true;
        launch_classes_add(s, COPSE_CLASS_FLAGS, c);
    }
}

static void take_settings(struct survey *s, const struct copse_launch_case *c)
{
    for (unsigned i = 0; i < COPSE_MAX_PARAM_WORDS; i++)
        s->differs[i] |= s->has_first && s->first[i] != s->planned.params[i];
    if (!s->has_first)
        memcpy(s->first, s->planned.params, sizeof s->first);
    s->has_first = true;
    launch_classes_add(s, COPSE_CLASS_SETTINGS, c);
}

static void take_step(struct survey *s, const struct copse_launch_case *c)
{
    uint32_t words[COPSE_STEP_WORDS];
    bool has_step = false;
    for (size_t a = 0; a < COPSE_MAX_BINDINGS; a++)
        has_step |= c->form->contents[a] == COPSE_CONTENT_STEP;
    if (!has_step)
        return;
    s->has_steps = true;
    copse__launch_step(&s->planned, words, COPSE_STEP_WORDS);
    const uint32_t number = words[COPSE_STEP_NUMBER];
    if (number > LATE)
        launch_classes_add(s, COPSE_CLASS_LATE_STEPS, c);
    else if (number <= FEW_STEPS)
        launch_classes_add(s, number == 1 ? COPSE_CLASS_FIRST_STEP : COPSE_CLASS_FEW_STEPS, c);
}

/* Signs are compared where bits are, and where the form says so; the sign of a sum that is zero
   depends on its order. */
static void take_signs(struct survey *s, const struct copse_launch_case *c)
{
    const struct copse_launch_form *f = c->form;
    const struct copse_case_limit limit = copse__launch_limit(f);
    const bool is_exact = !(limit.ulp > 0) && !(limit.ratio > 0) && !(limit.of_max > 0);
    struct copse_class_cell *cell = &s->cells[COPSE_CLASS_ZERO_SIGNS];
    if (c->values != COPSE_VALUES_ZEROS)
        return;
    s->needs_signs |= !f->zero_why && !(limit.ratio > 0);
    if (is_exact || f->has_zero_signs)
        launch_classes_add(s, COPSE_CLASS_ZERO_SIGNS, c);
    else if (!f->zero_why && !(limit.ratio > 0) && !cell->missing[0])
        snprintf(cell->missing, sizeof cell->missing, "the signs of form '%s'", f->name);
}

static void launch_classes_take(void *user, const struct copse_launch_case *c)
{
    struct survey *s = user;
    struct copse_limits limits = { .max_group_size = 256, .max_group_count = COPSE_AXIS_GROUPS };
    s->planned = (struct copse_launch){ .form = c->form, .regime = c->regime, .values = c->values };
    copse__launch_size(&s->planned, &limits);
    take_line(s, c);
    take_flags(s, c);
    take_settings(s, c);
    take_step(s, c);
    take_signs(s, c);
}

/* ---- what they lack ---- */

/* Item `index` of a list that ends each with `mark`. */
static const char *item_of(const char *list, unsigned index, char mark, char *out, size_t room)
{
    while (index-- > 0 && list)
        list = (list = strchr(list, mark)) ? list + 1 : NULL;
    const char *end = list ? strchr(list, mark) : NULL;
    snprintf(out, room, "%.*s", end ? (int)(end - list) : 0, end ? list : "");
    return out;
}

/* A constant that takes two or three small values, and is no size that follows from the
   operands; nor the cap of attention, which changes a score before the others are looked at. */
static bool is_flag(const struct survey *s, unsigned i)
{
    static const char *const others[] = { "TEXELS", "LOG_VECTORS", "LOG_LANES", "CAPPED" };
    const unsigned states = s->states[i];
    char name[32];
    item_of(copse_kernel_words[s->line.kernel].specs, i, ' ', name, sizeof name);
    for (size_t k = 0; k < COPSE_COUNT(others); k++)
        if (strcmp(name, others[k]) == 0)
            return false;
    return !(states & COPSE_BIT(STATES)) && (states & (states - 1));
}

static void name_combination(const struct survey *s, size_t at, char *out, size_t room)
{
    char name[32];
    size_t length = 0, weight = COMBINATIONS / STATES;
    out[0] = '\0';
    for (unsigned i = 0; i < COPSE_MAX_SPECS && length < room; i++, weight /= STATES)
        if (is_flag(s, i))
            length += (size_t)snprintf(
                out + length, room - length, "%s%s %u", length ? ", " : "",
                item_of(copse_kernel_words[s->line.kernel].specs, i, ' ', name, sizeof name),
                (unsigned)(at / weight % STATES));
}

/* Whether some case has the flags of combination `at`, whatever the other constants are. */
static bool has_flags(const struct survey *s, size_t at)
{
    for (size_t other = 0; other < COMBINATIONS; other++) {
        bool is_same = s->combinations[other];
        size_t weight = COMBINATIONS / STATES;
        for (unsigned i = 0; i < COPSE_MAX_SPECS && is_same; i++, weight /= STATES)
            is_same = !is_flag(s, i) || at / weight % STATES == other / weight % STATES;
        if (is_same)
            return true;
    }
    return false;
}

static void lack_flags(const struct survey *s)
{
    struct copse_class_cell *cell = &s->cells[COPSE_CLASS_FLAGS];
    for (size_t at = 0; at < COMBINATIONS && !cell->missing[0]; at++) {
        bool is_possible = true;
        size_t weight = COMBINATIONS / STATES;
        for (unsigned i = 0; i < COPSE_MAX_SPECS; i++, weight /= STATES) {
            const unsigned value = (unsigned)(at / weight % STATES);
            is_possible &= is_flag(s, i) ? (s->states[i] >> value & 1) != 0 : value == 0;
        }
        if (is_possible && !has_flags(s, at))
            name_combination(s, at, cell->missing, sizeof cell->missing);
    }
}

/* Settings are the parameters of type float. */
static void lack_settings(const struct survey *s)
{
    struct copse_class_cell *cell = &s->cells[COPSE_CLASS_SETTINGS];
    char name[48];
    bool has_one = false;
    for (unsigned i = 0; i < copse_kernel_table[s->line.kernel].param_words; i++) {
        const char *field =
            item_of(copse_kernel_words[s->line.kernel].params, i, ';', name, sizeof name);
        if (strncmp(field, "float ", 6) != 0)
            continue;
        has_one = true;
        if (!s->differs[i] && !cell->missing[0])
            snprintf(cell->missing, sizeof cell->missing, "another %s", field + 6);
    }
    cell->why = has_one ? NULL : "the kernel has no setting";
}

void copse__launch_classes(const struct copse_launch_list *const *lists,
                           enum copse_kernel_id kernel,
                           struct copse_class_cell cells[COPSE_LAUNCH_CLASS_COUNT])
{
    static const char no_steps[] = "the kernel reads no step";
    struct survey s = { .line = line_of(lists, kernel), .cells = cells };
    memset(cells, 0, COPSE_LAUNCH_CLASS_COUNT * sizeof *cells);
    copse__launch_cases_of(lists, kernel, launch_classes_take, &s);
    cells[COPSE_CLASS_LONG].why = cells[COPSE_CLASS_PAST].why =
        s.is_stream && !s.line.word && !s.line.no_line ? COPSE_WALKS_NONE : s.line.no_line;
    lack_flags(&s);
    if (s.cells[COPSE_CLASS_FLAGS].missing[0])
        s.cells[COPSE_CLASS_FLAGS].why = s.line.no_flags;
    lack_settings(&s);
    for (unsigned k = COPSE_CLASS_FIRST_STEP; k <= COPSE_CLASS_LATE_STEPS; k++)
        cells[k].why = s.has_first && !s.has_steps ? no_steps : NULL;
    if (s.has_first && !s.needs_signs)
        cells[COPSE_CLASS_ZERO_SIGNS].why =
            "the sign of a zero depends on the order of terms, or there is none";
    for (unsigned k = 0; k < COPSE_LAUNCH_CLASS_COUNT; k++)
        if (cells[k].missing[0] || cells[k].why) {
            cells[k].case_count = 0;
            cells[k].names[0] = '\0';
            if (cells[k].why)
                cells[k].missing[0] = '\0';
        }
}
