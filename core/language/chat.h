/* SPDX-License-Identifier: MIT */
/* Forms of conversations, by name: what stands around the words of system, user and model. */
#ifndef COPSE_LANGUAGE_CHAT_H
#define COPSE_LANGUAGE_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "copse/context.h"

struct copse_language;

#define COPSE_CHAT_NAMES "chatml, gemma, llama3, mistral and zephyr"

/* Where the words of the system stand. */
enum copse_chat_system {
    COPSE_CHAT_SYSTEM_ALONE,
    COPSE_CHAT_SYSTEM_IN_FIRST, /* in the turn of the first question, before it */
    COPSE_CHAT_SYSTEM_IN_LAST,
    COPSE_CHAT_SYSTEM_NOWHERE,
};

struct copse_chat_form {
    const char *name;
    const char *signs[2]; /* a file whose template has both texts has the form */
    enum copse_chat_system system;
    const char *system_begin, *system_end, *user_begin, *user_end;
    const char *date_end;     /* of a date after system_begin, which is always told; NULL: none */
    const char *model_begin;  /* what the model is told before an answer */
    const char *answer_begin; /* what the model says before an answer */
    const char *answer_end;   /* the mark that the model says; a line feed after it is told */
    bool trims_system, trims_user, trims_model;
};

struct copse_chat_words {
    const char *at; /* NULL: none, which is not the same as no bytes */
    size_t size;
};

struct copse_chat {
    const struct copse_chat_form *form; /* NULL: unknown */
    struct copse_chat_words system;     /* what the template says where there is nothing else */
    struct copse_chat_words
        date; /* of a form with one: the caller's, or the date in the template */
};

/* What is told of a question: with the words of the system, if they stand before it. */
struct copse_chat_question {
    struct copse_chat_words pieces[8];
    size_t count;
};

/* The form of a template, from which the model borrows. It ends its text with the mark that ends an
   answer, if that is a token, whatever else the file says. */
void copse__chat_find(struct copse_language *l, const char *template, size_t size);

/* Take the caller's date; NULL or "": the date in the template stays. COPSE_ERR_UNSUPPORTED: the form
   has none. */
copse_status copse__chat_date(struct copse_language *l, const char *date);

struct copse_chat_words copse__chat_text(const char *text); /* of a text; NULL: none */

/* Without the blanks at both ends, if is_trimmed. */
struct copse_chat_words copse__chat_trim(struct copse_chat_words w, bool is_trimmed);

/* question NULL: the words of the system by themselves, in a form where they stand alone. */
void copse__chat_question(const struct copse_chat *chat, struct copse_chat_words system,
                          const char *question, struct copse_chat_question *out);

#endif
