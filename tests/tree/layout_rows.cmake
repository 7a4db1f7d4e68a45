# SPDX-License-Identifier: MIT
# Every public struct has rows in tests/api/layout.def, with all of its members; each one that a program fills in and that
# can grow has a row in tests/api/test_reserved.c.
# usage: cmake -DTOP=<source folder> -P layout_rows.cmake

file(GLOB_RECURSE headers "${TOP}/include/copse/*.h")
file(READ "${TOP}/tests/api/layout.def" rows)
file(READ "${TOP}/tests/api/test_reserved.c" refused)
set(count 0)
set(missing "")
foreach(header IN LISTS headers)
    file(READ "${header}" text)
    string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}") # comments
    string(REPLACE ";" "@" text "${text}")
    string(REGEX MATCHALL "struct copse_[a-z0-9_]+ {[^}]*}" structs "${text}")
    foreach(struct IN LISTS structs)
        string(REGEX MATCH "copse_[a-z0-9_]+" name "${struct}")
        math(EXPR count "${count} + 1")
        if(NOT rows MATCHES "STRUCT\\(${name},")
            list(APPEND missing "layout.def: STRUCT(${name}, ...)")
        endif()
        string(REGEX REPLACE "\\(\\*([a-z_]+)\\)\\([^@]*@" "\\1@" members "${struct}") # pointers to functions
        string(REGEX REPLACE "\\[[^]]*\\]" "" members "${members}")
        string(REGEX MATCHALL "[a-z0-9_]+ *[@,]" members "${members}")
        foreach(member IN LISTS members)
            string(REGEX REPLACE " *[@,]" "" member "${member}")
            if(NOT member STREQUAL "reserved" AND NOT rows MATCHES "MEMBER\\(${name}, ${member},")
                list(APPEND missing "layout.def: MEMBER(${name}, ${member}, ...)")
            endif()
        endforeach()
        if(struct MATCHES " reserved\\[" AND
           name MATCHES "_(params|handles|functions|source|norm)$|_(input_context|tower_loss|host_batch)$" AND
           NOT refused MATCHES "[(\"]${name}[,\"]")
            list(APPEND missing "test_reserved.c: ${name}")
        endif()
    endforeach()
endforeach()
if(count LESS 70)
    message(FATAL_ERROR "only ${count} structs were found")
endif()
if(missing)
    list(JOIN missing "\n  " lines)
    message(FATAL_ERROR "no row in tests/api/ for\n  ${lines}")
endif()
message(STATUS "${count} structs have rows")
