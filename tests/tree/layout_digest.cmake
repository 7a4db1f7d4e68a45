# SPDX-License-Identifier: MIT
# cmake -DTOP=source -DWORK=folder -P layout_digest.cmake: the digest of the libraries' layout (cmake/layout.cmake) keeps its value
# when comments and blanks of a header change, and has another one when a member, its type or a number changes.
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(WRITE "${WORK}/headers.txt" "${TOP}/core/base/base.h\n${WORK}/a.h\n")

# digest_of(<text> <out>): with a header of that text
function(digest_of text out)
    file(WRITE "${WORK}/a.h" "${text}")
    execute_process(COMMAND "${CMAKE_COMMAND}" "-DLIST=${WORK}/headers.txt" "-DOUT=${WORK}/layout.h" -P "${TOP}/cmake/layout.cmake"
                    RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
        message(FATAL_ERROR "layout.cmake fails on: ${text}")
    endif()
    file(READ "${WORK}/layout.h" made)
    if(NOT made MATCHES "#define COPSE_LAYOUT \"([0-9a-f]+)\"")
        message(FATAL_ERROR "no digest in: ${made}")
    endif()
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

digest_of("/* A pair. */\nstruct pair {\n    int first; /* of [two]; */\n    long b[2];\n};\n" right)
foreach(same IN ITEMS
        "/* Another **comment** / with * and\n more lines */\nstruct pair {\n    int first;\n    long b[2]; // the second\n};\n"
        "struct pair\n{\n\tint first; long b[ 2 ];\n};")
    digest_of("${same}" digest)
    if(NOT digest STREQUAL right)
        message(FATAL_ERROR "comments or blanks change the digest: ${same}")
    endif()
endforeach()
foreach(other IN ITEMS
        "struct pair { int second; /* of [two]; */ long b[2]; };"
        "struct pair { long first; /* A pair. */ long b[2]; };"
        "struct pair { int first; /* A pair. */ long b[3]; };"
        "struct pair { /* int first; */ long b[2]; };"
        "/* A pair. */ struct pair { long b[2]; int first; }; /* end */")
    digest_of("${other}" digest)
    if(digest STREQUAL right)
        message(FATAL_ERROR "the digest does not change with: ${other}")
    endif()
endforeach()
