/* SPDX-License-Identifier: MIT */
/* Mode limits: the quick cases on this device with the limits of another, smaller one. Limits are
   only lowered, so the simulated device is limited by the real one. */
#include <stdio.h>

#include "prover/conformance/modes/modes.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* Limits as drivers of such devices report them, or the minimum of their specification. The
   library's caps (groups of 256, 32 KiB of group memory, 8 bindings) also apply. The rows that
   differ most from desktop GPUs come first, because a time limit may end the run. */
#define DESCRIBED(buffer, binding, alignment, group, groups, memory, bindings, lanes, units, ...) \
    {                                                                                             \
        .max_buffer_bytes = (buffer), .max_binding_bytes = (binding),                             \
        .offset_alignment = (alignment), .max_group_size = (group), .max_group_count = (groups),  \
        .group_memory_bytes = (memory), .max_bindings = (bindings), .max_param_bytes = 128,       \
        .subgroup_size = (lanes), .compute_units = (units), __VA_ARGS__                           \
    }

static const struct described {
    const char *name;
    struct copse_limits limits;
} devices[] = {
    /* The Vulkan minimum; a small OpenCL 1.2 device. */
    { "GPU minimum", DESCRIBED(GIB, 128 * MIB, 256, 128, 65535, 16 * KIB, 4, 1, 1,
                               .max_texel_elements = 65536, .is_gpu = true) },
    { "small accelerator",
      DESCRIBED(32 * MIB, 32 * MIB, 512, 64, UINT32_MAX, 16 * KIB, 8, 4, 1, .has_f64 = false) },
    { "few groups",
      DESCRIBED(64 * MIB, 64 * MIB, 64, 32, 64, 16 * KIB, 8, 1, 2, .has_group_base = true) },
    { "little memory",
      DESCRIBED(2 * MIB, MIB, 128, 64, 65535, 16 * KIB, 8, 8, 1, .host_import_alignment = 4096) },
    { "MoltenVK",
      DESCRIBED(8 * GIB, 4 * GIB, 256, 1024, 1u << 30, 32 * KIB, 8, 32, 8,
                .host_import_alignment = 16384, .max_texel_elements = 1u << 26, .is_gpu = true) },
    { "Adreno 6xx",
      DESCRIBED(GIB, 128 * MIB, 64, 1024, 65535, 32 * KIB, 8, 64, 2, .max_texel_elements = 1u << 27,
                .has_group_base = true, .is_gpu = true) },
    { "Mali Bifrost", DESCRIBED(2 * GIB, 256 * MIB, 256, 384, 65535, 32 * KIB, 8, 8, 12,
                                .max_texel_elements = 65536, .is_gpu = true) },
    { "VideoCore", DESCRIBED(GIB, GIB, 32, 256, 65535, 16 * KIB, 8, 16, 1,
                             .max_texel_elements = 65536, .is_gpu = true) },
    { "Intel Gen9", DESCRIBED(4 * GIB, GIB, 64, 256, 65535, 64 * KIB, 8, 16, 24,
                              .host_import_alignment = 4096, .max_texel_elements = 1u << 27,
                              .has_group_base = true, .has_f64 = true, .is_gpu = true) },
    { "AMD GCN", DESCRIBED(4 * GIB, 4 * GIB - 4, 4, 256, 65535, 32 * KIB, 8, 64, 36,
                           .host_import_alignment = 4096, .max_texel_elements = 1u << 29,
                           .has_group_base = true, .has_f64 = true, .is_gpu = true) },
    { "AMD RDNA",
      DESCRIBED(8 * GIB, 4 * GIB - 4, 4, 1024, 65535, 32 * KIB, 8, 32, 40,
                .host_import_alignment = 4096, .max_texel_elements = 1u << 29,
                .has_group_base = true, .has_f64 = true, .has_f16_storage = true, .is_gpu = true) },
    { "NVIDIA",
      DESCRIBED(16 * GIB, 4 * GIB - 4, 16, 1024, 65535, 48 * KIB, 8, 32, 68,
                .host_import_alignment = 4096, .max_texel_elements = 1u << 27,
                .has_group_base = true, .has_f64 = true, .has_f16_storage = true, .is_gpu = true) },
    { "SwiftShader", DESCRIBED(GIB, GIB, 256, 256, 65535, 32 * KIB, 8, 4, 1,
                               .max_texel_elements = 65536, .has_group_base = true) },
    { "lavapipe", DESCRIBED(2 * GIB, 128 * MIB, 16, 1024, 65535, 32 * KIB, 8, 8, 1,
                            .host_import_alignment = 4096, .max_texel_elements = 1u << 27,
                            .has_fast_texels = true, .has_group_base = true, .has_f64 = true) },
    { "PoCL", DESCRIBED(4 * GIB, 4 * GIB, 128, 4096, UINT32_MAX, 512 * KIB, 8, 8, 2,
                        .host_import_alignment = 64, .has_wide_vectors = true, .has_f64 = true) },
};

/* The device with another description; opened when its first case begins. */
struct pretence {
    const struct described *as;
    copse_device *dev;
    const struct copse_case *c;
};

static copse_status open_device(struct copse_conform_run *r, struct pretence *p)
{
    if (p->dev && !copse__device_check(p->dev))
        return COPSE_OK;
    copse_device_release(&p->dev); /* lost */
    COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, &p->dev));
    const copse_status s = copse__device_limit(p->dev, &p->as->limits);
    if (s)
        copse_device_release(&p->dev);
    return s;
}

static copse_status mode_limits_check(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out)
{
    struct pretence *p = user;
    struct copse_rig rig;
    struct copse_rig_program *program = NULL;
    const uint64_t seed = copse__run_seed(r->params->seed, p->c->op, p->c->name);
    out->result.seed = seed; /* the same inputs as in mode run */
    COPSE_TRY(open_device(r, p));
    copse_status s = copse__rig_open(r->ctx, p->c, seed, false, &rig);
    if (!s)
        s = copse__rig_program_open(&rig, p->dev, "", &program);
    if (!s)
        s = copse__rig_expect(&rig);
    if (!s)
        s = copse__rig_program_run(program, out);
    if (!s)
        s = copse__rig_judge(program, 0, out);
    copse__rig_program_close(&program);
    copse__rig_close(&rig);
    return s;
}

copse_status copse__conform_limits(struct copse_conform_run *r)
{
    for (size_t d = 0; d < COPSE_COUNT(devices) && !r->is_stopped; d++) {
        struct pretence p = { .as = &devices[d] };
        for (size_t t = 0; r->tables[t]; t++)
            for (size_t i = 0; i < r->tables[t]->count && !r->is_stopped; i++) {
                char name[192];
                p.c = &r->tables[t]->cases[i];
                if (p.c->tier != COPSE_TIER_QUICK)
                    continue;
                snprintf(name, sizeof name, "as %s: %s", p.as->name, p.c->name);
                copse__conform_one(r, &(struct copse_conform_case){ "limits", p.c->op, name, "" },
                                   mode_limits_check, &p);
            }
        copse_device_release(&p.dev);
    }
    return COPSE_OK;
}
