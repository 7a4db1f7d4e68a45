/* SPDX-License-Identifier: MIT */
/* Forms of conversations, found in templates: the text of a question, and which parts of a
   conversation are predicted. The expected texts are what the templates of the published models
   write, without their token for the begin. */
#include "core/language/language.h"

#include "tests/language/folder_rig.h"

#include "copse/train/adapt.h"

#define GEMMA \
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
#define QWEN                                                                         \
    "{{- '<|im_start|>system\\n' }}{{- messages[0]['content'] }}{{- 'You are Q.' }}" \
    "{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"      \
    "{{- '<|im_start|>system\\nYou are Q.<|im_end|>\\n' }}{{- '<|im_start|>user\\n' }}"

#define LLAMA_31                                                                              \
    "{%- if not date_string is defined %}{%- set date_string = strftime_now(\"%d %b %Y\") %}" \
    "{%- set date_string = \"26 Jul 2024\" %}{{- \"Today Date: \" + date_string }}"           \
    "{{- '<|start_header_id|>' + message['role'] }}"
#define HEAD(role)  "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define DATED(date) HEAD("system") "Cutting Knowledge Date: December 2023\nToday Date: " date "\n\n"
#define LLAMA_TURNS                                                                  \
    HEAD("user")                                                                     \
    "a<|eot_id|>" HEAD("assistant") "{b<|eot_id|>}" HEAD("user") "c<|eot_id|>" HEAD( \
        "assistant") "{d<|eot_id|>}"

static const struct form_case {
    const char *name, *template;
    const char *asked, *told;     /* of "  Why? " with nothing of the system */
    const char *with_system;      /* with "Be kind"; NULL: refused */
    const char *turns;            /* of two questions: predicted parts in braces */
    const char *turns_and_system; /* NULL: refused */
} cases[] = {
    { "chatml", "'<|im_start|>' + message['role']", "Why?",
      "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
      "<|im_start|>assistant\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{ b <|im_end|>}\n"
      "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>}",
      "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
      "<|im_start|>assistant\n{ b <|im_end|>}\n"
      "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>}" },
    { "chatml", QWEN, "Why?",
      "<|im_start|>system\nYou are Q.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
      "<|im_start|>assistant\n",
      "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
      "<|im_start|>assistant\n",
      "<|im_start|>system\nYou are Q.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
      "<|im_start|>assistant\n{ b <|im_end|>}\n"
      "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>}",
      "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
      "<|im_start|>assistant\n{ b <|im_end|>}\n"
      "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n{d<|im_end|>}" },
    { "gemma", GEMMA, " Why?\n", "<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n",
      NULL,
      "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n{b<end_of_turn>}\n"
      "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n{d<end_of_turn>}",
      NULL },
    { "gemma", "{%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}" GEMMA, " Why?\n",
      "<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n",
      "<start_of_turn>user\nBe kind\n\nWhy?<end_of_turn>\n<start_of_turn>model\n",
      "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n{b<end_of_turn>}\n"
      "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n{d<end_of_turn>}",
      "<start_of_turn>user\nBe kind\n\na<end_of_turn>\n<start_of_turn>model\n{b<end_of_turn>}\n"
      "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n{d<end_of_turn>}" },
    { "mistral", "{{- ' [INST] ' + message['content'] + ' [/INST]' }}", "Why?",
      " [INST] Why? [/INST]", " [INST] Be kind\n\nWhy? [/INST]",
      " [INST] a [/INST]{  b </s>} [INST] c [/INST]{ d</s>}",
      " [INST] Be kind\n\na [/INST]{  b </s>} [INST] c [/INST]{ d</s>}" },
    { "mistral", "{{ '[INST] ' + message['content'] + ' [/INST]' }}", "Why?", "[INST] Why? [/INST]",
      NULL, "[INST] a [/INST]{ b </s>}[INST] c [/INST]{d</s>}", NULL },
    { "mistral", "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}", "Why?",
      "[INST] Why?[/INST]", "[INST] Be kind\n\nWhy?[/INST]",
      "[INST] a[/INST]{ b</s>}[INST] c[/INST]{ d</s>}", NULL },
    { "mistral", "{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}", "Why?",
      "[INST]Why?[/INST]", "[INST]Be kind\n\nWhy?[/INST]",
      "[INST]a[/INST]{ b </s>}[INST]c[/INST]{d</s>}", NULL },
    { "mistral",
      "{{ '[SYSTEM_PROMPT] ' + message['content'] }}{{ '[INST] ' + message['content'] }}", "Why?",
      "[INST] Why?[/INST]", "[SYSTEM_PROMPT] Be kind[/SYSTEM_PROMPT][INST] Why?[/INST]",
      "[INST] a[/INST]{  b </s>}[INST] c[/INST]{ d</s>}",
      "[SYSTEM_PROMPT] Be kind[/SYSTEM_PROMPT][INST] a[/INST]{  b </s>}[INST] c[/INST]{ d</s>}" },
    { "mistral", "{{- '[SYSTEM_PROMPT]' + system_message }}{{- '[INST]' + message['content'] }}",
      "Why?", "[INST]Why?[/INST]", "[SYSTEM_PROMPT]Be kind[/SYSTEM_PROMPT][INST]Why?[/INST]",
      "[INST]a[/INST]{ b </s>}[INST]c[/INST]{d</s>}",
      "[SYSTEM_PROMPT]Be kind[/SYSTEM_PROMPT][INST]a[/INST]{ b </s>}[INST]c[/INST]{d</s>}" },
    { "llama3", "'<|start_header_id|>' + message['role']", " Why?\n",
      HEAD("user") "Why?<|eot_id|>" HEAD("assistant"),
      HEAD("system") "Be kind<|eot_id|>" HEAD("user") "Why?<|eot_id|>" HEAD("assistant"),
      LLAMA_TURNS, HEAD("system") "Be kind<|eot_id|>" LLAMA_TURNS },
    { "llama3", LLAMA_31, " Why?\n",
      DATED("26 Jul 2024") "<|eot_id|>" HEAD("user") "Why?<|eot_id|>" HEAD("assistant"),
      DATED("26 Jul 2024") "Be kind<|eot_id|>" HEAD("user") "Why?<|eot_id|>" HEAD("assistant"),
      DATED("26 Jul 2024") "<|eot_id|>" LLAMA_TURNS,
      DATED("26 Jul 2024") "Be kind<|eot_id|>" LLAMA_TURNS },
};
#define EACH(c) \
    for (const struct form_case *c = cases; c < cases + sizeof cases / sizeof *cases; c++)

static void open_with(const char *template)
{
    folder_text("chat_template.jinja", template);
    OK(open_path(temp_path("model")));
}

static void test_questions(void **state)
{
    struct copse_language_info info;
    char chat[400];
    size_t size;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    EACH(c)
    {
        open_with(c->template);
        OK(copse_language_describe(language, &info));
        assert_string_equal(info.chat, c->name);
        OK(copse_language_chat(language, NULL, c->asked, chat, sizeof chat, &size));
        assert_string_equal(chat, c->told);
        assert_int_equal(size, strlen(chat) + 1);
        if (c->with_system) {
            OK(copse_language_chat(language, "Be kind", c->asked, chat, sizeof chat, &size));
            assert_string_equal(chat, c->with_system);
        } else
            FAILS(COPSE_ERR_UNSUPPORTED,
                  copse_language_chat(language, "Be kind", c->asked, chat, sizeof chat, &size),
                  "have no text of the system: put it into the question");
        close_file();
    }
}

static void append(char *to, const char *what, size_t size)
{
    strncat(to, what, size);
}

/* The tokens of the only row as a text, the predicted ones in braces. */
static void row_text(const copse_dataset *data, const struct copse_conversations_info *info,
                     char *to)
{
    static int32_t x[512], y[512];
    const uint32_t row = 0;
    bool was_answer = false;
    uint64_t left = info->predicted;
    assert_int_equal(info->conversations, 1);
    assert_true(info->window <= 512);
    OK(copse_dataset_gather(data, "x", &row, 1, x));
    OK(copse_dataset_gather(data, "y", &row, 1, y));
    *to = '\0';
    for (uint32_t i = 0; i < info->window && (left > 0 || was_answer); i++) {
        size_t size;
        const char *at = copse_language_token(language, x[i], &size);
        const bool is_answer = y[i] != COPSE_LANGUAGE_NO_TOKEN;
        append(to, at, size);
        if (is_answer != was_answer)
            append(to, is_answer ? "{" : "}", 1);
        left -= is_answer;
        if (left == 0 && is_answer) {
            at = copse_language_token(language, y[i], &size);
            append(to, at, size), append(to, "}", 1);
            return;
        }
        was_answer = is_answer;
    }
}

#define TURNS                                                                                \
    "{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \" b " \
    "\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": " \
    "\"d\"}]}"

static void test_turns(void **state)
{
    static const char turns[] = "{\"messages\": [" TURNS,
                      with_system[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"Be "
                                      "kind\"}, " TURNS;
    struct copse_conversations_info info;
    char seen[600];
    copse_dataset *data;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    EACH(c)
    {
        open_with(c->template);
        OK(copse_language_conversations(language, turns, sizeof turns - 1, 0, &info, &data));
        row_text(data, &info, seen);
        assert_string_equal(seen, c->turns);
        copse_dataset_release(&data);
        if (c->turns_and_system) {
            OK(copse_language_conversations(language, with_system, sizeof with_system - 1, 0, &info,
                                            &data));
            row_text(data, &info, seen);
            assert_string_equal(seen, c->turns_and_system);
            copse_dataset_release(&data);
        } else
            FAILS(COPSE_ERR_FORMAT,
                  copse_language_conversations(language, with_system, sizeof with_system - 1, 0,
                                               &info, &data),
                  "line 1: it has words of the system");
        close_file();
    }
}

/* A date in place of the one in the template, also where there are no words of the system. */
static void test_date(void **state)
{
    static const char pair[] = "{\"system\": \" Be kind\", \"prompt\": \"a\", \"answer\": \"b\"}";
    static const char too_long[] =
        "1 January 2027, and so on and so on and so on until 65 bytes: 65!";
    struct copse_language_params how = { .date = "1 Dec 2026" };
    struct copse_conversations_info info;
    char chat[400], seen[600];
    size_t size;
    copse_dataset *data;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    folder_text("chat_template.jinja", LLAMA_31);
    OK(open_as(temp_path("model"), &how));
    OK(copse_language_chat(language, "", "Why?", chat, sizeof chat, &size));
    assert_string_equal(
        chat, DATED("1 Dec 2026") "<|eot_id|>" HEAD("user") "Why?<|eot_id|>" HEAD("assistant"));
    OK(copse_language_conversations(language, pair, sizeof pair - 1, 0, &info, &data));
    row_text(data, &info, seen);
    assert_string_equal(seen, DATED("1 Dec 2026") "Be kind<|eot_id|>" HEAD(
                                  "user") "a<|eot_id|>" HEAD("assistant") "{b<|eot_id|>}");
    copse_dataset_release(&data);
    close_file();
    how.date = too_long;
    FAILS(COPSE_ERR_ARGUMENT, open_as(temp_path("model"), &how), "the date has more than 64 bytes");
    copse_strategy_release(&st);
    how.date = "1 Dec 2026";
    folder_text("chat_template.jinja", cases[0].template);
    FAILS(COPSE_ERR_UNSUPPORTED, open_as(temp_path("model"), &how), "leave the date out");
    copse_strategy_release(&st);
    open_with("{{- \"Today Date: \" + today }}{{- '<|start_header_id|>' + message['role'] }}");
    FAILS(COPSE_ERR_UNSUPPORTED, copse_language_chat(language, NULL, "a", NULL, 0, &size),
          "not known");
    close_file();
}

/* A question and its answer; words of the system without a question; forms that are not known. */
static void test_pairs(void **state)
{
    static const char pair[] = "{\"system\": \"Be kind\", \"prompt\": \"a\", \"answer\": \"b\"}",
                      early[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}, "
                                "{\"role\": \"assistant\", \"content\": \"y\"}]}";
    static const char *const unknown[] = { "'[INST] ' + '<<SYS>>' + ' [/INST]'", "[INST]", "x" };
    struct copse_conversations_info info;
    char seen[600];
    size_t size;
    copse_dataset *data;
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    open_with(cases[7].template);
    OK(copse_language_conversations(language, pair, sizeof pair - 1, 0, &info, &data));
    row_text(data, &info, seen);
    assert_string_equal(seen, "[INST]Be kind\n\na[/INST]{b</s>}");
    copse_dataset_release(&data);
    FAILS(COPSE_ERR_FORMAT,
          copse_language_conversations(language, early, sizeof early - 1, 0, &info, &data),
          "line 1: an answer follows the words of the system, and no question");
    close_file();
    open_with(cases[0].template);
    OK(copse_language_conversations(language, early, sizeof early - 1, 0, &info, &data));
    row_text(data, &info, seen);
    assert_string_equal(seen, "<|im_start|>system\nx<|im_end|>\n<|im_start|>assistant\n"
                              "{y<|im_end|>}");
    copse_dataset_release(&data);
    close_file();
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        open_with(unknown[i]);
        FAILS(COPSE_ERR_UNSUPPORTED, copse_language_chat(language, NULL, "a", NULL, 0, &size),
              "not known; chatml, gemma, llama3, mistral and zephyr are");
        close_file();
    }
}

/* Where the file names another token for the end, an answer ends with the mark of its form. */
static void test_ends(void **state)
{
    (void)state;
    make_folder(&llama, COPSE_F32);
    folder_write(&made, ctx, &llama);
    folder_text("generation_config.json", "{\"eos_token_id\": 256}");
    open_with("x");
    assert_true(language->tokenizer.tokens[BEGIN].is_end);
    assert_false(language->tokenizer.tokens[END].is_end);
    close_file();
    open_with(cases[0].template);
    assert_true(language->tokenizer.tokens[BEGIN].is_end);
    assert_true(language->tokenizer.tokens[END].is_end);
    close_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions), cmocka_unit_test(test_turns), cmocka_unit_test(test_date),
        cmocka_unit_test(test_pairs),     cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
