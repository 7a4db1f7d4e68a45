# SPDX-License-Identifier: MIT
# Toolchain file: builds for 64-bit Windows on Linux, with the mingw-w64 of Debian. COPSE_WINDOWS_NEEDS is a folder with the
# libraries that Debian does not have for Windows, which scripts/windows.sh makes. All libraries are linked statically: a
# program needs the DLLs of Windows and copse.dll alone.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-win32)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES COPSE_WINDOWS_NEEDS)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32 ${COPSE_WINDOWS_NEEDS})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ZLIB_USE_STATIC_LIBS ON)
set(CMAKE_C_FLAGS_INIT -static-libgcc)
find_program(CMAKE_CROSSCOMPILING_EMULATOR wine) # tests and the help texts run with it
