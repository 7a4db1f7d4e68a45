# SPDX-License-Identifier: MIT
# cmake -DTOP=<source folder> -DWORK=<scratch folder> -P embed.cmake: builds one small kernel with
# one fault at a time and expects the build to stop with the right words.

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/CMakeLists.txt" "
cmake_minimum_required(VERSION 3.25)
project(sample LANGUAGES C)
set(COPSE_OPENCL ON)
set(COPSE_VULKAN ON)
include(\"${TOP}/cmake/needs.cmake\")
include(\"${TOP}/cmake/embed.cmake\")
copse_embed(\"${WORK}/kernels\" \"${WORK}/shaders\" \"\${CMAKE_BINARY_DIR}/gen\")
add_library(table OBJECT \${COPSE_GENERATED_SOURCES})
set_source_files_properties(\${COPSE_GENERATED_SOURCES} PROPERTIES
                            OBJECT_DEPENDS \"\${COPSE_GENERATED_DEPENDS}\")
target_include_directories(table PRIVATE \"${TOP}\" \"${TOP}/include\" \"\${CMAKE_BINARY_DIR}/gen\")
target_compile_options(table PRIVATE -Wall -Wextra -Werror)
")
foreach(file IN ITEMS prelude.clh few_builtins.clh)
    configure_file("${TOP}/kernels/${file}" "${WORK}/kernels/${file}" COPYONLY)
endforeach()
configure_file("${TOP}/shaders/prelude.glsl" "${WORK}/shaders/prelude.glsl" COPYONLY)

set(head "GROUP(64, 1)\nSPEC(0, MODE)\n#define LANES 16u\nPARAMS(uint n; float alpha;)
GROUP_ARRAY(float, part, GROUP_SIZE)\nGROUP_ARRAY(uint, rest, LANES * 2)\n#include \"half.clh\"\n")
set(kernel "KERNEL2(scale, IN(real, x), OUT(real, y))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    GROUP_ARRAY_HERE(uint, rest, LANES * 2)
    const uint i = INDEX();
    part[LOCAL_INDEX()] = MODE == 0 ? p.alpha : TO_F32(i);
    rest[0] = 0u;
    BARRIER();
    if (i < p.n)
        STORE(y, i, halve(LOAD(x, i)) * part[0]@)!\n}\n")
set(helper "FN float halve(float x)\n{\n    return 0.5f * x;\n}\n")

# expect(<what> <name of file> <text of kernel> <words in the output>); no words: must succeed.
function(expect what name text words)
    file(REMOVE_RECURSE "${WORK}/build")
    file(GLOB old "${WORK}/kernels/*.cl")
    if(old)
        file(REMOVE ${old})
    endif()
    file(WRITE "${WORK}/kernels/half.clh" "${helper}")
    file(WRITE "${WORK}/kernels/${name}.cl" "${text}")
    execute_process(COMMAND "${CMAKE_COMMAND}" -S "${WORK}" -B "${WORK}/build" -G Ninja
                    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT failed)
        execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" -- -k 0
                        RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
    endif()
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    if(words STREQUAL "" AND failed)
        message(FATAL_ERROR "${what}: must build\n${output}")
    elseif(NOT words STREQUAL "" AND NOT failed)
        message(FATAL_ERROR "${what}: must not build")
    elseif(NOT output MATCHES "${words}")
        message(FATAL_ERROR "${what}: '${words}' expected in\n${output}")
    endif()
    message("ok: ${what}")
endfunction()

string(REPLACE "!" ";" kernel "${kernel}")
string(REPLACE "@" "" good "${kernel}")
expect("a sound kernel" scale "${head}${good}" "")
file(READ "${WORK}/build/gen/kernel_table.c" table)
if(NOT table MATCHES "\"scale\", 2, 1, . . COPSE_ARG_F32, false ., . COPSE_ARG_F32, true ., ., 2,[ \n]*64, 1, 384,")
    message(FATAL_ERROR "the row is wrong:\n${table}")
endif()
expect("a file with another name" other "${head}${good}" "file name and kernel name must agree")
string(REPLACE "@" " * (float)p.n" bad "${kernel}")
expect("a cast that only OpenCL C takes" scale "${head}${bad}" 
       "ERROR: kernels/scale.cl:16: .*syntax error")
string(REPLACE "@" " * float(p.n)" bad "${kernel}")
expect("a cast that only GLSL takes" scale "${head}${bad}" 
       "kernels/scale.cl:16:[0-9]+: error: expected")
string(REPLACE "alpha;)" "alpha; double d;)" bad "${head}")
expect("a parameter that is no word" scale "${bad}${good}" "is not 'uint.int.float name;'")
string(REPLACE "half.clh" "none.clh" bad "${head}")
expect("a missing helper" scale "${bad}${good}" "none.clh' is included but does not exist")
string(REPLACE "SPEC(0" "SPEC(1" bad "${head}")
expect("constants out of order" scale "${bad}${good}" "number them 0, 1")
string(REPLACE "OUT(real" "OUT(double" bad "${good}")
expect("an unknown element type" scale "${head}${bad}" "none of real, float, int, uint")
