/* SPDX-License-Identifier: MIT */
/* The run as JSON: one object a line, flushed, for programs that read along. */
#include <math.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "tools/events.h"

static void put(cJSON *o)
{
    char *text = cJSON_PrintUnformatted(o);
    if (text)
        puts(text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(o);
}

static cJSON *event(const char *name)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", name);
    return o;
}

/* JSON has no NaN: a figure that is not finite becomes null. */
static void add(cJSON *o, const char *name, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(o, name, value);
    else
        cJSON_AddNullToObject(o, name);
}

static void add_devices(cJSON *o, copse_strategy *st)
{
    cJSON *list = cJSON_AddArrayToObject(o, "devices");
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        cJSON_AddItemToArray(list, cJSON_CreateString(copse_strategy_device(st, r)->id));
}

void event_start(const struct train_settings *s, copse_strategy *st, size_t train, size_t test)
{
    cJSON *o = event("start");
    cJSON_AddStringToObject(o, "data", s->data);
    cJSON_AddStringToObject(o, "model", s->model);
    cJSON_AddStringToObject(o, "optimizer", s->optimizer);
    add(o, "lr", s->lr);
    add(o, "batch", s->batch);
    add(o, "epochs", s->epochs);
    add(o, "seed", (double)s->seed);
    add(o, "train_examples", (double)train);
    add(o, "test_examples", (double)test);
    add_devices(o, st);
    put(o);
}

void event_epoch(const struct progress *p, double test_loss, double test_accuracy)
{
    cJSON *o = event("epoch");
    add(o, "epoch", p->epoch);
    add(o, "steps", (double)p->step);
    add(o, "loss", p->loss);
    add(o, "accuracy", p->accuracy);
    add(o, "test_loss", test_loss);
    add(o, "test_accuracy", test_accuracy);
    add(o, "samples_per_s", p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0);
    put(o);
}

void event_done(const struct progress *p, double test_loss, double test_accuracy,
                copse_strategy *st)
{
    cJSON *o = event("done");
    add(o, "steps", (double)p->step);
    add(o, "loss", p->loss);
    add(o, "accuracy", test_accuracy);
    add(o, "test_loss", test_loss);
    add(o, "seconds", p->seconds);
    add(o, "samples_per_s", p->seconds > 0.0 ? (double)p->samples / p->seconds : 0.0);
    add_devices(o, st);
    put(o);
}
