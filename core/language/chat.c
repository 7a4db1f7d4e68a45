/* SPDX-License-Identifier: MIT */
/* The forms of conversations that are known. A file has a program in a language for templates; it
   is recognised by a text that only its form has, and not run. */
#include "core/language/chat.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/language/language.h"

#define MOST_BYTES (16u << 20) /* bytes: of a question, or of what the system says */

/* Mistral's templates differ in blanks, and in the question that has the words of the system. */
static const struct copse_chat_form forms[] = {
    { .name = "chatml",
      .signs = { "<|im_start|>", "" },
      .system_begin = "<|im_start|>system\n",
      .system_end = "<|im_end|>\n",
      .user_begin = "<|im_start|>user\n",
      .user_end = "<|im_end|>\n",
      .model_begin = "<|im_start|>assistant\n",
      .answer_begin = "",
      .answer_end = "<|im_end|>\n" },
    { .name = "llama3",
      .signs = { "<|start_header_id|>", "" },
      .system_begin = "<|start_header_id|>system<|end_header_id|>\n\n",
      .system_end = "<|eot_id|>",
      .user_begin = "<|start_header_id|>user<|end_header_id|>\n\n",
      .user_end = "<|eot_id|>",
      .model_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .answer_begin = "",
      .answer_end = "<|eot_id|>" },
    { .name = "zephyr",
      .signs = { "<|assistant|>", "" },
      .system_begin = "<|system|>\n",
      .system_end = "</s>\n",
      .user_begin = "<|user|>\n",
      .user_end = "</s>\n",
      .model_begin = "<|assistant|>\n",
      .answer_begin = "",
      .answer_end = "</s>\n" },
    { .name = "gemma", /* of Gemma 3 */
      .signs = { "<start_of_turn>", "first_user_prefix" },
      .system = COPSE_CHAT_SYSTEM_IN_FIRST,
      .system_begin = "",
      .system_end = "\n\n",
      .user_begin = "<start_of_turn>user\n",
      .user_end = "<end_of_turn>\n",
      .model_begin = "<start_of_turn>model\n",
      .answer_begin = "",
      .answer_end = "<end_of_turn>\n",
      .trims_user = true,
      .trims_model = true },
    { .name = "gemma",
      .signs = { "<start_of_turn>", "" },
      .system = COPSE_CHAT_SYSTEM_NOWHERE,
      .user_begin = "<start_of_turn>user\n",
      .user_end = "<end_of_turn>\n",
      .model_begin = "<start_of_turn>model\n",
      .answer_begin = "",
      .answer_end = "<end_of_turn>\n",
      .trims_user = true,
      .trims_model = true },
    { .name = "mistral", /* the first, with words of the system since */
      .signs = { "' [INST] '", "' [/INST]'" },
      .system = COPSE_CHAT_SYSTEM_IN_FIRST,
      .system_begin = "",
      .system_end = "\n\n",
      .user_begin = " [INST] ",
      .user_end = " [/INST]",
      .model_begin = "",
      .answer_begin = " ",
      .answer_end = "</s>" },
    { .name = "mistral", /* the first, before it knew words of the system */
      .signs = { "'[INST] '", "' [/INST]'" },
      .system = COPSE_CHAT_SYSTEM_NOWHERE,
      .user_begin = "[INST] ",
      .user_end = " [/INST]",
      .model_begin = "",
      .answer_begin = "",
      .answer_end = "</s>" },
    { .name = "mistral", /* the third */
      .signs = { "\"[INST] \"", "\"[/INST]\"" },
      .system = COPSE_CHAT_SYSTEM_IN_LAST,
      .system_begin = "",
      .system_end = "\n\n",
      .user_begin = "[INST] ",
      .user_end = "[/INST]",
      .model_begin = "",
      .answer_begin = " ",
      .answer_end = "</s>",
      .trims_model = true },
    { .name = "mistral", /* the third, of models with BPE */
      .signs = { "\"[INST]\"", "\"[/INST]\"" },
      .system = COPSE_CHAT_SYSTEM_IN_LAST,
      .system_begin = "",
      .system_end = "\n\n",
      .user_begin = "[INST]",
      .user_end = "[/INST]",
      .model_begin = "",
      .answer_begin = "",
      .answer_end = "</s>" },
};

static const char *find_text(const char *in, size_t size, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(in + i, text, n) == 0)
            return in + i;
    return NULL;
}

/* The words between the marks of the system where they are words alone: a template has these marks
   several times, most around the words of a message. */
static void find_system(struct copse_chat *chat, const char *template, size_t size)
{
    static const char mark[] = "<|im_start|>system";
    const char *end = template + size, *at = template;
    while (!chat->system && (at = find_text(at, (size_t)(end - at), mark)) != NULL) {
        at += sizeof mark - 1;
        if (at < end && *at == '\n')
            at++;
        else if (end - at > 1 && at[0] == '\\' && at[1] == 'n')
            at += 2;
        const char *stop = find_text(at, (size_t)(end - at), "<|im_end|>");
        bool is_plain = stop && stop > at;
        for (const char *c = at; is_plain && c < stop; c++)
            is_plain = *c != '\'' && *c != '"' && *c != '{' && *c != '\\';
        if (is_plain) {
            chat->system = at;
            chat->system_size = (size_t)(stop - at);
        }
    }
}

static void end_texts(struct copse_tokenizer *t, const struct copse_chat_form *form)
{
    const size_t mark = strcspn(form->answer_end, "\n");
    for (uint32_t i = 0; i < t->count; i++) {
        struct copse_token *token = &t->tokens[i];
        if (token->is_named && token->size == mark &&
            memcmp(token->text, form->answer_end, mark) == 0)
            token->is_end = true;
    }
}

void copse__chat_find(struct copse_chat *chat, struct copse_tokenizer *tokenizer,
                      const char *template, size_t size)
{
    *chat = (struct copse_chat){ .form = NULL };
    if (find_text(template, size, "<<SYS>>")) /* of Llama 2: near to mistral, and another form */
        return;
    for (size_t i = 0; i < COPSE_COUNT(forms) && !chat->form; i++)
        if (find_text(template, size, forms[i].signs[0]) &&
            find_text(template, size, forms[i].signs[1]))
            chat->form = &forms[i];
    if (chat->form == &forms[0])
        find_system(chat, template, size);
    if (chat->form)
        end_texts(tokenizer, chat->form);
}

struct copse_chat_words copse__chat_text(const char *text)
{
    return (struct copse_chat_words){ text, text ? strlen(text) : 0 };
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct copse_chat_words copse__chat_trim(const char *text, bool is_trimmed)
{
    struct copse_chat_words w = copse__chat_text(text);
    for (; is_trimmed && w.size > 0 && is_blank(w.at[0]); w.size--)
        w.at++;
    while (is_trimmed && w.size > 0 && is_blank(w.at[w.size - 1]))
        w.size--;
    return w;
}

static void add_piece(struct copse_chat_question *out, struct copse_chat_words piece)
{
    out->pieces[out->count++] = piece;
}

static void add_system(struct copse_chat_question *out, const struct copse_chat_form *form,
                       struct copse_chat_words system)
{
    if (!system.at)
        return;
    add_piece(out, copse__chat_text(form->system_begin));
    add_piece(out, system);
    add_piece(out, copse__chat_text(form->system_end));
}

void copse__chat_question(const struct copse_chat_form *form, struct copse_chat_words system,
                          const char *question, struct copse_chat_question *out)
{
    const bool is_alone = form->system == COPSE_CHAT_SYSTEM_ALONE;
    out->count = 0;
    if (is_alone)
        add_system(out, form, system);
    if (!question)
        return;
    add_piece(out, copse__chat_text(form->user_begin));
    if (!is_alone)
        add_system(out, form, system);
    add_piece(out, copse__chat_trim(question, form->trims_user));
    add_piece(out, copse__chat_text(form->user_end));
}

/* Check what a caller says; the words of the system that the form gets. */
static copse_status system_words(const copse_language *language, const char *system,
                                 const char *question, struct copse_chat_words *words)
{
    const struct copse_chat *chat = &language->chat;
    *words = system && *system ? copse__chat_text(system) : (struct copse_chat_words){ NULL, 0 };
    if (!chat->form)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: the form of its conversations is not known; " COPSE_CHAT_NAMES
                          " are: write the prompt in its own form",
                          language->path);
    if (strlen(question) > MOST_BYTES || words->size > MOST_BYTES)
        return copse_fail(COPSE_ERR_ARGUMENT, "language chat: the %s has more than %u bytes",
                          strlen(question) > MOST_BYTES ? "question" : "text of the system",
                          MOST_BYTES);
    if (words->at && chat->form->system == COPSE_CHAT_SYSTEM_NOWHERE)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "language chat: conversations of the form %s in %s have no text of the "
                          "system: put it into the question",
                          chat->form->name, language->path);
    if (!system && chat->system)
        *words = (struct copse_chat_words){ chat->system, chat->system_size };
    return COPSE_OK;
}

copse_status copse_language_chat(const copse_language *language, const char *system,
                                 const char *question, char *text, size_t room, size_t *needed)
{
    struct copse_chat_words words;
    struct copse_chat_question q;
    COPSE_TRY(copse_need("language chat", language, question, needed));
    COPSE_TRY(system_words(language, system, question, &words));
    const struct copse_chat_form *form = language->chat.form;
    copse__chat_question(form, words, question, &q);
    *needed = strlen(form->model_begin) + 1;
    for (size_t i = 0; i < q.count; i++)
        *needed += q.pieces[i].size;
    if (room > 0 && *needed > room)
        return copse_fail(COPSE_ERR_ARGUMENT, "language chat: the text needs %zu bytes, not %zu",
                          *needed, room);
    char *at = text;
    for (size_t i = 0; text && room > 0 && i < q.count; at += q.pieces[i++].size)
        memcpy(at, q.pieces[i].at, q.pieces[i].size);
    if (text && room > 0)
        memcpy(at, form->model_begin, strlen(form->model_begin) + 1);
    return COPSE_OK;
}
