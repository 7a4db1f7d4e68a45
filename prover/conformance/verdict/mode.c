/* SPDX-License-Identifier: MIT */
/* One case of a mode from begin to end. The modes themselves compare numbers. */
#include <math.h>
#include <stdio.h>

#include "prover/conformance/verdict/mode.h"

#define MOST_REPEATED 10.0 /* seconds of a case that is repeated */

void copse__conform_set(struct copse_conform_outcome *out, copse_verdict verdict, const char *fmt,
                        ...)
{
    va_list args;
    if (out->result.verdict != COPSE_VERDICT_PASS)
        return;
    out->result.verdict = verdict;
    va_start(args, fmt);
    vsnprintf(out->text, sizeof out->text, fmt, args);
    va_end(args);
}

void copse__conform_digest(struct copse_conform_outcome *out, const void *bytes, size_t size)
{
    snprintf(out->hash, sizeof out->hash, "%016llx",
             (unsigned long long)copse__hash(COPSE_HASH_START, bytes, size));
}

copse_status copse__conform_memory(struct copse_conform_run *r, size_t count, size_t size, void *at)
{
    void *block = copse__alloc(&r->ctx->base.mem, count, size);
    memcpy(at, &block, sizeof block);
    return block ? COPSE_OK
                 : copse_fail(COPSE_ERR_NO_MEMORY, "conformance: no memory for %zu times %zu bytes",
                              count, size);
}

bool copse__conform_measure(struct copse_conform_outcome *out, double value, uint64_t index,
                            double got, double expected)
{
    struct copse_case_result *c = &out->result;
    if (!isnan(c->worst) && !(value <= c->worst)) { /* NaN is the largest error */
        c->worst = value;
        c->index = index;
        c->got = got;
        c->expected = expected;
    }
    return value <= c->limit;
}

/* Whether a status other than COPSE_OK can come from a faulty kernel. */
static bool is_of_device(copse_status s)
{
    return s == COPSE_ERR_TIMEOUT || s == COPSE_ERR_DEVICE_LOST || s == COPSE_ERR_NONFINITE;
}

static void mode_attempt(struct copse_conform_run *r, const struct copse_conform_case *c,
                         copse_conform_fn *run, void *user, struct copse_conform_outcome *out)
{
    out->text[0] = out->hash[0] = '\0';
    out->is_excused = r->is_shared;
    out->result = (struct copse_case_result){
        .mode = c->mode,
        .op = c->op,
        .name = c->name,
        .variant = c->variant ? c->variant : "",
        .type = "f32",
        .metric = "",
        .hash = out->hash,
        .text = out->text,
        .seed = copse__run_seed(r->params->seed, c->op, c->name),
    };
    const uint64_t start = copse__now_ns();
    const copse_status s = run(r, user, out);
    if (s) {
        out->result.verdict = copse__conform_verdict(s);
        snprintf(out->text, sizeof out->text, "%s", copse_last_error());
        out->is_excused = out->is_excused || !is_of_device(s);
    }
    out->result.seconds = (double)(copse__now_ns() - start) * 1e-9;
}

/* Whether a failed case passes when it is repeated. */
static bool is_shaky(struct copse_conform_run *r, const struct copse_conform_case *c,
                     copse_conform_fn *run, void *user, const struct copse_conform_outcome *first)
{
    struct copse_conform_outcome again;
    if (first->result.verdict != COPSE_VERDICT_FAIL || first->is_excused ||
        first->result.seconds > MOST_REPEATED || r->params->own ||
        !copse__verdicts_is_about(r, c->mode))
        return false;
    mode_attempt(r, c, run, user, &again);
    return again.result.verdict == COPSE_VERDICT_PASS;
}

copse_verdict copse__conform_one(struct copse_conform_run *r, const struct copse_conform_case *c,
                                 copse_conform_fn *run, void *user)
{
    struct copse_conform_outcome out;
    if (!copse__conform_begin(r, c->mode, c->op, c->name, c->variant))
        return COPSE_VERDICT_SKIP;
    mode_attempt(r, c, run, user, &out);
    struct copse_evidence e = { .is_shaky = is_shaky(r, c, run, user, &out),
                                .is_excused = out.is_excused,
                                .is_open = r->has_variants };
    const size_t at = strlen(out.text);
    if (e.is_shaky)
        snprintf(out.text + at, sizeof out.text - at,
                 "; it passes when it is repeated: the fault comes and goes");
    copse__conform_end(r, &out.result, &e);
    return out.result.verdict;
}
