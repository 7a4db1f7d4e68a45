/* SPDX-License-Identifier: MIT */
/* The length of a run and what is kept of it, by the rows of its data. */
#include "copse/train/defaults.h"

#include "copse/data/schema.h"
#include "core/base/base.h"

enum { BATCH = 64, EPOCHS = 40 };
/* A table trains for so many steps at least, and for about LARGE_STEPS at most: later epochs of a
   large one overfit. */
enum { SMALL_STEPS = 1000, TABLE_STEPS = 2000, LARGE_STEPS = 20000, LARGE_EPOCHS = 5 };
/* Tables of fewer rows overfit without dropout and decay. */
enum { SMALL_ROWS = 1000, MEDIUM_ROWS = 10000 };
/* Fewer held-out rows choose an epoch by chance. */
enum { JUDGES = 1000 };
enum { PATIENCE = 10, PATIENCE_PART = 4 };
/* A text trains for about TEXT_STEPS steps. One of TEXT_MANY windows or more has larger batches. */
enum { TEXT_STEPS = 10000, TEXT_MANY = 10000, TEXT_BATCH = 256 };

static uint32_t table_epochs(uint64_t rows, uint64_t steps)
{
    const uint64_t least = rows < SMALL_ROWS ? SMALL_STEPS : TABLE_STEPS;
    if (EPOCHS * steps < least)
        return (uint32_t)((least + steps - 1) / steps);
    const uint64_t most = COPSE_MIN(LARGE_STEPS / steps, (uint64_t)EPOCHS);
    return (uint32_t)COPSE_MAX(most, (uint64_t)LARGE_EPOCHS);
}

static uint32_t text_epochs(uint64_t steps)
{
    const uint64_t most = COPSE_MIN(TEXT_STEPS / steps, (uint64_t)EPOCHS);
    return (uint32_t)COPSE_MAX(most, (uint64_t)1);
}

copse_status copse_training_defaults(const copse_dataset *train, const copse_dataset *held_out,
                                     uint32_t batch, struct copse_training_defaults *out)
{
    struct copse_dataset_info rows, judges;
    struct copse_schema_info about;
    COPSE_TRY(copse_need("training", train, out));
    *out = (struct copse_training_defaults){ 0 };
    copse_dataset_describe(train, &rows);
    copse_dataset_describe(held_out, &judges);
    if (!copse_dataset_schema(train) || rows.rows == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "training: the data has no %s",
                          rows.rows == 0 ? "rows" : "schema");
    COPSE_TRY(copse_schema_describe(copse_dataset_schema(train), &about));
    const bool is_text = about.kind == COPSE_DATA_TEXT;
    const bool is_table =
        about.kind == COPSE_DATA_TABLE || (about.kind == COPSE_DATA_ARRAY && about.shape.rank == 1);
    out->batch = batch > 0 ? batch
                 : is_text && rows.rows >= TEXT_MANY
                     ? TEXT_BATCH
                     : (uint32_t)COPSE_MIN(rows.rows, (size_t)BATCH);
    const uint64_t steps = (rows.rows + out->batch - 1) / out->batch; /* of an epoch */
    out->epochs = is_text ? text_epochs(steps) : is_table ? table_epochs(rows.rows, steps) : EPOCHS;
    out->keep_last = !held_out || (is_table && judges.rows < JUDGES);
    out->patience = out->keep_last ? 0 : COPSE_MAX(out->epochs / PATIENCE_PART, (uint32_t)PATIENCE);
    if (is_table && rows.rows < SMALL_ROWS) {
        out->dropout = 0.2f;
        out->weight_decay = 0.02f;
    } else if (is_table && rows.rows < MEDIUM_ROWS) {
        out->dropout = about.task == COPSE_TASK_REGRESSION ? 0.1f : 0.2f;
        out->weight_decay = 0.003f;
    }
    return COPSE_OK;
}
