/* SPDX-License-Identifier: MIT */
/* copse generate: a model of texts continues a text. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/train/generate.h"

#include "tools/common/characters.h"
#include "tools/common/json.h"
#include "tools/common/use.h"

struct job {
    struct use use;
    struct copse_generate_params how;
    const char *prompt;
    const char *system; /* of --chat */
    bool is_chat;
    char *asked;            /* the prompt in the form of a conversation */
    bool is_json, is_begun; /* is_begun: a token was printed */
    char last;              /* the newest byte */
    /* begins with bytes of a character that further tokens complete */
    char part[3 + COPSE_TOKEN_BYTES];
    size_t part_size;
    /* at the end: the tokens are byte pairs, so the text may end inside a character */
    bool drops_part;
    /* of --json: the bytes of the tokens */
    char *text;
    size_t size, room;
};

/* ---- text ---- */

/* A terminal gets no control characters, which a model may have learned; a file or a pipe gets
   all. */
static copse_status generate_put(const char *text, size_t size)
{
    unsigned columns;
    const bool is_terminal = system_is_terminal(&columns);
    for (size_t i = 0; is_terminal && i < size; i++) {
        const bool is_c1 = i + 1 < size && (unsigned char)text[i] == 0xc2 &&
                           ((unsigned char)text[i + 1] & 0xe0) == 0x80;
        const bool is_control =
            is_c1 || (iscntrl((unsigned char)text[i]) && text[i] != '\n' && text[i] != '\t');
        fputc(is_control ? '?' : text[i], stdout);
        i += is_c1;
    }
    if (is_terminal)
        return fflush(stdout) == 0 ? COPSE_OK : COPSE_ERR_IO;
    return fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0 ? COPSE_OK : COPSE_ERR_IO;
}

/* The first token shows that the prompt is valid. */
static copse_status print_token(void *user, uint32_t token, const char *text, size_t size)
{
    struct job *j = user;
    (void)token;
    if (!j->is_begun && !j->is_chat)
        COPSE_TRY(generate_put(j->prompt, strlen(j->prompt)));
    j->is_begun = true;
    memcpy(j->part + j->part_size, text, size);
    const size_t all = j->part_size + size, ready = all - utf8_part(j->part, all);
    COPSE_TRY(generate_put(j->part, ready));
    j->last = ready > 0 ? j->part[ready - 1] : j->last;
    j->part_size = all - ready;
    memmove(j->part, j->part + ready, j->part_size);
    return COPSE_OK;
}

/* ---- language models ---- */

/* A token in pieces: there is room for COPSE_TOKEN_BYTES of each. */
struct pieces {
    struct job *j;
    copse_token_fn *take;
};

static copse_status take_pieces(void *user, uint32_t token, const char *text, size_t size)
{
    const struct pieces *p = user;
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < COPSE_TOKEN_BYTES ? size - at : COPSE_TOKEN_BYTES;
        COPSE_TRY(p->take(p->j, token, text + at, n));
    }
    return COPSE_OK;
}

static copse_status generate_ask(struct job *j)
{
    size_t needed;
    COPSE_TRY(copse_language_chat(j->use.language, j->system, j->prompt, NULL, 0, &needed));
    j->asked = malloc(needed);
    if (!j->asked)
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the prompt");
    return copse_language_chat(j->use.language, j->system, j->prompt, j->asked, needed, &needed);
}

/* The text by the model, or by the language model. */
static copse_status generate_write(struct job *j, copse_token_fn *take)
{
    struct pieces p = { j, take };
    if (!j->use.language)
        return copse_model_generate(j->use.model, j->prompt, strlen(j->prompt), &j->how, take, j);
    if (j->is_chat)
        COPSE_TRY(generate_ask(j));
    const char *prompt = j->asked ? j->asked : j->prompt;
    return copse_language_generate(j->use.language, prompt, strlen(prompt), &j->how, take_pieces,
                                   &p);
}

/* The prompt and what follows it; a line end, where there is none, completes the last line. */
static copse_status generate_print(struct job *j)
{
    const copse_status s = generate_write(j, print_token);
    if (j->part_size > 0 && !j->drops_part && generate_put(j->part, j->part_size) == COPSE_OK)
        j->last = j->part[j->part_size - 1];
    if (j->is_begun && j->last != '\n')
        fputc('\n', stdout);
    return s;
}

/* ---- JSON ---- */

static copse_status keep_token(void *user, uint32_t token, const char *text, size_t size)
{
    struct job *j = user;
    (void)token;
    if (j->size + size >= j->room) {
        const size_t room = 2 * (j->room + size) + 256;
        char *grown = realloc(j->text, room);
        if (!grown)
            return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for a text of %zu bytes",
                                     j->size);
        j->text = grown;
        j->room = room;
    }
    for (size_t i = 0; i < size; i++)
        /* NUL ends a C string: as an invalid byte it becomes U+FFFD */
        j->text[j->size++] = text[i] ? text[i] : '\xff';
    j->text[j->size] = '\0';
    return COPSE_OK;
}

static copse_status print_object(struct job *j)
{
    COPSE_TRY(generate_write(j, keep_token));
    if (!j->text) /* the model ended at once */
        COPSE_TRY(keep_token(j, 0, "", 0));
    if (j->drops_part)
        j->text[j->size - utf8_part(j->text, j->size)] = '\0';
    cJSON *o = cJSON_CreateObject();
    json_add_text(o, "prompt", j->prompt);
    json_add_text(o, "text", j->text);
    json_add_count(o, "tokens", j->how.length);
    json_add_number(o, "temperature", (double)j->how.temperature);
    json_add_count(o, "top_k", j->how.top_k);
    json_add_number(o, "top_p", (double)j->how.top_p);
    json_add_count(o, "seed", j->how.seed);
    return json_write(stdout, o);
}

/* ---- the command ---- */

static copse_status generate_text(struct job *j)
{
    COPSE_TRY(use_load(&j->use));
    if (j->use.language) {
        j->drops_part = true;
        return j->is_json ? print_object(j) : generate_print(j);
    }
    if (j->is_chat || j->system)
        return session_set_error(COPSE_ERR_ARGUMENT, "--chat and --system are for language models");
    if (j->use.info.kind != COPSE_DATA_TEXT)
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "'%s' is not a model of texts; `copse train --tokens` makes one",
                                 j->use.model_path);
    struct copse_text_info info;
    COPSE_TRY(copse_text_describe(j->use.schema, &info));
    if (!info.knows_unseen)
        fprintf(stderr,
                "copse generate: '%s' was written by an older version, which did not note the "
                "tokens that its text has "
                "not: they may be drawn; --top-p 0.95 makes that unlikely\n",
                j->use.model_path);
    j->drops_part = info.tokens == COPSE_TOKENS_BPE;
    return j->is_json ? print_object(j) : generate_print(j);
}

static const char *generate_wrong(const struct job *j, const struct option_words *words)
{
    return words->count != 1            ? "give MODEL"
           : j->system && !j->is_chat   ? "--system belongs to --chat"
           : j->use.date && !j->is_chat ? "--date belongs to --chat"
           : j->how.length == 0         ? "--length: it must be at least 1"
           : j->how.temperature < 0.0f  ? "--temperature: it must be at least 0"
           : !(j->how.top_p > 0.0f && j->how.top_p <= 1.0f)
               ? "--top-p: it must be above 0 and at most 1"
               : NULL;
}

int cmd_generate(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct option_choice weights = { .names = use_weights, .at = use_weights };
    struct job j = { .use = { .devices = "auto" },
                     .how = { .length = 200, .seed = 1, .temperature = 1.0f, .top_p = 1.0f },
                     .prompt = "" };
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "MODEL", "of `copse train --tokens`, or a language model" },
        { "prompt", OPTION_TEXT, &j.prompt, "TEXT", "the text to continue [a line end]" },
        { "chat", OPTION_FLAG, &j.is_chat, NULL,
          "TEXT is a question in a conversation; only the answer is printed" },
        { "system", OPTION_TEXT, &j.system, "TEXT",
          "with --chat: what the model is told first [what its file says]" },
        { "date", OPTION_TEXT, &j.use.date, "TEXT", USE_DATE_HELP },
        { "lora", OPTION_TEXTS, &j.use.lora, "ADAPTER", USE_LORA_HELP },
        { "length", OPTION_U64, &j.how.length, "N", "tokens to write [200]" },
        { "temperature", OPTION_FLOAT, &j.how.temperature, "T",
          "below 1: likelier tokens; 0: always the most likely one [1]" },
        { "top-k", OPTION_COUNT, &j.how.top_k, "K",
          "draw from the K most likely tokens; 0: from all [0]" },
        { "top-p", OPTION_FLOAT, &j.how.top_p, "P",
          "draw from the fewest tokens whose probabilities reach P [1]" },
        { "seed", OPTION_U64, &j.how.seed, "S", "another seed gives another text [1]" },
        { "weights", OPTION_CHOICE, &weights, "NAME", USE_WEIGHTS_HELP },
        { "json", OPTION_FLAG, &j.is_json, NULL, "print one JSON object: prompt, text, settings" },
        { "devices", OPTION_TEXT, &j.use.devices, "WHICH",
          "the first of these devices is used [auto]" },
        { "no-cache", OPTION_FLAG, &j.use.how.no_cache, NULL, "compile all kernels anew" },
        { "allow-host", OPTION_FLAG, &j.use.how.allows_host, NULL,
          "compute blocked kernels on the host: right, but slow" },
        { "trust-device", OPTION_FLAG, &j.use.how.trusts_unreliable, NULL,
          "use devices whose faults come and go" },
        { "verbose", OPTION_FLAG, &j.use.how.is_verbose, NULL, "log what the library does" },
        { "", OPTION_EXAMPLE, NULL, NULL,
          "copse generate model.safetensors --prompt 'To be' --temperature 0.8 --top-k 20" },
        { 0 },
    };
    int code =
        options_parse(argc, argv, rows,
                      "Prints the prompt and continues it, token by token, with a network that was "
                      "trained on a text\nor with a language model. The same seed on the same "
                      "device gives the same text.");
    if (code >= 0)
        return code;
    if (generate_wrong(&j, &words)) {
        fprintf(stderr, "copse generate: %s\n", generate_wrong(&j, &words));
        return EXIT_BAD_INPUT;
    }
    j.use.model_path = words.at[0];
    j.use.weights = weights.at;
    const copse_status s = generate_text(&j);
    /* main reports standard output */
    code = s == COPSE_OK || ferror(stdout) ? EXIT_DONE : session_fail(s);
    use_close(&j.use);
    free(j.text);
    free(j.asked);
    return code;
}
