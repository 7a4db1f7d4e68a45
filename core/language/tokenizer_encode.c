/* SPDX-License-Identifier: MIT */
/* Texts as tokens. The parts of a word are joined in the order of the merges' ranks (byte-pair
   encoding; Sennrich et al., 2016), or of the scores of what they become. A heap finds the next
   join, so that a word of any length takes n log n steps. */
#include "core/language/normalise.h"
#include "core/language/tokenizer.h"
#include "core/language/unicode.h"

struct part {
    uint32_t begin, size; /* bytes; size 0: joined to the part before */
    uint32_t token;       /* or COPSE_NO_TOKEN */
    uint32_t before, after;
};

/* Two parts that may be joined. */
struct joint {
    double order; /* the smallest is joined first */
    uint32_t left, right, size, token;
};

struct joining {
    struct copse_tokenizer *t;
    const char *text;
    struct {
        struct part *at;
        size_t count, room;
    } parts;
    struct {
        struct joint *at;
        size_t count, room;
    } heap;
    int lost; /* a byte that the vocabulary has no token for, or -1 */
};
#define NO_PART UINT32_MAX

/* ---- the heap ---- */

static bool is_sooner(const struct joint *a, const struct joint *b)
{
    return a->order != b->order ? a->order < b->order : a->left < b->left;
}

static bool heap_push(struct joining *j, struct joint joint)
{
    if (!COPSE_PUSH(j->t->mem, &j->heap, joint))
        return false;
    for (size_t i = j->heap.count - 1; i > 0;) {
        const size_t up = (i - 1) / 2;
        if (!is_sooner(&j->heap.at[i], &j->heap.at[up]))
            break;
        const struct joint other = j->heap.at[i];
        j->heap.at[i] = j->heap.at[up];
        j->heap.at[up] = other;
        i = up;
    }
    return true;
}

static struct joint heap_pop(struct joining *j)
{
    const struct joint top = j->heap.at[0];
    struct joint *at = j->heap.at;
    at[0] = at[--j->heap.count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < j->heap.count; k++)
            least = is_sooner(&at[k], &at[least]) ? k : least;
        if (least == i)
            return top;
        const struct joint other = at[i];
        at[i] = at[least];
        at[least] = other;
        i = least;
    }
}

/* ---- joining ---- */

/* Note that a part and the one after it may be joined. */
static bool joint_add(struct joining *j, uint32_t left)
{
    if (left == NO_PART || j->parts.at[left].after == NO_PART)
        return true;
    const uint32_t right = j->parts.at[left].after;
    const struct part *a = &j->parts.at[left], *b = &j->parts.at[right];
    struct joint joint = { .left = left, .right = right, .size = a->size + b->size };
    if (j->t->merges.room > 0) {
        const struct copse_token_slot *s = copse__tokenizer_pair(j->t, a->token, b->token);
        if (!s)
            return true;
        joint.order = s->rank;
        joint.token = s->token;
    } else {
        joint.token = copse__tokenizer_find(j->t, j->text + a->begin, joint.size);
        if (joint.token == COPSE_NO_TOKEN)
            return true;
        joint.order = -(double)j->t->tokens[joint.token].score;
    }
    return heap_push(j, joint);
}

static bool join_parts(struct joining *j)
{
    bool ok = true;
    j->heap.count = 0;
    for (uint32_t i = 0; ok && i < j->parts.count; i++)
        ok = joint_add(j, i);
    while (ok && j->heap.count > 0) {
        const struct joint joint = heap_pop(j);
        struct part *a = &j->parts.at[joint.left], *b = &j->parts.at[joint.right];
        /* one of them was joined meanwhile */
        if (a->size == 0 || b->size == 0 || a->size + b->size != joint.size ||
            a->after != joint.right)
            continue;
        a->size = joint.size;
        a->token = joint.token;
        a->after = b->after;
        b->size = 0;
        if (a->after != NO_PART)
            j->parts.at[a->after].before = joint.left;
        ok = joint_add(j, a->before) && joint_add(j, joint.left);
    }
    return ok;
}

/* The parts at first: bytes, or characters where scores decide. */
static bool cut_parts(struct joining *j, size_t size)
{
    uint32_t c;
    j->parts.count = 0;
    for (size_t at = 0, n; at < size; at += n) {
        const char *p = j->text + at;
        n = j->t->words ? 1 : copse__character_read(p, size - at, &c);
        const struct part part = { .begin = (uint32_t)at,
                                   .size = (uint32_t)n,
                                   .token = j->t->words ? j->t->bytes[(unsigned char)*p]
                                                        : copse__tokenizer_find(j->t, p, n),
                                   .before = (uint32_t)j->parts.count - 1, /* first: NO_PART */
                                   .after = (uint32_t)j->parts.count + 1 };
        if (!COPSE_PUSH(j->t->mem, &j->parts, part))
            return false;
    }
    if (j->parts.count > 0)
        j->parts.at[j->parts.count - 1].after = NO_PART;
    return true;
}

static bool add_token(struct copse_tokenizer *t, uint32_t token, struct copse_tokens *out)
{
    return COPSE_PUSH(t->mem, out, (int32_t)token);
}

/* A part without a token is its bytes, or unknown if one of them has no token. */
static bool add_part(struct joining *j, const struct part *p, struct copse_tokens *out)
{
    const unsigned char *bytes = (const unsigned char *)j->text + p->begin;
    bool ok = true;
    if (p->token != COPSE_NO_TOKEN)
        return add_token(j->t, p->token, out);
    for (uint32_t i = 0; i < p->size; i++) {
        if (j->t->bytes[bytes[i]] != COPSE_NO_TOKEN)
            continue;
        if (j->t->unknown != COPSE_NO_TOKEN)
            return add_token(j->t, j->t->unknown, out);
        j->lost = bytes[i];
        return true;
    }
    for (uint32_t i = 0; ok && i < p->size; i++)
        ok = add_token(j->t, j->t->bytes[bytes[i]], out);
    return ok;
}

static bool add_word(struct joining *j, const char *text, size_t size, struct copse_tokens *out)
{
    const uint32_t whole =
        j->t->knows_whole ? copse__tokenizer_find(j->t, text, size) : COPSE_NO_TOKEN;
    if (whole != COPSE_NO_TOKEN)
        return add_token(j->t, whole, out);
    j->text = text;
    bool ok = cut_parts(j, size) && join_parts(j);
    for (size_t i = 0; ok && i < j->parts.count; i++)
        if (j->parts.at[i].size > 0)
            ok = add_part(j, &j->parts.at[i], out);
    return ok;
}

static bool add_words(struct joining *j, const char *text, size_t size, struct copse_tokens *out)
{
    bool ok = true;
    if (!j->t->words)
        return add_word(j, text, size, out);
    for (size_t at = 0, n; ok && at < size; at += n) {
        n = copse__words_next(j->t->words, text + at, size - at);
        ok = add_word(j, text + at, n, out);
    }
    return ok;
}

/* Whether a space comes in front of a part of a text, which is there, after these tokens. */
static bool wants_space(const struct copse_tokenizer *t, const char *text, size_t size,
                        const struct copse_tokens *out)
{
    static const char mark[] = "\xe2\x96\x81"; /* U+2581, which is a space for pieces */
    const bool is_first = out->count == out->begin + (t->adds_begin && t->begin != COPSE_NO_TOKEN);
    const bool is_after =
        is_first || out->count == out->begin || t->tokens[out->at[out->count - 1]].is_named;
    const bool has_space = *text == ' ' || (!t->words && size >= 3 && memcmp(text, mark, 3) == 0);
    return (t->adds_space == COPSE_SPACE_EACH ? is_after
                                              : t->adds_space == COPSE_SPACE_FIRST && is_first) &&
           !(t->spares_space && has_space);
}

/* A text without named tokens, in the form that words are cut from. */
static bool add_part_of_text(struct joining *j, const char *text, size_t size,
                             struct copse_tokens *out)
{
    bool is_pure = true;
    const size_t space = size > 0 && wants_space(j->t, text, size, out);
    if (size == 0 || (space == 0 && j->t->words))
        return size == 0 || add_words(j, text, size, out);
    char *own = copse__alloc(j->t->mem, size + 1, 1);
    if (!own)
        return false;
    *own = ' ';
    if (j->t->words)
        memcpy(own + space, text, size);
    else
        size = copse__text_of_pieces(text, size, own + space, &is_pure);
    const bool ok = add_words(j, own, space + size, out);
    copse__free(j->t->mem, own);
    return ok;
}

/* A text without named tokens. */
static bool add_text(struct joining *j, const char *text, size_t size, struct copse_tokens *out)
{
    char *own = NULL;
    if (j->t->is_normalised && !copse__normalise(j->t->mem, text, size, &own, &size))
        return false;
    const bool ok = add_part_of_text(j, own ? own : text, size, out);
    copse__free(j->t->mem, own);
    return ok;
}

/* The named token at the beginning of a text, or COPSE_NO_TOKEN. */
static uint32_t named_at(const struct copse_tokenizer *t, const char *text, size_t size)
{
    for (uint32_t i = 0; t->named_first[(unsigned char)*text] && i < t->named_count; i++) {
        const struct copse_token *token = &t->tokens[t->named[i]];
        if (token->size <= size && memcmp(token->text, text, token->size) == 0)
            return t->named[i];
    }
    return COPSE_NO_TOKEN;
}

copse_status copse__tokenizer_encode(struct copse_tokenizer *t, const char *text, size_t size,
                                     bool is_named, struct copse_tokens *out)
{
    struct joining j = { .t = t, .lost = -1 };
    bool ok = true;
    size_t begin = 0, at = 0;
    if (size >= UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "tokenizer: a text has more than %u bytes",
                          UINT32_MAX);
    while (ok && is_named && at < size) {
        const uint32_t token = named_at(t, text + at, size - at);
        if (token == COPSE_NO_TOKEN) {
            at++;
            continue;
        }
        ok = add_text(&j, text + begin, at - begin, out) && add_token(t, token, out);
        at += t->tokens[token].size;
        begin = at;
    }
    ok = ok && add_text(&j, text + begin, size - begin, out);
    copse__free(t->mem, j.parts.at);
    copse__free(t->mem, j.heap.at);
    COPSE_TRY(copse_need_memory(ok, "tokenizer"));
    return j.lost < 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "tokenizer: the text has the byte 0x%02x, and the vocabulary has "
                            "neither a token for it nor one for what is unknown",
                            (unsigned)j.lost);
}
