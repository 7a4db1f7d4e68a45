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
#define MOST_DATE  64u         /* bytes */

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
    { .name = "llama3", /* of Llama 3.1 to 3.3 */
      .signs = { "<|start_header_id|>", "Today Date: " },
      .system_begin = "<|start_header_id|>system<|end_header_id|>\n\n"
                      "Cutting Knowledge Date: December 2023\nToday Date: ",
      .date_end = "\n\n",
      .system_end = "<|eot_id|>",
      .user_begin = "<|start_header_id|>user<|end_header_id|>\n\n",
      .user_end = "<|eot_id|>",
      .model_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .answer_begin = "",
      .answer_end = "<|eot_id|>",
      .trims_system = true,
      .trims_user = true,
      .trims_model = true },
    { .name = "llama3",
      .signs = { "<|start_header_id|>", "" },
      .system_begin = "<|start_header_id|>system<|end_header_id|>\n\n",
      .system_end = "<|eot_id|>",
      .user_begin = "<|start_header_id|>user<|end_header_id|>\n\n",
      .user_end = "<|eot_id|>",
      .model_begin = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .answer_begin = "",
      .answer_end = "<|eot_id|>",
      .trims_system = true,
      .trims_user = true,
      .trims_model = true },
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
    { .name = "mistral", /* the seventh */
      .signs = { "[SYSTEM_PROMPT] ", "[INST] " },
      .system_begin = "[SYSTEM_PROMPT] ",
      .system_end = "[/SYSTEM_PROMPT]",
      .user_begin = "[INST] ",
      .user_end = "[/INST]",
      .model_begin = "",
      .answer_begin = " ",
      .answer_end = "</s>" },
    { .name = "mistral", /* the seventh, of models with BPE */
      .signs = { "[SYSTEM_PROMPT]", "[INST]" },
      .system_begin = "[SYSTEM_PROMPT]",
      .system_end = "[/SYSTEM_PROMPT]",
      .user_begin = "[INST]",
      .user_end = "[/INST]",
      .model_begin = "",
      .answer_begin = "",
      .answer_end = "</s>" },
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
    return copse__find_bytes(in, size, text, strlen(text));
}

/* The words between the marks of the system where they are words alone: a template has these marks
   several times, most around the words of a message. */
static void find_system(struct copse_chat *chat, const char *template, size_t size)
{
    static const char mark[] = "<|im_start|>system";
    const char *end = template + size, *at = template;
    while (!chat->system.at && (at = find_text(at, (size_t)(end - at), mark)) != NULL) {
        at += sizeof mark - 1;
        if (at < end && *at == '\n')
            at++;
        else if (end - at > 1 && at[0] == '\\' && at[1] == 'n')
            at += 2;
        const char *stop = find_text(at, (size_t)(end - at), "<|im_end|>");
        bool is_plain = stop && stop > at;
        for (const char *c = at; is_plain && c < stop; c++)
            is_plain = *c != '\'' && *c != '"' && *c != '{' && *c != '\\';
        if (is_plain)
            chat->system = (struct copse_chat_words){ at, (size_t)(stop - at) };
    }
}

/* The date that a template has for want of another one. */
static void find_date(struct copse_chat *chat, const char *template, size_t size)
{
    static const char mark[] = "date_string = \"";
    const char *end = template + size, *at = find_text(template, size, mark);
    at = at ? at + sizeof mark - 1 : end;
    const char *stop = memchr(at, '"', (size_t)(end - at));
    if (stop && stop > at && (size_t)(stop - at) <= MOST_DATE)
        chat->date = (struct copse_chat_words){ at, (size_t)(stop - at) };
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

void copse__chat_find(struct copse_language *l, const char *template, size_t size)
{
    struct copse_chat *chat = &l->chat;
    *chat = (struct copse_chat){ .form = NULL };
    if (find_text(template, size, "<<SYS>>")) /* of Llama 2: near to mistral, and another form */
        return;
    for (size_t i = 0; i < COPSE_COUNT(forms) && !chat->form; i++)
        if (find_text(template, size, forms[i].signs[0]) &&
            find_text(template, size, forms[i].signs[1]))
            chat->form = &forms[i];
    if (!chat->form)
        return;
    if (chat->form == &forms[0])
        find_system(chat, template, size);
    if (chat->form->date_end) {
        find_date(chat, template, size);
        chat->system = copse__chat_text("");
        chat->form = chat->date.at ? chat->form : NULL;
    }
    if (!chat->system.at && find_text(template, size, "default_system_message"))
        copse__log(&l->strategy->ctx->base.log, COPSE_LOG_WARN,
                   "%s: what its template tells a model where there are no words of the system is "
                   "not written: say it as these words (--system)",
                   l->path);
    if (chat->form)
        end_texts(&l->tokenizer, chat->form);
}

copse_status copse__chat_date(struct copse_language *l, const char *date)
{
    if (!date || !*date)
        return COPSE_OK;
    if (!l->chat.form || !l->chat.form->date_end)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: its conversations have no date: leave the date out", l->path);
    if (strlen(date) > MOST_DATE)
        return copse_fail(COPSE_ERR_ARGUMENT, "language: the date has more than %u bytes",
                          MOST_DATE);
    l->chat.date = copse__chat_text(copse__arena_strdup(&l->arena, date));
    return copse_need_memory(l->chat.date.at, "language");
}

struct copse_chat_words copse__chat_text(const char *text)
{
    return (struct copse_chat_words){ text, text ? strlen(text) : 0 };
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct copse_chat_words copse__chat_trim(struct copse_chat_words w, bool is_trimmed)
{
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

static void add_system(struct copse_chat_question *out, const struct copse_chat *chat,
                       struct copse_chat_words system)
{
    const struct copse_chat_form *form = chat->form;
    if (!system.at)
        return;
    add_piece(out, copse__chat_text(form->system_begin));
    if (form->date_end) {
        add_piece(out, chat->date);
        add_piece(out, copse__chat_text(form->date_end));
    }
    add_piece(out, copse__chat_trim(system, form->trims_system));
    add_piece(out, copse__chat_text(form->system_end));
}

void copse__chat_question(const struct copse_chat *chat, struct copse_chat_words system,
                          const char *question, struct copse_chat_question *out)
{
    const struct copse_chat_form *form = chat->form;
    const bool is_alone = form->system == COPSE_CHAT_SYSTEM_ALONE;
    out->count = 0;
    if (is_alone)
        add_system(out, chat, system);
    if (!question)
        return;
    add_piece(out, copse__chat_text(form->user_begin));
    if (!is_alone)
        add_system(out, chat, system);
    add_piece(out, copse__chat_trim(copse__chat_text(question), form->trims_user));
    add_piece(out, copse__chat_text(form->user_end));
}

/* Check what a caller says; the words of the system that the form gets. */
static copse_status system_words(const copse_language *language, const char *system,
                                 const char *question, struct copse_chat_words *words)
{
    const struct copse_chat *chat = &language->chat;
    *words = !system ? chat->system : copse__chat_text(*system ? system : NULL);
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
    if (!words->at && chat->form->date_end)
        *words = copse__chat_text("");
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
    copse__chat_question(&language->chat, words, question, &q);
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
