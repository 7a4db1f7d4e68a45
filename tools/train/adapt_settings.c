/* SPDX-License-Identifier: MIT */
/* The settings of `copse train` for a language model. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/use.h"
#include "tools/train/adapt.h"

#define UNSET_FLOAT (-FLT_MAX)

const char adapt_no_dora[] =
    "--save: GGUF files cannot hold DoRA: name NAME.safetensors or a folder";

/* The value of an option in argument i; NULL: the argument is another one, or lacks its value. */
static const char *value_of(int argc, char **argv, int i, const char *option)
{
    const size_t size = strlen(option);
    if (strncmp(argv[i], option, size) != 0)
        return NULL;
    if (argv[i][size] == '=')
        return argv[i] + size + 1;
    return argv[i][size] == '\0' && i + 1 < argc ? argv[i + 1] : NULL;
}

bool adapt_is_meant(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *model = value_of(argc, argv, i, "--model");
        if (strncmp(argv[i], "--lora", 6) == 0 ||
            (model && (use_is_language(model) || use_has_ending(model, ".gguf"))))
            return true;
    }
    return false;
}

/* NULL: the value is a file that can be looked at; else what is wrong. */
static const char *adapt_check_file(const char *option, const char *path, const char *what)
{
    struct system_file file;
    if (!system_look(path, &file))
        session_set_error(COPSE_ERR_IO, "%s: cannot open '%s': %s; it is to be %s", option, path,
                          strerror(errno), what);
    else if (file.kind == SYSTEM_FOLDER)
        session_set_error(COPSE_ERR_IO, "%s: '%s' is a folder; it is to be %s", option, path, what);
    else
        return NULL;
    return session_error();
}

static const char *adapt_check_model(const struct adapt_settings *s)
{
    if (!s->model || !*s->model)
        return "--lora: adapts a language model; --model names it";
    if (use_is_language(s->model))
        return NULL;
    const char *wrong = adapt_check_file(
        "--model", s->model, "a language model: a GGUF file, or a folder with config.json");
    if (wrong)
        return wrong;
    session_set_error(COPSE_ERR_FORMAT,
                      "--model: '%s' is neither a GGUF file nor the weights of a folder with "
                      "config.json; --lora adapts a language model",
                      s->model);
    return session_error();
}

/* --held-out: a part, none or a file. */
static const char *adapt_settle_part(struct adapt_settings *s)
{
    char *end = NULL;
    if (!s->held_out)
        return NULL;
    if (strcmp(s->held_out, "none") == 0) {
        s->part = 0;
        return NULL;
    }
    s->part = strtod(s->held_out, &end);
    if (end != s->held_out && !*end)
        return s->part > 0 && s->part < 1 ? NULL
                                          : "--held-out: a part above 0 and below 1, a file, or "
                                            "none";
    s->part = -1;
    return adapt_check_file("--held-out", s->held_out,
                            "a part above 0 and below 1, a file, or none");
}

static const char *adapt_check_numbers(const struct adapt_settings *s)
{
    return s->init &&
                   (s->rank != ADAPT_UNSET || s->alpha != UNSET_FLOAT ||
                    s->dropout != UNSET_FLOAT || s->is_rank_stabilised || s->is_dora || s->targets)
               ? "--init: the adapter has its own rank, alpha, dropout and targets; leave --lora "
                 "and --lora-... out"
           : s->alpha != UNSET_FLOAT && !(s->alpha > 0.0f && s->alpha <= FLT_MAX)
               ? "--lora-alpha: must be above 0, and finite"
           : s->dropout != UNSET_FLOAT && !(s->dropout >= 0.0f && s->dropout < 1.0f)
               ? "--lora-dropout: must be at least 0 and less than 1"
           : s->rank == 0             ? "--lora: a rank of 1 to 1024"
           : s->epochs == 0           ? "--epochs: must be at least 1"
           : s->steps == 0            ? "--steps: must be at least 1"
           : s->every == 0            ? "--every: must be at least 1"
           : s->checkpoint_every == 0 ? "--checkpoint-every: must be at least 1"
           : !s->checkpoint && (s->is_resume || s->checkpoint_every != ADAPT_UNSET)
               ? "--resume and --checkpoint-every need --checkpoint FILE"
           : s->checkpoint && !*s->checkpoint    ? "--checkpoint: the path is empty"
           : !(s->lr > 0.0f && s->lr <= FLT_MAX) ? "--lr: must be greater than 0"
           : s->batch == 0                       ? "--batch: must be at least 1"
           : s->epochs != ADAPT_UNSET && s->steps != ADAPT_UNSET
               ? "--epochs and --steps: both say how long to train; give one"
           : s->patience > 0 && s->part == 0
               ? "--patience: needs held-out text; leave out --held-out none"
               : NULL;
}

/* Whether the adapter can be written, before it is trained. */
static const char *adapt_check_save(const struct adapt_settings *s)
{
    char path[4096];
    struct system_file file;
    const char *const inputs[] = { s->model, s->data, s->part < 0 ? s->held_out : NULL };
    static const char *const parts[] = { "adapter_model.safetensors", "adapter_config.json" };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i] && output_is_same(s->save, inputs[i]))
            return "--save: would replace a file that is read";
        if (inputs[i] && s->checkpoint && output_is_same(s->checkpoint, inputs[i]))
            return "--checkpoint: would replace a file that is read";
        if (inputs[i] && s->hashes.path && output_is_same(s->hashes.path, inputs[i]))
            return "--hash: would replace a file that is read";
    }
    if (s->hashes.path && output_is_same(s->hashes.path, s->save))
        return "--hash: is the file of --save";
    if (s->hashes.path && output_check(s->hashes.path) != COPSE_OK)
        return session_error();
    if (s->checkpoint && (output_is_same(s->checkpoint, s->save) ||
                          (s->hashes.path && output_is_same(s->checkpoint, s->hashes.path))))
        return "--checkpoint: is the file of --save or --hash";
    if (s->checkpoint && s->init && output_is_same(s->checkpoint, s->init))
        return "--checkpoint: would replace the adapter of --init";
    for (size_t i = 0; s->checkpoint && i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", s->save, parts[i]);
        if (output_is_same(s->checkpoint, path))
            return "--checkpoint: is a file of --save";
        snprintf(path, sizeof path, "%s/%s", s->init ? s->init : s->save, parts[i]);
        if (output_is_same(s->checkpoint, path))
            return "--checkpoint: would replace a file of --init";
    }
    if (s->checkpoint && output_check(s->checkpoint) != COPSE_OK)
        return session_error();
    const char *name = system_name(s->save);
    snprintf(path, sizeof path, "%.*sadapter_config.json", (int)(name - s->save), s->save);
    if (strcmp(name, "adapter_model.safetensors") == 0 && system_look(path, &file))
        return "--save: adapter_config.json beside the file would describe another adapter; name "
               "the folder, which gets both";
    const bool is_file =
        use_has_ending(s->save, ".safetensors") || use_has_ending(s->save, ".gguf");
    const bool is_there = system_look(s->save, &file);
    if (!is_file && is_there && file.kind != SYSTEM_FOLDER)
        return "--save: a file of this name exists; an adapter is NAME.safetensors, NAME.gguf or a "
               "folder";
    if (is_file || !is_there) { /* a new folder is possible where a file is */
        size_t size = strlen(s->save);
        while (size > 1 && s->save[size - 1] == '/')
            size--;
        snprintf(path, sizeof path, "%.*s", (int)size, s->save);
    } else {
        snprintf(path, sizeof path, "%s/adapter_model.safetensors", s->save);
    }
    return output_check(path) == COPSE_OK ? NULL : session_error();
}

static const char *adapt_check(struct adapt_settings *s)
{
    const char *wrong = adapt_check_model(s);
    if (wrong)
        return wrong;
    if (!s->data || !*s->data)
        return "--data FILE: a text to train on is missing";
    if (!s->save || !*s->save)
        return "--save PATH: is missing; without it the adapter would be lost";
    if (s->is_dora && use_has_ending(s->save, ".gguf"))
        return adapt_no_dora;
    wrong = adapt_settle_part(s);
    if (!wrong)
        wrong = adapt_check_numbers(s);
    if (!wrong)
        wrong = hash_file_check(&s->hashes);
    if (!wrong)
        wrong = bits_check(&s->bits);
    return wrong ? wrong : adapt_check_save(s);
}

/* The default of a count that was not given. */
static void adapt_settle(uint32_t *count, uint32_t otherwise)
{
    if (*count == ADAPT_UNSET)
        *count = otherwise;
}

int adapt_settings_parse(int argc, char **argv, struct adapt_settings *s)
{
    *s = (struct adapt_settings){ .schedule = "cosine",
                                  .weights = { .names = use_weights, .at = use_weights },
                                  .bits = { { .names = bits_names, .at = bits_names },
                                            SHARDS_NOT_GIVEN },
                                  .hashes.launches_of = HASH_NOT_GIVEN,
                                  .rank = ADAPT_UNSET,
                                  .context = ADAPT_UNSET,
                                  .epochs = ADAPT_UNSET,
                                  .steps = ADAPT_UNSET,
                                  .every = ADAPT_UNSET,
                                  .checkpoint_every = ADAPT_UNSET,
                                  .batch = 1,
                                  .lr = 1e-3f,
                                  .seed = 1,
                                  .alpha = UNSET_FLOAT,
                                  .dropout = UNSET_FLOAT,
                                  .part = 0.1 };
    const struct option_row rows[] = {
        { "", OPTION_GROUP, NULL, NULL, "Model" },
        { "model", OPTION_TEXT, &s->model, "PATH",
          "the language model, a GGUF file or a folder; it is not changed" },
        { "weights", OPTION_CHOICE, &s->weights, "NAME", USE_WEIGHTS_HELP },
        { "lora", OPTION_COUNT, &s->rank, "RANK", "rank of the adapter [8]" },
        { "lora-alpha", OPTION_FLOAT, &s->alpha, "X",
          "the adapter is scaled by alpha / rank [2 RANK]" },
        { "lora-dropout", OPTION_FLOAT, &s->dropout, "X", "of what enters the adapter [0]" },
        { "lora-targets", OPTION_TEXT, &s->targets, "PATTERNS",
          "adapted weights: \"q_proj,model.layers.2?.*\" [all seven kinds]" },
        { "lora-rank-stabilised", OPTION_FLAG, &s->is_rank_stabilised, NULL,
          "scale by alpha / sqrt(rank) (rsLoRA)" },
        { "lora-dora", OPTION_FLAG, &s->is_dora, NULL,
          "train the length of each row of a weight, too (DoRA)" },
        { "init", OPTION_TEXT, &s->init, "ADAPTER", "continue from this adapter" },
        { "save", OPTION_TEXT, &s->save, "PATH",
          "NAME.safetensors, a folder for PEFT, or NAME.gguf for llama.cpp" },
        { "save-last", OPTION_FLAG, &s->saves_last, NULL,
          "write the last values, not those with the lowest held-out loss" },
        { "", OPTION_GROUP, NULL, NULL, "Data" },
        { "data", OPTION_TEXT, &s->data, "FILE",
          "a text, or conversations: lines {\"prompt\": ..., \"answer\": ...}" },
        { "date", OPTION_TEXT, &s->date, "TEXT", USE_DATE_HELP },
        { "context", OPTION_COUNT, &s->context, "N",
          "tokens of a window [512; of conversations 0: the longest one]" },
        { "held-out", OPTION_TEXT, &s->held_out, "X|FILE",
          "what judges: the last part of the text, a file, or none [0.1, at most 64 KiB]" },
        { "seed", OPTION_U64, &s->seed, "N", "of the adapter, the order and dropout [1]" },
        { "", OPTION_GROUP, NULL, NULL, "Training" },
        { "epochs", OPTION_COUNT, &s->epochs, "N", "passes over the windows [1]" },
        { "steps", OPTION_COUNT, &s->steps, "N", "steps, instead of --epochs" },
        { "batch", OPTION_COUNT, &s->batch, "N", "windows of a step [1]" },
        { "lr", OPTION_FLOAT, &s->lr, "X", "learning rate of Adam [0.001]" },
        { "schedule", OPTION_TEXT, &s->schedule, "TEXT", "constant, cosine, ... [cosine]" },
        { "every", OPTION_COUNT, &s->every, "N", "steps between two lines [a twentieth]" },
        { "patience", OPTION_COUNT, &s->patience, "N",
          "stop after N epochs without a lower held-out loss [never]" },
        { "checkpoint", OPTION_TEXT, &s->checkpoint, "FILE",
          "write the state of the run after each epoch, and at a signal" },
        { "checkpoint-every", OPTION_COUNT, &s->checkpoint_every, "N", "and after each N steps" },
        { "resume", OPTION_FLAG, &s->is_resume, NULL,
          "go on from the checkpoint with the same bits, or start" },
        { "", OPTION_GROUP, NULL, NULL, "Devices and output" },
        { "devices", OPTION_TEXT, &s->devices, "WHICH",
          "one replica on each of these [the first of auto]" },
        { "memory", OPTION_BYTES, &s->memory, "BYTES",
          "most memory of each device; results are computed again to keep it" },
        HASH_OPTION_ROWS(&s->hashes, "the adapter"),
        BITS_OPTION_ROWS(&s->bits),
        { "no-cross-check", OPTION_FLAG, &s->has_no_cross_check, NULL,
          "do not compare the first step with the host" },
        { "json", OPTION_FLAG, &s->is_json, NULL, "one JSON object per line" },
        { "quiet", OPTION_FLAG, &s->is_quiet, NULL, "only the result" },
        { "no-cache", OPTION_FLAG, &s->how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &s->how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &s->how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "verbose", OPTION_FLAG, &s->how.is_verbose, NULL, "log what the library does" },
        { "cluster", OPTION_HINT, NULL, NULL, "--devices" },
        { "length", OPTION_HINT, NULL, NULL, "--context" },
        { "window", OPTION_HINT, NULL, NULL, "--context" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse train --model model.gguf --data notes.txt --lora 8 --save adapter" },
        { 0 },
    };
    const int code = options_parse(argc, argv, rows,
                                   "Trains an adapter (LoRA) of a language model on a text, and "
                                   "prints how well the model\npredicts the part of the text that "
                                   "is held out.");
    if (code >= 0)
        return code;
    const char *wrong = adapt_check(s);
    if (wrong)
        fprintf(stderr, "copse train: %s\n", wrong);
    adapt_settle(&s->rank, 8);
    adapt_settle(&s->epochs, 0);
    adapt_settle(&s->steps, 0);
    adapt_settle(&s->every, 0);
    s->alpha = s->alpha == UNSET_FLOAT ? 0.0f : s->alpha;
    s->dropout = s->dropout == UNSET_FLOAT ? 0.0f : s->dropout;
    return wrong ? EXIT_BAD_INPUT : -1;
}
