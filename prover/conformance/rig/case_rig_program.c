/* SPDX-License-Identifier: MIT */
/* A case on a device. Every input, result and intermediate value has its own buffer between two
   guard bands; computed buffers are filled with poison before the run. */
#include <math.h>
#include <stdio.h>

#include "core/device/kernel/sum_bound.h"
#include "core/graph/recording.h"
#include "core/graph/type.h"
#include "core/graph/variant.h"
#include "core/ops/user/user_op.h"
#include "prover/conformance/rig/case_rig.h"
#include "prover/conformance/rig/fence.h"

/* bytes before and after; the second begins after the last element */
#define BAND   COPSE_ALIGNMENT
#define GUARD  0xffffa5a5u /* a NaN, so that out-of-range reads are also detected */
#define POISON 0xffffdeadu /* a NaN */

struct place {
    copse_tensor *tensor;
    struct copse_fenced memory;
    size_t count, words, bytes; /* elements; their words; bytes with both bands */
    uint32_t *image;            /* of the whole buffer, including bands */
};

struct copse_rig_program {
    struct copse_rig *rig;
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *step;
    struct place *places; /* inputs, then results, then intermediate values */
    size_t in_count, out_count, count;
    struct copse_placement inputs[COPSE_RIG_ROOM];
    struct copse_recording recording;
    /* the bound of a variant that does not take f32, which may be larger than that of the cases; or
       0 */
    double ratio;
    /* what the sums of the result may err for any numbers, in u S; 0: the case does not ask */
    double proven;
};

/* ---- making it ---- */

static copse_status add_place(struct copse_rig_program *p, copse_tensor *t)
{
    struct place *x = &p->places[p->count];
    x->tensor = t;
    x->count = (size_t)copse__elements(t->shape);
    x->words = (size_t)copse__type_room(t->type, x->count) / sizeof *x->image;
    x->bytes = copse__fence_room(p->dev, x->words);
    COPSE_TRY(copse__fence_open(p->dev, x->bytes, &x->memory));
    const struct copse_binding at = { x->memory.buffer, BAND,
                                      copse__fence_binding(p->dev, x->words) };
    const size_t i = p->count++;
    if (i < p->rig->in_count)
        p->inputs[i] = (struct copse_placement){ t, at, 0 };
    else
        COPSE_TRY(copse__recording_place(&p->recording, t, at, 0));
    x->image = copse__alloc(p->rig->mem, x->bytes, 1);
    return x->image ? COPSE_OK : copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
}

static bool is_result(const struct copse_rig *rig, const copse_tensor *t)
{
    for (size_t i = rig->first; i < rig->out_count; i++)
        if (rig->out[i] == t)
            return true;
    return false;
}

/* Nodes that the results need, as marks instead of a set. */
static void case_rig_program_mark(const struct copse_rig *rig, bool *needed)
{
    for (size_t i = rig->first; i < rig->out_count; i++)
        needed[rig->out[i]->id] = true;
    for (size_t n = rig->graph->nodes.count; n-- > 0;)
        for (uint32_t i = 0; needed[n] && i < rig->graph->nodes.at[n]->in_count; i++)
            needed[rig->graph->nodes.at[n]->in[i]->id] = true;
}

static copse_status add_places(struct copse_rig_program *p)
{
    const struct copse_rig *rig = p->rig;
    const size_t nodes = rig->graph->nodes.count, room = nodes + 2 * COPSE_RIG_ROOM;
    p->places = copse__alloc(rig->mem, room, sizeof *p->places);
    bool *needed = copse__alloc(rig->mem, nodes, sizeof *needed);
    copse_status s = COPSE_OK;
    if (!p->places || !needed) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
        goto done;
    }
    case_rig_program_mark(rig, needed);
    for (size_t i = 0; i < rig->in_count; i++)
        COPSE_TRY_OR(done, s, add_place(p, rig->in[i]));
    p->in_count = p->count;
    p->count += rig->first; /* places without a buffer */
    for (size_t i = rig->first; i < rig->out_count; i++)
        COPSE_TRY_OR(done, s, add_place(p, rig->out[i]));
    p->out_count = p->count - p->in_count;
    for (size_t n = 0; n < nodes; n++) {
        copse_tensor *t = rig->graph->nodes.at[n];
        if (needed[n] && t->op->lower && !is_result(rig, t))
            COPSE_TRY_OR(done, s, add_place(p, t));
    }
done:
    copse__free(rig->mem, needed);
    return s;
}

/* The kernel with the variant's name; copse_kernel_count = none. */
static size_t kernel_of(const char *variant)
{
    size_t i = 0;
    while (i < copse_kernel_count && strcmp(copse_kernel_table[i].name, variant) != 0)
        i++;
    return i;
}

static double ratio_of(const char *family, const char *variant)
{
    const struct copse_family *f = family ? copse__family(family) : NULL;
    struct copse_limit limit;
    const struct copse_variant *v = f && *variant ? copse__variant(f, variant) : NULL;
    if (!v || !f->takes_operands || f->takes_operands(v, COPSE_F32))
        return 0;
    copse__law_limit(copse_kernel_table[v->kernel].law, NULL, (const int32_t[COPSE_MAX_SPECS]){ 0 },
                     &limit);
    return limit.ratio;
}

/* Of the forced variant, or of any that such a device chooses without measurements. */
static double proven_of(const struct copse_case *c, const char *variant,
                        const struct copse_limits *limits)
{
    const struct copse_family *f = c->family ? copse__family(c->family) : NULL;
    double most = 0;
    for (size_t i = 0; c->terms > 0 && f && i < f->count; i++) {
        const struct copse_variant *v = &f->variants[i];
        const struct copse_law *law = v->kernel == COPSE_LIBRARY_KERNEL
                                          ? &copse__law_product
                                          : copse_kernel_table[v->kernel].law;
        if (*variant ? strcmp(copse__variant_kernel(v), variant) == 0
                     : v->prior[copse__device_class(limits)] != COPSE_NO_PRIOR)
            most = fmax(most, copse__sum_bound(law, c->terms, limits));
    }
    return most;
}

/* Whether the device has the features that all shared kernels need, and the usual group sizes of
   GPUs. */
static bool is_complete(const copse_device *dev)
{
    for (size_t i = 0; i < copse_kernel_count; i++)
        if (!copse_kernel_table[i].is_variant && !copse__kernel_fits(dev, (enum copse_kernel_id)i))
            return false;
    return dev->limits->max_group_count >= 65535;
}

/* Whether the device declares that it can run the variant with tensors of these sizes. */
static bool is_claimed(const struct copse_rig *rig, const copse_device *dev, const char *variant)
{
    const size_t kernel = kernel_of(variant);
    for (size_t n = 0; n < rig->graph->nodes.count; n++) {
        const copse_user_op *own = copse__user_op_of(rig->graph->nodes.at[n]);
        if (COPSE_WORD_BYTES * copse__elements(rig->graph->nodes.at[n]->shape) >
                dev->limits->max_binding_bytes ||
            (own && !copse__kernel_fits(dev, (enum copse_kernel_id)own->id)))
            return false;
    }
    if (!is_complete(dev))
        return false;
    if (kernel < copse_kernel_count)
        return copse__kernel_fits(dev, (enum copse_kernel_id)kernel);
    return !*variant || dev->limits->has_library_gemm;
}

/* The program; or only its kernels, into `wants`. */
static copse_status rig_program_make(struct copse_rig *rig, copse_device *dev, const char *variant,
                                     struct copse_kernel_wants *wants,
                                     struct copse_rig_program **out)
{
    const struct copse_choice choice = { rig->c->family, variant };
    copse_status s = COPSE_OK;
    struct copse_rig_program *p = *out = copse__alloc(rig->mem, 1, sizeof *p);
    if (!p)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
    p->rig = rig;
    p->ratio = ratio_of(rig->c->family, variant);
    p->proven = proven_of(rig->c, variant, dev->limits);
    p->dev = copse_device_retain(dev);
    COPSE_TRY_OR(fail, s, copse_queue_create(dev, &p->queue));
    COPSE_TRY_OR(fail, s, copse__buffer_acquire(dev, sizeof rig->step, &p->step));
    p->recording.graph = rig->graph;
    COPSE_TRY_OR(fail, s, add_places(p));
    struct copse_program_params params = {
        .queue = p->queue,
        .inputs = p->inputs,
        .input_count = p->in_count,
        .step = { p->step, 0, sizeof rig->step },
        .choices = &choice,
        .choice_count = *variant != '\0',
    };
    COPSE_TRY_OR(fail, s,
                 wants ? copse__recording_kernels(&p->recording, &params, wants)
                       : copse__recording_compile(&p->recording, &params));
    return COPSE_OK;
fail:
    if (s == COPSE_ERR_UNSUPPORTED && is_claimed(rig, dev, variant))
        s = copse_fail(COPSE_ERR_INTERNAL, "unsupported, though the device claims it: %s",
                       copse_last_error());
    copse__rig_program_close(out);
    return s;
}

copse_status copse__rig_program_open(struct copse_rig *rig, copse_device *dev, const char *variant,
                                     struct copse_rig_program **out)
{
    return rig_program_make(rig, dev, variant, NULL, out);
}

copse_status copse__rig_kernels(struct copse_rig *rig, copse_device *dev, const char *variant,
                                struct copse_kernel_wants *wants)
{
    struct copse_rig_program *p = NULL;
    const copse_status s = rig_program_make(rig, dev, variant, wants, &p);
    copse__rig_program_close(&p);
    return s;
}

void copse__rig_program_close(struct copse_rig_program **program)
{
    struct copse_rig_program *p = *program;
    if (!p)
        return;
    struct copse_mem *mem = p->rig->mem;
    copse__recording_fini(&p->recording, mem);
    copse_queue_release(&p->queue); /* waits for reads into the images */
    for (size_t i = 0; i < p->count; i++) {
        if (p->places[i].memory.buffer || p->places[i].memory.block)
            copse__fence_close(p->dev, &p->places[i].memory);
        copse__free(mem, p->places[i].image);
    }
    copse__free(mem, p->places);
    copse_buffer_release(&p->step);
    copse_device_release(&p->dev);
    copse__free(mem, p);
    *program = NULL;
}

/* ---- running it ---- */

/* Word `w` of an input. If the last element does not fill the last word, the rest is the guard. */
static uint32_t input_word(const struct place *x, const double *values, size_t w)
{
    const struct copse_type_row *type = copse__type(x->tensor->type);
    const size_t per_word = COPSE_WORD_BYTES / type->bytes;
    uint32_t word = GUARD;
    for (size_t i = 0; i < per_word && w * per_word + i < x->count; i++)
        type->put(&word, i, values[w * per_word + i]);
    return word;
}

static void case_rig_program_paint(const struct copse_rig_program *p, size_t i)
{
    const struct place *x = &p->places[i];
    const double *values = i < p->in_count ? p->rig->values[i] : NULL;
    for (size_t w = 0; w < x->bytes / COPSE_WORD_BYTES; w++)
        x->image[w] = GUARD;
    for (size_t w = 0; w < x->words; w++)
        x->image[BAND / COPSE_WORD_BYTES + w] = values ? input_word(x, values, w) : POISON;
}

static const char *case_rig_program_describe(const struct copse_rig_program *p, size_t i,
                                             char text[64])
{
    const size_t result = i - p->in_count;
    if (i < p->in_count)
        snprintf(text, 64, "input %zu", i);
    else if (i >= p->in_count + p->out_count)
        snprintf(text, 64, "the value of %s in between", p->places[i].tensor->op->name);
    else if (result > 0)
        snprintf(text, 64, "the gradient of input %zu", p->rig->source[result]);
    else
        snprintf(text, 64, "the result");
    return text;
}

static void case_rig_program_check(const struct copse_rig_program *p, size_t i,
                                   struct copse_conform_outcome *out)
{
    const struct place *x = &p->places[i];
    const size_t first = BAND / COPSE_WORD_BYTES, end = first + x->words;
    char text[64];
    for (size_t w = 0; w < x->bytes / COPSE_WORD_BYTES; w++) {
        const bool is_inside = w >= first && w < end;
        if (!is_inside && x->image[w] != GUARD) {
            const size_t far = w < first ? first - w : w - end + 1;
            copse__conform_set(out, COPSE_VERDICT_FAIL, "a kernel wrote %zu element%s %s %s", far,
                               far == 1 ? "" : "s", w < first ? "before" : "past the end of",
                               case_rig_program_describe(p, i, text));
            return;
        }
        if (!is_inside)
            continue;
        if (i < p->in_count && x->image[w] != input_word(x, p->rig->values[i], w - first)) {
            copse__conform_set(out, COPSE_VERDICT_FAIL, "a kernel changed element %zu of %s",
                               (w - first) * (4 / copse__type_bytes(x->tensor->type)),
                               case_rig_program_describe(p, i, text));
            return;
        }
        if (i >= p->in_count && x->image[w] == POISON) {
            copse__conform_set(out, COPSE_VERDICT_FAIL, "element %zu of %s was not written",
                               w - first, case_rig_program_describe(p, i, text));
            return;
        }
    }
}

copse_status copse__rig_program_run(struct copse_rig_program *p, struct copse_conform_outcome *out)
{
    COPSE_TRY(copse_queue_write(p->queue, p->step, 0, p->rig->step, sizeof p->rig->step));
    for (size_t i = 0; i < p->count; i++) {
        case_rig_program_paint(p, i);
        if (p->places[i].memory.buffer)
            COPSE_TRY(copse_queue_write(p->queue, p->places[i].memory.buffer, 0, p->places[i].image,
                                        p->places[i].bytes));
    }
    COPSE_TRY(copse__program_replay(p->recording.program, 0));
    for (size_t i = 0; i < p->count; i++)
        if (p->places[i].memory.buffer)
            COPSE_TRY(copse_queue_read(p->queue, p->places[i].memory.buffer, 0, p->places[i].image,
                                       p->places[i].bytes));
    COPSE_TRY(copse_queue_finish(p->queue));
    for (size_t i = p->count; i-- > 0;) /* results before inputs: closer to the cause */
        case_rig_program_check(p, i, out);
    return COPSE_OK;
}

const uint32_t *copse__rig_program_bits(const struct copse_rig_program *p, size_t i)
{
    return p->places[p->in_count + i].image + BAND / COPSE_WORD_BYTES;
}

/* ---- judging it ---- */

/* Whole numbers must be exact. */
static void compare_whole(const double *expected, const double *got, size_t count,
                          struct copse_comparison *out)
{
    size_t wrong = 0;
    static const struct copse_case_limit exact;
    copse__compare(&exact, expected, NULL, expected, count, false, out);
    for (size_t k = 0; k < count; k++)
        if (got[k] != expected[k] && wrong++ == 0) {
            out->index = k;
            out->got = got[k];
            out->expected = expected[k];
        }
    out->metric = "bits";
    out->worst = (double)wrong;
    out->is_within = wrong == 0;
}

static bool is_same(double a, double b)
{
    return (float)a == (float)b || (isnan(a) && isnan(b));
}

static bool is_nearer(double got, double other, double expected)
{
    if (is_same(got, expected) || is_same(got, other))
        return !is_same(got, expected);
    return !isnan(other) && !(fabs(got - other) >= fabs(got - expected));
}

/* A device that may flush may also flush inputs: the nearest of the results is expected. */
static void compare_real(const struct copse_rig_program *p, size_t i, const double *got,
                         size_t count, double *expected, struct copse_comparison *out)
{
    const struct copse_rig *rig = p->rig;
    const bool flushes = !p->dev->limits->keeps_denormals;
    struct copse_case_limit limit = i ? rig->c->backward : rig->c->forward;
    if (limit.ratio > 0)
        limit.ratio = fmax(limit.ratio, p->ratio);
    if (i == 0 && p->proven > 0) {
        limit.ratio = p->proven;
        limit.is_proven = true;
    }
    for (size_t k = 0; k < count; k++) {
        expected[k] = rig->expected[i][k];
        for (size_t w = 0; flushes && w < COPSE_RIG_FLUSHES && rig->flushed[w][i]; w++)
            if (is_nearer(got[k], rig->flushed[w][i][k], expected[k]))
                expected[k] = rig->flushed[w][i][k];
    }
    copse__compare(&limit, expected, rig->magnitude[i], got, count, flushes, out);
}

static void case_rig_program_take(struct copse_conform_outcome *out,
                                  const struct copse_comparison *c)
{
    struct copse_case_result *r = &out->result;
    r->metric = c->metric;
    r->worst = c->worst;
    r->limit = c->limit;
    r->index = c->index;
    r->got = c->got;
    r->expected = c->expected;
}

static double case_rig_program_strain(double worst, double limit)
{
    return worst == 0 ? 0 : limit > 0 ? worst / limit : INFINITY;
}

copse_status copse__rig_judge(const struct copse_rig_program *p, size_t first,
                              struct copse_conform_outcome *out)
{
    const struct copse_rig *rig = p->rig;
    size_t poor = 0; /* 1 + the first result that is */
    char text[64];
    for (size_t i = first; i < rig->out_count; i++) {
        const struct place *x = &p->places[p->in_count + i];
        struct copse_comparison c;
        double *got = copse__alloc(rig->mem, x->count, 2 * sizeof *got);
        if (!got)
            return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
        for (size_t k = 0; k < x->count; k++)
            got[k] = copse__type(x->tensor->type)->get(x->image + BAND / COPSE_WORD_BYTES, k);
        if (x->tensor->type == COPSE_I32)
            compare_whole(rig->expected[i], got, x->count, &c);
        else
            compare_real(p, i, got, x->count, got + x->count, &c);
        copse__free(rig->mem, got);

        const bool is_first_trouble = !c.is_within && out->result.verdict == COPSE_VERDICT_PASS;
        if (i == first || is_first_trouble ||
            (out->result.verdict == COPSE_VERDICT_PASS &&
             case_rig_program_strain(c.worst, c.limit) >
                 case_rig_program_strain(out->result.worst, out->result.limit)))
            case_rig_program_take(out, &c);
        out->result.nmse = fmax(out->result.nmse, c.nmse);
        if (!c.is_within)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "%s is outside the tolerance%s",
                               case_rig_program_describe(p, p->in_count + i, text),
                               c.worst <= c.limit ? ": mean square error" : "");
        if (c.is_poor && poor == 0)
            poor = 1 + i;
    }
    /* The gradient of a scalar may be equal everywhere. */
    if (poor && !rig->c->is_poor && copse__elements(rig->out[0]->shape) > 1)
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED,
                           "%s is nearly all zero or all the same: proves little",
                           case_rig_program_describe(p, p->in_count + poor - 1, text));
    return COPSE_OK;
}
