/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/apps/common/app_files.h"
#include "nam.h"

enum { LARGEST_PART = TAPS * CHANNELS * 2 * CHANNELS, LONGEST_TEXT = 2048, LONGEST_FILE = 1 << 20 };

/* ---- the network as text ---- */

/* Append text; `to` has room for LONGEST_TEXT bytes. */
static void add_text(char *to, const char *format, ...)
{
    const size_t used = strlen(to);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to + used, LONGEST_TEXT - used, format, arguments);
    va_end(arguments);
}

/* "name": [entry, entry, ...] */
static void list_entries(char *to, const char *name, const char *entry)
{
    add_text(to, ", \"%s\": [", name);
    for (int i = 0; i < LAYERS; i++)
        add_text(to, i ? ", %s" : "%s", entry);
    add_text(to, "]");
}

static void describe_layers(char *to)
{
    to[0] = 0;
    add_text(to,
             "{\"input_size\": 1, \"condition_size\": 1, \"channels\": %d, \"bottleneck\": %d, ",
             CHANNELS, CHANNELS);
    add_text(to, "\"head\": {\"out_channels\": 1, \"kernel_size\": 1, \"bias\": true}");
    add_text(to, ", \"dilations\": [1");
    for (int i = 1; i < LAYERS; i++)
        add_text(to, ", %d", 1 << i);
    char taps[12];
    snprintf(taps, sizeof taps, "%d", TAPS);
    add_text(to, "]");
    list_entries(to, "kernel_sizes", taps);
    list_entries(to, "activation", "{\"type\": \"Tanh\"}");
    list_entries(to, "gating_mode", "\"gated\"");
    list_entries(to, "secondary_activation", "{\"type\": \"Sigmoid\"}");
    add_text(to, ", \"groups_input\": 1, \"groups_input_mixin\": 1, "
                 "\"head1x1\": {\"active\": false, \"out_channels\": 1, \"groups\": 1}, "
                 "\"layer1x1\": {\"active\": true, \"groups\": 1}}");
}

/* ---- writing ---- */

/* The numbers of an array in PyTorch's order, [out, in, taps]; ours is [taps, in, out]. */
static copse_status write_part(void *user, struct part *p)
{
    float values[LARGEST_PART] = { 0 };
    if (p->v)
        COPSE_TRY(copse_variable_read(p->v, 0, values));
    for (uint32_t o = 0; o < p->out; o++)
        for (uint32_t i = 0; i < p->in; i++)
            for (uint32_t t = 0; t < p->taps; t++)
                fprintf(user, "%.9g, ", (double)values[(t * p->in + i) * p->out + o]);
    return COPSE_OK;
}

bool nam_write(const char *path, struct network *n, uint32_t rate, double esr)
{
    char layers[LONGEST_TEXT];
    FILE *f = fopen(path, "w");
    if (!f)
        return files_refuse(path, "cannot be written");
    describe_layers(layers);
    fprintf(f, "{\"version\": \"0.7.0\", \"architecture\": \"WaveNet\", \"config\": ");
    fprintf(f, "{\"layers\": [%s], \"head\": null, \"head_scale\": %.9g}, ", layers,
            (double)n->scale);
    fprintf(f, "\"sample_rate\": %u, \"metadata\": {\"training\": {\"validation_esr\": %.6g}}, ",
            (unsigned)rate, esr);
    fprintf(f, "\"weights\": [");
    const copse_status s = network_parts(n, f, write_part);
    fprintf(f, "%.9g]}\n", (double)n->scale);
    bool is_good = !ferror(f);
    is_good = fclose(f) == 0 && is_good && !s;
    if (!is_good)
        remove(path);
    return is_good ||
           files_refuse(path, s ? copse_last_error() : "cannot be written: is the disk full?");
}

/* ---- reading ---- */

struct reader {
    char *at; /* after the last number; NULL: a number was missing */
};

static float next_number(struct reader *r)
{
    char *end = NULL;
    const float x = r->at ? strtof(r->at, &end) : 0;
    const bool is_number = r->at && end != r->at && isfinite(x);
    r->at = is_number ? end + strspn(end, ", \n") : NULL;
    return x;
}

static copse_status read_part(void *user, struct part *p)
{
    float values[LARGEST_PART];
    for (uint32_t o = 0; o < p->out; o++)
        for (uint32_t i = 0; i < p->in; i++)
            for (uint32_t t = 0; t < p->taps; t++)
                values[(t * p->in + i) * p->out + o] = next_number(user);
    return p->v ? copse_variable_assign(p->v, values) : COPSE_OK;
}

/* The text of a file; NULL: a line on stderr. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = f ? malloc(LONGEST_FILE) : NULL;
    const size_t got = text ? fread(text, 1, LONGEST_FILE - 1, f) : 0;
    if (f)
        fclose(f);
    if (text)
        text[got] = 0;
    else
        files_refuse(path, "cannot be read");
    return text;
}

static bool parse_text(const char *path, char *text, struct network *n, uint32_t *rate)
{
    static const char before_rate[] = "\"sample_rate\": ", before_list[] = "\"weights\": [";
    char *rate_text = strstr(text, before_rate), *list = strstr(text, before_list);
    char layers[LONGEST_TEXT];
    describe_layers(layers);
    if (!strstr(text, layers) || !strstr(text, "\"WaveNet\""))
        return files_refuse(path, "has another network than this program writes");
    if (!rate_text || !list)
        return files_refuse(path, "is damaged");
    struct reader r = { list + strlen(before_list) };
    *rate = (uint32_t)strtoul(rate_text + strlen(before_rate), NULL, 10);
    if (network_parts(n, &r, read_part) != COPSE_OK)
        return files_refuse(path, copse_last_error());
    n->scale = next_number(&r);
    return (r.at && *r.at == ']') ||
           files_refuse(path, "is damaged: it has another number of weights");
}

bool nam_read(const char *path, struct network *n, uint32_t *rate)
{
    char *text = read_text(path);
    const bool is_good = text && parse_text(path, text, n, rate);
    free(text);
    return is_good;
}
