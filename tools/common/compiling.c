/* SPDX-License-Identifier: MIT */
/* What is printed while drivers compile kernels, and how many they compiled. */
#include <stdio.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/common/plural.h"
#include "tools/tool.h"

/* Between two lines where standard output is no terminal [s]. */
#define LINE_PAUSE 1.0

static enum compiling_output output = COMPILING_SILENT;
static struct compiling_totals totals;
static struct {
    char device[32]; /* of the newest report */
    uint32_t before; /* kernels of its earlier batches */
    double start;    /* of the batch [s] */
    double shown;    /* the newest line [s] */
} at;

void compiling_show(enum compiling_output how)
{
    output = how;
}

struct compiling_totals compiling_so_far(void)
{
    return totals;
}

static void compiling_begin(const struct copse_progress *p)
{
    unsigned columns;
    const bool is_new = strcmp(at.device, p->device) != 0;
    if (is_new) {
        at.before = 0;
        snprintf(at.device, sizeof at.device, "%s", p->device);
    }
    at.start = at.shown = system_now();
    if (output == COMPILING_JSON) {
        cJSON *o = cJSON_CreateObject();
        json_add_text(o, "event", "compiling");
        json_add_text(o, "device", p->device);
        json_add_count(o, "kernels", p->total);
        (void)json_print(o);
    } else if (output == COMPILING_TEXT && is_new && !terminal_is(&columns)) {
        printf("compiling kernels for %s, which later runs load\n", p->device);
        fflush(stdout);
    }
}

/* A line that is redrawn, or where standard output is no terminal a line at times. */
static void compiling_draw(const struct copse_progress *p)
{
    unsigned columns;
    if (output != COMPILING_TEXT)
        return;
    if (terminal_is(&columns)) {
        printf("\r\033[K");
        if (p->done < p->total)
            printf("compiling %u kernel%s for %s ... %u of %u", at.before + p->total,
                   plural_end(at.before + p->total), p->device, at.before + p->done,
                   at.before + p->total);
    } else if (p->done < p->total && system_now() - at.shown >= LINE_PAUSE) {
        printf("compiling: %u of %u kernel%s for %s\n", at.before + p->done, at.before + p->total,
               plural_end(at.before + p->total), p->device);
        at.shown = system_now();
    }
    fflush(stdout);
}

void compiling_progress(void *user, const struct copse_progress *p)
{
    (void)user;
    if (p->done == 0)
        compiling_begin(p);
    compiling_draw(p);
    if (p->done < p->total)
        return;
    at.before += p->total;
    totals.kernels += p->total;
    totals.seconds += system_now() - at.start;
}
