/* SPDX-License-Identifier: MIT */
/* OpenCL kernels: built from the embedded text, or from a cached binary that was verified to be
   complete and made for exactly this device, driver and text. */
#include <inttypes.h>
#include <stdio.h>

#include "backends/opencl/cl_internal.h"

/* ---- build options and identity ---- */

/* Enough for write_options. */
#define OPTIONS_BYTES (128 + COPSE_MAX_SPECS * 24)

/* Whether the device can be asked for correctly rounded quotients and roots. */
static bool divides_exactly(const struct copse_cl_device *d)
{
    cl_device_fp_config single = 0;
    return d->cl.GetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL) ==
               CL_SUCCESS &&
           (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
}

/* -w: compilers count their warnings on standard error, which is the application's. The build
   checks kernels with -Wall. */
static void write_options(const struct copse_kernel *k, char *out, size_t size)
{
    int n = snprintf(out, size, "-w -cl-std=CL1.2 -DGROUP_X=%" PRIu32 " -DGROUP_Y=%" PRIu32,
                     k->group_x, k->group_y);
    for (int i = 0; i < k->row->spec_count && n > 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, " -DSPEC_%d=%" PRId32, i, k->spec[i]);
    if (k->dev->is_portable && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, " -DPORTABLE%s",
                 divides_exactly(k->dev->priv) ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
}

/* Two independent hashes of all inputs of the compiler. */
static void kernel_identify(const struct copse_kernel *k, const char *options, uint64_t id[2])
{
    const struct copse_cl_device *d = k->dev->priv;
    const struct copse_device_info *info = &k->dev->info;
    char platform_version[256] = "", device_version[256];
    cl_platform_id platform = NULL;
    if (d->cl.GetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
        CL_SUCCESS)
        copse_cl_platform_text(&d->cl, platform, CL_PLATFORM_VERSION, platform_version,
                               sizeof platform_version);
    copse_cl_device_text(&d->cl, d->id, CL_DEVICE_VERSION, device_version, sizeof device_version);
    const char *const texts[] = { "copse opencl binary 3",
                                  k->row->name,
                                  options,
                                  info->name,
                                  info->driver,
                                  platform_version,
                                  device_version,
                                  d->is_part ? "part" : "whole" };
    for (uint64_t h = 0; h < 2; h++) {
        id[h] = copse__hash(COPSE_HASH_START, &h, sizeof h);
        id[h] = copse__hash(id[h], &k->row->source_hash, sizeof k->row->source_hash);
        for (size_t i = 0; i < COPSE_COUNT(texts); i++)
            id[h] = copse__hash(id[h], texts[i], strlen(texts[i]) + 1);
    }
}

static void write_key(uint64_t id, char *key, size_t size)
{
    snprintf(key, size, "opencl-%016" PRIx64, id);
}

/* ---- build ---- */

/* The driver's log: completely to our log, its start to `head`. */
static void take_build_log(const struct copse_kernel *k, cl_program program, char *head,
                           size_t head_size)
{
    const struct copse_cl_device *d = k->dev->priv;
    struct copse_base *base = k->dev->base;
    size_t size = 0;
    head[0] = '\0';
    if (d->cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
            CL_SUCCESS ||
        size < 2)
        return;
    char *text = copse__alloc(&base->mem, size + 1, 1);
    if (text == NULL)
        return;
    if (d->cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, text, NULL) ==
        CL_SUCCESS) {
        snprintf(head, head_size, "%s", text);
        for (char *line = text; *line != '\0';) {
            const size_t length = strcspn(line, "\r\n");
            const bool is_last = line[length] == '\0';
            line[length] = '\0';
            if (length > 0)
                copse__log(&base->log, COPSE_LOG_DEBUG, "opencl: %s: %s", k->row->name, line);
            line += length + !is_last;
        }
    }
    copse__free(&base->mem, text);
}

static copse_status build_result(const struct copse_kernel *k, cl_program program,
                                 const char *options, cl_int e)
{
    if (e == CL_SUCCESS && k->dev->base->log.level < COPSE_LOG_DEBUG)
        return COPSE_OK;
    char head[1024] = "";
    if (program != NULL)
        take_build_log(k, program, head, sizeof head);
    if (e == CL_SUCCESS)
        return COPSE_OK;
    const copse_status s = copse_cl_error_status(e);
    return copse_fail(s == COPSE_ERR_INTERNAL ? COPSE_ERR_COMPILE : s,
                      "opencl: kernel '%s' does not build for %s (%s, %s): %s", k->row->name,
                      k->dev->info.id, copse_cl_error_name(e), options,
                      head[0] != '\0' ? head : "the driver gave no log");
}

/* Compile a text, without linking it. */
static copse_status build_object(struct copse_kernel *k, cl_program object, const char *options)
{
    const struct copse_cl_device *d = k->dev->priv;
    const cl_int e = d->cl.CompileProgram(object, 1, &d->id, options, 0, NULL, NULL, NULL, NULL);
    return build_result(k, object, options, e);
}

static copse_status build_program(struct copse_kernel *k, cl_program program, const char *options)
{
    const struct copse_cl_device *d = k->dev->priv;
    return build_result(k, program, options,
                        d->cl.BuildProgram(program, 1, &d->id, options, NULL, NULL));
}

static void program_drop(const struct copse_cl_device *d, cl_program *program)
{
    if (*program != NULL)
        d->cl.ReleaseProgram(*program);
    *program = NULL;
}

/* A program that is built: make its kernel, or release it. */
static copse_status kernel_finish(struct copse_kernel *k, copse_status built)
{
    struct copse_cl_kernel *ck = k->priv;
    if (built == COPSE_OK)
        built = copse_cl_create_kernel(k, &ck->kernel);
    if (built != COPSE_OK)
        program_drop(k->dev->priv, &ck->program);
    return built;
}

/* ---- binaries ---- */

struct header {
    char magic[8];
    uint64_t identity, size, digest;
};
static const char magic[8] = "copsecl";

/* LLVM's code, which begins with these bytes, to the end of a binary of PoCL. NULL: PoCL takes the
   code of a program from its own cache, into which another process may be writing. Then the binary
   has none, and PoCL aborts when it loads it. */
static const unsigned char *find_code(const unsigned char *bytes, size_t size)
{
    static const unsigned char mark[] = { 'B', 'C', 0xc0, 0xde };
    return copse__find_bytes(bytes, size, mark, sizeof mark);
}

static bool has_code(const struct copse_cl_device *d, const unsigned char *bytes, size_t size)
{
    return !d->is_pocl || find_code(bytes, size);
}

struct taken {
    const struct copse_cl_device *dev;
    struct copse_mem *mem;
    uint64_t identity;
    unsigned char *bytes; /* NULL: nothing usable */
    size_t size;
    bool is_damaged;
};

static void kernel_take(void *to, const void *bytes, size_t size)
{
    struct taken *t = to;
    struct header h;
    const unsigned char *body = (const unsigned char *)bytes + sizeof h;
    if (t->bytes != NULL)
        return;
    t->is_damaged = true;
    if (size <= sizeof h)
        return;
    memcpy(&h, bytes, sizeof h);
    size -= sizeof h;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.identity != t->identity || h.size != size ||
        h.digest != copse__hash(COPSE_HASH_START, body, size) || !has_code(t->dev, body, size))
        return;
    t->is_damaged = false;
    t->bytes = copse__alloc(t->mem, size, 1);
    if (t->bytes == NULL)
        return;
    memcpy(t->bytes, body, size);
    t->size = size;
}

static void note_entry(void *to, const void *bytes, size_t size)
{
    (void)bytes;
    *(bool *)to = size > sizeof(struct header);
}

bool copse_cl_is_stored(const struct copse_kernel *k)
{
    const struct copse_cache_params *cache = &k->dev->base->cache;
    char options[OPTIONS_BYTES], key[32];
    uint64_t id[2];
    bool is_there = false;
    write_options(k, options, sizeof options);
    kernel_identify(k, options, id);
    write_key(id[0], key, sizeof key);
    if (cache->get != NULL)
        cache->get(cache->user, key, note_entry, &is_there);
    return is_there;
}

static copse_status finish_binary(struct copse_kernel *k, const unsigned char *bytes, size_t size,
                                  const char *options)
{
    const struct copse_cl_device *d = k->dev->priv;
    struct copse_cl_kernel *ck = k->priv;
    cl_int loaded = CL_SUCCESS, e = CL_SUCCESS;
    ck->program = d->cl.CreateProgramWithBinary(d->context, 1, &d->id, &size, &bytes, &loaded, &e);
    copse_status s = copse_cl_check(e != CL_SUCCESS ? e : loaded, "clCreateProgramWithBinary");
    if (s == COPSE_OK)
        s = build_program(k, ck->program, options);
    return kernel_finish(k, s);
}

/* Whether the kernel was made; on any failure it is built from text. */
static bool load_binary(struct copse_kernel *k, const char *key, uint64_t identity,
                        const char *options)
{
    struct copse_base *base = k->dev->base;
    struct taken t = { .dev = k->dev->priv, .mem = &base->mem, .identity = identity };
    bool is_loaded = false;
    if (base->cache.get == NULL)
        return false;
    base->cache.get(base->cache.user, key, kernel_take, &t);
    if (t.bytes != NULL) {
        is_loaded = finish_binary(k, t.bytes, t.size, options) == COPSE_OK;
        t.is_damaged = !is_loaded;
    }
    if (t.is_damaged)
        copse__log(&base->log, COPSE_LOG_WARN,
                   "opencl: cached binary %s of kernel '%s' cannot be used, it is built anew", key,
                   k->row->name);
    copse__free(&base->mem, t.bytes);
    return is_loaded;
}

/* The driver's binary of a program, after room for a header. NULL: there is none. */
static unsigned char *take_binary(const struct copse_kernel *k, cl_program program, size_t *size)
{
    const struct copse_cl_device *d = k->dev->priv;
    struct copse_mem *mem = &k->dev->base->mem;
    if (d->cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL) !=
            CL_SUCCESS ||
        *size == 0 || *size > SIZE_MAX - sizeof(struct header))
        return NULL;
    unsigned char *blob = copse__alloc(mem, sizeof(struct header) + *size, 1);
    if (blob == NULL)
        return NULL;
    unsigned char *body = blob + sizeof(struct header);
    if (d->cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof body, &body, NULL) ==
            CL_SUCCESS &&
        has_code(d, body, *size))
        return blob;
    copse__free(mem, blob);
    return NULL;
}

static void put_binary(const struct copse_kernel *k, unsigned char *blob, size_t size)
{
    const struct copse_cache_params *cache = &k->dev->base->cache;
    char options[OPTIONS_BYTES], key[32];
    uint64_t id[2];
    write_options(k, options, sizeof options);
    kernel_identify(k, options, id);
    write_key(id[0], key, sizeof key);
    struct header h = { .identity = id[1],
                        .size = size,
                        .digest = copse__hash(COPSE_HASH_START, blob + sizeof h, size) };
    memcpy(h.magic, magic, sizeof magic);
    memcpy(blob, &h, sizeof h);
    cache->put(cache->user, key, blob, sizeof h + size);
}

/* A failure to store the binary is not an error. */
static void store_binary(const struct copse_kernel *k, cl_program program)
{
    size_t size;
    unsigned char *blob = k->dev->base->cache.put != NULL ? take_binary(k, program, &size) : NULL;
    if (blob != NULL)
        put_binary(k, blob, size);
    copse__free(&k->dev->base->mem, blob);
}

/* ---- kernels ---- */

copse_status copse_cl_create_kernel(struct copse_kernel *k, cl_kernel *out)
{
    struct copse_cl_device *d = k->dev->priv;
    struct copse_cl_kernel *ck = k->priv;
    cl_int e = CL_SUCCESS;
    char entry[48];
    copse__kernel_entry(k->row, entry);
    *out = d->cl.CreateKernel(ck->program, entry, &e);
    if (e != CL_SUCCESS) {
        *out = NULL;
        return copse_fail(copse_cl_error_status(e), "opencl: kernel '%s' on %s: %s (%d)",
                          k->row->name, k->dev->info.id, copse_cl_error_name(e), (int)e);
    }
    return COPSE_OK;
}

/* When a linked program is asked for its binary, PoCL generates code for groups of any size. No
   launch uses it: the first one generates code for the group size of the kernel. So a program is
   compiled and not linked, and its code is stored. PoCL links the code when it is built, which takes
   0.3 s and 10 ms a kernel, and keeps what it linked in its own cache: a later start finds it there
   if the options are the same. *has: the compiled program has code. */
static copse_status build_code(struct copse_kernel *k, cl_program object, const char *options,
                               bool *has)
{
    struct copse_mem *mem = &k->dev->base->mem;
    char plain[OPTIONS_BYTES]; /* of load_binary */
    size_t size;
    COPSE_TRY(build_object(k, object, options));
    unsigned char *blob = take_binary(k, object, &size);
    copse_status s = COPSE_OK;
    *has = blob != NULL;
    if (*has) {
        unsigned char *body = blob + sizeof(struct header);
        const unsigned char *code = find_code(body, size);
        size -= (size_t)(code - body);
        memmove(body, code, size);
        write_options(k, plain, sizeof plain);
        s = finish_binary(k, body, size, plain);
        if (s == COPSE_OK && k->dev->base->cache.put != NULL)
            put_binary(k, blob, size);
    }
    copse__free(mem, blob);
    return s;
}

static copse_status build_text(struct copse_kernel *k, const char *options)
{
    struct copse_cl_device *d = k->dev->priv;
    struct copse_cl_kernel *ck = k->priv;
    const char *text = (const char *)k->row->cl_text;
    cl_int e = CL_SUCCESS;
    bool has = false;
    cl_program program = d->cl.CreateProgramWithSource(d->context, 1, &text, &k->row->cl_size, &e);
    COPSE_TRY(copse_cl_check(e, "clCreateProgramWithSource"));
    if (d->builds_code) {
        const copse_status s = build_code(k, program, options, &has);
        if (has == (s == COPSE_OK)) { /* it is built, or the text does not compile */
            program_drop(d, &program);
            return s;
        }
        copse__log(&k->dev->base->log, COPSE_LOG_INFO,
                   "opencl: %s %s for kernel '%s': its program is built in one step",
                   k->dev->info.id, has ? "does not build its own code" : "returns no code",
                   k->row->name);
    }
    ck->program = program;
    COPSE_TRY(kernel_finish(k, build_program(k, program, options)));
    store_binary(k, program); /* after clCreateKernel: some drivers compile only then */
    return COPSE_OK;
}

/* PoCL reads its header of declarations, half of the time of a build, unless _OPENCL_H_ is defined:
   few_builtins.clh declares what kernels call. Where that does not build, as in a user kernel that
   calls more, all declarations are read. */
static copse_status build_pocl(struct copse_kernel *k, const char *options)
{
    char few[OPTIONS_BYTES + 64];
    if (!strstr((const char *)k->row->cl_text, "FEW_BUILTINS"))
        return build_text(k, options);
    snprintf(few, sizeof few, "%s -DFEW_BUILTINS -D_OPENCL_H_", options);
    const copse_status s = build_text(k, few);
    if (s != COPSE_ERR_COMPILE)
        return s;
    copse__log(&k->dev->base->log, COPSE_LOG_DEBUG,
               "opencl: kernel '%s' is built with all declarations: few_builtins.clh lacks one",
               k->row->name);
    return build_text(k, options);
}

/* Some drivers cannot link fma, because their library of OpenCL's functions is not the one that
   they expect. The second try multiplies and adds, which rounds twice. */
static copse_status build_any(struct copse_kernel *k, const char *options)
{
    const struct copse_cl_device *d = k->dev->priv;
    char without[OPTIONS_BYTES + 16];
    const copse_status s = d->is_pocl ? build_pocl(k, options) : build_text(k, options);
    if (s != COPSE_ERR_COMPILE)
        return s;
    snprintf(without, sizeof without, "%s -Dfma=mad", options);
    COPSE_TRY(build_text(k, without));
    copse__log(&k->dev->base->log, COPSE_LOG_INFO,
               "opencl: kernel '%s' builds on %s without fma only", k->row->name, k->dev->info.id);
    return COPSE_OK;
}

copse_status copse_cl_kernel_init(struct copse_kernel *k)
{
    struct copse_cl_kernel *ck = k->priv;
    COPSE_TRY(copse__mutex_init(&ck->lock));
    ck->has_lock = true;
    char options[OPTIONS_BYTES], key[32];
    uint64_t id[2];
    write_options(k, options, sizeof options);
    kernel_identify(k, options, id);
    write_key(id[0], key, sizeof key);
    const uint64_t start = copse__now_ns();
    const bool is_cached = load_binary(k, key, id[1], options);
    if (!is_cached)
        COPSE_TRY(build_any(k, options));
    copse__log(&k->dev->base->log, COPSE_LOG_DEBUG, "opencl: kernel '%s' %s in %.1f ms (%s)",
               k->row->name, is_cached ? "loaded" : "built",
               (double)(copse__now_ns() - start) * 1e-6, options);
    return COPSE_OK;
}

void copse_cl_kernel_fini(struct copse_kernel *k)
{
    struct copse_cl_device *d = k->dev->priv;
    struct copse_cl_kernel *ck = k->priv;
    if (!atomic_load(&d->is_stuck)) {
        if (ck->kernel != NULL)
            d->cl.ReleaseKernel(ck->kernel);
        program_drop(d, &ck->program);
    }
    if (ck->has_lock)
        copse__mutex_fini(&ck->lock);
}

copse_status copse_cl_set_args(const struct copse_command *c, cl_kernel kernel, const cl_mem *mems)
{
    const struct copse_kernel *k = c->kernel;
    const struct copse_cl_device *d = k->dev->priv;
    cl_int e = CL_SUCCESS;
    for (cl_uint i = 0; i < c->binding_count; i++) {
        e = d->cl.SetKernelArg(kernel, i, sizeof mems[i], &mems[i]);
        if (e != CL_SUCCESS)
            return copse_fail(copse_cl_error_status(e), "opencl: buffer %u of kernel '%s': %s",
                              (unsigned)i, k->row->name, copse_cl_error_name(e));
    }
    e = d->cl.SetKernelArg(kernel, c->binding_count, (k->row->param_words + 1u) * sizeof *c->params,
                           c->params);
    if (e != CL_SUCCESS)
        return copse_fail(copse_cl_error_status(e),
                          "opencl: parameters of kernel '%s' (%u words): %s", k->row->name,
                          k->row->param_words + 1u, copse_cl_error_name(e));
    return COPSE_OK;
}
