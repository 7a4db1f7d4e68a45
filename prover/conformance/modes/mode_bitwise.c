/* SPDX-License-Identifier: MIT */
/* Mode bitwise: the bits must be the same when a program runs again, when it is created again, and,
   if every element is computed independently, when the batch has only some of the rows. */
#include "prover/conformance/modes/modes.h"

static size_t mode_bitwise_words(const struct copse_rig *rig, size_t i)
{
    return (size_t)copse__elements(rig->out[i]->shape);
}

/* Compare with stored bits; the bits of result `i` have the length in `keep`. */
static void mode_bitwise_compare(const struct copse_rig_program *p, size_t i, const uint32_t *keep,
                                 size_t count, const char *when, struct copse_conform_outcome *out)
{
    const uint32_t *bits = copse__rig_program_bits(p, i);
    size_t wrong = 0;
    for (size_t k = 0; k < count; k++)
        if (bits[k] != keep[k] && wrong++ == 0)
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "element %zu of result %zu is %08x %s, %08x before", k, i, bits[k],
                               when, keep[k]);
    out->result.worst += (double)wrong;
}

/* All results of a run, concatenated. */
static copse_status mode_bitwise_keep(const struct copse_rig *rig,
                                      const struct copse_rig_program *p, uint32_t **out,
                                      size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < rig->out_count; i++)
        *count += mode_bitwise_words(rig, i);
    *out = copse__alloc(rig->mem, *count, sizeof **out);
    if (!*out)
        return copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory");
    for (size_t i = 0, at = 0; i < rig->out_count; at += mode_bitwise_words(rig, i), i++)
        memcpy(*out + at, copse__rig_program_bits(p, i),
               COPSE_WORD_BYTES * mode_bitwise_words(rig, i));
    return COPSE_OK;
}

static void compare_all(const struct copse_rig *rig, const struct copse_rig_program *p,
                        const uint32_t *bits, const char *when, struct copse_conform_outcome *out)
{
    for (size_t i = 0, at = 0; i < rig->out_count; at += mode_bitwise_words(rig, i), i++)
        mode_bitwise_compare(p, i, bits + at, mode_bitwise_words(rig, i), when, out);
}

/* ---- a part of the batch ---- */

/* The first third of the rows, where all inputs have the shape of the result. */
static bool mode_bitwise_split(const struct copse_rig *whole, struct copse_case *part)
{
    *part = *whole->c;
    const copse_shape shape = whole->out[0]->shape;
    bool is_same = !part->family && part->in_count > 0 && shape.rank > 0 && shape.dims[0] >= 3;
    for (size_t i = 0; i < part->in_count; i++) {
        is_same = is_same && copse__shape_equal(part->in[i].shape, shape);
        part->in[i].shape.dims[0] = shape.dims[0] / 3;
        part->in[i].fill = COPSE_FILL_VALUES;
        part->in[i].values = whole->values[i];
        part->in[i].value_count = (size_t)copse__elements(part->in[i].shape);
    }
    return is_same;
}

/* Guaranteed if the reference computes the elements of the part like those of the whole. */
static bool is_independent(const struct copse_rig *whole, const struct copse_rig *part)
{
    const size_t n = mode_bitwise_words(part, 0);
    return n <= mode_bitwise_words(whole, 0) &&
           memcmp(part->expected[0], whole->expected[0], n * 8) == 0;
}

static copse_status compare_part(struct copse_conform_run *r, struct copse_rig *whole,
                                 const char *variant, const uint32_t *bits,
                                 struct copse_conform_outcome *out)
{
    struct copse_case half;
    struct copse_rig part;
    struct copse_rig_program *p = NULL;
    if (!mode_bitwise_split(whole, &half))
        return COPSE_OK;
    copse_status s = copse__rig_open(r->ctx, &half, out->result.seed, false, &part);
    if (s == COPSE_OK)
        s = copse__rig_expect(&part);
    if (s == COPSE_OK)
        s = copse__rig_expect(whole);
    if (s || !is_independent(whole, &part)) {
        s = COPSE_OK; /* not guaranteed */
        goto done;
    }
    COPSE_TRY_OR(done, s, copse__rig_program_open(&part, r->dev, variant, &p));
    COPSE_TRY_OR(done, s, copse__rig_program_run(p, out));
    mode_bitwise_compare(p, 0, bits, mode_bitwise_words(&part, 0), "in a part of the batch", out);
done:
    copse__rig_program_close(&p);
    copse__rig_close(&part);
    return s;
}

/* Intermittent faults: from tier full on, a fault in one of fifty runs is always detected. */
static uint32_t runs_of(const struct copse_conform_run *r)
{
    return r->params->tier >= COPSE_CONFORM_FULL ? 51 : 2;
}

static copse_status compare_runs(struct copse_conform_run *r, const struct copse_case *c,
                                 const char *variant, struct copse_conform_outcome *out)
{
    struct copse_rig rig;
    struct copse_rig_program *first = NULL, *second = NULL;
    uint32_t *bits = NULL;
    size_t count;
    copse_status s;
    out->result.metric = "bits";
    COPSE_TRY_OR(done, s,
                 copse__rig_open(r->ctx, c, out->result.seed, copse__case_has_gradient(c), &rig));
    COPSE_TRY_OR(done, s, copse__rig_program_open(&rig, r->dev, variant, &first));
    COPSE_TRY_OR(done, s, copse__rig_program_run(first, out));
    COPSE_TRY_OR(done, s, mode_bitwise_keep(&rig, first, &bits, &count));
    copse__conform_digest(out, bits, COPSE_WORD_BYTES * count);
    for (uint32_t i = 1; i < runs_of(r) && out->result.verdict == COPSE_VERDICT_PASS; i++) {
        COPSE_TRY_OR(done, s, copse__rig_program_run(first, out));
        compare_all(&rig, first, bits, "in a later run", out);
    }
    COPSE_TRY_OR(done, s, copse__rig_program_open(&rig, r->dev, variant, &second));
    COPSE_TRY_OR(done, s, copse__rig_program_run(second, out));
    compare_all(&rig, second, bits, "in a second program", out);
    s = compare_part(r, &rig, variant, bits, out);
done:
    copse__rig_program_close(&first);
    copse__rig_program_close(&second);
    copse__free(&r->ctx->base.mem, bits);
    copse__rig_close(&rig);
    return s;
}

copse_status copse__conform_bitwise(struct copse_conform_run *r)
{
    copse__conform_walk(r, "bitwise", NULL, compare_runs);
    return COPSE_OK;
}
