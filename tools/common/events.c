/* SPDX-License-Identifier: MIT */
/* The run as JSON for programs that read it: one object per line, flushed. */
#include "tools/common/events.h"

#include "tools/common/json.h"

static cJSON *events_event(const char *name)
{
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "event", name);
    return o;
}

static void add_devices(cJSON *o, copse_strategy *st, uint32_t shards_each)
{
    cJSON *list = cJSON_AddArrayToObject(o, "devices");
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r += shards_each)
        cJSON_AddItemToArray(list, cJSON_CreateString(copse_strategy_device(st, r)->id));
}

copse_status event_start(const struct train_settings *s, copse_strategy *st, uint32_t shards_each,
                         size_t train, size_t test)
{
    cJSON *o = events_event("start");
    json_add_text(o, "data", s->data);
    json_add_text(o, "model", s->model);
    json_add_text(o, "optimizer", s->optimizer.at->name);
    json_add_number(o, "lr", s->lr);
    json_add_count(o, "batch", s->batch);
    json_add_count(o, "epochs", s->epochs);
    json_add_count(o, "seed", s->seed);
    json_add_count(o, "train_examples", train);
    json_add_count(o, "test_examples", test);
    add_devices(o, st, shards_each);
    if (bits_are_portable(&s->bits))
        json_add_count(o, "shards", copse_strategy_replicas(st));
    return json_print(o);
}

copse_status event_shares(const struct mixture *m, const char *source)
{
    cJSON *o = events_event("shares");
    cJSON *list = cJSON_AddArrayToObject(o, "devices");
    for (size_t i = 0; i < m->count; i++) {
        cJSON *x = cJSON_CreateObject();
        json_add_text(x, "id", m->ids[i]);
        json_add_number(x, "share", (double)m->weights[i]);
        if (m->alone[i] > 0.0)
            json_add_number(x, "alone_samples_per_s", m->alone[i]);
        if (m->with[i] > 0.0)
            json_add_number(x, "with_samples_per_s", m->with[i]);
        cJSON_AddItemToArray(list, x);
    }
    json_add_text(o, "source", source);
    if (m->together > 0.0)
        json_add_number(o, "samples_per_s", m->together);
    return json_print(o);
}

/* The score on the held-out part after an epoch. */
static void add_held_out(cJSON *o, const struct score *test)
{
    json_add_number(o, "test_loss", test->loss);
    json_add_number(o, test->is_regression ? "test_r2" : "test_accuracy", test->accuracy);
    if (test->is_regression)
        json_add_number(o, "test_mae", test->mae);
    if (test->is_sequence)
        json_add_number(o, "test_perplexity", score_perplexity(test));
    if (test->is_sequence)
        json_add_number(o, "test_bits_per_byte", score_bits(test));
}

copse_status event_epoch(const struct progress *p, const struct score *test)
{
    cJSON *o = events_event("epoch");
    json_add_count(o, "epoch", p->epoch);
    json_add_count(o, "steps", p->step);
    json_add_number(o, "loss", p->loss);
    json_add_number(o, test->is_regression ? "mae" : "accuracy", p->accuracy);
    if (!test->is_absent)
        add_held_out(o, test);
    json_add_number(o, "samples_per_s", p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0);
    json_add_number(o, "data_wait", progress_wait(p));
    return json_print(o);
}
/* Accuracy, or what a regression has in its place. */
static void add_score(cJSON *o, const struct score *test)
{
    json_add_number(o, test->is_regression ? "r2" : "accuracy", test->accuracy);
    if (test->is_regression)
        json_add_number(o, "mae", test->mae);
    if (test->is_sequence)
        json_add_number(o, "perplexity", score_perplexity(test));
    if (test->is_sequence)
        json_add_number(o, "bits_per_byte", score_bits(test));
}

copse_status event_done(const struct progress *p, const struct score *test, uint32_t epoch,
                        copse_strategy *st, uint32_t shards_each, uint64_t audits)
{
    cJSON *o = events_event("done");
    json_add_count(o, "steps", p->step);
    json_add_number(o, "loss", p->loss);
    if (!test->is_absent)
        add_score(o, test);
    if (!test->is_absent)
        json_add_number(o, "test_loss", test->loss);
    json_add_count(o, "best_epoch", epoch);
    json_add_number(o, "seconds", p->seconds);
    json_add_number(o, "samples_per_s", p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0);
    json_add_count(o, "audits", audits);
    json_add_number(o, "data_wait", progress_wait(p));
    json_add_count(o, "compiled_kernels", compiling_so_far().kernels);
    json_add_number(o, "compile_seconds", compiling_so_far().seconds);
    add_devices(o, st, shards_each);
    return json_print(o);
}

copse_status event_checkpoint(const char *name, const char *path, uint64_t step,
                              const struct copse_position *position)
{
    cJSON *o = events_event(name);
    json_add_text(o, "path", path);
    json_add_count(o, "steps", step);
    json_add_count(o, "epoch", position->epoch); /* from 0: completed passes */
    json_add_count(o, "batch", position->batch); /* the next one, from 0 */
    return json_print(o);
}

copse_status event_partial(const char *path, uint64_t step)
{
    cJSON *o = events_event("partial");
    json_add_text(o, "path", path);
    json_add_count(o, "steps", step);
    return json_print(o);
}

copse_status event_trace(const char *path, const struct copse_trace_summary *s)
{
    const struct {
        const char *name;
        double part;
    } parts[] = {
        { "devices", s->devices }, { "wait", s->wait },         { "data", s->data },
        { "upload", s->upload },   { "exchange", s->exchange }, { "update", s->update },
        { "compile", s->compile }, { "host", s->host },
    };
    cJSON *o = events_event("trace");
    json_add_text(o, "path", path);
    json_add_count(o, "spans", s->events);
    json_add_count(o, "dropped", s->dropped);
    json_add_count(o, "steps", s->steps);
    json_add_number(o, "seconds", s->seconds);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        json_add_number(o, parts[i].name, parts[i].part);
    json_add_text(o, "limit", s->limit);
    return json_print(o);
}

copse_status event_stopped(uint64_t step)
{
    cJSON *o = events_event("stopped");
    json_add_count(o, "steps", step);
    return json_print(o);
}

copse_status event_served(uint32_t index, const char *device,
                          const struct copse_parameter_server_summary *did, uint64_t pushes)
{
    cJSON *o = events_event("served");
    json_add_count(o, "server", index);
    json_add_text(o, "device", device);
    json_add_count(o, "variables", did->variables);
    json_add_count(o, "updates", did->updates);
    json_add_count(o, "by_windows", pushes);
    json_add_count(o, "lost", did->lost);
    return json_print(o);
}

copse_status event_evaluated(const char *name, const char *path, uint64_t step,
                             const struct copse_position *position, const struct score *test)
{
    cJSON *o = events_event(name);
    json_add_text(o, "path", path);
    json_add_count(o, "steps", step);
    json_add_count(o, "epoch", position->epoch);
    json_add_count(o, "batch", position->batch);
    json_add_number(o, "loss", test->loss);
    add_score(o, test);
    return json_print(o);
}
