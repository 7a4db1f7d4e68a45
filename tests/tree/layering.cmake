# SPDX-License-Identifier: MIT
# cmake -DTOP=<source folder> -P layering.cmake: fails when an #include goes against the arrows of
# docs/architecture.md, or when core names a backend or an API outside registry.c.

cmake_policy(VERSION 3.25)

# Folder -> the folders it may include, its own and base aside. Arrows point down only.
set(may_core/base)
set(may_core/trust)
set(may_core/device trust)
set(may_core/graph device)
set(may_core/ops graph device)
set(may_core/rule graph device)
set(may_core/comm device)
set(may_core/reduce comm device)
set(may_core/ps comm rule graph device)
set(may_core/replica ps comm reduce graph device)
set(may_core/optim replica ps comm reduce rule graph device)
set(may_core/data graph device)
set(may_core/state optim data rule replica ps comm reduce graph device)
set(may_core/train state data optim rule ops replica ps comm reduce graph device)
set(may_core/loop train state data optim replica ps comm reduce graph device)
set(may_core/compat train state optim replica ps comm reduce ops graph device)
set(may_core/conformance data replica reduce rule ops graph device)

set(faults "")

# Sets `included` to the list of "quoted" and <system> headers of a file, `code` to its text
# without comments and strings.
macro(read path)
    file(READ "${TOP}/${path}" code)
    string(REGEX REPLACE "[][;]" " " code "${code}") # would confuse lists
    string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" " " code "${code}")
    string(REGEX REPLACE "//[^\n]*" "" code "${code}")
    string(REGEX MATCHALL "#[ \t]*include[ \t]*[\"<][^\">\n]+[\">]" included "${code}")
    list(TRANSFORM included REPLACE "#[ \t]*include[ \t]*" "")
endmacro()

macro(fault path what)
    list(APPEND faults "${path}: ${what}")
endmacro()

file(GLOB_RECURSE paths RELATIVE "${TOP}" "${TOP}/core/*.[ch]" "${TOP}/backends/*.[ch]"
     "${TOP}/backends/*.cc"
     "${TOP}/tools/*.[ch]" "${TOP}/examples/*.[ch]" "${TOP}/include/*.h")
foreach(path IN LISTS paths)
    read("${path}")
    string(REGEX REPLACE "^([^/]+/[^/]+)/.*" "\\1" folder "${path}")
    foreach(header IN LISTS included)
        set(is_ok FALSE)
        if(header MATCHES "^<(CL|vulkan)/|^<mpi.h>")
            if(path MATCHES "^backends/|^include/copse/device/(opencl|vulkan)\\.h$")
                set(is_ok TRUE)
            endif()
        elseif(path MATCHES "^include/copse/[^/]*$" AND header MATCHES "^\"copse/[a-z]+/")
            # the everyday headers need no other ones
        elseif(path MATCHES "^include/copse/(distribute|device)/" AND header MATCHES "^\"copse/compat/")
            # the compatibility layer is on top
        elseif(header MATCHES "^<|^\"copse/")
            set(is_ok TRUE)
        elseif(path MATCHES "^(tools|examples)/")
            string(REGEX REPLACE "/.*" "" top "${path}")
            if(header MATCHES "^\"(${top}/|[^/]+\"$)")
                set(is_ok TRUE)
            endif()
        elseif(path MATCHES "^(core|backends)/")
            if(header STREQUAL "\"kernel_ids.h\"") # generated
                set(header "\"core/device/kernel_ids.h\"")
            elseif(NOT header MATCHES "/")
                string(REGEX REPLACE "^\"" "\"${folder}/" header "${header}")
            endif()
            if(header MATCHES "^\"(core/base|${folder})/")
                set(is_ok TRUE)
            elseif(path MATCHES "^backends/(mpi|gloo)/")
                if(header STREQUAL "\"core/comm/transport.h\"")
                    set(is_ok TRUE)
                endif()
            elseif(path MATCHES "^backends/" AND header STREQUAL "\"core/device/backend.h\"")
                set(is_ok TRUE)
            elseif(path MATCHES "^core/(ops|conformance)/" AND header MATCHES "^\"kernels/[a-z_/]+\\.def")
                set(is_ok TRUE) # tables that device and reference share
            elseif(header MATCHES "^\"core/([a-z]+)/" AND CMAKE_MATCH_1 IN_LIST may_${folder})
                set(is_ok TRUE)
            endif()
        endif()
        if(NOT is_ok)
            fault("${path}" "must not include ${header}")
        endif()
    endforeach()

    if(path MATCHES "^core/" AND NOT path MATCHES "/registry\\.c$")
        string(REGEX REPLACE "#[ \t]*include[^\n]*" "" code "${code}")
        if(code MATCHES "([A-Za-z_]*([Oo]pen[Cc][Ll]|OPENCL|[Vv]ulkan|VULKAN)[A-Za-z_]*)")
            fault("${path}" "names a backend: ${CMAKE_MATCH_1}")
        endif()
    endif()
endforeach()

list(LENGTH paths count)
if(count EQUAL 0)
    message(FATAL_ERROR "no sources under '${TOP}'")
endif()
list(JOIN faults "\n" text)
if(text)
    message(FATAL_ERROR "layering:\n${text}")
endif()
message("${count} files keep the layers apart")
