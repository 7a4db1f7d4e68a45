# SPDX-License-Identifier: MIT
# copse_onnx_schema(<schema> <generated dir>): functions that read and write the messages of ONNX files, made by protoc-c from
# core/onnx/onnx.proto. COPSE_ONNX_SCHEMA receives the source.

function(copse_onnx_schema schema gen)
    get_filename_component(folder "${schema}" DIRECTORY)
    file(MAKE_DIRECTORY "${gen}/onnx")
    set(made "${gen}/onnx/onnx.pb-c.c")
    add_custom_command(OUTPUT "${made}" "${gen}/onnx/onnx.pb-c.h"
        COMMAND "${COPSE_PROTOC_C}" "--proto_path=${folder}" "--c_out=${gen}/onnx" "${schema}"
        DEPENDS "${schema}" COMMENT "Messages of ONNX files" VERBATIM)
    set_source_files_properties("${made}" PROPERTIES COMPILE_OPTIONS "-w")
    add_custom_target(copse_onnx_messages DEPENDS "${made}" "${gen}/onnx/onnx.pb-c.h")
    set(COPSE_ONNX_SCHEMA "${made}" PARENT_SCOPE)
endfunction()
