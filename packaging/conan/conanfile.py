# SPDX-License-Identifier: MIT
"""Conan 2: `conan create packaging/conan` in the source folder. glslangValidator and spirv-val of the build machine must be
in PATH, or named as tool requirements of the profile."""
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class Copse(ConanFile):
    name = "copse"
    license = "MIT"
    description = "Trains neural networks on AMD, Intel and NVIDIA GPUs, through OpenCL and Vulkan, several devices at once"
    topics = ("neural-networks", "deep-learning", "opencl", "vulkan", "gpu")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "opencl": [True, False], "vulkan": [True, False], "pictures": [True, False]}
    default_options = {"shared": True, "opencl": True, "vulkan": True, "pictures": True}

    def set_version(self):
        header = load(self, Path(self.recipe_folder, "..", "..", "include", "copse", "copse.h"))
        self.version = ".".join(re.findall(r"COPSE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        top = Path(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "CHANGELOG.md", "backends/*", "cmake/*", "core/*", "docs/*",
                        "examples/*", "include/*", "kernels/*", "prover/*", "shaders/*", "tools/*"):
            copy(self, pattern, top, self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe("compiler.cppstd") # C alone
        self.settings.rm_safe("compiler.libcxx")

    def requirements(self):
        self.requires("cjson/[>=1.7.15 <2]")
        self.requires("zlib/[>=1.2.11 <2]")
        if self.options.pictures:
            self.requires("libpng/[>=1.6 <2]")
            self.requires("libjpeg-turbo/[>=2.1 <4]")
        if self.options.opencl:
            self.requires("opencl-headers/[>=2022.01.04]", transitive_headers=True)
        if self.options.vulkan:
            self.requires("vulkan-headers/[>=1.3]", transitive_headers=True)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        chain = CMakeToolchain(self)
        chain.cache_variables["COPSE_TESTS"] = False
        chain.cache_variables["COPSE_MPI"] = False
        chain.cache_variables["COPSE_GLOO"] = False
        for name in ("opencl", "vulkan", "pictures"):
            chain.cache_variables[f"COPSE_{name.upper()}"] = "ON" if self.options.get_safe(name) else "OFF"
        chain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        cmake = CMake(self)
        for component in ["dev", "library"] + (["tools"] if self.options.shared else []):
            cmake.install(component=component)
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        lib = Path(self.package_folder, "lib")
        rmdir(self, lib / "cmake") # Conan makes its own
        rmdir(self, lib / "pkgconfig")
        for path in lib.glob("*.a" if self.options.shared else "*.so*"): # libcopse-conformance is shared
            path.unlink()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "copse")
        core = self.cpp_info.components["core"]
        core.set_property("cmake_target_name", "copse::copse")
        core.set_property("pkg_config_name", "copse")
        core.libs = ["copse"]
        core.requires = ["cjson::cjson", "zlib::zlib"]
        if self.options.pictures:
            core.requires += ["libpng::libpng", "libjpeg-turbo::jpeg"]
        if self.options.opencl:
            core.requires.append("opencl-headers::opencl-headers")
        if self.options.vulkan:
            core.requires.append("vulkan-headers::vulkan-headers")
        if self.settings.os in ("Linux", "FreeBSD"):
            core.system_libs = ["m", "pthread", "dl"]
        if self.options.shared:
            prover = self.cpp_info.components["conformance"]
            prover.set_property("cmake_target_name", "copse::conformance")
            prover.set_property("pkg_config_name", "copse-conformance")
            prover.libs = ["copse-conformance"]
            prover.requires = ["core"]
        else:
            core.defines = ["COPSE_STATIC"]
