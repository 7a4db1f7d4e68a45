# SPDX-License-Identifier: MIT
# Reads the kernels (kernels/<family>/*.cl in the dialect, OpenCL-only variants with "/* only: opencl */",
# Vulkan-only variants shaders/*.comp) and generates, under build/gen: kernel_ids.h,
# kernel_table.c, the texts both compilers see, and copse/elementwise.h. Also run as a script at
# build time (-P) to compile one kernel to words of SPIR-V, or to check one as OpenCL C.
#
# With COPSE_GENERATED_BY another build does both: ./check gives its second build the folder gen of the first one. A kernel
# with the same text is taken from there.
set(COPSE_GENERATED_BY "" CACHE PATH "Folder gen of a build with the same compilers of kernels")

if(CMAKE_SCRIPT_MODE_FILE) # cmake -DIN=x.comp -DOUT=x.spv.h|x.cl.checked [-DBY=gen] [-DSPIRV=x.spv [-DVALIDATE=spirv-val]] -P embed.cmake -- compiler...
    get_filename_component(text "${IN}" NAME)
    get_filename_component(product "${OUT}" NAME)
    if(BY AND EXISTS "${BY}/${product}")
        file(READ "${IN}" ours)
        file(READ "${BY}/${text}" theirs)
        if(ours STREQUAL theirs AND NOT "${BY}/${text}" IS_NEWER_THAN "${BY}/${product}")
            configure_file("${BY}/${product}" "${OUT}" COPYONLY)
            file(TOUCH "${OUT}")
            return()
        endif()
    endif()
    set(command "")
    math(EXPR last "${CMAKE_ARGC} - 1")
    foreach(i RANGE ${last})
        if(command OR "${CMAKE_ARGV${i}}" STREQUAL "--")
            list(APPEND command "${CMAKE_ARGV${i}}")
        endif()
    endforeach()
    list(POP_FRONT command)
    execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
    if(NOT SPIRV)
        file(TOUCH "${OUT}")
        return()
    endif()
    if(VALIDATE)
        execute_process(COMMAND "${VALIDATE}" --target-env vulkan1.1 "${SPIRV}" COMMAND_ERROR_IS_FATAL ANY)
    endif()
    file(READ "${SPIRV}" hex HEX)
    string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1,\n" words "${hex}")
    file(WRITE "${OUT}" "${words}")
    return()
endif()

set(COPSE_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
set(COPSE_NL "\n")

# Write only what changed, so that nothing is rebuilt for nothing.
function(copse_write path text)
    if(EXISTS "${path}")
        file(READ "${path}" old)
        if("${old}" STREQUAL "${text}")
            return()
        endif()
    endif()
    file(WRITE "${path}" "${text}")
endfunction()

# The text of a file with its #include "..." lines resolved and #line marks for messages.
function(copse_resolve path out)
    if(NOT EXISTS "${path}")
        message(FATAL_ERROR "kernels: '${path}' is included but does not exist")
    endif()
    file(READ "${path}" rest)
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${path}")
    if(name MATCHES "^\\.\\.")
        get_filename_component(name "${path}" NAME)
    endif()
    string(REGEX REPLACE "\r\n" "\n" rest "${rest}")
    set(text "#line 1 \"${name}\"\n")
    set(line 1)
    while(rest MATCHES "(^|\n)([ \t]*#[ \t]*include[ \t]*\"([^\"\n]+)\"[^\n]*)(\n|$)")
        set(directive "${CMAKE_MATCH_2}")
        set(included "${CMAKE_MATCH_3}")
        string(FIND "${rest}" "${directive}" at)
        string(SUBSTRING "${rest}" 0 ${at} before)
        string(LENGTH "${directive}" length)
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${rest}" ${at} -1 rest)
        string(REGEX REPLACE "[^\n]" "" breaks "${before}")
        string(LENGTH "${breaks}" breaks)
        math(EXPR line "${line} + ${breaks}")
        copse_resolve("${COPSE_KERNEL_DIR}/${included}" inner)
        string(APPEND text "${before}${inner}\n#line ${line} \"${name}\"")
    endwhile()
    string(APPEND text "${rest}")
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Text without comments.
function(copse_strip text out)
    string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" " " text "${text}")
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

macro(bad why) # for copse_parse
    message(FATAL_ERROR "kernels: ${path}: ${why}")
endmacro()

# Read one kernel's declaration; sets K_NAME, K_ARGS, K_ARG_COUNT, K_PARAMS (C fields),
# K_PARAM_COUNT, K_PARAM_NAMES, K_SPEC_COUNT, K_SPEC_NAMES, K_GROUP_X, K_GROUP_Y, K_GROUP_BYTES, K_COOPERATIVE in the caller.
function(copse_parse path)
    get_filename_component(file_name "${path}" NAME_WE)
    file(READ "${path}" text)
    copse_strip("${text}" text)
    set(arg "[ \n]*(IN|OUT|TEXEL)[ ]*\\([^()]*\\)")
    if(NOT text MATCHES "(^|\n)KERNEL([1-8])\\([ ]*([A-Za-z0-9_]+)[ ]*,(${arg}([ ]*,${arg})*)[ \n]*\\)")
        bad("no KERNELn(name, IN(T, x), OUT(T, y)) at the start of a line")
    endif()
    set(name "${CMAKE_MATCH_3}")
    set(declared "${CMAKE_MATCH_2}")
    set(rest "${CMAKE_MATCH_4}")
    string(REGEX REPLACE "(^|\n)KERNEL[1-8]\\(" "" again "${text}")
    string(LENGTH "${text}" length)
    string(LENGTH "${again}" length_again)
    math(EXPR removed "${length} - ${length_again}")
    if(removed GREATER 9)
        bad("more than one kernel in the file")
    endif()
    if(NOT name STREQUAL file_name)
        bad("the kernel is named '${name}': file name and kernel name must agree")
    endif()

    set(args "")
    set(count 0)
    while(rest MATCHES "(IN|OUT|TEXEL)[ ]*\\([ ]*(([A-Za-z0-9_]+)[ ]*,)?[ ]*([A-Za-z0-9_]+)[ ]*\\)")
        set(role "${CMAKE_MATCH_1}")
        set(type "${CMAKE_MATCH_3}")
        string(FIND "${rest}" "${CMAKE_MATCH_0}" at)
        string(LENGTH "${CMAKE_MATCH_0}" length)
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${rest}" ${at} -1 rest)
        if(role STREQUAL "TEXEL")
            if(NOT path MATCHES "\\.comp$")
                bad("TEXEL is for Vulkan-only variants in shaders/")
            endif()
            set(kind TEXEL)
        elseif(type MATCHES "^(real|float)$")
            set(kind F32)
        elseif(type MATCHES "^(int|uint)$")
            set(kind I32)
        else()
            bad("argument type '${type}' is none of real, float, int, uint")
        endif()
        set(written false)
        if(role STREQUAL "OUT")
            set(written true)
        endif()
        string(APPEND args "{ COPSE_ARG_${kind}, ${written} }, ")
        math(EXPR count "${count} + 1")
    endwhile()
    if(NOT count EQUAL declared)
        bad("KERNEL${declared} with ${count} readable arguments")
    endif()

    if(NOT text MATCHES "(^|\n)PARAMS\\(([^()]*)\\)")
        bad("no PARAMS(uint n; float x;) at the start of a line")
    endif()
    string(REGEX REPLACE "[ \t\n]+" " " fields "${CMAKE_MATCH_2}")
    set(params "")
    set(param_names "")
    set(param_count 0)
    while(fields MATCHES "^ ?(uint|int|float) ([A-Za-z_][A-Za-z0-9_]*) ?;")
        set(type "${CMAKE_MATCH_1}")
        set(field "${CMAKE_MATCH_2}")
        string(LENGTH "${CMAKE_MATCH_0}" length)
        string(SUBSTRING "${fields}" ${length} -1 fields)
        string(APPEND param_names "${type} ${field};")
        if(NOT type STREQUAL "float")
            string(APPEND type "32_t")
        endif()
        string(APPEND params "    ${type} ${field};\n")
        math(EXPR param_count "${param_count} + 1")
    endwhile()
    if(NOT fields MATCHES "^ ?$")
        bad("PARAMS: '${fields}' is not 'uint|int|float name;'")
    endif()
    if(param_count GREATER 31)
        bad("${param_count} parameters; at most 31 words fit beside group_base in 128 bytes")
    endif()

    if(NOT text MATCHES "(^|\n)GROUP\\([ ]*([0-9]+)[ ]*,[ ]*([0-9]+)[ ]*\\)")
        bad("no GROUP(x, y) with two literal sizes at the start of a line")
    endif()
    set(x "${CMAKE_MATCH_2}")
    set(y "${CMAKE_MATCH_3}")

    set(spec_count 0)
    set(spec_names "")
    set(rest "${text}")
    while(rest MATCHES "(^|\n)SPEC\\([ ]*([0-9]+)[ ]*,[ ]*([A-Z_]+)[ ]*\\)(.*)")
        if(NOT CMAKE_MATCH_2 EQUAL spec_count OR spec_count GREATER 5)
            bad("SPEC(${CMAKE_MATCH_2}, ...): number them 0, 1, ... 5 in order")
        endif()
        math(EXPR spec_count "${spec_count} + 1")
        string(APPEND spec_names "${CMAKE_MATCH_3} ")
        set(rest "${CMAKE_MATCH_4}")
    endwhile()

    set(bytes 0)
    set(rest "${text}")
    while(rest MATCHES "(^|\n)GROUP_ARRAY\\([ ]*(float|int|uint|QUAD|EIGHT)[ ]*,[ ]*[A-Za-z0-9_]+[ ]*,([^\n]*)\\)[ ]*(\n.*)")
        set(element 4)
        if(CMAKE_MATCH_2 STREQUAL "QUAD" OR CMAKE_MATCH_2 STREQUAL "EIGHT")
            set(element 16)
        endif()
        set(length "${CMAKE_MATCH_3}")
        set(rest "${CMAKE_MATCH_4}")
        string(REPLACE GROUP_SIZE "(${x} * ${y})" length "${length}")
        string(REPLACE GROUP_X "${x}" length "${length}")
        string(REPLACE GROUP_Y "${y}" length "${length}")
        string(REGEX REPLACE "([0-9])[uU]" "\\1" length "${length}")
        while(length MATCHES "([A-Za-z_][A-Za-z0-9_]*)") # a constant of this file
            set(constant "${CMAKE_MATCH_1}")
            if(NOT text MATCHES "\n#define ${constant} ([^\n]+)")
                bad("GROUP_ARRAY: '${constant}' is no literal, GROUP_SIZE or #define of this file")
            endif()
            string(REGEX REPLACE "([0-9])[uU]" "\\1" value "${CMAKE_MATCH_1}")
            string(REGEX REPLACE "(^|[^A-Za-z0-9_])${constant}($|[^A-Za-z0-9_])" "\\1(${value})\\2"
                                 length "${length}")
        endwhile()
        math(EXPR bytes "${bytes} + ${element} * (${length})")
    endwhile()

    set(K_NAME "${name}" PARENT_SCOPE)
    set(K_ARGS "${args}" PARENT_SCOPE)
    set(K_ARG_COUNT ${count} PARENT_SCOPE)
    set(K_PARAMS "${params}" PARENT_SCOPE)
    set(K_PARAM_COUNT ${param_count} PARENT_SCOPE)
    set(K_PARAM_NAMES "${param_names}" PARENT_SCOPE)
    set(K_SPEC_NAMES "${spec_names}" PARENT_SCOPE)
    set(K_SPEC_COUNT ${spec_count} PARENT_SCOPE)
    set(K_GROUP_X ${x} PARENT_SCOPE)
    set(K_GROUP_Y ${y} PARENT_SCOPE)
    set(K_GROUP_BYTES ${bytes} PARENT_SCOPE)
    set(K_COOPERATIVE false PARENT_SCOPE)
    if(text MATCHES "#extension GL_NV_cooperative_matrix")
        set(K_COOPERATIVE true PARENT_SCOPE)
    endif()
endfunction()

# Declarations of the elementwise functions, from the rows of one .def file: those with numbers below 20, the everyday ones,
# and the others.
function(copse_elementwise def macro_name operands out others)
    set(declarations "")
    set(other_declarations "")
    if(EXISTS "${def}")
        file(READ "${def}" text)
        copse_strip("${text}" rest)
        while(rest MATCHES "(^|\n)${macro_name}\\([ \n]*([a-z][a-z0-9_]*)[ \n]*,[ \n]*([0-9]+)(.*)")
            set(name "${CMAKE_MATCH_2}")
            set(number "${CMAKE_MATCH_3}")
            set(rest "${CMAKE_MATCH_4}")
            if(macro_name STREQUAL "UNARY")
                set(what "${name}(x).")
            else()
                set(what "${name}(a, b), with broadcasting.")
            endif()
            string(CONCAT declaration "/** ${what} */\nCOPSE_API COPSE_CHECKED copse_tensor *"
                   "copse_${name}(copse_graph *g, ${operands});\n")
            if(number LESS 20)
                string(APPEND declarations "${declaration}")
            else()
                string(APPEND other_declarations "${declaration}")
            endif()
        endwhile()
    endif()
    set(${out} "${declarations}" PARENT_SCOPE)
    set(${others} "${other_declarations}" PARENT_SCOPE)
endfunction()

# copse_embed(<kernels dir> <shaders dir> <generated dir>): sets COPSE_GENERATED_SOURCES and
# COPSE_GENERATED_DEPENDS (files made at build time) in the caller.
function(copse_embed COPSE_KERNEL_DIR COPSE_SHADER_DIR gen)
    file(GLOB_RECURSE watched CONFIGURE_DEPENDS "${COPSE_KERNEL_DIR}/*" "${COPSE_SHADER_DIR}/*")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${watched}
                                           "${COPSE_EMBED_SCRIPT}")
    file(GLOB_RECURSE shared CONFIGURE_DEPENDS "${COPSE_KERNEL_DIR}/*.cl")
    file(GLOB variants CONFIGURE_DEPENDS "${COPSE_SHADER_DIR}/*.comp")
    copse_resolve("${COPSE_KERNEL_DIR}/prelude.clh" cl_prelude)
    copse_resolve("${COPSE_SHADER_DIR}/prelude.glsl" glsl_prelude)

    set(ids "")
    set(structs "")
    set(blobs "")
    set(rows "")
    set(laws "")
    set(words "")
    set(products "")
    set(names "")
    foreach(path IN LISTS shared variants)
        copse_parse("${path}")
        if(K_NAME IN_LIST names)
            message(FATAL_ERROR "kernels: two kernels are named '${K_NAME}'")
        endif()
        list(APPEND names ${K_NAME})
        copse_resolve("${path}" body)
        set(has_cl ${COPSE_OPENCL})
        set(has_spirv ${COPSE_VULKAN})
        set(variant false)
        if(path MATCHES "\\.comp$")
            set(has_cl OFF)
            set(variant true)
        elseif(body MATCHES "^#line[^\n]*\n/\\* only: opencl \\*/")
            set(has_spirv OFF)
            set(variant true)
        endif()
        string(APPEND laws "extern const struct copse_law copse_law_${K_NAME};\n")

        string(SHA256 hash "${cl_prelude}${glsl_prelude}${body}")
        string(SUBSTRING "${hash}" 0 16 hash)
        string(APPEND ids "    COPSE_KERNEL_${K_NAME},\n")
        if(K_PARAM_COUNT EQUAL 0)
            set(K_PARAMS "    uint32_t none; /* the kernel has no parameters */\n")
        endif()
        string(APPEND structs "struct copse_params_${K_NAME} {\n${K_PARAMS}};\n")

        set(cl "NULL, 0")
        if(has_cl)
            set(text "${cl_prelude}${body}")
            copse_write("${gen}/${K_NAME}.cl" "${text}")
            file(READ "${gen}/${K_NAME}.cl" hex HEX)
            string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
            string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
            copse_write("${gen}/${K_NAME}.cl.h" "${hex}0x00\n")
            string(APPEND blobs "static const unsigned char cl_${K_NAME}[] = {\n"
                                "#include \"${K_NAME}.cl.h\"\n};\n")
            set(cl "cl_${K_NAME}, sizeof cl_${K_NAME} - 1")
            if(COPSE_CLANG)
                set(specs "")
                foreach(i RANGE 5)
                    list(APPEND specs -DSPEC_${i}=1)
                endforeach()
                set(stamp "${gen}/${K_NAME}.cl.checked")
                add_custom_command(
                    OUTPUT "${stamp}"
                    COMMAND "${CMAKE_COMMAND}" "-DIN=${gen}/${K_NAME}.cl" "-DOUT=${stamp}" "-DBY=${COPSE_GENERATED_BY}"
                            -P "${COPSE_EMBED_SCRIPT}" -- "${COPSE_CLANG}" -x cl -cl-std=CL1.2 -Wall -Wextra -Werror
                            -Wno-unused-function -Xclang -finclude-default-header -fsyntax-only
                            -DGROUP_X=${K_GROUP_X} -DGROUP_Y=${K_GROUP_Y} ${specs}
                            "${gen}/${K_NAME}.cl"
                    DEPENDS "${gen}/${K_NAME}.cl" "${COPSE_EMBED_SCRIPT}"
                    COMMENT "OpenCL C ${K_NAME}"
                    VERBATIM)
                list(APPEND products "${stamp}")
            endif()
        endif()

        set(spirv "NULL, 0")
        if(has_spirv)
            # An empty macro argument is legal in C only.
            string(REGEX REPLACE "\nPARAMS\\([ ]*\\)" "\nPARAMS_NONE" glsl_body "${body}")
            set(text "#version 450\n#extension GL_GOOGLE_cpp_style_line_directive : require\n")
            string(APPEND text "${glsl_prelude}${glsl_body}")
            copse_write("${gen}/${K_NAME}.comp" "${text}")
            set(validate "")
            if(COPSE_SPIRV_VAL)
                set(validate "-DVALIDATE=${COPSE_SPIRV_VAL}")
            endif()
            add_custom_command(
                OUTPUT "${gen}/${K_NAME}.spv.h"
                COMMAND "${CMAKE_COMMAND}" "-DIN=${gen}/${K_NAME}.comp" "-DOUT=${gen}/${K_NAME}.spv.h"
                        "-DBY=${COPSE_GENERATED_BY}" "-DSPIRV=${gen}/${K_NAME}.spv" ${validate}
                        -P "${COPSE_EMBED_SCRIPT}" -- "${COPSE_GLSLANG}" --quiet -V --target-env vulkan1.1
                        -o "${gen}/${K_NAME}.spv" "${gen}/${K_NAME}.comp"
                DEPENDS "${gen}/${K_NAME}.comp" "${COPSE_EMBED_SCRIPT}"
                COMMENT "SPIR-V ${K_NAME}"
                VERBATIM)
            list(APPEND products "${gen}/${K_NAME}.spv.h")
            string(APPEND blobs "static const uint32_t spirv_${K_NAME}[] = {\n"
                                "#include \"${K_NAME}.spv.h\"\n};\n")
            set(spirv "spirv_${K_NAME}, sizeof spirv_${K_NAME}")
        endif()

        string(APPEND rows
               "    { \"${K_NAME}\", ${K_ARG_COUNT}, ${K_SPEC_COUNT}, { ${K_ARGS}}, ${K_PARAM_COUNT},\n"
               "      ${K_GROUP_X}, ${K_GROUP_Y}, ${K_GROUP_BYTES}, 0x${hash}ull,\n"
               "      ${cl}, ${spirv},\n      &copse_law_${K_NAME}, ${variant}, ${K_COOPERATIVE} },\n")
        string(APPEND words "    { \"${K_PARAM_NAMES}\", \"${K_SPEC_NAMES}\" },\n")
    endforeach()

    list(LENGTH names count)
    set(made "/* Generated by cmake/embed.cmake; do not edit. */\n")
    copse_write("${gen}/kernel_ids.h" "${made}#ifndef COPSE_KERNEL_IDS_H
#define COPSE_KERNEL_IDS_H

#include <stdint.h>

enum copse_kernel_id {
${ids}    COPSE_KERNEL_COUNT
};

${structs}
/* What is written for each kernel (core/device/kernel/law.h). */
struct copse_law;
${laws}
#endif
")
    if(count EQUAL 0)
        set(rows "    { .name = NULL },\n")
        set(words "    { NULL, NULL },\n")
    endif()
    copse_write("${gen}/kernel_table.c" "${made}#include \"core/device/kernel/kernel.h\"
#include \"core/device/kernel/kernel_words.h\"
#include \"kernel_ids.h\"

${blobs}
const struct copse_kernel_row copse_kernel_table[] = {
${rows}};
const size_t copse_kernel_count = ${count};
const struct copse_kernel_words copse_kernel_words[] = {
${words}};
")

    # The dialect itself, for kernels that are compiled at run time to be checked.
    file(GLOB_RECURSE dialect CONFIGURE_DEPENDS "${COPSE_KERNEL_DIR}/*.clh" "${COPSE_KERNEL_DIR}/*.def"
                                        "${COPSE_SHADER_DIR}/*.glsl")
    set(arrays "")
    set(files "")
    set(index 0)
    foreach(path IN LISTS dialect)
        file(RELATIVE_PATH file_name "${COPSE_KERNEL_DIR}" "${path}")
        string(REGEX REPLACE "^\\.\\./.*/" "" file_name "${file_name}") # the prelude of shaders/
        file(READ "${path}" hex HEX)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
        string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" hex "${hex}")
        string(APPEND arrays "static const char file_${index}[] = {\n${hex}0x00\n};\n")
        string(APPEND files "    { \"${file_name}\", file_${index} },\n")
        math(EXPR index "${index} + 1")
    endforeach()
    copse_write("${gen}/dialect_files.c" "${made}#include \"core/device/kernel/kernel.h\"

${arrays}
const struct copse_dialect_file copse_dialect_files[] = {
${files}    { NULL, NULL },
};
")

    copse_elementwise("${COPSE_KERNEL_DIR}/elementwise/unary.def" UNARY "copse_tensor *x" unary more_unary)
    copse_elementwise("${COPSE_KERNEL_DIR}/elementwise/binary.def" BINARY "copse_tensor *a, copse_tensor *b"
                      binary more_binary)
    copse_write("${gen}/copse/ops/functions.h" "/* SPDX-License-Identifier: MIT */
/** @file
 * More functions of one and two tensors, generated from the rows of kernels/elementwise/unary.def and binary.def. The rules of
 * copse/ops.h hold here too. Outside its domain a function is NaN.
 *
 * - sin, cos, tan: accurate for every finite x. asin, acos, atan; sinh, cosh; asinh, acosh, atanh.
 * - gelu_tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel, 2016), the approximation of gelu.
 * - mish: x tanh(softplus(x)) (Misra, 2019).
 * - hard_sigmoid: min(max(x + 3, 0), 6) / 6, and hard_swish: x hard_sigmoid(x) (Howard et al., 2019). The derivative of
 *   hard_sigmoid is 0 at -3 and 3, those of hard_swish -1/2 and 3/2.
 * - selu: 1.0507 x for x > 0, else 1.7581 (e^x - 1) (Klambauer et al., 2017). The derivative at 0 is 1.7581.
 * - prelu: a where a > 0, else a b, where b are learned slopes (He et al., 2015). The derivative at 0 is b.
 */
#ifndef COPSE_PUBLIC_OPS_FUNCTIONS_H
#define COPSE_PUBLIC_OPS_FUNCTIONS_H

#include \"copse/elementwise.h\"

#if defined(__cplusplus)
extern \"C\" {
#endif

${more_unary}${more_binary}
#if defined(__cplusplus)
}
#endif
#endif
")
    copse_write("${gen}/copse/elementwise.h" "/* SPDX-License-Identifier: MIT */
/** @file
 * The elementwise operations, generated from the rows of kernels/elementwise/unary.def and kernels/elementwise/binary.def.
 */
#ifndef COPSE_PUBLIC_ELEMENTWISE_H
#define COPSE_PUBLIC_ELEMENTWISE_H

#include \"copse/status.h\"

#if defined(__cplusplus)
extern \"C\" {
#endif

typedef struct copse_graph copse_graph;
typedef struct copse_tensor copse_tensor;

${unary}${binary}
#if defined(__cplusplus)
}
#endif
#endif
")

    set(COPSE_GENERATED_SOURCES "${gen}/kernel_table.c" "${gen}/dialect_files.c" PARENT_SCOPE)
    set(COPSE_GENERATED_DEPENDS "${products}" PARENT_SCOPE)
endfunction()
