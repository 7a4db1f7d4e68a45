/* SPDX-License-Identifier: MIT */
/* The results of a launch against those of its host function on the same words. */
#include <math.h>

#include "core/check/bound.h"
#include "core/check/part.h"
#include "core/check/probe.h"

#define UNIT     0x1p-24  /* u */
#define TINY     0x1p-100 /* devices may flush subnormal numbers, and products of these */
#define ENORMOUS 0x1p100  /* sums that overflow early */

static float real_of(uint32_t word)
{
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static const uint32_t *words_of(const struct copse_probe *p, uint32_t i, bool is_after)
{
    return (const uint32_t *)(const void *)copse__probe_copy(
        p, is_after ? COPSE_PROBE_AFTER : COPSE_PROBE_BEFORE, i);
}

static size_t count_of(const struct copse_probe *p, uint32_t i)
{
    return p->command.bindings[i].size / COPSE_WORD_BYTES;
}

static void probe_judge_note(const struct copse_probe *p, uint32_t i, size_t element,
                             double expected, double tolerance, bool is_real,
                             struct copse_probe_fault *out)
{
    const uint32_t got = words_of(p, i, true)[element];
    *out = (struct copse_probe_fault){ .is_found = true,
                                       .result = p->command.bindings[i],
                                       .element = element,
                                       .got = is_real ? (double)real_of(got) : (double)(int32_t)got,
                                       .expected = expected,
                                       .tolerance = tolerance };
}

/* ---- the same bits ---- */

static bool is_same(uint32_t got, uint32_t expected, bool is_real)
{
    if (got == expected || !is_real)
        return got == expected;
    const double a = (double)real_of(got), b = (double)real_of(expected);
    return (isnan(a) && isnan(b)) || fabs(a - b) <= TINY;
}

static void compare_word(const struct copse_probe *p, uint32_t i, size_t word, uint32_t expected,
                         bool is_real, struct copse_probe_fault *out)
{
    if (!is_same(words_of(p, i, true)[word], expected, is_real))
        probe_judge_note(p, i, word,
                         is_real ? (double)real_of(expected) : (double)(int32_t)expected, 0,
                         is_real, out);
}

/* ---- evaluation on the host ---- */

/* Of the launch, or of a part of it. */
struct evaluation {
    const struct copse_part *part; /* NULL: the launch */
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
};

/* The word of buffer `i` that word `k` of an evaluation is. */
static size_t word_at(const struct evaluation *e, uint32_t i, size_t k)
{
    return e->part ? copse__part_word(e->part, i, k) : k;
}

static void probe_judge_drop(const struct copse_probe *p, struct evaluation *e)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++)
        copse__free(&p->dev->base->mem, e->args[i].data);
}

static bool is_real(const struct copse_probe *p, uint32_t i)
{
    return p->command.kind == COPSE_COMMAND_DISPATCH
               ? p->command.kernel->row->args[i].kind != COPSE_ARG_I32
               : p->command.kind == COPSE_COMMAND_GEMM;
}

/* A word before the launch; 0 behind the end of the buffer, in the last unit of a part. */
static uint32_t word_before(const struct copse_probe *p, const struct evaluation *e, uint32_t i,
                            size_t k)
{
    const size_t word = word_at(e, i, k);
    return word < count_of(p, i) ? words_of(p, i, false)[word] : 0;
}

/* The words before the launch, as the host function takes them. */
static copse_status probe_judge_load(const struct copse_probe *p, const struct copse_bound *b,
                                     bool has_magnitudes, struct evaluation *e)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const size_t count =
            e->part ? copse__part_count(e->part, i, count_of(p, i)) : count_of(p, i);
        const bool is_double = is_real(p, i) && !b->limit.is_single;
        void *data = copse__alloc(&p->dev->base->mem, COPSE_MAX(count, 1),
                                  is_double ? sizeof(double) : sizeof(uint32_t));
        COPSE_TRY(copse_need_memory(data, "audit"));
        e->args[i] = (struct copse_host_arg){ data, count, is_double };
        if (!is_double && !e->part)
            memcpy(data, words_of(p, i, false), count * sizeof(uint32_t));
        for (size_t k = 0; !is_double && e->part && k < count; k++)
            ((uint32_t *)data)[k] = word_before(p, e, i, k);
        for (size_t k = 0; is_double && k < count; k++) {
            const double x = (double)real_of(word_before(p, e, i, k));
            ((double *)data)[k] = has_magnitudes ? fabs(x) : x;
        }
    }
    return COPSE_OK;
}

static copse_status probe_judge_evaluate(const struct copse_probe *p, const struct copse_bound *b,
                                         bool is_size, struct evaluation *e)
{
    const struct copse_command *c = &p->command;
    const void *params = e->part ? e->part->split.params : copse__law_params(c);
    COPSE_TRY(probe_judge_load(p, b, is_size && !b->limit.size && !b->law->has_signs, e));
    if (is_size && b->limit.size)
        b->limit.size(params, copse__law_spec(c), e->args);
    else
        b->law->host(params, is_size ? b->spec : copse__law_spec(c), e->args);
    return COPSE_OK;
}

/* ---- within a tolerance ---- */

/* Root mean square of the finite ones. */
static double norm_of(const struct copse_host_arg *y)
{
    double sum = 0;
    size_t count = 0;
    for (size_t k = 0; k < y->count; k++) {
        const double x = copse__load(y, k);
        if (fabs(x) < ENORMOUS) {
            sum += x * x;
            count++;
        }
    }
    return count > 0 ? sqrt(sum / (double)count) : 0;
}

/* Element `k` of buffer `i`; `least`: the smallest size whose ULP counts. */
static void compare_element(const struct copse_probe *p, uint32_t i, size_t k,
                            const struct copse_bound *b, double least, double expected,
                            double basis, struct copse_probe_fault *out)
{
    const double got = (double)real_of(words_of(p, i, true)[k]);
    if (got == expected) /* also what no invocation writes, which has no basis */
        return;
    if (!(fabs(expected) < ENORMOUS)) {
        if (isnan(expected) && !isnan(got))
            probe_judge_note(p, i, k, expected, 0, true, out);
        return;
    }
    const double tolerance =
        COPSE_BOUND_MARGIN * UNIT *
            (b->limit.ulp * fmax(fabs(expected), least) + b->limit.ratio * basis) +
        TINY;
    if (!(fabs(got - expected) <= tolerance) && fabs(basis) < ENORMOUS)
        probe_judge_note(p, i, k, expected, tolerance, true, out);
}

static void compare_words(const struct copse_probe *p, uint32_t i, const struct evaluation *e,
                          struct copse_probe_fault *out)
{
    const uint32_t *expected = e->args[i].data;
    for (size_t k = 0; k < e->args[i].count && !out->is_found; k++)
        if (word_at(e, i, k) < count_of(p, i))
            compare_word(p, i, word_at(e, i, k), expected[k], is_real(p, i), out);
}

static void compare_real(const struct copse_probe *p, uint32_t i, const struct copse_bound *b,
                         const struct evaluation *e, const struct copse_host_arg *size,
                         struct copse_probe_fault *out)
{
    const struct copse_host_arg *y = &e->args[i];
    const double least = fmax(norm_of(y), b->limit.floor);
    for (size_t k = 0; k < y->count && !out->is_found; k++)
        if (word_at(e, i, k) < count_of(p, i))
            compare_element(p, i, word_at(e, i, k), b, least, copse__load(y, k),
                            b->limit.ratio > 0 ? copse__load(size, k) : 0, out);
}

static copse_status probe_judge_compare(const struct copse_probe *p, const struct copse_bound *b,
                                        struct evaluation *e, struct evaluation *size,
                                        struct copse_probe_fault *out)
{
    const struct copse_command *c = &p->command;
    COPSE_TRY(probe_judge_evaluate(p, b, false, e));
    if (b->limit.ratio > 0)
        COPSE_TRY(probe_judge_evaluate(p, b, true, size));
    for (uint32_t i = 0; i < c->binding_count && !out->is_found; i++) {
        if (!copse__probe_is_result(c, i))
            continue;
        if (copse__limit_is_exact(&b->limit) || !is_real(p, i))
            compare_words(p, i, e, out);
        else
            compare_real(p, i, b, e, &size->args[i], out);
    }
    return COPSE_OK;
}

/* ---- in part ---- */

static bool takes_magnitudes(const struct copse_bound *b)
{
    return b->limit.ratio > 0 && !b->law->has_signs;
}

/* The words before the launch, as floats, and their magnitudes where the bound needs them. */
static copse_status load_floats(const struct copse_probe *p, const struct copse_bound *b,
                                struct evaluation *e, struct evaluation *size)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const size_t count = count_of(p, i);
        e->args[i] = size->args[i] =
            (struct copse_host_arg){ copse__probe_copy(p, COPSE_PROBE_BEFORE, i), count, false };
        if (!takes_magnitudes(b))
            continue;
        float *magnitudes =
            copse__alloc(&p->dev->base->mem, COPSE_MAX(count, 1), sizeof *magnitudes);
        size->args[i].data = magnitudes;
        COPSE_TRY(copse_need_memory(magnitudes, "audit"));
        for (size_t k = 0; k < count; k++)
            magnitudes[k] = fabsf(real_of(words_of(p, i, false)[k]));
    }
    return COPSE_OK;
}

/* Elements of a result: their numbers, and what is expected of them. */
struct elements {
    const struct copse_sample *of;
    struct copse_choice chosen;
    double *y;
};

static void compare_elements(const struct copse_probe *p, const struct copse_bound *b,
                             const struct elements *l, const struct evaluation *size,
                             struct copse_probe_fault *out)
{
    const struct copse_sample *s = l->of;
    copse_host_place_fn *place = s->law->place;
    const double least = norm_of(&(struct copse_host_arg){ l->y, l->chosen.count, true });
    for (size_t i = 0; i < l->chosen.count && !out->is_found; i++) {
        const size_t number = (size_t)l->chosen.at[i], of_buffer = number % (size_t)s->each,
                     word = place ? place(s->params, s->spec, of_buffer) : of_buffer;
        const uint32_t result = s->result + (uint32_t)(number / s->each);
        const float rounded = (float)l->y[i];
        uint32_t expected = (uint32_t)(int32_t)l->y[i];
        if (is_real(p, result))
            memcpy(&expected, &rounded, sizeof expected);
        if (copse__limit_is_exact(&b->limit) || !is_real(p, result))
            compare_word(p, result, word, expected, is_real(p, result), out);
        else
            compare_element(
                p, result, word, b, fmax(least, b->limit.floor), l->y[i],
                b->limit.ratio > 0 ? s->law->at(s->params, b->spec, size->args, number) : 0, out);
    }
}

static copse_status compare_sample(const struct copse_probe *p, const struct copse_bound *b,
                                   const struct copse_sample *s, struct copse_probe_fault *out)
{
    struct copse_mem *mem = &p->dev->base->mem;
    struct evaluation e = { .part = NULL }, size = e;
    struct elements l = { .of = s };
    COPSE_TRY(copse__choose_units(mem, &p->command, s->places, s->depth, &l.chosen));
    l.y = copse__alloc(mem, COPSE_MAX(l.chosen.count, 1), sizeof *l.y);
    copse_status status = copse_need_memory(l.y, "audit");
    if (status == COPSE_OK)
        status = load_floats(p, b, &e, &size);
    for (size_t i = 0; i < l.chosen.count && status == COPSE_OK; i++)
        l.y[i] = s->law->at(s->params, s->spec, e.args, (size_t)l.chosen.at[i]);
    if (status == COPSE_OK)
        compare_elements(p, b, &l, &size, out);
    copse__free(mem, l.y);
    copse__free(mem, l.chosen.at);
    if (takes_magnitudes(b))
        probe_judge_drop(p, &size);
    return status;
}

/* ---- lines ---- */

/* The words before the launch: operands as floats, results as doubles, which `e` has alone. */
static copse_status load_lines(const struct copse_probe *p, struct evaluation *e)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++) {
        const size_t count = count_of(p, i);
        e->args[i] =
            (struct copse_host_arg){ copse__probe_copy(p, COPSE_PROBE_BEFORE, i), count, false };
        if (!copse__probe_is_result(&p->command, i))
            continue;
        double *y = copse__alloc(&p->dev->base->mem, COPSE_MAX(count, 1), sizeof *y);
        e->args[i] = (struct copse_host_arg){ y, count, true };
        COPSE_TRY(copse_need_memory(y, "audit"));
        for (size_t k = 0; k < count; k++)
            y[k] = (double)real_of(words_of(p, i, false)[k]);
    }
    return COPSE_OK;
}

static void drop_lines(const struct copse_probe *p, struct evaluation *e)
{
    for (uint32_t i = 0; i < p->command.binding_count; i++)
        if (e->args[i].is_double)
            copse__free(&p->dev->base->mem, e->args[i].data);
}

/* Lines: their numbers, and what is expected of all words. */
struct lines {
    const struct copse_line_sample *of;
    struct copse_choice chosen;
    struct evaluation y, size;
};

/* The root mean square of the words of the chosen lines, of each buffer. */
static void find_norms(const struct lines *l, double norms[COPSE_MAX_BINDINGS])
{
    size_t counts[COPSE_MAX_BINDINGS] = { 0 };
    for (size_t i = 0; i < l->chosen.count; i++) {
        struct copse_line_words words[COPSE_LINE_WORDS];
        const size_t n =
            l->of->law->words(l->of->params, l->of->spec, (size_t)l->chosen.at[i], words);
        for (size_t w = 0; w < n; w++) {
            const struct copse_host_arg *y = &l->y.args[words[w].buffer];
            const double norm = norm_of(&(struct copse_host_arg){
                (double *)y->data + words[w].first, words[w].count, true });
            norms[words[w].buffer] += norm * norm * (double)words[w].count;
            counts[words[w].buffer] += words[w].count;
        }
    }
    for (uint32_t b = 0; b < COPSE_MAX_BINDINGS; b++)
        norms[b] = counts[b] > 0 ? sqrt(norms[b] / (double)counts[b]) : 0;
}

static void compare_line(const struct copse_probe *p, const struct copse_bound *b,
                         const struct lines *l, size_t line, const double *norms,
                         struct copse_probe_fault *out)
{
    struct copse_line_words words[COPSE_LINE_WORDS];
    const size_t n = l->of->law->words(l->of->params, l->of->spec, line, words);
    for (size_t w = 0; w < n; w++) {
        const uint32_t i = words[w].buffer;
        for (size_t k = words[w].first; k < words[w].first + words[w].count && !out->is_found; k++)
            compare_element(p, i, k, b, fmax(norms[i], b->limit.floor),
                            copse__load(&l->y.args[i], k), copse__load(&l->size.args[i], k), out);
    }
}

static copse_status compare_lines(const struct copse_probe *p, const struct copse_bound *b,
                                  const struct copse_line_sample *s, struct copse_probe_fault *out)
{
    struct copse_mem *mem = &p->dev->base->mem;
    struct lines l = { .of = s };
    double norms[COPSE_MAX_BINDINGS] = { 0 };
    copse_status status = copse__choose_units(mem, &p->command, s->count, s->depth, &l.chosen);
    if (status == COPSE_OK)
        status = load_lines(p, &l.y);
    if (status == COPSE_OK)
        status = load_lines(p, &l.size);
    for (size_t i = 0; i < l.chosen.count && status == COPSE_OK; i++) {
        s->law->host(s->params, s->spec, l.y.args, (size_t)l.chosen.at[i]);
        s->law->size(s->params, s->spec, l.size.args, (size_t)l.chosen.at[i]);
    }
    if (status == COPSE_OK)
        find_norms(&l, norms);
    for (size_t i = 0; i < l.chosen.count && status == COPSE_OK && !out->is_found; i++)
        compare_line(p, b, &l, (size_t)l.chosen.at[i], norms, out);
    drop_lines(p, &l.y);
    drop_lines(p, &l.size);
    copse__free(mem, l.chosen.at);
    return status;
}

static copse_status compare_all(const struct copse_probe *p, const struct copse_bound *b,
                                const struct copse_part *part, struct copse_probe_fault *out)
{
    struct evaluation e = { .part = part }, size = e;
    const copse_status s = probe_judge_compare(p, b, &e, &size, out);
    probe_judge_drop(p, &e);
    probe_judge_drop(p, &size);
    return s;
}

static copse_status compare_part(const struct copse_probe *p, const struct copse_bound *b,
                                 struct copse_part *part, struct copse_probe_fault *out)
{
    COPSE_TRY(copse__part_choose(part, &p->dev->base->mem, &p->command));
    const copse_status s = compare_all(p, b, part, out);
    copse__free(&p->dev->base->mem, part->chosen.at);
    return s;
}

copse_status copse__probe_judge(const struct copse_probe *p, struct copse_probe_fault *out)
{
    const struct copse_command *c = &p->command;
    struct copse_bound b;
    struct copse_sample sample;
    struct copse_line_sample lines;
    struct copse_part part;
    *out = (struct copse_probe_fault){ .is_found = false };
    copse__bound_of(c, p->dev->limits, &b);
    if (p->is_sampled && copse__sample_of(c, &sample))
        return compare_sample(p, &b, &sample, out);
    if (p->is_sampled && copse__line_sample_of(c, &lines))
        return compare_lines(p, &b, &lines, out);
    if (p->is_sampled && copse__part_of(c, &part))
        return compare_part(p, &b, &part, out);
    return compare_all(p, &b, NULL, out);
}
