# SPDX-License-Identifier: MIT
# The engines between workers, each a module that the library opens when a job needs it. What is
# not on the machine is left out, and said.

# copse_transport(<name> <sources...>): builds copse_<name>.so beside the library
function(copse_transport name)
    add_library(copse_${name} MODULE ${ARGN})
    set_target_properties(copse_${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden
                          CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    target_include_directories(copse_${name} PRIVATE "${PROJECT_SOURCE_DIR}"
                               "${PROJECT_SOURCE_DIR}/include")
    install(TARGETS copse_${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${name})
endfunction()

set(COPSE_TRANSPORTS "")

if(COPSE_MPI AND UNIX)
    set(MPI_CXX_SKIP_MPICXX TRUE)
    find_package(MPI QUIET COMPONENTS C)
    if(MPI_C_FOUND)
        copse_transport(mpi backends/mpi/mpi.c backends/mpi/window.c)
        target_link_libraries(copse_mpi PRIVATE MPI::MPI_C Threads::Threads)
        list(APPEND COPSE_TRANSPORTS mpi)
    else()
        message(NOTICE "copse: MPI not found, jobs over MPI are not possible: "
                       "install the Debian package libopenmpi-dev")
    endif()
endif()

if(COPSE_GLOO AND UNIX)
    find_path(COPSE_GLOO_HEADERS gloo/transport/tcp/device.h)
    find_library(COPSE_GLOO_LIBRARY gloo)
    include(CheckLanguage)
    check_language(CXX)
    if(COPSE_GLOO_HEADERS AND COPSE_GLOO_LIBRARY AND CMAKE_CXX_COMPILER)
        enable_language(CXX)
        copse_transport(gloo backends/gloo/gloo.c backends/gloo/rendezvous.c backends/gloo/shim.cc)
        target_include_directories(copse_gloo SYSTEM PRIVATE "${COPSE_GLOO_HEADERS}")
        target_link_libraries(copse_gloo PRIVATE "${COPSE_GLOO_LIBRARY}" Threads::Threads)
        list(APPEND COPSE_TRANSPORTS gloo)
    else()
        message(NOTICE "copse: Gloo or a C++ compiler not found, jobs over Gloo are not possible: "
                       "install the Debian packages libgloo-dev and g++")
    endif()
endif()
