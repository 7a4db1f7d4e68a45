# SPDX-License-Identifier: MIT
# The bill of materials, copse.spdx.json in SPDX 2.3: the libraries that libcopse is linked with, and those that it loads while it
# runs, where they are installed. Sets COPSE_SBOM to its path.

# sbom_version RESULT HEADER PATTERN...: the version in a header, from the numbers that the patterns find
function(sbom_version result header)
    set(numbers "")
    if(EXISTS "${header}")
        file(READ "${header}" text)
        foreach(pattern IN LISTS ARGN)
            if(text MATCHES "${pattern}")
                list(APPEND numbers "${CMAKE_MATCH_1}")
            endif()
        endforeach()
    endif()
    list(JOIN numbers . version)
    set(${result} "${version}" PARENT_SCOPE)
endfunction()

# sbom_package NAME LICENCE SOURCE RELATION VERSION: adds a library to sbom_packages and sbom_relations
function(sbom_package name licence source relation version)
    set(version_member "")
    if(version)
        set(version_member ", \"versionInfo\": \"${version}\"")
    endif()
    string(APPEND sbom_packages ",
    { \"SPDXID\": \"SPDXRef-${name}\", \"name\": \"${name}\"${version_member}, \"downloadLocation\": \"${source}\",
      \"filesAnalyzed\": false, \"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\" }")
    if(relation STREQUAL "RUNTIME_DEPENDENCY_OF")
        set(ends "\"spdxElementId\": \"SPDXRef-${name}\", \"relatedSpdxElement\": \"SPDXRef-copse\"")
    else()
        set(ends "\"spdxElementId\": \"SPDXRef-copse\", \"relatedSpdxElement\": \"SPDXRef-${name}\"")
    endif()
    string(APPEND sbom_relations ",\n    { ${ends}, \"relationshipType\": \"${relation}\" }")
    set(sbom_packages "${sbom_packages}" PARENT_SCOPE)
    set(sbom_relations "${sbom_relations}" PARENT_SCOPE)
endfunction()

set(sbom_packages "")
set(sbom_relations "")
set(sbom_link DYNAMIC_LINK)
if(COPSE_WINDOWS_NEEDS)
    set(sbom_link STATIC_LINK)
endif()
sbom_version(sbom_cjson "${COPSE_CJSON_HEADERS}/cjson/cJSON.h" "CJSON_VERSION_MAJOR ([0-9]+)" "CJSON_VERSION_MINOR ([0-9]+)"
             "CJSON_VERSION_PATCH ([0-9]+)")
sbom_package(cJSON MIT https://github.com/DaveGamble/cJSON ${sbom_link} "${sbom_cjson}")
sbom_package(zlib Zlib https://zlib.net ${sbom_link} "${ZLIB_VERSION_STRING}")
if(COPSE_PICTURE_LIBRARIES)
    sbom_package(libpng libpng-2.0 http://www.libpng.org ${sbom_link} "${PNG_VERSION_STRING}")
    sbom_package(libjpeg "IJG AND BSD-3-Clause AND Zlib" https://libjpeg-turbo.org ${sbom_link} "")
endif()
if(COPSE_ONNX_LIBRARY)
    sbom_package(protobuf-c BSD-2-Clause https://github.com/protobuf-c/protobuf-c ${sbom_link} "")
endif()
if(COPSE_OPENCL)
    sbom_package(OpenCL-ICD-loader NOASSERTION NOASSERTION RUNTIME_DEPENDENCY_OF "")
    sbom_package(CLBlast Apache-2.0 https://github.com/CNugteren/CLBlast RUNTIME_DEPENDENCY_OF "")
endif()
if(COPSE_VULKAN)
    sbom_package(Vulkan-Loader Apache-2.0 https://github.com/KhronosGroup/Vulkan-Loader RUNTIME_DEPENDENCY_OF "")
endif()
if(TARGET copse_mpi)
    sbom_package(MPI NOASSERTION NOASSERTION RUNTIME_DEPENDENCY_OF "")
endif()
if(TARGET copse_gloo)
    sbom_package(gloo BSD-3-Clause https://github.com/facebookincubator/gloo RUNTIME_DEPENDENCY_OF "")
endif()
# The same text for the same source and libraries
string(UUID sbom_uuid NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 TYPE SHA1
       NAME "copse ${PROJECT_VERSION} ${CMAKE_SYSTEM_NAME} ${sbom_packages}")
string(TIMESTAMP sbom_created "%Y-%m-%dT%H:%M:%SZ" UTC) # of SOURCE_DATE_EPOCH, if it is set
set(COPSE_SBOM "${gen}/copse.spdx.json")
set(sbom_text "{
  \"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\", \"name\": \"copse-${PROJECT_VERSION}\",
  \"documentNamespace\": \"urn:uuid:${sbom_uuid}\",
  \"creationInfo\": { \"created\": \"${sbom_created}\", \"creators\": [\"Tool: copse-${PROJECT_VERSION}-cmake-${CMAKE_VERSION}\"] },
  \"packages\": [
    { \"SPDXID\": \"SPDXRef-copse\", \"name\": \"copse\", \"versionInfo\": \"${PROJECT_VERSION}\", \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false, \"licenseConcluded\": \"MIT\", \"licenseDeclared\": \"MIT\", \"copyrightText\": \"Copse authors\",
      \"primaryPackagePurpose\": \"LIBRARY\" }${sbom_packages}
  ],
  \"relationships\": [
    { \"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relatedSpdxElement\": \"SPDXRef-copse\", \"relationshipType\": \"DESCRIBES\" }${sbom_relations}
  ]
}
")
string(JSON sbom_members LENGTH "${sbom_text}") # fails if this is no JSON
file(CONFIGURE OUTPUT "${COPSE_SBOM}" CONTENT "${sbom_text}" @ONLY)
