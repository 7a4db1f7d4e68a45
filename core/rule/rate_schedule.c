/* SPDX-License-Identifier: MIT */
/* Schedules: made from a text, asked for the rate of a step, told validation losses. */
#include "core/rule/rate_schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/device/device.h"

copse_status copse_schedule_create(copse_context *ctx, const struct copse_schedule_params *params,
                                   copse_schedule **out)
{
    COPSE_TRY(copse_need("schedule_create", ctx, params, out));
    *out = NULL;
    COPSE_TRY(copse_need("schedule_create", params->text));
    COPSE_TRY(copse_no_reserved(copse_schedule_params, params));
    if (!(params->rate > 0.0f && isfinite(params->rate)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "schedule: the rate is %g: a finite number > 0 is needed",
                          (double)params->rate);
    copse_schedule *s = copse__alloc(&ctx->base.mem, 1, sizeof *s);
    COPSE_TRY(copse_need_memory(s, "schedule"));
    s->rate = (double)params->rate;
    s->steps = params->steps;
    const copse_status status = copse__schedule_parse(params->text, params->steps, s);
    if (status) {
        copse__free(&ctx->base.mem, s);
        return status;
    }
    s->ctx = copse_context_retain(ctx);
    *out = s;
    return COPSE_OK;
}

copse_status copse_schedule_check(const char *text)
{
    static const uint64_t any = 1ull << 40;
    copse_schedule s = { .steps = any };
    COPSE_TRY(copse_need("schedule_check", text));
    return copse__schedule_parse(text, any, &s);
}

void copse_schedule_release(copse_schedule **schedule)
{
    copse_schedule *s = schedule ? *schedule : NULL;
    if (!s)
        return;
    copse_context *ctx = s->ctx;
    copse__free(&ctx->base.mem, s);
    copse_context_release(&ctx);
    *schedule = NULL;
}

/* The phase of a step from 0; behind the last one its last step. */
static uint32_t find_phase(const copse_schedule *s, uint64_t step, struct copse_phase_place *at)
{
    uint32_t i = 0;
    while (i + 1 < s->phase_count && step >= s->phases[i + 1].first)
        i++;
    const struct copse_phase *phase = &s->phases[i];
    uint64_t k = step - phase->first;
    if (phase->count > 0 && k >= phase->count)
        k = phase->count - 1;
    *at = (struct copse_phase_place){ (double)k, (double)phase->count };
    return i;
}

float copse_schedule_rate(void *schedule, uint64_t step)
{
    const copse_schedule *s = schedule;
    struct copse_phase_place at;
    if (!s)
        return 0.0f;
    const uint32_t phase = find_phase(s, step > 0 ? step - 1 : 0, &at);
    double rate = s->rate;
    for (uint32_t i = 0; i < s->factor_count; i++)
        if (s->factors[i].phase == phase)
            rate *= s->factors[i].kind->value(&s->factors[i], &at);
    return (float)rate;
}

/* ---- plateaus ---- */

static struct copse_factor *plateau_of(const copse_schedule *s)
{
    for (uint32_t i = 0; i < s->factor_count; i++)
        if (strcmp(s->factors[i].kind->name, "plateau") == 0)
            return (struct copse_factor *)&s->factors[i];
    return NULL;
}

copse_status copse_schedule_observe(copse_schedule *schedule, double loss)
{
    COPSE_TRY(copse_need("schedule_observe", schedule));
    struct copse_factor *f = plateau_of(schedule);
    if (!f)
        return COPSE_OK;
    if (loss < f->best - fabs(f->best) * f->numbers[2] || (isinf(f->best) && isfinite(loss))) {
        f->best = loss;
        f->waited = 0;
    } else if ((double)++f->waited >= f->numbers[1]) {
        f->product *= f->numbers[0];
        f->waited = 0;
    }
    return COPSE_OK;
}

void copse_schedule_state(const copse_schedule *schedule, char text[COPSE_SCHEDULE_STATE])
{
    const struct copse_factor *f = schedule ? plateau_of(schedule) : NULL;
    if (!text)
        return;
    text[0] = '\0';
    if (f)
        snprintf(text, COPSE_SCHEDULE_STATE, "%.17g %llu %.17g", f->best,
                 (unsigned long long)f->waited, f->product);
}

copse_status copse_schedule_restore(copse_schedule *schedule, const char *text)
{
    double best, product;
    unsigned long long waited;
    int end = 0;
    COPSE_TRY(copse_need("schedule_restore", schedule, text));
    struct copse_factor *f = plateau_of(schedule);
    if (f && text[0] == '\0')
        text = "inf 0 1";
    const bool is_right = f ? sscanf(text, "%lf %llu %lf%n", &best, &waited, &product, &end) == 3 &&
                                  text[end] == '\0' && !isnan(best) && product > 0.0 &&
                                  product <= 1.0
                            : text[0] == '\0';
    if (!is_right)
        return copse_fail(COPSE_ERR_FORMAT, "schedule: \"%.60s\" is no state of this schedule",
                          text);
    if (f) {
        f->best = best;
        f->waited = waited;
        f->product = product;
    }
    return COPSE_OK;
}
