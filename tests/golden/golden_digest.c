/* SPDX-License-Identifier: MIT */
/* golden_digest tensors|losses FILE: prints what the golden table hashes of a safetensors file. It
   uses nothing of the library, so one program reads the files of every commit. tensors: name, type,
   shape and bytes of every tensor but those of `application/`, sorted by name; metadata and the
            order in the file do not count.
   losses:  the losses of the first 50 steps in a checkpoint of `copse train`, one a line, exactly. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOSSES = 50 };
/* of `copse train` */
static const char application[] = "application/", steps[] = "application/steps";

struct file {
    unsigned char *bytes;
    size_t size, body;
    cJSON *header;
};

static int fail(const char *path, const char *why)
{
    fprintf(stderr, "golden_digest: '%s': %s\n", path, why);
    return 1;
}

static int load(const char *path, struct file *f)
{
    FILE *in = fopen(path, "rb");
    long size;
    uint64_t length = 0;
    if (!in)
        return fail(path, "cannot be opened");
    if (fseek(in, 0, SEEK_END) || (size = ftell(in)) < 8 || fseek(in, 0, SEEK_SET) ||
        !(f->bytes = malloc((size_t)size)) ||
        fread(f->bytes, 1, (size_t)size, in) != (size_t)size) {
        fclose(in);
        return fail(path, "cannot be read");
    }
    fclose(in);
    f->size = (size_t)size;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | f->bytes[i];
    if (length > f->size - 8)
        return fail(path, "the header is longer than the file");
    f->body = 8 + (size_t)length;
    f->header = cJSON_ParseWithLength((const char *)f->bytes + 8, (size_t)length);
    return cJSON_IsObject(f->header) ? 0 : fail(path, "the header is not a JSON object");
}

/* The bytes of a tensor; NULL: its offsets are outside the file. */
static const unsigned char *body(const struct file *f, const cJSON *tensor, size_t *size)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1);
    if (!cJSON_IsNumber(begin) || !cJSON_IsNumber(end) || begin->valuedouble < 0 ||
        end->valuedouble < begin->valuedouble || end->valuedouble > (double)(f->size - f->body))
        return NULL;
    *size = (size_t)(end->valuedouble - begin->valuedouble);
    return f->bytes + f->body + (size_t)begin->valuedouble;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(cJSON *const *)a)->string, (*(cJSON *const *)b)->string);
}

static int print_tensors(const char *path, const struct file *f)
{
    const size_t most = (size_t)cJSON_GetArraySize(f->header);
    const cJSON **list = malloc((most + 1) * sizeof *list), *each, *dim;
    size_t count = 0, size;
    int code = 0;
    if (!list)
        return fail(path, "no memory");
    cJSON_ArrayForEach(
        each, f->header) if (strcmp(each->string, "__metadata__") != 0 &&
                             strncmp(each->string, application, sizeof application - 1) != 0)
        list[count++] = each;
    qsort(list, count, sizeof *list, by_name);
    for (size_t i = 0; i < count && code == 0; i++) {
        const unsigned char *at = body(f, list[i], &size);
        const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(list[i], "dtype"));
        if (!at || !type) {
            code = fail(path, "a tensor without type or offsets");
            break;
        }
        printf("%s %s [", list[i]->string, type);
        cJSON_ArrayForEach(dim, cJSON_GetObjectItemCaseSensitive(list[i], "shape"))
            printf(" %.0f", dim->valuedouble);
        printf(" ]\n");
        fwrite(at, 1, size, stdout);
        printf("\n");
    }
    free(list);
    return code;
}

static int print_losses(const char *path, const struct file *f)
{
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(f->header, steps);
    size_t size = 0;
    const unsigned char *at = tensor ? body(f, tensor, &size) : NULL;
    double row[2]; /* loss, accuracy */
    if (!at || size < sizeof row)
        return fail(path, "has no losses");
    for (size_t i = 0; i < MOST_LOSSES && i < size / sizeof row; i++) {
        memcpy(row, at + i * sizeof row, sizeof row);
        printf("%.17g\n", row[0]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct file f = { 0 };
    int code;
    const int is_losses = argc == 3 && strcmp(argv[1], "losses") == 0;
    if (argc != 3 || (!is_losses && strcmp(argv[1], "tensors") != 0)) {
        fprintf(stderr, "usage: golden_digest tensors|losses FILE\n");
        return 2;
    }
    code = load(argv[2], &f);
    if (code == 0)
        code = is_losses ? print_losses(argv[2], &f) : print_tensors(argv[2], &f);
    cJSON_Delete(f.header);
    free(f.bytes);
    return code || fflush(stdout) ? 1 : 0;
}
