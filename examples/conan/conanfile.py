"""Builds apps/embed and examples/c with the package that `conan create .` made, and runs them."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Embed(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            root = Path(self.source_folder).parent.parent
            here = Path(self.build_folder, self.cpp.build.bindir).resolve()  # `embed` alone would be looked up in PATH
            self.run(f"{here / 'embed'} {root}/weights/alexnet-conv1.safetensors {root}/docs/images/chelsea.png")
            self.run(f"{here / 'classify'} {root}/weights/digits.safetensors {root}/weights/digits/7.png")
