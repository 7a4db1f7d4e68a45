# SPDX-License-Identifier: MIT
# An overlay port over the source folder that it lies in: vcpkg install copse --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY) # both are made; the static one is in lib, too, as copse::static

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES pictures COPSE_PICTURES)
vcpkg_add_to_path("${CURRENT_HOST_INSTALLED_DIR}/tools/glslang")
vcpkg_add_to_path("${CURRENT_HOST_INSTALLED_DIR}/tools/spirv-tools")
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DCOPSE_TESTS=OFF -DCOPSE_MPI=OFF -DCOPSE_GLOO=OFF ${options})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/copse)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES copse AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
