/* SPDX-License-Identifier: MIT */
/* Registration of ops of applications. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "core/ops/user/user_op.h"

#define MAX_NAME    32u
#define MAX_GROUP   1024u
#define MAX_SAMPLES 64u

/* ---- registration ---- */

static bool is_identifier(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (!isalpha((unsigned char)name[i]) && name[i] != '_' &&
            (i == 0 || !isdigit((unsigned char)name[i])))
            return false;
    return length > 0 && length <= MAX_NAME;
}

static bool is_limit(double x)
{
    return x >= 0 && isfinite(x);
}

static copse_status check_numbers(const struct copse_user_op_params *p)
{
    const uint32_t size = p->group_size ? p->group_size : 256;
    if (p->operands < 1 || p->operands > COPSE_USER_OPERANDS)
        return copse_fail(COPSE_ERR_ARGUMENT, "user op: %s: %u operands are not 1 to %d", p->name,
                          (unsigned)p->operands, COPSE_USER_OPERANDS);
    for (uint32_t i = 0; i <= p->operands; i++) {
        const copse_type type = i < p->operands ? p->types[i] : p->type;
        if (type != COPSE_F32 && type != COPSE_I32)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "user op: %s: element type %d (%s): f32 or i32 is needed", p->name,
                              (int)type, copse_type_name(type));
    }
    if (size > MAX_GROUP || (size & (size - 1)) != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "user op: %s: a group of %u is no power of two up to %u", p->name,
                          (unsigned)size, MAX_GROUP);
    if (p->params > COPSE_USER_PARAMS || p->specs > COPSE_USER_SPECS ||
        p->settings_size > COPSE_USER_SETTINGS)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "user op: %s: %u params, %u specs or %zu bytes of settings are too many: up to "
            "%d, %d and %u",
            p->name, (unsigned)p->params, (unsigned)p->specs, p->settings_size, COPSE_USER_PARAMS,
            COPSE_USER_SPECS, COPSE_USER_SETTINGS);
    if (!p->launch && p->params != 1)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "user op: %s: without a launch function params is 1, the number of elements", p->name);
    if (!is_limit(p->ulp) || !is_limit(p->ratio) || !is_limit(p->gradient_ulp) ||
        !is_limit(p->gradient_ratio))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "user op: %s: a largest error is negative, infinite or NaN", p->name);
    if (p->sample_count < 1 || p->sample_count > MAX_SAMPLES)
        return copse_fail(COPSE_ERR_ARGUMENT, "user op: %s: %zu samples are not 1 to %u", p->name,
                          p->sample_count, MAX_SAMPLES);
    return COPSE_OK;
}

static copse_status user_op_register_check(copse_context *ctx, const struct copse_user_op_params *p)
{
    uint32_t id;
    if (!is_identifier(p->name))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "user op: '%.64s' is no C identifier of up to %u bytes", p->name,
                          MAX_NAME);
    if (copse__row_find(ctx, p->name, strlen(p->name), &id))
        return copse_fail(COPSE_ERR_ARGUMENT, "user op: there is a kernel '%s' already", p->name);
    COPSE_TRY(check_numbers(p));
    if (!p->text && !p->spirv)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "user op: %s: there is no kernel: give text, SPIR-V or both", p->name);
    return p->spirv && p->spirv_bytes < 4
               ? copse_fail(COPSE_ERR_ARGUMENT, "user op: %s: spirv_bytes is %zu", p->name,
                            p->spirv_bytes)
               : COPSE_OK;
}

/* The row of the kernel, whose name has the hash of its code. */
static copse_status make_row(copse_user_op *op)
{
    const struct copse_user_op_params *p = &op->p;
    struct copse_kernel_row *row = &op->kernel.row;
    char *text;
    uint32_t *words;
    op->kernel.law = (struct copse_law){ .host = p->reference,
                                         .limit = { .ulp = p->ulp, .ratio = p->ratio },
                                         .self_test = copse__user_self_test };
    *row = (struct copse_kernel_row){
        .name = p->name,
        .arg_count = (uint8_t)(p->operands + 1),
        .spec_count = (uint8_t)p->specs,
        .param_words = (uint16_t)p->params,
        .group_x = (uint16_t)(p->group_size ? p->group_size : 256),
        .group_y = 1,
        .law = &op->kernel.law,
        .source_hash = COPSE_HASH_START,
    };
    for (uint32_t i = 0; i <= p->operands; i++)
        row->args[i] = (struct copse_kernel_arg){
            .kind = (i < p->operands ? p->types[i] : p->type) == COPSE_I32 ? COPSE_ARG_I32
                                                                           : COPSE_ARG_F32,
            .is_written = i == p->operands,
        };
    if (p->text) {
        const copse_status s = copse__code_text("user op", &op->ctx->base.mem, p->name, p->text,
                                                strlen(p->text), &text, &row->cl_size);
        row->cl_text = (const unsigned char *)text;
        COPSE_TRY(s);
        row->source_hash = copse__hash(row->source_hash, p->text, strlen(p->text));
    }
    if (p->spirv) {
        const copse_status s =
            copse__code_spirv("user op", &op->ctx->base.mem, row, p->spirv, p->spirv_bytes, &words);
        row->spirv = words;
        row->spirv_bytes = p->spirv_bytes;
        COPSE_TRY(s);
        row->source_hash = copse__hash(row->source_hash, p->spirv, p->spirv_bytes);
    }
    snprintf(op->kernel.name, sizeof op->kernel.name, "%s@%08x", p->name,
             (unsigned)(row->source_hash ^ row->source_hash >> 32));
    row->name = op->kernel.name;
    op->kernel.ctx = op->ctx;
    return COPSE_OK;
}

static void user_op_register_destroy(copse_user_op *op)
{
    struct copse_mem *mem = &op->ctx->base.mem;
    copse__user_kernel_remove(op->id);
    copse__free(mem, (void *)(uintptr_t)op->kernel.row.cl_text);
    copse__free(mem, (void *)(uintptr_t)op->kernel.row.spirv);
    copse__arena_fini(&op->arena);
    copse__free(mem, op);
}

static void free_all(copse_context *ctx)
{
    while (ctx->user_ops) {
        copse_user_op *op = ctx->user_ops;
        ctx->user_ops = op->next;
        user_op_register_destroy(op);
    }
}

static copse_status take_params(copse_user_op *op, const struct copse_user_op_params *p)
{
    op->p = *p;
    op->p.name = copse__arena_strdup(&op->arena, p->name);
    COPSE_TRY(copse_need_memory(op->p.name, "user op"));
    copse__user_op_node(op);
    COPSE_TRY(make_row(op));
    op->p.text = NULL; /* of the application */
    op->p.spirv = NULL;
    return copse__user_samples(op);
}

/* Two threads that register the same name: the second one is refused. */
static copse_status user_op_register_publish(copse_user_op *op)
{
    uint32_t id;
    copse__mutex_lock(&op->ctx->lock);
    const copse_status s =
        copse__row_find(op->ctx, op->p.name, strlen(op->p.name), &id)
            ? copse_fail(COPSE_ERR_ARGUMENT, "user op: there is a kernel '%s' already", op->p.name)
            : copse__user_kernel_add(&op->kernel, &op->id);
    if (s == COPSE_OK) {
        op->next = op->ctx->user_ops;
        op->ctx->user_ops = op;
        op->ctx->free_user_ops = free_all;
    }
    copse__mutex_unlock(&op->ctx->lock);
    return s;
}

copse_status copse_user_op_register(copse_context *ctx, const struct copse_user_op_params *params,
                                    copse_user_op **out)
{
    COPSE_TRY(copse_need("user op", ctx, params, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_user_op_params, params));
    COPSE_TRY(copse_need("user op", params->name, params->reference, params->samples));
    COPSE_TRY(user_op_register_check(ctx, params));
    copse_user_op *op = copse__alloc(&ctx->base.mem, 1, sizeof *op);
    COPSE_TRY(copse_need_memory(op, "user op"));
    op->ctx = ctx;
    op->arena.mem = &ctx->base.mem;
    copse_status s = take_params(op, params);
    if (s == COPSE_OK)
        s = user_op_register_publish(op);
    if (s != COPSE_OK)
        user_op_register_destroy(op);
    else
        *out = op;
    return s;
}

const char *copse_user_op_kernel(const copse_user_op *op)
{
    return op ? op->kernel.name : NULL;
}

size_t copse__user_tables(copse_context *ctx, const struct copse_case_table **list, size_t room)
{
    size_t count = 0;
    copse__mutex_lock(&ctx->lock);
    for (const copse_user_op *op = ctx->user_ops; op; op = op->next, count++)
        if (count < room)
            list[count] = &op->table;
    copse__mutex_unlock(&ctx->lock);
    return count;
}
