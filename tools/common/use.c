/* SPDX-License-Identifier: MIT */
/* A trained model, and data for it: loaded by `copse predict`, `copse evaluate` and `copse
   generate`. */
#include "tools/common/use.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/source.h"
#include "copse/train/adapt.h"
#include "copse/train/model_file.h"

#include "tools/common/characters.h"

const struct option_name use_missings[] = {
    { "auto", COPSE_MISSING_AUTO },
    { "mean", COPSE_MISSING_MEAN },
    { "refuse", COPSE_MISSING_REFUSE },
    { NULL, 0 },
};
const struct option_name use_unknowns[] = {
    { "ignore", COPSE_UNKNOWN_IGNORE },
    { "refuse", COPSE_UNKNOWN_REFUSE },
    { NULL, 0 },
};

const struct option_name use_weights[] = {
    { "file", COPSE_WEIGHTS_FILE },
    { "f32", COPSE_WEIGHTS_F32 },
    { NULL, 0 },
};

/* A file that begins as safetensors do: the size of a JSON object, and the object. */
static bool is_safetensors(const char *path)
{
    struct system_file info;
    unsigned char begin[9] = { 0 };
    FILE *f = path && system_look(path, &info) && info.kind == SYSTEM_FILE ? system_open(path, "rb")
                                                                           : NULL;
    const size_t n = f ? fread(begin, 1, sizeof begin, f) : 0;
    if (f)
        fclose(f);
    return n == sizeof begin && begin[8] == '{' && begin[6] == 0 && begin[7] == 0;
}

/* A file that has this text in its first bytes. A pipe is none: its first byte may never come. */
static bool has_text(const char *path, const char *text)
{
    enum { LOOKED_AT = 1 << 20 };
    const size_t length = strlen(text);
    struct system_file info;
    bool is_there = false;
    FILE *f = system_look(path, &info) && info.kind == SYSTEM_FILE ? system_open(path, "rb") : NULL;
    char *bytes = f ? malloc(LOOKED_AT) : NULL;
    const size_t size = bytes ? fread(bytes, 1, LOOKED_AT, f) : 0;
    for (size_t i = 0; !is_there && i + length <= size; i++)
        is_there = memcmp(bytes + i, text, length) == 0;
    free(bytes);
    if (f)
        fclose(f);
    return is_there;
}

bool use_is_gguf(const char *path)
{
    char magic[4];
    struct system_file info; /* a pipe would not end the wait for its first byte */
    FILE *f = path && system_look(path, &info) && info.kind == SYSTEM_FILE ? system_open(path, "rb")
                                                                           : NULL;
    const bool is_it =
        f && fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    if (f)
        fclose(f);
    return is_it;
}

bool use_beside(char to[USE_PATH], const char *path, const char *name)
{
    struct system_file info;
    const bool is_folder = system_look(path, &info) && info.kind == SYSTEM_FOLDER;
    const size_t n = is_folder ? strlen(path) : (size_t)(system_name(path) - path);
    return snprintf(to, USE_PATH, "%.*s%s%s", (int)n, path, is_folder ? "/" : "", name) < USE_PATH;
}

bool use_is_model_folder(const char *path)
{
    struct system_file info;
    char config[USE_PATH];
    if (!path || !system_look(path, &info) || !use_beside(config, path, "config.json") ||
        !has_text(config, "\"model_type\""))
        return false;
    return info.kind == SYSTEM_FOLDER ||
           (is_safetensors(path) && has_text(path, "\"model.embed_tokens.weight\""));
}

bool use_is_language(const char *path)
{
    return use_is_gguf(path) || use_is_model_folder(path);
}

bool use_has_ending(const char *path, const char *ending)
{
    const size_t n = path ? strlen(path) : 0, length = strlen(ending);
    size_t same = 0;
    while (n >= length && same < length &&
           tolower((unsigned char)path[n - length + same]) == ending[same])
        same++;
    return same == length;
}

bool use_is_onnx(const char *path)
{
    return use_has_ending(path, ".onnx");
}

static bool has_table_options(const struct use *u)
{
    return u->missing != COPSE_MISSING_AUTO || u->unknown != COPSE_UNKNOWN_IGNORE;
}

static copse_status refuse_table_options(void)
{
    return session_set_error(COPSE_ERR_ARGUMENT,
                             "--missing and --unknown are for models of tables");
}

copse_status use_adapter(const char *given, char name[USE_PATH], float *factor)
{
    struct system_file info;
    char *end = NULL;
    const char *equals = strrchr(given, '=');
    *factor = 1;
    if (snprintf(name, USE_PATH, "%s", given) >= USE_PATH)
        return session_set_error(COPSE_ERR_ARGUMENT, "--lora: the path is too long");
    if (equals && !system_look(given, &info) && !strpbrk(equals, "/\\")) {
        const double x = strtod(equals + 1, &end);
        if (end == equals + 1 || *end)
            return session_set_error(COPSE_ERR_ARGUMENT, "--lora: '%s' is no number, in '%s'",
                                     equals + 1, given);
        *factor = (float)x;
        name[equals - given] = '\0';
    }
    return *name ? COPSE_OK
                 : session_set_error(COPSE_ERR_ARGUMENT,
                                     "--lora ADAPTER: the name of the adapter is empty, in '%s'",
                                     given);
}

copse_status use_load_adapters(copse_language *language, const struct option_texts *lora)
{
    float factors[OPTION_TEXTS_MOST];
    const char *names[OPTION_TEXTS_MOST];
    char(*room)[USE_PATH] = lora->count > 0 ? calloc(lora->count, sizeof *room) : NULL;
    copse_status s = COPSE_OK;
    if (lora->count == 0)
        return COPSE_OK;
    if (!room)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the names of adapters");
    for (size_t i = 0; s == COPSE_OK && i < lora->count; i++) {
        names[i] = room[i];
        s = use_adapter(lora->at[i], room[i], &factors[i]);
    }
    if (s == COPSE_OK)
        s = copse_language_load_adapters(language, names, factors, lora->count);
    free(room);
    return s;
}

copse_status use_load(struct use *u)
{
    char ids[COPSE_MAX_REPLICAS][32];
    size_t count;
    COPSE_TRY(session_open(&u->how, &u->ctx));
    COPSE_TRY(copse_select_devices(u->ctx, u->devices, ids, COPSE_MAX_REPLICAS, &count));
    COPSE_TRY(copse_one_device_create(u->ctx, ids[0], NULL, &u->strategy)); /* of all the first */
    if (!is_safetensors(u->model_path) && is_safetensors(u->data_path))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' is no model, and '%s' is a file of one: MODEL comes first, "
                                 "then DATA",
                                 u->model_path, u->data_path);
    if (use_is_onnx(u->model_path))
        return session_set_error(COPSE_ERR_UNSUPPORTED,
                                 "'%s' is an ONNX file: `copse info`, `copse predict` and `copse "
                                 "train` take it",
                                 u->model_path);
    const bool is_language = use_is_language(u->model_path);
    if (is_language && has_table_options(u))
        return refuse_table_options();
    if (is_language) {
        const struct copse_language_params params = {
            .weights = u->weights ? (copse_weights)u->weights->value : COPSE_WEIGHTS_FILE,
            .date = u->date,
        };
        COPSE_TRY(copse_language_open(u->strategy, u->model_path, &params, &u->language));
        return use_load_adapters(u->language, &u->lora);
    }
    if (u->lora.count > 0)
        return session_set_error(COPSE_ERR_ARGUMENT, "--lora is for language models");
    if (u->weights && u->weights != use_weights)
        return session_set_error(COPSE_ERR_ARGUMENT, "--weights is for language models");
    if (u->date)
        return session_set_error(COPSE_ERR_ARGUMENT, "--date is for language models");
    COPSE_TRY(copse_model_load(u->strategy, u->model_path, NULL, &u->model));
    u->schema = copse_model_schema(u->model);
    return copse_schema_describe(u->schema, &u->info);
}

bool use_predicts_each(const struct use *u)
{
    copse_shape shape;
    return u->info.kind == COPSE_DATA_TEXT &&
           copse_layer_output(copse_model_layer(u->model), &shape) == COPSE_OK && shape.rank == 2;
}

copse_status use_open(struct use *u)
{
    struct system_file file;
    COPSE_TRY(use_load(u));
    if (u->language)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' is a language model: `copse generate` and `copse evaluate` "
                                 "take it",
                                 u->model_path);
    if (strcmp(u->data_path, "-") == 0) {
        COPSE_TRY(standard_input_take(&u->input));
        u->data_path = u->input.path;
    }
    if (u->text_rows == COPSE_TEXT_LINES && u->info.kind != COPSE_DATA_TEXT)
        return session_set_error(COPSE_ERR_ARGUMENT, "--lines is for models of texts");
    const struct copse_text_params text = { .rows = u->text_rows,
                                            .takes_short = u->text_rows != COPSE_TEXT_WINDOWS &&
                                                           use_predicts_each(u) };
    const struct copse_source_params source = { .text = u->info.kind == COPSE_DATA_TEXT ? &text
                                                                                        : NULL };
    const bool is_folder = system_look(u->data_path, &file) && file.kind == SYSTEM_FOLDER;
    const bool is_table = u->info.kind == COPSE_DATA_TABLE;
    if (!is_table && has_table_options(u))
        return refuse_table_options();
    COPSE_TRY(copse_dataset_open(
        u->ctx, u->data_path,
        &(struct copse_dataset_params){ .schema = u->schema,
                                        .labels = u->labels,
                                        .source = &source,
                                        .missing = u->missing,
                                        .unknown = u->unknown,
                                        .no_labels = u->ignores_labels && (is_folder || is_table) },
        &u->data));
    copse_dataset_describe(u->data, &u->rows);
    return COPSE_OK;
}

void use_close(struct use *u)
{
    standard_input_end(&u->input);
    copse_dataset_release(&u->data);
    copse_model_release(&u->model);
    copse_language_release(&u->language);
    copse_strategy_release(&u->strategy);
    copse_context_release(&u->ctx);
}

const char *use_name(const struct use *u, uint32_t i)
{
    const char *name = NULL;
    double mean, scale;
    if (u->info.task != COPSE_TASK_REGRESSION)
        name = copse_schema_class(u->schema, i);
    else if (copse_schema_target(u->schema, i, &name, &mean, &scale) != COPSE_OK)
        name = NULL;
    return name && *name ? name : "value";
}

void token_text(const copse_schema *schema, uint32_t i, char text[TOKEN_TEXT])
{
    static const char escaped[] = "\n\t\r\\", letters[] = "ntr\\";
    char bytes[COPSE_TOKEN_BYTES];
    const size_t size = copse_text_token(schema, i, bytes);
    int n = 0;
    for (size_t at = 0; at < size; text += n) {
        const unsigned char first = (unsigned char)bytes[at];
        const char *const letter = first ? strchr(escaped, first) : NULL;
        const int length = utf8_character(bytes + at, size - at);
        if (letter)
            n = snprintf(text, 3, "\\%c", letters[letter - escaped]);
        else if (first < 32 || first == 127 || length < 1)
            n = snprintf(text, 5, "\\x%02x", first);
        else
            n = snprintf(text, 5, "%.*s", length, bytes + at);
        at += length > 1 ? (size_t)length : 1;
    }
    *text = '\0';
}

copse_status use_window(const struct use *u, uint32_t row, char *text, size_t room)
{
    const size_t length = u->rows.row_size;
    const bool is_wide = u->info.type == COPSE_I32;
    size_t at = 0, first = 0, bytes = 0;
    char token[TOKEN_TEXT];
    int32_t *tokens = malloc(length * sizeof *tokens);
    if (!tokens)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a window");
    const copse_status s = copse_dataset_gather(u->data, "x", &row, 1, tokens);
    const uint8_t *narrow = (const uint8_t *)tokens;
    /* those that have room */
    for (size_t i = length; s == COPSE_OK && i > 0 && bytes < room; i--) {
        token_text(u->schema, is_wide ? (uint32_t)tokens[i - 1] : narrow[i - 1], token);
        bytes += strlen(token);
        first = bytes < room ? i - 1 : first;
    }
    text[0] = '\0';
    for (size_t i = first; s == COPSE_OK && i < length && at < room; i++) {
        token_text(u->schema, is_wide ? (uint32_t)tokens[i] : narrow[i], token);
        at += (size_t)snprintf(text + at, room - at, "%s", token);
    }
    free(tokens);
    return s;
}

void use_cell(FILE *to, const char *text, char delimiter)
{
    const char quoted[] = { delimiter, '"', '\r', '\n', '\0' };
    unsigned columns;
    if (to == stdout && system_is_terminal(&columns))
        text = session_shown(text);
    if (!strpbrk(text, quoted)) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', to);
        fputc(*text, to);
    }
    fputc('"', to);
}
