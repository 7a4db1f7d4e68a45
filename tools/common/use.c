/* SPDX-License-Identifier: MIT */
/* A trained model, and data for it: loaded by `copse predict`, `copse evaluate` and `copse
   generate`. */
#include "tools/common/use.h"

#include <stdlib.h>
#include <string.h>

#include "copse/data/source.h"

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

static bool has_table_options(const struct use *u)
{
    return u->missing != COPSE_MISSING_AUTO || u->unknown != COPSE_UNKNOWN_IGNORE;
}

static copse_status refuse_table_options(void)
{
    return session_set_error(COPSE_ERR_ARGUMENT,
                             "--missing and --unknown are for models of tables");
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
    if (use_is_gguf(u->model_path) && has_table_options(u))
        return refuse_table_options();
    if (use_is_gguf(u->model_path)) {
        const struct copse_language_params params = {
            .weights = u->weights ? (copse_weights)u->weights->value : COPSE_WEIGHTS_FILE,
        };
        return copse_language_open(u->strategy, u->model_path, &params, &u->language);
    }
    if (u->weights && u->weights != use_weights)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--weights is for language models in GGUF files");
    COPSE_TRY(copse_model_load(u->strategy, u->model_path, NULL, &u->model));
    u->schema = copse_model_schema(u->model);
    return copse_schema_describe(u->schema, &u->info);
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
    const struct copse_text_params text = { .rows = u->text_rows };
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
