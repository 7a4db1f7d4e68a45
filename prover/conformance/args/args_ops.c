/* SPDX-License-Identifier: MIT */
/* Mode args, operations: every op of the tables without a graph or an operand, and with
   an operand of another graph or element type; and the refused calls that the tables list. */
#include <stdio.h>

#include "prover/conformance/args/args.h"

/* ---- operands ---- */

struct stage {
    copse_graph *g, *other;
    copse_tensor *good[COPSE_CASE_INPUTS];
    copse_tensor *far[COPSE_CASE_INPUTS];   /* the same of the other graph */
    copse_tensor *wrong[COPSE_CASE_INPUTS]; /* of another element type */
};

static copse_status open_stage(copse_context *ctx, const struct copse_case_op *op, struct stage *s)
{
    COPSE_TRY(copse_graph_create(ctx, &s->g));
    COPSE_TRY(copse_graph_create(ctx, &s->other));
    for (size_t i = 0; i < op->in_count; i++) {
        const struct copse_case_input *x = &op->in[i];
        const copse_type wrong = x->type == COPSE_F32 ? COPSE_I32 : COPSE_F32;
        s->good[i] = copse_graph_input(s->g, "x", x->type, x->shape);
        s->wrong[i] = copse_graph_input(s->g, "x", wrong, x->shape);
        s->far[i] = copse_graph_input(s->other, "x", x->type, x->shape);
    }
    COPSE_TRY(copse_graph_status(s->g));
    return copse_graph_status(s->other);
}

copse_status copse__args_failure(copse_graph *g)
{
    return g ? copse__graph_take_failure(g) : COPSE_ERR_ARGUMENT;
}

/* Takes the failure off the graph. */
static void args_ops_judge(struct copse_conform_outcome *out, const struct copse_case_op *op,
                           const char *what, copse_graph *g, copse_status expected,
                           const copse_tensor *y)
{
    char call[96];
    snprintf(call, sizeof call, "copse_%s %s", op->name, what);
    copse__args_judge(out, call, copse__args_failure(g), expected, copse__is_failed(y));
}

static void check_operand(struct stage *s, const struct copse_case_op *op, size_t i,
                          struct copse_conform_outcome *out)
{
    const struct {
        copse_tensor *operand;
        copse_status code;
        const char *what;
    } bad[] = {
        { NULL, COPSE_ERR_ARGUMENT, "without an operand" },
        { s->far[i], COPSE_ERR_ARGUMENT, "with an operand of another graph" },
        { s->wrong[i], COPSE_ERR_SHAPE, "with an operand of another type" },
    };
    copse_tensor *in[COPSE_CASE_INPUTS];
    for (size_t k = 0; k < (op->takes_any_type ? 2 : COPSE_COUNT(bad)); k++) {
        memcpy(in, s->good, sizeof in);
        in[i] = bad[k].operand;
        args_ops_judge(out, op, bad[k].what, s->g, bad[k].code, op->call(s->g, in, op->user));
    }
}

static copse_status check_operands(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    const struct copse_case_op *op = user;
    struct stage s = { .g = NULL };
    copse_status status = open_stage(r->ctx, op, &s);
    if (status == COPSE_OK) {
        args_ops_judge(out, op, "without a graph", NULL, COPSE_ERR_ARGUMENT,
                       op->call(NULL, s.good, op->user));
        for (size_t i = 0; i < op->in_count; i++)
            check_operand(&s, op, i, out);
        /* the refused calls had no effect */
        (void)op->call(s.g, s.good, op->user);
        copse__args_judge(out, op->name, copse__args_failure(s.g), COPSE_OK, true);
    }
    copse_graph_release(&s.g);
    copse_graph_release(&s.other);
    return status;
}

/* ---- refusals ---- */

static void judge_refusal(struct copse_refusals *r, const char *call, copse_status got,
                          copse_status expected, const char *part, const copse_tensor *y)
{
    const char *text = got == COPSE_OK ? "" : copse_last_error();
    if (got == expected && !strstr(text, part))
        copse__conform_set(r->user, COPSE_VERDICT_FAIL, "%s: the error is '%s', without '%s'", call,
                           text, part);
    copse__args_judge(r->user, call, got, expected, copse__is_failed(y));
}

static copse_status check_refusals(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    const struct copse_case_table *table = user;
    struct copse_refusals refusals = { .judge = judge_refusal, .user = out };
    copse_graph *other = NULL;
    COPSE_TRY_OR(done, refusals.status, copse_graph_create(r->ctx, &refusals.graph));
    COPSE_TRY_OR(done, refusals.status, copse_graph_create(r->ctx, &other));
    refusals.other = copse_graph_input(other, "x", COPSE_F32, COPSE_SHAPE(2, 2));
    COPSE_TRY_OR(done, refusals.status, copse_graph_status(other));
    table->refusals(&refusals);
done:
    copse_graph_release(&refusals.graph);
    copse_graph_release(&other);
    return refusals.status;
}

void copse__args_ops(struct copse_conform_run *r)
{
    for (size_t t = 0; r->tables[t]; t++) {
        struct copse_case_table table = *r->tables[t];
        for (size_t i = 0; i < table.op_count; i++) {
            struct copse_case_op op = table.ops[i];
            if (op.call)
                copse__conform_one(r,
                                   &(struct copse_conform_case){ "args", op.name, "operands", "" },
                                   check_operands, &op);
        }
        if (table.refusals)
            copse__conform_one(r,
                               &(struct copse_conform_case){ "args", table.family, "refusals", "" },
                               check_refusals, &table);
    }
}
