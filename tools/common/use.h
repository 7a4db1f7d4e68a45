/* SPDX-License-Identifier: MIT */
/* A trained model with data to use it on. */
#ifndef USE_H
#define USE_H

#include "copse/data/schema.h"
#include "copse/data/text.h"
#include "copse/model.h"
#include "copse/train/language.h"

#include "tools/common/standard_input.h"
#include "tools/tool.h"

struct use {
    const char *model_path, *data_path, *labels, *devices; /* the first of `devices` is used */
    struct option_texts lora;                              /* adapters of a language model */
    copse_text_rows text_rows;                             /* of a text */
    struct session_how how;
    /* labels are not looked at: new rows may have none, or no class of the model */
    bool ignores_labels;
    copse_missing missing;
    copse_unknown unknown;
    const struct option_name *weights; /* of --weights [NULL = the first one] */
    const char *date;                  /* of conversations with one [NULL = the one in the model] */
    struct standard_input input;       /* where data_path was "-" */
    copse_context *ctx;
    copse_strategy *strategy;
    copse_model *model;
    copse_language *language; /* instead of a model and data */
    copse_dataset *data;
    const copse_schema *schema;
    struct copse_schema_info info;
    struct copse_dataset_info rows;
};

/* Values of --missing and --unknown, for data of a model, and of --weights, for language models. */
extern const struct option_name use_missings[], use_unknowns[], use_weights[];
#define USE_MISSING_HELP "missing cells: mean, refuse, auto (mean, warns of news) [auto]"
#define USE_LORA_HELP    "of a language model; ADAPTER=0.5: half of it; up to 16 add up"
#define USE_DATE_HELP    "in conversations of Llama 3.1 to 3.3 [as in its template]"
#define USE_WEIGHTS_HELP "a language model in memory: file (as there), f32 [file]"
#define USE_UNKNOWN_HELP "categories that training did not have: ignore, refuse [ignore]"

/* Whether a file begins as GGUF files do. */
bool use_is_gguf(const char *path);
#define USE_PATH 4096
/* Whether this is a folder of a language model as of Hugging Face: with a config.json that has a
   "model_type"; or the weights of one, a file beside it. */
bool use_is_model_folder(const char *path);
/* The path of a file of such a folder. False: it is too long. */
bool use_beside(char to[USE_PATH], const char *path, const char *name);
/* A GGUF file or such a folder. */
bool use_is_language(const char *path);
/* Whether a path has this ending, which is given in lower case, in any case. NULL has none. */
bool use_has_ending(const char *path, const char *ending);
/* Whether a name ends in .onnx. The content of an ONNX file has no mark. */
bool use_is_onnx(const char *path);
/* The path and the factor of an adapter: "NAME=0.5", where no file has this name and no separator
   follows the mark, is half of the adapter NAME. */
copse_status use_adapter(const char *given, char name[USE_PATH], float *factor);
/* The adapters of --lora for a language model, which may have none. */
copse_status use_load_adapters(copse_language *language, const struct option_texts *lora);
/* Load the model alone. A language model takes no --missing and --unknown, and only one takes
   --weights. */
copse_status use_load(struct use *u);
/* Whether a loaded model predicts the token after each position of a text. */
bool use_predicts_each(const struct use *u);
/* Load the model and read the data by its schema. Texts that are shorter than the window are rows
   where the network takes them and text_rows are ends. */
copse_status use_open(struct use *u);
/* Allowed after a failure of use_load or use_open. */
void use_close(struct use *u);

/* Name of output `i`: a class, or a target ("value" without a name). */
const char *use_name(const struct use *u, uint32_t i);
/* Token `i` of a text on one line: its characters as UTF-8; `\n`, `\t`, `\r`, `\\`, and other
   control characters, and bytes that are no character, as `\x1b`. */
#define TOKEN_TEXT (4 * COPSE_TOKEN_BYTES + 1)
void token_text(const copse_schema *schema, uint32_t i, char text[TOKEN_TEXT]);
/* The window of a row of a text, at most its last tokens; in `text`. */
copse_status use_window(const struct use *u, uint32_t row, char *text, size_t room);
/* A cell of a file whose cells end at `delimiter`, quoted where necessary. */
void use_cell(FILE *to, const char *text, char delimiter);

#endif
