/* SPDX-License-Identifier: MIT */
/* Model files: the variables, and lines of metadata that describe network and data
   (docs/model-file.md). */
#include <math.h>

#include "core/model/model.h"
#include "core/state/weights.h"

#define PREFIX_BYTES (sizeof "application." - 1)

/* ---- writing ---- */

static copse_status put_lines(const copse_model *m, struct copse_state *s)
{
    COPSE_TRY(copse__state_put(s, "producer", "copse"));
    COPSE_TRY(copse__state_put(s, "format", COPSE_MODEL_FORMAT));
    for (size_t i = 0; i < COPSE_MODEL_LINES; i++)
        COPSE_TRY(copse__state_put(s, m->lines[i].key + PREFIX_BYTES, m->lines[i].value));
    return COPSE_OK;
}

static copse_status check_finite(const struct copse_state *s)
{
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        const float *x = e->view.data;
        for (uint64_t k = 0;
             e->variable && e->variable->tensor.type == COPSE_F32 && k < e->variable->count; k++)
            if (!isfinite(x[k]))
                return copse_fail(COPSE_ERR_NONFINITE,
                                  "model: '%s' is %s at element %llu; it was not written", e->name,
                                  isnan(x[k]) ? "NaN" : "infinite", (unsigned long long)k);
    }
    return COPSE_OK;
}

/* All checks that involve no other worker; reads the variables. */
static copse_status model_file_prepare(const copse_model *m, const char *path,
                                       const struct copse_state_params *p, struct copse_state *s)
{
    if (copse__state_is_writer(m->strategy) && (!path || !*path))
        return copse_fail(COPSE_ERR_ARGUMENT, "model: the path is NULL or empty");
    COPSE_TRY(copse__state_check_application(p));
    COPSE_TRY(copse__state_add_list(s, m->variables, m->variable_count));
    COPSE_TRY(copse__state_add_application(s, p));
    COPSE_TRY(copse__state_read(s));
    COPSE_TRY(check_finite(s));
    COPSE_TRY(put_lines(m, s));
    return copse__state_put_application(s, p);
}

copse_status copse_model_save(copse_model *m, const char *path,
                              const struct copse_model_save_params *params)
{
    struct copse_state state;
    struct copse_state_params p = { .array_count = 0 };
    COPSE_TRY(copse_need("model", m));
    COPSE_TRY(copse_no_reserved(copse_model_save_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_save", m->strategy));
    if (params) {
        p.arrays = params->arrays;
        p.array_count = params->array_count;
        p.metadata = params->metadata;
        p.metadata_count = params->metadata_count;
    }
    copse__state_begin(&state, m->strategy, 0);
    copse_status s = copse__state_settle(
        m->strategy, false, model_file_prepare(m, path, &p, &state), "before a model file");
    if (s == COPSE_OK)
        s = copse__state_settle(m->strategy, false, copse__state_save(&state, path, true),
                                "model file");
    copse__state_end(&state);
    return copse_note(s, "while saving a model");
}

/* ---- reading ---- */

/* What a file says about its model. */
struct description {
    const char *network, *scope, *schema;
    uint64_t seed;
};

static copse_status check_format(const struct copse_state *s, bool *is_checkpoint)
{
    const char *format = copse__state_line(s, "format");
    *is_checkpoint = format && strcmp(format, COPSE_CHECKPOINT_FORMAT) == 0;
    if (*is_checkpoint && !copse__state_line(s, "application.network"))
        return copse_fail(COPSE_ERR_FORMAT,
                          "model: %s is a checkpoint without a model's description", s->path);
    if (*is_checkpoint || (format && strcmp(format, COPSE_MODEL_FORMAT) == 0))
        return COPSE_OK;
    if (format && strncmp(format, "copse-model-", 12) == 0)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "model: %s is of format \"%.40s\", this version reads \"" COPSE_MODEL_FORMAT "\"",
            s->path, format);
    return copse_fail(
        COPSE_ERR_FORMAT,
        "model: %s holds weights only: its metadata describes no network and no data; train "
        "--init can start from it",
        s->path);
}

static copse_status model_file_describe(const struct copse_state *s, bool has_arrays,
                                        struct description *d)
{
    bool is_checkpoint;
    COPSE_TRY(check_format(s, &is_checkpoint));
    if (has_arrays)
        COPSE_TRY(copse__state_check_checksum(s));
    const size_t skip = is_checkpoint ? 0 : PREFIX_BYTES;
    d->network = copse__state_line(s, &"application.network"[skip]);
    d->schema = copse__state_line(s, &"application.schema"[skip]);
    d->scope = copse__state_line(s, &"application.scope"[skip]);
    if (!d->network || !d->schema)
        return copse_fail(COPSE_ERR_FORMAT, "model: %s has no line \"%s\"", s->path,
                          d->network ? "schema" : "network");
    return copse__state_number(s, &"application.seed"[skip], UINT64_MAX, &d -> seed);
}

/* The layers without variables; a file may describe more than it has. */
static copse_status model_file_plan(copse_context *ctx, const struct description *d,
                                    const copse_schema *schema, const copse_checkpoint *file,
                                    copse_layer **out)
{
    uint64_t described, found = 0;
    size_t count;
    const struct copse_named_array *arrays = copse_checkpoint_arrays(file, &count);
    COPSE_TRY(copse__model_plan(ctx, schema, d->network, out, &described));
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = 1;
        for (uint32_t k = 0; k < arrays[i].array.rank; k++)
            elements *= arrays[i].array.shape[k];
        found += elements;
    }
    if (described <= found)
        return COPSE_OK;
    copse_layer_release(out);
    return copse_fail(COPSE_ERR_FORMAT, "model: its network has %llu numbers, and the file %llu",
                      (unsigned long long)described, (unsigned long long)found);
}

/* The caller's error names its own file. */
static copse_status model_file_create(copse_strategy *st, const struct description *d,
                                      const char *scope, const copse_checkpoint *file,
                                      copse_model **out)
{
    copse_schema *schema;
    copse_layer *planned = NULL;
    COPSE_TRY(copse_schema_parse(st->ctx, d->schema, &schema));
    copse_status s = model_file_plan(st->ctx, d, schema, file, &planned);
    copse_layer_release(&planned);
    if (s == COPSE_OK)
        s = copse_model_create(
            st, schema,
            &(struct copse_model_params){ .network = d->network, .scope = scope, .seed = d->seed },
            out);
    copse_schema_release(&schema);
    return s;
}

static copse_status model_file_fill(copse_model *m, const char *path, const char *scope,
                                    const copse_checkpoint *file)
{
    static const struct copse_load_params all = { .layout = COPSE_LAYOUT_COPSE,
                                                  .is_exact = true,
                                                  .needs_all = true };
    struct copse_weights w = { .scope = m->scope, .scope_in_file = scope ? scope : "" };
    copse_status s =
        copse__weights_match(&w, m->strategy, m->variables, m->variable_count, path, file, &all);
    s = copse__state_settle(m->strategy, false, s, "the variables of a model");
    if (s == COPSE_OK)
        s = copse__state_settle(m->strategy, false, copse__weights_write(&w), "writing a model");
    copse__weights_end(&w);
    return s;
}

static copse_status model_file_load(copse_strategy *st, const char *path, const char *scope,
                                    const copse_checkpoint *file, copse_model **out)
{
    struct description d = { .seed = 0 };
    struct copse_state s;
    copse__state_begin(&s, st, 0);
    s.path = path ? path : "of the first worker";
    s.file = file;
    copse_status status = model_file_describe(&s, true, &d);
    if (status == COPSE_OK)
        status = model_file_create(st, &d, scope ? scope : d.scope, file, out);
    if (status == COPSE_OK)
        status = model_file_fill(*out, path, d.scope, file);
    copse__state_end(&s);
    if (status != COPSE_OK)
        copse_model_release(out);
    return copse_note(status, "while loading %s", path ? path : "a model");
}

copse_status copse_model_describe(copse_context *ctx, const copse_checkpoint *file,
                                  copse_schema **schema, copse_layer **layer)
{
    struct description d = { .seed = 0 };
    const struct copse_state s = { .path = "the file", .file = file };
    COPSE_TRY(copse_need("model", ctx, file, schema, layer));
    *schema = NULL;
    *layer = NULL;
    COPSE_TRY(model_file_describe(&s, false, &d));
    COPSE_TRY(copse_schema_parse(ctx, d.schema, schema));
    const copse_status status = model_file_plan(ctx, &d, *schema, file, layer);
    if (status != COPSE_OK)
        copse_schema_release(schema);
    return status;
}

copse_status copse_model_load(copse_strategy *st, const char *path,
                              const struct copse_model_load_params *params, copse_model **out)
{
    copse_checkpoint *file = NULL;
    COPSE_TRY(copse_need("model", st, out));
    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_model_load_params, params));
    COPSE_TRY(copse__require_no_replica("copse_model_load", st));
    if (copse_strategy_kind_of(st) == COPSE_STRATEGY_DEFAULT)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "model: the default strategy has no variables");
    path = path && *path ? path : NULL;
    copse_status s = copse__state_load(st, path, NULL, &file);
    if (s == COPSE_OK)
        s = model_file_load(st, path, params ? params->scope : NULL, file, out);
    copse_checkpoint_release(&file);
    return s;
}
