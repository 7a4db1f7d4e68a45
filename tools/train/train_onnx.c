/* SPDX-License-Identifier: MIT */
/* copse train of a network in an ONNX file: its weights are trained on data, and the file is
   written again. */
#include "tools/train/train_onnx.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/schema.h"
#include "copse/nn/onnx.h"

#include "tools/common/events.h"
#include "tools/common/json.h"
#include "tools/common/onnx_rows.h"
#include "tools/common/plural.h"
#include "tools/common/use.h"

struct onnx_run {
    const char *model, *save, *trained, *data, *labels, *label, *ignore, *devices;
    uint32_t epochs, batch, patience;
    float lr, held_out;
    uint64_t seed;
    bool is_json, is_quiet, has_values;
    struct session_how how;
    copse_context *ctx;
    copse_strategy *strategy;
    copse_onnx *network;
    copse_dataset *all, *train, *held;
    copse_loader *batches, *judge;
    copse_trainer *trainer;
    uint32_t best_epoch; /* with the lowest held-out loss; 0: none was judged */
    uint64_t step;       /* steps that were made */
};

bool train_onnx_is_meant(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool is_model = strcmp(argv[i], "--model") == 0 && i + 1 < argc;
        if (use_is_onnx(is_model                               ? argv[i + 1]
                        : strncmp(argv[i], "--model=", 8) == 0 ? argv[i] + 8
                                                               : NULL))
            return true;
    }
    return false;
}

/* ---- the data ---- */

/* Labels that the first output has no place for. */
static copse_status check_classes(const struct onnx_run *r, uint32_t classes)
{
    size_t count;
    const struct copse_onnx_tensor *y = copse_onnx_outputs(r->network, &count);
    const uint64_t numbers = count > 0 ? onnx_rows_elements(y) : 0;
    if (r->has_values || numbers == 0 || classes <= (numbers == 1 ? 2 : numbers))
        return COPSE_OK;
    return session_set_error(COPSE_ERR_SHAPE,
                             "'%s' has %u classes, and output '%s' of '%s' has %llu number%s for "
                             "each row, enough for %llu classes",
                             r->data, classes, y->name, r->model, (unsigned long long)numbers,
                             plural_end(numbers), (unsigned long long)(numbers == 1 ? 2 : numbers));
}

static copse_status open_rows(struct onnx_run *r)
{
    struct copse_dataset_info info;
    struct copse_column y;
    const bool is_position = r->label && r->label[strspn(r->label, "0123456789")] == '\0';
    const struct copse_dataset_params params = {
        .labels = r->labels,
        .csv = { .label_name = is_position ? NULL : r->label,
                 .label_column = is_position ? (uint32_t)strtoul(r->label, NULL, 10) : 0 },
        .ignore = r->ignore
    };
    COPSE_TRY(onnx_rows_open(r->ctx, r->data, r->network, &params, &r->all));
    copse_dataset_describe(r->all, &info);
    if (!info.has_labels)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' has no labels to train on; --labels names a file of them",
                                 r->data);
    COPSE_TRY(copse_dataset_column(r->all, 1, &y));
    r->has_values = y.type == COPSE_F32;
    COPSE_TRY(check_classes(r, info.classes));
    if (r->held_out > 0.0f) {
        const struct copse_split_params split = { .train_fraction = 1.0 - (double)r->held_out,
                                                  .seed = r->seed,
                                                  .stratify = !r->has_values };
        COPSE_TRY(copse_dataset_split(r->all, &split, &r->train, &r->held));
    } else {
        r->train = copse_dataset_retain(r->all);
    }
    copse_dataset_describe(r->train, &info);
    if (r->batch > info.rows)
        return session_set_error(COPSE_ERR_ARGUMENT, "--batch %u: there are %zu training example%s",
                                 r->batch, info.rows, plural_end(info.rows));
    COPSE_TRY(copse_loader_create(
        r->train, &(struct copse_loader_params){ .batch = r->batch, .seed = r->seed },
        &r->batches));
    if (!r->held)
        return COPSE_OK;
    copse_dataset_describe(r->held, &info);
    return copse_loader_create(
        r->held,
        &(struct copse_loader_params){ .batch = r->batch < info.rows ? r->batch : info.rows,
                                       .no_shuffle = true },
        &r->judge);
}

/* ---- the run ---- */

static void print_result(const struct onnx_run *r, const char *what,
                         const struct copse_step_result *result)
{
    const double score = result->report_count > 0 ? result->reports[0] : NAN;
    printf("  %s %.4f  ", what, result->loss);
    if (r->has_values)
        printf("mean error %.5g", score);
    else
        printf("accuracy %5.1f %%", 100.0 * score);
}

static copse_status show_epoch_of(const struct onnx_run *r, const struct copse_epoch *e)
{
    const char *name = r->has_values ? "mae" : "accuracy";
    if (r->is_json) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "epoch");
        json_add_count(o, "epoch", e->epoch);
        json_add_number(o, "loss", e->training.loss);
        json_add_number(o, name, e->training.report_count ? e->training.reports[0] : NAN);
        if (e->held_out.step > 0) {
            json_add_number(o, "held_out_loss", e->held_out.loss);
            cJSON_AddItemToObject(
                o, r->has_values ? "held_out_mae" : "held_out_accuracy",
                cJSON_CreateNumber(e->held_out.report_count ? e->held_out.reports[0] : 0));
        }
        return json_print(o);
    }
    if (r->is_quiet)
        return COPSE_OK;
    printf("epoch %3u/%u", e->epoch, r->epochs);
    print_result(r, "loss", &e->training);
    if (r->judge)
        print_result(r, "held-out loss", &e->held_out);
    printf("\n");
    fflush(stdout);
    return COPSE_OK;
}

static copse_status note_batch_of(void *user, uint64_t trained, bool *stop)
{
    ((struct onnx_run *)user)->step = trained;
    *stop = signals_caught() != 0;
    return COPSE_OK;
}

static copse_status note_epoch_of(void *user, const struct copse_epoch *e, bool *stop)
{
    struct onnx_run *r = user;
    (void)stop;
    r->best_epoch = e->best_epoch;
    return show_epoch_of(r, e);
}

/* The values of the best epoch, or the last ones where none was judged. */
static copse_status save_values_of(const struct onnx_run *r)
{
    signals_hold();
    const copse_status s = copse_onnx_save(r->network, r->save);
    signals_release();
    return s;
}

/* After a signal: what was trained is kept. */
static int train_onnx_stop(struct onnx_run *r)
{
    copse_status s = r->step > 0 ? save_values_of(r) : COPSE_OK;
    if (s == COPSE_OK && r->is_json)
        s = event_stopped(r->step);
    if (s != COPSE_OK)
        return session_fail(s);
    char what[60] = "its values";
    if (r->best_epoch > 0)
        snprintf(what, sizeof what, "the values of epoch %u, the best one", r->best_epoch);
    fprintf(stderr, "copse train: stopped after step %llu%s%s%s%s\n", (unsigned long long)r->step,
            r->step > 0 ? "; '" : "", r->step > 0 ? session_shown(r->save) : "",
            r->step > 0 ? "' has " : "", r->step > 0 ? what : "");
    return 128 + signals_caught();
}

static copse_status train_network_of(struct onnx_run *r)
{
    struct copse_onnx_info is;
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count, trained = 0;
    COPSE_TRY(session_open(&r->how, &r->ctx));
    COPSE_TRY(copse_onnx_open(r->ctx, r->model, &r->network));
    COPSE_TRY(copse_onnx_check(r->network));
    COPSE_TRY(copse_onnx_describe(r->network, &is));
    COPSE_TRY(open_rows(r));
    if (r->devices) {
        COPSE_TRY(copse_strategy_open(r->ctx, r->devices, NULL, &r->strategy));
    } else {
        COPSE_TRY(copse_select_devices(r->ctx, "auto", ids, COPSE_MAX_REPLICAS, &count));
        COPSE_TRY(copse_one_device_create(r->ctx, ids[0], NULL, &r->strategy));
    }
    const struct copse_onnx_make_params how = { .trained = r->trained };
    COPSE_TRY(copse_onnx_make(r->network, r->strategy, &how));
    copse_variable *const *list = copse_onnx_variables(r->network, &count);
    for (size_t i = 0; i < count; i++)
        trained += copse_variable_is_trained(list[i]);
    if (trained == 0)
        return session_set_error(COPSE_ERR_ARGUMENT, "'%s' has no weight to train", r->model);
    const struct copse_trainer_params params = {
        .loss = copse_onnx_loss,
        .user = r->network,
        .optimizer = { .kind = COPSE_ADAM, .learning_rate = r->lr },
        .seed = r->seed,
    };
    COPSE_TRY(copse_trainer_create(r->strategy, &params, &r->trainer));
    if (!r->is_json && !r->is_quiet)
        printf("model    %s: %llu parameters, %zu of %zu weights are trained\n",
               session_shown(r->model), (unsigned long long)is.parameters, trained, count);
    signals_catch();
    const struct copse_fit_params fit = { .epochs = r->epochs,
                                          .held_out = r->judge,
                                          .patience = r->patience,
                                          .on_epoch = note_epoch_of,
                                          .on_batch = note_batch_of,
                                          .user = r };
    COPSE_TRY(copse_trainer_fit(r->trainer, r->batches, &fit));
    if (signals_caught())
        return COPSE_ERR_CANCELLED;
    COPSE_TRY(save_values_of(r));
    if (!r->is_json)
        printf("saved    '%s'\n", session_shown(r->save));
    return COPSE_OK;
}

/* ---- the command ---- */

/* What is wrong, or NULL. */
static const char *check_settings(const struct onnx_run *r)
{
    if (!r->data || !*r->data)
        return "--data PATH: is missing";
    if (!r->save || !*r->save)
        return "--save FILE.onnx: is missing; without it the trained weights would be lost";
    if (!use_is_onnx(r->save))
        return "--save: a network of an ONNX file is saved as one; let the name end in .onnx";
    if (output_overwrites(r->save, r->data) ||
        (r->labels && output_overwrites(r->save, r->labels)) ||
        output_overwrites(r->save, r->model))
        return "--save: would replace the model or the data, which this command reads; name "
               "another "
               "file";
    return r->epochs == 0                                 ? "--epochs: must be at least 1"
           : r->batch == 0                                ? "--batch: must be at least 1"
           : !(r->lr > 0.0f && r->lr <= FLT_MAX)          ? "--lr: must be greater than 0"
           : !(r->held_out >= 0.0f && r->held_out < 1.0f) ? "--held-out: a part from 0 to below 1"
           : r->patience > 0 && r->held_out <= 0.0f
               ? "--patience: needs held-out examples; leave out --held-out 0"
               : NULL;
}

int train_onnx(int argc, char **argv)
{
    struct onnx_run r = { .epochs = 10, .batch = 32, .lr = 1e-3f, .held_out = 0.2f, .seed = 1 };
    const struct option_row rows[] = {
        { "model", OPTION_TEXT, &r.model, "FILE.onnx", "the network, with one input" },
        { "trained", OPTION_TEXT, &r.trained, "PATTERNS",
          "the weights that are trained: \"head.*,*.bias\" [all]" },
        { "save", OPTION_TEXT, &r.save, "FILE.onnx", "the network with its new weights" },
        { "data", OPTION_TEXT, &r.data, "PATH",
          "a table, .npy, IDX or pictures; numbers are not scaled" },
        { "labels", OPTION_TEXT, &r.labels, "FILE", "the labels of an array" },
        { "label", OPTION_TEXT, &r.label, "NAME|N", "the label column of a table [the last]" },
        { "ignore", OPTION_TEXT, &r.ignore, "COLUMNS",
          "columns left out: names, or positions from 1; the others go by their order" },
        { "held-out", OPTION_FLOAT, &r.held_out, "X", "part that judges [0.2]" },
        { "epochs", OPTION_COUNT, &r.epochs, "N", "passes over the data [10]" },
        { "batch", OPTION_COUNT, &r.batch, "N", "examples of a step [32]" },
        { "lr", OPTION_FLOAT, &r.lr, "X", "learning rate of Adam [0.001]" },
        { "patience", OPTION_COUNT, &r.patience, "N",
          "stop after N epochs without a lower held-out loss [never]" },
        { "seed", OPTION_U64, &r.seed, "N", "of the split and the order [1]" },
        { "devices", OPTION_TEXT, &r.devices, "WHICH",
          "one replica on each of these [the first of auto]" },
        { "json", OPTION_FLAG, &r.is_json, NULL, "one JSON object per line" },
        { "quiet", OPTION_FLAG, &r.is_quiet, NULL, "only the result" },
        { "no-cache", OPTION_FLAG, &r.how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &r.how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &r.how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "verbose", OPTION_FLAG, &r.how.is_verbose, NULL, "log what the library does" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --model net.onnx --data rows.csv --save tuned.onnx" },
        { 0 },
    };
    static char command[] = "train --model FILE.onnx"; /* whose --help lists these options */
    argv[0] = command;
    int code = options_parse(argc, argv, rows,
                             "Trains the weights of a network in an ONNX file, and writes the file "
                             "again. Classes are trained with\nsoftmax cross-entropy, values with "
                             "the squared error. With held-out examples the best epoch is kept.");
    if (code >= 0)
        return code;
    const char *wrong = check_settings(&r);
    if (wrong) {
        fprintf(stderr, "copse train: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    copse_status s = output_check(r.save);
    if (s == COPSE_OK)
        s = train_network_of(&r);
    code = s == COPSE_OK                                  ? EXIT_DONE
           : s == COPSE_ERR_CANCELLED && signals_caught() ? train_onnx_stop(&r)
                                                          : session_fail(s);
    copse_trainer_release(&r.trainer);
    copse_loader_release(&r.judge);
    copse_loader_release(&r.batches);
    copse_dataset_release(&r.held);
    copse_dataset_release(&r.train);
    copse_dataset_release(&r.all);
    copse_onnx_release(&r.network);
    copse_strategy_release(&r.strategy);
    copse_context_release(&r.ctx);
    return code;
}
