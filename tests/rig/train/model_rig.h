/* SPDX-License-Identifier: MIT */
/* Shared by the tests of models: strategies, models, trained ones, and the content of their
   files. */
#ifndef COPSE_MODEL_RIG_H
#define COPSE_MODEL_RIG_H

#include "tests/rig/train/step_rig.h"

#include "copse/data/checkpoint.h"
#include "copse/data/schema.h"
#include "copse/train/evaluate.h"
#include "copse/train/model_file.h"
#include "tests/rig/data/temp_files.h"

static inline copse_strategy *strategy_of(copse_context *in, size_t replicas)
{
    copse_strategy *st = NULL;
    OK(copse_mirrored_create(in, rig_devices, replicas, NULL, &st));
    return st;
}

static inline copse_model *make_model(copse_strategy *st, const copse_dataset *data,
                                      const char *network, const char *scope)
{
    copse_model *m = NULL;
    OK(copse_model_create(
        st, copse_dataset_schema(data),
        &(struct copse_model_params){ .network = network, .scope = scope, .seed = 3 }, &m));
    return m;
}

static inline copse_trainer *train(copse_model *m, copse_dataset *data, int epochs)
{
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    struct copse_host_batch batch;
    copse_status s;
    OK(copse_trainer_create(copse_model_strategy(m),
                            &(struct copse_trainer_params){
                                .loss = copse_model_loss,
                                .user = m,
                                .optimizer = { .kind = COPSE_ADAM, .learning_rate = 0.02f } },
                            &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 32, .seed = 1 },
                           &batches));
    for (uint32_t epoch = 0; epoch < (uint32_t)epochs; epoch++) {
        OK(copse_loader_start(batches, epoch, 0));
        while ((s = copse_loader_next(batches, &batch)) == COPSE_OK)
            OK(copse_trainer_step(t, &batch));
        assert_int_equal(s, COPSE_ERR_END);
    }
    copse_loader_release(&batches);
    return t;
}

static inline const char *line_of(const copse_checkpoint *file, const char *key)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, key) == 0)
            return list[i].value;
    fail_msg("no line '%s'", key);
    return "";
}

static inline const float *array_of(const copse_checkpoint *file, const char *name, size_t rows,
                                    size_t columns)
{
    const struct copse_array_view *a = copse_checkpoint_find(file, name);
    assert_non_null(a);
    assert_int_equal(a->type, COPSE_F32);
    assert_int_equal(a->shape[0], rows);
    assert_true(columns == 0 ? a->rank == 1 : a->shape[1] == columns);
    return a->data;
}

#endif
