/* SPDX-License-Identifier: MIT */
/* The shader stage of a kernel with its constants, for a pipeline on a device that is not in the
   machine. */
#ifndef OFFLINE_STAGE_H
#define OFFLINE_STAGE_H

#include "backends/vulkan/vk_internal.h"

struct offline_stage {
    uint32_t values[2 + COPSE_MAX_SPECS + 4];
    VkSpecializationMapEntry entries[2 + COPSE_MAX_SPECS + 4];
    VkSpecializationInfo constants;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size;
    VkShaderModuleCreateInfo code;
    VkPipelineShaderStageCreateInfo stage; /* without the module */
    uint32_t *words;                       /* of a kernel on matrix units, else NULL */
};

/* Kernels on matrix units have matrices of 16 x 16 x 16 f16 numbers, as AMD's have. */
void offline_stage_make(const struct copse_kernel_row *row, const int32_t *spec,
                        struct offline_stage *out);
void offline_stage_free(struct offline_stage *s);
/* The features of such kernels, a chain; the device lists VK_KHR_cooperative_matrix. */
void offline_units_chain(struct copse_vk_cooperative_features *f);

#endif
