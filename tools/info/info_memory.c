/* SPDX-License-Identifier: MIT */
/* The memory plan of a training step: of a model file, or of a description and data. */
#include "tools/info/info_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/train/memory.h"

#include "tools/common/json.h"
#include "tools/train/train.h"

#define DEFAULT_BATCH 64

struct planned {
    const struct info_memory *how;
    copse_context *ctx;
    copse_strategy *strategy;
    copse_dataset *data; /* NULL: the model is from a file */
    copse_model *model;
    copse_trainer *trainer;
    struct copse_column columns[2];
    struct copse_host_batch batch;
};

struct info_memory info_memory_defaults(void)
{
    static const struct option_name precisions[] = {
        { "f32", COPSE_F32 },
        { "f16", COPSE_F16 },
        { "bf16", COPSE_BF16 },
        { NULL, 0 },
    };
    return (struct info_memory){
        .devices = "auto",
        .batch = DEFAULT_BATCH,
        .optimizer = { train_optimizers(), train_optimizers() },
        .precision = { precisions, precisions },
        .tokens = { text_tokens, text_tokens },
    };
}

/* ---- the job ---- */

static copse_status open_strategy(struct planned *p)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const char *names[COPSE_MAX_REPLICAS];
    size_t count = 0;
    COPSE_TRY(copse_select_devices(p->ctx, p->how->devices, ids, COPSE_MAX_REPLICAS, &count));
    for (size_t i = 0; i < count; i++)
        names[i] = ids[i];
    return copse_mirrored_create(p->ctx, names, count, NULL, &p->strategy);
}

/* Bytes, if no data is given: the values of a step depend on the shapes alone. */
static copse_status make_text(struct planned *p, const struct copse_dataset_params *params,
                              uint32_t context)
{
    char *text = calloc(1, context + (size_t)1);
    copse_status s =
        text ? COPSE_OK : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a window");
    if (s == COPSE_OK)
        s = copse_text_create(p->ctx, text, context + (size_t)1, params, &p->data);
    free(text);
    return s;
}

static copse_status open_data(struct planned *p, bool is_text)
{
    const struct info_memory *how = p->how;
    const bool has_tokens = how->tokens.at->value != TEXT_NONE;
    const struct copse_text_params text = {
        .tokens = has_tokens  ? (copse_tokens)(how->tokens.at->value - 1)
                  : how->data ? COPSE_TOKENS_CHARACTERS
                              : COPSE_TOKENS_BYTES,
        .context = how->context,
    };
    const struct copse_source_params source = { .text = &text };
    const struct copse_dataset_params params = { .source = is_text ? &source : NULL };
    if (is_text && !how->data)
        return make_text(p, &params, how->context > 0 ? how->context : COPSE_TEXT_CONTEXT);
    return copse_dataset_open(p->ctx, how->data ? how->data : settings_default_data(), &params,
                              &p->data);
}

static copse_status make_model(struct planned *p)
{
    struct network n = { .model = NULL };
    const char *one_line, *text;
    if (p->how->path)
        return copse_model_load(p->strategy, p->how->path, NULL, &p->model);
    COPSE_TRY(network_settle(p->how->model, 0.0f, &one_line, &text));
    COPSE_TRY(open_data(p, network_is_text(p->how->model) || p->how->context > 0 ||
                               p->how->tokens.at->value != TEXT_NONE));
    const copse_status s =
        network_create(&n, p->strategy, p->ctx, copse_dataset_schema(p->data), text, 0.0f, 1);
    p->model = n.model;
    return s;
}

/* A batch of the model's data, without values. */
static copse_status describe_batch(struct planned *p)
{
    struct copse_schema_info info;
    COPSE_TRY(copse_schema_describe(copse_model_schema(p->model), &info));
    p->columns[0] = (struct copse_column){ .name = "x", .type = info.type, .shape = info.shape };
    p->columns[1] = (struct copse_column){ .name = "y", .type = COPSE_I32 };
    if (info.task == COPSE_TASK_SEQUENCE)
        p->columns[1].shape = info.shape;
    if (info.task == COPSE_TASK_REGRESSION) {
        p->columns[1].type = COPSE_F32;
        p->columns[1].shape = COPSE_SHAPE(info.outputs);
    }
    p->batch = (struct copse_host_batch){ .columns = p->columns,
                                          .column_count = 2,
                                          .count = p->how->batch };
    return COPSE_OK;
}

static copse_status open_job(struct planned *p)
{
    COPSE_TRY(session_open(&p->how->how, &p->ctx));
    COPSE_TRY(open_strategy(p));
    COPSE_TRY(make_model(p));
    COPSE_TRY(describe_batch(p));
    return copse_trainer_create(
        p->strategy,
        &(struct copse_trainer_params){
            .loss = copse_model_loss,
            .user = p->model,
            .precision = (copse_type)p->how->precision.at->value,
            .optimizer = { .kind = (copse_optimizer_kind)p->how->optimizer.at->value } },
        &p->trainer);
}

static void close_job(struct planned *p)
{
    copse_trainer_release(&p->trainer);
    copse_model_release(&p->model);
    copse_dataset_release(&p->data);
    copse_strategy_release(&p->strategy);
    copse_context_release(&p->ctx);
}

/* ---- what is shown ---- */

static const char *info_memory_number(uint64_t bytes, char text[24])
{
    const bool is_large = bytes >= (uint64_t)10 << 30;
    snprintf(text, 24, "%.*f %s", bytes >= (uint64_t)1 << 20 ? 1 : 3,
             (double)bytes / (is_large ? 1 << 30 : 1 << 20), is_large ? "GiB" : "MiB");
    return text;
}

static void print_one(const char *name, uint64_t bytes)
{
    char text[24];
    printf("  %-34s %12s\n", name, info_memory_number(bytes, text));
}

static void print_two(const char *name, uint64_t plain, uint64_t recomputed)
{
    char a[24], b[24];
    printf("  %-34s %12s %12s\n", name, info_memory_number(plain, a),
           info_memory_number(recomputed, b));
}

static void print_replica(const struct planned *p, uint32_t r, const struct copse_step_memory *m)
{
    const struct copse_device_info *d = copse_strategy_device(p->strategy, r);
    const uint64_t all = m->variables + m->gradients + m->slots + m->others;
    char text[24];
    printf("%s %s\n", d->id, d->name);
    print_one("variables", m->variables);
    print_one("gradients", m->gradients);
    printf("  %-34s %12s   %s\n", "slots of the optimizer", info_memory_number(m->slots, text),
           p->how->optimizer.at->name);
    print_one("batches, reports, others", m->others);
    printf("  %-34s %12s %12s\n", "", "as it is", "recomputed");
    print_two("values of a step", m->plain.bytes, m->recomputed.bytes);
    print_two("  kept for the gradient", m->plain.kept, m->recomputed.kept);
    print_two("  most at once", m->plain.peak, m->recomputed.peak);
    printf("  %-34s %12u %12u\n", "  ops computed again", m->plain.recomputed,
           m->recomputed.recomputed);
    print_two("together", all + m->plain.bytes, all + m->recomputed.bytes);
    if (m->available > 0)
        print_one("free for values", m->available);
    printf("  most at once: %s\n", m->plain.op);
    printf("  recomputed:   %s\n", m->recomputed.op);
    if (!m->fits)
        printf("  a budget of %s is too small: %" PRIu64 " bytes are the least\n",
               info_memory_number(p->how->budget, text), all + m->recomputed.bytes);
}

static cJSON *values_json(const struct copse_value_memory *v)
{
    cJSON *o = cJSON_CreateObject();
    json_add_count(o, "values", v->bytes);
    json_add_count(o, "kept", v->kept);
    json_add_count(o, "peak", v->peak);
    json_add_text(o, "op", v->op);
    json_add_count(o, "recomputed_ops", v->recomputed);
    return o;
}

static copse_status print_json(const struct planned *p, uint32_t r,
                               const struct copse_step_memory *m)
{
    const struct info_memory *how = p->how;
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "device", copse_strategy_device(p->strategy, r)->id);
    json_add_text(o, "model", how->path ? how->path : how->model);
    json_add_count(o, "batch", how->batch);
    json_add_text(o, "optimizer", how->optimizer.at->name);
    json_add_count(o, "variables", m->variables);
    json_add_count(o, "gradients", m->gradients);
    json_add_count(o, "slots", m->slots);
    json_add_count(o, "others", m->others);
    json_add_count(o, "available", m->available);
    json_add_count(o, "budget", how->budget);
    cJSON_AddBoolToObject(o, "fits", m->fits);
    if (cJSON_AddItemToObject(o, "plain", values_json(&m->plain)) &&
        cJSON_AddItemToObject(o, "recomputed", values_json(&m->recomputed)))
        return json_print(o);
    cJSON_Delete(o);
    return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the plan as JSON");
}

static copse_status print_plans(const struct planned *p)
{
    const uint32_t replicas = copse_strategy_replicas(p->strategy);
    struct copse_step_memory m;
    if (!p->how->is_json)
        printf("%s, batch %u%s\n", p->how->path ? p->how->path : p->how->model, p->how->batch,
               replicas > 1 ? ", shared by all devices" : "");
    for (uint32_t r = 0; r < replicas && r < p->how->batch; r++) {
        COPSE_TRY(copse_trainer_memory(p->trainer, r, &p->batch, p->how->budget, &m));
        if (p->how->is_json)
            COPSE_TRY(print_json(p, r, &m));
        else
            print_replica(p, r, &m);
    }
    return COPSE_OK;
}

int info_memory_run(const struct info_memory *how)
{
    struct planned p = { .how = how };
    copse_status s = open_job(&p);
    if (s == COPSE_OK)
        s = print_plans(&p);
    const int code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    close_job(&p);
    return code;
}
