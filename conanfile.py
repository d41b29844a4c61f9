"""Conan 2: `conan create .` makes a package of the library, for C++ and C, out of these sources.

What Lamina is built with are the distribution's packages, those of scripts/install-deps.sh; programs that use the package
need libjpeg-turbo, libwebp, libheif and libtiff of them at most. The package brings CMake files of its own.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import load
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2"


class Lamina(ConanFile):
    name = "lamina"
    description = "A small inference framework for convolutional networks"
    license = "MIT"
    topics = ("inference", "onnx", "neural-networks", "cuda")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "cuda": [True, False], "onnx": [True, False]}
    default_options = {"shared": False, "cuda": False, "onnx": True}
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "framework/*", "include/*"
    test_package_folder = "examples/conan"

    def set_version(self):
        self.version = re.search(r"project\(lamina VERSION ([\d.]+)", load(self, Path(self.recipe_folder, "CMakeLists.txt")))[1]

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        Apt(self).install(["libeigen3-dev", "nlohmann-json3-dev", "libstb-dev", "libhwy-dev", "libjpeg-dev", "libwebp-dev",
                           "libheif-dev", "libtiff-dev", "libprotozero-dev"], check=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update(LAMINA_APPS="OFF", LAMINA_TESTS="OFF", LAMINA_NATIVE="OFF", LAMINA_UNITY="ON",
                                         LAMINA_CUDA="ON" if self.options.cuda else "OFF", LAMINA_ONNX=bool(self.options.onnx))
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # the package's own laminaConfig.cmake
        self.cpp_info.builddirs = ["lib/cmake/lamina"]
