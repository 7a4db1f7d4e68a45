/* SPDX-License-Identifier: MIT */
/* copse export: the arrays of a safetensors file as .npy files, or a model as an ONNX file. All
   .npy files are written to a folder of their own first, and moved when all are complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/checkpoint.h"
#include "copse/data/readers.h"
#include "copse/data/schema.h"
#include "copse/nn/onnx.h"
#include "copse/train/model_file.h"

#include "tools/common/plural.h"
#include "tools/common/use.h"
#include "tools/export/export_merged.h"
#include "tools/tool.h"

struct export
{
    copse_context *ctx;
    const char *file, *folder;
    bool is_forced;
    const struct copse_named_array *arrays;
    size_t count;
    char staging[4096]; /* beside the folder, or in it where it exists */
    bool has_folder, has_staging;
};

/* The name of an array's file: letters, digits, '_', '-' and '.' stay, every other byte and a '.'
   at the front become %XX, as in URLs; so different names give different files. False: too long for
   a file system. */
static bool file_name(const char *name, char out[256])
{
    size_t n = 0;
    if (!*name)
        out[n++] = '%';
    for (const char *c = name; *c; c++) {
        const bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                              (*c >= '0' && *c <= '9') || *c == '_' || *c == '-' ||
                              (*c == '.' && c > name);
        if (n + 8 > 255)
            return false;
        n += (size_t)snprintf(out + n, 256 - n, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    snprintf(out + n, 256 - n, ".npy");
    return true;
}

static copse_status path_of(const struct export *e, const char *folder, size_t i, char path[4400])
{
    char name[256];
    if (!file_name(e->arrays[i].name, name))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "the name of array %zu is too long for a file: '%.80s...'", i,
                                 e->arrays[i].name);
    const int n = snprintf(path, 4400, "%s/%s", folder, name);
    return n < 4400
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT, "'%.80s...': the path is too long", folder);
}

static copse_status io_error(const char *what, const char *path)
{
    return session_set_error(COPSE_ERR_IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

/* The folder may exist; the files may not, unless --force is given. */
static copse_status export_check(struct export *e)
{
    struct system_file info;
    char path[4400];
    size_t length = strlen(e->folder);
    while (length > 1 && e->folder[length - 1] == '/')
        length--;
    e->has_folder = system_look(e->folder, &info);
    if (e->has_folder && info.kind != SYSTEM_FOLDER)
        return session_set_error(COPSE_ERR_IO, "--npy: '%s' is not a folder", e->folder);
    const int n = e->has_folder ? snprintf(e->staging, sizeof e->staging, "%s/.copse-export-%ld",
                                           e->folder, system_process())
                                : snprintf(e->staging, sizeof e->staging, "%.*s.tmp%ld",
                                           (int)length, e->folder, system_process());
    if (n >= (int)sizeof e->staging)
        return session_set_error(COPSE_ERR_ARGUMENT, "--npy: the path is too long");
    for (size_t i = 0; i < e->count; i++) {
        COPSE_TRY(path_of(e, e->folder, i, path));
        const bool is_link = system_is_link(path);
        if (!e->has_folder || (!system_look(path, &info) && !is_link))
            continue;
        if (output_is_same(path, e->file))
            return session_set_error(
                COPSE_ERR_ARGUMENT,
                "--npy would replace '%s', which this command reads; name another folder", path);
        if (!e->is_forced)
            return session_set_error(COPSE_ERR_ARGUMENT, "'%s' exists; --force replaces it", path);
        if (is_link || info.kind != SYSTEM_FILE)
            return session_set_error(COPSE_ERR_IO, "'%s' is not a regular file", path);
    }
    return COPSE_OK;
}

static copse_status write_all(struct export *e)
{
    char path[4400], to[4400];
    if (!system_make_folder(e->staging))
        return io_error("make the folder", e->staging);
    e->has_staging = true;
    for (size_t i = 0; i < e->count; i++) {
        COPSE_TRY(path_of(e, e->staging, i, path));
        COPSE_TRY(copse_write_npy(e->ctx, path, &e->arrays[i].array));
    }
    if (!e->has_folder) {
        if (!system_rename(e->staging, e->folder))
            return io_error("make the folder", e->folder);
        e->has_staging = false;
    }
    for (size_t i = 0; e->has_staging && i < e->count; i++) {
        COPSE_TRY(path_of(e, e->staging, i, path));
        COPSE_TRY(path_of(e, e->folder, i, to));
        if (!system_rename(path, to))
            return io_error("write", to);
    }
    return COPSE_OK;
}

static void remove_staging(const struct export *e)
{
    char path[4400];
    for (size_t i = 0; e->has_staging && i < e->count; i++)
        if (path_of(e, e->staging, i, path) == COPSE_OK)
            system_remove(path);
    if (e->has_staging)
        system_remove_folder(e->staging);
}

static copse_status export_file(struct export *e)
{
    COPSE_TRY(export_check(e));
    signals_hold();
    const copse_status s = write_all(e);
    remove_staging(e);
    signals_release();
    return s;
}

/* ---- a model as an ONNX file ---- */

/* The scales of the targets of a regression, then their means; NULL: there is no memory. */
static double *target_scales(const copse_schema *schema, uint32_t outputs)
{
    const char *name;
    double *numbers = calloc(2 * (size_t)outputs + 1, sizeof *numbers);
    for (uint32_t i = 0; numbers && i < outputs; i++)
        if (copse_schema_target(schema, i, &name, &numbers[outputs + i], &numbers[i]) != COPSE_OK)
            numbers[i] = 1;
    return numbers;
}

/* The means of the columns of a table of numbers, then their scales; NULL: the columns are no
   numbers, so that the rows of the network are encoded ones. */
static copse_status column_scales(const copse_schema *schema, const struct copse_schema_info *is,
                                  double **out)
{
    struct copse_schema_column c;
    const uint32_t width = is->columns > 0 && is->shape.rank == 1 ? is->shape.dims[0] : 0;
    double *numbers = width > 0 ? calloc(2 * (size_t)width, sizeof *numbers) : NULL;
    *out = NULL;
    if (width > 0 && !numbers)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %u columns", width);
    bool has_others = false;
    for (uint32_t i = 0; numbers && i < is->columns; i++) {
        if (copse_schema_column(schema, i, &c) != COPSE_OK || c.width == 0)
            continue;
        has_others = has_others || c.role != COPSE_COLUMN_NUMBER || c.first >= width;
        if (!has_others) {
            numbers[c.first] = c.mean;
            numbers[width + c.first] = c.scale;
        }
    }
    if (has_others) {
        free(numbers);
        numbers = NULL;
    }
    if (is->columns > 0 && !numbers)
        fprintf(stderr, "copse export: the input of the network has the columns of the table "
                        "encoded, as model-file.md says: categories and dates are several "
                        "numbers\n");
    *out = numbers;
    return COPSE_OK;
}

static copse_status write_onnx(copse_context *ctx, const char *file, const char *to)
{
    struct copse_schema_info is;
    copse_strategy *st = NULL;
    copse_model *m = NULL;
    double *numbers = NULL, *columns = NULL;
    copse_status s = copse_one_device_create(ctx, "host:0", NULL, &st);
    if (s == COPSE_OK)
        s = copse_model_load(st, file, NULL, &m);
    if (s == COPSE_OK)
        s = copse_schema_describe(copse_model_schema(m), &is);
    if (s == COPSE_OK)
        s = column_scales(copse_model_schema(m), &is, &columns);
    if (s == COPSE_OK) {
        numbers = target_scales(copse_model_schema(m), is.outputs);
        s = numbers
                ? COPSE_OK
                : session_set_error(COPSE_ERR_NO_MEMORY, "no memory for %u targets", is.outputs);
    }
    if (s == COPSE_OK) {
        const bool has_values = is.task == COPSE_TASK_REGRESSION;
        const struct copse_onnx_write_params how = {
            .input_offset = is.input_offset,
            .input_scale = is.input_scale,
            .input_means = columns,
            .input_scales = columns ? columns + is.shape.dims[0] : NULL,
            .is_softmax = is.task == COPSE_TASK_CLASSIFICATION,
            .output_scales = has_values ? numbers : NULL,
            .output_means = has_values ? numbers + is.outputs : NULL,
        };
        s = copse_onnx_write(copse_model_layer(m), to, &how);
    }
    free(columns);
    free(numbers);
    copse_model_release(&m);
    copse_strategy_release(&st);
    return s;
}

/* Whether the file can be written. */
static copse_status onnx_check(const struct export *e, const char *to)
{
    struct system_file info;
    if (output_is_same(to, e->file))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "--onnx would replace '%s', which this command reads", to);
    if (!e->is_forced && system_look(to, &info))
        return session_set_error(COPSE_ERR_ARGUMENT, "'%s' exists; --force replaces it", to);
    return output_check(to);
}

static int export_onnx(const struct export *e, const char *to)
{
    copse_context *ctx = NULL;
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = onnx_check(e, to);
    if (s == COPSE_OK)
        s = write_onnx(ctx, e->file, to);
    if (s == COPSE_OK)
        printf("saved    '%s'\n", session_shown(to));
    copse_context_release(&ctx);
    return s == COPSE_OK ? EXIT_DONE : session_fail(s);
}

int cmd_export(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct export e = { .file = NULL };
    copse_checkpoint *file = NULL;
    copse_context *ctx = NULL;
    const char *onnx = NULL, *merged = NULL;
    struct option_texts lora = { .count = 0 };
    struct option_choice type = { .names = export_types, .at = export_types };
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "FILE", "a safetensors file; with --merged a language model" },
        { "npy", OPTION_TEXT, &e.folder, "DIR",
          "write one .npy file for each array to this folder" },
        { "onnx", OPTION_TEXT, &onnx, "FILE.onnx", "write the network of a model as an ONNX file" },
        { "merged", OPTION_TEXT, &merged, "PATH",
          "write a language model with its adapters: a GGUF file, or a folder" },
        { "lora", OPTION_TEXTS, &lora, "ADAPTER", USE_LORA_HELP },
        { "type", OPTION_CHOICE, &type, "NAME",
          "of merged weights: file (as there, or f32), f32, f16, bf16 [file]" },
        { "force", OPTION_FLAG, &e.is_forced, NULL, "replace files that exist" },
        { 0 },
    };
    int code = options_parse(
        argc, argv, rows,
        "Writes the arrays of a safetensors file as .npy files for NumPy, the network of a model "
        "as an ONNX\nfile, or a language model with its adapters as a model of its own. In names "
        "of .npy files a '/' of\nan array's name becomes %2F.");
    if (code >= 0)
        return code;
    const char *wrong =
        words.count != 1 ? "which file? give one FILE"
        : (e.folder != NULL) + (onnx != NULL) + (merged != NULL) > 1
            ? "--npy, --onnx or --merged: give one"
        : merged && !*merged                 ? "--merged: the path is empty"
        : merged && lora.count == 0          ? "--merged needs --lora ADAPTER"
        : !merged && lora.count > 0          ? "--lora belongs to --merged"
        : !merged && type.at != export_types ? "--type belongs to --merged"
        : onnx && !use_is_onnx(onnx)
            ? "--onnx FILE.onnx: let the name end in .onnx, by which other commands "
              "know such files"
        : !merged && (use_is_onnx(words.at[0]) || use_is_gguf(words.at[0]))
            ? "FILE is a safetensors file; `copse info` prints ONNX and GGUF files"
        : !onnx && !merged && (!e.folder || !*e.folder)
            ? "where to? give --npy DIR, --onnx FILE.onnx or --merged PATH"
            : NULL;
    if (wrong) {
        fprintf(stderr, "copse export: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    e.file = words.at[0];
    if (merged)
        return export_merged(&(struct export_merged){ e.file, merged, &lora,
                                                      (uint32_t)type.at->value, e.is_forced });
    if (onnx)
        return export_onnx(&e, onnx);
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = copse_checkpoint_read(ctx, e.file, &file);
    if (s == COPSE_OK) {
        e.arrays = copse_checkpoint_arrays(file, &e.count);
        e.ctx = ctx;
        s = export_file(&e);
    }
    if (s == COPSE_OK)
        printf("%zu array%s: %s\n", e.count, plural_end(e.count), e.folder);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_checkpoint_release(&file);
    copse_context_release(&ctx);
    return code;
}
