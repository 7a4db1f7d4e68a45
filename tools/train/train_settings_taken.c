/* SPDX-License-Identifier: MIT */
/* Settings of a run from the text that its checkpoints have. */
#include <stdlib.h>
#include <string.h>

#include "tools/train/train.h"

static bool setting_take(struct train_settings *s, const char *name, const char *value)
{
    const struct {
        const char *name;
        float *to;
    } numbers[] = {
        { "--lr", &s->lr },
        { "--momentum", &s->momentum },
        { "--weight-decay", &s->weight_decay },
        { "--dropout", &s->dropout },
        { "--average", &s->average },
        { "--body-lr", &s->body_lr },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = strtof(value, NULL);
            return true;
        }
    if (strcmp(name, "--model") == 0)
        s->model = value;
    else if (strcmp(name, "--batch") == 0)
        s->batch = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--epochs") == 0)
        s->epochs = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--seed") == 0)
        s->seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--loss") == 0)
        s->loss = *value ? value : NULL;
    else if (strcmp(name, "--optimizer") == 0)
        return option_choose(&s->optimizer, value);
    else if (strcmp(name, "--optimizer-settings") == 0)
        s->rule = *value ? value : NULL;
    else if (strcmp(name, "--group") == 0)
        s->groups = *value ? value : NULL;
    else if (strcmp(name, "--freeze") == 0)
        s->freeze = *value ? value : NULL;
    else if (strcmp(name, "--schedule") == 0)
        s->schedule = value;
    else if (strcmp(name, "--scale") == 0)
        return option_choose(&s->scale, value);
    else if (strcmp(name, "--task") == 0)
        return option_choose(&s->task, value);
    else if (strcmp(name, "--missing") == 0)
        return option_choose(&s->missing, value);
    else if (strcmp(name, "--header") == 0)
        return option_choose(&s->header, value);
    else if (strcmp(name, "--label") == 0)
        s->label = *value ? value : NULL;
    else if (strcmp(name, "--ignore") == 0)
        s->ignore = *value ? value : NULL;
    else if (strcmp(name, "--resize") == 0)
        s->resize = *value ? value : NULL;
    else if (strcmp(name, "--augment") == 0)
        s->augment = *value ? value : NULL;
    else
        return strcmp(name, "--bits") == 0 ||
               strcmp(name, "--data") == 0 /* the content of the data, not its path */ ||
               split_take(s, name, value) || text_take(s, name, value);
    return *s->model != '\0';
}

bool train_settings_take(struct train_settings *s, char *text)
{
    s->batch = s->epochs = 0;
    option_choose(&s->scale, "max"); /* of versions that had no --scale */
    option_choose(&s->split, "random");
    while (*text) {
        char *end = text + strcspn(text, "\n"), *value = strchr(text, '=');
        if (!value || value > end)
            return false;
        text[strcspn(text, "=")] = '\0';
        const bool is_last = *end == '\0';
        *end = '\0';
        if (!setting_take(s, text, value + 1))
            return false;
        text = end + !is_last;
    }
    return s->batch > 0;
}
