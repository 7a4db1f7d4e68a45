/* SPDX-License-Identifier: MIT */
/* The definitions of update rules in double precision, from the sources that docs/optimizers.md
   names, and the settings with which mode opt checks them. */
#include <math.h>

#include "core/rule/rule.h"
#include "prover/conformance/modes/modes.h"

/* A step of an element. */
struct step {
    const struct copse_optimizer_params *p;
    double t, rate, g, all, x; /* gradient; the magnitudes of its terms; value */
    double *const *slots;
};

/* Returns what the value loses. */
typedef double change_fn(const struct step *s, double *size);
/* Changes the whole variable. */
typedef void variable_fn(const struct copse_optimizer_params *p, double t, const double *g,
                         const struct copse_conform_variable *v);

/* s = decay s + rest term. Returns the same with magnitudes. */
static double opt_rules_blend(double *s, double decay, double rest, double term, double all)
{
    const double size = decay * fabs(*s) + rest * all;
    *s = decay * *s + rest * term;
    return size;
}

static double opt_rules_bias(double beta, double t)
{
    return 1.0 - pow(beta, t);
}

/* ---- the rules ---- */

static double opt_rules_sgd(const struct step *s, double *size)
{
    *size = s->rate * s->all;
    return s->rate * s->g;
}

static double opt_rules_momentum(const struct step *s, double *size)
{
    *size = s->rate * opt_rules_blend(s->slots[0], (double)s->p->momentum, 1.0, s->g, s->all);
    return s->rate * *s->slots[0];
}

static double opt_rules_nesterov(const struct step *s, double *size)
{
    const double m = (double)s->p->momentum;
    *size = s->rate * (s->all + m * opt_rules_blend(s->slots[0], m, 1.0, s->g, s->all));
    return s->rate * (s->g + m * *s->slots[0]);
}

static double opt_rules_adam(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1, beta2 = (double)s->p->beta2;
    const double m = opt_rules_blend(s->slots[0], beta1, 1.0 - beta1, s->g, s->all);
    opt_rules_blend(s->slots[1], beta2, 1.0 - beta2, s->g * s->g, 0.0);
    const double divisor =
        opt_rules_bias(beta1, s->t) *
        (sqrt(*s->slots[1] / opt_rules_bias(beta2, s->t)) + (double)s->p->epsilon);
    *size = s->rate * m / divisor;
    return s->rate * *s->slots[0] / divisor;
}

static double opt_rules_adagrad(const struct step *s, double *size)
{
    *s->slots[0] += s->g * s->g;
    const double divisor = sqrt(*s->slots[0]) + (double)s->p->epsilon;
    *size = s->rate * s->all / divisor;
    return s->rate * s->g / divisor;
}

static double opt_rules_adadelta(const struct step *s, double *size)
{
    const double rho = (double)s->p->beta2, epsilon = (double)s->p->epsilon;
    opt_rules_blend(s->slots[0], rho, 1.0 - rho, s->g * s->g, 0.0);
    const double factor = sqrt(*s->slots[1] + epsilon) / sqrt(*s->slots[0] + epsilon),
                 change = factor * s->g;
    opt_rules_blend(s->slots[1], rho, 1.0 - rho, change * change, 0.0);
    *size = s->rate * factor * s->all;
    return s->rate * change;
}

static double opt_rules_rmsprop(const struct step *s, double *size)
{
    const double alpha = (double)s->p->beta2, m = (double)s->p->momentum;
    const double epsilon = (double)s->p->epsilon, inside = s->p->epsilon_in_root ? epsilon : 0.0;
    double variance, share = 1.0;
    opt_rules_blend(s->slots[0], alpha, 1.0 - alpha, s->g * s->g, 0.0);
    variance = *s->slots[0];
    if (s->p->is_centred) {
        opt_rules_blend(s->slots[1], alpha, 1.0 - alpha, s->g, s->all);
        const double square = *s->slots[1] * *s->slots[1];
        variance -= square;
        share += (*s->slots[0] + square) / (variance + inside);
    }
    const double divisor = sqrt(variance + inside) + epsilon - inside;
    *size = s->rate * share * s->all / divisor;
    if (!(m > 0.0))
        return s->rate * s->g / divisor;
    double *buffer = s->slots[s->p->is_centred ? 2 : 1];
    *size = s->rate * opt_rules_blend(buffer, m, 1.0, s->g / divisor, share * s->all / divisor);
    return s->rate * *buffer;
}

static double opt_rules_amsgrad(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1, beta2 = (double)s->p->beta2;
    const double m = opt_rules_blend(s->slots[0], beta1, 1.0 - beta1, s->g, s->all);
    opt_rules_blend(s->slots[1], beta2, 1.0 - beta2, s->g * s->g, 0.0);
    *s->slots[2] = fmax(*s->slots[2], *s->slots[1]);
    const double divisor =
        opt_rules_bias(beta1, s->t) *
        (sqrt(*s->slots[2] / opt_rules_bias(beta2, s->t)) + (double)s->p->epsilon);
    *size = s->rate * m / divisor;
    return s->rate * *s->slots[0] / divisor;
}

static double opt_rules_adamax(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1;
    const double m = opt_rules_blend(s->slots[0], beta1, 1.0 - beta1, s->g, s->all);
    *s->slots[1] = fmax((double)s->p->beta2 * *s->slots[1], fabs(s->g) + (double)s->p->epsilon);
    const double divisor = opt_rules_bias(beta1, s->t) * *s->slots[1];
    *size = s->rate * m / divisor;
    return s->rate * *s->slots[0] / divisor;
}

static double nadam_mu(const struct step *s, double t)
{
    return (double)s->p->beta1 * (1.0 - 0.5 * pow(0.96, t * (double)s->p->momentum_decay));
}

static double opt_rules_nadam(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1, beta2 = (double)s->p->beta2;
    const double now = nadam_mu(s, s->t), next = nadam_mu(s, s->t + 1.0);
    double product = 1.0;
    for (double t = 1.0; t <= s->t && product > 0x1p-60; t++) /* then 1 - product is 1 */
        product *= nadam_mu(s, t);
    const double m = opt_rules_blend(s->slots[0], beta1, 1.0 - beta1, s->g, s->all);
    opt_rules_blend(s->slots[1], beta2, 1.0 - beta2, s->g * s->g, 0.0);
    const double of_gradient = (1.0 - now) / (1.0 - product),
                 of_mean = next / (1.0 - product * next);
    const double divisor = sqrt(*s->slots[1] / opt_rules_bias(beta2, s->t)) + (double)s->p->epsilon;
    *size = s->rate * (of_gradient * s->all + of_mean * m) / divisor;
    return s->rate * (of_gradient * s->g + of_mean * *s->slots[0]) / divisor;
}

/* Where the sign depends on rounding, of this step or of the 100 whose sum the mean is, both are
   right. */
static double opt_rules_lion(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1, beta2 = (double)s->p->beta2;
    const double c = beta1 * *s->slots[0] + (1.0 - beta1) * s->g;
    const double all = beta1 * fabs(*s->slots[0]) + (1.0 - beta1) * s->all;
    opt_rules_blend(s->slots[0], beta2, 1.0 - beta2, s->g, s->all);
    *size = fabs(c) <= 0x1p-16 * all ? INFINITY : s->rate;
    return c > 0.0 ? s->rate : c < 0.0 ? -s->rate : 0.0;
}

static double opt_rules_shrunk(double x, double by)
{
    return copysign(fmax(fabs(x) - by, 0.0), x);
}

static double opt_rules_ftrl(const struct step *s, double *size)
{
    const double before = *s->slots[0], linear = *s->slots[1];
    const double l1 = (double)s->p->l1, l2 = (double)s->p->l2;
    *s->slots[0] += s->g * s->g;
    /* (sqrt(n + g^2) - sqrt(n)) / rate without its cancellation */
    const double sigma = s->g * s->g / (sqrt(*s->slots[0]) + sqrt(before)) / s->rate;
    *s->slots[1] += s->g - sigma * s->x;
    const double divisor = sqrt(*s->slots[0]) / s->rate + 2.0 * l2;
    *size = (fabs(linear) + s->all + sigma * fabs(s->x) + l1) / divisor;
    return s->x + opt_rules_shrunk(*s->slots[1], l1) / divisor;
}

static double opt_rules_proximal(const struct step *s, double rate, double *size)
{
    const double l1 = (double)s->p->l1, l2 = (double)s->p->l2;
    *size = fabs(s->x) + rate * (s->all + l1);
    return s->x - opt_rules_shrunk(s->x - rate * s->g, rate * l1) / (1.0 + rate * l2);
}

static double proximal_sgd(const struct step *s, double *size)
{
    return opt_rules_proximal(s, s->rate, size);
}

static double proximal_adagrad(const struct step *s, double *size)
{
    *s->slots[0] += s->g * s->g;
    return opt_rules_proximal(s, s->rate / sqrt(*s->slots[0]), size);
}

static double rate_of(const struct copse_optimizer_params *p, double t)
{
    return (double)(p->schedule ? p->schedule(p->schedule_user, (uint64_t)t) : p->learning_rate);
}

/* Quotients are limited to (t - 1)^(1/4): the first step changes v alone. */
static double opt_rules_adopt(const struct step *s, double *size)
{
    const double beta1 = (double)s->p->beta1, beta2 = (double)s->p->beta2;
    const double divisor = fmax(sqrt(*s->slots[1]), (double)s->p->epsilon);
    const double most = pow(s->t - 1.0, 0.25);
    const double q = fmax(fmin(s->g / divisor, most), -most);
    double all = s->all / divisor;
    if (s->all == fabs(s->g)) /* no terms that cancel */
        all = fmin(all, most);
    *size = s->rate * opt_rules_blend(s->slots[0], beta1, 1.0 - beta1, q, all);
    if (s->t == 1.0)
        *s->slots[1] = s->g * s->g;
    else
        opt_rules_blend(s->slots[1], beta2, 1.0 - beta2, s->g * s->g, 0.0);
    return s->rate * *s->slots[0];
}

/* ---- rules with norms of the whole variable ---- */

static double opt_rules_norm(const double *x, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static double opt_rules_ratio(double a, double b)
{
    return a == 0.0 || b == 0.0 ? 1.0 : a / b;
}

/* The rate of the variable is inside of the momentum, as in the paper. */
static void opt_rules_lars(const struct copse_optimizer_params *p, double t, const double *g,
                           const struct copse_conform_variable *v)
{
    const double decay = (double)p->weight_decay, values = opt_rules_norm(v->value, v->count);
    const double own =
        rate_of(p, t) *
        opt_rules_ratio((double)p->trust * values, opt_rules_norm(g, v->count) + decay * values);
    for (size_t i = 0; i < v->count; i++) {
        const double x = v->value[i];
        v->size[i] = opt_rules_blend(&v->slots[0][i], (double)p->momentum, own, g[i] + decay * x,
                                     fabs(g[i]) + fabs(decay * x));
        v->value[i] = x - v->slots[0][i];
    }
}

/* The update of element i by its slots, which are those of this step. */
static double lamb_update(const struct copse_optimizer_params *p, double t,
                          const struct copse_conform_variable *v, size_t i)
{
    const double divisor =
        sqrt(v->slots[1][i] / opt_rules_bias((double)p->beta2, t)) + (double)p->epsilon;
    return v->slots[0][i] / opt_rules_bias((double)p->beta1, t) / divisor +
           (double)p->weight_decay * v->value[i];
}

static void opt_rules_lamb(const struct copse_optimizer_params *p, double t, const double *g,
                           const struct copse_conform_variable *v)
{
    const double beta1 = (double)p->beta1, beta2 = (double)p->beta2,
                 values = opt_rules_norm(v->value, v->count);
    double sum = 0.0;
    for (size_t i = 0; i < v->count; i++) {
        v->size[i] = opt_rules_blend(&v->slots[0][i], beta1, 1.0 - beta1, g[i], fabs(g[i]));
        opt_rules_blend(&v->slots[1][i], beta2, 1.0 - beta2, g[i] * g[i], 0.0);
        const double u = lamb_update(p, t, v, i);
        sum += u * u;
    }
    const double own = rate_of(p, t) * opt_rules_ratio(values, sqrt(sum));
    for (size_t i = 0; i < v->count; i++) {
        const double divisor =
            opt_rules_bias(beta1, t) *
            (sqrt(v->slots[1][i] / opt_rules_bias(beta2, t)) + (double)p->epsilon);
        v->size[i] = own * (v->size[i] / divisor + (double)p->weight_decay * fabs(v->value[i]));
        v->value[i] -= own * lamb_update(p, t, v, i);
    }
}

/* ---- the definitions ---- */

/* Of one element, or of a whole variable. */
static const struct {
    change_fn *each;
    variable_fn *whole;
} definitions[] = {
    [COPSE_ADAM] = { .each = opt_rules_adam },
    [COPSE_ADAMW] = { .each = opt_rules_adam },
    [COPSE_SGD] = { .each = opt_rules_sgd },
    [COPSE_MOMENTUM] = { .each = opt_rules_momentum },
    [COPSE_NESTEROV] = { .each = opt_rules_nesterov },
    [COPSE_ADAGRAD] = { .each = opt_rules_adagrad },
    [COPSE_ADADELTA] = { .each = opt_rules_adadelta },
    [COPSE_RMSPROP] = { .each = opt_rules_rmsprop },
    [COPSE_AMSGRAD] = { .each = opt_rules_amsgrad },
    [COPSE_ADAMAX] = { .each = opt_rules_adamax },
    [COPSE_NADAM] = { .each = opt_rules_nadam },
    [COPSE_LION] = { .each = opt_rules_lion },
    [COPSE_ADAM8] = { .each = opt_rules_adam },
    [COPSE_FTRL] = { .each = opt_rules_ftrl },
    [COPSE_PROXIMAL_SGD] = { .each = proximal_sgd },
    [COPSE_PROXIMAL_ADAGRAD] = { .each = proximal_adagrad },
    [COPSE_ADOPT] = { .each = opt_rules_adopt },
    [COPSE_LARS] = { .whole = opt_rules_lars },
    [COPSE_LAMB] = { .whole = opt_rules_lamb },
};

static double opt_rules_update(const struct copse_rule *rule, double t, double g, double x,
                               double *const slots[COPSE_RULE_MOMENTS], double *size)
{
    const struct copse_optimizer_params *p = &rule->params;
    const double decay = (double)p->weight_decay * x;
    const double into = rule->row->decays_apart ? 0.0 : decay;
    const struct step s = {
        .p = p,
        .t = t,
        .g = g + into,
        .all = fabs(g) + fabs(into),
        .x = x,
        .slots = slots,
        .rate = rate_of(p, t),
    };
    const double change = definitions[p->kind].each(&s, size);
    if (!rule->row->decays_apart)
        return x - change;
    *size += s.rate * fabs(decay);
    return x - change - s.rate * decay;
}

void copse__conform_update(const struct copse_rule *rule, double t, const double *g,
                           const struct copse_conform_variable *v)
{
    const struct copse_optimizer_params *p = &rule->params;
    if (definitions[p->kind].whole) {
        definitions[p->kind].whole(p, t, g, v);
        return;
    }
    for (size_t i = 0; i < v->count; i++) {
        double *const slots[COPSE_RULE_MOMENTS] = { v->slots[0] + i, v->slots[1] + i,
                                                    v->slots[2] + i };
        v->value[i] = opt_rules_update(rule, t, g[i], v->value[i], slots, &v->size[i]);
    }
}

/* ---- settings that mode opt checks ---- */

static float opt_rules_halving(void *user, uint64_t step)
{
    (void)user;
    return step < 5 ? 0.01f : step < 1002 ? 0.005f : 0.0025f;
}

const struct copse_conform_rule_setup copse_conform_rule_setups[] = {
    { "defaults", { .kind = COPSE_ADAM }, COPSE_CONFORM_QUICK },
    { "decay",
      { .kind = COPSE_ADAM, .weight_decay = 0.01f, .epsilon = 1e-3f },
      COPSE_CONFORM_STANDARD },
    { "schedule",
      { .kind = COPSE_ADAM, .beta1 = 0.3f, .beta2 = 0.9f, .schedule = opt_rules_halving },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADAMW }, COPSE_CONFORM_STANDARD },
    { "decay", { .kind = COPSE_ADAMW, .weight_decay = 0.01f }, COPSE_CONFORM_QUICK },
    { "defaults", { .kind = COPSE_SGD }, COPSE_CONFORM_QUICK },
    { "decay",
      { .kind = COPSE_SGD, .weight_decay = 0.1f, .learning_rate = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_MOMENTUM }, COPSE_CONFORM_QUICK },
    { "decay",
      { .kind = COPSE_MOMENTUM, .weight_decay = 0.1f, .momentum = 0.5f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_NESTEROV }, COPSE_CONFORM_QUICK },
    { "decay", { .kind = COPSE_NESTEROV, .weight_decay = 0.1f }, COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADAGRAD }, COPSE_CONFORM_STANDARD },
    { "decay, initial",
      { .kind = COPSE_ADAGRAD, .weight_decay = 0.1f, .initial = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADADELTA }, COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_RMSPROP }, COPSE_CONFORM_STANDARD },
    { "momentum",
      { .kind = COPSE_RMSPROP, .momentum = 0.5f, .weight_decay = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "centred", { .kind = COPSE_RMSPROP, .is_centred = 1 }, COPSE_CONFORM_STANDARD },
    { "centred, momentum",
      { .kind = COPSE_RMSPROP, .is_centred = 1, .momentum = 0.9f },
      COPSE_CONFORM_STANDARD },
    { "centred, epsilon in the root",
      { .kind = COPSE_RMSPROP, .is_centred = 1, .epsilon = 1e-3f, .epsilon_in_root = 1 },
      COPSE_CONFORM_STANDARD },
    { "momentum, epsilon in the root",
      { .kind = COPSE_RMSPROP, .momentum = 0.5f, .epsilon = 1e-7f, .epsilon_in_root = 1 },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_AMSGRAD }, COPSE_CONFORM_STANDARD },
    { "decay",
      { .kind = COPSE_AMSGRAD, .beta2 = 0.5f, .weight_decay = 0.01f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADAMAX }, COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_NADAM }, COPSE_CONFORM_STANDARD },
    /* Equal changes are rounded alike, so that a thousand of them are 1e-5 off; those of a power of
       two are exact. */
    { "defaults", { .kind = COPSE_LION, .learning_rate = 0x1p-13f }, COPSE_CONFORM_STANDARD },
    { "decay",
      { .kind = COPSE_LION, .weight_decay = 0.1f, .learning_rate = 1e-3f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_FTRL }, COPSE_CONFORM_STANDARD },
    { "l1, l2",
      { .kind = COPSE_FTRL, .l1 = 0.01f, .l2 = 0.1f, .learning_rate = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "l1, l2",
      { .kind = COPSE_PROXIMAL_SGD, .l1 = 0.3f, .l2 = 0.1f, .learning_rate = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "l1, l2",
      { .kind = COPSE_PROXIMAL_ADAGRAD, .l1 = 0.3f, .l2 = 0.1f, .learning_rate = 0.1f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_LARS }, COPSE_CONFORM_STANDARD },
    { "decay, trust",
      { .kind = COPSE_LARS, .weight_decay = 0.1f, .trust = 0.01f, .momentum = 0.5f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_LAMB }, COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADAM8 }, COPSE_CONFORM_STANDARD },
    { "decay",
      { .kind = COPSE_ADAM8, .weight_decay = 0.01f, .beta1 = 0.5f, .beta2 = 0.9f },
      COPSE_CONFORM_STANDARD },
    { "decay",
      { .kind = COPSE_LAMB, .weight_decay = 0.1f, .beta2 = 0.9f },
      COPSE_CONFORM_STANDARD },
    { "defaults", { .kind = COPSE_ADOPT }, COPSE_CONFORM_STANDARD },
    { "decay",
      { .kind = COPSE_ADOPT, .weight_decay = 0.01f, .beta2 = 0.9f },
      COPSE_CONFORM_STANDARD },
};
const size_t copse_conform_rule_setup_count = COPSE_COUNT(copse_conform_rule_setups);
