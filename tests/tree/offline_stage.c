/* SPDX-License-Identifier: MIT */
/* See offline_stage.h. */
#include "offline_stage.h"

#include <stdlib.h>

static const struct copse_vk_matrices matrices = {
    .shape = { 16, 16, 16 }, .units = COPSE_MATRIX_F16, .subgroup = 64, .sets_subgroup = true
};

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}

void offline_stage_make(const struct copse_kernel_row *row, const int32_t *spec,
                        struct offline_stage *out)
{
    struct copse_mem mem = { .resize = resize };
    uint32_t count = 2u + row->spec_count;
    *out = (struct offline_stage){
        .values = { row->group_x, row->group_y },
        .size = { .sType =
                      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
                  .requiredSubgroupSize = matrices.subgroup },
        .code = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                  .codeSize = row->spirv_bytes,
                  .pCode = row->spirv },
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .pName = "main",
                   .pSpecializationInfo = &out->constants },
    };
    memcpy(out->values + 2, spec, row->spec_count * sizeof *spec);
    for (uint32_t i = 0; i < count; i++)
        out->entries[i].constantID = i;
    for (uint32_t i = 0; row->is_cooperative && i < 4; i++, count++) {
        out->values[count] = i < 3 ? matrices.shape[i] : matrices.subgroup;
        out->entries[count].constantID = 2 + COPSE_MAX_SPECS + i;
    }
    for (uint32_t i = 0; i < count; i++) {
        out->entries[i].offset = 4 * i;
        out->entries[i].size = 4;
    }
    out->constants = (VkSpecializationInfo){ count, out->entries, sizeof out->values, out->values };
    if (!row->is_cooperative)
        return;
    out->stage.pNext = &out->size;
    out->stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    if (copse_vk_cooperative_code(&mem, row->spirv, row->spirv_bytes, false, &out->words,
                                  &out->code.codeSize) == COPSE_OK)
        out->code.pCode = out->words;
}

void offline_stage_free(struct offline_stage *s)
{
    free(s->words);
}

void offline_units_chain(struct copse_vk_cooperative_features *f)
{
    copse_vk_cooperative_chain(f, &matrices, true);
}
